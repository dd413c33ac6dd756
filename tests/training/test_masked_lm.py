"""Masking of tokens and pairs of sentences: rates, labels and seeds."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.text import CharacterTokenizer, WordPieceTokenizer
from kerasseq.training import MaskedLMMaskGenerator, MaskedPairs, SentencePairs
from kerasseq.training.sentence_pairs import cut, pack

pytestmark = pytest.mark.once("NumPy arrays, without a backend")

V, MASK = 1009, 4
SPECIAL = [0, 1, 2, 3, MASK]
PAD, CLS, SEP = 0, 2, 3


def masking(**options):
    return MaskedLMMaskGenerator(
        **{
            "vocabulary_size": V,
            "mask_token_id": MASK,
            "unselectable_token_ids": SPECIAL,
            **options,
        }
    )


def random_ids(rows, time, seed=0):
    """Texts of many lengths, with special tokens and padding."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, V, (rows, time))
    lengths = rng.integers(0, time + 1, rows)
    ids[np.arange(time) >= lengths[:, None]] = PAD
    ids[:, 0] = CLS
    return ids.astype("int32")


@pytest.mark.parametrize("time", [5, 131])
def test_rates_over_many_tokens(time):
    ids = random_ids(200_000 // time, time)
    real = ~np.isin(ids, SPECIAL)
    assert real.sum() > 5e4
    masked = masking()(ids)
    selected = masked.weights == 1
    assert selected.sum() / real.sum() == pytest.approx(0.15, abs=0.002)
    rows = np.nonzero(selected)[0]
    inputs = masked.ids[rows, masked.positions[selected]]
    truth = masked.labels[selected]
    hidden, kept = inputs == MASK, inputs == truth
    assert hidden.mean() == pytest.approx(0.8, abs=0.01)
    assert kept.mean() == pytest.approx(0.1, abs=0.01)
    drawn = inputs[~hidden & ~kept]
    assert len(drawn) / len(inputs) == pytest.approx(0.1, abs=0.01)
    assert drawn.min() < 20 and drawn.max() > V - 20  # of the whole vocabulary
    assert len(np.unique(drawn)) > 0.6 * V * (1 - np.exp(-len(drawn) / V))


@given(
    rows=st.integers(1, 5),
    time=st.integers(1, 23),
    rate=st.sampled_from([0.0, 0.15, 0.5, 1.0]),
    seed=st.integers(0, 9),
    number=st.integers(0, 3),
)
def test_labels_are_the_selected_tokens(rows, time, rate, seed, number):
    ids = random_ids(rows, time, seed)
    before = ids.copy()
    masked = masking(mask_selection_rate=rate, seed=seed)(ids, number)
    np.testing.assert_array_equal(ids, before)  # unchanged
    P = max(1, int(np.ceil(rate * time)))
    for array, kind in zip(masked, ("int32", "int32", "int32", "float32"), strict=True):
        assert array.dtype == kind
    assert masked.labels.shape == masked.weights.shape == (rows, P)
    selected = masked.weights == 1
    assert np.all(masked.labels[~selected] == 0)
    assert np.all(masked.positions[~selected] == 0)
    for row in range(rows):
        places = masked.positions[row][selected[row]]
        assert np.all(np.diff(places) > 0)
        assert not np.isin(ids[row, places], SPECIAL).any()
        np.testing.assert_array_equal(
            masked.labels[row][selected[row]], ids[row, places]
        )
        others = np.setdiff1d(np.arange(time), places)
        np.testing.assert_array_equal(masked.ids[row, others], ids[row, others])
        real = (~np.isin(ids[row], SPECIAL)).sum()
        assert np.floor(rate * real) <= len(places) <= np.ceil(rate * real)
    inputs = masked.ids[np.nonzero(selected)[0], masked.positions[selected]]
    assert not np.isin(inputs, [0, 1, 2, 3]).any()  # a mask, but no other special token


def test_positions_are_uniform():
    ids = np.full((20_000, 7), 11)
    ids[:, 0] = CLS
    masked = masking(mask_selection_rate=0.5)(ids)
    counts = np.bincount(masked.positions[masked.weights == 1], minlength=7)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:] / 20_000, 0.5, atol=0.02)


