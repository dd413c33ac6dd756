"""Logits by layer, rollout, surprise, next tokens, trees: equal to other ways."""

import math

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import decoding, tracing
from kerasseq.layers import GRU, LSTM, AlignmentAttention, ElmanRNN, GatedRNN
from kerasseq.models import BERT, GPT, LanguageModel, SequenceClassifier
from kerasseq.text import CharacterTokenizer, NGramModel
from tests.models.seq2seq import toys
from tests.tracing.test_trace import array, randomize

pytestmark = pytest.mark.full("the models are tested everywhere")

TOKENIZER = CharacterTokenizer().fit("abcdefg")
TEXT = "abagfedcab"
GPT_SIZES = {"num_layers": 3, "num_heads": 2, "hidden_dim": 8}


def gpt(tokenizer=TOKENIZER, **options):
    return randomize_model(GPT(tokenizer, **{**GPT_SIZES, **options}))


def randomize_model(model):
    randomize(model)
    return model


def log_softmax(z):
    z = np.asarray(z, "float64")
    return (
        z
        - z.max(-1, keepdims=True)
        - np.log(np.exp(z - z.max(-1, keepdims=True)).sum(-1, keepdims=True))
    )


# Logits after each layer


@pytest.mark.parametrize(
    "options", [{}, {"norm_placement": "post"}, {"norm": "rms", "position": "rope"}]
)
def test_logits_after_each_block_are_head_of_its_output(options):
    model = gpt(**options)
    found = tracing.logit_lens(model, TEXT)
    ids = TOKENIZER.encode(TEXT)[None]
    assert found.layers == ["input", "block_0", "block_1", "block_2"]
    np.testing.assert_array_equal(found.logits[-1], array(model(ids)))
    with tracing.trace(model) as inside:
        model(ids)
    for n, key in enumerate(["block_0/input", "block_0/output", "block_1/output"]):
        h, norm = inside[key], model.stack.final_norm
        h = h if norm is None else norm(h)
        logits = array(model.stack.logits(h))
        np.testing.assert_allclose(found.logits[n], logits, atol=2e-5, rtol=1e-5)
    np.testing.assert_allclose(found.probabilities().sum(-1), 1, rtol=1e-5)


def test_logits_after_each_block_of_a_bert():
    model = BERT(
        vocabulary_size=11, num_layers=2, num_heads=2, hidden_dim=6, head="tokens"
    )
    randomize(model)
    ids = np.array([[2, 5, 4, 6, 3]])
    x = {"ids": ids, "segments": 0 * ids, "positions": np.array([[2, 3]])}
    found = tracing.logit_lens(model, x)
    assert found.logits.shape == (3, 1, 2, 11)
    outputs = model(x)
    outputs = outputs["tokens"] if isinstance(outputs, dict) else outputs
    np.testing.assert_array_equal(found.logits[-1], array(outputs))


def test_logit_lens_messages():
    with pytest.raises(ValueError, match="must have Transformer blocks"):
        tracing.logit_lens(
            LanguageModel("gru", vocabulary_size=7, units=3), np.array([[1, 2]])
        )
    with pytest.raises(TypeError, match="no tokenizer for texts"):
        tracing.logit_lens(gpt(None, vocabulary_size=7), "abc")


# Attention rollout


def test_rollout_of_encoders_and_decoders():
    ids = np.array([[3, 1, 4, 1, 5]])
    model = kerasseq.models.T5(
        vocabulary_size=7,
        num_layers=2,
        num_heads=2,
        hidden_dim=6,
    )
    randomize(model)
    with tracing.trace(model) as inside:
        model([ids, ids])
    R = tracing.attention_rollout(inside, "encoder_block")
    first, second = (
        (A.mean(axis=1) + np.eye(5)) / 2
        for key, A in inside.items()
        if key.startswith("encoder") and key.endswith("self_attention/alignment")
    )
    np.testing.assert_allclose(R, second @ first, rtol=1e-6)
    np.testing.assert_allclose(R.sum(axis=-1), 1, rtol=1e-5)
    causal = tracing.attention_rollout(inside, "decoder_block")
    np.testing.assert_array_equal(np.triu(causal[0], 1), 0)
    with pytest.raises(ValueError, match=r"received \[\]"):
        tracing.attention_rollout(inside, "zebra")


