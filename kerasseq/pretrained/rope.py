"""Rotary positions in the settings of LLaMA, as each of the others writes them down."""

from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.pretrained.settings import Settings

TRAINED = "original_max_position_embeddings"
TYPES = {  # of Hugging Face: ours, and which numbers must be there
    "default": ("linear", ()),
    "linear": ("linear", ("factor",)),
    "llama3": ("llama3", ("factor", "low_freq_factor", "high_freq_factor")),
    "yarn": ("yarn", ("factor",)),
    "dynamic": ("dynamic_ntk", ("factor",)),
    "longrope": ("longrope", ()),
}
FACTORS = ("short_factor", "long_factor")  # of "longrope"
OPTIONAL = ("beta_fast", "beta_slow", "attention_factor")  # of "yarn"
HUB = {  # our arguments of "llama3", as KerasHub calls them
    "scaling_factor": "rope_frequency_adjustment_factor",
    "low_freq_factor": "rope_low_freq_factor",
    "high_freq_factor": "rope_high_freq_factor",
    TRAINED: "rope_pretraining_sequence_length",
}
SIMPLE = {  # what is the same everywhere
    "interleaved": False,
    "fraction": 1.0,
    "denominator_dim": None,
}


def read(settings):
    """The position object, of the settings of Hugging Face.

    Newer ones have all of it in `rope_parameters`, older ones λ by itself and the rest
    in `rope_scaling`.
    """
    part = Settings({}, settings.where)
    for name in ("rope_scaling", "rope_parameters"):
        part = settings.part(name) if name in settings else part
    theta = (part if "rope_theta" in part else settings).number("rope_theta", 1e4)
    word = "rope_type" if "rope_type" in part else "type"
    kind, needed = part.word(word, TYPES, "default")
    part.only(partial_rotary_factor=1.0, mscale_all_dim=0.0)
    options = {_ours(name): part.number(name) for name in needed}
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
        options["truncate"] = part.truth("truncate", True)
    return RotaryEmbedding(theta, rope_type=kind, **options)


def _longrope(settings, part):
    """The arguments of "longrope"."""
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
        numbers = Settings(dict(enumerate(values)), f"{part.where}, {name}")
        options[name] = [numbers.number(n) for n in range(len(values))]
    return options


def _ours(name):
    return "scaling_factor" if name == "factor" else name


def config(position):
    """The arguments of a position object, or of the one of that name."""
    return (RotaryEmbedding() if position == "rope" else position).get_config()


def misfit(position):
    """What keeps a position from being one of LLaMA, in words; None if nothing does."""
    if position != "rope" and not isinstance(position, RotaryEmbedding):
        return f"position={position!r}"
    have = config(position)
    for name, right in SIMPLE.items():
        if have[name] != right:
            return f"a RotaryEmbedding with {name}={have[name]!r}"
    if have["rope_type"] not in [ours for ours, _ in TYPES.values()]:
        return f"a RotaryEmbedding with rope_type={have['rope_type']!r}"
    return None


def write(position):
    """The settings of Hugging Face, in the older form: all versions read it."""
    have = config(position)
    kind, scale = have["rope_type"], have["scaling_factor"]
    found = {"rope_theta": have["max_wavelength"], "rope_scaling": None}
    if kind == "linear" and scale == 1:
        return found
    if kind == "dynamic_ntk":
        part = {"rope_type": "dynamic", "factor": scale}
        return {**found, "rope_scaling": part, "max_position_embeddings": have[TRAINED]}
    if kind == "longrope":
        names = ("attention_factor", TRAINED, *FACTORS)
        part = {name: have[name] for name in names if have[name] is not None}
        part = {"rope_type": kind, "factor": scale, **part}
        return {**found, "rope_scaling": part}
    names = {_ours(name): name for name in TYPES[kind][1]}
    if kind != "linear":
        names[TRAINED] = TRAINED
    if kind == "yarn":
        names |= {name: name for name in (*OPTIONAL, "truncate")}
    part = {theirs: have[ours] for ours, theirs in names.items()}
    part = {name: value for name, value in part.items() if value is not None}
    return {**found, "rope_scaling": {"rope_type": kind, **part}}


def hub_read(settings):
    """The position object, of the settings of KerasHub."""
    theta = settings.number("rope_max_wavelength", 1e4)
    settings.only(rope_position_scaling_factor=1.0)  # KerasHub says it and ignores it
    if not any(theirs in settings for theirs in HUB.values()):
        return RotaryEmbedding(theta)
    options = {
        ours: settings.whole(theirs) if ours == TRAINED else settings.number(theirs)
        for ours, theirs in HUB.items()
    }
    return RotaryEmbedding(theta, rope_type="llama3", **options)


def hub_write(position):
    """The settings of KerasHub.

    Raises:
        ValueError: If it has no such positions.
    """
    have = config(position)
    is_llama3, scale = have["rope_type"] == "llama3", have["scaling_factor"]
    if not is_llama3 and (have["rope_type"] != "linear" or scale != 1):
        raise ValueError(
            "a LlamaBackbone of KerasHub cannot have a RotaryEmbedding with rope_type="
            f"{have['rope_type']!r} and scaling_factor={scale}"
        )
    return {
        "rope_max_wavelength": have["max_wavelength"],
        **{theirs: have[ours] if is_llama3 else None for ours, theirs in HUB.items()},
    }
