"""`kerasseq eliza`: a conversation with the chatbot of 1966.

Talk with Weizenbaum's ELIZA, which answers by rules alone; --explain prints which. The
end of the input, Ctrl-C or "bye" ends the conversation. If the input is a pipe, each
line gets a reply, between the greeting and the farewell.

Examples:
  kerasseq eliza
  kerasseq eliza --language fr --explain
  kerasseq eliza --rules mine.toml
  echo "Men are all alike." | kerasseq eliza
"""

import argparse
import sys

from kerasseq.cli import options
from kerasseq.cli.console import on_terminal, print_result, read_lines
from kerasseq.text import Eliza

LANGUAGES = ("en", "fr")  # of the rules in kerasseq.text.classical.eliza


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("eliza")
    source = parser.add_mutually_exclusive_group()
    kind = options.one_of("language", LANGUAGES)
    options.add(source, "--language", kind, "en or fr", "NAME", default="en")
    options.add(source, "--rules", str, "a TOML file with other rules", "FILE")
    options.add(parser, "--explain", None, "print the rules behind each reply")


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq eliza`."""
    eliza = Eliza(args.language if args.rules is None else args.rules)
    is_typed = on_terminal()
    _print(eliza.greeting)
    try:
        for line in read_lines():
            if eliza.is_goodbye(line):
                break
            _print(eliza.reply(line))
            if args.explain:
                _print(
                    "".join(f"    {step}\n" for step in eliza.explain().splitlines())
                )
        else:
            _end_line(is_typed)
    except KeyboardInterrupt:  # a usual way to leave a conversation, not an error
        _end_line(is_typed)
    _print(eliza.farewell)


def _end_line(is_typed):
    if is_typed:
        print()  # the cursor is behind the prompt


def _print(text):
    # A character that the encoding lacks is printed as "?".
    encoding = sys.stdout.encoding or "utf-8"
    print_result(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
