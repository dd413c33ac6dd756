"""T5, 1.0 and 1.1, in the folders of others."""

from kerasseq.pretrained import common
from kerasseq.pretrained.family import Family, Format, differing
from kerasseq.pretrained.layouts import dense, numbered, one
from kerasseq.seq2seq.t5 import T5 as MODEL
from kerasseq.seq2seq.t5_encoder import T5Encoder

FEED_FORWARDS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "gated-relu": "reglu",
    "gated-gelu": "geglu_tanh",
    "gated-silu": "swiglu",
}
HUB = {  # of KerasHub: the activation, and whether it is that of a gate
    ("relu", False): "relu",
    ("gelu", False): "gelu",
    ("gelu_approximate", False): "gelu_tanh",
    ("silu", False): "silu",
    ("relu", True): "reglu",
    ("gelu", True): "geglu",
    ("gelu_approximate", True): "geglu_tanh",
    ("silu", True): "swiglu",
}
GATED = ("reglu", "geglu", "geglu_tanh", "swiglu")
BUCKETS, DISTANCE = 32, 128


def sizes(a):
    """What the letters of the rows stand for; R are the distances told apart."""
    return {
        "V": a["vocabulary_size"],
        **common.block_sizes(a),
        "R": a["relative_buckets"],
    }


def misfit(a):
    """What keeps a `T5` from being one of the published ones."""
    return misfit_of_encoder(a) or differing(a, {"published_ids": True})


def misfit_of_encoder(a):
    """What keeps a `T5Encoder` from being one of the published ones."""
    known = (*FEED_FORWARDS.values(), "geglu")
    if a["feed_forward"] not in known:
        return f"feed_forward={a['feed_forward']!r}"
    return None


def read(settings, shapes):
    """The arguments of a `T5`, of the settings of Hugging Face.

    T5 multiplies what its tied head reads by a factor, T5 1.1 does not: whoever leaves
    the factor out has a head of its own, even if that was made of the embedding.
    """
    settings.only(eos_token_id=1, decoder_start_token_id=0)
    tied = settings.truth("tie_word_embeddings", True)
    layers = settings.whole("num_layers")
    return {
        **read_encoder(settings, shapes),
        "num_decoder_layers": settings.whole("num_decoder_layers", layers),
        "tie_embeddings": settings.truth("scale_decoder_outputs", tied),
        "published_ids": True,
    }


def read_encoder(settings, shapes):
    """The arguments of a `T5Encoder`, of the settings of Hugging Face."""
    settings.only(relative_attention_max_distance=DISTANCE, pad_token_id=0)
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": settings.whole("num_layers"),
        "num_heads": settings.whole("num_heads"),
        "hidden_dim": settings.whole("d_model"),
        "intermediate_dim": settings.whole("d_ff"),
        "head_dim": settings.whole("d_kv"),
        "dropout": settings.rate("dropout_rate", 0.1),
        "feed_forward": settings.word("feed_forward_proj", FEED_FORWARDS, "relu"),
        "relative_buckets": settings.whole("relative_attention_num_buckets", BUCKETS),
        "layer_norm_epsilon": settings.number("layer_norm_epsilon", 1e-6),
    }


def write(a):
    """The settings of Hugging Face."""
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        **write_encoder(a),
        "num_decoder_layers": a["num_decoder_layers"] or a["num_layers"],
        "tie_word_embeddings": a["tie_embeddings"],
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }


def write_encoder(a):
    """The settings that a T5 and its encoder alone have."""
    words = {ours: theirs for theirs, ours in FEED_FORWARDS.items()}
    if a["feed_forward"] not in words:
        raise ValueError(
            f"a T5 of Hugging Face cannot have feed_forward={a['feed_forward']!r}"
        )
    s = sizes(a)
    return {
        "vocab_size": s["V"],
        "num_layers": a["num_layers"],
        "num_heads": s["N"],
        "d_model": s["D"],
        "d_ff": s["F"],
        "d_kv": s["K"],
        "dropout_rate": a["dropout"],
        "feed_forward_proj": words[a["feed_forward"]],
        "relative_attention_num_buckets": s["R"],
        "relative_attention_max_distance": DISTANCE,
        "layer_norm_epsilon": a["layer_norm_epsilon"],
        "pad_token_id": 0,
    }


