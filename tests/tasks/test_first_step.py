"""The first step of training makes no variables, so that it is traced once."""

import numpy as np
import pytest

from kerasseq.models import BERT, GPT

pytestmark = pytest.mark.everywhere("what Keras traces and when")

SIZES = {"vocabulary_size": 11, "num_layers": 1, "num_heads": 1, "hidden_dim": 4}
X = np.random.default_rng(0).integers(5, 11, size=(2, 5)).astype("int32")


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (lambda: GPT(**SIZES, max_sequence_length=7), X),
        (
            lambda: BERT(**SIZES, max_sequence_length=9, head="classify", labels=3),
            np.array([0, 2]),
        ),
    ],
)
def test_one_batch_is_one_call(monkeypatch, model, y):
    model, calls = model(), []
    step = model.train_step
    monkeypatch.setattr(
        model, "train_step", lambda *given: calls.append(1) or step(*given)
    )
    x = X if len(y.shape) == 2 else X.tolist()
    model.fit(x, y, batch_size=2, epochs=1, verbose=0)
    assert calls == [1]
