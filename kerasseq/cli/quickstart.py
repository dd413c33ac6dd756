"""`kerasseq quickstart`: from nothing to a trained model, in a minute or two."""

from kerasseq.cli import runs
from kerasseq.cli.console import Console
from kerasseq.cli.train import new, work
from kerasseq.cli.waiting import waiting

SAMPLE = "sample.txt"
PROMPT = "The "
SIZE = {"steps": 800, "checkpoint_every": 20}


def run(args):
    """Run `kerasseq quickstart`."""
    console = Console()
    typed = {**SIZE, "seed": args.seed}
    if args.steps:
        typed["steps"] = args.steps
    wanted = args.run or runs.free_folder(None, "runs/quickstart")
    job = new("language-model", typed, wanted, console, args.backend)
    console.say("A peephole LSTM learns to write, from the reference of Python itself.")
    results = work(job)

    import kerasseq  # now the models: Keras is loaded

    with waiting("generating a sample"):
        model = kerasseq.load_model(job.folder / runs.MODEL)
        text = model.generate(PROMPT, 300, temperature=0.8, seed=args.seed)
    with runs.replacing(job.folder / SAMPLE) as part:
        part.write_text(text + "\n", encoding="utf-8")
    console.say(f"\nWhat it writes after “{PROMPT}”:", style="bold")
    console.say(text)
    console.say("\n" + verdict(results), style="bold")
    console.say(f"Model, history, text and figures are in {job.folder}\n")
    console.say(next_steps(job.folder))


def verdict(results):
    """Say who won, and by how much."""
    own = results["bits_per_character"]
    pairs = results["bits_per_character_of_counting"]["pairs of characters"]
    word = "beats" if own < pairs else "does not beat"
    return (
        f"The network {word} counting pairs of characters: {own:.2f} against "
        f"{pairs:.2f} bits per character."
    )


def next_steps(folder):
    """What to try now."""
    return f"""\
Try next:
  kerasseq generate {folder} --prompt "The class " --temperature 0.5
  kerasseq inspect {folder} --text "for x in range(3):"
  kerasseq train language-model --text YOUR_FILE.txt --model gru
  kerasseq train parentheses --model elman,lstm --steps 3000"""
