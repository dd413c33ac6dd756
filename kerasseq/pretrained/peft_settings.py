"""`adapter_config.json` of PEFT, read with checks, and written.

Settings that change what an adapter computes, and that kerasseq does not have, are
errors. Patterns of modules are regular expressions from an untrusted file: only those
that are matched quickly are read.
"""

import collections
import dataclasses
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kerasseq.pretrained.folders import Settings, read_table
from kerasseq.pretrained.low_rank import Product

CONFIG = "adapter_config.json"
NEUTRAL = {  # what the settings must be, or null, or empty
    "bias": "none",
    **dict.fromkeys(("use_dora", "lora_bias", "use_qalora"), "false"),
    **dict.fromkeys(("use_bdlora", "arrow_config", "kasa_config"), "null"),
    **dict.fromkeys(("monteclora_config", "alora_invocation_tokens"), "null"),
    **dict.fromkeys(("trainable_token_indices", "layer_replication"), "null"),
    "target_parameters": "null: experts of a mixture are not adapted",
}
PLAIN_STARTS = (True, False, "gaussian", "eva", "orthogonal")  # leave the kernels alone
MOST_CHOICES = 3  # groups and repetitions in a pattern


@dataclasses.dataclass(frozen=True)
class PeftSettings:
    """The settings of an adapter in PEFT.

    Attributes:
        where: The file.
        rank: r.
        alpha: `lora_alpha`.
        dropout: `lora_dropout`.
        rank_pattern: Ranks by pattern of modules.
        alpha_pattern: Numerators of the factor by pattern of modules.
        is_root: Whether the factor has the square root of the rank below.
        targets: Names of the adapted modules; None if they are chosen by a pattern.
        saved: Names of modules that are saved whole.
    """

    where: pathlib.Path
    rank: int
    alpha: float
    dropout: float
    rank_pattern: Mapping[re.Pattern[str], int]
    alpha_pattern: Mapping[re.Pattern[str], float]
    is_root: bool
    targets: Sequence[str] | None
    saved: Sequence[str]

    def rank_of(self, module: str) -> int:
        """Returns the rank of a module."""
        return _value(self.rank_pattern, module, self.rank)

    def alpha_of(self, module: str) -> float:
        """Returns the alpha of a module whose factor is alpha / r."""
        alpha = _value(self.alpha_pattern, module, self.alpha)
        return alpha * math.sqrt(self.rank_of(module)) if self.is_root else alpha

    def has_target(self, module: str) -> bool:
        """Returns whether a module is one of the targets; True for a pattern."""
        return self.targets is None or _is_named(module, self.targets)

    def saves(self, module: str) -> bool:
        """Returns whether a module is saved whole."""
        return _is_named(module, self.saved)


def _value(table, module, default):
    return next((x for key, x in table.items() if key.match(module)), default)


def _is_named(module, names):
    return any(f".{module}".endswith(f".{name}") for name in names)


def read_settings(path: pathlib.Path) -> PeftSettings:
    """Reads the settings of a folder.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, or has settings that kerasseq does not have.
    """
    if not path.exists():
        raise FileNotFoundError(
            f"{path.parent} has no {CONFIG}: it is no folder of PEFT. An adapter of "
            "kerasseq is a file that ends in .safetensors"
        )
    settings = Settings(read_table(path), path)
    _check_kind(settings)
    return PeftSettings(
        path,
        settings.whole("r"),
        settings.number("lora_alpha"),
        settings.rate("lora_dropout"),
        _patterns(settings, "rank_pattern", Settings.whole),
        _patterns(settings, "alpha_pattern", Settings.number),
        settings.boolean("use_rslora", False),
        _targets(settings),
        _names(settings, "modules_to_save"),
    )