# Surprise


@pytest.mark.full("the logits are those that evaluation reads")
@pytest.mark.parametrize("name", ["gru", "gpt", "transformer"])
def test_surprise_of_language_models_is_minus_log2_of_the_softmax(name):
    if name == "gpt":
        model = gpt()
    else:
        model = randomize_model(LanguageModel(name, TOKENIZER, units=4))
    found = model.surprise(TEXT, sequence_length=13)
    ids = TOKENIZER.encode(TEXT)
    log_p = log_softmax(array(model(ids[None])))[0]
    expected = -log_p[np.arange(len(ids) - 1), ids[1:]] / math.log(2)
    assert found.tokens == list(TEXT) and np.isnan(found.bits[0])
    np.testing.assert_allclose(found.bits[1:], expected, rtol=1e-4, atol=1e-5)
    mean = model.bits_per_token(TEXT)
    np.testing.assert_allclose(found.bits[1:].mean(), mean, rtol=1e-6)
    if name == "gru":
        with tracing.intervene(model, {"gru/hidden_state": 0.0}):
            changed = model.surprise(TEXT).bits
        b = array(model.get_layer("logits").weights[1])
        expected = -log_softmax(b)[ids[1:]] / math.log(2)
        np.testing.assert_allclose(changed[1:], expected, rtol=1e-4)


@pytest.mark.parametrize("smoothing", ["add_k", "kneser_ney"])
def test_surprise_of_n_grams_is_minus_log2_of_their_probabilities(smoothing):
    model = NGramModel(3, smoothing=smoothing, tokenizer=CharacterTokenizer())
    model.fit("abracadabra cab")
    text = "abrac cab"
    found = model.surprise(text)
    ids = model.tokenizer.encode(text)
    expected = [
        -math.log2(model.probabilities(ids[max(0, t - 2) : t])[ids[t]])
        for t in range(1, len(ids))
    ]
    assert found.tokens == list(text)
    np.testing.assert_allclose(found.bits[2:], expected[1:], rtol=1e-9)
    np.testing.assert_allclose(found.bits.mean(), model.bits_per_token(text))
    assert NGramModel(1, k=0).fit([0, 1], 3).surprise([1, 2]).bits[1] == np.inf


# The next token


def test_next_tokens_are_those_of_generation():
    model = gpt()
    sampling = {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.2}
    found = model.next_tokens(TEXT, **sampling)
    assert list(found.stages) == ["model", "temperature", "top_k", "top_p", "min_p"]
    logits = array(model(TOKENIZER.encode(TEXT)[None]))[:, -1]
    np.testing.assert_allclose(
        found.stages["model"], np.exp(log_softmax(logits))[0, found.ids], atol=1e-6
    )
    last = decoding.RandomSampler(**sampling).distribution(logits)
    np.testing.assert_allclose(
        found.stages["min_p"], array(last)[0, found.ids], atol=1e-6
    )
    for name, p in found.stages.items():
        np.testing.assert_allclose(p.sum(), 1, rtol=1e-5, err_msg=name)
        zero = np.array(
            [by is not None and list(found.stages).index(by) for by in found.cut_by]
        )
        np.testing.assert_array_equal(
            p == 0, (zero > 0) & (zero <= list(found.stages).index(name))
        )
    assert (np.diff(found.stages["model"]) <= 0).all()
    assert found.tokens == [TOKENIZER.decode([i]) for i in found.ids]
    drawn = {model.generate(TEXT, 1, seed=n, **sampling)[-1] for n in range(30)}
    kept = {t for t, by in zip(found.tokens, found.cut_by, strict=True) if by is None}
    assert drawn <= kept and len(kept) < len(found.tokens)
    greedy = model.next_tokens(TEXT, 1, temperature=0)
    assert greedy.tokens == [model.generate(TEXT, 1, temperature=0)[-1]]
    assert greedy.stages["sampler"].tolist() == [1.0]


