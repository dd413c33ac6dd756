"""Writes a search index for each language, in which accents are optional.

The plugins write one index of all pages. This hook runs after them, and divides it:
French pages search `fr/search/`, which has the English page where there is no French
one. "parenthese" finds "parenthèse": words with accents are indexed without them, too.
What answers a question comes first: how-to and course before the reference.
"""

import html
import json
import pathlib
import re
import unicodedata

from mkdocs.plugins import event_priority

FRENCH = "fr/"
BASE = re.compile(r'(<script id="__config"[^>]*>\{[^<]*?"base": )"[^"]*"')
BOOSTS = {"howto": 8, "start": 8, "course": 8, "reference": 1}  # others: 2
# Left out of questions, in which each word counts as the beginning of others; the
# name of the library is on each page.
SILENT = {
    "en": "kerasseq a about an and are at can do does for from how i in is it my of on "
    "or the to what when where which why with you",
    "fr": "kerasseq a à au aux avec comment dans de des du en est et faire il je l la "
    "le les ma mes mon ou où par pour pourquoi quand que quel quelle qu sur un une",
}


def without_accents(word):
    """Removes the accents of a word; ligatures become two letters.

    >>> without_accents("cœur à cœur, naïveté")
    'coeur a coeur, naivete'
    """
    word = word.replace("œ", "oe").replace("Œ", "Oe").replace("æ", "ae")
    parts = unicodedata.normalize("NFD", word)
    return "".join(part for part in parts if not unicodedata.combining(part))


def added_words(text):
    """Lists the words of an HTML text that have accents, without these, each once.

    >>> added_words("<p>La parenthèse, le r&eacute;seau, la parenthèse</p>")
    ['parenthese', 'reseau']
    """
    plain = html.unescape(re.sub(r"<[^>]+>", " ", text))
    words = dict.fromkeys(re.findall(r"\w+", plain.lower()))
    return [new for word in words if (new := without_accents(word)) != word]


def separator(between, words):
    """Returns the pattern of what is between words, and of words that do not count.

    >>> pattern = separator("[ .]+", "a to")
    >>> [word for word in re.split(pattern, "To save a latent.") if word]
    ['save', 'latent']
    """
    cases = [case for word in words.split() for case in (word, word.capitalize())]
    return rf"{between}|(?<![\wÀ-ÿ])(?:{'|'.join(cases)})(?![\wÀ-ÿ])"


def divided(entries):
    """Returns the entries of each language, with locations as its pages see them.

    >>> entries = [{"location": name} for name in ("a.html", "b.html#c", "fr/a.html")]
    >>> [entry["location"] for entry in divided(entries)["fr"]]
    ['a.html', 'b.html#c']
    """
    english = [e for e in entries if not e["location"].startswith(FRENCH)]
    french = [
        {**e, "location": e["location"].removeprefix(FRENCH)}
        for e in entries
        if e["location"].startswith(FRENCH)
    ]
    translated = {_page(entry) for entry in french}
    french += [dict(e) for e in english if _page(e) not in translated]
    return {"en": english, "fr": french}


def _page(entry):
    return entry["location"].partition("#")[0]


def boost(location):
    """Returns the factor of the score of a page.

    >>> [boost(page) for page in ("howto/masks.html#a", "text.html", "reference/a")]
    [8, 2, 1]
    """
    return BOOSTS.get(location.partition("/")[0], 2) if "/" in location else 2


def on_post_page(output, page, config):
    """Lets a French page find its own index: locations count from there."""
    depth = page.url.removeprefix(FRENCH).count("/")
    if page.url == page.url.removeprefix(FRENCH):
        return output
    base = "/".join([".."] * depth) or "."
    return BASE.sub(rf'\g<1>"{base}"', output, count=1)


@event_priority(-200)
def on_post_build(config):
    """Writes the indexes, as JSON and as the script for pages in files."""
    site = pathlib.Path(config.site_dir)
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    for language, entries in divided(index["docs"]).items():
        folder = site / ("" if language == "en" else language) / "search"
        folder.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            words = added_words(entry["title"] + " " + entry["text"])
            if words:
                entry["text"] += f"<p hidden>{' '.join(words)}</p>"
            entry["boost"] = boost(entry["location"])
        settings = {**index["config"], "lang": [language]}
        settings["separator"] = separator(settings["separator"], SILENT[language])
        data = {"config": settings, "docs": entries}
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        (folder / "search_index.json").write_text(text, encoding="utf-8")
        script = f"var __index = {text}"
        (folder / "search_index.js").write_text(script, encoding="utf-8")
