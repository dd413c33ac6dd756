"""Mamba: settings and the table of names of Hugging Face."""

import math
from typing import Any

from kerasseq.models.mamba import Mamba
from kerasseq.pretrained.family import Arguments, Family, Format, Shapes, gpt_head
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, weight, within

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
    head = []
    if a["head"] and not a["tie_embeddings"]:
        head = [weight("lm_head.weight", "embedding/reverse_embeddings", "D V", "V D")]
    return [
        weight("embeddings.weight", "embedding/embeddings", "V D"),
        weight(
            "layers.{n}.norm.weight", "block_{n}/self_attention_layer_norm/scale", "D"
        ),
        *within("layers.{n}.mixer.", "block_{n}/mamba/", mixer),
        weight("norm_f.weight", "final_norm/scale", "D"),
        *head,
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


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `Mamba`."""
    D, expand = settings.whole("hidden_size"), settings.whole("expand", 2)
    settings.require(hidden_act="silu", intermediate_size=expand * D)
    tied = settings.boolean("tie_word_embeddings", True)
    rank = None
    if settings.get("time_step_rank", "auto") != "auto":
        rank = settings.whole("time_step_rank")
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": settings.whole("num_hidden_layers"),
        "hidden_dim": D,
        "state_size": settings.whole("state_size", 16),
        "conv_kernel": settings.whole("conv_kernel", 4),
        "expand": expand,
        "time_step_rank": rank,
        "use_bias": settings.boolean("use_bias", False),
        "use_conv_bias": settings.boolean("use_conv_bias", True),
        "layer_norm_epsilon": settings.number("layer_norm_epsilon", 1e-5),
        "tie_embeddings": tied,
        "head": gpt_head(settings, shapes, tied),
    }


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `Mamba` to settings of Hugging Face."""
    s = sizes(a)
    return {
        "architectures": ["MambaForCausalLM" if a["head"] else "MambaModel"],
        "vocab_size": s["V"],
        "num_hidden_layers": a["num_layers"],
        "hidden_size": s["D"],
        "intermediate_size": s["E"],
        "state_size": s["N"],
        "conv_kernel": s["K"],
        "expand": a["expand"],
        "time_step_rank": s["R"],
        "use_bias": a["use_bias"],
        "use_conv_bias": a["use_conv_bias"],
        "layer_norm_epsilon": a["layer_norm_epsilon"],
        "tie_word_embeddings": a["tie_embeddings"],
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
