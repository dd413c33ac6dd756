"""ViT: settings and tables of names."""

import math
import pathlib
from typing import Any

from kerasseq.models.vit.vit import ViT
from kerasseq.pretrained import fields, folders
from kerasseq.pretrained.family import (
    ACTIVATION_NAMES,
    ACTIVATIONS,
    DENSE,
    HUB_HEAD,
    Arguments,
    Family,
    Format,
    Shapes,
    attention_mismatch,
    block_sizes,
    difference,
    label_count,
    num_classes,
)
from kerasseq.pretrained.folders import Settings
from kerasseq.pretrained.label_names import label_settings, read_labels
from kerasseq.pretrained.rows import (
    Row,
    dense,
    hub_attention,
    hub_dense,
    hub_norm,
    layer_norm,
    weight,
    within,
)

# Letters: P and Q height and width of a patch, B channels, T positions, D hidden,
# N heads, K per head, F intermediate, C classes.
EMBEDDINGS = [
    weight("patch_embeddings.projection.weight", "kernel", "P Q B D", "D B P Q"),
    weight("patch_embeddings.projection.bias", "bias", "D"),
    weight("cls_token", "class_token", "1 D", "1 1 D"),
    weight("position_embeddings", "position_embeddings", "T D", "1 T D"),
]
BLOCK = [
    *layer_norm("layernorm_before", "self_attention_layer_norm"),
    *dense("attention.attention.query", "self_attention/query", "D", "N K"),
    *dense("attention.attention.key", "self_attention/key", "D", "N K"),
    *dense("attention.attention.value", "self_attention/value", "D", "N K"),
    *dense("attention.output.dense", "self_attention/attention_output", "N K", "D"),
    *layer_norm("layernorm_after", "feedforward_layer_norm"),
    *dense("intermediate.dense", "feed_forward/intermediate_dense", "D", "F"),
    *dense("output.dense", "feed_forward/output_dense", "F", "D"),
]
ROWS = [
    *within("embeddings.", "patch_embedding/", EMBEDDINGS),
    *within("encoder.layer.{n}.", "block_{n}/", BLOCK),
    *layer_norm("layernorm", "final_norm"),
]
MODULES = {  # renamed in transformers 5; files of weights keep the older names
    "encoder.layer.": "layers.",
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
HUB_EMBEDDINGS = [
    *hub_dense("patch_embedding", "patch_embedding", "P Q B D", "D"),
    weight("vars/0", "patch_embedding/class_token", "1 D", "1 1 D"),
    weight("position_embedding/vars/0", "patch_embedding/position_embeddings", "T D"),
]
HUB_BLOCK = [
    *hub_norm("layer_norm_1", "self_attention_layer_norm"),
    *hub_attention("mha", "self_attention"),
    *hub_norm("layer_norm_2", "feedforward_layer_norm"),
    *hub_dense("mlp/dense_1", "feed_forward/intermediate_dense", "D F", "F"),
    *hub_dense("mlp/dense_2", "feed_forward/output_dense", "F D", "D"),
]
HUB_LAYER = "layers/vi_t_encoder/encoder_layers/vi_t_encoder_block{_n}/"
HUB_ROWS = [
    *within("layers/vi_t_patching_and_embedding/", "", HUB_EMBEDDINGS),
    *within(HUB_LAYER, "block_{n}/", HUB_BLOCK),
    *hub_norm("layers/vi_t_encoder/layer_norm", "final_norm"),
]
SEVERAL = "multi_label_classification"  # problem_type of Hugging Face
OPTIONS = {  # of every published ViT
    "pooling": "token",
    "norm": "layer",
    "norm_placement": "pre",
    "use_bias": True,
    "parallel": False,
    "activation": None,
    "value_range": None,
    "data_format": "channels_last",
    **DENSE,
}

SETTINGS: list[fields.Field] = [  # of Hugging Face
    ("channels", "num_channels", fields.WHOLE, 3),
    ("num_layers", "num_hidden_layers", fields.WHOLE),
    ("num_heads", "num_attention_heads", fields.WHOLE),
    ("hidden_dim", "hidden_size", fields.WHOLE),
    ("intermediate_dim", "intermediate_size", fields.WHOLE),
    ("layer_norm_epsilon", "layer_norm_eps", fields.NUMBER, 1e-12),
    ("dropout", "hidden_dropout_prob", fields.RATE),
]
HUB_SETTINGS: list[fields.Field] = [
    ("num_layers", "num_layers", fields.WHOLE),
    ("num_heads", "num_heads", fields.WHOLE),
    ("hidden_dim", "hidden_dim", fields.WHOLE),
    ("intermediate_dim", "mlp_dim", fields.WHOLE),
    ("layer_norm_epsilon", "layer_norm_epsilon", fields.NUMBER, 1e-6),
    ("dropout", "dropout_rate", fields.RATE),
]


def rows(a: Arguments) -> list[Row]:
    """Returns the table of Hugging Face."""
    head = dense("classifier", "classes", "D", "C")
    return [*ROWS, *head] if a["include_top"] else ROWS


def hub_rows(a: Arguments) -> list[Row]:
    """Returns the table of KerasHub."""
    if not a["include_top"]:
        return HUB_ROWS
    return [*HUB_ROWS, *hub_dense(HUB_HEAD, "classes", "D C", "C")]


def sizes(a: Arguments) -> dict[str, int]:
    """Returns the size of each letter."""
    (P, Q), (height, width) = _pair(a["patch_size"]), _pair(a["image_size"])
    return {
        "P": P,
        "Q": Q,
        "B": a["channels"],
        "T": 1 + (height // P) * (width // Q),
        **block_sizes(a),
        "C": label_count(a["labels"]) or 0,
    }


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def mismatch(a: Arguments) -> str | None:
    """Returns why a `ViT` is not one of the published ones."""
    if a["include_top"] and a["labels"] is None:
        return "labels that have not been learned yet"
    return attention_mismatch(a, OPTIONS)


def read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of Hugging Face to arguments of `ViT`."""
    settings.require(qkv_bias=True)
    image, patch = _size(settings, "image_size"), _size(settings, "patch_size")
    if any(side % part for side, part in zip(image, patch, strict=True)):
        wanted = f"a multiple of patch_size = {settings.get('patch_size')}"
        settings.refuse("image_size", wanted)
    return {
        **_classifier(num_classes(shapes, "classifier.weight"), settings),
        "image_size": image,
        "patch_size": patch,
        **fields.read(settings, SETTINGS),
        "feed_forward": settings.word("hidden_act", ACTIVATIONS, "gelu"),
        "data_format": "channels_last",
    }


def _classifier(count, settings=None):
    """Returns the arguments of the classifier, with the names that the file has."""
    if count is None:
        return {"include_top": False, "labels": None}
    labels, several = count, False
    if settings is not None:
        labels = read_labels(settings, count)
        several = settings.get("problem_type", None) == SEVERAL
    return {"include_top": True, "labels": labels, "multi_label": several}


def _size(settings, name):
    """Returns height and width from two numbers, or from one for both."""
    value = settings.get(name)
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        settings.refuse(name, "a whole number, or two of them")
    return tuple(sides)


def write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `ViT` to settings of Hugging Face."""
    name = "ViTForImageClassification" if a["include_top"] else "ViTModel"
    return {
        "architectures": [name],
        "image_size": _number_or_pair(a["image_size"]),
        "patch_size": _number_or_pair(a["patch_size"]),
        **fields.write(fields.resolved(a), SETTINGS),
        "hidden_act": ACTIVATION_NAMES[a["feed_forward"]],
        "attention_probs_dropout_prob": a["dropout"],
        "qkv_bias": True,
        **label_settings(a["labels"]),
        **({"problem_type": SEVERAL} if a["multi_label"] else {}),
    }


def _number_or_pair(size):
    """Returns one number for a square, else height and width."""
    height, width = _pair(size)
    return height if height == width else [height, width]


def hub_read(settings: Settings, shapes: Shapes) -> Arguments:
    """Converts settings of KerasHub to arguments of `ViT`."""
    settings.require(
        use_mha_bias=True, use_mlp_bias=True, use_class_token=True, use_patch_bias=True
    )
    shape = settings.get("image_shape")
    if not isinstance(shape, list) or len(shape) != 3:
        settings.refuse("image_shape", "height, width and channels")
    part = Settings(dict(zip("HWC", shape, strict=True)), settings.where)
    kind, task = settings.task
    is_classifier, classes = kind == "ViTImageClassifier", None
    if is_classifier:
        classes = num_classes(shapes, f"{HUB_HEAD}/vars/0", 1)
    if classes is not None:
        task.require(pooling="token")
        for name in ("activation", "intermediate_dim"):
            if name in task and task.get(name) != "linear":
                task.refuse(name, "none", "kerasseq builds")
    return {
        **_classifier(classes),
        "image_size": (part.whole("H"), part.whole("W")),
        "patch_size": _size(settings, "patch_size"),
        "channels": part.whole("C"),
        **fields.read(settings, HUB_SETTINGS),
        "data_format": "channels_last",
    }


def hub_write(a: Arguments) -> dict[str, Any]:
    """Converts arguments of `ViT` to settings of KerasHub."""
    if wrong := difference(a, {"feed_forward": "gelu", "multi_label": False}):
        raise ValueError(f"a ViTBackbone of KerasHub cannot have {wrong}")
    settings = {
        "image_shape": [*_pair(a["image_size"]), a["channels"]],
        "patch_size": list(_pair(a["patch_size"])),
        **fields.write(fields.resolved(a), HUB_SETTINGS),
        "attention_dropout": a["dropout"],
    }
    if a["include_top"]:
        options = {"num_classes": sizes(a)["C"], "pooling": "token"}
        settings["task"] = ("ViTImageClassifier", options)
    return settings


# Preprocessing of images, which must be that of `ViT`

CENTER = 0.5  # mean and standard deviation, for pixels from 0 to 1
HUB_SCALE = {"scale": 1 / 127.5, "offset": -1.0}  # the same, for pixels from 0 to 255


def check_preprocessing(folder: pathlib.Path) -> None:
    """Raises an error if a folder does not scale pixels to the range from -1 to 1."""
    path = folder / "preprocessor_config.json"
    if path.exists():
        settings = Settings(folders.read_table(path), path)
        settings.require(do_normalize=True, do_rescale=True, rescale_factor=1 / 255)
        for name in ("image_mean", "image_std"):
            _check_values(settings, name, settings.get(name, CENTER), CENTER)
    path = folder / "image_converter.json"
    if path.exists():
        settings = Settings(folders.read_table(path), path).part("config")
        for name, expected in HUB_SCALE.items():
            _check_values(settings, name, settings.get(name, "nothing"), expected)


def _check_values(settings, name, values, expected):
    """Raises an error unless all values, of one channel or of each, are as expected."""
    for value in values if isinstance(values, list) else [values]:
        is_number = isinstance(value, int | float)
        if not is_number or not math.isclose(value, expected, rel_tol=1e-6):
            settings.refuse(name, f"{expected:g} for each channel", "ViT has")


VIT = Family(
    name="vit",
    model=ViT,
    sizes=sizes,
    mismatch=mismatch,
    check=check_preprocessing,
    huggingface=Format(
        kinds=("vit",),
        read=read,
        write=write,
        rows=rows,
        prefix="vit.",
        heads=("classifier.",),
        left_out=("pooler.*",),
        modules=MODULES,
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
