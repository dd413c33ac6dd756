"""`kerasseq completion`: the script by which a shell completes the command.

Print a script: where a shell reads it, the tab key completes the names of commands,
tasks and options. For bash, write it to
~/.local/share/bash-completion/completions/kerasseq; for zsh, to a file _kerasseq where
it looks for functions.

Examples:
  kerasseq completion bash
  kerasseq completion zsh
"""

import argparse

from kerasseq.cli import options
from kerasseq.cli.console import print_result
from kerasseq.core import packages

SHELLS = ("bash", "zsh", "tcsh", "fish")


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("completion")
    kind = options.one_of("shell", SHELLS)
    parser.add_argument("shell", type=kind, metavar="SHELL", help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq completion`."""
    shtab = packages.load("shtab", "shtab", "completion needs")
    from kerasseq.cli.main import build_parser  # here, as it imports the commands

    print_result(shtab.complete(build_parser()[0], args.shell))
