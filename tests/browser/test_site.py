"""The site of the documentation in a real browser: from files and from a server."""

import functools
import http.server
import threading

import pytest

from tests.processes import ROOT

pytest.importorskip("mkdocs", reason="the site needs the extra docs")
pytestmark = pytest.mark.once("a browser shows the documentation")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, *args):
        """Prints no line for a request."""


@pytest.fixture(scope="module", params=["files", "server"])
def root(request, site):
    """The address of the site, first in files, then on a server."""
    if request.param == "files":
        yield site.as_uri()
        return
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def visit(browser, root):
    """Opens pages; none may ask another machine, or raise an error."""
    contexts, outside, errors = [], [], []

    def record(request):
        if not request.url.startswith((root, "data:", "blob:", "about:")):
            outside.append(request.url)

    def open_page(path, width=1280, scheme="light"):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("request", record)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{root}/{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert outside == [] and errors == []


def test_equations_and_diagrams(visit):
    page = visit("reference/recurrent.html")
    page.wait_for_selector("div.mermaid")  # replaces the source of a diagram
    page.wait_for_function("!document.querySelector('pre.mermaid')")
    source = (ROOT / "docs/pages/en/reference/recurrent.md").read_text()
    assert page.locator("div.mermaid").count() == source.count("```mermaid") >= 4
    assert page.locator(".katex").count() > 100
    assert page.locator(".katex-error").count() == 0
    assert page.locator("div.mermaid").first.bounding_box()["height"] > 50


@pytest.mark.parametrize(
    ("start", "word", "found"),
    [
        ("index.html", "peephole", "reference/recurrent.html"),
        ("index.html", "balanced", "/start/first_model.html"),
        ("fr/index.html", "parenthèse", "fr/start/first_model.html"),
        ("fr/index.html", "parenthese", "fr/start/first_model.html"),
        ("fr/index.html", "reglages", "fr/start/where.html"),
        ("index.html", "etudiant", "fr/index.html"),
    ],
)
def test_search(visit, start, word, found):
    page = visit(start)
    page.click(".md-search__input")
    page.locator(".md-search__input").press_sequentially(word, delay=20)
    page.wait_for_selector(
        f".md-search-result__link[href*='{found}']", state="attached"
    )


def test_the_switch_of_the_language(visit):
    page = visit("start/install.html")
    page.hover(".md-select button")
    page.click("a[hreflang=fr]")
    page.wait_for_url("**/fr/start/install.html")
    assert page.locator("html").get_attribute("lang") == "fr"
    page.hover(".md-select button")
    page.click("a[hreflang=en]")
    page.wait_for_url(
        lambda url: url.endswith("start/install.html") and "/fr/" not in url
    )


@pytest.mark.parametrize(
    "path", ["index.html", "reference/recurrent.html", "slides.html"]
)
def test_phone(visit, path):
    page = visit(path, width=390)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_dark(visit):
    page = visit("index.html", scheme="dark")
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in color[4:-1].split(",")) < 200
