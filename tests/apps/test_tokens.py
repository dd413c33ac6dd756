"""Letters of several bytes, and text from right to left, in boxes."""

import html
import re

import pytest

from parts import attention, pieces, strips, vision
from parts.style import Style
from tests.apps import pages

pytestmark = pytest.mark.once("text")
HEBREW = "שלום שלום עולם"


def boxes(page, name):
    """The pieces in the boxes of a page, by the order of the strips."""
    found = [h.value for h in page.get("html") if "display:flex" in h.value]
    return [
        html.unescape(p) for p in re.findall(r"px solid [^>]*>([^<]*)<", found[name])
    ]


def read(shown):
    """The text of pieces, some of which are bytes."""
    parts = re.split("⟨(..)⟩", "".join(shown))
    parts[1::2] = map(bytes.fromhex, parts[1::2])
    parts[::2] = map(str.encode, parts[::2])
    return b"".join(parts).decode()


@pytest.mark.parametrize("text", ["né à", "日本 ok", "🙂🙂", HEBREW])
def test_each_byte_is_shown_once(text):
    from kerasseq.text import BytePairTokenizer

    shown = pieces.of(BytePairTokenizer(256).fit("a"), text)
    assert len(shown) == len(text.encode())
    assert read(shown) == text
    tokenizer = BytePairTokenizer(400).fit(f"{text} " * 9)
    assert read(pieces.of(tokenizer, text)) == text


def test_all_bytes_of_texts_have_a_symbol():
    assert set(pieces._byte_of().values()) == {*range(256)} - {
        0xC0,
        0xC1,
        *range(0xF5, 256),
    }
    assert pieces.readable("<s>♥") == "<s>♥"


def test_merges_of_letters_that_are_cut():
    page = pages.open_lab("tokens", text="té té té", merges="0")
    letters = ["t", "⟨C3⟩", "⟨A9⟩"]
    assert boxes(page, 0) == [*letters, "·", *letters, "·", *letters]
    page = pages.open_lab("tokens", text="té té té", merges="2")
    assert "é" in "".join(boxes(page, 0)) and "⟨" not in "".join(boxes(page, 0))
    assert not any("Ã" in m.value for m in page.markdown)
    page = pages.open_lab("tokens", view="compare", sentence="Ġ naïve")
    assert "".join(boxes(page, 1)).replace("⟨C3⟩⟨AF⟩", "ï") == "⟨C4⟩⟨A0⟩·naïve"


def test_labels_of_models_show_bytes(models):
    folder = models("attention")
    tokens = attention.heads(folder, "né à")["tokens"]
    assert tokens == ["n", "⟨C3⟩", "⟨A9⟩", "·", "⟨C3⟩", "⟨A0⟩"]
    from kerasseq.text import BytePairTokenizer

    tokenizer = BytePairTokenizer(256).fit("a")
    assert vision._tokens(tokenizer, "éa", ["é", "é", "a"]) == ["⟨C3⟩", "⟨A9⟩", "a"]


@pytest.mark.parametrize(
    ("found", "direction"), [(["ש", "לום"], "rtl"), (["12", "ab"], "ltr"), ([], "ltr")]
)
def test_right_to_left_text_runs_right_to_left(found, direction):
    assert f'<div dir="{direction}"' in strips.boxes(Style(), found)
