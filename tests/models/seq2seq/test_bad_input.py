"""Wrong arguments of Seq2Seq, `fit` and `translate`, and their messages."""

import keras
import numpy as np
import pytest

from kerasseq.decoding import Beam, TopK
from kerasseq.layers import AlignmentAttention
from kerasseq.models import Seq2Seq
from kerasseq.rnn.gru import GRU
from kerasseq.text import CharacterTokenizer
from tests.models.seq2seq.toys import LETTERS, model

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
        (
            lambda: build(),
            ValueError,
            "expected either source_tokenizer, for texts, or source_voc",
        ),
        (
            lambda: build("gru", LETTERS, LETTERS, target_vocabulary_size=5),
            ValueError,
            "expected either target_tokenizer, for texts, or target_vocab",
        ),
        (
            lambda: build("gru", "abc", LETTERS),
            TypeError,
            "source_tokenizer must be a tokenizer of kerasseq.text, .*received 'abc'",
        ),
        (
            lambda: build("gru", LETTERS, CharacterTokenizer()),
            ValueError,
            "target_tokenizer must be fitted.*Call its fit first",
        ),
        (
            lambda: build(**{**IDS, "source_vocabulary_size": 1}),
            ValueError,
            "source_vocabulary_size must be .*2.* received 1",
        ),
        (
            lambda: build(attention="badanau", **IDS),
            ValueError,
            'attention="badanau" .* Did you mean "bahdanau"',
        ),
        (
            lambda: build(dropout=1.5, **IDS),
            ValueError,
            "dropout must lie between 0 and 1, received 1.5",
        ),
        (lambda: build(units=0, **IDS), ValueError, "units must be .* received 0"),
        (
            lambda: build(decoder=3, **IDS),
            TypeError,
            "decoder must be the name of an architecture, or a recurrent layer",
        ),
        (
            lambda: build(keras.layers.Dense(3), **IDS),
            TypeError,
            'pass a decoder by name, such as decoder="gru"',
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
            r"must return \(batch, time, features\) or a feature map",
        ),
        (
            lambda: build(attention=AlignmentAttention(score="dot"), **IDS),
            ValueError,
            "dot.*(10|5).*(10|5)",
        ),
    ],
)
def test_wrong_constructor_arguments_raise(make, error, message):
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
        ("", {}, ValueError, "source 0 must have at least one token, received ''"),
        (["ab", ""], {}, ValueError, "source 1 must have at least one token"),
        (["ab", 3], {}, TypeError, "must be strings, .* received int as source 1"),
        (
            None,
            {},
            TypeError,
            "sources must be a list.*, received None",
        ),
        ("ab", {"sampler": "bem"}, ValueError, 'Did you mean "beam"'),
        ("ab", {"sampler": "contrastive"}, ValueError, "decoder-only .* for Seq2Seq"),
        ("ab", {"sampler": Beam(2), "top_k": 2}, ValueError, "not both"),
        ("ab", {"sampler": TopK(2), "top_p": 0.5}, ValueError, "not both"),
        ("ab", {"max_length": 0}, ValueError, "max_length must be .* received 0"),
        (
            "ab",
            {"stop": "ba"},
            ValueError,
            "stop must be one token, received 'ba', which is 2",
        ),
        ("ab", {"batch_size": 0}, ValueError, "batch_size must be .* received 0"),
        ("ab", {"seed": -1}, ValueError, "seed must be .* received -1"),
        ("ab", {"sampler": 3}, TypeError, "sampler must be .* received 3"),
    ],
)
def test_wrong_arguments_of_translate_raise(letters, given, options, error, message):
    with pytest.raises(error, match=message):
        letters.translate(given, **options)


def test_alignments_without_attention_raise():
    with pytest.raises(ValueError, match="received one with attention=None"):
        model(attention=None).translate("ab", alignments=True)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            ["ab"],
            TypeError,
            "must be ids, .* no source_tok.* string as source 0",
        ),
        (
            [[1, 7]],
            ValueError,
            "source 0 must be from 1 to 6.* padding; received 7",
        ),
        ([[1], [-1, 2]], ValueError, "ids of source 1 .* received -1"),
        (
            [[1], [0, 0]],
            ValueError,
            "source 1 must have .* one id, received only padding",
        ),
        ([[0.5]], TypeError, "integers of shape .* float64"),
        ([[[1]]], TypeError, r"received shape \(1, 1\)"),
    ],
)
def test_wrong_ids_raise(numbers, rows, error, message):
    with pytest.raises(error, match=message):
        numbers.translate(rows)
    with pytest.raises(error, match=message):
        numbers.fit(rows, [[1]] * len(rows))


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        ([], [], ValueError, "at least one row of x"),
        (["ab", "c"], ["ab"], ValueError, "2 .* 1"),
        ([["ab", "ba"]], None, TypeError, r"received one list\. Pass one list of each"),
        (5, ["ba"], TypeError, "x must be a list.* received 5"),
        (["ab"], [""], ValueError, "target 0 must have .* Leave the row out"),
        (["ab"], [None], TypeError, "target 0, an empty cell. Leave the row out"),
    ],
)
def test_wrong_arguments_of_fit_raise(letters, x, y, error, message):
    with pytest.raises(error, match=message):
        letters.fit(x, y)


def test_tokenizers_are_those_of_each_side():
    one, other = (CharacterTokenizer().fit(text) for text in ("ab", "xyz"))
    model = build("gru", source_tokenizer=one, target_tokenizer=other)
    assert model.source_tokenizer.encode("b").tolist() == [1]
    assert model.target_tokenizer.decode([2]) == "z"
    pictures = keras.Sequential([keras.Input((4, 3, 1)), keras.layers.Conv2D(5, 2)])
    captioner = build(pictures, decoder="gru", target_tokenizer=other)
    assert captioner.source_tokenizer is None


def test_texts_given_as_ids_raise(letters):
    with pytest.raises(TypeError, match=r"as in model\(model\.encode\(text\)\)"):
        letters("ab")


def test_sources_alone_are_translated(letters):
    with pytest.raises(TypeError, match=r"To translate, use translate\(sources\)$"):
        letters.predict(["ab", "ba"])


def test_image_of_wrong_shape_raises():
    encoder = keras.Sequential([keras.Input((4, 3, 1)), keras.layers.Conv2D(5, 2)])
    captioner = build(encoder, decoder="gru", target_vocabulary_size=5)
    with pytest.raises(ValueError, match=r"\(None, 4, 3, 1\), received shape \(2, 4"):
        captioner.translate(np.zeros((2, 4, 3)))
