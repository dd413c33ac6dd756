"""The `kerasseq` command. Loading it loads no Keras."""

from kerasseq.cli.main import main

__all__ = ["main"]
