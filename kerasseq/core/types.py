"""Names of types that annotations share. Imports neither Keras nor NumPy."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

# A tensor of the backend, a symbolic tensor or a variable of Keras, or an array. Any,
# as the tensors of the backends have no common type, and Keras declares none.
Tensor: TypeAlias = Any

# A tensor, or tensors in lists, tuples and dictionaries in one another.
Nested: TypeAlias = Any

# A dtype of Keras by its name, of NumPy or of the backend.
DType: TypeAlias = Any

# The sizes of the axes; None where a size is known only when the graph runs.
Shape: TypeAlias = tuple[int | None, ...]

# What `get_config` returns: the arguments of a constructor, as plain data.
Config: TypeAlias = dict[str, Any]

# An activation, initializer, regularizer or constraint: its name, its config or the
# function itself.
Identifier: TypeAlias = str | Config | Callable[..., Any] | None

# Where a file is.
FilePath: TypeAlias = str | os.PathLike[str]
