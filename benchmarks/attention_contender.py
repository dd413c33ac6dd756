"""The contenders of `benchmarks attention`."""

import numpy as np

from benchmarks.steps import compiled, steps_of, torch_steps


def functions(task):
    """What one of them times."""
    batch, steps, width, heads = task["size"]
    x = np.random.default_rng(0).normal(size=(batch, steps, width)).astype("float32")
    if task["who"] == "torch SDPA":
        return plain_torch(x, heads)

    import keras

    import kerasseq

    kinds = {"kerasseq": kerasseq.layers, "keras": keras.layers}
    attention = kinds[task["who"]].MultiHeadAttention(heads, width // heads)
    layer = on_itself(attention)
    layer(x)
    found = steps_of(layer, x, task["jit"])
    if task["who"] == "kerasseq":
        found |= decoding(attention, x)
    return found


def on_itself(attention):
    """A layer in which a sequence attends to itself and its past."""
    import keras

    class OnItself(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def call(self, x, training=False):
            return self.attention(x, x, use_causal_mask=True, training=training)

    return OnItself()


def plain_torch(x, heads):
    """What one would write in PyTorch without a library."""
    import torch

    class Attention(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.query, self.key, self.value, self.output = (
                torch.nn.Linear(width, width) for _ in range(4)
            )

        def forward(self, x):
            B, T, D = x.shape
            q, k, v = (
                layer(x).view(B, T, heads, D // heads).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
            heads_out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True
            )
            return self.output(heads_out.transpose(1, 2).reshape(B, T, D))

    return torch_steps(Attention(x.shape[-1]), torch.from_numpy(x))


def decoding(attention, x):
    """One token with a cache, at its beginning and at its end."""
    import keras

    batch, steps, _ = x.shape
    token = keras.ops.convert_to_tensor(x[:, :1])
    cache = attention.make_cache(batch, steps)

    def step(place):
        return attention(
            token, token, cache=cache, cache_update_index=place, training=False
        )[0]

    step = compiled(step)

    def at(place):
        place = keras.ops.convert_to_tensor(place, "int32")
        return lambda: keras.ops.convert_to_numpy(step(place))

    return {"early token": at(1), "late token": at(steps - 1)}
