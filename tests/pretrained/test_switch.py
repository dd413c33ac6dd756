"""Folders of Switch Transformers, against the classes of Hugging Face."""

import importlib
import json

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import kerasseq
from kerasseq import models
from kerasseq.layers import MixtureOfExperts
from tests.pretrained.helpers import assert_same, shuffle
from tests.pretrained.test_huggingface import FILE, rewrite

pytestmark = pytest.mark.once("tables of names and settings; the peers are in PyTorch")

V, LONGEST = 29, 5
SIZES = {
    **{"vocab_size": V, "d_model": 10, "d_kv": 3, "d_ff": 17, "num_heads": 2},
    **{"num_layers": 3, "num_decoder_layers": 4, "num_experts": 5},
    **{"expert_capacity": 11, "relative_attention_num_buckets": 8},
}
CONFIGS = {  # and the blocks that have experts, of encoder and decoder
    "steps": ({"encoder_sparse_step": 2, "decoder_sparse_step": 3}, [1], [1]),
    "every": ({"dense_act_fn": "silu"}, [0, 1, 2], [0, 1, 2, 3]),
    "numbers": (
        {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 2},
        *([1], [1, 3]),
    ),
    "encoder": ({"decoder_sparse_step": 0, "dense_act_fn": "gelu"}, [0, 1, 2], []),
}
RANDOM = np.random.default_rng(1)
SOURCE = RANDOM.integers(2, V, (3, 7)).astype("int32")
SOURCE[1, 4:] = SOURCE[2, 6:] = 0
TARGET = RANDOM.integers(2, V, (3, LONGEST)).astype("int32")
TARGET[:, 0] = 0  # the start


def array(x):
    return keras.ops.convert_to_numpy(x)


def experts(**options):
    alike = {"top_k": 1, "feed_forward": "relu", "norm_topk_prob": False}
    return MixtureOfExperts(5, 17, **{**alike, "name": "feed_forward", **options})


def made(**options):
    """A small model with random weights, as of this library."""
    mixed = ["relu", experts(router_z_loss_coef=0.25, router_jitter_noise=0.125)]
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 10, "intermediate_dim": 17}
    both = {"feed_forward": mixed, **sizes, **options}
    model = models.T5(vocabulary_size=V, published_ids=True, **both)
    shuffle(model.trainable_weights)
    return model


def settings_of(folder):
    return json.loads((folder / "config.json").read_text())


def peer(settings):
    """A model of Hugging Face with random weights, and its class."""
    torch = pytest.importorskip("torch")
    part = "transformers.models.switch_transformers.{}_switch_transformers"
    modeling = pytest.importorskip(part.format("modeling"))
    configuration = pytest.importorskip(part.format("configuration"))
    cls = modeling.SwitchTransformersForConditionalGeneration
    config = configuration.SwitchTransformersConfig(
        **{**SIZES, **settings}, decoder_start_token_id=0
    )
    torch.manual_seed(0)
    model = cls(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model.eval(), cls


def logits_of(theirs):
    torch = importlib.import_module("torch")
    source, target = torch.tensor(SOURCE).long(), torch.tensor(TARGET).long()
    with torch.no_grad():
        return theirs(
            input_ids=source, attention_mask=source != 0, decoder_input_ids=target
        ).logits.numpy()


def written_by(theirs):
    """Token by token, without a cache."""
    torch = importlib.import_module("torch")
    source, found = torch.tensor(SOURCE).long(), torch.zeros((3, 1)).long()
    with torch.no_grad():
        for _ in range(LONGEST):
            logits = theirs(
                input_ids=source, attention_mask=source != 0, decoder_input_ids=found
            ).logits[:, -1]
            logits[:, 0] = -torch.inf  # padding, which is never written here
            found = torch.cat([found, logits.argmax(-1)[:, None]], dim=1)
    rows = found[:, 1:].tolist()
    return [row[: row.index(1)] if 1 in row else row for row in rows]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONFIGS)
