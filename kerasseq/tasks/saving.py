"""What the file of a model has: its arguments, how it was compiled, and its seeds."""

from collections.abc import Sequence
from typing import Any, NoReturn

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import sublayers
from kerasseq.core.portable import portable_settings, public_optimizers
from kerasseq.core.serialization import register
from kerasseq.core.types import Config
from kerasseq.tasks import adapters
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.text.tokenizers.with_tokenizer import (
    tokenizer_config,
    tokenizer_from_config,
)

OWN = ("remat", "loss_chunk_size", "micro_batches")  # which Keras does not have
MARK = "own_settings"
SEED = "seed_"  # of the states of seed generators


def config_of(model: Any) -> Config:
    """Returns the arguments of a model, and later settings of its layers.

    Those settings are described in `core.sublayers`.

    Args:
        model: A `TaskModel`.
    """
    plain = {name: as_plain(value) for name, value in model._arguments.items()}
    return {
        "name": model.name,
        "trainable": model.trainable,
        "dtype": keras.dtype_policies.serialize(model.dtype_policy),
        sublayers.KEY: sublayers.settings_of(model),
        **plain,
    }


def export(
    model: Any,
    filepath: Any,
    format: str = "tf_saved_model",
    verbose: bool | None = None,
    input_signature: Any = None,
    **kwargs: Any,
) -> None:
    """Exports the graph of a model, as `keras.Model.export`.

    An error names `kerasseq.exporting.export_model`, which writes more formats on each
    backend, with the tokenizer, and runs them.

    Args:
        model: A `TaskModel`.
        filepath: As for `keras.Model.export`, like the other arguments.
        format: The format.
        verbose: Whether to print a message.
        input_signature: Shapes of the inputs.
        **kwargs: For the exporter of the format.
    """
    try:
        keras.Model.export(model, filepath, format, verbose, input_signature, **kwargs)
    except Exception as error:
        error.add_note(
            "kerasseq.exporting.export_model(model, folder) writes ONNX and other "
            "formats on any backend, with the tokenizer, and compares their answers"
        )
        raise


def model_of(cls: type, config: Config) -> Any:
    """Makes a model again, of the dtype that it had, whatever is the default.

    Args:
        cls: Its class.
        config: As from `config_of`.
    """
    config = dict(config)
    settings = config.pop(sublayers.KEY, None)
    with sublayers.default_policy(config.pop("dtype", None)):
        model = cls(**{name: from_plain(value) for name, value in config.items()})
    if settings is not None:
        sublayers.apply_settings(model, settings)
        adapters.restore(model)
    return model


def as_plain(value: Any) -> Any:
    """Returns an argument as plain JSON: a tokenizer or a Keras object as its config.

    In a list, each of its items.

    Examples:
        >>> as_plain("gru"), as_plain(keras.layers.Dense(3))["class_name"]
        ('gru', 'Dense')
    """
    if isinstance(value, Tokenizer):
        return tokenizer_config(value)
    if hasattr(value, "get_config"):
        return keras.saving.serialize_keras_object(value)
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value


def from_plain(value: Any) -> Any:
    """Returns what `as_plain` was made from.

    Examples:
        >>> from_plain(as_plain(keras.layers.Dense(3))).units
        3
    """
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    if value.keys() == {"class_name", "config"}:
        return tokenizer_from_config(value)
    return keras.saving.deserialize_keras_object(value)


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


def chosen_settings(
    jit_compile: Any, options: Config, remat: Any, micro_batches: int, chunks: Any
) -> Config:
    """Returns settings of `compile` that differ from what Keras has, by name.

    Args:
        jit_compile: As the user chose it.
        options: Other arguments for Keras.
        remat: As for `TaskModel.compile`, like the next one.
        micro_batches: In how many parts the gradient of a batch is computed.
        chunks: The `Chunks` of the model, or None.
    """
    return {
        "jit_compile": kernels.compiler() if jit_compile is True else jit_compile,
        "auto_scale_loss": options.get("auto_scale_loss", True),
        **({} if remat is None else {"remat": remat}),
        **({} if micro_batches == 1 else {"micro_batches": micro_batches}),
        **({} if chunks is None else chunks.chosen()),
    }


def saved_settings(config: Config, chosen: Config) -> Config:
    """Returns settings as the user chose them, with nothing of this backend.

    Args:
        config: Those of Keras.
        chosen: Those that differ from what Keras has, by name.
    """
    own = {name: chosen[name] for name in OWN if name in chosen}
    mark = {MARK: keras.saving.serialize_keras_object(OwnSettings(own))} if own else {}
    return {**public_optimizers(config), **chosen, **mark}


def awaiting_settings(args: Sequence[Any], options: Config) -> Config | None:
    """Returns settings for which `fit` is to compile a model; None without any.

    Args:
        args: Arguments of `compile`, in order.
        options: Others by name.

    Examples:
        >>> awaiting_settings(("sgd",), {"metrics": None})
        {'optimizer': 'sgd'}
    """
    names = "optimizer", "loss", "loss_weights", "metrics"
    given = {**dict(zip(names, args, strict=False)), **options}
    given = {name: value for name, value in given.items() if value is not None}
    return public_optimizers(keras.saving.serialize_keras_object(given)) or None


def restored_settings(config: Config) -> tuple[dict[str, Any], Config]:
    """Returns the arguments of `compile`, and the choice of another compiler.

    Args:
        config: As `saved_settings` returns it, on any backend.
    """
    config = portable_settings({"compile_config": config})["compile_config"]
    config = {name: value for name, value in config.items() if name != MARK}
    chosen = config.get("jit_compile")
    of_compiler = {}
    if isinstance(chosen, str):  # the name of a compiler is a choice for it alone
        config["jit_compile"] = True if chosen == kernels.compiler() else "auto"
        of_compiler = {"jit_compile": chosen}
    return keras.saving.deserialize_keras_object(config), of_compiler


def save_seeds(model: keras.Model, store: Any) -> None:
    """Writes the states of a model into a group of its file."""
    for n, state in enumerate(_states(model)):
        store[f"{SEED}{n}"] = state


def load_seeds(model: keras.Model, store: Any) -> None:
    """Reads the states of a model from a group, if it has any."""
    names = set(store.keys())
    for n, state in enumerate(_states(model)):
        if f"{SEED}{n}" in names:
            state.assign(np.array(store[f"{SEED}{n}"]))


def without_seeds(store: Any) -> dict[str, Any]:
    """Returns what a group has beside the states.

    Examples:
        >>> without_seeds({"0": 3.0, "seed_0": 5})
        {'0': 3.0}
    """
    names = [name for name in store.keys() if not name.startswith(SEED)]  # noqa: SIM118
    return {name: store[name] for name in names}


def _states(model):
    """Returns integer variables that are no weights."""
    weights = {id(weight) for weight in model.weights}
    others = [v for v in model.variables if id(v) not in weights]
    return [v for v in others if not keras.backend.is_float_dtype(v.dtype)]
