"""The options of each command. Loads no Keras.

Options of training have the default None, so that a resumed run can tell what was
typed; `defaults.py` has what stands for it.
"""

import argparse

from kerasseq.cli import names
from kerasseq.cli.defaults import DEFAULTS, EPOCHS, OF_MODEL


def quickstart(parser):
    """Add the options of `kerasseq quickstart`."""
    run_folder(parser, "runs/quickstart")
    parser.add_argument(
        "--steps",
        type=names.whole(),
        metavar="N",
        help="training steps (default: 800)",
    )
    seed(parser, 0)
    backend(parser)


def language_model(parser):
    """Add the options of `kerasseq train language-model`."""
    resume(parser)
    source = parser.add_argument_group("what to learn from")
    source.add_argument("--text", metavar="FILE", help="a text file of yours")
    source.add_argument(
        "--data",
        type=names.one_of("text", names.TEXTS),
        metavar="NAME",
        help="a text of kerasseq: python-reference (taken if there is no --text)",
    )
    source.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of the file, such as cp1252 (default: utf-8)",
    )
    task = "language-model"
    group = parser.add_argument_group("how it is read")
    add(group, task, "--tokenizer", str, tokenizer_help(), "NAME")
    add(group, task, "--vocabulary-size", names.whole(), "ids of the tokenizer")
    text = "characters held out at the end, at most a tenth of the text"
    add(group, task, "--held-out", names.whole(2), text)
    text = "characters before them that the models that count learn from, at most"
    add(group, task, "--counted", names.whole(3), text)
    group = model(parser, task, names.language_model, names.LANGUAGE_MODELS)
    add(
        group,
        task,
        "--heads",
        names.heads,
        "heads of each attention of a gpt",
    )
    group = training(parser, task)
    add(group, task, "--sequence-length", names.length, "tokens in a block")
    group.add_argument(
        "--epochs",
        type=names.positive,
        metavar="X",
        help=f"passes over the text, such as 2.5 (default: {EPOCHS})",
    )
    steps(group, "N", "training steps, instead of --epochs")
    add(group, task, "--seed", names.seed, "seed of all that is random")
    where(parser, "runs/language-model-MODEL-N")


def parentheses(parser):
    """Add the options of `kerasseq train parentheses`."""
    resume(parser)
    task = "parentheses"
    parser.add_argument(
        "--plain",
        action="store_true",
        default=None,
        help="parentheses of one colour instead of five",
    )
    model(parser, task, names.architectures, metavar="A,B,…")
    group = training(parser, task)
    steps(group, "N", "training steps of each model (default: 20000)")
    add(group, task, "--examples", names.examples, "training strings")
    text = "strings of each test set"
    add(group, task, "--test-examples", names.examples, text)
    group.add_argument(
        "--seeds",
        type=names.seeds,
        metavar="0,1,…",
        help="each model is trained once with each seed (default: 0)",
    )
    where(parser, "runs/parentheses-race-N")


def forecast(parser):
    """Add the options of `kerasseq train forecast`."""
    resume(parser)
    task = "forecast"
    parser.add_argument(
        "--data",
        type=names.one_of("series", names.SERIES),
        metavar="NAME",
        help="ar, sunspots or co2 (default: sunspots)",
    )
    add(parser, task, "--ahead", names.length, "how many steps ahead to forecast")
    model(parser, task)
    group = training(parser, task)
    add(group, task, "--sequence-length", names.length, "values in a window")
    steps(group, "N", "training steps (default: 1000)")
    add(group, task, "--seed", names.seed, "seed of all that is random")
    where(parser, "runs/forecast-MODEL-N")


def generate(parser):
    """Add the options of `kerasseq generate`."""
    run_argument(parser)
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        help="what to write on from (default: the start of a line)",
    )
    parser.add_argument(
        "--length",
        type=names.length,
        default=300,
        metavar="N",
        help="tokens to write (default: 300)",
    )
    parser.add_argument(
        "--temperature",
        type=names.temperature,
        default=1.0,
        metavar="X",
        help="lower is more deterministic, higher more random; 0 always takes the most "
        "probable token (default: 1)",
    )
    parser.add_argument(
        "--top-k", type=names.whole(), metavar="K", help="draw from the K best only"
    )
    parser.add_argument(
        "--top-p",
        type=names.probability,
        metavar="P",
        help="draw from the best that hold probability P together",
    )
    seed(parser, None)
    backend(parser)


