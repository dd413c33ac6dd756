"""The example of GPT's four forms of input runs, and its data are right."""

import importlib.util
import random

import numpy as np
import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.once("an example: its model is tested everywhere")

spec = importlib.util.spec_from_file_location("gpt", ROOT / "examples/gpt_tasks.py")
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

KIND_OF = {
    name: kind for kind, names in example.THINGS.items() for name in names.split()
}


def kind_of(text):
    """The kind of a thing in a sentence, or the kind that is named, or that does it."""
    known = KIND_OF | {kind: kind for kind in example.KINDS}
    known |= {way: kind for kind, ways in example.DOINGS.items() for way in ways}
    (found,) = {kind for word, kind in known.items() if f" {word} " in f" {text} "}
    return found


def test_the_text_tells_what_is_so():
    draw = random.Random(0)
    stories = [example.story(draw) for _ in range(1000)]
    for story in stories:
        assert kind_of(story) in example.KINDS  # of the thing and of what it does
    assert len(KIND_OF) == 48
    assert all(any(name in story for story in stories) for name in KIND_OF)


@pytest.mark.parametrize("task", example.TASKS)
def test_the_answers_are_right(task):
    words = {kind: names.split()[::2] for kind, names in example.THINGS.items()}
    x, y = example.examples(task, words, 240, seed=1)
    classes = example.TASKS[task] or 3
    shares = np.bincount(y, minlength=classes) / len(y)
    assert np.all(abs(shares - 1 / classes) < 0.12)
    for asked, answer in zip(x, y, strict=True):
        if task is example.classify:
            assert example.KINDS[answer] == kind_of(asked)
        elif task is example.choose:
            context, ways = asked
            right = [kind_of(way) == kind_of(context) for way in ways]
            assert right == [n == answer for n in range(3)]
        else:
            assert answer == (kind_of(asked[0]) == kind_of(asked[1]))
        hidden = set(KIND_OF) - {word for part in words.values() for word in part}
        assert not hidden & set(str(asked).replace("'", " ").split())


def test_it_runs(capsys):
    sizes = {"stories": 60, "epochs": 1, "labels": 4, "fine": 1, "width": 8}
    sizes["layers"] = 1
    example.main([part for k, n in sizes.items() for part in (f"--{k}", str(n))])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == [
        t.__name__ for t in example.TASKS
    ]
