"""Where the command starts, and where whatever goes wrong becomes one clear line."""

import importlib
import logging
import os
import sys

from kerasseq.cli import errors, parser


def main(argv=None) -> int:
    """Run the command.

    Args:
        argv: Its arguments. Those of the process if None.

    Returns:
        The exit code: 0, 1 for a fault of kerasseq, 2 for whatever the user can put
        right, 130 after Ctrl-C. With KERASSEQ_DEBUG in the environment an error is
        raised instead.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start-up talk
    logging.getLogger("tensorflow").setLevel("ERROR")  # nor its advice on compiling
    try:
        args = parser.parse(sys.argv[1:] if argv is None else list(argv))
        command = importlib.import_module(f"kerasseq.cli.{args.module}")
        command.run(args)
        sys.stdout.flush()
    except SystemExit as done:  # argparse, after --help and --version
        return done.code or 0
    except KeyboardInterrupt:
        print("kerasseq: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as in `kerasseq data | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("KERASSEQ_DEBUG"):
            raise
        code, text = _explained(error)
        print(f"kerasseq: error: {text}", file=sys.stderr)
        return code
    return 0


def _explained(error):
    """The exit code and the line of an error."""
    if errors.is_memory(error):
        return 2, (
            f"there is not enough memory: {errors.line(error)}. Choose smaller sizes, "
            "such as --units, --layers, --sequence-length or --batch-size"
        )
    if isinstance(error, errors.EXPECTED):
        return 2, errors.line(error)
    return 1, errors.unexpected(error)
