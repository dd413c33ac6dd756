"""Folders of WAV files with a table of transcripts; a sound is read when needed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core.types import FilePath
from kerasseq.datasets.file_tables import Column, Kind, files_and_texts
from kerasseq.datasets.files import existing_folder
from kerasseq.datasets.recordings import Recordings
from kerasseq.datasets.wave_files import check_rate, read_wave

AUDIO = ("audio", "file", "path", "file_name", "filename", "audio_filepath", "wav")
TEXT = ("text", "transcript", "transcription", "sentence")
KIND = Kind(
    "sounds",
    "a sound",
    "transcripts",
    "A table has a row for each sound, such as  a.wav,hello  below  file,text",
)


class WaveFiles(Sequence[np.ndarray]):
    """Sounds in WAV files, each read when it is needed.

    Args:
        files: Paths.
        sampling_rate: Samples a second of the sounds.

    Examples:
        >>> sounds = WaveFiles(["a.wav", "b.wav", "c.wav"], 8000)
        >>> len(sounds), sounds.take([2, 0]).files
        (3, ['c.wav', 'a.wav'])
    """

    def __init__(self, files: Sequence[str], sampling_rate: int = 16000) -> None:
        self.files: list[str] = list(files)
        self.sampling_rate: int = check_rate("sampling_rate", sampling_rate)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return WaveFiles(self.files[index], self.sampling_rate)
        return read_wave(self.files[index], self.sampling_rate)

    def take(self, rows: Sequence[int]) -> "WaveFiles":
        """Returns some of the files."""
        return WaveFiles([self.files[row] for row in rows], self.sampling_rate)

    def __repr__(self) -> str:
        return f"<WaveFiles of {len(self):,} sounds at {self.sampling_rate:,} Hz>"


def audio_folder(
    path: FilePath,
    table: FilePath | None = None,
    *,
    audio_column: str | None = None,
    text_column: str | None = None,
    sampling_rate: int = 16000,
    encoding: str = "utf-8",
    missing: str = "error",
) -> Recordings:
    r"""Lists the WAV files of a table of transcripts.

    No sound is read here: `recordings.audio[n]` reads it, at the sampling rate.

    Args:
        path: The folder.
        table: The table: comma or semicolon separated (`.csv`), tab separated (`.tsv`),
            or one JSON object a line (`.jsonl`), each with the names of its columns. A
            relative path is one in the folder. By default the only such file there.
        audio_column: Name of the column of files, whose paths start at the folder. By
            default "audio", "file", "path", "file_name", "filename", "audio_filepath"
            or "wav".
        text_column: Name of the column of transcripts. By default "text", "transcript",
            "transcription" or "sentence".
        sampling_rate: Samples a second of the sounds.
        encoding: Name of the encoding of the table.
        missing: What is done with rows that have no file, no text, or a file that does
            not exist: "error", or "skip", which leaves them out and warns.

    Returns:
        `Recordings`, whose `audio` are `WaveFiles`.

    Raises:
        FileNotFoundError: If there is no such folder or table.
        NotADirectoryError: If the folder is a file.
        TypeError: If an argument is of the wrong type.
        ValueError: If there is no table or several, it has not these columns or no
            rows, or a row lacks its file or text. The message names file and line.

    Examples:
        >>> import pathlib, tempfile
        >>> from kerasseq.datasets import write_wave
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_wave(f"{folder}/a.wav", [0.0, 0.5])
        ...     table = pathlib.Path(folder, "all.csv")
        ...     _ = table.write_text("file,text\na.wav,hello\n")
        ...     recordings = audio_folder(folder)
        ...     print(recordings.texts, recordings.audio[0])
        ['hello'] [0.  0.5]
    """
    rate = check_rate("sampling_rate", sampling_rate)
    files, texts = files_and_texts(
        existing_folder(path, "sounds"),
        table,
        (
            Column("audio_column", audio_column, AUDIO),
            Column("text_column", text_column, TEXT),
        ),
        encoding,
        kind=KIND,
        missing=missing,
        problem=lambda file, text: "",
    )
    return Recordings(WaveFiles(files, rate), texts)
