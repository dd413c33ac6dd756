"""Heads that read from a state, and what a trace records of them: a mixin."""

from typing import Any

from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.tracing import listeners
from kerasseq.tracing.intervention import is_replaced
from kerasseq.tracing.listeners import HEAD_AXES
from kerasseq.tracing.states import record_states

STATE_AXES = ("rows", "heads", "keys", "units")  # (B, N, K, V)


class HeadKernel:
    """Runs `kernels.linear_attention` for a layer, with its trace."""

    compute_dtype: str
    name: str

    @property
    def state_dtype(self) -> str:
        """The dtype of the states: float32 in mixed precision."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def check_replacements(self) -> None:
        """Raises if the last state is replaced, in a call of a whole sequence.

        Raises:
            ValueError: If it is.
        """
        if is_replaced(self, "state"):
            raise ValueError(
                f"'state' of {self.name} must not be replaced in a call of a whole "
                "sequence, received a replacement: only `advance` continues from the "
                "state after the last step. Replace 'hidden_state', with steps= for "
                "some steps"
            )

    def to_heads(self, x: Tensor, width: int) -> Tensor:
        """Splits the last axis into heads, `(B, T, heads, width)`."""
        return ops.reshape(x, (*ops.shape(x)[:2], x.shape[-1] // width, width))

    def run_kernel(
        self, q: Tensor, k: Tensor, v: Tensor, state: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """Runs `kernels.linear_attention`, and records what is worth a look.

        Args:
            q: `(B, T, N, K)`.
            k: `(B, T, N, K)`.
            v: `(B, T, N, V)`.
            state: `(B, N, K, V)`.
            **options: Arguments of `kernels.linear_attention`.

        Returns:
            The heads `(B, T, N, V)`, and the last state.
        """
        q, k, v = (
            self.record_heads(name, x)
            for name, x in (("query", q), ("key", k), ("value", v))
        )
        return self.run_recorded(q, k, v, state, **options)

    def run_recorded(
        self, q: Tensor, k: Tensor, v: Tensor, state: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor]:
        """Runs `run_kernel` where the layer has recorded q, k and v."""
        v = ops.cast(v, self.state_dtype)
        y, state = self.kernel(q, k, v, state, **options)
        if listeners.active() and not self._follows_states():
            y = self._record_alignment(q, k, v, y, options)
        y = self.record_heads("heads", y)
        return y, tracing.record(self, "state", state, axes=STATE_AXES)

    def _follows_states(self):
        """Returns whether the state of each step is computed."""
        return listeners.follows_states() or is_replaced(self, "hidden_state")

    def _record_alignment(self, q, k, v, y, options):
        """Returns the heads, from the alignment `(B, N, T, T)` if that was replaced."""
        before = self.alignment(q, k, **options)
        alignment = tracing.record(self, "alignment", before, axes=HEAD_AXES)
        if alignment is before:
            return y
        return ops.swapaxes(kernels.matmul(alignment, ops.swapaxes(v, 1, 2)), 1, 2)

    def alignment(self, q: Tensor, k: Tensor, **options: Any) -> Tensor:
        """Returns the weights of the values of all steps in each head, `(B, N, T, T)`.

        Args:
            q: `(B, T, N, K)`.
            k: `(B, T, N, K)`.
            **options: Arguments of `kernels.linear_attention`.
        """
        B, T, N, _ = ops.shape(q)
        eye = ops.eye(T, dtype=self.state_dtype)[None, :, None]
        one_hot = ops.broadcast_to(eye, (B, T, N, T))
        return ops.swapaxes(self.kernel(q, k, one_hot, **options)[0], 1, 2)

    def kernel(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Runs `kernels.linear_attention`, for a subclass that changes its result."""
        if self._follows_states():
            return self._step_by_step(q, k, v, state, **options)
        return kernels.linear_attention(q, k, v, initial_state=state, **options)

    def _step_by_step(self, q, k, v, state, mask=None, b=None, **options):
        """Computes `kernel` with the state of each step, not of chunks only."""
        q, k = (ops.cast(x, v.dtype) for x in (q, k))
        written = k[..., None] * v[..., None, :]  # (B, T, N, K, V)
        b = -k if b is None and "c" in options else b
        inputs = {"written": written, "b": b, **options}
        inputs = {name: x for name, x in inputs.items() if x is not None}

        def run(S, now, mask):
            return kernels.linear_states(initial_state=S, mask=mask, **now)

        S = ops.zeros_like(written[:, 0]) if state is None else state
        axes = ("rows", "steps", *STATE_AXES[1:])
        S = record_states(self, run, S, inputs, mask, axes=axes)
        y = ops.sum(q[..., None] * S, axis=-2)
        return masks.zero_masked(y, mask), S[:, -1]

    def record_decay(self, log_decay: Tensor) -> Tensor:
        r"""Records α, and returns its logarithm.

        Args:
            log_decay: $\log \alpha$, `(B, T, N)` or `(B, T, N, K)`.
        """
        if not listeners.active():
            return log_decay
        before = ops.exp(log_decay)
        after = self.record_heads("decay", before, domain=(0, 1))
        return log_decay if after is before else ops.log(after)

    def record_heads(
        self, name: str, x: Tensor, domain: tuple[float, float] | None = None
    ) -> Tensor:
        """Records `(B, T, N, ...)` as `(B, N, T, ...)`, as attention does."""
        if not listeners.active():
            return x
        before = ops.swapaxes(x, 1, 2)
        axes = HEAD_AXES[: len(before.shape)]
        after = tracing.record(self, name, before, axes=axes, domain=domain)
        return x if after is before else ops.swapaxes(after, 1, 2)
