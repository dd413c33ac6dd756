"""RWKV-7: settings and the table of names of KerasHub.

The weights of a layer are numbered. In the first block, which has no weights that mix
its values with others, the numbers after those are three lower.
"""

import dataclasses
from typing import Any

from kerasseq.linear.rwkv7_initial import ranks
from kerasseq.models.rwkv import RANKS, RWKV, default_head_dim
from kerasseq.pretrained import fields
from kerasseq.pretrained.family import Arguments, Family, Format, Shapes, difference
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, hub_norm, hub_weights, weight, within

# Letters: V vocabulary, D hidden, N heads, K per head, F intermediate, A channels of
# all heads, as many as D, and the ranks: W of decay, R of rate, U of value, G of gate.
VALUE = [("value_up/bias", "A"), ("value_down/kernel", "D U")]
VALUE += [("value_up/kernel", "U A")]
BEFORE_VALUE = [
    *((f"{name}_mix", "D") for name in ("receptance", "decay", "key")),
    *((f"{name}_mix", "D") for name in ("value", "rate", "gate")),
    *[("decay_up/bias", "A"), ("decay_down/kernel", "D W"), ("decay_up/kernel", "W A")],
    *[("rate_up/bias", "A"), ("rate_down/kernel", "D R"), ("rate_up/kernel", "R A")],
]
AFTER_VALUE = [
    *[("gate_down/kernel", "D G"), ("gate_up/kernel", "G A")],
    *[("removal_scale", "A"), ("rate_scale", "A"), ("bonus", "N K")],
]
TIME_MIX = [
    *hub_weights("receptance", ["receptance/kernel"], "D A"),
    *hub_weights("key", ["key/kernel"], "D A"),
    *hub_weights("value", ["value/kernel"], "D A"),
    *hub_weights("output_layer", ["attention_output/kernel"], "A D"),
    *hub_weights("ln_x", ["norm_scale", "norm_offset"], "A", "A"),
]
CHANNEL_MIX = [
    weight("vars/0", "key_mix", "D"),
    *hub_weights("key", ["key/kernel"], "D F"),
    *hub_weights("value", ["value/kernel"], "F D"),
]


def _numbered(table):
    return [
        weight(f"vars/{n}", path, axes) for n, (path, axes) in enumerate(table)
    ] + TIME_MIX


def _block(time_mix):
    return [
        *hub_norm("ln1", "self_attention_layer_norm"),
        *hub_norm("ln2", "feedforward_layer_norm"),
        *within("att/", "time_mix/", time_mix),
        *within("ffn/", "channel_mix/", CHANNEL_MIX),
    ]


FIRST = _block(_numbered(BEFORE_VALUE + AFTER_VALUE))
LATER = _block(_numbered(BEFORE_VALUE + VALUE + AFTER_VALUE))
ROWS = [
    *hub_weights("layers/embedding", ["embedding/embeddings"], "V D"),
    *hub_norm("layers/rwkv7__block/ln0", "embedding_norm"),
    *within("layers/rwkv7__block/", "block_0/", FIRST),
    *(
        dataclasses.replace(row, start=1)
        for row in within("layers/rwkv7__block{_n}/", "block_{n}/", LATER)
    ),
    *hub_norm("layers/layer_normalization", "final_norm"),
    *hub_weights("layers/dense", ["embedding/reverse_embeddings"], "D V"),
]
SETTINGS: list[fields.Field] = [  # of KerasHub
    ("vocabulary_size", "vocabulary_size", fields.WHOLE),
    ("num_layers", "num_layers", fields.WHOLE),
    ("hidden_dim", "hidden_size", fields.WHOLE),
    ("head_dim", "head_size", fields.WHOLE),
    ("intermediate_dim", "intermediate_dim", fields.WHOLE),
    ("dropout", "dropout_rate", fields.RATE),
    ("decay_rank", "decay_lora", fields.WHOLE),
    ("rate_rank", "aaa_lora", fields.WHOLE),
    ("value_rank", "mv_lora", fields.WHOLE),
    ("gate_rank", "gate_lora", fields.WHOLE),
]
LETTERS = dict(zip(RANKS, "WRUG", strict=True))


def rows(a: Arguments) -> list[Row]:
    """Returns the table of KerasHub."""
    return ROWS


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    D = a["hidden_dim"]
    K = a["head_dim"] or default_head_dim(D)
    default = ranks(D)
    return {
        **{"V": a["vocabulary_size"], "D": D, "A": D, "N": D // K, "K": K},
        "F": a["intermediate_dim"] or 4 * D,
        **{
            letter: a[name] or default[name.removesuffix("_rank")]
            for name, letter in LETTERS.items()
        },
    }


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of KerasHub to arguments of `RWKV`."""
    return {"version": 7, **fields.read(settings, SETTINGS)}


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `RWKV` to settings of KerasHub."""
    expected = {"head": "tokens", "tie_embeddings": False, "layer_norm_epsilon": 1e-5}
    if wrong := difference(a, expected):
        raise ValueError(f"an RWKV7Backbone of KerasHub cannot have {wrong}")
    s = sizes(a)
    known = {**a, "head_dim": s["K"], "intermediate_dim": s["F"]}
    known |= {name: s[letter] for name, letter in LETTERS.items()}
    return fields.write(known, SETTINGS)


RWKV7 = Family(
    name="rwkv7",
    model=RWKV,
    sizes=sizes,
    mismatch=lambda a: difference(a, {"version": 7}),
    keras_hub=Format(kinds=("RWKV7Backbone",), read=read, write=write, rows=rows),
)
