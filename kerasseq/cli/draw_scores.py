"""Scores of pictures that a model draws, beside those that need no model."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.cli import caption_scores, looks, multimodal_data, verdict
from kerasseq.cli.console import Console, status
from kerasseq.cli.draw_pictures import Pictures, real
from kerasseq.cli.multimodal_data import Captioned

if TYPE_CHECKING:
    from kerasseq.models import Multimodal

MOST = 256  # held-out captions that are drawn
LEARNED = 1000  # pictures of the training from which frequencies and means are counted
PART = 64  # rows whose logits are computed at a time
FREQUENCIES = "the frequencies of the ids"
SHUFFLED = "the model with captions of other pictures"


def rows(pictures: Captioned, seed: int) -> list[int]:
    """Chooses held-out pictures at random, each once."""
    return caption_scores.rows(pictures, seed)[:MOST]


def scores(
    model: "Multimodal", learned: Captioned, tested: Captioned, pictures: Pictures
) -> dict[str, Any]:
    """Compares what a model draws with what needs no model.

    Args:
        model: The model.
        learned: The pictures of the training.
        tested: Some held-out pictures.
        pictures: Those, rebuilt and drawn.

    Returns:
        "bits": bits per id of each held-out picture, by what predicts them. "errors":
        mean squared errors of the pixels. "codes": how many are in use. "looks": for
        scenes of one shape which pictures have color and shape of their captions.
    """
    some = np.random.default_rng(0).permutation(len(learned.texts))[:LEARNED].tolist()
    some = multimodal_data.take(learned, some)
    with status("counting the ids of the training"):
        pixels = real(model, some.images)
        known = model.codebook.encode(pixels)
    with status("computing the loss on the held-out pictures"):
        bits = bits_per_id(model, known, tested, pictures)
    mean = pixels.mean(axis=0)
    found = {
        "bits": bits,
        "errors": {
            "rebuilt": float(np.mean((pictures.real - pictures.rebuilt) ** 2)),
            "the mean picture": float(np.mean((pictures.real - mean) ** 2)),
        },
        "codes": in_use(pictures.ids, model.codebook.num_codes),
    }
    if looks.are_judged(learned):
        with status("reading color and shape"):
            found["looks"] = looks.scores(some, pixels, tested, pictures)
    return found


def bits_per_id(
    model: "Multimodal", known: np.ndarray, tested: Captioned, pictures: Pictures
) -> dict[str, np.ndarray]:
    """Returns bits per id of each held-out picture, by what predicts its ids.

    Args:
        model: The model.
        known: Ids of pictures of the training.
        tested: The held-out pictures, of which the captions are read.
        pictures: The same, with their ids.
    """
    K, ids = model.codebook.num_codes, pictures.ids.reshape(len(pictures.ids), -1)
    found = {FREQUENCIES: -np.log2(frequencies(known, K))[ids].mean(axis=1)}
    if len(ids) > 1:
        others = [*tested.texts[1:], tested.texts[0]]
        found[SHUFFLED] = _bits(model, others, pictures.real, ids)
    return {**found, "the model": _bits(model, tested.texts, pictures.real, ids)}


def _bits(model, texts, pixels, ids):
    """Bits per id of pictures after captions, `(rows,)`."""
    found = []
    for start in range(0, len(texts), PART):
        part = slice(start, start + PART)
        z = np.asarray(
            model.predict_on_batch(model.encode(pixels[part], texts[part])), "float64"
        )  # (B, N, K + 1)
        most = z.max(axis=-1, keepdims=True)
        nats = np.log(np.exp(z - most).sum(axis=-1)) + most[..., 0]
        nats -= np.take_along_axis(z, ids[part, :, None], axis=-1)[..., 0]
        found.append(nats.mean(axis=1) / np.log(2))
    return np.concatenate(found)


def frequencies(ids: np.ndarray, count: int) -> np.ndarray:
    """Returns the probability of each id, with one more of each than there are.

    Args:
        ids: Ids.
        count: K.

    Examples:
        >>> frequencies(np.array([[0, 0], [0, 2]]), 4).tolist()
        [0.5, 0.125, 0.25, 0.125]
    """
    n = np.bincount(ids.ravel(), minlength=count) + 1
    return n / n.sum()


def in_use(ids: np.ndarray, count: int) -> dict[str, float]:
    """Returns how many codes occur, and their perplexity, as plain data.

    Args:
        ids: Ids of pictures.
        count: K.

    Examples:
        >>> in_use(np.array([[0, 0], [2, 2]]), 4)
        {'num_codes': 4, 'used': 2, 'perplexity': 2.0}
    """
    n = np.bincount(ids.ravel(), minlength=count)
    p = n[n > 0] / n.sum()
    perplexity = float(np.exp(-np.sum(p * np.log(p))))
    return {"num_codes": count, "used": len(p), "perplexity": perplexity}


def judge(found: dict[str, Any]) -> dict[str, Any]:
    """Returns whether a model beats the best that needs no model, as plain data.

    It is judged by what its pictures show, or by the bits per id.

    Args:
        found: What `scores` returns.
    """
    if "looks" in found:
        return looks.judge(found["looks"])
    bits = dict(found["bits"])
    own = bits.pop("the model")
    means = {name: float(each.mean()) for name, each in bits.items()}
    best = bits[verdict.best_of(means, lowest=True)]
    return verdict.verdict(
        "The model",
        float(own.mean()),
        means,
        "bits per id of the held-out pictures",
        verdict.difference(best - own),
        ["more --steps", "more pictures"],
        rows="held-out pictures",
        lowest=True,
    )


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """Returns scores as plain data: means over the held-out pictures."""
    bits = {name: float(each.mean()) for name, each in found["bits"].items()}
    data = {**found, "bits": bits}
    if "looks" in found:
        data["looks"] = {
            name: {key: float(np.mean(right)) for key, right in each.items()}
            for name, each in found["looks"].items()
        }
    return data


def show(console: Console, found: dict[str, Any]) -> None:
    """Prints the scores."""
    data = plain(found)
    errors, codes = data["errors"], data["codes"]
    title = f"Bits per id, {len(found['bits']['the model']):,} held-out pictures"
    cells = [(name, f"{bits:.3f}") for name, bits in data["bits"].items()]
    console.table(title, ("predicted by", ">bits"), cells)
    console.write(
        "Rebuilt from their ids, held-out pictures have a mean squared error of "
        f"{errors['rebuilt']:.4f}; the mean picture has "
        f"{errors['the mean picture']:.4f}. {codes['used']:,} of "
        f"{codes['num_codes']:,} codes are in use, as many as "
        f"{codes['perplexity']:.1f} equally frequent ones."
    )
    if "looks" in data:
        looks.show(console, data["looks"])
