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


class Embedding:
    """What a contrastive model offers beside training: the vectors of each kind."""

    def embed_images(self, images: Any, *, batch_size: int = BATCH_SIZE) -> np.ndarray:
        """Computes the vectors of pictures or films.

        Args:
            images: As for `fit`; or one of them.
            batch_size: Rows that are processed at once.

        Returns:
            float32 `(rows, D)`, of length 1 each: their dot products with the vectors
            of other kinds are cosines.

        Raises:
            ValueError: If the model is not contrastive or does not read pictures, or a
                picture is wrong, as for `fit`.
        """
        self._check_embeds(IMAGES)
        own = self.preprocessor.pictures
        reader = own.reader([images] if own.is_one(images) else images)

        def arrays(rows):
            return [as_fractions(reader(rows))]

        with original_errors(reader):
            return self._embedded(IMAGES, arrays, len(reader.images), batch_size)

    def embed_texts(self, texts: Any, *, batch_size: int = BATCH_SIZE) -> np.ndarray:
        """Computes the vectors of texts.

        Args:
            texts: A text, or several.
            batch_size: As for `embed_images`.

        Returns:
            As `embed_images`.

        Raises:
            ValueError: If the model is not contrastive, or a text is wrong, as for
                `fit`.
        """
        self._check_embeds(TEXTS)
        texts = [texts] if isinstance(texts, str) else texts
        ids = self.preprocessor.whole_texts(texts)
        return self._embedded(TEXTS, lambda rows: [ids[rows]], len(ids), batch_size)

    def embed_audio(self, audio: Any, *, batch_size: int = BATCH_SIZE) -> np.ndarray:
        """Computes the vectors of sounds.

        Args:
            audio: A sound, or several, as for `fit`.
            batch_size: As for `embed_images`.

        Returns:
            As `embed_images`.

        Raises:
            ValueError: If the model is not contrastive or does not read sounds, or a
                sound is wrong, as for `fit`.
        """
        self._check_embeds(AUDIO)
        own = self.preprocessor
        sounds = own.sounds([audio] if own.sound_reader.is_one(audio) else audio)

        def arrays(rows):
            each = [sounds.sound(row) for row in rows]
            lengths = np.array([len(sound) for sound in each], "int32")
            length = min(bucket(int(sounds.lengths.max())), own.samples)
            return [padded(each, length, "float32"), lengths]

        return self._embedded(AUDIO, arrays, len(sounds), batch_size)

    def _check_embeds(self, kind):
        """Raises unless the model computes vectors of a kind."""
        check_learned(self)
        self.check_head(f"embed_{kind}", "contrastive")
        self.preprocessor.check_kinds({kind: None})

    def _embedded(self, kind, arrays, count, batch_size):
        """Returns the vectors of rows, of a function from their indices to arrays."""
        size = checks.whole_number("batch_size", batch_size)
        parts = np.array_split(np.arange(count), max(1, -(-count // size)))
        if not count:
            return np.zeros((0, self._arguments["hidden_dim"]), "float32")
        function = self._embedding_function(kind)
        vectors = [function(arrays(rows)) for rows in parts]
        return np.concatenate([ops.convert_to_numpy(each) for each in vectors])

    def _embedding_function(self, kind):
        """Returns the function from arrays of one kind to vectors, compiled."""
        programs = kernels.programs(self)

        def make():
            inputs = self.network.inputs(kind)
            with pause():  # symbolic values cannot be recorded
                vectors = self.network.vector(kind, inputs)
            return keras.Model([*inputs.values()], vectors)

        model = programs.get("vectors", kind, make)
        if kernels.is_uncompiled():  # inside `trace` and `intervene`
            return lambda arrays: model(arrays, training=False)
        return programs.get(
            "embed", kind, lambda: kernels.inference(model, pure=programs.pure)
        )
