"""Spoken digits: recordings whose file names tell digit and speaker.

The names are those of the Free Spoken Digit Dataset (Jackson et al., CC BY-SA 4.0,
github.com/Jakobovski/free-spoken-digit-dataset): `7_jackson_32.wav` is the 33rd time
that the speaker jackson says "seven". It has 50 recordings of each digit by each of six
speakers, at 8,000 samples a second. No package ships it, so that it is read from a
folder of the user.
"""

import pathlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from kerasseq.core.checks import nearest, several, short, whole_number
from kerasseq.core.types import FilePath
from kerasseq.datasets.audio_folder import WaveFiles
from kerasseq.datasets.files import existing_folder
from kerasseq.datasets.wave_files import check_rate

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAME = re.compile(r"(\d)_(.+)_(\d+)\.wav", re.IGNORECASE)
INSIDE = "recordings"  # the subfolder of a checkout that has the sounds
SOURCE = "https://github.com/Jakobovski/free-spoken-digit-dataset"
_NAMES = "The names must be such as 7_jackson_32.wav: digit, speaker and number"


class SpokenDigits(NamedTuple):
    """Recordings of digits, with what their file names tell.

    A model such as `SpeechRecognizer` learns from it as from `Recordings`.

    Attributes:
        audio: The sounds, each read when it is needed.
        texts: The digits as English words.
        digits: The digits, from 0 to 9.
        speakers: The speaker of each sound.
        numbers: Which recording of this digit by this speaker it is, from 0.
    """

    audio: WaveFiles
    texts: list[str]
    digits: list[int]
    speakers: list[str]
    numbers: list[int]

    def split_by_speaker(
        self, speakers: Iterable[str]
    ) -> tuple["SpokenDigits", "SpokenDigits"]:
        """Splits the sounds so that no speaker is in both parts.

        Args:
            speakers: Speakers of the test set, or the name of one.

        Returns:
            Training set and test set.

        Raises:
            ValueError: If a speaker has no recordings, or a part would be empty.
        """
        chosen = _known(speakers, self.speakers)
        return self._split([name in chosen for name in self.speakers], short(chosen))

    def split_by_number(self, test: int = 5) -> tuple["SpokenDigits", "SpokenDigits"]:
        """Splits the sounds so that each speaker is in both parts.

        Args:
            test: The first recordings of each digit by each speaker are the test set,
                as many as this. 5 is the official split, a tenth of the data.

        Returns:
            Training set and test set.

        Raises:
            ValueError: If a part would be empty.
        """
        test = whole_number("test", test)
        return self._split([number < test for number in self.numbers], f"test={test}")

    def _split(self, tested, received):
        if len(set(tested)) < 2:
            raise ValueError(
                "a split must leave a sound in each part, received "
                f"{len(tested):,} sounds and {received}, which leaves none for "
                f"{'training' if all(tested) else 'the test'}"
            )
        rows = range(len(tested))
        training, test = (
            self._take([n for n in rows if tested[n] is part]) for part in (False, True)
        )
        return training, test

    def _take(self, rows):
        lists = ([each[n] for n in rows] for each in self[1:])
        return SpokenDigits(self.audio.take(rows), *lists)


def spoken_digits(
    path: FilePath,
    speakers: Iterable[str] | None = None,
    *,
    sampling_rate: int = 8000,
) -> SpokenDigits:
    """Lists recordings of digits whose file names are `{digit}_{speaker}_{number}.wav`.

    These are the names of the Free Spoken Digit Dataset, of which a checkout or its
    folder `recordings` can be passed. No sound is read here.

    Args:
        path: The folder.
        speakers: The speakers whose recordings are listed, or the name of one.
            All if None.
        sampling_rate: Samples a second of the sounds.

    Returns:
        `SpokenDigits`, in the order of digit, speaker and number.

    Raises:
        FileNotFoundError: If there is no such folder.
        NotADirectoryError: If it is a file.
        TypeError: If an argument is of the wrong type.
        ValueError: If there are no such files, a WAV file has another name, or a
            speaker has no recordings.

    Examples:
        >>> import tempfile
        >>> from kerasseq.datasets import write_wave
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("7_ada_0", "7_ada_1", "3_ada_0", "3_ada_1"):
        ...         write_wave(f"{folder}/{name}.wav", [0.0, 0.5], 8000)
        ...     sounds = spoken_digits(folder)
        ...     training, test = sounds.split_by_number(test=1)
        ...     print(sounds.texts, test.texts, test.audio[0])
        ['three', 'three', 'seven', 'seven'] ['three', 'seven'] [0.  0.5]
    """
    rate = check_rate("sampling_rate", sampling_rate)
    folder = existing_folder(path, "sounds")
    rows = _rows(folder) or _rows(folder / INSIDE)
    if not rows:
        raise ValueError(
            f"{folder} has no WAV files of digits. {_NAMES}. A free set of them is at "
            f"{SOURCE}: download it, and pass the folder"
        )
    if speakers is not None:
        chosen = _known(speakers, [speaker for _, speaker, _, _ in rows])
        rows = [row for row in rows if row[1] in chosen]
    digits, names, numbers, files = map(list, zip(*rows, strict=True))
    texts = [WORDS[digit] for digit in digits]
    return SpokenDigits(WaveFiles(files, rate), texts, digits, names, numbers)


def _rows(folder: pathlib.Path) -> list[tuple[int, str, int, str]]:
    """Returns digit, speaker, number and path of each WAV file, sorted."""
    rows = []
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.startswith(".") or file.suffix.lower() != ".wav":
            continue
        match = NAME.fullmatch(file.name)
        if not match:
            raise ValueError(
                f"{folder} must have recordings of digits alone, received {file.name}. "
                f"{_NAMES}. Rename the file, or for other texts use "
                "datasets.audio_folder with a table"
            )
        rows.append((int(match[1]), match[2], int(match[3]), str(file)))
    return sorted(rows)


def _known(speakers: Iterable[str], names: list[str]) -> list[str]:
    """Returns speakers, each of which has recordings."""
    known = sorted(set(names))
    chosen = [speakers] if isinstance(speakers, str) else several("speakers", speakers)
    for name in chosen:
        if name not in known:
            near = nearest(name, known) if isinstance(name, str) else ""
            raise ValueError(
                f"speakers must be among {', '.join(known)}, received {short(name)}."
                f"{near}"
            )
    if not chosen:
        raise ValueError(
            f"speakers must be some of {', '.join(known)}, received none. Pass None "
            "for all"
        )
    return list(chosen)
