"""The checks of `benchmarks.gpu`: layers beside the same layers in float64 on a CPU."""

import re

import numpy as np

SIZES = {"full": (7, 131, 64), "tiny": (2, 5, 8)}  # batch, steps, features
PATHS = {  # operations of PyTorch, and what XLA calls
    "_cudnn_rnn": "cuDNN",
    "_flash_attention_forward": "flash",
    "_efficient_attention_forward": "memory-efficient",
    "_cudnn_attention_forward": "cuDNN's attention",
    "cudnn$rnn": "cuDNN",
    "cudnn$fmha": "cuDNN's attention",
    "__cudnn$fmha": "cuDNN's attention",
}
KINDS = {  # policy, TF32, and the largest differences of outputs and of gradients
    "float32": ("float32", False, 2e-5, 2e-4),
    "float32 by TF32": ("float32", True, 5e-3, 5e-2),
    "bfloat16": ("mixed_bfloat16", True, 5e-2, 2e-1),
}


def cases(units, policy):
    """Returns functions that make layers, and whether they take a mask."""
    from benchmarks import own_cells
    from benchmarks.attention import causal_self_attention
    from kerasseq import layers

    options = {"dtype": policy}
    heads = {"num_heads": 2, "key_dim": units // 2, **options}
    path = {"return_sequences": True, **options}
    rnn = layers.RNN

    def attention(name, **more):
        layer = getattr(layers, name)
        return lambda: causal_self_attention(layer(**heads, **more))

    return {
        "LSTM": lambda: layers.LSTM(units, **path),
        "LSTM, masked": lambda: layers.LSTM(units, **path),
        "LSTM, reverse": lambda: layers.LSTM(units, go_backwards=True, **path),
        "GRU": lambda: layers.GRU(units, **path),
        "GRU, reset before": lambda: layers.GRU(units, reset_after=False, **path),
        "ElmanRNN": lambda: layers.ElmanRNN(units, **path),
        "PeepholeLSTM": lambda: layers.PeepholeLSTM(units, **path),
        "PeepholeLSTM, masked": lambda: layers.PeepholeLSTM(units, **path),
        "a user's cell": lambda: rnn(
            own_cells.MinimalGatedCell(units, **options), **path
        ),
        "SLSTM": lambda: layers.SLSTM(units, num_heads=2, **path),
        "MinGRU": lambda: layers.MinGRU(units, **path),
        "MultiHeadAttention": attention("MultiHeadAttention"),
        "MultiHeadAttention, masked": attention("MultiHeadAttention"),
        "MultiHeadAttention, window": attention("MultiHeadAttention", sliding_window=3),
        "BlockwiseAttention": attention("BlockwiseAttention", block_size=3),
        "LongformerAttention": attention("LongformerAttention", sliding_window=3),
        "LinearAttention": lambda: layers.LinearAttention(2, units // 2, **options),
        "GatedLinearAttention": lambda: layers.GatedLinearAttention(
            2, units // 2, **options
        ),
        "DeltaNet": lambda: layers.DeltaNet(2, units // 2, **options),
        "Mamba": lambda: layers.Mamba(**options),
        "S4D": lambda: layers.S4D(**options),
    }


# Of which kinds TF32 is checked: a loop by cuDNN and by steps, attention, a state.
ROUNDED = ("LSTM", "GRU", "ElmanRNN", "PeepholeLSTM", "MultiHeadAttention", "Mamba")
EXPECTED = {  # on PyTorch with a GPU, by kind
    **{
        (cell, kind): ("cuDNN",)
        for cell in ("LSTM", "GRU", "ElmanRNN")
        for kind in KINDS
    },
    ("MultiHeadAttention", "bfloat16"): ("flash", "cuDNN's attention"),
}


def inputs(size):
    """Returns an input, its mask, and the weights of the sum of the outputs."""
    rng = np.random.default_rng(0)
    batch, steps, features = SIZES[size]
    x = rng.normal(size=(batch, steps, features))
    lengths = rng.integers(1, steps + 1, size=batch)
    mask = np.arange(steps) < lengths[:, None]
    mask[::2] = mask[::2, ::-1]  # every other row is padded on the left
    return x, mask, rng.normal(size=(batch, steps, features))


def computed(name, make, size, dtype):
    """Returns the outputs and all gradients of one layer as two vectors."""
    import keras

    layer = make()
    x, mask, sums = inputs(size)
    x, sums = x.astype(dtype), sums.astype(dtype)
    layer(x[:, :2])
    rng = np.random.default_rng(1)
    layer.set_weights(
        [
            rng.normal(0, 0.3, size=w.shape) / max(1, w.shape[0] / 16) ** 0.5
            if w.dtype.kind == "f"
            else w
            for w in layer.get_weights()
        ]
    )
    masked = {"mask": mask} if name.endswith("masked") else {}
    if keras.backend.backend() == "jax":
        return on_jax(layer, x, sums, masked)
    return on_torch(layer, x, sums, masked)


def call(layer, x, masked):
    """Calls a layer; attention takes a mask by the tensors of its input."""
    import keras

    if not masked:
        return layer(x)
    mask = keras.ops.convert_to_tensor(masked["mask"])
    if hasattr(layer, "attention"):
        y = layer.attention(
            x, x, use_causal_mask=True, query_mask=mask, value_mask=mask
        )
        return y * keras.ops.cast(mask, y.dtype)[..., None]
    y = layer(x, mask=mask)
    return y * keras.ops.cast(mask, y.dtype)[..., None]


def on_torch(layer, x, sums, masked):
    """Returns outputs, gradients and the path on PyTorch."""
    import torch

    from benchmarks.steps import torch_device

    device = torch_device()
    x = torch.tensor(x, device=device, requires_grad=True)
    layer.zero_grad()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU]
    ) as profile:
        y = call(layer, x, masked)
    (y * torch.tensor(sums, device=device)).sum().backward()
    weights = [v.value for v in layer.trainable_variables]
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    gradients.append(x.grad)
    names = {event.key for event in profile.key_averages()}
    ran = {text for part, text in PATHS.items() for n in names if n.endswith(part)}
    return (
        y.detach().double().cpu().numpy().ravel(),
        np.concatenate([g.double().cpu().numpy().ravel() for g in gradients]),
        ", ".join(sorted(ran)),
    )


def on_jax(layer, x, sums, masked):
    """Returns outputs, gradients and the path on JAX."""
    import jax
    import keras

    rest = [v.value for v in layer.non_trainable_variables]
    weights = [v.value for v in layer.trainable_variables]

    def outputs(weights, x):
        pairs = zip(layer.trainable_variables, weights, strict=True)
        fixed = zip(layer.non_trainable_variables, rest, strict=True)
        with keras.StatelessScope(state_mapping=[*pairs, *fixed]):
            return call(layer, x, masked)

    def total(weights, x):
        y = outputs(weights, x)
        return (y * sums).sum(), y

    step = jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True))
    step = step.lower(weights, jax.numpy.asarray(x)).compile()
    targets = set(re.findall(r'custom_call_target="([^"]+)"', step.as_text()))
    (gradients, d_x), y = step(weights, jax.numpy.asarray(x))
    ran = {text for part, text in PATHS.items() for n in targets if part in n}
    return (
        np.asarray(y, "float64").ravel(),
        np.concatenate([np.asarray(g, "float64").ravel() for g in (*gradients, d_x)]),
        ", ".join(sorted(ran)),
    )


