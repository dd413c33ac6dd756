"""The lab Attention: its numbers are those of the equations."""

import numpy as np
import pytest

from labs import attention as lab
from parts import attention, work
from tests.apps import pages

pytestmark = [
    pytest.mark.once("pages are drawn on one backend"),
    pytest.mark.usefixtures("models"),
]

TEXT = "the class is a class, the object is"


def softmax(e):
    w = np.exp(e - e.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


@pytest.mark.parametrize("layer", [0, 1])
def test_the_values_of_a_block_follow_from_each_other(models, layer):
    found = attention.block(models("attention"), TEXT, layer, 1.0)
    v, T = found["values"], len(found["tokens"])
    q, k, value = (v[f"self_attention/{n}"] for n in ("query", "key", "value"))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    close = {"atol": 1e-5, "rtol": 1e-4}
    np.testing.assert_allclose(v["self_attention/scores"], scores, **close)
    causal = np.tril(np.ones((T, T), bool))
    assert np.array_equal(
        v["self_attention/mask"], np.broadcast_to(causal, scores.shape)
    )
    weights = softmax(np.where(causal, scores, -1e9))
    np.testing.assert_allclose(v["self_attention/alignment"], weights, **close)
    np.testing.assert_allclose(v["self_attention/heads"], weights @ value, **close)
    stream = v["input"] + v["self_attention/context"]
    np.testing.assert_allclose(v["self_attention_residual"], stream, **close)
    stream = stream + v["feed_forward/output"]
    np.testing.assert_allclose(v["output"], stream, **close)


def test_a_temperature_divides_the_logits(models):
    one, half = (attention.block(models("attention"), TEXT, 0, t) for t in (1.0, 0.5))
    assert one["best"] == half["best"]
    assert one["probability"].shape == (3, len(one["tokens"]), attention.BEST)
    p, sharper = one["probability"], half["probability"]  # p^2, normalized
    ratios = p[..., :-1] / p[..., 1:]
    np.testing.assert_allclose(
        ratios**2, sharper[..., :-1] / sharper[..., 1:], rtol=1e-3
    )


def test_after_the_embedding_a_tied_model_repeats_its_token(models):
    """An answer of the page: true of embeddings that are larger than the positions."""
    folder = models("attention")
    embedding = work.model(folder).get_layer("embedding")
    before = embedding.get_weights()
    larger = np.random.default_rng(0).normal(size=before[0].shape)
    embedding.set_weights([larger, *before[1:]])
    try:
        found = attention.block(folder, TEXT, 0, 1.0)
    finally:
        embedding.set_weights(before)
    best = [words[0] for words in found["best"][0]]
    # Not all: a longer vector may be nearer to a token than its own.
    assert np.mean([b == t for b, t in zip(best, found["tokens"], strict=True)]) > 0.5


def test_the_slide():
    scores = lab.table(lab.PRESETS["masked"])
    found = attention.attend(scores, True, 1.0)
    slide = """1.00 0.75 0.69 0.92 0.46 0.00
    0.00 0.25 0.08 0.02 0.01 0.46
    0.00 0.00 0.24 0.02 0.22 0.02
    0.00 0.00 0.00 0.04 0.06 0.01
    0.00 0.00 0.00 0.00 0.24 0.48
    0.00 0.00 0.00 0.00 0.00 0.03"""
    expected = [[float(w) for w in line.split()] for line in slide.splitlines()]
    np.testing.assert_allclose(found, expected, atol=0.0055)  # scores of one digit less
    assert np.all(found[np.tril_indices(6, -1)] == 0)
    creature = attention.attend(lab.table(lab.PRESETS["creature"]), False, 1.0)
    np.testing.assert_allclose(creature[:, 0], [0, 0.401, 0.599, 0], atol=5e-4)


def test_weights_of_cross_attention_cover_what_is_read_and_written(models):
    found = attention.translation(models("attention_cross"), "March 9, 2004")
    assert "".join(found["source"]).startswith("March")
    rows = len(found["target"])
    assert found["weights"].shape == (2, 2, rows, len(found["source"]))
    assert rows == len(found["output"]) + (found["target"][-1] == "<end>")
    sums = found["weights"].sum(-1)
    assert np.all(sums < 1 + 1e-5) and np.all(sums > 0.5)  # padding has the rest


ABLE = {  # which scores can solve which task
    "same": {"dot", "scaled_dot", "cosine", "general", "additive", "concat"},
    "other": {"general", "additive", "concat"},
    "position": {"location"},
}


@pytest.mark.parametrize("task", attention.TASKS)
def test_the_answer_about_the_seven_scores(task):
    found = attention.race(task, 60, 0)["accuracy"]
    assert set(found) == set(attention.SCORES)
    for score, accuracy in found.items():
        assert (accuracy > 0.7) if score in ABLE[task] else (accuracy < 0.3), score


def test_dot_products_need_no_training():
    found = attention.race("same", 0, 0)
    able = {score for score, a in found["accuracy"].items() if a > 0.7}
    assert able == {"dot", "scaled_dot", "cosine"}
    assert found["weights"]["dot"].shape == (attention.ITEMS, attention.ITEMS)


TEXTS = ["x", "🙂🙃 naïve", "שלום עולם", "\u202eabc", "x" * 10**6, " "]


def test_any_text_is_read():
    page = pages.open_lab("attention", step="softmax")
    for text in TEXTS:
        pages.control(page, "text").set_value(text).run()
        pages.checked(page)
        assert len(pages.control(page, "token").options) <= attention.MAX_TOKENS, text


def test_an_empty_text_is_one_sentence_and_the_page_goes_on():
    page = pages.open_lab("attention", step="softmax")
    pages.control(page, "text").set_value("").run()
    (error,) = page.error
    assert "one character" in error.value and not page.exception
    pages.control(page, "text").set_value("a b").run()
    pages.checked(page)


TABLES = ["", "a b", "1 2\n3", "nan", "inf 0", "1e9", "0 " * 13, "0\n" * 13]


def test_a_bad_table_is_one_sentence():
    page = pages.open_lab("attention", view="slide")
    for table in TABLES:
        pages.control(page, "table_masked").set_value(table).run()
        (error,) = page.error
        assert "12" in error.value and not page.exception, table


def test_what_a_mask_hides_does_not_matter():
    page = pages.open_lab("attention", view="slide")
    before = lab.table(lab.PRESETS["masked"])
    after = [
        [50.0 if j < i else x for j, x in enumerate(r)] for i, r in enumerate(before)
    ]
    same = [attention.attend(scores, True, 1.0) for scores in (before, after)]
    np.testing.assert_array_equal(*same)
    pages.control(page, "causal").set_value(False).run()
    pages.checked(page)


def test_heads_need_three_tokens():
    page = pages.open_lab("attention", view="heads")
    pages.control(page, "text").set_value("x").run()
    (error,) = page.error
    assert "three tokens" in error.value and not page.exception
