"""Lab 18, Speech: a wave becomes frames, and frames become text by CTC."""

import numpy as np
import streamlit as st

from labs.code import speech as code
from parts import ctc_by_hand, figures, figures_sound, lab, sounds, work
from parts.errors import Refused

QUICK_LATER = code.QUICK  # not in the first view, which trains nothing
EQUATIONS = {
    "frames": (
        r"X_{t,k} = \sum_{n} w_n\, x_{t s + n - N/2}\, e^{-2 \pi i k n / N}",
        r"L_{t,m} = \ln \sum_k |X_{t,k}|^2\, F_{k,m}",
    ),
    "text": (
        r"p(l) = \sum_{\pi \,\to\, l}\; \prod_t y_t(\pi_t)",
        r"\hat{\pi}_t = \arg\max_k\, y_t(k)",
    ),
    "paths": (
        r"L = -\ln \sum_{\pi \,\to\, l}\; \prod_t y_t(\pi_t)",
        r"\alpha_t(j) = y_t(l'_j)\, \big(\alpha_{t-1}(j) + \alpha_{t-1}(j - 1)",
        r"\qquad + [\,l'_j \ne \varnothing,\; l'_j \ne l'_{j-2}\,]\;"
        r" \alpha_{t-1}(j - 2)\big)",
    ),
}
TRIES = (
    {"snr": "0"},
    {"mels": "24", "window": "512"},
    {"view": "text", "step": "200"},
    {"view": "text", "snr": "4", "text": "WAVE"},
    {"view": "text", "pitch": "1500", "dot": "0.1"},
    {"view": "paths", "label": "AA"},
    {"view": "paths", "label": "A", "table": "0.4 0 0.6\n0.4 0 0.6"},
)
SOURCES = ("morse", "upload", "record")
DOTS = (0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.15)
LARGEST = 4_000_000  # bytes of a file
SHOWN = 6  # letters with a line of probabilities
BLANK = "∅"


def titles(here, *names):
    """Returns the titles of columns by their names."""
    return {name: here.text(f"title_{name}") for name in names}


def sound(here):
    """Draws the controls of a sound.

    Returns:
        The samples or None, the values of its code, and the function that computes.
    """
    given, compute = {"rate": code.RATE}, here.compute
    with here.controls():
        source = here.choice("source", SOURCES, wide=True)
        if source == "morse":
            text = here.line("text", "HELLO", 10)
            dot = here.steps("dot", DOTS, 0.06)
            pitch = here.slider("pitch", 200, 1900, 600, 50)
            snr = here.slider("snr", -10, 30, 20, 1)
            seed = here.number("seed", 0, 9999, 0)
        else:
            found = recorded(here) if source == "record" else uploaded(here)
    if source == "morse":
        values = (sounds.as_letters(text), dot, pitch, snr, seed)
        names = ("text", "dot", "pitch", "snr", "seed")
        given |= dict(zip(names, values, strict=True))
        wave = compute(sounds.keyed, *values)
    else:
        here.say("stays")
        compute = own(here)
        if found is None:
            here.say(f"none_{source}")
            return None, given, compute
        wave = compute(sounds.read, *found)
    st.audio(wave, sample_rate=code.RATE)
    return wave, given, compute


def own(here):
    """Returns what computes with a sound of the user: nothing of it is kept."""

    def compute(function, *arguments):
        with st.spinner(here.text("computing", backend=work.backend())):
            return work.worker().run(function, *arguments)

    return compute


def uploaded(here):
    """Draws a box for a file, and returns its name and content, or None."""
    return here.upload("wave", ("wav",), LARGEST)


