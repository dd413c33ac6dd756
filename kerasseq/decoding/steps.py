"""The step function of decoding: its contract, and operations on its state.

A step function `(state, token) -> (logits, state)` reads one token per row: `token` is
int32 of shape `(batch,)`, `logits` are `(batch, vocabulary)` and score the next token.
The state is any structure of tensors, each with the batch on axis 0, and is returned
with the same structure, shapes and types. Decoding knows nothing else about a model. A
search calls it with other batch sizes than the one of the prompt.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from keras import ops, tree

from kerasseq import kernels
from kerasseq.core.types import Nested, Tensor
from kerasseq.tracing.listeners import pause

# A function (state, token) -> (logits, state).
Step: TypeAlias = Callable[[Nested, Tensor], tuple[Tensor, Nested]]


def as_state(state: Nested, batch: int) -> Nested:
    """The state as tensors, if each has the batch on axis 0."""
    for path, leaf in tree.flatten_with_path(state):
        shape = getattr(leaf, "shape", None)
        if shape is None or len(shape) < 1 or shape[0] != batch:
            received = repr(leaf) if shape is None else f"shape {tuple(shape)}"
            raise ValueError(
                f"{name_of(path)} must be an array with the batch, {batch}, on axis "
                f"0, received {received}"
            )
    return tree.map_structure(ops.convert_to_tensor, state)


def checked(step: Step) -> Step:
    """The step function with float32 logits and a check of its contract."""

    def call(state, token):
        outputs = step(state, token)
        if not isinstance(outputs, tuple | list) or len(outputs) != 2:
            raise TypeError(
                f"step must return two things, (logits, state), "
                f"received {counted(outputs)}"
            )
        logits, after = outputs
        return check_logits(logits, token.shape[0]), check_after(state, after)

    return call


def counted(outputs: object) -> str:
    """Describes outputs that are not a pair.

    Examples:
        >>> counted((1, 2, 3)), counted(0.5)
        ('a tuple of 3', 'one float')
    """
    name = type(outputs).__name__
    if isinstance(outputs, tuple | list):
        return f"a {name} of {len(outputs)}"
    return f"one {name}"


def check_logits(logits: Tensor, batch: int) -> Tensor:
    """The logits in float32, if their shape is right."""
    logits = ops.convert_to_tensor(logits)
    shape = tuple(logits.shape)
    # In a graph the batch size may be unknown: it is that of the token.
    if len(shape) != 2 or shape[0] not in (batch, None) or not shape[1]:
        raise ValueError(
            f"step must return logits of shape (batch, vocabulary), here ({batch}, "
            f"vocabulary), received {shape}"
        )
    return ops.cast(ops.reshape(logits, (batch, shape[1])), "float32")


def check_after(before: Nested, after: Nested) -> Nested:
    """The new state, with the container types of the old one."""
    flat = dict(tree.flatten_with_path(after))
    expected = dict(tree.flatten_with_path(before))
    if flat.keys() != expected.keys():
        missing = ", ".join(map(name_of, expected.keys() - flat.keys())) or "nothing"
        added = ", ".join(map(name_of, flat.keys() - expected.keys())) or "nothing"
        raise ValueError(
            "step must return a state of the structure that it received; it lacks "
            f"{missing}, and has in addition {added}"
        )
    leaves = [check_leaf(path, x, flat[path]) for path, x in expected.items()]
    return tree.pack_sequence_as(before, leaves)


def leaves_like(structure: Nested, like: Nested) -> list[Tensor]:
    """The leaves of a structure in the order of those of another one.

    On PyTorch `keras.tree` flattens inner dictionaries in order of insertion, so that
    equal structures may have different orders.

    Examples:
        >>> leaves_like([{"a": 1, "b": 2}], like=[{"b": 0, "a": 0}]) == (
        ...     keras.tree.flatten([{"b": 2, "a": 1}])
        ... )
        True
    """
    leaves = dict(tree.flatten_with_path(structure))
    return [leaves[path] for path, _ in tree.flatten_with_path(like)]


def check_leaf(path: Iterable[object], old: Tensor, new: Tensor) -> Tensor:
    """A tensor of the new state, if it has the shape and type of the old one."""
    new = ops.convert_to_tensor(new)
    shape, dtype = tuple(new.shape), new.dtype
    fits = len(shape) == len(old.shape) and all(
        a in (b, None) for a, b in zip(shape, old.shape, strict=True)
    )
    if not fits or dtype != old.dtype:
        raise ValueError(
            f"step changed {name_of(path)} from shape {tuple(old.shape)}, {old.dtype}, "
            f"to shape {shape}, {dtype}: shapes and types must not change"
        )
    return new if None not in shape else ops.reshape(new, old.shape)


def name_of(path: Iterable[object]) -> str:
    """A path in the state as a Python expression.

    Examples:
        >>> name_of(("layers", 0))
        "state['layers'][0]"
    """
    return "state" + "".join(f"[{part!r}]" for part in path)


def vocabulary_size(
    step: Step, state: Nested, batch: int, programs: kernels.Programs
) -> int:
    """Number of logits of a step function, after a check of its contract.

    It needs a trace, so the result is cached in the `programs`.
    """

    def find():
        token = ops.zeros((batch,), "int32")
        with pause():  # symbolic values cannot be recorded
            logits, _ = kernels.output_specs(checked(step), state, token)
        return logits.shape[-1]

    leaves = tree.flatten_with_path(state)
    key = (batch, *((path, tuple(x.shape), str(x.dtype)) for path, x in leaves))
    return programs.get("vocabulary", key, find, kept=32)


def where_rows(true: Tensor, new: Nested, old: Nested) -> Nested:
    """The new state where a row is `true`, else the old one."""

    def choose(new, old):
        per_row = ops.reshape(true, (-1,) + (1,) * (len(old.shape) - 1))
        return ops.where(per_row, new, old)

    return tree.map_structure(choose, new, old)


def take_rows(state: Nested, rows: Tensor) -> Nested:
    """Gathers rows of a state by their indices."""
    return tree.map_structure(lambda x: ops.take(x, rows, axis=0), state)


def repeat_rows(state: Nested, times: int) -> Nested:
    """Repeats each row of a state.

    Examples:
        >>> np.asarray(repeat_rows(np.array([[1], [2]]), 2))[:, 0].tolist()
        [1, 1, 2, 2]
    """
    return tree.map_structure(lambda x: ops.repeat(x, times, axis=0), state)
