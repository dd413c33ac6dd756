"""Lab 6, Language model: the next character, text that streams, and surprise."""

import dataclasses
import pathlib

import numpy as np

from labs.code import language_model as code
from parts import (
    figures,
    figures_next,
    figures_steps,
    lab,
    language_models,
    own_text,
    panels,
    prepared,
    runs,
    streams,
    uploads,
)
from parts.errors import Refused
from parts.own_text import Network

NEXT = r"p(x_{t+1} \mid x_1 \dots x_t) = \mathrm{softmax}(z_t / \tau)"
EQUATIONS = {
    "next": (NEXT,),
    "write": (r"x_{t+1} \sim " + NEXT,),
    "surprise": (r"\mathrm{bits} = -\log_2 p(x_{t+1} \mid x_1 \dots x_t)",),
    "compare": (r"-\frac{1}{T} \sum_{t=1}^{T} \log_2 p(x_t \mid x_1 \dots x_{t-1})",),
}
VALUE = "If the object is a class, the val"
TRIES = (
    {"model": "ngram", "n": "1", "text": VALUE},
    {"model": "lstm", "text": "the ", "top_k": "5"},
    {"model": "lstm", "text": VALUE, "temperature": "2.0", "top_p": "0.9"},
    {"view": "write", "text": VALUE, "temperature": "0.0"},
    {"view": "surprise", "text": "The class is a class of objects."},
    {"view": "compare"},
)
COMPARED = ("lstm", "elman", "min_gru", "gpt", "wavenet")  # unless others are chosen
NETWORKS = (*COMPARED, "min_lstm", "slstm", "linear_attention", "gla")
NETWORKS += ("retention", "delta_net", "mlstm", "s4d", "mamba", "rwkv4", "rwkv7")
CORPORA = ("reference", "own", "source")
PROMPT = "If the object is ca"
MOST = 600  # characters of a text
SHOWN, SMALL = 20, 10  # tokens in a figure, and in one of several
SURPRISE = (0.0, 8.0)  # bits, the ends of the colors
SAMPLERS = {  # what can be chosen, and what changes nothing
    "temperature": ((0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 5.0), 1.0),
    "top_k": ((0, 1, 2, 3, 5, 10, 20, 40), 0),
    "top_p": ((0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0), 1.0),
    "min_p": ((0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5), 0.0),
}


def networks(here, corpus):
    """Returns the text that models are trained on, and the networks by name."""
    labels = {name: here.text(f"model_{name}") for name in NETWORKS}
    if corpus == "own":
        return own_text.draw(here, labels, "language_model")
    if corpus == "source":
        text, best = here.compute(language_models.generated)
        here.say("source_about", value=here.write(best, 3))
        file, rules = uploads.keep(text.encode(), "txt"), {here.text("least"): best}
        return own_text.draw(here, labels, "language_model", file, rules)
    recipes = prepared.recipes()
    return None, {
        name: Network(label, recipes[f"language_model_{name}"].source())
        for name, label in labels.items()
    }


def chosen(here, found, file):
    """Draws the choice of a model, and returns its name for `language_models`."""
    labels = {name: network.label for name, network in found.items()}
    labels["ngram"] = here.text("model_ngram")
    name = here.choice("model", list(labels), labels=labels, width=420)
    if name == "ngram":
        n = here.slider("n", 1, len(language_models.ORDERS), 3)
        return (n, file), {"n": n}
    folder = found[name].folder or here.prepared(f"language_model_{name}")
    return folder, {"model_file": found[name].source}


def sampling(here):
    """Draws the controls of the samplers; returns those that change something."""
    with here.controls():
        found = {name: here.steps(name, *of) for name, of in SAMPLERS.items()}
    return {name: x for name, x in found.items() if x != SAMPLERS[name][1]}


def next_token(here, model, text, file):
    """Draws the distribution of the next character, and what each sampler cuts."""
    options = sampling(here)
    found = here.compute(language_models.next_token, model, text, options)
    fates = {fate: here.text(f"fate_{fate}") for fate in figures_next.FATES}
    names = ("token", "before", "after", "label")
    titles = {key: here.text(f"title_{key}") for key in names}
    rows = figures_next.table(found["tokens"], found["stages"], fates)
    kept = sum(row["fate"] == "kept" for row in rows)
    here.facts(
        ("best", f"{rows[0]['token']}   {here.write(rows[0]['before'], 3)}"),
        ("left", f"{here.write(kept)} / {here.write(len(rows))}"),
    )
    chart = figures_next.bars(here.style, rows[:SHOWN], titles=titles)
    here.picture("distribution", chart, rows, titles)
    cut(here, found, fates, titles)
    return {"sampling": options}


