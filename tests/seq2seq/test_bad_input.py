"""What models of pairs refuse, and that they say what would be right."""

import keras
import numpy as np
import pytest

from kerasseq.decoding import Beam, TopK
from kerasseq.layers import AlignmentAttention
from kerasseq.models import Seq2Seq
from kerasseq.rnn.gru import GRU
from kerasseq.text import CharacterTokenizer
from tests.seq2seq.toys import LETTERS, model

pytestmark = pytest.mark.once("arguments, messages and files")

IDS = {"source_vocabulary_size": 7, "target_vocabulary_size": 11}


def build(architecture="gru", *tokenizers, **options):
    return Seq2Seq(architecture, *tokenizers, **{"units": 5, **options})


def flat():
    return keras.Sequential([keras.Input((3, 2)), keras.layers.Flatten()])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: build("grue", **IDS),
            ValueError,
            'architecture="grue" .* Did you mean "gru"',
        ),
        (lambda: build(), ValueError, "give source_tokenizer for texts, or source_voc"),
        (
            lambda: build("gru", LETTERS, LETTERS, target_vocabulary_size=5),
            ValueError,
            "give target_tokenizer for texts, or target_vocabulary_size for ids",
        ),
        (
            lambda: build("gru", "abc", LETTERS),
            TypeError,
            "source_tokenizer must be a tokenizer of kerasseq.text, got 'abc'",
        ),
        (
            lambda: build("gru", LETTERS, CharacterTokenizer()),
            ValueError,
            "target_tokenizer has learned nothing yet: call its fit first",
        ),
        (
            lambda: build(**{**IDS, "source_vocabulary_size": 1}),
            ValueError,
            "source_vocabulary_size must be .*2.* got 1",
        ),
        (
            lambda: build(attention="badanau", **IDS),
            ValueError,
            'attention="badanau" .* Did you mean "bahdanau"',
        ),
        (
            lambda: build(dropout=1.5, **IDS),
            ValueError,
            "dropout must lie between 0 and 1, got 1.5",
        ),
        (lambda: build(units=0, **IDS), ValueError, "units must be .* got 0"),
        (
            lambda: build(decoder=3, **IDS),
            TypeError,
            "decoder must be the name of an architecture, or a recurrent layer",
        ),
        (
            lambda: build(keras.layers.Dense(3), **IDS),
            TypeError,
            'a decoder by name, such as decoder="gru"',
        ),
        (lambda: build(GRU(3), **IDS), ValueError, "return_sequences=True"),
        (
            lambda: build(GRU(3, return_sequences=True, go_backwards=True), **IDS),
            ValueError,
            "go_backwards=False",
        ),
        (
            lambda: build(flat(), decoder="gru", target_vocabulary_size=5),
            ValueError,
            r"must give a memory \(batch, places, features\) or a feature map",
        ),
        (
            lambda: build(attention=AlignmentAttention(score="dot"), **IDS),
            ValueError,
            "dot.*(10|5).*(10|5)",
        ),
    ],
)
def test_models_that_cannot_be(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.fixture(scope="module")
def letters():
    return model()


@pytest.fixture(scope="module")
def numbers():
    return build(**IDS)


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        ("", {}, ValueError, "source number 0 is empty: '' has no token"),
        (["ab", ""], {}, ValueError, "source number 1 is empty"),
        (["ab", 3], {}, TypeError, "strings, as the model has a tokenizer .* 1 is int"),
        (None, {}, TypeError, "texts must be a string, or several, got None"),
        ("ab", {"sampler": "bem"}, ValueError, 'Did you mean "beam"'),
        ("ab", {"sampler": Beam(2), "top_k": 2}, ValueError, "not both"),
        ("ab", {"sampler": TopK(2), "top_p": 0.5}, ValueError, "not both"),
        ("ab", {"max_length": 0}, ValueError, "max_length must be .* got 0"),
        ("ab", {"stop": "ba"}, ValueError, "stop='ba' is 2 tokens"),
        ("ab", {"batch_size": 0}, ValueError, "batch_size must be .* got 0"),
        ("ab", {"seed": -1}, ValueError, "seed must be .* got -1"),
        ("ab", {"sampler": 3}, TypeError, "sampler must be .* got 3"),
    ],
)
def test_what_cannot_be_translated(letters, given, options, error, message):
    with pytest.raises(error, match=message):
        letters.translate(given, **options)


def test_alignments_of_a_model_that_has_none():
    with pytest.raises(ValueError, match='without attention. attention="bahdanau"'):
        model(attention=None).translate("ab", alignments=True)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (["ab"], TypeError, "number 0 is a string, and the model has no source_tok"),
        ([[1, 7]], ValueError, "number 0 has id 7: .* ids lie from 1 to 6, and 0 is"),
        ([[1], [-1, 2]], ValueError, "number 1 has id -1"),
        ([[1], [0, 0]], ValueError, "number 1 is empty: it has no id but 0"),
        ([[0.5]], TypeError, "whole numbers of shape .* float64"),
        ([[[1]]], TypeError, r"got shape \(1, 1\)"),
    ],
)
def test_invalid_ids(numbers, rows, error, message):
    with pytest.raises(error, match=message):
        numbers.translate(rows)
    with pytest.raises(error, match=message):
        numbers.fit(rows, [[1]] * len(rows))


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        ([], [], ValueError, "as many, and one at least"),
        (["ab", "c"], ["ab"], ValueError, "2 .* 1"),
        ([["ab", "ba"]], None, TypeError, r"received one list\. Pass one list of each"),
        (5, ["ba"], TypeError, "sources must be a list of rows, got 5"),
        (["ab"], [""], ValueError, "target number 0 is empty"),
    ],
)
def test_what_cannot_be_learned_from(letters, x, y, error, message):
    with pytest.raises(error, match=message):
        letters.fit(x, y)


def test_an_image_of_the_wrong_shape():
    eye = keras.Sequential([keras.Input((4, 3, 1)), keras.layers.Conv2D(5, 2)])
    reads = build(eye, decoder="gru", target_vocabulary_size=5)
    with pytest.raises(ValueError, match=r"\(None, 4, 3, 1\), got shape \(2, 4, 3\)"):
        reads.translate(np.zeros((2, 4, 3)))
