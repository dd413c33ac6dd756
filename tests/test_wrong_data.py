"""Wrong data for models: each error is one of kerasseq, and says what was received."""

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kerasseq import datasets, layers, models
from tests import uses, uses_of_calls, uses_of_data

pytestmark = pytest.mark.once("messages about data, raised before a backend has it")

USES = uses_of_data.of_data()
DTYPES = st.sampled_from(("float32", "float64", "int32", "uint8", "bool", "U1", "c8"))
CELLS = st.one_of(
    *(st.none(), st.booleans(), st.integers(-1, 12), st.floats(), st.text(max_size=3)),
    st.sampled_from(["the", "cat", "x", "N", b"x"]),
)
NESTED = st.recursive(CELLS, lambda cell: st.lists(cell, max_size=3), max_leaves=6)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
VALUES = st.one_of(
    st.sampled_from(uses_of_data.DATA),
    NESTED,
    arrays.arrays(DTYPES, SHAPES),
)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
def test_valid_data(use):
    use.function(**use.arguments)


def test_wrong_data(request):
    """Draws a use, an argument, and a value for it."""
    full = request.config.getoption("full")

    @hypothesis.settings(max_examples=2000 if full else 150)
    @hypothesis.given(use=st.sampled_from(USES), value=VALUES, data=st.data())
    def check(use, value, data):
        argument = data.draw(st.sampled_from(sorted(use.arguments)))
        outcome = uses_of_data.tried(use, argument, value)
        assert not outcome.problem, outcome

    check()


# What is not tried with wrong arguments, and why.
WITHOUT_ARGUMENTS = {"catalogue", "cache_folder", "pair_sources", "python_reference"}
RESULTS = {  # classes of results, which a user does not make
    *("Analogies", "Entry", "FamilySentences", "FamilyTree", "LabeledImages"),
    *("LabeledTexts", "PairSource", "Pairs", "Parentheses", "Problem", "Report"),
    *("Series", "Tagged"),
}
DOWNLOADS = {"download_pairs"}


def covered(parts):
    """The public names in the uses of some parts."""
    found = [use.name for part in parts for use in part()]
    return {name.partition(".")[0] for name in found}


def test_all_data_sets_are_tried():
    known = WITHOUT_ARGUMENTS | RESULTS | DOWNLOADS
    assert {*datasets.__all__} - covered([uses.of_datasets]) - known == set()


def test_all_layers_are_tried():
    parts = [uses.of_layers, uses_of_calls.of_calls]
    assert {*layers.__all__} - covered(parts) == set()


def test_all_models_are_tried():
    # `of_data` calls models by what they learn from.
    functions = {"architectures", "from_pretrained", "save_pretrained"}
    known = functions | {type(uses_of_data.made(name)).__name__ for name in ANY}
    assert {*models.__all__} - covered([uses.of_models]) - known == set()


ANY = [*uses_of_data.VALID, "forecast", "characters", "gpt"]
