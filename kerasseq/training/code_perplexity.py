r"""The perplexity of ids: how many codes of a codebook are in use.

$$
\exp\Big(-\sum_k p_k \ln p_k\Big)
$$

where $p_k$ is the share of code k: K if all are equally frequent, 1 if there is one.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor


def effective_number(counts: Tensor) -> Tensor:
    r"""Returns the effective number of codes.

    Args:
        counts: How often each code occurs, `(K,)`.

    Examples:
        >>> round(float(effective_number(np.array([3.0, 3.0, 0.0]))), 4)
        2.0
    """
    p = ops.divide_no_nan(counts, ops.sum(counts))
    return ops.exp(-ops.sum(p * ops.log(ops.where(p > 0, p, ops.ones_like(p)))))


@register
class CodePerplexity(ListedConfig, keras.metrics.Metric):
    r"""Computes the effective number of codes, $\exp(-\sum_k p_k \ln p_k)$, of ids.

    Args:
        num_codes: K.
        name: Name of the metric.
        dtype: Dtype of the computation.

    Examples:
        >>> metric = CodePerplexity(5)
        >>> metric.update_state(np.array([[3, 1, -1]]))  # -1 at masked positions
        >>> round(float(metric.result()), 4)
        2.0
    """

    def __init__(
        self,
        num_codes: int,
        name: str | None = "perplexity",
        dtype: str | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a string, received {checks.short(name)}")
        super().__init__(name=name, dtype=dtype)
        self.num_codes: int = checks.size("num_codes", num_codes, 1)
        self.counts: keras.Variable = self.add_weight(
            name="counts", shape=(self.num_codes,), initializer="zeros"
        )

    def update_state(self, ids: Any, sample_weight: Any = None) -> None:
        """Counts ids.

        Args:
            ids: Integers of any shape; negative ones do not count.
            sample_weight: Weight of each id, or of each row; or None.
        """
        ids = ops.convert_to_tensor(ids)
        weight = ops.cast(ids >= 0, self.dtype)
        if sample_weight is not None:
            given = ops.cast(sample_weight, self.dtype)
            missing = (1,) * (len(ids.shape) - len(given.shape))
            weight = weight * ops.reshape(given, (*ops.shape(given), *missing))
        ids = ops.reshape(ops.maximum(ids, 0), (-1,))
        counts = ops.segment_sum(
            ops.reshape(weight, (-1,)), ids, num_segments=self.num_codes
        )
        self.counts.assign_add(counts)

    def result(self) -> Tensor:
        return effective_number(ops.convert_to_tensor(self.counts))
