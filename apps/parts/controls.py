"""Controls whose values are the state of a page, and part of its address."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import streamlit as st

from parts.address import Address

SEPARATOR = "~"  # between the values of one parameter


class Texts(Protocol):
    """What the controls need of a lab."""

    def text(self, key: str, **values: object) -> str: ...

    def has(self, key: str) -> bool: ...

    def write(self, value: Any) -> str: ...


class Controls:
    """The controls of a lab. `texts` and `address` are those of the lab."""

    texts: Texts
    address: Address

    def _words(self, name: str, **more: object) -> dict[str, Any]:
        help_key = f"{name}_help"
        help_text = self.texts.text(help_key) if self.texts.has(help_key) else None
        return {"label": self.texts.text(name), "help": help_text, **more}

    def _labels(self, name, labels) -> Callable[[Any], str]:
        if labels is None:
            return lambda option: self.texts.text(f"{name}_{option}")
        return labels if callable(labels) else labels.__getitem__

    def choice(
        self,
        name: str,
        options: Sequence[Any],
        default: Any = None,
        *,
        labels: Callable[[Any], str] | dict[Any, str] | None = None,
        wide: bool = False,
        width: int | Literal["stretch"] = "stretch",
    ) -> Any:
        """Draws a choice of one option.

        Args:
            name: The name in texts and address.
            options: Strings or integers.
            default: One of them; the first if None.
            labels: A label for each; the texts `<name>_<option>` if None.
            wide: Whether all options are shown side by side.
            width: In pixels, for long labels; on a phone it is less.
        """
        default = options[0] if default is None else default
        by_text = {str(option): option for option in options}
        key = self.address.field(name, default, lambda t: by_text[_known(t, by_text)])
        if st.session_state[key] not in options:
            st.session_state[key] = default
        words = self._words(name, key=key, format_func=self._labels(name, labels))
        if wide:
            return st.segmented_control(options=options, required=True, **words)
        return st.selectbox(options=options, width=width, **words)

    def several(
        self,
        name: str,
        options: Sequence[Any],
        default: Sequence[Any],
        *,
        labels: Callable[[Any], str] | dict[Any, str] | None = None,
        most: int | None = None,
        width: int | Literal["stretch"] = 400,
    ) -> list[Any]:
        """Draws a choice of several options, in the order of `options`."""
        by_text = {str(option): option for option in options}

        def read(text):
            parts = text.split(SEPARATOR) if text else []
            return [by_text[_known(part, by_text)] for part in parts][:most]

        def write(values):
            return SEPARATOR.join(map(str, values))

        key = self.address.field(name, list(default), read, write)
        _keep(key, [v for v in st.session_state[key] if v in options])
        words = self._words(name, key=key, format_func=self._labels(name, labels))
        found = st.multiselect(
            options=options, max_selections=most, width=width, **words
        )
        return [option for option in options if option in found]

    def slider(
        self, name: str, low: float, high: float, default: float, step: float = 1
    ) -> Any:
        """Draws a slider over numbers; all arguments are integers or all are floats."""
        key = self.address.field(name, default, _bounded(low, high))
        _clip(key, low, high)
        return st.slider(
            min_value=low, max_value=high, step=step, **self._words(name, key=key)
        )

    def interval(
        self, name: str, low: int, high: int, default: tuple[int, int], step: int = 1
    ) -> tuple[int, int]:
        """Draws a slider with two ends."""
        read_one = _bounded(low, high)

        def read(text):
            first, last = map(read_one, text.split(SEPARATOR))
            return (first, last) if first <= last else default

        def write(pair):
            return SEPARATOR.join(map(str, pair))

        key = self.address.field(name, default, read, write)
        words = self._words(name, key=key)
        return tuple(st.slider(min_value=low, max_value=high, step=step, **words))

    def stepper(self, name: str, low: int, high: int, default: int) -> int:
        """Draws a slider over integers with a button back and a button forward."""
        key = self.address.field(name, default, _bounded(low, high))
        _clip(key, low, high)

        def move(by):
            st.session_state[key] = min(max(st.session_state[key] + by, low), high)

        for icon, by in (("chevron_left", -1), ("chevron_right", 1)):
            st.button(
                self.texts.text("back" if by < 0 else "forward"),
                icon=f":material/{icon}:",
                on_click=move,
                args=(by,),
                key=f"{key}.{by}",
            )
        words = self._words(name, key=key)
        return st.slider(min_value=low, max_value=max(high, low + 1), **words)

    def steps(self, name: str, options: Sequence[Any], default: Any) -> Any:
        """Draws a slider over listed values, such as 0.001, 0.003, 0.01."""
        by_text = {str(option): option for option in options}
        key = self.address.field(name, default, lambda t: by_text[_known(t, by_text)])
        if st.session_state[key] not in options:
            st.session_state[key] = default
        words = self._words(name, key=key, format_func=self.texts.write)
        return st.select_slider(options=options, **words)

    def number(
        self,
        name: str,
        low: float,
        high: float,
        default: float | None,
        step: float = 1,
        placeholder: str | None = None,
    ) -> Any:
        """Draws a box for a number, which may be empty if the default is None."""
        key = self.address.field(name, default, _bounded(low, high))
        _clip(key, low, high)
        found = st.number_input(
            min_value=low,
            max_value=high,
            step=step,
            placeholder=placeholder,
            **self._words(name, key=key),
        )
        return default if found is None else found

    def switch(self, name: str, default: bool = False) -> bool:
        """Draws a switch."""
        key = self.address.field(
            name, default, lambda t: _known(t, ("0", "1")) == "1", lambda v: str(int(v))
        )
        return st.toggle(**self._words(name, key=key))

    def line(self, name: str, default: str, most: int = 200) -> str:
        """Draws a box for a line of text of at most `most` characters."""
        key = self.address.field(name, default, lambda t: t[:most])
        return st.text_input(max_chars=most, **self._words(name, key=key)) or ""

    def passage(self, name: str, default: str, most: int = 2000, rows: int = 4) -> str:
        """Draws a box for several lines of text of at most `most` characters."""
        key = self.address.field(name, default, lambda t: t[:most])
        words = self._words(name, key=key)
        return st.text_area(max_chars=most, height=36 + 26 * rows, **words) or ""

    def button(self, name: str, *, primary: bool = False, disabled: bool = False):
        """Draws a button, and returns whether it was pressed."""
        return st.button(
            type="primary" if primary else "secondary",
            disabled=disabled,
            **self._words(name, key=f"{self.address.page}.{name}.button"),
        )


def _known(text, options):
    if text not in options:
        raise ValueError(text)
    return text


def _bounded(low, high):
    kind = type(low)

    def read(text):
        value = kind(text)
        if not low <= value <= high:  # also for nan
            raise ValueError(text)
        return value

    return read


def _clip(key, low, high):
    value = st.session_state[key]
    if value is not None:
        _keep(key, min(max(value, low), high))


def _keep(key, value):
    """Changes a value of the session only where it differs: a change is sent back."""
    if st.session_state[key] != value:
        st.session_state[key] = value
