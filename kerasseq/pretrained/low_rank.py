r"""Products of two thin matrices, which adapters of other libraries cut differently.

PEFT has one A for a matrix that holds several kernels, such as that of queries, keys
and values of GPT-2; KerasHub has one B for all heads of a kernel. Both become products
of one kernel each without a change of what they compute.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kerasseq.core.dense import LoRA


@dataclasses.dataclass(frozen=True)
class Product:
    r"""The change $\frac{\alpha}{r} A B$ of a kernel.

    Attributes:
        A: `(d_in, r)`.
        B: `(r, d_out)`.
        alpha: $\alpha$.

    Examples:
        >>> Product(np.ones((3, 2)), np.ones((2, 5)), alpha=4).change().shape
        (3, 5)
    """

    A: np.ndarray
    B: np.ndarray
    alpha: float

    @property
    def rank(self) -> int:
        """The number r of columns of A."""
        return self.A.shape[1]

    def change(self) -> np.ndarray:
        """Returns what is added to the kernel, `(d_in, d_out)`."""
        return self.A @ self.B * (self.alpha / self.rank)

    def settings(self, dropout: float) -> LoRA:
        """Returns the settings of an adapter with these matrices."""
        return LoRA(self.rank, self.alpha, dropout)

    def split(self, widths: Sequence[int]) -> "list[Product]":
        """Returns the products of kernels side by side: each has the same A.

        Examples:
            >>> whole = Product(np.ones((3, 2)), np.ones((2, 9)), alpha=2)
            >>> [part.B.shape for part in whole.split([4, 5])]
            [(2, 4), (2, 5)]
        """
        parts = np.split(self.B, np.cumsum(widths)[:-1], axis=1)
        return [Product(self.A, B, self.alpha) for B in parts]

    def within_width(self) -> "Product":
        """Returns the same change at a rank of at most the smaller width.

        Examples:
            >>> Product(np.ones((3, 7)), np.ones((7, 5)), alpha=7).within_width().rank
            3
        """
        d_in, d_out = self.A.shape[0], self.B.shape[1]
        limit = min(d_in, d_out)
        if self.rank <= limit:
            return self
        alpha, whole = self.alpha / self.rank * limit, self.A @ self.B
        one = np.eye(limit, dtype=whole.dtype)
        return Product(*((one, whole) if d_in <= d_out else (whole, one)), alpha)


def join(parts: Sequence[Product | None], widths: Sequence[int]) -> Product:
    r"""Returns one product for kernels side by side.

    Kernels with the same A keep it. Otherwise the ranks add up, and with them $\alpha$:
    B has a block for each kernel, and is 0 elsewhere.

    Args:
        parts: The product of each kernel, or None for a kernel without one.
        widths: The number of columns of each kernel.

    Examples:
        >>> a, b = (Product(np.full((3, r), r), np.ones((r, 4)), r) for r in (1, 2))
        >>> whole = join([a, None, b], [4, 4, 4])
        >>> whole.rank, whole.alpha, whole.B.shape
        (3, 3, (3, 12))
        >>> join(whole.split([4, 4, 4]), [4, 4, 4]).rank
        3
    """
    known = [part for part in parts if part is not None]
    first = known[0]
    if len(known) == len(parts) and all(_is_alike(part, first) for part in known):
        return Product(first.A, np.concatenate([p.B for p in known], 1), first.alpha)
    scale, ends = first.alpha / first.rank, np.cumsum(widths)
    is_one_scale = all(part.alpha / part.rank == scale for part in known)
    rank = sum(part.rank for part in known)
    B, row = np.zeros((rank, ends[-1]), first.B.dtype), 0
    for part, width, end in zip(parts, widths, ends, strict=True):
        if part is not None:
            factor = 1 if is_one_scale else part.alpha / part.rank / scale
            B[row : row + part.rank, end - width : end] = part.B * factor
            row += part.rank
    alpha = sum(p.alpha for p in known) if is_one_scale else scale * rank
    return Product(np.concatenate([part.A for part in known], 1), B, alpha)


def _is_alike(one, other):
    return one.alpha == other.alpha and np.array_equal(one.A, other.A)


def of_heads(A: np.ndarray, B: np.ndarray, d_in: int) -> Product:
    """Returns the product of Keras' matrices, with an A for each head and one B.

    Its rank is heads · r, and B has a block for each head. Keras' factor is 1.

    Args:
        A: `(*I, heads, r)`, or `(*I, r)` if there is one.
        B: `(r, d_head)`.
        d_in: The product of the axes I.

    Examples:
        >>> product = of_heads(np.ones((5, 3, 2)), np.ones((2, 7)), 5)
        >>> product.A.shape, product.B.shape, product.alpha
        ((5, 6), (6, 21), 6)
    """
    A = A.reshape(d_in, -1)
    heads = A.shape[1] // B.shape[0]
    return Product(A, np.kron(np.eye(heads, dtype=B.dtype), B), A.shape[1])
