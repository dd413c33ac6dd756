"""The `kerasseq` command. Importing it loads no Keras."""

from kerasseq.cli.main import main

__all__ = ["main"]
