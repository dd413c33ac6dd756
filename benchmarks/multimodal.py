"""Scenes of colored shapes, matched with captions and described by a `Multimodal`.

`match`: pictures of one shape and their captions; the table has the share of 256
different ones whose caption is the nearest of all, and back. `describe`: pictures of
two shapes; the share of 512 whose caption is written exactly, where "A left of B" is
also "B right of A". `films`: four frames of one shape that moves; the share of 512
whose caption names the direction. `draw`: the share of 512 pictures, drawn from their
captions, that show color and shape as asked, see `drawn_scenes`. No scene comes twice.
AdamW with a decay of 0.01, 100 steps of warm-up and a cosine, clipped to a norm of 1,
batches of 64. With `--out FILE` each run is a line of the file, so that the same
command goes on where it was stopped and prints what is finished.
"""

import time

import numpy as np

from benchmarks import drawn_scenes
from benchmarks.options import positive
from benchmarks.resumed import add_resume_arguments, run_all

BATCH_SIZE, WARM_UP, TEST_SEED, EVERY = 64, 100, 1_000_000, 250
DRAWN = {"noise": 0.05, "lighting": 0.25}
TASKS = {  # scenes, model, steps, learning rate, tested scenes, least share
    "match": ({}, {"patch_size": 4}, 1500, 1e-3, 256, 0.9),
    "describe": (
        {"objects": 2},
        {"patch_size": 6, "num_layers": 3, "hidden_dim": 96, "head": "caption"},
        *(3000, 2e-3, 512, 0.8),
    ),
    "films": (
        {"frames": 4},
        {"image_size": (4, 24, 24), "patch_size": (2, 6, 6), "head": "caption"},
        *(800, 2e-3, 512, 0.95),
    ),
    "draw": ({}, {}, 1200, 2e-3, 512, 0.8),
}
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
            means.append({**runs_of, "bar": TASKS[task][5]})
    table = [flat(row) for row in rows]
    return {"finished": f"{len(rows)} of {len(runs)}", "table": table, "mean": means}


def flat(row):
    """Returns a run as a row of the table."""
    shares = {name: f"{value:.3f}" for name, value in row["shares"].items()}
    minutes = f"{row['cpu_seconds'] / 60:.1f}"
    of_run = {name: row[name] for name in ("task", "seed", "steps", "weights")}
    found = ", ".join(f"{name} {value}" for name, value in shares.items())
    return {**of_run, "shares": found, "cpu minutes": minutes}


def measure(run):
    """Trains a model, and returns its figures."""
    import keras

    from kerasseq import datasets, models

    scenes, options, _, rate, tested, _ = TASKS[run["task"]]
    keras.utils.set_random_seed(run["seed"])
    if run["task"] == "draw":
        sizes = {name: SIZES[name] for name in SIZES if name != "image_size"}
        return drawn_scenes.measure(run, sizes, rate, tested, optimizer)
    model = models.Multimodal("word", max_sequence_length=10, **{**SIZES, **options})
    model.compile(optimizer(run["steps"], rate))
    test = test_scenes(run["task"], tested)
    done, seconds = 0, 0.0
    while done < run["steps"]:
        steps = min(EVERY, run["steps"] - done)
        data = datasets.scenes(
            steps * BATCH_SIZE,
            seed=1000 * run["seed"] + done // EVERY,
            **scenes,
            **DRAWN,
        )
        start = time.process_time()
        model.fit(data, batch_size=BATCH_SIZE, seed=run["seed"], verbose=0)
        seconds += time.process_time() - start
        done += steps
    shares = (match if run["task"] == "match" else describe)(model, test)
    return {
        "shares": shares,
        "share": min(shares.values()) if run["task"] == "match" else shares["right"],
        "cpu_seconds": seconds,
        "weights": model.count_params(),
    }


def test_scenes(task, count):
    """Scenes that training has not; for `match` no two have the same caption."""
    from kerasseq import datasets

    options = {**TASKS[task][0], **DRAWN, "seed": TEST_SEED}
    if task != "match":
        return datasets.scenes(count, **options)
    many = datasets.scenes(8 * count, **options)
    first = {text: n for n, text in reversed([*enumerate(many.texts)])}
    return many.take(sorted(first.values())[:count])


def match(model, test):
    """Shares of pictures whose caption is the nearest, and of captions."""
    cosines = model.embed_images(test.images) @ model.embed_texts(test.texts).T
    own = np.arange(len(cosines))
    return {
        "picture to caption": float((cosines.argmax(1) == own).mean()),
        "caption to picture": float((cosines.argmax(0) == own).mean()),
    }


def describe(model, test):
    """Shares of scenes whose caption is exact, and right: films in the last word."""
    captions = model.describe(test.images, batch_size=BATCH_SIZE)
    exact = [text in test.true_captions(n) for n, text in enumerate(captions)]
    shares = {"right": float(np.mean(exact))}
    if test.images.ndim == 5:
        last = [
            text.split()[-1:] == true.split()[-1:]
            for text, true in zip(captions, test.texts, strict=True)
        ]
        shares = {"right": float(np.mean(last)), "exact": float(np.mean(exact))}
    return shares


def optimizer(steps, rate):
    """AdamW whose rate rises, and then falls to 0 as a cosine."""
    import keras

    warm_up = min(WARM_UP, steps // 2)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps - warm_up, warmup_target=rate, warmup_steps=warm_up
    )
    options = {"weight_decay": 0.01, "beta_2": 0.98, "global_clipnorm": 1.0}
    return keras.optimizers.AdamW(schedule, **options)
