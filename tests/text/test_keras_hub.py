"""The same ids as KerasHub's tokenizers from the same files, where it is installed."""

import re
import warnings

import numpy as np
import pytest

import kerasseq
from kerasseq.text import as_tokenizer
from tests.text.test_tokenizer_files import CORPUS, PEER, peer_of_word_pieces

pytestmark = pytest.mark.once("arguments, messages and files")

LINES = [" ".join(line.split()) for line in CORPUS.splitlines() if line.strip()]
# KerasHub splits runs of white space, and white space before marks, in its own way.
PLAIN = [line for line in LINES if re.fullmatch(r"[\w ,.'-]+", line)][:200]


@pytest.fixture(scope="module")
def keras_hub():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("keras_hub")


def converted(tokenizer):
    """What the line in the message about a tokenizer of KerasHub makes of it."""
    with pytest.raises(TypeError, match=r"received <.* Pass kerasseq\.") as error:
        as_tokenizer(tokenizer)
    line = str(error.value).partition("Pass ")[2]
    return eval(line, {"kerasseq": kerasseq, "tokenizer": tokenizer})


def test_byte_pairs(keras_hub, tmp_path):
    PEER.model.save(str(tmp_path))
    theirs = keras_hub.tokenizers.BytePairTokenizer(
        vocabulary=str(tmp_path / "vocab.json"), merges=str(tmp_path / "merges.txt")
    )
    ours = converted(theirs)
    assert ours == kerasseq.text.load_tokenizer(tmp_path)
    assert len(PLAIN) > 50
    for line in PLAIN:
        assert ours.encode(line).tolist() == np.asarray(theirs(line)).tolist(), line


def test_word_pieces(keras_hub, tmp_path):
    peer_of_word_pieces(True).model.save(str(tmp_path))
    theirs = keras_hub.tokenizers.WordPieceTokenizer(
        vocabulary=str(tmp_path / "vocab.txt"), lowercase=True, strip_accents=True
    )
    ours = converted(theirs)
    for line in [*LINES[:200], "Été à l'ŒUVRE", "naïve 北京"]:
        assert ours.encode(line).tolist() == np.asarray(theirs(line)).tolist(), line


def test_classes_without_a_vocabulary_that_can_be_read(keras_hub):
    """Each message has a line that gives the same tokens, if not the same ids."""
    theirs = pytest.importorskip("tensorflow_text")
    words = ["[UNK]", "un", "##happi", "##ly", "the", "cat"]
    lookup = dict(zip(words, range(len(words)), strict=True))
    pieces = theirs.FastWordpieceTokenizer(words, no_pretokenization=False)
    text = "the cat unhappily"
    for tokenizer, tokens in (
        (keras_hub.tokenizers.ByteTokenizer(), [*text]),
        (keras_hub.tokenizers.UnicodeCodepointTokenizer(), [*text]),
        (theirs.UnicodeCharTokenizer(), [*text]),
        (theirs.WhitespaceTokenizer(), text.split()),
        (pieces, ["the", "cat", "un", "##happi", "##ly"]),
    ):
        with pytest.raises(TypeError, match=r"Pass kerasseq\.text\.") as error:
            as_tokenizer(tokenizer)
        line = str(error.value).partition("Pass ")[2].partition(", with")[0]
        ours = eval(line, {"kerasseq": kerasseq, "texts": [text], "words": words})
        ids = ours.encode(text).tolist()
        if tokenizer is pieces:
            assert ids == [lookup[token] for token in tokens]
        assert len(ids) == len(tokens) and ours.decode(ids) == text


def test_others_are_loaded_from_the_files_of_their_model():
    processor = pytest.importorskip("sentencepiece").SentencePieceProcessor()
    with pytest.raises(TypeError, match=r'load_tokenizer\("FILE.model"\), the file'):
        as_tokenizer(processor)
