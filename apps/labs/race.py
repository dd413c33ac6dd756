"""Lab 2, Memory race: parentheses, and series that are forecast."""

import streamlit as st

import kerasseq
from labs.code import race as code
from parts import (
    figures,
    figures_matrix,
    forecasts,
    lab,
    races,
    run_names,
    runs,
    work,
)
from parts.errors import Refused

EQUATIONS = {
    "race": (
        r"\text{Elman}\quad h_t = \varphi(W x_t + U h_{t-1} + b)",
        r"\text{LSTM}\quad c_t = f_t \odot c_{t-1} + i_t \odot g_t",
    ),
    "forecast": (
        r"(\hat y_{t+1}, \dots, \hat y_{t+H}) = f(y_1, \dots, y_t)",
        r"\text{AR}\quad \hat y_{t+1} = a_0 + \sum_{i=1}^{p} a_i\, y_{t+1-i}",
    ),
}
TRIES = (
    {"lengths": "4~20"},
    {"cells": "elman~gru"},
    {"colors": "2"},
    {"view": "forecast", "horizon": "1"},
)
CELLS = ("elman", "gated", "lstm", "peephole_lstm", "gru")
CELLS += ("min_gru", "min_lstm", "slstm", "transformer", "wavenet")
CELLS += ("linear_attention", "gla", "retention", "delta_net", "mlstm")
CELLS += ("s4d", "mamba", "rwkv4", "rwkv7")
CELLS += ("blockwise", "longformer", "adaptive_span")
KINDS = ("hard", "training")
FLIPPED = (0.0, 0.05, 0.1, 0.2)  # share of labels that are wrong
TESTS = ("balanced", "training", "hard")
BRACKETS = "()[]{}<>«»"  # a pair for each color
LONGEST = 200  # characters of a string of one's own
QUICK = {"20_000": "64", " 500,": " 20,", "max(1, ": "min(1, "}


def settings(here):
    """Draws the controls, and returns what the button starts."""
    with here.controls():
        names = {cell: here.text(f"cell_{cell}") for cell in CELLS}
        cells = here.several("cells", CELLS, ("elman", "lstm"), labels=names, width=620)
        seeds = here.number("seeds", 1, 5, 1)
        first = here.number("seed", 0, 9999, 0)
        backends = here.several(
            "backends", work.installed(), [work.backend()], labels=str
        )
    with here.controls():
        task = {
            "colors": here.choice("colors", (1, 2, 5), labels=str),
            "lengths": here.interval("lengths", 4, 80, (40, 60), step=2),
            "kind": here.choice("kind", KINDS, width=300),
            "flipped": here.steps("flipped", FLIPPED, 0.0),
            "steps": here.steps("steps", (100, 300, 700, 1500, 3000, 10_000), 1500),
        }
    with here.controls():
        sizes = {
            "units": here.steps("units", (4, 8, 16, 32, 50, 64, 128), 32),
            "learning_rate": here.steps(
                "learning_rate", (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02), 0.005
            ),
            "batch_size": here.steps("batch_size", (16, 32, 64, 128, 256), 64),
        }
    here.code(code.race(task["flipped"]), cells=cells, seed=first, **task, **sizes)
    return [
        races.request(
            cell,
            backend=backend,
            title=names[cell],
            lab="race",
            seed=seed,
            **task,
            **sizes,
        )
        for backend in backends
        for cell in cells
        for seed in range(first, first + seeds)
    ]


def results(here, finished, names):
    """Draws the accuracies of finished runs beside the answer of the majority."""
    rows, tests = [], [f"test_{kind}" for kind in TESTS]
    for run in finished:
        found = runs.results(run.folder)
        by_kind = found["accuracy"][run.request.details["cell"]]
        row = {f"test_{kind}": seeds[0] for kind, seeds in by_kind.items()}
        about = run_names.about(here, run)
        rows.append({"run": names[run.id], **row, "settings": about})
        often = {f"test_{k}": max(p, 1 - p) for k, p in found["majority"].items()}
    rows.append({"run": here.text("majority"), **often, "settings": ""})
    for label, best in races.best_possible(here, finished).items():
        rows.append({"run": label, **dict.fromkeys(often, best), "settings": ""})
    here.say("results")
    shown = [k for k in ("run", *tests, "settings") if any(k in row for row in rows)]
    here.table(rows, {name: here.text(name) for name in shown})


