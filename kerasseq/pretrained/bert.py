"""BERT in the folders of others."""

import itertools

from kerasseq.language.bert import BERT as MODEL
from kerasseq.pretrained import common, hub_layers
from kerasseq.pretrained.common import BLOCK, HUB_HEAD, LAYER
from kerasseq.pretrained.family import Family, Format, differing
from kerasseq.pretrained.layouts import REVERSED, SAME, dense, layer_norm, numbered, one
from kerasseq.pretrained.tokenizers import special_ids

CLASSES = {
    None: "BertModel",
    "sequence": "BertModel",
    "tokens": "BertForMaskedLM",
    "pretraining": "BertForPreTraining",
    "classify": "BertForSequenceClassification",
    "tag": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}
ID_NAMES = {  # most folders have the first alone
    "[PAD]": "pad_token_id",
    "[UNK]": "unk_token_id",
    "[CLS]": "cls_token_id",
    "[SEP]": "sep_token_id",
    "[MASK]": "mask_token_id",
}


def sizes(a):
    """What the letters of the rows stand for; C are classes, S segments."""
    return {
        "V": a["vocabulary_size"],
        "T": a["max_sequence_length"],
        "S": a["num_segments"],
        **common.block_sizes(a),
        "E": a["hidden_dim"],
        "C": a["num_classes"] or 2,
    }


def misfit(a):
    """What keeps a `BERT` from being the one of the paper."""
    return differing(a, {"pair_separators": 1})


def read(settings, shapes):
    """The arguments of a `BERT`, of the settings of Hugging Face."""
    settings.only(
        position_embedding_type="absolute", is_decoder=False, add_cross_attention=False
    )
    head = _head(settings, shapes)
    has_classes = head in ("classify", "tag")
    return {
        **read_shared(settings),
        "max_sequence_length": settings.whole("max_position_embeddings"),
        "special_ids": _special_ids(settings, settings.whole("vocab_size")),
        "head": head,
        "num_classes": (
            common.classes(shapes, "classifier.weight") if has_classes else None
        ),
    }


def read_shared(settings):
    """The arguments that BERT and RoBERTa call the same."""
    return {
        "vocabulary_size": settings.whole("vocab_size"),
        "num_layers": settings.whole("num_hidden_layers"),
        "num_heads": settings.whole("num_attention_heads"),
        "hidden_dim": settings.whole("hidden_size"),
        "intermediate_dim": settings.whole("intermediate_size"),
        "num_segments": settings.whole("type_vocab_size"),
        "activation": settings.word("hidden_act", common.ACTIVATIONS, "gelu"),
        "layer_norm_epsilon": settings.number("layer_norm_eps", 1e-12),
        "dropout": settings.rate("hidden_dropout_prob", 0.1),
    }


def _special_ids(settings, size):
    """Those of the published files, where the settings say nothing else."""
    found = special_ids(size, settings.id("pad_token_id", size, 0))
    known = {token: name for token, name in ID_NAMES.items() if name in settings}
    return found | {t: settings.id(name, size, None) for t, name in known.items()}


def _head(settings, shapes):
    """The head that a file holds: more than one class of model has a classifier."""
    if "cls.predictions.bias" in shapes:
        parts = {"cls.seq_relationship.weight", "pooler.dense.weight"}
        return "pretraining" if parts <= set(shapes) else "tokens"
    known = {theirs: ours for ours, theirs in CLASSES.items()}
    head = known.get(common.architecture(settings))
    needs = {"classify": "classifier.weight", "tag": "classifier.weight"}
    needs["span"] = "qa_outputs.weight"
    if needs.get(head) in shapes:
        return head
    return common.head_of_trunk(shapes)


def write(a):
    """The settings of Hugging Face."""
    return {
        "architectures": [CLASSES[a["head"]]],
        **write_shared(a),
        "max_position_embeddings": a["max_sequence_length"],
        **{ID_NAMES[token]: n for token, n in a["special_ids"].items()},
    }


def write_shared(a):
    """The settings that BERT and RoBERTa have."""
    s = sizes(a)
    return {
        "vocab_size": s["V"],
        "num_hidden_layers": a["num_layers"],
        "num_attention_heads": s["N"],
        "hidden_size": s["D"],
        "intermediate_size": s["F"],
        "type_vocab_size": s["S"],
        "hidden_act": common.WORDS[a["activation"]],
        "layer_norm_eps": a["layer_norm_epsilon"],
        "hidden_dropout_prob": a["dropout"],
        "attention_probs_dropout_prob": a["dropout"],
        **common.labels(a),
    }


