"""Tests of checkpoints of families like LLaMA and BERT, against NumPy.

`python -m benchmarks pretrained` compares the same with `transformers`.
"""

import json
import math

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import kerasseq
from kerasseq import kernels, models
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.pretrained.family import head_of_backbone
from tests.pretrained.helpers import (
    LLAMA,
    SIZES,
    assert_same,
    made,
    outputs_of,
    shuffle,
)
from tests.pretrained.test_huggingface import FILE, rewrite

pytestmark = pytest.mark.once(
    "tables of names and settings; tests/attention has the equations on all backends"
)
D, WINDOW, EPSILON = LLAMA["hidden_dim"], 3, 1e-6
SHARED = {**LLAMA, "position": "rope", "layer_norm_epsilon": EPSILON}
BERT = {"vocabulary_size": 29, "max_sequence_length": 13, **SIZES}
ROBERTA = {
    **BERT,
    "num_segments": 1,
    "activation": "gelu",
    "layer_norm_epsilon": 1e-5,
    "pair_separators": 2,
    "special_ids": {"[PAD]": 1, "[CLS]": 0, "[SEP]": 2, "[UNK]": 3, "[MASK]": 28},
}
FAMILIES = {
    "mistral": {"sliding_window": WINDOW},
    "qwen2": {"use_query_key_value_bias": True},
    "qwen3": {"query_key_norm": "rms", "head_dim": 6, "sliding_window": WINDOW},
    "gemma": {
        "feed_forward": "geglu_tanh",
        "tie_embeddings": True,
        "embedding_scale": D**0.5,
        "head_dim": 6,
    },
}


def small_model(name, **changes):
    model = models.GPT(**{**SHARED, **FAMILIES[name], **changes})
    shuffle(model.weights)
    return model


def ids_of(rows=2, time=7):
    return np.random.default_rng(1).integers(4, 28, (rows, time)).astype("int32")


def array(x):
    return keras.ops.convert_to_numpy(x)


