"""House rule: phrases that do not occur in source, documentation and tests.

`PHRASES` has regular expressions with what to write instead. Matching ignores case and
line breaks.
"""

import pathlib
import re

import pytest

pytestmark = pytest.mark.once("reads the source")

ROOT = pathlib.Path(__file__).parent.parent
FOLDERS = ("kerasseq", "apps", "docs", "benchmarks", "examples", "tests")
PHRASES = {
    # Persons and personification.
    r"\b(no|some)body\b": "no caller, the user, or the passive",
    r"\bwho(so)?ever\b": "code that …, users who …",
    r"\b(have|has) (a|no) say\b": "affects, depends on, is independent of",
    r"\bsays nothing to\b": "is not used by",
    r"\bhesitates?\b|\blistens\b": "say what is computed",
    r"\blooks? nowhere\b": "is fully masked",
    r"\b(weights|files|folders|layers|models|tokenizers?) of others\b": "name them",
    r"\bdaring\b|\bsurer\b|\bbolder\b": "more random, more deterministic",
    r"\bsays? a (target|token|word)\b|\bwhat is said\b": "predicts, outputs",
    # Negation.
    r"(?<!there\s)\bis none (that|but|of(?! (these|them)))\b": "is not one of",
    r"(?-i:\b(that|which) are none\b)": "that are not, invalid",
    r"\bthat is no (number|list|text)\b": "that is not a …",
    r"\bas if (it|they|nothing) (had|were|was) never\b": "say what the state is",
    # Metaphors and literal translations.
    r"\bthe way back\b": "the backward pass",
    r"\b(writes?|goes|going|go) on from\b": "continues, resumes from",
    r"\bgo(es)? on training\b": "continues training",
    r"\bwrites? on\b": "generates a continuation",
    r"\btakes? turns\b": "in rounds, alternately",
    r"\bkin\b": "and similar models",
    r"\bdearest\b": "most expensive, slowest",
    r"\blearned on the spot\b": "trained on the text",
    r"\bbrought to a common\b": "normalized",
    r"\bnever written down\b": "never materialized",
    # British spelling.
    r"colour": "color",
    r"neighbour": "neighbor",
    r"behaviour": "behavior",
    r"\blabell(ed|ing)\b": "labeled, labeling",
    r"(normal|serial|initial|token|general|optim)is(e|ing|ation)": "-ize, -ization",
    r"\b(centre|licence|grey|programme|per cent|judgement)\b": "American spelling",
}
# Data in the words of its source, and this list.
DATA = (
    *(
        "kerasseq/text/classical/eliza/",
        "tests/text/test_eliza",
        "tests/test_language.py",
    ),
    "kerasseq/datasets/family_sentences.toml",
)
# Phrases that are still in use, by the beginning of the path.
REMAINING = {}


def found_phrases(text):
    """Yields the line, the words and what to write instead.

    >>> list(found_phrases("# For the way\\n    # back of a step."))
    [(1, 'the way back', 'the backward pass')]
    """
    # A line break with the indentation and the sign of a comment counts as one space.
    text = re.sub(r"\s*\n\s*#?\s*", lambda match: "\n" * match[0].count("\n"), text)
    text = text.replace("_", " ")
    small = text.lower()  # quicker than a pattern that ignores case
    if not (ANY.search(small) or any(exact.search(text) for exact in EXACT)):
        return
    for phrase, instead in PHRASES.items():
        pattern = spaced(phrase)
        for match in re.finditer(pattern, text if "(?-i:" in phrase else small):
            line = text.count("\n", 0, match.start()) + 1
            yield line, " ".join(match[0].lower().split()), instead


def spaced(phrase):
    """The pattern of a phrase that may run over lines."""
    return phrase.replace(" ", r"\s+")


# All in one search, as most files have none; what starts a word is tried at words only.
_loose = [spaced(phrase) for phrase in PHRASES if "(?-i:" not in phrase]
_words = [pattern[2:] for pattern in _loose if pattern.startswith(r"\b")]
_others = [pattern for pattern in _loose if not pattern.startswith(r"\b")]
ANY = re.compile("|".join([rf"\b(?:{'|'.join(_words)})", *_others]))
EXACT = [re.compile(spaced(phrase)) for phrase in PHRASES if "(?-i:" in phrase]


def problems(name, text):
    """The phrases in a file that are not among the remaining ones of its folder."""
    remaining = [
        words
        for folder, allowed in REMAINING.items()
        if name.startswith(folder)
        for words in allowed
    ]
    return [
        f'line {line}: "{words}": write {instead}'
        for line, words, instead in sorted(found_phrases(text))
        if words not in remaining
    ]


def paths():
    """The files to check."""
    found = [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "conftest.py"]
    for folder in FOLDERS:
        for suffix in ("py", "md", "toml"):
            found += (ROOT / folder).rglob(f"*.{suffix}")
    found = [path for path in found if "fr" not in path.parts]  # French texts
    names = sorted(path.relative_to(ROOT).as_posix() for path in found)
    return [name for name in names if not name.startswith(DATA)]


@pytest.mark.parametrize("folder", ["", *FOLDERS])
def test_phrases(folder):
    names = [
        name for name in paths() if name.rpartition("/")[0].split("/")[0] == folder
    ]
    found = {
        name: problems(name, (ROOT / name).read_text(encoding="utf-8"))
        for name in names
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('"""A layer.\n\nNobody calls it.\n"""', 3, "nobody"),
        ("x = 1  # for whoever reads it", 1, "whoever"),
        ("# what the way\n# back needs", 1, "the way back"),
        ("A mask that is\nnone of the masks.", 1, "is none of"),
        ("def test_the_way_back(): pass", 1, "the way back"),
        ("GREY_COLOUR = 1", 1, "colour"),
        ("the text is normalised", 1, "normalise"),
        ("below 1 surer, above 1 more daring", 1, "surer"),
        ("it continues as if it had never stopped", 1, "as if it had never"),
        ("Weights of\n    others, read", 1, "weights of others"),
    ],
)
def test_planted_phrases_are_found(text, line, words):
    assert (line, words) in [found[:2] for found in found_phrases(text)]
    assert problems("kerasseq/new/file.py", text)


@pytest.mark.parametrize(
    "text",
    [
        "masks are None, colors are gray, and neighbors are normalized",
        "The centered kernel of license-free data; skinny kinds of likeness",
        "the backward pass; on the way to the front; back of the line",
    ],
)
def test_other_text_passes(text):
    assert problems("kerasseq/new/file.py", text) == []
