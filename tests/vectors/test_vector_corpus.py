"""Texts for word vectors: sources, vocabularies, subsampling and noise."""

import gzip
import itertools
import pathlib

import numpy as np
import pytest

from kerasseq.vectors import corpus as vector_corpus
from kerasseq.vectors.batches import CountBatches, WindowBatches
from kerasseq.vectors.cooccurrences import Cooccurrences
from kerasseq.vectors.corpus import (
    Sentences,
    count_known,
    draw_noise,
    id_chunks,
    keep_probabilities,
    noise,
    vocabulary,
)

pytestmark = pytest.mark.once("NumPy alone")


def test_sources_give_the_same_sentences(tmp_path):
    text = "To be, or\nnot to be!\n\nThat's"
    expected = [["to", "be", "or"], ["not", "to", "be"], [], ["that's"]]
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_bytes(b"\xef\xbb\xbf" + text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    words = [["to", "be", "or"], ("not", "to", "be"), [], ["that's"]]
    for source in (text, text.split("\n"), words, plain, packed):
        sentences = Sentences(source)
        assert list(sentences) == list(sentences) == expected
    assert next(iter(Sentences("A b.", lowercase=False))) == ["A", "b"]
    assert next(iter(Sentences("A b.", punctuation=True))) == ["a", "b", "."]
    latin = tmp_path / "latin.txt"
    latin.write_bytes("été".encode("latin-1"))
    assert list(Sentences(latin, encoding="latin-1")) == [["été"]]


def test_a_long_line_is_read_in_pieces_between_words(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_corpus, "LONGEST", 11)
    file = tmp_path / "a.txt"
    file.write_text("one two three four five\nsix seven " + "x" * 30, encoding="utf-8")
    pieces = list(Sentences(file))
    words = list(itertools.chain(*pieces))
    assert words[:7] == ["one", "two", "three", "four", "five", "six", "seven"]
    assert "".join(words[7:]) == "x" * 30
    assert max(map(len, pieces)) < 4


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (3, TypeError, "a text must be a string, a pathlib.Path, .* received 3"),
        (b"a", TypeError, "a text must be a string"),
        (
            iter(["a b"]),
            TypeError,
            "a text is read several times, received a list_iter",
        ),
        (["a", 3], TypeError, "sentence 1 must be a string or a list of words, rec"),
        ([["a", 3]], TypeError, "sentence 0 must be a string or a list of words"),
        (pathlib.Path("none.txt"), FileNotFoundError, "There is no file none.txt"),
        (pathlib.Path("."), IsADirectoryError, "is a folder"),
    ],
)
def test_refused_sources(source, error, message):
    with pytest.raises(error, match=message):
        list(Sentences(source))


def test_refused_files(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"abc\nd\xe9f\n")
    with pytest.raises(ValueError, match="not utf-8: byte 0xe9 .* encoding="):
        list(Sentences(file))
    file.write_bytes(gzip.compress(b"abc " * 99)[:-9])
    with pytest.raises(ValueError, match="damaged: it begins as a file of gzip"):
        list(Sentences(file))
    with pytest.raises(ValueError, match="`encoding` 'utf9' is no text encoding"):
        Sentences(file, encoding="utf9")


def test_vocabulary():
    sentences = [["b", "a", "c"], ["b", "c"], ["d"]]
    found = vocabulary(sentences, 1, None)
    assert found.words == ["b", "c", "a", "d"]
    assert found.counts.tolist() == [2, 2, 1, 1]
    assert vocabulary(sentences, 2, None).words == ["b", "c"]
    assert vocabulary(sentences, 1, 3).words == ["b", "c", "a"]
    for few in ([["a", "a"]], [["a", "b", "a"]]):
        with pytest.raises(ValueError, match="at least 2 words, received 1: the text"):
            vocabulary(few, 2, None)
    with pytest.raises(ValueError, match="the text is empty"):
        vocabulary([[], []], 1, None)
    assert count_known(sentences, ["x", "b", "d"]).tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="at least 2 of the 2 words of the model, rec"):
        count_known(sentences, ["x", "a"])


def test_chunks_are_whole_sentences(monkeypatch):
    monkeypatch.setattr(vector_corpus, "CHUNK", 3)
    index = {"a": 0, "b": 1}
    chunks = list(id_chunks([["a", "b"], ["x"], ["b", "x", "b"], [], ["a"]], index))
    assert [ids.tolist() for ids, _ in chunks] == [[0, 1, 1, 1], [0]]
    assert [numbers.tolist() for _, numbers in chunks] == [[0, 0, 2, 2], [4]]
    assert chunks[0][0].dtype == np.int32


def test_negative_words_have_the_frequencies_of_the_paper():
    counts = np.array([1000, 100, 10, 0, 1])
    drawn = draw_noise(np.random.default_rng(0), noise(counts), (200, 200))
    expected = counts**0.75 / (counts**0.75).sum()
    found = np.bincount(drawn.ravel(), minlength=5) / drawn.size
    assert drawn.dtype == np.int32 and found[3] == 0
    assert (abs(found - expected) <= 4 * np.sqrt(expected / drawn.size)).all()


