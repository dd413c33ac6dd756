"""A text that is generated piece by piece while the page shows it.

A few pieces at a time are computed in the worker, between what other pages ask for. A
page that is stopped or closed asks for no more, and then nothing is computed.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import streamlit as st

from parts import strips, work

EVERY = 0.12  # seconds between two pictures of a text that grows
SPEED = 60  # pieces in a second, if the models are as fast
FEWEST, MOST = 4, 60  # pieces between two pictures


class Stream:
    """A text, as far as it is generated.

    Args:
        start: A function that returns an iterator over pieces of text.
        *arguments: Its arguments.
    """

    def __init__(self, start: Callable[..., Iterator[str]], *arguments: Any):
        self.arguments = arguments
        self.text = ""
        self.running = True
        self.finished = False
        self._pieces = work.worker().run(start, *arguments)
        self._drawn = time.monotonic()

    def advance(self) -> None:
        """Generates as many pieces as are due since the last picture."""
        before, self._drawn = self._drawn, time.monotonic()
        due = round((self._drawn - before) * SPEED)
        count = min(max(due, FEWEST), MOST)
        found = work.worker().run(lambda: list(itertools.islice(self._pieces, count)))
        self.text += "".join(found)
        self.finished = len(found) < count
        self.running = self.running and not self.finished

    def go_on(self) -> None:
        """Continues after a stop."""
        self.running = True
        self._drawn = time.monotonic()


def draw(
    here: Any, prompt: str, start: Callable[..., Iterator[str]], *arguments: Any
) -> None:
    """Draws the text with its buttons: write, stop, continue.

    Args:
        here: The lab.
        prompt: What the text begins with.
        start: A function that returns an iterator over pieces of text.
        *arguments: Its arguments. With others the text begins again.
    """
    state, key = st.session_state, f"{here.name}.stream"
    if here.button("write", primary=True):
        state[key] = Stream(start, *arguments)
    stream = state.get(key)
    if stream is None or stream.arguments != arguments:
        state.pop(key, None)
        st.html(strips.continued(here.style, prompt, ""))
        return

    @st.fragment(run_every=EVERY if stream.running else None)
    def live() -> None:
        if stream.running and here.button("stop"):
            stream.running = False
            st.rerun()
        if not stream.running and not stream.finished and here.button("go_on"):
            stream.go_on()
            st.rerun()
        if stream.running:
            # The first piece takes long: the prompt is read, and functions compiled.
            message = here.text("computing", backend=work.backend())
            first = contextlib.nullcontext() if stream.text else st.spinner(message)
            with first:
                stream.advance()
            if stream.finished:
                st.rerun()  # without another picture
        st.html(strips.continued(here.style, prompt, stream.text))

    live()
