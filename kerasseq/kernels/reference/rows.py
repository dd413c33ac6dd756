"""The definition of `kerasseq.kernels.add_to_rows`."""

from keras import ops

from kerasseq.core.types import Tensor


def add_to_rows(table: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """Returns a table with values added to its rows, by a sum as large as the table.

    Args:
        table: `(V, D)`.
        rows: Integers `(n,)`.
        values: `(n, D)`.
    """
    return table + ops.segment_sum(values, rows, num_segments=table.shape[0])
