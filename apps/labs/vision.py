"""Lab 14, Vision and your own data: patches and attention; texts to classes."""

import streamlit as st

from labs.code import vision as code
from parts import (
    canvas,
    classified,
    image_views,
    lab,
    runs,
    uploads,
    vision,
    work,
)
from parts.code import Trained
from parts.errors import Refused

EQUATION = (
    r"z_0 = [x_{\mathrm{class}};\; x^1 E;\; \dots;\; x^N E] + E_{\mathrm{pos}}",
    r"R = \bar A_L \cdots \bar A_2 \bar A_1",
    r"\bar A_l = \tfrac12 (\tfrac1N {\textstyle\sum_n} A_l^n + I)",
)
EQUATIONS = {
    "image": EQUATION,
    "texts": (r"s_t = x_t \cdot \frac{\partial z_y}{\partial x_t}",),
}
TRIES = (
    {"source": "draw"},
    {"source": "draw"},
    {"source": "draw"},
    {"source": "example", "digit": "4"},
    {"view": "texts", "which": "0", "name": "España"},
    {"view": "texts", "which": "1"},
)
SOURCES = ("draw", "example", "hard", "upload")
SEVEN = "4b37b23773d2.6482aa7d"  # a drawing, as in the address
PICTURES = ("png", "jpg", "jpeg", "webp", "gif", "bmp")
TABLES = ("csv", "tsv", "txt")
LARGEST = 5_000_000  # bytes of an upload
EXAMPLES = 174  # of each digit, at least
MODELS = ("gru", "lstm", "elman", "transformer")
TOKENIZERS = ("character", "word", "bpe")
STEPS = (50, 100, 300, 1000, 3000)
TEXT = "Niederlande"
PATCHES = 16


def drawn(here, folder):
    """The image of a drawing, or None."""
    strokes = canvas.draw(here, "drawing", SEVEN)
    here.say("by_keyboard")
    return here.compute(code.image_of_strokes, strokes) if strokes else None


def example(here, folder):
    """An image of the data set."""
    digit = here.choice("digit", range(10), 3, labels=str, wide=True)
    number = here.slider("number", 1, EXAMPLES, 1)
    return here.compute(vision.example, digit, number - 1)


def hard(here, folder):
    """One of the images that were classified wrongly, the most certain first."""
    found = runs.results(folder)["hardest"]
    if not found:
        raise Refused("all_right")

    def named(n):
        words = {key: found[n][key] for key in ("label", "predicted")}
        return here.text("taken_for", **words)

    n = here.choice("which_image", range(len(found)), labels=named)
    return here.compute(vision.numbered, int(found[n]["file"].split()[-1]))


def uploaded(here, folder):
    """An image of one's own, or None."""
    found = here.upload("picture", PICTURES, LARGEST)
    return None if found is None else here.compute(code.image_of_file, *found)


def images(here):
    """Draws what a Vision Transformer does with an image of a digit."""
    folder = here.prepared("vision_digits")
    source = here.choice("source", SOURCES, wide=True)
    left, right = st.columns([2, 3], gap="large")
    with left:
        take = {"draw": drawn, "example": example, "hard": hard, "upload": uploaded}
        image = take[source](here, folder)
    if image is None:
        here.say("nothing_drawn")
        return

    def named(token):
        return here.text("patch", number=token) if token else here.text("class_token")

    token = here.choice("token", range(PATCHES + 1), labels=named, width=300)
    found = here.compute(vision.look, folder, image, token)
    with right:
        image_views.decision(here, found["probabilities"])
    image_views.patches(here, image, found["size"], str(token))
    image_views.attention(here, image, found, token)
    image_views.rollout(here, image, found, token)
    image_views.moved(here, found["pixels"])
    rows = {f"row_{n}": row for n, row in enumerate(image.tolist())}
    label = max(found["probabilities"], key=found["probabilities"].get)
    file = here.trained("vision_digits")
    here.code(code.IMAGE, file=file, token=token, label=label, **rows)


def request(here, options):
    """Draws the controls for a table of one's own; returns what the button starts."""
    found = here.upload("table", TABLES, LARGEST)
    if found is None:
        return []
    head = here.compute(vision.table_head, *found)
    names = list(head[0])
    here.table([{k: v[:60] for k, v in row.items()} for row in head])
    with here.controls():
        text = here.choice("text_column", names, labels=str)
        label = here.choice("label_column", names, names[-1], labels=str)
    if text == label:
        raise Refused("same_column")
    name, content = found
    file = uploads.keep(content, name.rpartition(".")[2].lower())
    options = {"file": file, "text": text, "label": label, **options}
    words = [f"--{key}={value}" for key, value in options.items()]
    title = f"{name} · {here.text('cell_' + options['model'])}"
    details = {"example": head[0][text]}
    return [
        runs.Request(("classify", *words), work.backend(), title, "vision", details)
    ]


def own(here):
    """Draws the panel for a table of one's own; returns a finished run, or None."""
    with here.controls():
        labels = {model: here.text(f"cell_{model}") for model in MODELS}
        options = {
            "model": here.choice("model", MODELS, labels=labels),
            "tokenizer": here.choice("tokenizer", TOKENIZERS),
            "steps": here.steps("steps", STEPS, 300),
        }
    requests = []
    with lab.boundary(here):  # the runs are drawn in any case
        requests = request(here, options)
    found = here.runs(requests)
    finished = {run.id: run for run in found if run.state == "finished"}
    if not finished:
        here.say("none_yet")
        return None

    def named(key):
        return f"{finished[key].request.title} ({key})"

    return finished[here.choice("of_run", list(finished)[::-1], labels=named)]


def texts(here):
    """Draws a classifier of texts: names by language, or a table of one's own."""
    if here.choice("data", ("names", "own"), wide=True) == "names":
        folder = here.prepared("vision_names")
        file = here.trained("vision_names")
        name, default = "name", TEXT
    else:
        run = own(here)
        if run is None:
            return
        folder, file = run.folder, Trained(run.id, run.request.words)
        name, default = "sentence", run.request.details["example"]
    results = runs.results(folder)
    classified.report(here, results)
    st.subheader(here.text("one_text"))
    text, label = classified.decision(here, folder, results, name, default)
    here.code(code.TEXT, file=file, text=text, label=label)


def body(here):
    """Draws one of the two parts."""
    {"image": images, "texts": texts}[here.view](here)


if __name__ == "__main__":
    lab.show("vision", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)
