"""What a model reads when it is inspected: the text of the user, or its own data."""

from typing import NamedTuple

import numpy as np

from kerasseq import datasets, tracing
from kerasseq.cli import figures
from kerasseq.cli.console import note
from kerasseq.cli.tokenizing import pieces, tell_unknown

LONGEST = 200  # characters that a figure can show
DEFAULT_TEXT = "The quick brown fox jumps over the lazy dog."


class Example(NamedTuple):
    """One input.

    Attributes:
        x: The input, in a batch of one.
        tokens: What stands below the figure of the gates, one for each step.
        flow_tokens: The same for the figure of the gradient.
        flow: Function without arguments: the gradient through time; None where there
            is no state for it to go through.
    """

    x: np.ndarray
    tokens: list | None
    flow_tokens: list | None
    flow: object


def example(model, record, args) -> Example:
    """Make the input that the model is shown.

    Args:
        model: A loaded model.
        record: What `run.json` says, or None.
        args: Arguments of `kerasseq inspect`.

    Raises:
        ValueError: If the text does not fit the model.
    """
    text = args.text
    if args.file is not None:
        text = datasets.text_file(args.file, args.encoding)
    if text is not None and not text.strip():
        raise ValueError("the text to inspect is empty")
    kind = type(model).__name__
    if kind in ("LanguageModel", "GPT") and model.tokenizer is not None:
        return _characters(model, DEFAULT_TEXT if text is None else text)
    if kind == "SequenceClassifier" and record and record["task"] == "parentheses":
        return _parentheses(model, record["arguments"]["plain"], text)
    if kind == "Forecaster" and record:
        return _series(model, record["arguments"], text)
    raise ValueError(
        f"kerasseq inspect does not know what to show this {kind}: kerasseq train did "
        "not make it. In Python, kerasseq.tracing.trace(model) looks inside any model"
    )


def _characters(model, text):
    if len(text) > LONGEST:
        note(f"of the {len(text):,} characters the first {LONGEST} are shown")
        text = text[:LONGEST]
    if len(text) < 2:
        raise ValueError("the text to inspect needs two characters at least")
    tell_unknown(model.tokenizer, text, "text")
    ids, tokens = model.tokenizer.encode(text), pieces(model.tokenizer, text)
    if len(ids) < 2:
        raise ValueError("the text to inspect is one token: give a longer one")
    if hasattr(model, "stack"):  # no state goes from step to step
        read = slice(model.longest)
        return Example(ids[None, read], tokens[read], None, None)
    return Example(
        ids[None],
        tokens,
        tokens[:-1],
        lambda: figures.reach(model, ids),
    )


def _parentheses(model, plain, text):
    if text is None:
        sequence = datasets.parentheses(
            1, colours=1 if plain else 5, kind="hard", seed=0
        ).sequences[0]
    else:
        sequence = _numbers(text)
    label = datasets.is_balanced(sequence, 1 if plain else 5)
    symbols = np.array(sequence)
    ids = ((1 - symbols) // 2 if plain else symbols) + 1  # 0 is padding
    tokens, x = [str(symbol) for symbol in sequence], ids.astype("int32")[None]
    y = np.array([int(label)])
    return Example(x, tokens, tokens, lambda: tracing.gradient_flow(model, x, y))


def _numbers(text):
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise ValueError(
            'a string of parentheses is written in numbers, as in --text "2 0 9 7 0 9"'
        ) from None


def _series(model, arguments, text):
    if text is not None:
        raise ValueError("a forecaster reads no text: leave --text and --file out")
    values = datasets.series(arguments["data"], seed=arguments["seed"]).values
    x, y = datasets.windows(values, arguments["sequence_length"])
    x, y = x[-1:], y[-1:]
    return Example(x, None, None, lambda: tracing.gradient_flow(model, x, y))
