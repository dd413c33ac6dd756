"""Experts beside a dense network: the loss of both, and which expert reads what."""

import numpy as np

LOSS_ROWS, LOSS_SEED = 20 * 64, 77


def held_out_loss(model, batch_size):
    """Returns the contrastive loss of new scenes, in full batches."""
    from benchmarks.scene_rows import training_rows

    x, texts = training_rows("match", {}, LOSS_ROWS, LOSS_SEED)
    options = {"batch_size": batch_size, "return_dict": True, "verbose": 0}
    return float(model.evaluate(x, texts, **options)["loss"])


def routing(model, test):
    """Returns how the router sees patches and words, in bits.

    For each kind the mean entropy of a token and the entropy of the mean token, which
    "LIMoE" (Mustafa et al., 2022) calls local and global entropy; and what the kind of
    a token tells about the experts that it chooses.
    """
    from kerasseq import tracing

    layer = f"block_{model.get_config()['num_layers'] - 1}/feed_forward"
    E = model.get_config()["num_experts"]
    found, shares = {}, []
    for kind, embed, rows in (
        ("patches", model.embed_images, test.parts["images"]),
        ("words", model.embed_texts, [right[0] for right in test.right]),
    ):
        with tracing.trace(model) as inside:
            embed(rows, batch_size=len(rows))
        chosen = inside[f"{layer}/chosen"]
        p = inside[f"{layer}/router"][chosen[..., 0] < E]  # of real tokens, (n, E)
        found[f"{kind} local"] = float(np.mean(entropy(p)))
        found[f"{kind} global"] = float(entropy(np.mean(p, axis=0)))
        shares.append(np.bincount(chosen[chosen < E], minlength=E))
    q = np.array([each / each.sum() for each in shares])
    found["information"] = float(entropy(q.mean(axis=0)) - np.mean(entropy(q)))
    return found


def entropy(p):
    return -np.sum(p * np.log2(np.maximum(p, 1e-30)), axis=-1)
