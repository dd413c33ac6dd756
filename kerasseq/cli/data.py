"""`kerasseq data`: the data sets, and samples of one.

List the data sets with size, source and license, or print samples of one.

Examples:
  kerasseq data
  kerasseq data parentheses --count 3 --seed 1
"""

import argparse

from kerasseq import datasets
from kerasseq.cli import options
from kerasseq.cli.console import Console, print_json, print_result, status


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("data")
    text = "print samples of this data set"
    parser.add_argument("name", nargs="?", metavar="NAME", help=text)
    kind = options.integer(at_most=10**6)
    options.add(parser, "--count", kind, "number of samples", default=5)
    options.add_seed(parser, 0)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq data`."""
    if args.name is not None:
        with status("generating the samples"):
            lines = datasets.sample(args.name, args.count, args.seed)
        if args.json:
            print_json(lines)
        for line in [] if args.json else lines:
            print_result(line)  # rich would replace the tabs between pairs by spaces
        return
    entries = datasets.catalogue()
    if args.json:
        print_json([entry._asdict() for entry in entries])
        return
    console = Console()
    rows = [(e.name, e.size, e.source, e.license) for e in entries]
    console.table("Data sets", ("name", "size", "source", "license"), rows)
    for entry in entries:
        console.write(f"  {entry.name}: {entry.description}")
        if entry.package:
            console.write(f"      needs  pip install {entry.package}")
    console.write("\nSamples of one:  kerasseq data NAME")
