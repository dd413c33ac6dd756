"""`kerasseq eliza`: talk with the chatbot of 1966."""

import sys

from kerasseq.text import Eliza

LONGEST = 100_000  # bytes of a line


def run(args):
    """Run `kerasseq eliza`."""
    eliza = Eliza(args.language if args.rules is None else args.rules)
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    _say(eliza.greeting)
    try:
        for line in _typed() if on_terminal else _piped():
            if eliza.is_goodbye(line):
                break
            _say(eliza.reply(line))
            if args.explain:
                _say("".join(f"    {step}\n" for step in eliza.explain().splitlines()))
        else:
            _end_line(on_terminal)
    except KeyboardInterrupt:  # the usual way to leave a conversation, and no failure
        _end_line(on_terminal)
    _say(eliza.farewell)


def _typed():
    """Yield what is typed after a prompt, with the line editing of the terminal."""
    number = 0
    while True:
        number += 1
        try:
            yield input("> ")
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise _not_utf8(number, error) from error


def _piped():
    """Yield the lines of a pipe or file, whatever encoding the system expects."""
    if sys.stdin is None:  # closed, as by `<&-`
        return
    lines = iter(lambda: sys.stdin.buffer.readline(LONGEST + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST:
            raise ValueError(
                f"line {number} of what you say must have at most {LONGEST:,} bytes"
            )
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise _not_utf8(number, error) from error


def _not_utf8(number, error) -> ValueError:
    return ValueError(
        f"line {number} of what you say is not UTF-8: byte {error.start + 1} of it is "
        f"0x{error.object[error.start]:02x}. Convert it first, for example with  "
        "iconv -f cp1252 -t utf-8"
    )


def _end_line(on_terminal):
    if on_terminal:
        print()  # the cursor stands behind the prompt


def _say(text):
    # A terminal or file without the letter gets "?" rather than no reply at all.
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)
