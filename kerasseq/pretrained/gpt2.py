r"""GPT-2 in the folders of others.

Hugging Face keeps queries, keys and values in one matrix, `c_attn`, with inputs before
outputs; KerasHub has each by itself, head by head, as we have.
"""

from kerasseq.language.gpt import GPT
from kerasseq.pretrained import common, hub_layers
from kerasseq.pretrained.common import BLOCK
from kerasseq.pretrained.family import Family, Format, differing
from kerasseq.pretrained.layouts import Row, layer_norm, numbered, one

FIXED = {
    "norm": "layer",
    "norm_placement": "pre",
    "use_bias": True,
    "position": "learned",
    "parallel": False,
    "sliding_window": None,
    "embedding_norm": False,
    "query_key_norm": None,
    "embedding_scale": None,
}


def sizes(a):
    """What the letters of the rows stand for."""
    return {
        "V": a["vocabulary_size"],
        "T": a["max_sequence_length"],
        **common.block_sizes(a),
    }


def misfit(a):
    """What keeps a `GPT` from being a GPT-2."""
    bias = {"use_query_key_value_bias": FIXED["use_bias"]}
    return common.misfit(common.with_biases(a), FIXED | bias)


def read(settings, shapes):
    """The arguments of a `GPT`, of the settings of Hugging Face."""
    settings.only(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    tied = settings.truth("tie_word_embeddings", True)
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": settings.whole("n_layer"),
        "num_heads": settings.whole("n_head"),
        "hidden_dim": settings.whole("n_embd"),
        "intermediate_dim": settings.whole("n_inner", None),
        "max_sequence_length": settings.whole("n_positions"),
        "feed_forward": settings.word(
            "activation_function", common.ACTIVATIONS, "gelu_new"
        ),
        "tie_embeddings": tied,
        "head": common.gpt_head(settings, shapes, tied),
        "layer_norm_epsilon": settings.number("layer_norm_epsilon", 1e-5),
        "dropout": settings.rate("resid_pdrop", 0.1),
        **{name: FIXED[name] for name in ("norm", "use_bias", "position")},
    }


def write(a):
    """The settings of Hugging Face."""
    return {
        "architectures": ["GPT2LMHeadModel" if a["head"] else "GPT2Model"],
        "vocab_size": a["vocabulary_size"],
        "n_layer": a["num_layers"],
        "n_head": a["num_heads"],
        "n_embd": a["hidden_dim"],
        "n_inner": a["intermediate_dim"],
        "n_positions": a["max_sequence_length"],
        "activation_function": common.WORDS[a["feed_forward"]],
        "tie_word_embeddings": a["tie_embeddings"],
        "layer_norm_epsilon": a["layer_norm_epsilon"],
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), a["dropout"]),
    }


def rows(a):
    """The table of Hugging Face."""
    attention, fed = f"{BLOCK}/self_attention", f"{BLOCK}/feed_forward"
    parts = ("query", "key", "value")
    joined = [tuple(f"{attention}/{p}/{w}" for p in parts) for w in ("kernel", "bias")]
    head = []
    if a["head"] and not a["tie_embeddings"]:
        head = [one("lm_head.weight", "embedding/reverse_embeddings", "D V", "V D")]
    return [
        one("wte.weight", "embedding/embeddings", "V D"),
        one("wpe.weight", "position_embedding/embeddings", "T D"),
        *layer_norm("h.{n}.ln_1", f"{BLOCK}/self_attention_layer_norm"),
        Row("h.{n}.attn.c_attn.weight", joined[0], "D N K", "D (N K)"),
        Row("h.{n}.attn.c_attn.bias", joined[1], "N K", "(N K)"),
        *_turned(
            "h.{n}.attn.c_proj", f"{attention}/attention_output", "N K D", "(N K) D"
        ),
        *layer_norm("h.{n}.ln_2", f"{BLOCK}/feedforward_layer_norm"),
        *_turned("h.{n}.mlp.c_fc", f"{fed}/intermediate_dense", "D F"),
        *_turned("h.{n}.mlp.c_proj", f"{fed}/output_dense", "F D"),
        *layer_norm("ln_f", "final_norm"),
        *head,
    ]


def _turned(theirs, ours, axes, file_axes=None):
    """A dense layer whose inputs stand before the outputs in the file."""
    return [
        one(f"{theirs}.weight", f"{ours}/kernel", axes, file_axes),
        one(f"{theirs}.bias", f"{ours}/bias", axes.split()[-1]),
    ]


def hub_read(settings, shapes):
    """The arguments of a `GPT`, of the settings of KerasHub."""
    return {
        **{name: settings.whole(name) for name in common.HUB_SIZES},
        "intermediate_dim": settings.whole("intermediate_dim"),
        "feed_forward": "gelu_tanh",
        "dropout": settings.rate("dropout", 0.1),
    }


def hub_write(a):
    """The settings of KerasHub."""
    wanted = {
        "feed_forward": "gelu_tanh",
        "tie_embeddings": True,
        "layer_norm_epsilon": 1e-5,
        "head": "tokens",
    }
    if wrong := differing(a, wanted):
        raise ValueError(f"a GPT2Backbone of KerasHub cannot have {wrong}")
    return {
        **{name: a[name] for name in common.HUB_SIZES},
        "intermediate_dim": sizes(a)["F"],
        "dropout": a["dropout"],
    }


def hub_rows(a):
    """The table of KerasHub."""
    position = "position_embedding"
    return [
        *numbered("layers/reversible_embedding", ["embedding/embeddings"], "V D"),
        *numbered(f"layers/{position}", [f"{position}/embeddings"], "T D"),
        *hub_layers.block("layers/transformer_decoder{_n}"),
        *hub_layers.norm("layers/layer_normalization", "final_norm"),
    ]


GPT2 = Family(
    name="gpt2",
    model=GPT,
    sizes=sizes,
    misfit=misfit,
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
        kinds=("GPT2Backbone",), read=hub_read, write=hub_write, rows=hub_rows
    ),
)
