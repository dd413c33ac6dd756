"""How a model was compiled, as its file has it."""

from typing import Any, NoReturn

import keras

from kerasseq import kernels
from kerasseq.core.portable import portable_settings, public_optimizers
from kerasseq.core.serialization import register
from kerasseq.core.types import Config

OWN = ("remat", "loss_chunk_size", "micro_batches")  # which Keras does not have
MARK = "own_settings"


@register
class OwnSettings:
    """Marks settings of `compile` that a plain model of Keras cannot read.

    `keras.models.clone_model` makes such a model, and passes it all settings.

    Args:
        settings: The settings, by name.
    """

    def __init__(self, settings: Config) -> None:
        self.settings = settings

    def get_config(self) -> Config:
        return self.settings

    @classmethod
    def from_config(cls, config: Config) -> NoReturn:
        """Raises, as `TaskModel` takes the mark out before it reads its settings."""
        given = ", ".join(f"{name}={value!r}" for name, value in config.items())
        raise ValueError(
            "keras.models.clone_model makes a plain model of Keras, which cannot be "
            f"trained with {given}. For a new model of the same class: new = "
            "type(model).from_config(model.get_config()), new.compile(...). For a "
            "plain one: model.compile() without them before"
        )


def saved(config: Config, chosen: Config) -> Config:
    """Returns settings as the user chose them, with nothing of this backend.

    Args:
        config: Those of Keras.
        chosen: Those that differ from what Keras has, by name.
    """
    own = {name: chosen[name] for name in OWN if name in chosen}
    mark = {MARK: keras.saving.serialize_keras_object(OwnSettings(own))} if own else {}
    return {**public_optimizers(config), **chosen, **mark}


def restored(config: Config) -> tuple[dict[str, Any], Config]:
    """Returns the arguments of `compile`, and the choice of another compiler.

    Args:
        config: As `saved` returns it, on any backend.
    """
    config = portable_settings({"compile_config": config})["compile_config"]
    config = {name: value for name, value in config.items() if name != MARK}
    chosen = config.get("jit_compile")
    of_compiler = {}
    if isinstance(chosen, str):  # the name of a compiler is a choice for it alone
        config["jit_compile"] = True if chosen == kernels.compiler() else "auto"
        of_compiler = {"jit_compile": chosen}
    return keras.saving.deserialize_keras_object(config), of_compiler