def window_batches(sentences, **options):
    words, counts = vocabulary(sentences, 1, None)
    index = {word: n for n, word in enumerate(words)}
    given = {"method": "skip_gram", "window": 3, "negatives": 2, "subsample": None}
    given |= {"batch_size": 32, "epochs": 2, "seed": 5} | options
    return WindowBatches(sentences, index, counts, **given)


def test_frequent_words_are_left_out_with_the_probability_of_the_paper():
    sentences = [["the", "the", "the", "cat", "sat"]] * 400
    counts = np.array([1200, 400, 400])
    keep = keep_probabilities(counts, 0.1)
    np.testing.assert_allclose(keep, np.sqrt(0.1 / np.array([0.6, 0.2, 0.2])))
    batches = window_batches(sentences, subsample=0.1)
    count = int((counts * keep).sum())
    assert batches.words == 512 and batches.steps_per_epoch == round(count / 512)
    stream = batches.stream()
    ids = np.concatenate([next(stream)[0]["centers"].ravel() for _ in range(8)])
    kept = counts * keep
    expected, found = kept / kept.sum(), np.bincount(ids) / len(ids)
    assert (abs(found - expected) < 4 * np.sqrt(expected / len(ids))).all()


def test_every_word_is_a_center_once_in_a_pass():
    rng = np.random.default_rng(0)
    sentences = [list(map(str, rng.integers(0, 9, 7))) for _ in range(64)]
    batches = window_batches(sentences)
    assert (batches.words, batches.steps_per_epoch) == (448, 1)
    stream = batches.stream()
    first, second = (next(stream)[0]["centers"].ravel() for _ in range(2))
    text = [batches.index[word] for sentence in sentences for word in sentence]
    assert first.tolist() == second.tolist() == text


def test_negative_words_count_once_for_each_other_context():
    batches = window_batches([["a", "b", "c", "a"] * 3] * 10)
    batch = next(batches.stream())[0]
    for s, n, i, k in itertools.product(*map(range, batch["negatives"].shape)):
        around = batch["contexts"][s, n][batch["mask"][s, n, i]]
        expected = (around != batch["negatives"][s, n, i, k]).sum()
        assert batch["weights"][s, n, i, k] == expected
    cbow = next(window_batches([["a", "b"]] * 20, method="cbow").stream())[0]
    others = cbow["negatives"] != cbow["centers"][..., None]
    assert (cbow["weights"] == others).all()


def test_windows_are_dynamic_and_the_learning_rate_falls():
    batches = window_batches([["a", "b", "c"] * 50] * 8, epochs=2)
    assert (batches.updates, batches.steps_per_epoch) == (16, 2)
    found = list(itertools.islice(batches.stream(), 5))
    rates = np.concatenate([batch["rate"] for (batch,) in found])
    np.testing.assert_allclose(rates[:64], 1 - np.arange(64) / 64, rtol=1e-6)
    assert (rates[64:] == np.float32(1e-4)).all()
    contexts = found[1][0]["mask"].sum(axis=-1)
    assert {*np.unique(contexts)} >= {2, 4, 6}
    assert abs(np.mean(contexts) - 4) < 0.3


def test_a_stream_begins_anywhere():
    sentences = [list("abcabcd"), list("dcb")] * 40
    batches = window_batches(sentences, subsample=0.05)
    whole = list(itertools.islice(batches.stream(), 4))
    (later,) = next(batches.stream(3))
    for name, array in whole[3][0].items():
        np.testing.assert_array_equal(later[name], array)
    other = next(window_batches(sentences, subsample=0.05, seed=6).stream())[0]
    assert (other["negatives"] != whole[0][0]["negatives"]).any()


def test_batches_of_counts():
    pairs = np.array([[0, 1], [1, 0], [1, 2], [2, 1], [0, 2]], "int32")
    found = Cooccurrences(pairs, np.array([4.0, 4.0, 0.5, 0.5, 1.0]))
    batches = CountBatches(found, x_max=2.0, alpha=0.5, batch_size=2, seed=0)
    assert (batches.updates, batches.steps_per_epoch) == (2, 1)
    batch = next(batches.stream())[0]
    assert batch["words"].shape == batch["log_counts"].shape == (2, 2)
    counts = np.exp(batch["log_counts"])
    expected = np.minimum(1, np.sqrt(counts / 2))
    np.testing.assert_allclose(batch["weights"], expected, rtol=1e-6)
    known = {(i, j): x for (i, j), x in zip(pairs.tolist(), found.counts, strict=True)}
    for i, j, x in zip(batch["words"].flat, batch["contexts"].flat, counts.flat):  # noqa: B905
        assert known[i, j] == pytest.approx(x)
