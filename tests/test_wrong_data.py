"""Wrong data for models: each error is one of kerasseq, and says what was received."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kerasseq import datasets, models
from tests import uses, uses_of_calls, uses_of_data, uses_of_others
from tests.layer_checks import LAYERS

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


FOUND = [  # by draws with other seeds
    ("gpt_task.classify", "x", np.zeros((0, 0), "float32")),
    ("bert.predict", "x", np.zeros((0, 0), "complex64")),
    ("gpt_task.predict", "x", np.zeros((0, 5), "complex64")),
    ("characters.predict", "x", np.zeros((0, 5), "complex64")),
    ("words.fit", "x", np.zeros((2, 0), "int32")),
    ("gpt.fit", "x", np.zeros((1, 0), "float32")),
    ("images.predict", "x", np.full((2, 4, 4, 3), "a")),
    ("forecast.forecast", "history", None),
    ("ids.evaluate", "sample_weight", [None, 2.9e80, 1]),
    ("path.tag", "x", np.zeros((1, 0), "int32")),  # on TensorFlow
]


@pytest.mark.parametrize(("name", "argument", "value"), FOUND)
def test_what_draws_have_found(name, argument, value):
    (use,) = (use for use in USES if use.name == name)
    outcome = uses_of_data.tried(use, argument, value)
    assert not outcome.problem, outcome


@pytest.mark.parametrize("part", ["of_layers", "of_models", "of_datasets"])
def test_wrong_arguments(part, request):
    """As `test_uses`, for what is not among its uses."""
    of_part = getattr(uses_of_others, part)()
    for use in of_part:
        if "no file" not in use.arguments.values():
            use.function(**use.arguments)
    count = 300 if request.config.getoption("full") else 40
    wrong = [o for o in uses.tries(of_part, count, 3) if o.problem]
    assert not wrong


# What is not tried with wrong arguments, and why.
WITHOUT_ARGUMENTS = {"catalogue", "cache_folder", "pair_sources", "python_reference"}
RESULTS = {  # classes of results, which a user does not make
    *("Analogies", "Entry", "FamilySentences", "FamilyTree", "LabeledImages"),
    *("LabeledTexts", "PairSource", "Pairs", "Parentheses", "Problem", "Report"),
    *("Recordings", "SpokenDigits", "WaveFiles"),
    *("CaptionedImages", "FilmHalves", "SceneTones", "Scenes"),
    *("Series", "Tagged", "Chains", "CopyBits", "Conversations"),
    *("Preferences", "NoisyParentheses", "SlideExample", "SlideNumber"),
    *("LastWords", "Passage"),
    *("HomonymSentence", "RoleSentence", "AlignedPair", "NamedSentence"),
}
FILES = {  # downloads, writes files, or reads the folder that a wrong string names
    *("download_pairs", "digits_folder", "image_folder", "image_files"),
    *("TokenShards", "prepare_shards"),
}
OF_RESULTS = {"family_labels"}  # its argument is a tree of the grammar
# Called by attention layers alone, with arguments of their own.
INSIDE_ATTENTION = {
    *("AttentionPosition", "TransformerXLBiases", "TransformerXLPosition"),
    *("DisentangledTable", "DisentangledPosition"),
}


def covered(parts):
    """The public names in the uses of some parts."""
    found = [use.name for part in parts for use in part()]
    return {name.partition(".")[0] for name in found}


def test_all_data_sets_are_tried():
    known = WITHOUT_ARGUMENTS | RESULTS | FILES | OF_RESULTS
    assert {*datasets.__all__} - covered(
        [uses.of_datasets, uses_of_others.of_datasets]
    ) - known == set()


def test_all_layers_are_tried():
    parts = [uses.of_layers, uses_of_calls.of_calls, uses_of_others.of_layers]
    assert LAYERS - covered(parts) == INSIDE_ATTENTION


def test_all_models_are_tried():
    # `of_data` calls models by what they learn from.
    functions = {"architectures", "from_pretrained", "save_pretrained"}
    functions |= {"MatchedWidth"}  # a result
    known = functions | {type(uses_of_data.made(name)).__name__ for name in ANY}
    assert {*models.__all__} - covered(
        [uses.of_models, uses_of_others.of_models]
    ) - known == set()


ANY = [*uses_of_data.VALID, "forecast", "characters", "gpt"]
