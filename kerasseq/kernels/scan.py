"""One loop over time for the three backends.

`keras.ops.scan` is not used: on TensorFlow it drops outputs that differ from the carry
in structure, and its gradient fails under `jit_compile=True`.
"""

import importlib

import keras
from keras import ops, tree


def scan(step, carry, inputs, *, unroll: bool = False, reverse: bool = False):
    """Carry a state through time and stack what each step gives.

    Args:
        step: Function `(carry, inputs_t) -> (carry, outputs_t)`. The carry keeps its
            structure, shapes and types; `outputs_t` is any structure of tensors.
        carry: Structure of tensors, the state before the first step.
        inputs: Structure of tensors with time on axis 0, of one length, at least 1.
        unroll: Write the steps out one by one; the length must then be known.
        reverse: Start from the last step. The outputs stay in the order of the inputs.

    Returns:
        The carry after the last step, and the outputs with time on axis 0.

    Raises:
        ValueError: If the length is 0, or unknown when `unroll` is set.

    Examples:
        >>> def add(total, x):
        ...     return total + x, total + x
        >>> total, sums = scan(add, np.float32(0), np.array([1, 2, 3], "float32"))
        >>> float(total), keras.ops.convert_to_numpy(sums).tolist()
        (6.0, [1.0, 3.0, 6.0])
    """
    inputs = tree.map_structure(ops.convert_to_tensor, inputs)
    carry = tree.map_structure(ops.convert_to_tensor, carry)
    length = tree.flatten(inputs)[0].shape[0]
    if length == 0:
        raise ValueError("the sequence has length 0: there must be at least one step")
    if unroll and length is None:
        raise ValueError("unroll=True needs a number of steps that is known in advance")
    # One step needs no loop, and a loop would be compiled anew at each eager call.
    if unroll or length == 1:
        return step_by_step(step, carry, inputs, reverse)
    module = importlib.import_module(f"kerasseq.kernels.{keras.backend.backend()}_scan")
    return module.scan(step, carry, inputs, reverse)


def step_by_step(step, carry, inputs, reverse=False):
    """The definition: a Python loop. The others must give the same."""
    per_step = list(zip(*(ops.unstack(x) for x in tree.flatten(inputs)), strict=True))
    order = slice(None, None, -1 if reverse else 1)
    outputs = []
    for flat_t in per_step[order]:
        carry, output = step(carry, tree.pack_sequence_as(inputs, list(flat_t)))
        outputs.append(output)
    return carry, tree.map_structure(lambda *steps: ops.stack(steps), *outputs[order])
