"""Scenes of colored shapes, matched with captions and described by a `Multimodal`.

`match`: pictures of one shape and their captions; the table has the share of 256
different ones whose caption is the nearest of all, and back. `unseen`: the same of
scenes whose color, shape and place training has not shown together. `tones`: pictures,
the tones of their shapes, and captions. `describe`: pictures of two shapes; the
share of 512 whose caption is written exactly, where "A left of B" is also "B right of
A". `films`: four frames of one shape that moves; the share of 512 whose caption names
the direction. `order`: which half of a film of 512 came first, each asked in both
orders; `shuffled`: the same with the frames of a half shuffled, which leaves nothing
but chance. `draw`: the share of 512 pictures, drawn from their captions, that show
color and shape as asked, see `drawn_scenes`. `experts`: `match` with four experts in
the last block, two for each token, of half the width; its loss on new scenes beside
that of `match`, and which kind goes to which expert. No scene comes twice. AdamW with a
decay of 0.01, 100 steps of warm-up and a cosine, clipped to a norm of 1, batches of 64.
With `--out FILE` each run is a line of the file, so that the same command goes on where
it was stopped and prints what is finished.
"""

import itertools
import time

import numpy as np

from benchmarks import drawn_scenes, scene_experts
from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all
from benchmarks.scene_rows import test_rows, training_rows
from benchmarks.schedules import rising_then_cosine

