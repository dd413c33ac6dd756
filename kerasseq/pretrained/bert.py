"""BERT and RoBERTa: settings and tables of names.

RoBERTa counts positions from the id of padding plus 1, so that the first rows of its
position embedding are unused. Devlin et al. 2018; Liu et al. 2019; XLM-R, Conneau et
al. 2020.
"""

from typing import Any

from kerasseq.models.bert.bert import BERT as MODEL
from kerasseq.pretrained import fields
from kerasseq.pretrained.family import (
    ACTIVATION_NAMES,
    ACTIVATIONS,
    DENSE,
    HUB_HEAD,
    Arguments,
    Family,
    Format,
    Shapes,
    architecture,
    block_sizes,
    difference,
    head_of_backbone,
    label_count,
    num_classes,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.label_names import label_settings, read_labels
from kerasseq.pretrained.rows import (
    HUB_ENCODER_BLOCK,
    IDENTITY,
    REVERSED,
    Row,
    Transform,
    dense,
    hub_dense,
    hub_norm,
    hub_weights,
    layer_norm,
    skip_rows,
    weight,
    within,
)
from kerasseq.pretrained.tokenizers import special_ids

# Letters: V vocabulary, T positions, S segments, D and E hidden, N heads, K per head,
# F intermediate, C classes.
EMBEDDINGS = [
    weight("embeddings.word_embeddings.weight", "embedding/embeddings", "V D"),
    weight(
        "embeddings.token_type_embeddings.weight", "segment_embedding/embeddings", "S D"
    ),
    *layer_norm("embeddings.LayerNorm", "embedding_norm"),
]
BLOCK = [
    *dense("attention.self.query", "self_attention/query", "D", "N K"),
    *dense("attention.self.key", "self_attention/key", "D", "N K"),
    *dense("attention.self.value", "self_attention/value", "D", "N K"),
    *dense("attention.output.dense", "self_attention/attention_output", "N K", "D"),
    *layer_norm("attention.output.LayerNorm", "self_attention_layer_norm"),
    *dense("intermediate.dense", "feed_forward/intermediate_dense", "D", "F"),
    *dense("output.dense", "feed_forward/output_dense", "F", "D"),
    *layer_norm("output.LayerNorm", "feedforward_layer_norm"),
]
POOLER = dense("pooler.dense", "pooler", "D", "E")
MASKED_WORDS = [
    *dense("cls.predictions.transform.dense", "token_dense", "D", "E"),
    *layer_norm("cls.predictions.transform.LayerNorm", "token_norm"),
    weight("cls.predictions.bias", "tokens/bias", "V"),
]
# Class 0 of the file is "b follows a", which is class 1 of the model.
NEXT_SENTENCE = dense("cls.seq_relationship", "next", "D", "C", transform=REVERSED)
HEADS = {
    None: POOLER,
    "sequence": [],
    "tokens": MASKED_WORDS,
    "pretraining": [*MASKED_WORDS, *POOLER, *NEXT_SENTENCE],
    "classify": [*POOLER, *dense("classifier", "classes", "D", "C")],
    "tag": dense("classifier", "tags", "D", "C"),
    "span": dense("qa_outputs", "span", "D", "C"),
}
ROBERTA_HEADS = {
    None: POOLER,
    "sequence": [],
    "tokens": [
        *dense("lm_head.dense", "token_dense", "D", "E"),
        *layer_norm("lm_head.layer_norm", "token_norm"),
        weight("lm_head.bias", "tokens/bias", "V"),
    ],
    "classify": [
        *dense("classifier.dense", "pooler", "D", "E"),
        *dense("classifier.out_proj", "classes", "D", "C"),
    ],
    "tag": HEADS["tag"],
    "span": HEADS["span"],
}
HUB_ROWS = [
    *hub_weights("layers/reversible_embedding", ["embedding/embeddings"], "V D"),
    *hub_weights("layers/position_embedding", ["position_embedding/embeddings"], "T D"),
    *hub_weights("layers/embedding", ["segment_embedding/embeddings"], "S D"),
    *hub_norm("layers/layer_normalization", "embedding_norm"),
    *within("layers/transformer_encoder{_n}/", "block_{n}/", HUB_ENCODER_BLOCK),
    *hub_dense("layers/dense", "pooler", "D E", "E"),
]


def backbone_rows(positions: Transform = IDENTITY) -> list[Row]:
    """Returns the rows of Hugging Face below every head.

    Args:
        positions: The `Transform` of the position embedding.
    """
    path = "position_embedding/embeddings"
    return [
        *EMBEDDINGS,
        weight(
            "embeddings.position_embeddings.weight", path, "T D", transform=positions
        ),
        *within("encoder.layer.{n}.", "block_{n}/", BLOCK),
    ]


def rows(a: Arguments) -> list[Row]:
    """Returns the table of BERT in Hugging Face."""
    return [*backbone_rows(), *HEADS[a["head"]]]


def roberta_rows(a: Arguments) -> list[Row]:
    """Returns the table of RoBERTa in Hugging Face."""
    unused = a["special_ids"]["[PAD]"] + 1
    return [*backbone_rows(skip_rows(unused)), *ROBERTA_HEADS[a["head"]]]


def hub_rows(a: Arguments) -> list[Row]:
    """Returns the table of BERT in KerasHub."""
    if a["head"] != "classify":
        return HUB_ROWS
    return [*HUB_ROWS, *hub_dense(HUB_HEAD, "classes", "D C", "C")]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    return {
        "V": a["vocabulary_size"],
        "T": a["max_sequence_length"],
        "S": a["num_segments"],
        **block_sizes(a),
        "E": a["hidden_dim"],
        "C": label_count(a["labels"]) or 2,
    }


# Settings of BERT in Hugging Face

MULTI_LABEL = "multi_label_classification"  # the problem_type of such a classifier
CLASSES = {
    None: "BertModel",
    "sequence": "BertModel",
    "tokens": "BertForMaskedLM",
    "pretraining": "BertForPreTraining",
    "classify": "BertForSequenceClassification",
    "tag": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}
ID_NAMES = {  # most folders have only the first
    "[PAD]": "pad_token_id",
    "[UNK]": "unk_token_id",
    "[CLS]": "cls_token_id",
    "[SEP]": "sep_token_id",
    "[MASK]": "mask_token_id",
}


PLAIN = {  # what DeBERTa changes
    "position": None,
    "embed_positions": True,
    "use_query_key_value_bias": True,
    "convolution_size": None,
}

SIZES: list[fields.Field] = [  # of Hugging Face
    ("vocabulary_size", "vocab_size", fields.WHOLE),
    ("num_layers", "num_hidden_layers", fields.WHOLE),
    ("num_heads", "num_attention_heads", fields.WHOLE),
    ("hidden_dim", "hidden_size", fields.WHOLE),
    ("intermediate_dim", "intermediate_size", fields.WHOLE),
    ("layer_norm_epsilon", "layer_norm_eps", fields.NUMBER, 1e-12),
    ("dropout", "hidden_dropout_prob", fields.RATE, 0.1),
]
HUB_SETTINGS: list[fields.Field] = [
    *fields.HUB_TRANSFORMER,
    ("num_segments", "num_segments", fields.WHOLE, 2),
]


def mismatch(a: Arguments) -> str | None:
    """Returns why a `BERT` is not that of the paper."""
    return _unlearned(a) or difference(a, {"pair_separators": 1})


def _unlearned(a):
    """Returns why a head cannot be written yet, or None."""
    if a["head"] in ("classify", "tag") and a["labels"] is None:
        return "labels that have not been learned yet"
    if a["num_segments"] is None:
        return "num_segments=None"
    return difference(a, {**DENSE, **PLAIN})


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `BERT`."""
    settings.require(
        position_embedding_type="absolute", is_decoder=False, add_cross_attention=False
    )
    head = _head(settings, shapes)
    kernel = "classifier.weight" if head in ("classify", "tag") else ""
    return {
        **read_sizes(settings),
        "num_segments": settings.whole("type_vocab_size"),
        "max_sequence_length": settings.whole("max_position_embeddings"),
        "special_ids": _special_ids(settings, settings.whole("vocab_size")),
        "head": head,
        **read_labels_of(settings, head, num_classes(shapes, kernel)),
    }


def read_sizes(settings: Settings) -> Arguments:
    """Converts the settings that BERT and RoBERTa share."""
    return {
        **fields.read(settings, SIZES),
        "activation": settings.word("hidden_act", ACTIVATIONS, "gelu"),
    }


def read_labels_of(
    settings: Settings, head: str | None, count: int | None
) -> Arguments:
    """Returns the labels of a file, and whether a text has several of them."""
    if count is None:
        return {"labels": None}
    kind = settings.get("problem_type", None)
    is_multi = head == "classify" and kind == MULTI_LABEL
    return {"labels": read_labels(settings, count), "multi_label": is_multi}


def _special_ids(settings, size):
    """Returns the special ids of the settings, by default the published ones."""
    ids = special_ids(size, settings.id("pad_token_id", size, 0))
    known = {token: name for token, name in ID_NAMES.items() if name in settings}
    return ids | {t: settings.id(name, size, None) for t, name in known.items()}


def _head(settings, shapes):
    """Returns the head of a file; several classes have a tensor named classifier."""
    if "cls.predictions.bias" in shapes:
        parts = {"cls.seq_relationship.weight", "pooler.dense.weight"}
        return "pretraining" if parts <= set(shapes) else "tokens"
    head = {name: head for head, name in CLASSES.items()}.get(architecture(settings))
    needs = {"classify": "classifier.weight", "tag": "classifier.weight"}
    needs["span"] = "qa_outputs.weight"
    return head if needs.get(head) in shapes else head_of_backbone(shapes)


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `BERT` to settings of Hugging Face."""
    return {
        "architectures": [CLASSES[a["head"]]],
        **write_sizes(a),
        "max_position_embeddings": a["max_sequence_length"],
        **{ID_NAMES[token]: n for token, n in a["special_ids"].items()},
    }


def write_sizes(a: Arguments) -> dict[str, Any]:
    """Returns the settings that BERT and RoBERTa share."""
    return {
        **fields.write(fields.resolved(a), SIZES),
        "type_vocab_size": a["num_segments"],
        "hidden_act": ACTIVATION_NAMES[a["activation"]],
        "attention_probs_dropout_prob": a["dropout"],
        **label_settings(a["labels"]),
        **({"problem_type": MULTI_LABEL} if a["multi_label"] else {}),
    }


# Settings of BERT in KerasHub


def hub_read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of KerasHub to arguments of `BERT`."""
    kind, task = settings.task
    head = classes = None
    if kind == "BertTextClassifier" and f"{HUB_HEAD}/vars/0" in shapes:
        task.require(activation="linear")
        head, classes = "classify", num_classes(shapes, f"{HUB_HEAD}/vars/0", 1)
    return {
        **fields.read(settings, HUB_SETTINGS),
        "special_ids": special_ids(settings.whole("vocabulary_size"), 0),
        "head": head,
        "labels": classes,
    }


def hub_write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `BERT` to settings of KerasHub."""
    expected = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12}
    expected["multi_label"] = False
    if a["head"] != "classify":
        expected["head"] = None
    if wrong := difference(a, expected):
        raise ValueError(f"a BertBackbone of KerasHub cannot have {wrong}")
    settings = fields.write(fields.resolved(a), HUB_SETTINGS)
    if a["head"] is not None:
        options = {"num_classes": label_count(a["labels"]), "activation": "linear"}
        settings["task"] = ("BertTextClassifier", {**options, "dropout": a["dropout"]})
    return settings


