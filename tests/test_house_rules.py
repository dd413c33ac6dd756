"""The rules of the house, as tests: short files, imports that point down.

`complaints` reads one file as text. It sees imports at any depth and in any form, also
`importlib.import_module("jax")`, `__import__`, `sys.modules["torch"]`, and names
reached through an imported module, as in `keras.src.ops` or `kerasseq.rnn.lstm`.
"""

import ast
import pathlib
import re
import statistics

import pytest

pytestmark = pytest.mark.once("the text of the source")

ROOT = pathlib.Path(__file__).parent.parent
BACKENDS = {"tensorflow", "jax", "torch"}
HEIGHT = {
    "core": 0,
    "kernels": 1,
    "tracing": 2,
    "rnn": 3,
    "attention": 3,
    "positions": 3,
    "transformer": 4,
    "tasks": 5,
    "vision": 6,
    "language": 6,
    "beyond": 6,
    "seq2seq": 7,  # has the `generate` of language
    "pretrained": 8,
}
BASE = {"core", "kernels", "tracing"}
SERVING = {"decoding", "training"}  # serve models, and know none of them
KERAS_FREE = {"text", "datasets"}
# Data and sums in a package of layers, which load no Keras: whoever makes models may
# read them, and the command.
LIGHT = ("kerasseq.language.architectures", "kerasseq.language.counting")
TABLES = {"layers", "models"}  # of contents: kerasseq/layers.py, kerasseq/models.py
PUBLIC = TABLES | SERVING | KERAS_FREE | {"tracing"}
PUBLIC_MODULES = {"kerasseq", "kerasseq.tracing.plots"} | {
    f"kerasseq.{name}" for name in PUBLIC
}
OUTSIDE = ("apps", "benchmarks", "docs", "examples")


def imported(source):
    """Every module the source names, with what it takes from it, and the line.

    >>> [name for name, _ in imported("from keras import ops as K")]
    ['keras', 'keras.ops']
    """
    tree = ast.parse(source)
    bound = {}
    for node in ast.walk(tree):
        for name in _statement(node, bound):
            yield name, node.lineno
    for node in ast.walk(tree):
        if name := _constant(node) or _chain(node, bound):
            yield name, node.lineno


def _statement(node, bound):
    """The modules in an import statement; notes in `bound` what names they get."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            bound[alias.asname or top] = alias.name if alias.asname else top
            yield alias.name
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        if module != "kerasseq":  # `from kerasseq import text` takes no more than that
            yield module
        for alias in node.names:
            bound[alias.asname or alias.name] = f"{module}.{alias.name}"
            yield f"{module}.{alias.name}"


def _constant(node):
    """The module in `import_module("x")`, `__import__("x")` or `sys.modules["x"]`."""
    if isinstance(node, ast.Call) and node.args:
        function = ast.unparse(node.func).rpartition(".")[2]
        if function in ("import_module", "__import__"):
            return _text(node.args[0])
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
        return _text(node.slice)
    return None


def _text(node):
    """What is known of a string: an f-string up to its first hole."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value.rstrip(".") if is_text else None


