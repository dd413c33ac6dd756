r"""The neural Turing machine: an LSTM that writes to a tape and reads it back.

`NTMCell.step` is the equation. The tape and the weights of the heads are states, so
that `RNN` carries them, a trace shows them, and a stateful layer keeps them.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, masks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats
from kerasseq.core.types import Shape, Tensor
from kerasseq.rnn.lstm import LSTMCell
from kerasseq.tracing import record

BLANK = 1e-6  # in each cell of the tape at the start
NORM, LEAST = 1e-8, 1e-12  # added to the squares of a norm, and to weights in a log
HEADS = ("rows", "heads", "units")  # a unit of the weights is a place of the tape
TAPE = ("rows", "heads", "units")  # of the tape: a head is a place


@register
class NTMCell(Layer):
    r"""One time step of a neural Turing machine.

    An LSTM, the controller, reads $[x_t, r_{t-1}]$, and its $h_t$ directs the heads.
    Each head addresses the places $i$ of the tape $M_{t-1}$, first by content, then by
    place:

    $$
    \begin{aligned}
    w^c_i &= \operatorname{softmax}_i(\beta_t \cos(k_t, M_{t-1,i})) \\
    w^g &= g_t w^c + (1 - g_t) w_{t-1} \\
    \tilde w_i &= \textstyle\sum_j s_{t,j} w^g_{i-j} \\
    w_{t,i} &= \tilde w_i^{\gamma_t} / \textstyle\sum_j \tilde w_j^{\gamma_t}
    \end{aligned}
    $$

    $k_t = \tanh(h_t W_k)$ is the key, $\beta_t = \operatorname{softplus}(\cdot)$ its
    strength, $g_t = \sigma(\cdot)$ the gate, $s_t = \operatorname{softmax}(\cdot)$ the
    shift by at most `shift` places around the circle, and
    $\gamma_t = 1 + \operatorname{softplus}(\cdot)$ the sharpening. Then

    $$
    \begin{aligned}
    r_t &= \textstyle\sum_i w^{read}_{t,i} M_{t-1,i} \\
    M_{t,i} &= M_{t-1,i} \odot (1 - w^{write}_{t,i} e_t) + w^{write}_{t,i} a_t
    \end{aligned}
    $$

    with $e_t = \sigma(h_t W_e)$ and $a_t = \tanh(h_t W_a)$; several heads erase one
    after the other, and add their sum. The output is $[h_t, r_t]$.

    The states are $h$, $c$, the vectors read, the weights of the reading and of the
    writing heads, and the tape, each as `(batch, size)`. All heads start at place 0,
    and the tape is 1e-6 everywhere. Addressing and tape are computed in float32 at
    least.

    Args:
        units: Units of the controller.
        memory_size: Number of places of the tape.
        memory_width: Numbers of a place.
        read_heads: Number of reading heads.
        write_heads: Number of writing heads.
        shift: The largest number of places that a head moves in a step.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        inputs: $x_t$ of shape `(batch, features)`.
        states: The list of states.
        training: Not used.

    Returns:
        The output `(batch, units + read_heads * memory_width)`, and the list of states.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is too small, or `shift` moves around the whole tape.

    Examples:
        >>> import kerasseq
        >>> cell = NTMCell(7, memory_size=5, memory_width=3)
        >>> layer = kerasseq.layers.RNN(cell, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 11, 4))))
        (2, 11, 10)

    References:
        Graves, Wayne and Danihelka, "Neural Turing Machines", 2014. Slides A.
    """

    state_names: tuple[str, ...] = (
        *("hidden_state", "cell_state", "read_vectors"),
        *("read_state", "write_state", "tape_state"),
    )

    @passes_on(Layer)
    def __init__(
        self,
        units: int,
        memory_size: int,
        memory_width: int,
        read_heads: int = 1,
        write_heads: int = 1,
        shift: int = 1,
        **kwargs: Any,
    ) -> None:
        self.units: int = checks.size("units", units)
        self.memory_size: int = checks.size("memory_size", memory_size)
        self.memory_width: int = checks.size("memory_width", memory_width)
        self.read_heads: int = checks.size("read_heads", read_heads)
        self.write_heads: int = checks.size("write_heads", write_heads)
        self.shift: int = checks.whole_number("shift", shift, at_least=0)
        if 2 * self.shift + 1 > self.memory_size:
            raise ValueError(
                f"shift must be below half of memory_size={self.memory_size}, so that "
                f"a head does not move around the whole tape, received {shift}"
            )
        checks.fits_memory("memory_size", self.memory_size, self.memory_width)
        self.controller: LSTMCell = LSTMCell(
            self.units, dtype=self.dtype_policy, name="controller"
        )
        N, W = self.memory_size, self.memory_width
        self.state_size: list[int] = [
            *(self.units, self.units, self.read_heads * W),
            *(self.read_heads * N, self.write_heads * N, N * W),
        ]
        self.output_size: int = self.units + self.read_heads * W

    @property
    def state_dtype(self) -> str:
        """The dtype of the states, the addressing and the tape."""
        return kernels.state_dtype(self.compute_dtype)

    def build(self, input_shape: Shape) -> None:
        W, heads = self.memory_width, self.read_heads + self.write_heads
        self.controller.build((None, input_shape[-1] + self.read_heads * W))
        self.address_size: int = W + 3 + 2 * self.shift + 1
        size = heads * self.address_size + self.write_heads * 2 * W
        self.heads: keras.layers.Dense = self.built_dense("heads", self.units, size)

    def get_initial_state(self, batch_size: int | Tensor | None = None) -> list[Tensor]:
        """Returns the states before the first step.

        Args:
            batch_size: Number of sequences.
        """
        B, N, dtype = batch_size, self.memory_size, self.state_dtype
        sizes = self.state_size[:3]
        first = ops.one_hot(ops.zeros((B, 1), "int32"), N, dtype=dtype)  # (B, 1, N)
        weights = [
            ops.reshape(ops.tile(first, (1, heads, 1)), (-1, heads * N))
            for heads in (self.read_heads, self.write_heads)
        ]
        tape = ops.full((B, self.state_size[-1]), BLANK, dtype)
        return [ops.zeros((B, size), dtype) for size in sizes] + weights + [tape]

    def project(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Returns the inputs: all that a step does with them depends on the states."""
        return as_floats("inputs", inputs, self.compute_dtype)

    def call(
        self, inputs: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        return self.step(self.project(inputs), states)

    def step(
        self, x: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Computes one step; `call` has the same arguments."""
        R, Q = self.read_heads, self.write_heads
        N, W = self.memory_size, self.memory_width
        states = [ops.cast(state, self.state_dtype) for state in states]
        h, c, r, w_read, w_write, M = states
        M = ops.reshape(M, (-1, N, W))
        w = ops.concatenate(
            [ops.reshape(w_read, (-1, R, N)), ops.reshape(w_write, (-1, Q, N))], axis=1
        )
        narrow = [ops.cast(state, self.compute_dtype) for state in (r, h, c)]
        r, *states = narrow
        h, (h, c) = self.controller(ops.concatenate([x, r], axis=-1), states)

        z = ops.cast(kernels.dense(self.heads, h), self.state_dtype)
        address, edit = ops.split(z, [(R + Q) * self.address_size], axis=-1)
        address = ops.reshape(address, (-1, R + Q, self.address_size))
        w = self.addressed(address, M, w)  # (B, R + Q, N)
        w_read = record(self, "read_weights", w[:, :R], axes=HEADS)
        w_write = record(self, "write_weights", w[:, R:], axes=HEADS)
        r = ops.reshape(kernels.matmul(w_read, M), (-1, R * W))
        r = record(self, "read", r)

        e, a = ops.split(ops.reshape(edit, (-1, Q, 2 * W)), 2, axis=-1)
        e = record(self, "erase", ops.sigmoid(e), axes=HEADS)
        a = record(self, "add", kernels.tanh(a), axes=HEADS)
        kept = 1 - w_write[..., None] * e[:, :, None]  # (B, Q, N, W)
        added = kernels.matmul(ops.swapaxes(w_write, 1, 2), a)
        for q in range(Q):  # ops.prod would compute float64 in float32 on PyTorch
            M = M * kept[:, q]
        M = record(self, "tape", M + added, axes=TAPE)

        output = ops.concatenate([ops.cast(h, self.state_dtype), r], axis=-1)
        wide = [ops.cast(state, self.state_dtype) for state in (h, c)]
        flat = [ops.reshape(w_read, (-1, R * N)), ops.reshape(w_write, (-1, Q * N))]
        states = [*wide, r, *flat, ops.reshape(M, (-1, N * W))]
        return ops.cast(output, self.compute_dtype), states

    def addressed(self, z: Tensor, M: Tensor, w: Tensor) -> Tensor:
        """Computes the weights of the heads.

        Args:
            z: What the controller says, `(B, heads, address_size)`.
            M: The tape `(B, N, W)`.
            w: The weights of the step before, `(B, heads, N)`.
        """
        W = self.memory_width
        k, beta, g, gamma, s = ops.split(z, [W, W + 1, W + 2, W + 3], axis=-1)
        k = kernels.tanh(k)
        beta = record(self, "strength", ops.softplus(beta), axes=HEADS)
        g = record(self, "gate", ops.sigmoid(g), axes=HEADS)
        gamma = record(self, "sharpening", 1 + ops.softplus(gamma), axes=HEADS)
        s = record(self, "shift", masks.softmax(s), axes=HEADS)  # of -S to S places

        dots = kernels.matmul(k, ops.swapaxes(M, 1, 2))
        cosine = dots / (_norm(k)[..., None] * _norm(M)[:, None])
        content = masks.softmax(beta * cosine)
        content = record(self, "content_weights", content, axes=HEADS)
        w = g * content + (1 - g) * w
        w = sum(
            s[..., n : n + 1] * ops.roll(w, n - self.shift, axis=-1)
            for n in range(2 * self.shift + 1)
        )
        return masks.softmax(gamma * ops.log(w + LEAST))


def _norm(x: Tensor) -> Tensor:
    """Returns the Euclidean norm of the last axis, which has a gradient at 0."""
    return ops.sqrt(ops.sum(ops.square(x), axis=-1) + NORM)
