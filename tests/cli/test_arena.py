"""`kerasseq arena`: the votes, their file, and the table of ratings."""

import io
import json
import re
import shutil
import sys

import numpy as np
import pytest

from kerasseq.cli import arena
from kerasseq.cli.arena import append_vote
from kerasseq.training import elo, ratings
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

PROMPTS = ["gate", "the state", "loss"]
VOTES = [("two", "one"), ("one", "two"), ("two", "three"), ("three", "two", 0.5)]


@pytest.fixture(scope="session")
def models(trained, tmp_path_factory):
    """A model under three names."""
    folder = tmp_path_factory.mktemp("arena")
    for name in ("one", "two", "three"):
        (folder / name).mkdir()
        shutil.copy(trained[0] / "model.keras", folder / name)
    return folder


@pytest.fixture
def play(command, monkeypatch, models, tmp_path):
    """Runs the command on three runs with the given answers."""
    for name in ("one", "two", "three"):
        (tmp_path / name).symlink_to(models / name)
    (tmp_path / "p.txt").write_text("\n\n".join(PROMPTS) + "\n", encoding="utf-8")

    def run(answers, *words, code=0):
        stdin = answers if hasattr(answers, "readline") else io.StringIO(answers)
        monkeypatch.setattr(sys, "stdin", stdin)
        rest = ("--prompts", "p.txt", "--length", 5, "--seed", 7, *words)
        return command("arena", "one", "two/", "three", *rest, code=code)

    return run


