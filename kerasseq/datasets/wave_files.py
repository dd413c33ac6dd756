"""WAV files: samples of 8 to 64 bits, read as floats from -1 to 1, and written.

A WAV file is a RIFF file: four letters, a size, and chunks, each with four letters, a
size and content. The chunk `fmt ` describes the samples, the chunk `data` has them,
channel by channel at each time. Compressed samples are not read. Sources: IBM and
Microsoft, "Multimedia Programming Interface and Data Specifications 1.0", 1991;
Microsoft, "Multiple Channel Audio Data and WAVE Files", 2001.
"""

import pathlib
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import files
from kerasseq.core.checks import short, whole_number
from kerasseq.core.types import FilePath
from kerasseq.datasets.resampling import resample

# Codes of encodings in the header of a WAV file.
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
COMPRESSED = {2: "ADPCM", 6: "A-law", 7: "μ-law", 17: "IMA ADPCM", 49: "GSM"}
COMPRESSED |= {80: "MPEG", 85: "MP3", 255: "AAC"}
GUID = bytes.fromhex("000000001000800000aa00389b71")  # after the format in EXTENSIBLE
OTHERS = {  # the first bytes of other files
    **{b"OggS": "Ogg", b"fLaC": "FLAC", b"ID3": "MP3", b"\xff\xfb": "MP3"},
    **{b"\xff\xf3": "MP3", b"FORM": "AIFF", b"\x1aE\xdf\xa3": "WebM or Matroska"},
    **{
        b"caff": "CAF",
        b"RIFX": "RIFX (big-endian WAV)",
        b"RF64": "RF64 (WAV over 4 GB)",
    },
}
UNKNOWN = 0xFFFFFFFF  # size of samples that a program wrote without knowing their end
HIGHEST = 1_000_000  # samples a second
LOUDEST = 100.0  # of floats: beyond, they are not from -1 to 1


class Layout(NamedTuple):
    """What the chunk `fmt ` says of the samples.

    Attributes:
        is_float: Whether they are floats.
        channels: Number of channels.
        rate: Samples a second of each.
        width: Bytes of a sample.
    """

    is_float: bool
    channels: int
    rate: int
    width: int


def read_wave(path: FilePath, sampling_rate: int = 16000) -> np.ndarray:
    """Reads a WAV file as one channel at a sampling rate.

    Samples can be integers of 8, 16, 24 or 32 bits, or floats of 32 or 64. The mean of
    all channels is taken, and other rates are resampled.

    Args:
        path: The file.
        sampling_rate: Samples a second of the result.

    Returns:
        float32 of shape `(samples,)`, from -1 to 1. The little that floats or resampled
        samples lie beyond is cut off.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If an argument is of the wrong type.
        ValueError: If the file is empty, no WAV file, compressed, cut off or damaged,
            or has no samples, no channels, a wrong rate, or samples that are NaN,
            infinite or beyond 100. The message names the file.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.wav")
        ...     write_wave(path, [0.0, 0.5, -0.5, 0.25])
        ...     read_wave(path).tolist()
        [0.0, 0.5, -0.5, 0.25]
    """
    path = files.as_path("path", path)
    sampling_rate = check_rate("sampling_rate", sampling_rate)
    layout, data = _parsed(path, files.read_bytes(path))
    samples = _as_floats(data, layout).reshape(-1, layout.channels)
    peak = np.abs(samples).max()
    if not peak <= LOUDEST:  # also for NaN
        raise ValueError(
            f"{path} must have samples from -1 to 1, received up to {peak}. Divide "
            "them by their largest before writing, and replace NaN and infinity"
        )
    audio = samples[:, 0] if layout.channels == 1 else samples.mean(axis=1)
    audio = resample(audio, layout.rate, sampling_rate)
    return np.clip(audio, -1, 1).astype("float32", copy=False)


