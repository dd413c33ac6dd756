"""Makes the pictures that a page shows while its model trains.

    python -m tests.browser.pictures FOLDER [LAB_VIEW …]

FOLDER is one of the app in which the models are trained (`kerasseq app --prepare`, with
the variable KERASSEQ_APP_RUNS). The pictures go to apps/pictures; look at all of them.
"""

import contextlib
import io
import sys

from PIL import Image
from playwright.sync_api import TimeoutError, sync_playwright

from tests.browser.screenshots import settle
from tests.browser.server import launch, serving

VIEWS = {  # of each lab, with the choice that sets them: those that need models
    "gates": ("task", "race", "text"),
    "language_model": ("view", "next", "write", "surprise", "compare"),
    "translation": ("view", "align", "lengths", "forcing", "beam"),
    "attention": ("view", "steps", "heads", "cross"),
    "positions": ("view", "beyond"),
    "tokens": ("view", "vectors"),
    "bert": ("view", "hole", "next", "tuning", "training"),
    "vision": ("view", "image", "texts"),
}
FIGURES = "[data-testid=stVegaLiteChart]"
PATIENCE = 60_000  # milliseconds until the first figure
WIDTH, HEIGHT = 1100, 900  # pixels of a picture, at most


def picture(page):
    """Returns the first figures of a page, as many as fit, as an image; or None."""
    drawn = f"{FIGURES} canvas, {FIGURES} svg"
    with contextlib.suppress(TimeoutError):
        page.wait_for_selector(drawn, timeout=PATIENCE)
    page.wait_for_timeout(2500)  # for the others
    boxes = [figure.bounding_box() for figure in page.locator(FIGURES).all()]
    boxes = [box for box in boxes if box and box["width"] and box["height"]]
    if not boxes:
        return None
    top = min(box["y"] for box in boxes)
    inside = [b for b in boxes if b["y"] + b["height"] - top <= HEIGHT] or boxes[:1]
    left = min(box["x"] for box in inside)
    right = max(box["x"] + box["width"] for box in inside)
    bottom = max(box["y"] + box["height"] for box in inside)
    clip = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    image = Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True)))
    image = image.convert("RGB")
    image.thumbnail((WIDTH, HEIGHT))
    return image


def main(folder, wanted):
    """Makes the pictures of the views in both languages."""
    sys.path.insert(0, "apps")
    from parts import prepared

    with serving(folder) as server, sync_playwright() as playwright:
        browser = launch(playwright)
        for lab, (choice, *views) in VIEWS.items():
            for view in views:
                if wanted and f"{lab}_{view}" not in wanted:
                    continue
                for language in ("en", "fr"):
                    size = {"width": 1280, "height": 4000}
                    page = browser.new_page(viewport=size, color_scheme="light")
                    page.goto(f"{server}/{lab}?{choice}={view}&lang={language}")
                    settle(page)
                    image = picture(page)
                    page.close()
                    if image is None:
                        print(f"no figure in {lab} {view}", flush=True)
                        continue
                    file = prepared.picture(lab, view, language)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    image.save(file, quality=60, method=6)
                    print(file, file.stat().st_size, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
