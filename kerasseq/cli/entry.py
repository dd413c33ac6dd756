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
        The exit code: 0, 2 for whatever the user can put right, 130 after Ctrl-C.
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
    except errors.EXPECTED as error:
        if os.environ.get("KERASSEQ_DEBUG"):
            raise
        print(f"kerasseq: error: {errors.line(error)}", file=sys.stderr)
        return 2
    return 0
