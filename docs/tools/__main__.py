"""The command `python -m docs.tools`."""

import argparse
import sys
import time

import docs.tools.seeds as others
from docs.tools import check, key, render, results, tutorial
from docs.tools.places import BACKENDS
from docs.tools.tutorial import TutorialError


def main(words: list[str] | None = None) -> int:
    """Runs the command, and returns the exit code."""
    options = _parser().parse_args(words)
    try:
        names = tutorial.names(options.numbers)
        return options.run(names, options) or 0
    except TutorialError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; what was finished is kept", file=sys.stderr)
        return 130


def _parser():
    parser = argparse.ArgumentParser("python -m docs.tools", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for run, about in (
        (refresh, "executes tutorials at full size, and renders them"),
        (numbers, "executes tutorials on each backend, for the table of the number"),
        (seeds, "executes tutorials with other seeds of the weights, on PyTorch"),
        (render_all, "writes pages, figures and notebooks, without executing"),
        (check_all, "checks tutorials, results and pages"),
    ):
        name = run.__name__.removesuffix("_all")
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument("numbers", nargs="*", metavar="04", help="default: all")
        command.set_defaults(run=run)
        if run in (refresh, numbers, seeds):
            command.add_argument("--force", action="store_true", help="also if the key "
                                 "of the code is that of the results")  # fmt: skip
            command.add_argument("--threads", type=int, default=1)
        if run is refresh:
            command.add_argument("--backend", choices=BACKENDS, default="torch")
    return parser


def refresh(names, options):
    """Executes the tutorials whose key changed, and renders them."""
    return _each(names, lambda read: _refresh(read, options))


def _refresh(read, options):
    now, labels = key.key(read), key.labels_key(read)
    old = results.read(read.name, results.OUTPUTS)
    same = (old.get("key"), old.get("labels")) == (now, labels)
    if same and not options.force:
        print(f"{read.name}: unchanged")
    else:
        done = _execute(read, options.backend, options.threads, ("en", "fr"))
        results.write(read.name, now, labels, done)
    render.render(read)


def numbers(names, options):
    """Executes the tutorials on the backends whose number is missing or old."""
    return _each(names, lambda read: _numbers(read, options))


def _numbers(read, options):
    now = key.key(read)
    for backend in BACKENDS:
        old = results.read(read.name, results.BACKENDS).get(backend, {})
        if old.get("key") == now and not options.force:
            print(f"{read.name}: {backend}: unchanged")
            continue
        done = _execute(read, backend, options.threads, ())
        results.write_number(read.name, now, done)
    if results.read(read.name, results.OUTPUTS):
        render.render(read)


def seeds(names, options):
    """Executes the tutorials with other seeds whose numbers are missing or old."""
    return _each(names, lambda read: _seeds(read, options))


def _seeds(read, options):
    now = key.key(read)
    if results.read(read.name, results.SEEDS).get("key") == now and not options.force:
        print(f"{read.name}: unchanged")
        return
    steps = others.STEPS if others.draws(read) else ()
    found = [
        _execute(others.other(read, step), "torch", options.threads, ())
        for step in steps
    ]
    numbers = [done.told["values"]["result"] for done in found]
    results.write_seeds(read.name, now, "torch", numbers)
    if results.read(read.name, results.OUTPUTS):
        render.render(read)


def _each(names, run):
    """Runs a function on each tutorial, and the others also after one that fails."""
    code = 0
    for name in names:
        try:
            run(tutorial.read(name))
        except TutorialError as error:
            print(f"error: {error}", file=sys.stderr)
            code = 1
    return code


def render_all(names, options):
    """Renders tutorials."""
    for name in names:
        render.render(tutorial.read(name))
    print(f"rendered {len(names)}")


def check_all(names, options):
    """Prints the problems, and returns 1 if there are any."""
    problems = [*check.size_problems()]
    for name in names:
        problems += check.problems(name)
    print("\n".join(problems) or f"{len(names)} tutorials: no problem")
    return int(bool(problems))


def _execute(read, backend, threads, languages):
    from docs.tools import execute  # needs nbclient, which the other commands do not

    start = time.monotonic()
    shown = sys.stdout.isatty()

    def progress(cell):
        if shown:
            print(f"\r\033[K{read.name} on {backend}: {cell}", end="", flush=True)

    done = execute.execute(
        read, backend, threads=threads, languages=languages, progress=progress
    )
    if "result" not in done.told["values"]:
        raise TutorialError(f"{read.name}: no cell defines `result`, a number")
    value = done.told["values"]["result"]
    print(_line(read.name, backend, value, done, start, shown), flush=True)
    return done


def _line(name, backend, value, done, start, shown):
    seconds = done.told["seconds"]
    clear = "\r\033[K" if shown else ""
    return (
        f"{clear}{name} on {backend}: {value:.4g} in {seconds:.0f} CPU s, "
        f"{time.monotonic() - start:.0f} s in all"
    )


if __name__ == "__main__":
    sys.exit(main())
