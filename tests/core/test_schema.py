"""Schemas of files: what fits, and what the message says of what does not."""

import json

import pytest

from kerasseq.core.schema import Maybe, check

pytestmark = pytest.mark.once("plain Python: the same on all backends")


@pytest.mark.parametrize(
    ("content", "schema"),
    [
        ("a", str),
        (3, float),
        (-(10**30), int),
        (None, str | None),
        (None, Maybe([int])),
        ([], [int]),
        ([[1], []], [[int]]),
        (["a", 1, None], (str, int, int | None)),
        ({"a": 1}, {"a": int, "b?": str}),
        ({"a": 1, "c": 2}, {str: int}),
        ([object], [object]),
    ],
)
def test_fits(content, schema):
    assert check(content, schema) is content


@pytest.mark.parametrize(
    ("content", "schema", "message"),
    [
        (True, int, "expected a whole number, received True"),
        (1, bool, "expected true or false, received 1"),
        (float("nan"), float, "expected a number, received nan"),
        (10**400, float, "expected a number, received 1000"),
        (True, float, "expected a number, received True"),
        ("3", int | None, "expected a whole number or null, received '3'"),
        ("ab", [str], "expected a list, received 'ab'"),
        ({"v": ["a", 7]}, {"v": [str]}, "v[1]: expected a string, received 7"),
        ([["a", 1]], [(str, str)], "[0][1]: expected a string, received 1"),
        ([["a"]], [(str, str)], "[0]: expected a list of 2, received ['a']"),
        ({"m": {}}, {"m": {"n": int}}, 'm: expected the key "n", received "n" nowhere'),
        ({"m": 1, "n": 1}, {"n": int}, 'expected the keys n, received "m"'),
        ({"a": {"b": "x"}}, {str: {str: int}}, "a.b: expected a whole number"),
        ([], {"n": int}, "expected a table, received []"),
        ("x" * 99, int, "…"),
    ],
)
def test_does_not_fit(content, schema, message):
    with pytest.raises((TypeError, ValueError)) as error:
        check(content, schema)
    assert message in str(error.value)
    assert len(str(error.value)) < 160


def test_a_long_list_is_quick():
    tokens = json.loads(json.dumps([f"token{n}" for n in range(200_000)]))
    assert check(tokens, [str]) is tokens
