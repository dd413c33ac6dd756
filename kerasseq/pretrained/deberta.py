"""DeBERTa, versions 1 to 3: settings and tables of names.

Versions 2 and 3 have the same settings, `deberta-v2`. He et al. 2021; He et al. 2023.
"""

from typing import Any

import numpy as np

from kerasseq.models.bert.bert import BERT as MODEL
from kerasseq.positions.disentangled import (
    KINDS,
    DisentangledPosition,
    DisentangledTable,
)
from kerasseq.pretrained.bert import HEADS as BERT_HEADS
from kerasseq.pretrained.bert import read_labels_of, read_sizes, write_sizes
from kerasseq.pretrained.bert import sizes as sizes_of_bert
from kerasseq.pretrained.family import (
    DENSE,
    Arguments,
    Family,
    Format,
    Shapes,
    architecture,
    difference,
    num_classes,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import (
    Row,
    Transform,
    dense,
    layer_norm,
    weight,
    within,
)
from kerasseq.pretrained.tokenizers import special_ids

# Letters: V vocabulary, T positions, S segments, P rows of the table of relative
# positions, R kernel and G inputs of the convolution, D hidden, N heads, K per head,
# F intermediate, C classes.
ATTENTION = "self_attention"
POSITION = f"{ATTENTION}/position"
FEED_FORWARD = [
    *dense("attention.output.dense", f"{ATTENTION}/attention_output", "N K", "D"),
    *layer_norm("attention.output.LayerNorm", f"{ATTENTION}_layer_norm"),
    *dense("intermediate.dense", "feed_forward/intermediate_dense", "D", "F"),
    *dense("output.dense", "feed_forward/output_dense", "F", "D"),
    *layer_norm("output.LayerNorm", "feedforward_layer_norm"),
]
HEADS = {name: BERT_HEADS[name] for name in ("sequence", "tokens", "tag", "span")}
CLASSES = {
    "sequence": "Model",
    "tokens": "ForMaskedLM",
    "tag": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}
HIDDEN = "gelu"  # of the convolution, too


def _by_head(count: int) -> Transform:
    """Orders rows of a kernel, in the file queries, keys and values of each head."""

    def to_model(x: np.ndarray) -> np.ndarray:
        parts = x.reshape(count, 3, -1, *x.shape[1:])
        return parts.swapaxes(0, 1).reshape(x.shape)

    def to_file(x: np.ndarray) -> np.ndarray:
        parts = x.reshape(3, count, -1, *x.shape[1:])
        return parts.swapaxes(0, 1).reshape(x.shape)

    return Transform(to_model, to_file)


def _attention_rows(a: Arguments) -> list[Row]:
    """Returns the rows of the first version."""
    kernels = tuple(f"{ATTENTION}/{name}/kernel" for name in ("query", "key", "value"))
    axes = "D N K", "(N K) D"
    split = _by_head(a["num_heads"])
    table = [
        Row("attention.self.in_proj.weight", kernels, *axes, split, axis=0),
        weight("attention.self.q_bias", f"{ATTENTION}/query/bias", "N K", "(N K)"),
        weight("attention.self.v_bias", f"{ATTENTION}/value/bias", "N K", "(N K)"),
    ]
    if "c2p" in a["position"].kinds:
        key = "attention.self.pos_proj.weight"
        table.append(weight(key, f"{POSITION}/key_kernel", *axes))
    if "p2c" in a["position"].kinds:
        query = "attention.self.pos_q_proj"
        table += [
            weight(f"{query}.weight", f"{POSITION}/query_kernel", *axes),
            weight(f"{query}.bias", f"{POSITION}/query_bias", "N K", "(N K)"),
        ]
    return table


SHARED_ATTENTION = [
    *dense("attention.self.query_proj", f"{ATTENTION}/query", "D", "N K"),
    *dense("attention.self.key_proj", f"{ATTENTION}/key", "D", "N K"),
    *dense("attention.self.value_proj", f"{ATTENTION}/value", "D", "N K"),
]


def rows(a: Arguments) -> list[Row]:
    """Returns the table of DeBERTa in Hugging Face."""
    position = a["position"]
    table = position.table.name
    attention = SHARED_ATTENTION if position.share_kernels else _attention_rows(a)
    listed = [
        weight("embeddings.word_embeddings.weight", "embedding/embeddings", "V D"),
        *layer_norm("embeddings.LayerNorm", "embedding_norm"),
        weight("encoder.rel_embeddings.weight", f"{table}/embeddings", "P D"),
        *within("encoder.layer.{n}.", "block_{n}/", [*attention, *FEED_FORWARD]),
    ]
    if a["embed_positions"]:
        positions = "embeddings.position_embeddings.weight"
        listed.append(weight(positions, "position_embedding/embeddings", "T D"))
    if a["num_segments"]:
        segments = "embeddings.token_type_embeddings.weight"
        listed.append(weight(segments, "segment_embedding/embeddings", "S D"))
    if position.table.use_norm:
        listed += layer_norm("encoder.LayerNorm", f"{table}/norm")
    if a["convolution_size"]:
        kernel = "encoder.conv.conv.weight"
        listed += [
            weight(kernel, "convolution/kernel", "R G D", "D G R"),
            weight("encoder.conv.conv.bias", "convolution/bias", "D"),
            *layer_norm("encoder.conv.LayerNorm", "convolution_norm"),
        ]
    return [*listed, *HEADS[a["head"]]]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    own = {"P": 2 * a["position"].table.half, "R": a["convolution_size"] or 0}
    return {**sizes_of_bert(a), **own, "G": a["hidden_dim"]}


def _mismatch(version):
    """Returns the function that tells why a `BERT` is not of one of the versions."""

    def mismatch(a: Arguments) -> str | None:
        position = a.get("position")
        if not isinstance(position, DisentangledPosition) or position.table is None:
            return f"position={position!r}"
        if a["head"] not in HEADS or (a["head"] == "tag" and a["labels"] is None):
            return f"head={a['head']!r}, labels={a['labels']!r}"
        is_first = version == 1
        table = position.table
        if is_first and (table.num_buckets or table.use_norm or a["convolution_size"]):
            return "num_buckets, use_norm or convolution_size"
        if position.share_kernels is is_first:
            return f"share_kernels={position.share_kernels}"
        bias = "query_value" if is_first else True
        expected = {"use_query_key_value_bias": bias, "pair_separators": 1, **DENSE}
        return difference(a, expected)

    return mismatch


def _read(version):
    """Returns the function that converts settings of Hugging Face to arguments."""

    def read(settings: Settings, shapes: Shapes) -> Arguments:
        settings.require(
            relative_attention=True,
            embedding_size=settings.whole("hidden_size"),
            talking_head=False,
        )
        if version == 2:
            settings.require(share_att_key=True, conv_groups=1)
        size, head = settings.whole("vocab_size"), _head(settings, shapes)
        kernel = "classifier.weight" if head == "tag" else ""
        return {
            **read_sizes(settings),
            "num_segments": _count(settings, "type_vocab_size") or None,
            "max_sequence_length": settings.whole("max_position_embeddings", 512),
            "special_ids": special_ids(size, settings.id("pad_token_id", size, 0)),
            "layer_norm_epsilon": settings.number("layer_norm_eps", 1e-7),
            "position": _position(settings, version),
            "embed_positions": settings.boolean("position_biased_input", True),
            "use_query_key_value_bias": True if version == 2 else "query_value",
            "convolution_size": _convolution(settings) if version == 2 else None,
            "head": head,
            **read_labels_of(settings, head, num_classes(shapes, kernel)),
        }

    return read


def _count(settings, name):
    """Returns a whole number that may be 0, or -1 for 0; 0 if it is missing."""
    value = settings.values.get(name)
    return settings.whole(name) if value not in (None, 0, -1) else 0


def _position(settings: Settings, version: int) -> DisentangledPosition:
    """Returns the position encoding of the settings."""
    kinds = settings.get("pos_att_type")
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or not kinds or not set(kinds) <= set(KINDS):
        settings.refuse("pos_att_type", " or ".join(KINDS))
    options: dict[str, Any] = {}
    if version == 2:
        names = {"none": False, "layer_norm": True}
        options["num_buckets"] = _count(settings, "position_buckets") or None
        options["use_norm"] = settings.word("norm_rel_ebd", names, "none")
        options["layer_norm_epsilon"] = settings.number("layer_norm_eps", 1e-7)
    longest = _count(settings, "max_relative_positions")
    longest = longest or settings.whole("max_position_embeddings", 512)
    table = DisentangledTable(longest, name="table", **options)
    return DisentangledPosition(table, kinds=kinds, share_kernels=version == 2)


def _convolution(settings: Settings) -> int | None:
    """Returns the size of the convolution, whose activation must be that of BERT."""
    size = _count(settings, "conv_kernel_size") or None
    if size:
        settings.require(hidden_act=HIDDEN, conv_act=HIDDEN)
        settings.word("conv_act", {HIDDEN: HIDDEN})
    return size


def _head(settings: Settings, shapes: Shapes) -> str:
    """Returns the head of a file."""
    if "cls.predictions.bias" in shapes:
        return "tokens"
    name = architecture(settings)
    for head, kernel in (("tag", "classifier.weight"), ("span", "qa_outputs.weight")):
        if name.endswith(CLASSES[head]) and kernel in shapes:
            return head
    return "sequence"


def _write(version):
    """Returns the function that converts arguments to settings of Hugging Face."""
    name = "Deberta" if version == 1 else "DebertaV2"

    def write(a: Arguments) -> dict[str, Any]:
        position = a["position"]
        table = position.table
        settings = {
            "architectures": [f"{name}{CLASSES[a['head']]}"],
            **write_sizes(a),
            "type_vocab_size": a["num_segments"] or 0,
            "max_position_embeddings": a["max_sequence_length"],
            "pad_token_id": a["special_ids"]["[PAD]"],
            "relative_attention": True,
            "max_relative_positions": table.max_distance,
            "pos_att_type": list(position.kinds),
            "position_biased_input": a["embed_positions"],
        }
        if version == 2:
            settings |= {
                "share_att_key": True,
                "position_buckets": table.num_buckets or -1,
                "norm_rel_ebd": "layer_norm" if table.use_norm else "none",
                "conv_kernel_size": a["convolution_size"] or 0,
                "conv_act": HIDDEN,
            }
        return settings

    return write


def _family(kind: str, version: int) -> Family:
    return Family(
        name=kind,
        model=MODEL,
        sizes=sizes,
        mismatch=_mismatch(version),
        huggingface=Format(
            kinds=(kind,),
            read=_read(version),
            write=_write(version),
            rows=rows,
            prefix="deberta.",
            heads=("cls.", "classifier.", "qa_outputs."),
            copies={
                "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
                "cls.predictions.decoder.bias": "cls.predictions.bias",
            },
            ignored=("embeddings.position_ids",),
            left_out=(
                *("pooler.*", "classifier.*", "qa_outputs.*"),
                *("lm_predictions.*", "mask_predictions.*"),
                "embeddings.position_embeddings.weight",
            ),
        ),
    )


DEBERTA = _family("deberta", 1)
DEBERTA_V2 = _family("deberta-v2", 2)
