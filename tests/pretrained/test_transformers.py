"""`Mamba`, `RWKV`, `XLSTM` in folders that Hugging Face's own classes write, read."""

import json

import keras
import numpy as np
import pytest

from kerasseq import models, text
from tests.pretrained.helpers import assert_same, made, outputs_of, shuffle

pytestmark = pytest.mark.once("the peers are written in PyTorch")

IDS = np.random.default_rng(0).integers(0, 29, (2, 37))
SIZES = {"vocab_size": 29, "hidden_size": 20, "num_hidden_layers": 3}
CONFIGS = {
    "mamba": {**SIZES, "state_size": 5, "time_step_rank": 3, "conv_kernel": 3},
    "mamba-biases": {**SIZES, "use_bias": True, "use_conv_bias": False, "expand": 3},
    "mamba-untied": {**SIZES, "tie_word_embeddings": False, "time_step_rank": "auto"},
    "rwkv": {**SIZES, "attention_hidden_size": 24, "intermediate_size": 17},
    "rwkv-tied": {**SIZES, "tie_word_embeddings": True},
    "xlstm": {**SIZES, "num_heads": 2, "chunk_size": 16},
    "xlstm-published": {**SIZES, "hidden_size": 128, "num_heads": 4},
    "xlstm-wide": {
        **{**SIZES, "num_heads": 5, "qk_dim_factor": 0.75, "v_dim_factor": 1.25},
        **{"ffn_proj_factor": 1.4, "ffn_round_up_to_multiple_of": 3, "norm_eps": 1e-4},
        **{"gate_soft_cap": 2.0, "output_logit_soft_cap": 3.0, "chunk_size": 16},
    },
}
CLASSES = {"mamba": "Mamba", "rwkv": "Rwkv", "xlstm": "xLSTM"}


@pytest.fixture(scope="module", autouse=True)
def torch():
    if keras.backend.backend() != "torch":
        pytest.skip("the weights are tensors of PyTorch")
    return pytest.importorskip("torch")


def peer(name, part):
    """A class or module of Hugging Face."""
    module = f"transformers.models.{name}.{part}_{name}"
    return pytest.importorskip(module)


def logits_of(torch, model):
    ids = torch.tensor(IDS, device=next(model.parameters()).device)
    if hasattr(model.config, "rescale_every"):
        model.config.rescale_every = 0
    with torch.no_grad():  # no cache: that of its RWKV is wrong above batch 1
        return model.eval()(ids, use_cache=False)[0].cpu().numpy()


def assert_near(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONFIGS)
def test_its_folder_and_back(torch, name, tmp_path):
    kind = name.partition("-")[0]
    config = getattr(peer(kind, "configuration"), f"{CLASSES[kind]}Config")
    cls = getattr(peer(kind, "modeling"), f"{CLASSES[kind]}ForCausalLM")
    torch.manual_seed(0)
    theirs = cls(config(**CONFIGS[name]))
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    expected = logits_of(torch, theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    model = models.from_pretrained(tmp_path / "theirs")
    assert type(model).__name__.lower() == kind
    assert_near(keras.ops.convert_to_numpy(model(IDS)), expected)
    models.save_pretrained(model, tmp_path / "ours")
    again = cls.from_pretrained(tmp_path / "ours")
    assert_near(logits_of(torch, again), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mamba", "rwkv", "xlstm"])
def test_it_generates_what_theirs_does(torch, name, tmp_path):
    cls = getattr(peer(name, "modeling"), f"{CLASSES[name]}ForCausalLM")
    model = made(name)
    if name == "rwkv":  # theirs cannot decode with other widths than that of the model
        model = models.RWKV(vocabulary_size=29, num_layers=2, hidden_dim=10)
        shuffle(model.trainable_weights)
    if name == "xlstm":  # the caches of theirs have the widths of the published model
        model = models.XLSTM(vocabulary_size=29, num_layers=2, hidden_dim=128)
    models.save_pretrained(model, tmp_path)
    theirs = cls.from_pretrained(tmp_path).eval()
    if name == "rwkv":
        theirs.config.rescale_every = 0
    prompt = torch.tensor(IDS[:1, :5], device=next(theirs.parameters()).device)
    written = theirs.generate(prompt, max_new_tokens=9, do_sample=False)[0].tolist()
    assert model.generate(IDS[0, :5], 9, temperature=0).tolist() == written


def test_the_tokenizer_of_gpt_neox(tmp_path):
    """Both have the tokenizer of GPT-NeoX: byte pairs in tokenizer.json."""
    tokenizers = pytest.importorskip("tokenizers")
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.normalizer = tokenizers.normalizers.NFC()
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.post_processor = tokenizers.processors.ByteLevel(trim_offsets=True)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>", "<|padding|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sentence = "Mamba reads a cafe\u0301 menu,  twice."
    bpe.train_from_iterator([sentence] * 3, trainer)
    size = bpe.get_vocab_size()
    model = models.Mamba(vocabulary_size=size, num_layers=1, hidden_dim=8)
    models.save_pretrained(model, tmp_path)
    bpe.save(str(tmp_path / "tokenizer.json"))
    found = models.from_pretrained(tmp_path)
    assert found.tokenizer.vocabulary_size == size
    assert found.tokenizer.encode(sentence).tolist() == bpe.encode(sentence).ids
    assert found.generate(sentence, 3, seed=0).startswith(sentence[:17])
    assert isinstance(text.load_tokenizer(tmp_path), type(found.tokenizer))
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe)
    assert models.LanguageModel("gru", fast, units=3).tokenizer == found.tokenizer


@pytest.mark.parametrize("name", ["mamba", "rwkv", "xlstm"])
def test_a_base_model(name, tmp_path):
    """Without a head the file has no weights of one, and config.json says so."""
    classes = {"mamba": models.Mamba, "rwkv": models.RWKV, "xlstm": models.XLSTM}
    cls = classes[name]
    model = cls(vocabulary_size=29, num_layers=1, hidden_dim=8, head=None)
    models.save_pretrained(model, tmp_path)
    same = models.from_pretrained(tmp_path)
    if name != "mamba":  # a tied Mamba has its head in the embedding
        assert same.head is None
        assert_same(outputs_of(same), outputs_of(model), 1e-6)
    h, _ = same.stack.hidden_states(same.stack.embedding(IDS))
    found, expected = map(keras.ops.convert_to_numpy, (h, model(IDS)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_a_folder_of_xlstm_cannot_hold(tmp_path):
    sizes = {"vocabulary_size": 29, "num_layers": 2, "hidden_dim": 8}
    for options, message in (
        ({"slstm_at": [1]}, r"for xlstm it has slstm_at=\[1\] instead of \[\]"),
        ({"soft_cap": None}, "soft_cap=None instead of a number"),
    ):
        with pytest.raises(ValueError, match=message):
            models.save_pretrained(models.XLSTM(**sizes, **options), tmp_path / "no")
    models.save_pretrained(models.XLSTM(**sizes), tmp_path / "yes")
    path = tmp_path / "yes" / "config.json"
    for name, value in (("weight_mode", "fused"), ("use_bias", True)):
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, name: value}))
        with pytest.raises(ValueError, match=f"{name} = .*, but kerasseq builds"):
            models.from_pretrained(path.parent)
        path.write_text(json.dumps(config))
