"""The state of a page and its address.

Each control has a name. What differs from its default is a query parameter, so that an
address on a slide opens the page in that state. Streamlit drops query parameters when
the user changes the page; the state of each page is kept in the session and written
into the address again.

Who wins, the address or the controls? The address, if it is not the one that this
session has written last, and no control was moved since: a link, Back, or a new tab.
A control that was moved wins, as the browser sends an older address with a quick second
click. So does one that is moved while its page is still drawn for the first time: an
address settles each control once.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

import streamlit as st

Presets = Mapping[str, Mapping[str, str]]
LONGEST = 1500  # characters of a value in an address; longer ones stay in the session
SHARED = ("lang", "projector")  # parameters that every page has
_KEPT, _WRITTEN, _VALUES = "address.kept", "address.written", "address.values"
_AWAY = "address.away"  # controls of each page that its view does not show now
_SETTLED = "address.settled"  # the controls that an unfinished page has drawn


@dataclasses.dataclass(frozen=True)
class Field:
    """A control in the address.

    Attributes:
        key: The key of the widget in the session.
        default: Its default.
        read: Converts text to a value; raises a `ValueError` if it is invalid.
        write: Converts a value to text.
    """

    key: str
    default: Any
    read: Callable[[str], Any]
    write: Callable[[Any], str]


def shared(name: str, default: str, choices: Collection[str]) -> str:
    """Settles a parameter that every page has, before its control is drawn.

    Without the parameter an address leaves the value as it is.

    Returns:
        The value, which is in the session under "app.<name>" too.
    """
    state, key = st.session_state, f"app.{name}"
    before = state.get(_VALUES, {}).get(key)
    named = st.query_params.get(name)
    if key not in state or (named in choices and state[key] == before):
        state[key] = named if named in choices else state.get(key, before) or default
    return state[key]


class Address:
    """The state of one page in one run of the script.

    Args:
        page: The name of the page.
        presets: What an address that has the parameter `example` alone sets besides, by
            the values of this parameter.
    """

    def __init__(self, page: str, presets: Presets | None = None):
        self.page = page
        self.fields: dict[str, Field] = {}
        state = st.session_state
        query = _own(st.query_params)
        page_before, query_before = state.get(_WRITTEN, (None, {}))
        preset = (presets or {}).get(query.get("example", ""), {})
        self._source: dict[str, str] | None = query
        self.opened = page_before != page or query != query_before  # by its address
        if set(query) == {"example"}:
            self._source = query | dict(preset)
        if page_before != page and query in ({}, _short(self._kept())):  # by the menu
            self._source = self._kept()
        elif page_before == page and (query == query_before or self._control_moved()):
            self._source = None
        if self._source:  # for controls that are drawn later, as their model is trained
            away = state.get(_AWAY, {})
            state[_AWAY] = away | {page: away.get(page, {}) | self._source}
        if state.get(_SETTLED, (None,))[0] != (page, query):
            state[_SETTLED] = (page, query), set()

    def _kept(self):
        return st.session_state.get(_KEPT, {}).get(self.page, {})

    def _control_moved(self):
        state = st.session_state
        before = state.get(_VALUES, {})
        return any(key in state and state[key] != v for key, v in before.items())

    def field(
        self,
        name: str,
        default: Any,
        read: Callable[[str], Any],
        write: Callable[[Any], str] = str,
    ) -> str:
        """Settles the value of a control before it is drawn.

        Args:
            name: The query parameter.
            default: The value without one.
            read: Converts text to a value; raises a `ValueError` if it is invalid.
            write: Converts a value to text.

        Returns:
            The key for the widget.
        """
        key = f"{self.page}.{name}"
        self.fields[name] = Field(key, default, read, write)
        state = st.session_state
        settled = state[_SETTLED][1]
        if self._source is not None and not (key in settled and key in state):
            state[key] = _parse(self._source.get(name), default, read)
        elif key not in state:  # a control that was not on the page before
            away = state.get(_AWAY, {}).get(self.page, {})
            state[key] = _parse((away | self._kept()).get(name), default, read)
        settled.add(key)
        return key

    def set(self, name: str, value: Any) -> None:
        """Sets a control, in a callback of another."""
        st.session_state[f"{self.page}.{name}"] = value

    def publish(self) -> None:
        """Writes the state into the address, and keeps it for the next visit."""
        state = st.session_state
        kept = {}
        for name, field in self.fields.items():
            value = state.get(field.key, field.default)
            if value is not None and value != field.default:
                kept[name] = field.write(value)
        own = _short(kept)
        query = own | _common()
        if dict(st.query_params) != query:
            st.query_params.from_dict(query)
        away = state.get(_AWAY, {}).get(self.page, {}) | self._kept()
        away = {name: v for name, v in away.items() if name not in self.fields}
        state[_AWAY] = state.get(_AWAY, {}) | {self.page: away}
        state[_KEPT] = state.get(_KEPT, {}) | {self.page: kept}
        state[_WRITTEN] = self.page, own
        keys = [f"app.{name}" for name in SHARED]
        keys += [field.key for field in self.fields.values()]
        state[_VALUES] = {key: state[key] for key in keys if key in state}
        state.pop(_SETTLED, None)


def link(page: str) -> dict[str, str]:
    """Returns the query parameters of a link to a page, as this session left it.

    Without them Streamlit adds an address without state to the history of the browser,
    and the page adds its own: Back would have to be pressed twice.
    """
    return _short(st.session_state.get(_KEPT, {}).get(page, {})) | _common()


def to(values: dict[str, str]) -> dict[str, str]:
    """Returns the query parameters of a link that sets controls of a page."""
    return values | _common()


def _short(kept):
    return {name: value for name, value in kept.items() if len(value) <= LONGEST}


def _common():
    found = {name: st.session_state.get(f"app.{name}") for name in SHARED}
    return {name: value for name, value in found.items() if value}


def _own(query):
    return {name: value for name, value in query.items() if name not in SHARED}


def _parse(text, default, read):
    if text is None:
        return default
    try:
        return read(text)
    except (ValueError, TypeError):
        return default