def recorded(here):
    """Draws a microphone, and returns a name and what it has recorded, or None."""
    found = st.audio_input(here.text("microphone"), key="speech.microphone")
    if found is None:
        return None
    if found.size > LARGEST:
        raise Refused("too_large", name=found.name, most=LARGEST // 1000)
    return here.text("recording"), found.getvalue()


def drawn(here, compute, wave, mels, window, letters=()):
    """Draws the spectrogram of a sound, with letters above it."""
    frames, centers = compute(sounds.frames, wave, mels, window)
    rows = figures_sound.spectrogram_rows(frames, centers, len(wave) / code.RATE)
    columns = titles(here, "second", "hertz", "value")
    chart = figures_sound.spectrogram(here.style, rows, columns, letters)
    here.picture("written" if letters else "spectrogram", chart, rows, columns)
    return frames


def frames(here):
    """Draws a wave and its spectrogram."""
    wave, values, compute = sound(here)
    with here.controls():
        mels = here.slider("mels", 8, 24, code.MELS, 4)
        window = here.steps("window", (128, 256, 512), code.WINDOW)
    shown = {**values, "mels": mels, "window": window}
    here.code(code.source("frames", "text" not in values), **shown)
    if wave is None:
        return
    rows = figures_sound.wave_rows(wave, code.RATE)
    columns = titles(here, "second", "low", "high")
    axes = titles(here, "second", "sample")
    chart = figures_sound.wave(here.style, rows, axes)
    here.picture("wave_drawn", chart, rows, columns)
    made = drawn(here, compute, wave, mels, window)
    here.facts(
        ("samples", here.write(len(wave))),
        ("seconds", here.write(len(wave) / code.RATE, 2)),
        ("shape", f"{here.write(len(made))} × {mels}"),
        ("milliseconds", here.write(1000 * window / code.RATE, 0)),
    )


def text(here):
    """Draws what the network writes, its path, its probabilities, and the beam."""
    wave, values, compute = sound(here)
    with here.controls():
        step = here.steps("step", sounds.KEPT, sounds.KEPT[-1])
        width = here.steps("width", (1, 2, 4, 8, 16), 8)
    shown = {**values, "step": step, "width": width}
    here.code(code.source("text", "text" not in values), **shown)
    if wave is None:
        return
    found = compute(sounds.written, wave, step, width)
    learned = sounds.learned()
    wrong = float(learned["wrong"][np.searchsorted(learned["step"], step)])
    here.facts(
        ("transcript", found["text"] or BLANK),
        ("log_p", here.write(found["log_p"], 2)),
        ("best_text", found["texts"][0][0] or BLANK),
        ("wrong", here.text("percent", value=here.write(100 * wrong, 1))),
    )
    here.say("trained_on", wrong=here.write(100 * wrong, 1), steps=step)
    middle = np.mean(found["times"], axis=1).tolist() if found["tokens"] else []
    letters = list(zip(found["tokens"], middle, strict=True))
    drawn(here, compute, wave, code.MELS, code.WINDOW, letters)
    collapse(here, found["y"])
    probabilities(here, found["y"], len(wave) / code.RATE)
    rows = [
        {"text": each or BLANK, "log_p": here.write(p, 2), "p": float(np.exp(p))}
        for each, p in found["texts"][:8]
    ]
    st.markdown(f"**{here.text('beam')}**")
    here.say("beam_about")
    here.table(rows, titles(here, "text", "log_p", "p"))
    curve(here, learned)


def collapse(here, y):
    """Draws the best path, and how it becomes a text."""
    path = y.argmax(axis=1)
    new = np.diff(path, prepend=-1) != 0
    merged = path[new]
    symbols = (*code.LETTERS, "")
    for name, ids in (
        ("path", path),
        ("merged", merged),
        ("left", merged[merged < len(code.LETTERS)]),
    ):
        here.strip(name, [symbols[k] for k in ids] or [""])


def probabilities(here, y, seconds):
    """Draws the probabilities of the blank and of some letters over time."""
    best = np.argsort(-y[:, :-1].max(axis=0))[:SHOWN]
    best = sorted(best, key=lambda k: int(y[:, k].argmax()))
    rows = [
        {
            "second": round((t + 0.5) * seconds / len(y), 3),
            "p": round(float(y[t, k]), 4),
            "symbol": (*code.LETTERS, BLANK)[k],
        }
        for k in (*best, len(code.LETTERS))
        for t in range(len(y))
    ]
    columns = titles(here, "second", "p", "symbol")
    options = {"titles": columns, "range_x": (0, seconds), "range_y": (0, 1)}
    chart = figures.lines(here.style, rows, "second", "p", "symbol", **options)
    here.picture("probabilities", chart, rows, columns)


def curve(here, learned):
    """Draws the wrong characters by the steps of the training."""
    rows = [
        {"step": int(step), "share": float(wrong), "loss": float(loss)}
        for step, wrong, loss in zip(
            *(learned[name] for name in ("step", "wrong", "loss")), strict=True
        )
    ]
    columns = titles(here, "step", "share", "loss")
    rows_ = [{**row, "name": here.text("wrong")} for row in rows]
    options = {"titles": {**columns, "name": ""}, "range_y": (0, 1), "points": True}
    chart = figures.lines(here.style, rows_, "step", "share", "name", **options)
    here.picture("curve", chart, rows, columns)


def body(here):
    """Draws one of the three views."""
    {"frames": frames, "text": text, "paths": ctc_by_hand.draw}[here.view](here)


if __name__ == "__main__":
    lab.show("speech", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)
