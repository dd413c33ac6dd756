"""Lets a Python process see only some of the backends that are installed.

Python imports `sitecustomize` when it starts, if its folder is in PYTHONPATH.
`KERASSEQ_VISIBLE_BACKENDS=torch` hides TensorFlow and JAX, and what needs them, from
the process and from its children, as if they were not installed. A backend that is
named and not installed can be found, but not imported: enough for tests of the choice.
"""

import importlib.machinery
import os
import sys

VARIABLE = "KERASSEQ_VISIBLE_BACKENDS"
NEEDS = {  # each name, and the backend without which it does not work
    "tensorflow": "tensorflow",
    "tensorflow_text": "tensorflow",
    "keras_hub": "tensorflow",
    "keras_nlp": "tensorflow",
    "jax": "jax",
    "jaxlib": "jax",
    "torch": "torch",
}


class Hiding:
    """A finder of modules that does not find those in `hidden`."""

    def __init__(self, finder, hidden):
        self.finder = finder
        self.hidden = hidden

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.hidden:
            return None
        return self.finder.find_spec(name, path, target)


class Pretending:
    """Finds the modules in `visible`, asked last, so only if they are not installed."""

    def __init__(self, visible):
        self.visible = visible

    def find_spec(self, name, path=None, target=None):
        if name in self.visible:
            return importlib.machinery.ModuleSpec(name, None, origin="not installed")
        return None


def hide_all_but(visible):
    """Hide all backends but the visible ones from this process."""
    hidden = {name for name, backend in NEEDS.items() if backend not in visible}
    finders = [Hiding(finder, hidden) for finder in sys.meta_path]
    sys.meta_path[:] = [*finders, Pretending(visible)]


if VARIABLE in os.environ:
    hide_all_but(os.environ[VARIABLE].split())
