"""Exercises: solutions pass, each typical mistake fails with its own hint."""

import itertools
import pathlib
import re
import sys

import keras
import numpy as np
import pytest

from kerasseq import exercises
from kerasseq.exercises import registry
from kerasseq.exercises.registry import REGISTERED, words

pytestmark = pytest.mark.once("computes with NumPy")
PAGES = pathlib.Path(__file__).parents[2] / "docs" / "pages"
NUMBERS = exercises.numbers()
MISTAKES = [
    (number, name) for number in NUMBERS for name in REGISTERED[number].mistakes
]


def test_three_for_each_tutorial():
    assert [f"{t:02}.{n}" for t, n in itertools.product(range(1, 17), (1, 2, 3))] == (
        NUMBERS
    )


@pytest.mark.everywhere("compares with layers and functions of Keras")
@pytest.mark.parametrize("number", NUMBERS)
def test_solution_passes(number):
    verdict = exercises.check(number, REGISTERED[number].solution)
    assert verdict, verdict.message


@pytest.mark.parametrize(("number", "name"), MISTAKES)
def test_mistake_gets_its_hint(number, name):
    for language in ("en", "fr"):
        verdict = exercises.check(
            number, REGISTERED[number].mistakes[name], language=language
        )
        assert not verdict
        assert verdict.message.endswith(words()[number][name][language])


def test_words_are_whole():
    table = words()
    assert {*table} == {*NUMBERS, "messages"}
    for number in NUMBERS:
        one, row = REGISTERED[number], table[number]
        hints = row.keys() - {"call", "en", "fr"}
        assert hints == one.mistakes.keys()
        assert all(row[name].keys() == {"en", "fr"} for name in hints)
        name = row["call"].partition("(")[0]
        assert one.solution.__name__ == name
        assert len(one.mistakes) >= 2


@pytest.mark.parametrize("number", NUMBERS)
def test_written_solution_is_code(number):
    """It runs with NumPy, the helpers and the solutions that it names, and is right."""
    names = {"np": np, **vars(registry)}
    for other in NUMBERS:
        names[REGISTERED[other].solution.__name__] = REGISTERED[other].solution
    exec(exercises.solution(number), names)
    assert exercises.check(number, names[words()[number]["call"].partition("(")[0]])


WRONG = [None, "text", 3, 2.5, [1, 2], np.zeros((2, 3)), {}, object]
RETURNED = [None, "text", [[1], [1, 2]], {}, object(), 1j, [None], np.array(["a"])]


@pytest.mark.parametrize("number", ["01.2", "10.1", "15.1"])
def test_answers_of_wrong_types(number):
    call = words()[number]["call"]
    for wrong in WRONG:
        verdict = exercises.check(number, wrong)
        assert not verdict
        assert call in verdict.message
    for returned in RETURNED:
        verdict = exercises.check(number, lambda *inputs, it=returned: it)
        assert not verdict
        assert "must return" in verdict.message
        assert "received" in verdict.message


def test_messages_of_other_faults():
    def shape_of(ids, size):
        return np.zeros((size, 3))

    def row_of(ids, size):
        return np.eye(size)[ids][None]

    def raising(ids, size):
        raise KeyError("x")

    def infinite(ids, size):
        return np.full((len(ids), size), np.inf)

    def at_random(ids, size):
        return np.eye(size)[ids] + 0.1 * (np.arange(size) == 2)

    for function, message in {
        shape_of: "Not yet. The result must have the shape (7, 5), received (5, 3), "
        "for array(7,), 5.",
        row_of: "Not yet. The result must have the shape (7, 5), received (1, 7, 5)",
        raising: "Not yet. one_hot(ids, size) raised KeyError: 'x', for array(7,), 5.",
        infinite: "Not yet. The result holds values that are not finite, such as inf "
        "at [0, 0].",
        at_random: "Not yet. The shape is right, and 7 of 35 values are not, the first "
        "at [0, 2]. Work out a small case by hand.",
        lambda ids: ids: "Not yet. one_hot(ids, size) raised TypeError",
        lambda ids, size: sys.exit(3): "Not yet. one_hot(ids, size) raised SystemExit",
    }.items():
        assert exercises.check("01.1", function).message.startswith(message)


def test_right_for_some_draws_only():
    def in_need(g, limit):
        shorter = REGISTERED["03.2"].solution(g, limit)
        return shorter if limit < np.linalg.norm(g) else 2 * g

    drawn = [exercises.check("03.2", in_need).message]
    assert "draws of the inputs. For this one it was not" in drawn[0]


@pytest.mark.everywhere("the answers are tensors of the backend")
def test_tensors_of_the_backend():
    ops = keras.ops
    assert exercises.check("01.1", lambda ids, size: ops.one_hot(ids, size))
    assert exercises.check(
        "10.3",
        lambda z, t: ops.mean(
            ops.sparse_categorical_crossentropy(
                ops.cast(t, "int32"), z, from_logits=True
            )
        ),
    )
    variable = keras.Variable(np.eye(5))
    assert exercises.check("01.1", lambda ids, size: ops.take(variable, ids, axis=0))
    assert exercises.check(
        "04.1", lambda f, i, g, c: [*ops.convert_to_tensor(f * c + i * g)]
    )


def test_answers_may_change_their_inputs():
    def in_place(f, i, g, c):
        f *= c
        f += i * g
        return f

    assert exercises.check("04.1", in_place)


def test_unknown_numbers_and_languages():
    for wrong in ("1.1", "17.1", 1.1, None, "", [], 3):
        for function in (
            exercises.question,
            exercises.solution,
            lambda number: exercises.check(number, len),
        ):
            with pytest.raises(ValueError, match=r"\"01\.1\" to \"16\.3\", received"):
                function(wrong)
    for close in ("1.1", 1.1):
        with pytest.raises(ValueError, match=r'received .*1\.1.* Did you mean "01\.1"'):
            exercises.question(close)
    with pytest.raises(ValueError, match='language="de" is not one of "en", "fr"'):
        exercises.check("01.1", len, language="de")
    with pytest.raises(ValueError, match="language=None"):
        exercises.question("01.1", language=None)


@pytest.mark.parametrize("language", ["en", "fr"])
def test_pages_list_them(language):
    page = PAGES / language / "howto" / "exercises.md"
    rows = re.findall(
        r"^\| \[.*\]\(\.\./course/(\d\d)_\w+\.md#checks\) \| (.*) \|$",
        page.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    calls = [call.strip("`") for _, cells in rows for call in cells.split(" | ")]
    assert calls == [words()[number]["call"] for number in NUMBERS]
    assert [number for number, _ in rows] == [f"{n:02}" for n in range(1, 17)]


@pytest.mark.parametrize("language", ["en", "fr"])
def test_pages_show_no_solution(language):
    for number in NUMBERS:
        body = exercises.solution(number).splitlines()[2:]
        path = next((PAGES / language / "course").glob(f"{number[:2]}_*.md"))
        asked = path.read_text(encoding="utf-8").partition("{ #checks }")[2]
        asked = asked.partition("{ #summary }")[0]
        assert f"**`{number}`** `{words()[number]['call']}`" in asked
        code = [line.strip() for line in body if "=" in line or "return" in line]
        assert not [line for line in code if line in asked]
