"""Preferences, from files and from rewards."""

import gzip
import json
import math

import pytest

from kerasseq.datasets import Preferences, preferences, read_preferences

ROW = {"prompt": "é:", "chosen": "2\u20283", "rejected": "5"}
MESSAGES = [{"role": "user", "content": "Hi"}]


def line(**changes):
    row = {**ROW, **changes}
    return json.dumps({k: v for k, v in row.items() if v is not None})


@pytest.fixture
def read(tmp_path):
    def function(content, **options):
        path = tmp_path / "votes.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_preferences(path, **options)

    return function


def test_lines_are_rows(read):
    """Raw U+2028 ends no line; blank lines and other keys are skipped."""
    raw = json.dumps({**ROW, "score": 7}, ensure_ascii=False)
    text = f"\ufeff{raw}\r\n\n{line(prompt='b')}\n{line(prompt='c')}"
    wanted = Preferences(["é:", "b", "c"], ["2\u20283"] * 3, ["5"] * 3)
    assert read(text) == read(gzip.compress(text.encode())) == wanted
    assert read(raw.encode("utf-16"), encoding="utf-16").prompt == ["é:"]
    assert read(text, limit=2).prompt == ["é:", "b"]
    assert read(line(prompt=MESSAGES)).prompt == [MESSAGES]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("{'prompt'", "line 2 is damaged: it is not JSON"),
        ("[1]", r"line 2 must have the keys prompt, .* received \[1\]"),
        (line(chosen=None), "line 2 must have the keys .* without chosen$"),
        (line(prompt=""), "line 2, prompt must not be empty, received ''"),
        (line(rejected=""), "line 2, rejected must not be empty"),
        (line(rejected=ROW["chosen"]), "line 2, chosen and rejected must differ"),
        (line(prompt=3), "line 2, prompt must be a string, received 3"),
        (line(chosen=[{"role": "user"}]), r"line 2, chosen\[0\] must have role and"),
    ],
)
def test_errors_name_the_file_and_the_line(read, second, message):
    with pytest.raises((TypeError, ValueError), match=rf"votes.jsonl, {message}"):
        read(f"{line()}\n{second}\n{line()}")


def test_wrong_encodings_and_files_without_rows(read, tmp_path):
    raw = json.dumps(ROW, ensure_ascii=False)
    with pytest.raises(ValueError, match=r"votes.jsonl is not utf-8 .*line 2.*cp1252"):
        read(f"{line()}\n".encode() + raw.replace("\u2028", "").encode("cp1252"))
    with pytest.raises(ValueError, match="has no row. A line should be as in {"):
        read("\n \n")
    with pytest.raises(ValueError, match="is empty"):
        read("")
    with pytest.raises(FileNotFoundError, match="There is no file a.jsonl"):
        read_preferences(tmp_path / "a.jsonl")


def even(prompt, answer):
    return sum(digit in "02468" for digit in answer)


def test_the_better_of_two_answers_is_chosen():
    """Equal rewards and equal answers make no pair."""
    found = preferences(
        ["a:", "b:"], [["12", "22", "34"], ["77", "77", "20"]], even, votes="best"
    )
    wanted = [("a:", "22", "12"), ("a:", "22", "34"), ("b:", "20", "77")]
    assert list(zip(*found, strict=True)) == [*wanted, wanted[-1]]


def test_votes_are_drawn_by_bradley_and_terry():
    """P(first chosen) = σ(r1 − r2), within 4 standard deviations of 4,000 votes."""
    n = 4000
    for first, second in (("22", "11"), ("11", "12"), ("33", "11")):
        votes = preferences(
            ["a:"] * n, [[first, second]] * n, even, votes="bradley_terry", seed=7
        )
        p = 1 / (1 + math.exp(even("", second) - even("", first)))
        share = votes.chosen.count(first) / n
        assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / n)
    drawn = [
        preferences(["a:"] * 9, [["1", "2"]] * 9, even, votes="bradley_terry", seed=k)
        for k in (3, 3, 5)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def fails(prompt, answer):
    raise KeyError("model")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": ["a:", ""]}, r"prompts\[1\] must not be empty"),
        ({"prompts": ["a:"]}, "must have the same length, received 1 and 2"),
        (
            {"prompts": [[{"role": "me", "content": "Hi"}]] * 2},
            r"prompts\[0\]\[0\], role",
        ),
        ({"answers": [["1", "2"], ["3"]]}, r"answers\[1\] must have at least two"),
        ({"answers": [["1", "2"], ["3", ""]]}, r"answers\[1\]\[1\] must not be empty"),
        ({"answers": [["1", "2"], "34"]}, r"answers\[1\]` must be a list"),
        ({"answers": [["1", "3"]] * 2}, "received .* equal or have equal rewards"),
        ({"reward": 3}, "`reward` must be a function .* received 3"),
        ({"reward": fails}, r"return .* answers\[0\]\[0\], '1', received KeyError"),
        ({"reward": lambda p, a: float("nan")}, "must be a finite .* nan for '1'"),
        ({"reward": lambda p, a: "7"}, r"reward of answers\[0\]\[0\] must be a number"),
        ({"votes": "bradley"}, 'votes="bradley" is not one of .*"bradley_terry"'),
        ({"seed": -1}, "`seed` must be a whole number"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    given = {"prompts": ["a:", "b:"], "answers": [["1", "2"]] * 2, "reward": even}
    with pytest.raises((TypeError, ValueError), match=message):
        preferences(**{**given, **changes})
