"""`Family` and `Format`: the description of one kind of model, and its shared parts."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import keras

from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row

Arguments: TypeAlias = dict[str, Any]  # of a model, by name
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]  # of tensors, by name

ACTIVATIONS = {  # of Hugging Face; of two names for one, the first is written
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
ACTIVATION_NAMES = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "DoubleHeadsModel")
HUB_HEAD = "task/layers/dense"  # the classifier of a KerasHub task


@dataclasses.dataclass(frozen=True)
class Format:
    """A family in the folders of one library.

    Attributes:
        kinds: Names that a folder has for the family: the `model_type`, or the class.
        read: Converts `Settings`, and the shapes of the tensors by name, to arguments
            of the model.
        write: Converts arguments of the model to the settings of a folder. With a head,
            "task" is a class of KerasHub and its settings.
        rows: Returns the table of `Row`s for the arguments of a model.
        read_rows: Returns the table for a folder by the shapes of its tensors, where
            there are folders with others than those that are written.
        architectures: Classes of which the folder must name one first. Any if empty.
        prefix: Optional prefix of the names of the backbone's tensors, as in files of
            models with a head. It is always written.
        heads: Prefixes of the names of tensors outside the backbone.
        renamed: Older suffixes of names, and the current ones.
        instead: Tensors that may be missing, and those that are used then.
        copies: Tensors that are copies of other tensors; both must be equal.
        ignored: Patterns of names of tensors that are not weights.
        left_out: Patterns of names of weights that the model does not have.
        modules: Parts of names of tensors, and what they are in the names of modules
            since these were renamed; applied in this order.
    """

    kinds: tuple[str, ...]
    read: Callable[[Settings, Shapes], Arguments]
    write: Callable[[Arguments], dict[str, Any]]
    rows: Callable[[Arguments], list[Row]]
    architectures: tuple[str, ...] = ()
    prefix: str = ""
    heads: tuple[str, ...] = ()
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    instead: Mapping[str, str] = dataclasses.field(default_factory=dict)
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read_rows: Callable[[Arguments, Shapes], list[Row]] | None = None

    def table(self, arguments: Arguments, shapes: Shapes) -> list[Row]:
        """Returns the table of `Row`s to read a folder with."""
        if self.read_rows is None:
            return self.rows(arguments)
        return self.read_rows(arguments, shapes)


@dataclasses.dataclass(frozen=True)
class Family:
    """One kind of model.

    Attributes:
        name: The name in folders of Hugging Face.
        model: The class of the model.
        sizes: Returns the size of each letter of the rows for the arguments of a model.
        mismatch: Returns why a model with these arguments is not of this family, or
            None if it is.
        huggingface: The `Format` of Hugging Face, or None.
        keras_hub: The `Format` of KerasHub, or None.
        with_layers: Names of the arguments that may be layers in it, or lists of them.
        check: Called with the folder; raises if another file in it requires something
            that the model does not do.
        complete: Returns the arguments of a model with those of other files, for a
            folder and the name of its `Format`; None for the tokenizer alone.
        write_files: Writes those files into a folder, for the same and the arguments.
    """

    name: str
    model: type[keras.Model]
    sizes: Callable[[Arguments], dict[str, int]]
    mismatch: Callable[[Arguments], str | None]
    huggingface: Format | None = None
    keras_hub: Format | None = None
    with_layers: tuple[str, ...] = ()
    check: Callable[[pathlib.Path], None] = lambda folder: None
    complete: Callable[[pathlib.Path, str, Arguments], Arguments] | None = None
    write_files: Callable[[pathlib.Path, str, Arguments], None] = (
        lambda folder, form, arguments: None
    )


DENSE = {"attention": "multi_head", "sliding_window": None}  # of published encoders


def difference(arguments: Arguments, expected: Arguments) -> str | None:
    """Describes the first argument that is not as expected; None if there is none.

    Examples:
        >>> difference({"norm": "rms"}, {"norm": "layer"})
        "norm='rms' instead of 'layer'"
    """
    for name, value in expected.items():
        if arguments.get(name, value) != value:
            return f"{name}={arguments[name]!r} instead of {value!r}"
    return None


def layers_mismatch(a: Arguments, but: tuple[str, ...] = ()) -> str | None:
    """Describes the layers that a model has in its blocks, where a format has none.

    Args:
        a: Arguments of the model.
        but: Names of the arguments that may be layers.

    Examples:
        >>> layers_mismatch({"attention": "gla"})
        "attention='gla'"
    """
    for name, standard in (("attention", "multi_head"), ("feed_forward", "")):
        value = a.get(name, standard)
        if name in but:
            continue
        if not isinstance(value, str) or standard and value != standard:
            return f"{name}={value!r}"
    return None


def attention_mismatch(a: Arguments, expected: Arguments) -> str | None:
    """Describes why a model is not one with a key per query and `expected` options."""
    for name, value in (
        ("num_key_value_heads", a["num_heads"]),
        ("head_dim", a["hidden_dim"] // a["num_heads"]),
    ):
        if a[name] not in (None, value):
            return f"{name}={a[name]} instead of {value}"
    if a["feed_forward"] not in ACTIVATION_NAMES:
        return f"feed_forward={a['feed_forward']!r}"
    return difference(a, expected)


def block_sizes(a: Arguments) -> dict[str, int]:
    """Returns the sizes that all transformer blocks have.

    Examples:
        >>> block_sizes({"hidden_dim": 12, "num_heads": 3, "intermediate_dim": None})
        {'D': 12, 'N': 3, 'K': 4, 'F': 48}
    """
    return {
        "D": a["hidden_dim"],
        "N": a["num_heads"],
        "K": a.get("head_dim") or a["hidden_dim"] // a["num_heads"],
        "F": a["intermediate_dim"] or 4 * a["hidden_dim"],
    }


def with_biases(a: Arguments) -> Arguments:
    """Returns the arguments with `use_query_key_value_bias` resolved.

    Examples:
        >>> a = {"use_bias": True, "use_query_key_value_bias": None}
        >>> with_biases(a)["use_query_key_value_bias"]
        True
    """
    bias = a["use_query_key_value_bias"]
    return {**a, "use_query_key_value_bias": a["use_bias"] if bias is None else bias}


def architecture(settings: Settings) -> str:
    """Returns the first class that a folder of Hugging Face names; "" if none."""
    names = settings.get("architectures", [])
    return str(names[0]) if isinstance(names, list) and names else ""


def gpt_head(settings: Settings, shapes: Shapes, tied: bool) -> str | None:
    """Returns the head of a `GPT`: "tokens", or None for a base model.

    Args:
        settings: The `Settings`.
        shapes: Shapes of the tensors by name.
        tied: Whether the embedding computes the logits.
    """
    name = architecture(settings) or LANGUAGE_MODELS[0]
    if tied or "lm_head.weight" in shapes or name.endswith(LANGUAGE_MODELS):
        return "tokens"
    return None


def head_of_backbone(shapes: Shapes) -> str | None:
    """Returns the head of a `BERT` without a task: "sequence" if it has no pooler.

    Examples:
        >>> print(head_of_backbone({"pooler.dense.weight": (3, 3)}))
        None
    """
    return None if any(name.startswith("pooler.") for name in shapes) else "sequence"


def num_classes(shapes: Shapes, name: str, axis: int = 0) -> int | None:
    """Returns the number of classes of a head by its kernel; None without one.

    Examples:
        >>> num_classes({"classifier.weight": (3, 12)}, "classifier.weight")
        3
    """
    shape = shapes.get(name)
    if shape is None:
        return None
    return shape[axis] if len(shape) == 2 else 1  # a wrong shape raises later


def label_count(labels: int | list[Any] | None) -> int | None:
    """Returns the number of labels, given as a number or as names.

    Examples:
        >>> label_count(["neg", "pos"]), label_count(3), label_count(None)
        (2, 3, None)
    """
    return labels if labels is None or isinstance(labels, int) else len(labels)
