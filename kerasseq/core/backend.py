"""Chooses the backend before Keras is loaded. Imports no Keras.

Keras reads `KERAS_BACKEND` and keras.json once, when it is imported, and falls back on
TensorFlow, with an obscure error if TensorFlow is not installed. So `choose`, called by
`import kerasseq`, picks an installed backend if none is named, and `require`, called
before Keras is loaded, explains what is missing.

PyTorch must be imported before TensorFlow in the same process, or the process can
crash. This needs no code here: with the torch backend Keras imports PyTorch at once,
and TensorFlow only later (in `model.save`); with TensorFlow nothing in kerasseq imports
PyTorch.
"""

import importlib.util
import json
import os
import pathlib
import sys

from kerasseq.core import checks, packages

BACKENDS = ("tensorflow", "jax", "torch")  # in order of preference

_KERAS_ONLY = ("numpy", "openvino")  # Keras runs on these, but cannot train on them

# With PyTorch, llvmlite compiles recurrent layers on a CPU.
_PACKAGES = {
    "tensorflow": ["tensorflow"],
    "jax": ["jax"],
    "torch": ["torch", "llvmlite"],
}

_unsaid: list[str] = []  # what `choose` chose, until `require`

_NONE_INSTALLED = f"""\
no backend is installed: Keras needs one of TensorFlow, JAX and PyTorch to compute.
{packages.install("tensorflow")}  or  pip install jax  or  pip install torch llvmlite
For PyTorch without a graphics card, choose "CPU" on PyTorch's "Get Started" page and
run the command it shows first: the usual Linux build brings several GB for NVIDIA."""


class BackendError(ImportError):
    """Keras cannot load, because the backend it is to run on is wrong or missing."""


def installed() -> tuple[str, ...]:
    """Returns the names of the installed backends, without loading them."""
    return tuple(name for name in BACKENDS if _is_installed(name))


def choose() -> None:
    """Chooses an installed backend before Keras is loaded.

    Changes nothing if the user has chosen one, rightly or wrongly: see `require`.
    """
    if "keras" in sys.modules or os.environ.get("KERAS_BACKEND"):
        return
    backends = installed()
    named = _named_in_keras_json() or BACKENDS[0]  # what Keras would take by itself
    if not backends or named in backends:
        return
    os.environ["KERAS_BACKEND"] = backends[0]
    name = backends[0]
    _unsaid.append(
        f"kerasseq: Keras runs on {name} here; set KERAS_BACKEND to choose another"
    )


def chosen() -> str:
    """Returns the name of the backend that Keras runs on, or will run on."""
    if keras := sys.modules.get("keras"):
        return keras.config.backend()
    return os.environ.get("KERAS_BACKEND") or _named_in_keras_json() or BACKENDS[0]


def require() -> None:
    """Raises unless Keras can be loaded, on a backend that kerasseq supports.

    Raises:
        BackendError: If not, saying what to install or what to set.
    """
    backends = installed()
    if not backends:
        raise BackendError(_NONE_INSTALLED)
    if _unsaid:  # not before Keras is needed: `kerasseq --help` has one output
        print(_unsaid.pop(), file=sys.stderr)
    name = chosen()
    if name in _KERAS_ONLY:
        raise BackendError(
            f"the {name} backend of Keras cannot train models: set KERAS_BACKEND to "
            f"one of {', '.join(BACKENDS)}"
        )
    if name not in BACKENDS:
        raise BackendError(
            f'KERAS_BACKEND="{name}" is not one of {", ".join(BACKENDS)}.'
            f"{checks.nearest(name, BACKENDS)}"
        )
    if name not in backends:
        raise BackendError(
            f"KERAS_BACKEND={name}, but {name} is not installed. "
            f"{packages.install(*_PACKAGES[name])}, or set KERAS_BACKEND={backends[0]}"
        )


def _is_installed(name: str) -> bool:
    """Tells a package from a folder of that name, which has no file of its own."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def _named_in_keras_json() -> str | None:
    """Reads the backend from Keras' settings file, None if it names none."""
    try:
        settings = json.loads((_keras_folder() / "keras.json").read_text())
    except (OSError, ValueError):
        return None
    name = settings.get("backend") if isinstance(settings, dict) else None
    return name if isinstance(name, str) else None


def _keras_folder() -> pathlib.Path:
    """Finds the folder where Keras keeps its settings, by the rule that Keras has."""
    if "KERAS_HOME" in os.environ:
        return pathlib.Path(os.environ["KERAS_HOME"]).expanduser()
    home = os.path.expanduser("~")
    return pathlib.Path(home if os.access(home, os.W_OK) else "/tmp", ".keras")
