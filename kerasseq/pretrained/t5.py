"""T5, versions 1.0 and 1.1: settings and tables of names."""

from typing import Any

from kerasseq.models.seq2seq.t5 import T5 as MODEL
from kerasseq.models.seq2seq.t5 import T5Encoder
from kerasseq.pretrained import fields
from kerasseq.pretrained.family import (
    Arguments,
    Family,
    Format,
    Shapes,
    block_sizes,
    difference,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, hub_embedding, weight, within

FEED_FORWARDS = {  # of Hugging Face
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
    "gated-relu": "reglu",
    "gated-gelu": "geglu_tanh",
    "gated-silu": "swiglu",
}
HUB_FEED_FORWARDS = {  # of KerasHub: the activation, and whether there is a gate
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
BUCKETS, MAX_DISTANCE = 32, 128  # of relative positions

# Letters: V vocabulary, D hidden, N heads, K per head, F intermediate, R buckets of
# relative positions. A block of the decoder has cross-attention between the two parts.


def _attention(tensor, path):
    """Returns the rows of self-attention or cross-attention, and of its norm."""
    return [
        *dense(f"{tensor}.q", f"{path}/query", "D", "N K", bias=False),
        *dense(f"{tensor}.k", f"{path}/key", "D", "N K", bias=False),
        *dense(f"{tensor}.v", f"{path}/value", "D", "N K", bias=False),
        *dense(f"{tensor}.o", f"{path}/attention_output", "N K", "D", bias=False),
        weight("layer_norm.weight", f"{path}_layer_norm/scale", "D"),
    ]


SELF_ATTENTION = _attention("SelfAttention", "self_attention")
CROSS_ATTENTION = _attention("EncDecAttention", "cross_attention")
FEED_FORWARD = [
    *dense("DenseReluDense.wi", "feed_forward/intermediate_dense", *"DF", bias=False),
    *dense("DenseReluDense.wo", "feed_forward/output_dense", *"FD", bias=False),
    weight("layer_norm.weight", "feedforward_layer_norm/scale", "D"),
]
GATED_FEED_FORWARD = [
    *dense("DenseReluDense.wi_0", "feed_forward/gate_dense", *"DF", bias=False),
    *dense("DenseReluDense.wi_1", "feed_forward/intermediate_dense", *"DF", bias=False),
    *dense("DenseReluDense.wo", "feed_forward/output_dense", *"FD", bias=False),
    weight("layer_norm.weight", "feedforward_layer_norm/scale", "D"),
]
EMBEDDING = weight("shared.weight", "embedding/embeddings", "V D")
LOGITS = weight("lm_head.weight", "embedding/reverse_embeddings", "D V", "V D")
RELATIVE_BIAS = "block_0/self_attention/relative_bias/embeddings"


def block_rows(stack: str, feed_forward: list[Row]) -> list[Row]:
    """Returns the rows of a block of the "encoder" or "decoder" in Hugging Face."""
    cross_attention = [CROSS_ATTENTION] if stack == "decoder" else []
    rows = []
    for n, part in enumerate([SELF_ATTENTION, *cross_attention, feed_forward]):
        rows += within(f"layer.{n}.", "", part)
    return rows


def stack_rows(stack: str, blocks: list[Row]) -> list[Row]:
    """Returns the rows of the "encoder" or "decoder", around those of its blocks."""
    bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return [
        weight(bias, f"{stack}_{RELATIVE_BIAS}", "R N"),
        *blocks,
        weight(f"{stack}.final_layer_norm.weight", f"{stack}_final_norm/scale", "D"),
    ]


def _stack(a, stack):
    """Returns the rows of a stack with blocks that are alike."""
    feed_forward = GATED_FEED_FORWARD if a["feed_forward"] in GATED else FEED_FORWARD
    block = block_rows(stack, feed_forward)
    blocks = within(f"{stack}.block.{{n}}.", f"{stack}_block_{{n}}/", block)
    return stack_rows(stack, blocks)


def rows(a: Arguments) -> list[Row]:
    """Returns the table of a `T5` in Hugging Face."""
    head = [] if a["tie_embeddings"] else [LOGITS]
    return [EMBEDDING, *_stack(a, "encoder"), *_stack(a, "decoder"), *head]


# KerasHub numbers the layers of both stacks as one, and flattens the heads.


def _hub_attention(part):
    """Returns the rows of an attention layer and of the norm before it."""
    layer, axes = f"{part}/", ("D N K", "D (N K)")
    return [
        weight(f"{layer}query_projector/vars/0", f"{layer}query/kernel", *axes),
        weight(f"{layer}key_projector/vars/0", f"{layer}key/kernel", *axes),
        weight(f"{layer}value_projector/vars/0", f"{layer}value/kernel", *axes),
        weight(
            f"{layer}output_projector/vars/0",
            f"{layer}attention_output/kernel",
            "N K D",
            "(N K) D",
        ),
        weight(f"{part}_layer_norm/vars/0", f"{part}_layer_norm/scale", "D"),
    ]


HUB_FEED_FORWARD = [
    weight("input_projector/vars/0", "feed_forward/intermediate_dense/kernel", "D F"),
    weight("output_projector/vars/0", "feed_forward/output_dense/kernel", "F D"),
    weight("layer_norm/vars/0", "feedforward_layer_norm/scale", "D"),
]
HUB_GATED_FEED_FORWARD = [
    weight("input_projector/vars/0", "feed_forward/gate_dense/kernel", "D F"),
    weight("gate_projector/vars/0", "feed_forward/intermediate_dense/kernel", "D F"),
    weight("output_projector/vars/0", "feed_forward/output_dense/kernel", "F D"),
    weight("layer_norm/vars/0", "feedforward_layer_norm/scale", "D"),
]


def hub_rows(a: Arguments) -> list[Row]:
    """Returns the table of KerasHub."""
    is_gated = a["feed_forward"] in GATED
    feed_forward = HUB_GATED_FEED_FORWARD if is_gated else HUB_FEED_FORWARD
    encoder = [*_hub_attention("self_attention"), *feed_forward]
    decoder = [
        *_hub_attention("self_attention"),
        *_hub_attention("cross_attention"),
        *feed_forward,
    ]
    layer, bias = "layers/t5_transformer_layer", "self_attention/vars/0"
    first = f"{layer}_{a['num_layers']}"  # of the decoder
    return [
        *hub_embedding(a["tie_embeddings"]),
        weight(f"{layer}/{bias}", f"encoder_{RELATIVE_BIAS}", "R N"),
        *within(f"{layer}{{_n}}/", "encoder_block_{n}/", encoder),
        weight("layers/t5_layer_norm/vars/0", "encoder_final_norm/scale", "D"),
        weight(f"{first}/{bias}", f"decoder_{RELATIVE_BIAS}", "R N"),
        *within(f"{layer}{{_m}}/", "decoder_block_{n}/", decoder),
        weight("layers/t5_layer_norm_1/vars/0", "decoder_final_norm/scale", "D"),
    ]


SIZES: list[fields.Field] = [  # of Hugging Face
    ("vocabulary_size", "vocab_size", fields.WHOLE),
    ("num_layers", "num_layers", fields.WHOLE),
    ("num_heads", "num_heads", fields.WHOLE),
    ("hidden_dim", "d_model", fields.WHOLE),
    ("head_dim", "d_kv", fields.WHOLE),
    ("dropout", "dropout_rate", fields.RATE, 0.1),
    ("relative_buckets", "relative_attention_num_buckets", fields.WHOLE, BUCKETS),
    ("layer_norm_epsilon", "layer_norm_epsilon", fields.NUMBER, 1e-6),
]
HUB_SETTINGS: list[fields.Field] = [
    ("vocabulary_size", "vocabulary_size", fields.WHOLE),
    ("num_layers", "num_layers", fields.WHOLE),
    ("num_heads", "num_heads", fields.WHOLE),
    ("hidden_dim", "hidden_dim", fields.WHOLE),
    ("intermediate_dim", "intermediate_dim", fields.WHOLE),
    ("head_dim", "key_value_dim", fields.WHOLE, None),
    ("dropout", "dropout", fields.RATE, 0.1),
    ("layer_norm_epsilon", "layer_norm_epsilon", fields.NUMBER, 1e-6),
    ("tie_embeddings", "tie_embedding_weights", fields.BOOLEAN, True),
]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    return {
        "V": a["vocabulary_size"],
        **block_sizes(a),
        "R": a["relative_buckets"],
    }


def mismatch(a: Arguments) -> str | None:
    """Returns why a `T5` is not one of the published ones."""
    expected = {"published_ids": True, "decoder_feed_forward": None}
    return encoder_mismatch(a) or difference(a, expected)


def encoder_mismatch(a: Arguments) -> str | None:
    """Returns why a `T5Encoder` is not one of the published ones."""
    known = (*FEED_FORWARDS.values(), "geglu")
    if a["feed_forward"] not in known:
        return f"feed_forward={a['feed_forward']!r}"
    return None


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `T5`.

    T5 scales the inputs of its tied logits, T5 1.1 does not. A file without the scale
    gets untied logits here, even if they are a copy of the embedding.
    """
    settings.require(eos_token_id=1, decoder_start_token_id=0)
    tied = settings.boolean("tie_word_embeddings", True)
    layers = settings.whole("num_layers")
    return {
        **read_encoder(settings, shapes),
        "num_decoder_layers": settings.whole("num_decoder_layers", layers),
        "tie_embeddings": settings.boolean("scale_decoder_outputs", tied),
        "published_ids": True,
    }


def read_encoder(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `T5Encoder`."""
    settings.require(relative_attention_max_distance=MAX_DISTANCE, pad_token_id=0)
    return {
        **read_sizes(settings),
        "intermediate_dim": settings.whole("d_ff"),
        "feed_forward": settings.word("feed_forward_proj", FEED_FORWARDS, "relu"),
    }


def read_sizes(settings: Settings) -> Arguments:
    """Converts the settings that do not concern the feed-forward networks."""
    return fields.read(settings, SIZES)


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `T5` to settings of Hugging Face."""
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        **write_encoder(a),
        "num_decoder_layers": a["num_decoder_layers"] or a["num_layers"],
        "tie_word_embeddings": a["tie_embeddings"],
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }


def write_encoder(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `T5Encoder` to settings of Hugging Face."""
    names = {ours: name for name, ours in FEED_FORWARDS.items()}
    if a["feed_forward"] not in names:
        raise ValueError(
            f"a T5 of Hugging Face cannot have feed_forward={a['feed_forward']!r}"
        )
    return {
        **write_sizes(a),
        "d_ff": sizes(a)["F"],
        "feed_forward_proj": names[a["feed_forward"]],
    }


def write_sizes(a: Arguments) -> dict[str, Any]:
    """Converts the arguments that do not concern the feed-forward networks."""
    return {
        **fields.write(fields.resolved(a), SIZES),
        "relative_attention_max_distance": MAX_DISTANCE,
        "pad_token_id": 0,
    }


def hub_read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of KerasHub to arguments of `T5`."""
    activation = settings.get("activation")
    if isinstance(activation, dict):  # a serialized function
        activation = activation.get("config")
    name = str(activation).rpartition(">")[2]
    gated = settings.boolean("use_gated_activation")
    if (name, gated) not in HUB_FEED_FORWARDS:
        known = dict.fromkeys(name for name, _ in HUB_FEED_FORWARDS)
        settings.refuse("activation", ", ".join(known))
    return {
        **fields.read(settings, HUB_SETTINGS),
        "feed_forward": HUB_FEED_FORWARDS[name, gated],
        "relative_buckets": BUCKETS,
        "published_ids": True,
    }


def hub_write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `T5` to settings of KerasHub."""
    layers = {"num_decoder_layers": a["num_decoder_layers"] and a["num_layers"]}
    if wrong := difference(a, {"relative_buckets": BUCKETS, **layers}):
        raise ValueError(f"a T5Backbone of KerasHub cannot have {wrong}")
    names = {ours: name for name, ours in HUB_FEED_FORWARDS.items()}
    name, gated = names[a["feed_forward"]]
    if name == "gelu_approximate":
        function = {"module": "builtins", "class_name": "function", "config": name}
        name = {**function, "registered_name": "keras_hub>gelu_approximate"}
    return {
        **fields.write(fields.resolved(a), HUB_SETTINGS),
        "activation": name,
        "use_gated_activation": gated,
    }


INSTEAD = {"lm_head.weight": "shared.weight"}
COPIES = dict.fromkeys(
    ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"),
    "shared.weight",
)
IGNORED = (  # in the published files, and never used
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
)

T5 = Family(
    name="t5",
    model=MODEL,
    sizes=sizes,
    mismatch=mismatch,
    huggingface=Format(
        kinds=("t5",),
        read=read,
        write=write,
        rows=rows,
        instead=INSTEAD,
        copies=COPIES,
        ignored=IGNORED,
    ),
    keras_hub=Format(
        kinds=("T5Backbone",), read=hub_read, write=hub_write, rows=hub_rows
    ),
)

T5_ENCODER = Family(
    name="t5_encoder",
    model=T5Encoder,
    sizes=sizes,
    mismatch=encoder_mismatch,
    huggingface=Format(
        kinds=("t5",),
        architectures=("T5EncoderModel",),
        read=read_encoder,
        write=lambda a: {"architectures": ["T5EncoderModel"], **write_encoder(a)},
        rows=lambda a: [EMBEDDING, *_stack(a, "encoder")],
        copies={"encoder.embed_tokens.weight": "shared.weight"},
        left_out=("decoder.*", "lm_head.weight"),
    ),
)
