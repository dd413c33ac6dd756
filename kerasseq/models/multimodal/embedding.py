"""`embed_images`, `embed_texts`, `embed_audio`: vectors of a contrastive model."""

from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.padding import bucket, padded
from kerasseq.models.multimodal.kinds import AUDIO, IMAGES, TEXTS
from kerasseq.models.multimodal.rows import as_fractions, original_errors
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.fit_call import check_learned
from kerasseq.tracing.listeners import pause


def embed_images(
    model: Any, images: Any, *, batch_size: int = BATCH_SIZE
) -> np.ndarray:
    """Computes the vectors of pictures or films.

    Args:
        model: The model.
        images: As for `fit`; or one of them.
        batch_size: Rows that are processed at once.

    Returns:
        float32 `(rows, D)`, of length 1 each: their dot products with the vectors
        of other kinds are cosines.

    Raises:
        ValueError: If the model is not contrastive or does not read pictures, or a
            picture is wrong, as for `fit`.
    """
    _check_embeds(model, IMAGES)
    own = model.preprocessor.pictures
    reader = own.reader([images] if own.is_one(images) else images)

    def arrays(rows):
        return [as_fractions(reader(rows))]

    with original_errors(reader):
        return _embedded(model, IMAGES, arrays, len(reader.images), batch_size)


def embed_texts(model: Any, texts: Any, *, batch_size: int = BATCH_SIZE) -> np.ndarray:
    """Computes the vectors of texts.

    Args:
        model: The model.
        texts: A text, or several.
        batch_size: As for `embed_images`.

    Returns:
        As `embed_images`.

    Raises:
        ValueError: If the model is not contrastive, or a text is wrong, as for
            `fit`.
    """
    _check_embeds(model, TEXTS)
    texts = [texts] if isinstance(texts, str) else texts
    ids = model.preprocessor.whole_texts(texts)
    return _embedded(model, TEXTS, lambda rows: [ids[rows]], len(ids), batch_size)


def embed_audio(model: Any, audio: Any, *, batch_size: int = BATCH_SIZE) -> np.ndarray:
    """Computes the vectors of sounds.

    Args:
        model: The model.
        audio: A sound, or several, as for `fit`.
        batch_size: As for `embed_images`.

    Returns:
        As `embed_images`.

    Raises:
        ValueError: If the model is not contrastive or does not read sounds, or a
            sound is wrong, as for `fit`.
    """
    _check_embeds(model, AUDIO)
    own = model.preprocessor
    sounds = own.sounds([audio] if own.sound_reader.is_one(audio) else audio)

    def arrays(rows):
        each = [sounds.sound(row) for row in rows]
        lengths = np.array([len(sound) for sound in each], "int32")
        length = min(bucket(int(sounds.lengths.max())), own.samples)
        return [padded(each, length, "float32"), lengths]

    return _embedded(model, AUDIO, arrays, len(sounds), batch_size)


def _check_embeds(model, kind):
    """Raises unless the model computes vectors of a kind."""
    check_learned(model)
    model.check_head(f"embed_{kind}", "contrastive")
    model.preprocessor.check_kinds({kind: None})


def _embedded(model, kind, arrays, count, batch_size):
    """Returns the vectors of rows, of a function from their indices to arrays."""
    size = checks.whole_number("batch_size", batch_size)
    parts = np.array_split(np.arange(count), max(1, -(-count // size)))
    if not count:
        return np.zeros((0, model._arguments["hidden_dim"]), "float32")
    function = _embedding_function(model, kind)
    vectors = [function(arrays(rows)) for rows in parts]
    return np.concatenate([ops.convert_to_numpy(each) for each in vectors])


def _embedding_function(model, kind):
    """Returns the function from arrays of one kind to vectors, compiled."""
    programs = kernels.programs(model)

    def make():
        inputs = model.network.inputs(kind)
        with pause():  # symbolic values cannot be recorded
            vectors = model.network.vector(kind, inputs)
        return keras.Model([*inputs.values()], vectors)

    graph = programs.get("vectors", kind, make)
    if kernels.is_uncompiled():  # inside `trace` and `intervene`
        return lambda arrays: graph(arrays, training=False)
    return programs.get(
        "embed", kind, lambda: kernels.inference(graph, pure=programs.pure)
    )
