"""Entities are compared with the tables of conlleval, and with results by hand."""

import itertools
import re

import numpy as np
import pytest

from kerasseq.training import classification_report, entities, entity_scores

pytestmark = pytest.mark.once("Python lists: the same on all backends")

TAGS = ["O", *(f"{prefix}-{kind}" for kind in "XY" for prefix in "BIES")]


def spans(text, scheme=None):
    """The entities of tags separated by spaces, as `type start end`."""
    return [f"{e.type} {e.start} {e.end}" for e in entities(text.split(), scheme)]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-X I-X O B-Y", ["X 0 2", "Y 3 4"]),
        ("I-X I-X O", ["X 0 2"]),  # I- after O begins an entity
        ("O I-X", ["X 1 2"]),
        ("B-X I-Y I-Y", ["X 0 1", "Y 1 3"]),  # so does another type
        ("I-X I-Y", ["X 0 1", "Y 1 2"]),
        ("B-X B-X", ["X 0 1", "X 1 2"]),
        ("I-X B-X I-X", ["X 0 1", "X 1 3"]),
        ("B-X I-X E-X", ["X 0 3"]),
        ("B-X E-X I-X", ["X 0 2", "X 2 3"]),  # E- ends it
        ("E-X E-X", ["X 0 1", "X 1 2"]),
        ("E-X I-X E-X", ["X 0 1", "X 1 3"]),
        ("S-X S-X", ["X 0 1", "X 1 2"]),
        ("S-X I-X", ["X 0 1", "X 1 2"]),
        ("S-X E-X", ["X 0 1", "X 1 2"]),
        ("I-X S-X", ["X 0 1", "X 1 2"]),
        ("B-X E-Y", ["X 0 1", "Y 1 2"]),
        ("B I O I", ["_ 0 2", "_ 3 4"]),  # tags without types
        ("B-X-1 I-X-1", ["X-1 0 2"]),  # the first hyphen separates
    ],
)
def test_default_rules_by_hand(tags, expected):
    assert spans(tags) == expected


def conlleval(tags):
    """Entities by the two tables of conlleval: pairs of prefixes at start and end."""
    always_ends = {"BB", "BS", "BO", "IB", "IS", "IO"}
    always_starts = {"EE", "EI", "SE", "SI", "OE", "OI"}
    found, begin, before, kind_before = [], 0, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        pair, differs = before + prefix, kind != kind_before
        if before in "ES" or pair in always_ends or (before != "O" and differs):
            found.append((kind_before, begin, i))
        if prefix in "BS" or pair in always_starts or (prefix != "O" and differs):
            begin = i
        before, kind_before = prefix, kind
    return found


def test_default_rules_equal_the_tables_of_conlleval():
    for length in range(5):
        for tags in itertools.product(TAGS, repeat=length):
            assert entities(tags) == conlleval(tags)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-X I-X O B-Y", ["X 0 2", "Y 3 4"]),
        ("I-X I-X B-X", ["X 2 3"]),  # I- begins nothing
        ("B-X I-Y I-Y O", ["X 0 1"]),
        ("B-X I-Y I-X", ["X 0 1"]),  # and resumes nothing
        ("B-X B-X I-X", ["X 0 1", "X 1 3"]),
    ],
)
def test_strict_bio_by_hand(tags, expected):
    assert spans(tags, "bio") == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-X I-X E-X S-Y", ["X 0 3", "Y 3 4"]),
        ("B-X E-X B-X E-X", ["X 0 2", "X 2 4"]),
        ("B-X I-X O", []),  # without an end
        ("B-X B-X E-X", ["X 1 3"]),
        ("B-X S-X", ["X 1 2"]),
        ("I-X E-X", []),  # without a beginning
        ("B-X E-Y", []),
        ("B-X I-Y E-X", []),
        ("S-X I-X E-X", ["X 0 1"]),
        ("B-X E-X E-X", ["X 0 2"]),
    ],
)
def test_strict_iobes_by_hand(tags, expected):
    assert spans(tags, "iobes") == expected


@pytest.mark.parametrize(
    ("scheme", "pattern"),
    [("bio", "B-{0} (?:I-{0} )*"), ("iobes", "B-{0} (?:I-{0} )*E-{0} |S-{0} ")],
)
def test_strict_rules_equal_regular_expressions(scheme, pattern):
    known = [tag for tag in TAGS if scheme == "iobes" or tag[0] in "OBI"]
    pattern = re.compile(f"(?P<X>{pattern.format('X')})|{pattern.format('Y')}")
    for length in range(5):
        for tags in itertools.product(known, repeat=length):
            text = "".join(f"{tag} " for tag in tags)
            expected = [
                (kind, *(text[:place].count(" ") for place in found.span()))
                for found in pattern.finditer(text)
                for kind in ("X" if found["X"] else "Y")
            ]
            assert entities(tags, scheme) == expected


