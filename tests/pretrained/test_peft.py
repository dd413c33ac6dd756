"""LoRA adapters in folders of PEFT, against the package `peft`."""

import importlib

import keras
import numpy as np
import pytest

from kerasseq import models
from tests.pretrained.helpers import LLAMA, SIZES, assert_same, shuffle

pytestmark = [
    pytest.mark.once("names and settings; the peer is in PyTorch"),
    pytest.mark.filterwarnings("ignore"),  # of the peer
]
ROPE = {**LLAMA, "position": "rope", "layer_norm_epsilon": 1e-6}
TEXT = {"vocabulary_size": 29, "max_sequence_length": 13, **SIZES}
MAKE = {
    "gpt2": lambda: models.GPT(feed_forward="gelu_tanh", **TEXT),
    "llama": lambda: models.GPT(**ROPE),
    "mistral": lambda: models.GPT(**ROPE, sliding_window=3),
    "qwen2": lambda: models.GPT(**ROPE, use_query_key_value_bias=True),
    "qwen3": lambda: models.GPT(**ROPE, query_key_norm="rms", head_dim=6),
    "bert": lambda: models.BERT(**TEXT, head="classify", labels=5),
    "t5": lambda: models.T5(vocabulary_size=29, published_ids=True, **SIZES),
    "vit": lambda: models.ViT(5, image_size=6, patch_size=2, **SIZES),
    "llama-base": lambda: models.GPT(**ROPE, head=None),
    "bert-base": lambda: models.BERT(**TEXT, head="sequence"),
}
CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "bert": "BertForSequenceClassification",
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
    "llama-base": "LlamaModel",
    "bert-base": "BertModel",
}
CONFIGS = {  # of PEFT, with all ways to say which modules, and how
    "gpt2": {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True},
    "llama": {
        **{"target_modules": "all-linear", "rank_pattern": {"down_proj": 29}},
        "alpha_pattern": {r".*layers\.1\.self_attn\.(q|v)_proj": 7},
    },
    "mistral": {"target_modules": ["q_proj", "v_proj"], "use_rslora": True},
    "qwen2": {"target_modules": r".*\.1\..*(k|o|up)_proj"},
    "qwen3": {"target_modules": ["k_proj"], "layers_to_transform": [1]},
    "bert": {"target_modules": ["query", "dense"], "modules_to_save": ["classifier"]},
    "t5": {"target_modules": ["q", "v", "wo"], "init_lora_weights": "gaussian"},
    "vit": {"target_modules": "all-linear", "modules_to_save": ["classifier"]},
    "llama-base": {"target_modules": ["o_proj"]},
    "bert-base": {"target_modules": r"encoder.*\.(key|value)"},
}
TARGETS = {"gpt2": {"query": 2, "value": 3, "*/output_dense": 3}}
IDS = np.random.default_rng(0).integers(3, 29, (2, 5))


def made(name):
    model = MAKE[name]()
    shuffle(model.trainable_weights)
    return model


def logits(model):
    """The logits of one of our models, or of the peer's."""
    shape = (2, 6, 6, 3) if isinstance(model, models.ViT) else ()
    x = np.random.default_rng(1).uniform(size=shape).astype("float32")
    if isinstance(model, models.BERT):
        x = {"ids": IDS, "segments": 0 * IDS}
    elif isinstance(model, models.T5):
        x = [IDS, IDS[:, :3]]
    elif isinstance(model, models.GPT):
        x = IDS
    y = model(x)
    y = y["sequence"] if isinstance(y, dict) else y
    return keras.ops.convert_to_numpy(y)


def peer_logits(model, name):
    torch = importlib.import_module("torch")
    if name == "vit":
        x = np.random.default_rng(1).uniform(size=(2, 6, 6, 3)).astype("float32")
        inputs = {"pixel_values": torch.tensor(2 * x - 1).permute(0, 3, 1, 2)}
    else:
        inputs = {"input_ids": torch.tensor(IDS)}
    if name == "t5":
        inputs["decoder_input_ids"] = torch.tensor(IDS[:, :3])
    with torch.no_grad():
        return model.eval().cpu()(**inputs)[0].numpy()


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A function that returns our model and the peer's, without an adapter."""
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("peft")

    def make(name, ours=None):
        folder = tmp_path_factory.mktemp(name)
        ours = ours or made(name)
        models.save_pretrained(ours, folder / "base")
        cls = getattr(transformers, CLASSES[name])
        return ours, cls.from_pretrained(folder / "base")

    return make


BASES = {"llama-base": pytest.mark.full("as bert-base")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=BASES.get(name, ())) for name in CONFIGS]
)
def test_both_directions(name, base, tmp_path):
    peft = importlib.import_module("peft")
    torch = importlib.import_module("torch")
    model, theirs = base(name)
    before = logits(model)
    assert_same([before], [peer_logits(theirs, name)])
    config = peft.LoraConfig(r=2, lora_alpha=3, **CONFIGS[name])
    adapted = peft.get_peft_model(theirs, config)
    torch.manual_seed(0)
    for weight in adapted.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.3)
    adapted.save_pretrained(tmp_path / "theirs")
    model.load_lora_weights(tmp_path / "theirs", name="theirs")
    expected = peer_logits(adapted, name)
    assert np.abs(expected - before).max() > 0.01
    assert_same([logits(model)], [expected])
    model.set_adapter(None)
    np.testing.assert_allclose(logits(model), before, atol=1e-6)

    model.enable_lora(TARGETS.get(name, 3), None if name in TARGETS else "all-linear")
    shuffle(model.trainable_weights, seed=2)
    model.save_lora_weights(tmp_path / "ours", format="peft")
    adapted = peft.PeftModel.from_pretrained(adapted.unload(), tmp_path / "ours")
    expected = logits(model)
    assert np.abs(expected - before).max() > 0.01
    assert_same([expected], [peer_logits(adapted, name)])
    model.set_adapter(None)
    model.load_lora_weights(tmp_path / "ours", name="again")
    assert_same([logits(model)], [expected])