# Settings of RoBERTa in Hugging Face

ROBERTA_CLASSES = {
    None: "RobertaModel",
    "sequence": "RobertaModel",
    "tokens": "RobertaForMaskedLM",
    "classify": "RobertaForSequenceClassification",
    "tag": "RobertaForTokenClassification",
    "span": "RobertaForQuestionAnswering",
}
ROBERTA_ID_NAMES = {**ID_NAMES, "[CLS]": "bos_token_id", "[SEP]": "eos_token_id"}


def roberta_mismatch(a: Arguments) -> str | None:
    """Returns why a `BERT` is not a RoBERTa."""
    if a["head"] not in ROBERTA_HEADS:
        return f"head={a['head']!r}"
    return _unlearned(a) or difference(a, {"pair_separators": 2, "activation": "gelu"})


def read_roberta(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of RoBERTa in Hugging Face to arguments of `BERT`."""
    settings.require(
        position_embedding_type="absolute",
        is_decoder=False,
        add_cross_attention=False,
        hidden_act="gelu",  # the only one that the head for masked tokens has
    )
    special_ids = _roberta_special_ids(settings, settings.whole("vocab_size"))
    unused = special_ids["[PAD]"] + 1
    length = settings.whole("max_position_embeddings")
    if length <= unused:
        settings.refuse(
            "max_position_embeddings", f"more than pad_token_id + 1 = {unused}"
        )
    head = _roberta_head(settings, shapes)
    kernel = {"tag": "classifier.weight", "classify": "classifier.out_proj.weight"}
    return {
        **read_sizes(settings),
        "num_segments": settings.whole("type_vocab_size"),
        "max_sequence_length": length - unused,
        "special_ids": special_ids,
        "head": head,
        **read_labels_of(settings, head, num_classes(shapes, kernel.get(head, ""))),
        "pair_separators": 2,
    }


def _roberta_special_ids(settings, size):
    """Returns the special ids of the settings, by default the published ones."""
    published = {"[PAD]": 1, "[UNK]": 3, "[CLS]": 0, "[SEP]": 2, "[MASK]": size - 1}
    return {
        token: settings.id(ROBERTA_ID_NAMES[token], size, min(i, size - 1))
        for token, i in published.items()
    }


def _roberta_head(settings, shapes):
    """Returns the head of a file."""
    if "lm_head.bias" in shapes:
        return "tokens"
    if "classifier.out_proj.weight" in shapes:
        return "classify"
    name = architecture(settings)
    for head, kernel in (("tag", "classifier.weight"), ("span", "qa_outputs.weight")):
        ending = ROBERTA_CLASSES[head].removeprefix("Roberta")
        if name.endswith(ending) and kernel in shapes:
            return head
    return head_of_backbone(shapes)


def write_roberta(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `BERT` to settings of RoBERTa in Hugging Face."""
    ids = a["special_ids"]
    return {
        "architectures": [ROBERTA_CLASSES[a["head"]]],
        **write_sizes(a),
        "max_position_embeddings": a["max_sequence_length"] + ids["[PAD]"] + 1,
        **{ROBERTA_ID_NAMES[token]: n for token, n in ids.items()},
    }


BERT = Family(
    name="bert",
    model=MODEL,
    sizes=sizes,
    mismatch=mismatch,
    huggingface=Format(
        kinds=("bert",),
        read=read,
        write=write,
        rows=rows,
        prefix="bert.",
        heads=("cls.", "classifier.", "qa_outputs."),
        renamed={
            "LayerNorm.gamma": "LayerNorm.weight",
            "LayerNorm.beta": "LayerNorm.bias",
        },
        copies={
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        ignored=("embeddings.position_ids", "embeddings.token_type_ids"),
        left_out=("cls.seq_relationship.*", "pooler.*", "classifier.*", "qa_outputs.*"),
    ),
    keras_hub=Format(
        kinds=("BertBackbone",),
        read=hub_read,
        write=hub_write,
        rows=hub_rows,
        ignored=("task/optimizer/*",),
        left_out=("task/*",),
    ),
)

ROBERTA = Family(
    name="roberta",
    model=MODEL,
    sizes=sizes,
    mismatch=roberta_mismatch,
    huggingface=Format(
        kinds=("roberta", "xlm-roberta", "camembert"),
        read=read_roberta,
        write=write_roberta,
        rows=roberta_rows,
        prefix="roberta.",
        heads=("lm_head.", "classifier.", "qa_outputs."),
        copies={
            "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        },
        ignored=("embeddings.position_ids", "embeddings.token_type_ids"),
        left_out=("pooler.*", "classifier.*", "qa_outputs.*"),
    ),
)
