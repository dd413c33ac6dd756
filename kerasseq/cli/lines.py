"""The lines of a dialogue, from a terminal or a pipe. Loads no Keras."""

import sys
from collections.abc import Iterator

MAX_LINE = 100_000  # bytes
PROMPT = "> "


def on_terminal() -> bool:
    """Returns whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def read(stderr: bool = False) -> Iterator[str]:
    """Yields the lines that are typed at a prompt; or those of a pipe or file.

    Args:
        stderr: Whether the prompt is printed on stderr, as when stdout is JSON.

    Raises:
        ValueError: If a line is not UTF-8, or too long.
    """
    yield from _typed(stderr) if on_terminal() else _piped()


def _typed(stderr):
    """Yields the lines typed at a prompt, with the line editing of the terminal."""
    number = 0
    while True:
        number += 1
        try:
            if stderr:
                print(PROMPT, end="", file=sys.stderr, flush=True)
            yield input("" if stderr else PROMPT)
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise _not_utf8(number, error) from error


def _piped():
    """Yields the lines of a pipe or file, decoded as UTF-8 on every system."""
    if sys.stdin is None:  # closed, as by `<&-`
        return
    lines = iter(lambda: sys.stdin.buffer.readline(MAX_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise ValueError(
                f"expected at most {MAX_LINE:,} bytes in a line, received more in line "
                f"{number} of the input"
            )
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise _not_utf8(number, error) from error


def _not_utf8(number, error) -> ValueError:
    return ValueError(
        f"expected UTF-8, but byte {error.start + 1} of line {number} of the input is "
        f"0x{error.object[error.start]:02x}. Convert the input first, for example "
        "with  iconv -f cp1252 -t utf-8"
    )
