"""The command `kerasseq train` as it can be typed. Loads no Keras."""

from kerasseq.cli import options, translation_options


def command(add):
    """Add the command by `add` of the parser, its tasks and their options."""
    made = add(
        "train",
        "train",
        "train a model, or go on with a run that was stopped",
        """\
Train a model on a task. All that belongs to the run is kept in a folder: arguments,
checkpoints, model, history and figures. A run that was stopped, even by kill -9, goes
on from its last checkpoint and ends as if it had not been stopped.""",
        """\
examples:
  kerasseq train language-model --text my.txt --model gru --epochs 5 --run runs/mine
  kerasseq train parentheses --model elman,lstm --seeds 0,1
  kerasseq train forecast --data sunspots
  kerasseq train --resume runs/mine

Each task has its own options:  kerasseq train language-model --help""",
    )
    options.resume(made)
    tasks = made.add_subparsers(title="tasks", dest="task", metavar="TASK")
    language = add(
        "train",
        "train",
        "predict the next character of a text",
        """\
Train a language model on a text, character by character. The last tenth is held out: at
the end the model is compared there with models that count one, two and three
characters, in bits per character (lower is better).""",
        """\
examples:
  kerasseq train language-model --text shakespeare.txt --model peephole_lstm
  kerasseq train language-model --data python-reference --units 256 --layers 2
  kerasseq train language-model --text old.txt --encoding cp1252 --steps 500""",
        tasks,
        "language-model",
    )
    options.language_model(language)
    race = add(
        "train",
        "train",
        "a race: is a string of parentheses balanced?",
        """\
Train several architectures on strings of parentheses in five colours, 4 to 20 symbols
long, and test them on balanced strings, on strings like those of the training, and on
hard ones: 22 to 40 symbols, wrong in one place only.""",
        """\
examples:
  kerasseq train parentheses
  kerasseq train parentheses --model elman,lstm --seeds 0,1,2 --steps 3000
  kerasseq train parentheses --plain --model gru""",
        tasks,
        "parentheses",
    )
    options.parentheses(race)
    forecast = add(
        "train",
        "train",
        "predict the next values of a series",
        """\
Train a model to predict the next value of a series, and let it forecast further by
feeding its forecasts back. The last fifth is held out: the errors there, by distance,
are printed beside those of a forecast that repeats the last value.""",
        """\
examples:
  kerasseq train forecast --data ar
  kerasseq train forecast --data sunspots --model lstm --units 32""",
        tasks,
        "forecast",
    )
    options.forecast(forecast)
    translation_options.train(add, tasks)
