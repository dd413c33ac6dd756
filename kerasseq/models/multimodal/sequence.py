r"""One sequence of tokens of several kinds, and which of them see which.

With "apart" a token sees those of its own kind, so that one pass through the blocks
gives what a pass for each kind would. With "prefix" the last kind is written, words or
tokens of a picture. All that come before it see each other, and what is written sees
them, itself and what was written before it:

$$
M_{qk} = [k \le P] \;\lor\; [q > P \wedge k \le q]
$$

with P tokens before them. The kinds share the blocks as in "VATT" (Akbari et al.
2021) and "LIMoE" (Mustafa et al. 2022); the prefix is that of Raffel et al. 2020.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor

VIEWS = ("apart", "prefix")


@register
class KindVector(Layer):
    """Adds a learned vector, which says of which kind tokens are.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.

    Returns:
        `(B, T, D)`.

    Examples:
        >>> layer = KindVector()
        >>> keras.ops.shape(layer(np.zeros((2, 3, 5)))), layer.count_params()
        ((2, 3, 5), 5)
    """

    @passes_on(Layer)
    def __init__(self, **kwargs: Any) -> None:
        self.supports_masking = True

    def build(self, shape: Shape) -> None:
        self.vector: keras.Variable = self.add_weight(
            name="vector", shape=(shape[-1],), initializer="random_normal"
        )
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        return x + ops.convert_to_tensor(self.vector)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


@register
class JoinKinds(Layer):
    """Joins tokens of several kinds to one sequence.

    Args:
        view: "apart": tokens see those of their kind; or "prefix": the last kind is
            written, and its tokens see the other kinds and those before them.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        tokens: For each kind `(B, T_i, D)`.
        real: For each kind boolean `(B, T_i)`, True at real tokens.

    Returns:
        The tokens `(B, T, D)`, which of them are real, boolean `(B, T)`, and which see
        which, boolean `(B, T, T)`, queries in rows.

    Examples:
        >>> x, real = np.zeros((1, 2, 3)), np.ones((1, 2), bool)
        >>> _, _, attend = JoinKinds("prefix")([x, x], [real, real])
        >>> keras.ops.convert_to_numpy(attend)[0].astype(int).tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
        >>> _, _, attend = JoinKinds("apart")([x, x], [real, real])
        >>> keras.ops.convert_to_numpy(attend)[0].astype(int).tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """

    @passes_on(Layer)
    def __init__(self, view: str = "apart", **kwargs: Any) -> None:
        self.view: str = checks.one_of("view", view, VIEWS)
        self.built = True

    def call(
        self, tokens: Sequence[Tensor], real: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = ops.concatenate(tokens, axis=1)  # (B, T, D)
        real = [ops.cast(each, "bool") for each in real]
        kinds = [
            ops.ones_like(each, "int32") * n for n, each in enumerate(real)
        ]  # of each token
        kind = ops.concatenate(kinds, axis=1)
        query, key = kind[:, :, None], kind[:, None, :]
        if self.view == "apart":
            attend = ops.equal(query, key)
        else:
            last = len(real) - 1
            at = ops.cumsum(ops.ones_like(kind), axis=1)
            earlier = at[:, None, :] <= at[:, :, None]
            is_written = ops.equal(query, last)
            attend = (key < last) | (is_written & earlier)
        return x, ops.concatenate(real, axis=1), attend

    def compute_output_shape(
        self, tokens_shape: Sequence[Shape], real_shape: Sequence[Shape]
    ) -> tuple[Shape, Shape, Shape]:
        times = [shape[1] for shape in tokens_shape]
        T = None if None in times else sum(times)
        B, _, D = tokens_shape[0]
        return (B, T, D), (B, T), (B, T, T)

    def compute_output_spec(
        self, tokens: Sequence[keras.KerasTensor], real: Sequence[keras.KerasTensor]
    ) -> tuple[keras.KerasTensor, ...]:
        shapes = self.compute_output_shape(
            [x.shape for x in tokens], [x.shape for x in real]
        )
        dtypes = self.compute_dtype, "bool", "bool"
        return tuple(
            keras.KerasTensor(shape, dtype=dtype)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        )


@register
class SplitKinds(Layer):
    """Splits a sequence of tokens of several kinds.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        real: For each kind `(B, T_i)`, whose lengths are used.

    Returns:
        A list of `(B, T_i, D)`.

    Examples:
        >>> real = [np.ones((1, 2)), np.ones((1, 3))]
        >>> first, second = SplitKinds()(np.ones((1, 5, 2)), real)
        >>> keras.ops.shape(first), keras.ops.shape(second)
        ((1, 2, 2), (1, 3, 2))
    """

    @passes_on(Layer)
    def __init__(self, **kwargs: Any) -> None:
        self.built = True

    def call(self, x: Tensor, real: Sequence[Tensor]) -> list[Tensor]:
        parts, start = [], 0
        for each in real:
            end = start + ops.shape(each)[1]
            parts.append(x[:, start:end])
            start = end
        return parts
