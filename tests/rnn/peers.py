"""Ours beside Keras': the same weights, the same inputs, the same dropout masks."""

import keras
import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from keras import ops

from kerasseq import kernels
from tests.layer_checks import as_list, assert_close

BATCH, FEATURES, UNITS = 2, 5, 3
FLAGS = (
    "return_sequences",
    "return_state",
    "go_backwards",
    "stateful",
    "unroll",
    "zero_output_for_mask",
    "use_bias",
)


# Each example compiles new loops, so there are few, and none more to make one shorter.
FEW = settings(max_examples=7, phases=(Phase.explicit, Phase.generate))


@st.composite
def options(draw, *more):
    """Options of a layer; where Keras disagrees with itself they are left out."""
    chosen = {name: draw(st.booleans()) for name in (*FLAGS, *more)}
    chosen["dropout"] = draw(st.sampled_from([0.0, 0.4]))
    chosen["recurrent_dropout"] = draw(st.sampled_from([0.0, 0.3]))
    call = {
        "training": draw(st.booleans()),
        "start": draw(st.booleans()),
        "mask": draw(st.none() | masks(chosen)),
    }
    if call["mask"] is not None and (chosen["unroll"] or chosen["go_backwards"]):
        chosen["zero_output_for_mask"] = False
        chosen["unroll"] &= not chosen["go_backwards"]
    return chosen, call


def with_dropout(**changes):
    """The options of an example that must always be tried: both dropouts at work."""
    chosen = dict.fromkeys(FLAGS, False) | {"use_bias": True}
    chosen |= {"dropout": 0.4, "recurrent_dropout": 0.3, **changes}
    return chosen, {"training": True, "start": True, "mask": None}


@st.composite
def masks(draw, chosen, time=4):
    """The first processed step real, the last too where Keras would give zeros."""
    rows = draw(
        st.lists(
            st.lists(st.booleans(), min_size=time, max_size=time),
            min_size=BATCH,
            max_size=BATCH,
        )
    )
    mask = np.array(rows)
    mask[:, -1 if chosen["go_backwards"] else 0] = True
    if chosen["zero_output_for_mask"]:
        mask[:, -1] = True
    return mask


def check_equal(ours, theirs, chosen, call, time=4):
    """The same results and gradients; if stateful, also in the calls after."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH, time, FEATURES)).astype("float32")
    ours, theirs = ours(UNITS, **chosen), theirs(UNITS, **chosen)
    theirs.build(x.shape)
    ours.build(x.shape)
    theirs.set_weights([0.7 * rng.normal(size=w.shape) for w in theirs.get_weights()])
    ours.set_weights(theirs.get_weights())
    inject_masks(ours.cell, theirs.cell, rng)
    count = len(as_list(ours.cell.state_size))
    states = [
        ops.convert_to_tensor(rng.normal(size=(BATCH, UNITS)), "float32")
        for _ in range(count)
    ]

    results = []
    for layer in (ours, theirs):
        found, gradients = outputs_and_gradients(layer, x, states, call)
        if chosen["stateful"]:
            found += as_list(layer(x, training=False))
            found += as_list(layer(-x, training=False))
            found += list(layer.states)
        results.append((found, gradients))
    (found, gradients), (expected, expected_gradients) = results
    for actual, wanted in zip(found, expected, strict=True):
        assert_close(actual, wanted)
    for actual, wanted in zip(gradients, expected_gradients, strict=True):
        assert_close(actual, wanted, atol=5e-5)


def outputs_and_gradients(layer, x, states, call):
    """Both in one go: the gradient of `sum(y * factor)` by `factor` is `y`."""
    shapes = keras.tree.flatten(layer.compute_output_spec(keras.KerasTensor(x.shape)))
    arguments = {
        "x": ops.convert_to_tensor(x),
        "weights": [ops.copy(w) for w in layer.trainable_weights],
        "states": states if call["start"] else [],
        "factors": [
            np.random.default_rng(n).normal(size=y.shape).astype("float32")
            for n, y in enumerate(shapes)
        ],
    }

    def weighted_sum(arguments):
        outputs = run(layer, arguments, call)
        pairs = zip(outputs, arguments["factors"], strict=True)
        return sum(ops.sum(y * factor) for y, factor in pairs)

    found = kernels.gradients(weighted_sum, arguments)
    return found["factors"], [found["x"], *found["weights"], *found["states"]]


def run(layer, arguments, call):
    """All results, as a function of inputs, states and weights."""
    outputs, _ = layer.stateless_call(
        arguments["weights"],
        [v.value for v in layer.non_trainable_variables],
        arguments["x"],
        initial_state=arguments["states"] or None,
        mask=None if call["mask"] is None else ops.convert_to_tensor(call["mask"]),
        training=call["training"],
    )
    return as_list(outputs)


def inject_masks(ours, theirs, rng):
    """Give both cells the same dropout masks, in place of what they would draw."""
    counts = {getattr(cell, "dropout_mask_count", None) for cell in (ours, theirs)}
    assert len(counts) == 1, "as many masks as Keras"
    (count,) = counts

    def draw(width):
        kept = [
            ops.convert_to_tensor((rng.random((BATCH, width)) > 0.4) / 0.6, "float32")
            for _ in range(count or 1)
        ]
        return kept if count else kept[0]

    of_inputs, of_state = draw(FEATURES), draw(UNITS)
    for cell in (ours, theirs):
        if cell.dropout:
            replace(cell, "get_dropout_mask", of_inputs)
        if cell.recurrent_dropout:
            replace(cell, "get_recurrent_dropout_mask", of_state)


def replace(cell, name, masks):
    # object's own __setattr__: Keras would track the arrays as part of the layer.
    object.__setattr__(cell, name, lambda _: masks)


def check_training_step(ours, theirs, **options):
    """After one step of `fit` the weights are the same, too."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(BATCH, 4, FEATURES)).astype("float32")
    models = []
    for layer in (theirs(UNITS, **options), ours(UNITS, **options)):
        model = keras.Sequential([keras.Input((4, FEATURES)), layer])
        if models:
            model.set_weights(models[0].get_weights())
        models.append(model)
    for model in models:
        model.compile(keras.optimizers.SGD(0.5), "mse")
        model.fit(x, np.ones((BATCH, UNITS)), verbose=0)
    for mine, wanted in zip(*(m.get_weights() for m in models[::-1]), strict=True):
        assert_close(mine, wanted)
