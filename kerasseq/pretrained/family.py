"""What the package knows about one kind of model, in one form for all of them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Format:
    """A kind of model in one kind of folder. All functions are of plain data.

    Attributes:
        kinds: What folders call it: the `model_type`, or names of classes.
        read: From `Settings`, and the shapes of the tensors by name, to the arguments
            of our model.
        write: From the arguments of our model to the settings of a folder; with "task",
            a class of KerasHub and its settings, if there is a head.
        rows: From the arguments of our model to its table of `Row`s.
        architectures: The classes, one of which a folder must name first; any if empty.
        prefix: What may stand before the names of the trunk, as it does in files of
            models with a head; written always.
        heads: How names begin that are not of the trunk.
        renamed: Older endings of names, and what they are called now.
        instead: Names that may be missing, and whose tensor is taken then.
        copies: Names of second copies, and of what: they must be equal.
        ignored: Patterns of names of what is no weight.
        left_out: Patterns of names of heads that our model does not have.
    """

    kinds: tuple[str, ...]
    read: Callable[[Any, dict], dict]
    write: Callable[[dict], dict]
    rows: Callable[[dict], list]
    architectures: tuple[str, ...] = ()
    prefix: str = ""
    heads: tuple[str, ...] = ()
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    instead: Mapping[str, str] = dataclasses.field(default_factory=dict)
    copies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Family:
    """One kind of model.

    Attributes:
        name: As folders of Hugging Face call it.
        model: Our class.
        sizes: From the arguments of our model to what each letter of a row stands for.
        misfit: From the arguments to what keeps a model from being of this family, in
            words; None if nothing does.
        huggingface: The `Format` of folders of Hugging Face.
        keras_hub: That of presets of KerasHub, or None.
        check: A function of the folder, which raises if another of its files says
            something that our model does not do.
    """

    name: str
    model: type
    sizes: Callable[[dict], dict]
    misfit: Callable[[dict], str | None]
    huggingface: Format
    keras_hub: Format | None = None
    check: Callable = lambda folder: None


def differing(arguments, wanted):
    """The first argument that is not as wanted, in words; None if there is none.

    Examples:
        >>> differing({"norm": "rms"}, {"norm": "layer"})
        "norm='rms' instead of 'layer'"
    """
    for name, right in wanted.items():
        if arguments[name] != right:
            return f"{name}={arguments[name]!r} instead of {right!r}"
    return None
