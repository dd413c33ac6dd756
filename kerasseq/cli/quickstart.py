"""`kerasseq quickstart`: trains, evaluates and draws a first model in minutes.

Train a peephole LSTM, character by character, on the reference of the Python language,
which is part of every Python. Then compare it with a bigram model, generate text and
draw its gates. Nothing is downloaded.

Examples:
  kerasseq quickstart
  kerasseq quickstart --backend jax --run runs/jax
"""

import argparse
import pathlib

import kerasseq
from kerasseq.cli import options, runs, train
from kerasseq.cli.console import Console, status
from kerasseq.cli.run import free_folder
from kerasseq.core.files import replacing

SAMPLE = "sample.txt"
PROMPT = "The "
SETTINGS = {"steps": 800, "checkpoint_every": 20}


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("quickstart")
    options.add_new_run(parser, "runs/quickstart")
    shown = SETTINGS["steps"]
    options.add(parser, "--steps", options.integer(), "training steps", shown=shown)
    options.add_seed(parser, 0)
    options.add_backend(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq quickstart`."""
    console = Console()
    arguments = {**SETTINGS, "seed": args.seed}
    if args.steps:
        arguments["steps"] = args.steps
    folder = args.run or free_folder(None, "runs/quickstart")
    run = train.new_run("language-model", arguments, folder, console, args.backend)
    console.write("Training a peephole LSTM on the reference of the Python language.")
    results = train.execute(run)
    with status("generating a sample"):
        model = kerasseq.load_model(run.folder / runs.MODEL)
        text = model.generate(PROMPT, 300, temperature=0.8, seed=args.seed)
    with replacing(run.folder / SAMPLE) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    console.write(f"\nGenerated after “{PROMPT}”:", style="bold")
    console.write(text)
    console.write("\n" + verdict(results), style="bold")
    console.write(f"Model, history, text and figures are in {run.folder}\n")
    console.write(next_steps(run.folder))


def verdict(results: runs.Results) -> str:
    """Compares the model with the bigram model in one sentence."""
    bits = results["bits_per_character"]
    bigram = results["bits_per_character_of_ngrams"]["bigram"]
    word = "beats" if bits < bigram else "does not beat"
    return (
        f"The LSTM {word} the bigram model: {bits:.2f} versus {bigram:.2f} bits per "
        "character."
    )


def next_steps(folder: pathlib.Path) -> str:
    """Lists commands to try next."""
    return f"""\
Try next:
  kerasseq generate {folder} --prompt "The class " --temperature 0.5
  kerasseq inspect {folder} --text "for x in range(3):"
  kerasseq train language-model --text YOUR_FILE.txt --model gru
  kerasseq train parentheses --model elman,lstm --steps 3000"""