BATCH_SIZE, WARM_UP, EVERY = 64, 100, 250
FILMS = {"image_size": (4, 24, 24), "patch_size": (2, 6, 6), "head": "caption"}
SOUND = {"num_mels": 40, "sampling_rate": 8000, "window": 1.0}
TASKS = {  # scenes, model, steps, learning rate, tested scenes, what is expected
    "match": ({}, {"patch_size": 4}, 1500, 1e-3, 256, "0.9"),
    "experts": ({}, {"patch_size": 4, "num_experts": 4}, 1500, 1e-3, 256, "0.9"),
    "unseen": ({"held_out": 0.2}, {"patch_size": 4}, 1500, 1e-3, 256, ""),
    "tones": (
        {"sound": True, "sampling_rate": 8000},
        {"patch_size": 4, **SOUND},
        *(1500, 1e-3, 256, ""),
    ),
    "describe": (
        {"objects": 2},
        {"patch_size": 6, "num_layers": 3, "hidden_dim": 96, "head": "caption"},
        *(3000, 2e-3, 512, "0.8"),
    ),
    "films": ({"frames": 4}, FILMS, 800, 2e-3, 512, "0.95"),
    "order": ({"frames": 4}, FILMS, 1500, 2e-3, 512, "0.9"),
    "shuffled": ({"frames": 4}, FILMS, 1500, 2e-3, 512, "0.5 ± 0.03"),
    "draw": ({}, {}, 1200, 2e-3, 512, "0.8"),
}
COMPARED = ("match", "experts")  # by their losses
SIZES = {"image_size": 24, "num_layers": 2, "num_heads": 4, "hidden_dim": 64}


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument(
        "--tasks", default=",".join(TASKS), help="names of tasks, with commas"
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument(
        "--steps", type=positive(int), help="steps of training, if not those of a task"
    )
    add_resume_arguments(parser)


def run(options):
    """Trains a model for each task with each seed, and returns tables of shares."""
    runs = [
        {"task": task, "seed": int(seed), "steps": options.steps or TASKS[task][2]}
        for task in options.tasks.split(",")
        for seed in options.seeds.split(",")
    ]
    rows = run_all(runs, measure, options)
    means = []
    for task in options.tasks.split(","):
        of_task = [row["share"] for row in rows if row["task"] == task]
        if of_task:
            mean = f"{np.mean(of_task):.3f}"
            runs_of = {"task": task, "runs": len(of_task), "mean share": mean}
            means.append({**runs_of, "expected": TASKS[task][5]})
    found = {"finished": f"{len(rows)} of {len(runs)}"}
    found |= {"table": [flat(row) for row in rows], "mean": means}
    losses = {task: losses_of(rows, task) for task in COMPARED}
    if all(losses.values()):
        more = np.mean(losses["experts"]) - np.mean(losses["match"])
        found["loss of experts beside dense"] = f"{more:+.4f}, expected at most +0.02"
    return found


def losses_of(rows, task):
    """Returns the losses on new scenes of the runs of a task."""
    return [row["beside"]["loss"] for row in rows if row["task"] == task]


def flat(row):
    """Returns a run as a row of the table."""
    shares = {**row["shares"], **row.get("beside", {})}
    minutes = f"{row['cpu_seconds'] / 60:.1f}"
    of_run = {name: row[name] for name in ("task", "seed", "steps", "weights")}
    found = ", ".join(f"{name} {value:.3f}" for name, value in shares.items())
    return {**of_run, "shares": found, "cpu minutes": minutes}


def measure(run):
    """Trains a model, and returns its figures."""
    import keras

    from kerasseq import models

    scenes, options, _, rate, tested, _ = TASKS[run["task"]]
    keras.utils.set_random_seed(run["seed"])
    if run["task"] == "draw":
        sizes = {name: SIZES[name] for name in SIZES if name != "image_size"}
        return drawn_scenes.measure(run, sizes, rate, tested, optimizer)
    model = models.Multimodal("word", max_sequence_length=10, **{**SIZES, **options})
    model.compile(optimizer(run["steps"], rate))
    test = test_rows(run["task"], scenes, tested)
    done, seconds = 0, 0.0
    while done < run["steps"]:
        steps, seed = min(EVERY, run["steps"] - done), 1000 * run["seed"]
        x, y = training_rows(
            run["task"], scenes, steps * BATCH_SIZE, seed + done // EVERY
        )
        start = time.process_time()
        model.fit(x, y, batch_size=BATCH_SIZE, seed=run["seed"], verbose=0)
        seconds += time.process_time() - start
        done += steps
    shares = (describe if options.get("head") == "caption" else match)(model, test)
    beside = {}
    if run["task"] in COMPARED:
        beside["loss"] = scene_experts.held_out_loss(model, BATCH_SIZE)
    if run["task"] == "experts":
        beside |= scene_experts.routing(model, test)
    counted = "last word" if run["task"] == "films" else "exact"
    return {
        "shares": shares,
        "share": shares.get(counted, min(shares.values())),
        "beside": beside,
        "cpu_seconds": seconds,
        "weights": model.count_params(),
    }


def match(model, test):
    """Shares of rows whose own row of the other kind is the nearest, each way."""
    texts = [right[0] for right in test.right]
    vectors = model.predict({**test.parts, "texts": texts}, batch_size=BATCH_SIZE)
    return {
        f"{a} to {b}": nearest(vectors[a] @ vectors[b].T, test.asked)
        for a, b in itertools.permutations(vectors, 2)
    }


def nearest(cosines, asked):
    """Share of the first rows whose largest cosine is their own."""
    return float(np.mean(cosines[:asked].argmax(1) == np.arange(asked)))


def describe(model, test):
    """Shares of captions that are right, and that are so in the last word."""
    captions = model.describe(test.parts["images"], batch_size=BATCH_SIZE)
    pairs = [*zip(captions, test.right, strict=True)]
    exact = [text in right for text, right in pairs]
    last = [text.split()[-1:] == right[0].split()[-1:] for text, right in pairs]
    return {"exact": float(np.mean(exact)), "last word": float(np.mean(last))}


def optimizer(steps, rate):
    """AdamW whose rate rises, and then falls to 0 as a cosine."""
    import keras

    schedule = rising_then_cosine(rate, steps, WARM_UP)
    options = {"weight_decay": 0.01, "beta_2": 0.98, "global_clipnorm": 1.0}
    return keras.optimizers.AdamW(schedule, **options)
