"""Types of command-line arguments that several benchmarks share."""

import argparse
import pathlib


def add_timing_arguments(parser, rounds, seconds):
    """Add the options of `benchmarks.rounds`, with these defaults."""
    parser.add_argument(
        "--rounds", type=positive(int), default=rounds, help="measurements of each"
    )
    parser.add_argument(
        "--seconds", type=positive(float), default=seconds, help="length of a round"
    )
    parser.add_argument("--jit", action="store_true", help="use XLA on TensorFlow")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="measure the CPU time, on one thread, for a machine in use",
    )


def add_names_arguments(parser, arguments):
    """Add options that take names: `(option, known names, default)` each."""
    for name, known, default in arguments:
        parser.add_argument(
            name, type=names_among(known), default=default, help=",".join(known)
        )


def names_among(known):
    """Returns an argparse type: comma-separated names, each in `known`."""

    def parse(text):
        for name in text.split(","):
            if name not in known:
                message = f"must be among {', '.join(known)}, received {name!r}"
                raise argparse.ArgumentTypeError(message)
        return text.split(",")

    return parse


def checkout(text):
    """An argparse type: a folder with the package kerasseq."""
    folder = pathlib.Path(text).resolve()
    if not (folder / "kerasseq" / "__init__.py").is_file():
        message = "must be a folder with another checkout of this project, received "
        raise argparse.ArgumentTypeError(f"{message}{text!r}, without kerasseq in it")
    return folder


def new_file(text):
    """An argparse type: a file to write, whose folder exists."""
    file = pathlib.Path(text)
    if file.is_dir() or not file.absolute().parent.is_dir():
        message = f"must be a file in a folder that exists, received {text!r}"
        raise argparse.ArgumentTypeError(message)
    return file


def positive(kind):
    """Returns an argparse type: a number above 0."""

    def parse(text):
        if not kind(text) > 0:
            raise argparse.ArgumentTypeError(f"must be above 0, received {text}")
        return kind(text)

    return parse


def at_least(minimum, kind):
    """Returns an argparse type: a number not below `minimum`."""

    def parse(text):
        if not kind(text) >= minimum:
            raise argparse.ArgumentTypeError(
                f"must be at least {minimum}, received {text}"
            )
        return kind(text)

    return parse


def comma_separated(kind):
    """Returns an argparse type: comma-separated values of type `kind`."""

    def parse(text):
        return [kind(part) for part in text.split(",")]

    return parse
