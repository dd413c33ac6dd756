r"""Memory of Transformer-XL: hidden states of the segments before, over batches.

$$
\tilde H_l = [\mathrm{SG}(\mathrm{memory}_l) \circ H_l], \qquad
\mathrm{memory}_l \leftarrow \text{the last } M \text{ rows of } \tilde H_l
$$

A state is a list of tensors: for each block its last M inputs, `(B, M, D)`, and at the
end, `(B, M)`, whether each is that of a real token. Dai et al. 2019, section 3.2.
"""

import contextlib
import types
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, masks
from kerasseq.core.carried_state import checked_states
from kerasseq.core.shapes import check_mask
from kerasseq.core.types import Shape, Tensor
from kerasseq.models.text_blocks import Block, Encode, Options, TextCut, encoded
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.positions.transformer_xl import TransformerXLPosition
from kerasseq.rnn.batch_states import BatchStates
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.fit_call import FitCall, with_callback
from kerasseq.tasks.sources import Row
from kerasseq.training import TextBatches
from kerasseq.training.batches import GroupedBatches, NumberedBatches

POSITIONS = ("rope", "transformer_xl")


def check_memory_length(
    memory_length: int | None,
    position: Any,
    attention: Any,
    sliding_window: int | None,
) -> int | None:
    """Returns M, the number of tokens in memory, if a GPT can have one.

    Raises:
        TypeError: If M is not a whole number.
        ValueError: If M is below 1, or the other arguments do not fit it.

    Examples:
        >>> check_memory_length(7, "learned", "multi_head", None)
        Traceback (most recent call last):
        ...
        ValueError: position must be "rope" or "transformer_xl" with memory_length=7, \
received position='learned'. A token in memory has no position of its own: choose one \
of these, which count distances, or leave memory_length out
    """
    if memory_length is None:
        return None
    checks.size("memory_length", memory_length)
    known = RotaryEmbedding, TransformerXLPosition
    named = isinstance(position, str) and position in POSITIONS
    if not named and not isinstance(position, known):
        raise ValueError(
            'position must be "rope" or "transformer_xl" with memory_length='
            f"{memory_length}, received position={position!r}. A token in memory has "
            "no position of its own: choose one of these, which count distances, or "
            "leave memory_length out"
        )
    if getattr(position, "constant_length", None) is not None:
        raise ValueError(
            f"position must have constant frequencies with memory_length="
            f"{memory_length}, received rope_type={position.rope_type!r}, whose "
            'frequencies depend on the length. Choose rope_type="yarn", for example'
        )
    if attention != "multi_head":
        raise ValueError(
            f'attention must be "multi_head" with memory_length={memory_length}, '
            f"received attention={checks.short(attention)}. Leave one of them out"
        )
    if sliding_window is not None:
        raise ValueError(
            f"sliding_window must be None with memory_length={memory_length}, received "
            f"sliding_window={sliding_window}. A token attends to its segment and to "
            "the memory: leave one of them out"
        )
    return memory_length


def state_shapes(num_layers: int, memory_length: int, width: int) -> list[Shape]:
    """Returns the shape of each tensor of a state, without the batch.

    Examples:
        >>> state_shapes(2, 5, 3)
        [(5, 3), (5, 3), (5,)]
    """
    return [(memory_length, width)] * num_layers + [(memory_length,)]


def next_states(
    states: list[Tensor], inputs: list[Tensor], mask: Tensor | None
) -> list[Tensor]:
    """Returns the state after a segment: the last M inputs of each block.

    Padding is left out, so that it takes no place of a real token.

    Args:
        states: The state before the segment.
        inputs: The inputs of each block, `(B, T, D)`.
        mask: Boolean `(B, T)`, True at real tokens; None if all are.

    Examples:
        >>> states = [np.zeros((1, 2, 1), "float32"), np.zeros((1, 2), bool)]
        >>> x, mask = np.array([[[5.0], [7.0]]], "float32"), np.array([[True, False]])
        >>> x, real = map(keras.ops.convert_to_numpy, next_states(states, [x], mask))
        >>> x.ravel().tolist(), real.tolist()
        ([0.0, 5.0], [[False, True]])
    """
    M = states[-1].shape[1]
    real = real_steps(states, inputs[0], mask)
    inputs = [masks.zero_masked(x, mask) for x in inputs]
    both = [ops.concatenate(pair, axis=1) for pair in zip(states, inputs, strict=False)]
    both = [ops.stop_gradient(each) for each in both] + [real]  # (B, M + T, ...)
    if mask is None:
        return [each[:, -M:] for each in both]
    S = ops.shape(real)[1]
    place = ops.arange(S, dtype="int32") + S * ops.cast(real, "int32")
    last = ops.argsort(place, axis=1)[:, -M:]  # real ones are sorted to the end
    return [kernels.take_steps(each, last) for each in both]


