r"""Vector quantization: each vector becomes the nearest of K learned codes.

$$
k = \arg\min_j \|z - e_j\|^2, \qquad q = e_k, \qquad
L = \beta\, \mathrm{mean}\, \|z - \mathrm{sg}(q)\|^2
$$

What comes after reads q; the gradient of q goes to z as it is (straight-through), and L
draws z to its code. The codes have no gradient: they are moving averages, see
`codebook`.
"""

from typing import Any

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.core import checks
from kerasseq.core.arguments import seed_generator
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.shapes import check_mask, check_numbers, check_shape, check_width
from kerasseq.core.types import Shape, Tensor
from kerasseq.models.picture_tokenizer import codebook
from kerasseq.training.code_perplexity import effective_number

NO_CODE = -1  # the id of a masked position
FIRST = 1e-3  # choices of each code at the start: fewer than in any batch


@register
class VectorQuantizer(Layer):
    r"""Replaces each vector by the nearest of K codes, which it learns.

    The codes are not trained by gradients. In training they move as the averages of
    the vectors that choose them, and codes that few choose are replaced by vectors of
    the batch, drawn in proportion to their error; so the first batch sets most codes.
    With `trainable=False`, and outside training, nothing moves.

    In training $\beta\, \mathrm{mean}\, (z - q)^2$ is added to the losses. The mean is
    over real positions and features, so that it does not depend on the batch size.

    Codes and averages are float32 in mixed precision as well.

    Args:
        num_codes: K.
        dim: D, the width of the inputs and of the codes.
        commitment: $\beta$.
        decay: $\gamma$, the share of the old in the moving averages.
        epsilon: $\epsilon$, added to the number of choices of each code.
        threshold: $\theta$. A code is dead, and replaced, if it is chosen less often
            than this share of the average code; 0 for never.
        seed: Seed of the first codes and of the draws.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`, or with any axes before the last.
        mask: Boolean, of the axes of x before the last; True at real positions. Others
            change neither the codes nor the loss, and their output is zero.
        training: Whether to add the loss and to move the codes.
        return_ids: Whether to return the ids, too.

    Returns:
        The codes, with the shape of x; with `return_ids` a pair of them and of int32
        ids, -1 at masked positions.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or x is not of width D.

    Examples:
        >>> layer = VectorQuantizer(3, 2, seed=0)
        >>> x = np.random.default_rng(0).normal(size=(1, 5, 2)).astype("float32")
        >>> ids = layer.encode(x)
        >>> keras.ops.shape(ids)
        (1, 5)
        >>> bool(keras.ops.all(layer.decode(ids) == layer(x)))
        True

    References:
        van den Oord, Vinyals and Kavukcuoglu, "Neural Discrete Representation
        Learning", 2017. Slides A.
    """

    @passes_on(Layer)
    def __init__(
        self,
        num_codes: int,
        dim: int,
        *,
        commitment: float = 0.25,
        decay: float = 0.99,
        epsilon: float = 1e-5,
        threshold: float = 0.02,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.num_codes: int = checks.size("num_codes", num_codes, 1)
        self.dim: int = checks.size("dim", dim, 1)
        checks.fits_memory("num_codes", self.num_codes, 2 * self.dim)
        self.commitment: float = checks.loss_factor("commitment", commitment)
        self.decay: float = checks.fraction("decay", decay)
        self.epsilon: float = checks.positive("epsilon", epsilon)
        self.threshold: float = checks.fraction("threshold", threshold)
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        self.seed_generator: keras.random.SeedGenerator = seed_generator(seed)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape, "(batch, features)", more=True)
        if shape[-1] != self.dim:
            raise ValueError(
                f"x must have dim={self.dim} features, received shape {tuple(shape)}. "
                f"Create the layer with dim={shape[-1]}, or project x"
            )
        K, D = self.num_codes, self.dim
        first = self.seed_generator.get_config()["seed"]
        e, N, M = (
            keras.initializers.RandomNormal(stddev=1.0, seed=first),
            keras.initializers.Constant(FIRST),
            keras.initializers.RandomNormal(stddev=FIRST, seed=first),  # N times e
        )
        self.codes: keras.Variable = self._average("codes", (K, D), e)
        self.counts: keras.Variable = self._average("counts", (K,), N)
        self.sums: keras.Variable = self._average("sums", (K, D), M)
        self.built = True

    def _average(self, name, shape, initializer):
        """Adds a weight without gradient, which Keras does not round in a call."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=initializer,
            dtype=scores_dtype(self.variable_dtype),
            trainable=False,
            autocast=False,
        )

    def call(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        training: bool = False,
        return_ids: bool = False,
    ) -> Any:
        z, real = self._vectors(x, mask)
        e = ops.convert_to_tensor(self.codes)
        k = codebook.nearest(ops.stop_gradient(z), e)  # (n,)
        q = ops.take(e, k, axis=0)
        if training:
            count = ops.maximum(ops.sum(real), 1) * self.dim
            loss = ops.sum(ops.square(z - q) * real[:, None]) / count
            self.add_loss(self.commitment * loss)
            if self.trainable:
                self._move(*map(ops.stop_gradient, (z, q, k, real)))
        ids = self._ids(k, real, x)
        tracing.record(self, "ids", ids)
        y = q + (z - ops.stop_gradient(z))  # q, with the gradient of z
        y = ops.reshape(y * real[:, None], ops.shape(x))
        y = tracing.record(self, "output", ops.cast(y, self.compute_dtype))
        return (y, ids) if return_ids else y

    def encode(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns the ids of vectors.

        Args:
            x: As for a call.
            mask: As for a call.

        Returns:
            int32, with the axes of x before the last; -1 at masked positions.
        """
        x = ops.convert_to_tensor(x)
        if not self.built:
            self.build(x.shape)
        z, real = self._vectors(x, mask)
        return self._ids(codebook.nearest(z, self.codes), real, x)

    def decode(self, ids: Tensor) -> Tensor:
        """Returns the codes of ids.

        Args:
            ids: Integers from 0 to K - 1 with any axes; -1 for a vector of zeros.

        Returns:
            Codes `(*ids.shape, D)`.
        """
        if not self.built:
            self.build((None, self.dim))
        ids = ops.convert_to_tensor(ids)
        none = ops.cast(ids == NO_CODE, ids.dtype)
        e = ops.take(ops.convert_to_tensor(self.codes), ids + none, axis=0)
        return ops.cast(ops.where(none[..., None] > 0, 0.0, e), self.compute_dtype)

    @property
    def perplexity(self) -> Tensor:
        """The effective number of codes that training chose of late."""
        return effective_number(ops.convert_to_tensor(self.counts))

    def _vectors(self, x, mask):
        """Vectors `(n, D)`, and 1 for real ones, else 0, `(n,)`, in float32."""
        check_numbers("x", x, "(batch, features)", more=True)
        check_width("x", x.shape, self.dim)
        z = ops.reshape(ops.cast(x, self.codes.dtype), (-1, self.dim))
        if mask is None:
            return z, ops.ones_like(z[:, 0])
        axes = ("batch", "time", *("axis",) * len(x.shape))[: len(x.shape) - 1]
        check_mask("mask", mask, axes, x.shape[:-1], broadcasts=False)
        real = ops.reshape(ops.cast(mask, "bool"), (-1,))
        # What is at masked positions may not be a number.
        z = ops.where(real[:, None], z, ops.zeros_like(z))
        return z, ops.cast(real, z.dtype)

    def _ids(self, k, real, x):
        """Ids with the axes of x before the last."""
        ids = ops.where(real > 0, k, NO_CODE)
        return ops.reshape(ids, ops.shape(x)[:-1])

    def _move(self, z, q, k, real):
        """Moves averages and codes by the vectors of a batch."""
        if z.shape[0] == 0:
            return
        averages = codebook.Averages(
            ops.convert_to_tensor(self.counts), ops.convert_to_tensor(self.sums)
        )
        averages = codebook.moved(averages, z, k, real, self.decay)
        if self.threshold:
            u = keras.random.uniform((), dtype=z.dtype, seed=self.seed_generator)
            error = ops.sum(ops.square(z - q), axis=-1) * real
            averages = codebook.replaced(averages, z, error, self.threshold, u)
        self.counts.assign(averages.N)
        self.sums.assign(averages.M)
        self.codes.assign(codebook.codes_of(averages, self.epsilon))

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape

    def compute_output_spec(
        self, x: Any, mask: Any = None, training: Any = None, return_ids: bool = False
    ) -> Any:
        y = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        ids = keras.KerasTensor(x.shape[:-1], dtype="int32")
        return (y, ids) if return_ids else y