def rows(a):
    """The table of Hugging Face."""
    found = rows_of_stacks(a, ("encoder", "decoder"))
    if not a["tie_embeddings"]:
        reverse = "embedding/reverse_embeddings"
        found.append(one("lm_head.weight", reverse, "D V", "V D"))
    return found


def rows_of_stacks(a, stacks):
    """The rows of the embedding and of some stacks."""
    gated = a["feed_forward"] in GATED
    up = {"wi_0": "gate", "wi_1": "intermediate"} if gated else {"wi": "intermediate"}
    found = [one("shared.weight", "embedding/embeddings", "V D")]
    for stack in stacks:
        parts = ["Self"] if stack == "encoder" else ["Self", "EncDec"]
        ours = {"Self": "self_attention", "EncDec": "cross_attention"}
        block, theirs = f"{stack}_block_{{n}}", f"{stack}.block.{{n}}.layer"
        first = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        found.append(one(first, _relative(stack), "R N"))
        for place, part in enumerate(parts):
            attention, path = f"{theirs}.{place}.{part}Attention", ours[part]
            for name in ("query", "key", "value"):
                weight = f"{block}/{path}/{name}"
                found += dense(f"{attention}.{name[0]}", weight, "D", "N K", bias=False)
            weight = f"{block}/{path}/attention_output"
            found += dense(f"{attention}.o", weight, "N K", "D", bias=False)
            found.append(_norm(f"{theirs}.{place}", f"{block}/{path}_layer_norm"))
        fed, place = f"{block}/feed_forward", len(parts)
        for name, path in (up | {"wo": "output"}).items():
            axes = "FD" if name == "wo" else "DF"
            name = f"{theirs}.{place}.DenseReluDense.{name}"
            found += dense(name, f"{fed}/{path}_dense", *axes, bias=False)
        found.append(_norm(f"{theirs}.{place}", f"{block}/feedforward_layer_norm"))
        found.append(one(f"{stack}.final_layer_norm.weight", _final(stack), "D"))
    return found


def _norm(theirs, ours):
    return one(f"{theirs}.layer_norm.weight", f"{ours}/scale", "D")


def _relative(stack):
    return f"{stack}_block_0/self_attention/relative_bias/embeddings"


def _final(stack):
    return f"{stack}_final_norm/scale"


def hub_read(settings, shapes):
    """The arguments of a `T5`, of the settings of KerasHub."""
    activation = settings.get("activation")
    if isinstance(activation, dict):  # a function of theirs, of which the name counts
        activation = activation.get("config")
    name = str(activation).rpartition(">")[2]
    gated = settings.truth("use_gated_activation")
    if (name, gated) not in HUB:
        settings.refuse("activation", ", ".join(dict.fromkeys(n for n, _ in HUB)))
    return {
        "vocabulary_size": settings.whole("vocabulary_size"),
        "num_layers": settings.whole("num_layers"),
        "num_heads": settings.whole("num_heads"),
        "hidden_dim": settings.whole("hidden_dim"),
        "intermediate_dim": settings.whole("intermediate_dim"),
        "head_dim": settings.whole("key_value_dim", None),
        "dropout": settings.rate("dropout", 0.1),
        "feed_forward": HUB[name, gated],
        "relative_buckets": BUCKETS,
        "layer_norm_epsilon": settings.number("layer_norm_epsilon", 1e-6),
        "tie_embeddings": settings.truth("tie_embedding_weights", True),
        "published_ids": True,
    }


