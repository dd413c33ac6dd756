"""Every public model, and functions for published architectures and checkpoints.

`public.py` is the table of contents. It is imported at the first access to a name, so
that modules without Keras, as `architectures`, can be imported alone.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kerasseq.core.namespace import missing_name as _missing_name

if TYPE_CHECKING:  # for editors and type checkers; at run time, __getattr__
    from kerasseq.models import public
    from kerasseq.models.public import *  # noqa: F403

    __all__ = []
    __all__ += public.__all__


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    importlib.import_module("kerasseq.layers")  # registers every class, for files
    table = importlib.import_module("kerasseq.models.public")
    globals().update({key: getattr(table, key) for key in table.__all__})
    globals()["__all__"] = table.__all__
    if name in globals():
        return globals()[name]
    return _missing_name(__name__)(name)


def __dir__() -> list[str]:
    return [*globals(), *__getattr__("__all__")]
