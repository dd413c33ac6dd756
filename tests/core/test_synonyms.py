"""Names of other libraries: the errors say what they are called here."""

import functools
import re

import keras
import pytest

import kerasseq
from kerasseq import layers, models, text
from kerasseq.core import synonyms
from kerasseq.core.arguments import listed

pytestmark = pytest.mark.once("names and arguments")
SIZES = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}


def forecaster(**kwargs):
    return models.Forecaster("gru", horizon=2, **kwargs)


def classifier(**kwargs):
    return models.SequenceClassifier("gru", tokenizer="word", **kwargs)


@pytest.mark.parametrize(
    ("make", "other", "meant"),
    [
        (models.GPT, "vocab_size", '"vocabulary_size"?'),
        (models.BERT, "hidden_size", '"hidden_dim"?'),
        (models.Transformer, "dff", '"intermediate_dim"?'),
        (models.Seq2Seq, "tokenizer", '"source_tokenizer"?'),
        (classifier, "num_classes", '"labels"?'),
        (classifier, "n_layers", '"num_layers"?'),
        (forecaster, "lookback", "fit(x, length=...)"),
        (forecaster, "value", "fit(x, value=...)"),
        (layers.LSTM, "hidden_size", '"units"?'),
        (functools.partial(layers.LSTM, 3), "peepholes", '"peephole"?'),
        (functools.partial(layers.LSTM, 3), "zebra", "{'zebra': 3}"),
        (layers.MultiHeadAttention, "embed_dim", '"key_dim=embed_dim // num_heads"?'),
    ],
)
def test_arguments_of_others(make, other, meant):
    with pytest.raises((TypeError, ValueError)) as caught:
        make(**{other: 3})
    assert other in str(caught.value)
    assert str(caught.value).endswith(meant)


def test_a_class_of_a_user_may_take_such_a_name():
    class Reader(layers.LSTM):
        def __init__(self, hidden_size, **kwargs):
            super().__init__(hidden_size, **kwargs)
            self.hidden_size = hidden_size

    assert Reader(hidden_size=3).units == 3


def test_methods_of_others():
    model = classifier()
    for name, advice in synonyms.METHODS.items():
        if not hasattr(keras.Model, name):  # PyTorch's modules have some
            with pytest.raises(AttributeError, match=re.escape(advice)):
                getattr(model, name)
    with pytest.raises(AttributeError, match="no attribute 'zebra'$"):
        model.zebra  # noqa: B018
    gpt = models.GPT(text.CharacterTokenizer().fit("abc"), **SIZES)
    with pytest.raises(TypeError, match=r'sampler=kerasseq.decoding.Beam\(3\)"\?$'):
        gpt.generate("a", num_beams=2)
    with pytest.raises(TypeError, match=r'stream has .*"max_new_tokens"\?$'):
        gpt.stream("a", max_tokens=2)


def test_what_the_messages_name_is_there():
    for advice in synonyms.NAMES.values():
        for path in re.findall(r"kerasseq(?:\.\w+)+", advice):
            functools.reduce(getattr, path.split(".")[1:], kerasseq)
    known = set()
    for namespace in (layers, models):
        for name in namespace.__all__:
            known |= {*_arguments(getattr(namespace, name))}
    known |= {*models.Forecaster.fit_options}
    options = {
        "file",
        "pairs",
        "out",
        "run",
        "text",
        "label",
        "beam",
        "lora",
        "rank",
        "epochs",
    }
    options |= {"learning_rate", "sampler", "use_causal_mask", "max_characters"}
    for meant in synonyms.ARGUMENTS.values():
        assert {each.partition("=")[0] for each in meant} <= known | options


def _arguments(value):
    return listed(value) if isinstance(value, type) else ()


def test_arguments_that_a_class_lists_are_not_looked_up(monkeypatch):
    """The look-up of names inspects the constructors of all bases, which takes time."""
    calls = []
    monkeypatch.setattr("kerasseq.core.arguments.listed", calls.append)
    layers.LSTM(units=3)
    layers.MultiHeadAttention(num_heads=2, key_dim=3)
    assert not calls
