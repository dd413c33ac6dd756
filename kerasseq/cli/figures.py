"""Figures of a run, drawn by `tracing.plots` and written atomically."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

import kerasseq
from kerasseq.core import packages
from kerasseq.core.files import replacing

if TYPE_CHECKING:
    import keras
    import matplotlib.figure

Recorded = Mapping[str, np.ndarray]  # values by path, as from `tracing.trace`
MAX_UNITS = 24  # rows that can be told apart
MISSING = f"matplotlib is not installed. {packages.install('matplotlib')}"


def available() -> bool:
    """Returns whether matplotlib is installed."""
    return packages.is_installed("matplotlib")


def require() -> None:
    """Raises an `ImportError` if matplotlib is not installed."""
    if not available():
        raise ImportError(f"figures cannot be drawn: {MISSING}")


def save(figure: "matplotlib.figure.Figure", file: pathlib.Path) -> pathlib.Path:
    """Writes a figure as PNG, and returns the path."""
    with replacing(file) as temporary:
        figure.savefig(temporary, dpi=120, bbox_inches="tight")
    return file


def history(
    folder: pathlib.Path,
    intervals: Sequence[dict[str, float]],
    metric: str,
    title: str,
    baselines: dict[str, float] | None = None,
) -> pathlib.Path:
    """Draws a metric over the run, with the scores of simple models as lines."""
    plots = kerasseq.tracing.plots
    figure = plots.plot_history(intervals, baselines, metric, title)
    axes, last = figure.axes[0], intervals[-1]["step"]
    interval = intervals[0]["step"]  # which Keras calls an epoch
    axes.xaxis.set_major_formatter(lambda x, _: f"{min(x * interval, last):,g}")
    axes.set_xlabel("training steps")
    return save(figure, folder / "loss.png")


def of_trace(
    folder: pathlib.Path,
    trace: Recorded,
    tokens: list[str] | None,
    flow: Recorded | None,
    flow_tokens: list[str] | None,
    layer: str | None = None,
) -> list[pathlib.Path]:
    """Draws what the layers of a model recorded for one example.

    Args:
        folder: The folder of the figures.
        trace: What the layers recorded, from `record`.
        tokens: Labels of the time steps, or None.
        flow: The gradient norms by layer, or None for a model without states.
        flow_tokens: Labels of its time steps, or None.
        layer: The path of the recurrent layer, or the mixture of experts, to draw; the
            last one if None.

    Returns:
        The files: gates of a recurrent model or attention weights of another, experts,
        and the gradient flow.
    """
    from kerasseq.tracing.expert_plot import expert_layers

    files = []
    if is_recurrent(trace):
        files.append(gates(folder, trace, tokens, layer))
    elif any(key.endswith("/alignment") for key in trace):
        files.append(attention(folder, trace, tokens))
    if mixtures := expert_layers(trace):
        path = layer if layer in mixtures else mixtures[-1]
        files.append(experts(folder, trace, tokens, path))
    if flow is not None:
        files.append(gradient_flow(folder, flow, flow_tokens))
    return files


def is_recurrent(trace: Recorded) -> bool:
    """Returns whether a layer recorded hidden states."""
    return any(key.endswith("/hidden_state") for key in trace)


def attention(
    folder: pathlib.Path, trace: Recorded, tokens: list[str] | None
) -> pathlib.Path:
    """Draws the attention weights of the last layer that recorded them."""
    path = [key for key in trace if key.endswith("/alignment")][-1]
    weights = trace[path][0]
    tokens = tokens and tokens[: weights.shape[-1]]
    title = path.rpartition("/")[0]
    figure = kerasseq.tracing.plots.plot_attention(weights, tokens, tokens, title)
    return save(figure, folder / "attention.png")


def experts(
    folder: pathlib.Path, trace: Recorded, tokens: list[str] | None, layer: str
) -> pathlib.Path:
    """Draws which expert of a mixture reads which token."""
    steps = trace[f"{layer}/gates"].shape[1]
    figure = kerasseq.tracing.plots.plot_experts(
        trace, layer, tokens and tokens[:steps]
    )
    return save(figure, folder / "experts.png")


def gates(
    folder: pathlib.Path,
    trace: Recorded,
    tokens: list[str] | None,
    layer: str | None = None,
) -> pathlib.Path:
    """Draws the gates and states of a recurrent layer, the last one if None."""
    layer = layer or last_recurrent_layer(trace)
    plots = kerasseq.tracing.plots
    _, values = kerasseq.tracing.drawing.layer_values(trace, layer)
    width = min(value.shape[-1] for value in values.values())
    units = list(range(MAX_UNITS)) if width > MAX_UNITS else None
    title = f"{layer}, the first {MAX_UNITS} units" if units else None
    figure = plots.plot_gates(trace, layer, tokens, units=units, title=title)
    return save(figure, folder / "gates.png")


def gradient_flow(
    folder: pathlib.Path, norms: Recorded, tokens: list[str] | None
) -> pathlib.Path:
    """Draws the gradient norms of the last prediction over time."""
    title = "Gradient of the loss of the last prediction with respect to each state"
    figure = kerasseq.tracing.plots.plot_gradient_flow(norms, tokens, title)
    return save(figure, folder / "gradient_flow.png")


def alignments(file: pathlib.Path, translations: Sequence[Any]) -> pathlib.Path:
    """Draws the attention weights of some translations, as from `translate`."""
    title = "Attention weights: target tokens over source tokens"
    figure = kerasseq.tracing.plots.plot_alignments(translations, title)
    return save(figure, file)


def of_image(
    folder: pathlib.Path, model: "kerasseq.models.ViT", image: Any, prediction: Any
) -> list[pathlib.Path]:
    """Draws what a model of images attends to, and which pixels moved the decision.

    Args:
        folder: The folder of the figures.
        model: The model.
        image: A file, or an array without batch axis.
        prediction: The `Classification` of the image.
    """
    plots, is_file = kerasseq.tracing.plots, isinstance(image, str)
    pixels = model.read(image) if is_file else np.asarray(image)[None]
    last = model.attention_map(pixels)[0]
    rollout = model.attention_map(pixels, layer=None)[0]
    scores = model.attribution(pixels)
    if model.patches.data_format == "channels_first" and pixels.ndim == 4:
        pixels = pixels.transpose(0, 2, 3, 1)
    label = f"{prediction.label} {np.max(prediction.probability, initial=0):.2f}"
    both = np.concatenate([pixels, pixels])
    attention = plots.plot_patches(
        *(both, np.stack([last, rollout]), ["last layer", "rollout"]),
        f"{label}: attention, percent of each patch",
    )
    title = "gradient × input: red for the label, blue against it"
    gradient = plots.plot_pixels(pixels, scores, [label], title)
    return [
        save(attention, folder / "attention.png"),
        save(gradient, folder / "gradient_input.png"),
    ]


def images(
    file: pathlib.Path, images: Sequence[ArrayLike], titles: list[str], title: str
) -> pathlib.Path:
    """Draws several images with a title each."""
    return save(kerasseq.tracing.plots.plot_images(images, titles, title), file)


def comparison(file: pathlib.Path, results: dict[str, Any]) -> pathlib.Path:
    """Draws F1 of several learners, from the results of `kerasseq compare`."""
    learners, support = results["learners"], results["support"]
    shown = sorted(support, key=lambda label: -support[label])[:MAX_UNITS]
    scores = {
        name: {
            label: each["scores"][label]["f1"] for label in support if label in shown
        }
        for name, each in learners.items()
    }
    means = {name: each["scores"]["macro avg"] for name, each in learners.items()}
    means = {name: [m["f1"], m["low"], m["high"]] for name, m in means.items()}
    title = f"{results['source']}: {results['texts'][1]:,} held-out texts"
    return save(kerasseq.tracing.plots.plot_scores(scores, means, title), file)


def scaling(file: pathlib.Path, results: dict[str, Any]) -> pathlib.Path:
    """Draws losses or accuracies by size, from the results of `kerasseq scale`."""
    key = "accuracy" if results["lines"] else "loss"
    rows = results["widths"]
    sizes = [row["parameters"] for row in rows]
    values = [[each[key] for each in row["seeds"].values()] for row in rows]
    laws = {
        name: kerasseq.training.PowerLaw(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in law.items()}
        )
        for name, law in results["laws"].items()
    }
    lines = dict(results["lines"])
    if results["entropy"]:
        lines["entropy"] = results["entropy"]
    label = "accuracy of the last word" if results["lines"] else "bits a token"
    title = f"{results['source']}: {results['model']}, {results['steps']:,} steps"
    plot = kerasseq.tracing.plots.plot_scaling(
        sizes, values, laws, title, lines=lines, label=label
    )
    return save(plot, file)


def record(model: "keras.Model", x: Any) -> Recorded:
    """Returns what the layers record in a forward pass."""
    with kerasseq.tracing.trace(model) as trace:
        model(x)
    return trace


def last_recurrent_layer(trace: Recorded) -> str:
    """Returns the path of the last layer that recorded hidden states."""
    layers = [k.rpartition("/")[0] for k in trace if k.endswith("/hidden_state")]
    return layers[-1]


def flow_of(model: "keras.Model", x: Any, y: Any) -> Recorded | None:
    """Computes gradient norms through time.

    Args:
        model: A compiled model.
        x: The input.
        y: The target.

    Returns:
        The norms by layer, as from `tracing.gradient_flow`, or None for a model without
        states.
    """
    from kerasseq.tracing.gradient_flow import has_states

    if not has_states(model, x):
        return None
    return kerasseq.tracing.gradient_flow(model, x, y)


def flow_of_last_prediction(
    model: "kerasseq.models.GPT | kerasseq.models.LanguageModel", ids: ArrayLike
) -> Recorded | None:
    """Computes gradient norms through time, for the loss of the last prediction alone.

    Args:
        model: A `LanguageModel` or `GPT`.
        ids: Array `(tokens,)`: the last one is the target. Those for which a GPT with
            learned positions has no place are left out.

    Returns:
        The norms by layer, as from `tracing.gradient_flow`, or None for a model without
        states.
    """
    import keras

    last = keras.Model(model.input, model.outputs[0][:, -1])
    last.compile(loss=model.default_loss())
    context = model.context_length
    ids = np.asarray(ids)[: context and context + 1]
    return flow_of(last, ids[None, :-1], ids[-1:])
