"""The parts of `benchmarks.gpu`, each a function that yields rows; run by a worker."""

import numpy as np

from benchmarks import gpu_checks, recurrent, transformer
from benchmarks.attention import causal_self_attention, torch_attention
from benchmarks.rounds import median_time, processor
from benchmarks.steps import has_gpu, keras_steps, torch_device, torch_steps

BY_STEP = "torch.nn, step by step"
SECONDS = {"full": 0.4, "tiny": 0.01}
RECURRENT = {
    "full": {
        "sizes": ("small", "large"),
        "cells": (
            "lstm",
            "gru",
            "elman",
            "peephole",
            "layer_norm_lstm",
            "minimal_gated",
        ),
    },
    "tiny": {"sizes": ("tiny",), "cells": ("lstm", "layer_norm_lstm")},
}
ATTENTION = {  # batch, steps, heads, width of a head
    "full": [(4, 4096, 8, 64), (1, 16384, 8, 64)],
    "tiny": [(2, 5, 3, 4)],
}
AFTER = ("LinearAttention", "Retention", "GatedLinearAttention", "DeltaNet")
GPTS = {
    "full": {
        "4 × 128, 12 × 64 tokens": transformer.SIZES["full"]["training"],
        "12 × 768, 8 × 1,024 tokens": {
            **{"layers": 12, "width": 768, "heads": 12, "length": 1024, "batch": 8},
            "vocabulary": 50257,
        },
    },
    "tiny": {"tiny": transformer.SIZES["tiny"]["training"]},
}
GENERATED = {
    "full": {
        "6 × 384, 200 tokens": transformer.SIZES["full"]["generation"],
        "12 × 768, 200 tokens": {
            **{"layers": 12, "width": 768, "heads": 12, "length": 1024},
            "vocabulary": 50257,
        },
    },
    "tiny": {"tiny": transformer.SIZES["tiny"]["generation"]},
}


def machine():
    """Returns the names of the GPU or the processor, and of the versions."""
    import importlib.metadata

    import keras

    versions = ["keras", "torch", "jax"]
    found = [keras.backend.backend()]
    if keras.backend.backend() == "jax":
        import jax

        found = [device.device_kind for device in jax.devices()]
    elif torch_device() == "cuda":
        import torch

        found = [torch.cuda.get_device_name()]
    for name in versions:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join([*found, processor()])


def rows(task):
    """Yields the rows of one part."""
    if task.part == "reference":
        gpu_checks.write_reference(task.reference, task.size)
        return
    if task.part == "checks":
        yield from gpu_checks.rows(task.reference, task.size)
        return
    allow_tf32()
    yield from PARTS[task.part](task.size)


