"""Checks an answer: calls it with inputs that are drawn, and compares the results.

Nothing is compared with a stored number: the right result is computed for each draw,
by a layer or function of kerasseq or Keras where there is one. An answer that is wrong
is compared with typical mistakes, and the hint of the one that agrees is returned.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from kerasseq.core.checks import one_of, short
from kerasseq.exercises.registry import REGISTERED, Exercise, words
from kerasseq.exercises.verdict import Verdict

TRIALS = 3  # inputs, so that an answer is not right by chance
LANGUAGES = ("en", "fr")
TOLERANCE = 1e-4  # of the largest value: float32 on any backend, in any order


class _Unusable(Exception):
    """A result that cannot be compared, with the key of its message."""

    def __init__(self, key: str, **values: object):
        super().__init__(key)
        self.key, self.values = key, values


def check(number: str, answer: Callable[..., Any], *, language: str = "en") -> Verdict:
    """Checks the answer to an exercise of a tutorial.

    The answer is a function. It is called with inputs that are drawn at random, arrays
    of NumPy and plain numbers, and may return numbers, lists, or arrays of NumPy or of
    the backend. A wrong answer of any kind gives a message, not an error.

    Args:
        number: Tutorial and exercise, such as "01.2", as on the page of the tutorial.
        answer: The function.
        language: "en" or "fr", of the message.

    Returns:
        A `Verdict`, true if the answer is right.

    Raises:
        ValueError: If there is no such exercise or language.

    Examples:
        >>> from kerasseq import exercises
        >>> exercises.check("10.1", lambda layers, width: 4 * layers * width**2)
        Not yet. This is the attention alone, a third of a block.
        >>> exercises.check("10.1", lambda layers, width: 12 * layers * width**2)
        Right, for 3 draws of the inputs.
        >>> exercises.check("10.1", 12)
        Not yet. Expected the function kernels_of_blocks(layers, width), received 12. \
