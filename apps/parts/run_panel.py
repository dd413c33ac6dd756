"""The panel of runs: start, stop, continue, the queue, and curves that grow."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from parts import browser, figures, places, run_names, runs, uploads
from parts.errors import Refused

EVERY = 1.0  # seconds between two pictures of a run that trains
STEP = 50  # training steps of the button "step"
REFUSED = "runs.refused"  # in the session: what the panel says at the next run
Draw = Callable[[list[runs.Run], dict[str, list[dict[str, Any]]]], None]


@st.cache_resource(show_spinner=False)
def manager() -> runs.Runs:
    """Returns the runs of this server."""
    return runs.Runs(places.runs())


def panel(
    here: Any,
    requests: Sequence[runs.Request],
    draw: Draw | None = None,
    start: str = "start_runs",
    part: str = "",
) -> list[runs.Run]:
    """Draws the panel, and returns the runs of this browser in this lab.

    Args:
        here: The lab.
        requests: What the button starts.
        draw: Draws the progress: it gets the runs, and the lines of each by its id.
            Curves of loss and accuracy if None.
        start: The text of the button.
        part: A part of the lab with runs of its own: those of requests whose lab is
            `<lab>_<part>`.
    """
    owner = browser.owner()
    name = f"{here.name}_{part}" if part else here.name
    found = _start_and_clear(here, owner, name, requests, start)
    every = EVERY if any(run.is_active for run in found) else None

    @st.fragment(run_every=every)
    def live() -> None:
        now = manager().of(owner, name)
        names = run_names.names(here, now)
        for run in now:
            row(here, owner, run, names[run.id])
        if now:
            lines = {run.id: curves().update(run.curve) for run in now}
            (draw or _curves(here))(now, lines)
        if every and not any(run.is_active for run in now):
            st.rerun()

    live()
    return manager().of(owner, name)


def _start_and_clear(here, owner, name, requests, start):
    """Draws the buttons for all runs, and returns the runs."""
    with st.container(horizontal=True):
        if here.button(start, primary=True, disabled=not requests):
            _ask(here, manager().start_all, owner, requests)
        found = manager().of(owner, name)
        active = [run for run in found if run.is_active]
        if active and here.button("stop_all"):
            for run in active:
                manager().stop(owner, run.id)
            found = manager().of(owner, name)
        if found and not active and here.button("clear_runs"):
            _remove(owner, *found)
            found = []
    if message := st.session_state.pop(REFUSED, ""):
        st.error(message, icon=":material/error:")
    return found


def _ask(here, function, *arguments, **options):
    """Calls a function of the manager; the panel says why it is refused."""
    try:
        function(*arguments, **options)
    except Refused as error:
        st.session_state[REFUSED] = here.text(error.key, **error.values)


def _remove(owner, *found):
    """Deletes runs, and the uploads that none uses any more."""
    for run in found:
        manager().remove(owner, run.id)
    uploads.sweep()


def curves() -> runs.Curves:
    """Returns what this session has read of the progress of its runs."""
    return st.session_state.setdefault("runs.curves", runs.Curves())


def row(here: Any, owner: str, run: runs.Run, name: str) -> None:
    """Draws one run: how far it is, its buttons, and its settings."""
    with st.container(gap=None):
        _state(here, owner, run, name)
        if about := run_names.about(here, run):
            st.caption(about)


def _state(here, owner, run, name):
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(run.share, text=describe(here, run, name), width="stretch")
        keys = f"{here.name}.{run.id}"
        if run.state == "stopping":
            return
        if run.is_active:
            if _button(here, "stop_run", "stop", keys):
                manager().stop(owner, run.id)
                st.rerun()
            return
        if run.state != "finished":
            if _button(here, "continue_run", "play_arrow", keys):
                _ask(here, manager().resume, owner, run.id)
                st.rerun()
            if _button(here, "step_run", "skip_next", keys):
                until = run.line.get("step", 0) + STEP
                _ask(here, manager().resume, owner, run.id, until=until)
                st.rerun()
        if _button(here, "remove_run", "delete", keys):
            _remove(owner, run)
            st.rerun()


def describe(here: Any, run: runs.Run, name: str) -> str:
    """Returns what a run is and where it stands, in one line."""
    words = [f"**{name}**"]
    if not run_names.of(run):  # else the backend is among its settings
        words.append(run.request.backend)
    words.append(here.text(f"state_{run.state}", place=run.place))
    if "step" in run.line:
        words.append(f"{here.write(run.line['step'])}/{here.write(run.line['steps'])}")
    if run.line.get("loss") is not None:
        words.append(f"{here.text('loss')} {here.write(run.line['loss'], 3)}")
    if run.line.get("accuracy") is not None:
        words.append(f"{here.text('accuracy')} {here.write(run.line['accuracy'], 3)}")
    if run.message and run.state == "failed":
        words.append(run.message)
    return " · ".join(words)


def _button(here, name, icon, keys):
    return st.button(
        here.text(name),
        icon=f":material/{icon}:",
        key=f"{keys}.{name}",
        type="tertiary",
    )


def _curves(here):
    def draw(found, lines):
        for value in ("loss", "accuracy"):
            rows = table(found, lines, value)
            if rows:
                chart = curve(here, rows, value)
                here.picture(f"curve_{value}", chart, rows)

    return draw


def table(
    found: Sequence[runs.Run], lines: dict[str, list[dict[str, Any]]], value: str
) -> list[dict[str, Any]]:
    """Returns rows of step, value and run for a chart.

    Args:
        found: The runs.
        lines: Their progress by id.
        value: "loss" or the name of a metric.
    """
    return [
        {"step": line["step"], value: line[value], "run": f"{run.request.title} ({n})"}
        for n, run in enumerate(found, 1)
        for line in runs.thinned([x for x in lines[run.id] if x.get(value) is not None])
    ]


def curve(
    here: Any,
    rows: list[dict[str, Any]],
    value: str,
    rules: dict[str, float] | None = None,
) -> Any:
    """Returns the chart of `table`, with horizontal lines by their labels."""
    titles = {
        "step": here.text("step"),
        value: here.text(value),
        "run": here.text("run"),
    }
    return figures.lines(
        here.style, rows, "step", value, "run", titles=titles, rules=rules
    )
