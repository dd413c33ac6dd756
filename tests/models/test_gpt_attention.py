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
