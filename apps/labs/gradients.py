"""Lab 4, Gradients: how they change with the distance; clipping and the loss."""

import numpy as np

from labs.code import gradients as code
from parts import figures, lab
from parts.errors import Refused

DISTANCE = (
    r"\frac{\partial L}{\partial h_t} = \frac{\partial L}{\partial h_T} "
    r"\prod_{k=T}^{t+1} \frac{\partial h_k}{\partial h_{k-1}}",
    r"\text{Elman}\quad \frac{\partial h_k}{\partial h_{k-1}} = "
    r"\mathrm{diag}\big(\varphi'(z_k)\big)\,U",
    r"\text{LSTM}\quad \frac{\partial c_k}{\partial c_{k-1}} \approx "
    r"\mathrm{diag}(f_k)",
)
EQUATIONS = {
    "distance": DISTANCE,
    "clipping": (
        r"g \leftarrow g \cdot \min\left(1, \frac{c}{\lVert g \rVert}\right)",
    ),
}
TRIES = (
    {"cells": "elman", "activation": "linear", "radius": "1.0"},
    {"cells": "lstm", "forget_bias": "0.0"},
    {"cells": "elman", "activation": "sigmoid"},
    {"view": "clipping", "trained_radius": "1.5"},
    {"view": "clipping", "trained_radius": "0.5"},
)
CELLS = ("elman", "lstm", "gru")
ACTIVATIONS = ("tanh", "sigmoid", "relu", "linear")
SMALLEST, LARGEST = 1e-12, 1e12  # of the vertical axis
LOSSES = (1e-4, 1e6)
MEAN = 1 / 3  # the loss of always saying 0: the variance of the numbers


def cell_names(here, cells):
    """Returns the names of networks in the language of the page."""
    return {cell: here.text(f"cell_{cell}") for cell in cells}


def distance(here):
    """Draws the gradients against the distance."""
    with here.controls():
        names = cell_names(here, CELLS)
        cells = here.several("cells", CELLS, CELLS, labels=names)
        state = here.choice("state", ("hidden_state", "cell_state"), wide=True)
        most = here.slider("distance", 10, 150, 60, 10)
    with here.controls():
        radius = here.slider("radius", 0.1, 3.0, 0.9, 0.1)
        forget_bias = here.slider("forget_bias", -2.0, 5.0, 1.0, 0.5)
        activation = here.choice("activation", ACTIVATIONS, wide=True, labels=str)
    if not cells:
        raise Refused("no_cells")
    here.code(
        code.source("distance"),
        cells=cells,
        activation=activation,
        distance=most,
        radius=radius,
        forget_bias=forget_bias,
    )
    norms = {}
    for cell in cells:
        bias = None if cell == "elman" else forget_bias
        found = here.compute(code.flow, cell, activation, most, radius, bias)
        norms[cell] = found.get(state, found["hidden_state"])
    norms["baseline"] = radius ** np.arange(most + 1.0)
    rows = [
        {"distance": k, "norm": float(norm), "network": cell}
        for cell, values in norms.items()
        for k, norm in enumerate(values)
        if SMALLEST <= norm <= LARGEST
    ]
    titles = {"distance": here.text("steps_back"), "network": here.text("network")}
    titles["norm"] = here.text(norm(state, cells))
    names["baseline"] = here.text("bound")
    here.say("factor")
    here.facts(*((f"cell_{cell}", factor(here, norms[cell])) for cell in cells))
    chart = figures.lines(
        here.style,
        rows,
        "distance",
        "norm",
        "network",
        titles=titles,
        names=names,
        log_y=(SMALLEST, LARGEST),
        height=440,
    )
    here.picture("flow", chart, rows, titles)


def norm(state, cells):
    """Returns the text of the vertical axis: only an LSTM has a cell state."""
    if state == "hidden_state" or "lstm" not in cells:
        return "norm_h"
    return "norm_c" if len(cells) == 1 else "norm_both"


def factor(here, norms):
    """Returns by which factor the gradient changes per step, in the mean."""
    used = norms[1:][(norms[1:] > 1e-30) & (norms[1:] < 1e30)]
    if len(used) < 2:
        return here.text("gone")
    return f"× {here.write(float((used[-1] / used[0]) ** (1 / (len(used) - 1))), 3)}"


def clipping(here):
    """Draws the loss of a network that is trained with and without clipping."""
    with here.controls():
        names = cell_names(here, CELLS)
        cell = here.choice("cell", CELLS, wide=True, labels=names)
        activation = here.choice("activation", ACTIVATIONS, wide=True, labels=str)
    with here.controls():
        radius = here.slider("trained_radius", 0.1, 2.0, 1.5, 0.1)
        rate = here.steps("rate", (0.01, 0.02, 0.05, 0.1, 0.2), 0.05)
        clip = here.steps("clip", (0.03, 0.1, 0.3, 1.0, 3.0, 10.0), 1.0)
    options = {"cell": cell, "activation": activation, "radius": radius, "rate": rate}
    steps = code.STEPS
    here.code(code.source("clipping"), clip=clip, steps=steps, **options)
    names = {None: here.text("unclipped")}
    names[clip] = here.text("clipped", clip=here.write(clip))
    losses = {
        name: here.compute(code.train, *options.values(), most, steps)
        for most, name in names.items()
    }
    rows = [
        {"step": step, "loss": loss, "network": name}
        for name, values in losses.items()
        for step, loss in enumerate(values, 1)
        if LOSSES[0] <= loss <= LOSSES[1]
    ]
    keys = ("at_the_end", "at_the_end_clipped")
    here.facts(*((k, end(here, v)) for k, v in zip(keys, losses.values(), strict=True)))
    titles = {key: here.text(f"of_{key}") for key in ("step", "loss", "network")}
    chart = figures.lines(
        here.style,
        rows,
        "step",
        "loss",
        "network",
        titles=titles,
        rules={here.text("mean"): MEAN},
        log_y=LOSSES,
        height=400,
    )
    here.picture("losses", chart, rows, titles)


def end(here, losses):
    """Returns the loss at the end as text, or the first step without a number."""
    for step, loss in enumerate(losses, 1):
        if not np.isfinite(loss):
            return here.text("diverged", step=here.write(step))
    return here.write(float(np.mean(losses[-20:])), 3)


def body(here):
    """Draws one of the two views."""
    if here.view == "distance":
        here.say("letters")
    {"distance": distance, "clipping": clipping}[here.view](here)


if __name__ == "__main__":
    lab.show(
        "gradients", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES
    )
