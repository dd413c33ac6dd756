"""Wrong and right uses, drawn: each works, or says which argument is wrong."""

import keras
import pytest

from kerasseq import models
from tests import uses, uses_of_calls

# How many are drawn: quickly; with --full on PyTorch; with --full on the others.
COUNTS = {
    **dict.fromkeys(("of_text", "of_datasets"), (80, 300, 40)),
    **dict.fromkeys(("of_decoding", "of_training"), (80, 200, 40)),
    "of_models": (50, 400, 40),
    "of_layers": (80, 600, 100),
}

pytestmark = pytest.mark.once("arguments and messages: no backend has a say")


@pytest.mark.parametrize("part", COUNTS)
def test_every_use_is_right_as_it_stands(part):
    for use in getattr(uses, part)():
        if "no" in (str(use.arguments.get("path"))[:2], None):
            continue
        uses.problem_of_result(use.function(**use.arguments))


@pytest.mark.parametrize("part", COUNTS)
def test_wrong_uses_are_explained(part, request):
    quick, full, others = COUNTS[part]
    if request.config.getoption("full"):
        quick = full if keras.backend.backend() == "torch" else others
    tries = uses.tries(getattr(uses, part)(), quick, 2)
    wrong = [outcome for outcome in tries if outcome.problem]
    assert not wrong


@pytest.mark.everywhere("an error of a backend comes first where a check is missing")
def test_wrong_calls_are_explained(request):
    count = 400 if request.config.getoption("full") else 26
    wrong = [o for o in uses_of_calls.wrong_calls(count, 1) if o.problem]
    assert not wrong


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        ("GPT", {"vocabulary_size": 10**12}, "vocabulary_size must .* got 1000000"),
        ("GPT", {"max_sequence_length": 10**12}, "max_sequence_length must .* memory"),
        ("T5", {"hidden_dim": 10**8}, "hidden_dim must be a size that fits"),
        ("T5", {"relative_buckets": "x"}, "relative_buckets must be a whole .* 'x'"),
        ("T5", {"vocabulary_size": [7]}, r"^vocabulary_size must be .* got \[7\]"),
        ("BERT", {"num_segments": 10**12}, "num_segments must be a size .* memory"),
    ],
)
def test_models_name_their_own_arguments(make, arguments, message):
    use = next(use for use in uses.of_models() if use.name == make)
    with pytest.raises((ValueError, TypeError), match=message):
        use.function(**use.arguments | arguments)


def test_memory_is_only_asked_for_where_there_is_a_weight():
    model = models.GPT(
        vocabulary_size=5,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        max_sequence_length=10**12,
        position="rope",
    )
    assert model.count_params() < 1000
