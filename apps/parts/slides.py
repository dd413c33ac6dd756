"""The worked examples of the slides in each lab: links that open them, and a card.

An address such as `attention?example=E:575` sets the controls of the lab as the example
says, and shows the numbers of the slide beside those computed here.
"""

import functools
import os
from collections.abc import Mapping
from typing import Any

import streamlit as st

import kerasseq
from kerasseq.datasets import SlideExample
from parts import address
from parts.errors import Refused

CONTROL = "example"  # the parameter of the address
OPTION = "KERASSEQ_APP_DECK"  # set by `kerasseq app --deck`
_WRONG = "slides.wrong"  # the example that was opened, and what its lab does not take


@functools.cache
def examples(deck: str | None) -> dict[str, SlideExample]:
    """Returns the examples of a deck, if there is one, and those of the course."""
    own = kerasseq.datasets.slides(deck=deck) if deck else ()
    found = {example.id: example for example in own}
    for example in kerasseq.datasets.slides():
        found.setdefault(example.id, example)
    return found


def of_lab(lab: str) -> dict[str, SlideExample]:
    """Returns the examples of a lab."""
    found = examples(os.environ.get(OPTION)).items()
    return {name: example for name, example in found if example.lab == lab}


def states(lab: str) -> dict[str, Mapping[str, str]]:
    """Returns the controls that each example of a lab sets."""
    return {name: example.state for name, example in of_lab(lab).items()}


def read(lab: str) -> Any:
    """Returns what reads the id of an example of this lab from an address."""
    known = of_lab(lab)

    def reader(text):
        if text not in known:
            raise ValueError(text)
        return text

    return reader


def card(here: Any) -> None:
    """Draws the example of the address: its sentences, and its numbers twice."""
    key = here.address.field(CONTROL, "", read(here.name))
    example = of_lab(here.name).get(st.session_state[key])
    if example is None:
        return
    with st.container(border=True):
        title = example.title_fr if here.language == "fr" else example.title
        st.markdown(f"**{title}** · {where(here, example)}")
        for sentence in example.sentences:
            st.text(sentence)
        found = {}
        if example.recipe:
            found = here.compute(_compute, example.recipe, example.inputs)
        rows = [_row(here, number, found) for number in example.numbers]
        if rows:
            st.table(rows, hide_index=True)
        for key, values in _wrong_state(here, example):
            st.warning(here.text(key, **values))


def links(here: Any) -> None:
    """Draws a link for each example of this lab."""
    found = of_lab(here.name)
    if not found:
        return
    page = st.session_state["app.settled"]["pages"][here.name]
    with st.expander(here.text("from_slides", count=len(found))):
        for name, example in found.items():
            title = example.title_fr if here.language == "fr" else example.title
            query = address.to({CONTROL: name})
            st.page_link(page, label=f"{name} · {title}", query_params=query)


def where(here: Any, example: SlideExample) -> str:
    """Returns lecture and line in words; the id of an example of another deck."""
    lecture, colon, line = example.id.partition(":")
    if not (colon and line.isdigit()):
        return example.id
    return here.text("lecture_line", lecture=lecture, line=line)


def _wrong_state(here, example):
    """Returns what the example sets and the lab does not take, as texts of the page.

    It is found when the address is opened: later the user may have changed the view,
    and with it which controls there are.
    """
    state = st.session_state
    if here.address.opened and here.complete:
        state[_WRONG] = example.id, [*_refused(here.address.fields, example.state)]
    of, found = state.get(_WRONG, (None, ()))
    return found if of == example.id else ()


def _refused(fields, wanted):
    """Yields the settings that no control of the lab takes."""
    for name, value in wanted.items():
        if name not in fields:
            known = ", ".join(sorted({*fields} - {CONTROL}))
            yield "state_unknown", {"name": name, "known": known}
            continue
        try:
            fields[name].read(value)
        except (ValueError, TypeError):
            yield "state_refused", {"name": name, "value": value}


def _compute(recipe, inputs):
    from parts import slide_recipes  # loads Keras

    return slide_recipes.compute(recipe, inputs)


def _row(here, number, found):
    """Returns a row: what it is, the value of the slides, and that computed here."""
    value, computed = shown(here, number.value), here.text("from_the_slide")
    if number.mark == "computed":
        if number.result not in found:
            known = ", ".join(found)
            raise Refused("no_result", result=number.result, known=known)
        computed = shown(here, _part(found[number.result], number.value))
    name = number.name_fr if here.language == "fr" else number.name
    titles = [here.text(f"slide_{key}") for key in ("name", "value", "computed")]
    return dict(zip(titles, (name, value, computed), strict=True))


def _part(found, value):
    """Returns of a table the entries that the slide shows."""
    if isinstance(found, dict):
        return {key: item for key, item in found.items() if key in value}
    return found


def shown(here: Any, value: Any) -> str:
    """Writes a value: rows in lines, the rest side by side."""
    if isinstance(value, Mapping):
        return " · ".join(f"{key}: {shown(here, item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        parts = [
            here.write(round(item, 3)) if isinstance(item, float) else shown(here, item)
            for item in value
        ]
        nested = any(isinstance(item, list | tuple) for item in value)
        words = any(isinstance(item, str) and " " in item for item in value)
        return "  \n".join(parts) if nested or words else "  ".join(parts)
    if not isinstance(value, float):
        return here.write(value)
    if value and abs(value) < 5e-4:
        digits, power = f"{value:.2e}".split("e")
        return f"{here.write(float(digits), 2)}e{int(power)}"
    return here.write(round(value, 3))