def rotate(x, wavelength):
    """Heads `(B, T, N, K)`, rotated."""
    T, K = x.shape[1], x.shape[3]
    omega = wavelength ** (-np.arange(0, K, 2) / K)
    at = np.arange(T)[:, None] * np.concatenate([omega, omega])
    half = np.concatenate([-x[..., K // 2 :], x[..., : K // 2]], -1)
    return x * np.cos(at)[:, None] + half * np.sin(at)[:, None]


def activation(x, is_gelu):
    """GELU by tanh, or SiLU."""
    if is_gelu:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-x))


def attend(q, k, v, window):
    """Causal attention of heads `(B, T, N, K)`."""
    T = q.shape[1]
    distance = np.arange(T)[:, None] - np.arange(T)
    e = np.einsum("btnk,bsnk->bnts", q, k) / np.sqrt(q.shape[-1])
    e = np.exp(np.where((distance < 0) | (distance >= window), -1e9, e))
    a = np.einsum("bnts,bsnk->btnk", e / e.sum(-1, keepdims=True), v)
    return a.reshape(*a.shape[:2], -1)


def decoder(folder, ids):
    """Logits of a folder, as `transformers` computes them."""
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / FILE)
    w = {k.removeprefix("model."): v.astype("float64") for k, v in tensors.items()}
    kind = config["model_type"]
    N, M = config["num_attention_heads"], config["num_key_value_heads"]
    K, one = config["head_dim"], 1.0 if kind == "gemma" else 0.0
    window = config.get("sliding_window") or ids.shape[1]

    def norm(x, name):
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config["rms_norm_eps"])
        return x * (w[f"{name}.weight"] + (one if "_norm" not in name[-6:] else 0.0))

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    x = w["embed_tokens.weight"][ids] * (D**0.5 if kind == "gemma" else 1.0)
    for n in range(config["num_hidden_layers"]):
        block = f"layers.{n}"
        h, parts = norm(x, f"{block}.input_layernorm"), []
        for name, heads in (("q", N), ("k", M), ("v", M)):
            y = dense(h, f"{block}.self_attn.{name}_proj")
            y = y.reshape(*ids.shape, heads, K)
            if f"{block}.self_attn.{name}_norm.weight" in w:
                y = norm(y, f"{block}.self_attn.{name}_norm")
            y = y if name == "v" else rotate(y, config["rope_theta"])
            parts.append(np.repeat(y, N // heads, axis=2))
        x = x + dense(attend(*parts, window), f"{block}.self_attn.o_proj")
        h = norm(x, f"{block}.post_attention_layernorm")
        gate = activation(dense(h, f"{block}.mlp.gate_proj"), kind == "gemma")
        x = x + dense(gate * dense(h, f"{block}.mlp.up_proj"), f"{block}.mlp.down_proj")
    x = norm(x, "norm")
    if "lm_head.weight" in w:
        return dense(x, "lm_head")
    return x @ w["embed_tokens.weight"].T if config["tie_word_embeddings"] else x


@pytest.mark.parametrize("name", FAMILIES)
def test_reading_and_writing(name, tmp_path):
    model, ids = small_model(name), ids_of()
    models.save_pretrained(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == name
    assert config["architectures"] == [f"{name.title()}ForCausalLM"]
    wanted = decoder(tmp_path, ids)
    assert_same([array(model(ids))], [wanted], 2e-5)
    same = models.from_pretrained(tmp_path)
    assert_same([array(same(ids))], [wanted], 2e-5)
    assert same.generate(ids[0], 5, temperature=0).tolist() == (
        model.generate(ids[0], 5, temperature=0).tolist()
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_base_model(name, tmp_path):
    model, ids = small_model(name), ids_of()
    models.save_pretrained(model, tmp_path / "whole")
    changes = {} if name == "gemma" else {"head": None}
    base = small_model(name, **changes)
    models.save_pretrained(base, tmp_path / "base")
    rewrite(
        tmp_path / "base",
        lambda tensors: {k.removeprefix("model."): v for k, v in tensors.items()},
        architectures=[f"{name.title()}Model"],
    )
    same = models.from_pretrained(tmp_path / "base")
    assert same.head == ("tokens" if name == "gemma" else None)
    assert_same([array(same(ids))], [decoder(tmp_path / "base", ids)], 2e-5)


def test_a_base_model_predicts_no_tokens(tmp_path):
    base = small_model("qwen2", head=None)
    with pytest.raises(ValueError, match='head=None. Build it with head="tokens"'):
        base.generate([3, 4], 5)
    with pytest.raises(ValueError, match="no head that predicts tokens"):
        base.fit(np.arange(4, 28), sequence_length=5)
    with pytest.raises(ValueError, match="no head that predicts tokens"):
        base.cross_entropy(np.arange(4, 28))
    with pytest.raises(ValueError, match="language_model_weight must be 0 for a GPT"):
        base.with_head("classify", labels=2, language_model_weight=0.5)
    task = base.with_head("classify", labels=2)
    assert task.predict(ids_of(), verbose=0).shape == (2, 2)
    assert type(base).from_config(base.get_config()).head is None
    with pytest.raises(ValueError, match='head="words" is not one of'):
        models.GPT(vocabulary_size=7, head="words")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("mistral", {"hidden_act": "gelu"}, ["hidden_act", "silu"]),
        ("mistral", {"sliding_window": 0}, ["sliding_window", "at least 1"]),
        (
            "qwen2",
            {"use_sliding_window": True, "max_window_layers": 1},
            ["max_window_layers = 1", "one window for all layers"],
        ),
        (
            "qwen3",
            {"layer_types": ["full_attention", "sliding_attention"]},
            ["layer_types", "one window for all layers"],
        ),
        ("qwen3", {"layer_types": "full"}, ["layer_types = 'full'"]),
        ("qwen3", {"attention_bias": True}, ["attention_bias"]),
        ("gemma", {"tie_word_embeddings": False}, ["tie_word_embeddings"]),
        ("gemma", {"hidden_act": "silu"}, ["hidden_act", "gelu_pytorch_tanh"]),
        ("gemma", {"use_bidirectional_attention": True}, ["bidirectional"]),
        ("mistral", {"model_type": "ministral"}, ["nistral", 'you mean "mistral"']),
    ],
)
def test_settings_that_cannot_be_built(name, settings, words, tmp_path):
    models.save_pretrained(small_model(name), tmp_path)
    rewrite(tmp_path, **settings)
    with pytest.raises(ValueError, match=r"config\.json|ministral") as found:
        models.from_pretrained(tmp_path)
    for word in words:
        assert word in str(found.value)


def test_windows_as_settings_say_them(tmp_path):
    def window(name, **settings):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        models.save_pretrained(small_model(name), folder)
        config = json.loads((folder / "config.json").read_text())
        for key, value in settings.items():
            config.pop(key) if value == "gone" else config.update({key: value})
        (folder / "config.json").write_text(json.dumps(config))
        return models.from_pretrained(folder)._arguments["sliding_window"]

    assert window("mistral") == WINDOW
    assert window("mistral", sliding_window=None) is None
    assert window("mistral", sliding_window="gone") == 4096
    assert window("qwen3") == WINDOW
    assert window("qwen3", max_window_layers=2) is None
    assert window("qwen3", use_sliding_window=False) is None
    assert window("qwen3", layer_types=["full_attention"] * 2) is None
    assert window("qwen3", layer_types=["sliding_attention"] * 2) == WINDOW


def test_what_kerashub_has_no_folders_for(tmp_path):
    with pytest.raises(ValueError, match='received format="keras_hub". Pass format'):
        models.save_pretrained(
            small_model("qwen2"), tmp_path / "new", format="keras_hub"
        )


@pytest.mark.full("caches, compiled steps and files are tested everywhere")
def test_generation_with_a_cache_is_that_without(tmp_path):
    model = models.GPT(
        vocabulary_size=29,
        num_layers=2,
        num_heads=4,
        num_key_value_heads=2,
        hidden_dim=8,
        position="rope",
        norm="rms",
        use_bias=False,
        tie_embeddings=False,
        sliding_window=3,
        use_query_key_value_bias=True,
        query_key_norm="rms",
        embedding_scale=2.0,
    )
    shuffle(model.weights)
    text = ids_of(1, 5)[0].tolist()
    found = model.generate(text, 6, temperature=0).tolist()
    logits = array(model(np.array([found])))[0]
    assert found[5:] == logits.argmax(-1)[4:-1].tolist()
    model.save(tmp_path / "model.keras")
    same = kerasseq.load_model(tmp_path / "model.keras")
    assert same.generate(text, 6, temperature=0).tolist() == found


LENGTH = {
    "dynamic_ntk": {"scaling_factor": 4.0},
    "longrope": {"short_factor": [1.0, 1.5], "long_factor": [2.0, 7.0]},
}


@pytest.mark.full("the loop without a cache is that of other layers")
@pytest.mark.parametrize("kind", LENGTH)
def test_angles_by_the_length_of_the_text(kind, tmp_path):
    """Beyond the length of the training each token reads the text again."""
    options = {"rope_type": kind, "original_max_position_embeddings": 8}
    position = RotaryEmbedding(100.0, **options, **LENGTH[kind])
    model = models.GPT(**{**SHARED, "position": position, "max_sequence_length": 8})
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    same, text = models.from_pretrained(tmp_path), ids_of(2, 5).tolist()
    text[1] = text[1][:2]
    ids = ids_of(1, 13)
    assert_same([array(same(ids))], [array(model(ids))], 1e-6)
    forward = kernels.compiled(model)  # one program a length, not one an operation
    for row, begin in zip(same.generate(text, 9, temperature=0), text, strict=True):
        wanted = list(begin)
        for _ in range(9):
            wanted.append(int(array(forward(np.array([wanted])))[0, -1].argmax()))
        assert row.tolist() == wanted


def encoder(folder, ids, padding):
    """The vectors of a RoBERTa, as `transformers` computes them."""
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / FILE)
    w = {k.removeprefix("roberta."): v.astype("float64") for k, v in tensors.items()}
    N, (B, T) = config["num_attention_heads"], ids.shape
    erf = np.vectorize(math.erf)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    real = ids != padding
    at = np.cumsum(real, 1) * real + padding
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][at]
    x = norm(
        x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
    )
    for n in range(config["num_hidden_layers"]):
        block = f"encoder.layer.{n}"
        q, k, v = (
            dense(x, f"{block}.attention.self.{name}").reshape(B, T, N, -1)
            for name in ("query", "key", "value")
        )
        e = np.einsum("btnk,bsnk->bnts", q, k) / np.sqrt(q.shape[-1])
        e = np.exp(np.where(real[:, None, None], e, -1e9))
        a = np.einsum("bnts,bsnk->btnk", e / e.sum(-1, keepdims=True), v)
        a = dense(a.reshape(B, T, -1), f"{block}.attention.output.dense")
        x = norm(x + a, f"{block}.attention.output.LayerNorm")
        h = dense(x, f"{block}.intermediate.dense")
        h = dense(h * (1 + erf(h / np.sqrt(2))) / 2, f"{block}.output.dense")
        x = norm(x + h, f"{block}.output.LayerNorm")
    return x


