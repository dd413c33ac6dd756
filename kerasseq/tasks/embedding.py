"""The embedding of a task model, with the id of its padding."""

from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor


@register
class Embedding(keras.layers.Embedding):
    """An embedding whose padding may have any id.

    The class is named like that of Keras, as weights are stored under this name.

    Args:
        input_dim: Number of ids, padding included.
        output_dim: Size of an embedding.
        padding_id: The id of padding: later layers get a mask that excludes it.
        **kwargs: As for `keras.layers.Embedding`.

    Examples:
        >>> layer = Embedding(4, 2, padding_id=3)
        >>> keras.ops.convert_to_numpy(layer.compute_mask(np.array([[0, 1, 3]])))
        array([[ True,  True, False]])
    """

    def __init__(
        self, input_dim: int, output_dim: int, *, padding_id: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(input_dim, output_dim, **kwargs)
        self.padding_id = padding_id
        self.supports_masking = True
        # Set before weights are loaded from a file in which the first row is padding.
        self.loads_padding_first: bool = False

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.not_equal(inputs, self.padding_id)

    def load_own_variables(self, store: Any) -> None:
        if self.loads_padding_first:
            stored = {name: np.array(store[name]) for name in store.keys()}  # noqa: SIM118
            store = {name: self.padding_last(value) for name, value in stored.items()}
            self.loads_padding_first = False
        super().load_own_variables(store)

    def padding_last(self, values: Any) -> np.ndarray:
        """Moves the first row of an array to its end, if it has a row for each id."""
        values = np.asarray(values)
        has_rows = values.ndim > 0 and len(values) == self.input_dim
        return np.roll(values, -1, axis=0) if has_rows else values

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        # Keras refuses subclasses, whose computation may be another one.
        super().quantize(mode, type_check=False, config=config)

    def get_config(self) -> Config:
        return {**super().get_config(), "padding_id": self.padding_id}


def move_padding_last(embedding: Embedding, variables: Any) -> None:
    """Moves the padding to the last row in variables of an older layout.

    Until version 0.1 the ids of texts were those of the tokenizer plus 1, with padding
    0. Files of that time are still read.

    Args:
        embedding: The embedding of the model.
        variables: Its variables, or those of an optimizer, in which the state of the
            embedding is found by its path.
    """
    own = {id(variable) for variable in embedding.variables}
    names = [variable.path.replace("/", "_") for variable in embedding.variables]
    for variable in variables:
        if id(variable) in own or any(name in variable.path for name in names):
            variable.assign(embedding.padding_last(ops.convert_to_numpy(variable)))
