"""Executes a tutorial in a kernel of its own."""

import ast
import dataclasses
import os
import re
from collections.abc import Callable
from typing import Any

import nbclient
import nbformat

from docs.tools import kernel, labels
from docs.tools.places import ROOT
from docs.tools.tutorial import Cell, Tutorial, TutorialError

THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
NOTICE = re.compile(r"Warning|Error|Traceback")


@dataclasses.dataclass
class Execution:
    """What an execution gave.

    Attributes:
        printed: Text by the names of the cells.
        figures: SVG by the names of the cells and languages.
        told: Values, seconds and versions.
    """

    printed: dict[str, str] = dataclasses.field(default_factory=dict)
    figures: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    told: dict[str, Any] = dataclasses.field(default_factory=dict)


def execute(
    tutorial: Tutorial,
    backend: str,
    *,
    threads: int = 1,
    languages: tuple[str, ...] = ("en", "fr"),
    progress: Callable[[str], None] = lambda name: None,
) -> Execution:
    """Executes all cells at full size.

    Args:
        tutorial: The tutorial.
        backend: "torch", "jax" or "tensorflow".
        threads: Threads of each backend.
        languages: The languages of the figures.
        progress: Called with the name of each cell that starts.

    Raises:
        TutorialError: If a cell fails, with its name and the traceback.
    """
    steps = list(_steps(tutorial, languages))
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for _, _, code in steps]
    )
    client = nbclient.NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        coalesce_streams=True,  # a kernel that waits sends a line in two parts
        on_cell_start=lambda cell, cell_index: progress(steps[cell_index][0]),
    )
    try:
        client.execute(env=_environment(backend, threads), cwd=str(ROOT))
    except nbclient.exceptions.CellExecutionError as error:
        failed = next(
            step[0]
            for step, cell in zip(steps, notebook.cells, strict=True)
            if any(output.output_type == "error" for output in cell.outputs)
        )
        raise TutorialError(
            f"{tutorial.name}: cell {failed} failed on {backend}\n"
            + ESCAPE.sub("", error.traceback)
        ) from None
    except (AssertionError, nbclient.exceptions.DeadKernelError):
        # At Ctrl-C nbclient ends the kernel, and fails when it finds it gone.
        if hasattr(client, "_async_cleanup_kernel_future"):
            raise KeyboardInterrupt from None
        raise TutorialError(
            f"{tutorial.name}: the kernel ended on {backend}; is there enough memory?"
        ) from None
    return _collect(tutorial.name, steps, notebook.cells)


def _environment(backend: str, threads: int) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "KERASSEQ_SMALL"}
    kept |= dict.fromkeys(THREADS, str(threads))
    kept["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    return kept | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}


def _steps(tutorial, languages):
    """Yields the name of a cell, its language, and the code that runs."""
    yield "start", "", kernel.START
    for cell in tutorial.code:
        if "figure" in cell.tags:
            for language in languages or ("en",):
                yield cell.name, language, figure_code(cell, tutorial, language)
        else:
            yield cell.name, "", cell.source
    yield "values", "", kernel.VALUES


def figure_code(cell: Cell, tutorial: Tutorial, language: str) -> str:
    """Returns the code of a figure cell that shows its last expression."""
    code, catalogue = cell.source, ""
    if language == "fr":
        code = labels.translate(code, tutorial.labels)
        catalogue = f", {tutorial.labels!r}"
    last = ast.parse(code).body[-1]
    if not isinstance(last, ast.Expr):
        raise TutorialError(
            f"{tutorial.name}: cell {cell.name}: the last line of a figure cell must "
            "be an expression, the figure"
        )
    before = code.splitlines()[: last.lineno - 1]
    shown = ast.get_source_segment(code, last.value)
    return "\n".join([*before, f"_kernel.show({shown}{catalogue})"])


def _collect(name, steps, cells):
    done = Execution()
    for (cell, language, _), found in zip(steps, cells, strict=True):
        for output in found.outputs:
            data = output.get("data", {})
            if output.output_type == "stream":
                _stream(done, name, cell, language, output)
            elif "image/svg+xml" in data:
                done.figures[cell, language] = data["image/svg+xml"]
            elif "application/json" in data and cell == "values":
                done.told = data["application/json"]
            elif "text/plain" in data and not language:
                _add(done, cell, data["text/plain"])
    return done


def _stream(done, name, cell, language, output):
    if output.name == "stdout" and language != "fr":
        _add(done, cell, output.text)
    elif output.name == "stderr" and NOTICE.search(output.text):
        print(f"{name}: cell {cell} wrote to stderr:\n{output.text}")


def _add(done, cell, text):
    joined = "\n".join(filter(None, [done.printed.get(cell, ""), clean(text)]))
    if joined:
        done.printed[cell] = joined


def clean(text: str) -> str:
    r"""Removes colors and progress bars from printed text.

    Examples:
        >>> clean("1/9 ━━\r9/9 ━━━━ 1s\nloss  0.3 \n")
        'loss  0.3'
    """
    lines = [line.rpartition("\r")[2] for line in ESCAPE.sub("", text).splitlines()]
    kept = [line.rstrip() for line in lines if "━" not in line and "\b" not in line]
    return "\n".join(kept).strip("\n")