def write_wave(path: FilePath, audio: ArrayLike, sampling_rate: int = 16000) -> None:
    """Writes a WAV file of one channel, with integers of 16 bits.

    Args:
        path: The file; an existing one is replaced.
        audio: `(samples,)`, from -1 to 1.
        sampling_rate: Samples a second.

    Raises:
        TypeError: If `audio` does not hold numbers.
        ValueError: If it is not one row of samples from -1 to 1, or is empty.

    Examples:
        >>> write_wave("a.wav", [0.5, 2.0])
        Traceback (most recent call last):
        ...
        ValueError: audio must hold samples from -1 to 1, received 2.0 at sample 1. \
Divide it by its largest
    """
    path = files.as_path("path", path)
    rate = check_rate("sampling_rate", sampling_rate)
    samples = check_audio("audio", audio)
    beyond = np.flatnonzero(~(np.abs(samples) <= 1))
    if beyond.size:
        raise ValueError(
            f"audio must hold samples from -1 to 1, received {samples[beyond[0]]} at "
            f"sample {beyond[0]}. Divide it by its largest"
        )
    whole = np.clip(np.rint(samples * 2.0**15), -(2**15), 2**15 - 1).astype("<i2")
    layout = struct.pack("<HHIIHH", PCM, 1, rate, 2 * rate, 2, 16)
    header = b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
    header += b"data" + struct.pack("<I", whole.nbytes)
    size = struct.pack("<I", len(header) + whole.nbytes)
    with files.replacing(path) as temporary:
        temporary.write_bytes(b"RIFF" + size + header + whole.tobytes())


def check_rate(name: str, value: int) -> int:
    """Returns a sampling rate if it is a whole number from 1 to 1,000,000.

    Examples:
        >>> check_rate("sampling_rate", 0)
        Traceback (most recent call last):
        ValueError: sampling_rate must be at least 1, received 0
    """
    value = whole_number(name, value)
    if value > HIGHEST:
        raise ValueError(f"{name} must be at most {HIGHEST:,}, received {value}")
    return value


def check_audio(name: str, audio: ArrayLike) -> np.ndarray:
    """Returns samples as floats if they are one row of numbers.

    Examples:
        >>> check_audio("audio", [[0.0, 1.0]])
        Traceback (most recent call last):
        ...
        ValueError: audio must be one row of samples, received shape (1, 2). Pass each \
sound alone
    """
    try:
        samples = np.asarray(audio)
    except ValueError as error:  # lists of several lengths
        raise ValueError(
            f"{name} must be one row of samples, received {short(audio)}. Pass each "
            "sound alone"
        ) from error
    if samples.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold numbers, received {short(audio)}")
    if samples.ndim != 1:
        raise ValueError(
            f"{name} must be one row of samples, received shape {samples.shape}. Pass "
            "each sound alone"
        )
    if not 0 < samples.size < 2**30:  # the size of a file is stored in 32 bits
        raise ValueError(
            f"{name} must have from 1 to 2 ** 30 samples, received {samples.size:,}"
        )
    return samples.astype("float64", copy=False)


def _check_is_wave(path: pathlib.Path, data: bytes) -> None:
    """Raises unless a file begins as WAV files do."""
    if not data:
        raise ValueError(f"{path} is empty: expected a WAV file")
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ValueError(
            f"{path} must be a WAV file, received {_kind(data)}. Convert it, for "
            f"example with  ffmpeg -i {path.name} {path.stem}-converted.wav"
        )


def _parsed(path: pathlib.Path, data: bytes) -> tuple[Layout, bytes]:
    """Returns the layout of the samples, and their bytes."""
    _check_is_wave(path, data)
    layout = None
    for name, start, size in _chunks(data):
        end = start + size
        if name == b"fmt ":
            layout = _layout(path, data[start:end])
        elif name == b"data":
            if layout is None:
                break
            if size == UNKNOWN:
                end = len(data)
            if end > len(data):
                raise ValueError(
                    f"{path} is cut off: it must have {size:,} bytes of samples, "
                    f"received {len(data) - start:,}. Copy or record it again"
                )
            return layout, _whole_samples(path, data[start:end], layout, size)
    missing = "description" if layout is None else "chunk"
    raise ValueError(
        f"{path} is cut off or damaged: it has no {missing} of samples. Copy or record "
        "it again"
    )


