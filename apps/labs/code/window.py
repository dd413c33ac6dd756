"""The code that the lab What a window costs shows."""

LAYER = """
import keras
import numpy as np

from kerasseq import layers

length = {length}
attentions = {
    "dense": layers.MultiHeadAttention(2, 8),
    "window": layers.LongformerAttention(
        2, 8, sliding_window={window}, max_global_tokens={first} or None
    ),
    "blocks": layers.BlockwiseAttention(2, 8, block_size={block}),
    "hashes": layers.ReformerAttention(
        2,
        8,
        num_buckets=2 * -(-length // {block}),
        num_hashes={hashes},
        chunk_length={block},
        seed=0,
    ),
    "low_rank": layers.LinformerAttention(
        2, 8, rank=min({rank}, length), max_length=length
    ),
    "span": layers.AdaptiveSpanAttention(
        2, 8, max_span=length, ramp=4, initial_span=min({window}, length)
    ),
}
x = np.random.default_rng(0).normal(size=(1, length, 16)).astype("float32")
read = {}
for name, layer in attentions.items():
    options = {}
    if name == "window" and {first}:
        options["global_mask"] = np.arange(length)[None] < {first}
    _, weights = layer(x, x, return_attention_scores=True, **options)
    read[name] = keras.ops.convert_to_numpy(weights)[0].mean(axis=0) > 0
"""

READS = (
    LAYER
    + """
for name, pairs in read.items():
    print(name, pairs.shape)
    for row in pairs[:16]:
        print("   ", "".join("#" if cell else "." for cell in row))
"""
)

COSTS = (
    LAYER
    + """
for name, pairs in read.items():
    print(name, pairs.sum(), "scores,", 2 * 8 * pairs.sum(), "multiplications a head")
"""
)

REACH = (
    LAYER
    + """
own = np.eye(length, dtype=bool)  # the residual connection
for name in ("dense", "window", "blocks", "span"):
    reached = own
    for _ in range({layers}):
        reached = (read[name] | own).astype(int) @ reached.astype(int) > 0
    print(name, "reaches", reached[-1].sum(), "of", length, "tokens from the last one")
"""
)
