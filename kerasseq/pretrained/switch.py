"""Switch Transformers: T5s with mixtures of experts, settings and tables of names.

In a stack with the step s, the blocks 1, 1 + s, 1 + 2 s … have experts, and all blocks
where s is 1; a token is read by one expert.

Different from Hugging Face, where an expert reads at most `expert_capacity` tokens of a
sequence, also outside training, and the others keep their vectors: no token is dropped
here. Outputs are equal up to that many tokens. Its losses pool the tokens of all blocks
of a stack; those of `MixtureOfExperts` are added for each block, as in the papers.
"""

from typing import Any

from kerasseq.models.seq2seq.t5 import T5 as MODEL
from kerasseq.pretrained import t5
from kerasseq.pretrained.experts import SHARED_NAME, coefficient, mixture_mismatch
from kerasseq.pretrained.family import Arguments, Family, Format, Shapes, difference
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.rows import Row, dense, weight, within
from kerasseq.transformer.experts import MixtureOfExperts

# Letters besides those of `t5`: E experts, W their intermediate width.

ACTIVATIONS = {  # of Hugging Face
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "silu",
}
ALIKE = (  # what the settings say of all mixtures of a model
    *("num_experts", "intermediate_dim", "feed_forward", "router_jitter_noise"),
    *("router_aux_loss_coef", "router_z_loss_coef"),
)
FIXED = {"top_k": 1, "norm_topk_prob": False, "shared_experts": 0, "use_bias": False}
NOISE = 0.01  # where a folder names none
UNLIMITED = 2**31 - 1  # tokens of an expert, so that none is dropped
STACKS = {  # and their settings: the step, or the number of blocks with experts
    "encoder": ("encoder_sparse_step", "num_sparse_encoder_layers"),
    "decoder": ("decoder_sparse_step", "num_sparse_decoder_layers"),
}


def networks(a: Arguments, stack: str) -> list[Any]:
    """Returns the feed-forward network of each block of "encoder" or "decoder".

    Examples:
        >>> a = {"feed_forward": "relu", "num_layers": 2}
        >>> networks(a, "encoder"), networks({**a, "num_decoder_layers": 1}, "decoder")
        (['relu', 'relu'], ['relu'])
    """
    value, count = a["feed_forward"], a["num_layers"]
    if stack == "decoder":
        own = a.get("decoder_feed_forward")
        value = value if own is None else own
        count = a.get("num_decoder_layers") or count
    return list(value) if isinstance(value, list | tuple) else [value] * count


def mixtures(a: Arguments) -> list[MixtureOfExperts]:
    """Returns the mixtures of experts of both stacks."""
    both = (network for stack in STACKS for network in networks(a, stack))
    return [network for network in both if isinstance(network, MixtureOfExperts)]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    first = mixtures(a)[0]
    return {**t5.sizes(a), "E": first.num_experts, "W": first.intermediate_dim}


def is_sparse(n: int, step: int) -> bool:
    """Returns whether block n has experts.

    Examples:
        >>> [n for n in range(6) if is_sparse(n, 2)]
        [1, 3, 5]
    """
    return step == 1 or step > 1 and n % step == 1


# Table


def _mixture(layer):
    """Returns the rows of a mixture of experts."""
    name = layer.name
    return [
        weight("mlp.router.classifier.weight", f"{name}/router_kernel", "D E", "E D"),
        Row(
            "mlp.experts.expert_{e}.wi.weight",
            (f"{name}/intermediate_kernel",),
            *("D W", "W D"),
            experts=layer.num_experts,
        ),
        Row(
            "mlp.experts.expert_{e}.wo.weight",
            (f"{name}/output_kernel",),
            *("W D", "D W"),
            experts=layer.num_experts,
        ),
    ]


FEED_FORWARD = [
    *dense("mlp.wi", "feed_forward/intermediate_dense", *"DF", bias=False),
    *dense("mlp.wo", "feed_forward/output_dense", *"FD", bias=False),
]
NORM = weight("layer_norm.weight", "feedforward_layer_norm/scale", "D")


def rows(a: Arguments) -> list[Row]:
    """Returns the table of Hugging Face."""
    return [t5.EMBEDDING, *_stack(a, "encoder"), *_stack(a, "decoder")]


def _stack(a, stack):
    """Returns the rows of "encoder" or "decoder"."""
    blocks = []
    for n, network in enumerate(networks(a, stack)):
        has_experts = isinstance(network, MixtureOfExperts)
        own = _mixture(network) if has_experts else FEED_FORWARD
        block = t5.block_rows(stack, [*own, NORM])
        blocks += within(f"{stack}.block.{n}.", f"{stack}_block_{n}/", block)
    return t5.stack_rows(stack, blocks)


# Settings


def mismatch(a: Arguments) -> str | None:
    """Returns why a `T5` is not a Switch Transformer."""
    layers = mixtures(a)
    if reason := mixture_mismatch(a, layers, ALIKE, FIXED):
        return reason
    activation = layers[0].feed_forward
    if activation not in ACTIVATIONS.values():
        return f"a MixtureOfExperts with feed_forward={activation!r}"
    return _dense_mismatch(a, activation, layers[0].intermediate_dim) or difference(
        a, {"published_ids": True, "tie_embeddings": True}
    )


