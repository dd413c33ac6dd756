"""The worked examples of the slides, and the errors of a deck."""

import dataclasses
import re

import pytest

from kerasseq import datasets

pytestmark = pytest.mark.once("data without Keras")
RIGHT = """
[[examples]]
id = "F:12"
title = "Two scores"
kind = "scores"
sentences = ["a blue creature"]
lab = "attention"
state = {view = "slide"}
recipe = "softmax"
numbers = [
    {name = "weights", value = [0.27, 0.73], mark = "computed", result = "weights"},
    {name = "ours", value = {a = [1, 2]}, mark = "given"},
]
[examples.inputs]
scores = [1, 2]
"""


def written(tmp_path, text):
    file = tmp_path / "deck.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_course_has_examples_of_each_lecture_once():
    examples = datasets.slides()
    ids = [example.id for example in examples]
    assert len(set(ids)) == len(ids) > 45
    lines = [(name[0], int(name[2:])) for name in ids]
    assert lines == sorted(lines) and {letter for letter, _ in lines} == set("ABCDE")
    assert datasets.slides(ids[-1]) is examples[-1]
    for example in examples:
        assert example.title != example.title_fr
        assert all(len(sentence) < 100 for sentence in example.sentences)
        named = [number.name for number in example.numbers]
        assert len(set(named)) == len(named)
        assert example.sentences or example.numbers


def test_what_is_returned_cannot_be_changed(tmp_path):
    example = datasets.slides("F:12", deck=written(tmp_path, RIGHT))
    assert example.title_fr == example.title == "Two scores"
    assert example.numbers[0].value == (0.27, 0.73) and example.inputs["scores"] == (
        1,
        2,
    )
    assert example.numbers[1].value["a"] == (1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.title = "another"
    for table in (example.inputs, example.state, example.numbers[1].value):
        with pytest.raises(TypeError):
            table["a"] = 1


def test_inputs_of_an_earlier_example(tmp_path):
    again = RIGHT.replace("F:12", "F:13").replace(
        "[examples.inputs]\nscores = [1, 2]", ""
    )
    again = again.replace("recipe =", 'inputs_of = "F:12"\nrecipe =')
    first, second = datasets.slides(deck=written(tmp_path, RIGHT + again))
    assert second.inputs is first.inputs


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('lab = "attention"', 'lab = "atention"', "`lab` must be one of .*attention"),
        ('lab = "attention"', "", "`lab` must be a string, received none"),
        ('kind = "scores"', "kind = 3", "`kind` must be a string, received 3"),
        ('title = "Two', 'titel = "Two', "no field `titel`. Did you mean .title"),
        ('recipe = "softmax"', 'recipe = "max"', "`recipe` must be one of"),
        ('recipe = "softmax"', "", r"number 1: `mark` .computed. needs a `recipe`"),
        ("scores = [1, 2]", "score = 1", "inputs: there is no field `score`"),
        ("scores = [1, 2]", "", "softmax needs the input `scores`"),
        ("scores = [1, 2]", 'scores = "12"', "inputs: `scores` must be a list of num"),
        ("scores = [1, 2]", "scores = [[1, 2], [3]]", "rows of one length, received"),
        ("scores = [1, 2]", "scores = [1, nan]", "inputs: `scores` must be a list of"),
        ('result = "weights"', 'result = "weihgts"', "`result` must be one of weights"),
        ('"a blue creature"', '"a\\nb"', "`sentences` must be of one line"),
        ('"a blue creature"', "1", "`sentences` must hold strings, received 1"),
        ('"slide"', "1", "`state` must hold strings, received 1"),
        ('mark = "given"', 'mark = "gven"', "number 2: `mark` must be one of"),
        ('result = "weights"', "within = 1", "number 1: `result` must be a string"),
        ('mark = "given"', 'mark = "given", within = "a"', "`within` must be a number"),
        ("value = {a = [1, 2]},", "", "number 2: `value` must be set"),
        ("numbers = [", "numbers = [1, ", "number 1 must be a table, received 1"),
        ("[[examples]]", "[[example]]", "no field `example`. Did you mean"),
        ("[[examples]]", "[[examples", "must be a TOML file"),
        (RIGHT, "", "`examples` must be a list, received none"),
        (RIGHT, "examples = []", r"must have at least one \[\[examples\]\]"),
        (RIGHT, RIGHT * 2, "example 2 .F:12.: `id` must be new"),
        ('recipe = "', 'inputs_of = "F:1"\nrecipe = "', "`inputs_of` must be one of"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, before, after, message):
    assert before in RIGHT
    file = written(tmp_path, RIGHT.replace(before, after))
    with pytest.raises(ValueError, match=message) as error:
        datasets.slides(deck=file)
    assert str(error.value).startswith(str(file))


@pytest.mark.parametrize(
    ("recipe", "inputs", "message"),
    [
        ("count", "{model = 3}", "`model` must be a string, received 3"),
        ("billions", '{models = ["gpt3", 3]}', "`models` must be a list of strings"),
        ("memory", "{devices = [8, 9], gigabytes = [32]}", "`devices` of 2, `gigab"),
        ("f1", "{precision = [1], recall = [2], support = [3]}", "`recall` must be"),
        ("chain", "{percents = [0, 50]}", "`percents` must be .* above 0, at most 100"),
        ("cross_entropy", "{probability = 20}", "`probability` must be above 0 and at"),
        ("word_order", '{texts = ["a b", "a c"]}', "two strings of the same words"),
        ("retrieval", '{query = ["a"], keys = [["a", 2]]}', r"`keys\[0\]` of 2"),
        ("balanced", "{sequences = [1, -1], colors = 1}", "list of lists of whole"),
        ("patches", "{image = 224, patch = true}", "`patch` must be a whole number"),
        ("block", "{ids = [3]}", "`ids` must be a list of at least two whole numbers"),
        ("softmax", "{scores = [1], causal = 1}", "`causal` must be true or false"),
        ("eliza", "{lines = []}", "`lines` must be a list of strings"),
        ("binary", "{position = -1, width = 2}", "`position` must be .* at least 0"),
    ],
)
def test_a_wrong_input_is_named(tmp_path, recipe, inputs, message):
    deck = RIGHT.replace("softmax", recipe).partition("numbers =")[0]
    file = written(tmp_path, f"{deck}inputs = {inputs}")
    with pytest.raises(ValueError, match=message) as error:
        datasets.slides(deck=file)
    assert str(error.value).startswith(f"{file}, example 1 (F:12), inputs: ")


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match=re.escape("no example 'E:57'.")):
        datasets.slides("E:57")
    with pytest.raises(ValueError, match="deck.toml has no example 'E:575'"):
        datasets.slides("E:575", deck=written(tmp_path, RIGHT))
    with pytest.raises(TypeError, match="name must be a string .* received 575"):
        datasets.slides(575)
    with pytest.raises(FileNotFoundError):
        datasets.slides(deck=tmp_path / "none.toml")
