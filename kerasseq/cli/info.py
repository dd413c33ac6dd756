"""`kerasseq info`: versions, backends and devices. Needs no backend.

Print the versions, the installed backends and the devices in use.

Examples:
  kerasseq info
  kerasseq info --backend torch --json
"""

import argparse
import platform
from typing import Any

from kerasseq.cli import options
from kerasseq.cli.console import Console, choose_backend, print_json
from kerasseq.cli.errors import one_line
from kerasseq.cli.run import versions
from kerasseq.core import backend, packages


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("info")
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq info`."""
    info = {
        "versions": versions(),
        "platform": platform.platform(),
        "backends": list(backend.installed()),
    }
    try:
        choose_backend(args.backend)
    except backend.BackendError as error:
        if args.backend:
            raise
        info |= {"backend": None, "problem": one_line(error), "devices": []}
    else:
        info |= {"backend": backend.chosen(), "devices": devices()}
        info["missing"] = missing()
    if args.json:
        print_json(info)
    else:
        show(info)


def devices() -> list[str]:
    """Returns the devices that Keras computes on."""
    import keras

    if keras.backend.backend() == "torch":  # for which Keras lists no devices
        return [str(keras.ops.zeros(()).device)]
    return list(keras.distribution.list_devices())


def missing() -> list[str]:
    """Returns what would make the backend in use faster, a sentence for each."""
    if backend.chosen() != "torch" or packages.is_installed("llvmlite"):
        return []
    return [
        "llvmlite is not installed: on a CPU most recurrent layers are several times "
        f"as slow without it. {packages.install('llvmlite')}"
    ]


def show(info: dict[str, Any]) -> None:
    """Prints the information."""
    console = Console()
    rows = [(name, version or "—") for name, version in info["versions"].items()]
    console.table("Versions", ("package", "version"), rows)
    console.write(f"platform: {info['platform']}")
    console.write(f"backends installed: {', '.join(info['backends']) or 'none'}")
    console.write(f"backend in use: {info['backend'] or 'none'}")
    if info.get("problem"):
        console.write(f"  {info['problem']}")
    console.write(f"devices: {', '.join(info['devices']) or 'none'}")
    for sentence in info.get("missing", []):
        console.write(f"missing: {sentence}")