def test_a_folder_of_roberta(tmp_path):
    model, ids = models.BERT(**ROBERTA, head="sequence"), ids_of()
    shuffle(model.weights)
    ids[1, 5:] = 1
    models.save_pretrained(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "roberta" and config["max_position_embeddings"] == 15
    table = load_file(tmp_path / FILE)["roberta.embeddings.position_embeddings.weight"]
    assert table.shape == (15, 10) and not table[:2].any()
    inputs = {"ids": ids, "segments": np.zeros_like(ids)}
    wanted = encoder(tmp_path, ids, padding=1)[ids != 1]
    for each in (model, models.from_pretrained(tmp_path)):
        assert_same([array(each(inputs)["sequence"])[ids != 1]], [wanted], 2e-5)


def test_a_folder_of_camembert(tmp_path):
    """CamemBERT and XLM-RoBERTa have the tensors of RoBERTa under another name."""
    model, ids = models.BERT(**ROBERTA, head="sequence"), ids_of()
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    inputs = {"ids": ids, "segments": np.zeros_like(ids)}
    wanted = array(model(inputs)["sequence"])
    for name in ("camembert", "xlm-roberta"):
        path.write_text(json.dumps({**config, "model_type": name}))
        same = models.from_pretrained(tmp_path)
        assert_same([array(same(inputs)["sequence"])], [wanted], 1e-6)


@pytest.mark.parametrize(
    ("head", "names"),
    [
        (None, {"roberta.pooler.dense.weight": "pooler"}),
        ("tokens", {"lm_head.dense.weight": "token_dense"}),
        (
            "classify",
            {
                "classifier.dense.weight": "pooler",
                "classifier.out_proj.weight": "classes",
            },
        ),
        ("tag", {"classifier.weight": "tags"}),
        ("span", {"qa_outputs.weight": "span"}),
    ],
)
def test_heads_of_roberta(head, names, tmp_path):
    classes = 5 if head in ("classify", "tag") else None
    model = models.BERT(**ROBERTA, head=head, labels=classes)
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    tensors = load_file(tmp_path / FILE)
    for theirs, ours in names.items():
        kernel = array(model.get_layer(ours).kernel)
        np.testing.assert_array_equal(tensors[theirs], kernel.T)
    same = models.from_pretrained(tmp_path)
    assert same.head == head and same.preprocessor.special_ids == ROBERTA["special_ids"]
    ids = ids_of()
    inputs = {"ids": ids, "segments": ids * 0, "positions": ids % 7}
    inputs = {name: inputs[name] for name in model.input}
    assert_same(outputs_of(same, inputs), outputs_of(model, inputs), 1e-6)


def test_ids_of_roberta_where_the_settings_name_none(tmp_path):
    models.save_pretrained(models.BERT(**ROBERTA), tmp_path)
    names = ("bos", "eos", "pad", "unk", "mask")
    rewrite(tmp_path, **{f"{name}_token_id": "gone" for name in names})
    reader = models.from_pretrained(tmp_path).preprocessor
    assert reader.special_ids == ROBERTA["special_ids"]
    rewrite(tmp_path, max_position_embeddings=2)
    with pytest.raises(ValueError, match=r"max_position_embeddings = 2, .* more than"):
        models.from_pretrained(tmp_path)


def test_pairs_of_roberta():
    """`<s> a </s></s> b </s>`, of one segment."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = kerasseq.text.BytePairTokenizer(270, special_tokens=names)
    tokenizer.fit("to be or not to be")
    model = models.BERT(tokenizer, **{**SIZES, "num_layers": 1}, pair_separators=2)
    rows = model.preprocessor.rows([("to", "be"), "or"]).arrays
    start, padding, end = (tokenizer.id_of(name) for name in names[:3])
    a, b, c = (tokenizer.encode(word).tolist() for word in ("to", "be", "or"))
    pair = [start, *a, end, end, *b, end]
    assert rows["ids"][0, : len(pair)].tolist() == pair
    assert rows["ids"][1, : len(c) + 2].tolist() == [start, *c, end]
    assert rows["ids"][1, -1] == padding and not rows["segments"].any()
    _, first, _, _ = model.preprocessor.context_rows([("to", "be")]).places[0]
    assert pair[first : first + len(b)] == b
    with pytest.raises(ValueError, match="pair_separators=3 is not one of 1, 2"):
        models.BERT(vocabulary_size=29, pair_separators=3)


def test_a_bert_without_a_pooler(tmp_path):
    model, ids = models.BERT(**BERT), ids_of()
    shuffle(model.weights)
    models.save_pretrained(model, tmp_path)
    rewrite(
        tmp_path,
        lambda tensors: {
            name.removeprefix("bert."): x
            for name, x in tensors.items()
            if "pooler" not in name
        },
    )
    same = models.from_pretrained(tmp_path)
    assert same.head == "sequence" and list(same.output) == ["sequence"]
    inputs = {"ids": ids, "segments": ids * 0}
    assert_same(
        [array(same(inputs)["sequence"])], [array(model(inputs)["sequence"])], 1e-6
    )
    with pytest.raises(ValueError, match="fit is not available for head='sequence'"):
        same.fit(["a"], [1])
    models.save_pretrained(same, tmp_path / "again")
    assert models.from_pretrained(tmp_path / "again").head == "sequence"
    assert head_of_backbone({}) == "sequence"


CLASSIFIERS = {
    "gpt2": "GPT2ForSequenceClassification",
    "llama": "LlamaForSequenceClassification",
    "mistral": "MistralForSequenceClassification",
    "qwen2": "Qwen2ForSequenceClassification",
    "qwen3": "Qwen3ForSequenceClassification",
    "gemma": "GemmaForSequenceClassification",
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_head_of_a_classifier_is_left_out_by_name(kind, tmp_path):
    """A GPT with a head of ours reads other special tokens than such a classifier."""
    model = small_model(kind) if kind in FAMILIES else made(kind)
    models.save_pretrained(model, tmp_path)
    width = model.get_config()["hidden_dim"]
    head = {"score.weight": np.ones((3, width), "float32")}
    rewrite(tmp_path, lambda tensors: tensors | head, architectures=[CLASSIFIERS[kind]])
    message = rf'as a GPT without "score.weight" \(3, {width}\).*from with_head'
    with pytest.warns(UserWarning, match=message) as warned:
        same = models.from_pretrained(tmp_path)
    assert warned[0].filename == __file__
    assert type(same) is models.GPT
