"""The site of the documentation: built strictly and without network."""

import json
import re

import keras
import pytest

pytest.importorskip("mkdocs", reason="the site needs the extra docs")
pytestmark = pytest.mark.once("the documentation")

# What a browser loads: sources, style sheets and icons, but not the targets of links.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*?\ssrc=["']?([^"'\s>]+)"""
    r"""|<link\b[^>]*?\shref=["']?([^"'\s>]+)"""
    r"""|url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""",
    re.IGNORECASE,
)
OUTSIDE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)


def loaded(text):
    """Lists what a page or style sheet loads.

    >>> loaded('<script src="//a.b/c.js"></script><a href="http://d.e">f</a>')
    ['//a.b/c.js']
    """
    return ["".join(match) for match in LOADED.findall(text)]


def test_loaded_finds_requests():
    assert loaded("@import 'https://a.b/c.css'; d { e: url(//f.g/h.woff) }") == [
        "https://a.b/c.css",
        "//f.g/h.woff",
    ]


def test_nothing_is_loaded_from_outside(site):
    files = [path for path in site.rglob("*") if path.suffix in {".html", ".css"}]
    assert len(files) > 50
    for path in files:
        for target in loaded(path.read_text(encoding="utf-8")):
            assert not OUTSIDE.match(target), f"{path}: {target}"
            name = re.split("[?#]", target)[0]
            # A server shows the page 404 at any address, so its paths are absolute.
            if path.name != "404.html" and name and not target.startswith("data:"):
                assert (path.parent / name).exists(), f"{path}: {target}"


def index_of(folder):
    """The search index of a language: settings, and entries by their location."""
    data = (folder / "search" / "search_index.json").read_text(encoding="utf-8")
    script = (folder / "search" / "search_index.js").read_text(encoding="utf-8")
    assert script == f"var __index = {data}"
    index = json.loads(data)
    return index["config"], {entry["location"]: entry for entry in index["docs"]}


def test_each_language_has_an_index(site):
    config, english = index_of(site)
    assert config["lang"] == ["en"]
    assert "balanced" in english["start/first_model.html"]["text"]
    assert not [location for location in english if location.startswith("fr/")]
    config, french = index_of(site / "fr")
    assert config["lang"] == ["fr"]
    text = french["start/first_model.html"]["text"]
    assert "équilibrée" in text and "equilibree" in text
    for location in ("howto/save_and_load.html", "reference/models/gpt.html"):
        assert french[location] == english[location]  # not translated
    pages = ("howto/masks", "layers", "reference/text")
    assert [english[f"{page}.html"]["boost"] for page in pages] == [8, 2, 1]
    for location in french:
        assert (site / "fr" / location.partition("#")[0]).exists()


def test_pages_of_the_reference_are_small(site):
    pages = [*(site / "reference").rglob("*.html")]
    assert len(pages) > 150
    assert [page for page in pages if page.stat().st_size > 400_000] == []
    members = set()
    for page in (site / "reference" / "models").iterdir():
        text = page.read_text(encoding="utf-8")
        members |= set(re.findall(r'id="kerasseq\.models\.\w+\.(\w+)"', text))
    public = {"compile", "evaluate", "export", "fit", "metrics", "predict", "quantize"}
    assert members & set(dir(keras.Model)) == public
    assert {"classify", "generate", "translate"} <= members


@pytest.mark.parametrize("page", ["index", "start/install", "reference/recurrent"])
def test_the_switch_stays_on_the_page(site, page):
    for own, other, language in [("", "fr/", "fr"), ("fr/", "", "en")]:
        path = site / f"{own}{page}.html"
        text = path.read_text(encoding="utf-8")
        link = re.search(rf'<a href="([^"]+)" hreflang="{language}"', text)[1]
        assert (path.parent / link).resolve() == site / f"{other}{page}.html"


def test_only_pages_with_diagrams_load_mermaid(site):
    assert "mermaid.min.js" in (site / "reference" / "recurrent.html").read_text()
    assert "mermaid.min.js" not in (site / "index.html").read_text()


def test_licenses_are_beside_what_is_included(site):
    assets = site / "assets"
    for name in ("katex/LICENSE", "mermaid/LICENSE", "js/LICENSE-iframe-worker"):
        assert "Permission is hereby granted" in (assets / name).read_text()
