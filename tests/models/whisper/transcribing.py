"""A tiny Whisper that writes words and times, and its peer of Hugging Face."""

import functools

import keras
import numpy as np
import pytest

from kerasseq import models
from kerasseq.models.whisper.settings import WhisperGeneration
from tests.models.whisper.toys import SIZES, sounds

MARK, STEPS = 39, 50  # of no times; steps of 20 ms in a window
TIMES = list(range(MARK + 1, MARK + STEPS + 2))
V = TIMES[-1] + 1
SPECIAL = list(range(31, 39))  # marks that a text does not have
GENERATION = {
    "start": 31,
    "end": 30,
    "languages": {"en": 32, "de": 33, "fr": 34},
    "tasks": {"transcribe": 35, "translate": 36},
    "previous": 37,
    "no_speech": 38,
    "no_timestamps": MARK,
    "suppress_tokens": [3, 5, *SPECIAL],
    "begin_suppress_tokens": [7, 30],
    "max_initial_timestamp_index": 23,
    "alignment_heads": [[0, 1], [1, 0], [1, 2]],
}
# Random weights would write times among the words.
NO_TIMES = [*GENERATION["suppress_tokens"], MARK, *TIMES]
LAYERS = {"num_layers": 1, "num_decoder_layers": 2, "max_length": 28}


def random_whisper(**changes):
    """A model whose random weights write several words and end."""
    settings = WhisperGeneration(**{**GENERATION, **changes})
    sizes = {**SIZES, **LAYERS}
    model = models.Whisper(vocabulary_size=V, generation=settings, **sizes)
    rng = np.random.default_rng(4)
    for weight in model.weights:
        if "encoder_position" in weight.path:
            continue
        scale = 2.0 if "decoder_position" in weight.path else 0.3
        x = rng.normal(scale=scale, size=weight.shape)
        if weight.path == "embedding/embeddings":
            x[settings.end] *= 1.5
        weight.assign(x)
    return model


@functools.cache
def recordings():
    """A sound of a window, and a longer one."""
    return (*sounds(1.0, seed=3), *sounds(2.7, seed=4))


def ids_of(transcript):
    """The ids of all segments."""
    return [i for part in transcript.segments for i in part.tokens]


class Peer:
    """`WhisperForConditionalGeneration` with the weights of a model.

    Args:
        model: A `Whisper`.
        folder: Where its files go.
    """

    def __init__(self, model, folder):
        pytest.importorskip("torch")  # of the package transformers
        import transformers

        models.save_pretrained(model, folder)
        self.model = transformers.WhisperForConditionalGeneration.from_pretrained(
            folder
        ).eval()
        self.features = transformers.WhisperFeatureExtractor(
            feature_size=SIZES["num_mels"], chunk_length=1
        )

    def generate(self, sound, **options):
        """Returns what its `generate` does; sounds may be longer than a window."""
        torch = pytest.importorskip("torch")

        long = len(sound) > 16_000
        more = {"truncation": False, "padding": "longest"} if long else {}
        x = self.features(sound, sampling_rate=16_000, return_tensors="pt", **more)
        with torch.no_grad():
            return self.model.generate(x.input_features, task="transcribe", **options)

    def ids(self, sound, **options):
        return self.generate(sound, **options)[0].tolist()


def numpy(x):
    return keras.ops.convert_to_numpy(x)
