"""Writes a search index of all languages, in which accents are optional.

The offline plugin writes `search_index.js` for each language, so that the last one
remains. This hook runs after all plugins and writes it from the index of all languages.
"parenthese" finds "parenthèse": words with accents are indexed without them as well.
"""

import html
import json
import pathlib
import re
import unicodedata

from mkdocs.plugins import event_priority


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


@event_priority(-200)
def on_post_build(config):
    """Adds the words to the index, as JSON and as the script for pages in files."""
    folder = pathlib.Path(config.site_dir) / "search"
    index = json.loads((folder / "search_index.json").read_text(encoding="utf-8"))
    for entry in index["docs"]:
        words = added_words(entry["title"] + " " + entry["text"])
        if words:
            entry["text"] += f"<p hidden>{' '.join(words)}</p>"
    data = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (folder / "search_index.json").write_text(data, encoding="utf-8")
    script = f"var __index = {data}"
    (folder / "search_index.js").write_text(script, encoding="utf-8")
