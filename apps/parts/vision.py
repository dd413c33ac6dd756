"""What the lab Vision computes, in the worker, for images and for texts."""

import csv
import io
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from parts import pieces, work
from parts.errors import Refused

SEPARATORS = ",;\t|"
SHOWN_ROWS = 5  # of a table


def example(digit: int, number: int) -> np.ndarray:
    """Returns an image of the data set.

    Args:
        digit: 0 to 9.
        number: Which one of this digit, from 0.

    Returns:
        uint8 of shape `(8, 8)`.
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    return _levels(data.images[np.flatnonzero(data.target == digit)[number]])


def numbered(number: int) -> np.ndarray:
    """Returns an image of the data set by its number in results: "digit 7" is 7."""
    from sklearn.datasets import load_digits

    return _levels(load_digits().images[number])


def _levels(image):
    return np.rint(image * (255 / 16)).astype("uint8")


def look(folder: pathlib.Path, image: np.ndarray, token: int) -> dict[str, Any]:
    """Returns what a Vision Transformer does with an image.

    Args:
        folder: The run of the model.
        image: uint8 of shape `(8, 8)`.
        token: The query: 0 is the class token, then the patches row by row.

    Returns:
        "probabilities" by label; "size" of a patch; "weights"
        `(layers, heads, tokens)` of the query; "rollout" `(layers, tokens)`, after each
        layer; "pixels" `(8, 8)`, which moved the score of the most probable label.
    """
    import kerasseq

    model = work.model(folder)
    found = model.classify(image)
    with kerasseq.tracing.trace(model) as inside:
        model(image[None, :, :, None])
    weights = [w for key, w in inside.items() if key.endswith("alignment")]
    rollout = [
        kerasseq.tracing.attention_rollout(weights[: n + 1])[0, token]
        for n in range(len(weights))
    ]
    return {
        "probabilities": {str(k): float(p) for k, p in found.probabilities.items()},
        "size": int(np.ravel(model.get_config()["patch_size"])[0]),
        "weights": np.stack([w[0, :, token] for w in weights]),
        "rollout": np.stack(rollout),
        "pixels": model.attribution(image[None], [found.label])[0],
    }


def read(folder: pathlib.Path, text: str, labels: Sequence[str]) -> dict[str, Any]:
    """Returns how a classifier decides on a text.

    Args:
        folder: The run of the model.
        text: The text.
        labels: The labels that are explained besides the most probable one.

    Returns:
        "probabilities" by label, the highest first; "tokens"; "moved", by label how
        much each token moved its score.
    """
    import kerasseq

    model = work.model(folder)
    p = model.classify(text).probabilities
    order = sorted(p, key=p.get, reverse=True)
    wanted = dict.fromkeys([order[0], *(k for k in order if str(k) in labels)])
    found = {k: kerasseq.tracing.attribution(model, text, k) for k in wanted}
    return {
        "probabilities": {str(k): float(p[k]) for k in order},
        "tokens": _tokens(model.tokenizer, text, found[order[0]].tokens),
        "moved": {str(k): each.scores.astype("float64") for k, each in found.items()},
    }


def _tokens(tokenizer, text, covered):
    """What the tokens that a model reads cover, in bytes where a letter is cut."""
    if not pieces.is_of_bytes(tokenizer):
        return covered
    return pieces.of(tokenizer, text)[: len(covered)]


def table_head(name: str, content: bytes) -> list[dict[str, str]]:
    """Returns the first rows of a table of one's own.

    Args:
        name: The name of the file, for messages.
        content: The file, as `kerasseq train classify --file` reads it.

    Raises:
        Refused: If it is no table with two columns and a row below their names.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
    first = text.lstrip().partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
        rows = [row for _, row in zip(range(SHOWN_ROWS), reader, strict=False)]
        names = list(reader.fieldnames or [])
    except csv.Error as error:
        raise Refused("no_table", name=name) from error
    named = len(names) > 1 and all(names) and len(set(names)) == len(names)
    if "\0" in text or not rows or not named:
        raise Refused("no_table", name=name)
    return [{column: (row[column] or "")[:200] for column in names} for row in rows]
