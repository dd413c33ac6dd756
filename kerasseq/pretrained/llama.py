"""LLaMA in the folders of others."""

from kerasseq.language.gpt import GPT
from kerasseq.pretrained import common, rope
from kerasseq.pretrained.common import BLOCK
from kerasseq.pretrained.family import Family, Format, differing
from kerasseq.pretrained.layouts import SAME, dense, numbered, one

FIXED = {
    "norm": "rms",
    "norm_placement": "pre",
    "feed_forward": "swiglu",
    "parallel": False,
    "sliding_window": None,
    "embedding_norm": False,
    "query_key_norm": None,
    "embedding_scale": None,
}
ATTENTION = "layers.{n}.self_attn"
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
    same = {"use_query_key_value_bias": a["use_bias"]}
    return differing(common.with_biases(a), FIXED | same) or rope.misfit(a["position"])


def read(settings, shapes):
    """The arguments of a `GPT`, of the settings of Hugging Face."""
    use_bias = settings.truth("attention_bias", False)
    settings.only(hidden_act="silu", mlp_bias=use_bias)
    return {
        **read_shared(settings, shapes),
        "use_bias": use_bias,
        **{name: FIXED[name] for name in ("norm", "feed_forward")},
    }


def read_shared(settings, shapes, *, head_dim=None, max_length=2048, tied=False):
    """The arguments that all kin of LLaMA call the same.

    Args:
        settings: The `Settings`.
        shapes: Of the tensors by name.
        head_dim: The width of a head where the settings have none.
        max_length: The longest text where they have none.
        tied: Whether the embedding is tied where they do not say it.
    """
    tied = settings.truth("tie_word_embeddings", tied)
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": settings.whole("num_hidden_layers"),
        "num_heads": settings.whole("num_attention_heads"),
        "num_key_value_heads": settings.whole("num_key_value_heads", None),
        "head_dim": settings.whole("head_dim", head_dim),
        "hidden_dim": settings.whole("hidden_size"),
        "intermediate_dim": settings.whole("intermediate_size"),
        "max_sequence_length": settings.whole("max_position_embeddings", max_length),
        "layer_norm_epsilon": settings.number("rms_norm_eps", 1e-6),
        "tie_embeddings": tied,
        "head": common.gpt_head(settings, shapes, tied),
        "use_query_key_value_bias": None,
        "query_key_norm": None,
        "position": rope.read(settings),
    }


def write(a):
    """The settings of Hugging Face."""
    return {
        **write_shared(a, "Llama"),
        "hidden_act": "silu",
        "attention_bias": a["use_bias"],
        "mlp_bias": a["use_bias"],
    }


def write_shared(a, name):
    """The settings that all kin of LLaMA have, of which the classes begin so."""
    s = sizes(a)
    return {
        "architectures": [f"{name}ForCausalLM" if a["head"] else f"{name}Model"],
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
        **rope.write(a["position"]),
    }


def rows(a, scales=SAME):
    """The table of Hugging Face.

    Args:
        a: The arguments.
        scales: How the numbers of the norms' scales differ in the file.
    """
    attention, fed = f"{BLOCK}/self_attention", f"{BLOCK}/feed_forward"
    bias, others = common.with_biases(a)["use_query_key_value_bias"], a["use_bias"]
    found = [one("embed_tokens.weight", "embedding/embeddings", "V D")]
    for name, axes in AXES.items():
        theirs, ours = f"{ATTENTION}.{name[0]}_proj", f"{attention}/{name}"
        found += dense(theirs, ours, "D", axes, bias=bias)
    theirs, ours = f"{ATTENTION}.o_proj", f"{attention}/attention_output"
    found += dense(theirs, ours, "N K", "D", bias=others)
    for theirs, ours, axes in (
        ("gate", "gate", "DF"),
        ("up", "intermediate", "DF"),
        ("down", "output", "FD"),
    ):
        theirs, ours = f"layers.{{n}}.mlp.{theirs}_proj", f"{fed}/{ours}_dense"
        found += dense(theirs, ours, *axes, bias=others)
    norms = {
        "layers.{n}.input_layernorm": f"{BLOCK}/self_attention_layer_norm",
        "layers.{n}.post_attention_layernorm": f"{BLOCK}/feedforward_layer_norm",
        "norm": "final_norm",
    }
    for theirs, ours in norms.items():
        found.append(one(f"{theirs}.weight", f"{ours}/scale", "D", values=scales))
    for name in ("query", "key") if a["query_key_norm"] is not None else ():
        theirs, ours = f"{ATTENTION}.{name[0]}_norm", f"{attention}/{name}_norm"
        found.append(one(f"{theirs}.weight", f"{ours}/scale", "K"))
    if a["head"] and not a["tie_embeddings"]:
        reverse = "embedding/reverse_embeddings"
        found.append(one("lm_head.weight", reverse, "D V", "V D"))
    return found


def huggingface(kind, read, write, rows):
    """The `Format` of a folder of Hugging Face."""
    return Format(
        kinds=(kind,),
        read=read,
        write=write,
        rows=rows,
        prefix="model.",
        heads=("lm_head.",),
        copies={"lm_head.weight": "embed_tokens.weight"},
        ignored=("layers.*.self_attn.rotary_emb.inv_freq",),
        left_out=("score.*",),
    )


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
    wanted = {"use_bias": False, "head_dim": s["D"] // s["N"], "head": "tokens"}
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
    huggingface=huggingface("llama", read, write, rows),
    keras_hub=Format(
        kinds=("LlamaBackbone", "Llama3Backbone"),
        read=hub_read,
        write=hub_write,
        rows=hub_rows,
    ),
)
