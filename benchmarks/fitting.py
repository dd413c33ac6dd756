"""Training by `fit` on all cores, beside a training loop in plain PyTorch.

Times what a user waits for: an epoch of a `SequenceClassifier` over random vectors,
with batches, loss, metric and optimizer, divided by its number of batches. Beside it:

- "keras": the same model of Keras' own layer (a plain LSTM stands for a peephole LSTM,
  which Keras does not have)
- "torch.nn": the layer of torch.nn in a loop over batches, without a trainer
- "no recurrence": the model without its recurrent layer, the cost of the trainer
- "products": a compiled loop over time of the same matrix products alone, forward and
  backward, without gates or trainer: what the backend's loop costs at least

`time` is the ratio to torch.nn. Each implementation runs in its own process, in rounds
(see `benchmarks.rounds`), with as many threads as the backend chooses.
"""

import importlib.util
import os

import numpy as np

from benchmarks.options import add_names_arguments, add_timing_arguments
from benchmarks.rounds import Worker, report, time_in_rounds

SIZES = {  # batch, steps, features, units, batches in an epoch
    "small": (32, 64, 64, 128, 64),
    "tiny": (2, 3, 5, 7, 2),  # for the tests
}
CELLS = {  # architecture, Keras' layer, layer of torch.nn
    "lstm": ("lstm", "LSTM", "LSTM"),
    "peephole": ("peephole_lstm", "LSTM", "LSTM"),
    "gru": ("gru", "GRU", "GRU"),
    "elman": ("elman", "SimpleRNN", "RNN"),
}
IMPLEMENTATIONS = ("kerasseq", "keras", "torch.nn", "no recurrence", "products")
GATES = {"lstm": 4, "peephole": 4, "gru": 3, "elman": 1}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    add_names_arguments(
        parser, [("--cell", CELLS, "lstm,peephole"), ("--sizes", SIZES, "small")]
    )
    add_timing_arguments(parser, rounds=5, seconds=3.0)


def run(options):
    """Returns a table of ratios."""
    backend = options.backend or os.environ.get("KERAS_BACKEND", "tensorflow")
    table = []
    for size in options.sizes:
        for cell in options.cell:
            table += measure(cell, size, backend, options)
    return report(options, backend, table)


def measure(cell, size, backend, options):
    """Returns the rows of one cell and size, one for each implementation."""
    workers = {}
    for name in IMPLEMENTATIONS:
        if name == "torch.nn" and importlib.util.find_spec("torch") is None:
            continue
        task = {"implementation": name, "cell": cell, "size": SIZES[size]}
        task |= {"seconds": options.seconds, "cpu_time": options.cpu_time}
        workers[name] = Worker(
            "benchmarks.fitting", task, "torch" if name == "torch.nn" else backend
        )
    medians = time_in_rounds(workers, options.rounds)
    unit = medians.get("torch.nn", medians["kerasseq"])["epoch"]
    batch, steps, features, units, batches = SIZES[size]
    return [
        {
            "size": f"{size}: batch {batch}, {steps} steps, {features} -> {units}",
            "cell": cell,
            "implementation": name,
            "time": times["epoch"] / unit,
            "ms per batch": times["epoch"] / batches * 1e3,
        }
        for name, times in medians.items()
    ]


def functions(task):
    """Returns the function that a worker times: an epoch."""
    batch, steps, features, _, batches = task["size"]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch * batches, steps, features)).astype("float32")
    y = rng.integers(2, size=len(x)).astype("int32")
    if task["implementation"] == "torch.nn":
        return {"epoch": torch_epoch(task, x, y)}
    if task["implementation"] == "products":
        return {"epoch": products(task, x[:batch])}
    model = keras_model(task)

    def epoch():
        model.fit(x, y, batch_size=batch, epochs=1, verbose=0)

    return {"epoch": epoch}