Pass the function itself, without calling it.
    """
    one = _exercise(number)
    one_of("language", language, LANGUAGES)
    try:
        key, values = _found(one, answer)
    except _Unusable as problem:
        key, values = problem.key, problem.values
    return _verdict(one, key, values, language)


def question(number: str, *, language: str = "en") -> str:
    """Returns the question of an exercise: the call, and what it returns.

    Args:
        number: Tutorial and exercise, such as "01.2".
        language: "en" or "fr".

    Raises:
        ValueError: If there is no such exercise or language.

    Examples:
        >>> from kerasseq import exercises
        >>> print(exercises.question("02.2"))
        `count_elman(units, features)`: The number of parameters of an Elman network.
    """
    row = words()[_exercise(number).number]
    one_of("language", language, LANGUAGES)
    colon = "\u202f:" if language == "fr" else ":"
    return f"`{row['call']}`{colon} {row[language]}"


def solution(number: str) -> str:
    """Returns the source of a right answer, for teachers.

    It uses NumPy as `np`, and some solutions those of the exercises before them.

    Args:
        number: Tutorial and exercise, such as "01.2".

    Raises:
        ValueError: If there is no such exercise.

    Examples:
        >>> from kerasseq import exercises
        >>> print(exercises.solution("02.2"))
        def count_elman(units, features):
            \"\"\"Counts W, U and b.\"\"\"
            return features * units + units * units + units
    """
    source = textwrap.dedent(inspect.getsource(_exercise(number).solution))
    function = ast.parse(source).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise TypeError(f"the solution of {number} must be a function")
    lines = source.splitlines()[function.body[0].lineno - 1 :]
    arguments = ", ".join(argument.arg for argument in function.args.args)
    return "\n".join([f"def {function.name}({arguments}):", *lines])


def numbers() -> list[str]:
    """Returns the numbers of all exercises, three for each tutorial.

    Examples:
        >>> from kerasseq import exercises
        >>> exercises.numbers()[:4]
        ['01.1', '01.2', '01.3', '02.1']
    """
    return sorted(REGISTERED)


def _exercise(number: str) -> Exercise:
    if not isinstance(number, str) or number not in REGISTERED:
        meant = str(number).zfill(len("01.1"))
        hint = f' Did you mean "{meant}"?' if meant in REGISTERED else ""
        raise ValueError(
            'number must be a tutorial and an exercise, "01.1" to '
            f'"{max(REGISTERED)}", received {short(number)}.{hint} '
            "`kerasseq.exercises.numbers()` lists them."
        )
    return REGISTERED[number]


def _found(one: Exercise, answer: Any) -> tuple[str, dict[str, Any]]:
    """Returns the key of the message, and the values in it."""
    if not callable(answer):
        raise _Unusable("function", received=short(answer))
    draws = [
        one.inputs(np.random.default_rng([trial, *map(ord, one.number)]))
        for trial in range(TRIALS)
    ]
    results = [_result(answer, inputs, one, inputs) for inputs in draws]
    expected = [_array(one.right(*_copies(inputs))) for inputs in draws]
    agrees = [_close(a, b) for a, b in zip(results, expected, strict=True)]
    if all(agrees):
        return "right", {}
    for name, mistake in one.mistakes.items():
        wrong = (_array(mistake(*_copies(inputs))) for inputs in draws)
        if all(_close(a, b) for a, b in zip(results, wrong, strict=True)):
            return name, {}
    if any(agrees):
        failed = agrees.index(False)
        shown = _shown(draws[failed])
        return "sometimes", {"found": sum(agrees), "inputs": shown}
    return _difference(results[0], expected[0], draws[0])


def _result(answer, inputs, one, shown):
    try:
        result = answer(*_copies(inputs))
    except (Exception, SystemExit) as error:  # also an answer that calls exit()
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise _Unusable("raised", error=said, inputs=_shown(shown)) from None
    try:
        return _array(result)
    except (TypeError, ValueError, RuntimeError):  # also tensors with gradients
        right = _array(one.right(*_copies(inputs)))
        raise _Unusable(
            "value", expected=right, received=short(result), inputs=_shown(shown)
        ) from None


def _array(value: Any) -> np.ndarray:
    """Returns numbers as an array, from lists and tensors of any backend."""
    if "keras" in sys.modules and sys.modules["keras"].ops.is_tensor(value):
        array = sys.modules["keras"].ops.convert_to_numpy(value)
    elif isinstance(value, list | tuple):
        array = np.array([_array(part) for part in value])
    else:
        array = np.asarray(value)
    if array.size and array.dtype.kind not in "biuf":
        raise TypeError("not numbers")
    return array.astype("float64")


def _close(result: np.ndarray, expected: np.ndarray) -> bool:
    if result.shape != expected.shape:
        return False
    limit = TOLERANCE * max(1e-3, np.abs(np.nan_to_num(expected)).max(initial=0))
    return bool(np.allclose(result, expected, rtol=0, atol=limit, equal_nan=True))


def _difference(result, expected, inputs):
    if result.shape != expected.shape:
        sizes = {"expected": expected.shape, "received": result.shape}
        return "shape", {**sizes, "inputs": _shown(inputs)}
    if not np.isfinite(result).all():
        index = tuple(map(int, np.argwhere(~np.isfinite(result))[0]))
        return "not_finite", {"received": result[index], "index": list(index)}
    limit = TOLERANCE * np.abs(expected).max()
    wrong = np.abs(result - expected) > limit
    index = [int(n) for n in np.argwhere(wrong)[0]]
    return "values", {"wrong": wrong.sum(), "total": wrong.size, "index": index}


def _copies(inputs):
    """Returns the inputs, so that an answer may change its own in place."""
    return [x.copy() if hasattr(x, "copy") else x for x in inputs]


def _shown(inputs):
    """Returns the inputs as text: of arrays the shape, of others the value."""
    return ", ".join(
        f"array{x.shape}" if isinstance(x, np.ndarray) else repr(x) for x in inputs
    )


def _verdict(one, key, values, language):
    row, said = words()[one.number], words()["messages"]
    if isinstance(values.get("expected"), np.ndarray):
        kind = "array" if values["expected"].ndim else "number"
        text = said[kind][language].format(shape=values["expected"].shape)
        values = {**values, "expected": text}
    text = (row if key in one.mistakes else said)[key][language]
    if key not in one.mistakes:
        text = text.format(call=row["call"], trials=TRIALS, **values)
    if key != "right":
        text = f"{said['wrong'][language]} {text}"
    return Verdict(one.number, key == "right", text)
