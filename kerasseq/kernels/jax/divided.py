"""Weights of which no process of JAX has all: those of several machines.

A step computes with global arrays, of which each process holds the parts on its own
devices. Python reads an array only where all of it is: to save such a weight, all
processes gather it at the same time. At the end of a block the first process has the
model.
"""

import weakref
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

from kerasseq.kernels import parts as common
from kerasseq.kernels.jax import private

WAIT = 300.0  # seconds until all processes read a weight
READ = "kerasseq/read"  # the first part of the keys of a meeting


class Divided(keras.Variable):
    """A weight of which each process has a part: all of them read it together."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(gathered(self.value, self.path), dtype)


class Gone(keras.Variable):
    """A weight that another process has."""

    @property
    def value(self) -> Any:
        raise ValueError(common.GONE)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.value, dtype)


class Meetings:
    """Where processes meet before they gather.

    Attributes:
        count: How many there were.
    """

    def __init__(self) -> None:
        self.count: int = 0

    def at(self, name: str) -> None:
        """Waits for the others, which must read the same weight or leave as well.

        Raises:
            RuntimeError: If they do not.
        """
        self.count += 1
        try:
            names = private.exchange(f"{READ}/{self.count}", name, WAIT)
        except TimeoutError:
            names = []
        if {*names} != {name}:
            raise RuntimeError(common.ALONE)
        private.forget(f"{READ}/{self.count - 1}")  # which all have passed


_meetings = Meetings()


def gathered(value: jax.Array, name: str) -> np.ndarray:
    """Returns an array of all processes, which call this at the same time.

    Args:
        value: The array. One that each process has is read without the others.
        name: What it is, by which processes notice that they read different arrays.
    """
    if value.is_fully_addressable or value.is_fully_replicated:
        return np.asarray(value)
    _meetings.at(name)
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


class Kept:
    """The variables of an open block, which are put together at its end.

    Attributes:
        variables: References to them, in the order in which they were made.
    """

    def __init__(self) -> None:
        self.variables: list[weakref.ref[keras.Variable]] = []
        self._by_id: dict[int, weakref.ref[keras.Variable]] = {}

    def add(self, variable: keras.Variable, is_divided: bool) -> None:
        """Adds a variable.

        Args:
            variable: The variable.
            is_divided: Whether each process has a part of its value.
        """
        known = self._by_id.get(id(variable))
        if known is not None and known() is variable:
            return
        self._by_id[id(variable)] = reference = weakref.ref(variable)
        self.variables.append(reference)
        if is_divided:
            variable.__class__ = Divided

    def put_together(self, outer: Any) -> None:
        """Gives the first process the whole values, or all if a block is around it.

        Args:
            outer: The `keras.distribution.Distribution` of that block, or None.
        """
        _meetings.at(f"the end of a block with {len(self.variables)} variables")
        variables = [reference() for reference in self.variables]
        here = np.array([variable is not None for variable in variables])
        # Python may have freed a model in some processes only.
        everywhere = multihost_utils.process_allgather(here).all(0)
        for variable, is_there in zip(variables, everywhere, strict=True):
            if is_there:
                self._put_together(variable, outer)

    def _put_together(self, variable, outer):
        value = gathered(variable.value, variable.path)
        if outer is not None:
            private.place(variable, keras.Variable, None, None)
            layout = outer.get_variable_layout(variable)
            private.place(variable, type(variable), layout, value)
        elif jax.process_index() == 0:
            private.place(variable, keras.Variable, None, value)
        else:
            private.place(variable, Gone, None, None)