def test_valid_tags_mean_the_same_with_and_without_a_scheme():
    rng = np.random.default_rng(0)
    for _ in range(40):
        tags = []
        for kind in rng.choice(["O", "X", "Y"], 7):
            length = int(rng.integers(1, 4))
            inside = ["B", *"I" * (length - 2), "E"] if length > 1 else ["S"]
            tags += ["O"] if kind == "O" else [f"{prefix}-{kind}" for prefix in inside]
        bio = [tag.replace("S-", "B-").replace("E-", "I-") for tag in tags]
        assert entities(tags) == entities(tags, "iobes") == entities(bio, "bio")


def test_scores_by_hand():
    # The example of seqeval's documentation: one of two entities has a wrong end.
    true = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    near = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], true[1]]
    scores = entity_scores(true, near)
    none = {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 1}
    full = {"precision": 1.0, "recall": 1.0, "f1-score": 1.0, "support": 1}
    half = {"precision": 0.5, "recall": 0.5, "f1-score": 0.5, "support": 2}
    averages = dict.fromkeys(["micro avg", "macro avg", "weighted avg"], half)
    assert scores == {"MISC": none, "PER": full, **averages}
    # Strict: I-PER alone is an entity for the default rules only.
    true, other = [["B-PER", "I-PER"], ["B-LOC"]], [["I-PER", "I-PER"], ["B-LOC"]]
    assert entity_scores(true, other)["micro avg"]["f1-score"] == 1.0
    strict = entity_scores(true, other, scheme="bio")["micro avg"]
    assert strict == pytest.approx(
        {"precision": 1.0, "recall": 0.5, "f1-score": 2 / 3, "support": 2}
    )


def test_averages_equal_scikit_learn_for_entities_of_one_word():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    true, predicted = rng.choice(["B-X", "B-Y", "B-Z", "O"], (2, 83))
    types = ["B-X", "B-Y", "B-Z"]
    expected = metrics.classification_report(
        true, predicted, labels=types, output_dict=True
    )
    cuts = [0, 5, 5, 36, 83]  # an empty sentence, too
    parts = [
        [list(row[a:b]) for a, b in itertools.pairwise(cuts)]
        for row in (true.tolist(), predicted.tolist())
    ]
    scores = entity_scores(*parts)
    for name, values in scores.items():
        key = name if name in expected else f"B-{name}"
        assert values == pytest.approx(expected[key], abs=1e-12)


def test_types_that_occur_on_one_side_and_none_at_all():
    scores = entity_scores([["B-X", "O"]], [["O", "B-Y"]])
    assert list(scores) == ["X", "Y", "micro avg", "macro avg", "weighted avg"]
    assert [scores[kind]["support"] for kind in "XY"] == [1, 0]
    for scores in (entity_scores([["O"]], [["O"]]), entity_scores([], [])):
        assert set(scores) == {"micro avg", "macro avg", "weighted avg"}
        assert all(not any(values.values()) for values in scores.values())


def test_tags_of_words_are_labels():
    report = classification_report(["B-X", "O"], ["O", "O"])
    assert report["O"]["precision"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([["O"]], []), ValueError, "number of sentences, received 1 and 0"),
        (
            ([["O"]], [["O", "O"]]),
            ValueError,
            r"`true\[0\]` and `predicted\[0\]` must .* received 1 and 2",
        ),
        ((["O"], [["O"]]), TypeError, r"`true\[0\]` must be a list of strings"),
        (("O", "O"), TypeError, "`true` must be a list of strings"),
        (([[1]], [["O"]]), TypeError, r"`true\[0\]\[0\]` must be a string, received 1"),
        (([["O"]], [["X"]]), ValueError, r"`predicted\[0\]\[0\]` .* received 'X'"),
        (([["O-X"]], [["O"]]), ValueError, "received 'O-X'"),
        (([["L-X"]], [["O"]]), ValueError, "one of B-, I-, E-, S-"),
        (([["E-X"]], [["O"]], "bio"), ValueError, "one of B-, I-, as .* 'E-X'"),
        (([["O"]], [["O"]], "io"), ValueError, 'Did you mean "bio"'),
    ],
)
def test_invalid_tags(arguments, error, message):
    with pytest.raises(error, match=message):
        entity_scores(*arguments)
