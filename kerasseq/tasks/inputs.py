"""The input of a model, of ids or vectors, and checks of its sizes."""

from collections.abc import Mapping

import keras

from kerasseq.core import checks
from kerasseq.tasks.embedding import Embedding


def sequence_input(
    vocabulary_size: int | None,
    features: int | None,
    embedding_dim: int | None,
    mask_value: float | None = None,
    padding_id: int = 0,
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Returns the input of a model, and its vectors.

    Args:
        vocabulary_size: Number of ids, padding included, if the inputs are ids.
        features: Number of features, if the inputs are vectors.
        embedding_dim: Size of the embedding of an id.
        mask_value: A step whose features all have this value is padding.
        padding_id: The id of padding.

    Returns:
        The `keras.Input`, and the vectors `(batch, time, width)` with their mask.
    """
    if vocabulary_size is not None:
        size = checks.whole_number("vocabulary_size", vocabulary_size)
        inputs = keras.Input((None,), dtype="int32", name="ids")
        return inputs, Embedding(
            size, embedding_dim, padding_id=padding_id, name="embedding"
        )(inputs)
    width = checks.whole_number("features", features)
    inputs = keras.Input((None, width), name="sequence")
    if mask_value is None:
        return inputs, inputs
    return inputs, keras.layers.Masking(mask_value, name="masking")(inputs)


def check_sizes(
    architecture: str | keras.Layer,
    units: int,
    num_layers: int,
    width: int,
    rows: Mapping[str, int | None],
) -> None:
    """Raises if a size is wrong, or if the weights cannot fit into memory.

    Args:
        architecture: The architecture of the model.
        units: Units of its layers.
        num_layers: Number of its layers.
        width: Size of an embedding.
        rows: Other sizes by name, each the number of rows of a weight; or None.
    """
    checks.fits_memory("units", checks.size("units", units))
    checks.size("num_layers", num_layers)
    if isinstance(architecture, str):
        checks.fits_memory("num_layers", num_layers, units * units)
    for name, count in rows.items():
        if count is not None:
            checks.fits_memory(name, checks.size(name, count), width)


def embedding_width(embedding_dim: int | None, units: int) -> int:
    """Returns the size of an embedding: that of the layers if it is not given.

    Examples:
        >>> embedding_width(None, units=3), embedding_width(5, units=3)
        (3, 5)
    """
    if embedding_dim is None:
        return checks.whole_number("units", units)
    return checks.whole_number("embedding_dim", embedding_dim)
