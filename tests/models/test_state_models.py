"""`Mamba`, `RWKV` and `XLSTM`: GPTs that carry states of constant size."""

import keras
import numpy as np
import pytest
from keras import tree

import kerasseq
from kerasseq.models import GPT, RWKV, XLSTM, Mamba, architectures
from kerasseq.text import CharacterTokenizer

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

V, L, D = 11, 2, 8
OPTIONS = {
    "Mamba": {"state_size": 3, "expand": 3, "time_step_rank": 2, "use_bias": True},
    "RWKV-4": {"attention_dim": 5, "intermediate_dim": 7, "tie_embeddings": True},
    "RWKV-7": {"version": 7, "head_dim": 2, "gate_rank": 3, "intermediate_dim": 7},
    "xLSTM": {"num_heads": 2, "query_dim": 6, "intermediate_dim": 7, "slstm_at": [1]},
}
EACH = pytest.mark.parametrize("name", OPTIONS)
IDS = np.random.default_rng(0).integers(0, V, 10_000)


def class_of(name):
    return {"Mamba": Mamba, "xLSTM": XLSTM}.get(name, RWKV)


def small(name, **options):
    sizes = {"vocabulary_size": V, "num_layers": L, "hidden_dim": D}
    return class_of(name)(**sizes, **OPTIONS[name], **options)


def array(value):
    return keras.ops.convert_to_numpy(value)


@EACH
def test_written_is_read(name):
    model = small(name)
    written = model.generate(IDS[:3], 6, temperature=0)
    logits = array(model(written[None]))[0]
    for end in range(3, 9):
        assert logits[end - 1].max() - logits[end - 1, written[end]] < 1e-5
    two = model.generate([IDS[:3], IDS[3:8]], 4, temperature=0)  # of other lengths
    assert two[0].tolist() == written[:7].tolist()


@EACH
def test_the_state_does_not_grow(name):
    """After 100 and after 10,000 tokens it has the same bytes."""
    model, sizes = small(name), set()
    for length in (100, 10_000):
        state, _ = model.start([IDS[:length].tolist()], 7)
        kept = [array(x) for x in tree.flatten(state["caches"])]
        sizes.add(sum(x.nbytes for x in kept))
        assert all(np.isfinite(x).all() for x in kept)
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["RWKV-4", "RWKV-7"])
def test_the_layers_of_rwkv_know_their_place(name):
    """Their initial mixes and decays depend on it."""
    for n, block in enumerate(small(name).stack.blocks):
        for layer in block.state_carriers.values():
            assert (layer.layer_index, layer.num_layers) == (n, L)


@EACH
def test_arguments_are_kept(name, tmp_path):
    model = small(name, dropout=0.1, layer_norm_epsilon=1e-4)
    model.save(tmp_path / "model.keras")
    same = kerasseq.load_model(tmp_path / "model.keras")
    assert type(same) is class_of(name) and same.get_config() == model.get_config()
    np.testing.assert_array_equal(
        array(same(IDS[None, :7])), array(model(IDS[None, :7]))
    )
    assert model.get_config()["dropout"] == 0.1