def _kind(data: bytes) -> str:
    """Returns what kind of file begins with some bytes."""
    for start, kind in OTHERS.items():
        if data.startswith(start):
            return kind
    if data[4:8] == b"ftyp":
        return "MP4 or M4A"
    return f"a file that begins with {data[:12]!r}"


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yields name, start and size of each chunk."""
    at = 12
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        yield name, at + 8, size
        at += 8 + size + size % 2  # chunks begin at even places


def _layout(path: pathlib.Path, content: bytes) -> Layout:
    """Returns what the chunk `fmt ` says, if such samples are read."""
    if len(content) < 16:
        raise ValueError(
            f"{path} is cut off or damaged: its description of samples must have at "
            f"least 16 bytes, received {len(content)}. Copy or record it again"
        )
    kind, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", content)
    if kind == EXTENSIBLE and content[26:40] == GUID:
        kind = struct.unpack_from("<H", content, 24)[0]
    if kind not in (PCM, FLOAT):
        raise ValueError(
            f"{path} must have samples that are not compressed, received "
            f"{COMPRESSED.get(kind, f'format {kind}')}. Convert it, for example with  "
            f"ffmpeg -i {path.name} -c:a pcm_s16le {path.stem}-16.wav"
        )
    if not channels or not 0 < rate <= HIGHEST:
        raise ValueError(
            f"{path} must have at least one channel, and from 1 to {HIGHEST:,} samples "
            f"a second, received {channels} channels and {rate}. Record or convert it "
            "again"
        )
    width, is_float = frame // channels, kind == FLOAT
    if width not in ((4, 8) if is_float else (1, 2, 3, 4)) or not (
        frame == width * channels and 8 * width - 8 < bits <= 8 * width
    ):
        kinds = "floats of 32 or 64 bits" if is_float else "integers of 8 to 32 bits"
        raise ValueError(
            f"{path} must have {kinds}, received {bits} bits, {frame} bytes for "
            f"{channels} channels. Convert it to 16 bits"
        )
    return Layout(is_float, channels, rate, width)


def _whole_samples(path: pathlib.Path, data: bytes, layout: Layout, size: int) -> bytes:
    """Returns the bytes of samples, which must be those of whole frames."""
    frame = layout.width * layout.channels
    if len(data) < frame:
        raise ValueError(
            f"{path} has no samples, only a header. Record or convert it again"
        )
    if len(data) % frame and size != UNKNOWN:
        raise ValueError(
            f"{path} is damaged: its samples must be a multiple of {frame} bytes, "
            f"received {len(data):,}. Copy or record it again"
        )
    return data[: len(data) // frame * frame]


def _as_floats(data: bytes, layout: Layout) -> np.ndarray:
    r"""Converts samples of all channels to floats; integers to those from -1 to 1.

    Examples:
        >>> _as_floats(bytes([0, 128, 192]), Layout(False, 1, 8000, 1)).tolist()
        [-1.0, 0.0, 0.5]
        >>> _as_floats(b"\0\0\xc0", Layout(False, 1, 8000, 3)).tolist()
        [-0.5]
    """
    if layout.is_float:
        with np.errstate(over="ignore"):  # then infinity, which `read_wave` refuses
            return np.frombuffer(data, f"<f{layout.width}").astype("float32")
    if layout.width == 1:  # without a sign
        return np.frombuffer(data, "u1").astype("float32") / 2**7 - 1
    if layout.width == 3:  # as the upper three bytes of four
        wide = np.zeros((len(data) // 3, 4), "u1")
        wide[:, 1:] = np.frombuffer(data, "u1").reshape(-1, 3)
        return wide.view("<i4")[:, 0].astype("float32") / 2**31
    width = layout.width
    return np.frombuffer(data, f"<i{width}").astype("float32") / 2 ** (8 * width - 1)
