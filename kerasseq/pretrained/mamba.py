"""Mamba: settings and the table of names of Hugging Face."""

import math
from typing import Any

from kerasseq.models.mamba import Mamba
from kerasseq.pretrained import fields
from kerasseq.pretrained.family import Arguments, Family, Format, Shapes, gpt_head
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, untied_head, weight, within

# Letters: V vocabulary, D hidden, E channels, W = 2 E, N state, K convolution, R rank
# of the step sizes, S = R + 2 N.


def rows(a: Arguments) -> list[Row]:
    """Returns the table of Hugging Face."""
    bias = a["use_bias"]
    mixer = [
        weight("A_log", "log_rate", "E N"),
        weight("D", "skip", "E"),
        *dense("in_proj", "input", "D", "W", bias=bias),
        weight("conv1d.weight", "conv/kernel", "K 1 E", "E 1 K"),
        *dense("x_proj", "selection", "E", "S", bias=False),
        *dense("dt_proj", "step", "R", "E"),
        *dense("out_proj", "attention_output", "E", "D", bias=bias),
    ]
    if a["use_conv_bias"]:
        mixer.append(weight("conv1d.bias", "conv/bias", "E"))
    return [
        weight("embeddings.weight", "embedding/embeddings", "V D"),
        weight(
            "layers.{n}.norm.weight", "block_{n}/self_attention_layer_norm/scale", "D"
        ),
        *within("layers.{n}.mixer.", "block_{n}/mamba/", mixer),
        weight("norm_f.weight", "final_norm/scale", "D"),
        *untied_head(a),
    ]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter.

    Examples:
        >>> a = {"vocabulary_size": 7, "hidden_dim": 20, "expand": 2, "state_size": 3}
        >>> sizes(a | {"conv_kernel": 4, "time_step_rank": None})["S"]
        8
    """
    D, N = a["hidden_dim"], a["state_size"]
    E, R = a["expand"] * D, a["time_step_rank"] or math.ceil(D / 16)
    known = {"V": a["vocabulary_size"], "D": D, "E": E, "W": 2 * E, "N": N}
    return {**known, "K": a["conv_kernel"], "R": R, "S": R + 2 * N}


SETTINGS: list[fields.Field] = [
    ("vocabulary_size", "vocab_size", fields.WHOLE),
    ("num_layers", "num_hidden_layers", fields.WHOLE),
    ("hidden_dim", "hidden_size", fields.WHOLE),
    ("state_size", "state_size", fields.WHOLE, 16),
    ("conv_kernel", "conv_kernel", fields.WHOLE, 4),
    ("expand", "expand", fields.WHOLE, 2),
    ("use_bias", "use_bias", fields.BOOLEAN, False),
    ("use_conv_bias", "use_conv_bias", fields.BOOLEAN, True),
    ("layer_norm_epsilon", "layer_norm_epsilon", fields.NUMBER, 1e-5),
    ("tie_embeddings", "tie_word_embeddings", fields.BOOLEAN, True),
]


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `Mamba`."""
    D, expand = settings.whole("hidden_size"), settings.whole("expand", 2)
    settings.require(hidden_act="silu", intermediate_size=expand * D)
    a = fields.read(settings, SETTINGS)
    rank = None
    if settings.get("time_step_rank", "auto") != "auto":
        rank = settings.whole("time_step_rank")
    head = gpt_head(settings, shapes, a["tie_embeddings"])
    return {**a, "time_step_rank": rank, "head": head}


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `Mamba` to settings of Hugging Face."""
    s = sizes(a)
    return {
        "architectures": ["MambaForCausalLM" if a["head"] else "MambaModel"],
        **fields.write(a, SETTINGS),
        "intermediate_size": s["E"],
        "time_step_rank": s["R"],
        "hidden_act": "silu",
    }


MAMBA = Family(
    name="mamba",
    model=Mamba,
    sizes=sizes,
    mismatch=lambda a: None,
    huggingface=Format(
        kinds=("mamba",),
        read=read,
        write=write,
        rows=rows,
        prefix="backbone.",
        heads=("lm_head.",),
        renamed={"embedding.weight": "embeddings.weight"},
        copies={"lm_head.weight": "embeddings.weight"},
    ),
)