def test_next_tokens_of_a_translator():
    model = toys.model(attention="bahdanau")
    found = model.next_tokens("abc")
    best = model.translate("abc", max_new_tokens=1)
    assert found.tokens[0] == best.target_tokens[0]
    np.testing.assert_allclose(
        math.log(found.stages["model"][0]), best.score, rtol=1e-4
    )


# The tree of a beam search


@pytest.mark.parametrize("kind", ["gpt", "translator"])
def test_the_tree_of_a_search_holds_its_result(kind):
    model = gpt() if kind == "gpt" else toys.model(attention="luong")
    source, options = ("ab", {"max_new_tokens": 5})
    found = model.search_tree(source, 5, width=3)
    tree = found.tree
    beam = decoding.Beam(3)
    if kind == "gpt":
        best = model.generate(source, 5, sampler=beam)[2:]
        greedy = model.generate(source, 5, temperature=0)[2:]
        assert "".join(found.greedy_tokens) == greedy
        assert "".join(found.tokens[n] for n in found.best) == best
    else:
        best = model.translate(source, sampler=beam, **options)
        assert [found.tokens[n] for n in found.best] == best.target_tokens
        np.testing.assert_allclose(found.score, best.score, rtol=1e-5)
        greedy = model.translate(source, **options)
        assert found.greedy_tokens == greedy.target_tokens
        np.testing.assert_allclose(found.greedy_scores[-1], greedy.score, rtol=1e-5)
    assert tree.parent[found.best].tolist() == [-1, *found.best[:-1]]
    assert tree.kept[found.best].all() and tree.finished[found.best[-1]]
    np.testing.assert_allclose(tree.score[found.best[-1]], found.score, rtol=1e-5)
    # At most 3 of each step are kept, and none that was pruned scores more.
    for t in range(tree.step.max() + 1):
        here = tree.step == t
        kept = tree.score[here & tree.kept]
        assert len(kept) <= 3
        if (here & ~tree.kept).any():
            assert tree.score[here & ~tree.kept].max() <= kept.min()


# A classifier step by step


@pytest.mark.everywhere("loops of the backend", cases=1)
@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("peephole_lstm", {"num_layers": 2}),
        ("gru", {"bidirectional": True}),
        ("transformer", {}),
        ("transformer", {"bidirectional": True}),
        ("elman", {"activation": "softmax"}),
    ],
)
def test_probabilities_after_each_prefix(architecture, options):
    model = SequenceClassifier(
        architecture, ["x", "y", "z"], tokenizer=TOKENIZER, units=4, **options
    )
    randomize(model)
    steps = model.step_by_step("abac")
    prefixes = [model.classify("abac"[:t]).probabilities for t in range(1, 5)]
    expected = [list(p.values()) for p in prefixes]
    assert steps.tokens == list("abac") and steps.labels == ["x", "y", "z"]
    assert np.ptp(steps.probabilities, axis=0).min() > 1e-3  # the steps differ
    np.testing.assert_allclose(steps.probabilities, expected, atol=2e-6)
    with tracing.trace(model) as inside:
        model(model.encode("abac"))
    assert list(steps.values) == list(inside)
    for key, value in inside.items():
        np.testing.assert_allclose(steps.values[key], value[0], atol=2e-6)


