"""What `kerasseq inspect` applies a model to: a text, a series or a string."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq import datasets
from kerasseq.cli import bert, competitor, figures
from kerasseq.cli.console import note
from kerasseq.cli.tokenize import note_unknown, pieces

if TYPE_CHECKING:
    import keras

MAX_TEXT = 200  # characters in a figure
DEFAULT_TEXT = "The quick brown fox jumps over the lazy dog."


class Example(NamedTuple):
    """One input.

    Attributes:
        x: The input, a batch of one, or several by name.
        tokens: Labels of the time steps in the figure of the gates.
        flow_tokens: Labels of the time steps in the figure of the gradient.
        flow: A function that computes the gradient flow, None for a model without
            states.
        text: The text of a classifier, or None.
        tags: The words of a tagger with their tags, or None.
    """

    x: Any
    tokens: list[str] | None
    flow_tokens: list[str] | None
    flow: Callable[[], figures.Recorded]
    text: str | None = None
    tags: list[tuple[str, Any]] | None = None


def make_example(
    model: "keras.Model", record: dict[str, Any] | None, args: argparse.Namespace
) -> Example:
    """Makes the input of the model: the text that was given, or some of its data.

    Args:
        model: A loaded model.
        record: The record of its run, or None.
        args: Arguments of `kerasseq inspect`.

    Raises:
        ValueError: If the text does not fit the model.
    """
    text = given_text(args)
    kind = type(model).__name__
    if kind == "SequenceClassifier" and record and record["task"] == "parentheses":
        return _parentheses_example(model, record["arguments"]["colors"], text)
    example = _maker(model)
    if example is not None:
        return example(model, DEFAULT_TEXT if text is None else text)
    if kind == "Forecaster" and record:
        return _series_example(model, text)
    raise ValueError(
        f"expected a model of kerasseq train, received another {kind}. In Python, "
        "kerasseq.tracing.trace(model) inspects any model"
    )


def _maker(model):
    """Returns the function that makes an example for a model of texts, or None."""
    if getattr(model, "tokenizer", None) is None:
        return None
    if getattr(model, "labels", None):
        return _tagged_example if model.per_step else _labeled_example
    kinds = {
        "LanguageModel": _text_example,
        "GPT": _text_example,
        "BERT": _bert_example,
    }
    names = [base.__name__ for base in type(model).__mro__]
    return next((kinds[name] for name in names if name in kinds), None)


def _text_example(model, text):
    if len(text) > MAX_TEXT:
        note(f"of the {len(text):,} characters the first {MAX_TEXT} are shown")
        text = text[:MAX_TEXT]
    if len(text) < 2:
        raise ValueError(
            f"expected a text of at least two characters, received {text!r}"
        )
    note_unknown(model.tokenizer, text, "text")
    ids, tokens = model.tokenizer.encode(text), pieces(model.tokenizer, text)
    if len(ids) < 2:
        raise ValueError(
            "expected a text of at least two tokens, received one: give a longer text"
        )
    context = model.context_length  # of a GPT with learned positions, or None
    return Example(
        ids[None, :context],
        tokens[:context],
        tokens[:-1][:context],
        lambda: figures.flow_of_last_prediction(model, ids),
    )


def _bert_example(model, text):
    note_unknown(model.tokenizer, text, "text")
    x, tokens = bert.example(model, text)
    return Example(x, tokens, None, lambda: None)


def _labeled_example(model, text):
    text = text[:MAX_TEXT]
    note_unknown(model.tokenizer, text, "text")
    x, tokens, _ = inputs = model.token_inputs(text)
    y = np.array([model.labels.index(kerasseq.tracing.attribution(model, text).label)])
    flow = figures.flow_of
    return Example(x, _names(model, inputs), tokens, lambda: flow(model, x, y), text)


def _tagged_example(model, text):
    words = text[:MAX_TEXT].split()
    text = " ".join(words)
    note_unknown(model.tokenizer, text, "text")
    x, tokens, places = inputs = model.token_inputs(text)
    tags = model.tag(words)
    y = np.full((1, places[-1] + 1), model.labels.index(tags[-1]))
    flow = figures.flow_of
    return Example(
        *(x, _names(model, inputs), tokens, lambda: flow(model, x, y)),
        tags=list(zip(words, tags, strict=True)),
    )


def _names(model, inputs):
    """Returns the tokens of all positions, with the special tokens of a BERT or GPT."""
    x, tokens, places = inputs
    if not isinstance(x, dict):
        return tokens
    marks = model.preprocessor.marks()
    names = [marks.get(i, "") for i in x["ids"][0].tolist()]
    for place, token in zip(places, tokens, strict=True):
        names[place] = token
    return names


def _parentheses_example(model, colors, text):
    if text is None:
        data = datasets.parentheses(1, colors=colors, kind="hard", seed=0)
        sequence = data.sequences[0]
    else:
        sequence = competitor.read_string(text, colors)
    label = datasets.is_balanced(sequence, colors)
    tokens = [str(symbol) for symbol in sequence]
    x = competitor.as_ids(sequence, colors)[None]
    y = np.array([int(label)])
    flow = figures.flow_of
    return Example(x, tokens, tokens, lambda: flow(model, x, y))


def _series_example(model, text):
    if text is not None:
        raise ValueError(
            "the model is a forecaster and reads no text: leave out --text and --file"
        )
    x, y = model.last_example()
    flow = figures.flow_of
    return Example(x, None, None, lambda: flow(model, x, y))


def given_text(args: argparse.Namespace) -> str | None:
    """Returns the text of the command line or its file, or None."""
    text = args.text
    if args.file is not None:
        text = datasets.text_file(args.file, args.encoding)
    if text is not None and not text.strip():
        raise ValueError("expected a text with letters or numbers, but it is empty")
    return text
