"""Scores of transcripts, beside two that need no model."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import labeled, speech_data, verdict
from kerasseq.cli.console import Console

SHOWN = 8  # transcripts that are printed
PART = 256  # sounds that are transcribed between two messages
EMPTY, FREQUENT = "the empty text", "the most frequent text"


def transcripts(model: Any, audio: Sequence[Any], batch_size: int) -> list[str]:
    """Writes down sounds.

    Args:
        model: A `SpeechRecognizer` or a `Whisper`.
        audio: The sounds.
        batch_size: How many are read at once.
    """
    texts, options = [], {"batch_size": batch_size}
    if isinstance(model, kerasseq.models.Whisper):  # it samples where it is unsure
        options["seed"] = 0
    for part in labeled.in_parts(audio, PART, "transcribing the sounds"):
        with speech_data.named(part):
            found = model.transcribe(part, **options)
        texts += [each.text for each in found]
    return texts


def rates(texts: list[str], references: list[str]) -> dict[str, float]:
    """Returns the error rates of transcripts, as plain data.

    Examples:
        >>> found = rates(["SOS", "HELP ME"], ["SOS", "HELP US"])
        >>> found["character_error_rate"], round(found["word_error_rate"], 2)
        (0.2, 0.33)
    """
    training = kerasseq.training
    return {
        "character_error_rate": training.character_error_rate(texts, references),
        "word_error_rate": training.word_error_rate(texts, references),
    }


def baselines(learned: list[str], count: int) -> dict[str, list[str]]:
    """Returns the transcripts that need no model, by name.

    Args:
        learned: The texts of the training.
        count: The number of held-out sounds.
    """
    most = Counter(learned).most_common(1)[0][0]
    return {EMPTY: [""] * count, FREQUENT: [most] * count}


def compare(
    name: str, texts: list[str], learned: list[str], references: list[str]
) -> dict[str, Any]:
    """Compares transcripts with those that need no model, as plain data.

    Args:
        name: The model.
        texts: Its transcripts of the held-out sounds.
        learned: The texts of the training.
        references: The right transcripts.
    """
    simple = baselines(learned, len(references))
    scores = {other: rates(each, references) for other, each in simple.items()}
    errors = {other: each["character_error_rate"] for other, each in scores.items()}
    own, best = rates(texts, references), simple[verdict.best_of(errors, lowest=True)]
    gains = distances(best, references) - distances(texts, references)
    better_by = verdict.difference(gains, [*map(len, references)])
    of_model = name, own["character_error_rate"], errors
    found = verdict.verdict(
        *(*of_model, "character error rate on the held-out sounds", better_by),
        ["more --steps", "more sounds"],
        rows="held-out sounds",
        lowest=True,
    )
    return {**own, "baselines": scores, "verdict": found}


def distances(texts: list[str], references: list[str]) -> np.ndarray:
    """Returns the characters that are wrong in each transcript, `(texts,)`."""
    edit_distance = kerasseq.training.error_rates.edit_distance
    pairs = zip(texts, references, strict=True)
    return np.array([edit_distance(a, b) for a, b in pairs])


def examples(texts: list[str], references: list[str]) -> list[dict[str, str]]:
    """Returns the first transcripts beside the right texts, as plain data."""
    pairs = zip(references[:SHOWN], texts, strict=False)
    return [{"text": text, "transcript": written} for text, written in pairs]


def show_examples(console: Console, rows: list[dict[str, str]], title: str) -> None:
    """Prints transcripts beside the right texts.

    Args:
        console: Where to print.
        rows: What `examples` returns.
        title: The title of the table.
    """
    cells = [(row["text"], row["transcript"] or "∅") for row in rows]
    console.table(title, ("text", "written down"), cells)


def show_rates(console: Console, title: str, rows: dict[str, dict[str, float]]) -> None:
    """Prints error rates by the name of a model.

    Args:
        console: Where to print.
        title: The title of the table.
        rows: What `rates` returns, by name.
    """
    cells = [
        (name, *(f"{each[f'{unit}_error_rate']:.3f}" for unit in ("character", "word")))
        for name, each in rows.items()
    ]
    console.table(title, ("model", ">characters wrong", ">words wrong"), cells)
