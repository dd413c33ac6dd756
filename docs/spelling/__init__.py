"""Checks the spelling of the pages and of the docstrings: `python -m docs.spelling`.

Needs Debian's hunspell with its dictionaries of American English and French. Words that
they lack and that are right are in `words.txt`, one a line, for both languages.
"""

import pathlib
import re
import shutil
import subprocess

from docs.spelling.prose import of_docstrings, of_page

ROOT = pathlib.Path(__file__).parents[2]
WORDS = pathlib.Path(__file__).with_name("words.txt")
ELISION = re.compile(r"^(?:[cdjlmnst]|qu)'|'s$", re.IGNORECASE)
DICTIONARIES = {"en": "en_US", "fr": "fr_FR"}
EITHER = "either"  # the references of a French page: titles in both languages
REFERENCES = re.compile(r"^## .*\{ #references \}$", re.MULTILINE)


def available():
    """Whether hunspell and both dictionaries are installed."""
    if shutil.which("hunspell") is None:
        return False
    return all(
        _hunspell(name, "word").returncode == 0 for name in DICTIONARIES.values()
    )


def _hunspell(dictionary, text):
    """Runs hunspell over a text; it prints the misspelled words."""
    command = ["hunspell", "-l", "-i", "utf-8", "-d", dictionary]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def misspelled(language, prose):
    """Lists the words of a prose that neither dictionary nor `words.txt` has."""
    if language == EITHER:
        wrong = [set(misspelled(name, prose)) for name in DICTIONARIES]
        return sorted(set.intersection(*wrong))
    known = set(WORDS.read_text(encoding="utf-8").split())
    prose = prose.replace("’", "'")
    found = _hunspell(DICTIONARIES[language], prose).stdout.split("\n")
    bare = {ELISION.sub("", word.strip(".'-")) for word in found}
    return sorted(word for word in bare if word and word not in known)


def texts():
    """Yields the language, the name and the prose of all files that are checked."""
    readme = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for language in DICTIONARIES:
        pages = sorted((ROOT / "docs" / "pages" / language).rglob("*.md"))
        for page in pages + (readme if language == "en" else []):
            name, text = str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
            text, *references = REFERENCES.split(text)
            yield language, name, of_page(text)
            for part in references:
                yield EITHER if language == "fr" else "en", name, of_page(part)
    for module in sorted((ROOT / "kerasseq").rglob("*.py")):
        name = str(module.relative_to(ROOT))
        yield "en", name, of_docstrings(module.read_text(encoding="utf-8"))


def problems(checked=None):
    """Returns the misspelled words of each file that has some.

    All files of a language are checked at once; each word is then looked for.
    """
    checked = list(texts() if checked is None else checked)
    found = {}
    for language in (*DICTIONARIES, EITHER):
        own = [(name, prose) for lang, name, prose in checked if lang == language]
        for word in misspelled(language, "\n".join(prose for _, prose in own)):
            pattern = re.compile(rf"\b{re.escape(word)}\b")
            for name, prose in own:
                if pattern.search(prose.replace("’", "'")):
                    found.setdefault(name, []).append(word)
    return found
