"""Rotary positions in the settings of LLaMA, of Hugging Face and of KerasHub."""

from typing import Any, TypeAlias

from kerasseq.core.types import Config
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.pretrained.folders import Settings

TRAINED = "original_max_position_embeddings"
TYPES = {  # of Hugging Face: our `rope_type`, and the required numbers
    "default": ("linear", ()),
    "linear": ("linear", ("factor",)),
    "llama3": ("llama3", ("factor", "low_freq_factor", "high_freq_factor")),
    "yarn": ("yarn", ("factor",)),
    "dynamic": ("dynamic_ntk", ("factor",)),
    "longrope": ("longrope", ()),
}
FACTORS = ("short_factor", "long_factor")  # for "longrope"
OPTIONAL = ("beta_fast", "beta_slow", "attention_factor")  # for "yarn"
HUB = {  # our arguments for "llama3": the settings of KerasHub
    "scaling_factor": "rope_frequency_adjustment_factor",
    "low_freq_factor": "rope_low_freq_factor",
    "high_freq_factor": "rope_high_freq_factor",
    TRAINED: "rope_pretraining_sequence_length",
}
Position: TypeAlias = RotaryEmbedding | str  # a position encoding, or "rope"
FIXED = {  # options that both formats lack
    "interleaved": False,
    "fraction": 1.0,
    "denominator_dim": None,
}


def read(settings: Settings, theta: float = 1e4) -> RotaryEmbedding:
    """Converts settings of Hugging Face to a `RotaryEmbedding`.

    Newer files have all of them in `rope_parameters`, older ones `rope_theta` at the
    top level and the rest in `rope_scaling`.

    Args:
        settings: The `Settings`.
        theta: The longest wavelength, where they name none.
    """
    part = Settings({}, settings.where)
    for name in ("rope_scaling", "rope_parameters"):
        part = settings.part(name) if name in settings else part
    theta = (part if "rope_theta" in part else settings).number("rope_theta", theta)
    key = "rope_type" if "rope_type" in part else "type"
    kind, required = part.word(key, TYPES, "default")
    part.require(partial_rotary_factor=1.0, mscale_all_dim=0.0)
    options = {_ours(name): part.number(name) for name in required}
    if kind == "dynamic_ntk":
        options[TRAINED] = settings.whole("max_position_embeddings", 2048)
    if kind == "longrope":
        options |= _longrope(settings, part)
    if kind in ("llama3", "yarn"):
        trained = part if TRAINED in part else settings
        name = TRAINED if TRAINED in part else "max_position_embeddings"
        options[TRAINED] = trained.whole(name)
    if kind == "yarn":
        options |= {name: part.number(name) for name in OPTIONAL if name in part}
        options["truncate"] = part.boolean("truncate", True)
    return RotaryEmbedding(theta, rope_type=kind, **options)


def _longrope(settings, part):
    """Returns the arguments for "longrope"."""
    longest = settings.whole("max_position_embeddings", 2048)
    trained = part if TRAINED in part else settings
    options = {TRAINED: trained.whole(TRAINED, longest)}
    ratio = longest / options[TRAINED]
    options["scaling_factor"] = part.number("factor", ratio)
    if "attention_factor" in part:
        options["attention_factor"] = part.number("attention_factor")
    heads = settings.whole("num_attention_heads")
    width = settings.whole("head_dim", settings.whole("hidden_size") // heads)
    for name in FACTORS:
        values = part.get(name)
        if not isinstance(values, list) or len(values) != width // 2:
            part.refuse(name, f"a list of {width // 2} numbers")
        numbers = Settings(
            {str(n): value for n, value in enumerate(values)}, f"{part.where}, {name}"
        )
        options[name] = [numbers.number(n) for n in numbers.values]
    return options


def _ours(name):
    return "scaling_factor" if name == "factor" else name


def config(position: Position) -> Config:
    """Returns the arguments of a position object, or of the default for "rope"."""
    return (RotaryEmbedding() if position == "rope" else position).get_config()


def mismatch(position: object) -> str | None:
    """Returns why a position is not one of LLaMA, or None if it is."""
    if position != "rope" and not isinstance(position, RotaryEmbedding):
        return f"position={position!r}"
    options = config(position)
    for name, right in FIXED.items():
        if options[name] != right:
            return f"a RotaryEmbedding with {name}={options[name]!r}"
    if options["rope_type"] not in [ours for ours, _ in TYPES.values()]:
        return f"a RotaryEmbedding with rope_type={options['rope_type']!r}"
    return None


def write(position: Position) -> dict[str, Any]:
    """Converts a position to settings of Hugging Face that all versions read."""
    options = config(position)
    kind, scale = options["rope_type"], options["scaling_factor"]
    settings = {"rope_theta": options["max_wavelength"], "rope_scaling": None}
    if kind == "linear" and scale == 1:
        return settings
    if kind == "dynamic_ntk":
        part = {"rope_type": "dynamic", "factor": scale}
        return {
            **settings,
            "rope_scaling": part,
            "max_position_embeddings": options[TRAINED],
        }
    if kind == "longrope":
        names = ("attention_factor", TRAINED, *FACTORS)
        part = {name: options[name] for name in names if options[name] is not None}
        part = {"rope_type": kind, "factor": scale, **part}
        return {**settings, "rope_scaling": part}
    names = {_ours(name): name for name in TYPES[kind][1]}
    if kind != "linear":
        names[TRAINED] = TRAINED
    if kind == "yarn":
        names |= {name: name for name in (*OPTIONAL, "truncate")}
    part = {name: options[ours] for ours, name in names.items()}
    part = {name: value for name, value in part.items() if value is not None}
    return {**settings, "rope_scaling": {"rope_type": kind, **part}}


def hub_read(settings: Settings) -> RotaryEmbedding:
    """Converts settings of KerasHub to a `RotaryEmbedding`."""
    theta = settings.number("rope_max_wavelength", 1e4)
    settings.require(rope_position_scaling_factor=1.0)  # KerasHub ignores it
    if not any(name in settings for name in HUB.values()):
        return RotaryEmbedding(theta)
    options = {
        ours: settings.whole(name) if ours == TRAINED else settings.number(name)
        for ours, name in HUB.items()
    }
    return RotaryEmbedding(theta, rope_type="llama3", **options)


def hub_write(position: Position) -> dict[str, Any]:
    """Converts a position to settings of KerasHub.

    Raises:
        ValueError: If KerasHub has no such positions.
    """
    options = config(position)
    is_llama3, scale = options["rope_type"] == "llama3", options["scaling_factor"]
    if not is_llama3 and (options["rope_type"] != "linear" or scale != 1):
        raise ValueError(
            "a LlamaBackbone of KerasHub cannot have a RotaryEmbedding with rope_type="
            f"{options['rope_type']!r} and scaling_factor={scale}"
        )
    return {
        "rope_max_wavelength": options["max_wavelength"],
        **{name: options[ours] if is_llama3 else None for ours, name in HUB.items()},
    }
