"""Messages for labels of the heads of BERT that predict masked tokens."""

import keras
import numpy as np
import pytest

from kerasseq.models import BERT

pytestmark = pytest.mark.once("arguments are checked before a backend computes")
SIZES = {"num_layers": 1, "num_heads": 1, "hidden_dim": 2, "max_sequence_length": 7}
IDS = np.array([[5, 6, 7, 5, 6], [6, 5, 5, 7, 7], [7, 7, 6, 5, 5]])
X = {"ids": IDS, "segments": IDS * 0, "positions": np.array([[1, 2]] * 3)}
TOKENS, NEXT = np.array([[5, 6], [7, 5], [6, 6]]), np.array([0, 1, 1])
BOTH = {"tokens": TOKENS, "next": NEXT}


def made(head):
    return BERT(vocabulary_size=11, **SIZES, head=head)


WRONG = [
    (None, ValueError, r'expected y, the ids at "positions".* received y=None'),
    (["a", "b", "c"], ValueError, r"arrays of \['next', 'tokens'\], received \['a'"),
    ((TOKENS, NEXT), ValueError, "y must be a dictionary of arrays"),
    ({"next": NEXT}, ValueError, r"received \['next'\] without \['tokens'\]"),
    ({**BOTH, "tokens": IDS}, ValueError, r"shape \(3, 2\), one for .*\(3, 5\)"),
    ({**BOTH, "tokens": [[5], [5, 6], [6]]}, ValueError, "lists of several lengths"),
    ({**BOTH, "tokens": TOKENS + 5}, ValueError, "from 0 to 10, .* received 12"),
    ({**BOTH, "tokens": TOKENS - 99}, ValueError, "received -94.* sample weight 0"),
    ({**BOTH, "tokens": TOKENS / 2}, TypeError, "must be whole numbers, .*float64"),
    ({**BOTH, "tokens": [["a", "b"]] * 3}, TypeError, "whole numbers, received <U1"),
    ({**BOTH, "next": NEXT + 1}, ValueError, r"y\['next'\] must be from 0 to 1"),
    ({**BOTH, "next": TOKENS}, ValueError, r"\(3,\), one for each row, .*\(3, 2\)"),
]


@pytest.mark.parametrize("y, error, message", WRONG)
@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_wrong_labels_of_masked_tokens(y, error, message, method):
    with pytest.raises(error, match=message):
        getattr(made("pretraining"), method)(X, y, verbose=0)


def test_texts_have_no_labels_of_tokens():
    with pytest.raises(TypeError, match="Mask their ids with MaskedLMMaskGenerator"):
        made("tokens").fit(IDS.tolist(), {"tokens": IDS}, verbose=0)


def test_labels_of_one_output_need_no_name():
    model = made("tokens")
    model.compile(keras.optimizers.SGD(0.0))
    wanted = model.evaluate(X, {"tokens": TOKENS}, verbose=0)
    for y in (TOKENS, TOKENS[..., None], {"tokens": TOKENS.tolist()}):
        assert model.evaluate(X, y, verbose=0) == wanted
        assert np.isfinite(model.fit(X, y, verbose=0).history["loss"]).all()


def test_a_loss_of_the_user_has_labels_of_its_own():
    model = made("tokens")
    soft = np.full((3, 2, 11), 1 / 11)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss={"tokens": loss}, metrics=[])
    assert np.isfinite(model.evaluate(X, {"tokens": soft}, verbose=0))
