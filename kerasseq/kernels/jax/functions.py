"""Loops, compiled functions and gradients on JAX."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import keras
from keras import ops

from kerasseq.core.types import Nested, Tensor

State = tuple[list[Tensor], ...]  # the values of the variables of a model

no_gradients = contextlib.nullcontext
# Computes with numbers inside the block, also in `jax.jit`.
eagerly: Callable[[], contextlib.AbstractContextManager[Any]] = (
    jax.ensure_compile_time_eval
)


def scan(
    step: Callable, carry: Nested, inputs: Nested, reverse: bool = False
) -> tuple[Nested, Nested]:
    """Carries a state over axis 0 of the inputs, and stacks the outputs."""
    return jax.lax.scan(step, carry, inputs, reverse=reverse)


def compiled(
    function: Callable[..., Nested], *, jit: bool, donated: bool
) -> Callable[..., Nested]:
    """Compiles a function of structures of tensors by XLA, for each new shape.

    The variables that the function reads become arguments of the compiled function, so
    that it follows later training.
    """
    variables = {}  # those that the function has read, by id

    @jax.jit
    def call(values: list[Tensor], args: tuple[Nested, ...]) -> Nested:
        known = list(variables.values())
        with _Reading(variables, zip(known, values, strict=True)):
            return function(*args)

    def weights_read_anew(*args: Nested) -> Nested:
        if not variables:
            with _Reading(variables):
                jax.eval_shape(function, *args)
        while True:
            values = [v.value for v in variables.values()]
            outputs = call(values, args)
            # A new shape may have read another weight. Compiled once more, that weight
            # is an argument, not a constant.
            if len(values) == len(variables):
                return outputs

    return weights_read_anew


class _Reading(keras.StatelessScope):
    """Collects every variable that is read."""

    def __init__(
        self,
        variables: dict[int, keras.Variable],
        values: Iterable[tuple[keras.Variable, Tensor]] = (),
    ) -> None:
        super().__init__(state_mapping=list(values))
        self.variables = variables

    def get_current_value(self, variable: keras.Variable) -> Tensor | None:
        self.variables.setdefault(id(variable), variable)
        return super().get_current_value(variable)


def gradients(function: Callable[..., Nested], arguments: Nested) -> Nested:
    """Computes the gradients of a scalar function, of the shapes of the arguments."""
    return jax.grad(function)(arguments)


def with_gradient(forward: Callable, backward: Callable) -> Callable:
    """Returns a function `(tensors, fixed) -> y` whose gradient is `backward`."""

    @jax.custom_vjp
    def call(tensors: dict[str, Tensor], fixed: Nested) -> Tensor:
        return forward(tensors, fixed)[0]

    def run(tensors, fixed):
        y, saved = forward(tensors, fixed)
        return y, (tensors, fixed, saved)

    def gradient(kept, G):
        return backward(*kept, G), None

    call.defvjp(run, gradient)
    return call


def output_specs(function: Callable[..., Nested], *args: Nested) -> Nested:
    """Infers shapes and dtypes of what a function returns, without running it."""
    return jax.eval_shape(function, *args)


def default_jit_compile() -> bool:
    """Returns whether models compile with XLA if not told: always."""
    return True


def has_cudnn() -> bool:
    """Returns whether JAX has a GPU."""
    return any(device.platform == "gpu" for device in jax.local_devices())


def is_concrete(value: Tensor) -> bool:
    """Returns whether a tensor holds numbers, and is no tracer."""
    return not isinstance(value, jax.core.Tracer)


def fused_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """Attends with q `(B, T, N, K)` to k and v `(B, S, N, K)`; options as in Keras.

    There are two exceptions for XLA on a CPU.
    """
    if not options["is_causal"] and _is_one_query(q, k, v):
        return _one_query(q, k, v, options["scale"], options["bias"], options["mask"])
    if q.dtype == k.dtype == v.dtype and _is_half_on_cpu(q):
        q, k, v = (ops.cast(x, "float32") for x in (q, k, v))
        return ops.cast(ops.dot_product_attention(q, k, v, **options), "float16")
    return ops.dot_product_attention(q, k, v, **options)


def _is_one_query(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Returns whether it is one step of generating one text on a CPU, in float32."""
    kinds = {keras.backend.standardize_dtype(x.dtype) for x in (q, k, v)}
    is_one = tuple(q.shape[:2]) == (1, 1) and k.shape[0] == 1
    return is_one and kinds == {"float32"} and jax.default_backend() == "cpu"


def _is_half_on_cpu(x: Tensor) -> bool:
    """Returns whether JAX cannot compile it: no CPU has the precision it asks for."""
    is_half = keras.backend.standardize_dtype(x.dtype) == "float16"
    return is_half and jax.default_backend() == "cpu"


def _one_query(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    bias: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Attends head by head: in one product for all heads XLA copies all keys."""

    def of_head(x: Tensor, n: int) -> Tensor:
        """Returns the scores `(S,)` of one head, from `(1, N or 1, 1, S)`."""
        return x[0, n if x.shape[1] > 1 else 0, 0]

    heads = []
    for n in range(q.shape[2]):
        e = (k[0, :, n] @ q[0, 0, n]) * scale  # (S,)
        if bias is not None:
            e = e + of_head(bias, n)
        if mask is not None:
            e = ops.where(of_head(mask, n), e, ops.cast(-1e30, e.dtype))
        heads.append(jax.nn.softmax(e) @ v[0, :, n])  # Keras' warns about one key
    return ops.stack(heads)[None, None]


@contextlib.contextmanager
def keep_variables(model: keras.Model) -> Iterator[None]:
    """Keeps variables as `kernels.keep_variables` does."""
    variables = [*model.variables, *model.metrics_variables]
    if getattr(model, "optimizer", None) is not None:  # of a compiled model
        variables += model.optimizer.variables
    kept = [(variable, variable.value) for variable in variables]
    try:
        yield
    except BaseException:
        for variable, value in kept:
            if not value.is_deleted():  # a step of training deletes its inputs
                variable.assign(value)
        model.jax_state_sync()  # the values after the last step, if there was one
        raise


def running_maximum(x: Tensor) -> Tensor:
    """Returns the maximum of each step and those before, `(B, T, ...)`."""
    return jax.lax.cummax(x, axis=1)


def add_to_rows(table: keras.Variable, rows: Tensor, values: Tensor) -> None:
    """Adds values `(*rows.shape, ...)` to the rows of a table `(V, ...)` in place."""
    table.assign(table.value.at[rows].add(values))


def train_steps(
    model: keras.Model, step: Callable[[Nested], None], state: State, data: Nested
) -> tuple[Any, State]:
    """Runs a step for each update on axis 0 of the data; returns metrics and state.

    The loop carries the values of all variables, which XLA updates in place.
    """
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )

    def scope_of(state: State) -> keras.StatelessScope:
        pairs = zip(groups, state, strict=True)
        mapping = [
            p for group, values in pairs for p in zip(group, values, strict=True)
        ]
        return keras.StatelessScope(state_mapping=mapping)

    def body(state: State, part: Nested) -> tuple[State, None]:
        with scope_of(state) as scope:
            step(part)
        return tuple(
            [scope.get_current_value(v) for v in group] for group in groups
        ), None

    state, _ = jax.lax.scan(body, tuple(map(list, state)), data)
    with scope_of(state):
        return model.get_metrics_result(), state
