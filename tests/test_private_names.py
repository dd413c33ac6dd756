"""House rule: private names of other packages stand in one file for each package.

These are `core/keras_private.py` for Keras, and `kernels/<backend>/private.py`. Each
function there says which name it needs, and a test runs it without the name. A name is
private if it begins with one underscore and is not ours, if a layer or model of Keras
has it, or if it is in one of `MODULES`.
"""

import ast
import functools
import pathlib
import re

import keras
import pytest

pytestmark = pytest.mark.once("reads the source")

ROOT = pathlib.Path(__file__).parent.parent
SELF = pathlib.Path(__file__).name
FOLDERS = ("kerasseq", "apps", "benchmarks", "examples")
HOMES = {
    "kerasseq/core/keras_private.py",
    *(f"kerasseq/kernels/{name}/private.py" for name in ("jax", "tensorflow", "torch")),
}
MODULES = ("keras.src", "tensorflow.python", "tensorflow.core", "jax._src")
LINES = ("Name: ", "Known in: ", "Why: ", "Without it: ")  # of a docstring in a home

# Private only by their look: of named tuples and notebooks, of `argparse`, which has no
# others, and of Python.
PUBLIC = {
    *("_asdict", "_replace", "_fields", "_make", "_repr_png_"),
    *("_ActionsContainer", "_SubParsersAction", "_actions", "_group_actions"),
    *("_thread", "_exit"),
}
# Classes told by a public name, as their package may not be installed.
PUBLIC |= {f"class {name}" for name in ("bool", "bool_", "UnidentifiedImageError")}
PUBLIC |= {"class GPT", "class T5"}
# Operations of Keras: one that has another name is not known, and the plain loop runs.
PUBLIC |= {f"class {name}" for name in ("LogSoftmax", "OnesLike", "RMSNorm")}
# Of Keras or PyTorch, and of functions and classes of ours that are no layers.
PUBLIC |= {"_inputs", "_learning_rate", "_lock", "_metrics", "_modules"}

BY_NAME = {
    *("getattr", "hasattr", "setattr", "delattr"),
    *("attrgetter", "itemgetter", "methodcaller"),
}


def is_private(name):
    """Whether a name begins with one underscore.

    >>> is_private("_layers"), is_private("__mro__"), is_private("_")
    (True, False, False)
    """
    return re.fullmatch(r"_[A-Za-z0-9]\w*", name) is not None


def used(source):
    """Yields what code takes from objects and modules by name, with the lines.

    >>> [name for name, _ in used("from a import b\\nhasattr(model.c, '_d')")]
    ['a.b', '_d', 'c']
    """
    for node in ast.walk(ast.parse(source)):
        for name in _used(node):
            yield name, node.lineno


def _used(node):
    match node:
        case ast.Attribute(attr=name):
            return [name]
        case ast.Import(names=names):
            return [each.name for each in names]
        case ast.ImportFrom(module=module, names=names):
            return [f"{module}.{each.name}" for each in names]
        case ast.Call(func=function, args=args):
            name = ast.unparse(function).rpartition(".")[2]
            of = getattr(function, "value", None)
            return _strings(*args) if name in BY_NAME or _is_vars(of) else []
        case ast.Subscript(value=of, slice=index):
            return _strings(index) if _is_vars(of) else []
        case ast.Compare(left=ast.Attribute(attr="__name__"), comparators=others):
            return [f"class {name}" for name in _strings(*others)]
        case ast.Constant(value=str(text)):
            return [text] if _is_in(MODULES, text) or text in of_keras() else []
    return []


def _is_in(modules, name):
    return any(f"{name}.".startswith(f"{module}.") for module in modules)


def _is_vars(node):
    """Whether this is the dictionary of an object: `vars(x)` or `x.__dict__`."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "vars"
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _strings(*nodes):
    """The values of strings, also in tuples, split at their dots."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            found += _strings(*node.elts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += node.value.split(".")
    return found


