"""Scenes that the tasks of `multimodal` train on, and those for their tests."""

from typing import Any, NamedTuple

import numpy as np

TEST_SEED = 1_000_000
DRAWN = {"noise": 0.05, "lighting": 0.25}
ORDERS = {"order": False, "shuffled": True}  # whether frames of a half are shuffled
ANSWERS = ("in order", "exchanged")


class Test(NamedTuple):
    """Rows that training has not.

    Attributes:
        parts: Arrays or sounds by kind, as `Multimodal` reads them.
        right: The texts that are right for each row.
        asked: How many rows count, from the first; the others are only chosen from.
    """

    parts: dict[str, Any]
    right: list[tuple[str, ...]]
    asked: int


def training_rows(task, options, count, seed):
    """Returns `count` rows: a dictionary of kinds, and texts."""
    from kerasseq import datasets

    data = datasets.scenes(count, seed=seed, **options, **DRAWN)
    if task not in ORDERS:
        return parts_of(data), data.texts
    films, exchanged = data.halves(shuffle=ORDERS[task], seed=seed)
    return {"images": films[:count]}, [ANSWERS[n] for n in exchanged[:count]]


def test_rows(task, options, count):
    """Returns a `Test`: of `describe` and `films` any rows, else different texts."""
    from kerasseq import datasets

    if task in ORDERS:
        parts, texts = training_rows(task, options, count, TEST_SEED)
        return Test(parts, [(text,) for text in texts], count)
    options = {**options, **DRAWN, "seed": TEST_SEED}
    if task in ("describe", "films"):
        data = datasets.scenes(count, **options)
        return Test(
            parts_of(data), [data.true_captions(n) for n in range(count)], count
        )
    hidden, asked = [], count
    if options.get("held_out"):
        hidden = [different(datasets.scenes(8 * count, unseen=True, **options), count)]
        asked = len(hidden[0])
    shown = different(datasets.scenes(8 * count, **options), count)
    scenes = [*hidden, shown.take(range(count - len(hidden and hidden[0])))]
    images = np.concatenate([data.images for data in scenes])
    parts = {"images": images}
    if shown.audio is not None:
        parts["audio"] = [sound for data in scenes for sound in data.audio]
    return Test(parts, [(text,) for data in scenes for text in data.texts], asked)


def parts_of(data):
    """Returns pictures and sounds of scenes by kind."""
    return {k: v for k in ("images", "audio") if (v := getattr(data, k)) is not None}


def different(data, count):
    """Returns the first scene with each caption, `count` at most."""
    first = {text: n for n, text in reversed([*enumerate(data.texts)])}
    return data.take(sorted(first.values())[:count])
