"""Settings of the layers inside a layer or model that were changed after creation.

A layer that makes others is saved as its own arguments. Whether one of those inside is
frozen, adapted by LoRA, quantized, or has a dtype policy of its own, is kept here: by
`WithSublayers` in the build config of a layer, by `TaskModel` in the config of a model.
"""

import collections
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from kerasseq.core.arguments import listed
from kerasseq.core.dense import LoRA
from kerasseq.core.keras_private import children
from kerasseq.core.synonyms import nearest_argument
from kerasseq.core.types import Config

KEY = "sublayers"


class WithSublayers:
    """A layer with others inside that Keras does not find in its config: a mixin."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(*args, **kwargs)
        except ValueError as error:
            if not str(error).startswith("Unrecognized keyword arguments"):
                raise
            known = listed(type(self))  # Keras suggests no name
            unknown = next(name for name in kwargs if name not in known)
            near = nearest_argument(unknown, known)
            raise ValueError(f"{error}.{near}" if near else str(error)) from None

    def get_build_config(self) -> Config | None:
        """Returns the shapes to build with, and what was set on the layers inside."""
        config = super().get_build_config()
        settings = settings_of(self) if config else {}
        return {**config, KEY: settings} if settings else config

    def build_from_config(self, config: Config) -> None:
        """Builds the layer, and sets what was set on the layers inside."""
        super().build_from_config(config)
        if KEY in config:
            apply_settings(self, config[KEY])


def settings_of(layer: keras.Layer) -> dict[str, dict[str, Any]]:
    """Returns the settings in which layers differ from the one that contains them.

    Returns:
        Plain data: by kind of setting and by path, see `walk`.

    Examples:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> settings_of(model)
        {}
        >>> model.layers[0].trainable = False
        >>> settings_of(model)
        {'trainable': {'Dense': False}}
    """
    settings = collections.defaultdict(dict)
    for path, child, parent in walk(layer):
        if child.trainable != parent.trainable:
            settings["trainable"][path] = child.trainable
        if child.dtype_policy != parent.dtype_policy:
            policy = keras.dtype_policies.serialize(child.dtype_policy)
            settings["dtype"][path] = policy
        if getattr(child, "quantization_config", None) is not None:
            how = keras.saving.serialize_keras_object(child.quantization_config)
            settings["quantization"][path] = how
        if getattr(child, "nf4", None) is not None:
            settings["nf4"][path] = True
        if getattr(child, "lora", None) is not None:
            settings["adapter"][path] = [*dataclasses.astuple(child.lora)]
        if getattr(child, "lora_enabled", False):  # of Keras
            settings["lora"][path] = [child.lora_rank, child.lora_alpha]
    return dict(settings)


def apply_settings(layer: keras.Layer, settings: dict[str, dict[str, Any]]) -> None:
    """Sets on the layers inside `layer`, which is built, what `settings_of` found."""
    trainable, dtypes = settings.get("trainable", {}), settings.get("dtype", {})
    for path, child, parent in walk(layer):
        policy = keras.dtype_policies.get(dtypes.get(path, parent.dtype_policy))
        how = settings.get("quantization", {}).get(path)
        if how is not None:
            child.quantize(
                policy.quantization_mode,
                config=keras.saving.deserialize_keras_object(how),
            )
        if child.dtype_policy != policy:
            child.dtype_policy = policy
        if settings.get("nf4", {}).get(path) and child.nf4 is None:
            child.to_nf4()
        lora = settings.get("lora", {}).get(path)
        if lora is not None and not child.lora_enabled:
            child.enable_lora(lora[0], lora_alpha=lora[1])
        adapter = settings.get("adapter", {}).get(path)
        if adapter is not None and child.lora is None:
            child.add_lora(LoRA(*adapter))
        wanted = trainable.get(path, parent.trainable)
        if child.trainable != wanted:
            child.trainable = wanted


def restart_lora(model: keras.Model) -> None:
    """Gives LoRA weights of 0 new values, so that a loaded model can train them.

    A file holds the product of A and B within the matrix that they adapt, and Keras
    then loads zeros for both, which have no gradient. A starts as in `enable_lora`, B
    at zero: the model computes the same, and trains the same weights.
    """
    for layer in flatten(model):
        if not getattr(layer, "lora_enabled", False):
            continue
        names = ("lora_kernel_a", "lora_embeddings_a")
        a = next(getattr(layer, name) for name in names if hasattr(layer, name))
        if not np.any(keras.ops.convert_to_numpy(a)):
            a.assign(keras.initializers.HeUniform()(a.shape, a.dtype))


def flatten(layer: keras.Layer) -> list[keras.Layer]:
    """Returns a layer and all layers inside, each once, outer ones first.

    Examples:
        >>> dense = keras.layers.Dense(3)
        >>> [type(one).__name__ for one in flatten(keras.layers.TimeDistributed(dense))]
        ['TimeDistributed', 'Dense']
    """
    return [layer, *(child for _, child, _ in walk(layer))]


def walk(
    layer: keras.Layer, path: str = "", seen: set[int] | None = None
) -> Iterator[tuple[str, keras.Layer, keras.Layer]]:
    """Yields each layer inside once, outer ones first: path, layer, the one it is in.

    A path has names of classes, numbered where there are several of one: other than the
    names of layers they are the same in each process.
    """
    seen = {id(layer)} if seen is None else seen
    counts = collections.Counter()
    for child in children(layer):
        name = type(child).__name__
        number = counts[name]
        counts[name] += 1
        if id(child) in seen:
            continue
        seen.add(id(child))
        here = f"{path}/{name}_{number}" if path else f"{name}_{number}"
        here = here.removesuffix("_0")
        yield here, child, layer
        yield from walk(child, here, seen)


@contextlib.contextmanager
def default_policy(policy: keras.DTypePolicy | str | Config | None) -> Iterator[None]:
    """Makes this dtype policy the default inside the block.

    Args:
        policy: A `keras.DTypePolicy`, its name or its config; None changes nothing.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(keras.dtype_policies.get(policy or before))
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
