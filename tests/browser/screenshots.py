"""Makes pictures of the labs: light, dark, French, and on a phone.

    python -m tests.browser.screenshots FOLDER [LAB[?QUERY] …]

A lab may have an address: `count?model=llama_7b`. Look at all of them.
"""

import pathlib
import sys
import tempfile

from playwright.sync_api import sync_playwright

from tests.browser.server import ROOT, launch, serving

sys.path.insert(0, str(ROOT / "apps"))
LOOKS = {
    "light": ("light", "en", 1280, "0"),
    "dark": ("dark", "en", 1280, "0"),
    "french": ("light", "fr", 1280, "0"),
    "phone": ("light", "en", 390, "0"),
    "projector": ("dark", "fr", 1600, "1"),
}


def picture(browser, address, file, scheme, language, width, projector):
    """Makes a picture of a whole page."""
    size = {"width": width, "height": 900}
    with browser.new_context(viewport=size, color_scheme=scheme) as context:
        page = context.new_page()
        sign = "&" if "?" in address else "?"
        page.goto(f"{address}{sign}lang={language}&projector={projector}")
        settle(page)
        script = "document.querySelector('[data-testid=stMain]').scrollHeight"
        height = min(8000, int(page.evaluate(script)) + 40)
        page.set_viewport_size({"width": width, "height": max(900, height)})
        page.wait_for_timeout(1500)
        page.screenshot(path=file)


def settle(page, timeout=120_000):
    """Waits until the page is drawn, and nothing is computed any more."""
    page.wait_for_selector("h1", timeout=timeout)
    page.wait_for_timeout(600)
    busy = "[data-testid=stSpinner], [data-testid=stStatusWidget]"
    page.wait_for_function(
        f"document.querySelectorAll('{busy}').length === 0", timeout=timeout
    )
    page.wait_for_timeout(600)


def main(folder, labs):
    """Makes the pictures of some labs in all looks."""
    from labs import COURSE

    existing = [n for n in COURSE if (ROOT / "apps" / "labs" / f"{n}.py").exists()]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as files,
        serving(files) as server,
        sync_playwright() as playwright,
    ):
        browser = launch(playwright)
        for lab in labs or existing:
            name, _, query = lab.partition("?")
            path = "" if name == existing[0] else name
            for look, options in LOOKS.items():
                file = folder / f"{lab.replace('?', '_').replace('&', '_')}_{look}.png"
                address = f"{server}/{path}{'?' if query else ''}{query}"
                picture(browser, address, file, *options)
                print(file, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
