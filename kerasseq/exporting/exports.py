"""Exports a model, in this process or in one of a backend that can.

A `.keras` file belongs to no backend: another one may load it, and write the format.
Loads no Keras, unless a model is exported here.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kerasseq.core import archive, backend, checks, packages
from kerasseq.core.files import as_path, temporary_path
from kerasseq.core.types import FilePath
from kerasseq.exporting.formats import FORMATS, Format, format_of
from kerasseq.exporting.results import Exported, Rounded

if TYPE_CHECKING:
    import keras

WORKER = "kerasseq.exporting.worker"
QUANTIZED = ("int8",)
NO_INT8 = {
    "tf_saved_model": 'a SavedModel has float weights. Choose format="litert"',
    "torch": 'a program of torch.export has float weights. Choose format="onnx"',
    "huggingface": "engines round the weights of such a folder. Leave it out",
    "openvino": "OpenVINO rounds weights by the package nncf, which kerasseq does not "
    'use. Choose format="onnx"',
}


def export_model(
    model: "keras.Model | FilePath",
    path: FilePath,
    format: str = "onnx",
    *,
    quantize: str | None = None,
    length: int | None = None,
    samples: Any = None,
    max_characters: int | None = None,
) -> Exported:
    """Writes a model as files that another runtime reads, without Keras.

    The files are loaded by their runtime and compared with the model at two batch sizes
    and lengths. If they differ, or no backend can write them, nothing is left of them.
    Beside them are `preprocessing.json`, and for texts `tokenizer.json` and
    `labels.json`.

    The model is exported by this process if it runs on a backend that writes the
    format, else by a process of another one. A model in mixed precision is exported
    from a copy in float32.

    Args:
        model: A `keras.Model`, or the `.keras` file of one.
        path: The folder, which must not exist.
        format: "onnx", "tf_saved_model", "torch", "openvino", "litert" or
            "huggingface". In the format "onnx", a GPT, a LanguageModel or a model with
            encoder and decoder is two programs: the prompt, and one step.
        quantize: "int8" to write a second file with weights of 8 bits, for "onnx" and
            "litert"; None for none.
        length: Number of steps of files that cannot leave it free. Defaults to 128, or
            the most that the model takes.
        samples: Inputs on which the answers of "int8" are compared: a list of texts,
            or arrays. None for random ones.
        max_characters: Characters to which texts were cut in training, for
            `preprocessing.json`; None if they were not.

    Returns:
        What was written.

    Raises:
        FileExistsError: If `path` exists.
        ImportError: If neither a backend that writes the format is installed, nor what
            it needs.
        ValueError: If an argument is wrong, or the format cannot hold the model.

    Examples:
        >>> import tempfile
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_model(model, f"{folder}/exported", "tensorrt")
        Traceback (most recent call last):
        ...
        ValueError: format="tensorrt" is not one of "onnx", "tf_saved_model", "torch", \
