"""Whisper: settings and tables of names."""

from typing import Any

from kerasseq.models.whisper.inputs import FACTOR
from kerasseq.models.whisper.whisper import Whisper
from kerasseq.pretrained import fields, two_stacks
from kerasseq.pretrained.family import (
    Arguments,
    Family,
    Format,
    Shapes,
    block_sizes,
    difference,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import (
    HUB_DENSE_PAIR,
    hub_attention,
    hub_dense,
    hub_norm,
    layer_norm,
    weight,
    within,
)
from kerasseq.pretrained.whisper_files import (
    FEATURES,
    RATE,
    complete,
    write_files,
)

KERNEL = 3  # frames that a convolution reads

# Letters: R kernel, M mels, C hidden as inputs, S vectors of a window, T positions of
# the decoder, V vocabulary, D hidden, N heads, K per head, F intermediate.


def _convolution(tensor, path, width):
    kernel, bias = f"{path}/kernel", f"{path}/bias"
    return [
        weight(f"{tensor}.weight", kernel, f"R {width} D", f"D {width} R"),
        weight(f"{tensor}.bias", bias, "D"),
    ]


ENCODER, DECODER = two_stacks.blocks(key_bias=False)
ROWS = [
    *_convolution("encoder.conv1", "encoder_convolution_1", "M"),
    *_convolution("encoder.conv2", "encoder_convolution_2", "C"),
    weight("encoder.embed_positions.weight", "encoder_position/embeddings", "S D"),
    *within("encoder.layers.{n}.", "encoder_block_{n}/", ENCODER),
    *layer_norm("encoder.layer_norm", "encoder_final_norm"),
    weight("decoder.embed_tokens.weight", "embedding/embeddings", "V D"),
    weight(
        "decoder.embed_positions.weight", "decoder_position_embedding/embeddings", "T D"
    ),
    *within("decoder.layers.{n}.", "decoder_block_{n}/", DECODER),
    *layer_norm("decoder.layer_norm", "decoder_final_norm"),
]


HUB_FEED_FORWARD = [
    *HUB_DENSE_PAIR,
    *hub_norm("_feedforward_layer_norm", "feedforward_layer_norm"),
]
HUB_ENCODER = [
    *hub_attention("_self_attention_layer", "self_attention", key_bias=False),
    *hub_norm("_self_attention_layer_norm", "self_attention_layer_norm"),
    *HUB_FEED_FORWARD,
]
HUB_DECODER = [
    *HUB_ENCODER,
    *hub_attention("_cross_attention_layer", "cross_attention", key_bias=False),
    *hub_norm("_cross_attention_layer_norm", "cross_attention_layer_norm"),
]
HUB_EMBEDDING = "layers/token_and_position_embedding"
HUB_ROWS = [
    *hub_dense("layers/conv1d", "encoder_convolution_1", "R M D", "D"),
    *hub_dense("layers/conv1d_1", "encoder_convolution_2", "R C D", "D"),
    weight("layers/position_embedding/vars/0", "encoder_position/embeddings", "S D"),
    *within("layers/whisper_encoder{_n}/", "encoder_block_{n}/", HUB_ENCODER),
    *hub_norm("layers/layer_normalization", "encoder_final_norm"),
    weight(f"{HUB_EMBEDDING}/token_embedding/vars/0", "embedding/embeddings", "V D"),
    weight(
        f"{HUB_EMBEDDING}/position_embedding/vars/0",
        "decoder_position_embedding/embeddings",
        "T D",
    ),
    *within("layers/whisper_decoder{_n}/", "decoder_block_{n}/", HUB_DECODER),
    *hub_norm("layers/layer_normalization_1", "decoder_final_norm"),
]


def frames(a: Arguments) -> int:
    """Returns the number of frames of a window."""
    return round(a["window"] * a["sampling_rate"]) // a["stride"]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    return {
        "R": KERNEL,
        "M": a["num_mels"],
        "C": a["hidden_dim"],
        "S": -(-frames(a) // FACTOR),
        "T": a["max_length"],
        "V": a["vocabulary_size"],
        **block_sizes(a),
    }


def mismatch(a: Arguments) -> str | None:
    """Returns why a `Whisper` has features that folders cannot describe."""
    if a["vocabulary_size"] is None:
        return "a tokenizer that has not been trained yet"
    if a["window"] % 1:
        return f"window={a['window']} instead of whole seconds"
    samples = int(a["window"]) * RATE
    if samples % (FACTOR * a["stride"]):
        return f"stride={a['stride']}, which does not give an even number of frames"
    return difference(a, {"sampling_rate": RATE})


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `Whisper`.

    Those of the features are in another file, see `complete`.
    """
    settings.require(
        activation_function="gelu", scale_embedding=False, tie_word_embeddings=True
    )
    positions = settings.whole("max_source_positions", 1500)
    return {
        **two_stacks.read(settings),
        "num_mels": settings.whole("num_mel_bins", 80),
        "max_length": settings.whole("max_target_positions", 448),
        "dropout": settings.rate("dropout"),
        **FEATURES,
        "window": positions * FACTOR * FEATURES["stride"] / RATE,
    }


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `Whisper` to settings of Hugging Face."""
    s, generation = sizes(a), a["generation"]
    return {
        "architectures": ["WhisperForConditionalGeneration"],
        **two_stacks.write(a, s),
        "num_mel_bins": s["M"],
        "max_source_positions": s["S"],
        "max_target_positions": s["T"],
        "activation_function": "gelu",
        "scale_embedding": False,
        "decoder_start_token_id": generation.start,
        "bos_token_id": generation.end,
        "eos_token_id": generation.end,
        "pad_token_id": generation.padding,
    }


HUB_SETTINGS: list[fields.Field] = [  # of KerasHub
    ("vocabulary_size", "vocabulary_size", fields.WHOLE),
    ("num_layers", "num_layers", fields.WHOLE),
    ("num_heads", "num_heads", fields.WHOLE),
    ("hidden_dim", "hidden_dim", fields.WHOLE),
    ("intermediate_dim", "intermediate_dim", fields.WHOLE),
    ("num_mels", "num_mels", fields.WHOLE),
    ("max_length", "max_decoder_sequence_length", fields.WHOLE),
    ("dropout", "dropout", fields.RATE),
]


def hub_read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of KerasHub to arguments of `Whisper`."""
    length = settings.whole("max_encoder_sequence_length", 3000)
    return {
        **fields.read(settings, HUB_SETTINGS),
        **FEATURES,
        "window": (length // FACTOR) * FACTOR * FEATURES["stride"] / RATE,
    }


def hub_write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `Whisper` to settings of KerasHub."""
    layers = {"num_decoder_layers": a["num_decoder_layers"] and a["num_layers"]}
    if wrong := difference(a, layers):
        raise ValueError(f"a WhisperBackbone of KerasHub cannot have {wrong}")
    return {
        **fields.write(fields.resolved(a), HUB_SETTINGS),
        "max_encoder_sequence_length": frames(a),
    }


WHISPER = Family(
    name="whisper",
    model=Whisper,
    sizes=sizes,
    mismatch=mismatch,
    complete=complete,
    write_files=write_files,
    huggingface=Format(
        kinds=("whisper",),
        read=read,
        write=write,
        rows=lambda a: ROWS,
        prefix="model.",
        copies={"proj_out.weight": "decoder.embed_tokens.weight"},
    ),
    keras_hub=Format(
        kinds=("WhisperBackbone",),
        read=hub_read,
        write=hub_write,
        rows=lambda a: HUB_ROWS,
        ignored=("task/*",),
    ),
)
