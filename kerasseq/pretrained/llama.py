"""LLaMA, Mistral, Qwen2, Qwen3 and Gemma: settings and tables of names.

The others differ from LLaMA by a sliding window, by biases, by norms of queries and
keys, or by the scale of the embedding and the gate of the feed-forward network. Presets
of KerasHub are read and written for LLaMA only.
"""

import functools
import math
from typing import Any

from kerasseq.models.gpt.gpt import GPT
from kerasseq.pretrained import fields, rope
from kerasseq.pretrained.family import (
    Arguments,
    Family,
    Format,
    Shapes,
    block_sizes,
    difference,
    gpt_head,
    with_biases,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import (
    IDENTITY,
    OFFSET_BY_ONE,
    Row,
    Transform,
    dense,
    hub_embedding,
    untied_head,
    weight,
    within,
)

# Letters: V vocabulary, D hidden, N heads, M heads of keys and values, K per head,
# F intermediate.


def rows(
    a: Arguments,
    scales: Transform = IDENTITY,
    feed_forward: list[Row] | None = None,
) -> list[Row]:
    """Returns the table of Hugging Face.

    Args:
        a: Arguments of the model.
        scales: The `Transform` of the scales of the norms.
        feed_forward: Rows of the feed-forward networks of all blocks; those of one with
            a gate in each block if None.
    """
    bias, qkv_bias = a["use_bias"], with_biases(a)["use_query_key_value_bias"]
    attention = [
        *dense("q_proj", "query", "D", "N K", bias=qkv_bias),
        *dense("k_proj", "key", "D", "M K", bias=qkv_bias),
        *dense("v_proj", "value", "D", "M K", bias=qkv_bias),
        *dense("o_proj", "attention_output", "N K", "D", bias=bias),
    ]
    if a["query_key_norm"] is not None:
        attention += [
            weight("q_norm.weight", "query_norm/scale", "K"),
            weight("k_norm.weight", "key_norm/scale", "K"),
        ]
    block = [
        _norm("input_layernorm", "self_attention_layer_norm", scales),
        *within("self_attn.", "self_attention/", attention),
        _norm("post_attention_layernorm", "feedforward_layer_norm", scales),
    ]
    if feed_forward is None:
        feed_forward = within("layers.{n}.", "block_{n}/", mlp_rows(bias))
    return [
        weight("embed_tokens.weight", "embedding/embeddings", "V D"),
        *within("layers.{n}.", "block_{n}/", block),
        *feed_forward,
        _norm("norm", "final_norm", scales),
        *untied_head(a),
    ]


def mlp_rows(bias: bool) -> list[Row]:
    """Returns the rows of a feed-forward network with a gate in a block."""
    layers = [
        *dense("gate_proj", "gate_dense", "D", "F", bias=bias),
        *dense("up_proj", "intermediate_dense", "D", "F", bias=bias),
        *dense("down_proj", "output_dense", "F", "D", bias=bias),
    ]
    return within("mlp.", "feed_forward/", layers)


def _norm(tensor, path, scales):
    return weight(f"{tensor}.weight", f"{path}/scale", "D", transform=scales)


HUB_ATTENTION = [
    weight("_query_dense/vars/0", "query/kernel", "D N K"),
    weight("_key_dense/vars/0", "key/kernel", "D M K"),
    weight("_value_dense/vars/0", "value/kernel", "D M K"),
    weight("_output_dense/vars/0", "attention_output/kernel", "N K D"),
]
HUB_BLOCK = [
    *within("_self_attention_layer/", "self_attention/", HUB_ATTENTION),
    weight("_self_attention_layernorm/vars/0", "self_attention_layer_norm/scale", "D"),
    weight(
        "_feedforward_intermediate_dense/vars/0",
        "feed_forward/intermediate_dense/kernel",
        "D F",
    ),
    weight("_feedforward_gate_dense/vars/0", "feed_forward/gate_dense/kernel", "D F"),
    weight(
        "_feedforward_output_dense/vars/0", "feed_forward/output_dense/kernel", "F D"
    ),
    weight("_feedforward_layernorm/vars/0", "feedforward_layer_norm/scale", "D"),
]


def hub_rows(a: Arguments) -> list[Row]:
    """Returns the table of KerasHub."""
    return [
        *hub_embedding(a["tie_embeddings"]),
        *within("layers/llama_transformer_decoder{_n}/", "block_{n}/", HUB_BLOCK),
        weight("layers/llama_layer_norm/vars/0", "final_norm/scale", "D"),
    ]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    return {
        "V": a["vocabulary_size"],
        "M": a["num_key_value_heads"] or a["num_heads"],
        **block_sizes(a),
    }


# Settings that all of them share in Hugging Face

OPTIONS = {  # of every LLaMA
    "norm": "rms",
    "norm_placement": "pre",
    "feed_forward": "swiglu",
    "parallel": False,
    "sliding_window": None,
    "embedding_norm": False,
    "query_key_norm": None,
    "embedding_scale": None,
    "logit_soft_cap": None,
    "memory_length": None,
    "residual": True,
}

SIZES: list[fields.Field] = [
    ("vocabulary_size", "vocab_size", fields.WHOLE),
    ("num_layers", "num_hidden_layers", fields.WHOLE),
    ("num_heads", "num_attention_heads", fields.WHOLE),
    ("num_key_value_heads", "num_key_value_heads", fields.WHOLE, None),
    ("hidden_dim", "hidden_size", fields.WHOLE),
    ("intermediate_dim", "intermediate_size", fields.WHOLE),
    ("layer_norm_epsilon", "rms_norm_eps", fields.NUMBER, 1e-6),
]


def decoder_mismatch(a, options):
    """Returns why a `GPT` does not have these options and rotary positions."""
    return difference(with_biases(a), options) or rope.mismatch(a["position"])


def read_shared(settings, shapes, *, head_dim=None, max_length=2048, tied=False):
    """Converts the settings that all families share.

    Args:
        settings: The `Settings`.
        shapes: Shapes of the tensors by name.
        head_dim: Default size of a head.
        max_length: Default maximum sequence length.
        tied: Default of `tie_embeddings`.
    """
    own = [
        ("head_dim", "head_dim", fields.WHOLE, head_dim),
        ("max_sequence_length", "max_position_embeddings", fields.WHOLE, max_length),
        ("tie_embeddings", "tie_word_embeddings", fields.BOOLEAN, tied),
    ]
    a = fields.read(settings, [*SIZES, *own])
    return {
        **a,
        "head": gpt_head(settings, shapes, a["tie_embeddings"]),
        "use_query_key_value_bias": None,
        "query_key_norm": None,
        "position": rope.read(settings),
    }


def write_shared(a, name):
    """Returns the settings that all families share.

    Args:
        a: Arguments of the model.
        name: Prefix of the class in `architectures`.
    """
    known = fields.resolved(a)
    return {
        "architectures": [f"{name}ForCausalLM" if a["head"] else f"{name}Model"],
        **fields.write(known, SIZES),
        "head_dim": known["head_dim"],
        "max_position_embeddings": a["max_sequence_length"],
        "tie_word_embeddings": a["tie_embeddings"],
        **rope.write(a["position"]),
    }


def chosen(options):
    """Returns the options that are not defaults of `GPT`."""
    names = ("norm", "feed_forward", "use_bias", "use_query_key_value_bias")
    return {name: options[name] for name in (*names, "query_key_norm")}


# LLaMA


def mismatch(a: Arguments) -> str | None:
    """Returns why a `GPT` is not a LLaMA."""
    return decoder_mismatch(a, OPTIONS | {"use_query_key_value_bias": a["use_bias"]})


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `GPT`."""
    use_bias = settings.boolean("attention_bias", False)
    settings.require(hidden_act="silu", mlp_bias=use_bias)
    return {
        **read_shared(settings, shapes),
        "use_bias": use_bias,
        **{name: OPTIONS[name] for name in ("norm", "feed_forward")},
    }


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of Hugging Face."""
    return {
        **write_shared(a, "Llama"),
        "hidden_act": "silu",
        "attention_bias": a["use_bias"],
        "mlp_bias": a["use_bias"],
    }


HUB_SETTINGS: list[fields.Field] = [
    ("vocabulary_size", "vocabulary_size", fields.WHOLE),
    ("num_layers", "num_layers", fields.WHOLE),
    ("num_heads", "num_query_heads", fields.WHOLE),
    ("num_key_value_heads", "num_key_value_heads", fields.WHOLE),
    ("hidden_dim", "hidden_dim", fields.WHOLE),
    ("intermediate_dim", "intermediate_dim", fields.WHOLE),
    ("layer_norm_epsilon", "layer_norm_epsilon", fields.NUMBER, 1e-6),
    ("dropout", "dropout", fields.RATE),
]


def hub_read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of KerasHub to arguments of `GPT`.

    Most presets do not say whether the embedding is tied; the tensors show it.
    """
    tied = "layers/reversible_embedding/vars/1" not in shapes
    return {
        **fields.read(settings, HUB_SETTINGS),
        "head_dim": None,
        "tie_embeddings": settings.boolean("tie_word_embeddings", tied),
        "use_bias": False,
        "position": rope.hub_read(settings),
        **{name: OPTIONS[name] for name in ("norm", "feed_forward")},
    }


def hub_write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of KerasHub."""
    s = sizes(a)
    expected = {"use_bias": False, "head_dim": s["D"] // s["N"], "head": "tokens"}
    if wrong := difference({**a, "head_dim": s["K"]}, expected):
        raise ValueError(f"a LlamaBackbone of KerasHub cannot have {wrong}")
    return {
        **fields.write(fields.resolved(a), HUB_SETTINGS),
        "tie_word_embeddings": a["tie_embeddings"],
        **rope.hub_write(a["position"]),
    }


# Mistral

NO_BIASES = {**OPTIONS, "use_bias": False, "use_query_key_value_bias": False}
MISTRAL_OPTIONS = {k: v for k, v in NO_BIASES.items() if k != "sliding_window"}


def read_mistral(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of a Mistral to arguments of `GPT`."""
    settings.require(hidden_act="silu", layer_types=None)
    window = None
    if settings.values.get("sliding_window", 0) is not None:  # null means no window
        window = settings.whole("sliding_window", 4096)
    shared = read_shared(settings, shapes, max_length=131072)
    return {**shared, **chosen(MISTRAL_OPTIONS), "sliding_window": window}


def write_mistral(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of a Mistral."""
    window = {"hidden_act": "silu", "sliding_window": a["sliding_window"]}
    return {**write_shared(a, "Mistral"), **window}


# Qwen2 and Qwen3

QWEN2_OPTIONS = {**MISTRAL_OPTIONS, "use_query_key_value_bias": True}
QWEN3_OPTIONS = {**MISTRAL_OPTIONS, "query_key_norm": "rms"}


def read_qwen(
    settings: Settings, shapes: Shapes, *, options: Arguments, head_dim: int | None
) -> Arguments:
    """Converts settings of a Qwen2 or Qwen3 to arguments of `GPT`."""
    settings.require(hidden_act="silu", attention_bias=False)
    shared = read_shared(settings, shapes, head_dim=head_dim, max_length=32768)
    window = _qwen_window(settings, shared["num_layers"])
    return {**shared, **chosen(options), "sliding_window": window}


def _qwen_window(settings, num_layers):
    """Returns the window of all layers, or None.

    Raises:
        ValueError: If only some layers have one.
    """
    if not settings.boolean("use_sliding_window", False):
        return None
    name, kinds = "max_window_layers", settings.get("layer_types", None)
    if kinds is None:  # that number of first layers has no window
        first = settings.values.get(name, 28)
        is_whole = isinstance(first, int)
        kinds = ["full_attention"] * (is_whole and first > 0)
        kinds += ["sliding_attention"] * (is_whole and first < num_layers)
    else:
        name = "layer_types"
        kinds = sorted(set(kinds)) if isinstance(kinds, list) else []
    if kinds == ["full_attention"]:
        return None
    if kinds != ["sliding_attention"]:
        settings.refuse(name, "one window for all layers, or none", "kerasseq builds")
    return settings.whole("sliding_window", 4096)


def write_qwen(a: Arguments, *, name: str) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of a Qwen2 or Qwen3."""
    window = a["sliding_window"]
    return {
        **write_shared(a, name),
        "hidden_act": "silu",
        "use_sliding_window": window is not None,
        "sliding_window": window,
        "max_window_layers": a["num_layers"] if window is None else 0,
    }


# Gemma

GEMMA_OPTIONS = {**NO_BIASES, "feed_forward": "geglu_tanh", "tie_embeddings": True}
GEMMA_ACTIVATIONS = dict.fromkeys(  # the first files say "gelu" for the other one
    ("gelu_pytorch_tanh", "gelu"), "geglu_tanh"
)


def gemma_mismatch(a: Arguments) -> str | None:
    """Returns why a `GPT` is not a Gemma."""
    scale = math.sqrt(a["hidden_dim"])
    if a["embedding_scale"] is None or not math.isclose(a["embedding_scale"], scale):
        return f"embedding_scale={a['embedding_scale']} instead of {scale}"
    return decoder_mismatch(
        a, GEMMA_OPTIONS | {"embedding_scale": a["embedding_scale"]}
    )


def read_gemma(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of a Gemma to arguments of `GPT`."""
    settings.require(
        attention_bias=False,
        use_bidirectional_attention=False,
        hidden_activation="gelu_pytorch_tanh",
        tie_word_embeddings=True,
    )
    settings.word("hidden_act", GEMMA_ACTIVATIONS, "gelu")
    shared = read_shared(settings, shapes, head_dim=256, max_length=8192, tied=True)
    scale = math.sqrt(shared["hidden_dim"])
    return {**shared, **chosen(GEMMA_OPTIONS), "embedding_scale": scale}


def write_gemma(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of a Gemma."""
    activation = "gelu_pytorch_tanh"
    names = {"hidden_act": activation, "hidden_activation": activation}
    return {**write_shared(a, "Gemma"), **names}


def make_family(name, mismatch, read, write, rows=rows, keras_hub=None):
    """Returns the `Family` of a kind of LLaMA."""
    huggingface = Format(
        kinds=(name,),
        read=read,
        write=write,
        rows=rows,
        prefix="model.",
        heads=("lm_head.",),
        copies={"lm_head.weight": "embed_tokens.weight"},
        ignored=("layers.*.self_attn.rotary_emb.inv_freq",),
        left_out=("score.*",),
    )
    return Family(
        name=name,
        model=GPT,
        sizes=sizes,
        mismatch=mismatch,
        huggingface=huggingface,
        keras_hub=keras_hub,
    )


LLAMA = make_family(
    "llama",
    mismatch,
    read,
    write,
    keras_hub=Format(
        kinds=("LlamaBackbone", "Llama3Backbone"),
        read=hub_read,
        write=hub_write,
        rows=hub_rows,
    ),
)
MISTRAL = make_family(
    "mistral",
    functools.partial(decoder_mismatch, options=MISTRAL_OPTIONS),
    read_mistral,
    write_mistral,
)
QWEN2 = make_family(
    "qwen2",
    functools.partial(decoder_mismatch, options=QWEN2_OPTIONS),
    functools.partial(read_qwen, options=QWEN2_OPTIONS, head_dim=None),
    functools.partial(write_qwen, name="Qwen2"),
)
QWEN3 = make_family(
    "qwen3",
    functools.partial(decoder_mismatch, options=QWEN3_OPTIONS),
    functools.partial(read_qwen, options=QWEN3_OPTIONS, head_dim=128),
    functools.partial(write_qwen, name="Qwen3"),
)
GEMMA = make_family(
    "gemma",
    gemma_mismatch,
    read_gemma,
    write_gemma,
    functools.partial(rows, scales=OFFSET_BY_ONE),
)
