"""Lab 17, Experts: which expert reads which character, and why all of them get used."""

import math

import numpy as np
import streamlit as st

from labs.code import experts as code
from parts import figures, figures_matrix, lab, panels, routing, strips
from parts.errors import Refused
from parts.routing import Settings

QUICK = code.QUICK
LOSS = r"L = -\frac{1}{T} \sum_t \ln p(x_{t+1} \mid x_1 \dots x_t)"
EQUATIONS = {
    "reads": (
        r"p = \mathrm{softmax}(x W_r), \qquad "
        r"y = \sum_{e \in \mathrm{top}_k(p)} g_e\, \mathrm{FFN}_e(x)",
        r"g_e = p_e \ (k = 1), \qquad "
        r"g_e = \frac{p_e}{\sum_{i \in \mathrm{top}_k(p)} p_i} \ (k > 1)",
    ),
    "balance": (LOSS + r" \;+\; \lambda\, E \sum_{e=1}^{E} f_e P_e",),
}
TRIES = (
    {"coefficient": "0.0"},
    {"top_k": "2"},
    {"text": "eeee tttt (((( 1234"},
    {"view": "balance"},
    {"view": "balance", "top_k": "2"},
    {"view": "balance", "seed": "1"},
)
DEFAULT = 'The "with" statement returns f(x) + 42.'
ROW, LEGEND = 30, 70  # pixels of an expert, and of the colors with their numbers
LONGEST = code.LENGTH  # characters of a text
SMALLEST = 0.01  # share of what an expert reads, for a character in the table
STARTED = "experts.started"  # in the session: what was trained for this browser


def chosen(here):
    """Draws the controls of both views."""
    num_experts = here.choice("num_experts", (8, 4), wide=True, labels=str)
    top_k = here.choice("top_k", routing.CHOSEN, wide=True, labels=str)
    steps = here.steps("steps", (50, 100, 200, 400), routing.STEPS)
    seed = here.number("seed", 0, 9999, routing.SEED)
    return {"num_experts": num_experts, "top_k": top_k, "steps": steps, "seed": seed}


def trained(here, settings):
    """Whether models are there, or draws the button that trains them."""
    started = st.session_state.setdefault(STARTED, set())
    if all(one.is_prepared() or one in started for one in settings):
        return True
    if here.button("train", primary=True):
        started.update(settings)
        st.rerun()
    here.say("press", count=here.write(len(settings)))
    return False


def names_of(here, count):
    """Returns the names of experts, from 1."""
    return [here.text("expert", number=n + 1) for n in range(count)]


def percent(here, share, digits=0):
    """Returns a share as text."""
    return here.text("percent", value=here.write(100 * share, digits))


def titles(here, *names):
    """Returns the titles of columns by their names."""
    return {name: here.text(f"title_{name}") for name in names}


def reads(here):
    """Draws which expert reads which character."""
    with here.controls():
        sizes = chosen(here)
        coefficient = here.steps("coefficient", routing.COEFFICIENTS, 0.01)
    text = here.line("text", DEFAULT, LONGEST)
    settings = Settings(coefficient=coefficient, **sizes)
    here.code(code.source("reads"), **settings._asdict(), text=text)
    if not trained(here, [settings]):
        return
    if not text:
        raise Refused("no_text")
    counted = here.compute(routing.counted, *settings)
    load = counted["load"]
    here.facts(
        ("busiest", percent(here, load.max())),
        ("idle", here.write(int((load < routing.IDLE).sum()))),
        ("told", percent(here, counted["told"])),
    )
    gates = here.compute(routing.read, text, *settings)
    experts = names_of(here, settings.num_experts)
    characters = [strips.visible(character) for character in text]
    gate_titles = titles(here, "row", "column", "value")
    options = {"titles": gate_titles | {"hidden": here.text("unread")}}
    options |= {"hidden": np.isnan(gates), "limits": (0, 1), "legend": "bottom"}
    options["height"] = ROW * len(experts) + LEGEND
    chart = figures_matrix.matrix(here.style, gates, experts, characters, **options)
    cells = figures_matrix.cells(gates, experts, characters, np.isnan(gates))
    rows = [cell for cell in cells if cell["value"] is not None]
    here.picture("who_reads_what", chart, rows, gate_titles)
    loads(here, gates, load, experts)
    favorites(here, counted, experts)


