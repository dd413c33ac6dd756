"""Own data: the command with its default options beside the best simple model.

Three tables of texts (lines of a play or of the Python reference, the valence of
`datasets.family_sentences`, the package of sentences of docstrings) and five public
series of statsmodels, horizon 12. Each is trained by `kerasseq train` in a process of
its own with one thread; CPU seconds are those of the process, imports included.
Needs the extras `cli`, `data` and `compare`, and for docstrings and series the packages
numpy, pandas, matplotlib, scikit-learn and statsmodels. Without `--play FILE`, a text
such as Shakespeare's, the lines are left out.
"""

import csv
import importlib
import inspect
import json
import os
import pathlib
import pydoc_data.topics
import random
import resource
import subprocess
import sys
import tempfile

import numpy as np

from kerasseq.datasets import family_sentences

ROWS, LINE = 400, 30  # lines of each kind, and the length that they exceed
SENTENCES = 250  # of each package
PACKAGES = ("numpy", "pandas", "sklearn.metrics", "matplotlib.pyplot", "os")
PACKAGES += ("statsmodels.api",)
TEXTS, SERIES = ("lines", "family", "docs"), ("co2", "elnino", "sunspots", "unemp")
SERIES += ("nile",)


def add_arguments(parser):
    """Adds the options of the benchmark."""
    parser.add_argument("data", nargs="*", help=", ".join((*TEXTS, *SERIES)))
    parser.add_argument("--play", help="a text file with the lines of a play")
    parser.add_argument("--model", help="--model of the command, such as bag")
    parser.add_argument("--seeds", default="0,1,2")


def run(options):
    """Returns a row for each table and series, means over the seeds."""
    names = options.data or [*TEXTS, *SERIES]
    if options.play is None:
        names = [name for name in names if name != "lines"]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            measure = of_series if name in SERIES else of_texts
            rows = [measure(name, seed, folder, options) for seed in seeds]
            means = {
                key: float(np.mean([row[key] for row in rows]))
                for key in ("ours", "simple", "coverage", "cpu seconds")
            }
            table.append({"data": name, **means, "baseline": rows[0]["baseline"]})
    return {
        "backend": options.backend or os.environ.get("KERAS_BACKEND"),
        "table": table,
    }


def of_texts(name, seed, folder, options):
    """The accuracies of the classifier and of the best simple model."""
    rows = lines(options.play) if name == "lines" else SENTENCES_OF[name]()
    heading = "text", "label"
    results, seconds = train("classify", heading, rows, seed, folder, options)
    simple = {k: each["accuracy"] for k, each in results["baselines"].items()}
    best = max(simple, key=simple.get)
    return {
        "ours": results["accuracy"],
        "simple": simple[best],
        "coverage": float("nan"),
        "cpu seconds": seconds,
        "baseline": best,
    }


def of_series(name, seed, folder, options):
    """The MASE of the forecaster and of the autoregression, and the coverage."""
    rows = [[float(value)] for value in series(name)[0]]
    words = ["--season", str(series(name)[1]), "--horizon", "12"]
    results, seconds = train("forecast", ("value",), rows, seed, folder, options, words)
    simple = {k: each for k, each in results["scores"].items() if k.startswith("AR")}
    (best, scores), *_ = simple.items()
    return {
        "ours": results["scores"][results["model"]]["MASE"],
        "simple": scores["MASE"],
        "coverage": results["coverage"],
        "cpu seconds": seconds,
        "baseline": best,
    }


def train(task, heading, rows, seed, folder, options, words=()):
    """Runs `kerasseq train`, and returns its results and CPU seconds."""
    file = pathlib.Path(folder, "table.csv")
    with open(file, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([heading, *rows])
    run = tempfile.mkdtemp(dir=folder)
    command = [sys.executable, "-m", "kerasseq", "train", task, "--file", str(file)]
    command += ["--seed", str(seed), "--run", f"{run}/run", "--threads", "1", "--json"]
    command += ["--model", options.model] if options.model else []
    before = _children()
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=True, cwd=folder
    )
    return json.loads(done.stdout), _children() - before


def _children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def lines(play, count=ROWS):
    """Lines of a play and of the Python reference: 400 of each, or another number."""
    texts = pathlib.Path(play).read_text(encoding="utf-8").splitlines()
    of_play = [line for line in texts if len(line) > LINE][:count]
    topics = pydoc_data.topics.topics.values()
    manual = [line.strip() for topic in topics for line in topic.splitlines()
              if len(line) > LINE][:count]  # fmt: skip
    return [(text, "play") for text in of_play] + [(text, "manual") for text in manual]


def family():
    """Sentences with exactly one valence: good, bad, neither or both."""
    rows = []
    for part in family_sentences():
        for text, labels in zip(part.texts, part.labels, strict=True):
            valence = [label for label in labels if label in "+-0i"]
            if len(valence) == 1:
                rows.append((text, valence[0]))
    return rows


def docs():
    """Sentences of docstrings, with the package that they are from."""
    rows = []
    for package in PACKAGES:
        module, found = importlib.import_module(package), set()
        for name in dir(module):
            each = getattr(module, name)
            found |= sentences(each, package) if callable(each) else set()
        chosen = sorted(found)
        random.Random(0).shuffle(chosen)
        rows += [(sentence, package) for sentence in chosen[:SENTENCES]]
    return rows


def sentences(each, package):
    """The sentences of a docstring that do not name the package."""
    found = set()
    for sentence in (inspect.getdoc(each) or "").split(". "):
        sentence = " ".join(sentence.split())
        if 40 < len(sentence) < 200 and package.split(".")[0] not in sentence.lower():
            found.add(sentence)
    return found


def series(name):
    """The values of a public series, and the steps of its season."""
    from statsmodels import datasets

    table = getattr(datasets, {"unemp": "macrodata"}.get(name, name)).load_pandas().data
    if name == "co2":
        months = table.resample("MS").mean().interpolate()
        return months.iloc[:, 0].to_numpy(), 12
    if name == "elnino":
        return table.iloc[:, 1:].to_numpy().ravel(), 12
    if name == "unemp":
        return table["unemp"].to_numpy(), 4
    return table.iloc[:, 1].to_numpy(), 1


SENTENCES_OF = {"family": family, "docs": docs}