def keras_model(task):
    """Returns a compiled model of kerasseq, of Keras, or without recurrent layer."""
    import keras

    import kerasseq

    _, steps, features, units, _ = task["size"]
    architecture, layer, _ = CELLS[task["cell"]]
    name = task["implementation"]
    if name == "kerasseq":
        return kerasseq.models.SequenceClassifier(
            architecture, 2, features=features, units=units
        )
    recurrent = keras.layers.GlobalAveragePooling1D()
    if name == "keras":
        recurrent = getattr(keras.layers, layer)(units)
    model = keras.Sequential(
        [keras.Input((steps, features)), recurrent, keras.layers.Dense(2)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def torch_epoch(task, x, y):
    """Returns an epoch of a training loop in plain PyTorch."""
    import torch

    batch, _, features, units, _ = task["size"]
    layer = getattr(torch.nn, CELLS[task["cell"]][2])(features, units, batch_first=True)
    output = torch.nn.Linear(units, 2)
    weights = [*layer.parameters(), *output.parameters()]
    optimizer = torch.optim.Adam(weights)
    x, y = torch.from_numpy(x), torch.from_numpy(y).long()

    def epoch():
        total = correct = 0.0
        for rows in torch.randperm(len(x)).split(batch):
            logits = output(layer(x[rows])[0][:, -1])
            loss = torch.nn.functional.cross_entropy(logits, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            correct += (logits.argmax(-1) == y[rows]).float().mean().item()

    return epoch


def products(task, x):
    """Returns the matrix products of an epoch: x W, and per step h U, and gradients."""
    import keras

    _, _, features, units, batches = task["size"]
    width = GATES[task["cell"]] * units
    rng = np.random.default_rng(1)
    W = rng.normal(size=(features, width)).astype("float32") / 10
    U = rng.normal(size=(units, width)).astype("float32") / 10
    loops = {"tensorflow": tensorflow_loop, "jax": jax_loop, "torch": torch_loop}
    step = loops[keras.backend.backend()](x, W, U, units)

    def epoch():
        for _ in range(batches):
            step()

    return epoch


def tensorflow_loop(x, W, U, units):
    """Returns the loop of products as a `tf.while_loop`, compiled by XLA."""
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x, W, U):
        with tf.GradientTape() as tape:
            tape.watch([W, U])
            z = tf.transpose(x @ W, (1, 0, 2))
            h = tf.zeros((x.shape[0], units))
            for t in tf.range(z.shape[0]):
                h = (z[t] + h @ U)[:, :units]
            loss = tf.reduce_mean(h)
        return tape.gradient(loss, [W, U])

    x, W, U = tf.constant(x), tf.constant(W), tf.constant(U)
    return lambda: step(x, W, U)[1].numpy()


def jax_loop(x, W, U, units):
    """Returns the loop of products as a `jax.lax.scan`, compiled."""
    import jax
    from jax import numpy as jnp

    def loss(weights, x):
        W, U = weights
        z = jnp.swapaxes(x @ W, 0, 1)
        h = jnp.zeros((x.shape[0], units))
        h, _ = jax.lax.scan(lambda h, z: ((z + h @ U)[:, :units], None), h, z)
        return h.mean()

    gradient = jax.jit(jax.grad(loss))
    return lambda: jax.block_until_ready(gradient((W, U), x))


def torch_loop(x, W, U, units):
    """Returns the loop of products, gradients by hand: autograd would add to them."""
    import torch

    x, W, U = (torch.from_numpy(each) for each in (x, W, U))
    steps, batch = x.shape[1], x.shape[0]
    h, dz = torch.zeros(batch, units), torch.zeros(batch, U.shape[1])
    path, grads = torch.zeros(steps, batch, units), torch.zeros(steps, *dz.shape)
    U_T = U.t().contiguous()

    def step():
        with torch.no_grad():
            x.transpose(0, 1).flatten(0, 1) @ W
            for _ in range(steps):
                torch.mm(h, U, out=dz)
            for _ in range(steps):
                torch.mm(dz, U_T, out=h)
            path.flatten(0, 1).t() @ grads.flatten(0, 1)
            x.transpose(0, 1).flatten(0, 1).t() @ grads.flatten(0, 1)

    return step
