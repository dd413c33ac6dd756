"""What the lab Speech computes: sounds, their frames, and what a network writes.

`prepare_speech.py` has trained the network, and has kept what it was after some steps.
"""

import functools
import pathlib
import tempfile
import unicodedata
from typing import Any

import numpy as np

from labs.code import speech as code
from parts.errors import Refused, shortened

FILE = pathlib.Path(__file__).parent.parent / "prepared" / "speech.npz"
KEPT = (200, 400, 1200)  # steps after which the network is kept
MOST = 10.0  # seconds of a sound
SHORTEST = 0.2


def as_letters(text: str) -> str:
    """Returns a text as capitals without accents.

    Raises:
        Refused: If nothing is left, or something else than letters and blanks.

    Examples:
        >>> as_letters("Zoé")
        'ZOE'
    """
    found = unicodedata.normalize("NFKD", text.upper())
    found = "".join(c for c in found if not unicodedata.combining(c))
    wrong = [c for c in found if c not in code.LETTERS and c != " "]
    if wrong or not found.strip():
        raise Refused("only_letters", wrong=wrong[0] if wrong else "∅")
    return " ".join(found.split())


def keyed(text: str, dot: float, pitch: int, snr: int, seed: int) -> np.ndarray:
    """Returns a text in Morse code as samples, float32.

    Args:
        text: Letters.
        dot: Seconds of a dot.
        pitch: Hz.
        snr: Decibels of the tone above the noise.
        seed: Random seed of rhythm and noise.
    """
    from kerasseq import datasets

    ranges = {"dot": (dot, dot), "pitch": (pitch, pitch), "snr": (snr, snr)}
    options = {"sampling_rate": code.RATE, "fading": 0.0, "seed": seed}
    return datasets.morse(1, text=[text], **ranges, **options).audio[0]


def read(name: str, content: bytes) -> np.ndarray:
    """Returns the samples of a WAV file, at the rate of the network.

    The file is on disk while it is read, and is then deleted.

    Args:
        name: Its name, for messages.
        content: Its bytes.

    Raises:
        Refused: If it is no WAV file, is damaged, or is too short or too long.
    """
    from kerasseq import datasets

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "sound.wav")
        path.write_bytes(content)
        try:
            wave = datasets.read_wave(path, code.RATE)
        except ValueError as error:
            words = shortened(error).replace(str(path), name)
            words = words.partition(" Convert it")[0].rstrip(".")
            raise Refused("not_wave", message=words) from None
    seconds = len(wave) / code.RATE
    if not SHORTEST <= seconds <= MOST:
        raise Refused("wrong_length", seconds=round(seconds, 1), most=round(MOST))
    return wave


def frames(wave: np.ndarray, mels: int, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the spectrogram in decibels `(frames, mels)`, and the Hz of its bands."""
    import keras

    from kerasseq import layers

    layer = layers.LogMelSpectrogram(mels, window, code.STRIDE, code.RATE, scale="log")
    found = keras.ops.convert_to_numpy(layer(wave[None]))[0]
    hertz = np.arange(len(layer.filters)) * code.RATE / window
    centers = hertz @ layer.filters / layer.filters.sum(axis=0)
    return 10 / np.log(10) * found, centers


@functools.lru_cache(maxsize=len(KEPT))
def network(step: int) -> Any:
    """Returns the network as it was after some steps."""
    model = code.make()
    with np.load(FILE) as arrays:
        weights = [arrays[f"{step}_{n}"] for n in range(len(model.weights))]
    model.set_weights([weight.astype("float32") for weight in weights])
    return model


def learned() -> dict[str, np.ndarray]:
    """Returns loss and wrong characters by the steps of the training."""
    with np.load(FILE) as arrays:
        return {name: arrays[name] for name in ("step", "loss", "wrong")}


def written(wave: np.ndarray, step: int, width: int) -> dict[str, Any]:
    """Returns what the network writes.

    Args:
        wave: The samples.
        step: The steps of its training.
        width: Of the beam.

    Returns:
        "text", "log_p" of its best path, "tokens" with their "times"; "y", the
        probabilities of each frame; "texts" of the beam, as pairs of text and
        log-probability.
    """
    import keras

    model = network(step)
    heard = model.transcribe(wave)
    (scores,) = model.predict([wave], verbose=0)
    y = keras.ops.convert_to_numpy(keras.ops.softmax(scores)).astype("float64")
    found = code.beam(y, width)
    return {
        "text": heard.text,
        "log_p": heard.log_probability,
        "tokens": heard.tokens,
        "times": heard.times,
        "y": y,
        "texts": [
            (model.tokenizer.decode(ids), float(np.log(max(p, 1e-300))))
            for ids, p in found
        ],
    }
