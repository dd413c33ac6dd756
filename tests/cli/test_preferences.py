"""`kerasseq train preferences`: training on votes and on rewards of answers."""

import io
import json
import pathlib
import random
import shutil
import sys

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import main, options, preference_data
from kerasseq.core.files import read_json
from tests.cli.conftest import at_step, snapshot

pytestmark = pytest.mark.once("the command around training that is tested elsewhere")
DIGITS = 4
RUN = ["--batch-size", "8", "--learning-rate", "1e-2", "--checkpoint-every", "10"]
GRPO = ["--method", "grpo", "--prompts", "prompts.txt", "--max-new-tokens", DIGITS]
REWARDS = """
def even(prompts, answers):
    return [sum(digit in "02468" for digit in answer) for answer in answers]

def fails(prompts, answers):
    even.calls = getattr(even, "calls", 0) + 1
    if even.calls > 40:
        raise RuntimeError("no rewards today")
    return even(prompts, answers)

def wrong(prompts, answers):
    return [float("nan")] * len(answers)
"""


def even(text):
    return sum(digit in "02468" for digit in text)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The run of a GPT that writes lines of digits."""
    rng, folder = random.Random(0), tmp_path_factory.mktemp("runs")
    lines = ["".join(rng.choices("0123456789", k=DIGITS)) for _ in range(400)]
    (folder / "digits.txt").write_text("".join(f":{line}\n" for line in lines))
    words = ["train", "language-model", "--text", folder / "digits.txt", "--model"]
    words += ["gpt", "--units", "8", "--num-layers", "1", "--num-heads", "2"]
    words += ["--sequence-length", "16", "--steps", "30", "--run", folder / "base"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kerasseq.cli.figures.available", lambda: False)
        assert main([str(word) for word in words]) == 0
    return folder / "base"


@pytest.fixture
def files(tmp_path):
    """Votes, prompts and rewards, in the current folder."""
    rng, rows = random.Random(1), []
    while len(rows) < 60:
        pair = ["".join(rng.choices("0123456789", k=DIGITS)) for _ in range(2)]
        if even(pair[0]) > even(pair[1]):
            rows.append({"prompt": ":", "chosen": pair[0], "rejected": pair[1]})
    write(tmp_path / "votes.jsonl", rows)
    (tmp_path / "prompts.txt").write_text(":\n:1\n:2\n:3\n:4\n")
    (tmp_path / "rewards.py").write_text(REWARDS)
    return rows


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def train(command, base, *words, code=0):
    return command("train", "preferences", "--base", base, *words, code=code)


def test_votes_move_the_model(command, base, files):
    write(pathlib.Path("votes.jsonl"), [*files, {**files[0], "tie": True}])
    done = train(command, base, "--file", "votes.jsonl", *RUN, "--run", "dpo")
    assert "votes of a tie that are left out: 1" in done.err
    assert "60 votes, 12 held out" in done.out
    results = read_json("dpo/results.json")
    assert results["method"] == "dpo" and results["verdict"]["better"]
    assert results["more_probable_after"] > results["more_probable_before"]
    assert results["margin"] == pytest.approx(
        results["rewards_chosen"] - results["rewards_rejected"], abs=1e-5
    )
    assert results["kl"] > 0.01
    history = read_json("dpo/history.json")
    names = {f"rewards/{n}" for n in ("chosen", "rejected", "accuracies", "margins")}
    assert {"step", "loss", *names} == {*history[-1]}
    model, before = (
        kerasseq.load_model(f / "model.keras") for f in (pathlib.Path("dpo"), base)
    )
    answers = [m.generate([":"] * 90, DIGITS, seed=0) for m in (model, before)]
    assert even("".join(answers[0])) > even("".join(answers[1])) + 30
    assert command("generate", "dpo", "--prompt", ":", "--length", 3).out
    found = json.loads(
        command("evaluate", "dpo", "--file", "votes.jsonl", "--json").out
    )
    assert found["accuracy"] > 0.6 and found["repeated"] == 48 + results["repeated"]


def test_a_run_that_is_resumed_ends_as_one_that_was_not(command, base, files):
    words = ["--file", "votes.jsonl", *RUN, "--steps", "25"]
    train(command, base, *words, "--run", "whole")
    with at_step(13):
        done = train(command, base, *words, "--run", "stopped", code=130)
    assert "kerasseq train --resume stopped" in done.err
    done = command("generate", "stopped", "--prompt", ":", "--length", 3)
    assert "training stopped at step 10 of 25" in done.err
    assert type(kerasseq.load_model("stopped/model.keras")) is kerasseq.models.GPT
    command("train", "preferences", "--resume", "stopped", "--file", "votes.jsonl")
    whole, again = (read_json(f"{f}/results.json") for f in ("whole", "stopped"))
    for name in ("loss", "margin", "kl"):
        assert again[name] == pytest.approx(whole[name], abs=1e-4)


def test_a_reward_model_and_training_on_its_rewards(command, base, files):
    words = ["--file", "votes.jsonl", "--epochs", "12", *RUN]
    train(command, base, "--method", "reward", *words, "--run", "reward")
    results = read_json("reward/results.json")
    assert results["accuracy"] > 0.7 and results["verdict"]["better"]
    out = command("evaluate", "reward", "--file", "votes.jsonl", "--json").out
    assert json.loads(out)["accuracy"] > 0.7
    words = ["--reward", "reward", "--steps", "20", *RUN[2:], "--lora", "2"]
    words += ["--num-generations", "8"]
    out = train(command, base, *GRPO, *words, "--run", "grpo").out
    assert "On 1 held-out prompts" in out
    results = read_json("grpo/results.json")
    assert results["reward"] > results["reward_before"] and results["kl"] > 0.01
    history = read_json("grpo/history.json")
    assert {*history[-1]} == {"step", "loss", "reward", "kl"} and len(history) == 2
    sampling = ["--prompt", ":", "--length", "9", "--seed", "3"]
    own = command("generate", "grpo", *sampling).out
    assert command("generate", base, "--adapter", "grpo", *sampling).out == own


def test_a_function_of_rewards_that_fails_loses_no_checkpoint(command, base, files):
    words = [*GRPO, "--reward", "rewards.py:fails", "--steps", "50", *RUN[2:]]
    done = train(command, base, *words, "--num-generations", "4", "--run", "g", code=2)
    assert "no rewards today" in done.err and "--resume g" in done.err
    assert len(read_json("g/history.json")) >= 2
    text = pathlib.Path("rewards.py").read_text()
    pathlib.Path("rewards.py").write_text(text.replace("> 40", "> 400"))
    command("train", "--resume", "g")
    assert read_json("g/results.json")["steps"] == 50


def test_votes_of_the_arena_are_trained_on(command, base, tmp_path, monkeypatch):
    """From a language model over an arena and its votes to a continuation."""
    shutil.copytree(base, "other")
    pathlib.Path("p.txt").write_text(":1\n:2\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nb\na\nt\nb\na\na\nb\n"))
    arena = ["arena", base, "other", "--prompts", "p.txt", "--length", 40, "--seed", 5]
    command(*arena)
    words = ["--file", "votes.jsonl", "--steps", "2", "--run", "aligned"]
    done = train(command, base, *words)
    assert "votes are cut: the model reads 17 tokens" in done.err
    assert "Most likely to help: more votes" in done.out
    assert command("generate", "aligned", "--prompt", ":", "--length", 3).out


def test_repeated_votes_are_counted(command, base, files, tmp_path):
    other = {"prompt": ":", "chosen": "1113", "rejected": "2224"}
    write(tmp_path / "votes.jsonl", [*files[:2] * 5, other])
    words = ["--file", "votes.jsonl", "--steps", "1", "--held-out", "0.3"]
    out = train(command, base, *words, "--quantize", "nf4", "--lora", "2").out
    assert "3 of the 3 held-out votes are in the training part, too" in out
    assert read_json("runs/preferences-dpo-1/results.json")["repeated"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--file", "votes.jsonl"], "--method dpo needs --base, received none"),
        (["--base", "B"], "--method dpo needs --file"),
        (["--base", "B", "--method", "grpo"], "--method grpo needs --prompts"),
        (["--base", "B", *GRPO], "--method grpo needs --reward"),
        (["--base", "B", "--file", "votes.jsonl", "--epsilon", "0.1"],
         "--epsilon is not for --method dpo"),
        (["--base", "B", "--file", "votes.jsonl", "--method", "reward", "--beta", "1"],
         "--beta is not for --method reward"),
        (["--base", "B", *GRPO, "--reward", "rewards.py:even", "--file", "x"],
         "--file is not for --method grpo"),
        (["--base", "B", "--method", "ppo"], 'unknown method "ppo"'),
        (["--base", "nowhere", "--file", "votes.jsonl"], 'no folder "nowhere"'),
        (["--base", "B", "--file", "none.jsonl"], "none.jsonl"),
        (["--base", "B", "--file", "one.jsonl"], "at least two votes"),
        (["--base", "B", "--file", "same.jsonl"],
         "same.jsonl, line 2, chosen and rejected must differ"),
        (["--base", "B", "--file", "tie.jsonl"], "tie.jsonl has no row that is no tie"),
        (["--base", "B", "--file", "long.jsonl"], "answers that differ for the model"),
        (["--base", "B", "--file", "votes.jsonl", "--lora", "99"],
         "rank must be at most 8"),
        (["--base", "B", *GRPO, "--reward", "B"],
         "--reward must be a run of kerasseq train preferences --method reward"),
        (["--base", "B", *GRPO, "--reward", "rewards.py"], "rewards.py:function"),
        (["--base", "B", *GRPO, "--reward", "rewards.py:odd"],
         "no function 'odd'. Choose from even, fails, wrong"),
        (["--base", "B", *GRPO, "--reward", "none.py:even"], 'no file "none.py"'),
        (["--base", "B", *GRPO, "--reward", "broken.py:even"],
         "broken.py raised ZeroDivisionError"),
        (["--base", "B", *GRPO, "--reward", "rewards.py:wrong"],
         "must return a finite number for each answer, received nan"),
        (["--base", "B", *GRPO[:4], "--reward", "rewards.py:even"],
         "--max-new-tokens 32, received"),
        (["--base", "B", *GRPO, "--reward", "rewards.py:even", "--num-generations",
          "1"], "at least 2"),
    ],
)  # fmt: skip
def test_wrong_uses(refused, base, files, tmp_path, words, message):
    write(tmp_path / "one.jsonl", files[:1])
    write(
        tmp_path / "same.jsonl",
        [files[0], {**files[0], "chosen": "1", "rejected": "1"}],
    )
    write(tmp_path / "tie.jsonl", [{**files[0], "tie": True}])
    long = {"prompt": ":" * 20, "chosen": "1", "rejected": "2"}
    write(tmp_path / "long.jsonl", [long] * 3)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    before = snapshot(tmp_path)
    words = [base if word == "B" else word for word in words]
    error = refused("train", "preferences", *words)
    assert message in error, error
    assert {n: c for n, c in snapshot(tmp_path).items() if "pycache" not in n} == before


def test_a_reward_model_needs_a_gpt(refused, files, trained):
    words = ["--base", trained[0], "--method", "reward", "--file", "votes.jsonl"]
    error = refused("train", "preferences", *words)
    assert "--method reward needs a gpt, received LanguageModel" in error


def test_scores_of_votes_are_those_of_the_equation(base):
    from kerasseq.cli import preference_data
    from kerasseq.cli.preference_data import Vote

    model = kerasseq.load_model(base / "model.keras")
    ids = [model.tokenizer.encode(text) for text in (":", "24", "135")]
    vote = Vote(1, tuple(map(np.asarray, ids)))
    [found] = preference_data.of_model(model, [vote])
    for answer, value in zip(ids[1:], found, strict=True):
        logits = model.predict(np.array([[*ids[0], *answer]]), verbose=0)[0, :-1]
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        expected = log_p[np.arange(len(answer)), answer].sum()
        assert value == pytest.approx(expected, abs=1e-4)


def test_votes_between_messages_are_written_by_the_chat_template(tmp_path):
    tokenizer = kerasseq.text.CharacterTokenizer().fit("0123456789:;.")
    marks = {"user": ":", "assistant": ";", "system": ":", "end": "."}
    model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
    asked = [{"role": "user", "content": "7"}]
    row = {"prompt": asked, "chosen": "2", "rejected": "3"}
    write(tmp_path / "v.jsonl", [row, {**row, "chosen": "4"}])
    settings = options.Settings(file=str(tmp_path / "v.jsonl"))
    votes, _ = preference_data.read_votes(settings)
    with pytest.raises(ValueError, match=r"v\.jsonl, line 1: messages need the chat"):
        preference_data.encode_votes(model, votes, "v.jsonl")
    tokenizer.chat_template = kerasseq.text.ChatTemplate(**marks)
    encoded = preference_data.encode_votes(model, votes, "v.jsonl")
    found = [tokenizer.decode(ids) for ids in encoded[1].texts]
    assert found == [":7;", "4.", "3."]
