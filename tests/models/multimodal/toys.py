"""Small models and rows of every kind, whose sizes are distinct where possible."""

import numpy as np

from kerasseq import models, text

WORDS = "red blue ball box on a"
TEXTS = ["a red ball", "blue box on a red box", "a red ball", "box", "a ball on box"]
COUNT, D = len(TEXTS), 14
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": D, "intermediate_dim": 11}
SIZES |= {"max_sequence_length": 7}
PICTURES = {"image_size": (6, 10), "patch_size": (3, 5)}
FILMS = {"image_size": (4, 6, 10), "patch_size": (2, 3, 5)}
SOUNDS = {"num_mels": 7, "num_fft_bins": 32, "stride": 8, "sampling_rate": 800}
SOUNDS |= {"window": 1.0, "factor": 2}


def tokenizer():
    return text.WordTokenizer().fit(WORDS)


def multimodal(**options):
    """A model of pictures and words; `image_size=None` leaves the pictures out."""
    return models.Multimodal(tokenizer(), **{**SIZES, **PICTURES, **options})


def pictures(count=COUNT, size=(6, 10), seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, *size, 3)).astype("uint8")


def sounds(count=COUNT, seed=0):
    rng = np.random.default_rng(seed)
    lengths = [300, 503, 410, 260, 797][:count]
    return [0.1 * rng.normal(size=n).astype("float32") for n in lengths]


def rows_of(model):
    """Rows of each kind of a model beside texts."""
    size = model._arguments["image_size"]
    given = {"audio": sounds()} if "audio" in model.kinds else {}
    return given if size is None else {"images": pictures(size=size), **given}
