"""The table of formats: who writes each, and what reads and checks it.

A format is a module of this package with these functions:

    write(model, folder, length)   writes its files into a folder
    check(model, folder, length)   runs them by their runtime, and returns the largest
                                   difference of an output from that of the model

A module may have `output_names(model, folder)`, if the outputs have other names in the
file than in the model, and `NOTES`, what users of its files must know.

`model` computes in float32; `length` is the number of steps that the files are to
have, or None if it is to be free. `write` raises an error if the format cannot hold
the model. Loads no Keras.
"""

import dataclasses
import importlib
import importlib.util
from collections.abc import Mapping
from types import ModuleType

TF2ONNX, TORCH_ONNX = ("onnx", "tf2onnx"), ("onnx", "onnxscript")


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        module: The module of this package that writes and checks it.
        backends: The backends that may write it, each with the packages that it needs.
            The first that is installed and whose files are right does.
        reader: The package that reads the files, and without which nothing is checked;
            None for the backend.
        is_fixed: Whether the number of steps is always fixed; else it is tried free
            first.
        is_free: Whether it is free, whatever the model.
        is_alike: Whether the files do not depend on the backend: one of them tries.
        needs: Packages that the reader needs, and without which it checks nothing.
        has_int8: Whether there is `quantize="int8"`: the module then has `FILES`, and
            `quantize(model, folder, length)` and `load(model, file)`.
    """

    module: str
    backends: Mapping[str, tuple[str, ...]]
    reader: str | None = None
    is_fixed: bool = False
    is_free: bool = False
    is_alike: bool = False
    needs: tuple[str, ...] = ()
    has_int8: bool = False


FORMATS: dict[str, Format] = {
    "onnx": Format(
        "onnx_file",
        {"tensorflow": TF2ONNX, "torch": TORCH_ONNX},
        "onnxruntime",
        has_int8=True,
    ),
    "tf_saved_model": Format("saved_model", {"tensorflow": ()}),
    "torch": Format("torch_program", {"torch": ()}),
    "openvino": Format(
        "openvino_file",
        {"tensorflow": ("openvino",), "torch": ("openvino",)},
        "openvino",
    ),
    "litert": Format(
        "litert_file",
        {"tensorflow": ()},
        "ai-edge-litert",
        is_fixed=True,
        has_int8=True,
    ),
    "huggingface": Format(
        "huggingface_folder",
        dict.fromkeys(("torch", "tensorflow", "jax"), ("safetensors",)),
        "transformers",
        is_free=True,
        is_alike=True,
        needs=("torch",),
    ),
}
# Models that decode have files of their own, prompt and step, in some formats: by the
# format and the class of the model.
STEPS = Format("decoder_steps", {"tensorflow": TF2ONNX}, "onnxruntime", is_free=True)
DECODERS: dict[tuple[str, str], Format] = {
    ("onnx", name): STEPS
    for name in (
        *("GPT", "Mamba", "RWKV", "XLSTM", "LanguageModel"),
        *("Seq2Seq", "Transformer", "T5", "BART"),
    )
}


def format_of(name: str, model: str) -> Format:
    """Returns the format in which a model is written.

    Args:
        name: A name in `FORMATS`.
        model: The class of the model, such as "GPT".
    """
    return DECODERS.get((name, model), FORMATS[name])


def module_of(format: Format) -> ModuleType:
    """Imports the module of a format, on a backend that writes it."""
    return importlib.import_module(f"kerasseq.exporting.{format.module}")