@EACH
def test_it_learns_a_text_and_is_fine_tuned(name):
    cls, version = class_of(name), {"version": 7} if name == "RWKV-7" else {}
    keras.utils.set_random_seed(0)
    text = "hello world, " * 40
    tokenizer = CharacterTokenizer().fit(text)
    model = cls(tokenizer, num_layers=1, hidden_dim=16, **version)
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(text, sequence_length=26, batch_size=8, steps_per_epoch=60, verbose=0)
    assert model.generate("hello wor", 9, temperature=0) == "hello world, hello"
    task = model.with_head("classify", ["x", "y"])
    history = task.fit(["hello", "world"] * 8, ["x", "y"] * 8, epochs=8, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert isinstance(task.language_model(), cls)
    assert task.classify("hello").label in ("x", "y")


def test_sizes_of_the_published_xlstm():
    """What is not given has the widths of Hugging Face's settings."""
    model = XLSTM(vocabulary_size=V, num_layers=3, hidden_dim=76, slstm_at=(2, 0))
    kinds = [type(b._self_attention_layer).__name__ for b in model.stack.blocks]
    assert kinds == ["SLSTM", "MLSTM", "SLSTM"]
    block = model.stack.blocks[1]
    layer, network = block._self_attention_layer, block._feedforward_sublayer
    heads = layer.num_heads, layer.key_dim, layer.value_dim, layer.soft_cap
    assert heads == (4, 64 // 4, 128 // 4, 15.0)
    assert network.intermediate_dim == 256  # 2.667 * 76 is 202.7
    assert network.gated and not network.use_bias
    logits = array(model(IDS[None, :7] + 0))
    model.stack.embedding.reverse_embeddings.assign(
        1e4 * array(model.stack.embedding.reverse_embeddings)
    )
    large = array(model(IDS[None, :7]))
    assert np.abs(logits).max() < np.abs(large).max() <= 30


def test_wrong_arguments():
    for options, error, message in (
        ({"num_heads": 3}, ValueError, "num_heads must divide query_dim=64, received"),
        (
            {"num_heads": 4, "hidden_dim": 10, "slstm_at": [0]},
            ValueError,
            "num_heads must divide hidden_dim=10, received num_heads=4",
        ),
        (
            {"slstm_at": [4]},
            ValueError,
            "distinct indices of the 4 blocks, from 0 to 3",
        ),
        ({"slstm_at": [1, 1]}, ValueError, "slstm_at must be distinct indices"),
        ({"slstm_at": 1}, TypeError, "slstm_at` must be a list of indices of blocks"),
        ({"slstm_at": [0.5]}, TypeError, "slstm_at must be a whole number"),
        ({"logit_soft_cap": 0}, ValueError, "logit_soft_cap must be a number above 0"),
        ({"soft_cap": -1.0}, ValueError, "soft_cap must be a number above 0"),
        ({"query_dim": 2.5}, TypeError, "query_dim must be a whole number"),
        ({"value_dim": 10**12}, ValueError, "memory, received 1000000000000"),
    ):
        with pytest.raises(error, match=message):
            XLSTM(vocabulary_size=V, **options)
    with pytest.raises(ValueError, match="state_size must be at least 1, received 0"):
        Mamba(vocabulary_size=V, state_size=0)
    with pytest.raises(TypeError, match="attention_dim must be a whole number"):
        RWKV(vocabulary_size=V, attention_dim="5")
    for sizes, words in (
        ({"version": 5}, "version=5 is not one of 4, 7"),
        ({"gate_rank": 3}, "gate_rank must be None in version=4, .* pass version=7"),
        ({"version": 7, "attention_dim": 8}, "attention_dim must be None in version=7"),
        ({"version": 7, "head_dim": 3}, "head_dim must divide hidden_dim=128, .*=3"),
        ({"version": 7, "decay_rank": 0}, "decay_rank must be at least 1, received 0"),
    ):
        with pytest.raises(ValueError, match=words):
            RWKV(vocabulary_size=V, **sizes)
    with pytest.raises(ValueError, match="memory, received 1000000000000"):
        RWKV(vocabulary_size=V, num_layers=10**12)
    for cls, name, builder in (
        (GPT, "mamba_130m", "Mamba"),
        (Mamba, "rwkv4_169m", "RWKV"),
        (RWKV, "gpt2_small", "GPT"),
    ):
        with pytest.raises(ValueError, match=f"Use models.{builder}"):
            cls.from_architecture(name)
    with pytest.raises(ValueError, match="Mamba builds decoder and prefix_decoder"):
        Mamba.from_architecture("bert_base")
    with pytest.raises(ValueError, match='num_heads must be 1 for attention="mamba"'):
        architectures["mamba_130m"].scaled(num_heads=12)


def test_bounded_logits_of_a_gpt(tmp_path):
    sizes = {"vocabulary_size": V, "num_layers": 1, "num_heads": 2, "hidden_dim": D}
    keras.utils.set_random_seed(0)
    plain, bounded = (GPT(**sizes, logit_soft_cap=cap) for cap in (None, 0.02))
    bounded.set_weights(plain.get_weights())
    x = array(plain(IDS[None, :7]))
    found = array(bounded(IDS[None, :7]))
    np.testing.assert_allclose(found, 0.02 * np.tanh(x / 0.02), atol=1e-6)
    assert bounded.generate(IDS[:3], 4, temperature=0).shape == (7,)
    with pytest.raises(ValueError, match="logit_soft_cap=0.02 instead of None"):
        kerasseq.models.save_pretrained(bounded, tmp_path / "no")
