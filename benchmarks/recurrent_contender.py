"""One process of `benchmarks recurrent`: tells times at "turn", memory at "end"."""

import json
import resource
import sys
import time

import numpy as np


def main():
    """Build what the task says, and take turns until told to end."""
    task = json.loads(sys.argv[1])
    batch, steps, features, units = task["size"]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch, steps, features)).astype("float32")
    answer = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    if task["who"] == "torch.nn":
        train, infer = torch_nn(task, x, units)
    else:
        train, infer = keras_layer(task, x, units)
    before = peak()
    for function in (train, infer):
        function()

    def reply(value):
        print(json.dumps(value), file=answer, flush=True)

    reply("ready")
    for line in sys.stdin:
        if line.strip() == "end":
            reply(peak() - before)
            return
        seconds = task["seconds"]
        reply({"train": timed(train, seconds), "infer": timed(infer, seconds / 3)})


def timed(function, seconds):
    """Median time of a call after the first, over calls that fill `seconds`."""
    function()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def peak():
    """Largest memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def torch_nn(task, x, units):
    """A training step and an inference of the layer of torch.nn."""
    import torch

    from benchmarks.recurrent import CELLS

    cell = task["cell"]
    options = {"nonlinearity": "relu"} if cell == "elman" else {}
    layer = getattr(torch.nn, CELLS[cell][3])(
        x.shape[-1], units, batch_first=True, **options
    )
    return torch_steps(torch.from_numpy(x), layer, lambda x: layer(x)[0][:, -1])


def torch_steps(x, layer, last_output):
    """A training step and an inference, in PyTorch's way."""
    import torch

    optimizer = torch.optim.SGD(layer.parameters(), 1e-3)
    v = torch.ones(last_output(x).shape[-1])

    def train():
        optimizer.zero_grad()
        (last_output(x) @ v).mean().backward()
        optimizer.step()

    def infer():
        with torch.no_grad():
            last_output(x)

    return train, infer


def keras_layer(task, x, units):
    """A training step and an inference of a layer of ours or of Keras."""
    import keras

    layer = make(task["who"], task["cell"], units)
    backend = keras.backend.backend()
    layer(x[:, :2])  # builds it
    if backend == "torch":
        import torch

        return torch_steps(torch.from_numpy(x), layer, layer)
    steps = tensorflow_steps if backend == "tensorflow" else jax_steps
    return steps(layer, x, task["jit"])


def make(who, cell, units):
    """The layer of a contender."""
    import keras

    import kerasseq
    from benchmarks.recurrent import CELLS, OPTIONS

    ours, layer, keras_cell, _ = CELLS[cell]
    relu = {"activation": "relu"} if cell == "elman" else {}
    if who == "kerasseq":
        return getattr(kerasseq.layers, ours)(units, **OPTIONS.get(cell, {}))
    if who == "keras":
        return getattr(keras.layers, layer)(units, **relu)
    if cell == "peephole":  # the nearest thing: a cell that Keras runs step by step
        return keras.layers.RNN(kerasseq.layers.LSTMCell(units, peephole="diagonal"))
    return keras.layers.RNN(getattr(keras.layers, keras_cell)(units, **relu))


def tensorflow_steps(layer, x, jit):
    """A training step and an inference, in TensorFlow's way."""
    import tensorflow as tf

    x = tf.constant(x)
    weights = [v.value for v in layer.trainable_variables]

    @tf.function(jit_compile=jit)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum(layer(x, training=True), -1))
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(1e-3 * g)
        return loss

    @tf.function(jit_compile=jit)
    def call():
        return layer(x)

    return lambda: step().numpy(), lambda: call().numpy()


def jax_steps(layer, x, _):
    """A training step and an inference, in JAX's way."""
    import jax

    x = jax.numpy.asarray(x)
    rest = [v.value for v in layer.non_trainable_variables]
    state = {"w": [v.value for v in layer.trainable_variables]}

    def loss(w):
        y, _ = layer.stateless_call(w, rest, x, training=True)
        return y.sum(-1).mean()

    @jax.jit
    def step(w):
        return [a - 1e-3 * g for a, g in zip(w, jax.grad(loss)(w), strict=True)]

    @jax.jit
    def call(w):
        return layer.stateless_call(w, rest, x)[0]

    def train():
        state["w"] = jax.block_until_ready(step(state["w"]))

    return train, lambda: jax.block_until_ready(call(state["w"]))


if __name__ == "__main__":
    main()
