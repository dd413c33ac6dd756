"""Folders of Mixtral and Qwen3-MoE, against the classes of Hugging Face."""

import importlib
import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import kerasseq
from kerasseq import models
from kerasseq.layers import MixtureOfExperts
from tests.pretrained.helpers import LLAMA, shuffle
from tests.pretrained.test_huggingface import FILE, rewrite

pytestmark = pytest.mark.once("tables of names and settings; the peers are in PyTorch")

IDS = np.random.default_rng(0).integers(0, 29, (2, 11))
SIZES = {
    **{"vocab_size": 29, "hidden_size": 24, "intermediate_size": 17},
    **{"num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 3},
}
QWEN = {**SIZES, "num_experts": 5, "moe_intermediate_size": 11, "head_dim": 6}
CONFIGS = {  # and the blocks that have experts
    "mixtral": (
        {**SIZES, "num_local_experts": 5, "sliding_window": 4, "rms_norm_eps": 1e-3},
        [0, 1, 2],
    ),
    "qwen3_moe": ({**QWEN, "num_experts_per_tok": 1}, [0, 1, 2]),
    "qwen3_moe-dense": (
        {**QWEN, "num_experts_per_tok": 3, "mlp_only_layers": [1, 7]},
        [0, 2],
    ),
    "qwen3_moe-steps": (
        {
            **{**QWEN, "num_experts_per_tok": 2, "norm_topk_prob": True},
            **{"decoder_sparse_step": 2, "use_sliding_window": True},
            "sliding_window": 5,
        },
        [1],
    ),
}
CLASSES = {"mixtral": "Mixtral", "qwen3_moe": "Qwen3Moe"}
PATHS = {"mixtral": "block_sparse_moe.experts", "qwen3_moe": "mlp.experts"}


def made(kind="mixtral", feed_forward=None, **changes):
    """A small model with random weights, as of this library."""
    experts = MixtureOfExperts(5, 7, router_aux_loss_coef=0.5, name="experts")
    model = models.GPT(
        **{
            **{**LLAMA, "intermediate_dim": None, "position": "rope"},
            "feed_forward": feed_forward or experts,
            "query_key_norm": "rms" if kind == "qwen3_moe" else None,
            **changes,
        }
    )
    shuffle(model.trainable_weights)
    return model


def settings_of(folder):
    return json.loads((folder / "config.json").read_text())


def logits_of(model):
    if isinstance(model, models.GPT):
        return keras.ops.convert_to_numpy(model(IDS))
    torch = importlib.import_module("torch")
    with torch.no_grad():
        return model.eval()(torch.tensor(IDS), use_cache=False)[0].numpy()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "stacked"),
    [(name, False) for name in CONFIGS]
    + [("mixtral", True), ("qwen3_moe-dense", True)],
)
def test_its_folder_and_back(name, stacked, tmp_path):
    torch = pytest.importorskip("torch")
    kind, (settings, sparse) = name.partition("-")[0], CONFIGS[name]
    part = "transformers.models.{0}.{1}_{0}"
    modeling = pytest.importorskip(part.format(kind, "modeling"))
    configuration = pytest.importorskip(part.format(kind, "configuration"))
    cls = getattr(modeling, f"{CLASSES[kind]}ForCausalLM")
    config = getattr(configuration, f"{CLASSES[kind]}Config")(**settings)
    eager = {"experts_implementation": "eager"}  # the other one needs even widths
    torch.manual_seed(0)
    theirs = cls._from_config(config, **eager)
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    expected = logits_of(theirs)
    theirs.save_pretrained(tmp_path / "theirs", save_original_format=not stacked)
    names = load_file(tmp_path / "theirs" / FILE)
    one = f"model.layers.{sparse[0]}.{PATHS[kind]}.4."
    assert any(each.startswith(one) for each in names) != stacked
    model = models.from_pretrained(tmp_path / "theirs")
    networks = [model.get_layer(f"block_{n}").feed_forward for n in range(3)]
    assert [n for n in range(3) if networks[n] != "swiglu"] == sparse
    np.testing.assert_allclose(logits_of(model), expected, atol=1e-5)
    models.save_pretrained(model, tmp_path / "ours")
    again = cls.from_pretrained(tmp_path / "ours", **eager)
    np.testing.assert_allclose(logits_of(again), expected, atol=1e-5)


