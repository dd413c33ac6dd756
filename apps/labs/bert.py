"""Lab 13, BERT: masked tokens, next sentences, fine-tuning; before and after."""

import re

import streamlit as st

import kerasseq
from labs.code import bert as code
from parts import bert_figures as draw
from parts import lab, prepared, runs, work
from parts.errors import Refused

MASKED = r"-\frac{1}{|M|} \sum_{i \in M} \log p(w_i \mid \tilde w)"
EQUATIONS = {
    "masking": (f"L = {MASKED}",),
    "hole": (r"p(w_i \mid \tilde w) = \mathrm{softmax}(E h_i)",),
    "next": (r"p(\mathrm{next} \mid a, b) = \mathrm{softmax}(W h_{\mathrm{CLS}})",),
    "tuning": (r"p(\mathrm{label} \mid w) = \mathrm{softmax}(W h_{\mathrm{CLS}})",),
    "training": (rf"L = {MASKED} - \log p(\mathrm{{next}} \mid a, b)",),
}
TRIES = (
    {"share": "1.0"},
    {"view": "hole", "hole_text": "[MASK] two three four ."},
    {"view": "next"},
    {"view": "tuning", "task": "direction"},
    {"view": "training"},
)
RATES = (0.05, 0.15, 0.3, 0.5)
SHARES = (0.0, 0.5, 0.8, 1.0)  # of the chosen tokens that become [MASK]
DRAWS = 1000
BEST = 5  # tokens for a hole
HOLE = "one two three [MASK] five six seven ."
FIRST = "twenty one twenty two twenty three ."
SECOND = "twenty four twenty five twenty six ."
OWN = "thirty two thirty one thirty twenty nine ."
LONGEST = 300  # characters of a sentence
STARTS = ("pretrained", "scratch")
TEXTS = ("counting", "python-reference")
STEPS = (300, 1100, 3000, 10_000)


def masking(here):
    """Draws which tokens are chosen, and what becomes of them."""
    with here.controls():
        text = here.passage("text", here.text("text_default"), 2000)
        text = "".join(c if c.isprintable() else " " for c in text).strip()
    with here.controls():
        rate = here.steps("rate", RATES, 0.15)
        share = here.steps("share", SHARES, 0.8)
        seed = here.number("seed", 0, 9999, 0)
    if not text:
        raise Refused("empty")
    found = here.compute(code.mask, text, rate, share, seed, DRAWS)
    draw.masks(here, found["before"], found["after"], found["chosen"])
    expected = draw.expected_shares(rate, share, found["selectable"])
    draw.counts(here, found["counts"], expected)
    options = {"text": text, "rate": rate, "share": share, "seed": seed}
    here.code(code.source("masking"), draws=DRAWS, **options)


def show(here, view, **values):
    """Sets the code of a view."""
    here.code(code.source(view), file=here.trained("bert"), **values)


def check(here, folder, *texts):
    """Refuses texts that are empty, or longer than the model reads."""
    if not all(text.strip() for text in texts):
        raise Refused("empty")
    found, room = here.compute(code.run, "lengths", folder, texts)
    if sum(found) > room:
        raise Refused("too_long", tokens=sum(found), most=room)


def hole(here):
    """Draws the predictions for a hole, and to what it attends."""
    folder = here.prepared("bert")
    with here.controls():
        text = here.line("hole_text", HOLE, most=LONGEST)
        text = re.sub(r"\[mask\]|_+", "[MASK]", text, flags=re.IGNORECASE)
        count, number = text.count("[MASK]"), 0
        if count > 1:
            labels = {n: str(n + 1) for n in range(count)}
            number = here.choice("hole", range(count), labels=labels)
    if not count:
        raise Refused("no_mask")
    check(here, folder, text)
    found = here.compute(code.run, "fill", folder, text, BEST)
    draw.predictions(here, {when: holes[number] for when, holes in found.items()})
    found = here.compute(code.run, "attend", folder, text, number)
    draw.attention(here, found["tokens"], found["weights"])
    options = {"text": text, "hole": number, "best": BEST}
    show(here, "hole", **options)