def through(named, ids):
    """Returns probability and hidden states of each network, character by character."""
    import keras
    import numpy as np

    length = len(ids)
    prefixes = np.tril(np.tile(np.array(ids, "int32"), (length, 1)))
    found = {}
    for name, folder in named:
        model = work.model(folder)
        logits = model.predict(prefixes, verbose=0)
        chances = keras.ops.convert_to_numpy(keras.ops.softmax(logits))[:, 1]
        with kerasseq.tracing.trace(model) as inside:
            model(prefixes[-1:])
        keys = [key for key in inside if key.endswith("/hidden_state")]
        states = inside[keys[-1]][0].T if keys else None  # of a WaveNet's last block
        found[name] = chances, states
    return found


def own_string(here, finished, names):
    """Steps through a string of one's own."""
    colors = {run.request.details["colors"] for run in finished}
    choices = BRACKETS[: 2 * min(colors)]
    st.subheader(here.text("own"))
    here.say("own_about", brackets=" ".join(choices))
    text = here.line("string", "((()())(())())", most=LONGEST)
    symbols = [c for c in text if not c.isspace()]
    if not symbols or set(symbols) - set(choices):
        raise Refused("bad_string", brackets=" ".join(choices))
    same = [run for run in finished if run.request.details["colors"] == min(colors)]
    named = [(run.id, races.model_of(run)) for run in same]
    ids, labels = races.encode(symbols, min(colors), choices)
    found = here.compute(through, named, ids)
    with here.controls():
        at = here.stepper("at", 1, max(2, len(symbols)), len(symbols))
        chosen = here.choice("network", list(found), labels=names)
    at = min(at, len(symbols))
    here.strip("read", symbols, marked=[at - 1], values=labels, limits=(0, 4))
    truth = here.text("balanced" if labels[at - 1] else "unbalanced")
    here.say("truth", so_far="".join(symbols[:at]), truth=truth)
    rows = [
        {
            "position": n + 1,
            "chance": float(chance),
            "error": abs(float(chance) - labels[n]),
            "symbol": symbols[n],
            "run": races.name_of(run),
        }
        for run in same
        for n, chance in enumerate(found[run.id][0])
    ]
    titles = {key: here.text(key) for key in rows[0]}
    of = {races.name_of(run): names[run.id] for run in same}
    for value in ("chance", "error"):
        chart = figures.lines(
            here.style,
            rows,
            "position",
            value,
            "run",
            titles=titles,
            names=of,
            range_y=(0, 1),
            at=at,
        )
        here.picture(value, chart, [{**r, "run": of[r["run"]]} for r in rows], titles)
    hidden(here, found[chosen][1], symbols)


def hidden(here, states, symbols):
    """Draws the hidden state of the chosen network over the string."""
    if states is None:
        here.say("no_state")
        return
    columns = [f"{n} {symbol}" for n, symbol in enumerate(symbols, 1)]
    units = [str(n) for n in range(len(states))]
    titles = {key: here.text(key) for key in ("row", "column", "value")}
    chart = figures_matrix.matrix(
        here.style, states, units, columns, titles=titles, diverging=True
    )
    here.picture("state", chart, states, titles)


def body(here):
    """Draws one of the two parts."""
    if here.view == "race":
        parentheses(here)
    else:
        names = {cell: here.text(f"cell_{cell}") for cell in CELLS}
        forecasts.body(here, code.forecast, names)


def parentheses(here):
    """Draws the race, its results, and a string of one's own."""
    requests = settings(here)
    found = here.runs(requests, races.curves(here))
    finished = [run for run in found if run.state == "finished"]
    if finished:
        names = run_names.names(here, found)
        results(here, finished, names)
        own_string(here, finished, names)
    else:
        here.say("none_yet")


if __name__ == "__main__":
    lab.show("race", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)