def defined(source):
    """The names that a file gives to its modules, functions, classes and instances.

    >>> sorted(defined("class A:\\n  def _b(self):\\n    self._c = other._d = 1"))
    ['A', '_b', '_c']
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.alias(asname=str(name)) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.Subscript(value=of, slice=index, ctx=ast.Store()) if _is_vars(of):
                names.update(_strings(index))
    return names


@functools.cache
def of_keras():
    """Private attributes of layers, models, metrics and optimizers of Keras."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", metrics=["mse"])
    parts = [model, keras.Model(model.inputs, model.outputs), *model.layers]
    parts += [*model.weights, *model.metrics, model.optimizer, *model.inputs]
    return {name for part in parts for name in dir(part) if is_private(name)}


@functools.cache
def files():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


@functools.cache
def ours():
    return set().union(*map(defined, files().values())) - of_keras()


def is_foreign(name):
    """Whether a name that code uses is a private one of another package."""
    if name in PUBLIC or _is_in(["kerasseq"], name):
        return False
    if name.startswith("class ") or _is_in(MODULES, name):
        return True
    if "." in name:
        return any(map(is_private, name.split(".")))
    return is_private(name) and name not in ours()


def private_names(source):
    """The private names of other packages in a file, with the first line of each.

    >>> private_names("from keras import ops\\nops._nn\\nops._nn")
    {'_nn': 2}
    """
    found = {}
    for name, line in used(source):
        if is_foreign(name):
            found.setdefault(name, line)
    return found


def test_private_names_stand_in_one_file_for_each_package():
    found = {path: private_names(source) for path, source in files().items()}
    found = {path: set(names) for path, names in found.items() if names}
    assert {path: names for path, names in found.items() if path not in HOMES} == {}, (
        "use a public name, or move it to core/keras_private.py or kernels/*/private.py"
    )


@pytest.mark.parametrize(
    "source",
    [
        "layer._convert_input_args",
        "self._convert_input_args = False",  # of Keras: not ours by being set
        "def f(self):\n    self._layers = []\n    return self._layers",
        "other._of_some_package",
        "hasattr(part, '_flatten_layers')",
        "operator.itemgetter('built', '_of_some_package')",
        "NAMES = ('_layers', '_trainable_variables')",
        "vars(self)['_inputs_struct'] = 3\nvars(self)['_inputs_struct']",
        "layer.__dict__.get('_tracker')",
        "import torch\ntorch._VF.lstm",
        "from torch import _VF",
        "from torch._guards import tracing",
        "import tensorflow.python.ops as x",
        "from keras.src import ops",
        "MODULE = 'keras.src.backend.torch.optimizers'",
        "[c for c in cls.__mro__ if c.__name__ == 'DropoutRNNCell']",
        "type(x).__name__ in ('DataAdapter', 'DatasetV2')",
    ],
)
def test_a_private_name_is_found(source):
    assert private_names(source)


@pytest.mark.parametrize(
    "source",
    [
        "layer._self_attention_layer",
        "from kerasseq.training.batches import _Batches",
        "import keras\nkeras.layers.LSTM.__init__",
        "row._asdict()",
        "getattr(layer, 'layers').__mro__",
        "'the module keras.src is private'",
    ],
)
def test_a_public_name_is_not(source):
    assert not private_names(source)


def functions(home):
    tree = ast.parse(files()[home])
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("home", sorted(HOMES & files().keys()))
def test_each_name_has_its_reason_and_a_test_without_it(home):
    users = [node for node in functions(home) if not is_private(node.name)]
    for node in users:
        text = ast.get_docstring(node)
        assert [line for line in LINES if line not in text] == [], node.name
    tests = [p for p in (ROOT / "tests").rglob("test_*.py") if p.name != SELF]
    tested = "".join(path.read_text() for path in tests)
    for name in private_names(files()[home]):
        assert f'"{name.removeprefix("class ")}"' in tested, f"no test without {name}"
