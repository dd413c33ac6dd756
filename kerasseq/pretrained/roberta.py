"""RoBERTa in folders of Hugging Face: a BERT whose table of positions begins later.

Positions are counted from the id of padding plus 1, so that the first rows of the table
are those of no token. Liu et al. 2019; XLM-R, Conneau et al. 2020.
"""

import itertools

from kerasseq.language.bert import BERT
from kerasseq.pretrained import bert, common
from kerasseq.pretrained.family import Family, Format, differing
from kerasseq.pretrained.layouts import dense, layer_norm, one, rows_before

NAME = "Roberta"
ENDS = {
    None: "Model",
    "sequence": "Model",
    "tokens": "ForMaskedLM",
    "classify": "ForSequenceClassification",
    "tag": "ForTokenClassification",
    "span": "ForQuestionAnswering",
}
ID_NAMES = {
    **bert.ID_NAMES,
    "[CLS]": "bos_token_id",
    "[SEP]": "eos_token_id",
}
HEADS = {
    None: [bert.POOLER],
    "sequence": [],
    "tokens": [
        dense("lm_head.dense", "token_dense", "D", "E"),
        layer_norm("lm_head.layer_norm", "token_norm"),
        [one("lm_head.bias", "tokens/bias", "V")],
    ],
    "classify": [
        dense("classifier.dense", "pooler", "D", "E"),
        dense("classifier.out_proj", "classes", "D", "C"),
    ],
    "tag": [bert.TAGS],
    "span": [bert.SPAN],
}


def misfit(a):
    """What keeps a `BERT` from being a RoBERTa."""
    if a["head"] not in HEADS:
        return f"head={a['head']!r}"
    return differing(a, {"pair_separators": 2, "activation": "gelu"})


def read(settings, shapes):
    """The arguments of a `BERT`, of the settings of Hugging Face."""
    settings.only(
        position_embedding_type="absolute",
        is_decoder=False,
        add_cross_attention=False,
        hidden_act="gelu",  # the head of masked words has no other
    )
    special_ids = _special_ids(settings, settings.whole("vocab_size"))
    unused = special_ids["[PAD]"] + 1
    length = settings.whole("max_position_embeddings")
    if length <= unused:
        settings.refuse(
            "max_position_embeddings", f"more than pad_token_id + 1 = {unused}"
        )
    head = _head(settings, shapes)
    weight = {"tag": "classifier.weight", "classify": "classifier.out_proj.weight"}
    return {
        **bert.read_shared(settings),
        "max_sequence_length": length - unused,
        "special_ids": special_ids,
        "head": head,
        "num_classes": common.classes(shapes, weight[head]) if head in weight else None,
        "pair_separators": 2,
    }


def _special_ids(settings, size):
    """Those of the published files, where the settings say nothing else."""
    published = {"[PAD]": 1, "[UNK]": 3, "[CLS]": 0, "[SEP]": 2, "[MASK]": size - 1}
    return {
        token: settings.id(ID_NAMES[token], size, min(i, size - 1))
        for token, i in published.items()
    }


def _head(settings, shapes):
    """The head that a file holds."""
    if "lm_head.bias" in shapes:
        return "tokens"
    if "classifier.out_proj.weight" in shapes:
        return "classify"
    name = common.architecture(settings)
    for head, weight in (("tag", "classifier.weight"), ("span", "qa_outputs.weight")):
        if name.endswith(ENDS[head]) and weight in shapes:
            return head
    return common.head_of_trunk(shapes)


def write(a):
    """The settings of Hugging Face."""
    ids = a["special_ids"]
    return {
        "architectures": [NAME + ENDS[a["head"]]],
        **bert.write_shared(a),
        "max_position_embeddings": a["max_sequence_length"] + ids["[PAD]"] + 1,
        **{ID_NAMES[token]: n for token, n in ids.items()},
    }


def rows(a):
    """The table of Hugging Face."""
    positions = rows_before(a["special_ids"]["[PAD]"] + 1)
    return [*bert.rows_of_trunk(positions), *itertools.chain(*HEADS[a["head"]])]


ROBERTA = Family(
    name="roberta",
    model=BERT,
    sizes=bert.sizes,
    misfit=misfit,
    huggingface=Format(
        kinds=("roberta", "xlm-roberta", "camembert"),
        read=read,
        write=write,
        rows=rows,
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
