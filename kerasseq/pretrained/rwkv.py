"""RWKV-4: settings and the table of names of Hugging Face."""

from typing import Any

from kerasseq.models.rwkv import RWKV
from kerasseq.pretrained import fields
from kerasseq.pretrained.family import (
    Arguments,
    Family,
    Format,
    Shapes,
    architecture,
    difference,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, layer_norm, untied_head, weight, within

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


def rows(a: Arguments) -> list[Row]:
    """Returns the table of Hugging Face."""
    return [*ROWS, *untied_head(a, "head.weight")]


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


SETTINGS: list[fields.Field] = [
    ("vocabulary_size", "vocab_size", fields.WHOLE),
    ("num_layers", "num_hidden_layers", fields.WHOLE),
    ("hidden_dim", "hidden_size", fields.WHOLE),
    ("attention_dim", "attention_hidden_size", fields.WHOLE, None),
    ("intermediate_dim", "intermediate_size", fields.WHOLE, None),
    ("layer_norm_epsilon", "layer_norm_epsilon", fields.NUMBER, 1e-5),
    ("tie_embeddings", "tie_word_embeddings", fields.BOOLEAN, False),
]


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `RWKV`.

    `rescale_every` is left out: it halves numbers in float16, and changes no result.
    """
    a = fields.read(settings, SETTINGS)
    name = architecture(settings) or "RwkvForCausalLM"
    is_tied = a["tie_embeddings"]
    has_head = is_tied or "head.weight" in shapes or name.endswith("ForCausalLM")
    return {**a, "head": "tokens" if has_head else None}


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `RWKV` to settings of Hugging Face."""
    s = sizes(a)
    known = {**a, "attention_dim": s["A"], "intermediate_dim": s["F"]}
    return {
        "architectures": ["RwkvForCausalLM" if a["head"] else "RwkvModel"],
        **fields.write(known, SETTINGS),
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
