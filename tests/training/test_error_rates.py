import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.training import character_error_rate, word_error_rate
from kerasseq.training.error_rates import edit_distance

pytestmark = pytest.mark.once("strings")
WORDS = st.text("abc", max_size=6)


def slow_distance(a, b):
    """The definition, by its three cases."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        slow_distance(a[1:], b) + 1,
        slow_distance(a, b[1:]) + 1,
        slow_distance(a[1:], b[1:]) + (a[0] != b[0]),
    )


@given(WORDS, WORDS)
def test_the_distance_is_that_of_the_definition(a, b):
    assert edit_distance(a, b) == slow_distance(a, b)


def test_rates_are_of_the_corpus():
    texts, references = ["a bc d", "", "xyz"], ["a b d", "hello", "xyz"]
    assert character_error_rate(texts, references) == (1 + 5 + 0) / (5 + 5 + 3)
    assert word_error_rate(texts, references) == (1 + 1 + 0) / (3 + 1 + 1)
    assert character_error_rate(["aaaa"], ["b"]) == 4  # above 1


@pytest.mark.parametrize(
    ("rate", "texts", "references", "message"),
    [
        (
            character_error_rate,
            ["a", "b"],
            ["a", ""],
            r"references\[1\] must have .* ch",
        ),
        (word_error_rate, ["a", "b"], ["a", " "], r"references\[1\] must have .* word"),
        (word_error_rate, ["a"], [], "received 1 texts and 0 references"),
        (character_error_rate, [], [], "received 0 texts and 0 references"),
        (
            character_error_rate,
            ["a", 3],
            ["a", "b"],
            r"texts\[1\] must be .* received 3",
        ),
    ],
)
def test_bad_input_names_the_row(rate, texts, references, message):
    with pytest.raises((TypeError, ValueError), match=message):
        rate(texts, references)
