"""`kerasseq info`: versions, backends, devices. Works with no backend, too."""

import json
import platform
import sys

from kerasseq.cli import runs
from kerasseq.cli.console import Console
from kerasseq.cli.errors import line
from kerasseq.cli.train import choose_backend
from kerasseq.core import backend


def run(args):
    """Run `kerasseq info`."""
    found = {
        "versions": runs.versions(),
        "platform": platform.platform(),
        "backends": list(backend.installed()),
    }
    try:
        choose_backend(args.backend)
    except backend.BackendError as error:
        if args.backend:
            raise
        found |= {"backend": None, "problem": line(error), "devices": []}
    else:
        found |= {"backend": backend.chosen(), "devices": devices()}
    if args.json:
        json.dump(found, sys.stdout, indent=1)
        print()
        return
    show(found)


def devices() -> list:
    """Where Keras computes."""
    import keras  # by now it is loaded, quietly

    if keras.backend.backend() == "torch":  # for it Keras keeps no list
        return [str(keras.ops.zeros(()).device)]
    return list(keras.distribution.list_devices())


def show(found):
    """Print what was found."""
    console = Console()
    rows = [(name, version or "—") for name, version in found["versions"].items()]
    console.table("Versions", ("package", "version"), rows)
    console.say(f"platform: {found['platform']}")
    console.say(f"backends installed: {', '.join(found['backends']) or 'none'}")
    console.say(f"backend in use: {found['backend'] or 'none'}")
    if found.get("problem"):
        console.say(f"  {found['problem']}")
    console.say(f"devices: {', '.join(found['devices']) or 'none'}")
