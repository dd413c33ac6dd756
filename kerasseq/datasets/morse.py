r"""Morse code as sound: random messages, keyed by hand, heard through noise.

A dash is as long as three dots, the pause within a character as one, between characters
as three, and between words as seven. Source: ITU-R M.1677, "International Morse code",
2009, whose characters beyond letters, digits and the punctuation here are left out.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from kerasseq.core.checks import (
    finite,
    fits_memory,
    fraction,
    random_generator,
    several,
    short,
    whole_number,
)
from kerasseq.datasets.recordings import Recordings
from kerasseq.datasets.wave_files import check_rate

CODES = (
    *(".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-"),
    *(".-..", "--", "-.", "---", ".--.", "--.-", ".-.", "...", "-", "..-", "...-"),
    *(".--", "-..-", "-.--", "--..", "-----", ".----", "..---", "...--", "....-"),
    *(".....", "-....", "--...", "---..", "----."),
)
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
CODE = dict(zip(CHARACTERS, CODES, strict=True))
CODE |= {".": ".-.-.-", ",": "--..--", "?": "..--..", "'": ".----.", "-": "-....-"}
CODE |= {"/": "-..-.", ":": "---...", "(": "-.--.", ")": "-.--.-", '"': ".-..-."}
CODE |= {"=": "-...-", "+": ".-.-.", "@": ".--.-."}
DASH, BETWEEN_CHARACTERS, BETWEEN_WORDS = 3, 3, 7  # dots
EDGE = 0.005  # seconds in which a tone rises and falls, without a click
PAUSE = (0.05, 0.25)  # seconds before the first tone
END = 0.1  # most seconds after the last pause
FADES = (0.2, 1.0)  # Hz
LOUDNESS = (-21.0, -1.0)  # decibels of the loudest sample below 1
# Of 20 mel filters up to 4,000 Hz: half of a filter, in units of 700 Hz + frequency.
HALF_FILTER = math.sinh(math.log(1 + 4000 / 700) / 21)
HELD = 0.63  # of the power of a tone, in the filter nearest to it, on average


def morse(
    count: int,
    *,
    text: str | Iterable[str] | None = None,
    min_length: int = 3,
    max_length: int = 6,
    sampling_rate: int = 16000,
    dot: tuple[float, float] = (0.05, 0.1),
    rhythm: float = 0.15,
    pitch: tuple[float, float] = (400.0, 1000.0),
    snr: tuple[float, float] = (10.0, 25.0),
    fading: float = 3.0,
    seed: int | None = 0,
) -> Recordings:
    r"""Generates messages in Morse code as sound.

    Each message has a speed, a pitch, a loudness and a noise of its own. The noise is
    white. `snr` is the power of the tone over that of the noise in the mel band that
    holds the tone, as a model hears both: with 20 mel filters from 0 to 4,000 Hz and
    frames of 25 ms. A filter at the pitch $f$ lets noise through as an ideal band of
    $0.091\,(700 + f)$ Hz does, 127 Hz at 700 Hz, and holds 0.63 of the tone on average,
    1 dB more or less. Over all frequencies the noise can be louder than the tone.

    Message n depends on the seed alone, not on `count`. A message takes about 250 KB;
    for more of them than fit into memory, call again with another seed.

    Args:
        count: Number of messages.
        text: Where messages come from: words of a string, drawn at random, or the
            strings of a list. By default they are random letters and digits. Letters
            become capitals.
        min_length: Least number of random characters.
        max_length: Largest number of random characters.
        sampling_rate: Samples a second.
        dot: Shortest and longest dot in seconds; 0.05 is 24 words a minute, 0.1 is 12.
        rhythm: Largest deviation of each tone and each pause from its length, as a
            share of it.
        pitch: Lowest and highest tone in Hz.
        snr: Least and largest power of the tone over that of the noise in its mel band,
            in decibels.
        fading: Largest change of the tone's power to either side in decibels, as a sine
            of 0.2 to 1 Hz. Each message has its own, from 0 to this.
        seed: Random seed.

    Returns:
        The sounds, float32 from -1 to 1, and the messages.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a number is out of range, or `text` has no words or a character
            without a code.

    Examples:
        >>> sounds = morse(2, seed=1)
        >>> sounds.texts
        ['Z3G', 'RFV7IB']
        >>> sounds.audio[0].dtype, sounds.audio[0].ndim
        (dtype('float32'), 1)
        >>> morse(3, text="Paris in the rain").texts
        ['RAIN', 'THE', 'THE']
    """
    count = whole_number("count", count)
    rate = check_rate("sampling_rate", sampling_rate)
    min_length = whole_number("min_length", min_length)
    max_length = whole_number("max_length", max_length, at_least=min_length)
    dots = _range("dot", dot, 0.001, 1.0)
    fits_memory("max_length", max_length, int(10 * dots[0] * rate) + 1)
    fits_memory("count", count, rate)
    pitches = _range("pitch", pitch, 1.0, rate / 2)
    levels = _range("snr", snr, -100.0, 100.0)
    if not 0 <= finite("fading", fading) <= 100:
        raise ValueError(f"fading must be from 0 to 100 decibels, received {fading}")
    rhythm = fraction("rhythm", rhythm)
    words = None if text is None else _messages(text)
    audio, texts = [], []
    for rng in random_generator(seed).spawn(count):
        if words is None:
            length = rng.integers(min_length, max_length + 1)
            message = "".join(rng.choice(list(CHARACTERS), length))
        else:
            message = words[rng.integers(len(words))]
        envelope = _keyed(rng, message, rng.uniform(*dots), rhythm, rate)
        audio.append(_heard(rng, envelope, pitches, levels, fading, rate))
        texts.append(message)
    return Recordings(audio, texts)


def morse_code(text: str) -> str:
    """Writes a text in Morse code, with a blank between characters.

    Args:
        text: Letters, digits, punctuation and blanks.

    Returns:
        Dots and dashes; words are separated by a slash.

    Raises:
        ValueError: If a character has no code, or there is none.

    Examples:
        >>> morse_code("SOS to all")
        '... --- ... / - --- / .- .-.. .-..'
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, received {short(text)}")
    words = _message("text", text).split(" ")
    return " / ".join(" ".join(CODE[c] for c in word) for word in words)


