"""Folders of WAV files: tables in every form, and what is refused."""

import json
import os

import numpy as np
import pytest

from kerasseq.datasets import audio_folder, write_wave

TABLES = {
    "all.csv": 'file,speaker,text\na.wav,1,hello\nmore/b.wav,2,"yes, you"\n',
    "semicolon.csv": "file;text\r\na.wav;hello\r\n\r\nmore/b.wav;yes, you\r\n",
    "all.tsv": "path\tsentence\na.wav\thello\nmore/b.wav\tyes, you\n",
    "all.jsonl": "".join(
        json.dumps({"audio": file, "transcript": text, "speaker": None}) + "\n"
        for file, text in (("a.wav", "hello"), ("more/b.wav", "yes, you"))
    ),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "more").mkdir()
    write_wave(tmp_path / "a.wav", np.linspace(-0.5, 0.5, 17), 16000)
    write_wave(tmp_path / "more/b.wav", np.zeros(16), 8000)
    return tmp_path


@pytest.mark.parametrize("name", TABLES)
def test_tables(folder, name):
    (folder / name).write_text(TABLES[name], encoding="utf-8")
    recordings = audio_folder(folder)
    assert recordings.texts == ["hello", "yes, you"]
    files = [os.path.relpath(file, folder) for file in recordings.audio.files]
    assert files == ["a.wav", "more/b.wav"]
    assert [len(sound) for sound in recordings.audio] == [17, 32]
    assert len(audio_folder(folder, name, sampling_rate=8000).audio[1]) == 16
    assert recordings.audio[1:].files == recordings.audio.files[1:]
    training, test = recordings.split(0.5)
    assert sorted(training.texts + test.texts) == recordings.texts
    assert len(test.audio[0]) in (17, 32)


def test_columns(folder):
    (folder / "all.csv").write_text("wave,said\na.wav,hello\n")
    found = audio_folder(folder, audio_column="wave", text_column="said")
    assert found.texts == ["hello"]
    with pytest.raises(ValueError, match="line 2 must have the column .audio. or"):
        audio_folder(folder)
    with pytest.raises(ValueError, match='column "waves".* Did you mean "wave"'):
        audio_folder(folder, audio_column="waves")


def test_rows_that_lack_something(folder):
    table = "file,text\na.wav,hello\n,a\nmore/b.wav,\nc.wav,a\n"
    for number, words in (
        (3, "has no file"),
        (4, "no text for more/b.wav"),
        (5, "c.wa"),
    ):
        lines = table.splitlines()
        lines = [lines[0]] + [lines[1]] * (number - 2) + [lines[number - 1]]
        (folder / "all.csv").write_text("\n".join(lines))
        with pytest.raises(ValueError, match=rf"all\.csv, line {number} .*{words}"):
            audio_folder(folder)
    (folder / "all.csv").write_text(table)
    with pytest.warns(UserWarning, match="3 of 4 sounds are left out: .*line 3 has no"):
        assert audio_folder(folder, missing="skip").texts == ["hello"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "file,text\n", "has no rows with a sound"),
        ("a.csv", "file,text\na.wav,x,y\n", "line 2 must have 2 columns.* received 3"),
        ("a.csv", "", "is empty"),
        ("a.jsonl", "[]\n", r"line 1 must be an object, received \[\]"),
        ("a.jsonl", "{\n", "line 1 is damaged: it is not JSON"),
        ("a.txt", "file,text", "must have one table of transcripts.* received none"),
    ],
)
def test_refused_tables(folder, name, text, words):
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=words):
        audio_folder(folder)


def test_other_errors(folder):
    for name in ("all.csv", "all.tsv"):
        (folder / name).write_text(TABLES[name])
    with pytest.raises(ValueError, match=r"received all\.csv, all\.tsv\. Name it"):
        audio_folder(folder)
    with pytest.raises(FileNotFoundError, match=r"b\.csv"):
        audio_folder(folder, "b.csv")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        audio_folder(folder / "none")
    with pytest.raises(NotADirectoryError, match="expected a folder of sounds"):
        audio_folder(folder / "a.wav")
    (folder / "a.wav").write_bytes(b"RIFF")
    recordings = audio_folder(folder, "all.csv")
    with pytest.raises(ValueError, match=r"a\.wav must be a WAV file"):
        recordings.audio[0]
