"""Widths at which models have a number of parameters."""

import pytest

from kerasseq import models

pytestmark = pytest.mark.once("whole numbers: the same on all backends")


@pytest.mark.parametrize("multiple", [1, 2, 7])
@pytest.mark.parametrize("wanted", [1700, 23_000, 10**7])
def test_the_nearest_width_of_a_quadratic(wanted, multiple):
    tried = []

    def count(width):
        tried.append(width)
        return 3 * width**2 + 101 * width + 13

    found = models.matched_width(
        count, wanted, multiple=multiple, start=29, tolerance=0.4
    )
    assert found.width % multiple == 0
    assert found.parameters == 3 * found.width**2 + 101 * found.width + 13
    steps = (-multiple, multiple) if found.width > multiple else (multiple,)
    for step in steps:
        assert abs(count(found.width + step) - wanted) >= abs(found.parameters - wanted)
    assert len(tried) <= 14


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"parameters": 0}, ValueError, "parameters must be"),
        ({"multiple": 0}, ValueError, "multiple must be"),
        ({"tolerance": 2}, ValueError, "tolerance must lie"),
        ({"parameters": 50, "multiple": 10}, ValueError, "within 5%, received 50: the"),
        ({"count": 3}, TypeError, "count must be a function"),
        ({"count": lambda width: 0.5}, TypeError, "must be"),
        ({"count": lambda width: 5}, ValueError, "must grow with the width.*5 at 64"),
    ],
)
def test_errors(arguments, error, message):
    given = {"count": lambda width: width**2, "parameters": 100} | arguments
    with pytest.raises(error, match=message):
        models.matched_width(**given)
