"""GPT-2: settings and tables of names.

Hugging Face has queries, keys and values in one matrix, `c_attn`, and dense kernels
with the inputs first, as Keras has them.
"""

from typing import Any

from kerasseq.models.gpt.gpt import GPT
from kerasseq.pretrained import fields
from kerasseq.pretrained.family import (
    ACTIVATION_NAMES,
    ACTIVATIONS,
    Arguments,
    Family,
    Format,
    Shapes,
    attention_mismatch,
    block_sizes,
    difference,
    gpt_head,
    with_biases,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import (
    HUB_DECODER_BLOCK,
    Row,
    hub_norm,
    hub_weights,
    layer_norm,
    untied_head,
    weight,
    within,
)

# Letters: V vocabulary, T positions, D hidden, N heads, K per head, F intermediate.
KERNELS = ("query/kernel", "key/kernel", "value/kernel")
BIASES = ("query/bias", "key/bias", "value/bias")
ATTENTION = [
    Row("c_attn.weight", KERNELS, "D N K", "D (N K)"),
    Row("c_attn.bias", BIASES, "N K", "(N K)"),
    weight("c_proj.weight", "attention_output/kernel", "N K D", "(N K) D"),
    weight("c_proj.bias", "attention_output/bias", "D"),
]
BLOCK = [
    *layer_norm("ln_1", "self_attention_layer_norm"),
    *within("attn.", "self_attention/", ATTENTION),
    *layer_norm("ln_2", "feedforward_layer_norm"),
    weight("mlp.c_fc.weight", "feed_forward/intermediate_dense/kernel", "D F"),
    weight("mlp.c_fc.bias", "feed_forward/intermediate_dense/bias", "F"),
    weight("mlp.c_proj.weight", "feed_forward/output_dense/kernel", "F D"),
    weight("mlp.c_proj.bias", "feed_forward/output_dense/bias", "D"),
]
ROWS = [
    weight("wte.weight", "embedding/embeddings", "V D"),
    weight("wpe.weight", "position_embedding/embeddings", "T D"),
    *within("h.{n}.", "block_{n}/", BLOCK),
    *layer_norm("ln_f", "final_norm"),
]
HUB_ROWS = [
    *hub_weights("layers/reversible_embedding", ["embedding/embeddings"], "V D"),
    *hub_weights("layers/position_embedding", ["position_embedding/embeddings"], "T D"),
    *within("layers/transformer_decoder{_n}/", "block_{n}/", HUB_DECODER_BLOCK),
    *hub_norm("layers/layer_normalization", "final_norm"),
]
OPTIONS = {  # of every GPT-2
    "norm": "layer",
    "norm_placement": "pre",
    "use_bias": True,
    "position": "learned",
    "parallel": False,
    "sliding_window": None,
    "embedding_norm": False,
    "query_key_norm": None,
    "embedding_scale": None,
    "logit_soft_cap": None,
    "residual": True,
}

SETTINGS: list[fields.Field] = [  # of Hugging Face
    ("vocabulary_size", "vocab_size", fields.WHOLE),
    ("num_layers", "n_layer", fields.WHOLE),
    ("num_heads", "n_head", fields.WHOLE),
    ("hidden_dim", "n_embd", fields.WHOLE),
    ("intermediate_dim", "n_inner", fields.WHOLE, None),
    ("max_sequence_length", "n_positions", fields.WHOLE),
    ("tie_embeddings", "tie_word_embeddings", fields.BOOLEAN, True),
    ("layer_norm_epsilon", "layer_norm_epsilon", fields.NUMBER, 1e-5),
    ("dropout", "resid_pdrop", fields.RATE, 0.1),
]


def rows(a: Arguments) -> list[Row]:
    """Returns the table of Hugging Face."""
    return [*ROWS, *untied_head(a)]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    return {
        "V": a["vocabulary_size"],
        "T": a["max_sequence_length"],
        **block_sizes(a),
    }


def mismatch(a: Arguments) -> str | None:
    """Returns why a `GPT` is not a GPT-2."""
    bias = {"use_query_key_value_bias": OPTIONS["use_bias"]}
    return attention_mismatch(with_biases(a), OPTIONS | bias)


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `GPT`."""
    settings.require(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    a = fields.read(settings, SETTINGS)
    return {
        **a,
        "feed_forward": settings.word("activation_function", ACTIVATIONS, "gelu_new"),
        "head": gpt_head(settings, shapes, a["tie_embeddings"]),
        **{name: OPTIONS[name] for name in ("norm", "use_bias", "position")},
    }


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of Hugging Face."""
    return {
        "architectures": ["GPT2LMHeadModel" if a["head"] else "GPT2Model"],
        **fields.write(a, SETTINGS),
        "n_ctx": a["max_sequence_length"],  # n_positions, for llama.cpp's converter
        "activation_function": ACTIVATION_NAMES[a["feed_forward"]],
        **dict.fromkeys(("embd_pdrop", "attn_pdrop"), a["dropout"]),
    }


def hub_read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of KerasHub to arguments of `GPT`."""
    return {
        **fields.read(settings, fields.HUB_TRANSFORMER),
        "feed_forward": "gelu_tanh",
    }


def hub_write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of KerasHub."""
    expected = {
        "feed_forward": "gelu_tanh",
        "tie_embeddings": True,
        "layer_norm_epsilon": 1e-5,
        "head": "tokens",
    }
    if wrong := difference(a, expected):
        raise ValueError(f"a GPT2Backbone of KerasHub cannot have {wrong}")
    return fields.write(fields.resolved(a), fields.HUB_TRANSFORMER)


GPT2 = Family(
    name="gpt2",
    model=GPT,
    sizes=sizes,
    mismatch=mismatch,
    huggingface=Format(
        kinds=("gpt2",),
        read=read,
        write=write,
        rows=rows,
        prefix="transformer.",
        heads=("lm_head.",),
        copies={"lm_head.weight": "wte.weight"},
        ignored=("h.*.attn.bias", "h.*.attn.masked_bias"),
        left_out=("score.*", "multiple_choice_head.*"),
    ),
    keras_hub=Format(
        kinds=("GPT2Backbone",),
        read=hub_read,
        write=hub_write,
        rows=lambda a: HUB_ROWS,
    ),
)