def rows(a):
    """The table of Hugging Face."""
    return [*rows_of_trunk(), *itertools.chain(*HEADS[a["head"]])]


def rows_of_trunk(positions=SAME):
    """The rows below every head.

    Args:
        positions: How the table of positions differs in the file.
    """
    found = []
    for theirs, ours, letter, values in (
        ("word", "embedding", "V", SAME),
        ("position", "position_embedding", "T", positions),
        ("token_type", "segment_embedding", "S", SAME),
    ):
        name, path = f"embeddings.{theirs}_embeddings.weight", f"{ours}/embeddings"
        found.append(one(name, path, f"{letter} D", values=values))
    found += layer_norm("embeddings.LayerNorm", "embedding_norm")
    found += common.encoder_layer("attention.self")
    for theirs, ours in (
        ("attention.output", "self_attention"),
        ("output", "feedforward"),
    ):
        found += layer_norm(f"{LAYER}.{theirs}.LayerNorm", f"{BLOCK}/{ours}_layer_norm")
    return found


POOLER = dense("pooler.dense", "pooler", "D", "E")
TAGS = dense("classifier", "tags", "D", "C")
SPAN = dense("qa_outputs", "span", "D", "C")
_CLASSES = dense("classifier", "classes", "D", "C")
_TOKENS = [
    *dense("cls.predictions.transform.dense", "token_dense", "D", "E"),
    *layer_norm("cls.predictions.transform.LayerNorm", "token_norm"),
    one("cls.predictions.bias", "tokens/bias", "V"),
]
# Their class 0 is "b follows a", which is 1 here.
_NEXT = dense("cls.seq_relationship", "next", "D", "C", values=REVERSED)
HEADS = {
    None: [POOLER],
    "sequence": [],
    "tokens": [_TOKENS],
    "pretraining": [_TOKENS, POOLER, _NEXT],
    "classify": [POOLER, _CLASSES],
    "tag": [TAGS],
    "span": [SPAN],
}


def hub_read(settings, shapes):
    """The arguments of a `BERT`, of the settings of KerasHub."""
    kind, task = settings.task
    head = classes = None
    if kind == "BertTextClassifier" and f"{HUB_HEAD}/vars/0" in shapes:
        task.only(activation="linear")
        head, classes = "classify", common.classes(shapes, f"{HUB_HEAD}/vars/0", 1)
    size = settings.whole("vocabulary_size")
    return {
        **{name: settings.whole(name) for name in common.HUB_SIZES},
        "intermediate_dim": settings.whole("intermediate_dim"),
        "num_segments": settings.whole("num_segments", 2),
        "dropout": settings.rate("dropout", 0.1),
        "special_ids": special_ids(size, 0),
        "head": head,
        "num_classes": classes,
    }


def hub_write(a):
    """The settings of KerasHub."""
    wanted = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12}
    if a["head"] != "classify":
        wanted["head"] = None
    if wrong := differing(a, wanted):
        raise ValueError(f"a BertBackbone of KerasHub cannot have {wrong}")
    found = {name: a[name] for name in (*common.HUB_SIZES, "num_segments", "dropout")}
    found["intermediate_dim"] = sizes(a)["F"]
    if a["head"] is not None:
        options = {"num_classes": a["num_classes"], "activation": "linear"}
        found["task"] = ("BertTextClassifier", {**options, "dropout": a["dropout"]})
    return found


def hub_rows(a):
    """The table of KerasHub."""
    found = [
        *hub_layers.block("layers/transformer_encoder{_n}"),
        *hub_layers.norm("layers/layer_normalization", "embedding_norm"),
        *hub_layers.weights("layers/dense", "pooler", "D E", "E"),
    ]
    for theirs, ours, letter in (
        ("reversible_embedding", "embedding", "V"),
        ("position_embedding", "position_embedding", "T"),
        ("embedding", "segment_embedding", "S"),
    ):
        found += numbered(f"layers/{theirs}", [f"{ours}/embeddings"], f"{letter} D")
    if a["head"] == "classify":
        found += hub_layers.weights(HUB_HEAD, "classes", "D C", "C")
    return found


BERT = Family(
    name="bert",
    model=MODEL,
    sizes=sizes,
    misfit=misfit,
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
