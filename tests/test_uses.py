"""Wrong and right uses, drawn: each works, or says which argument is wrong."""

import pytest

from tests import uses

PARTS = ["of_text", "of_datasets", "of_decoding", "of_training"]

pytestmark = pytest.mark.once("arguments and messages: no backend has a say")


@pytest.mark.parametrize("part", [*PARTS, "of_models", "of_layers"])
def test_every_use_is_right_as_it_stands(part):
    for use in getattr(uses, part)():
        if "no" in (str(use.arguments.get("path"))[:2], None):
            continue
        uses.problem_of_result(use.function(**use.arguments))


@pytest.mark.parametrize("part", PARTS)
def test_wrong_uses_are_explained(part, request):
    tries = 500 if request.config.getoption("full") else 80
    wrong = [o for o in uses.tries(getattr(uses, part)(), tries, 2) if o.problem]
    assert not wrong
