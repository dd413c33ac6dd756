"""CTC decoding equals the best of all paths and texts, found by enumeration."""

import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.decoding import ctc_align, ctc_beam, ctc_greedy
from kerasseq.text import NGramModel
from tests import ctc_paths

pytestmark = pytest.mark.once("NumPy on the host")

T, V, BLANK = 5, 4, 3  # 1,024 paths
FRAMES = [5, 4, 3, 1, 0, 5]
X = 1.5 * np.random.default_rng(1).normal(size=(len(FRAMES), T, V))
ALL = [ctc_paths.paths(x[:n], BLANK) for x, n in zip(X, FRAMES, strict=True)]


def row(ids):
    """The ids without padding."""
    return tuple(ids[ids >= 0].tolist())


@pytest.mark.everywhere("tensors of the backend become arrays", cases=1)
@pytest.mark.parametrize("blank", [BLANK, 0])
def test_greedy_reads_the_best_path(blank):
    x = X if blank else np.roll(X, 1, axis=-1)
    x = np.where((np.arange(T) < np.array(FRAMES)[:, None])[..., None], x, np.nan)
    tensor = keras.ops.convert_to_tensor(x, "float32")
    result = ctc_greedy(tensor, keras.ops.convert_to_tensor(FRAMES), blank)
    for n, found in enumerate(ALL):
        all_paths = {
            path: p for of_text in found.values() for path, p in of_text.items()
        }
        best = max(all_paths, key=all_paths.get)
        ids = ctc_paths.read(best, BLANK)
        assert row(result.ids[n]) == tuple(ids if blank else np.array(ids, int) + 1)
        assert result.lengths[n] == len(ids)
        np.testing.assert_allclose(result.log_probabilities[n], all_paths[best], 1e-5)
        assert spans_of(best) == result.frames[n, : len(ids)].tolist()


def spans_of(path):
    """First and last frame, plus one, of each id of a path."""
    spans, t = [], 0
    for symbol, run in itertools.groupby(path):
        n = len(list(run))
        if symbol != BLANK:
            spans.append([t, t + n])
        t += n
    return spans


def language_model():
    ids = np.random.default_rng(2).integers(0, V - 1, 50)
    return NGramModel(3, k=0.1).fit(ids, vocabulary_size=V - 1)


@pytest.mark.parametrize(("weight", "bonus"), [(0, 0), (0.7, 0.0), (2.0, 1.3)])
def test_a_wide_beam_finds_the_best_text(weight, bonus):
    model = language_model()
    options = {"language_model": model, "weight": weight, "bonus": bonus}
    result = ctc_beam(X, FRAMES, beam=400, **options)
    for n, found in enumerate(ALL):
        sums = {text: np.logaddexp.reduce([*p.values()]) for text, p in found.items()}
        scores = {
            text: log_p
            + weight * (model.log_probabilities([*text]).sum() if text else 0)
            + bonus * len(text)
            for text, log_p in sums.items()
        }
        best = max(scores, key=scores.get)
        assert row(result.ids[n]) == best
        np.testing.assert_allclose(result.log_probabilities[n], sums[best], 1e-9, 1e-12)
        path = max(found[best], key=found[best].get)
        assert result.frames[n, : len(best)].tolist() == spans_of(path)


def test_alignment_is_the_best_path_of_each_text():
    for n, found in enumerate(ALL):
        for text, of_text in found.items():
            result = ctc_align(X[n : n + 1], [text], FRAMES[n : n + 1])
            best = max(of_text, key=of_text.get)
            np.testing.assert_allclose(
                *(result.log_probabilities[0], of_text[best], 1e-9, 1e-12)
            )
            assert result.frames[0].tolist() == spans_of(best)


def test_alignment_of_a_batch_is_that_of_its_rows():
    texts = [max(found, key=lambda text: len(text)) for found in ALL]
    batch = ctc_align(X, texts, FRAMES)
    for n, text in enumerate(texts):
        alone = ctc_align(X[n : n + 1, : max(FRAMES[n], 1)], [text], FRAMES[n : n + 1])
        assert (batch.frames[n, : len(text)] == alone.frames[0]).all()
        assert batch.log_probabilities[n] == alone.log_probabilities[0]


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 7),
    st.lists(st.integers(0, 11), min_size=3, max_size=3),
    st.booleans(),
)
def test_a_row_does_not_depend_on_the_batch(beam, lengths, with_model):
    """Also with a narrow beam, the same prefixes are kept."""
    x = 2 * np.random.default_rng(3).normal(size=(3, 11, V))
    model = language_model() if with_model else None
    padded = np.concatenate([x, np.full((3, 2, V), np.inf)], axis=1)
    result = ctc_beam(padded, lengths, beam, model)
    for n, length in enumerate(lengths):
        alone = ctc_beam(x[n : n + 1, : max(length, 1)], [length], beam, model)
        assert row(result.ids[n]) == row(alone.ids[0])
        assert result.log_probabilities[n] == alone.log_probabilities[0]
        assert (result.frames[n, : alone.lengths[0]] == alone.frames[0]).all()


def test_a_prefix_that_comes_back_is_the_same():
    """A narrow beam gives no more than the sum over the paths of its text."""
    x = np.random.default_rng(4).normal(size=(7, T, V))
    for beam in (1, 2, 3, 5):
        result = ctc_beam(x, beam=beam)
        for n, logits in enumerate(x):
            sums = ctc_paths.text_log_probabilities(logits, BLANK)
            assert result.log_probabilities[n] <= sums[row(result.ids[n])] + 1e-12


def test_impossible_symbols():
    x = np.where(np.arange(V) == 1, -np.inf, X)
    assert 1 not in ctc_beam(x, FRAMES).ids
    zero = NGramModel(1, k=0).fit([0, 0, 2], vocabulary_size=V - 1)
    assert 1 not in ctc_beam(X, FRAMES, language_model=zero).ids
    with pytest.raises(ValueError, match=r"tokens\[0\] has probability 0"):
        ctc_align(x[:1], [[1]])


BAD = X.copy()
BAD[2, 1, 0] = np.nan


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ctc_greedy(BAD), r"received nan in row 2 at frame 1\. .* `lengths`"),
        (lambda: ctc_greedy(X[0]), r"received shape \(5, 4\)\. .* logits\[None\]"),
        (lambda: ctc_greedy("a"), "logits must be an array of numbers .* 'a'"),
        (lambda: ctc_greedy(X, [6] * 6), "lengths must be from 0 to 5, .* 6 in row 0"),
        (lambda: ctc_greedy(X, [5]), "lengths must have one number for each of the 6"),
        (lambda: ctc_beam(X, beam=0), "beam must be at least 1, received 0"),
        (lambda: ctc_beam(X, blank=4), "blank must be one of the 4 symbols, .* 4"),
        (lambda: ctc_beam(X, weight=-1), "weight must be finite and 0 or more"),
        (lambda: ctc_beam(X, language_model=3), "language_model must be .* received 3"),
        (
            lambda: ctc_beam(X, language_model=NGramModel(2)),
            "language_model must be fitted",
        ),
        (
            lambda: ctc_beam(X, language_model=language_model(), blank=0),
            "language_model must have .* vocabulary_size=3 and blank=0",
        ),
        (lambda: ctc_align(X, [[0]]), "tokens must have one row for each of the 6"),
        (
            lambda: ctc_align(X[:2], [[0], [0, 3]]),
            r"tokens\[1\] must have ids .* received 3",
        ),
        (
            lambda: ctc_align(X[:2], [[0], [0, 0]], [5, 2]),
            r"tokens\[1\] needs 3 frames or more, .* received 2",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
