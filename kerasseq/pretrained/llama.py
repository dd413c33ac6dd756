"""LLaMA in the folders of others."""

from kerasseq.language.gpt import GPT
from kerasseq.pretrained import common, rope
from kerasseq.pretrained.common import BLOCK
from kerasseq.pretrained.family import Family, Format, differing
from kerasseq.pretrained.layouts import dense, numbered, one

FIXED = {
    "norm": "rms",
    "placement": "pre",
    "feed_forward": "swiglu",
    "parallel": False,
    "sliding_window": None,
    "embedding_norm": False,
}
AXES = {"query": "N K", "key": "M K", "value": "M K"}


def sizes(a):
    """What the letters of the rows stand for; M are heads of keys and values."""
    return {
        "V": a["vocabulary_size"],
        "M": a["num_key_value_heads"] or a["num_heads"],
        **common.block_sizes(a),
    }


def misfit(a):
    """What keeps a `GPT` from being a LLaMA."""
    return differing(a, FIXED) or rope.misfit(a["position"])


def read(settings, shapes):
    """The arguments of a `GPT`, of the settings of Hugging Face."""
    use_bias = settings.truth("attention_bias", False)
    settings.only(hidden_act="silu", mlp_bias=use_bias)
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": settings.whole("num_hidden_layers"),
        "num_heads": settings.whole("num_attention_heads"),
        "num_key_value_heads": settings.whole("num_key_value_heads", None),
        "head_dim": settings.whole("head_dim", None),
        "hidden_dim": settings.whole("hidden_size"),
        "intermediate_dim": settings.whole("intermediate_size"),
        "max_sequence_length": settings.whole("max_position_embeddings", 2048),
        "layer_norm_epsilon": settings.number("rms_norm_eps", 1e-6),
        "tie_embeddings": settings.truth("tie_word_embeddings", False),
        "use_bias": use_bias,
        "position": rope.read(settings),
        **{name: FIXED[name] for name in ("norm", "feed_forward")},
    }


def write(a):
    """The settings of Hugging Face."""
    s = sizes(a)
    return {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": s["V"],
        "num_hidden_layers": a["num_layers"],
        "num_attention_heads": s["N"],
        "num_key_value_heads": s["M"],
        "head_dim": s["K"],
        "hidden_size": s["D"],
        "intermediate_size": s["F"],
        "max_position_embeddings": a["max_sequence_length"],
        "rms_norm_eps": a["layer_norm_epsilon"],
        "tie_word_embeddings": a["tie_embeddings"],
        "hidden_act": "silu",
        "attention_bias": a["use_bias"],
        "mlp_bias": a["use_bias"],
        **rope.write(a["position"]),
    }


def rows(a):
    """The table of Hugging Face."""
    attention, fed, bias = (
        f"{BLOCK}/self_attention",
        f"{BLOCK}/feed_forward",
        a["use_bias"],
    )
    found = [one("embed_tokens.weight", "embedding/embeddings", "V D")]
    for name, axes in AXES.items():
        found += dense(
            f"layers.{{n}}.self_attn.{name[0]}_proj",
            f"{attention}/{name}",
            "D",
            axes,
            bias=bias,
        )
    found += dense(
        "layers.{n}.self_attn.o_proj",
        f"{attention}/attention_output",
        "N K",
        "D",
        bias=bias,
    )
    for theirs, ours, axes in (
        ("gate", "gate", "DF"),
        ("up", "intermediate", "DF"),
        ("down", "output", "FD"),
    ):
        found += dense(
            f"layers.{{n}}.mlp.{theirs}_proj", f"{fed}/{ours}_dense", *axes, bias=bias
        )
    for theirs, ours in (
        ("layers.{n}.input_layernorm", f"{BLOCK}/self_attention_layer_norm"),
        ("layers.{n}.post_attention_layernorm", f"{BLOCK}/feedforward_layer_norm"),
        ("norm", "final_norm"),
    ):
        found.append(one(f"{theirs}.weight", f"{ours}/scale", "D"))
    if not a["tie_embeddings"]:
        reverse = "embedding/reverse_embeddings"
        found.append(one("lm_head.weight", reverse, "D V", "V D"))
    return found


