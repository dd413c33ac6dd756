"""`kerasseq train speech`, `kerasseq transcribe`, and `evaluate` for such runs."""

import json

import numpy as np
import pytest

import kerasseq
from kerasseq import datasets
from kerasseq.cli import main, speech, transcribe
from kerasseq.cli.run import write_record
from kerasseq.datasets.morse import CHARACTERS
from kerasseq.speech.recognizer import Transcript
from kerasseq.text import CharacterTokenizer, NGramModel
from tests.cli.conftest import at_step, snapshot

pytestmark = pytest.mark.once("the command line")

RATE = 2000
TINY = ["--units", "4", "--num-layers", "1", "--num-heads", "1", "--batch-size", "3"]
TINY += ["--sampling-rate", str(RATE), "--num-mels", "5", "--held-out", "0.3"]
MORSE = ["train", "speech", "--count", "7", *TINY]
FOLDER = ["train", "speech", "--data", "sounds", *TINY]


def write(folder, count=7, seed=1):
    """A folder of WAV files of Morse code, of one or two characters, and a table."""
    folder.mkdir()
    options = {"min_length": 1, "max_length": 2, "sampling_rate": RATE}
    sounds = datasets.morse(count, seed=seed, **options)
    lines = ["file,text"]
    for n, (sound, text) in enumerate(zip(*sounds, strict=True)):
        datasets.write_wave(folder / f"{n}.wav", sound, RATE)
        lines.append(f"{n}.wav,{text}")
    (folder / "all.csv").write_text("\n".join(lines))
    return sounds


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run on a folder of sounds, whose figures are drawn."""
    place = tmp_path_factory.mktemp("speech")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write(place / "sounds")
        assert main([*FOLDER, "--steps", "3", "--run", "run"]) == 0
    return place / "run"


def test_a_folder_of_sounds(trained, command, tmp_path):
    results = json.loads((trained / "results.json").read_text())
    assert results["sounds"] == 7 and results["held_out"] == len(results["examples"])
    assert results["baselines"]["the empty text"]["character_error_rate"] == 1
    assert not results["verdict"]["better"] and results["repeated"] == 0
    assert (trained / "loss.png").stat().st_size > 5000
    record = json.loads((trained / "run.json").read_text())
    assert record["arguments"]["data"] == str(trained.parent / "sounds")
    names = "character_error_rate", "word_error_rate", "examples"
    found = json.loads(command("evaluate", trained, "--json").out)
    assert {name: found[name] for name in names} == {n: results[n] for n in names}
    assert found["repeated"] == 0
    done = command("evaluate", trained, "--file", trained.parent / "sounds")
    assert "5 of the 7 sounds of" in done.out and "Accuracy" not in done.out


def test_transcribe(trained, command, tmp_path, drawn):
    files = [trained.parent / "sounds" / f"{n}.wav" for n in range(2)]
    model = kerasseq.load_model(trained / "model.keras")
    texts = [found.text for found in model.transcribe(list(map(str, files)))]
    assert command("transcribe", trained, files[0]).out == f"{texts[0]}\n"
    lines = command("transcribe", trained, *files).out.splitlines()
    assert lines == [f"{f}  {text}" for f, text in zip(files, texts, strict=True)]
    words = ["transcribe", trained / "model.keras", files[0], "--json"]
    found = json.loads(command(*words, "--beam", "3").out)[0]
    assert found["text"] == model.transcribe(str(files[0]), beam=3).text
    said = next(c for c in CHARACTERS if not model.tokenizer.unknown_characters(c))
    done = command(*words, "--text", said, "--align", "a/b.png")
    assert "alignment: a/b.png" in done.err
    found = json.loads(done.out)[0]["characters"]
    times = model.align(str(files[0]), said).times
    assert [each["character"] for each in found] == [*said]
    assert np.allclose([(each["start"], each["end"]) for each in found], times)
    assert (tmp_path / "a/b.png").stat().st_size > 5000


def test_a_language_model_in_the_search(trained, command, refused, tmp_path):
    file = str(trained.parent / "sounds" / "0.wav")
    model = kerasseq.load_model(trained / "model.keras")
    language = NGramModel(2, tokenizer=model.tokenizer).fit("AB" * 20)
    language.save("words.json")
    words = ["transcribe", trained, file, "--language-model", "words.json"]
    search = {"beam": 3, "language_model": language, "weight": 2.0, "bonus": 1.5}
    right = model.transcribe(file, **search)
    assert right.text != model.transcribe(file, beam=3).text
    out = command(*words, "--beam", "3", "--weight", "2", "--bonus", "1.5").out
    assert out == f"{right.text}\n"
    assert "--language-model needs a search" in refused(*words)
    assert "needs a --language-model" in refused(*words[:3], "--weight", "1")
    assert "from 0 to 1000" in refused(*words, "--weight", "-1")
    NGramModel(2, tokenizer=CharacterTokenizer()).fit("abc").save("words.json")
    error = refused(*words, "--beam", "3")
    assert "words.json: --language-model must have the tokenizer of the model" in error


def test_long_sounds_are_drawn_by_pages():
    tokens = ["A", "B", "C", "D"]
    times = np.array([[0.0, 0.2], [119.9, 120.3], [130.0, 130.0], [250.4, 250.4]])
    found = Transcript("ABCD", -1.0, tokens, times)
    rate = 100
    every = transcribe.pages(round(250.5 * rate), rate, found)
    assert [(start, end) for start, end, _ in every] == [
        *((0, 12000), (12000, 24000), (24000, 25050))
    ]
    assert [shown.text for _, _, shown in every] == ["A", "BC", "D"]
    assert np.allclose(every[1][2].times, [[-0.1, 0.3], [10.0, 10.0]])
    (only,) = transcribe.pages(round(120.9 * rate), rate, found)
    assert only[:2] == (0, 12090) and only[2].tokens == tokens
    (only,) = transcribe.pages(7, rate, found._replace(tokens=[], times=times[:0]))
    assert only[:2] == (0, 7)


def test_pictures_of_a_long_sound(trained, command, tmp_path, drawn, monkeypatch):
    monkeypatch.setattr(transcribe, "DRAWN", 2)
    datasets.write_wave("long.wav", np.sin(np.arange(3.2 * RATE)), RATE)
    err = command("transcribe", trained, "long.wav", "--align", "a/b.png").err
    assert "alignment: 2 pictures, a/b-2.png is the last" in err
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"b-1.png", "b-2.png"}


def test_a_run_that_stops_early(command, tmp_path):
    words = [*MORSE, "--count", "11", "--spec-augment", "--normalization", "batch"]
    words += ["--steps", "20", "--patience", "1", "--checkpoint-every", "2"]
    out = command(*words, "--run", "run").out
    assert "The weights of step" in out and "validation loss" in out
    model = kerasseq.load_model(tmp_path / "run" / "model.keras")
    augment = next(x for x in model.layers if x.name.startswith("spec_augment"))
    assert augment.freq_mask_width == 2 and augment.max_time_share == 0.2
    assert model.get_config()["normalization"] == "batch"
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["best_step"] <= results["steps"] <= 20
    assert results["validation_loss"] > 0


def test_a_run_that_was_stopped_goes_on(command, tmp_path):
    words = [*MORSE, "--steps", "4", "--checkpoint-every", "2"]
    command(*words, "--run", "whole")
    with at_step(3):
        command(*words, "--run", "stopped", code=130)
    out = command("train", "--resume", "stopped").out
    assert "train at least 750 steps" in out
    whole, stopped = (
        kerasseq.load_model(tmp_path / name / "model.keras").get_weights()
        for name in ("whole", "stopped")
    )
    for a, b in zip(whole, stopped, strict=True):
        np.testing.assert_array_equal(a, b)
    results = json.loads((tmp_path / "whole" / "results.json").read_text())
    found = json.loads(command("evaluate", "whole", "--json").out)
    assert found["examples"] == results["examples"]  # of messages generated again


def test_the_verdict_compares_with_texts_that_need_no_model():
    learned, right = ["SOS", "SOS", "NO"], ["SOS", "AT", "NOON", "OK"]
    found = speech.compare("gru", right, learned, right)
    assert found["character_error_rate"] == 0 and found["verdict"]["better"]
    assert found["baselines"]["the most frequent text"]["word_error_rate"] == 0.75
    found = speech.compare("gru", [""] * 4, learned, right)
    assert found["character_error_rate"] == 1 and not found["verdict"]["better"]
    assert found["verdict"]["baseline"] == "the most frequent text"


def test_sounds_that_are_in_both_parts(command, tmp_path):
    write(tmp_path / "sounds", count=1)
    table = tmp_path / "sounds" / "all.csv"
    table.write_text(table.read_text() + "\n0.wav,A" * 4)
    out = command(*FOLDER, "--steps", "1", "--run", "r").out
    assert "held-out sounds are in the training part, too" in out


def test_wrong_arguments(trained, refused, tmp_path):
    sounds = write(tmp_path / "sounds", count=3)
    (tmp_path / "text.wav").write_text("no sound")
    datasets.write_wave(tmp_path / "short.wav", sounds.audio[0][:7], RATE)
    (tmp_path / "short").mkdir()
    datasets.write_wave(tmp_path / "short" / "s.wav", sounds.audio[0][:800], RATE)
    rows = "file,text\n" + "s.wav,PARISANDLONDON\n" * 3
    (tmp_path / "short" / "t.csv").write_text(rows)
    file = tmp_path / "sounds" / "0.wav"
    before = set(snapshot(tmp_path))
    for words, message in (
        (["train", "speech", "--data", "no"], "no"),
        (["train", "speech", "--data", "sounds", "--count", "5"], "--data morse"),
        (["train", "speech", "--text-column", "a"], "for a folder of sounds"),
        (["train", "speech", "--data", "short", *TINY], "short/s.wav"),
        (["train", "speech", "--count", "1"], "an integer of at least 2"),
        (["train", "speech", "--model", "conformr"], 'Did you mean "conformer"'),
        (["transcribe", trained, "no.wav"], "no.wav"),
        (["transcribe", trained, "text.wav"], "text.wav must be a WAV file"),
        (["transcribe", trained, "short.wav"], "short.wav must have at least 20"),
        (["transcribe", trained, file, file, "--align", "a.png"], "is for one file"),
        (["transcribe", trained, file, "--text", "é"], "does not know"),
        (["transcribe", trained, file, "--text", ""], "--text must be"),
        (["transcribe", trained, file, "--text", "A", "--beam", "2"], "exclude"),
        (["transcribe", "no", file], "no"),
        (["predict", trained, "--text", "a"], "kerasseq transcribe"),
        (["inspect", trained], "kerasseq transcribe"),
        (["evaluate", trained, "--file", "text.wav"], "text.wav"),
    ):
        assert message in refused(*words), words
    assert set(snapshot(tmp_path)) == before, "nothing is left"


def test_runs_of_other_tasks(refused, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "model.keras").write_bytes(b"")
    from kerasseq.cli import classify, options

    arguments = options.with_defaults(classify.DEFAULTS, {"data": "names"})
    write_record(folder, "classify", arguments, "jax", {"source": "a", "sha256": "b"})
    assert "expected a run of kerasseq train speech" in refused(
        "transcribe", "run", "a.wav"
    )
    assert "expected --file" in refused("evaluate", "run")
