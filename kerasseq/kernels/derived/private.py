"""The names of Keras, not public, with which a step is traced.

Since Keras 3.0 each symbolic tensor knows the operation that made it, as
`keras.Function` needs. Without it no step is derived, and the plain loop runs.
"""

from typing import Any

import keras


def node_of(tensor: keras.KerasTensor) -> Any:
    """Returns the call that made a tensor: `operation`, `arguments` and `outputs`.

    None for a tensor that no operation made.
    """
    operation, index, _ = getattr(tensor, "_keras_history", (None, 0, 0))
    return None if operation is None else operation._inbound_nodes[index]
