"""What the lab Pictures computes: scenes, their captions, and what the networks say.

`prepare_pictures.py` has trained the networks.
"""

import functools
import pathlib
from typing import Any

import numpy as np

from labs.code import pictures as code
from parts.errors import Refused

FILE = pathlib.Path(__file__).parent.parent / "prepared" / "pictures.npz"
COLORS = ("red", "green", "blue", "yellow", "purple", "white")
SHAPES = ("square", "circle", "triangle", "cross")
SIZES = ("small", "large")
PLACES = (
    *("top left", "top", "top right"),
    *("left", "center", "right"),
    *("bottom left", "bottom", "bottom right"),
)
RELATIONS = ("left of", "right of", "above", "below")
SAMPLE = 1500  # scenes, in which each look and each place occurs many times
Looks = tuple[tuple[str, str, str], ...]  # color, shape and size of each shape


@functools.cache
def words_of(
    count: int, language: str
) -> tuple[dict[Any, str], dict[str, str], dict[Any, str]]:
    """Returns the words of captions of one shape or of two, by what they tell.

    Args:
        count: Number of shapes, 1 or 2.
        language: "en" or "fr".

    Returns:
        Those of the first shape by color, shape and size; those of the place or of the
        relation; those of the second shape.
    """
    (data,) = code.captioned(SAMPLE, 3, (language,), objects=(count,))
    first, between, second = {}, {}, {}
    for n, text in enumerate(data.texts):
        words, said = text.split(), data.mentions(n)
        looks = list(zip(data.colors[n], data.shapes[n], data.sizes[n], strict=True))
        ends = [max(at for at, shape in said if shape == k) + 1 for k in range(count)]
        start = ends[0] if count == 1 else min(at for at, k in said if k == 1)
        first[looks[0]] = " ".join(words[: ends[0]])
        between[data.layouts[n]] = words[ends[0] : None if count == 1 else start - 1]
        if count == 2:
            second[looks[1]] = " ".join(words[start - 1 :])
    return first, {name: " ".join(found) for name, found in between.items()}, second


def caption(looks: Looks, where: str, language: str) -> str:
    """Returns the caption of a scene.

    Args:
        looks: Color, shape and size of each shape.
        where: The place, or the relation of the first to the second.
        language: "en" or "fr".
    """
    first, between, second = words_of(len(looks), language)
    parts = [first[looks[0]], between[where]]
    return " ".join(parts if len(looks) == 1 else [*parts, second[looks[1]]])


def any_relation(looks: Looks, language: str) -> set[str]:
    """Returns the captions that name two shapes, with any relation of them."""
    return {
        caption(pair, relation, language)
        for relation in RELATIONS
        for pair in (looks, looks[::-1])
    }


def shown(looks: Looks, where: str, seed: int, noise: float) -> dict[str, np.ndarray]:
    """Returns a scene as "image" `(24, 24, 3)` and "boxes" `(shapes, 4)`.

    Args:
        looks: Color, shape and size of each shape.
        where: The place, or the relation of the first to the second.
        seed: Random seed: where exactly the shapes are.
        noise: Standard deviation of the noise.
    """
    found = code.scene(*zip(*looks, strict=True), where, seed, noise, "en")
    return {"image": found.images[0], "boxes": found.boxes[0]}


