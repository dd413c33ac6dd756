"""Controls whose values are the state of a page, and part of its address."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import streamlit as st

from parts.address import Address
from parts.errors import Refused

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
            return st.segmented_control(
                options=options, required=True, wrap=True, **words
            )
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
            options=options,
            max_selections=most,
            width=width,
            wrap=True,
            placeholder=self.texts.text("choose_some"),
            select_all=False,  # its label would be English
            **words,
        )
        return [option for option in options if option in found]

    def slider(
        self, name: str, low: float, high: float, default: float, step: float = 1
    ) -> Any:
        """Draws a slider over numbers; all arguments are integers or all are floats."""
        if isinstance(low, float):  # Streamlit's own writes them with a point
            count = round((high - low) / step)
            numbers = [round(low + n * step, 9) for n in range(count + 1)]
            return self.steps(name, numbers, default)
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
        _clip(key, low, high)
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
        key = self.address.field(name, default, _listed(options))
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
        found = st.text_input(max_chars=most, **self._words(name, key=key))
        return (found or "")[:most]  # a browser may send more

    def passage(self, name: str, default: str, most: int = 2000, rows: int = 4) -> str:
        """Draws a box for several lines of text of at most `most` characters."""
        key = self.address.field(name, default, lambda t: t[:most])
        words = self._words(name, key=key)
        found = st.text_area(max_chars=most, height=36 + 26 * rows, **words)
        return (found or "")[:most]

    def upload(
        self, name: str, types: Sequence[str], most: int = 2_000_000
    ) -> tuple[str, bytes] | None:
        """Draws a box for a file, which is no part of the address.

        Args:
            name: The name in texts.
            types: The endings of its name, such as "txt".
            most: Bytes.

        Returns:
            The name of the file, without a folder, and its content; None without one.

        Raises:
            Refused: If it is too large, of another type, or empty.
        """
        words = self._words(name, key=f"{self.address.page}.{name}.upload")
        found = st.file_uploader(type=list(types), **words)
        if found is None:
            return None
        shown = pathlib.PurePath(found.name.replace("\\", "/")).name
        if found.size > most:
            raise Refused("too_large", name=shown, most=most // 1000)
        if shown.rpartition(".")[2].lower() not in types:
            raise Refused("wrong_type", name=shown, types=", ".join(types))
        if not found.size:
            raise Refused("empty_file", name=shown)
        return shown, found.getvalue()

    def upload_text(
        self, name: str, types: Sequence[str] = ("txt", "md"), most: int = 2_000_000
    ) -> str | None:
        """Draws a box for a text file in UTF-8, and returns its text.

        Raises:
            Refused: As `upload`, and if it is not a text.
        """
        found = self.upload(name, types, most)
        if found is None:
            return None
        try:
            text = found[1].decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Refused("not_text", name=found[0]) from error
        if "\0" in text:
            raise Refused("not_text", name=found[0])
        return text

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


def _listed(options):
    def read(text):
        number = float(text)
        found = min(options, key=lambda option: abs(option - number))
        if not abs(found - number) <= 1e-9:  # also for nan
            raise ValueError(text)
        return found

    return read


def _bounded(low, high):
    kind = type(low)

    def read(text):
        value = kind(text)
        if not low <= value <= high:  # also for nan
            raise ValueError(text)
        return value

    return read


def _clip(key, low, high):
    """Keeps a number, or both of an interval, within bounds that may have changed.

    A slider with other bounds is another one for Streamlit, and would begin anew.
    """
    value, bounds = st.session_state[key], f"{key}.bounds"
    if value is None:
        return
    if isinstance(value, tuple | list):
        clipped = tuple(min(max(end, low), high) for end in value)
    else:
        clipped = min(max(value, low), high)
    if st.session_state.get(bounds, (low, high)) != (low, high):
        st.session_state[key] = clipped
    st.session_state[bounds] = low, high
    _keep(key, clipped)


def _keep(key, value):
    """Changes a value of the session only where it differs: a change is sent back."""
    if st.session_state[key] != value:
        st.session_state[key] = value
