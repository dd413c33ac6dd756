"""Loops, compiled functions and gradients on JAX."""

import contextlib
from collections.abc import Callable, Iterable, Iterator

import jax
import keras

from kerasseq.core.types import Nested, Tensor


def scan(
    step: Callable, carry: Nested, inputs: Nested, reverse: bool = False
) -> tuple[Nested, Nested]:
    """See `kerasseq.kernels.scan`."""
    return jax.lax.scan(step, carry, inputs, reverse=reverse)


def compiled(
    function: Callable[..., Nested], *, jit: bool, donated: bool, pure: bool
) -> Callable[..., Nested]:
    """See `kerasseq.kernels.compiled`.

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


def plain(function: Callable[..., Nested]) -> Callable[..., Nested]:
    """Returns the function, without gradients: its arguments become tensors."""

    def call(*args: Nested) -> Nested:
        return function(*keras.tree.map_structure(keras.ops.convert_to_tensor, args))

    return call


def inference(model: keras.Model, pure: bool) -> Callable[[list[Tensor]], Nested]:
    """See `kerasseq.kernels.inference`."""

    @jax.jit
    def call(
        trained: list[Tensor], other: list[Tensor], inputs: list[Tensor]
    ) -> Nested:
        return model.stateless_call(trained, other, inputs, training=False)[0]

    def function(inputs):
        weights = (model.trainable_variables, model.non_trainable_variables)
        return call(*([v.value for v in variables] for variables in weights), inputs)

    return function


def gradients(function: Callable[..., Nested], arguments: Nested) -> Nested:
    """See `kerasseq.kernels.gradients`."""
    return jax.grad(function)(arguments)


def output_specs(function: Callable[..., Nested], *args: Nested) -> Nested:
    """See `kerasseq.kernels.output_specs`."""
    return jax.eval_shape(function, *args)


def default_jit_compile() -> bool:
    """See `kerasseq.kernels.default_jit_compile`."""
    return True


def has_cudnn() -> bool:
    """See `kerasseq.kernels.has_cudnn`."""
    return any(device.platform == "gpu" for device in jax.local_devices())


def is_concrete(value: Tensor) -> bool:
    """See `kerasseq.kernels.is_concrete`."""
    return not isinstance(value, jax.core.Tracer)


@contextlib.contextmanager
def keep_variables(model: keras.Model) -> Iterator[None]:
    """As `kernels.keep_variables`."""
    variables = [*model.variables, *model.metrics_variables]
    if model.optimizer is not None:
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
    """See `kerasseq.kernels.running_maximum`."""
    return jax.lax.cummax(x, axis=1)


def eagerly() -> contextlib.AbstractContextManager[None]:
    """Computes with numbers inside the block, also where a function is traced."""
    return jax.ensure_compile_time_eval()
