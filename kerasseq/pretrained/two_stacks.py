"""What BART, mBART and Whisper share in Hugging Face: an encoder and a decoder."""

from typing import Any

from kerasseq.pretrained.family import Arguments
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, layer_norm


def _attention(tensor, path, key_bias):
    """Returns the rows of self-attention or cross-attention, and of its norm."""
    return [
        *dense(f"{tensor}.q_proj", f"{path}/query", "D", "N K"),
        *dense(f"{tensor}.k_proj", f"{path}/key", "D", "N K", bias=key_bias),
        *dense(f"{tensor}.v_proj", f"{path}/value", "D", "N K"),
        *dense(f"{tensor}.out_proj", f"{path}/attention_output", "N K", "D"),
        *layer_norm(f"{tensor}_layer_norm", f"{path}_layer_norm"),
    ]


FEED_FORWARD = [
    *dense("fc1", "feed_forward/intermediate_dense", "D", "F"),
    *dense("fc2", "feed_forward/output_dense", "F", "D"),
    *layer_norm("final_layer_norm", "feedforward_layer_norm"),
]


def blocks(*, key_bias: bool) -> tuple[list[Row], list[Row]]:
    """Returns the rows of a block of the encoder, and of one of the decoder.

    Args:
        key_bias: Whether keys have a bias.
    """
    self_attention = _attention("self_attn", "self_attention", key_bias)
    cross_attention = _attention("encoder_attn", "cross_attention", key_bias)
    encoder = [*self_attention, *FEED_FORWARD]
    return encoder, [*self_attention, *cross_attention, *FEED_FORWARD]


def read(settings: Settings) -> Arguments:
    """Returns the arguments that the three share.

    Raises:
        ValueError: If encoder and decoder have other sizes.
    """
    layers = settings.whole("encoder_layers")
    heads, width = (
        settings.whole(f"encoder_{name}") for name in ("attention_heads", "ffn_dim")
    )
    settings.require(decoder_attention_heads=heads, decoder_ffn_dim=width)
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": layers,
        "num_decoder_layers": settings.whole("decoder_layers", layers),
        "num_heads": heads,
        "hidden_dim": settings.whole("d_model"),
        "intermediate_dim": width,
    }


def write(a: Arguments, s: dict[str, int]) -> dict[str, Any]:
    """Returns the settings that the three share.

    Args:
        a: Arguments of a model with an encoder and a decoder.
        s: The size of each letter.

    Examples:
        >>> a = {"num_layers": 2, "num_decoder_layers": None, "dropout": 0.1}
        >>> write(a, {"V": 11, "N": 3, "D": 6, "F": 7})["decoder_layers"]
        2
    """
    return {
        "is_encoder_decoder": True,
        "vocab_size": s["V"],
        "encoder_layers": a["num_layers"],
        "decoder_layers": a["num_decoder_layers"] or a["num_layers"],
        "num_hidden_layers": a["num_layers"],
        "encoder_attention_heads": s["N"],
        "decoder_attention_heads": s["N"],
        "d_model": s["D"],
        "encoder_ffn_dim": s["F"],
        "decoder_ffn_dim": s["F"],
        "dropout": a["dropout"],
        "attention_dropout": a["dropout"],
        "activation_dropout": 0.0,
        "tie_word_embeddings": True,
    }
