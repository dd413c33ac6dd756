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

    Local and global entropy of each kind by the probabilities of the router, and the
    information between kind and expert by its choices: see `routing_information`.
    """
    from kerasseq import tracing

    layer = f"block_{model.get_config()['num_layers'] - 1}/feed_forward"
    E = model.get_config()["num_experts"]
    router, choices = {}, {}
    for kind, embed, rows in (
        ("patches", model.embed_images, test.parts["images"]),
        ("words", model.embed_texts, [right[0] for right in test.right]),
    ):
        with tracing.trace(model) as inside:
            embed(rows, batch_size=len(rows))
        chosen = inside[f"{layer}/chosen"]  # E at tokens that are padding
        router[kind] = inside[f"{layer}/router"][chosen[..., 0] < E]
        counts = np.bincount(chosen[chosen < E], minlength=E)
        choices[kind] = [counts / counts.sum()]
    seen = tracing.routing_information(router)
    found = {f"{kind} local": bits for kind, bits in seen.local_entropy.items()}
    found |= {f"{kind} global": bits for kind, bits in seen.global_entropy.items()}
    information = tracing.routing_information(choices).mutual_information
    return found | {"information": information}
