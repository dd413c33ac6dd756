"""What AppTest cannot see: the page in a real browser, and a real training."""

import dataclasses
import json
import re
import time

import keras
import pytest
from playwright.sync_api import expect

from kerasseq import datasets
from parts import prepared, runs
from tests.apps.drawings import drawing
from tests.apps.tiny_models import MAKERS, RESULTS
from tests.browser.screenshots import settle

PATIENCE = 120  # seconds, on a busy machine
expect.set_options(timeout=PATIENCE * 1000)
pytestmark = pytest.mark.once("one backend trains, in a browser")


def bars(page):
    return [
        bar.inner_text() for bar in page.query_selector_all("[data-testid=stProgress]")
    ]


def wait_for(page, condition, seconds=2 * PATIENCE):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"it never happened; {bars(page)}")


def chart(page):
    """The first figure of the page."""
    return page.locator("[data-testid=stVegaLiteChart]").first


def has_address(page, *parts):
    """Waits until the address has some parameters."""
    wait_for(page, lambda: all(part in page.url for part in parts))


def steps(page):
    """The steps that each run has done."""
    return [int(m[1]) for bar in bars(page) if (m := re.search(r"(\d+)/\d+", bar))]


def test_train_stop_reload_continue_and_two_users(visit):
    page = visit("race?steps=10000&units=4&cells=elman~lstm")
    page.get_by_role("button", name="Start the race").click()
    wait_for(page, lambda: len(steps(page)) == 2 and min(steps(page)) > 20)
    expect(chart(page)).to_be_visible()
    before = steps(page)
    wait_for(page, lambda: steps(page) > before)  # live

    other = visit("race")
    settle(other)
    assert bars(other) == []

    page.reload()
    wait_for(page, lambda: len(bars(page)) == 2)
    stop = page.get_by_role("button", name="Stop")
    for left in (1, 0):
        stop.first.click()
        expect(stop).to_have_count(left)
    wait_for(page, lambda: [bar.count("stopped") for bar in bars(page)] == [1, 1])
    stopped = steps(page)
    page.get_by_role("button", name="Continue").first.click()
    # The bars are away while the page is drawn anew.
    wait_for(page, lambda: len(steps(page)) == 2 and steps(page)[:1] > stopped[:1])
    assert steps(page)[1] == stopped[1]
    page.get_by_role("button", name="Stop").first.click()
    wait_for(page, lambda: [bar.count("stopped") for bar in bars(page)] == [1, 1])
    page.get_by_role("button", name="Remove all").click()
    wait_for(page, lambda: bars(page) == [])


def test_a_string_of_ones_own_is_stepped_through(visit):
    page = visit("race?steps=100&units=4&cells=lstm&lengths=4~20")
    page.get_by_role("button", name="Start the race").click()
    page.get_by_role("heading", name="A string of your own").wait_for(timeout=180_000)
    box = page.get_by_label("String", exact=True)
    box.fill("(())")
    box.press("Enter")
    expect(page.get_by_text("So far: (()) is balanced.")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_text("So far: (() is not balanced.")).to_be_visible()
    has_address(page, "string=%28%28%29%29", "at=3")


def test_byte_pair_encoding_is_stepped_and_shown_on_hover(visit):
    page = visit("tokens?merges=3")
    page.get_by_role("button", name="Forward").click()
    expect(page.get_by_text(re.compile("Merge: i and s become is"))).to_be_visible()
    has_address(page, "merges=4")
    chart(page).hover()
    expect(page.locator("#vg-tooltip-element")).to_contain_text("Tokens")
    page.go_back()
    expect(page.get_by_text(re.compile("Merge: e and r become er"))).to_be_visible()


def test_language_menu_back_and_an_address_from_a_slide(visit):
    page = visit("count?model=bloom")
    page.get_by_role("radio", name="Français").click()
    expect(page.get_by_role("heading", name="Compter", exact=True)).to_be_visible()
    has_address(page, "model=bloom", "lang=fr")
    page.get_by_role("link", name="Tokens").first.click()
    expect(page.get_by_role("heading", name="Tokens · ")).to_be_visible()
    expect(page.get_by_text("Chaque fusion raccourcit le texte")).to_be_visible()
    has_address(page, "tokens", "lang=fr")
    assert "model" not in page.url
    page.go_back()
    expect(page.get_by_role("heading", name="Compter", exact=True)).to_be_visible()
    expect(page.get_by_role("combobox", name="Modèle")).to_have_value("BLOOM")
    page.reload()
    expect(page.get_by_role("heading", name="Compter", exact=True)).to_be_visible()
    expect(page.get_by_role("combobox", name="Modèle")).to_have_value("BLOOM")


TRAINED_FIRST = ("bert", "gates", "language_model", "translation", "vision")
EXAMPLES = {  # one of each lab that has some
    "attention": "E:575",
    "bert": "A:1203",
    "count": "E:168",
    "gates": "C:130",
    "gradients": "D:176",
    "language_model": "C:440",
    "positions": "A:745",
    "race": "C:169",
    "tokens": "E:993",
    "translation": "D:452",
    "vision": "A:1276",
}


