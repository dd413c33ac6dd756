"""How the loss of a GPT falls with its width: `kerasseq scale`, and its two bars.

The mean of three seeds falls with every width by more than the seeds' deviation, and
the interval of the exponent at E = 0 excludes 0. With `--data zipf-source` E is the
entropy of the source, and the second bar alone is reached: models of one width differ,
as some have learned rare contexts. There is no bar on E, nor on what is predicted: both
are printed. Passages have the accuracy of their last word instead. With `--out FOLDER`
the same command goes on where it was stopped.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

from benchmarks.options import positive


def add_arguments(parser):
    """Adds the options of this benchmark."""
    names = ["python-reference", "markov-source", "zipf-source", "last-words"]
    parser.add_argument("--data", choices=names, default=names[0])
    parser.add_argument("--widths", help="default: that of the command")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int))
    parser.add_argument("--out", type=pathlib.Path, help="the folder of the run")


def run(options):
    """Runs the command, and returns its table, its laws and the bars."""
    with contextlib.ExitStack() as stack:
        folder = options.out
        if folder is None:
            temporary = stack.enter_context(tempfile.TemporaryDirectory())
            folder = pathlib.Path(temporary) / "run"
        results = command(options, folder)
    found = {}
    for name, law in results["laws"].items():
        low, high = law["exponents"]
        found[f"exponent, {name}"] = f"{law['exponent']:.3f} ({low:.3f} to {high:.3f})"
    if results["laws"]:
        low = next(iter(results["laws"].values()))["exponents"][0]
        found["falls by more than the deviation"] = results["falls"]
        found["the exponent excludes 0"] = low > 0
        if results["predicted"] is not None:
            last = results["widths"][-1]["loss"]
            both = f"{results['predicted']:.3f}, {last:.3f}"
            found["widest: predicted, measured"] = both
    found |= {f"accuracy of {name}": p for name, p in results["lines"].items()}
    keys = ("width", "parameters", "loss", "deviation", "accuracy")
    rows = results["widths"]
    found["table"] = [{k: row[k] for k in keys if k in row} for row in rows]
    return found


def command(options, folder):
    """Runs `kerasseq scale`, or goes on with a run that was stopped."""
    words = ["scale", "--json"]
    if (folder / "run.json").exists():
        words += ["--resume", str(folder)]
    else:
        words += ["--data", options.data, "--run", str(folder)]
        words += ["--seeds", options.seeds]
        for name in ("widths", "steps"):
            if getattr(options, name) is not None:
                words += [f"--{name}", str(getattr(options, name))]
    # In a process of its own, which prints its progress.
    done = subprocess.run(
        [sys.executable, "-m", "kerasseq", *words], stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)