def several(seed: int, language: str, count: int = 6) -> dict[str, Any]:
    """Returns "images" and "texts" of scenes, the first half of one shape each."""
    scenes = code.captioned(2 * count, 500_000 + seed, (language,))
    images, texts = code.joined(scenes, tagged=False)
    rows = [*range(count // 2), *range(count, count + count // 2)]
    return {"images": images[rows], "texts": [texts[n] for n in rows]}


def changed(looks: Looks, where: str) -> dict[str, tuple[Looks, str]]:
    """Returns what captions with one word changed would tell, by what is changed.

    Examples:
        >>> changed((("red", "cross", "small"),), "top")["size"]
        ((('red', 'cross', 'large'),), 'top')
    """
    (color, shape, size), *others = looks
    found = {
        "color": ((_other(color, COLORS), shape, size), *others),
        "shape": ((color, _other(shape, SHAPES), size), *others),
    }
    if not others:
        found["size"] = ((color, shape, _other(size, SIZES)),)
    # Of two shapes the first can have become the second.
    kept = {
        name: (new, where) for name, new in found.items() if len({*new}) == len(new)
    }
    if not others:
        return kept | {"place": (looks, _other(where, PLACES))}
    opposite = RELATIONS[RELATIONS.index(where) ^ 1]
    return kept | {
        "relation": (looks, opposite),
        "exchanged": (looks[::-1], where),
        "inverse": (looks[::-1], opposite),
    }


def _other(name, names):
    return names[(names.index(name) + 1) % len(names)]


@functools.cache
def network(head: str) -> Any:
    """Returns a trained network, with head "contrastive" or "caption"."""
    model = code.make(head)
    with np.load(FILE) as arrays:
        weights = [arrays[f"{head}_{n}"] for n in range(len(model.weights))]
    model.set_weights([weight.astype("float32") for weight in weights])
    return model


def quality() -> dict[str, float]:
    """Returns what the networks reach on scenes that they were not trained on."""
    with np.load(FILE) as arrays:
        return {
            name.removeprefix("quality_"): float(arrays[name])
            for name in arrays
            if name.startswith("quality_")
        }


def vocabulary(language: str) -> list[str]:
    """Returns the words of all captions in a language."""
    parts = [part.values() for count in (1, 2) for part in words_of(count, language)]
    return sorted({word for part in parts for text in part for word in text.split()})


def plain(text: str) -> str:
    """Returns a text in small letters with single blanks, without a point at its end.

    Raises:
        Refused: If no word is left.

    Examples:
        >>> plain(" A red  cross. ")
        'a red cross'
    """
    text = text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = " ".join(text.split()).rstrip(" .")
    if not text:
        raise Refused("no_text")
    return text


def checked(model: Any, text: str, language: str) -> str:
    """Returns a text that a network can read.

    Args:
        model: The network.
        text: The text.
        language: Of the words that a message lists.

    Raises:
        Refused: If it has no word, or some that the network has not learned, or too
            many.
    """
    text = plain(text)
    unknown = list(model.tokenizer.unknown_words(text))
    if unknown:
        known = ", ".join(vocabulary(language))
        raise Refused("unknown_words", wrong=", ".join(unknown[:5]), known=known)
    most = code.SIZES["max_sequence_length"] - 1
    if len(model.tokenizer.encode(text)) > most:
        raise Refused("too_many_words", most=most)
    return text


def pieces(model: Any, text: str) -> list[str]:
    """Returns the tokens of a text."""
    return [model.tokenizer.decode([n]) for n in model.tokenizer.encode(text)]


def matched(images: np.ndarray, texts: list[str], language: str) -> dict[str, Any]:
    """Compares pictures with captions.

    Args:
        images: `(pictures, 24, 24, 3)`.
        texts: The captions.
        language: Of the page.

    Returns:
        "cosines" `(pictures, captions)`, and "scale", the learned factor.

    Raises:
        Refused: As `checked`.
    """
    model = network("contrastive")
    texts = [checked(model, text, language) for text in texts]
    cosines = model.embed_images(images) @ model.embed_texts(texts).T
    return {"cosines": cosines, "scale": model.temperature}


def added(image: np.ndarray, text: str, language: str) -> dict[str, Any]:
    """Returns the parts of a cosine.

    Returns:
        "words"; "parts" `(patches, words)`; "fall" `(patches,)`, by how much the cosine
        falls if a patch is black.

    Raises:
        Refused: As `checked`.
    """
    model = network("contrastive")
    text = checked(model, text, language)
    return {
        "words": ["⊢", *pieces(model, text), "⊣"],
        "parts": code.contributions(model, image, text),
        "fall": code.blanked(model, image, text),
    }


def described(image: np.ndarray, language: str) -> str:
    """Returns the caption that a network writes."""
    (written,) = code.describe(network("caption"), image[None], language)
    return written.replace(" - ", "-")


def read(image: np.ndarray, language: str, text: str) -> dict[str, Any]:
    """Returns how a network reads a picture while it writes a caption.

    Returns:
        "words"; "weights" `(layers, heads, words, patches)`; "p" of each word.

    Raises:
        Refused: As `checked`.
    """
    model = network("caption")
    text = checked(model, text, language)
    weights, p = code.attention(model, image, text, language)
    return {"words": pieces(model, text), "weights": weights, "p": p}


def shapes_of(words: list[str], looks: Looks, language: str) -> list[int | None]:
    """Returns which shape each word of a caption names, by color, shape or size.

    Args:
        words: The tokens of a caption.
        looks: The shapes of the scene.
        language: Of the caption.

    Returns:
        The index of a shape; None for words that name none.
    """
    first = words_of(len(looks), language)[0]
    found: list[int | None] = [None] * len(words)
    for k, look in enumerate(looks):
        names = first[look].split()[1:]  # without the article
        for start in range(len(words) - len(names) + 1):
            if words[start : start + len(names)] == names:
                found[start : start + len(names)] = [k] * len(names)
    return found
