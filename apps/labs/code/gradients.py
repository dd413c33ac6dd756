"""What the lab Gradients computes. The page shows these functions as its code."""

import inspect

import numpy as np


def make(cell, activation, units=32):
    """Returns a recurrent layer, not built yet. Its weights do not change by chance."""
    import keras

    import kerasseq

    names = {"elman": "ElmanRNN", "peephole_lstm": "PeepholeLSTM"}
    layer = getattr(kerasseq.layers, names.get(cell, cell.upper()))
    return layer(
        units,
        activation=activation,
        kernel_initializer=keras.initializers.GlorotUniform(seed=1),
        recurrent_initializer=keras.initializers.Orthogonal(seed=2),
    )


def flow(cell, activation, distance, radius, forget_bias):
    """Returns the norms of the gradients at distances 0, 1, 2, … by state."""
    from kerasseq import tracing

    return tracing.gradient_by_distance(
        make(cell, activation),
        distance,
        spectral_radius=radius,
        forget_bias=None if cell == "elman" else forget_bias,
    )


def train(cell, activation, radius, rate, clip, steps, length=30):
    """Returns the loss of each training step. The task: remember the first number."""
    import keras

    layer = make(cell, activation)
    output = keras.layers.Dense(
        1, kernel_initializer=keras.initializers.GlorotUniform(seed=3)
    )
    model = keras.Sequential([keras.Input((length, 1)), layer, output])
    kernel = keras.ops.convert_to_numpy(layer.cell.recurrent_kernel)
    gates = np.split(kernel, kernel.shape[1] // layer.units, axis=1)
    scaled = [radius / np.abs(np.linalg.eigvals(U)).max() * U for U in gates]
    layer.cell.recurrent_kernel.assign(np.concatenate(scaled, axis=1))
    optimizer = keras.optimizers.SGD(rate, global_clipnorm=clip)
    model.compile(optimizer, loss="mse")
    rng, losses = np.random.default_rng(0), []
    for _ in range(steps):
        x = rng.uniform(-1, 1, size=(32, length, 1)).astype("float32")
        model.reset_metrics()
        losses.append(float(model.train_on_batch(x, x[:, 0])))
    return losses


STEPS = 200
HEAD = "import numpy as np"
DISTANCE = """
for cell in {cells}:
    found = flow(cell, {activation}, {distance}, {radius}, {forget_bias})
    for state, norms in found.items():
        print(cell, state, norms)
"""
CLIPPING = """
for clip in (None, {clip}):
    losses = train({cell}, {activation}, {radius}, {rate}, clip, {steps})
    print("clip:", clip, "loss, some steps:", losses[::20], losses[-1])
"""


def source(view):
    """Returns the code of a view, as a template."""
    used = flow if view == "distance" else train
    call = DISTANCE if view == "distance" else CLIPPING
    functions = "\n\n".join(inspect.getsource(f) for f in (make, used))
    return f"{HEAD}\n\n\n{functions}\n{call}"
