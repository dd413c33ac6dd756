"""Exercises of tutorials 09 to 12: self-attention, GPT, BERT, ViT."""

from typing import Any

import numpy as np

from kerasseq.exercises.registry import exercise, normal, softmax


@exercise(
    "09.1",
    lambda rng: (normal(rng, 5, 7), normal(rng, 3, 7)),
    not_scaled=lambda q, k: q @ k.T,
    by_width=lambda q, k: q @ k.T / q.shape[1],
    transposed=lambda q, k: k @ q.T / np.sqrt(q.shape[1]),
)
def scaled_scores(q: Any, k: Any) -> Any:
    """Divides the products of queries and keys by the root of their width."""
    return q @ k.T / np.sqrt(k.shape[-1])


def _of_keras(
    q: Any, k: Any, v: Any, heads: int = 1, *, is_causal: bool = False
) -> Any:
    from keras import ops

    parts = (np.reshape(x, (1, len(x), heads, -1)) for x in (q, k, v))
    context = ops.dot_product_attention(*parts, is_causal=is_causal)
    return ops.reshape(context, (len(q), -1))


def _late_mask(q: Any, k: Any, v: Any) -> Any:
    return np.tril(softmax(scaled_scores(q, k))) @ v


def _strict(q: Any, k: Any, v: Any) -> Any:
    scores = scaled_scores(q, k)
    return softmax(np.where(np.tri(len(q), k=1) > 0, scores, -1e9)) @ v


@exercise(
    "09.2",
    lambda rng: (normal(rng, 5, 7), normal(rng, 5, 7), normal(rng, 5, 3)),
    right=lambda q, k, v: causal_by_prefixes(q, k, v),
    no_mask=lambda q, k, v: softmax(scaled_scores(q, k)) @ v,
    late_mask=_late_mask,
    one_ahead=_strict,
)
def causal_attention(q: Any, k: Any, v: Any) -> Any:
    """Computes attention of each position to itself and the earlier ones."""
    scores = np.where(np.tri(len(q)) > 0, scaled_scores(q, k), -np.inf)
    return softmax(scores) @ v


def causal_by_prefixes(q: Any, k: Any, v: Any) -> Any:
    """Returns the same without a mask: position t attends to a shorter sequence."""
    rows = [
        softmax(scaled_scores(q[t : t + 1], k[: t + 1])) @ v[: t + 1]
        for t in range(len(q))
    ]
    return np.concatenate(rows)


def _wrong_split(q: Any, k: Any, v: Any, heads: Any) -> Any:
    parts = [np.reshape(x, (heads, len(x), -1)) for x in (q, k, v)]
    each = [softmax(scaled_scores(a, b)) @ c for a, b, c in zip(*parts, strict=True)]
    return np.concatenate(each, axis=1)


def _wide_scale(q: Any, k: Any, v: Any, heads: Any) -> Any:
    return multi_head(q / np.sqrt(heads), k, v, heads)


@exercise(
    "09.3",
    lambda rng: (normal(rng, 5, 6), normal(rng, 7, 6), normal(rng, 7, 6), 2),
    right=_of_keras,
    one_head=lambda q, k, v, heads: softmax(scaled_scores(q, k)) @ v,
    wide_scale=_wide_scale,
    wrong_split=_wrong_split,
)
def multi_head(q: Any, k: Any, v: Any, heads: Any) -> Any:
    """Computes attention in each part of the features, and joins the results."""
    parts = (np.split(x, heads, axis=-1) for x in (q, k, v))
    each = [softmax(scaled_scores(a, b)) @ c for a, b, c in zip(*parts, strict=True)]
    return np.concatenate(each, axis=-1)


@exercise(
    "10.1",
    lambda rng: (int(rng.integers(2, 13)), 8 * int(rng.integers(3, 9))),
    attention_only=lambda layers, width: 4 * layers * width**2,
    feed_forward_only=lambda layers, width: 8 * layers * width**2,
    narrow=lambda layers, width: 6 * layers * width**2,
)
def kernels_of_blocks(layers: Any, width: Any) -> Any:
    """Counts four matrices of attention, and two of the feed-forward network."""
    attention, feed_forward = 4 * width * width, 2 * width * (4 * width)
    return layers * (attention + feed_forward)


@exercise(
    "10.2",
    lambda rng: (rng.integers(0, 50, 19), 5),
    copied=lambda ids, context: np.stack(
        [next_token_blocks(ids, context)[:, 0]] * 2, 1
    ),
    backwards=lambda ids, context: next_token_blocks(ids, context)[:, ::-1],
    overlapping=lambda ids, context: np.stack(
        [
            [ids[n : n + context], ids[n + 1 : n + context + 1]]
            for n in range(len(ids) - context)
        ]
    ),
)
def next_token_blocks(ids: Any, context: Any) -> Any:
    """Returns blocks side by side, each with the same block one token later."""
    starts = range(0, len(ids) - context, context)
    return np.stack(
        [[ids[n : n + context], ids[n + 1 : n + context + 1]] for n in starts]
    )


def _of_loss(logits: Any, targets: Any) -> Any:
    from keras import ops

    losses = ops.sparse_categorical_crossentropy(
        np.asarray(targets, "int32"), np.asarray(logits), from_logits=True
    )
    return ops.mean(losses)


