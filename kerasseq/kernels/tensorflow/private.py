"""Names of TensorFlow that are not public: all that kerasseq uses, and why.

It says in which versions of TensorFlow each is known, and what happens without it. The
tests run without each of them.
"""

import contextlib

import tensorflow as tf


def for_xla() -> bool:
    """Returns whether XLA compiles the function that is traced now.

    Name: `tensorflow.python.ops.control_flow_util.GraphOrParentsInXlaContext`.
    Known in: TensorFlow 2.16 to 2.21.
    Why: Without XLA each operation costs time; within it, each value used twice.
    Without it: The answer is True: that loop is right with and without XLA.
    """
    try:
        from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
    except ImportError:
        return True
    return GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def stop_recording() -> contextlib.AbstractContextManager[None]:
    """Keeps gradient tapes from recording the operations inside the block.

    Name: `tensorflow.python.eager.record.stop_recording`.
    Known in: TensorFlow 2.13 to 2.21.
    Why: What is computed again in the backward pass must not be kept by the tape.
    Without it: Results are the same; an uncompiled model keeps it.
    """
    try:
        from tensorflow.python.eager.record import stop_recording as block
    except ImportError:
        return contextlib.nullcontext()
    return block()
