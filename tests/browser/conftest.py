"""A server and a browser for the tests that need a real one."""

import pathlib

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="the browser tests need playwright"
)
pytest.importorskip("streamlit", reason="the browser tests need Streamlit")

from tests.browser.server import DEBIAN, launch, serving  # noqa: E402


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium; without one the tests are skipped, and say so."""
    with playwright.sync_playwright() as made:
        if not (
            pathlib.Path(DEBIAN).exists()
            or pathlib.Path(made.chromium.executable_path).exists()
        ):
            pytest.skip("no Chromium: apt-get install chromium, or playwright install")
        found = launch(made)
        yield found
        found.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder in which the app of these tests keeps its files."""
    return tmp_path_factory.mktemp("app")


@pytest.fixture(scope="session")
def address(browser, folder):
    """The address of a server of the app."""
    with serving(folder) as found:
        yield found


class Requests(list):
    """The addresses that a page asked for."""

    def outside(self, address):
        """Those that leave this machine."""
        inside = (address, address.replace("http", "ws"), "data:", "blob:", "about:")
        return [url for url in self if not url.startswith(inside)]


@pytest.fixture
def visit(browser, address):
    """Opens pages, each in a browser of its own; none may ask another machine."""
    contexts = []

    def open_page(path="", **options):
        context = browser.new_context(viewport={"width": 1280, "height": 1400})
        context.set_default_timeout(60_000)
        page = context.new_page()
        requests = Requests()
        page.on("request", lambda request: requests.append(request.url))
        contexts.append((context, requests))
        page.goto(f"{address}/{path}")
        page.wait_for_selector("h1")
        return page

    yield open_page
    for context, requests in contexts:
        context.close()
        assert requests.outside(address) == []
