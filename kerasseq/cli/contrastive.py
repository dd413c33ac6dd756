"""`kerasseq train contrastive`: which caption belongs to which picture.

Train a model that gives pictures and captions vectors, near for a pair and far for
others. The data are scenes of colored shapes, which are generated, as pictures, films
or with sounds; or a folder of your own pictures with a table, such as captions.csv with
the columns image and text. A part of the pictures is held out. There the share of
pictures whose own caption is the nearest of up to 256 is printed, and back, beside
chance.

Examples:
  kerasseq train contrastive
  kerasseq train contrastive pictures --image-size 64 --steps 5000
  kerasseq train contrastive --sound --num-experts 4
then:
  kerasseq predict runs/contrastive-1 --text "a small red square at the top left"
  kerasseq predict runs/contrastive-1 --file new.png --captions captions.txt
  kerasseq inspect runs/contrastive-1
"""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import image_data, labeled, multimodal_data, runs, verdict
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, status
from kerasseq.cli.multimodal_data import Captioned
from kerasseq.cli.run import Run

CANDIDATES = 256  # held-out pairs among which the right one is found, at most
NEAR = 5  # a second score: the right one is among so many
NAMES = {"images": "picture", "audio": "sound", "texts": "caption"}
FILE = "file"  # the argument that names the user's data
OF_FILE = multimodal_data.OF_FOLDER
LOSSES = ("softmax", "sigmoid")
DRAWN = 16  # pictures
OPTIONS = task_table(
    *multimodal_data.OPTIONS,
    Option("--loss NAME", "model", LOSSES, "as in CLIP or as in SigLIP", "softmax"),
    *models.OPTIONS,
    shared("batch_size", 64, "pairs in a batch, which are compared with each other"),
    shared("learning_rate", 1e-3, models.RATE),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, and counts how often the right partner is the nearest.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    trained = models.fit(run, head="contrastive", loss=settings.loss)
    model, held_out = trained.model, trained.held_out
    rows = candidates(held_out, settings.seed)
    tested = multimodal_data.take(held_out, rows)
    embedded = vectors(model, tested, settings.batch_size)
    scored = scores(embedded)
    judged = judge(scored)
    repeated = labeled.repeated(trained.keys, image_data.keys(tested.images))
    plain = {
        name: {key: value for key, value in each.items() if key != "ranks"}
        for name, each in scored.items()
    }
    results = run.results(
        *(model, trained.history, trained.steps),
        scores=plain,
        candidates=len(rows),
        temperature=model.temperature,
        verdict=judged,
        repeated=repeated,
    )
    show(run.console, scored)
    run.console.write(judged["sentence"])
    labeled.show_repeated(run.console, repeated, len(rows), "pictures")
    texts = nearest(embedded["images"] @ embedded["texts"].T, tested.texts)
    models.draw(run, trained, rows[:DRAWN], titles(texts, tested.texts)[:DRAWN])
    return run.finish(results)


def titles(texts: list[str], truths: list[Any]) -> list[str]:
    """Returns captions as titles, with a mark at those that are wrong.

    Examples:
        >>> titles(["a kite", "a sea"], ["a kite", ["a sky"]])
        ['a kite', '✗ a sea']
    """
    marked = [
        text if text == truth or text in truth else f"✗ {text}"
        for text, truth in zip(texts, truths, strict=True)
    ]
    return [textwrap.fill(text, 20, max_lines=4) for text in marked]


# Which caption is the nearest


def candidates(pictures: Captioned, seed: int) -> list[int]:
    """Chooses rows of which no two have the same picture or a caption in common.

    Args:
        pictures: The held-out pictures.
        seed: Seed of the choice.
    """
    order = np.random.default_rng(seed).permutation(len(pictures.texts)).tolist()
    truths = multimodal_data.true_captions(pictures)
    used: set[str] = set()
    chosen = []
    for row in order:
        if used.isdisjoint(truths[row]):
            used |= set(truths[row])
            chosen.append(row)
        if len(chosen) == CANDIDATES:
            break
    return chosen


def vectors(
    model: "kerasseq.models.Multimodal", pictures: Captioned, batch_size: int
) -> dict[str, np.ndarray]:
    """Computes the unit vectors of pictures, of sounds and of captions, by kind."""
    size = {"batch_size": batch_size}
    with status("reading the held-out pictures and captions"):
        embedded = {"images": model.embed_images(pictures.images, **size)}
        if "audio" in model.kinds:
            embedded["audio"] = model.embed_audio([*pictures.audio], **size)
        embedded["texts"] = model.embed_texts(pictures.texts, **size)
    return embedded


def ranks(cosines: np.ndarray) -> np.ndarray:
    """Returns how many columns are nearer than the right one, for each row.

    An equal cosine counts as nearer, so that one vector for all finds nothing.

    Examples:
        >>> ranks(np.array([[0.9, 0.1], [0.5, 0.5]])).tolist()
        [0, 1]
    """
    own = np.diagonal(cosines)[:, None]
    return np.sum(cosines >= own, axis=1) - 1


def scores(embedded: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Returns how often the right partner is the nearest, as plain data by direction.

    Args:
        embedded: Vectors by kind, with partners in the same rows.

    Examples:
        >>> eye = np.eye(8)
        >>> all = scores({"images": eye, "texts": eye})
        >>> all["picture → caption"]["right"], all["caption → picture"]["chance"]
        (1.0, 0.125)
    """
    results = {}
    for first, second in itertools.combinations(embedded, 2):
        cosines = embedded[first] @ embedded[second].T
        names = (NAMES[first], NAMES[second])
        for (a, b), each in ((names, cosines), (names[::-1], cosines.T)):
            before = ranks(each)
            results[f"{a} → {b}"] = {
                "right": float(np.mean(before == 0)),
                "near": float(np.mean(before < NEAR)),
                "chance": 1 / len(each),
                "ranks": before,
            }
    return results


def judge(results: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns whether a model finds captions better than chance, as plain data.

    Args:
        results: What `scores` returns.

    Examples:
        >>> eye = np.eye(32)
        >>> judge(scores({"images": eye, "texts": eye}))["better"]
        True
    """
    words = "picture → caption", "caption → picture"
    both = [results[name] for name in words]
    count, chance = len(both[0]["ranks"]), both[0]["chance"]
    if count < 2:
        return {
            "sentence": "The held-out captions are all the same: there is nothing to "
            "choose from. Add pictures with other captions.",
            "better": False,
        }
    right = sum((each["ranks"] == 0).astype(float) for each in both) / 2
    # Differences below the precision of float64 are none.
    gain = verdict.difference(right - chance)
    better_by = verdict.Difference(*(round(x, 12) for x in gain[:3]), count)
    numbers = (
        f"among {count:,} held-out captions the right one is the nearest of "
        f"{both[0]['right']:.3f} of the pictures, and back {both[1]['right']:.3f}; by "
        f"chance {chance:.3f}"
    )
    if better_by.is_certain:
        sentence = f"The model is better than chance: {numbers}."
    else:
        sentence = (
            f"The model is not clearly better than chance: {numbers}, difference "
            f"{better_by.of('held-out pairs')}. Most likely to help: more --steps or "
            "more pictures."
        )
    return {
        "sentence": sentence,
        "better": better_by.is_certain,
        "baseline": "chance",
    } | better_by._asdict()


def show(console: Console, results: Mapping[str, dict[str, Any]]) -> None:
    """Prints the scores of each direction."""
    first = next(iter(results.values()))
    count = round(1 / first["chance"])
    columns = {"right": ">nearest is right", "near": f">among {NEAR} nearest"}
    columns["chance"] = ">chance"
    if count <= NEAR:
        del columns["near"]
    cells = [
        (name, *(f"{each[key]:.3f}" for key in columns))
        for name, each in results.items()
    ]
    title = f"The right one of {count:,} held-out pairs"
    console.table(title, ("from → to", *columns.values()), cells)


def nearest(cosines: np.ndarray, names: Sequence[str]) -> list[str]:
    """Returns the name of the largest cosine of each row."""
    return [names[n] for n in cosines.argmax(axis=1)]