def _chain(node, bound):
    """The full name of `keras.a.b` or `kerasseq.a.b`, where `keras` was imported."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not parts or not isinstance(node, ast.Name) or node.id not in bound:
        return None
    name = ".".join([bound[node.id], *reversed(parts)])
    return name if name.startswith(("keras.", "kerasseq.")) else None


def complaints(home, source):
    """What is wrong with the imports of a file.

    Args:
        home: The package it is in, as "rnn" or "kernels/torch"; "" for
            kerasseq/layers.py and the like; one of `OUTSIDE` for files that use
            kerasseq.
        source: The text of the file.
    """
    wrong = {
        (line, name): reason
        for name, line in imported(source)
        if (reason := _reason(home, name))
    }
    return [f"line {line}: {name}: {wrong[line, name]}" for line, name in sorted(wrong)]


def _reason(home, name):
    top, _, rest = name.partition(".")
    if not top:
        return "relative import"
    if top in BACKENDS and home not in (f"kernels/{top}", "benchmarks"):
        return f"{top} belongs in kernels/{top}/"
    home = home.partition("/")[0]
    if (name + ".").startswith("keras.src."):
        return "private to Keras"
    if top == "keras" and home in KERAS_FREE:
        return f"{home} must work without Keras"
    if top != "kerasseq" or home == "":
        return None
    if home in OUTSIDE:
        return None if _is_public(name) else "not a public name"
    other = rest.partition(".")[0]
    if _is_light(name) and (home == "cli" or HEIGHT.get(home, 0) >= HEIGHT["tasks"]):
        return None
    return None if _points_down(home, other) else f"{home} must not know it"


def _is_light(name):
    return any(f"{name}.".startswith(f"{light}.") for light in LIGHT)


def _points_down(home, other):
    if home == other:
        return True
    if home == "cli":
        return other not in HEIGHT or other in ("core", "tracing")
    if home in KERAS_FREE:  # what of core loads Keras is seen in a fresh process
        return other == "core"
    if home in SERVING:
        return other in BASE | KERAS_FREE
    if home not in HEIGHT:
        return False
    if other in SERVING | KERAS_FREE:
        return home not in BASE
    return other in HEIGHT and HEIGHT[other] < HEIGHT[home]


def _is_public(name):
    """True unless a part of the name is a module of ours that is not listed."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        path, module = ROOT.joinpath(*parts[:end]), ".".join(parts[:end])
        is_module = path.is_dir() or path.with_suffix(".py").exists()
        if is_module and module not in PUBLIC_MODULES:
            # A function may share its name with the module that it is in.
            return end == len(parts) and parts[-1] in _exported(path.parent)
    return True


