"""Overhead of `tracing.record` outside a trace.

An LSTM classifier runs with the calls of `record` as they are (A), and with `record`
replaced by a function that returns its value (B), in rounds A B A B … in one process.
Figures are median(A) / median(B) of an eager call and of a training step (compiled,
except on PyTorch), with the quartiles of the ratios of adjacent rounds. 1 means no
overhead.
"""

import contextlib
import sys
import time


def add_arguments(parser):
    """Adds the options of this benchmark."""
    for name, value in [("batch", 32), ("time", 64), ("features", 64), ("units", 128)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of A and B")
    parser.add_argument("--calls", type=int, default=3, help="calls in a round")


@contextlib.contextmanager
def without_record():
    """Replaces `record` in every module of kerasseq that imported it."""
    from kerasseq import tracing

    record = tracing.record
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("kerasseq") and vars(module).get("record") is record
    ]
    for module in modules:
        module.record = lambda layer, name, value: value
    try:
        yield
    finally:
        for module in modules:
            module.record = record


def run(options):
    """Returns the ratios and the sizes of the model."""
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

    def with_record():
        return contextlib.nullcontext()

    models = {with_record: build(), without_record: build()}
    calls = {
        "eager call": lambda model: keras.ops.convert_to_numpy(model(x)),
        "compiled training step": lambda model: model.train_on_batch(x, y),
    }
    result = {
        "backend": keras.backend.backend(),
        "model": f"LSTM classifier, batch {options.batch}, {options.time} steps, "
        f"{options.features} features, {options.units} units",
        "rounds": options.rounds,
    }
    for name, call in calls.items():
        times = {mode: [] for mode in models}
        for number in range(options.rounds + 1):
            for mode, model in models.items():
                with mode():
                    if not number:
                        call(model)  # compiles
                    start = time.perf_counter()
                    for _ in range(options.calls):
                        call(model)
                    times[mode].append(time.perf_counter() - start)
        a, b = (np.array(seconds[1:]) for seconds in times.values())
        low, high = np.percentile(a / b, [25, 75])
        result[f"{name}, A/B"] = float(np.median(a) / np.median(b))
        result[f"{name}, quartiles"] = f"{low:.3f} to {high:.3f}"
    return result
