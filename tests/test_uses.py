"""Tests that errors for random invalid arguments name the argument and the value."""

import keras
import pytest

from kerasseq import models
from tests import uses, uses_of_calls

# Number of draws: by default, with --full on PyTorch, with --full elsewhere.
COUNTS = {
    **dict.fromkeys(("of_text", "of_datasets"), (80, 300, 40)),
    **dict.fromkeys(("of_decoding", "of_training"), (80, 200, 40)),
    "of_ctc": (40, 200, 40),
    "of_models": (50, 400, 40),
    "of_layers": (80, 600, 100),
}

pytestmark = pytest.mark.once("arguments and error messages")


@pytest.mark.parametrize("part", COUNTS)
def test_valid_arguments(part):
    for use in getattr(uses, part)():
        if "no" in (str(use.arguments.get("path"))[:2], None):
            continue
        uses.problem_of_result(use.function(**use.arguments))


@pytest.mark.parametrize("part", COUNTS)
def test_invalid_arguments(part, request):
    quick, full, others = COUNTS[part]
    if request.config.getoption("full"):
        quick = full if keras.backend.backend() == "torch" else others
    tries = uses.tries(getattr(uses, part)(), quick, 2)
    wrong = [outcome for outcome in tries if outcome.problem]
    assert not wrong


@pytest.mark.everywhere("a backend raises its own error if a check is missing")
def test_invalid_inputs(request):
    count = 400 if request.config.getoption("full") else 26
    wrong = [o for o in uses_of_calls.wrong_calls(count, 1) if o.problem]
    assert not wrong


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (
            "GPT",
            {"vocabulary_size": 10**12},
            "vocabulary_size must .* received 1000000",
        ),
        ("GPT", {"max_sequence_length": 10**12}, "max_sequence_length must .* memory"),
        ("T5", {"hidden_dim": 10**8}, "hidden_dim must be a size that fits"),
        ("T5", {"relative_buckets": "x"}, "relative_buckets must be a whole .* 'x'"),
        ("T5", {"vocabulary_size": [7]}, r"^vocabulary_size must be .* received \[7\]"),
        ("BERT", {"num_segments": 10**12}, "num_segments must be a size .* memory"),
    ],
)
def test_errors_name_arguments_of_the_model(make, arguments, message):
    use = next(use for use in uses.of_models() if use.name == make)
    with pytest.raises((ValueError, TypeError), match=message):
        use.function(**use.arguments | arguments)


def test_memory_is_checked_for_weights_only():
    model = models.GPT(
        vocabulary_size=5,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        max_sequence_length=10**12,
        position="rope",
    )
    assert model.count_params() < 1000
