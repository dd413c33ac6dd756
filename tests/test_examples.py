"""Tests of the examples: they run with tiny sizes, and their data are right."""

import importlib.util
import random
import re

import keras
import numpy as np
import pytest

import kerasseq
from tests.processes import ROOT

pytestmark = pytest.mark.once("their models are tested on all backends")


def load(name):
    """Imports an example as a module."""
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(**options):
    """The words of a command line.

    >>> arguments(num_layers=1)
    ['--num-layers', '1']
    """
    pairs = ((f"--{k.replace('_', '-')}", str(v)) for k, v in options.items())
    return [word for pair in pairs for word in pair]


@pytest.mark.full("its parts are tested with small models", cheap=False)
def test_road_to_chat(tmp_path, capsys):
    example = load("road_to_chat")
    example.main([str(tmp_path), "--steps", "30", "--language", "fr"])
    lines = capsys.readouterr().out
    assert lines.count("questions about the others: ") == 3
    assert len(list(tmp_path.glob("*.keras"))) == 3
    path = ROOT / "examples" / "road_to_chat.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 100


def test_digits_vit(tmp_path, capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    figure = tmp_path / "digits.png"
    sizes = arguments(epochs=1, hidden_dim=8, images=40, layers=1)
    load("digits_vit").main([str(figure), *sizes])
    assert "accuracy on 8 held-out digits" in capsys.readouterr().out
    assert figure.stat().st_size > 1000


def test_attention_maps(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    figure = tmp_path / "maps.png"
    example = load("attention_maps")
    example.main([str(figure), "--steps", "1"])
    assert capsys.readouterr().out.count("bits per character") == 4
    assert figure.stat().st_size > 1000
    for layer in example.attentions().values():
        model = kerasseq.models.GPT(
            vocabulary_size=7,
            num_layers=1,
            hidden_dim=example.WIDTH,
            **{"position": None, **layer},
        )
        weights = example.alignment(model, np.arange(7))
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(np.triu(weights, 1), 0)


@pytest.mark.parametrize(
    ("name", "sizes", "printed"),
    [
        ("own_cell", {"epochs": 1, "strings": 64, "units": 5}, "minimal"),
        ("compare_classifiers", {"epochs": 1, "texts": 97, "units": 5}, "GRU"),
        (
            "glimpses",
            {"epochs": 1, "images": 40, "seeds": 1, "width": 5},
            "reinforce",
        ),
        ("tag_words", {"epochs": 1, "lines": 30, "units": 5}, "with CRF"),
        (
            "forecast_covariates",
            {"days": 60, "horizon": 5, "epochs": 1, "units": 5},
            "with campaigns",
        ),
    ],
)
def test_examples_that_compare_two_models(name, sizes, printed, capsys):
    load(name).main(arguments(**sizes))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(printed) for line in lines)


def test_own_cell_is_traced_and_saved(tmp_path):
    own_cell = load("own_cell")
    layer = kerasseq.layers.RNN(own_cell.MinimalGatedCell(3), name="own")
    model = keras.Sequential([keras.Input((None, 5)), layer])
    x = np.random.default_rng(0).normal(size=(2, 7, 5)).astype("float32")
    with kerasseq.tracing.trace(model) as inside:
        y = keras.ops.convert_to_numpy(model(x))
    assert inside["own/forget_gate"].shape == (2, 7, 3)
    model.save(tmp_path / "own.keras")
    again = kerasseq.load_model(tmp_path / "own.keras")
    np.testing.assert_allclose(keras.ops.convert_to_numpy(again(x)), y, atol=1e-6)


def test_translate_dates(tmp_path, capsys):
    pytest.importorskip("babel")
    pytest.importorskip("matplotlib")
    figure = tmp_path / "alignments.png"
    sizes = arguments(pairs=100, steps=1, units=5)
    load("translate_dates").main([str(figure), *sizes])
    assert "of 2 other dates are translated" in capsys.readouterr().out
    assert figure.stat().st_size > 1000


def test_classify_csv(tmp_path, capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    file = tmp_path / "reviews.csv"
    rows = ["joy,good", "dull,bad", "fun,good", "slow,bad"] * 5
    file.write_text("\n".join(["review,stars", *rows]), encoding="utf-8")
    columns = arguments(text="review", label="stars", epochs=1, units=5)
    load("classify_csv").main([str(file), *columns])
    out = capsys.readouterr().out
    assert "logistic regression" in out
    assert "-> good" in out or "-> bad" in out


gpt_tasks = load("gpt_tasks")
CATEGORIES = {
    name: kind for kind, names in gpt_tasks.THINGS.items() for name in names.split()
}


def category(text):
    """The category of the words, names of categories and actions in a sentence."""
    known = CATEGORIES | {kind: kind for kind in gpt_tasks.KINDS}
    known |= {way: kind for kind, ways in gpt_tasks.DOINGS.items() for way in ways}
    (found,) = {kind for word, kind in known.items() if f" {word} " in f" {text} "}
    return found


def test_text_of_gpt_tasks():
    draw = random.Random(0)
    stories = [gpt_tasks.story(draw) for _ in range(1000)]
    for story in stories:
        assert category(story) in gpt_tasks.KINDS  # one category per sentence
    assert len(CATEGORIES) == 48
    assert all(any(name in story for story in stories) for name in CATEGORIES)


@pytest.mark.parametrize("task", gpt_tasks.TASKS)
def test_labels_of_gpt_tasks(task):
    words = {kind: names.split()[::2] for kind, names in gpt_tasks.THINGS.items()}
    x, y = gpt_tasks.examples(task, words, 240, seed=1)
    classes = gpt_tasks.TASKS[task] or 3
    shares = np.bincount(y, minlength=classes) / len(y)
    assert np.all(abs(shares - 1 / classes) < 0.12)
    for inputs, label in zip(x, y, strict=True):
        if task is gpt_tasks.classify:
            assert gpt_tasks.KINDS[label] == category(inputs)
        elif task is gpt_tasks.choose:
            context, ways = inputs
            right = [category(way) == category(context) for way in ways]
            assert right == [n == label for n in range(3)]
        else:
            assert label == (category(inputs[0]) == category(inputs[1]))
        held_out = set(CATEGORIES) - {word for part in words.values() for word in part}
        assert not held_out & set(str(inputs).replace("'", " ").split())


def test_gpt_tasks(capsys):
    sizes = arguments(stories=60, labels=4, hidden_dim=8, layers=1)
    gpt_tasks.main([*sizes, *arguments(epochs=1, fine_tuning_epochs=1)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == [
        t.__name__ for t in gpt_tasks.TASKS
    ]


def test_data_of_t5_tasks():
    pytest.importorskip("num2words")
    t5_tasks = load("t5_tasks")
    draw = random.Random(1)
    for task in t5_tasks.TASKS:
        pairs = t5_tasks.examples(task, 200, draw)
        assert len({source for source, _ in pairs}) == len(pairs) > 150
        for source, target in pairs:
            check_t5_target(*source.split(": "), target)
    targets = [t for _, t in t5_tasks.examples(t5_tasks.acceptability, 1000, draw)]
    assert 0.3 < targets.count("acceptable") / len(targets) < 0.7


def check_t5_target(prefix, text, target):
    if prefix == "sort":
        assert target == "".join(sorted(text))
    elif prefix == "acceptable":
        right = re.fullmatch(r"the \w+[^s] near the \w+[^s] \w+s", text)
        assert target == ("acceptable" if right else "unacceptable")
    elif prefix == "similarity":
        one, other = text.split()
        assert target == f"{sum(map(str.__eq__, one, other))} of 3"
    else:
        assert prefix == "translate English to German" and target


def test_t5_tasks(capsys):
    pytest.importorskip("num2words")
    t5_tasks = load("t5_tasks")
    t5_tasks.main(arguments(steps=2, examples=20, hidden_dim=8, layers=1))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == [
        task.__name__ for task in t5_tasks.TASKS
    ]


def test_correct_spelling(capsys):
    load("correct_spelling").main(arguments(sentences=40, steps=1, units=5))
    lines = capsys.readouterr().out.splitlines()
    scores = {line.split("  ")[0]: line for line in lines if " right " in line}
    assert list(scores) == ["as written", "known errors", "network"]
    assert "of the misspelled 0.000, right words spoiled 0.000" in scores["as written"]


def test_words_of_correction():
    example = load("correct_spelling")
    texts = ["ma maman et gentille", "oui"]
    assert example.windows(texts)[2:] == [
        "maman [et] gentille",
        "et [gentille] ",
        " [oui] ",
    ]
    known = example.known_errors(["et", "et", "et", "est"], ["est", "est", "et", "est"])
    assert known == {"et": "est", "est": "est"}


def test_melodies(tmp_path, capsys):
    sound = tmp_path / "melody.wav"
    sizes = arguments(melodies=20, steps=1, units=5, count=3)
    load("melodies").main([str(sound), *sizes])
    out = capsys.readouterr().out
    assert re.search(r"the grammar +1\.00 +1\.00 +1\.00", out)
    assert "of the melodies of the network are in none of the training data" in out


def test_rules_of_melodies():
    example = load("melodies")
    good = "c4h c4h | c4h c4h | c4h c4h | c4h c4h | " + "d4h d4h | " * 3 + "d4h c4h |"
    assert example.rules([good, good.replace("d4h c4h", "d4h d4h")]) == (1, 1, 0.5)
    assert example.rules(["c4h d4q |", ""]) == (0, 0, 0)
    tone = example.sound("a4q |")
    peak = abs(np.fft.rfft(tone)).argmax() * 16000 / len(tone)
    assert abs(peak - 440) < 2 and len(tone) == 6400


def test_summarize(capsys):
    load("summarize").main(arguments(epochs=1, words=7))
    out = capsys.readouterr().out
    scores = dict(re.findall(r"^(.*?) +F1 (0\.\d+)$", out, re.MULTILINE))
    assert len(scores) == 5
    assert max(scores, key=lambda name: float(scores[name])) == "target"


def test_summary_of_a_text():
    example = load("summarize")
    text = ["cats purr softly", "dogs bark", "cats and dogs purr loudly today"]
    assert example.f1(text, text) == 1
    assert example.f1([], text) == 0
    assert sorted(example.target(text)) == [0, 2]
