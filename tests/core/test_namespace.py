"""Wrong names in the namespaces, texts in place of ids, tokenizers before `fit`."""

import functools
import types

import numpy as np
import pytest

import kerasseq
from kerasseq import datasets, models, text
from kerasseq.core.namespace import Submodule

pytestmark = pytest.mark.once("names and arguments")
SIZES = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}
NEAR = {
    "kerasseq.layers.lstm": "LSTM",
    "kerasseq.models.Gpt": "GPT",
    "kerasseq.text.CharTokenizer": "CharacterTokenizer",
    "kerasseq.datasets.parenthesis": "parentheses",
    "kerasseq.decoding.beam_search": None,
    "kerasseq.training.perplexiti": None,
    "kerasseq.tracing.trac": "trace",
    "kerasseq.layer": "layers",
}
ELSEWHERE = {
    "kerasseq.layers.Dense": "It is keras.layers.Dense",
    "kerasseq.layers.GPT": "It is kerasseq.models.GPT",
    "kerasseq.models.LSTM": "It is kerasseq.layers.LSTM",
    "kerasseq.training.Adam": "It is keras.optimizers.Adam",
    "kerasseq.LSTM": "It is kerasseq.layers.LSTM",
    "kerasseq.Sequential": "It is keras.Sequential",
    "kerasseq.zebra": f"Public names are {', '.join(kerasseq.__all__)}",
}


def namespace_and_name(path):
    """Returns the module of a path, and its last name."""
    namespace, _, name = path.rpartition(".")
    return functools.reduce(getattr, namespace.split(".")[1:], kerasseq), name


@pytest.mark.parametrize("path", NEAR)
def test_the_nearest_name_is_suggested(path):
    namespace, name = namespace_and_name(path)
    with pytest.raises(AttributeError) as caught:
        getattr(namespace, name)
    begins = f"module '{namespace.__name__}' has no attribute '{name}'"
    assert str(caught.value).startswith(begins)
    if NEAR[path]:
        assert str(caught.value).endswith(f'Did you mean "{NEAR[path]}"?')
    assert not hasattr(namespace, "__path_of_none__")


@pytest.mark.parametrize("path", ELSEWHERE)
def test_the_namespace_of_a_name_is_given(path):
    namespace, name = namespace_and_name(path)
    with pytest.raises(AttributeError) as caught:
        getattr(namespace, name)
    assert str(caught.value).endswith(ELSEWHERE[path])


def test_modules_that_are_called_say_what_is_in_them():
    with pytest.raises(TypeError, match=r"not a function.*datasets\.digits_folder"):
        datasets.digits()
    with pytest.raises(TypeError, match=r"datasets\.names_by_language"):
        datasets.names(seed=0)
    for package in (datasets, text, kerasseq.training, kerasseq.decoding):
        for name in dir(package):
            value = getattr(package, name)
            inside = getattr(value, "__name__", None) == f"{package.__name__}.{name}"
            if inside and isinstance(value, types.ModuleType):
                assert isinstance(value, Submodule), name


@pytest.mark.parametrize("kind", ["CharacterTokenizer", "WordTokenizer"])
def test_a_tokenizer_before_fit(kind):
    tokenizer = getattr(text, kind)()
    for make in (
        lambda: models.GPT(tokenizer=tokenizer, **SIZES),
        lambda: models.BERT(tokenizer, **SIZES),
        lambda: models.LanguageModel("gru", tokenizer, units=3),
        lambda: models.SequenceClassifier("gru", 2, tokenizer=tokenizer, units=3),
        lambda: models.Seq2Seq("gru", tokenizer, tokenizer, units=3),
        lambda: models.T5(tokenizer, **SIZES),
    ):
        with pytest.raises(ValueError, match=f"must be fitted, received a {kind}"):
            make()


def test_texts_where_ids_are_read():
    tokenizer = text.CharacterTokenizer().fit("abc")
    tagger = models.SequenceTagger("gru", 2, vocabulary_size=5, units=3)
    gpt = models.GPT(tokenizer=tokenizer, **SIZES)
    bert = models.BERT(vocabulary_size=5, **SIZES)
    for x in ("abc", ["abc", "b"], np.array(["abc"]), np.array(["b"], object)):
        with pytest.raises(TypeError, match=r"model\(model.encode\(text\)\)"):
            gpt(x)
        for use in (bert, tagger, tagger.predict):
            with pytest.raises(TypeError, match="Build the model with a tokenizer"):
                use(x)
        with pytest.raises(TypeError, match="expected ids or other numbers, received"):
            tagger.fit(x, [0])
    with pytest.raises(TypeError, match="expected ids or other numbers, received"):
        bert({"ids": ["a"], "segments": np.zeros((1, 1))})
    with pytest.raises(TypeError, match="numbers, received the text 'abc'"):
        tagger.train_on_batch("abc", [0])


def test_a_checkpoint_that_is_not_on_this_computer():
    with pytest.raises(
        FileNotFoundError, match="hf download org/gpt2 --local-dir gpt2"
    ):
        models.from_pretrained("org/gpt2")
