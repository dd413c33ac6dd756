from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.datasets import copy_task, reverse_task, sort_task, symbol_ids
from kerasseq.text import CharacterTokenizer

TASKS = [copy_task, reverse_task, sort_task]
options = st.fixed_dictionaries(
    {
        "symbols": st.sampled_from(["ab", "zxy", "0123456789", "éß→😀"]),
        "min_length": st.integers(3, 4),
        "max_length": st.integers(5, 11),
        "seed": st.integers(0, 99),
    }
)


@given(st.integers(1, 29), options)
def test_the_tasks_are_what_they_are_called(count, arguments):
    symbols = arguments["symbols"]
    copied, turned, ordered = (task(count, **arguments) for task in TASKS)
    assert copied.sources == turned.sources == ordered.sources
    assert copied.targets == copied.sources
    assert turned.targets == ["".join(reversed(text)) for text in turned.sources]
    for source, target in zip(*ordered, strict=True):
        assert Counter(source) == Counter(target)
        places = [symbols.index(symbol) for symbol in target]
        assert all(a <= b for a, b in zip(places, places[1:], strict=False))
    assert len(set(copied.sources)) == count
    assert {*"".join(copied.sources)} <= {*symbols}
    lengths = set(map(len, copied.sources))
    assert arguments["min_length"] <= min(lengths)
    assert max(lengths) <= arguments["max_length"]


def test_lengths_and_symbols_are_even():
    sources = copy_task(7000, min_length=4, max_length=10).sources
    assert Counter(map(len, sources)) == dict.fromkeys(range(4, 11), 1000)
    counts = Counter("".join(sources))
    assert set(counts) == set("abcdefghij")
    assert max(counts.values()) < 1.1 * min(counts.values())
    assert len(set(map(len, sources[:40]))) == 7  # in no order


def test_all_there_are_can_be_had_and_no_more():
    every = copy_task(2 + 4 + 8, symbols="xo", min_length=1, max_length=3)
    assert len(set(every.sources)) == 14
    with pytest.raises(ValueError, match="only 14 strings of 2 symbols and length 1"):
        copy_task(15, symbols="xo", min_length=1, max_length=3)
    assert len(copy_task(3, min_length=99, max_length=99).sources[0]) == 99


@pytest.mark.parametrize("task", TASKS)
def test_the_seed_decides(task):
    assert task(19, seed=1) == task(19, seed=1) != task(19, seed=2)


def test_both_strings_and_arrays():
    sources, targets = reverse_task(23, symbols="abcde")
    ids = symbol_ids(sources, "abcde")
    assert ids.dtype == "int32" and ids.shape == (23, max(map(len, sources)))
    for row, text in zip(ids, sources, strict=True):
        assert "".join("-abcde"[i] for i in row) == text.ljust(ids.shape[1], "-")
    assert symbol_ids(targets, "abcde", length=13).shape == (23, 13)
    assert symbol_ids([]).shape == (0, 0)
    np.testing.assert_array_equal(symbol_ids(["", "c"], "cab"), [[0], [1]])
    tokenizer = CharacterTokenizer().fit("abcde")
    assert [tokenizer.decode(tokenizer.encode(text)) for text in sources] == sources


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(count=0), ValueError, "count must be at least 1"),
        (dict(symbols=5), TypeError, "symbols must be a string"),
        (dict(symbols=""), ValueError, "must be different characters"),
        (dict(symbols="aba"), ValueError, "must be different characters"),
        (dict(symbols="a b"), ValueError, "no blanks"),
        (dict(min_length=0), ValueError, "min_length must be at least 1"),
        (dict(min_length=5, max_length=4), ValueError, "max_length must be at least 5"),
    ],
)
def test_refused(task, arguments, error, message):
    with pytest.raises(error, match=message):
        task(**{"count": 1, **arguments})


def test_ids_refused():
    with pytest.raises(ValueError, match="'z', not of symbols='abc'"):
        symbol_ids(["az"], "abc")
    with pytest.raises(ValueError, match="length is 2, but a text has 3"):
        symbol_ids(["abc"], "abc", length=2)
