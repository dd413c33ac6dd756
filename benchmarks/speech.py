"""Morse code written down from its sound, by each architecture.

A `SpeechRecognizer` of width 64 with 2 layers learns from messages of 3 to 6 random
letters and digits, each with its own speed, rhythm, pitch, loudness, noise and
fading: 20 log-mel bands, 100 frames a second, of which 4 become one. No message
comes twice. AdamW at 2e-3 with 300 steps of warm-up, clipped to a norm of 1, batches of
16. The table has the share of wrong characters on 256 messages of another seed, by the
number of steps. `kerasseq train speech --help` lists the architectures. With
`--out FILE` each run is a line of the file, so that the same command goes on where it
was stopped and prints what is finished; with `--save FOLDER` each trained model is a
file, such as conformer-0.keras.
"""

import functools
import pathlib
import string
import time

from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all
from benchmarks.schedules import rising_then_cosine

CHARACTERS = string.ascii_uppercase + string.digits
RATE, TESTED, TEST_SEED = 8000, 256, 1_000_000
FRAMES = {"num_mels": 20, "num_fft_bins": 200, "stride": 80, "sampling_rate": RATE}
SIZES = {"units": 64, "num_layers": 2}
BATCH_SIZE, WARM_UP, LEARNING_RATE = 16, 300, 2e-3


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--models", default="conformer", help="names of architectures, with commas"
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=positive(int), default=2000)
    parser.add_argument(
        "--every", type=positive(int), default=250, help="steps between measurements"
    )
    parser.add_argument("--save", type=pathlib.Path, help="a folder for the models")
    add_resume_arguments(parser)


def run(options):
    """Trains each architecture with each seed, and returns a table of errors."""
    common = {"steps": options.steps, "every": options.every}
    runs = [
        {"model": name, "seed": int(seed), **common}
        for name in options.models.split(",")
        for seed in options.seeds.split(",")
    ]
    rows = run_all(runs, functools.partial(measure, folder=options.save), options)
    return {"finished": f"{len(rows)} of {len(runs)}", "table": [*map(flat, rows)]}


def flat(row):
    """Returns a run as a row of the table, with a column for each measurement."""
    names = {f"after {step}": f"{error:.1%}" for step, error in row["errors"].items()}
    minutes = round(row["cpu_seconds"] / 60, 1)
    of_run = {name: row[name] for name in ("model", "seed", "weights")}
    return {**of_run, **names, "cpu minutes": str(minutes)}


def measure(run, folder=None):
    """Trains one, saves it in the folder if there is one, and returns its figures."""
    model, figures = train(run)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        model.save(folder / f"{run['model']}-{run['seed']}.keras")
    return figures


def train(run):
    """Trains one, and returns it with its errors by the number of steps."""
    import keras

    from kerasseq import datasets, models, text

    keras.utils.set_random_seed(run["seed"])
    tokenizer = text.CharacterTokenizer(unknown=None).fit(
        string.ascii_uppercase + string.digits
    )
    model = models.SpeechRecognizer(run["model"], tokenizer, **FRAMES, **SIZES)
    model.compile(optimizer(run["steps"]))
    test = datasets.morse(TESTED, sampling_rate=RATE, seed=TEST_SEED)
    errors, seconds, done = {}, {}, 0
    while done < run["steps"]:
        steps = min(run["every"], run["steps"] - done)
        messages = datasets.morse(
            steps * BATCH_SIZE,
            sampling_rate=RATE,
            seed=1000 * run["seed"] + done // run["every"],
        )
        options = {"batch_size": BATCH_SIZE, "steps_per_epoch": steps, "verbose": 0}
        start = time.process_time()
        model.fit(messages, seed=run["seed"], **options)
        done += steps
        seconds[done] = round(time.process_time() - start, 1)
        errors[done] = model.error_rates(test).characters
    return model, {
        "errors": errors,
        "cpu_seconds": sum(seconds.values()),
        "weights": model.count_params(),
    }


def optimizer(steps):
    """AdamW whose rate rises, and then falls to 0 as a cosine."""
    import keras

    rate = rising_then_cosine(LEARNING_RATE, steps, WARM_UP)
    options = {"weight_decay": 0.01, "beta_2": 0.98, "global_clipnorm": 1.0}
    return keras.optimizers.AdamW(rate, **options)
