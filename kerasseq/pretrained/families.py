"""The kinds of models whose weights are known, and which of them a thing is."""

from kerasseq.core.checks import nearest
from kerasseq.pretrained.bert import BERT
from kerasseq.pretrained.common import architecture
from kerasseq.pretrained.gpt2 import GPT2
from kerasseq.pretrained.llama import LLAMA
from kerasseq.pretrained.llama_kin import KIN
from kerasseq.pretrained.roberta import ROBERTA
from kerasseq.pretrained.t5 import T5, T5_ENCODER
from kerasseq.pretrained.vit import VIT

FAMILIES = (GPT2, LLAMA, *KIN, BERT, ROBERTA, T5_ENCODER, T5, VIT)
FORMATS = {"huggingface": "Hugging Face", "keras_hub": "KerasHub"}


def of_folder(folder, form, kind, settings):
    """The family of a folder.

    Args:
        folder: For messages.
        form: One of `FORMATS`.
        kind: What the folder calls its model.
        settings: Its `Settings`.

    Raises:
        ValueError: If there is no such family.
    """
    known, name = [], architecture(settings)
    for family in FAMILIES:
        format = getattr(family, form)
        if format is None:
            continue
        if kind in format.kinds and name in (format.architectures or (name,)):
            return family
        known += [kind for kind in format.kinds if kind not in known]
    raise ValueError(
        f"{folder} holds a model of the kind {kind!r} of {FORMATS[form]}; kerasseq "
        f"knows {', '.join(known)}.{nearest(kind, known)}"
    )


def of_model(model, form, arguments):
    """The family of a model.

    Args:
        model: The model.
        form: One of `FORMATS`.
        arguments: Those it was made from.

    Raises:
        TypeError: If it is of no class that has a family.
        ValueError: If its options are those of no family.
    """
    name = type(model).__name__
    known = [family for family in FAMILIES if family.model is type(model)]
    if not known:
        classes = dict.fromkeys(family.model.__name__ for family in FAMILIES)
        inner = "; give its language_model()" * hasattr(model, "language_model")
        raise TypeError(
            f"there are folders for {', '.join(classes)}, but not for {name}{inner}"
        )
    reasons = [(family, family.misfit(arguments)) for family in known]
    for family, reason in reasons:
        if reason is None and getattr(family, form) is None:
            raise ValueError(
                f"a model of the kind {family.name} can be written in the form "
                f'"huggingface", received format="{form}". Leave format out'
            )
        if reason is None:
            return family
    raise ValueError(
        f"this {name} is none that others have: "
        + "; ".join(f"for {family.name} it has {reason}" for family, reason in reasons)
    )
