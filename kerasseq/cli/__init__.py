"""The `kerasseq` command. Loading it loads no Keras."""

from kerasseq.cli.entry import main

__all__ = ["main"]