def inspect(parser):
    """Add the options of `kerasseq inspect`."""
    run_argument(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--text",
        metavar="TEXT",
        help="what the model reads (default: some of its data)",
    )
    source.add_argument("--file", metavar="FILE", help="a text file for it to read")
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="encoding of the file"
    )
    parser.add_argument(
        "--layer", metavar="NAME", help="the layer to draw (default: the last one)"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder for the figures (default: that of the run)"
    )
    backend(parser)


def info(parser):
    """Add the options of `kerasseq info`."""
    backend(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def resume(parser):
    """Add what `kerasseq train` and each of its tasks have in common."""
    parser.add_argument(
        "--resume",
        metavar="DIR",
        default=_unless_given(parser),
        help="go on with the run in this folder; it remembers all other options",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=_unless_given(parser),
        help="print the results as one JSON object, and progress on stderr",
    )


def _unless_given(parser):
    """A task must not overwrite with its default what stood before its name."""
    return argparse.SUPPRESS if len(parser.prog.split()) > 2 else None


def tokenizer_help():
    """What `--tokenizer` takes."""
    return f"{', '.join(names.TOKENIZERS)}, or a file or folder"


def run_argument(parser):
    """Add the run to work on."""
    parser.add_argument(
        "folder", metavar="RUN", help="folder of a run, such as runs/quickstart"
    )


def run_folder(parser, default):
    """Add the folder of a new run."""
    parser.add_argument(
        "--run",
        metavar="DIR",
        help=f"new folder for all that belongs to the run (default: {default})",
    )


def backend(parser):
    """Add the backend."""
    parser.add_argument(
        "--backend",
        type=names.backend_name,
        metavar="B",
        help="tensorflow, jax or torch (default: that of KERAS_BACKEND or keras.json)",
    )


def seed(parser, default):
    """Add a seed."""
    shown = "another each time" if default is None else default
    parser.add_argument(
        "--seed",
        type=names.seed,
        default=default,
        metavar="N",
        help=f"seed of all that is random (default: {shown})",
    )


def where(parser, default):
    """Add the folder of a run and the backend."""
    group = parser.add_argument_group("where")
    run_folder(group, default)
    backend(group)


def model(
    parser, task, kind=names.architecture, choices=names.ARCHITECTURES, metavar="NAME"
):
    """Add what a model is made of."""
    group = parser.add_argument_group("the model")
    default = DEFAULTS[task]["model"]
    shown = default if isinstance(default, str) else ",".join(default)
    group.add_argument(
        "--model",
        type=kind,
        metavar=metavar,
        help=f"{', '.join(choices)} (default: {shown})",
    )
    add(group, task, "--units", names.units, "width of each layer")
    add(group, task, "--layers", names.layers, "layers on top of each other")
    if "dropout" in DEFAULTS[task]:
        add(
            group,
            task,
            "--dropout",
            names.fraction,
            "fraction dropped before each layer",
            "X",
        )
    return group


def training(parser, task):
    """Add how a model is trained."""
    group = parser.add_argument_group("the training")
    add(group, task, "--batch-size", names.whole(), "examples in a step")
    add(group, task, "--learning-rate", names.positive, "of Adam", "X")
    add(group, task, "--checkpoint-every", names.whole(), "steps between checkpoints")
    return group


def steps(group, metavar, text):
    """Add the number of training steps."""
    group.add_argument("--steps", type=names.whole(), metavar=metavar, help=text)


def add(group, task, option, kind, text, metavar="N"):
    """Add an option of a task, with its default in the help."""
    name = option[2:].replace("-", "_")
    default = DEFAULTS[task][name]
    if default is None:  # it depends on the model
        model, recurrent, other = OF_MODEL[task]
        default = f"{recurrent[name]}; of a {model} {other[name]}"
    group.add_argument(
        option, type=kind, metavar=metavar, help=f"{text} (default: {default})"
    )
