"""Rows of own data: from how many on a network beats the best simple model.

Tables of 100 to 10,000 rows: lines of a play or of the Python reference, sentences of
the docstrings of eight packages, names by language, and strings of brackets, balanced
or not, where only the order tells. `kerasseq train classify` learns from each number of
rows with its defaults and with `--model bag`, and is tested on 1,000 others. Needs the
extras `cli`, `data` and `compare`, and for docstrings the packages that are installed;
without `--play FILE` the lines are left out.
"""

import importlib
import inspect
import random
import tempfile

import numpy as np

from benchmarks import own_data
from kerasseq import datasets

TESTED = 1000
SIZES = "100,300,1000,3000,9000"
MODELS = ("gru", "bag")
PACKAGES = ("numpy", "pandas", "matplotlib.pyplot", "torch", "networkx", "streamlit")
PACKAGES += ("tensorflow", "statsmodels.api")
BRACKETS = "([{}])"


def add_arguments(parser):
    """Adds the options of the benchmark."""
    parser.add_argument("data", nargs="*", help="lines, docs, names, brackets")
    parser.add_argument("--play", help="a text file with the lines of a play")
    parser.add_argument("--rows", default=SIZES, help="rows to learn from")
    parser.add_argument("--seeds", default="0")


def run(options):
    """Returns a row for each table and number of rows, means over the seeds."""
    names = options.data or ["lines", "docs", "names", "brackets"]
    if options.play is None:
        names = [name for name in names if name != "lines"]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            table = lines(options.play) if name == "lines" else TABLES[name]()
            random.Random(0).shuffle(table)
            for size in map(int, options.rows.split(",")):
                if size + TESTED <= len(table):
                    part = table[: size + TESTED]
                    scores = [measure(part, seed, folder, options) for seed in seeds]
                    means = {
                        k: float(np.mean([s[k] for s in scores])) for k in scores[0]
                    }
                    rows.append({"data": name, "rows": size, **means})
    return {"table": rows}


def measure(table, seed, folder, options):
    """The accuracies of the networks, and of the best simple model."""
    words = ["--held-out", str(TESTED / len(table))]
    found = {}
    for model in MODELS:
        options.model = model
        heading = "text", "label"
        given = "classify", heading, table, seed, folder, options, words
        results, found[f"{model} seconds"] = own_data.train(*given)
        found[model] = results["accuracy"]
    simple = {k: each["accuracy"] for k, each in results["baselines"].items()}
    return found | {"simple": max(simple.values())}


def lines(play):
    """All lines of a play and of the Python reference of more than 30 characters."""
    rows = own_data.lines(play, None)
    return list(dict(rows).items())  # each once


def docs():
    """Sentences of the docstrings of functions, classes and methods."""
    rows = {}
    for package in PACKAGES:
        try:
            module = importlib.import_module(package)
        except ImportError:
            continue
        public = [getattr(module, name) for name in dir(module) if name[0] != "_"]
        classes = [each for each in public if inspect.isclass(each)]
        methods = [getattr(c, name, None) for c in classes for name in dir(c)]
        for each in filter(callable, public + methods):
            rows |= dict.fromkeys(own_data.sentences(each, package), package)
    return list(rows.items())


def names():
    """Names of languages, countries and currencies, in 14 languages."""
    parts = datasets.names_by_language()
    return [
        (text, part.names[label])
        for part in parts
        for text, label in zip(part.texts, part.labels, strict=True)
    ]


def brackets():
    """Strings of brackets of three kinds, half of them balanced."""
    data = datasets.parentheses(12_000, colors=3, lengths=(8, 24), seed=0)
    texts = ["".join(BRACKETS[symbol] for symbol in row) for row in data.sequences]
    labels = ["balanced" if label else "not" for label in data.labels]
    return list(dict(zip(texts, labels, strict=True)).items())


TABLES = {"docs": docs, "names": names, "brackets": brackets}
