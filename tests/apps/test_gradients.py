"""The lab Gradients: what it measures and trains."""

import numpy as np
import pytest

from labs import gradients
from labs.code import gradients as code
from tests.apps import pages

pytestmark = pytest.mark.once("a page computes on one backend")


class Here:
    """Writes as a page does."""

    def write(self, value, digits=None):
        return f"{value:.{digits or 0}f}"

    def text(self, key, **values):
        return " ".join([key, *values.values()])


def test_a_linear_network_has_powers_of_the_radius():
    found = code.flow("elman", "linear", 7, 0.9, None)["hidden_state"]
    np.testing.assert_allclose(found, 0.9 ** np.arange(8), rtol=1e-4)


def test_a_forget_gate_near_1_keeps_the_gradient_of_the_cell():
    small, large = (
        code.flow("lstm", "tanh", 7, 0.1, bias)["cell_state"][-1] for bias in (-2, 8)
    )
    assert small < 1e-3 and large == pytest.approx(1, abs=0.2)


def test_clipping_changes_the_steps_and_the_same_run_repeats():
    settings = ("elman", "tanh", 1.5, 0.05)
    free, again = (code.train(*settings, None, 3, 5) for _ in range(2))
    clipped = code.train(*settings, 0.001, 3, 5)
    assert free == again
    assert clipped[0] == free[0]  # before the first step
    assert clipped[1:] != free[1:]


def test_the_mean_factor_of_a_step():
    norms = 0.5 ** np.arange(10.0)
    assert gradients.factor(Here(), norms) == "× 0.500"
    assert gradients.factor(Here(), np.array([1.0, np.inf, np.nan])) == "gone"
    assert gradients.factor(Here(), np.array([1.0, 0.0, 0.0])) == "gone"


def test_the_end_of_a_training():
    assert gradients.end(Here(), [3.0, *[0.5] * 20]) == "0.500"
    assert gradients.end(Here(), [1.0, 2.0, np.inf, np.nan]) == "diverged 3"


def test_no_network_is_refused():
    page = pages.open_lab("gradients", cells="elman", distance="10")
    pages.control(page, "cells").set_value([]).run()
    assert "one network" in page.error[0].value
    assert page.subheader


def test_facts_and_curves():
    page = pages.open_lab(
        "gradients", cells="elman", activation="linear", distance="10"
    )
    assert "× 0.900" in page.get("html")[0].value