def hub_write(a):
    """The settings of KerasHub."""
    layers = {"num_decoder_layers": a["num_decoder_layers"] and a["num_layers"]}
    if wrong := differing(a, {"relative_buckets": BUCKETS, **layers}):
        raise ValueError(f"a T5Backbone of KerasHub cannot have {wrong}")
    name, gated = {ours: theirs for theirs, ours in HUB.items()}[a["feed_forward"]]
    if name == "gelu_approximate":
        function = {"module": "builtins", "class_name": "function", "config": name}
        name = {**function, "registered_name": "keras_hub>gelu_approximate"}
    s = sizes(a)
    return {
        "vocabulary_size": s["V"],
        "num_layers": a["num_layers"],
        "num_heads": s["N"],
        "hidden_dim": s["D"],
        "intermediate_dim": s["F"],
        "key_value_dim": s["K"],
        "dropout": a["dropout"],
        "activation": name,
        "use_gated_activation": gated,
        "layer_norm_epsilon": a["layer_norm_epsilon"],
        "tie_embedding_weights": a["tie_embeddings"],
    }


def hub_rows(a):
    """The table of KerasHub: both stacks are numbered as one."""
    table = ["embedding/embeddings", "embedding/reverse_embeddings"]
    kept = 1 if a["tie_embeddings"] else 2
    letters = ["V D", "D V"][:kept]
    found = numbered("layers/reversible_embedding", table[:kept], *letters)
    gated = a["feed_forward"] in GATED
    ours = ("gate_dense", "intermediate_dense") if gated else ("intermediate_dense",)
    up = dict(zip(("input_projector", "gate_projector"), ours, strict=False))
    for stack, number, norm in (("encoder", "{_n}", ""), ("decoder", "{_m}", "_1")):
        block, theirs = f"{stack}_block_{{n}}", f"layers/t5_transformer_layer{number}"
        first = theirs.format(_n="", _m=f"_{a['num_layers']}")
        found.append(one(f"{first}/self_attention/vars/0", _relative(stack), "R N"))
        for part in ("self_attention", "cross_attention")[: 1 + (stack == "decoder")]:
            for name in ("query", "key", "value", "output"):
                path, axes = name, ("D N K", "D (N K)")
                if name == "output":
                    path, axes = "attention_output", ("N K D", "(N K) D")
                kernel = f"{block}/{part}/{path}/kernel"
                found.append(
                    one(f"{theirs}/{part}/{name}_projector/vars/0", kernel, *axes)
                )
            scale = [f"{block}/{part}_layer_norm/scale"]
            found += numbered(f"{theirs}/{part}_layer_norm", scale, "D")
        for name, path in (up | {"output_projector": "output_dense"}).items():
            axes = "F D" if path == "output_dense" else "D F"
            kernel = [f"{block}/feed_forward/{path}/kernel"]
            found += numbered(f"{theirs}/{name}", kernel, axes)
        scale = [f"{block}/feedforward_layer_norm/scale"]
        found += numbered(f"{theirs}/layer_norm", scale, "D")
        found += numbered(f"layers/t5_layer_norm{norm}", [_final(stack)], "D")
    return found


T5 = Family(
    name="t5",
    model=MODEL,
    sizes=sizes,
    misfit=misfit,
    huggingface=Format(
        kinds=("t5",),
        read=read,
        write=write,
        rows=rows,
        instead={"lm_head.weight": "shared.weight"},
        copies=dict.fromkeys(
            (
                "encoder.embed_tokens.weight",
                "decoder.embed_tokens.weight",
                "lm_head.weight",
            ),
            "shared.weight",
        ),
        ignored=(  # written with the first weights, and never read
            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
        ),
    ),
    keras_hub=Format(
        kinds=("T5Backbone",), read=hub_read, write=hub_write, rows=hub_rows
    ),
)

T5_ENCODER = Family(
    name="t5_encoder",
    model=T5Encoder,
    sizes=sizes,
    misfit=misfit_of_encoder,
    huggingface=Format(
        kinds=("t5",),
        architectures=("T5EncoderModel",),
        read=read_encoder,
        write=lambda a: {"architectures": ["T5EncoderModel"], **write_encoder(a)},
        rows=lambda a: rows_of_stacks(a, ("encoder",)),
        copies={"encoder.embed_tokens.weight": "shared.weight"},
        left_out=("decoder.*", "lm_head.weight"),
    ),
)
