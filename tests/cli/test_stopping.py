"""When a run stops: `--patience` and `--max-minutes`, with the best weights kept."""

import json

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import errors, fitting, options, schedule, verdict
from tests.cli.test_labels import TINY, rows, write

pytestmark = pytest.mark.once("the command line")

RUN = ["train", "classify", "--file", "words.csv", "--text", "word", "--label", "kind"]
RUN += [*TINY, "--run", "r"]
FAST = ["--learning-rate", "0.1", "--epochs", "40", "--patience", "2"]


def results_of(folder):
    history = json.loads((folder / "history.json").read_text())
    return history, json.loads((folder / "results.json").read_text())


def test_the_best_step_is_kept(command, tmp_path):
    write(tmp_path / "words.csv", rows())
    out = command(*RUN, *FAST).out
    history, results = results_of(tmp_path / "r")
    losses = [each["val_loss"] for each in history]
    best = int(np.argmin(losses))
    assert len(losses) == best + 3 and results["stopped_by"] == "patience"
    assert results["steps"] == history[-1]["step"] < 40 * 6
    assert results["best_step"] == history[best]["step"]
    assert results["validation_loss"] == pytest.approx(losses[best])
    kept = f"The weights of step {history[best]['step']} are kept: validation loss"
    assert f"Training stopped after {history[-1]['step']} steps, as 2 valid" in out
    assert kept in " ".join(out.split())
    # The model in the folder is that of the best step, not of the last one.
    model = kerasseq.load_model(tmp_path / "r" / "model.keras")
    with np.load(tmp_path / "r" / schedule.BEST) as stored:
        for n, variable in enumerate(model.variables):
            np.testing.assert_array_equal(stored[f"v{n}"], variable.numpy())


def test_a_run_that_is_resumed_goes_on_counting(command, tmp_path, monkeypatch):
    write(tmp_path / "words.csv", rows())
    command(*RUN, *FAST)
    whole = results_of(tmp_path / "r")
    done = []

    def stop(self, epoch, logs=None):  # after each interval
        done.append(epoch)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fitting.SaveModel, "on_epoch_end", stop, raising=False)
        command(*RUN[:-1], "s", *FAST, code=130)
        for _ in range(len(whole[0]) - 2):
            command("train", "--resume", "s", code=130)
    command("train", "--resume", "s")
    assert done == list(range(len(whole[0]) - 1))
    history, results = results_of(tmp_path / "s")
    assert history == whole[0]
    same = set(results) - {"run", "baselines"}
    assert {k: results[k] for k in same} == {k: whole[1][k] for k in same}


def test_limits(command, tmp_path):
    write(tmp_path / "words.csv", rows())
    out = command(*RUN, "--patience", "3", "--steps", "12").out
    assert "Training stopped after 12 steps, the limit of --steps or --epochs." in out
    out = command(*RUN[:-1], "s", "--epochs", "99", "--max-minutes", "0.00001").out
    _, results = results_of(tmp_path / "s")
    assert results["stopped_by"] == "minutes" and results["steps"] == 10
    assert "after 10 steps, as --max-minutes are over." in out
    command(*RUN[:-1], "t", "--steps", "12", "--patience", "0")
    history, results = results_of(tmp_path / "t")
    assert "val_loss" not in history[0] and "best_step" not in results
    assert not (tmp_path / "t" / schedule.BEST).exists()


def test_labels_of_one_row_each(command, tmp_path):
    table = [("alpha", "a"), ("alpine", "a"), ("beta", "b")]
    write(tmp_path / "words.csv", table)
    done = command(*RUN, "--steps", "3")
    assert "no label has two rows: all are trained on, for all steps" in done.err


def test_a_file_of_the_best_weights_that_is_damaged_or_deleted(
    command, refused, tmp_path, monkeypatch
):
    write(tmp_path / "words.csv", rows())
    with monkeypatch.context() as patched:  # stops when everything is trained
        patched.setattr(fitting, "restore_best", lambda *args: 1 / 0)
        command(*RUN, *FAST, code=1)
    file = tmp_path / "r" / schedule.BEST
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    message = refused("train", "--resume", "r")
    assert schedule.BEST in message and "is damaged or not a checkpoint" in message
    file.unlink()
    done = command("train", "--resume", "r")
    history, results = results_of(tmp_path / "r")
    assert "best.npz is missing in r: the last weights are kept" in done.err
    assert results["best_step"] == history[-1]["step"]
    assert results["validation_loss"] == pytest.approx(history[-1]["val_loss"])


