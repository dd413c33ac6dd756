"""Mixtral and Qwen3-MoE: LLaMAs with mixtures of experts, settings and tables of names.

A file has a tensor for each expert and matrix. transformers 5 can write another form as
well, with the matrices of all experts in one tensor, which is read, too.

Hugging Face's loss that balances the experts is `top_k` when they are equally busy,
that of `MixtureOfExperts` is 1: a coefficient is multiplied by `top_k` when it is read,
and divided when it is written. Capacity and the loss of the router's scores, which have
no settings there, are not written; outputs do not depend on them.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from kerasseq.pretrained import llama, rope
from kerasseq.pretrained.family import Arguments, Family, Shapes, difference
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, weight, within
from kerasseq.transformer.experts import MixtureOfExperts

# Letters besides those of `llama`: E experts, W their intermediate width.

COEFFICIENT = 0.001  # of the balance loss, where a folder names none
SHARED_NAME = "feed_forward"  # of layers that are read, as of networks by name
STACKED = ".mlp.experts.gate_up_proj"  # in files with all experts in one tensor
ALIKE = (  # what the settings say of all mixtures of a model
    *("num_experts", "intermediate_dim", "top_k", "norm_topk_prob"),
    *("router_aux_loss_coef", "router_jitter_noise"),
)
OPTIONS = {"feed_forward": "swiglu", "shared_experts": 0, "use_bias": False}


def networks(a: Arguments) -> list[Any]:
    """Returns the feed-forward networks of the blocks; one if all have the same."""
    value = a["feed_forward"]
    return list(value) if isinstance(value, list | tuple) else [value]


def mixtures(a: Arguments) -> list[MixtureOfExperts]:
    """Returns those of the networks that are mixtures of experts."""
    return [f for f in networks(a) if isinstance(f, MixtureOfExperts)]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    first = mixtures(a)[0]
    return {**llama.sizes(a), "E": first.num_experts, "W": first.intermediate_dim}


# Tables


def _blocks(a):
    """Yields the prefixes of tensors and weights of blocks, and their network."""
    several = isinstance(a["feed_forward"], list | tuple)
    for n, network in enumerate(networks(a)):
        n = n if several else "{n}"
        yield f"layers.{n}.", f"block_{n}/", network


def rows(a: Arguments, *, prefix: str, names: tuple[str, str, str]) -> list[Row]:
    """Returns the table of Hugging Face, with a tensor for each expert.

    Args:
        a: Arguments of the model.
        prefix: Prefix of the tensors of the experts in a block.
        names: Names of the three matrices of an expert: gate, intermediate, output.
    """

    def mixture(layer):
        def of_each(name, path, axes, file_axes):
            row = weight(f"experts.{{e}}.{name}.weight", path, axes, file_axes)
            return dataclasses.replace(row, experts=layer.num_experts)

        gate, intermediate, output = names
        return [
            weight("gate.weight", "router_kernel", "D E", "E D"),
            of_each(gate, "gate_kernel", "D W", "W D"),
            of_each(intermediate, "intermediate_kernel", "D W", "W D"),
            of_each(output, "output_kernel", "W D", "D W"),
        ]

    return _rows(a, prefix, mixture)


def stacked_rows(a: Arguments) -> list[Row]:
    """Returns the table of files with the matrices of all experts in one tensor."""

    def mixture(layer):
        both = ("gate_kernel", "intermediate_kernel")
        return [
            weight("gate.weight", "router_kernel", "D E", "E D"),
            Row("experts.gate_up_proj", both, "E D W", "E W D", axis=1),
            weight("experts.down_proj", "output_kernel", "E W D", "E D W"),
        ]

    return _rows(a, "mlp.", mixture)


def _rows(a, prefix, mixture):
    """Returns the table, with the rows of a mixture by the function `mixture`."""
    feed_forward = []
    for tensors, weights, network in _blocks(a):
        if isinstance(network, MixtureOfExperts):
            own = within(prefix, f"{network.name}/", mixture(network))
        else:
            own = llama.mlp_rows(bias=False)
        feed_forward += within(tensors, weights, own)
    return llama.rows(a, feed_forward=feed_forward)


def _read_rows(a, shapes, rows):
    """Returns the table of a folder, of which there are two forms."""
    return stacked_rows(a) if any(STACKED in name for name in shapes) else rows(a)


# Settings


def mismatch(
    a: Arguments, *, options: Arguments, others: tuple[str, ...], normalized: bool
) -> str | None:
    """Returns why a `GPT` is not a LLaMA with experts.

    Args:
        a: Arguments of the model.
        options: What the other arguments must be.
        others: What the blocks may have besides experts.
        normalized: Whether the gates are always divided by their sum.
    """
    layers = mixtures(a)
    for network in networks(a) if layers else ():
        if not isinstance(network, MixtureOfExperts) and network not in others:
            return f"feed_forward={network!r} in some blocks"
    wanted = {**OPTIONS, "norm_topk_prob": True} if normalized else OPTIONS
    if reason := mixture_mismatch(a, layers, ALIKE, wanted):
        return reason
    other = {name: value for name, value in options.items() if name != "feed_forward"}
    return llama.decoder_mismatch(a, other)


def mixture_mismatch(
    a: Arguments,
    layers: list[MixtureOfExperts],
    alike: Sequence[str],
    wanted: Arguments,
) -> str | None:
    """Returns why layers cannot be written in one table of settings, or None.

    Args:
        a: The arguments of the model.
        layers: Its layers.
        alike: Names of options that must be those of the first one.
        wanted: Other options that each must have.
    """
    if not layers:
        return f"feed_forward={a['feed_forward']!r} instead of MixtureOfExperts"
    wanted = {name: getattr(layers[0], name) for name in alike} | wanted
    for layer in layers:
        own = {name: getattr(layer, name) for name in wanted}
        if reason := difference(own, wanted):
            return f"a MixtureOfExperts with {reason}"
    return None


def _experts(settings, number, width, normalized, noise=0.0):
    """Returns the layer that the settings describe.

    Args:
        settings: The `Settings`.
        number: Name of the number of experts.
        width: Name of their width.
        normalized: Whether their gates are divided by their sum.
        noise: That of the router in training.
    """
    count, top_k = settings.whole(number), settings.whole("num_experts_per_tok")
    if top_k > count:
        settings.refuse("num_experts_per_tok", f"at most {number} = {count}")
    if normalized and top_k == 1 < count:
        settings.refuse(
            "num_experts_per_tok",
            "at least 2 where gates are divided by their sum, as the router would not "
            "learn",
        )
    return MixtureOfExperts(
        count,
        settings.whole(width),
        top_k=top_k,
        norm_topk_prob=normalized,
        router_aux_loss_coef=coefficient(settings, "router_aux_loss_coef") * top_k,
        router_jitter_noise=noise,
        name=SHARED_NAME,
    )


def coefficient(settings: Settings, name: str) -> float:
    """Returns the coefficient of a loss, which may be 0."""
    zero = settings.values.get(name) in (0, 0.0)
    return 0.0 if zero else settings.number(name, COEFFICIENT)


def _written(layer):
    """Returns the settings of the experts that both families have."""
    return {
        "hidden_act": "silu",
        "num_experts_per_tok": layer.top_k,
        "router_aux_loss_coef": layer.router_aux_loss_coef / layer.top_k,
    }


# Mixtral


def read_mixtral(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of a Mixtral to arguments of `GPT`."""
    settings.require(hidden_act="silu", layer_types=None)
    noise = settings.rate("router_jitter_noise")
    width = "intermediate_size"
    return {
        **llama.read_shared(settings, shapes, max_length=131072),
        **llama.chosen(llama.MISTRAL_OPTIONS),
        "layer_norm_epsilon": settings.number("rms_norm_eps", 1e-5),
        "position": rope.read(settings, 1e6),
        "sliding_window": settings.whole("sliding_window", None),
        "intermediate_dim": None,
        "feed_forward": _experts(settings, "num_local_experts", width, True, noise),
    }