def test_seed_and_number_determine_the_masks():
    ids = random_ids(7, 31)

    def same(a, b):
        return all(map(np.array_equal, a, b))

    first = masking(seed=3)
    batches = [first(ids, n) for n in range(3)]
    again = masking(seed=3)
    assert all(same(again(ids, n), batches[n]) for n in (2, 0, 1))
    assert not same(batches[0], batches[1])
    assert not same(masking(seed=4)(ids, 0), batches[0])


def test_token_rates():
    ids = random_ids(50, 31)
    for (mask, random), kind in (
        ((1.0, 0.0), "hidden"),
        ((0.0, 0.0), "kept"),
        ((0.0, 1.0), "drawn"),
    ):
        masked = masking(mask_token_rate=mask, random_token_rate=random)(ids)
        selected = masked.weights == 1
        inputs = masked.ids[np.nonzero(selected)[0], masked.positions[selected]]
        kept = (inputs == masked.labels[selected]).mean()
        hidden = (inputs == MASK).mean()
        wanted = {"hidden": (0, 1), "kept": (1, 0), "drawn": (0, 0)}[kind]
        np.testing.assert_allclose((kept, hidden), wanted, atol=0.02)


def test_special_tokens_of_a_tokenizer():
    tokenizer = WordPieceTokenizer(29).fit("to be or not to be")
    generator = MaskedLMMaskGenerator(tokenizer)
    assert generator.mask_token_id == 4
    assert generator.unselectable_token_ids == [0, 1, 2, 3, 4]
    assert generator.vocabulary_size == tokenizer.vocabulary_size
    with pytest.raises(ValueError, match=r"no special token \[MASK\]: make it with"):
        MaskedLMMaskGenerator(CharacterTokenizer().fit("abc"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mask_selection_rate": 1.5}, ValueError, "mask_selection_rate must .* 1.5"),
        ({"random_token_rate": 0.3}, ValueError, "must add to at most 1"),
        ({"mask_token_id": V}, ValueError, "from 0 to 1008, .* received 1009"),
        ({"unselectable_token_ids": [-1]}, ValueError, "received -1"),
        ({"unselectable_token_ids": range(V)}, ValueError, "the whole vocabulary"),
        ({"mask_token_id": None}, ValueError, "expected a fitted tokenizer, or"),
        ({"mask_token_id": "x"}, TypeError, "mask_token_id must be"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
    ],
)
def test_messages(options, error, message):
    with pytest.raises(error, match=message):
        masking(**options)


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([[1.0]], TypeError, "an array of float64"),
        ([1, 2], ValueError, r"received shape \(2,\)"),
        ([[V]], ValueError, "from 0 to 1008, as vocabulary_size=1009, received 1009"),
        ([[-1]], ValueError, "received -1"),
    ],
)
def test_messages_about_ids(ids, error, message):
    with pytest.raises(error, match=message):
        masking()(np.array(ids))


# Sentence n of document d has the ids 100 d + 10 n + 5, 6, 7: all are different.
DOCUMENTS = [
    [[100 * d + 10 * n + i for i in (5, 6, 7)] for n in range(size)]
    for d, size in enumerate((7, 1, 4, 9))
]


def pairs(documents=DOCUMENTS, **options):
    options = {"sequence_length": 9, "batch_size": 4, **options}
    return SentencePairs(documents, CLS, SEP, PAD, **options)


def read(x, row):
    """The two parts of a row, after a look at the marks and segments."""
    ids, segments = x["ids"][row].tolist(), x["segments"][row].tolist()
    assert ids[0] == CLS
    ends = [n for n, i in enumerate(ids) if i == SEP]
    assert len(ends) == 2
    assert set(ids[ends[1] + 1 :]) <= {PAD}
    assert segments == [int(ends[0] < n <= ends[1]) for n in range(len(ids))]
    return ids[1 : ends[0]], ids[ends[0] + 1 : ends[1]]