def test_step_by_step_of_ids_and_vectors():
    vectors = SequenceClassifier("gru", 3, features=2, units=4, mask_value=0.0)
    randomize(vectors)
    x = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")
    x[1] = 0  # masked: nothing changes
    steps = vectors.step_by_step(x)
    assert steps.tokens == list("01234")
    np.testing.assert_array_equal(steps.probabilities[1], steps.probabilities[0])
    expected = [vectors.predict(x[None, : t + 1], verbose=0)[0] for t in range(5)]
    np.testing.assert_allclose(
        steps.probabilities, np.exp(log_softmax(expected)), atol=2e-6
    )
    ids = SequenceClassifier("gru", 3, vocabulary_size=7, units=4)
    assert ids.step_by_step([4, 6]).tokens == ["4", "6"]
    with pytest.raises(ValueError, match="at least one step"):
        ids.step_by_step(np.zeros(0, "int32"))


# Gradients by distance


@pytest.mark.parametrize("radius", [0.5, 1.0, 1.5])
def test_a_linear_network_follows_the_spectral_radius(radius):
    layer = ElmanRNN(5, activation="linear")
    found = tracing.gradient_by_distance(layer, 20, spectral_radius=radius)
    expected = radius ** np.arange(21.0)
    np.testing.assert_allclose(found["hidden_state"], expected, rtol=1e-4)


def test_tanh_decays_faster_and_a_trained_layer_is_not_changed():
    layer = ElmanRNN(5, activation="tanh")
    layer.build((None, None, 3))
    randomize(layer)
    before = layer.get_weights()
    found = tracing.gradient_by_distance(layer, 10, spectral_radius=1.0)
    assert found["hidden_state"][-1] < 0.5
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    again = tracing.gradient_by_distance(layer, 10, spectral_radius=1.0)
    np.testing.assert_array_equal(again["hidden_state"], found["hidden_state"])


@pytest.mark.parametrize("coupled", [False, True])
def test_a_forget_gate_of_1_keeps_the_gradient_along_the_cell_state(coupled):
    layer = LSTM(5, coupled=coupled)
    options = {"spectral_radius": 0.0}
    found = tracing.gradient_by_distance(layer, 20, forget_bias=30.0, **options)
    np.testing.assert_allclose(found["cell_state"], 1, rtol=1e-5)
    half = tracing.gradient_by_distance(layer, 20, forget_bias=0.0, **options)
    assert half["cell_state"][-1] < 1e-3
    for other in (GRU(5), GatedRNN(5)):
        found = tracing.gradient_by_distance(other, 20, forget_bias=30.0, **options)
        np.testing.assert_allclose(found["hidden_state"], 1, rtol=1e-5)


def test_gradient_by_distance_messages():
    with pytest.raises(TypeError, match=r"recurrent layer of kerasseq\.layers"):
        tracing.gradient_by_distance(keras.layers.LSTM(3))
    with pytest.raises(ValueError, match="forget_bias must be None"):
        tracing.gradient_by_distance(ElmanRNN(3), forget_bias=1.0)
    with pytest.raises(ValueError, match="spectral_radius must be 0 or more"):
        tracing.gradient_by_distance(ElmanRNN(3), spectral_radius=-1.0)


# Scores of attention


def test_all_scores_of_one_query():
    rng = np.random.default_rng(0)
    s, h = rng.normal(size=(2, 1, 5)), rng.normal(size=(2, 7, 5))
    found = AlignmentAttention.compare(s, h, units=3, seed=1)
    dot = s @ h.swapaxes(1, 2)
    np.testing.assert_allclose(found["dot"].scores, dot, atol=1e-5)
    np.testing.assert_allclose(found["scaled_dot"].scores, dot / 5**0.5, atol=1e-5)
    lengths = (
        np.linalg.norm(s, axis=-1)[..., None] * np.linalg.norm(h, axis=-1)[:, None]
    )
    np.testing.assert_allclose(found["cosine"].scores, dot / lengths, atol=1e-5)
    for name, each in found.items():
        expected = np.exp(log_softmax(each.scores))
        np.testing.assert_allclose(each.weights, expected, atol=1e-6, err_msg=name)
    other = AlignmentAttention.compare(s, h, units=3, seed=2)
    changed = {n for n in found if np.any(found[n].scores != other[n].scores)}
    assert changed == {"additive", "concat", "general", "location"}
    assert set(AlignmentAttention.compare(s, h[..., :3])) == changed