def hub_read(settings, shapes):
    """The arguments of a `GPT`, of the settings of KerasHub.

    Most do not say whether the embedding is tied: the file does.
    """
    tied = "layers/reversible_embedding/vars/1" not in shapes
    return {
        "vocabulary_size": settings.whole("vocabulary_size"),
        "num_layers": settings.whole("num_layers"),
        "num_heads": settings.whole("num_query_heads"),
        "num_key_value_heads": settings.whole("num_key_value_heads"),
        "head_dim": None,
        "hidden_dim": settings.whole("hidden_dim"),
        "intermediate_dim": settings.whole("intermediate_dim"),
        "layer_norm_epsilon": settings.number("layer_norm_epsilon", 1e-6),
        "dropout": settings.rate("dropout"),
        "tie_embeddings": settings.truth("tie_word_embeddings", tied),
        "use_bias": False,
        "position": rope.hub_read(settings),
        **{name: FIXED[name] for name in ("norm", "feed_forward")},
    }


def hub_write(a):
    """The settings of KerasHub."""
    s = sizes(a)
    wanted = {"use_bias": False, "head_dim": s["D"] // s["N"]}
    if wrong := differing({**a, "head_dim": s["K"]}, wanted):
        raise ValueError(f"a LlamaBackbone of KerasHub cannot have {wrong}")
    return {
        "vocabulary_size": s["V"],
        "num_layers": a["num_layers"],
        "num_query_heads": s["N"],
        "num_key_value_heads": s["M"],
        "hidden_dim": s["D"],
        "intermediate_dim": s["F"],
        "layer_norm_epsilon": a["layer_norm_epsilon"],
        "dropout": a["dropout"],
        "tie_word_embeddings": a["tie_embeddings"],
        **rope.hub_write(a["position"]),
    }


def hub_rows(a):
    """The table of KerasHub."""
    block = "layers/llama_transformer_decoder{_n}"
    axes = {name: f"D {heads}" for name, heads in AXES.items()} | {"output": "N K D"}
    found = [
        one(
            f"{block}/_self_attention_layer/_{name}_dense/vars/0",
            f"{BLOCK}/self_attention/{_projection(name)}/kernel",
            letters,
        )
        for name, letters in axes.items()
    ]
    for name, letters in (("gate", "D F"), ("intermediate", "D F"), ("output", "F D")):
        found += numbered(
            f"{block}/_feedforward_{name}_dense",
            [f"{BLOCK}/feed_forward/{name}_dense/kernel"],
            letters,
        )
    for theirs, ours in (
        (f"{block}/_self_attention_layernorm", f"{BLOCK}/self_attention_layer_norm"),
        (f"{block}/_feedforward_layernorm", f"{BLOCK}/feedforward_layer_norm"),
        ("layers/llama_layer_norm", "final_norm"),
    ):
        found += numbered(theirs, [f"{ours}/scale"], "D")
    table = ["embedding/embeddings", "embedding/reverse_embeddings"]
    kept = 1 if a["tie_embeddings"] else 2
    letters = ["V D", "D V"][:kept]
    return [*found, *numbered("layers/reversible_embedding", table[:kept], *letters)]


def _projection(name):
    return "attention_output" if name == "output" else name


LLAMA = Family(
    name="llama",
    model=GPT,
    sizes=sizes,
    misfit=misfit,
    huggingface=Format(
        kinds=("llama",),
        read=read,
        write=write,
        rows=rows,
        prefix="model.",
        heads=("lm_head.",),
        copies={"lm_head.weight": "embed_tokens.weight"},
        ignored=("layers.*.self_attn.rotary_emb.inv_freq",),
        left_out=("score.*",),
    ),
    keras_hub=Format(
        kinds=("LlamaBackbone", "Llama3Backbone"),
        read=hub_read,
        write=hub_write,
        rows=hub_rows,
    ),
)