@pytest.mark.everywhere("weights of experts are stacked, and cut")
def test_there_and_back(tmp_path):
    shared = {"router_aux_loss_coef": 0.75, "norm_topk_prob": False, "name": "some"}
    mixed = [MixtureOfExperts(5, 7, top_k=3, **shared), "swiglu"]
    model = made("qwen3_moe", mixed, intermediate_dim=13, head_dim=6)
    models.save_pretrained(model, tmp_path / "one")
    same = models.from_pretrained(tmp_path / "one")
    one, two = ({w.path: w for w in each.weights} for each in (same, model))
    for path, weight in one.items():
        path = path.replace("block_0/feed_forward", "block_0/some")
        assert np.array_equal(*map(keras.ops.convert_to_numpy, (weight, two.pop(path))))
    assert not two
    settings = settings_of(tmp_path / "one")
    assert settings["router_aux_loss_coef"] == 0.25, "theirs is 3 where ours is 1"
    assert (settings["mlp_only_layers"], settings["intermediate_size"]) == ([1], 13)
    models.save_pretrained(same, tmp_path / "two")
    assert settings_of(tmp_path / "two") == settings
    again = models.from_pretrained(tmp_path / "two")
    one, two = (m._arguments["feed_forward"][0].get_config() for m in (same, again))
    assert one == two and one["router_aux_loss_coef"] == 0.75
    arguments = [{**m._arguments, "feed_forward": 0} for m in (same, again)]
    for each in arguments:
        each["position"] = {**each["position"].get_config(), "name": 0}
    assert arguments[0] == arguments[1]


def test_what_it_generates(tmp_path):
    """Cached equals uncached, in the model that is read, and in its file of Keras."""
    models.save_pretrained(made(), tmp_path / "folder")
    model = models.from_pretrained(tmp_path / "folder")
    ids = IDS[:, :5]
    for _ in range(4):
        new = keras.ops.convert_to_numpy(model(ids))[:, -1].argmax(-1)
        ids = np.concatenate([ids, new[:, None]], axis=1)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        assert np.array_equal(each.generate(IDS[:, :5], 4, temperature=0), ids)
    models.save_pretrained(loaded, tmp_path / "again")
    one, two = (load_file(tmp_path / name / FILE) for name in ("folder", "again"))
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folders = {}
    for kind in CLASSES:
        folders[kind] = tmp_path_factory.mktemp(kind)
        models.save_pretrained(made(kind), folders[kind])
    return folders


@pytest.fixture
def copy(written, tmp_path):
    def of(kind):
        for file in written[kind].iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        return tmp_path

    return of


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("mixtral", {"num_experts_per_tok": 6}, "at most num_local_experts = 5"),
        ("mixtral", {"num_experts_per_tok": 1}, "at least 2 where gates are divided"),
        ("mixtral", {"num_experts_per_tok": 0}, "num_experts_per_tok = 0, but it must"),
        ("mixtral", {"num_local_experts": 4}, r"\(5, 24\), but .* should be \(4, 24\)"),
        ("mixtral", {"num_local_experts": 10**12}, r"gate.* by config.json it should"),
        ("mixtral", {"num_local_experts": "gone"}, "has no num_local_experts"),
        ("mixtral", {"intermediate_size": 8}, r"experts.0.w1.*\(7, 24\).*\(8, 24\)"),
        ("mixtral", {"router_aux_loss_coef": -1}, "router_aux_loss_coef = -1, but"),
        ("mixtral", {"router_jitter_noise": 1}, "router_jitter_noise = 1, but"),
        ("mixtral", {"hidden_act": "gelu"}, "hidden_act = 'gelu', but"),
        ("qwen3_moe", {"attention_bias": True}, "attention_bias = True, but"),
        ("qwen3_moe", {"moe_intermediate_size": None}, "no moe_intermediate_size"),
        ("qwen3_moe", {"mlp_only_layers": 1}, "mlp_only_layers = 1, but it must be a"),
        ("qwen3_moe", {"mlp_only_layers": [True]}, "a list of whole numbers"),
        ("qwen3_moe", {"mlp_only_layers": [0, 1]}, "such that at least one layer has"),
        ("qwen3_moe", {"mlp_only_layers": [1]}, "no tensor .*layers.1.mlp.gate_proj"),
        ("qwen3_moe", {"decoder_sparse_step": 3}, "decoder_sparse_step = 3, but it"),
        ("qwen3_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step = 0, but it"),
        (
            "qwen3_moe",
            {"num_hidden_layers": 10**12, "mlp_only_layers": [1]},
            "num_hidden_layers = 10{12}, but it must be at most 51, the tensors",
        ),
    ],
)
def test_settings_that_cannot_be_built(kind, settings, message, copy):
    folder = copy(kind)
    rewrite(folder, **settings)
    with pytest.raises(ValueError, match=message):
        models.from_pretrained(folder)


