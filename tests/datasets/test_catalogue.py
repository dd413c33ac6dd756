import subprocess
import sys

import pytest

from kerasseq import datasets
from kerasseq.datasets import catalogue, python_reference, sample

NAMES = [
    "parentheses",
    "parentheses-plain",
    "names",
    "family",
    "python-tokens",
    "python-reference",
    "counting",
    "melodies",
    "analogies",
    "conversations",
    "morse",
    "scenes",
    "ar",
    "market",
    "weather",
    "sunspots",
    "co2",
    "named",
    "numbers-fr",
    "numbers-de",
    "corrections",
    "dates",
    "copy",
    "reverse",
    "sort",
]
PACKAGES = {
    **dict.fromkeys(["sunspots", "co2"], "statsmodels"),
    **dict.fromkeys(["numbers-fr", "numbers-de"], "num2words"),
    **dict.fromkeys(["analogies", "dates", "names"], "babel"),
}


def test_entries_are_complete():
    entries = {entry.name: entry for entry in catalogue()}
    assert list(entries) == NAMES
    for entry in entries.values():
        assert all(entry[:-1]), f"{entry.name} leaves something empty"
        assert entry.package == PACKAGES.get(entry.name)
    assert f"{len(python_reference()):,}" in entries["python-reference"].size


def test_sizes_are_true():
    pytest.importorskip("statsmodels")
    size = {entry.name: entry.size for entry in catalogue()}
    for name in ("sunspots", "co2"):
        data = datasets.series(name)
        first, last = (str(data.dates[i])[:4] for i in (0, -1))
        assert size[name].startswith(f"{len(data.values):,} ")
        assert f"{first}–{last}" in size[name]


@pytest.mark.parametrize("name", NAMES)
def test_calls_run_and_samples_show_something(name):
    entry = next(e for e in catalogue() if e.name == name)
    if entry.package:
        pytest.importorskip(entry.package)
    eval(entry.call, {**vars(datasets), "size": 3})
    lines = sample(name, count=3, seed=1)
    assert len(lines) == 3
    assert all(isinstance(line, str) and line.strip() for line in lines)
    assert lines == sample(name, count=3, seed=1) != sample(name, count=3, seed=2)


def test_samples_of_parentheses_are_labeled():
    for line in sample("parentheses", count=19):
        sequence, word = line.split("] ")
        row = [int(s) for s in sequence.strip("[").split(", ")]
        right = "balanced" if datasets.is_balanced(row) else "not balanced"
        assert word == right


@pytest.mark.parametrize(
    "name, right",
    [
        ("copy", lambda source: source),
        ("reverse", lambda source: "".join(reversed(source))),
        ("sort", lambda source: "".join(sorted(source))),
    ],
)
def test_samples_of_pairs_show_both_sides(name, right):
    for line in sample(name, count=11):
        source, target = line.split("\t")
        assert target == right(source)


def test_samples_of_numbers_are_of_their_language_and_can_be_read(tmp_path):
    pytest.importorskip("num2words")
    for name, language in (("numbers-fr", "fr"), ("numbers-de", "de")):
        file = tmp_path / name
        file.write_text("\n".join(sample(name, count=7)), encoding="utf-8")
        pairs, _ = datasets.read_pairs(file, strict=True)
        assert pairs == datasets.number_names(7, target=language)


def test_unknown_name():
    with pytest.raises(ValueError, match='Did you mean "sunspots"'):
        sample("sunspts")
    with pytest.raises(ValueError, match='not one of "parentheses"'):
        sample("zzz")
    with pytest.raises(ValueError, match="^count"):
        sample("ar", count=0)


def test_functions_are_not_hidden_by_modules_of_the_same_name():
    for name in ("parentheses", "series", "catalogue", "dates", "number_names"):
        assert callable(getattr(datasets, name))


def test_no_keras_and_nothing_else_heavy_until_needed():
    code = (
        "import sys, kerasseq.text, kerasseq.datasets as d; d.sample('ar'); "
        "d.sample('sort'); heavy = {'keras', 'tensorflow', 'jax', 'torch', 'pandas', "
        "'statsmodels', 'num2words', 'babel', 'rich', 'http'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == "[]", ran.stderr
