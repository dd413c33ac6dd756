"""Lab 1, Start: a question, a picture that moves, and Elman against LSTM, live."""

import streamlit as st

import kerasseq
from parts import lab, moving, races, work

CELLS = ("elman", "lstm")
LENGTHS, STEPS = (30, 50), 1000
LEARNED = 0.9  # accuracy of a network that counts
TRIES = ({"seed": "1"}, ("race", {"lengths": "4~20"}))
QUICK = {"20_000": "64"}
CODE = """
import keras
import kerasseq

strings = kerasseq.datasets.parentheses(
    20_000, colors=1, lengths={lengths}, kind="hard", seed={seed}
)
for cell in ("elman", "lstm"):
    keras.utils.set_random_seed({seed})
    model = kerasseq.models.SequenceClassifier(cell, 2, vocabulary_size=3, units=32)
    model.compile(keras.optimizers.Adam(0.005), metrics=["accuracy"])
    model.fit(strings.ids, strings.labels, batch_size=64, epochs=3, verbose=2)
"""


def body(here):
    """Draws the page."""
    strings = kerasseq.datasets.parentheses(
        1, colors=1, lengths=(48, 48), kind="hard", seed=4
    )
    moving.draw(here.style, strings.sequences[0], here.text("picture"))
    here.say("moving")
    panel = st.container()
    with st.expander(here.text("options")), here.controls():
        seed = here.number("seed", 0, 9999, 0)
        backends = work.installed()
        backend = here.choice("backend", backends, work.backend(), labels=str)
    requests = [
        races.request(
            cell,
            backend=backend,
            title=here.text(f"cell_{cell}"),
            lab="start",
            seed=seed,
            steps=STEPS,
            lengths=LENGTHS,
        )
        for cell in CELLS
    ]
    with panel:
        found = here.runs(requests, races.curves(here, ("accuracy",)), start="go")
        outcome(here, found)
    ready(here)
    here.code(CODE, lengths=LENGTHS, seed=seed)


def outcome(here, found):
    """Says what was seen, once both networks of the last start are trained."""
    last = {run.request.details.get("cell"): run for run in found[-len(CELLS) :]}
    if set(last) != set(CELLS) or any(r.state != "finished" for r in last.values()):
        return
    learned = {c: run.line.get("accuracy", 0) > LEARNED for c, run in last.items()}
    if learned["lstm"]:
        here.say("seen_both" if learned["elman"] else "seen")
    else:
        here.say("seen_not", steps=STEPS)


def ready(here):
    """Draws which backends are installed, and which labs can be shown at once."""
    st.subheader(here.text("ready"))
    installed = work.installed()
    rows = [
        {"backend": name, "state": here.text("yes" if name in installed else "no")}
        for name in work.BACKENDS
    ]
    here.table(rows, {key: here.text(key) for key in rows[0]})
    here.overview()


if __name__ == "__main__":
    lab.show("start", body, tries=TRIES)