@pytest.mark.full("the pages are read without a browser")
@pytest.mark.parametrize("language", ["en", "fr"])
def test_an_address_opens_an_example_of_the_slides(visit, folder, language):
    assert {*EXAMPLES} == {example.lab for example in datasets.slides()}
    for name, recipe in prepared.recipes().items():
        if name.startswith(TRAINED_FIRST) and recipe.words[0] in MAKERS:
            place(folder, name)
    for lab, name in EXAMPLES.items():
        page = visit(f"{lab}?example={name}&lang={language}")
        example = datasets.slides(name)
        title = example.title_fr if language == "fr" else example.title
        card = page.locator("p", has_text=title).filter(has=page.locator("strong"))
        expect(card).to_be_visible()
        if example.numbers:
            expect(page.get_by_role("table").first).to_be_visible()
        settle(page)
        expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)
        assert f"example={name.replace(':', '%3A')}" in page.url


def test_the_notebook_and_the_table_are_downloaded(visit):
    page = visit("tokens")
    with page.expect_download() as made:
        page.get_by_role("button", name="Open as notebook").click()
    assert made.value.suggested_filename == "kerasseq_tokens.ipynb"
    page.get_by_text("The values as a table").click()
    settle(page)  # a click is lost where the page is drawn again
    with page.expect_download() as made:
        page.locator("[data-testid=stDownloadButton] button").first.click()
    assert made.value.suggested_filename == "kerasseq_tokens_curve.csv"


def test_controls_are_reached_by_keyboard(visit):
    page = visit("tokens?merges=3")
    settle(page)
    slider = page.get_by_role("slider", name="Merges")
    slider.focus()
    slider.press("ArrowRight")
    expect(page.get_by_text(re.compile("Merge: i and s become is"))).to_be_visible()


def test_a_link_of_a_run_has_no_key(visit):
    page = visit("race")
    settle(page)

    def cookies():
        return [c for c in page.context.cookies() if c["name"] == "kerasseq_browser"]

    wait_for(page, cookies)
    (cookie,) = cookies()
    assert cookie["value"] not in page.url
    assert cookie["sameSite"] == "Strict"


def test_a_digit_is_drawn_and_stays_in_the_address(visit, folder):
    for name in ("vision_digits", "vision_names"):
        place(folder, name)
    page = visit("vision")
    settle(page)
    canvas = page.get_by_role("img", name="Draw a digit")
    expect(canvas).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("There is no picture yet")).to_be_visible()
    box = canvas.bounding_box()
    for stroke in drawing(4):
        points = [
            (box["x"] + x / 256 * box["width"], box["y"] + y / 256 * box["height"])
            for x, y in stroke
        ]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point)
        page.mouse.up()
    wait_for(page, lambda: page.url.partition("drawing=")[2].count(".") == 1)
    expect(page.get_by_text("From picture to patches")).to_be_visible()
    link = page.url
    page.goto(link)  # as from a slide
    expect(page.get_by_text("From picture to patches")).to_be_visible()
    assert page.url == link


def place(folder, name, seed=2):
    """Writes a small model where the app looks for a trained one.

    The seed gives the recurrent one weights with which a gate that is forced open or
    shut moves the probability by 0.006; with others three digits do not show it.
    """
    keras.utils.set_random_seed(seed)
    recipe = prepared.recipes()[name]
    run = folder / "runs" / runs.EVERYBODY / recipe.id("torch")
    (run / recipe.part).mkdir(parents=True, exist_ok=True)
    run.with_suffix(".json").write_text(
        json.dumps(dataclasses.asdict(recipe.request("torch")))
    )
    MAKERS[recipe.words[0]](recipe).save(run / recipe.part / "model.keras")
    (run / "results.json").write_text(json.dumps(RESULTS.get(recipe.words[0], {})))


def probabilities(page):
    """What the network of the lab Gates decides, unchanged and forced."""
    pattern = r"P\(balanced\), unchanged\s+([\d.]+)\s+P\(balanced\), forced\s+([\d.]+)"
    found = re.search(pattern, page.inner_text("[data-testid=stMain]"))
    return found and [float(number) for number in found.groups()]


def test_a_gate_is_forced(visit, folder):
    place(folder, "gates_race_lstm")
    page = visit("gates?string=%28%28%29%29&symbols=1~4")
    wait_for(page, lambda: probabilities(page))
    unchanged, zero = probabilities(page)
    page.get_by_role("radiogroup", name="to").get_by_text("1").click()
    has_address(page, "value=1")
    wait_for(page, lambda: probabilities(page)[1] != zero)
    assert probabilities(page)[0] == unchanged


def test_the_alignment_is_shown_on_hover(visit, folder):
    place(folder, "translation_dates_bahdanau")
    page = visit("translation")
    title = page.get_by_text("The characters read for each character written")
    expect(title).to_be_visible()
    settle(page)
    chart(page).hover()
    expect(page.locator("#vg-tooltip-element")).to_contain_text(re.compile(r"0\.\d"))


def test_an_upload_that_is_too_large_is_refused(visit):
    page = visit("language_model?corpus=own")
    settle(page)
    large = {"name": "war.txt", "mimeType": "text/plain", "buffer": b"a" * 2_100_000}
    page.locator("input[type=file]").set_input_files(large)
    expect(page.get_by_text(re.compile("war.txt is too large"))).to_be_visible()
    page.get_by_role("link", name="Count").first.click()
    expect(page.get_by_role("heading", name="Count", exact=True)).to_be_visible()
