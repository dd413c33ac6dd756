"""The lab Translation: its numbers are those of the models, and input it refuses."""

import numpy as np
import pytest

from parts import translation as code
from parts import work
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]

SOURCE = "March 9, 2004"


@pytest.fixture
def folder(models):
    """The folder of the model with attention."""
    return models("translation_dates_bahdanau")


def test_alignment_and_probabilities_are_those_of_translate(folder):
    found = code.align(folder, SOURCE)
    expected = work.model(folder).translate(SOURCE, max_length=code.MOST)
    assert found["output"] == expected.text
    assert "".join(found["source"]) == SOURCE.replace(" ", "·")
    np.testing.assert_array_equal(found["weights"], expected.alignment)
    assert found["weights"].shape == (len(found["target"]), len(SOURCE))
    log_p = np.log(found["probability"])
    assert len(log_p) == len(found["target"])
    np.testing.assert_allclose(log_p.sum(), expected.score, rtol=1e-4)
    assert code.align(folder, "a🙂🙂b")["unknown"] == ["🙂"]


def test_without_attention_there_are_no_weights(models):
    page = pages.open_lab("translation", attention="none")
    assert any("has no attention" in line.value for line in page.markdown)
    found = code.align(models("translation_dates_none"), SOURCE)
    assert found["weights"] is None and found["output"]


def test_held_out_pairs_are_those_of_the_command():
    from kerasseq.cli import translation
    from kerasseq.datasets import generated_pairs

    pairs = generated_pairs("dates", code.GENERATED, seed=0)
    held = translation.split(pairs, 0)[1]
    assert code.held_out("dates", 7) == (held.sources[:7], held.targets[:7])
    assert set(code.DATA.values()) <= set(translation.PAIRS)
    assert code.HELD_OUT == translation.HELD_OUT


def test_held_out_pairs_are_evaluated_pair_by_pair(folder):
    found = code.evaluate(folder, "dates")
    model = work.model(folder)
    assert len(found["source"]) == code.TESTED
    for n in (0, 7):
        source, target = found["source"][n], found["target"][n]
        assert found["output"][n] == model.translate(source, code.MOST).text
        forced = code.force(folder, source, target, 0)
        for name in ("forced", "own"):
            written = [*forced[name], *[None] * 99]
            same = [a == b for a, b in zip(forced["right"], written, strict=False)]
            assert found[name][n] == same
    assert len({len(row) for row in found["own"]}) == 1  # a date has ten characters


def test_the_first_error_is_one_of_teacher_forcing_too(folder):
    """Up to its first error, its own output is predicted after the right tokens."""
    target = "2004-03-09"
    found = code.force(folder, SOURCE, target, 0)
    pairs = zip(found["right"], found["own"], strict=False)
    first = next(n for n, (a, b) in enumerate(pairs) if a != b)
    assert found["forced"][: first + 1] == found["own"][: first + 1]
    np.testing.assert_allclose(
        found["p_forced"][: first + 1], found["p_own"][: first + 1], rtol=1e-4
    )
    assert len(found["p_forced"]) == len(target) + 1


def test_a_planted_error_is_the_second_choice(folder):
    before = code.force(folder, SOURCE, "2004-03-09", 0)["own"]
    after = code.force(folder, SOURCE, "2004-03-09", 3)["own"]
    assert after[:2] == before[:2] and after[2] != before[2]
    model = work.model(folder)
    (inputs, _), prefix = model.arrays([SOURCE], ["x"])[0], "".join(before[:2])
    target = np.array([[1, *model.target_vocabulary.encode(prefix)[0]]])
    logits = model.predict([inputs, target], verbose=0)[0, -1]
    best = model.target_vocabulary.tokens(np.argsort(-logits)[:2].astype("int32"))
    assert best == [before[2], after[2]]
    late = code.force(folder, SOURCE, "2004-03-09", 99)["own"]
    assert len(late) == len(before) and late[:-1] == before[:-1]


def test_the_tree_holds_beam_and_greedy_search(folder):
    from kerasseq.decoding import Beam

    found = code.beam(folder, SOURCE, 3, 0.6)
    model, nodes = work.model(folder), found["nodes"]
    options = {"max_length": code.MOST, "sampler": Beam(3, length_penalty=0.6)}
    best = model.translate(SOURCE, **options)
    assert found["best"] == best.target_tokens
    greedy = model.translate(SOURCE, code.MOST)
    assert found["greedy"] == greedy.target_tokens
    np.testing.assert_allclose(found["greedy_score"], greedy.score, rtol=1e-4)
    marked = [node["token"] for node in nodes if node["role"] in ("best", "both")]
    assert marked == found["best"]
    last = max(
        (n for n in nodes if n["role"] in ("best", "both")), key=lambda n: n["step"]
    )
    assert last["text"] == "".join(found["best"])
    assert last["score"] == pytest.approx(found["best_score"], rel=1e-5)
    marked = [node["token"] for node in nodes if node["role"] in ("greedy", "both")]
    assert marked == found["greedy"][: len(marked)] and marked
    for step in range(1, last["step"] + 1):
        level = sorted(
            (node for node in nodes if node["step"] == step), key=lambda n: n["rank"]
        )
        assert [node["rank"] for node in level] == list(range(1, len(level) + 1))
        scores = [n["score"] for n in level]
        assert scores == sorted(scores, reverse=True)
        assert all(nodes[n["parent"]]["step"] == step - 1 for n in level if step > 1)


TEXTS = ["x", "🙂🙃 naïve", "שלום עולם", "\u202eabc\x00", "x" * 10**6]


def test_any_source_is_translated_or_refused_in_a_sentence():
    page = pages.open_lab("translation")
    for text in TEXTS:
        pages.control(page, "source_dates").set_value(text).run()
        pages.checked(page)
    for text in ("", " "):
        pages.control(page, "source_dates").set_value(text).run()
        (error,) = page.error
        assert "one character" in error.value and not page.exception
    pages.control(page, "source_dates").set_value(SOURCE).run()
    pages.checked(page)