def _check_kind(settings):
    """Raises an error if an adapter computes something that kerasseq does not."""
    if settings.get("peft_type") != "LORA":
        settings.refuse("peft_type", '"LORA"', "kerasseq reads")
    for name, neutral in NEUTRAL.items():
        value = settings.get(name, None)
        if value and value != neutral:
            settings.refuse(name, neutral, "kerasseq reads")
    start = settings.get("init_lora_weights", True)
    if start not in PLAIN_STARTS:
        settings.refuse(
            "init_lora_weights",
            "true, as the kernels were changed, too. Let PEFT convert it: "
            "save_pretrained(…, path_initial_model_for_weight_conversion=…)",
        )


def _targets(settings):
    """Returns the names of modules; None for a pattern, as the weights show them."""
    value = settings.get("target_modules", "")
    return None if isinstance(value, str) else _names(settings, "target_modules")


def _names(settings, name):
    value = settings.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        settings.refuse(name, "a list of names of modules")
    return value


def _patterns(settings, name, check):
    """Returns the values of a table by the pattern of a module that ends in its key."""
    table = settings.get(name, {})
    if not isinstance(table, dict):
        settings.refuse(name, "a table of values by module")
    part = Settings(table, f"{settings.where}, {name}")
    return {_compiled(part, key): check(part, key) for key in table}


def _compiled(part, key):
    """Compiles a pattern without choices in choices, whose time could be exponential.

    Examples:
        >>> part = Settings({"(a*)*": 3}, "x.json")
        >>> _compiled(part, "(q|v)_proj").match("layers.0.q_proj") is None
        False
        >>> _compiled(part, "(a*)*")
        Traceback (most recent call last):
        ...
        ValueError: x.json: (a*)* = 3, but its name must be a name of modules, or a \
regular expression with at most 3 groups and repetitions, and no repeated group
    """
    choices = len(re.findall(r"[(*+?{]", key))
    try:
        if choices <= MOST_CHOICES and not re.search(r"\)[*+?{]", key):
            return re.compile(rf"(.*\.)?({key})$")
    except (re.error, OverflowError, RecursionError):
        pass
    return part.refuse(
        key,
        "a name of modules, or a regular expression with at most "
        f"{MOST_CHOICES} groups and repetitions, and no repeated group",
        "its name must be",
    )


def to_settings(
    products: Mapping[str, Product],
    *,
    dropout: float,
    saved: Sequence[str],
    inputs_first: bool,
    architecture: str,
) -> dict[str, Any]:
    """Returns the content of the file, with the fields of all versions of PEFT.

    Args:
        products: The products by module.
        dropout: Of all of them.
        saved: Names of modules that are saved whole.
        inputs_first: Whether the kernels of the modules have their inputs first.
        architecture: The class in `transformers`.
    """
    ranks = {name: product.rank for name, product in products.items()}
    alphas = {name: _plain(product.alpha) for name, product in products.items()}
    (rank, rank_pattern), (alpha, alpha_pattern) = map(_common, (ranks, alphas))
    tasks = {"LM": "CAUSAL_LM", "LMHeadModel": "CAUSAL_LM"}
    tasks["ForConditionalGeneration"] = "SEQ_2_SEQ_LM"
    kinds = (task for end, task in tasks.items() if architecture.endswith(end))
    return {
        "peft_type": "LORA",
        "task_type": next(kinds, None),
        "auto_mapping": None,
        "base_model_name_or_path": None,
        "revision": None,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": list(products),
        "rank_pattern": rank_pattern,
        "alpha_pattern": alpha_pattern,
        "modules_to_save": list(saved) or None,
        "fan_in_fan_out": inputs_first,
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
        "layers_to_transform": None,
        "layers_pattern": None,
    }


def _common(values):
    """Returns the most frequent value, and the others by module.

    Examples:
        >>> _common({"a": 2, "b": 3, "c": 2})
        (2, {'b': 3})
    """
    common = collections.Counter(values.values()).most_common(1)[0][0]
    return common, {name: x for name, x in values.items() if x != common}


def _plain(number):
    """Returns a whole number as one, as PEFT declares it."""
    return int(number) if float(number).is_integer() else float(number)