def _exported(package):
    """What the `__all__` of a package lists."""
    tree = ast.parse((package / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def files(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def home_of(path):
    """The package of a file of kerasseq, "" at its top."""
    parts = path.relative_to(ROOT / "kerasseq").parts
    if len(parts) > 2 and parts[0] == "kernels" and parts[1] in BACKENDS:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else ""


def short(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", files("kerasseq") + files("apps"), ids=short)
def test_file_is_short(path):
    assert len(path.read_text().splitlines()) <= 500


def test_most_files_are_shorter():
    lengths = [len(path.read_text().splitlines()) for path in files("kerasseq")]
    assert statistics.median(lengths) <= 200


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in files("tests")
        if path.name.startswith("test_")
        and not short(path).startswith(("tests/text/", "tests/datasets/"))
    ],
    ids=short,
)
def test_tests_say_where_they_run(path):
    assert re.search(r"^pytestmark = ", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", files("kerasseq"), ids=short)
def test_imports_point_down(path):
    home = home_of(path)
    known = {"", "cli", *HEIGHT, *SERVING, *KERAS_FREE}
    assert home.partition("/")[0] in known, f"say in HEIGHT where {home} stands"
    assert complaints(home, path.read_text()) == []


@pytest.mark.parametrize(
    "path", [p for folder in OUTSIDE for p in files(folder)], ids=short
)
def test_who_uses_kerasseq_uses_public_names(path):
    assert complaints(path.relative_to(ROOT).parts[0], path.read_text()) == []


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")], ids=short
)
def test_pages_use_public_names(path):
    for block in re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S):
        assert complaints("docs", block) == []


@pytest.mark.parametrize(
    ("home", "source"),
    [
        ("rnn", "import torch"),
        ("rnn", "import torch.nn as nn"),
        ("rnn", "from jax import numpy"),
        ("rnn", "def f():\n    if x:\n        import tensorflow as tf"),
        ("rnn", "import importlib\nimportlib.import_module('jax.numpy')"),
        ("rnn", "from importlib import import_module as i, import_module\n"
                "import_module(name='x') if 0 else import_module('torch')"),
        ("rnn", "__import__('torch')"),
        ("rnn", "import sys\nsys.modules['torch']"),
        ("", "import jax"),
        ("apps", "import torch"),
        ("kernels", "import torch"),
        ("kernels/jax", "import torch"),
        ("kernels/torch", "from jax import numpy"),
        ("kernels/torch", "from kerasseq.rnn.lstm import LSTM"),
        ("kernels", "import keras.src"),
        ("kernels", "from keras.src import ops"),
        ("kernels", "from keras import src"),
        ("kernels", "import keras\nkeras.src.ops"),
        ("kernels", "import keras as K\nf(K.src.ops.add(1, 2))"),
        ("kernels", "from kerasseq import rnn"),
        ("kernels", "from kerasseq.tracing import record"),
        ("kernels", "import importlib\nimportlib.import_module(f'kerasseq.rnn.{n}')"),
        ("core", "from kerasseq.kernels import scan"),
        ("core", "from kerasseq.layers import LSTM"),
        ("core", "import kerasseq.layers"),
        ("tracing", "import kerasseq.rnn.lstm"),
        ("tracing", "from kerasseq.training import Perplexity"),
        ("rnn", "import kerasseq"),
        ("rnn", "from kerasseq import layers"),
        ("rnn", "from kerasseq.attention import scores"),
        ("rnn", "from kerasseq.tasks.base import TaskModel"),
        ("rnn", "from .lstm import LSTM"),
        ("rnn", "from . import lstm"),
        ("language", "from kerasseq.seq2seq import Seq2Seq"),
        ("training", "import kerasseq.rnn.lstm as lstm"),
        ("training", "from kerasseq.decoding import Greedy"),
        ("decoding", "from kerasseq.language.gpt import GPT"),
        ("text", "import keras"),
        ("text", "from keras import ops"),
        ("text", "from kerasseq.kernels import scan"),
        ("datasets", "from kerasseq.text import CharacterTokenizer"),
        ("cli", "from kerasseq.rnn.lstm import LSTM"),
        ("cli", "from kerasseq.language.language_model import LanguageModel"),
        ("cli", "import kerasseq.language"),
        ("rnn", "from kerasseq.language.architectures import architectures"),
        ("examples", "from kerasseq.language.architectures import architectures"),
        ("examples", "from kerasseq.rnn.lstm import LSTM"),
        ("examples", "from kerasseq.text.ngram import NGramModel"),
        ("examples", "from kerasseq.text import ngram"),
        ("examples", "import kerasseq\nkerasseq.rnn.lstm.LSTM(3)"),
        ("examples", "from kerasseq.tracing.recording import Trace"),
        ("examples", "import kerasseq as ks\nks.core.backend.choose()"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found(home, source):
    assert complaints(home, source)


@pytest.mark.parametrize(
    ("home", "source"),
    [
        ("rnn", "import keras, numpy\nfrom keras import ops\nkeras.ops.add(1, 2)"),
        ("rnn", "from kerasseq.tracing import record\nfrom kerasseq import kernels"),
        ("rnn", "from kerasseq.rnn.cell import Cell"),
        ("kernels/torch", "import torch\ntorch.src"),
        ("kernels/tensorflow", "import tensorflow as tf"),
        ("kernels/jax", "import jax\nfrom kerasseq.kernels.reference import scan"),
        ("kernels", "import importlib as i\ni.import_module(f'kerasseq.kernels.{n}')"),
        ("kernels", "import keras\nfrom kerasseq.core import backend"),
        ("training", "from kerasseq import kernels\nfrom kerasseq.core import checks"),
        ("language", "from kerasseq.training import Loss\nfrom kerasseq import text"),
        ("text", "import re\nfrom kerasseq.core.checks import whole_number"),
        ("", "from kerasseq.rnn.lstm import LSTM"),
        ("cli", "import kerasseq\nfrom kerasseq import models\nkerasseq.layers.LSTM"),
        ("cli", "from kerasseq.cli import console\nfrom kerasseq import __version__"),
        ("cli", "from kerasseq.language.architectures import find"),
        ("vision", "from kerasseq.language.counting import count"),
        ("examples", "import kerasseq\nkerasseq.layers.LSTM\nkerasseq.load_model('x')"),
        ("examples", "from kerasseq.layers import LSTM\nfrom kerasseq import tracing"),
        ("examples", "from kerasseq.tracing import plots\nplots.plot_gates"),
        ("examples", "import kerasseq\nwith kerasseq.tracing.trace(m) as t: pass"),
        ("benchmarks", "import torch"),
    ],
)  # fmt: skip
def test_what_is_right_passes(home, source):
    assert complaints(home, source) == []
