"""Lab 16, Votes: a class votes, ratings move, a model learns from it, and limits."""

import math

import streamlit as st

from labs.code import votes as code
from parts import figures, lab, voting
from parts.errors import Refused

EQUATIONS = {
    "vote": (r"P(i \succ j) = \sigma(r_i - r_j)",),
    "train": (
        r"L = -\ln \sigma\big(\beta (\Delta_{chosen} - \Delta_{rejected})\big)",
        r"\Delta = \ln \pi(y \mid x) - \ln \pi_{ref}(y \mid x)",
    ),
    "limits": (r"\pi \propto \pi_{ref}\, e^{\frac{G-1}{G} r / \beta}",),
}
TRIES = (
    {"view": "vote"},
    {"view": "vote", "worth": "0.0"},
    {"view": "train", "beta": "1.0"},
    {"view": "train", "worth": "2.0", "steps": "200", "beta": "0.05"},
    {"view": "limits"},
)
COUNTS = (10, 50, 200, 1000)
LEAST = 10  # votes on which a model is trained
ROWS, STARTED = "votes.rows", "votes.started"  # in the session
SHOWN = 60  # votes in the code


def class_votes():
    """Returns the votes of this browser."""
    return st.session_state.setdefault(ROWS, [])


def vote(here):
    """Draws two answers for a vote, the ratings, and the file of votes."""
    rows = class_votes()
    seed = session_seed(here)
    found = here.compute(voting.pair, len(rows), seed)
    st.markdown(f"**{here.text('which')}**")
    for n, (column, name) in enumerate(zip(st.columns(2), "AB", strict=True)):
        with column, st.container(border=True):
            st.markdown(f"**{name}**")
            st.markdown(f"### `{found['texts'][n]}`")
            full = len(rows) >= voting.MOST
            if here.button(f"better_{name.lower()}", primary=True, disabled=full):
                rows.append(voting.vote(found, n))
                st.rerun()
    simulate(here, rows, seed)
    file_of_votes(here, rows)
    table(here, rows)
    votes = [(row["chosen_model"], row["rejected_model"]) for row in rows[:SHOWN]]
    here.code(code.VOTE, votes=votes or [("even", "odd")])


def session_seed(here):
    """Draws the seed of the pairs."""
    with here.controls():
        return here.number("seed", 0, 9999, 0)


def simulate(here, rows, seed):
    """Draws the button with which a simulated class votes."""
    with here.controls():
        worth = worth_of(here)
        count = here.steps("count", COUNTS, 50)
        pressed = here.button("simulate")
    if pressed:
        room = voting.MOST - len(rows)
        rows += here.compute(voting.simulated, len(rows), count, worth, seed)[:room]
        st.rerun()


def worth_of(here):
    """Draws what an even digit is worth to the simulated class."""
    return here.steps("worth", (0.0, 0.1, 0.3, 0.5, 1.0, 2.0), 0.3)


def file_of_votes(here, rows):
    """Draws the download, the upload, and the button that deletes the votes."""
    with st.expander(here.text("file")):
        st.download_button(
            here.text("download"),
            voting.written(rows),
            file_name="votes.jsonl",
            mime="application/jsonl",
            icon=":material/download:",
            on_click="ignore",
            disabled=not rows,
            key=f"{here.name}.download",
        )
        text = here.upload_text("upload", ("jsonl",))
        if text is not None and here.button("use"):
            st.session_state[ROWS] = voting.read(text)
            st.rerun()
        if rows and here.button("delete"):
            st.session_state[ROWS] = []
            st.rerun()


def table(here, rows):
    """Draws the ratings with their intervals."""
    here.facts(("number", here.write(len(rows))))
    if not rows:
        here.say("no_votes")
        return
    st.markdown(f"**{here.text('ratings')}**")
    here.say("ratings_about")
    shown = [
        {
            "writer": here.text(f"writer_{row['writer']}"),
            "rating": row["rating"],
            "interval": here.text(
                "from_to",
                low=here.write(row["low"], 2),
                high=here.write(row["high"], 2),
            ),
            "of_votes": row["votes"],
        }
        for row in here.compute(voting.ratings, rows)
    ]
    here.table(shown, {key: here.text(key) for key in shown[0]})