def allow_tf32(on=True):
    """Lets products of float32 round their factors to TF32, or not."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        precision = "tensorfloat32" if on else "highest"
        jax.config.update("jax_default_matmul_precision", precision)
    else:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = on
        torch.backends.cudnn.allow_tf32 = on


def timed(functions, size):
    """Returns the milliseconds of functions, and the peak memory of the device."""
    memory = peak_memory(reset=True)
    found = {}
    for name, function in functions.items():
        key = "ms" if len(functions) == 1 else f"{name} ms"
        found[key] = 1e3 * median_time(function, SECONDS[size])
    memory = peak_memory()
    return {**found, "GPU MB": memory}


def peak_memory(reset=False):
    """Returns the peak memory of PyTorch on the GPU in MB; "" where it is unknown.

    That of JAX cannot be reset, and would be of what ran before.
    """
    import keras

    if keras.backend.backend() == "jax" or torch_device() == "cpu":
        return ""
    import torch

    if reset:
        torch.cuda.reset_peak_memory_stats()
    return torch.cuda.max_memory_allocated() / 2**20


def attempt(case, implementation, make, size):
    """Yields the row of one implementation, or why it did not run."""
    import keras

    try:
        yield {"case": case, "implementation": implementation, **timed(make(), size)}
    except Exception as error:  # a peer that fails ends no run
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        yield {"left out": f"{implementation}, {case}: {reason}"}
    keras.backend.clear_session()


def recurrent_rows(size):
    """Yields the times of recurrent layers."""
    for name in RECURRENT[size]["sizes"]:
        batch, steps, features, units = recurrent.SIZES[name]
        x = np.random.default_rng(0).normal(size=(batch, steps, features))
        x = x.astype("float32")
        for cell in RECURRENT[size]["cells"]:
            case = f"{cell}, {batch} × {steps}, {features} → {units}"
            for implementation, make in recurrent_layers(cell, x, units).items():
                yield from attempt(case, implementation, make, size)


def recurrent_layers(cell, x, units):
    """Returns functions that return the training step and inference, by name."""
    import keras

    def steps(make):
        return lambda: layer_steps(make(), x)

    found = {"kerasseq": steps(lambda: kerasseq_layer(cell, units))}
    if recurrent.CELLS[cell][1]:
        found["keras"] = steps(lambda: recurrent.keras_layer("keras", cell, units))
    if keras.backend.backend() != "torch":
        if cell == "lstm" and has_gpu():
            found["kerasseq, use_cudnn=True"] = steps(lambda: cudnn_lstm(units))
        return found
    found["torch.nn"] = lambda: recurrent.torch_layer(cell, x, units)
    if cell in ("lstm", "gru"):
        found[BY_STEP] = lambda: torch_loop(cell, x, units)
    return found


def torch_loop(cell, x, units):
    """Returns the training step and inference of a cell of torch.nn, step by step."""
    import torch

    class Loop(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = getattr(torch.nn, f"{cell.upper()}Cell")(x.shape[-1], units)

        def forward(self, x):
            state = None
            for x_t in x.unbind(1):
                state = self.cell(x_t, state)
            return state[0] if cell == "lstm" else state

    return torch_steps(Loop(), torch.from_numpy(x))


def kerasseq_layer(cell, units):
    """Returns the layer of kerasseq."""
    return recurrent.keras_layer("kerasseq", cell, units)


def cudnn_lstm(units):
    """Returns the LSTM that cuDNN runs."""
    from kerasseq import layers

    return layers.LSTM(units, use_cudnn=True)


def layer_steps(layer, x):
    """Returns the functions to time for a layer that is not built."""
    layer.build(x.shape)
    return keras_steps(layer, x)


def attention_rows(size):
    """Yields the times of attention, and of layers with a state, in bfloat16."""
    import keras

    for batch, steps, heads, width in ATTENTION[size]:
        x = np.random.default_rng(0).normal(size=(batch, steps, heads * width))
        x = x.astype("float32")
        case = f"{batch} × {steps} tokens, {heads} heads of {width}"
        for name, make in attention_layers(heads, width, min(256, steps)).items():

            def functions(make=make, x=x):
                layer = make()
                layer(x[:, :2])
                return keras_steps(layer, x)

            yield from attempt(case, name, functions, size)
        if keras.backend.backend() == "torch":
            yield from attempt(
                case,
                "plain PyTorch",
                lambda x=x, h=heads: in_bfloat16(torch_attention(x, h)),
                size,
            )


def attention_layers(heads, width, window):
    """Returns functions that make the layers, by name."""
    from kerasseq import layers

    policy = {"dtype": "mixed_bfloat16"}

    def attention(name, **more):
        layer = getattr(layers, name)
        return lambda: causal_self_attention(layer(heads, width, **policy, **more))

    def with_state(name):
        return lambda: getattr(layers, name)(heads, width, **policy)

    return {
        "MultiHeadAttention": attention("MultiHeadAttention"),
        "LongformerAttention": attention("LongformerAttention", sliding_window=window),
        "Mamba": lambda: layers.Mamba(**policy),
        **{name: with_state(name) for name in AFTER},
    }


def in_bfloat16(functions):
    """Returns functions that run under `torch.autocast`."""
    import torch

    def within(function):
        def call():
            with torch.autocast(torch_device(), torch.bfloat16):
                function()

        return call

    return {name: within(function) for name, function in functions.items()}


def training_rows(size):
    """Yields the times of a training step of GPTs in bfloat16."""
    names = {"kerasseq": transformer.kerasseq_gpt, "KerasHub": transformer.hub_gpt}
    for case, sizes in GPTS[size].items():
        yield from gpt_rows(case, "training", sizes, names, size)


def generation_rows(size):
    """Yields the times of generating tokens by greedy search, in float32."""
    names = {"kerasseq": transformer.kerasseq_gpt, "KerasHub": transformer.hub_gpt}
    for case, sizes in GENERATED[size].items():
        yield from gpt_rows(case, "generation", sizes, names, size)


def gpt_rows(case, part, sizes, names, size):
    """Yields the times of one size of GPTs."""
    import keras

    task = {"part": part, "size": sizes, "jit": False}
    task["tokens"] = transformer.SIZES[size]["tokens"]["generation"]
    if part == "training":
        task["dtype"] = "mixed_bfloat16"
    on_torch = keras.backend.backend() == "torch"
    if on_torch:
        names = {**names, "Hugging Face": transformer.hugging_face_gpt}
    if on_torch and part == "training":
        plain = transformer.torch_gpt
        names = {**names, "plain PyTorch": plain}
        if torch_device() == "cuda":
            names["plain PyTorch, compiled"] = lambda task: plain(
                {**task, "compiled": True}
            )
    for name, make in names.items():

        def functions(make=make):
            keras.config.set_dtype_policy(task.get("dtype", "float32"))
            return {part: make(task)}

        yield from attempt(case, name, functions, size)
        keras.config.set_dtype_policy("float32")


PARTS = {
    "recurrent": recurrent_rows,
    "attention": attention_rows,
    "training": training_rows,
    "generation": generation_rows,
}
