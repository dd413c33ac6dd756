"""The end-to-end memory network: several looks at a list answer a query."""

from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks, masks, objects
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_batches, check_mask, check_real
from kerasseq.core.types import Identifier, Initializer, Tensor

TIES = ("layer", "adjacent")
DEVIATIONS = {"layer": 0.3, "adjacent": 0.1}  # of the embeddings at the start
AXES = ("rows", "units")  # a unit of the weights is a place


@register
class MemoryNetwork(Layer):
    r"""Reads a memory several times to answer a query.

    A place of the memory has a key $x_i$ and a value $y_i$, ids or bags of ids. In hop
    $k$, from 1 to $K$,

    $$
    \begin{aligned}
    m_i &= A_k x_i, \quad c_i = C_k y_i \\
    p_i &= \operatorname{softmax}_i(u_k^\top m_i) \\
    u_{k+1} &= H u_k + \sum_i p_i c_i
    \end{aligned}
    $$

    with $u_1 = B q$ of the query q; the logits of the answer are $W u_{K+1}$. The
    matrices are embeddings, and a bag is the sum of those of its ids.

    | `tie` | weights |
    |---|---|
    | "layer" | $A$, $C$ and $H$ are those of all hops, as in a recurrent network |
    | "adjacent" | $A_{k+1} = C_k$, $B = A_1$, $W = C_K$, and $H = I$ |

    Args:
        vocabulary_size: Number of ids.
        dim: Size of an embedding.
        hops: How often the memory is read.
        tie: "layer" or "adjacent".
        mask_zero: Whether the id 0 is padding: it adds nothing to a bag, and a place
            whose key has no other id is not read.
        embeddings_initializer: Initializer of the embeddings. If None, normal with
            deviation 0.3 for "layer", and 0.1 for "adjacent".
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        query: Ids `(B,)`, or bags of them `(B, L)`.
        keys: Ids `(B, N)` of N places, or bags `(B, N, L)`.
        values: As `keys`; the keys if None.
        mask: Boolean `(B, N)`, False at places that are not read.
        return_attention_scores: Whether to return the weights of the places as well.

    Returns:
        Logits `(B, vocabulary_size)`; with `return_attention_scores` a tuple of them
        and of the weights `(B, hops, N)`, which are 0 if no place may be read.

    Raises:
        TypeError: If ids are not whole numbers.
        ValueError: If an argument is out of range, or shapes do not agree.

    Examples:
        >>> network = MemoryNetwork(vocabulary_size=7, dim=5, hops=2)
        >>> keys, values = np.array([[1, 2, 3]]), np.array([[2, 3, 4]])
        >>> logits, p = network(
        ...     np.array([1]), keys, values, return_attention_scores=True
        ... )
        >>> keras.ops.shape(logits), keras.ops.shape(p)
        ((1, 7), (1, 2, 3))

    References:
        Sukhbaatar, Szlam, Weston and Fergus, "End-To-End Memory Networks", 2015; keys
        beside values from Miller et al., "Key-Value Memory Networks", 2016. Slides A.
    """

    embeddings_initializer: Initializer | None

    @passes_on(Layer)
    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        hops: int,
        tie: str = "layer",
        *,
        mask_zero: bool = False,
        embeddings_initializer: Identifier = None,
        **kwargs: Any,
    ) -> None:
        self.vocabulary_size: int = checks.size("vocabulary_size", vocabulary_size)
        self.dim: int = checks.size("dim", dim)
        self.hops: int = checks.size("hops", hops)
        self.tie: str = checks.one_of("tie", tie, TIES)
        self.mask_zero: bool = checks.flag("mask_zero", mask_zero)
        checks.fits_memory("vocabulary_size", self.vocabulary_size, self.dim)

    def build(self, *shapes: Any, **others: Any) -> None:
        names = "ACBW"
        if self.tie == "adjacent":
            names = [f"E{n}" for n in range(self.hops + 1)]
        self.tables: list[keras.Variable] = [self._table(name) for name in names]
        self.H: keras.Variable | None = None
        if self.tie == "layer":
            size = (self.dim, self.dim)
            self.H = self.add_weight(name="H", shape=size, initializer="identity")

    def _table(self, name):
        normal = keras.initializers.RandomNormal(stddev=DEVIATIONS[self.tie])
        return self.add_weight(
            name=name,
            shape=(self.vocabulary_size, self.dim),
            initializer=objects.copy_initializer(self.embeddings_initializer) or normal,
        )

    def matrices(self) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
        """Returns $A_k$ and $C_k$ of all hops, $B$ and $W$."""
        if self.tie == "adjacent":
            return self.tables[:-1], self.tables[1:], self.tables[0], self.tables[-1]
        A, C, B, W = self.tables
        return [A] * self.hops, [C] * self.hops, B, W

    def call(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        values = keys if values is None else values
        query, keys, values = self._checked(query, keys, values, mask)
        real = None if mask is None else ops.cast(mask, "bool")
        if self.mask_zero:
            words = ops.not_equal(keys, 0)
            words = ops.any(words, axis=-1) if len(keys.shape) == 3 else words
            real = masks.intersect(real, words)
        A, C, B, W = self.matrices()
        u = self._embedded(B, query, bags=2)
        looks = []
        for k in range(self.hops):
            m, c = self._embedded(A[k], keys), self._embedded(C[k], values)
            p = masks.softmax(ops.einsum("bd,bnd->bn", u, m), real)
            p = tracing.record(self, f"alignment_{k + 1}", p, axes=AXES)
            looks.append(p)
            H = u if self.H is None else kernels.matmul(u, ops.transpose(self.H))
            u = H + ops.einsum("bn,bnd->bd", p, c)
            u = tracing.record(self, f"query_{k + 2}", u)
        logits = kernels.matmul(u, ops.transpose(W))
        if return_attention_scores:
            return logits, ops.stack(looks, axis=1)
        return logits

    def _embedded(self, table, ids, bags=3):
        """Returns the embeddings of ids, or the sums of those of bags."""
        vectors = ops.take(ops.cast(table, self.compute_dtype), ids, axis=0)
        if self.mask_zero:
            real = ops.cast(ops.not_equal(ids, 0), vectors.dtype)
            vectors = vectors * real[..., None]
        return ops.sum(vectors, axis=-2) if len(ids.shape) == bags else vectors

    def _checked(self, query, keys, values, mask):
        """Returns the ids, as integers."""
        given = {"query": query, "keys": keys, "values": values}
        ranks = {"query": (1, 2), "keys": (2, 3), "values": (2, 3)}
        for name, ids in given.items():
            given[name] = ids = ops.convert_to_tensor(ids)
            if len(ids.shape) not in ranks[name]:
                axes = "(batch,)", "(batch, places)", "(batch, places, words)"
                one, bag = (axes[rank - 1] for rank in ranks[name])
                raise ValueError(
                    f"{name} must be ids {one} or bags of them {bag}, received shape "
                    f"{tuple(ids.shape)}"
                )
            check_real(name, ids)
            if not keras.backend.is_int_dtype(ids.dtype):
                raise TypeError(
                    f"{name} must be integers, as they are ids, received a tensor of "
                    f"{keras.backend.standardize_dtype(ids.dtype)}"
                )
        shapes = {name: ids.shape for name, ids in given.items()}
        check_batches(**shapes)
        places = {shapes[name][1] for name in ("keys", "values")} - {None}
        if len(places) > 1:
            raise ValueError(
                "keys and values must have as many places, received shapes "
                f"{tuple(shapes['keys'])} and {tuple(shapes['values'])}"
            )
        check_mask("mask", mask, ("batch", "places"), shapes["keys"][:2])
        return (ops.cast(ids, "int32") for ids in given.values())

    def compute_output_spec(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        return_attention_scores: bool = False,
    ) -> Any:
        batch, places = keys.shape[:2]
        shapes = [(batch, self.vocabulary_size)]
        if return_attention_scores:
            shapes.append((batch, self.hops, places))
        specs = [keras.KerasTensor(shape, self.compute_dtype) for shape in shapes]
        return tuple(specs) if return_attention_scores else specs[0]
