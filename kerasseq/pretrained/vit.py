"""ViT in the folders of others."""

from kerasseq.pretrained import common, hub_layers, pixels
from kerasseq.pretrained.common import BLOCK, HUB_HEAD, LAYER
from kerasseq.pretrained.family import Family, Format, differing
from kerasseq.pretrained.layouts import dense, layer_norm, one
from kerasseq.vision.vit import ViT

FIXED = {
    "pooling": "token",
    "norm": "layer",
    "norm_placement": "pre",
    "use_bias": True,
    "parallel": False,
    "activation": None,
    "value_range": None,
    "data_format": "channels_last",
}


def sizes(a):
    """What the letters of the rows stand for; P and Q are a patch, B its channels."""
    (P, Q), (height, width) = _pair(a["patch_size"]), _pair(a["image_size"])
    return {
        "P": P,
        "Q": Q,
        "B": a["channels"],
        "T": 1 + (height // P) * (width // Q),
        **common.block_sizes(a),
        "C": a["num_classes"],
    }


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def misfit(a):
    """What keeps a `ViT` from being one of the published ones."""
    return common.misfit(a, FIXED)


def read(settings, shapes):
    """The arguments of a `ViT`, of the settings of Hugging Face."""
    settings.only(qkv_bias=True)
    image, patch = _size(settings, "image_size"), _size(settings, "patch_size")
    if any(side % part for side, part in zip(image, patch, strict=True)):
        wanted = f"a multiple of patch_size = {settings.get('patch_size')}"
        settings.refuse("image_size", wanted)
    return {
        "num_classes": common.classes(shapes, "classifier.weight"),
        "image_size": image,
        "patch_size": patch,
        "channels": settings.whole("num_channels", 3),
        "num_layers": settings.whole("num_hidden_layers"),
        "num_heads": settings.whole("num_attention_heads"),
        "hidden_dim": settings.whole("hidden_size"),
        "intermediate_dim": settings.whole("intermediate_size"),
        "feed_forward": settings.word("hidden_act", common.ACTIVATIONS, "gelu"),
        "layer_norm_epsilon": settings.number("layer_norm_eps", 1e-12),
        "dropout": settings.rate("hidden_dropout_prob"),
        "data_format": "channels_last",
    }


def _size(settings, name):
    """A side, or height and width."""
    value = settings.get(name)
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        settings.refuse(name, "a whole number, or two of them")
    return tuple(sides)


def write(a):
    """The settings of Hugging Face."""
    name = "ViTForImageClassification" if a["num_classes"] else "ViTModel"
    return {
        "architectures": [name],
        "image_size": _plain(a["image_size"]),
        "patch_size": _plain(a["patch_size"]),
        "num_channels": a["channels"],
        "num_hidden_layers": a["num_layers"],
        "num_attention_heads": a["num_heads"],
        "hidden_size": a["hidden_dim"],
        "intermediate_size": sizes(a)["F"],
        "hidden_act": common.WORDS[a["feed_forward"]],
        "layer_norm_eps": a["layer_norm_epsilon"],
        "hidden_dropout_prob": a["dropout"],
        "attention_probs_dropout_prob": a["dropout"],
        "qkv_bias": True,
        **common.labels(a),
    }


def _plain(size):
    """One number for a square."""
    height, width = _pair(size)
    return height if height == width else [height, width]


def rows(a):
    """The table of Hugging Face."""
    patches, cut = "patch_embedding", "embeddings.patch_embeddings.projection"
    found = [
        one(f"{cut}.weight", f"{patches}/kernel", "P Q B D", "D B P Q"),
        one(f"{cut}.bias", f"{patches}/bias", "D"),
        one("embeddings.cls_token", f"{patches}/class_token", "1 D", "1 1 D"),
        one(
            "embeddings.position_embeddings",
            f"{patches}/position_embeddings",
            "T D",
            "1 T D",
        ),
    ]
    found += common.encoder_layer("attention.attention")
    for theirs, ours in (("before", "self_attention"), ("after", "feedforward")):
        found += layer_norm(f"{LAYER}.layernorm_{theirs}", f"{BLOCK}/{ours}_layer_norm")
    found += layer_norm("layernorm", "final_norm")
    if a["num_classes"] is not None:
        found += dense("classifier", "classes", "D", "C")
    return found


def hub_read(settings, shapes):
    """The arguments of a `ViT`, of the settings of KerasHub."""
    settings.only(
        use_mha_bias=True, use_mlp_bias=True, use_class_token=True, use_patch_bias=True
    )
    shape = settings.get("image_shape")
    if not isinstance(shape, list) or len(shape) != 3:
        settings.refuse("image_shape", "height, width and channels")
    part = type(settings)(dict(zip("HWC", shape, strict=True)), settings.where)
    kind, task = settings.task
    is_classifier, classes = kind == "ViTImageClassifier", None
    if is_classifier:
        classes = common.classes(shapes, f"{HUB_HEAD}/vars/0", 1)
    if classes is not None:
        task.only(pooling="token")
        for name in ("activation", "intermediate_dim"):
            if name in task and task.get(name) != "linear":
                task.refuse(name, "none", "kerasseq builds")
    return {
        "num_classes": classes,
        "image_size": (part.whole("H"), part.whole("W")),
        "patch_size": _size(settings, "patch_size"),
        "channels": part.whole("C"),
        "num_layers": settings.whole("num_layers"),
        "num_heads": settings.whole("num_heads"),
        "hidden_dim": settings.whole("hidden_dim"),
        "intermediate_dim": settings.whole("mlp_dim"),
        "layer_norm_epsilon": settings.number("layer_norm_epsilon", 1e-6),
        "dropout": settings.rate("dropout_rate"),
        "data_format": "channels_last",
    }


def hub_write(a):
    """The settings of KerasHub."""
    if wrong := differing(a, {"feed_forward": "gelu"}):
        raise ValueError(f"a ViTBackbone of KerasHub cannot have {wrong}")
    found = {
        "image_shape": [*_pair(a["image_size"]), a["channels"]],
        "patch_size": list(_pair(a["patch_size"])),
        "num_layers": a["num_layers"],
        "num_heads": a["num_heads"],
        "hidden_dim": a["hidden_dim"],
        "mlp_dim": sizes(a)["F"],
        "dropout_rate": a["dropout"],
        "attention_dropout": a["dropout"],
        "layer_norm_epsilon": a["layer_norm_epsilon"],
    }
    if a["num_classes"] is not None:
        options = {"num_classes": a["num_classes"], "pooling": "token"}
        found["task"] = ("ViTImageClassifier", options)
    return found


def hub_rows(a):
    """The table of KerasHub."""
    cut, encoder = "layers/vi_t_patching_and_embedding", "layers/vi_t_encoder"
    block = f"{encoder}/encoder_layers/vi_t_encoder_block{{_n}}"
    patches, fed = "patch_embedding", f"{BLOCK}/feed_forward"
    weights, norm = hub_layers.weights, hub_layers.norm
    found = [
        *weights(f"{cut}/patch_embedding", patches, "P Q B D", "D"),
        one(f"{cut}/vars/0", f"{patches}/class_token", "1 D", "1 1 D"),
        one(
            f"{cut}/position_embedding/vars/0", f"{patches}/position_embeddings", "T D"
        ),
        *hub_layers.attention(f"{block}/mha", f"{BLOCK}/self_attention"),
        *norm(f"{block}/layer_norm_1", f"{BLOCK}/self_attention_layer_norm"),
        *norm(f"{block}/layer_norm_2", f"{BLOCK}/feedforward_layer_norm"),
        *weights(f"{block}/mlp/dense_1", f"{fed}/intermediate_dense", "D F", "F"),
        *weights(f"{block}/mlp/dense_2", f"{fed}/output_dense", "F D", "D"),
        *norm(f"{encoder}/layer_norm", "final_norm"),
    ]
    if a["num_classes"] is not None:
        found += weights(HUB_HEAD, "classes", "D C", "C")
    return found


VIT = Family(
    name="vit",
    model=ViT,
    sizes=sizes,
    misfit=misfit,
    check=pixels.check,
    huggingface=Format(
        kinds=("vit",),
        read=read,
        write=write,
        rows=rows,
        prefix="vit.",
        heads=("classifier.",),
        left_out=("pooler.*",),
    ),
    keras_hub=Format(
        kinds=("ViTBackbone",),
        read=hub_read,
        write=hub_write,
        rows=hub_rows,
        ignored=("task/optimizer/*",),
        left_out=("task/*",),
    ),
)
