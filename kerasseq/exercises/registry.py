"""The record of an exercise, and the decorator that adds one to the table.

The decorated function is the solution. Beside it stand the inputs that `check` draws,
typical mistakes by the name of their hint, and, where the library has the same, what
the answer is compared with. The words are in `questions.toml`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kerasseq.core.files import table_beside

REGISTERED: dict[str, "Exercise"] = {}

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Exercise:
    """An exercise whose answer is a function.

    Attributes:
        number: Tutorial and place, such as "01.2".
        inputs: Returns the arguments of a trial, from a random generator.
        solution: A right answer.
        right: What answers are compared with.
        mistakes: Typical wrong answers, by the names of their hints.
    """

    number: str
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    solution: Function
    right: Function
    mistakes: dict[str, Function]


def exercise(
    number: str,
    inputs: Callable[[np.random.Generator], tuple[Any, ...]],
    *,
    right: Function | None = None,
    **mistakes: Function,
) -> Callable[[Function], Function]:
    """Adds the decorated function to the table, as the solution of an exercise."""

    def add(solution: Function) -> Function:
        REGISTERED[number] = Exercise(
            number, inputs, solution, right or solution, mistakes
        )
        return solution

    return add


def words() -> dict[str, dict[str, Any]]:
    """Returns the questions and hints by the numbers of the exercises."""
    return table_beside(__file__, "questions")


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Draws numbers of a normal distribution, in float32."""
    return rng.normal(size=shape).astype("float32")


def shares(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Draws distributions over the last axis, in float32."""
    drawn = rng.random(shape) + 0.05
    return (drawn / drawn.sum(axis=-1, keepdims=True)).astype("float32")


def softmax(z: Any) -> np.ndarray:
    """Returns the softmax over the last axis."""
    p = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def sigmoid(z: Any) -> np.ndarray:
    """Returns the logistic function of each number."""
    return 1 / (1 + np.exp(-z))