def _messages(text: str | Iterable[str]) -> list[str]:
    """Returns the words of a string, or the strings of a list, in capitals."""
    is_one = isinstance(text, str)
    found = text.split() if is_one else several("text", text)
    if not found:
        raise ValueError("text must have at least one word, received none")
    return [
        _message("text" if is_one else f"text[{n}]", t) for n, t in enumerate(found)
    ]


def _message(name: str, text: str) -> str:
    """Returns a text in capitals, with one blank between words, if it has a code."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, received {short(text)}")
    message = " ".join(text.upper().split())
    unknown = [c for c in message if c != " " and c not in CODE]
    if unknown or not message:
        what = f"{unknown[0]!r}, which has no code," if unknown else "no character"
        raise ValueError(
            f"{name} must have letters, digits and punctuation of Morse code, received "
            f"{what} in {short(text)}. Replace or remove it"
        )
    return message


def _range(
    name: str, value: Sequence[float], low: float, high: float
) -> tuple[float, float]:
    """Returns two numbers if they are within bounds and in order."""
    pair = several(name, value, "two numbers")
    if len(pair) != 2:
        raise ValueError(f"{name} must be two numbers, received {short(value)}")
    least, most = (float(finite(name, number)) for number in pair)
    if not low <= least <= most <= high:
        raise ValueError(
            f"{name} must be two numbers from {low:g} to {high:g}, the smaller first, "
            f"received {short(value)}"
        )
    return least, most


def _keyed(
    rng: np.random.Generator, message: str, dot: float, rhythm: float, rate: int
) -> np.ndarray:
    """Returns how far the key is down at each sample, from 0 to 1."""
    lengths = []  # in dots: tone, pause, tone, pause …
    for character in message:
        if character == " ":
            lengths[-1] = BETWEEN_WORDS
            continue
        for sign in CODE[character]:
            lengths += [DASH if sign == "-" else 1, 1]
        lengths[-1] = BETWEEN_CHARACTERS
    seconds = (
        dot * np.array(lengths) * rng.uniform(1 - rhythm, 1 + rhythm, len(lengths))
    )
    seconds[-1] += rng.uniform(0, END)
    edges = np.cumsum([rng.uniform(*PAUSE), *seconds])
    samples = np.diff(np.rint(edges * rate).astype(int), prepend=0)
    down = np.repeat(np.arange(len(samples)) % 2, samples)  # the first is a pause
    ramp = np.hanning(max(1, round(EDGE * rate)) + 2)[1:-1]
    return np.convolve(down, ramp / ramp.sum(), mode="same").astype("float32")


def _heard(
    rng: np.random.Generator,
    envelope: np.ndarray,
    pitches: tuple[float, float],
    levels: tuple[float, float],
    fading: float,
    rate: int,
) -> np.ndarray:
    """Returns the tone in noise, fading, at a random loudness."""
    time = np.arange(len(envelope)) / rate
    depth, speed = rng.uniform(0, fading), rng.uniform(*FADES)
    angle = 2 * np.pi * (speed * time + rng.random())
    fade = depth * np.sin(angle.astype("float32"))  # decibels
    pitch = rng.uniform(*pitches)
    tone = np.sin(2 * np.pi * (pitch * time + rng.random())).astype("float32")
    ratio = 10 ** (rng.uniform(*levels) / 10)
    band = HALF_FILTER * (700 + pitch)  # Hz
    # The tone has the power 1/2, and white noise spreads over rate / 2.
    deviation = math.sqrt(HELD * rate / (4 * band * ratio))
    noise = deviation * rng.standard_normal(len(tone), dtype="float32")
    sound = envelope * tone * np.exp(fade * np.float32(math.log(10) / 20)) + noise
    loudest = 10 ** (rng.uniform(*LOUDNESS) / 20)
    return (sound * (loudest / np.abs(sound).max())).astype("float32")
