"""The structure of a model, its gates, and its memory: what `inspect` shows."""

import pathlib

import numpy as np

from kerasseq.cli import figures
from kerasseq.cli.console import Console
from kerasseq.cli.examples import example
from kerasseq.cli.loading import load
from kerasseq.cli.waiting import waiting
from kerasseq.core.checks import one_of

THRESHOLD = 0.01  # of the gradient at the end: below it nothing is learned


def show(args):
    """Print and draw what is inside the model that `kerasseq inspect` was given."""
    console = Console()
    model, record = load(args.folder)
    shown = example(model, record, args)
    structure(console, model)
    with waiting("tracing the model"):
        inside = figures.traced(model, shown.x)
    if shown.flow is None:
        figures.require()
        with waiting("drawing the figure"):
            file = figures.attention(_out(args), inside, shown.tokens)
        console.say(f"Figures: {file}")
        return
    gates(console, inside)
    with waiting("computing the gradient through time"):
        flow = shown.flow()
    memory(console, flow)
    figures.require()
    folder = _out(args)
    layer = _layer(args.layer, inside)
    with waiting("drawing the figures"):
        files = [
            figures.gates(folder, model, shown.x, shown.tokens, layer),
            figures.flow(folder, flow, shown.flow_tokens),
        ]
    console.say(f"Figures: {', '.join(str(file) for file in files if file)}")


def _out(args):
    """The folder for the figures."""
    folder = pathlib.Path(args.out or args.folder)
    if args.out:
        folder.mkdir(parents=True, exist_ok=True)
    return folder if folder.is_dir() else folder.parent


def _layer(name, inside):
    """The path of the layer that the user named."""
    if name is None:
        return None
    return one_of("layer", name, sorted({key.rpartition("/")[0] for key in inside}))


def structure(console, model):
    """Print the layers and the weights."""
    rows = []
    for layer in model.layers:
        shape = getattr(layer.output, "shape", "")
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        count = layer.count_params()
        rows.append((layer.name, type(layer).__name__, f"({sizes})", f"{count:,}"))
    columns = ("layer", "class", "output shape", ">weights")
    title = f"{type(model).__name__}, {model.count_params():,} weights"
    console.table(title, columns, rows)
    rows = [
        (w.path, f"({', '.join(map(str, w.shape))})", f"{int(np.prod(w.shape)):,}")
        for w in model.weights
    ]
    console.table("Weights", ("name", "shape", ">count"), rows)


def gates(console, inside):
    """Print how open the gates are."""
    rows = []
    for key, value in inside.items():
        if key.endswith("_gate"):
            closed, opened = np.mean(value < 0.1), np.mean(value > 0.9)
            shares = f"{closed:.0%}", f"{opened:.0%}"
            rows.append((key, f"{np.mean(value):.3f}", *shares))
    if rows:
        columns = ("gate", ">mean", ">closed (< 0.1)", ">open (> 0.9)")
        console.table("Gates, over all units and steps", columns, rows)


def memory(console, flow):
    """Print how far back the last prediction can learn."""
    rows = [(key, f"{norms[-1]:.2e}", words(norms)) for key, norms in flow.items()]
    columns = ("state", ">at the end", f"falls below {THRESHOLD:.0%} of that")
    title = "Gradient of the loss of the last prediction, back through time"
    console.table(title, columns, rows)


def words(norms) -> str:
    """How far back the gradient falls below 1 % of what it is at the end.

    Examples:
        >>> words(np.array([1e-4, 1e-3, 0.2, 1.0]))
        '2 steps before the end'
    """
    norms = np.asarray(norms)
    small = np.flatnonzero(norms < THRESHOLD * norms[-1])
    if not len(small):
        return f"nowhere in {len(norms)} steps"
    back = len(norms) - 1 - int(small[-1])
    return f"{back} step{'s' if back > 1 else ''} before the end"
