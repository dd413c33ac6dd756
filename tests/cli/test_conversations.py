"""`kerasseq train conversations`: a language model learns to answer."""

import json
import pathlib

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import chat, conversations, main
from kerasseq.core.files import read_json
from tests.cli.conftest import at_step

pytestmark = pytest.mark.once("the command around training that is tested elsewhere")
FACTS = {"one": "two", "three": "five", "red": "blue", "day": "night", "cat": "dog"}
TEXT = "".join(f"{a} goes with {b} .\n" for a, b in FACTS.items()) * 30
TRAIN = ["--batch-size", "8", "--learning-rate", "1e-2"]


def talk(*texts):
    roles = ["user", "assistant"] * len(texts)
    pairs = zip(roles, texts, strict=False)
    return [{"role": role, "content": content} for role, content in pairs]


def write(name, talks):
    lines = [json.dumps({"messages": each}) + "\n" for each in talks]
    pathlib.Path(name).write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The run of a GPT with a chat template."""
    folder = tmp_path_factory.mktemp("talks")
    (folder / "facts.txt").write_text(TEXT)
    words = ["train", "language-model", "--text", folder / "facts.txt", "--chat"]
    words += ["--model", "gpt", "--tokenizer", "word", "--units", "32"]
    words += ["--num-layers", "1", "--num-heads", "2", "--sequence-length", "13"]
    words += ["--steps", "60", "--learning-rate", "1e-2", "--run", folder / "base"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kerasseq.cli.figures.available", lambda: False)
        assert main([str(word) for word in words]) == 0
    return folder / "base"


@pytest.fixture
def files(base, tmp_path, monkeypatch):
    """Conversations and the text, in the current folder."""
    monkeypatch.chdir(tmp_path)
    talks = [talk(*pair) for pair in FACTS.items()] * 8
    write("talks.jsonl", talks)
    pathlib.Path("facts.txt").write_text(TEXT)
    return talks


def train(command, base, *words, code=0):
    return command("train", "conversations", "--base", base, *words, code=code)


def test_a_model_learns_to_answer(command, base, files):
    template = kerasseq.load_model(base / "model.keras").tokenizer.chat_template
    assert template == kerasseq.text.ChatTemplate()
    words = ["--file", "talks.jsonl", "--text", "facts.txt", *TRAIN, "--steps", "160"]
    done = train(command, base, *words, "--run", "talk")
    assert "talks.jsonl: 40 conversations, 4 held out; 36 blocks" in done.out
    assert "4 of the 4 held-out conversations are in the training part" in done.out
    results = read_json("talk/results.json")
    assert results["right_before"] < 0.5 and results["right"] == 1
    assert results["bits_per_token"] < 0.5 < 3 < results["bits_per_token_before"]
    assert results["verdict"]["better"] and results["repeated"] == 4
    assert "bits per byte of the text's end" in done.out
    end = TEXT[-(len(TEXT) // 10) :]  # is in no batch
    bits = chat.bits_per_byte(kerasseq.load_model("talk/model.keras"), end)
    assert results["bits_per_byte"] == pytest.approx(bits, abs=1e-6)
    found = json.loads(
        command("evaluate", "talk", "--file", "talks.jsonl", "--json").out
    )
    assert found["accuracy"] == 1 and found["repeated"] == 40
    assert found["questions"] == 40
    assert command("chat", "talk", "--prompt", "red").out.strip() == "blue"


def test_blocks_of_a_text(base):
    model = kerasseq.load_model(base / "model.keras")
    text = " " * 20_000 + TEXT
    blocks, end = conversations.mixed(model, text, 1000, 0)
    held_out = len(text) // 10
    assert end == text[-held_out:]
    assert blocks and all(block in text[:-held_out] for block in blocks)
    lengths = {len(model.tokenizer.encode(block)) for block in blocks}
    assert max(lengths) == 14 and min(lengths) > 1
    few, _ = conversations.mixed(model, text, 50, 0)  # some are spaces alone
    assert 0 < len(few) < 50 and set(few) <= set(blocks)


def test_bits_are_those_of_the_softmax(base, files):
    model = kerasseq.load_model(base / "model.keras")
    talks = [talk("one goes", "two"), talk("cat", "dog goes", "red", "blue")]
    bits, tokens = chat.bits_of_answers(model, talks, 1)
    assert tokens.tolist() == [2, 5]
    for n, answers in enumerate([["two"], ["dog goes", "blue"]]):
        ids = model.tokenizer.apply_chat_template(talks[n]).tolist()
        z = np.asarray(model.predict_on_batch(np.array([ids[:-1]])), "float64")[0]
        log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
        encoded = [model.tokenizer.encode(f"{a}<|end|>").tolist() for a in answers]
        places, start = [], 0
        for part in encoded:
            start = next(
                p for p in range(start, len(ids)) if ids[p : p + len(part)] == part
            )
            places += range(start, start + len(part))
        expected = -sum(log_p[p - 1, ids[p]] for p in places) / np.log(2)
        assert bits[n] == pytest.approx(expected, abs=1e-4)


def test_a_run_that_is_resumed_ends_as_one_that_was_not(command, base, files):
    words = ["--file", "talks.jsonl", *TRAIN, "--steps", "11"]
    words += ["--checkpoint-every", "4", "--lora", "2"]
    done = train(command, base, *words, "--run", "whole")
    assert "is not measured: see --text" in done.out
    with at_step(7):
        done = train(command, base, *words, "--run", "stopped", code=130)
    assert "kerasseq train --resume stopped" in done.err
    command("train", "--resume", "stopped")
    whole, again = (read_json(f"{f}/results.json") for f in ("whole", "stopped"))
    assert again["bits_per_token"] == pytest.approx(whole["bits_per_token"], abs=1e-4)
    assert again["trained_parameters"] < again["parameters"]


def test_long_conversations_are_cut_after_an_answer(command, base, files):
    long = talk("one goes with", "two", "red goes with", "blue", "cat goes with", "dog")
    write(
        "long.jsonl", [long, talk("one " * 20, "two"), *files[:5], talk("two", "xyz")]
    )
    words = ["--file", "long.jsonl", *TRAIN, "--steps", "1"]
    done = train(command, base, *words, "--run", "cut")
    assert "conversations left out: 1 of 8, as the model reads 13 tokens" in done.err
    assert "conversations cut after an answer: 1, as" in done.err
    assert "1 words of the conversations are not in the training text" in done.err
    assert read_json("cut/results.json")["conversations"] == 7


def test_wrong_options(command, base, files):
    write("one.jsonl", files[:1])
    write("silent.jsonl", [*files[:2], talk("cat")])
    write("long.jsonl", [talk("one " * 20, "two")] * 3)
    for words, message in (
        ([], "expected --file, received none"),
        (["--file", "one.jsonl"], "at least two conversations, as one is held out"),
        (["--file", "silent.jsonl"], "line 3 must have an answer"),
        (
            ["--file", "long.jsonl"],
            "14 tokens, which the model reads, at least 2",
        ),
        (["--file", "talks.jsonl", "--text-weight", "1"], "is for --text, received"),
    ):
        done = train(command, base, *words, code=2)
        assert message in done.err
    model = "train", "language-model", "--text", "facts.txt"
    done = command(*model, "--chat", code=2)
    assert "Choose word, bpe or unigram" in done.err
    done = command(*model, "--chat", "--base", base, code=2)
    assert "--chat cannot be chosen with --base" in done.err
    done = command(*model, "--tokenizer", "word", "--steps", "1", "--run", "plain")
    assert "At least 100% of the held-out text is in the training text" in done.out
    done = command("train", "conversations", "--base", "plain", "--file", "one.jsonl",
                   code=2)  # fmt: skip
    assert "at least two" in done.err
    done = train(command, "plain", "--file", "talks.jsonl", code=2)
    assert "kerasseq train language-model --chat" in done.err
    assert not pathlib.Path("runs").exists()
