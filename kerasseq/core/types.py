"""Names of types that annotations share. Imports neither Keras nor NumPy."""

import os
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

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

# What layers make of it.
Initializer: TypeAlias = Callable[..., Any] | None
Regularizer: TypeAlias = Callable[[Tensor], Tensor] | None
Constraint: TypeAlias = Callable[[Tensor], Tensor] | None
Activation: TypeAlias = Callable[[Tensor], Tensor]

# Where a file is.
FilePath: TypeAlias = str | os.PathLike[str]

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Method: TypeAlias = Callable[Concatenate[Any, Any, P], Any]


class OneOrSeveral(Protocol[P, T]):
    """A method that returns one result for a text, and a list for a list of texts."""

    @overload
    def __call__(self, text: str, /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def __call__(
        self, texts: list[str], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[T]: ...
    @overload  # ids, arrays, columns of tables; the first argument by its name
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class _Typed(Protocol[T]):
    def __call__(self, method: "Method[P]", /) -> OneOrSeveral[P, T]: ...


def one_or_several(result: type[T]) -> _Typed[T]:
    """Tells type checkers what a method returns for a text, and for a list of texts.

    The method itself is not changed.

    Args:
        result: The type of the result for one text.
    """
    return lambda method: method


def method_of(function: F) -> Callable[[Any], F]:
    """Makes a function a method, in place of an empty one: its `self` is the model.

    Type checkers then know the arguments, which they do not infer for an attribute.
    """
    return lambda method: function
