"""Caches the compiled functions of a model until the model changes.

The object to which a function belongs keeps them in its `__dict__`, so they are freed
with the object.
"""

import collections
import types
from collections.abc import Callable, Hashable
from typing import Any

from kerasseq.kernels.fingerprint import HOME, Fingerprint

KEPT = 8  # of each kind, those used last


def programs(function: Any) -> "Programs":
    """Returns what was compiled for a function of the model in its current form.

    Args:
        function: A bound method, whose object keeps the programs; or a function, model
            or layer, which keeps them itself.

    Returns:
        Its `Programs`, empty if what the function depends on has changed since the last
        call. An object without a `__dict__` always gets new ones.

    Examples:
        >>> layer = keras.layers.Dense(2)
        >>> layer.build((None, 3))
        >>> programs(layer).get("kind", "key", lambda: "compiled")
        'compiled'
        >>> programs(layer).get("kind", "key", lambda: "again")
        'compiled'
        >>> layer.enable_lora(1)
        >>> programs(layer).get("kind", "key", lambda: "again")
        'again'
    """
    owner = function.__self__ if isinstance(function, types.MethodType) else function
    home = getattr(owner, "__dict__", None)
    if not isinstance(home, dict):
        return Programs(Fingerprint(function))
    kept = home.setdefault(HOME, {})
    # One for each method: methods of third-party objects depend on different things.
    key = getattr(function, "__func__", None)
    current = kept.get(key)
    if current is None or not current.fingerprint.holds():
        now = Fingerprint(function)
        if current is None or current.fingerprint != now:
            current = kept[key] = Programs(now)
        current.fingerprint = now
    return current


class Programs:
    """Compiled functions, by kind and key.

    Args:
        fingerprint: Of what they depend on.

    Attributes:
        fingerprint: The same.
    """

    def __init__(self, fingerprint: Fingerprint) -> None:
        self.fingerprint = fingerprint
        self._made = collections.defaultdict(collections.OrderedDict)

    @property
    def pure(self) -> bool | None:
        """Whether the function has no side effects: `pure` of the `Fingerprint`."""
        return self.fingerprint.pure

    def get(
        self, kind: str, key: Hashable, make: Callable[[], Any], *, kept: int = KEPT
    ) -> Any:
        """Returns the cached result of `make()` for this kind and key, or calls it.

        Args:
            kind: A name.
            key: What else the result depends on, hashable.
            make: Function of no arguments.
            kept: How many of this kind are kept.
        """
        made = self._made[kind]
        if key not in made:
            made[key] = make()
            if len(made) > kept:
                made.popitem(last=False)
        made.move_to_end(key)
        return made[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return Programs, (Fingerprint(),)  # a copy compiles its own