def test_what_a_sentence_says_of_few_and_many_rows():
    single = verdict.difference([1])
    words = "accuracy", single, ["--model bag", "more rows"]
    one = verdict.verdict("gru", 1.0, {"majority": 0.0}, *words)
    assert not one["better"] and one["low"] is None
    assert one["sentence"].startswith("gru is not clearly better than a simple model")
    assert "difference +1.000 (1 held-out row)" in one["sentence"]
    many = verdict.difference([1] * 40 + [0] * 60)
    assert many.low == pytest.approx(0.4 - 1.96 * np.sqrt(0.24 / 100), abs=0.02)
    assert many.high == pytest.approx(0.4 + 1.96 * np.sqrt(0.24 / 100), abs=0.02)
    scores = 0.9, {"majority": 0.5, "words": 0.3}, "accuracy", many, ["--model bag"]
    better = verdict.verdict("gru", *scores)
    assert better["better"] and better["baseline"] == "majority"
    assert "gru is better than the best simple model" in better["sentence"]
    # Of sentences of several words: the share of the words, not of the sentences.
    words = verdict.difference([3, 0] * 50, [6, 2] * 50)
    assert words.mean == pytest.approx(3 / 8)
    assert 0.3 < words.low < 3 / 8 < words.high < 0.45
    worse = verdict.difference([-1] * 40 + [0] * 60)
    no = verdict.verdict("gru", 0.1, *scores[1:3], worse, scores[4])
    assert "does not beat a simple model" in no["sentence"]
    assert no["sentence"].endswith("Most likely to help: --model bag.")
    bits = verdict.verdict("gpt", 2.5, {"trigram": 2.1}, "bits", worse, [], lowest=True)
    assert not bits["better"] and bits["mean"] == pytest.approx(-0.4)
    assert "trigram 2.100, higher by +0.400 (95 % interval +0.3" in bits["sentence"]
    bits = verdict.verdict("gpt", 1.7, {"trigram": 2.1}, "bits", many, [], lowest=True)
    assert bits["better"] and "trigram 2.100, lower by +0.400" in bits["sentence"]


def test_the_tokenizer_fits_the_texts_unless_one_is_named(command, tmp_path):
    table = [(f"{word} and some more", kind) for word, kind in rows(16)]
    write(tmp_path / "words.csv", table)
    for name, given in (("bpe", []), ("word", ["--tokenizer", "word"])):
        done = command(*RUN[:-1], name, "--steps", "1", *given)
        record = json.loads((tmp_path / name / "run.json").read_text())
        assert record["arguments"]["tokenizer"] == name
        chosen = "the texts have 4 words (median): --tokenizer bpe" in done.err
        assert chosen == (not given)
    write(tmp_path / "words.csv", rows(16))
    done = command(*RUN, "--steps", "1")
    assert "the texts have 1 words (median): --tokenizer character" in done.err


def test_a_bag_is_trained_explained_and_used(command, tmp_path, drawn):
    write(tmp_path / "words.csv", rows(160))
    words = ["--model", "bag", "--epochs", "30", "--learning-rate", "0.05"]
    command(*RUN, *words)
    _, results = results_of(tmp_path / "r")
    assert results["accuracy"] > 0.9 and results["model"] == "bag"
    line = command("predict", "r", "--text", "bobi").out
    assert line.startswith("vowel")
    done = command("inspect", "r", "--text", "bobi", "--out", "o")
    assert "What moved the decision for vowel" in done.out
    assert "No figures: the model has no gates and no attention weights" in done.out
    assert not (tmp_path / "o").exists()


def test_memory_of_a_batch_counts_what_the_backward_pass_needs(monkeypatch):
    monkeypatch.setattr("kerasseq.core.checks.memory", lambda: 10**9)
    sizes = {"num_layers": 1, "units": 100, "sequence_length": 100, "batch_size": 10**6}
    lstm = options.Settings(model="lstm", remat=None, loss_chunk_size=None, **sizes)
    schedule.check_memory(lstm, rows=6000, vocabulary_size=13)
    with pytest.raises(errors.UsageError, match="7,000, --sequence-length 100, --un"):
        schedule.check_memory(lstm, rows=7000, vocabulary_size=13)
    for change in ({"remat": "full"}, {"model": "elman"}):
        less = options.Settings(**{**vars(lstm), **change})
        schedule.check_memory(less, rows=7000, vocabulary_size=13)
    lstm.loss_chunk_size = 7
    schedule.check_memory(lstm, rows=6200, vocabulary_size=10_000)
    token = schedule.parts.set(10)  # --micro-batches
    schedule.check_memory(lstm, rows=50_000)
    schedule.parts.reset(token)
