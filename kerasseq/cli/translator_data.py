"""The pairs of `kerasseq compare translators`: training, held out, and names."""

import os
from typing import Any, NamedTuple

import kerasseq
from kerasseq.cli import options, translation
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.translation import PAIRS
from kerasseq.core.files import sha256
from kerasseq.datasets import Pairs, generated_pairs, named_sentences, split

NAMED = "named"
DATA = (NAMED, *(name for name in PAIRS if name != NAMED))
FEWEST = 20  # pairs of a file
HELD_OUT = 0.2  # of the pairs of a file, at most
NEW_NAMES = 1 / 3  # share of the generated held-out pairs whose names are new


class Data(NamedTuple):
    """Pairs of texts, and the sentence that all models translate.

    Attributes:
        training: The training pairs.
        tested: The held-out pairs.
        sentence: A source.
        reference: Its translation; None for a sentence of the user.
    """

    training: Pairs
    tested: Pairs
    sentence: str
    reference: str | None


def read(settings: options.Settings) -> tuple[Data, dict[str, Any]]:
    """Reads or generates the pairs.

    Args:
        settings: Arguments of the run; the path of a file becomes absolute.

    Returns:
        The data, and their source with a checksum.

    Raises:
        UsageError: If an argument contradicts another.
        ValueError: If there are too few pairs, or the file is damaged.
    """
    if settings.sentence is not None and not settings.sentence.strip():
        raise UsageError("--sentence must be a text, received an empty one")
    if settings.pairs is not None:
        training, tested = _of_file(settings)
        source = os.path.basename(settings.pairs)
    else:
        settings.data = source = settings.data or NAMED
        made = _named if source == NAMED else _generated
        training, tested = made(settings)
    parts = [zip(*part, strict=True) for part in (training, tested)]
    lines = ["\t".join(pair) for part in parts for pair in part]
    data = Data(training, tested, *_sentence(settings, training, tested))
    record = {"source": source, "pairs": len(lines), "sha256": sha256("\n".join(lines))}
    return data, record


def _of_file(settings):
    pairs = translation.read_file(settings)
    count = len(pairs.sources)
    if count < FEWEST:
        raise ValueError(
            f"{settings.pairs} must have at least {FEWEST} pairs, received {count}: "
            "too few to train on some and to test on others"
        )
    share = min(HELD_OUT, settings.test_examples / count)
    with about(settings.pairs):
        return split(pairs, share, seed=settings.data_seed)


def _generated(settings):
    count = settings.count + settings.test_examples
    pairs = generated_pairs(settings.data, count, seed=settings.data_seed)
    return split(pairs, settings.test_examples / count, seed=settings.data_seed)


def _named(settings):
    """Sentences with known names, and held-out ones, some of them with new names."""
    new = round(settings.test_examples * NEW_NAMES)
    counts = (settings.count, settings.test_examples - new, new)
    parts = [
        named_sentences(n, new_names=k == 2, seed=3 * settings.data_seed + k)
        for k, n in enumerate(counts)
    ]
    training, *held_out = ([(s.source, s.target) for s in part] for part in parts)
    known = {source for source, _ in training}
    tested = [pair for part in held_out for pair in part if pair[0] not in known]
    return [Pairs(*map(list, zip(*part, strict=True))) for part in (training, tested)]


def _sentence(settings, training, tested):
    """The sentence that is named, or the longest one whose names are all new."""
    if settings.sentence is not None:
        known = dict(zip(*tested, strict=True))
        return settings.sentence, known.get(settings.sentence)
    names = new_names(Data(training, tested, "", None))
    chosen = max(
        range(len(tested.sources)),
        key=lambda n: (bool(names[n]), len(tested.sources[n])),
    )
    return tested.sources[chosen], tested.targets[chosen]


def new_names(data: Data) -> list[list[str]]:
    """Returns the names of each held-out pair that the training does not have."""
    texts = [*data.training.sources, *data.training.targets]
    return kerasseq.training.unseen_names(*data.tested, texts)
