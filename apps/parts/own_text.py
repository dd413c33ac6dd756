"""A text, uploaded or generated: networks of a page are trained on it, by the panel."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from parts import browser, prepared, run_panel, runs, uploads, work
from parts.code import Trained
from parts.errors import NotReady, Refused

SHORTEST = 1000  # characters
STEPS = (100, 300, 600, 900, 1500, 3000)


@dataclasses.dataclass(frozen=True)
class Network:
    """A network that a page can show.

    Attributes:
        label: What it is called.
        source: How code trains it elsewhere.
        folder: Its folder; None for one that is trained at the first visit.
    """

    label: str
    source: Trained
    folder: pathlib.Path | None = None


def draw(
    here: Any,
    labels: dict[str, str],
    recipe: str,
    generated: pathlib.Path | None = None,
    rules: dict[str, float] | None = None,
) -> tuple[pathlib.Path, dict[str, Network]]:
    """Draws upload and training.

    Args:
        here: The lab.
        labels: The names of the networks that can be trained.
        recipe: What the names of their recipes begin with.
        generated: The file of a generated text, in place of an upload.
        rules: Bits per character to compare with, by their labels.

    Returns:
        The file of the text, and the networks that were trained on it.

    Raises:
        NotReady: Until there is a text.
        Refused: If it is too short.
    """
    file = _file(here) if generated is None else generated
    with here.controls():
        cells = here.several("cells", list(labels), list(labels)[:1], labels=labels)
        steps = here.steps("steps", STEPS, 600)
    wanted: list[runs.Request] = []
    start = ""
    if file is not None:
        start = snippet(file.read_text("utf-8"))
        for cell in cells:
            words = on_text(prepared.recipes()[f"{recipe}_{cell}"].words, file, steps)
            title = f"{labels[cell]} · {start[:24].strip()}"
            details = {"cell": cell, "file": str(file)}
            details |= {"generated": True} if generated else {}
            request = runs.Request(words, work.backend(), title, here.name, details)
            wanted.append(request)
    found = here.runs(wanted, _curves(here, rules))
    if file is None:
        here.say("upload_first")
        raise NotReady("a text")
    here.say("own_text", start=start)
    return file, {
        run.id: Network(
            run.request.title, Trained(run.id, run.request.words), run.folder
        )
        for run in found
        if run.state == "finished" and run.request.details.get("file") == str(file)
    }


def _file(here):
    """Draws the upload; returns its file, or that of the latest run, or None."""
    text = here.upload_text("upload")
    used = [
        pathlib.Path(run.request.details["file"])
        for run in run_panel.manager().of(browser.owner(), here.name)
        if "file" in run.request.details and "generated" not in run.request.details
    ]
    if text is None:
        return next((file for file in reversed(used) if file.exists()), None)
    if len(text.strip()) < SHORTEST:
        raise Refused("upload_short", least=here.write(SHORTEST))
    return uploads.keep(text.encode("utf-8"), "txt")


def on_text(words: Sequence[str], file: pathlib.Path, steps: int) -> tuple[str, ...]:
    """Returns the words of a recipe for another text and number of steps.

    Examples:
        >>> on_text(["a", "--data", "b", "--steps", "5"], pathlib.Path("c.txt"), 7)
        ('a', '--text', 'c.txt', '--steps', '7')
    """
    found = list(words)
    at = found.index("--data")
    found[at : at + 2] = "--text", str(file)
    found[found.index("--steps") + 1] = str(steps)
    return tuple(found)


def snippet(text: str, length: int = 60) -> str:
    """Returns the first words of a text, without the signs of Markdown.

    Examples:
        >>> snippet("*To be*, or not", 9)
        'To be or …'
    """
    words = " ".join(re.findall(r"\w+", text[: 4 * length]))
    return f"{words[:length].strip()} …"


def _curves(here: Any, rules: dict[str, float] | None) -> Callable[..., None]:
    """A function that draws the bits per character of the trainings."""

    def draw(found, lines):
        rows = run_panel.table(found, lines, "bits")
        if rows:
            here.picture("curve_bits", run_panel.curve(here, rows, "bits", rules), rows)

    return draw
