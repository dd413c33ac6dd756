"""xLSTM: settings and the table of names of Hugging Face."""

from typing import Any

from kerasseq.models import xlstm as models_xlstm
from kerasseq.models.xlstm import FEED_FORWARD_FACTOR, MULTIPLE, rounded_up, widths
from kerasseq.pretrained import fields
from kerasseq.pretrained.family import Arguments, Family, Format, Shapes, gpt_head
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, untied_head, weight, within

# Letters: V vocabulary, D hidden, Q queries of all heads, W values of all heads,
# N heads, F intermediate.
MIXER = [
    *dense("q", "query", "D", "Q", bias=False),
    *dense("k", "key", "D", "Q", bias=False),
    *dense("v", "value", "D", "W", bias=False),
    *dense("ogate_preact", "gate", "D", "W", bias=False),
    *dense("igate_preact", "input", "D", "N"),
    *dense("fgate_preact", "forget", "D", "N"),
    weight("multihead_norm.weight", "norm_scale", "W"),
    *dense("out_proj", "attention_output", "W", "D", bias=False),
]
FEED_FORWARD = [
    *dense("proj_up_gate", "gate_dense", "D", "F", bias=False),
    *dense("proj_up", "intermediate_dense", "D", "F", bias=False),
    *dense("proj_down", "output_dense", "F", "D", bias=False),
]
BLOCK = [
    weight("norm_mlstm.weight", "self_attention_layer_norm/scale", "D"),
    *within("mlstm_layer.", "mlstm/", MIXER),
    weight("norm_ffn.weight", "feedforward_layer_norm/scale", "D"),
    *within("ffn.", "feed_forward/", FEED_FORWARD),
]
ROWS = [
    weight("embeddings.weight", "embedding/embeddings", "V D"),
    *within("blocks.{n}.", "block_{n}/", BLOCK),
    weight("out_norm.weight", "final_norm/scale", "D"),
]


def rows(a: Arguments) -> list[Row]:
    """Returns the table of Hugging Face."""
    return [*ROWS, *untied_head(a)]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    names = ("query_dim", "value_dim", "intermediate_dim")
    known = widths(a["hidden_dim"], *(a[name] for name in names))
    return {
        "V": a["vocabulary_size"],
        "D": a["hidden_dim"],
        "N": a["num_heads"],
        **dict(zip("QWF", (known[name] for name in names), strict=True)),
    }


def mismatch(a: Arguments) -> str | None:
    """Returns why Hugging Face has no such `XLSTM`: its blocks are all mLSTM."""
    for name in ("soft_cap", "logit_soft_cap"):
        if a[name] is None:
            return f"{name}=None instead of a number"
    return f"slstm_at={a['slstm_at']} instead of []" if a["slstm_at"] else None


SETTINGS: list[fields.Field] = [
    ("vocabulary_size", "vocab_size", fields.WHOLE),
    ("num_heads", "num_heads", fields.WHOLE, 8),
    ("soft_cap", "gate_soft_cap", fields.NUMBER, 15.0),
    ("logit_soft_cap", "output_logit_soft_cap", fields.NUMBER, 30.0),
    ("layer_norm_epsilon", "norm_eps", fields.NUMBER, 1e-6),
    ("tie_embeddings", "tie_word_embeddings", fields.BOOLEAN, False),
]


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `XLSTM`."""
    settings.require(use_bias=False, add_out_norm=True, weight_mode="single", eps=1e-6)
    name = "hidden_size" if "hidden_size" in settings else "embedding_dim"
    D = settings.whole(name)
    name = "num_hidden_layers" if "num_hidden_layers" in settings else "num_blocks"
    a = fields.read(settings, SETTINGS)
    return {
        **a,
        "num_layers": settings.whole(name),
        "hidden_dim": D,
        # Its layer does not round these two up.
        "query_dim": int(D * settings.number("qk_dim_factor", 0.5)),
        "value_dim": int(D * settings.number("v_dim_factor", 1.0)),
        "intermediate_dim": rounded_up(
            D * settings.number("ffn_proj_factor", FEED_FORWARD_FACTOR),
            settings.whole("ffn_round_up_to_multiple_of", MULTIPLE),
        ),
        "head": gpt_head(settings, shapes, a["tie_embeddings"]),
    }


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `XLSTM` to settings of Hugging Face."""
    s = sizes(a)
    D = s["D"]
    usual = rounded_up(FEED_FORWARD_FACTOR * D) == s["F"]
    return {
        "architectures": ["xLSTMForCausalLM" if a["head"] else "xLSTMModel"],
        **fields.write(a, SETTINGS),
        "num_hidden_layers": a["num_layers"],
        "num_blocks": a["num_layers"],
        "hidden_size": D,
        "embedding_dim": D,
        "qk_dim_factor": factor(s["Q"], D),
        "v_dim_factor": factor(s["W"], D),
        "ffn_proj_factor": FEED_FORWARD_FACTOR if usual else factor(s["F"], D),
        "ffn_round_up_to_multiple_of": MULTIPLE if usual else 1,
        "use_bias": False,
        "add_out_norm": True,
        "weight_mode": "single",
    }


def factor(width: int, D: int) -> float:
    """Returns the factor of D whose product is rounded down to a width.

    Examples:
        >>> factor(64, 128), int(49 * (47 / 49)), int(49 * factor(47, 49))
        (0.5, 47, 47)
    """
    exact = width / D
    return exact if int(D * exact) == width else (width + 0.25) / D


XLSTM = Family(
    name="xlstm",
    model=models_xlstm.XLSTM,
    sizes=sizes,
    mismatch=mismatch,
    huggingface=Format(
        kinds=("xlstm",),
        read=read,
        write=write,
        rows=rows,
        prefix="backbone.",
        heads=("lm_head.",),
        copies={"lm_head.weight": "embeddings.weight"},
    ),
)
