"""`kerasseq eliza`."""

import io
import sys

import pytest

from kerasseq.cli import eliza
from kerasseq.text.classical.eliza.reader import LANGUAGES
from tests.processes import run_python

pytestmark = pytest.mark.once("the command line")

MAIN = "import sys\nfrom kerasseq.cli import main\nsys.exit(main(sys.argv[1:]))"
FAREWELL = "Goodbye. Thank you for talking to me."


@pytest.fixture
def talk(command, monkeypatch):
    """Runs the command with the given standard input."""

    def run(line, *words, code=0):
        stdin = io.TextIOWrapper(io.BytesIO(line), encoding="ascii")
        monkeypatch.setattr(sys, "stdin", stdin)
        return command("eliza", *words, code=code)

    return run


@pytest.fixture
def terminal(command, at_prompt):
    """Runs the command on a terminal, with an answer to each prompt."""

    def run(*typed):
        at_prompt(*typed)
        return command

    return run


def test_each_piped_line_gets_a_reply(talk):
    done = talk(b"Men are all alike.\r\n\nI am sad")
    assert done.err == ""
    assert done.out.splitlines() == [
        "Is something troubling you?",
        "What is the connection, do you suppose?",
        "Take your time.",
        "I am sorry to hear that you are sad.",
        FAREWELL,
    ]


def test_goodbye_ends_the_conversation(talk):
    assert talk(b"Bye!\nI am sad\n").out.splitlines()[1:] == [FAREWELL]
    done = talk(b"au revoir\nje suis triste\n", "--language", "fr")
    assert done.out.splitlines()[1:] == ["Au revoir. Merci de m'avoir parlé."]


def test_empty_input(talk):
    assert talk(b"").out.splitlines() == ["Is something troubling you?", FAREWELL]


def test_french(talk):
    line = "\ufeffJe suis désespérée.".encode()
    out = talk(line, "--language", "fr").out
    assert "Je suis désolée d'apprendre que vous êtes désespérée." in out


def test_explain(talk):
    out = talk(b"I am sad\n", "--explain").out
    assert "    keyword    i\n    pattern    * i am * @sad *\n" in out


def test_rules_from_a_file(talk, refused, tmp_path):
    rules = """greeting = "Hi"\nfarewell = "So long"\ngoodbyes = ["so"]
silence = ["?"]\ndefault = ["Miaow."]\n[keyword.cat.rules]\n"*" = ["Purr."]\n"""
    (tmp_path / "cat.toml").write_text(rules, encoding="utf-8")
    out = talk(b"a cat\na dog\nso\n", "--rules", "cat.toml").out
    assert out.splitlines() == ["Hi", "Purr.", "Miaow.", "So long"]
    (tmp_path / "cat.toml").write_text(rules.replace("Purr.", "{2}"), encoding="utf-8")
    assert '[keyword.cat.rules] pattern "*": reply 1 uses {2}' in refused(
        "eliza", "--rules", "cat.toml"
    )
    assert "There is no file dog.toml" in refused("eliza", "--rules", "dog.toml")
    assert "not allowed with" in refused(
        "eliza", "--rules", "cat.toml", "--language", "fr"
    )
    assert 'unknown language "de"' in refused("eliza", "--language", "de")


def test_input_that_is_not_utf8(talk):
    done = talk(b"hello\ncaf\xe9\n", code=2)
    assert done.err.startswith(
        "kerasseq: error: expected UTF-8, but byte 4 of line 2 of the input is 0xe9."
    )
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("end", [EOFError(), KeyboardInterrupt()])
def test_terminal_shows_prompt_and_farewell(terminal, end):
    done = terminal("Men are all alike.", end)("eliza")
    assert done.out.splitlines() == [
        "Is something troubling you?",
        "What is the connection, do you suppose?",
        "",
        FAREWELL,
    ]


def test_terminal_with_another_encoding(terminal):
    wrong = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    done = terminal("hello", wrong)("eliza", code=2)
    assert "byte 1 of line 2 of the input is 0xff" in done.err


def test_loads_no_keras_and_replaces_unencodable_characters():
    code = MAIN.replace("sys.exit(", "c = (").replace(
        "from kerasseq", "import io\nsys.stdin = io.TextIOWrapper(io.BytesIO("
        "'je suis énervé'.encode()))\nfrom kerasseq"
    ) + "\nassert 'keras' not in sys.modules\nsys.exit(c)"  # fmt: skip
    done = run_python(code, "eliza", "--language", "fr", PYTHONIOENCODING="ascii")
    assert done.stdout.splitlines()[0] == "Bonjour. Qu'est-ce qui vous pr?occupe ?"
    assert done.stdout.splitlines()[1] == "Contre qui, au fond ?"
    assert done.stderr == ""


def test_closed_input_equals_empty_input():
    done = run_python("import sys; sys.stdin = None\n" + MAIN, "eliza")
    assert done.stdout.splitlines() == ["Is something troubling you?", FAREWELL]


def test_languages_equal_those_of_the_library():
    assert eliza.LANGUAGES == LANGUAGES
