"""Lab 3, Gates: what each gate and state holds, and what happens if one is forced."""

import numpy as np
import streamlit as st

from labs.code import gates as code
from parts import figures_matrix, figures_steps, lab, strips
from parts.errors import Refused

_STATES = r"c_t = f_t \odot c_{t-1} + i_t \odot g_t \qquad h_t = o_t \odot \tanh(c_t)"
EQUATIONS = {
    "lstm": (r"f_t, i_t, o_t = \sigma(W x_t + U h_{t-1} + b)", _STATES),
    "peephole_lstm": (
        r"f_t, i_t = \sigma(W x_t + U h_{t-1} + p \odot c_{t-1} + b)",
        _STATES,
    ),
    "gru": (
        r"z_t, r_t = \sigma(W x_t + U h_{t-1} + b)",
        r"h_t = z_t \odot h_{t-1} + (1 - z_t) \odot g_t",
    ),
}
GATES = {
    "lstm": ("forget_gate", "input_gate", "output_gate"),
    "peephole_lstm": ("forget_gate", "input_gate", "output_gate", "peepholes"),
    "gru": ("update_gate", "reset_gate"),
}
UNITS = {"race": 12, "text": 64}
TRIES = (
    {"quantity": "cell_state"},
    {"gate": "forget_gate", "symbols": "3~3"},
    {"gate": "input_gate", "symbols": "7~7"},
    {"string": "(" * 10 + ")" * 10},
    {"task": "text", "gate": "input_gate", "value": "1"},
)
COLUMNS = ("step", "piece", "quantity", "line", "value")
SURPRISE = (0.0, 8.0)  # bits, the ends of the colors
LIMITS = {  # of the values; others are symmetric around 0
    **dict.fromkeys(("forget_gate", "input_gate", "output_gate"), (0.0, 1.0)),
    **dict.fromkeys(("update_gate", "reset_gate"), (0.0, 1.0)),
    **dict.fromkeys(("candidate", "hidden_state"), (-1.0, 1.0)),
}


def inputs(here, task):
    """Draws the controls of the input, and returns its steps and its arguments."""
    if task == "race":
        string = here.line("string", "(()(()))", most=60).replace(" ", "")
        if not string or set(string) - set("()"):
            raise Refused("bad_string")
        return len(string), {"string": string}
    prompt = here.line("prompt", "The value of the ", most=120)
    if not prompt:
        raise Refused("empty")
    length = here.slider("length", 0, 150, 80, 10)
    temperature = here.steps("temperature", (0.0, 0.3, 0.5, 0.7, 1.0), 0.5)
    seed = here.number("seed", 0, 9999, 0)
    options = {"length": length, "temperature": temperature, "seed": seed}
    return len(prompt) + length, {"prompt": prompt, **options}


def change(here, task, cell, steps):
    """Draws the controls of the intervention, and returns it."""
    gate = here.choice("gate", GATES[cell], labels=lambda g: here.text(f"value_{g}"))
    value = here.choice("value", (0, 1), wide=True, labels=str)
    units = here.several("units", range(1, UNITS[task] + 1), (), labels=str)
    default = (min(3, steps),) * 2 if task == "race" else (1, steps)
    name = "symbols" if task == "race" else "characters"
    first, last = here.interval(name, 1, max(2, steps), default)
    found = {"gate": gate, "value": float(value), "first": first, "last": last}
    return {**found, "units": [unit - 1 for unit in units] or None}


def body(here):
    """Draws the page."""
    task = here.view
    with here.controls():
        labels = {cell: here.text(f"cell_{cell}") for cell in GATES}
        cell = here.choice("cell", list(GATES), wide=True, labels=labels)
    here.say("about_elman")
    for line in EQUATIONS[cell]:
        st.latex(line)
    with here.controls():
        steps, options = inputs(here, task)
    with here.controls():
        wanted = change(here, task, cell, steps)
    name = f"gates_{task}_{cell}"
    folder = here.prepared(name)
    model_folder = here.trained(name, "")
    here.code(code.source(task), change=wanted, model_folder=model_folder, **options)
    run = code.read if task == "race" else code.write
    text, *more = options.values()
    before = here.compute(run, folder, text, None, *more)
    after = here.compute(run, folder, text, wanted, *more)
    drawn = None if wanted["gate"] == "peepholes" else (wanted["first"], wanted["last"])
    if task == "race":
        decision(here, before, after, drawn)
    else:
        texts(here, before, after, len(text))
    one_unit(here, before, after, UNITS[task], drawn)
    all_units(here, task, before, after)
    equations(here, folder)