def test_its_folder_and_back(name, tmp_path):
    settings, *sparse = CONFIGS[name]
    theirs, cls = peer(settings)
    expected = logits_of(theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    model = models.from_pretrained(tmp_path / "theirs")
    for blocks, places in zip(
        (model.encoder.blocks, model.decoder.blocks), sparse, strict=True
    ):
        networks = [block.feed_forward for block in blocks]
        mixed = [n for n, f in enumerate(networks) if isinstance(f, MixtureOfExperts)]
        assert mixed == places
    assert_same([array(model([SOURCE, TARGET]))], [expected])
    rows = [row[row > 0] for row in SOURCE]
    found = [t.text.tolist() for t in model.translate(rows, max_length=LONGEST)]
    assert found == written_by(theirs)
    models.save_pretrained(model, tmp_path / "ours")
    again = cls.from_pretrained(tmp_path / "ours").eval()
    assert_same([logits_of(again)], [expected])


def test_there_and_back(tmp_path):
    model = made(decoder_feed_forward="relu")
    models.save_pretrained(model, tmp_path / "one")
    same = models.from_pretrained(tmp_path / "one")
    for one, two in zip(same.weights, model.weights, strict=True):
        assert one.path == two.path
        assert np.array_equal(array(one), array(two))
    settings = settings_of(tmp_path / "one")
    assert (settings["encoder_sparse_step"], settings["decoder_sparse_step"]) == (2, 0)
    names = [name for name in load_file(tmp_path / "one" / FILE) if "expert_4" in name]
    assert names[0] == "encoder.block.1.layer.1.mlp.experts.expert_4.wi.weight"
    layer = same._arguments["feed_forward"][1]
    coefficients = layer.router_aux_loss_coef, layer.router_z_loss_coef
    assert (*coefficients, layer.router_jitter_noise) == (0.01, 0.25, 0.125)
    models.save_pretrained(same, tmp_path / "two")
    assert settings_of(tmp_path / "two") == settings
    same.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert_same(*([array(m([SOURCE, TARGET]))] for m in (loaded, model)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_experts": 4}, r"\(5, 10\), but .* should be \(4, 10\)"),
        ({"num_experts": 0}, "num_experts = 0, but it must"),
        ({"router_bias": True}, "router_bias = True, but"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False, but"),
        ({"router_z_loss_coef": -1}, "router_z_loss_coef = -1, but"),
        ({"router_jitter_noise": 1}, "router_jitter_noise = 1, but"),
        ({"dense_act_fn": "gated-gelu"}, "dense_act_fn = 'gated-gelu', but"),
        ({"encoder_sparse_step": -1}, "encoder_sparse_step = -1, but"),
        (
            {"encoder_sparse_step": 0, "decoder_sparse_step": 0},
            "encoder_sparse_step = 0, but it must be such that at least one block",
        ),
        (
            {"encoder_sparse_step": "gone", "num_sparse_encoder_layers": 3},
            "num_sparse_encoder_layers = 3, but it must be at most 2",
        ),
        ({"encoder_sparse_step": 1}, "no tensor .*encoder.block.0.*router"),
        ({"num_layers": 10**12}, "num_layers = 10{12}, but it must be at most"),
    ],
)
def test_settings_that_cannot_be_built(settings, message, tmp_path):
    models.save_pretrained(made(), tmp_path)
    rewrite(tmp_path, **settings)
    with pytest.raises(ValueError, match=message):
        models.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"feed_forward": ["gelu", experts()]},
            "feed_forward='gelu' instead of 'relu'",
        ),
        ({"feed_forward": [experts(), "relu"]}, r"experts in the encoder blocks \[0\]"),
        ({"tie_embeddings": False}, "tie_embeddings=False instead of True"),
        ({"intermediate_dim": 13}, "intermediate_dim=13 instead of 17"),
        ({"decoder_feed_forward": ["relu", experts()]}, "router_jitter_noise=0.0 inst"),
        ({"feed_forward": ["relu", experts(use_bias=True)]}, "use_bias=True instead"),
        (
            {"feed_forward": ["reglu", experts(feed_forward="reglu")]},
            "MixtureOfExperts with feed_forward='reglu'",
        ),
        (
            {"feed_forward": "relu", "decoder_feed_forward": "gelu"},
            "for t5 it has decoder_feed_forward='gelu'",
        ),
    ],
)
def test_models_that_cannot_be_written(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        models.save_pretrained(made(**options), tmp_path / "no")
