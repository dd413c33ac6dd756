"""Programs of `torch.export`."""

import pathlib
from collections.abc import Callable

import keras
import torch

from kerasseq.core.types import Nested

EXAMPLE = (3, 7)  # batch and steps of what is recorded: neither may be 1


def write_program(model: keras.Model, file: pathlib.Path, specs: Nested) -> None:
    """Writes a program of `torch.export`; sizes of None in `specs` are free."""
    free = torch.export.Dim.DYNAMIC

    def example(spec: keras.InputSpec) -> torch.Tensor:
        sizes = [
            EXAMPLE[axis > 0] if size is None else size
            for axis, size in enumerate(spec.shape)
        ]
        return keras.ops.ones(sizes, spec.dtype)

    x = keras.tree.map_structure(example, specs)
    shapes = keras.tree.map_structure(
        lambda spec: {axis: free for axis, n in enumerate(spec.shape) if n is None},
        specs,
    )
    try:
        with torch.no_grad():
            program = torch.export.export(
                model, (x,), dynamic_shapes=[(shapes,)], strict=False
            )
    except Exception as error:
        raise ValueError(f"torch.export: {error}") from error
    torch.export.save(program, file)


def read_program(file: pathlib.Path) -> Callable[[Nested], Nested]:
    """Returns the function in a file, of structures of tensors."""
    module = torch.export.load(file).module()

    def run(x: Nested) -> Nested:
        with torch.no_grad():
            return module(x)

    return run
