"""What XLA computes again on TensorFlow, by the operations of its program."""

import re

import pytest

from kerasseq.core import backend

if backend.chosen() != "tensorflow":
    pytest.skip("programs of TensorFlow", allow_module_level=True)

import tensorflow as tf

from kerasseq import kernels

pytestmark = pytest.mark.everywhere("programs of TensorFlow")


def block(inputs, weights):
    p = tf.nn.softmax(kernels.matmul(inputs[0], weights[0]))
    # A sum along time is in no fusion, which could compute p twice by itself.
    return [kernels.matmul(tf.cumsum(p, axis=-1), weights[1])], []


def counts(mode):
    """Products and exponentials of two blocks and their gradient."""
    run = block if mode is None else kernels.rematerialized(block, mode)

    @tf.function(jit_compile=True)
    def step(*given):
        x, *weights = given
        with tf.GradientTape() as tape:
            tape.watch(given)
            for _ in range(2):
                (x,), _ = run([x], weights)
            loss = tf.reduce_sum(x**2)
        return tape.gradient(loss, given)

    given = tf.ones((3, 5, 7)), tf.ones((7, 11)), tf.ones((11, 7))
    program = step.experimental_get_compiler_ir(*given)(stage="optimized_hlo")
    return [len(re.findall(rf" {name}\(", program)) for name in ("dot", "exponential")]


def test_xla_computes_again_what_is_not_kept():
    products, exponentials = counts(None)
    assert counts("activations") == [products, 2 * exponentials]
    # The last product of a block is its output, which no gradient reads.
    assert counts("full") == [products + 2, 2 * exponentials]
