"""`kerasseq chat`: answers, commands of a dialogue, and its ends."""

import io
import json
import re
import sys

import keras
import pytest

from kerasseq import models
from kerasseq.cli import chat
from kerasseq.text import CharacterTokenizer, ChatTemplate

pytestmark = pytest.mark.once("the command line")

LONGEST = 61
LENGTH = ("--length", 7)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(5)
    tokenizer = CharacterTokenizer().fit("what is the state of a gate ? UASE")
    tokenizer.chat_template = ChatTemplate("U", "A", "S", "E")
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 8}
    model = models.GPT(tokenizer, **sizes, max_sequence_length=LONGEST)
    # So that it writes other tokens than the last one again.
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.9, seed=3))
    return model


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("chat") / "chat.keras"
    model.save(path)
    return path


@pytest.fixture
def talk(command, monkeypatch, file):
    """Runs the command with the given lines as its input."""

    def run(lines, *words, code=0):
        stdin = io.TextIOWrapper(io.BytesIO(lines.encode()), encoding="ascii")
        monkeypatch.setattr(sys, "stdin", stdin)
        return command("chat", file, *LENGTH, *words, code=code)

    return run


@pytest.fixture
def typed(command, at_prompt, file):
    """Runs the command on a terminal, with an answer to each prompt."""

    def run(*lines):
        waiting = at_prompt(*lines)
        done = command("chat", file, *LENGTH)
        assert next(waiting, None) is None
        return done

    return run


def test_each_piped_line_gets_the_answer_of_the_model(model, talk):
    done = talk("what is a gate ?\nthe state ?\n/new\nthe state ?\n")
    same, new = (models.Chat(model, max_new_tokens=7) for _ in range(2))
    expected = [same.ask("what is a gate ?"), same.ask("the state ?")]
    expected.append(new.ask("the state ?"))
    assert done.out == "".join(f"{answer}\n" for answer in expected)
    assert expected[1] != expected[2]  # the second one had a history
    assert "a new conversation" in done.err
    assert talk("/new", "--quiet").err == ""


def test_json_has_the_text_and_each_token(model, talk):
    done = talk("a gate ?\nthe state ?\n", "--json", "--system", "a")
    found = json.loads(done.out)
    same = models.Chat(model, "a", max_new_tokens=7)
    for turn, message in zip(found["turns"], ("a gate ?", "the state ?"), strict=True):
        assert turn["message"] == message and turn["prompt"] == same.prompt(message)
        pieces = list(same.stream(message))
        assert turn["answer"] == "".join(piece.text for piece in pieces)
        assert [each["token"] for each in turn["tokens"]] == [p.token for p in pieces]
        for token, piece in zip(turn["tokens"], pieces, strict=True):
            assert token["probability"] == pytest.approx(piece.probability, abs=1e-6)
            best = [each["token"] for each in token["best"]]
            assert best == [token for token, _ in piece.best] and len(best) == 4
    assert found["turns"][1]["prompt"].startswith("SaUa gate ?A")


def test_explain_prints_what_is_read_and_the_next_tokens(model, command, talk):
    done = talk("", "--prompt", "a gate ?", "--explain")
    first, *rows, answer = done.out.splitlines()
    assert first == "    reads 'Ua gate ?A'"
    pieces = list(models.Chat(model, max_new_tokens=7).stream("a gate ?"))
    assert answer == "".join(piece.text for piece in pieces)
    for row, piece in zip(rows, pieces, strict=True):
        assert row.startswith(f"    {piece.probability:.3f}  {piece.token!r}")
        assert len(re.findall(r"'.+?' 0\.\d{3}(?:,|$)", row)) == 3
    both = talk("/explain\na gate ?\n/explain\nthe state ?\n").out
    assert done.out in both and both.count("reads") == 1


def test_seeds_repeat_draws(talk):
    words = ("--temperature", 2, "--seed")
    texts = [talk("a gate ?\na gate ?", *words, seed).out for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert talk("a gate ?", "--top-k", 1).out == talk("a gate ?").out  # greedy


def test_wrong_messages_do_not_end_the_dialogue(talk):
    done = talk(f"\n{'a' * 60}\n/gate\n/help\na Ω\n/quit\na gate ?\n")
    assert len(done.out.splitlines()) == len(chat.COMMANDS) + 1
    for words in (
        "expected a message, received an empty line",
        f"room for an answer in the {LONGEST} tokens that the model reads, received 62",
        "unknown command /gate. Commands: /new,",
        "1 of the 3 characters of the message are not in the training text",
    ):
        assert words in done.err


def test_messages_left_out_are_noted_once_a_conversation(talk):
    long = "what is the state of a gate ?\n"
    done = talk(long * 4)
    assert done.err.count("the oldest messages are left out") == 1
    assert talk(f"{long * 3}/new\n{long * 3}").err.count("are left out") == 2
    assert "left out" not in talk("a\n" * 3).err


@pytest.mark.parametrize("end", [EOFError(), KeyboardInterrupt(), "/quit"])
def test_terminal(typed, end):
    out = typed("a gate ?", end).out.splitlines()
    assert out[0].endswith("chat.keras answers. Commands: /new, /explain, /help, /quit")
    assert len(out) == 2 + (end != "/quit")  # the cursor is behind the prompt


def test_ctrl_c_stops_an_answer_alone(typed, talk, monkeypatch):
    closed, stream = [], models.Chat.stream

    def interrupted(self, text):
        pieces = stream(self, text)

        def some():
            try:
                yield next(pieces)
                yield next(pieces)
                raise KeyboardInterrupt
            finally:
                closed.append(text)

        return stream(self, text) if text == "a" else some()

    monkeypatch.setattr(models.Chat, "stream", interrupted)
    out = typed("a gate ?", "a", EOFError()).out.splitlines()
    assert len(out[1]) == 2 and out[2] == "(stopped)" and len(out[3]) == 7
    assert closed == ["a gate ?"]
    assert "stopped" in talk("a gate ?\na\n", code=130).err


def test_an_empty_answer_is_noted(talk, monkeypatch):
    end = models.chat.Piece("", "E", 1.0, [("E", 1.0)])
    monkeypatch.setattr(models.Chat, "stream", lambda self, text: (p for p in [end]))
    done = talk("a\n")
    assert done.out == "\n" and "the model ended it at once" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prompt", ""], "--prompt must have at least one character"),
        (["--system", ""], "--system must have at least one character"),
        (["--prompt", "a" * 60], "received 62 with what the chat template adds"),
        (["--top-p", "7"], "--top-p"),
    ],
)
def test_bad_options(refused, file, words, message):
    assert message in refused("chat", file, *words)


def test_a_model_of_texts_has_no_chat_template(refused, trained):
    line = refused("chat", trained[0], "--prompt", "gate")
    assert f"{trained[0]} has no chat template" in line and "ChatTemplate()" in line