def equations(here, folder):
    """Draws the step of the network and its gradients, in the letters of its code."""
    with st.expander(here.text("equations")):
        here.say("equations_about")
        for part, block in here.compute(code.explain, folder).items():
            here.say(f"equations_{part}")
            st.latex(block)


def decision(here, before, after, drawn):
    """Draws the probability that the string is balanced, symbol by symbol."""
    last = {"p_before": before["p"][-1], "p_after": after["p"][-1]}
    here.facts(*((key, here.write(float(p), 2)) for key, p in last.items()))
    p = here.text("p")
    values = {p: {here.text("before"): before["p"], here.text("after"): after["p"]}}
    draw(here, "decision", before["pieces"], values, drawn, {p: (0.0, 1.0)})


def texts(here, before, after, typed):
    """Draws both texts side by side; the color is the surprise of a character."""
    for column, (key, found) in zip(
        st.columns(2), {"written": before, "written_after": after}.items(), strict=True
    ):
        surprise = -np.log2(np.maximum(found["p"], 1e-9))
        rows = figures_steps.table(found["pieces"], {"P": {key: found["p"]}})
        with column:
            st.html(strips.plain("".join(found["pieces"])))
            here.strip(
                key,
                found["pieces"],
                rows,
                {
                    name: here.text(f"column_{name}")
                    for name in COLUMNS
                    if name != "line"
                },
                values=np.nan_to_num(surprise).tolist(),
                limits=SURPRISE,
                titles=[
                    "",
                    *(f"P = {here.write(float(p), 3)}" for p in found["p"][1:]),
                ],
            )
            if typed > 1:
                here.say("bits", bits=here.write(float(surprise[1:typed].mean()), 2))
    here.say("texts_about")


def draw(here, name, pieces, values, drawn, limits):
    """Draws bands over the steps, and their table."""
    titles = {key: here.text(f"column_{key}") for key in COLUMNS}
    chart = figures_steps.bands(
        here.style, pieces, values, titles=titles, limits=limits, shaded=drawn
    )
    here.picture(name, chart, figures_steps.table(pieces, values), titles)


def one_unit(here, before, after, units, drawn):
    """Draws all values of one unit, without and with the intervention."""
    label = here.text("unit_most")
    with here.controls():
        unit = here.choice(
            "unit",
            (0, *range(1, units + 1)),
            labels=lambda unit: label if unit == 0 else str(unit),
        )
    if unit == 0:
        moved = np.abs(
            after["values"]["hidden_state"] - before["values"]["hidden_state"]
        )
        unit = int(moved.mean(axis=0).argmax()) + 1
    here.say("unit_shown", unit=unit)
    values = {
        here.text(f"value_{name}"): {
            here.text("before"): before["values"][name][:, unit - 1],
            here.text("after"): after["values"][name][:, unit - 1],
        }
        for name in before["values"]
    }
    limits = {here.text(f"value_{name}"): ends for name, ends in LIMITS.items()}
    draw(here, "one_unit", after["pieces"], values, drawn, limits)


def all_units(here, task, before, after):
    """Draws one quantity for all units."""
    with here.controls():
        names = list(before["values"])
        counts = task == "race" and "cell_state" in names
        state = "cell_state" if counts else "hidden_state"
        labels = {name: here.text(f"value_{name}") for name in names}
        name = here.choice("quantity", names, state, labels=labels)
        side = here.choice("side", ("before", "after", "difference"), wide=True)
    first, second = before["values"][name], after["values"][name]
    values = {"before": first, "after": second, "difference": second - first}[side]
    pieces = (before if side == "before" else after)["pieces"]
    limits = LIMITS.get(name) if side != "difference" else None
    chart = figures_matrix.matrix(
        here.style,
        values.T,
        [str(unit) for unit in range(1, values.shape[1] + 1)],
        [figures_steps.shown(piece) for piece in pieces],
        titles={
            "row": here.text("unit"),
            "column": here.text("column_step"),
            "value": here.text("column_value"),
        },
        diverging=limits != (0.0, 1.0),
        limits=limits,
    )
    here.picture("all_units", chart, values.T)


if __name__ == "__main__":
    lab.show("gates", body, views=tuple(UNITS), control="task", tries=TRIES)
