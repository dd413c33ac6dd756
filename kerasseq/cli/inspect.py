"""`kerasseq inspect`: look inside a trained model. Loads Keras when all is in place."""

from kerasseq.cli.loading import find
from kerasseq.cli.train import choose_backend


def run(args):
    """Run `kerasseq inspect`."""
    find(args.folder)
    choose_backend(args.backend)

    from kerasseq.cli import insides  # loads Keras, on the backend chosen by now

    insides.show(args)