def write_reference(file, size):
    """Writes outputs and gradients in float64 on the CPU."""
    found = {}
    for name, make in cases(SIZES[size][-1], "float64").items():
        y, gradients, _ = computed(name, make, size, "float64")
        found |= {f"{name} y": y, f"{name} gradients": gradients}
    np.savez(file, **found)


def rows(file, size):
    """Yields the differences of each layer in each kind of numbers."""
    import keras

    from benchmarks.gpu_parts import allow_tf32
    from benchmarks.steps import has_gpu

    strict = keras.backend.backend() == "torch" and has_gpu()
    with np.load(file) as reference:
        for kind, (policy, tf32, *most) in KINDS.items():
            allow_tf32(tf32)
            for name, make in cases(SIZES[size][-1], policy).items():
                if tf32 and policy == "float32" and name not in ROUNDED:
                    continue
                expected = [reference[f"{name} {key}"] for key in ("y", "gradients")]
                try:
                    *found, path = computed(name, make, size, "float32")
                except Exception as error:  # the other layers are checked all the same
                    reason = f"{type(error).__name__}: {str(error)[:150]}"
                    yield {
                        "case": name,
                        "numbers": kind,
                        "output": reason,
                        "gradient": "",
                        "path": "",
                        "check": "failed",
                    }
                    continue
                errors = [
                    float(np.linalg.norm(a - b) / np.linalg.norm(b))
                    for a, b in zip(found, expected, strict=True)
                ]
                right = all(a <= b for a, b in zip(errors, most, strict=True))
                if strict and (name, kind) in EXPECTED:
                    right = right and path in EXPECTED[name, kind]
                yield {
                    "case": name,
                    "numbers": kind,
                    "output": errors[0],
                    "gradient": errors[1],
                    "path": path,
                    "check": "passed" if right else "failed",
                }