def loads(here, gates, load, experts):
    """Draws the load of each expert in the text that was typed and in the other."""
    typed = (~np.isnan(gates)).sum(axis=1) / (~np.isnan(gates)).sum()
    rows = [
        {"expert": name, "share": float(share), "where": here.text(where)}
        for where, shares in (("held_out", load), ("typed", typed))
        for name, share in zip(experts, shares, strict=True)
    ]
    names = titles(here, "expert", "where", "share")
    options = {"titles": names, "by": "where"}
    chart = figures.bars(here.style, rows, "share", "expert", **options)
    here.picture("load_of_each", chart, rows, names)


def counted_character(here, character, share):
    """Returns a character as code, and its share, on one line."""
    code_span = f"`{strips.visible(character)}`" if character != "`" else r"\`"
    return f"{code_span} {percent(here, share)}".replace(" ", "\N{NO-BREAK SPACE}")


def favorites(here, counted, experts):
    """Draws what each expert reads most often."""
    st.markdown(f"**{here.text('favorites')}**")
    here.say("favorites_about")
    rows = []
    for n, name in enumerate(experts):
        found = routing.most_read(counted["counts"][n], counted["characters"])
        shown = [counted_character(here, *one) for one in found if one[1] >= SMALLEST]
        load = percent(here, counted["load"][n], 1)
        rows.append({"expert": name, "share": load, "most": ", ".join(shown) or "—"})
    here.table(rows, titles(here, "expert", "share", "most"))


def balance(here):
    """Draws the load of each expert during the training, by coefficient."""
    with here.controls():
        sizes = chosen(here)
    settings = [Settings(coefficient=c, **sizes) for c in routing.COEFFICIENTS]
    shown = {n: v for n, v in settings[0]._asdict().items() if n != "coefficient"}
    here.code(code.source("balance"), coefficients=routing.COEFFICIENTS, **shown)
    if not trained(here, settings):
        return
    found = all_curves(here, settings)
    names = {c: here.text("lambda", value=here.write(c)) for c in found}
    here.say("letters")
    here.say("busiest_about", equal=percent(here, 1 / sizes["num_experts"], 1))
    here.facts(
        *(
            (f"busiest_{n}", percent(here, routing.busiest(curves["load"])))
            for n, curves in enumerate(found.values())
        ),
    )
    during(here, found, names, sizes["num_experts"])
    rows = [
        {"step": int(step), "loss": float(loss), "coefficient": names[c]}
        for c, curves in found.items()
        for step, loss in zip(curves["step"], curves["loss"], strict=True)
        if step >= 2 * code.EVERY  # the losses before are far from the others
    ]
    columns = titles(here, "step", "loss", "coefficient")
    all_losses = [row["loss"] for row in rows]
    ends = math.floor(10 * min(all_losses)) / 10, math.ceil(10 * max(all_losses)) / 10
    options = {"titles": columns, "range_y": ends}
    chart = figures.lines(here.style, rows, "step", "loss", "coefficient", **options)
    here.picture("losses", chart, rows, columns)


def all_curves(here, settings):
    """Returns the curves of models by coefficient; draws how many are trained."""
    place, found = st.empty(), {}
    for n, one in enumerate(settings):
        if not one.is_prepared():
            values = {"number": here.write(n + 1), "count": here.write(len(settings))}
            place.progress(n / len(settings), here.text("progress", **values))
        found[one.coefficient] = here.compute(routing.curves, *one)
    place.empty()
    return found


def during(here, found, names, count):
    """Draws a panel for each coefficient, with a line for each expert."""
    columns = titles(here, "coefficient", "step", "expert", "share")
    charts, table = {}, []
    for coefficient, curves in found.items():
        rows = [
            {"step": int(step), "share": float(share), "expert": name}
            for name, shares in zip(
                names_of(here, count), curves["load"].T, strict=True
            )
            for step, share in zip(curves["step"], shares, strict=True)
        ]
        options = {"titles": columns, "range_y": (0, 1), "legend": False}
        options["rules"] = {f"1/{count}": 1 / count}
        chart = figures.lines(here.style, rows, "step", "share", "expert", **options)
        charts[names[coefficient]] = chart
        table += [{"coefficient": names[coefficient], **row} for row in rows]
    panels.draw(here, "during", charts, table, columns)


def body(here):
    """Draws one of the two views."""
    {"reads": reads, "balance": balance}[here.view](here)


if __name__ == "__main__":
    lab.show("experts", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)
