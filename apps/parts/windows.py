"""What the lab Window computes, in the worker: who reads whom in real layers."""

from typing import Any

KINDS = ("dense", "window", "blocks", "hashes", "low_rank", "span")
HEADS, HEAD = 2, 8  # heads, and the width of one
LENGTHS = (16, 32, 64, 128, 256, 512)  # tokens at which costs are counted
RAMP = 4  # of the adaptive span: tokens in which the weights fall to 0


def make(kind: str, length: int, sizes: dict[str, int], seed: int = 0) -> Any:
    """Returns an attention layer with random weights.

    Args:
        kind: One of `KINDS`.
        length: The number of tokens T.
        sizes: "window" w, "first" tokens that are global, "block" L, "rank" r and
            "hashes" H.
        seed: That of the weights, and of the rotations of hashes.
    """
    import keras

    from kerasseq import layers

    keras.utils.set_random_seed(seed)
    shape, block = (HEADS, HEAD), sizes["block"]
    if kind == "dense":
        return layers.MultiHeadAttention(*shape)
    if kind == "window":
        options = {"max_global_tokens": sizes["first"] or None}
        return layers.LongformerAttention(
            *shape, sliding_window=sizes["window"], **options
        )
    if kind == "blocks":
        return layers.BlockwiseAttention(*shape, block_size=block)
    if kind == "hashes":
        options = {"num_hashes": sizes["hashes"], "chunk_length": block, "seed": seed}
        return layers.ReformerAttention(
            *shape, num_buckets=2 * -(-length // block), **options
        )
    if kind == "low_rank":
        rank = min(sizes["rank"], length)
        return layers.LinformerAttention(*shape, rank=rank, max_length=length)
    span = min(sizes["window"], length)
    return layers.AdaptiveSpanAttention(
        *shape, max_span=length, ramp=RAMP, initial_span=span
    )


def weights(kind: str, length: int, sizes: dict[str, int], seed: int = 0) -> Any:
    """Returns the attention weights of a layer for random tokens.

    Returns:
        `(T, T)`, the mean of the heads; `(T, r)` for "low_rank".
    """
    import keras
    import numpy as np

    layer = make(kind, length, sizes, seed)
    x = np.random.default_rng(seed).normal(size=(1, length, HEADS * HEAD))
    x, options = x.astype("float32"), {}
    if kind == "window" and sizes["first"]:
        options["global_mask"] = np.arange(length)[None] < sizes["first"]
    _, alpha = layer(x, x, return_attention_scores=True, **options)
    return keras.ops.convert_to_numpy(alpha)[0].mean(axis=0)


def costs(kind: str, sizes: dict[str, int]) -> list[dict[str, int]]:
    """Returns what one head computes and keeps, by the length.

    Returns:
        For each of `LENGTHS` "tokens", "multiplications", of the scores and of the sum
        of the values, and "kept", the scores that are in memory at once: those that are
        not 0 in the layer's weights, and of "blocks" one block of keys at a time.
    """
    found = []
    for T in LENGTHS:
        read = int((weights(kind, T, sizes) > 0).sum())
        kept = T * min(sizes["block"], T) if kind == "blocks" else read
        row = {"tokens": T, "multiplications": 2 * HEAD * read, "kept": kept}
        found.append(row)
    return found


def reach(kind: str, length: int, sizes: dict[str, int], layers: int) -> dict[str, Any]:
    """Returns what reaches a token through layers that read each other.

    Returns:
        "pairs" `(T, T)`, True where something of token s can reach token t; "shares",
        the share of the tokens at each distance from 0 that is reached.
    """
    import numpy as np

    pairs = np.eye(length, dtype=bool)
    for n in range(layers):
        read = weights(kind, length, sizes, seed=n) > 0
        if kind == "low_rank":  # each projection mixes all tokens
            read = np.repeat(read.any(axis=1, keepdims=True), length, axis=1)
        read |= np.eye(length, dtype=bool)  # the residual connection
        pairs = read.astype(int) @ pairs.astype(int) > 0
    both = [
        np.concatenate([np.diagonal(pairs, d), np.diagonal(pairs, -d)])
        for d in range(length)
    ]
    return {"pairs": pairs, "shares": [float(each.mean()) for each in both]}
