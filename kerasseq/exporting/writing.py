"""Writes the files of a model on the backend that Keras runs on, and checks them."""

import contextlib
import importlib.metadata
import io
import os
import pathlib
import re
import shutil
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import keras

from kerasseq.core import packages
from kerasseq.exporting import companions, inputs, rounding
from kerasseq.exporting.checks import TOLERANCE
from kerasseq.exporting.failures import as_final, is_final
from kerasseq.exporting.formats import Format, format_of, module_of
from kerasseq.exporting.precision import in_float32

LONGEST = 300  # characters of an error of a converter
BOLD = re.compile(r"\x1b\[[0-9;]*m")  # in the errors of Keras


def write_model(
    model: keras.Model,
    folder: pathlib.Path,
    *,
    format: str,
    quantize: str | None = None,
    length: int | None = None,
    samples: Any = None,
    max_characters: int | None = None,
) -> dict[str, Any]:
    """Writes a model into an empty folder, with what its users need beside it.

    Args:
        model: The model.
        folder: The folder, which is left empty if no file is right.
        format: The format.
        quantize: "int8" or None.
        length: Number of steps where the format cannot leave it free; None for 128.
        samples: Inputs on which the answers of 8 bits are compared, or None.
        max_characters: Characters to which texts were cut in training, or None.

    Returns:
        The values of `Exported` as plain data, or "error": why there are no files.
    """
    model = functional(model)
    precise = in_float32(model)
    chosen = format_of(format, kind_of(model))
    try:
        with _quiet():
            steps, difference = _first_right(precise, folder, chosen, length)
    except _NotWritten as error:
        return {"error": str(error)}
    module = module_of(chosen)
    batch = getattr(module, "BATCH", None)
    output_names = getattr(module, "output_names", lambda *_: None)
    names = output_names(precise, folder)
    notes = companions.write(precise, folder, steps, names, batch, max_characters)
    notes += getattr(module, "NOTES", ())
    if precise is not model:
        notes.insert(
            0, "The model was trained in mixed precision: the file has float32."
        )
    int8 = None
    if quantize is not None:
        with _quiet():
            int8 = rounding.compare(precise, folder, module, steps, samples)
    return {
        "files": sizes_of(folder),
        "length": steps,
        "batch": batch,
        "checked_by": None if difference is None else _reader(chosen),
        "difference": difference,
        "notes": notes,
        "int8": int8,
    }


def functional(model: keras.Model) -> keras.Model:
    """Returns a sequential model as a functional one, which knows its input.

    Args:
        model: The model; others, and one that is not built, are returned as they are.
    """
    if not isinstance(model, keras.Sequential) or not model.inputs:
        return model
    return keras.Model(model.inputs, model.outputs[0], name=model.name)


def kind_of(model: keras.Model) -> str:
    """Returns the class of a model; "" if it could decode, but predicts no tokens."""
    name = type(model).__name__
    return "" if getattr(model, "head", name) is None else name


class _NotWritten(ValueError):
    """No file is right."""


def _first_right(model, folder, format, length):
    """Writes and checks free and fixed lengths, until a file is right.

    Returns:
        The number of steps, or None if it is free; and the difference from the model,
        or None if what reads the files is not installed.
    """
    module, reasons = module_of(format), []
    for steps in _lengths(model, format, length):
        try:
            module.write(model, folder, steps)
            if not all(map(_is_installed, (format.reader, *format.needs))):
                return steps, None
            difference = module.check(model, folder, steps)
            if difference is None or difference <= TOLERANCE:
                return steps, difference
            reason = f"the outputs differ by {difference:.2g} of the largest"
        except Exception as error:
            if is_final(final := as_final(error)):
                raise final from error
            reason = _short(error)
        empty(folder)
        free = "free length" if steps is None else f"length {steps}"
        several = not format.is_free and inputs.has_free_length(model)
        reasons.append(f"{reason} ({free})" if several else reason)
    raise _NotWritten("; ".join(dict.fromkeys(reasons)))


def _lengths(model, format: Format, length: int | None) -> list[int | None]:
    """Returns the lengths to try: free, if the format can, and then a fixed one."""
    if format.is_free or not inputs.has_free_length(model):
        return [None]
    fixed = inputs.fixed_length(model) if length is None else length
    return [fixed] if format.is_fixed else [None, fixed]


def _short(error: Exception) -> str:
    """Returns the first lines of an error of a converter, which may have hundreds."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = BOLD.sub("", " ".join(lines))
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    if not text:
        places = traceback.extract_tb(error.__traceback__)
        where = f"{places[-1].name} of {places[-1].filename}" if places else "it"
        return (
            f"the converter raised {type(error).__name__} without a reason in {where}"
        )
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def empty(folder: pathlib.Path) -> None:
    """Deletes what is in a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def sizes_of(folder: pathlib.Path) -> dict[str, int]:
    """Returns the size in bytes of each file in a folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _is_installed(package):
    return package is None or packages.is_installed(package)


def _reader(format):
    """Returns the name and the version of what reads a format."""
    name = format.reader or keras.backend.backend()
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:  # onnxruntime-gpu, tensorflow-cpu
        return name


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drops what converters print and warn of: what matters is an error, or found."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        before = os.environ.get("TF_CPP_MIN_LOG_LEVEL")
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        try:
            yield
        finally:
            os.environ.pop("TF_CPP_MIN_LOG_LEVEL")
            if before is not None:
                os.environ["TF_CPP_MIN_LOG_LEVEL"] = before
