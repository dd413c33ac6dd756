"""Tables of settings that are arguments of a model under another name.

A table is read in both directions: to load a folder, and to write one.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kerasseq.pretrained.family import Arguments, block_sizes
from kerasseq.pretrained.folders import Settings

# The argument, the setting, the method of `Settings` that reads it, and a default.
Field: TypeAlias = tuple[Any, ...]
Check: TypeAlias = Callable[..., Any]

WHOLE: Check = Settings.whole
NUMBER: Check = Settings.number
RATE: Check = Settings.rate
BOOLEAN: Check = Settings.boolean

# Names that are the same in a backbone of KerasHub.
HUB_TRANSFORMER: list[Field] = [
    *((name, name, WHOLE) for name in ("vocabulary_size", "num_layers", "num_heads")),
    *((name, name, WHOLE) for name in ("hidden_dim", "intermediate_dim")),
    ("max_sequence_length", "max_sequence_length", WHOLE),
    ("dropout", "dropout", RATE, 0.1),
]


def read(settings: Settings, fields: Sequence[Field]) -> Arguments:
    """Returns the arguments that settings of a folder have by a table.

    Args:
        settings: The `Settings`.
        fields: The table.

    Raises:
        ValueError: If a setting is missing or wrong.

    Examples:
        >>> settings = Settings({"n_layer": 3}, "config.json")
        >>> fields = [("num_layers", "n_layer", WHOLE), ("dropout", "drop", RATE, 0.1)]
        >>> read(settings, fields)
        {'num_layers': 3, 'dropout': 0.1}
    """
    return {
        argument: check(settings, setting, *default)
        for argument, setting, check, *default in fields
    }


def write(a: Arguments, fields: Sequence[Field]) -> dict[str, Any]:
    """Returns the settings that arguments of a model are by a table.

    Examples:
        >>> write({"num_layers": 3}, [("num_layers", "n_layer", WHOLE)])
        {'n_layer': 3}
    """
    return {setting: a[argument] for argument, setting, *_ in fields}


def resolved(a: Arguments) -> Arguments:
    """Returns the arguments with those sizes that were left out.

    Examples:
        >>> a = {"hidden_dim": 6, "num_heads": 3, "intermediate_dim": None}
        >>> a = resolved(a)
        >>> a["intermediate_dim"], a["head_dim"], a["num_key_value_heads"]
        (24, 2, 3)
    """
    sizes = block_sizes(a)
    key_heads = a.get("num_key_value_heads") or a["num_heads"]
    own = {"intermediate_dim": sizes["F"], "head_dim": sizes["K"]}
    return {**a, **own, "num_key_value_heads": key_heads}
