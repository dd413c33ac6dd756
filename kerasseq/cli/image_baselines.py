"""Simple models of images, to compare with: the majority, and logistic regression."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.cli import labeled, options
from kerasseq.cli.console import status
from kerasseq.datasets.image_reading import read_image

SIZE = 16  # pixels in a row, at most, that logistic regression is fitted to
ROWS = 5000  # training images, at most


def baselines(
    images: Any,
    labels: Sequence[str],
    tested: Any,
    y: Sequence[str],
    settings: options.Settings,
) -> dict[str, dict[str, float]]:
    """Computes the accuracy of simple models on held-out images.

    Args:
        images: Files or arrays of the training images.
        labels: Their labels.
        tested: Files or arrays of the held-out images.
        y: Their labels.
        settings: Arguments of the run.

    Returns:
        For each model "accuracy", "seconds" of training and prediction, and "rows",
        the number of images that it was fitted to.
    """
    found = {"majority": labeled.majority(labels, y)}
    if not labeled.has_sklearn():
        return found
    start = time.perf_counter()
    rng = np.random.default_rng(settings.seed)
    rows = rng.permutation(len(images))[:ROWS]
    name = "logistic regression, pixels"
    with status("reading the images for logistic regression"):
        x = pixels([images[n] for n in rows], settings)
        x_tested = pixels(tested, settings)
    with status("training logistic regression to compare with"):
        right = labeled.logistic_regression(
            x, [labels[n] for n in rows], x_tested, list(y)
        )
    seconds = time.perf_counter() - start
    found[name] = {"accuracy": right, "seconds": seconds, "rows": len(rows)}
    return found


def pixels(images: Sequence[Any], settings: options.Settings) -> np.ndarray:
    """Returns images as rows of pixels from 0 to 1, of at most 16 × 16 pixels."""
    size = (min(SIZE, settings.image_size),) * 2
    options_of_reading = {"channels": settings.channels, "resize": settings.resize}
    rows = [
        read_image(image, size, **options_of_reading)
        if isinstance(image, str)
        else image
        for image in images
    ]
    return np.reshape(np.stack(rows), (len(rows), -1)) / np.float32(255)