def test_a_coefficient_of_zero(copy):
    folder = copy("mixtral")
    rewrite(folder, router_aux_loss_coef=0, sliding_window=None)
    model = models.from_pretrained(folder)
    assert model._arguments["feed_forward"].router_aux_loss_coef == 0
    rewrite(folder, router_aux_loss_coef="gone", rms_norm_eps="gone", rope_theta="gone")
    found = models.from_pretrained(folder)._arguments
    assert found["feed_forward"].router_aux_loss_coef == 0.002
    assert found["layer_norm_epsilon"] == 1e-5 and found["sliding_window"] is None
    assert found["position"].max_wavelength == 1e6


def test_an_expert_that_is_missing_or_has_another_shape(copy):
    folder = copy("mixtral")
    name = "model.layers.1.block_sparse_moe.experts.3.w2.weight"
    tensors = load_file(folder / FILE)
    w = tensors.pop(name)
    assert w.shape == (24, 7)
    save_file(tensors, folder / FILE)
    message = r'no tensor "layers.1.*3.w2.weight" \(24, 7\); .*output_kernel\[3\]" \(7,'
    with pytest.raises(ValueError, match=message):
        models.from_pretrained(folder)
    save_file({**tensors, name: w[:, :6].copy()}, folder / FILE)
    with pytest.raises(ValueError, match=r"has the shape \(24, 6\)"):
        models.from_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shared_experts": 1}, "MixtureOfExperts with shared_experts=1 instead of 0"),
        ({"use_bias": True}, "MixtureOfExperts with use_bias=True instead of False"),
        ({"feed_forward": "gelu"}, "feed_forward='gelu' instead of 'swiglu'"),
        ({"norm_topk_prob": False}, "for mixtral it has .*norm_topk_prob=False"),
    ],
)
def test_layers_that_cannot_be_written(changes, message, tmp_path):
    experts = MixtureOfExperts(5, 7, **changes)
    with pytest.raises(ValueError, match=message):
        models.save_pretrained(made(feed_forward=experts), tmp_path / "no")


def test_blocks_that_cannot_be_written(tmp_path):
    one, two = MixtureOfExperts(5, 7), MixtureOfExperts(5, 7, top_k=3)
    for networks, message in (
        ([one, two], "for qwen3_moe it has .*top_k=3 instead of 2"),
        ([one, "gelu"], "for qwen3_moe it has feed_forward='gelu' in some blocks"),
        ([one, "swiglu"], "for mixtral it has feed_forward='swiglu' in some blocks"),
        ("geglu", "for mixtral it has feed_forward='geglu' instead of MixtureOfExp"),
    ):
        with pytest.raises(ValueError, match=message):
            models.save_pretrained(made(feed_forward=networks), tmp_path / "no")
    with pytest.raises(ValueError, match='received format="keras_hub"'):
        models.save_pretrained(made(), tmp_path / "no", format="keras_hub")
