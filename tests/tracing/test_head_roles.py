"""Scores of heads by role, and what the loss says of a model without one."""

import keras
import numpy as np
import pytest

from kerasseq import datasets, models, text, tracing
from tests.tracing.test_trace import array, randomize

pytestmark = pytest.mark.once("interventions are tested everywhere")

SENTENCES = datasets.role_sentences(7, seed=3)
TOKENIZER = text.WordTokenizer().fit(s.text for s in datasets.role_sentences(99))


def gpt(**options):
    model = models.GPT(
        TOKENIZER,
        num_heads=3,
        hidden_dim=6,
        max_sequence_length=29,
        position="learned",
        **{"num_layers": 2, **options},
    )
    randomize(model)
    return model


def log_softmax(z):
    z = z.astype("float64")
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def losses(model, ids):
    log_p = log_softmax(array(model(ids[None]))[0, :-1])
    return -log_p[np.arange(len(ids) - 1), ids[1:]]


@pytest.mark.everywhere("attention and losses of the backend")
def test_the_effect_is_the_loss_without_the_head():
    model, role = gpt(num_layers=1), "induction"
    sentence = SENTENCES[0]
    found = tracing.head_roles(model, [sentence])
    assert len(found) == 5 * 3
    ids, path = model.ids(sentence.text), "block_0/self_attention"
    x, y = ids[None, :-1], sentence.targets[role][0]
    with tracing.trace(model) as inside:
        before = -log_softmax(array(model(x))[0])[y - 1, ids[y]]
    with tracing.intervene(model, {f"{path}/heads": tracing.at(0.0, heads=1)}):
        after = -log_softmax(array(model(x))[0])[y - 1, ids[y]]
    row = next(r for r in found if r[:3] == (role, path, 1))
    q, k = sentence.edges[role][0]
    assert row.score == pytest.approx(inside[f"{path}/alignment"][0, 1, q, k], abs=1e-6)
    assert row.effect == pytest.approx(after - before, abs=2e-5)


def test_scores_and_effects_are_those_of_single_sentences():
    model = gpt()
    found = tracing.head_roles(model, SENTENCES)
    assert len(found) == 5 * 2 * 3
    path, head = "block_1/self_attention", 2
    for role in found.roles:
        weights, rises = [], []
        for sentence in SENTENCES:
            ids = model.ids(sentence.text)
            with tracing.trace(model) as inside:
                before = losses(model, ids)
            alpha = inside[f"{path}/alignment"][0, head]
            edges = [e for e in sentence.edges[role] if e[0] < len(ids) - 1]
            weights += [alpha[q, k] for q, k in edges]
            zero = tracing.at(0.0, heads=head)
            with tracing.intervene(model, {f"{path}/heads": zero}):
                rise = losses(model, ids) - before
            rises += [rise[t - 1] for t in sentence.targets[role]]
        row = next(r for r in found if r[:3] == (role, path, head))
        assert row.score == pytest.approx(np.mean(weights), abs=1e-5)
        assert row.effect == pytest.approx(np.mean(rises), abs=2e-5)


def test_the_best_head_is_that_of_the_highest_score():
    rows = [
        tracing.HeadRole("a", "x", 0, 0.2, 3.0),
        tracing.HeadRole("a", "x", 1, 0.9, 2.0),
        tracing.HeadRole("a", "y", 0, 0.1, -1.0),
        tracing.HeadRole("b", "x", 0, 1.0, 5.0),
    ]
    found = tracing.HeadRoles(rows)
    assert found.best("a") == ("x", 1, 0.9, 2.0, 2.0, 2)
    assert found.roles == ["a", "b"]
    assert [row[2] for row in found.table().rows] == ["1", "0", "0", "0"]
    assert "+2.0000" in str(found)
    assert "<table>" in found._repr_html_()
    with pytest.raises(ValueError, match='role="c" is not'):
        found.best("c")


def test_messages():
    model = gpt()
    s = "the sad king sings"
    plain = models.LanguageModel("gru", TOKENIZER, units=3)
    for given, error, message in (
        ("abc", TypeError, "sentences must be a list"),
        ([], ValueError, "at least one row"),
        ([s], TypeError, "received 'the sad king sings' at 0"),
        ([(s, {"a": [(4, 1)]}, {"a": [2]})], ValueError, r"from 0 to 3 in .* \(4, 1\)"),
        (
            [(s, {"a": [(2, 1)]}, {"a": [0]})],
            ValueError,
            "targets must have .*received 0",
        ),
        (
            [(s, {"a": [(2, 1, 1)]}, {"a": [1]})],
            ValueError,
            r"edges must .*\(2, 1, 1\)",
        ),
        ([(s, {"a": [(2, 1)]}, {})], ValueError, "1 edges and 0 targets of 'a'"),
        ([(s, {"a": 5}, {"a": [1]})], TypeError, "edges must be .* received 5"),
        ([(s, {"a": [5]}, {"a": [1]})], ValueError, "edges must have"),
    ):
        with pytest.raises(error, match=message):
            tracing.head_roles(model, given)
    with pytest.raises(TypeError, match="with a tokenizer"):
        tracing.head_roles(keras.Sequential([]), SENTENCES)
    with pytest.raises(ValueError, match="must have attention with heads"):
        tracing.head_roles(plain, SENTENCES)