def _dense_mismatch(a, activation, width):
    """Returns why the blocks without experts, or their places, are others."""
    for stack in STACKS:
        blocks = networks(a, stack)
        others = [f for f in blocks if not isinstance(f, MixtureOfExperts)]
        for network in others:
            if network != activation:
                return f"feed_forward={network!r} instead of {activation!r}"
        if others and t5.sizes(a)["F"] != width:
            return f"intermediate_dim={t5.sizes(a)['F']} instead of {width}"
        if _step(blocks) is None:
            places = [n for n, f in enumerate(blocks) if f not in others]
            return (
                f"experts in the {stack} blocks {places}, which are not one step apart"
            )
    return None


def _step(blocks):
    """Returns the step with which blocks have experts: 0 for none, None if uneven."""
    have_experts = [isinstance(network, MixtureOfExperts) for network in blocks]
    for step in range(len(blocks) + 1):
        if have_experts == [is_sparse(n, step) for n in range(len(blocks))]:
            return step
    return None


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `T5`."""
    settings.require(
        **{"eos_token_id": 1, "decoder_start_token_id": 0, "pad_token_id": 0},
        relative_attention_max_distance=t5.MAX_DISTANCE,
        tie_word_embeddings=True,  # else encoder and decoder have their own, too
        router_bias=False,
        router_dtype="float32",
    )
    activation = settings.word("dense_act_fn", ACTIVATIONS, "relu")
    layers = settings.whole("num_layers")
    decoder_layers = settings.whole("num_decoder_layers", layers)
    if max(layers, decoder_layers) > len(shapes):  # no list longer than the file
        settings.refuse("num_layers", f"at most {len(shapes)}, the tensors")
    layer = _experts(settings, activation)
    encoder, decoder = (
        [layer if is_sparse(n, step) else activation for n in range(count)]
        for count, step in (
            (layers, _read_step(settings, "encoder", layers)),
            (decoder_layers, _read_step(settings, "decoder", decoder_layers)),
        )
    )
    both = [*encoder, *decoder]
    if layer not in both:
        settings.refuse(
            "encoder_sparse_step", "such that at least one block has experts"
        )
    return {
        **t5.read_sizes(settings),
        "intermediate_dim": settings.whole("d_ff") if activation in both else None,
        "feed_forward": encoder,
        "decoder_feed_forward": decoder,
        "num_decoder_layers": decoder_layers,
        "tie_embeddings": True,
        "published_ids": True,
    }


def _experts(settings, activation):
    """Returns the layer that the settings describe."""
    return MixtureOfExperts(
        settings.whole("num_experts"),
        settings.whole("d_ff"),
        top_k=1,
        feed_forward=activation,
        norm_topk_prob=False,
        router_aux_loss_coef=coefficient(settings, "router_aux_loss_coef"),
        router_z_loss_coef=coefficient(settings, "router_z_loss_coef"),
        router_jitter_noise=settings.rate("router_jitter_noise", NOISE),
        name=SHARED_NAME,
    )


def _read_step(settings, stack, layers):
    """Returns the step of a stack: its own setting, or by the number of blocks."""
    name, number = STACKS[stack]
    if settings.values.get(name) == 0:
        return 0
    if name in settings:
        return settings.whole(name)
    if settings.values.get(number) == 0:
        return layers
    sparse = settings.whole(number, 3)
    if sparse > layers:
        settings.refuse(number, f"at most {layers}, the blocks of the {stack}")
    return layers // sparse


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `T5` to settings of Hugging Face."""
    layer = mixtures(a)[0]
    names = {ours: name for name, ours in ACTIVATIONS.items()}
    settings = {
        **t5.write_sizes(a),
        "architectures": ["SwitchTransformersForConditionalGeneration"],
        "is_encoder_decoder": True,
        "num_decoder_layers": len(networks(a, "decoder")),
        "tie_word_embeddings": True,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "d_ff": layer.intermediate_dim,
        "dense_act_fn": names[layer.feed_forward],
        "num_experts": layer.num_experts,
        "expert_capacity": UNLIMITED,
        "router_bias": False,
        "router_dtype": "float32",
        "router_jitter_noise": layer.router_jitter_noise,
        "router_z_loss_coef": layer.router_z_loss_coef,
        "router_aux_loss_coef": layer.router_aux_loss_coef,
    }
    for stack, (step, number) in STACKS.items():
        blocks = networks(a, stack)
        settings[step] = _step(blocks)
        settings[number] = sum(isinstance(f, MixtureOfExperts) for f in blocks)
    return settings


SWITCH = Family(
    name="switch_transformers",
    model=MODEL,
    sizes=sizes,
    mismatch=mismatch,
    huggingface=Format(
        kinds=("switch_transformers",),
        architectures=("SwitchTransformersForConditionalGeneration",),
        read=read,
        write=write,
        rows=rows,
        instead=t5.INSTEAD,
        copies=t5.COPIES,
        ignored=t5.IGNORED,
    ),
    with_layers=("feed_forward", "decoder_feed_forward"),
)
