"""The lab What a window costs: its layers, its counts, and its answers."""

import numpy as np
import pytest

from parts import windows
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]
SIZES = {"window": 4, "first": 0, "block": 8, "rank": 5, "hashes": 2}
T = 32


def test_who_reads_whom_is_that_of_the_layers():
    distance = np.abs(np.subtract.outer(np.arange(T), np.arange(T)))
    read = {kind: windows.weights(kind, T, SIZES) > 0 for kind in windows.KINDS}
    np.testing.assert_array_equal(read["window"], distance < 4)
    np.testing.assert_array_equal(read["span"], distance < 4 + windows.RAMP)
    assert read["dense"].all() and read["blocks"].all()
    assert read["low_rank"].shape == (T, 5) and read["low_rank"].all()
    assert 0.1 < read["hashes"].mean() < 0.95
    more = windows.weights("hashes", T, SIZES | {"hashes": 4}) > 0
    assert more.mean() > read["hashes"].mean()
    cross = windows.weights("window", T, SIZES | {"window": 1, "first": 1}) > 0
    assert cross.sum() == 94


def test_the_costs_are_those_of_the_answers():
    def last(kind, **changes):
        return windows.costs(kind, SIZES | changes)[-1]

    assert last("dense")["multiplications"] == 4_194_304
    assert last("window", window=8)["multiplications"] == 121_984
    assert last("blocks")["multiplications"] == last("dense")["multiplications"]
    assert (last("blocks")["kept"], last("dense")["kept"]) == (4096, 262_144)
    assert last("low_rank")["kept"] == 5 * 512


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_windows_reach_as_far_as_the_equation_says(layers):
    found = windows.reach("window", 48, SIZES, layers)
    far = layers * (SIZES["window"] - 1)
    assert found["shares"] == [float(d <= far) for d in range(48)]
    assert windows.reach("low_rank", 48, SIZES, layers)["pairs"].all()


def test_a_global_token_joins_all_in_two_layers():
    options = SIZES | {"first": 1}
    assert not windows.reach("window", 48, options, 1)["pairs"].all()
    assert windows.reach("window", 48, options, 2)["pairs"].all()
    assert (
        round(100 * (1 - windows.reach("window", 48, SIZES, 3)["pairs"].mean())) == 64
    )


def test_the_page_says_what_is_lost():
    page = pages.open_lab("window", view="reach", length="48", first="0", layers="3")
    text = " ".join(html.proto.body for html in page.get("html"))
    assert "64 %" in text and ">9<" in text