# The intermediate values of a block


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_block_records_every_intermediate_value(placement):
    model = gpt(norm_placement=placement)
    block = model.stack.blocks[0]
    ids = TOKENIZER.encode(TEXT)[None]
    with tracing.trace(model) as inside:
        model(ids)
    t = {
        key.removeprefix("block_0/"): value.astype("float64")
        for key, value in inside.items()
        if key.startswith("block_0/")
    }
    a = {k.removeprefix("self_attention/"): v for k, v in t.items()}
    x, n = t["input"], t["self_attention_input"]
    layer, norm = block._self_attention_layer, block._self_attention_layer_norm
    position = model.get_layer(index=2)
    embedded = array(model.get_layer("embedding")(ids))
    np.testing.assert_allclose(x, embedded + array(position(embedded)), atol=1e-6)
    pre = placement == "pre"
    np.testing.assert_allclose(n, array(norm(x)) if pre else x, atol=1e-5)
    for name in ("query", "key", "value"):
        kernel, bias = map(array, getattr(layer, f"{name}_dense").weights)
        expected = np.einsum("btd,dnk->bntk", n, kernel) + bias[:, None]
        np.testing.assert_allclose(a[name], expected, atol=1e-5)
    e = a["query"] @ a["key"].swapaxes(2, 3) / 4**0.5
    np.testing.assert_allclose(a["scores"], e, atol=1e-5)
    np.testing.assert_array_equal(a["mask"], np.broadcast_to(np.tri(10), e.shape))
    p = np.where(a["mask"], np.exp(e - e.max(-1, keepdims=True)), 0)
    alpha = p / p.sum(-1, keepdims=True)
    np.testing.assert_allclose(a["alignment"], alpha, atol=1e-5)
    np.testing.assert_allclose(a["heads"], a["alignment"] @ a["value"], atol=1e-5)
    z = t["self_attention_residual"]
    np.testing.assert_allclose(z, x + a["context"], atol=1e-5)
    z = z if pre else array(norm(z))
    norm, network = block._feedforward_layer_norm, block._feedforward_sublayer
    n = array(norm(z)) if pre else z
    np.testing.assert_allclose(t["feed_forward_input"], n, atol=1e-5)
    np.testing.assert_allclose(t["feed_forward/output"], array(network(n)), atol=1e-5)
    y = t["feed_forward_residual"]
    np.testing.assert_allclose(y, z + t["feed_forward/output"], atol=1e-5)
    np.testing.assert_allclose(t["output"], y if pre else array(norm(y)), atol=1e-5)


# Steps


def test_steps_to_reach():
    reach = kerasseq.training.steps_to_reach
    rows = [
        {"step": 10, "accuracy": 0.5},
        {"step": 20, "loss": 0.4},
        {"step": 30, "accuracy": 0.9},
        {"step": 40, "accuracy": 0.7},
        {"step": 50, "accuracy": 0.95},
    ]
    assert reach(rows, at_least=0.8) == 30
    assert reach(rows, at_least=0.8, lasting=True) == 50
    assert reach(rows, at_least=0.99) is None
    assert reach(rows, "loss", at_most=0.5) == 20
    assert reach([], at_least=0.5) is None
    history = keras.callbacks.History()
    history.history = {"accuracy": [0.2, 0.6]}
    assert reach(history, at_least=0.6) == 2
    with pytest.raises(ValueError, match="either at_least or at_most"):
        reach(rows)
    with pytest.raises(ValueError, match='Did you mean "accuracy"'):
        reach(rows, "acuracy", at_least=1)
