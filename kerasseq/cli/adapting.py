"""Runs that start from the model of another: `--base`, `--lora`, `--quantize`.

The adapter that was trained stands in a file of its own, which `--adapter` puts on the
model of the base again.
"""

import math
import os
import pathlib
from typing import TYPE_CHECKING, Any

from kerasseq.cli import options, runs
from kerasseq.cli.console import note, set_seed, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.options import Option

if TYPE_CHECKING:
    from kerasseq.cli.run import Run

FILE = "adapter.safetensors"  # in the folder of a run
MODES = ("nf4", "int8", "int4")
DEFAULTS = {"lora": None, "quantize": None}
CHOICES = {"quantize": MODES}
OF_BASE = ("model", "units", "num_layers", "num_heads", "position", "dropout")
OF_BASE += ("tokenizer", "vocabulary_size", "chat")
FASTER = 5  # times the rate of training all weights
_BASE = "train the model of a run of language-model further"
_LORA = "train an adapter of this rank of all dense layers, and nothing else"
OPTIONS = (
    Option("--lora", options.integer(), _LORA, "RANK", "model"),
    Option("--quantize", "mode", "of the kernels under an adapter", "MODE", "model"),
)
BASE = Option("--base", str, _BASE, "RUN", "model")


def with_base(arguments: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Adds to the arguments that were given what their base determines.

    Args:
        arguments: The arguments that were given.
        defaults: The defaults of the task.

    Raises:
        FileNotFoundError: If there is no such run.
        UsageError: If an argument contradicts the base, or needs one.
    """
    source = next((name for name in ("base", "preset") if name in arguments), None)
    for name in DEFAULTS:
        if name in arguments and source is None:
            known = [f"--{n}" for n in ("base", "preset") if n in defaults]
            raise UsageError(
                f"--{name} adapts a trained model, received none. Add "
                f"{' or '.join(known)}, or leave it out"
            )
    if "quantize" in arguments and "lora" not in arguments:
        raise UsageError(
            "--quantize rounds kernels, which then cannot be trained: add --lora 8, or "
            "leave it out"
        )
    if source == "base" and "model" in defaults:
        arguments = _with_record(arguments)
    elif source == "base":
        runs.find_model(arguments["base"])
        arguments = {**arguments, "base": os.path.abspath(arguments["base"])}
    if "lora" in arguments:
        rate = options.with_defaults(defaults, arguments)["learning_rate"]
        arguments = {"learning_rate": FASTER * rate, **arguments}
    return arguments


def _with_record(arguments):
    """Adds the kind of the model of the base, and how much it reads."""
    base = arguments["base"]
    for name in OF_BASE:
        if name in arguments and name != "model":
            raise UsageError(
                f"--{name.replace('_', '-')} cannot be chosen with --base, whose model "
                "has its own. Leave it out"
            )
    _, record = runs.find_model(base)
    if record is None or record["task"] != "language-model":
        what = "a file" if record is None else f"a run of {record['task']}"
        raise UsageError(
            f"--base must be the folder of a run of language-model, received {base}, "
            f"{what}"
        )
    model = record["arguments"]["model"]
    if arguments.get("model", model) != model:
        raise UsageError(
            f"--base {base} has the model {model}, received --model "
            f"{arguments['model']}. Leave --model out"
        )
    length = record["arguments"]["sequence_length"]
    arguments = {"sequence_length": length, **arguments}
    return {**arguments, "model": model, "base": os.path.abspath(base)}


def load_base(settings: options.Settings) -> Any:
    """Loads the model of `--base`; None without one."""
    if settings.base is None:
        return None
    model, _ = runs.load_model(settings.base)
    length = model.context_length
    if length is not None and settings.sequence_length > length:
        raise UsageError(
            f"--sequence-length must be at most {length}, which the model of --base "
            f"reads, received {settings.sequence_length}"
        )
    return model


def adapt(model: Any, settings: options.Settings) -> None:
    """Rounds the kernels and adds the adapter, as the options say."""
    if settings.lora is None:
        return
    set_seed(settings.seed)
    with status("adding the adapter"):
        if model.active_adapter is not None:  # of a base that was adapted
            model.merge_lora()
        if settings.quantize == "nf4":
            model.quantize(settings.quantize)
        elif settings.quantize is not None:
            # Keras applies an activation to integers before an adapter could add to it.
            linear = [x for x in model.adaptable_layers if _is_linear(x)]
            model.quantize(settings.quantize, filters=lambda layer: layer in linear)
        model.enable_lora(settings.lora, "all-linear")


def _is_linear(layer):
    import keras

    return layer.activation is keras.activations.linear


def save(run: "Run", model: Any) -> dict[str, Any]:
    """Writes the adapter into the folder of the run, and returns its size.

    Returns:
        Plain data for the results; empty without an adapter.
    """
    if run.settings.lora is None:
        return {}
    file = run.folder / FILE
    model.save_lora_weights(file)
    trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    size = file.stat().st_size
    run.console.info(
        f"The adapter has {trained:,} of {model.count_params():,} weights, and takes "
        f"{size / 1e3:,.0f} kB: {file}"
    )
    return {"trained_parameters": trained, "adapter_bytes": size}


def add_adapter(parser: options.Options) -> None:
    """Adds `--adapter` to the parser of a command that uses a model."""
    text = "an adapter for the model: a file, a folder of PEFT, or a run with --lora"
    options.add(parser, "--adapter", str, text, "FILE")


def load_model(folder: str, adapter: str | None) -> tuple[Any, dict[str, Any] | None]:
    """Loads a model as `runs.load_model`, with an adapter if one is named.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no adapter of this model.
    """
    file = None if adapter is None else _file(adapter)
    model, record = runs.load_model(folder)
    if file is not None:
        if not hasattr(model, "load_lora_weights"):
            raise ValueError(
                f"--adapter is for models with dense layers, received "
                f"{type(model).__name__} in {folder}"
            )
        if model.active_adapter is not None:
            note(f"the adapter of {folder} is replaced by {file}")
            model.set_adapter(None)
        with about(str(file)):
            model.load_lora_weights(file, name=str(file))
    return model, record


def _file(adapter):
    """The file of an adapter, which exists."""
    path = pathlib.Path(adapter)
    if (path / runs.RUN).exists():
        path = path / FILE
    if not path.exists():
        raise FileNotFoundError(
            f'--adapter: there is no file "{path}". Give that of save_lora_weights, or '
            "the folder of a run that was trained with --lora"
        )
    return path