def write_mixtral(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of a Mixtral."""
    layer = mixtures(a)[0]
    return {
        **llama.write_shared(a, "Mixtral"),
        **_written(layer),
        "intermediate_size": layer.intermediate_dim,
        "num_local_experts": layer.num_experts,
        "router_jitter_noise": layer.router_jitter_noise,
        "sliding_window": a["sliding_window"],
    }


# Qwen3-MoE


def read_qwen3_moe(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of a Qwen3-MoE to arguments of `GPT`."""
    settings.require(hidden_act="silu", attention_bias=False)
    shared = llama.read_shared(settings, shapes, max_length=32768)
    window = None
    if settings.boolean("use_sliding_window", False):
        window = settings.whole("sliding_window", 4096)
    names = ("num_experts", "num_local_experts")  # the second in transformers 5
    number = next((name for name in names if name in settings), names[0])
    normalized = settings.boolean("norm_topk_prob", False)
    layer = _experts(settings, number, "moe_intermediate_size", normalized)
    kinds = _qwen_networks(settings, shapes, shared["num_layers"], layer)
    return {
        **shared,
        **llama.chosen(llama.QWEN3_OPTIONS),
        "sliding_window": window,
        "feed_forward": kinds,
        "intermediate_dim": None if kinds is layer else shared["intermediate_dim"],
    }


def _qwen_networks(settings, shapes, num_layers, layer):
    """Returns `layer` if all blocks have it, else a list with the network of each.

    Raises:
        ValueError: If none has it, or a setting that chooses them is wrong.
    """
    every = settings.whole("decoder_sparse_step", 1)
    dense = settings.get("mlp_only_layers", [])
    whole = isinstance(dense, list) and all(type(n) is int for n in dense)
    if not whole:
        settings.refuse("mlp_only_layers", "a list of whole numbers")
    if every == 1 and not any(0 <= n < num_layers for n in dense):
        return layer
    if num_layers > len(shapes):  # the list must not be longer than the file
        settings.refuse("num_hidden_layers", f"at most {len(shapes)}, the tensors")
    dense = set(dense)
    kinds = [
        layer if n not in dense and (n + 1) % every == 0 else "swiglu"
        for n in range(num_layers)
    ]
    if layer not in kinds:
        name = "mlp_only_layers" if every <= num_layers else "decoder_sparse_step"
        settings.refuse(name, "such that at least one layer has experts")
    return kinds


def write_qwen3_moe(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `GPT` to settings of a Qwen3-MoE."""
    layer, window = mixtures(a)[0], a["sliding_window"]
    kinds = enumerate(networks(a))
    settings = {
        **llama.write_shared(a, "Qwen3Moe"),
        **_written(layer),
        "num_experts": layer.num_experts,
        "moe_intermediate_size": layer.intermediate_dim,
        "norm_topk_prob": layer.norm_topk_prob,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [n for n, f in kinds if not isinstance(f, MixtureOfExperts)],
        "use_sliding_window": window is not None,
        "sliding_window": window,
    }
    if not settings["mlp_only_layers"]:  # then no layer has this width
        settings["intermediate_size"] = layer.top_k * layer.intermediate_dim
    return settings


# Families


def _family(name, rows, read, write, **options) -> Family:
    """Returns the `Family` of a LLaMA with experts."""
    family = llama.make_family(
        name, functools.partial(mismatch, **options), read, write, rows
    )
    both_forms = dataclasses.replace(
        family.huggingface, read_rows=functools.partial(_read_rows, rows=rows)
    )
    return dataclasses.replace(
        family, huggingface=both_forms, sizes=sizes, with_layers=("feed_forward",)
    )


MIXTRAL = _family(
    "mixtral",
    functools.partial(rows, prefix="block_sparse_moe.", names=("w1", "w3", "w2")),
    read_mixtral,
    write_mixtral,
    options=llama.MISTRAL_OPTIONS,
    others=(),
    normalized=True,
)
QWEN3_MOE = _family(
    "qwen3_moe",
    functools.partial(rows, prefix="mlp.", names=("gate_proj", "up_proj", "down_proj")),
    read_qwen3_moe,
    write_qwen3_moe,
    options=llama.QWEN3_OPTIONS,
    others=("swiglu",),
    normalized=False,
)
