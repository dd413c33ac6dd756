"""The order of operations in TensorFlow's loop, and its rounds of several steps."""

import itertools

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "tensorflow":
    pytest.skip("TensorFlow's own loop", allow_module_level=True)

import tensorflow as tf

from kerasseq.kernels.tensorflow import loop as tensorflow_loop
from kerasseq.kernels.tensorflow.loop import InOrder, loop

pytestmark = pytest.mark.everywhere("kernels differ between backends")


def before(op):
    """All operations that an operation waits for."""
    seen, todo = set(), [op]
    while todo:
        now = todo.pop()
        todo += {*(x.op for x in now.inputs), *now.control_inputs} - seen
        seen.add(now)
    return seen - {op}


def test_operations_wait_for_each_other():
    @tf.function(autograph=False)
    def traced():
        do = InOrder()
        x = tf.zeros((2, 3))
        results = [do.tanh(x), do.sigmoid(x), do.split(x, 3, 1)[0]]
        results += [do(lambda a: tf.exp(a) + 1, x)]
        results += [do(tf.TensorArray(tf.float32, 2).write, 0, x).flow, do.add(x, x)]
        operations = [r.op for r in results]
        for earlier, later in itertools.pairwise(operations):
            assert earlier in before(later)
        assert operations[0] not in before(tf.tanh(x).op)
        return x

    traced()


@pytest.mark.parametrize("at_once", [1, 4, None], ids=["1", "4", "xla"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("reverse", [True, False], ids=["reverse", ""])
def test_rounds_of_several_steps_are_the_steps(reverse, known, at_once, monkeypatch):
    monkeypatch.setattr(tensorflow_loop, "AT_ONCE", at_once or 4)

    def run(steps):
        places = tf.range(steps, dtype="float32")
        array = tf.TensorArray("float32", steps, clear_after_read=False)
        inputs = [places[:, None, None], array.unstack(places)]

        def step(do, t, now, states):
            x, same = now
            h = do.add(do.multiply(states[0], 3.0), x)
            return [h], [h, do.add(h, 1.0 + same - tf.cast(t, "float32"))]

        (h,), arrays = loop(
            step,
            steps,
            [tf.ones((2, 1))],
            [1, 1],
            inputs,
            reverse=reverse,
            xla=at_once is None,
        )
        return h, [a.stack() for a in arrays]

    unknown = tf.function(run, input_signature=[tf.TensorSpec((), tf.int32)])
    for steps in (0, 1, 3, 4, 5, 8, 11):
        path, h = np.zeros((steps, 2, 1), "float32"), np.ones((2, 1), "float32")
        for t in reversed(range(steps)) if reverse else range(steps):
            path[t] = h = 3 * h + t
        last, written = tf.function(run)(steps) if known else unknown(steps)
        for expected, found in zip((h, path, path + 1), (last, *written), strict=True):
            np.testing.assert_array_equal(found, expected)