def following(here):
    """Draws whether a sentence follows another."""
    folder = here.prepared("bert")
    with here.controls():
        first = here.line("first", FIRST, most=LONGEST)
        second = here.line("second", SECOND, most=LONGEST)
    others = here.compute(code.continuations, first)
    longest = max((b for _, b in others), key=lambda b: len(b.split()))
    for b in (second, first, longest):
        check(here, folder, first, b)
    pairs = here.compute(code.variants, first, second)
    both = [*pairs.values(), *others]
    found = here.compute(code.run, "follows", folder, both)
    draw.pairs(here, pairs, found)  # the first of them
    draw.continuations(here, {when: p[len(pairs) :] for when, p in found.items()})
    options = {"first": first, "second": second}
    show(here, "next", **options)


def tuning(here):
    """Draws how well classifiers with and without pre-training learn from examples."""
    folder = here.prepared("bert")
    with here.controls():
        task = here.choice("task", ("direction", "mistake"), wide=True)
        seed = here.number("tuning_seed", 0, 9999, 0)
    texts, labels = here.compute(code.examples, task, seed)
    names = {label: here.text(f"label_{label}") for label in sorted(set(labels))}
    rows = [{"example": texts[n], "label": names[labels[n]]} for n in range(4)]
    here.table(rows, draw.headings(here, "example", "label"))
    rows, weights = [], {}
    bar = st.progress(0.0)
    for n, size in enumerate(code.SIZES):
        bar.progress(n / len(code.SIZES), text=here.text("tunes", size=size))
        for start in STARTS:
            arguments = task, size, start == "pretrained", seed, code.STEPS
            found = here.compute(code.run, "tune", folder, *arguments)
            weights[start] = found["weights"]
            accuracy = found["accuracy"]
            rows.append({"size": size, "accuracy": accuracy, "start": here.text(start)})
    bar.empty()
    draw.accuracies(here, rows)
    text = here.line("own", OWN, most=LONGEST)
    check(here, folder, text)
    rows = []
    for start in STARTS:
        arguments = list(names), weights[start], text
        p = here.compute(code.run, "classify", folder, *arguments)
        p = {names[label]: share for label, share in p.items()}
        rows.append({draw.headings(here, "start")["start"]: here.text(start), **p})
    here.table(rows)
    options = {"task": task, "text": text, "seed": seed, "sizes": code.SIZES}
    show(here, "tuning", steps=code.STEPS, **options)


def training(here):
    """Draws the accuracies before and after training, and trains others."""
    folder = here.prepared("bert")
    found = runs.results(folder)
    draw.results(here, found)
    lines = kerasseq.runs.read_progress(folder).lines
    lines = [line for line in lines if "tokens_accuracy" in line]
    if lines:
        draw.training(here, list(runs.thinned(lines)), found["baselines"])
    show(here, "training")
    st.subheader(here.text("more_runs"))
    here.say("more_runs_about")
    with here.controls():
        data = here.choice("data", TEXTS, wide=True)
        rate = here.steps("mask_rate", RATES, 0.15)
        steps = here.steps("steps", STEPS, 1100)
    words = [*prepared.recipes()["bert"].words, "--data", data]
    words += ["--mask-rate", str(rate), "--steps", str(steps)]
    title = f"{here.text(f'data_{data}')}, {here.write(100 * rate)} %"
    request = runs.Request(tuple(words), work.backend(), title, here.name)
    for run in here.runs([request], draw.curves(here)):
        if run.state == "finished":
            st.markdown(f"**{run.request.title}**")
            draw.results(here, runs.results(run.folder))


def body(here):
    """Draws one of the five parts."""
    parts = {"masking": masking, "hole": hole, "next": following, "tuning": tuning}
    parts.get(here.view, training)(here)


if __name__ == "__main__":
    lab.show("bert", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)