def train(here):
    """Draws how a model moves that is trained on votes."""
    with here.controls():
        source = here.choice("source", ("simulated", "class"), wide=True)
        worth, count = worth_of(here), here.steps("count", COUNTS, 1000)
        seed = here.number("seed", 0, 9999, 0)
    with here.controls():
        beta = here.steps("beta", (0.05, 0.1, 0.3, 1.0), 0.3)
        steps = here.steps("steps", (10, 50, 100, 200), 100)
        pressed = here.button("train", primary=True)
    here.code(code.TRAIN, answers=64, worth=worth, beta=beta, steps=steps)
    here.say("optimum", share=here.write(1 / (1 + math.exp(-worth / beta)), 3))
    chosen = source, worth, count, seed, beta, steps, len(class_votes())
    if pressed:
        st.session_state[STARTED] = chosen
    if st.session_state.get(STARTED) != chosen:
        here.say("press")
        return
    if source == "class":
        rows = class_votes()
    else:
        rows = here.compute(voting.simulated, 0, count, worth, seed)
    rows = voting.usable(rows)
    if len(rows) < LEAST:
        raise Refused("too_few", least=LEAST, found=len(rows))
    moved(here, here.compute(voting.aligned, rows, beta, steps))


def moved(here, found):
    """Draws the answers before and after the training."""
    here.facts(
        *((f"share_{name}", here.write(x, 3)) for name, x in found["shares"].items()),
        ("kl", here.write(found["kl"], 2)),
        ("bound", here.write(voting.DIGITS * math.log(2), 2)),
    )
    rows = [
        {"digits": n, "answers": share, "when": name}
        for name in ("before", "after")
        for n, share in enumerate(found[name])
    ]
    titles = {key: here.text(f"title_{key}") for key in rows[0]}
    names = {name: here.text(name) for name in ("before", "after")}
    options = {"titles": titles, "names": names, "points": True}
    chart = figures.lines(here.style, rows, "digits", "answers", "when", **options)
    here.picture("histogram", chart, rows, titles)
    pairs = zip(*(found["texts"][name] for name in names), strict=True)
    here.table([dict(zip(names, pair, strict=True)) for pair in pairs], names)


def limits(here):
    """Draws GRPO in three ways, beside the shares at which it ends."""
    found = voting.curves()
    names = {kind: here.text(f"kind_{kind}") for kind in found}
    rows = [
        {"step": int(step), "even": float(even), "kl": float(kl), "kind": kind}
        for kind, values in found.items()
        for step, even, kl in zip(*values.values(), strict=True)
    ]
    here.facts(
        *(
            (f"kind_{kind}", here.write(end_of(v["even"]), 3))
            for kind, v in found.items()
        )
    )
    titles = {key: here.text(f"title_{key}") for key in rows[0]}
    ends = {here.write(x, 3): x for x in voting.LIMITS.values() if x is not None}
    options = {"titles": titles, "names": names, "rules": ends, "range_y": (0.4, 1.0)}
    chart = figures.lines(here.style, rows, "step", "even", "kind", **options)
    here.picture("curves", chart, rows, titles)
    options = {"titles": titles, "names": names}
    chart = figures.lines(here.style, rows, "step", "kl", "kind", **options)
    here.picture("divergence", chart, rows, titles)
    here.code(code.LIMITS)


def end_of(values):
    """The mean of the last 50 steps."""
    return float(values[-5:].mean())


def body(here):
    """Draws one of the three parts."""
    {"vote": vote, "train": train}.get(here.view, limits)(here)


if __name__ == "__main__":
    lab.show("votes", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)
