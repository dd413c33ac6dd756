"""Figures of a run, drawn by `tracing.plots` and saved whole or not at all."""

import importlib.util

import keras
import numpy as np

from kerasseq import tracing
from kerasseq.cli import runs

WIDEST = 24  # rows that can be told from each other
MISSING = 'matplotlib is not installed; pip install "kerasseq[viz]" brings it'


def possible() -> bool:
    """Whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


def require():
    """Raise an `ImportError` that says what to install, if matplotlib is not there."""
    if not possible():
        raise ImportError(f"figures cannot be drawn: {MISSING}")


def save(figure, file):
    """Write a figure as PNG."""
    with runs.replacing(file) as part:
        figure.savefig(part, dpi=120, bbox_inches="tight")
    return file


def history(folder, intervals, metric, title, baselines=None):
    """Draw a metric over the run, beside what simple models reach."""
    from kerasseq.tracing import plots

    figure = plots.plot_history(intervals, baselines, metric, title)
    axes, last = figure.axes[0], intervals[-1]["step"]
    each = intervals[0]["step"]  # an interval is what Keras calls an epoch
    axes.xaxis.set_major_formatter(lambda x, _: f"{min(x * each, last):,g}")
    axes.set_xlabel("training steps")
    return save(figure, folder / "loss.png")


def inside(folder, model, ids, tokens) -> list:
    """Draw what a language model does with a text.

    Args:
        folder: For the figures.
        model: A `LanguageModel` or a `GPT`.
        ids: Array `(tokens,)`.
        tokens: What they stand for.

    Returns:
        The files: gates and the reach of the gradient; of a GPT its attention.
    """
    if hasattr(model, "stack"):
        longest = model.longest or len(ids)
        return [attention(folder, traced(model, ids[None, :longest]), tokens)]
    return [
        gates(folder, model, ids[None], tokens),
        flow(folder, reach(model, ids), tokens[:-1]),
    ]


def attention(folder, found, tokens):
    """Draw the heads of the last attention of which something was recorded."""
    from kerasseq.tracing import plots

    path = [key for key in found if key.endswith("/alignment")][-1]
    weights = found[path][0]
    tokens = tokens[: weights.shape[-1]]
    figure = plots.plot_attention(weights, tokens, tokens, path.rpartition("/")[0])
    return save(figure, folder / "attention.png")


def gates(folder, model, x, tokens, layer=None):
    """Draw the gates over one example; None if the model has no recurrent layer."""
    from kerasseq.tracing import plots

    inside = traced(model, x)
    if not inside:
        return None
    layer = layer or last_layer(inside)
    width = inside[f"{layer}/hidden_state"].shape[-1]
    units = list(range(WIDEST)) if width > WIDEST else None
    title = f"{layer}, the first {WIDEST} of {width} units" if units else None
    figure = plots.plot_gates(inside, layer, tokens, units=units, title=title)
    return save(figure, folder / "gates.png")


def flow(folder, found, tokens):
    """Draw how far the gradient reaches back."""
    from kerasseq.tracing import plots

    title = "How strongly each step acts on the last prediction"
    figure = plots.plot_gradient_flow(found, tokens, title)
    return save(figure, folder / "gradient_flow.png")


def traced(model, x):
    """What the layers record while the model reads `x`."""
    with tracing.trace(model) as inside:
        model(x)
    return inside


def alignments(file, translations):
    """Draw what each token of some translations looked at."""
    from kerasseq.tracing import plots

    title = "What each token of the translation looked at"
    return save(plots.plot_alignments(translations, title), file)


def last_layer(inside):
    """The path of the last layer that recorded states."""
    layers = [k.rpartition("/")[0] for k in inside if k.endswith("/hidden_state")]
    return layers[-1]


def reach(model, ids):
    """The gradients of the loss of the last prediction alone, back through time.

    Args:
        model: A `LanguageModel`.
        ids: Array `(tokens,)`: the last one is what is predicted.

    Returns:
        What `tracing.gradient_flow` gives.
    """
    last = keras.Model(model.input, model.outputs[0][:, -1])
    last.compile(loss=model.default_loss())
    ids = np.asarray(ids)
    return tracing.gradient_flow(last, ids[None, :-1], ids[-1:])


def race(folder, accuracies):
    """Draw the accuracies of several models."""
    from kerasseq.tracing import plots

    title = "Balanced or not? Accuracy on strings of parentheses"
    return save(plots.plot_race(accuracies, title), folder / "race.png")
