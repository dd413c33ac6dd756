"""GPT with other layers in place of self-attention."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import layers, models
from kerasseq.core.sublayers import default_policy
from kerasseq.transformer.mixers import ATTENTIONS
from tests.models.test_gpt import tiny, uncached

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

MIXED = ["multi_head", "min_lstm"]
CAUSAL = [name for name in ATTENTIONS if name not in ("linformer", "reformer")]
CHOICES = [  # attention, other options
    (MIXED, {"position": "rope", "feed_forward": ["swiglu", "none"]}),
    *(
        (name, {"position": None, "feed_forward": "none"})
        for name in CAUSAL
        if name != "multi_head"
    ),
    ("min_gru", {"position": "learned", "parallel": True}),
    (layers.CausalConv1D(12, 3), {"norm_placement": "post"}),
    (keras.layers.Conv1D(12, 3, padding="causal"), {"norm": "rms"}),
    ([layers.MinLSTM(12, return_sequences=True), "multi_head"], {"dropout": 0.1}),
    (
        [layers.MultiHeadAttention(3, 4), "gla"],
        {"position": None, "feed_forward": layers.FeedForward(7)},
    ),
]


@pytest.mark.everywhere("states in the compiled loop; saved, loaded", cases=1)
@pytest.mark.parametrize(("attention", "options"), CHOICES)
def test_from_states_is_uncached_for_prompts_of_any_length(
    attention, options, tmp_path
):
    model = tiny(7, attention=attention, **options)
    prompts = ["abc", "k", "deaf edh"]
    wanted = uncached(model, *prompts, length=9)
    assert model.generate(prompts, 9, temperature=0) == wanted
    assert len({text[-9:] for text in wanted}) > 1  # it does not say the same always
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.generate(prompts[0], 9, temperature=0) == wanted[0]


@pytest.mark.everywhere("rounding of Fourier transforms", cases=1)
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_convolutions_by_fourier_transforms_are_causal(policy):
    with default_policy(policy):
        for seed, given in enumerate((["s4d", "multi_head"], layers.S4D(6))):
            keras.utils.set_random_seed(seed)
            model = tiny(7, attention=given, position=None)
            assert len(model.generate("abc", 2)) == 5
        keras.utils.set_random_seed(0)
        models.LanguageModel(layers.S4D(6), vocabulary_size=7)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="records on PyTorch")
@pytest.mark.parametrize("attention", CAUSAL)
def test_its_steps_are_recorded_on_pytorch(attention, monkeypatch):
    """Python would take most of the time of a step."""
    from kerasseq.kernels.torch import recording

    tried, made = [], []

    class Recorder(recording.Recorder):
        def __init__(self, leaves):
            super().__init__(leaves)
            tried.append(leaves)

    class Program(recording.Program):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(args)

    monkeypatch.setattr(recording, "Recorder", Recorder)
    monkeypatch.setattr(recording, "Program", Program)
    tiny(attention=attention, position=None).generate("abc", 12)
    assert 0 < len(tried) == len(made)


def test_a_stream_and_a_beam_carry_states():
    model = tiny(attention="gla", position=None)
    text = model.generate("abc", 9, temperature=0)
    assert "abc" + "".join(model.stream("abc", 9, temperature=0)) == text
    beam = model.generate("abc", 9, sampler="beam")
    assert beam == tiny(attention="gla", position=None).generate(
        "abc", 9, sampler="beam"
    )
    assert beam.startswith("abc")


def test_the_state_does_not_grow_with_the_text():
    model = tiny(attention="retention", position=None)

    def size(length):
        state, _ = model.start([[1] * length], 5)
        leaves = keras.tree.flatten(state["caches"])
        return sum(np.asarray(x).nbytes for x in leaves)

    assert size(3) == size(997) == 2 * (2 * 6 * 6 + 1) * 4  # L (N K V + position) bytes


def test_states_are_of_32_bits_in_half_precision():
    with default_policy("mixed_bfloat16"):
        model = tiny(attention="gla", position=None)
    state, last = model.start([[1, 2, 3]], 5)
    _, after = model.step(state, last[:, 0])
    for state in keras.tree.flatten(after["caches"]):
        assert keras.backend.standardize_dtype(state.dtype) == "float32"


def test_each_block_has_a_copy():
    given = layers.GatedLinearAttention(2, 6)
    model = tiny(attention=given)
    inner = [block._self_attention_layer for block in model.stack.blocks]
    assert given not in inner and not given.built and inner[0] is not inner[1]
    kernels = [np.asarray(layer.query_dense.kernel) for layer in inner]
    assert not np.allclose(*kernels)


@pytest.mark.once("messages")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "gal"}, 'attention="gal" is not one of'),
        ({"attention": ["gla"]}, "each of the 2 blocks, received a list of 1"),
        ({"feed_forward": ["relu"] * 3}, "each of the 2 blocks, received a list of 3"),
        ({"attention": 3}, "attention must be a name or a layer"),
        (
            {"attention": layers.MinGRU(5, return_sequences=True)},
            "that returns .None, None, 5.. Build it with the width of the block, 12",
        ),
        ({"attention": layers.MinGRU(12)}, "that returns .None, 12."),
        (
            {"attention": layers.LinearAttention(2, 6, causal=False)},
            "attention sees the future",
        ),
        (
            {"attention": keras.layers.Conv1D(12, 3, padding="same")},
            "attention sees the future",
        ),
        (
            {"attention": "gla", "sliding_window": 3},
            'sliding_window is an option of attention="multi_head"',
        ),
        ({"attention": "gla", "position": "rope"}, "position is an option"),
        ({"attention": "gla", "num_heads": 5}, "num_heads must divide the hidden size"),
        ({"feed_forward": "none", "parallel": True}, 'must not be "none"'),
    ],
)
def test_what_is_wrong_is_said(options, message):
    options = {"num_layers": 2, "num_heads": 2, "position": None, **options}
    with pytest.raises((ValueError, TypeError), match=message):
        models.GPT(vocabulary_size=7, hidden_dim=12, **options)


def _with_random_weights(**options):
    sizes = {"vocabulary_size": 13, "num_layers": 2, "num_heads": 2, "hidden_dim": 8}
    model = models.GPT(**{**sizes, "position": "rope", **options})
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(0.5 * rng.normal(size=weight.shape))
    return model


LONGFORMER = {"attention": "longformer", "sliding_window": 4}
PROMPTS = [[3], [7, 3, 5, 11, 2, 8, 9]]


@pytest.mark.everywhere("rolling caches in the compiled loop", cases=1)
@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({**LONGFORMER, "global_tokens": "first", "num_layers": 1}, 4),
        ({"attention": "adaptive_span"}, 48),
        (LONGFORMER, 3),
        ({**LONGFORMER, "global_tokens": [3, 5]}, 64),
    ],
)
def test_caches_are_as_long_as_needed(options, size):
    model = _with_random_weights(**options)
    for block in model.stack.blocks:
        if options["attention"] == "adaptive_span":  # reads 8 + 32 tokens
            block._self_attention_layer.span_fractions.assign([0.0, 8 / 256])
    state, _ = model.start(PROMPTS, 30)
    assert {cache["key"].shape[1] for cache in state["caches"]} == {size}
    count = 45 if size == 48 else 20  # most of the text has left the caches
    texts = model.generate(PROMPTS, count, temperature=0)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        logits = model.predict(text[None, :-1], verbose=0)[0]
        for end in range(len(prompt), len(text)):
            assert logits[end - 1].max() - logits[end - 1, text[end]] < 1e-4


def test_global_tokens(tmp_path):
    ids = np.random.default_rng(0).integers(0, 13, size=(2, 37))
    model = _with_random_weights(**LONGFORMER, global_tokens=[3, 5])

    def output(ids=ids, model=model, **options):
        return keras.ops.convert_to_numpy(model(ids, **options))

    def read(changed, **options):
        """The steps whose output changes with one of the ids."""
        other = ids.copy()
        other[:, changed] = (ids[:, changed] + 1) % 13
        change = np.abs(output(other, **options) - output(**options))
        return np.flatnonzero(change.max(axis=(0, 2)) > 1e-6).tolist()

    mask = np.zeros((2, 37), bool)
    near = [*range(7, 14)]  # two blocks with a window of 4
    assert read(7, global_mask=mask) == near
    mask[:, 20] = True  # reads token 7, and the second block reads it
    assert read(7, global_mask=mask) == [*near, *range(20, 37)]
    mask[:, 7] = True
    assert read(7, global_mask=mask) == [*range(7, 37)]
    chosen = np.isin(ids, [3, 5])
    np.testing.assert_array_equal(output(), output(global_mask=chosen))
    first = _with_random_weights(**LONGFORMER, global_tokens="first")
    same = output(model=first, global_mask=np.arange(37)[None] < np.array([[1], [1]]))
    np.testing.assert_array_equal(output(model=first), same)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(output(model=loaded), output(), atol=1e-6)
    classifier = model.with_head("classify", 3)
    found = classifier.predict([row.tolist() for row in ids], verbose=0)
    assert np.isfinite(found).all()
    layer = layers.LongformerAttention(2, 4, sliding_window=4, max_global_tokens=37)
    mixed = _with_random_weights(attention=["multi_head", layer], global_tokens=[3])
    np.testing.assert_allclose(
        output(ids[:, :30], model=mixed), output(model=mixed)[:, :30], atol=1e-6
    )


def test_spans_that_change_between_two_texts():
    model = _with_random_weights(attention="adaptive_span")
    spans = [b._self_attention_layer.span_fractions for b in model.stack.blocks]
    for fraction, size in ((0.0, 32), (8 / 256, 48), (0.0, 32)):
        for weight in spans:
            weight.assign([0.0, fraction])
        state, _ = model.start(PROMPTS, 30)
        assert {cache["key"].shape[1] for cache in state["caches"]} == {size}
        text = model.generate(PROMPTS[1], 40, temperature=0)
        logits = keras.ops.convert_to_numpy(model(text[None]))[0]
        for end in range(len(PROMPTS[1]), len(text)):
            assert logits[end - 1].max() - logits[end - 1, text[end]] < 1e-4


def test_wrong_global_tokens():
    sizes = {"vocabulary_size": 13, "num_layers": 1, "hidden_dim": 8}
    with pytest.raises(ValueError, match='global_tokens need attention="longformer"'):
        models.GPT(**sizes, global_tokens="first")
    with pytest.raises(ValueError, match="must be ids below 13, received 13"):
        models.GPT(**sizes, **LONGFORMER, global_tokens=[13])
    with pytest.raises(ValueError, match="global_mask needs a GPT with global tokens"):
        models.GPT(**sizes, **LONGFORMER)(np.ones((1, 2)), global_mask=np.eye(1, 2) > 0)
    mix = layers.RWKV4ChannelMix(name="mix")
    with pytest.raises(ValueError, match="must carry no states .*received mix"):
        models.GPT(**sizes, **LONGFORMER, global_tokens="first", feed_forward=mix)
    with pytest.raises(ValueError, match='max_global_tokens needs attention="longf'):
        layers.TransformerEncoder(7, 2, max_global_tokens=3)
