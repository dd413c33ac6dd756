"""How the runs of a page are called: by the settings in which they differ.

A request has its settings in `details["settings"]`, by their names: a setting `units`
is shown by the text `setting_units`, and its value "hard" by `setting_kind_hard` if
there is such a text. The backend is a setting of every run.
"""

from collections.abc import Sequence
from typing import Any

from parts import texts
from parts.runs import Run


def names(here: Any, found: Sequence[Run]) -> dict[str, str]:
    """Returns a name for each run by its id: "LSTM, seed 1". No two are equal.

    Only settings that are not the same in all runs are named. Runs that do not differ
    in any setting are numbered. One without settings has its title.

    Args:
        here: The lab.
        found: The runs.
    """
    settings = {run.id: of(run) for run in found}
    values: dict[str, set[str]] = {}
    for of_run in settings.values():
        for key, value in of_run.items():
            values.setdefault(key, set()).add(str(value))
    differing = [key for key, found in values.items() if len(found) > 1]
    named = {
        run.id: ", ".join([title(here, run), *words(here, settings[run.id], differing)])
        for run in found
    }
    return {
        id: name
        if list(named.values()).count(name) == 1
        else f"{name}, {here.text('run_number', number=id.rpartition('-')[2])}"
        for id, name in named.items()
    }


def title(here: Any, run: Run) -> str:
    """Returns the name of what a run trains, in the language of the page."""
    cell = run.request.details.get("cell")
    return here.text(f"cell_{cell}") if cell else run.request.title


def of(run: Run) -> dict[str, Any]:
    """Returns the settings of a run; none if it has not said any."""
    named = run.request.details.get("settings")
    return {"backend": run.request.backend, **named} if named else {}


def about(here: Any, run: Run) -> str:
    """Returns all settings of a run in one line, and how many parameters it has."""
    settings = of(run)
    found = words(here, settings, list(settings))
    if found and run.line.get("parameters"):
        count = here.write(run.line["parameters"])
        found.append(here.text("count_parameters", count=count))
    return " · ".join(found)


def words(here: Any, settings: dict[str, Any], keys: Sequence[str]) -> list[str]:
    """Returns settings in words, such as "seed 1" and "lengths 20–30"."""
    found = []
    for key in keys:
        value = settings.get(key)
        if value is None:
            continue
        if key == "backend":
            found.append(str(value))
        elif texts.has("common", f"setting_{key}_{value}", here.language):
            found.append(here.text(f"setting_{key}_{value}"))
        else:
            ends = value if isinstance(value, list | tuple) else [value]
            shown = "–".join(here.write(end) for end in ends)
            found.append(here.text(f"setting_{key}", value=shown))
    return found