@exercise(
    "10.3",
    lambda rng: (normal(rng, 7, 5), rng.integers(0, 5, 7)),
    right=_of_loss,
    bits=lambda logits, targets: cross_entropy(logits, targets) / np.log(2),
    over_time=lambda logits, targets: (
        -np.mean(np.log(softmax(logits.T).T[np.arange(len(targets)), targets]))
    ),
    total=lambda logits, targets: cross_entropy(logits, targets) * len(targets),
)
def cross_entropy(logits: Any, targets: Any) -> Any:
    """Returns the mean of minus the logarithm of the probability of the right token."""
    p = softmax(logits)
    return -np.mean(np.log(p[np.arange(len(targets)), targets]))


def _losses(rng: np.random.Generator) -> tuple[Any, ...]:
    weights = np.zeros((3, 7), "float32")
    weights[0, 1:4], weights[1, 5] = 1, 1
    return np.abs(normal(rng, 3, 7)), weights


@exercise(
    "11.1",
    _losses,
    everywhere=lambda losses, weights: losses.mean(),
    all_divided=lambda losses, weights: (losses * weights).mean(),
    total=lambda losses, weights: (losses * weights).sum(),
)
def masked_loss(losses: Any, weights: Any) -> Any:
    """Returns the mean over the chosen positions."""
    return np.sum(losses * weights) / np.sum(weights)


def _separator_of_b(a: Any, b: Any, cls: Any, sep: Any) -> Any:
    inputs = np.array(pair_inputs(a, b, cls, sep))
    inputs[1, len(a) + 1] = 1
    return inputs


@exercise(
    "11.2",
    lambda rng: (rng.integers(10, 20, 3), rng.integers(10, 20, 5), 2, 3),
    no_end=lambda *inputs: np.array(pair_inputs(*inputs))[:, :-1],
    separator_of_b=_separator_of_b,
    from_one=lambda *inputs: np.array(pair_inputs(*inputs)) + [[0], [1]],
)
def pair_inputs(a: Any, b: Any, cls: Any, sep: Any) -> Any:
    """Returns the ids of both texts with their signs, and their segments."""
    ids = [cls, *a, sep, *b, sep]
    return [ids, [0] * (len(a) + 2) + [1] * (len(b) + 1)]


def _tokens(rng: np.random.Generator) -> tuple[Any, ...]:
    ids, others = rng.integers(10, 20, 11), rng.integers(20, 30, 11)
    chosen = np.arange(11) % 5 != 4
    return ids, chosen, np.tile([0.1, 0.85, 0.95], 4)[:11], others, 4


@exercise(
    "11.3",
    _tokens,
    all_chosen=lambda ids, chosen, draws, others, mask: masked_tokens(
        ids, np.ones(11, bool), draws, others, mask
    ),
    always=lambda ids, chosen, draws, others, mask: np.where(chosen, mask, ids),
    no_random=lambda ids, chosen, draws, others, mask: np.where(
        chosen & (draws < 0.8), mask, ids
    ),
)
def masked_tokens(ids: Any, chosen: Any, draws: Any, others: Any, mask: Any) -> Any:
    """Returns the rule 80, 10, 10."""
    replaced = np.where(draws < 0.8, mask, np.where(draws < 0.9, others, ids))
    return np.where(chosen, replaced, ids)


@exercise(
    "12.1",
    lambda rng: (4 * int(rng.integers(5, 9)), 4),
    no_class=lambda size, patch: (size // patch) ** 2,
    one_side=lambda size, patch: size // patch + 1,
    pixels=lambda size, patch: size**2 + 1,
)
def count_tokens(size: Any, patch: Any) -> Any:
    """Returns the patches, and the class token."""
    return (size // patch) ** 2 + 1


def _of_extraction(image: Any, patch: Any) -> Any:
    from keras import ops

    patches = ops.image.extract_patches(image[None], patch, data_format="channels_last")
    return ops.reshape(patches, (-1, patches.shape[-1]))


@exercise(
    "12.2",
    lambda rng: (normal(rng, 6, 9, 2), 3),
    right=_of_extraction,
    cut_rows=lambda image, patch: image.reshape(-1, patch * patch * image.shape[2]),
    by_column=lambda image, patch: (
        flat_patches(image, patch).reshape(2, 3, -1).transpose(1, 0, 2).reshape(6, -1)
    ),
)
def flat_patches(image: Any, patch: Any) -> Any:
    """Returns squares from the left to the right and from the top to the bottom."""
    height, width, _ = image.shape
    return np.stack(
        [
            image[y : y + patch, x : x + patch].reshape(-1)
            for y in range(0, height, patch)
            for x in range(0, width, patch)
        ]
    )


def _product(matrices: Any) -> Any:
    product = np.eye(matrices.shape[-1])
    for A in matrices:
        product = A @ product
    return product


@exercise(
    "12.3",
    lambda rng: (softmax(normal(rng, 3, 5, 5)),),
    no_residual=_product,
    reversed_order=lambda A: _product((A[::-1] + np.eye(5)) / 2),
    not_halved=lambda A: _product(A + np.eye(5)),
)
def attention_rollout(A: Any) -> Any:
    """Returns the product of (A + I) / 2 over the layers, the first on the right."""
    rollout = np.eye(A.shape[-1])
    for layer in A:
        rollout = (layer + np.eye(len(layer))) / 2 @ rollout
    return rollout
