"""WAV files: every kind of samples, rates, and files that are refused."""

import struct
import wave

import numpy as np
import pytest

from kerasseq.datasets import read_wave, write_wave

RNG = np.random.default_rng(0)
GUID = bytes.fromhex("000000001000800000aa00389b71")
X = RNG.uniform(-1, 1, size=(97, 1))


def riff(samples, kind, bits, channels=1, rate=16000, *, extra=b"", size=None):
    """The bytes of a WAV file; `extra` follows the description of the samples."""
    frame = channels * -(-bits // 8)
    layout = struct.pack("<HHIIHH", kind, channels, rate, rate * frame, frame, bits)
    layout += extra
    size = len(samples) if size is None else size
    chunks = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # padded to an even size
    chunks += b"fmt " + struct.pack("<I", len(layout)) + layout
    chunks += b"data" + struct.pack("<I", size) + samples
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def integers(x, bits):
    """Little-endian integers of a width, those of 8 bits without a sign."""
    whole = np.rint(x * (2 ** (bits - 1) - 1)).astype("int64").ravel()
    if bits == 8:
        return (whole + 128).astype("u1").tobytes()
    return b"".join(int(n).to_bytes(bits // 8, "little", signed=True) for n in whole)


def extensible(kind, bits):
    return struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", kind) + GUID


def saved(tmp_path, data):
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("is_extensible", [False, True])
@pytest.mark.parametrize("bits", [8, 16, 24, 32, "float32", "float64"])
def test_every_kind_of_samples(tmp_path, bits, is_extensible, channels):
    x = RNG.uniform(-1, 1, size=(97, channels))
    if isinstance(bits, str):
        kind, step, data = 3, 1e-7, x.astype(np.dtype(bits)).tobytes()
        bits = int(bits[5:])
    else:
        kind, step, data = 1, max(1e-7, 1.5 * 2.0 ** (1 - bits)), integers(x, bits)
    extra = extensible(kind, bits) if is_extensible else b""
    kind = 0xFFFE if is_extensible else kind
    path = saved(tmp_path, riff(data, kind, bits, channels, extra=extra))
    audio = read_wave(path)
    assert audio.dtype == "float32" and audio.shape == (97,)
    np.testing.assert_allclose(audio, x.mean(axis=1), rtol=0, atol=step)


def test_what_is_written_is_read_by_python_and_by_us(tmp_path):
    path = tmp_path / "a.wav"
    whole = RNG.integers(-(2**15), 2**15, size=101)
    write_wave(path, whole / 2**15, 8000)
    with wave.open(str(path)) as file:
        assert file.getparams()[:4] == (1, 2, 8000, 101)
        assert np.frombuffer(file.readframes(101), "<i2").tolist() == whole.tolist()
    np.testing.assert_array_equal(read_wave(path, 8000) * 2**15, whole)
    write_wave(path, [1, -1, 0])
    assert (read_wave(path) * 2**15).tolist() == [2**15 - 1, -(2**15), 0]


@pytest.mark.parametrize(
    ("rate", "new_rate"),
    [(44100, 16000), (48000, 16000), (8000, 16000), (11025, 16000)],
)
def test_other_rates(tmp_path, rate, new_rate):
    """A sine remains one, to 0.9 of the highest frequency of both rates."""
    low = min(rate, new_rate) / 2
    for frequency in (0.1 * low, 0.5 * low, 0.9 * low):
        time = np.arange(rate) / rate
        write_wave(tmp_path / "a.wav", 0.9 * np.sin(2 * np.pi * frequency * time), rate)
        audio = read_wave(tmp_path / "a.wav", new_rate)
        assert len(audio) == new_rate
        time = np.arange(new_rate) / new_rate
        error = audio - 0.9 * np.sin(2 * np.pi * frequency * time)
        assert np.abs(error[new_rate // 5 : -new_rate // 5]).max() < 1e-4


def test_what_would_alias_is_lowered_by_85_decibels(tmp_path):
    for frequency in (8010, 9000, 15000, 21000):
        time = np.arange(44100) / 44100
        sine = 0.9 * np.sin(2 * np.pi * frequency * time)
        write_wave(tmp_path / "a.wav", sine, 44100)
        audio = read_wave(tmp_path / "a.wav")[2000:-2000]
        assert 20 * np.log10(np.abs(audio).max() / 0.9) < -85


def test_images_of_a_low_rate_are_absent(tmp_path):
    time = np.arange(8000) / 8000
    write_wave(tmp_path / "a.wav", 0.9 * np.sin(2 * np.pi * 3600 * time), 8000)
    audio = read_wave(tmp_path / "a.wav")[2000:-2000]
    power = np.abs(np.fft.rfft(audio * np.hanning(len(audio)))) ** 2
    above = power[len(power) // 2 :].max() / power.max()
    assert 10 * np.log10(above) < -85


def test_a_recording_without_a_known_end(tmp_path):
    data = riff(integers(X, 16) + b"\x01", 1, 16, size=0xFFFFFFFF)
    assert len(read_wave(saved(tmp_path, data))) == 97


GOOD = riff(integers(X, 16), 1, 16)
NAN = np.where(np.arange(97) == 5, np.nan, 0.0)
REFUSED = {
    "empty": (b"", r"a\.wav is empty: expected a WAV file"),
    "FLAC": (b"fLaC\0\0\0\x22", "must be a WAV file, received FLAC. Convert it"),
    "Ogg": (b"OggS" + 50 * b"a", "received Ogg"),
    "M4A": (b"\0\0\0\x20ftypM4A ", "received MP4 or M4A"),
    "text": (b"Hello", "received a file that begins with b'Hello'"),
    "AVI": (b"RIFF\0\0\0\0AVI ", "must be a WAV file"),
    "cut off": (
        GOOD[:-7],
        "is cut off: it must have 194 .* received 187",
    ),
    "cut header": (GOOD[:20], "no description of samples"),
    "no data": (GOOD[: -194 - 8], "no chunk of samples"),
    "short": (b"RIFF\0\0\0\0WAVEfmt \2\0\0\0\1\0", "at least 16 bytes, received 2"),
    "no samples": (riff(b"", 1, 16), "has no samples, only a header"),
    "half": (riff(b"abc", 1, 16), "a multiple of 2 bytes, received 3"),
    "rate": (riff(b"ab", 1, 16, rate=0), "received 1 channels and 0"),
    "rates": (riff(b"ab", 1, 16, rate=2**30), "from 1 to 1,000,000 samples a second"),
    "channels": (riff(b"ab", 1, 16, channels=0), "at least one channel.*received 0 ch"),
    "compressed": (riff(b"ab", 7, 8), "not compressed, received μ-law. Convert it"),
    "MP3": (riff(b"ab", 85, 16), "not compressed, received MP3"),
    "unknown": (riff(b"ab", 999, 16), "not compressed, received format 999"),
    "bits": (
        riff(b"abcdefgh", 1, 64),
        "integers of 8 to 32 bits, received 64",
    ),
    "floats": (riff(b"ab", 3, 16), "must have floats of 32 or 64 bits, received 16"),
    "NaN": (
        riff(NAN.astype("<f4").tobytes(), 3, 32),
        "received up to nan",
    ),
    "integers": (
        riff((30000 * X).astype("<f8").tobytes(), 3, 64),
        "must have samples from -1 to 1, received up to 29",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_files(tmp_path, name):
    data, words = REFUSED[name]
    path = saved(tmp_path, data)
    with pytest.raises(ValueError, match=words) as error:
        read_wave(path)
    assert str(error.value).startswith(str(path))


def test_a_cut_at_any_byte_is_refused(tmp_path):
    for end in range(len(GOOD)):
        with pytest.raises(ValueError, match=r"a\.wav"):
            read_wave(saved(tmp_path, GOOD[:end]))


def test_other_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        read_wave(tmp_path / "b.wav")
    with pytest.raises(IsADirectoryError):
        read_wave(tmp_path)
    with pytest.raises(TypeError, match="`path` must be a path"):
        read_wave(3)
    with pytest.raises(ValueError, match="sampling_rate must be at least 1"):
        read_wave(saved(tmp_path, GOOD), 0)
    for audio, error, words in [
        ([], ValueError, "from 1 to 2 .* samples, received 0"),
        ([[0.0]], ValueError, r"one row of samples, received shape \(1, 1\)"),
        ([0.0, np.nan], ValueError, "received nan at sample 1"),
        (["a"], TypeError, "audio must hold numbers"),
    ]:
        with pytest.raises(error, match=words):
            write_wave(tmp_path / "c.wav", audio)
    assert not (tmp_path / "c.wav").exists()
