"""Lab 1, Start: a question, a picture that moves, and Elman against LSTM, live."""

import streamlit as st

import kerasseq
from parts import lab, moving, races, work

CELLS = ("elman", "lstm")
LENGTHS, STEPS = (40, 60), 700
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
    model.fit(strings.ids, strings.labels, batch_size=64, epochs=2, verbose=2)
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
        if found and all(run.state == "finished" for run in found):
            here.say("seen")
    ready(here)
    here.code(CODE, lengths=LENGTHS, seed=seed)


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
    lab.show("start", body)
