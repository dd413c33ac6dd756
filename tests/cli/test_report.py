"""`kerasseq report`: numbers of each stage, and the page."""

import html.parser
import json
import math

import keras
import pytest

from kerasseq import models
from kerasseq.cli import report
from kerasseq.text import CharacterTokenizer, ChatTemplate

pytestmark = pytest.mark.once("the command line")

QUESTIONS = [("a", "b"), ("b", "ab"), ("é", "b | <a>")]
TEXT = "é aab|\n" * 9


def talk(question, answer):
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two stages: one that has learned two of three answers, and one before."""
    place = tmp_path_factory.mktemp("report")
    keras.utils.set_random_seed(0)
    tokenizer = CharacterTokenizer().fit(TEXT + "<>UAS.")
    tokenizer.chat_template = ChatTemplate("U", "A", "S", ".")
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 16}
    model = models.GPT(tokenizer, **sizes, max_sequence_length=21)
    model.save(place / "1.keras")
    model.compile(keras.optimizers.Adam(3e-2))
    talks = [talk(*QUESTIONS[0]), talk("b", "aab"), talk(*QUESTIONS[2])]
    model.fit(talks, epochs=60, verbose=0)
    model.save(place / "2.keras")
    rows = [json.dumps({"messages": talk(*pair)}) + "\n" for pair in QUESTIONS]
    (place / "q.jsonl").write_text("".join(rows), encoding="utf-8")
    (place / "t.txt").write_text(TEXT, encoding="utf-8")
    return place


@pytest.fixture
def write(command, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)

    def run(*words, name="page.md", code=0):
        page = tmp_path / name
        done = command("report", *words, "--output", page, code=code)
        text = page.read_text(encoding="utf-8") if page.exists() else None
        return done, text

    return run


ALL = ("1.keras", "2.keras", "--questions", "q.jsonl", "--text", "t.txt")


def test_numbers_are_those_of_the_models(write, folder):
    done, page = write(*ALL, "--json")
    found = json.loads(done.out)
    for n, stage in enumerate(found["stages"], start=1):
        model = keras.models.load_model(folder / f"{n}.keras")
        ids = model.tokenizer.encode(TEXT)
        bits = model.cross_entropy(TEXT) * (len(ids) - 1) / math.log(2)
        assert stage["bits_per_byte"] == pytest.approx(bits / len(TEXT[1:].encode()))
        assert stage["parameters"] == model.count_params()
    first, second = found["stages"]
    assert first["right"] == 0 and second["right"] == pytest.approx(2 / 3)
    assert second["answers"] == ["b", "aab", "b | <a>"] and second["steps"] == 60
    worse = found["sentences"]  # it has forgotten the text
    assert all("2.keras needs more bits per byte" in sentence for sentence in worse)
    assert bool(worse) == (second["bits_per_byte"] > first["bits_per_byte"])
    assert "| b | ab |" in page and "b \\| &lt;a>" in page


def test_the_page_in_html(write):
    done, page = write(*ALL, name="page.html")
    cells, parser = [], html.parser.HTMLParser()
    parser.handle_data = cells.append
    parser.feed(page)
    assert "b | <a>" in cells and "0.667" in cells and "The page: " in done.out
    assert "0.667" in done.out


def test_runs_without_a_template_are_not_asked(write, folder):
    model = keras.models.load_model(folder / "1.keras")
    model.tokenizer.chat_template = None
    model.save(folder / "0.keras")
    done, page = write("0.keras", "2.keras", "--questions", "q.jsonl")
    assert "0.keras has no chat template, and is not asked" in done.err
    assert "| 0.keras |" in page and "| – |" in page


@pytest.mark.parametrize(
    ("words", "name", "message"),
    [
        (ALL, "page.txt", "--output must end in .md or .html"),
        (ALL, "no/page.md", "--output must be in a folder that exists"),
        (("1.keras", "--text", "no"), "page.md", "no"),
        (("missing",), "page.md", "missing"),
        (("1.keras", "--questions", "t.txt"), "page.md", "t.txt, line 1"),
        (
            ("1.keras", "--questions", "half.jsonl"),
            "page.md",
            "line 1 must end",
        ),
    ],
)
def test_wrong_uses(write, folder, words, name, message):
    half = {"messages": talk("a", "b")[:1]}
    (folder / "half.jsonl").write_text(json.dumps(half), encoding="utf-8")
    done, page = write(*words, name=name, code=2)
    assert message in done.err and page is None


def test_nothing_is_overwritten(write, tmp_path):
    (tmp_path / "page.md").write_text("mine")
    done, page = write(*ALL, code=2)
    assert page == "mine" and "exists already, and nothing is overwritten" in done.err


def test_pages_escape_what_they_are_given():
    blocks = [("heading", "<h>"), ("table", ["a", "b"], [["1 | 2", "x\ny"]])]
    assert report.render(blocks, ".md").splitlines()[-1] == "| 1 \\| 2 | x y |"
    assert "<title>&lt;h&gt;</title>" in report.render(blocks, ".html")


def test_a_loss_is_said():
    stages = [{"run": "a", "bits_per_byte": 1.0}, {"run": "b", "bits_per_byte": 1.25}]
    (sentence,) = report.verdicts(stages)
    assert (
        sentence == "b needs more bits per byte of the text than a: 1.250 after 1.000."
    )
    assert report.verdicts(stages[::-1]) == []
    assert report.verdicts(stages[:1]) == []
