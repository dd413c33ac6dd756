"""The loop over time as a Python loop."""

from collections.abc import Callable

from keras import ops, tree

from kerasseq.core.types import Nested


def scan(
    step: Callable, carry: Nested, inputs: Nested, reverse: bool = False
) -> tuple[Nested, Nested]:
    """Carries a state over axis 0 of the inputs, and stacks the outputs."""
    per_step = list(zip(*(ops.unstack(x) for x in tree.flatten(inputs)), strict=True))
    order = slice(None, None, -1 if reverse else 1)
    outputs = []
    for flat_t in per_step[order]:
        carry, output = step(carry, tree.pack_sequence_as(inputs, list(flat_t)))
        outputs.append(output)
    return carry, tree.map_structure(lambda *steps: ops.stack(steps), *outputs[order])
