"""What `tracing.record` costs when nobody listens.

An LSTM classifier runs with the `record` lines as they are (A), and with `record`
replaced by a function that returns its value (B), in turns A B A B … in one process.
Reported are median(A) / median(B) of an eager call and of a compiled training step (on
PyTorch nothing is compiled), with the quartiles of the ratios of neighbouring turns. 1
means that looking inside is free.
"""

import contextlib
import sys
import time


def add_arguments(parser):
    """Sizes of the model and of the measurement."""
    for name, value in [("batch", 32), ("time", 64), ("features", 64), ("units", 128)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--turns", type=int, default=30, help="turns of A and of B")
    parser.add_argument("--calls", type=int, default=3, help="calls in a turn")


@contextlib.contextmanager
def nothing_recorded():
    """Replace `record` wherever a module of kerasseq took it by name."""
    from kerasseq import tracing

    record = tracing.record
    places = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("kerasseq") and vars(module).get("record") is record
    ]
    for module in places:
        module.record = lambda layer, name, value: value
    try:
        yield
    finally:
        for module in places:
            module.record = record


def run(options):
    """Measure, and give ratios with the sizes they hold for."""
    import keras
    import numpy as np

    import kerasseq

    def build():
        inputs = keras.Input((options.time, options.features))
        x = kerasseq.layers.LSTM(options.units)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(2)(x))
        model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "torch")
        return model

    rng = np.random.default_rng(0)
    x = rng.normal(size=(options.batch, options.time, options.features))
    x, y = x.astype("float32"), np.zeros((options.batch, 2), "float32")

    def as_it_is():
        return contextlib.nullcontext()

    models = {as_it_is: build(), nothing_recorded: build()}
    calls = {
        "eager call": lambda model: keras.ops.convert_to_numpy(model(x)),
        "compiled training step": lambda model: model.train_on_batch(x, y),
    }
    result = {
        "backend": keras.backend.backend(),
        "model": f"LSTM classifier, batch {options.batch}, {options.time} steps, "
        f"{options.features} features, {options.units} units",
        "turns": options.turns,
    }
    for what, call in calls.items():
        times = {mode: [] for mode in models}
        for turn in range(options.turns + 1):
            for mode, model in models.items():
                with mode():
                    if not turn:
                        call(model)  # compiles
                    start = time.perf_counter()
                    for _ in range(options.calls):
                        call(model)
                    times[mode].append(time.perf_counter() - start)
        a, b = (np.array(seconds[1:]) for seconds in times.values())
        low, high = np.percentile(a / b, [25, 75])
        result[f"{what}, A/B"] = float(np.median(a) / np.median(b))
        result[f"{what}, quartiles"] = f"{low:.3f} to {high:.3f}"
    return result
