"""`kerasseq data`: the data sets, and samples of one."""

import json
import sys

from kerasseq import datasets
from kerasseq.cli.console import Console
from kerasseq.cli.waiting import waiting


def run(args):
    """Run `kerasseq data`."""
    console = Console()
    if args.name is not None:
        with waiting("making the samples"):
            lines = datasets.sample(args.name, args.count, args.seed)
        if args.json:
            json.dump(lines, sys.stdout, indent=1, ensure_ascii=False)
            print()
        for line in [] if args.json else lines:
            print(line)  # rich would make blanks of the tabs between pairs
        return
    entries = datasets.catalogue()
    if args.json:
        listed = [entry._asdict() for entry in entries]
        json.dump(listed, sys.stdout, indent=1, ensure_ascii=False)
        print()
        return
    rows = [(e.name, e.size, e.source, e.licence) for e in entries]
    console.table("Data sets", ("name", "size", "source", "licence"), rows)
    for entry in entries:
        console.say(f"  {entry.name}: {entry.description}")
        if entry.extra:
            console.say(f'      needs  pip install "kerasseq[{entry.extra}]"')
    console.say("\nSamples of one:  kerasseq data NAME")