"openvino", "litert", "huggingface".
    """
    checks.one_of("format", format, list(FORMATS))
    checks.one_of("quantize", quantize, [None, *QUANTIZED])
    for name, size in (("length", length), ("max_characters", max_characters)):
        checks.optional(checks.whole_number, name, size)
    if quantize is not None and not FORMATS[format].has_int8:
        raise ValueError(f'quantize="int8" is not for {format}: {NO_INT8[format]}')
    is_file = isinstance(model, str | os.PathLike)
    kind = _class_of_file(model) if is_file else type(model).__name__
    written = format_of(format, kind)
    if quantize is not None and not written.has_int8:
        raise ValueError(
            f'quantize="int8" is not for the format {format} of a {kind}, whose prompt '
            "and step have float weights. Leave it out"
        )
    request = {"format": format, "quantize": quantize, "length": length}
    request["max_characters"] = max_characters
    backends = _usable(format, written)
    if written.is_alike:  # another backend writes the same, or fails alike
        backends = [next((b for b in backends if _runs_here(model, b)), backends[0])]
    with new_folder(path) as folder:
        answer = _first_right(model, folder, request, samples, backends)
    int8 = answer.pop("int8")
    return Exported(
        path=pathlib.Path(path),
        format=format,
        int8=int8 and Rounded(**int8),
        notes=tuple(answer.pop("notes")),
        **answer,
    )


def _class_of_file(path):
    """Returns the name of the class of the model in a file."""
    name = archive.read_config(as_path("model", path)).get("class_name")
    return name if isinstance(name, str) else ""


def _usable(name: str, format: Format) -> list[str]:
    """Returns the installed backends that write a format, that of Keras first.

    Raises:
        ImportError: If none is installed with what it needs.
    """
    reasons, usable = [], []
    installed = backend.installed()
    for one, needed in format.backends.items():
        missing = [each for each in needed if not packages.is_installed(each)]
        if one not in installed:
            missing.insert(0, one)
        if missing:
            reasons.append(missing)
        else:
            usable.append(one)
    if not usable:
        listed = " or ".join(" and ".join(missing) for missing in reasons)
        raise ImportError(
            f"the format {name} is written by {' or '.join(format.backends)}, and "
            f"needs {listed}, which is not installed. {packages.install(*reasons[0])}"
        )
    return usable


@contextlib.contextmanager
def new_folder(path: FilePath) -> Iterator[pathlib.Path]:
    """Makes a folder of files at once, or not at all.

    Args:
        path: The folder, which must not exist.

    Yields:
        A temporary folder beside it, which becomes `path` at the end of the block, and
        is deleted after an error.

    Raises:
        FileExistsError: If `path` exists.
    """
    path = as_path("path", path)
    if os.path.lexists(path):
        raise FileExistsError(
            f"{path} exists, and nothing is overwritten. Choose a new folder"
        )
    parent = path.absolute().parent
    if parent.exists() and not parent.is_dir():
        raise ValueError(f"{parent} is a file: choose another folder than {path}")
    made = [each for each in (parent, *parent.parents) if not each.exists()]
    temporary = temporary_path(path)
    try:
        _make(temporary, path)
        yield temporary
        _move(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):  # another process may use them meanwhile
            for each in made:
                each.rmdir()
        raise


def _make(temporary, path):
    """Makes a folder with those above it; an error names the path of the user."""
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _move(temporary, path):
    """Renames a folder; one that another process made meanwhile is kept."""
    if os.path.lexists(path):
        raise FileExistsError(
            f"{path} was made meanwhile, and nothing is overwritten. Choose a new "
            "folder"
        )
    os.rename(temporary, path)


def _first_right(model, folder, request, samples, backends):
    """Returns the answer of the first backend whose files are right."""
    reasons = {}
    for name in backends:
        if _runs_here(model, name):
            answer = _here(model, folder, request, samples)
        else:
            with _as_file(model) as file:
                answer = in_process(name, file, folder, request, samples)
        if "error" not in answer:
            return {"backend": name, **answer}
        reasons[name] = answer["error"]
    listed = "; ".join(f"on {name}: {reason}" for name, reason in reasons.items())
    raise ValueError(
        f"the model cannot be exported to {request['format']}, and nothing is left of "
        f"the files. {listed}"
    )


def _runs_here(model, name):
    is_model = not isinstance(model, str | os.PathLike)
    return is_model and "keras" in sys.modules and backend.chosen() == name


def _here(model, folder, request, samples):
    from kerasseq.exporting.writing import write_model  # loads Keras

    return write_model(model, folder, samples=samples, **request)


@contextlib.contextmanager
def _as_file(model):
    """Yields the file of a model: a temporary one, unless it is given."""
    if isinstance(model, str | os.PathLike):
        yield os.path.abspath(model)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.keras")
        model.save(file)
        yield file


def in_process(
    name: str,
    file: str,
    folder: pathlib.Path,
    request: Mapping[str, Any],
    samples: Any = None,
) -> dict[str, Any]:
    """Exports a file in a process of a backend, whose messages are dropped.

    Args:
        name: The backend.
        file: The `.keras` file.
        folder: The folder to write to.
        request: Arguments of `writing.write_model`.
        samples: As for `export_model`, as far as JSON has it.

    Returns:
        What `write_model` returns.

    Raises:
        ValueError: If the model cannot be loaded, or the process ends without an
            answer.
    """
    environment = {**os.environ, "KERAS_BACKEND": name, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryDirectory() as where, tempfile.TemporaryFile() as log:
        answer = pathlib.Path(where, "answer.json")
        content = {
            **request,
            "file": file,
            "folder": str(folder.absolute()),
            "answer": str(answer),
            "samples": samples,
        }
        question = pathlib.Path(where, "question.json")
        question.write_text(json.dumps(content, default=_plain), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(question)],
            stdin=subprocess.PIPE,  # it ends with this process, even if that is killed
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process only
        )
        try:
            code = process.wait()
        finally:
            process.kill()
            process.wait()
        if not answer.exists():
            raise ValueError(_ended(name, code, log))
        reply = json.loads(answer.read_text(encoding="utf-8"))
    return _raised(reply)


def _plain(value):
    """Returns arrays as lists."""
    return value.tolist()


def _ended(name, code, log):
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "no message")
    return f"the process that exports on {name} ended with code {code}: {last}"


def _raised(answer):
    """Returns an answer, and raises the error in it that no other backend helps."""
    if "errno" in answer:
        raise OSError(answer["errno"], os.strerror(answer["errno"]))
    if "memory" in answer:
        raise MemoryError(answer["memory"])
    if "damaged" in answer:
        raise ValueError(answer["damaged"])
    return answer