def rows(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_votes(path, votes=VOTES):
    for first, second, *score in votes:
        row = {"chosen_model": first, "rejected_model": second}
        append_vote(path, {**row, "tie": True} if score else row)


def test_votes_are_preferences(play, tmp_path):
    out = play("a\nB\n s\nt\nq\n").out
    found = rows(tmp_path / "votes.jsonl")
    assert [row["prompt"] for row in found] == ["gate", "the state", "gate"]
    assert [row.get("tie", False) for row in found] == [False, False, True]
    keys = ["prompt", "chosen", "rejected", "chosen_model", "rejected_model"]
    assert all([*row][:5] == keys for row in found)
    shown = re.findall(r"\nA\n(.*?)\n\nB\n(.*?)\n\nWhich", out, re.DOTALL)
    assert len(shown) == 5  # the third is skipped, at the fifth the user quits
    assert (found[0]["chosen"], found[0]["rejected"]) == shown[0]
    assert (found[1]["rejected"], found[1]["chosen"]) == shown[1]
    assert {found[2]["chosen"], found[2]["rejected"]} == {*shown[3]}
    assert all(len(text) == 5 for pair in shown for text in pair)
    before, title, table = out.partition("Ratings of 3 votes in votes.jsonl")
    assert title and not re.search("one|two|three", before)  # blind
    for row in found:
        assert row["chosen_model"] in table and row["rejected_model"] in table
    assert "(--prior): 1" in table


def test_order_of_the_pair_is_random(models):
    names = {"one": None, "two": None, "three": None}
    drawn = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(arena.generate, "continuation", lambda *a: "x")
            drawn.add(arena._pair(names, "p", None, rng).names)
    assert len(drawn) == 6


def test_session_continues_as_if_it_had_not_ended(play, tmp_path):
    play("a\nb\na\nt\n")
    whole = rows(tmp_path / "votes.jsonl")
    for session in ("a\nb\n", "q\n", "a\n", "t\nq\n"):
        play(session, "--votes", "parts.jsonl")
    assert rows(tmp_path / "parts.jsonl") == whole and len(whole) == 4


def test_ctrl_c_keeps_the_votes(play, tmp_path):
    class Interrupted(io.StringIO):
        def readline(self, size=-1):
            line = super().readline(size)
            if not line:
                raise KeyboardInterrupt
            return line

    out = play(Interrupted("b\na\n")).out
    assert len(rows(tmp_path / "votes.jsonl")) == 2
    assert "Ratings of 2 votes" in out


def test_wrong_answers(play, tmp_path, monkeypatch):
    done = play("a\nboth\nb\n", code=2)
    assert "expected a, b, t, s or q, received 'both'" in done.err
    assert len(rows(tmp_path / "votes.jsonl")) == 1
    terminal = io.StringIO("both\nq\n")
    terminal.isatty = lambda: True
    out = play(terminal, "--votes", "other.jsonl").out
    assert out.count(arena.QUESTION) == 2 and "received 'both'" in out
    assert "There are no votes in other.jsonl" in out


def test_ratings_alone(command, tmp_path):
    path = tmp_path / "votes.jsonl"
    write_votes(path, VOTES * 3)
    found = json.loads(command("arena", "--json").out)
    assert found["votes"] == 12 and found["prior"] == 1
    expected = ratings(path, prior=1)
    assert [row["run"] for row in found["ratings"]] == expected.players
    np.testing.assert_allclose([r["rating"] for r in found["ratings"]], expected.values)
    bounds = [row["interval"] for row in found["ratings"]]
    np.testing.assert_allclose(bounds, expected.interval)
    out = command("arena", "--prior", 0).out
    found = re.findall(r"^ *(one|two|three) ", out, re.MULTILINE)
    assert found == ratings(path).players
    assert "--prior" not in out and len(elo(path)) == 3
    path.write_text("")
    assert json.loads(command("arena", "--json").out)["ratings"] == []


def test_json_has_stdout_for_itself(play):
    done = play("a\nq\n", "--json")
    assert json.loads(done.out)["votes"] == 1
    assert "Which is better" in done.err


def test_a_last_line_without_its_end_is_kept(tmp_path):
    path = tmp_path / "votes.jsonl"
    path.write_text('{"chosen_model": "a", "rejected_model": "b"}')
    append_vote(path, {"chosen_model": "\udcff", "rejected_model": "b"})
    assert [row["chosen_model"] for row in rows(path)] == ["a", "\udcff"]


def test_empty_continuations_are_not_shown(play, tmp_path, monkeypatch):
    texts = iter(["", "x", "y", "y", "v", "w", *"ab" * 9])
    monkeypatch.setattr(arena.generate, "continuation", lambda *rest: next(texts))
    play("b\n")
    [row] = rows(tmp_path / "votes.jsonl")
    assert (row["prompt"], row["chosen"], row["rejected"]) == ("loss", "w", "v")


def test_alike_continuations_are_not_shown(play, tmp_path):
    done = play("a\n", "--temperature", 0, code=2)
    assert "equal or empty ones 20 times in a row with --temperature 0" in done.err
    assert arena.QUESTION not in done.out
    assert not (tmp_path / "votes.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one", "--prompts", "p.txt"], "two runs to vote between, received one"),
        (["--prompts", "p.txt"], "two runs to vote between, received none"),
        (["one", "two"], "--prompts is needed to vote"),
        (["one", "two", "./one/", "--prompts", "p.txt"], "received one twice"),
        (["one", "two", "--prompts", "none.txt"], "none.txt"),
        (["one", "two", "--prompts", "blank.txt"], "one prompt in blank.txt"),
        (["one", "two", "--prompts", "bad.jsonl"], 'line 2: expected an object'),
        (["one", "two", "--prompts", "p.txt", "--votes", "no/v"], "no folder no"),
        (["one", "two", "--prompts", "p.txt", "--votes", "one"], "folder one"),
        (["one", "two", "--prompts", "p.txt", "--votes", "bad.votes"],
         "bad.votes, line 2: expected the keys"),
        (["one", "four", "--prompts", "p.txt"], "four"),
        (["one", "t5.keras", "--prompts", "p.txt"],
         "expected a language model, received T5 in t5.keras"),
        (["--votes", "bad.votes"], "bad.votes, line 2: expected the keys"),
        ([], "there is no file votes.jsonl with votes"),
        (["--votes", "one-sided", "--prior", "0"], "two never lost to the others"),
        (["--prior", "1e-9"], "--prior: expected a number 0, or at least 0.001"),
    ],
)  # fmt: skip
def test_bad_input(play, refused, tmp_path, words, message):
    from kerasseq import models, text

    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "bad.jsonl").write_text('{"prompt": "a"}\n{"text": "b"}\n')
    good = '{"chosen_model": "two", "rejected_model": "one"}\n'
    (tmp_path / "bad.votes").write_text(good + '{"prompt": "a"}\n')
    (tmp_path / "one-sided").write_text(good)
    if "t5.keras" in words:
        tokenizer = text.CharacterTokenizer().fit("gate")
        sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 8}
        models.T5(tokenizer, **sizes).save(tmp_path / "t5.keras")
    before = snapshot(tmp_path)
    assert message in refused("arena", *words)
    assert snapshot(tmp_path) == before