def cut(here, found, fates, titles):
    """Draws what each sampler leaves of the distribution that it gets."""
    charts, rows, order = {}, [], list(found["stages"])
    for stage, (kept, gone, share) in found["cuts"].items():
        before = order[order.index(stage) - 1]
        pair = {name: found["stages"][name] for name in (before, stage)}
        data = figures_next.table(found["tokens"], pair, fates)
        data = [row for row in data if row["before"] > 0]  # not cut before
        name = here.text(f"stage_{stage}")
        numbers = {"cut": here.write(gone), "kept": here.write(kept)}
        numbers["share"] = here.write(100 * share, 1)
        title = here.text("stage_title", stage=name, **numbers)
        charts[title] = figures_next.bars(
            here.style, data[:SMALL], titles=titles, small=True
        )
        rows += [{"stage": name, **row} for row in data]
    if charts:
        headings = {"stage": here.text("title_stage"), **titles}
        panels.draw(here, "stages", charts, rows, headings, across=2)


def write(here, model, text, file):
    """Draws a text that is generated character by character."""
    options = sampling(here)
    with here.controls():
        length = here.slider("length", 50, 1000, 300, 50)
        seed = here.number("seed", 0, 9999, 0)
    arguments = model, text, length, options, seed
    streams.draw(here, text, language_models.stream, *arguments)
    return {"sampling": options, "length": length, "seed": seed}


def surprise(here, model, text, file):
    """Draws the bits of each character, under a model and under n-grams."""
    if len(text) < 2:
        raise Refused("short")
    with here.controls():
        n = here.slider("beside", 1, len(language_models.ORDERS), 2)
    found = {
        "of_model": here.compute(language_models.surprise, model, text),
        "of_ngram": here.compute(language_models.surprise, (n, file), text),
    }
    bits = {}
    for key, (pieces, values) in found.items():
        shown = ["", *(f"{here.write(float(b), 2)} bits" for b in values[1:])]
        colors = {"values": np.nan_to_num(values).tolist(), "limits": SURPRISE}
        here.strip(key, pieces, titles=shown, **colors)
        mean, total = float(np.nanmean(values)), float(np.nansum(values))
        numbers = {"mean": here.write(mean, 2), "total": here.write(total, 0)}
        here.say("sum", **numbers)
        bits[here.text(key)] = values
    label = here.text("bits")
    names = ("step", "piece", "quantity", "line", "value")
    titles = {key: here.text(f"title_{key}") for key in names}
    limits = {label: (0.0, max(SURPRISE[1], *(np.nanmax(b) for b in bits.values())))}
    options = {"titles": titles, "limits": limits}
    chart = figures_steps.bands(here.style, list(text), {label: bits}, **options)
    rows = figures_steps.table(list(text), {label: bits})
    here.picture("by_character", chart, rows, titles)
    return {"beside": n}


def compare(here, found, file, corpus):
    """Draws the bits per character of all models on the part held out."""
    missing = [name for name, network in found.items() if network.folder is None]
    if missing:
        labels = {name: found[name].label for name in missing}
        missing = here.several("compared", missing, COMPARED, labels=labels, width=620)
        found = {name: found[name] for name in missing}
    trained = here.all_prepared([f"language_model_{name}" for name in missing])
    for name, folder in zip(missing, trained.values(), strict=True):
        found[name] = dataclasses.replace(found[name], folder=folder)
    rows = [
        {"model": here.text("grams", n=n), "bits": bits, "kind": here.text("counts")}
        for n, bits in here.compute(language_models.held_out, file).items()
    ]
    for network in found.values():
        bits = runs.results(network.folder)["bits_per_character"]
        kind = here.text("network")
        rows.append({"model": network.label, "bits": bits, "kind": kind})
    if corpus == "source":
        best = here.compute(language_models.generated)[1]
        kind = here.text("known_source")
        rows.append({"model": here.text("least"), "bits": best, "kind": kind})
    rows.sort(key=lambda row: -row["bits"])
    titles = {key: here.text(f"title_{key}") for key in rows[0]}
    options = {"titles": titles, "format": ".2f"}
    chart = figures.bars(here.style, rows, "bits", "model", **options)
    here.picture("held_out", chart, rows, titles)
    files = {network.label: network.source for network in found.values()}
    return {"orders": list(language_models.ORDERS), "networks": files}


def body(here):
    """Draws one of the four parts."""
    view = here.view
    with here.controls():
        corpus = here.choice("corpus", CORPORA, wide=True)
    file, found = networks(here, corpus)
    values, model = {"file": file, "held_out": language_models.HELD_OUT}, None
    if view == "compare":
        values |= compare(here, found, file, corpus)
    else:
        with here.controls():
            model, of_model = chosen(here, found, file)
        if corpus == "source":
            text = here.passage("letters", language_models.LETTERS, most=MOST, rows=2)
        else:
            text = here.passage("text", PROMPT, most=MOST, rows=2)
        if not text:
            raise Refused("empty")
        draw = {"next": next_token, "write": write}.get(view, surprise)
        values |= {"prompt": text, **of_model, **draw(here, model, text, file)}
    kind = {"of_network": isinstance(model, pathlib.Path), "of_file": bool(file)}
    kind["of_source"] = corpus == "source"
    here.code(code.source(view, values.pop("sampling", {}), **kind), **values)


if __name__ == "__main__":
    lab.show(
        "language_model", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES
    )
