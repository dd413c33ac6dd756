"""House rules: the picture of the folders, lengths of files, and allowed imports.

`import_problems` reads the source of a file. It finds imports at any depth and in any
form, also `importlib.import_module("jax")`, `__import__`, `sys.modules["torch"]`, and
attributes of imported modules, such as `keras.src.ops` or `kerasseq.rnn.lstm`.
"""

import ast
import functools
import pathlib
import re
import statistics
import subprocess

import pytest

pytestmark = pytest.mark.once("reads the source")

ROOT = pathlib.Path(__file__).parent.parent
BACKENDS = {"tensorflow", "jax", "torch"}
HEIGHT = {
    "core": 0,
    "kernels": 1,
    "tracing": 2,
    "rnn": 3,
    "convolution": 3,
    "positions": 3,
    "attention": 4,
    "linear": 4,
    "memory": 4,
    "state_space": 4,
    "transformer": 5,
    "tasks": 6,
    "published": 6,
    "series": 7,
    "vectors": 7,
    "speech": 7,
    "models": 8,
    "pretrained": 9,
    "exercises": 10,
    "exporting": 10,
}
BASE = {"core", "kernels", "tracing"}
SERVING = {"decoding", "training"}  # used by models, and independent of them
KERAS_FREE = {"text", "datasets"}
# Modules that do not load Keras: packages of models and the command may import them.
LIGHT = (
    "kerasseq.published",
    "kerasseq.vectors.files",
)
TABLES = {"layers", "runs", "sklearn"}  # public files: layers.py and others
PUBLIC = (
    TABLES | {"models", "exercises", "exporting"} | SERVING | KERAS_FREE | {"tracing"}
)
PUBLIC_MODULES = {"kerasseq", "kerasseq.tracing.plots"} | {
    f"kerasseq.{name}" for name in PUBLIC
}
SHARED = (  # by library, app and docs
    "kerasseq.core.palette",  # colors of figures
    "kerasseq.core.packages",  # how to install kerasseq
    "kerasseq.rnn.docstrings",  # what `help` shows of recurrent layers
)
OUTSIDE = ("apps", "benchmarks", "docs", "examples")
TOP = {*OUTSIDE, "kerasseq", "tests", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
TOP |= {
    "LICENSE",
    "CITATION.cff",
    "conftest.py",
    "hatch_build.py",
    "mkdocs.yml",
    "pyproject.toml",
}


parsed = functools.cache(ast.parse)  # three tests read the same files


def imported(source):
    """Yields the full names of imported modules and objects, with their lines.

    >>> [name for name, _ in imported("from keras import ops as K")]
    ['keras', 'keras.ops']
    """
    tree = parsed(source)
    bound = {}
    for node in ast.walk(tree):
        for name in _statement(node, bound):
            yield name, node.lineno
    for node in ast.walk(tree):
        if name := _constant(node) or _chain(node, bound):
            yield name, node.lineno


def _statement(node, bound):
    """The full names in an import statement; `bound` receives their local names."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            bound[alias.asname or top] = alias.name if alias.asname else top
            yield alias.name
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        if (
            module != "kerasseq"
        ):  # `from kerasseq import text` imports only `kerasseq.text`
            yield module
        for alias in node.names:
            bound[alias.asname or alias.name] = f"{module}.{alias.name}"
            yield f"{module}.{alias.name}"


def _constant(node):
    """The module in `import_module("x")`, `__import__("x")` or `sys.modules["x"]`."""
    is_call = isinstance(node, ast.Call) and node.args
    if is_call and _last(node.func) in ("import_module", "__import__"):
        return _text(node.args[0])
    is_item = isinstance(node, ast.Subscript) and _last(node.value) == "modules"
    if is_item and ast.unparse(node.value) == "sys.modules":
        return _text(node.slice)
    return None


def _last(node):
    """The last name of `a.b.c` or `c`."""
    return getattr(node, "attr", None) or getattr(node, "id", None)


def _text(node):
    """The value of a string; of an f-string the part before its first expression."""
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


def import_problems(home, source):
    """Finds the forbidden imports of a file.

    Args:
        home: The package of the file, such as "rnn" or "kernels/torch"; "" for files
            directly in kerasseq/; one of `OUTSIDE` for files that use kerasseq.
        source: The content of the file.
    """
    problems = {
        (line, name): reason
        for name, line in imported(source)
        if (reason := _reason(home, name))
    }
    return [
        f"line {line}: {name}: {problems[line, name]}"
        for line, name in sorted(problems)
    ]


def _reason(home, name):
    top, _, rest = name.partition(".")
    if not top:
        return "relative import"
    if top in BACKENDS and home not in (f"kernels/{top}", "benchmarks"):
        return f"{top} belongs in kernels/{top}/"
    home = home.partition("/")[0]
    if (name + ".").startswith("keras.src."):
        return "private module of Keras"
    if top == "keras" and home in KERAS_FREE:
        return f"{home} must work without Keras"
    if top != "kerasseq" or home == "":
        return None
    if home in OUTSIDE:
        is_shared = any(f"{name}.".startswith(f"{shared}.") for shared in SHARED)
        return None if is_shared or _is_public(name) else "not a public name"
    if _is_allowed(home, name) or _points_down(home, rest.partition(".")[0]):
        return None
    return f"{home} must not import it"


def _is_allowed(home, name):
    """Whether it is a light module, or for the command a public name of the models."""
    light = any(f"{name}.".startswith(f"{light}.") for light in LIGHT)
    if home == "cli":
        return light or (name.startswith("kerasseq.models") and _is_public(name))
    return light and HEIGHT.get(home, 0) >= HEIGHT["tasks"]


def _points_down(home, other):
    if home == other:
        return True
    if home == "cli":
        return other not in HEIGHT or other in ("core", "tracing", "exporting")
    if home in KERAS_FREE:  # another test checks that these load no Keras
        # A data set of ids has its tokenizer.
        return other == "core" or (home == "datasets" and other == "text")
    if home in SERVING:
        return other in BASE | KERAS_FREE
    if home not in HEIGHT:
        return False
    if other in SERVING | KERAS_FREE:
        return home not in BASE
    return other in HEIGHT and HEIGHT[other] < HEIGHT[home]


def _is_public(name):
    """Whether no part of the name is a private module of kerasseq."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        path, module = ROOT.joinpath(*parts[:end]), ".".join(parts[:end])
        is_module = path.is_dir() or path.with_suffix(".py").exists()
        if is_module and module not in PUBLIC_MODULES:
            # A public function may have the name of its module.
            return end == len(parts) and parts[-1] in _exported(path.parent)
    return True


def _exported(package):
    """The names in `__all__` of a package."""
    tree = ast.parse((package / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


FOLDERS = re.compile(r"^```\n(kerasseq/ .*?)^```", re.MULTILINE | re.DOTALL)
IMPORTS = re.compile(r"^```\n(core ←.*?)\n```", re.MULTILINE | re.DOTALL)


def paths_in_tree(tree):
    """The paths in a picture of folders, by their indentation.

    >>> paths_in_tree("a/    of all\\n  b/  first\\n  c.py")
    ['a', 'a/b', 'a/c.py']
    """
    paths, parents = [], []
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        parents[depth:] = [line.split()[0].rstrip("/")]
        paths.append("/".join(parents))
    return paths


def heights_in_row(row):
    """The packages of `a ← b, c ← d` with their heights.

    >>> heights_in_row("a ← b, c ← d")
    {'a': 0, 'b': 1, 'c': 1, 'd': 2}
    """
    groups = enumerate(row.split(" ← "))
    return {name: height for height, group in groups for name in group.split(", ")}


def tree_problems(tree, root):
    """Folders and packages that a picture lacks, and those that do not exist."""
    folders = [path for path in root.iterdir() if not path.name.startswith(".")]
    folders += (root / "kerasseq").iterdir()
    exist = {short(path, root) for path in folders if any(path.rglob("*.[pm][yd]"))}
    exist |= {f"kerasseq/{name}.py" for name in TABLES}
    drawn = paths_in_tree(tree)
    problems = [f"{path} is not in the picture" for path in sorted(exist - {*drawn})]
    problems += [f"{path} does not exist" for path in drawn if path not in exist]
    repeated = {path for path in drawn if drawn.count(path) > 1}
    return problems + [f"{path} is in the picture twice" for path in sorted(repeated)]


def test_top_level():
    """A test that writes where it was started has left files there before."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        pytest.skip("no clone")
    names = {path.partition("/")[0] for path in listed.stdout.decode().splitlines()}
    assert {name for name in names if not name.startswith(".")} == TOP


def test_picture_of_the_folders():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert tree_problems(FOLDERS.search(text)[1], ROOT) == []
    assert heights_in_row(IMPORTS.search(text)[1]) == HEIGHT


def test_picture_of_the_design():
    """Its boxes are the packages of one height, from the lowest to the highest."""
    page = (ROOT / "docs/pages/en/design.md").read_text()
    boxes = [re.split(", |: ", box) for box in re.findall(r'\["(.*?)"\]', page)]
    order = [
        {HEIGHT[n] for n in box if n in HEIGHT} for box in boxes if box[0] in HEIGHT
    ]
    assert order == [{height} for height in sorted({*HEIGHT.values()})]
    assert HEIGHT.keys() | SERVING | KERAS_FREE <= {n for box in boxes for n in box}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  rnn/  ", "  rnn2/  ", "kerasseq/rnn is not in the picture"),
        ("  rnn/  ", "  rnn/\n  gone/  ", "kerasseq/gone does not exist"),
        ("  rnn/  ", "  rnn/\n  rnn/  ", "kerasseq/rnn is in the picture twice"),
        ("\ndocs/ ", "\npages/ ", "docs is not in the picture"),
        ("  layers.py  ", "  layer.py  ", "kerasseq/layers.py is not in the picture"),
    ],
)
def test_wrong_pictures_are_found(old, new, problem):
    tree = FOLDERS.search((ROOT / "CONTRIBUTING.md").read_text())[1]
    assert problem in tree_problems(tree.replace(old, new), ROOT)


def files(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def home_of(path):
    """The package of a file of kerasseq, "" if it is directly in kerasseq/."""
    parts = path.relative_to(ROOT / "kerasseq").parts
    if parts == ("models", "__init__.py"):  # a table of contents, like layers.py
        return ""
    if len(parts) > 2 and parts[0] == "kernels" and parts[1] in BACKENDS:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else ""


def short(path, root=ROOT):
    return path.relative_to(root).as_posix()


def test_length_of_files():
    lengths = {
        short(path): len(path.read_text().splitlines())
        for path in files("kerasseq") + files("apps")
    }
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_median_length():
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
def test_modules_of_tests_have_a_tier(path):
    assert re.search(r"^pytestmark = ", path.read_text(), re.MULTILINE)


def found_problems(paths, home_of):
    """The imports of some files that are wrong, by file."""
    found = {
        short(path): import_problems(home_of(path), path.read_text()) for path in paths
    }
    return {name: problems for name, problems in found.items() if problems}


def test_imports_point_down():
    known = {"", "cli", *HEIGHT, *SERVING, *KERAS_FREE}
    homes = {home_of(path).partition("/")[0] for path in files("kerasseq")}
    assert homes <= known, f"add {homes - known} to HEIGHT"
    assert found_problems(files("kerasseq"), home_of) == {}


@pytest.mark.parametrize("folder", OUTSIDE)
def test_imports_outside_are_public(folder):
    assert found_problems(files(folder), lambda path: folder) == {}


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")], ids=short
)
def test_imports_in_documentation_are_public(path):
    # A pipeline of TensorFlow is what the page on KerasHub is about.
    home = "benchmarks" if path.name == "keras_hub.md" else "docs"
    for block in re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S):
        assert import_problems(home, block) == []


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
        ("series", "from kerasseq.models.seq2seq.recurrent import Seq2Seq"),
        ("training", "import kerasseq.rnn.lstm as lstm"),
        ("training", "from kerasseq.decoding import Greedy"),
        ("decoding", "from kerasseq.models.gpt.gpt import GPT"),
        ("text", "import keras"),
        ("text", "from keras import ops"),
        ("text", "from kerasseq.kernels import scan"),
        ("datasets", "from kerasseq.training import TextBatches"),
        ("text", "from kerasseq.datasets import python_reference"),
        ("cli", "from kerasseq.rnn.lstm import LSTM"),
        ("cli", "from kerasseq.models.language_model import LanguageModel"),
        ("cli", "import kerasseq.vectors"),
        ("rnn", "from kerasseq.published.architectures import architectures"),
        ("examples", "from kerasseq.published.architectures import architectures"),
        ("examples", "from kerasseq.rnn.lstm import LSTM"),
        ("examples", "from kerasseq.text.classical.ngram import NGramModel"),
        ("examples", "from kerasseq.text import words"),
        ("examples", "import kerasseq\nkerasseq.rnn.lstm.LSTM(3)"),
        ("examples", "from kerasseq.tracing.recording import Trace"),
        ("examples", "import kerasseq as ks\nks.core.backend.choose()"),
    ],
)  # fmt: skip
def test_forbidden_imports_are_found(home, source):
    assert import_problems(home, source)


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
        ("models", "from kerasseq.training import Loss\nfrom kerasseq import text"),
        ("text", "import re\nfrom kerasseq.core.checks import whole_number"),
        ("", "from kerasseq.rnn.lstm import LSTM"),
        ("cli", "import kerasseq\nfrom kerasseq import models\nkerasseq.layers.LSTM"),
        ("cli", "from kerasseq.cli import console\nfrom kerasseq import __version__"),
        ("cli", "from kerasseq.published.architectures import find"),
        ("tasks", "from kerasseq.published.counting import count"),
        ("examples", "import kerasseq\nkerasseq.layers.LSTM\nkerasseq.load_model('x')"),
        ("examples", "from kerasseq.layers import LSTM\nfrom kerasseq import tracing"),
        ("examples", "from kerasseq.tracing import plots\nplots.plot_gates"),
        ("examples", "import kerasseq\nwith kerasseq.tracing.trace(m) as t: pass"),
        ("benchmarks", "import torch"),
    ],
)  # fmt: skip
def test_allowed_imports_pass(home, source):
    assert import_problems(home, source) == []


def imports_of(path, modules):
    """The modules of kerasseq that a file imports when it runs, at any depth."""
    tree = parsed(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        names = [*_statement(node, {})]
        if isinstance(node, ast.ImportFrom) and {*names[1:]} <= {*modules}:
            names = names[1:]  # `from kerasseq.rnn import loop` is about `loop` alone
        for name in names:
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name not in ("", "kerasseq"):
                yield name


def circles(imports):
    """The groups of modules that import each other, one after the other.

    >>> circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]})
    [['b', 'c']]
    """
    reached = {}
    for module in imports:
        found, waiting = set(), [module]
        while waiting:
            new = set(imports.get(waiting.pop(), ())) - found
            found |= new
            waiting += new
        reached[module] = found
    groups = {
        tuple(sorted(b for b in reached[a] if a in reached.get(b, ())))
        for a in imports
        if a in reached[a]
    }
    return sorted(map(list, groups))


def test_no_files_import_each_other():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for path in files("kerasseq")
    }
    imports = {
        name: {*imports_of(path, modules)} - {name} for name, path in modules.items()
    }
    # The tables of contents register the classes of each other.
    imports["kerasseq.layers"] -= {"kerasseq.models"}
    assert circles(imports) == []
