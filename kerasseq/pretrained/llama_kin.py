"""Kin of LLaMA in folders of Hugging Face: Mistral, Qwen2, Qwen3 and Gemma.

They differ from it by a window, by biases, by norms of queries and keys, or by the
scale of the embedding and the gate of the feed-forward network.
"""

import functools
import math

from kerasseq.language.gpt import GPT
from kerasseq.pretrained import common, llama, rope
from kerasseq.pretrained.family import Family, differing
from kerasseq.pretrained.layouts import MINUS_ONE

FIXED = {**llama.FIXED, "use_bias": False, "use_query_key_value_bias": False}
MISTRAL = {name: right for name, right in FIXED.items() if name != "sliding_window"}
QWEN2 = {**MISTRAL, "use_query_key_value_bias": True}
QWEN3 = {**MISTRAL, "query_key_norm": "rms"}
GEMMA = {**FIXED, "feed_forward": "geglu_tanh", "tie_embeddings": True}
GEMMA_ACTIVATIONS = dict.fromkeys(  # the first files say "gelu" and mean the other
    ("gelu_pytorch_tanh", "gelu"), "geglu_tanh"
)


def misfit(a, fixed):
    """What keeps a `GPT` from having these options."""
    return differing(common.with_biases(a), fixed) or rope.misfit(a["position"])


def chosen(fixed):
    """Those of the fixed arguments that are not the defaults of `GPT`."""
    names = ("norm", "feed_forward", "use_bias", "use_query_key_value_bias")
    return {name: fixed[name] for name in (*names, "query_key_norm")}


def read_mistral(settings, shapes):
    """The arguments of a `GPT`, of the settings of a Mistral."""
    settings.only(hidden_act="silu", layer_types=None)
    window = None
    if settings.values.get("sliding_window", 0) is not None:  # null is no window
        window = settings.whole("sliding_window", 4096)
    shared = llama.read_shared(settings, shapes, max_length=131072)
    return {**shared, **chosen(MISTRAL), "sliding_window": window}


def write_mistral(a):
    """The settings of a Mistral."""
    window = {"hidden_act": "silu", "sliding_window": a["sliding_window"]}
    return {**llama.write_shared(a, "Mistral"), **window}


def read_qwen(settings, shapes, *, fixed, head_dim):
    """The arguments of a `GPT`, of the settings of a Qwen2 or Qwen3."""
    settings.only(hidden_act="silu", attention_bias=False)
    options = {"head_dim": head_dim, "max_length": 32768}
    shared = llama.read_shared(settings, shapes, **options)
    window = _window(settings, shared["num_layers"])
    return {**shared, **chosen(fixed), "sliding_window": window}


def _window(settings, layers):
    """The window of all layers of a Qwen, or None.

    Raises:
        ValueError: If some layers have one and others have none.
    """
    if not settings.truth("use_sliding_window", False):
        return None
    name, kinds = "max_window_layers", settings.get("layer_types", None)
    if kinds is None:  # the first of the layers have none
        first = settings.values.get(name, 28)
        is_whole = isinstance(first, int)
        kinds = ["full_attention"] * (is_whole and first > 0)
        kinds += ["sliding_attention"] * (is_whole and first < layers)
    else:
        name = "layer_types"
        kinds = sorted(set(kinds)) if isinstance(kinds, list) else []
    if kinds == ["full_attention"]:
        return None
    if kinds != ["sliding_attention"]:
        settings.refuse(name, "one window for all layers, or none", "kerasseq builds")
    return settings.whole("sliding_window", 4096)


def write_qwen(a, *, name):
    """The settings of a Qwen2 or Qwen3."""
    window = a["sliding_window"]
    return {
        **llama.write_shared(a, name),
        "hidden_act": "silu",
        "use_sliding_window": window is not None,
        "sliding_window": window,
        "max_window_layers": a["num_layers"] if window is None else 0,
    }


def read_gemma(settings, shapes):
    """The arguments of a `GPT`, of the settings of a Gemma."""
    settings.only(
        attention_bias=False,
        use_bidirectional_attention=False,
        hidden_activation="gelu_pytorch_tanh",
        tie_word_embeddings=True,
    )
    settings.word("hidden_act", GEMMA_ACTIVATIONS, "gelu")
    options = {"head_dim": 256, "max_length": 8192, "tied": True}
    shared = llama.read_shared(settings, shapes, **options)
    scale = math.sqrt(shared["hidden_dim"])
    return {**shared, **chosen(GEMMA), "embedding_scale": scale}


def write_gemma(a):
    """The settings of a Gemma."""
    activation = "gelu_pytorch_tanh"
    words = {"hidden_act": activation, "hidden_activation": activation}
    return {**llama.write_shared(a, "Gemma"), **words}


def misfit_of_gemma(a):
    """What keeps a `GPT` from being a Gemma."""
    scale = math.sqrt(a["hidden_dim"])
    if a["embedding_scale"] is None or not math.isclose(a["embedding_scale"], scale):
        return f"embedding_scale={a['embedding_scale']} instead of {scale}"
    return misfit(a, GEMMA | {"embedding_scale": a["embedding_scale"]})


def family(name, misfit, read, write, rows=llama.rows):
    """A `Family` of kin, which KerasHub's folders are not written for."""
    return Family(
        name=name,
        model=GPT,
        sizes=llama.sizes,
        misfit=misfit,
        huggingface=llama.huggingface(name, read, write, rows),
    )


KIN = (
    family(
        "mistral",
        functools.partial(misfit, fixed=MISTRAL),
        read_mistral,
        write_mistral,
    ),
    family(
        "qwen2",
        functools.partial(misfit, fixed=QWEN2),
        functools.partial(read_qwen, fixed=QWEN2, head_dim=None),
        functools.partial(write_qwen, name="Qwen2"),
    ),
    family(
        "qwen3",
        functools.partial(misfit, fixed=QWEN3),
        functools.partial(read_qwen, fixed=QWEN3, head_dim=128),
        functools.partial(write_qwen, name="Qwen3"),
    ),
    family(
        "gemma",
        misfit_of_gemma,
        read_gemma,
        write_gemma,
        functools.partial(llama.rows, scales=MINUS_ONE),
    ),
)
