"""The same ids as KerasHub's tokenizers from the same files, where it is installed."""

import re
import warnings

import numpy as np
import pytest

from kerasseq.text import load_tokenizer
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


def test_byte_pairs(keras_hub, tmp_path):
    PEER.model.save(str(tmp_path))
    theirs = keras_hub.tokenizers.BytePairTokenizer(
        vocabulary=str(tmp_path / "vocab.json"), merges=str(tmp_path / "merges.txt")
    )
    ours = load_tokenizer(tmp_path)
    assert len(PLAIN) > 50
    for line in PLAIN:
        assert ours.encode(line).tolist() == np.asarray(theirs(line)).tolist(), line


def test_word_pieces(keras_hub, tmp_path):
    peer_of_word_pieces(True).model.save(str(tmp_path))
    theirs = keras_hub.tokenizers.WordPieceTokenizer(
        vocabulary=str(tmp_path / "vocab.txt"), lowercase=True, strip_accents=True
    )
    ours = load_tokenizer(tmp_path / "vocab.txt")
    for line in [*LINES[:200], "Été à l'ŒUVRE", "naïve 北京"]:
        assert ours.encode(line).tolist() == np.asarray(theirs(line)).tolist(), line
