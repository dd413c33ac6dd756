"""How targets are looked for: with a beam, a sampler or the best token each time."""

import functools
from numbers import Integral
from typing import NamedTuple

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import PADDING, bucket
from kerasseq.decoding import Beam, generate


class Said(NamedTuple):
    """What a batch of sources came to, the best first.

    Attributes:
        ids: `(B, N, T)`, with the end, and padding behind it.
        scores: `(B, N)`, log-probabilities.
        lengths: `(B, N)`, the end included.
    """

    ids: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray


def search(beam, sampler, length):
    """The function of model, sources and seeds that gives what is `Said`.

    Raises:
        TypeError: If an option is of the wrong type.
        ValueError: If an option is out of range, or both a beam and a sampler given.
    """
    if isinstance(beam, Integral):
        beam = Beam(beam)
    elif not isinstance(beam, Beam | None):
        raise TypeError(f"beam must be a width or a decoding.Beam, got {beam!r}")
    if beam is not None and sampler is not None:
        raise ValueError("give beam or sampler, not both")
    if length is not None:
        checks.whole_number("length", length)
    return functools.partial(_search, beam, sampler, length)


def _search(beam, sampler, length, model, source, seeds):
    length = length or model.most(source)
    state = model.begun(source, length)
    side = model.target_side
    prompt = np.full((len(source), 1), side.start, "int32")
    options = {"length": length, "stop": side.end, "fill": PADDING}
    if beam is not None:
        return Said(*beam.search(model.step, state, prompt, **options)[:3])
    said = generate(model.step, state, prompt, sampler=sampler, seed=seeds, **options)
    scores = said.log_probabilities.sum(axis=1)
    return Said(said.ids[:, None], scores[:, None], said.lengths[:, None])


def alike(rows, batch_size):
    """Numbers of rows to translate together: those that are padded to one length.

    So how long a target may get depends on its own source alone.

    Examples:
        >>> rows = [[5] * 3, [5] * 20, [5] * 7, [5] * 8]
        >>> [numbers.tolist() for numbers in alike(rows, batch_size=2)]
        [[0, 2], [3], [1]]
    """
    lengths = np.array([bucket(len(row)) for row in rows])
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        yield from np.split(numbers, range(batch_size, len(numbers), batch_size))


def seeds(seed, count) -> np.ndarray:
    """A seed for each text, so that no batch repeats the draws of another.

    Examples:
        >>> bool(np.all(seeds(7, 3)[:2] == seeds(7, 2)))
        True
    """
    if seed is not None:
        checks.whole_number("seed", seed, 0)
    return np.random.default_rng(seed).integers(2**31, size=count)
