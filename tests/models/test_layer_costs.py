"""`layers.costs`, against built layers and the states that they carry."""

import math

import keras
import numpy as np
import pytest

from kerasseq import kernels, layers
from kerasseq.cli.main import main
from kerasseq.published.layer_formulas import FORMULAS
from kerasseq.tasks.architectures import ARCHITECTURES, RECURRENT, build_layers
from kerasseq.tasks.residual_stack import RESIDUAL

pytestmark = pytest.mark.once("arithmetic on integers; shapes of layers")

NEVER_CAUSAL = ("reformer", "linformer")


def built(name, units, num_layers, features):
    found = build_layers(
        name, units=units, num_layers=num_layers, bidirectional=name in NEVER_CAUSAL
    )
    x = keras.KerasTensor((2, 11, features))
    for layer in found:
        x = keras.tree.flatten(layer(x))[0]
    return found


def test_every_architecture_has_formulas():
    assert set(FORMULAS) == set(ARCHITECTURES)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    ("units", "features", "num_layers"), [(20, 7, 1), (44, 44, 3), (6, 13, 2)]
)
def test_parameters_are_those_of_the_layers(name, units, features, num_layers):
    cost = layers.costs(name, 11, units, input_dim=features, num_layers=num_layers)
    made = built(name, units, num_layers, features)
    assert cost.parameters == sum(layer.count_params() for layer in made)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", [*RECURRENT, *RESIDUAL, "wavenet"])
def test_states_have_as_many_bytes(name, dtype):
    policy = "float32" if dtype == "float32" else "mixed_bfloat16"
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        made = built(name, 20, 2, 7)
    finally:
        keras.config.set_dtype_policy(before)
    size = 0
    for layer in made:
        if name in RECURRENT:
            shapes = np.atleast_1d(layer.cell.state_size).reshape(-1, 1).tolist()
            dtypes = [dtype] * len(shapes)
        else:
            shapes, dtypes = layer.state_shapes(), layer.state_dtypes()
        each = zip(shapes, dtypes, strict=True)
        size += sum(math.prod(s) * (2 if d == "bfloat16" else 4) for s, d in each)
    cost = layers.costs(name, 31, 20, input_dim=7, num_layers=2, dtype=dtype)
    assert cost.state_bytes == size
    assert cost.state_bytes_per_token == size / 31


@pytest.mark.parametrize("length", [101, 307])
@pytest.mark.parametrize(
    ("name", "attention"),
    [
        ("transformer", layers.MultiHeadAttention),
        ("blockwise", layers.BlockwiseAttention),
        ("longformer", layers.LongformerAttention),
    ],
)
def test_keys_and_values_have_as_many_bytes(name, attention, length):
    layer = attention(4, 5)
    layer.build((1, length, 20), (1, length, 20))
    numbers = [
        math.prod(np.shape(each))
        for each in keras.tree.flatten(layer.make_cache(1, length))
    ]
    kept = sum(number for number in numbers if number >= 20 * 100)  # not the places
    assert layers.costs(name, length, 20).state_bytes == 4 * kept


@pytest.mark.parametrize("name", ["lstm", "mamba", "transformer"])
def test_states_of_a_text_that_is_not_there_yet(name):
    short, long = (layers.costs(name, T, 16).state_bytes for T in (10, 1000))
    assert (long > short) == (name == "transformer")


def test_first_steps_are_those_of_the_figure():
    """Slides D:471: a state waits for the one before it, and for the layer below."""
    found = layers.costs("gru", 5, 3, num_layers=3).first_steps()
    below = [0] * 5
    for row in found:
        for t, steps in enumerate(row):
            assert steps == 1 + max(below[t], row[t - 1] if t else 0)
        below = row


@pytest.mark.parametrize("distance", [*range(40), 255, 767, 1023, 2047])
def test_the_fewest_convolutions_are_those_of_a_search(distance):
    """Over sets of dilations of two stacks, by how many are taken."""
    best = {0: 0}
    for dilation in (1, *(2**n for n in range(10)), *(2**n for n in range(10))):
        for reached, count in list(best.items()):
            at = reached + dilation
            best[at] = min(best.get(at, math.inf), count + 1)
    expected = max(best[each] for each in range(distance + 1))
    cost = layers.costs("wavenet", distance + 1, 3, num_layers=2)
    assert cost.path == expected
    assert cost.reach == max(best)


@pytest.mark.parametrize(
    ("name", "num_layers"),
    [("longformer", 1), ("longformer", 2), ("adaptive_span", 1), ("wavenet", 1)],
)
def test_the_reach_is_the_support_of_the_gradient(name, num_layers):
    made = build_layers(name, units=4, num_layers=num_layers)
    reach = layers.costs(name, 2, 4, num_layers=num_layers).reach
    x = np.random.default_rng(0).normal(size=(1, reach + 4, 3)).astype("float32")

    def outputs(x):
        for layer in made:
            x = keras.tree.flatten(layer(x))[0]
        return x

    outputs(keras.ops.convert_to_tensor(x))
    for w in (w for layer in made for w in layer.weights):
        if w.name == "span_fractions":
            w.assign(keras.ops.ones_like(w))  # each head as far as it can
    weights = keras.ops.convert_to_tensor([3.0, 1.0, 4.0, 1.0])
    (g,) = kernels.gradients(
        lambda values: keras.ops.sum(outputs(values[0])[0, -1] * weights),
        [keras.ops.convert_to_tensor(x)],
    )
    seen = np.abs(keras.ops.convert_to_numpy(g)[0]).max(axis=-1) > 0
    assert seen.tolist() == [False] * 3 + [True] * (reach + 1)


def test_what_is_out_of_reach_has_no_path():
    near, far = (layers.costs("longformer", T, 4, num_layers=3) for T in (766, 767))
    assert (near.path, near.reach, far.path) == (3, 765, None)
    near, far = (layers.costs("wavenet", T, 4) for T in (1025, 1026))
    assert near.path == 11
    assert far.path is None


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("lstmm", 3, 4), ValueError, 'Did you mean "lstm"'),
        (("lstm", 0, 4), ValueError, "sequence_length"),
        (("lstm", 3, 4.5), TypeError, "units"),
        (("retention", 3, 5), ValueError, "even"),
        (("linformer", 1025, 4), ValueError, "at most 1024"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        layers.costs(*arguments)


def test_the_command_prints_numbers_and_formulas(capsys):
    main(
        ["params", "--layer", "gla", "--length", "50", "--units", "8", "--layers", "2"]
    )
    printed = capsys.readouterr().out
    cost = layers.costs("gla", 50, 8, num_layers=2)
    assert f"{cost.parameters:,}" in printed
    assert f"operations = {cost.formulas['forward_flops']}" in printed
    assert "H = 2 numbers of a head" in printed


def test_the_command_has_sizes_of_its_own(capsys):
    main(["params", "--layer", "gru"])
    printed = capsys.readouterr().out
    assert "T=1000 steps" in printed
    assert f"{layers.costs('gru', 1000, 512).parameters:,}" in printed


def test_the_command_says_what_is_out_of_reach(capsys):
    main(["params", "--layer", "wavenet", "--length", "3000", "--units", "8"])
    assert "an output sees 1,024 steps back" in capsys.readouterr().out
