"""Recomputation in the backward pass on TensorFlow, by a gradient of its own.

`tf.recompute_grad` takes no boolean tensors and has no policy.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import keep_product
from kerasseq.kernels.tensorflow.private import stop_recording


def rematerialized(function: Callable, mode: str) -> Callable:
    """Returns a function of two lists of tensors whose backward pass keeps less.

    `mode` is "full" to keep its arguments alone, "activations" for products as well.
    """

    def call(inputs: list[Tensor], weights: list[Tensor]) -> Any:
        others, n = [], len(inputs)
        products = _Products(mode == "activations")

        @tf.custom_gradient
        def run(*given: Tensor) -> Any:
            with stop_recording(), products.kept():
                outputs, rest = function([*given[:n]], [*given[n:]])
            others.extend(map(tf.stop_gradient, rest))

            def gradient(*upstream: Tensor) -> list[Tensor]:
                with tf.GradientTape() as tape:
                    again = [*_after(upstream, given[:n]), *map(tf.identity, given[n:])]
                    floats = [x for x in again if x.dtype.is_floating]
                    tape.watch(floats)
                    with tf.control_dependencies(upstream), products.replaced(upstream):
                        outputs, _ = function(again[:n], again[n:])
                inner = tape.gradient(
                    outputs,
                    floats,
                    [*upstream],
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
                each = iter(inner)
                return [
                    tf.convert_to_tensor(next(each)) if x.dtype.is_floating else None
                    for x in again
                ]

            return tuple(outputs), gradient

        outputs = run(*inputs, *weights)
        return [*outputs], others

    return call


def _after(upstream, tensors):
    """Returns the tensors, which XLA cannot have before the gradient of the outputs.

    Otherwise XLA finds that the same is computed twice, and keeps the first result.
    """
    first = tf.reshape(upstream[0], [-1])[:1]
    zero = tf.reduce_sum(tf.minimum(tf.abs(first), 0))
    return [x + tf.cast(zero, x.dtype) if x.dtype.is_floating else x for x in tensors]


class _Products:
    """The products of a function, which are computed once."""

    def __init__(self, are_kept: bool) -> None:
        self.are_kept = are_kept
        self.earlier: list[Tensor] = []

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Appends the products inside the block."""
        graph = _graph()

        def append(product: Tensor) -> Tensor:
            if graph is _graph():  # not of the body of a loop
                self.earlier.append(product)
            return product

        with _keeping(append if self.are_kept else None):
            yield

    @contextlib.contextmanager
    def replaced(self, upstream: Sequence[Tensor]) -> Iterator[None]:
        """Replaces the products inside the block by those that were found before.

        What is computed from them waits for the gradient of the outputs, too.
        """
        graph, earlier = _graph(), iter(_after(upstream, self.earlier))

        def replace(product: Tensor) -> Tensor:
            return _same(next(earlier), product) if graph is _graph() else product

        with _keeping(replace if self.are_kept else None):
            yield


@contextlib.contextmanager
def _keeping(keep):
    token = keep_product.set(keep)
    try:
        yield
    finally:
        keep_product.reset(token)


def _graph():
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def _same(earlier, product):
    """Returns a product that was found before, with the gradient of one computed again.

    In a graph nothing reads the value of the latter, and it is not computed.
    """

    @tf.custom_gradient
    def value(product):
        return tf.identity(earlier), lambda upstream: upstream

    return value(product)
