"""The lab Chat: its models, its conversation, and the program that trains them."""

import runpy
import sys

import numpy as np
import pytest

from parts import chats
from tests.apps import pages
from tests.processes import ROOT

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]


@pytest.mark.everywhere("stored weights on another backend", cases=2)
@pytest.mark.parametrize(("language", "stage"), [("en", "talk"), ("fr", "read")])
def test_conversations_alone_make_it_answer(language, stage):
    found = chats.scores(language, stage)
    assert found["known"] > 0.95
    if stage == "read":
        assert found["others"] < 0.1
    else:
        assert found["others"] > 0.9 and found["asked"] > 0.95


def answers(page):
    """What the page shows of the answers: a text and its tokens each."""
    return [html.value for html in page.get("html") if "pre-wrap" in html.value]


def test_a_conversation(monkeypatch):
    monkeypatch.setattr("labs.chat.PAUSE", 0, raising=False)
    page = pages.open_lab("chat", stage="talk")
    (first,) = answers(page)
    assert "Rome" in first and "P = 0.9" in first and "&lt;|end|&gt;" in first
    page.chat_input[0].set_value("What is 3 plus 4 ?").run()
    assert ">7<" in answers(pages.checked(page))[1]
    assert pages.query(page)["said_en"] == "Where does Carl live?~What is 3 plus 4 ?"
    code = page.code[0].value
    assert "'What is 3 plus 4 ?'" in code and "talks = asked.messages" in code
    pages.control(page, "stage").set_value("read").run()
    changed = answers(pages.checked(page))
    assert len(changed) == 2 and ">7<" not in changed[1]
    assert "talks" not in page.code[0].value


def test_examples_and_a_new_conversation():
    page = pages.open_lab("chat", lang="fr", stage="talk")
    example = next(b for b in page.button if b.label.startswith("Qui est la mère"))
    example.click().run()
    assert len(answers(pages.checked(page))) == 2
    next(b for b in page.button if b.label == "Nouvelle conversation").click().run()
    assert answers(pages.checked(page)) == []
    page.chat_input[0].set_value("~ ’").run()
    assert len(answers(pages.checked(page))) == 1
    page.chat_input[0].set_value("?" * 100).run()
    assert "64" in page.error[0].value and page.subheader
    assert len(answers(pages.checked(page.run()))) == 1  # without that message


def test_the_program_that_trains_them(tmp_path, monkeypatch, capsys):
    file = tmp_path / "chat.npz"
    words = ["prepare_chat.py", str(file), "fr", "--quick"]
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(ROOT / "apps" / "prepare_chat.py"), run_name="__main__")
    assert "bytes" in capsys.readouterr().out
    with np.load(file) as made, np.load(chats.file("fr")) as kept:
        assert {n: made[n].shape for n in made} == {n: kept[n].shape for n in kept}
