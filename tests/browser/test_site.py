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
    assert page.locator("div.mermaid").first.bounding_box()["height"] > 50
    page = visit("reference/recurrent/lstm.html")
    page.wait_for_selector(".katex")
    assert page.locator(".katex").count() > 10
    assert page.locator(".katex-error").count() == 0
    assert page.locator(".md-tabs__item--active").text_content().strip() == "Reference"


@pytest.mark.parametrize(
    ("start", "words", "found"),
    [
        ("index.html", "how do I save a model", "howto/save_and_load.html"),
        ("index.html", "my own data", "howto/own_data.html"),
        ("reference/models/gpt.html", "mixed precision", "howto/mixed_precision.html"),
        ("fr/index.html", "comment installer kerasseq", "fr/start/install.html"),
        ("fr/index.html", "reglages", "fr/course/01_words.html"),
        ("fr/reference/models/gpt.html", "save a model", "fr/howto/save_and_load.html"),
    ],
)
def test_first_result_of_a_search(visit, root, start, words, found):
    page = visit(start)
    page.click(".md-search__input")
    page.locator(".md-search__input").press_sequentially(words, delay=20)
    page.wait_for_function(
        "end => document.querySelector('.md-search-result__link')?.href"
        ".split(/[?#]/)[0] === end",
        arg=f"{root}/{found}",
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


def test_wide_equations_scroll_visibly(visit):
    page = visit("course/09_self_attention.html", width=390)
    page.wait_for_selector(".katex-display")
    wide = next(
        box
        for box in page.locator("div.arithmatex").all()
        if box.evaluate("box => box.scrollWidth > box.clientWidth + 100")
    )
    wide.evaluate("box => box.scrollIntoView({block: 'center'})")
    box = wide.bounding_box()
    edge = {"x": box["width"] - 2, "y": box["y"] + 3, "width": 2, "height": 4}
    shadow = page.screenshot(clip=edge)
    wide.evaluate("box => { box.scrollLeft = box.scrollWidth }")
    page.wait_for_timeout(300)
    assert page.screenshot(clip=edge) != shadow  # none where there is no more


def test_numbers_of_an_axis_on_a_phone(visit):
    found = {}
    for width in (390, 1280):
        page = visit(
            "course/figures/03_forgetting_inside_figure_light.svg", width=width
        )
        found[width] = page.locator("text:visible").all_text_contents()
    assert {"7", "8"} <= set(found[1280])
    assert "7" in found[390] and "8" not in found[390]


def test_dark(visit):
    page = visit("index.html", scheme="dark")
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in color[4:-1].split(",")) < 200
