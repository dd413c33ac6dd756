"""Hyper-parameters as attributes and as plain JSON, told apart by the ends of names."""

import functools
import inspect
import random
from typing import Any

import keras

from kerasseq.core import checks
from kerasseq.core.types import DType

_KINDS = {
    "activation": keras.activations,
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}
# What the arguments of constructors are, by their names: None is checked elsewhere.
_FLAGS = (
    *("bidirectional", "coupled", "embedding_norm", "feed_back", "gated"),
    *("go_backwards", "hard", "input_feeding", "interleaved", "invert", "learnable"),
    *("mask_zero", "normalize_first", "parallel", "published_ids", "reset_after"),
    *("residual", "return_sequences", "return_state", "sampled", "scale_embeddings"),
    *("share_embeddings", "stateful", "tie_embeddings", "tie_weights", "truncate"),
    *("unit_forget_bias", "unroll", "use_bias", "use_gate"),
    *("zero_output_for_mask",),
)
_SIZES = (
    *("channels", "code_dim", "embedding_dim", "denominator_dim", "features"),
    *("head_dim", "hidden_dim", "horizon", "input_dim", "intermediate_dim", "key_dim"),
    *("max_distance", "max_length", "max_sequence_length", "num_buckets"),
    *("num_classes", "num_decoder_layers", "num_heads", "num_key_value_heads"),
    *("num_layers", "num_segments", "original_max_position_embeddings", "output_dim"),
    *("relative_buckets", "sequence_length", "sliding_window"),
    *("source_vocabulary_size", "steps", "target_vocabulary_size", "units"),
    *("value_dim", "vocabulary_size"),
)
_NUMBERS = (
    *("beta_fast", "beta_slow", "high_freq_factor", "low_freq_factor", "mask_value"),
    "embedding_scale",
)
_ABOVE_0 = (
    *("alibi_bias_max", "attention_factor", "layer_norm_epsilon"),
    *("max_wavelength", "scaling_factor", "width"),
)
_CHECKS = {
    **dict.fromkeys(_FLAGS, checks.flag),
    **dict.fromkeys(_SIZES, checks.size),
    **dict.fromkeys(_NUMBERS, checks.number),
    **dict.fromkeys(_ABOVE_0, checks.positive),
    **dict.fromkeys(("dropout", "recurrent_dropout"), checks.rate),
    "fraction": checks.fraction,
    "scale": checks.finite,
    "seed": checks.seed,
    **dict.fromkeys(("sequence_axis", "feature_axis"), checks.axis),
}
# Each has a weight with so many rows, as wide as the first of these that is given.
_ROWS = (
    *("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size"),
    *("input_dim", "num_segments", "intermediate_dim", "features"),
    *("head_dim", "horizon", "key_dim", "value_dim"),
)
_WIDTHS = ("hidden_dim", "embedding_dim", "output_dim", "units")


def own(local_names: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an `__init__`, checked, from its `locals()`, without `**kwargs`.

    Raises:
        TypeError: If a flag, size, rate or number is of another type.
        ValueError: If its value is out of bounds.

    Examples:
        >>> own({"units": 3, "use_bias": "yes"})
        Traceback (most recent call last):
        TypeError: use_bias must be True or False, received 'yes'
    """
    given = {
        name: value
        for name, value in local_names.items()
        if name not in ("self", "__class__", "kwargs")
    }
    if hasattr(given.get("norm_placement"), "shape"):  # it is compared with names
        checks.one_of(
            "norm_placement", given["norm_placement"], (None, "pre", "post", "deep")
        )
    needed = _never_none(local_names.get("__class__"))
    for name, value in given.items():
        if name in _CHECKS and (value is not None or name in needed):
            given[name] = _CHECKS[name](name, value)
    _check_memory(given, local_names.get("kwargs", {}).get("dtype"))
    return given


def check(local_names: dict[str, Any]) -> None:
    """Raise as `own` does, in an `__init__` that needs no table of its arguments."""
    own(local_names)


@functools.cache
def _never_none(cls: type | None) -> set[str]:
    """Arguments of a class whose default is a flag or a number, as None is none."""
    parameters = inspect.signature(cls).parameters if cls else {}
    return {
        n for n, p in parameters.items() if isinstance(p.default, bool | int | float)
    }


def _check_memory(given: dict[str, Any], dtype: DType) -> None:
    """Raise if one weight of a layer alone cannot be held, or the layers of a model."""
    dtype = dtype or keras.config.dtype_policy().variable_dtype
    bytes_each = 2 if "16" in str(dtype) else 4
    width = next((w for w in _WIDTHS if given.get(w) is not None), None)
    W = given.get(width, 1)
    others = dict.fromkeys(_ROWS, W) | {width: 1, "units": 1, "sequence_length": W}
    position = given.get("position", "learned")
    if isinstance(position, str) and position == "learned":
        others["max_sequence_length"] = W
    if "num_layers" in given:  # a layer has weights between its parts, of this width
        small = given.get("head_dim") or given.get("intermediate_dim")
        square = 1 if small or not isinstance(given.get("architecture", ""), str) else W
        others |= {width: square, "num_layers": square * W}
    for name, count in others.items():
        if given.get(name) is not None:
            checks.fits_memory(name, given[name], count, bytes_each)


def names(cls: type) -> list[str]:
    """The named arguments of `cls`, in order.

    Examples:
        >>> class Cell:
        ...     def __init__(self, units, *, activation="tanh", **kwargs): ...
        >>> names(Cell)
        ['units', 'activation']
    """
    parameters = inspect.signature(cls).parameters.values()
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in parameters if p.kind not in variable]


def revive(name: str, value: Any) -> Any:
    """The object that `value` stands for: "tanh" becomes the function.

    Examples:
        >>> revive("activation", "tanh") is keras.activations.tanh
        True
        >>> revive("units", 3)
        3
    """
    kind = _KINDS.get(name.rsplit("_", 1)[-1])
    if kind is None:
        return value
    what = f"{name} must be the name of one of Keras, or an object of your own"
    if kind is keras.activations and isinstance(value, type):
        raise TypeError(f"{what}, received the class {value!r}. Pass an instance")
    try:
        found = kind.get(value)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{what}, received {checks.short(value)}: {error}") from error
    if found is not None and not callable(found):
        raise TypeError(f"{what}, received {checks.short(value)}")
    return found


def as_config(name: str, value: Any) -> Any:
    """The plain JSON from which `revive` makes `value` again.

    Examples:
        >>> as_config("activation", keras.activations.tanh)
        'tanh'
    """
    kind = _KINDS.get(name.rsplit("_", 1)[-1])
    return kind.serialize(value) if kind else value


def seed_generator(seed: int | None) -> keras.random.SeedGenerator:
    """A generator from a seed, or from one that is drawn as Keras draws it.

    Keras' dropout on PyTorch would use the global generator of PyTorch for one without
    a seed, whose state is in no file.

    Examples:
        >>> seed_generator(7).get_config()["seed"]
        7
    """
    return keras.random.SeedGenerator(drawn_seed(1.0) if seed is None else seed)


def drawn_seed(rate: float) -> int | None:
    """A seed for a layer of Keras that drops at this rate, as for `seed_generator`.

    Examples:
        >>> drawn_seed(0.0) is None, isinstance(drawn_seed(0.1), int)
        (True, True)
    """
    return random.randint(1, 10**9) if rate else None
