"""RWKV-4: settings and the table of names of Hugging Face."""

from typing import Any

from kerasseq.models.rwkv import RWKV
from kerasseq.pretrained.family import (
    Arguments,
    Family,
    Format,
    Shapes,
    architecture,
    difference,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, layer_norm, weight, within

# Letters: V vocabulary, D hidden, A channels of keys and values, F intermediate,
# O outputs, as many as D.
TIME_MIX = [
    weight("time_decay", "time_decay", "A"),
    weight("time_first", "time_first", "A"),
    weight("time_mix_key", "key_mix", "D", "1 1 D"),
    weight("time_mix_value", "value_mix", "D", "1 1 D"),
    weight("time_mix_receptance", "receptance_mix", "D", "1 1 D"),
    *dense("key", "key", "D", "A", bias=False),
    *dense("value", "value", "D", "A", bias=False),
    *dense("receptance", "receptance", "D", "A", bias=False),
    *dense("output", "attention_output", "A", "D", bias=False),
]
CHANNEL_MIX = [
    weight("time_mix_key", "key_mix", "D", "1 1 D"),
    weight("time_mix_receptance", "receptance_mix", "D", "1 1 D"),
    *dense("key", "key", "D", "F", bias=False),
    *dense("receptance", "receptance", "D", "O", bias=False),
    *dense("value", "value", "F", "D", bias=False),
]
BLOCK = [
    *layer_norm("ln1", "self_attention_layer_norm"),
    *within("attention.", "time_mix/", TIME_MIX),
    *layer_norm("ln2", "feedforward_layer_norm"),
    *within("feed_forward.", "channel_mix/", CHANNEL_MIX),
]
ROWS = [
    weight("embeddings.weight", "embedding/embeddings", "V D"),
    *layer_norm("blocks.0.pre_ln", "embedding_norm"),
    *within("blocks.{n}.", "block_{n}/", BLOCK),
    *layer_norm("ln_out", "final_norm"),
]
HEAD = [weight("head.weight", "embedding/reverse_embeddings", "D V", "V D")]


def rows(a: Arguments) -> list[Row]:
    """Returns the table of Hugging Face."""
    return [*ROWS, *HEAD] if a["head"] and not a["tie_embeddings"] else ROWS


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    D = a["hidden_dim"]
    return {
        "V": a["vocabulary_size"],
        "D": D,
        "O": D,
        "A": a["attention_dim"] or D,
        "F": a["intermediate_dim"] or 4 * D,
    }


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `RWKV`.

    `rescale_every` is left out: it halves numbers in float16, and changes no result.
    """
    tied = settings.boolean("tie_word_embeddings", False)
    name = architecture(settings) or "RwkvForCausalLM"
    has_head = tied or "head.weight" in shapes or name.endswith("ForCausalLM")
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": settings.whole("num_hidden_layers"),
        "hidden_dim": settings.whole("hidden_size"),
        "attention_dim": settings.whole("attention_hidden_size", None),
        "intermediate_dim": settings.whole("intermediate_size", None),
        "layer_norm_epsilon": settings.number("layer_norm_epsilon", 1e-5),
        "tie_embeddings": tied,
        "head": "tokens" if has_head else None,
    }


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `RWKV` to settings of Hugging Face."""
    s = sizes(a)
    return {
        "architectures": ["RwkvForCausalLM" if a["head"] else "RwkvModel"],
        "vocab_size": s["V"],
        "num_hidden_layers": a["num_layers"],
        "hidden_size": s["D"],
        "attention_hidden_size": s["A"],
        "intermediate_size": s["F"],
        "layer_norm_epsilon": a["layer_norm_epsilon"],
        "tie_word_embeddings": a["tie_embeddings"],
        "rescale_every": 0,
    }


RWKV4 = Family(
    name="rwkv",
    model=RWKV,
    sizes=sizes,
    mismatch=lambda a: difference(a, {"version": 4}),
    huggingface=Format(
        kinds=("rwkv",),
        read=read,
        write=write,
        rows=rows,
        prefix="rwkv.",
        heads=("head.",),
        copies={"head.weight": "embeddings.weight"},
    ),
)
