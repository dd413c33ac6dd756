"""Each computed number of the slides follows from its inputs, by public names."""

import decimal
from collections.abc import Mapping

import pytest

from kerasseq import datasets
from kerasseq.datasets.recipe_inputs import RECIPES
from kerasseq.datasets.slide_examples import LABS
from parts import slide_recipes
from tests.apps import pages

pytestmark = pytest.mark.once("public functions, which are tested everywhere")
EXAMPLES = [example for example in datasets.slides() if example.recipe]
_found = {}  # examples with the same inputs are computed once


def results(example):
    """The results of an example; its numbers are not read."""
    key = example.recipe, repr(example.inputs)
    if key not in _found:
        _found[key] = slide_recipes.compute(example.recipe, example.inputs)
    return _found[key]


def digits(value):
    """The digits after the point of the most exact number in a value.

    >>> digits((0.0, 0.42)), digits(6.09e-11), digits(12)
    (2, 13, 0)
    """
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return max(map(digits, value))
    if not isinstance(value, float):
        return 0
    return max(0, -decimal.Decimal(repr(value)).as_tuple().exponent)


def assert_is(found, value, within):
    """Compares a result with a value; a table may show a part of the result."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            assert_is(found[key], item, within)
    elif isinstance(value, tuple):
        assert len(found) == len(value)
        for one, item in zip(found, value, strict=True):
            assert_is(one, item, within)
    elif isinstance(value, str):
        assert found == value
    else:
        assert abs(found - value) <= within * (1 + 1e-6)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.id)
def test_computed_numbers_follow_from_the_inputs(example):
    numbers = [number for number in example.numbers if number.mark == "computed"]
    assert numbers
    for number in numbers:
        within = number.within or 0.5 * 10 ** -digits(number.value)
        assert_is(results(example)[number.result], number.value, within)


def test_a_wrong_number_is_noticed():
    with pytest.raises(AssertionError):
        assert_is([0.401, 0.599], (0.42, 0.58), 0.005)
    with pytest.raises(AssertionError):
        assert_is({"a": 3}, {"a": 4}, 0.5)


def test_all_recipes_and_labs_are_known():
    assert list(RECIPES) and set(RECIPES) == set(slide_recipes.RECIPES)
    for name, function in slide_recipes.RECIPES.items():
        code, defaults = function.__code__, function.__defaults__ or ()
        inputs = code.co_varnames[: code.co_argcount]
        assert inputs == tuple(RECIPES[name].inputs)
        assert inputs[len(inputs) - len(defaults) :] == RECIPES[name].optional
    assert {example.recipe for example in EXAMPLES} == set(RECIPES)
    for example in EXAMPLES:
        assert tuple(results(example)) == RECIPES[example.recipe].results
    assert sorted(LABS) == sorted(pages.LABS)
