"""The frame of a lab: question, equation, picture, "try this", code, next lab."""

import contextlib
import logging
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import altair as alt
import streamlit as st

from parts import (
    address,
    errors,
    overview,
    prepared,
    run_panel,
    runs,
    slides,
    strips,
    style,
    tables,
    texts,
    work,
)
from parts import code as codes
from parts.address import Address
from parts.controls import Controls

Try = dict[str, str] | tuple[str, dict[str, str]]
logger = logging.getLogger("kerasseq.app")


class Lab(Controls):
    """What the body of a lab draws with.

    Args:
        name: The name of the lab: of its file, texts and address.
        language: "en" or "fr".
        style: The style of its figures.
        address: Its state.
    """

    def __init__(self, name: str, language: str, style: style.Style, address: Address):
        self.name = name
        self.language = language
        self.style = style
        self.address = address
        self.texts = self
        self.source: str | None = None
        self.view = ""  # the part that is drawn
        self.complete = False  # whether all of it is drawn

    def text(self, key: str, **values: object) -> str:
        """Returns a text of this lab, or of `common` if it is not in this lab's."""
        own = texts.has(self.name, key, self.language)
        catalogue = self.name if own else "common"
        return texts.text(catalogue, key, self.language, **values)

    def has(self, key: str) -> bool:
        """Whether this lab has a text of its own."""
        return texts.has(self.name, key, self.language)

    def of_view(self, key: str) -> str:
        """Returns the text of this view, or that of the lab if it has none."""
        own = f"{key}_{self.view}"
        return self.text(own if self.has(own) else key)

    def write(self, value: float, digits: int | None = None) -> str:
        """Writes a number as in the language of the page."""
        return texts.number(value, self.language, digits)

    def short(self, value: float, unit: str = "") -> str:
        """Writes a large number with three digits and a prefix: 350 G."""
        return texts.short(value, self.language) + unit

    def gib(self, size: float) -> str:
        """Writes a size in bytes as GiB."""
        return self.text(
            "in_gib", value=self.write(size / 2**30, 2 if size < 2**33 else 1)
        )

    def say(self, key: str, **values: object) -> None:
        """Draws a text as Markdown."""
        st.markdown(self.text(key, **values))

    def controls(self) -> Any:
        """Returns a container whose controls stand side by side, and wrap."""
        return st.container(border=True, horizontal=True, vertical_alignment="bottom")

    def compute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Computes in the worker, with a message while the page waits."""
        with st.spinner(self.text("computing", backend=work.backend())):
            return work.compute(function, *arguments)

    def facts(self, *names_and_values: tuple[str, str]) -> None:
        """Draws a few results large, side by side: texts of their names, and values."""
        st.html(
            strips.facts([(self.text(name), value) for name, value in names_and_values])
        )

    def picture(
        self,
        name: str,
        chart: alt.TopLevelMixin,
        rows: Sequence[dict[str, Any]] | Any,
        columns: dict[str, str] | None = None,
    ) -> None:
        """Draws a figure, and its values as a table and as CSV.

        Args:
            name: The key of its title; `<name>_about` explains it, if it exists.
            chart: The figure.
            rows: Its values: a list of dictionaries, or an array.
            columns: Headings of the columns; the keys of the rows if None.
        """
        st.markdown(f"**{self.text(name)}**")
        if self.has(f"{name}_about"):
            self.say(f"{name}_about")
        st.altair_chart(chart, width="stretch", theme="streamlit")
        with st.expander(self.text("as_table")):
            tables.draw(self, name, rows, columns)

    def strip(
        self,
        name: str,
        pieces: Sequence[str],
        rows: Sequence[dict[str, Any]] | None = None,
        columns: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Draws a text in boxes (`parts.strips.boxes`), and its values as a table."""
        st.markdown(f"**{self.text(name)}**")
        if self.has(f"{name}_about"):
            self.say(f"{name}_about")
        st.html(strips.boxes(self.style, pieces, **options))
        if rows is not None:
            with st.expander(self.text("as_table")):
                tables.draw(self, name, rows, columns)

    def table(
        self, rows: Sequence[dict[str, Any]], columns: dict[str, str] | None = None
    ) -> None:
        """Draws a table. Numbers have three digits."""
        tables.show(self, rows, columns)

    def overview(self) -> None:
        """Draws every lab with its address, and whether its models are ready."""
        overview.draw(self)

    def details(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Draws a small table that opens with a click on its title."""
        with st.expander(self.text(name)):
            st.table(list(rows))

    def prepared(self, name: str) -> pathlib.Path:
        """Returns the folder of a trained model; ends the body until it is trained."""
        return prepared.wait(self, name)

    def all_prepared(self, names: Sequence[str]) -> dict[str, pathlib.Path]:
        """Returns the folders of trained models, which are trained side by side."""
        return prepared.wait_for_all(self, names)

    def trained(self, name: str, file: str = "model.keras") -> codes.Trained:
        """Returns a file of a model for `code`, which trains it where it runs."""
        return prepared.recipes()[name].source(file)

    def runs(
        self,
        requests: Sequence[runs.Request],
        draw: run_panel.Draw | None = None,
        start: str = "start_runs",
        part: str = "",
    ) -> list[runs.Run]:
        """Draws the run panel, and returns the runs of this browser in this lab."""
        return run_panel.panel(self, requests, draw, start, part)

    def code(self, template: str, **values: object) -> None:
        """Sets the code that reproduces the page; the frame draws it at the end."""
        self.source = codes.fill(template, **values)


def current(name: str) -> tuple[str, style.Style, Address]:
    """Returns what the entry script has settled for this run."""
    settled = st.session_state["app.settled"]
    return settled["language"], settled["style"], settled["address"]


def show(
    name: str,
    body: Callable[[Lab], None],
    *,
    equations: Sequence[str] | dict[str, Sequence[str]] = (),
    views: Sequence[str] = (),
    control: str = "view",
    tries: Sequence[Try] = (),
) -> None:
    """Draws a lab.

    Args:
        name: The name of the lab.
        body: Draws controls and pictures.
        equations: LaTeX, or that of each view.
        views: The parts of the lab, the first one by default: `here.view` is drawn.
        control: The name of the choice of a view.
        tries: How each `try_1`, … sets the page: the parameters of its address; with
            the name of a lab for another page. It is shown in the view that it sets.
    """
    here = Lab(name, *current(name))
    heading = st.container()
    if views:
        here.view = here.choice(control, views, wide=True)
    with heading:
        _title(here, control)
    st.markdown(f"#### {here.of_view('question')}")
    found = equations.get(here.view, ()) if isinstance(equations, dict) else equations
    for line in found:
        st.latex(line)
    st.info(here.of_view("look"), icon=":material/visibility:")
    example = st.container()
    with boundary(here):
        body(here)
        here.complete = True
    with example, boundary(here):
        slides.card(here)
    _try_this(here, control, views, tries)
    slides.links(here)
    _code(here)
    _next(here)


@contextlib.contextmanager
def boundary(here: Lab) -> Iterator[None]:
    """Turns an error into one sentence on the page. The rest of the page is drawn."""
    try:
        yield
    except errors.NotReady:
        pass
    except Exception as error:
        logger.exception("Error in the lab %s", here.name)
        if os.environ.get("KERASSEQ_DEBUG"):
            raise
        st.error(errors.sentence(error, here.text), icon=":material/error:")


def _title(here, control):
    title = here.text("title")
    if here.view:
        title += f" · {here.text(f'{control}_{here.view}')}"
    st.title(title)


def _try_this(here, control, views, tries):
    """Draws what can be tried in this view, each with a link that sets the page."""
    pages = st.session_state["app.settled"]["pages"]
    st.subheader(here.text("try_this"))
    number = 0
    for n, found in enumerate(tries, 1):
        lab, values = found if isinstance(found, tuple) else (here.name, found)
        if views and lab == here.name and values.get(control, views[0]) != here.view:
            continue
        number += 1
        st.markdown(f"{number}. {here.text(f'try_{n}')}")
        st.page_link(
            pages[lab],
            label=here.text("set_page"),
            icon=":material/tune:",
            query_params=address.to(values),
        )
        with st.expander(here.text("answer")):
            here.say(f"answer_{n}")


def _code(here):
    if here.source is None:
        return
    st.subheader(here.text("code"))
    st.code(here.source, language="python")
    made = codes.notebook(here.text("title"), here.text("question"), here.source)
    st.download_button(
        here.text("notebook"),
        made,
        file_name=f"kerasseq_{here.name}.ipynb",
        mime="application/x-ipynb+json",
        icon=":material/download:",
        on_click="ignore",
        key=f"{here.name}.notebook",
    )


def _next(here):
    pages = st.session_state["app.settled"]["pages"]
    names = list(pages)
    following = names[names.index(here.name) + 1 :][:1]
    for name in following:
        label = here.text("next_lab", title=here.text(f"lab_{name}"))
        icon, query = ":material/arrow_forward:", address.link(name)
        st.page_link(pages[name], label=label, icon=icon, query_params=query)