def real_steps(states: list[Tensor], x: Tensor, mask: Tensor | None) -> Tensor:
    """Returns which steps are real, of a memory and of the segment after it.

    Args:
        states: The state before the segment.
        x: `(B, T, D)`, the segment.
        mask: Boolean `(B, T)`; None if all its steps are real.

    Returns:
        Boolean `(B, M + T)`.
    """
    if mask is None:
        mask = ops.ones(ops.shape(x)[:2], "bool")
    return ops.concatenate([states[-1], ops.cast(mask, "bool")], axis=1)


class Segments(NumberedBatches):
    """Batches of a text in which each row continues that of the batch before.

    The text is cut into as many parts as a batch has rows, and these into segments.

    Args:
        ids: Integer array of the whole text.
        sequence_length: T, tokens of a segment.
        batch_size: B, the most rows of a batch.

    Raises:
        ValueError: If the text is shorter than one segment and its next token.

    Examples:
        >>> batches = Segments(np.arange(9), sequence_length=2, batch_size=2)
        >>> [batches.batch(n)[0].tolist() for n in range(3)]
        [[[0, 1], [4, 5]], [[2, 3], [6, 7]], [[0, 1], [4, 5]]]
    """

    shuffled: bool = False

    def __init__(self, ids: np.ndarray, sequence_length: int, batch_size: int) -> None:
        blocks = TextBatches(ids, sequence_length, 1)  # which checks the text
        count = (len(ids) - 1) // sequence_length
        rows = min(checks.whole_number("batch_size", batch_size), count)
        part = (len(ids) - 1) // rows
        starts = np.arange(part // sequence_length)[:, None] * sequence_length
        self.starts: np.ndarray = (starts + part * np.arange(rows)).reshape(-1)
        super().__init__(len(self.starts), rows, 0, blocks.take)

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Returns where the segments of an epoch begin, one batch after the other."""
        return self.starts

    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns all batches of an epoch, in order, as two arrays."""
        return self.take(self.starts)


def segments_of_stream(
    texts: Iterable[np.ndarray], sequence_length: int, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields batches of which each row continues that of the batch before.

    A row reads the next text of the stream when its own one ends.

    Args:
        texts: The ids of each text.
        sequence_length: T, tokens of a segment.
        batch_size: B, rows of a batch.

    Examples:
        >>> texts = iter([np.arange(5), np.arange(10, 15), np.arange(20, 22)])
        >>> [x.tolist() for x, _ in segments_of_stream(texts, 2, 2)]
        [[[0, 1], [10, 11]], [[2, 3], [12, 13]]]
    """
    texts, T = iter(texts), sequence_length
    rows = [np.zeros(0, "int32")] * batch_size
    while True:
        for n in range(batch_size):
            while len(rows[n]) <= T:
                ids = next(texts, None)
                if ids is None:
                    return
                rows[n] = np.concatenate([rows[n], ids])
        yield tuple(np.stack([row[k : k + T] for row in rows]) for k in (0, 1))
        rows = [row[T:] for row in rows]


class SegmentMemory(keras.layers.Layer):
    """The states of a GPT in `fit` and in `evaluate`, as variables of the model.

    Each of the two has its own, since batches may have other sizes and other texts.
    They are not weights, and files do not contain them; see `BatchStates`.

    Args:
        shapes: From `state_shapes`.
        **kwargs: Arguments of `keras.layers.Layer`.

    Examples:
        >>> memory = SegmentMemory(state_shapes(1, 3, 2))
        >>> with memory.over_batches("train", 5), memory.in_step("train"):
        ...     [tuple(state.shape) for state in memory.read()]
        [(5, 3, 2), (5, 3)]
    """

    def __init__(self, shapes: list[Shape], **kwargs: Any) -> None:
        super().__init__(name="segment_memory", **kwargs)
        self.shapes: list[Shape] = shapes
        self.held: dict[str, BatchStates] = {}  # of "train" and "test"
        # In a namespace, where Keras tracks none of the states a second time.
        self._now = types.SimpleNamespace(running=set(), traced={}, states=None)
        self.built = True

    @contextlib.contextmanager
    def over_batches(self, kind: str, batch_size: int) -> Iterator[None]:
        """Runs `fit` ("train") or `evaluate` ("test") from an empty memory."""
        if kernels.divides_rows():
            raise ValueError(
                "memory_length needs one device on this backend, where several would "
                "each have other rows than those that the memory continues. Train "
                "outside on_devices, or set KERAS_BACKEND=jax"
            )
        held = self.held.get(kind)
        if held is None or held.states[0].shape[0] != batch_size:
            self.held.pop(kind, None)  # or Keras would still track it
            empty = [np.zeros((batch_size, *shape)) for shape in self.shapes]
            self.held[kind] = BatchStates(empty, self.compute_dtype)
        self.empty(kind)
        self._now.running.add(kind)
        try:
            yield
        finally:
            self._now.running.discard(kind)

    def empty(self, kind: str) -> None:
        """Empties the memory before the first segment of a text."""
        for state in self.held[kind].states:
            state.assign(ops.zeros(state.shape, state.dtype))

    def _used(self, kind):
        return self.held[kind] if kind in self._now.running else None

    def has_changed(self, kind: str) -> bool:
        """Returns whether the step of `fit` or `evaluate` had other variables."""
        before = self._now.traced.get(kind)
        self._now.traced[kind] = self._used(kind)
        return before is not self._now.traced[kind]

    @contextlib.contextmanager
    def in_step(self, kind: str) -> Iterator[None]:
        """Gives a call of the model a memory, in a step of `fit` or `evaluate`."""
        before, self._now.states = self._now.states, self._used(kind)
        try:
            yield
        finally:
            self._now.states = before

    @property
    def is_used(self) -> bool:
        """Whether this is a step of `fit` or `evaluate`."""
        return self._now.states is not None

    def read(self) -> list[Tensor]:
        """Returns the state before a batch."""
        # Copies: the new ones are assigned before gradients are computed.
        *states, real = map(ops.copy, self._now.states.states)
        return [*states, ops.cast(real, "bool")]

    def write(self, states: list[Tensor]) -> None:
        """Keeps the state after a batch."""
        for held, state in zip(self._now.states.states, states, strict=True):
            held.assign(ops.cast(state, held.dtype))


class EmptyMemory(keras.callbacks.Callback):
    """Empties the memory of training where the text begins anew.

    Args:
        memory: The memory.
        steps: Batches of the text; None for a stream, which never begins anew.
        steps_per_epoch: Batches of an epoch.
    """

    def __init__(
        self, memory: SegmentMemory, steps: int | None, steps_per_epoch: int
    ) -> None:
        super().__init__()
        self.memory: SegmentMemory = memory
        self.steps: int | None = steps
        self.steps_per_epoch: int = steps_per_epoch
        self.epoch: int = 0
        self.number: int | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.epoch = epoch

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if self.steps is None:
            return
        before, batch = self.number, self.epoch * self.steps_per_epoch + batch
        self.number = batch // self.steps  # of the pass over the text
        if before != self.number and self.model is not None:  # which gives JAX's state
            self.memory.empty("train")


class Consecutive(TextCut):
    """Cuts a text so that each row of a batch continues that of the batch before.

    Args:
        memory: What is kept from one batch to the next.
    """

    def __init__(self, memory: SegmentMemory) -> None:
        self.memory: SegmentMemory = memory

    def blocks(self, ids: np.ndarray, sequence_length: int, batch_size: int) -> Block:
        return Segments(ids, sequence_length, batch_size).whole()

    def batches(
        self, ids: np.ndarray, sequence_length: int, batch_size: int, seed: int
    ) -> Segments:
        return Segments(ids, sequence_length, batch_size)

    def stream(
        self, rows: Iterable[Row], encode: Encode, sequence_length: int, batch_size: int
    ) -> Iterator[Block]:
        texts = encoded(rows, encode)
        return segments_of_stream(texts, sequence_length, batch_size)

    @contextlib.contextmanager
    def training_on(
        self, call: FitCall, source: Any, arguments: Options
    ) -> Iterator[Options]:
        """Trains with a memory, emptied before each pass over a text."""
        if isinstance(source, GroupedBatches):  # of answers, which stand alone
            yield arguments
            return
        steps, batch_size = None, call.batch_size  # a stream never begins anew
        if isinstance(source, Segments):
            steps, batch_size = source.steps_per_epoch, source.batch_size
        elif not call.streamed:
            batch_size = _consecutive_rows(source, arguments["batch_size"])
            _check_not_shuffled(arguments["shuffle"])
            if arguments["validation_split"]:
                raise ValueError(
                    "validation_split must be 0 for arrays with memory_length, as the "
                    "last rows continue those before, received "
                    f"{arguments['validation_split']}. Pass validation_data"
                )
            arguments = {**arguments, "batch_size": batch_size}
            steps = len(source) // batch_size
        if steps is not None:
            of_epoch = arguments.get("steps_per_epoch") or steps
            empty = EmptyMemory(self.memory, steps, of_epoch)
            arguments = with_callback(arguments, empty)
        with self.memory.over_batches("train", batch_size):
            yield arguments

    @contextlib.contextmanager
    def evaluating_on(self, arguments: Options) -> Iterator[Options]:
        if np.ndim(arguments["sample_weight"]) == 2:  # of answers, which stand alone
            yield arguments
            return
        batch_size = _consecutive_rows(arguments["x"], arguments["batch_size"])
        with self.memory.over_batches("test", batch_size):
            yield {**arguments, "batch_size": batch_size}


def _consecutive_rows(x, batch_size):
    """Returns the batch size, if it divides the rows of an array.

    Examples:
        >>> _consecutive_rows(np.zeros((6, 5)), 4)
        Traceback (most recent call last):
        ...
        ValueError: batch_size must divide the 6 rows of x with memory_length, as each \
row continues that of the batch before, received batch_size=4. Choose a divisor
    """
    if len(getattr(x, "shape", ())) != 2:
        raise TypeError(
            "x must be a text, or an array of ids (rows, time), with memory_length, "
            f"received {checks.short(x)}. Each row of a batch continues that of the "
            "batch before: a text is cut in this way"
        )
    rows = x.shape[0]
    batch_size = min(checks.whole_number("batch_size", batch_size or BATCH_SIZE), rows)
    if rows % batch_size:
        raise ValueError(
            f"batch_size must divide the {rows} rows of x with memory_length, as each "
            f"row continues that of the batch before, received batch_size={batch_size}."
            " Choose a divisor"
        )
    return batch_size


def _check_not_shuffled(shuffle):
    if shuffle:
        raise ValueError(
            "shuffle must be False with memory_length, as each row of a batch "
            f"continues that of the batch before, received shuffle={shuffle}. Pass "
            "shuffle=False and rows in this order, or a text, which is cut in this way"
        )


def checked(
    memory: SegmentMemory | None,
    ids: Any,
    states: list[Tensor] | None,
    mask: Tensor | None,
) -> tuple[Tensor, list[Tensor]]:
    """Returns the ids of a segment and the states before it, if they fit the model.

    Raises:
        TypeError: If the states are not a list of tensors.
        ValueError: If there is no memory, or a shape is another one.

    Examples:
        >>> checked(SegmentMemory(state_shapes(1, 3, 2)), [3, 1, 4], None, None)
        Traceback (most recent call last):
        ...
        ValueError: ids must have the shape (batch, time), received shape (3,)
    """
    if memory is None:
        raise ValueError(
            "advance needs a model with a memory, received memory_length=None. Build "
            'it with memory_length=64 and position="rope", for example'
        )
    ids = ids if hasattr(ids, "shape") else np.asarray(ids)
    if len(ids.shape) != 2:
        raise ValueError(
            f"ids must have the shape (batch, time), received shape {tuple(ids.shape)}"
        )
    check_mask("mask", mask, ("batch", "time"), tuple(ids.shape), broadcasts=False)
    shapes, batch = memory.shapes, ids.shape[0]
    if states is None:
        states = [np.zeros((batch, *shape), "float32") for shape in shapes]
    dtypes = [memory.compute_dtype] * (len(shapes) - 1) + ["bool"]
    return ids, checked_states(states, shapes, dtypes, batch)
