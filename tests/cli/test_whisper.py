"""`kerasseq train speech --model whisper`, and `kerasseq transcribe` with a Whisper."""

import contextlib
import io
import json

import numpy as np
import pytest

import kerasseq
from kerasseq import datasets
from kerasseq.cli import main
from kerasseq.models.whisper.settings import WhisperGeneration
from kerasseq.text import load_tokenizer
from tests.models.whisper.tokenizers import write_files

pytestmark = pytest.mark.once("the command line")

RATE = 2000
TINY = ["--units", "4", "--num-layers", "1", "--num-heads", "1", "--batch-size", "3"]
TINY += ["--sampling-rate", str(RATE), "--num-mels", "5", "--held-out", "0.3"]
TRAIN = ["train", "speech", "--model", "whisper", "--count", "7", *TINY]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run, and a sound longer than its window."""
    place = tmp_path_factory.mktemp("whisper")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main([*TRAIN, "--steps", "3", "--run", "run"]) == 0
    assert "nothing in 2,000 steps" in out.getvalue()  # the rate is above 1
    (sound,), _ = datasets.morse(1, sampling_rate=RATE, min_length=9, max_length=9)
    datasets.write_wave(place / "long.wav", sound, RATE)
    return place / "run"


def test_train_and_evaluate(trained, command):
    results = json.loads((trained / "results.json").read_text())
    assert results["sounds"] == 7 and results["model"] == "whisper"
    model = kerasseq.load_model(trained / "model.keras")
    sounds = datasets.morse(7, sampling_rate=RATE, seed=0)
    longest = max(map(len, sounds.audio)) / RATE
    assert longest <= model.preprocessor.window < longest + 1
    found = json.loads(command("evaluate", trained, "--json").out)
    assert found["examples"] == results["examples"]


def test_transcribe_a_long_sound(trained, command, tmp_path, drawn):
    file = trained.parent / "long.wav"
    model = kerasseq.load_model(trained / "model.keras")
    expected = model.transcribe(str(file), seed=0, align=True)
    assert len(expected.segments) == 2
    assert command("transcribe", trained, file).out == f"{expected.text}\n"
    done = command("transcribe", trained, file, "--json", "--align", "a.png")
    (found,) = json.loads(done.out)
    assert found["text"] == expected.text and found["language"] is None
    assert [part["text"] for part in found["segments"]] == [
        part.text for part in expected.segments
    ]
    assert found["segments"][1]["start"] == model.preprocessor.window
    times = [(each["start"], each["end"]) for each in found["tokens"]]
    np.testing.assert_allclose(times, expected.times, atol=1e-4)
    assert (tmp_path / "a.png").stat().st_size > 5000
    searched = model.transcribe(str(file), seed=0, beam=2).text
    assert command("transcribe", trained, file, "--beam", "2").out == f"{searched}\n"


def test_published_weights(trained, command, refused, tmp_path):
    """A folder of weights is read as a run is; a language is found or given."""
    (tmp_path / "files").mkdir()
    tokenizer = load_tokenizer(write_files(tmp_path / "files"))
    model = kerasseq.models.Whisper(
        tokenizer,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        max_length=19,
        generation=WhisperGeneration.from_tokenizer(tokenizer),
    )
    kerasseq.models.save_pretrained(model, tmp_path / "published")
    file = trained.parent / "long.wav"
    words = ["transcribe", "published", file, "--json"]
    french = {"language": "fr", "task": "translate"}
    for more, options in (
        ((), {}),
        (("--language", "French", "--task", "translate"), french),
    ):
        (found,) = json.loads(command(*words, *more).out)
        expected = model.transcribe(str(file), seed=0, align=True, **options)
        assert (found["text"], found["language"]) == expected[:2]
    timed = model.transcribe(str(file), seed=0, timestamps=True).segments
    said = command("transcribe", "published", file, "--timestamps").out.splitlines()
    assert len(said) == len(timed) > 0
    for line, part in zip(said, timed, strict=True):
        (first, last), text = line[1:].split("] ")[0].split(" – "), line.split("] ")[1]
        minutes, seconds = first.split(":")
        assert 60 * int(minutes) + float(seconds) == pytest.approx(part.start, abs=5e-3)
        assert last.endswith(f"{part.end % 60:05.2f}") and text == part.text
    for more, message in (
        (["--language", "frensh"], "french"),
        (["--task", "summary"], "translate"),
        (["--text", "SOS"], "--text is for a model with CTC"),
    ):
        assert message in refused("transcribe", "published", file, *more)
    config = tmp_path / "published" / "config.json"
    config.write_text(config.read_text().replace('"whisper"', '"wisper"'))
    assert "'wisper'" in refused("transcribe", "published", file)


def test_wrong_arguments(trained, refused):
    file = trained.parent / "long.wav"
    for words, message in (
        ([*TRAIN, "--spec-augment"], "--spec-augment is for models with CTC"),
        (["transcribe", trained, file, "--language", "en"], "one language"),
        (["transcribe", trained, file, "--timestamps"], "no ids of times"),
        (["transcribe", trained, file, "--text", "SOS"], "is for a model with CTC"),
        (["predict", trained, "--text", "a"], "kerasseq transcribe"),
    ):
        assert message in refused(*words), words