def test_half_of_the_pairs_follow_each_other():
    batches = pairs()
    seen, others = set(), []
    for number in range(10 * batches.steps_per_epoch):
        x, follows = batches.batch(number)
        assert x["ids"].shape == x["segments"].shape == (4, 9)
        assert {x["ids"].dtype, x["segments"].dtype, follows.dtype} == {
            np.dtype("int32")
        }
        assert sorted(follows.tolist()) == [0, 0, 1, 1]
        for row, follow in enumerate(follows):
            a, b = read(x, row)
            if follow:
                assert b[0] == a[0] + 10 and b[0] // 100 == a[0] // 100
                seen.add(a[0])
            else:
                assert b[0] // 100 != a[0] // 100
                others.append(b[0])
    assert seen == {d[n][0] for d in DOCUMENTS for n in range(len(d) - 1)}
    assert set(others) == {s[0] for d in DOCUMENTS for s in d}  # any other part


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.7, 1.0])
def test_fraction_of_the_pairs_that_follow(rate):
    batches = pairs(next_rate=rate, batch_size=9)
    x, follows = batches.all()
    assert abs(follows.sum() - rate * len(follows)) < 1
    for row, follow in enumerate(follows):
        a, b = read(x, row)
        assert (b[0] == a[0] + 10) == follow
    _, follows = batches.batch(0)
    assert abs(follows.sum() - rate * len(follows)) < 1


@given(number=st.integers(0, 20), seed=st.integers(0, 3))
def test_a_batch_of_pairs_depends_on_seed_and_number_alone(number, seed):
    fresh, used = pairs(seed=seed), pairs(seed=seed)
    used.batch(number + 7)
    a, b = fresh.batch(number), used.batch(number)
    np.testing.assert_array_equal(a[0]["ids"], b[0]["ids"])
    np.testing.assert_array_equal(a[1], b[1])


@given(
    lengths=st.lists(st.integers(0, 17), min_size=1, max_size=9),
    half=st.integers(1, 11),
)
def test_parts_of_a_document(lengths, half):
    sentences, start = [], 0
    for length in lengths:
        sentences.append(list(range(start, start + length)))
        start += length
    parts = cut(sentences, half)
    assert [i for part in parts for i in part] == list(range(start))  # all, in order
    assert all(0 < len(part) <= half for part in parts)
    if sum(length > 0 for length in lengths) > 1:
        assert len(parts) > 1  # so that there is a pair


def test_parts_are_as_long_as_they_may_be():
    assert [len(p) for p in cut([[1] * 3] * 40, 11)] == [9] * 13 + [3]
    assert pack([([5], [6])], CLS, SEP, PAD, 5)["ids"].tolist() == [[2, 5, 3, 6, 3]]


def test_masked_pairs_go_on_where_they_were():
    def make():
        return MaskedPairs(pairs(), masking(mask_selection_rate=0.5))

    whole = list(itertools.islice(make().stream(), 12))
    for (x, y, w), wanted in zip(make().stream(5), whole[5:], strict=False):
        for found, right in zip((x, y, w), wanted, strict=True):
            assert found.keys() == right.keys()
            for name in found:
                np.testing.assert_array_equal(found[name], right[name])
    x, y, w = make().all()
    assert len(x["ids"]) == sum(len(d) - 1 for d in DOCUMENTS) == len(y["next"])
    assert w["tokens"].shape == y["tokens"].shape == x["positions"].shape
    # What is selected for is what stood there.
    number = next(make().stream(3))
    clear, follows = pairs().batch(3)
    selected = number[2]["tokens"] == 1
    rows = np.nonzero(selected)[0]
    places = number[0]["positions"][selected]
    np.testing.assert_array_equal(
        clear["ids"][rows, places], number[1]["tokens"][selected]
    )
    np.testing.assert_array_equal(follows, number[1]["next"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"documents": [[[7], [8]]]}, "at least two documents with text, received 1"),
        ({"documents": [[[7]], [[8]]]}, "a document with at least two sentences"),
        ({"sequence_length": 4}, "sequence_length must be at least 5"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_messages_about_pairs(options, message):
    with pytest.raises(ValueError, match=message):
        pairs(**options)
