"""`kerasseq train captions`: a model learns to describe pictures.

Train a Transformer that writes a caption word by word. The data are scenes of colored
shapes, which are generated, as pictures, films or with sounds; or a folder of your own
pictures with a table, such as captions.csv with the columns image and text. A part of
the pictures is held out. There the share of captions that are exact and of words that
are right at their place is printed, beside those of captions that need no model: the
most frequent one, the most frequent word at each place, and that of the nearest picture
by its pixels.

Examples:
  kerasseq train captions
  kerasseq train captions pictures --image-size 64 --patience 10
  kerasseq train captions --objects 2 --units 96 --num-layers 3 --steps 3000
  kerasseq train captions --frames 4
then:
  kerasseq predict runs/captions-1
  kerasseq predict runs/captions-1 --file new.png
  kerasseq inspect runs/captions-1
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import (
    contrastive,
    image_data,
    images,
    labeled,
    multimodal_data,
    options,
    runs,
    verdict,
)
from kerasseq.cli import multimodal_models as models
from kerasseq.cli.commands import shared, task_defaults, task_table
from kerasseq.cli.console import status
from kerasseq.cli.multimodal_data import Captioned
from kerasseq.cli.run import Run

FILE = "file"  # the argument that names the user's data
OF_FILE = multimodal_data.OF_FOLDER
DRAWN = 16  # pictures
MOST = 512  # held-out pictures that are described
PART = 128  # that are described between two messages
SHOWN = 8  # captions that are printed
FREQUENT = "the most frequent caption"
PLACES = "the most frequent word at each place"
NEAREST = "the caption of the nearest picture, by pixels"
OPTIONS = task_table(
    *multimodal_data.OPTIONS,
    *models.OPTIONS,
    shared("learning_rate", 2e-3, models.RATE),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, and compares its captions with those that need no model.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    trained = models.fit(run, head="caption")
    model, held_out, console = trained.model, trained.held_out, run.console
    chosen = rows(held_out, run.settings.seed)
    tested = multimodal_data.take(held_out, chosen)
    every = multimodal_data.true_captions(held_out)
    spelled = speller(model.preprocessor.tokenizer)
    truths = [[*map(spelled, every[row])] for row in chosen]
    texts = describe(model, tested)
    own = scores(texts, truths)
    others = baselines(trained.learned, tested, truths, run.settings, spelled)
    judged = judge(own, others)
    repeated = labeled.repeated(trained.keys, image_data.keys(tested.images))
    first = zip(multimodal_data.names(tested), truths, texts, strict=True)
    examples = [
        {**name, "caption": each[0], "written": text}
        for name, each, text in itertools.islice(first, SHOWN)
    ]
    for each in (own, *others.values()):
        each.pop("right")
    results = run.results(
        *(model, trained.history, trained.steps),
        **own,
        baselines=others,
        verdict=judged,
        examples=examples,
        described=len(chosen),
        repeated=repeated,
    )
    cells = [(each["caption"], each["written"] or "∅") for each in examples]
    console.table("Held-out pictures", ("caption", "written"), cells)
    title = f"Captions of {len(chosen):,} held-out picture{'s' * (len(chosen) > 1)}"
    cells = [
        (name, f"{each['exact']:.3f}", f"{each['words']:.3f}")
        for name, each in {**others, "the model": own}.items()
    ]
    console.table(title, ("model", ">captions exact", ">words right"), cells)
    console.write(judged["sentence"])
    labeled.show_repeated(console, repeated, len(chosen), "pictures")
    titles = contrastive.titles(texts, truths)
    models.draw(run, trained, chosen[:DRAWN], titles[:DRAWN])
    return run.finish(results)


def rows(pictures: Captioned, seed: int) -> list[int]:
    """Chooses held-out pictures at random, each once."""
    first = [*range(len(pictures.texts))]
    if isinstance(pictures.images, list):  # of several captions the first
        by_file: dict[str, int] = {}
        for n, file in enumerate(pictures.images):
            by_file.setdefault(file, n)
        first = [*by_file.values()]
    order = np.random.default_rng(seed).permutation(len(first)).tolist()
    return [first[n] for n in order[:MOST]]


def describe(model: "kerasseq.models.Multimodal", pictures: Captioned) -> list[str]:
    """Writes a caption for each picture."""
    texts = []
    every = range(len(pictures.texts))
    for part in labeled.in_parts(every, PART, "describing the pictures"):
        some = multimodal_data.take(pictures, part)
        texts += model.describe(multimodal_data.inputs(some), batch_size=PART)
    return texts


def speller(tokenizer: Any) -> Callable[[str], str]:
    """Returns what spells captions as a tokenizer does, to compare them with its own.

    Examples:
        >>> from kerasseq.text import WordTokenizer
        >>> speller(WordTokenizer().fit(["a red cross"]))("a  blue cross")
        'a <unk> cross'
    """
    return lambda text: tokenizer.decode(tokenizer.encode(text))


def words_right(text: str, truth: str) -> tuple[int, int]:
    """Counts the words that are right at their place, and those of the longer text.

    Examples:
        >>> words_right("a red cross left", "a blue cross")
        (2, 4)
    """
    a, b = text.split(), truth.split()
    same = sum(x == y for x, y in zip(a, b, strict=False))
    return same, max(len(a), len(b))


def scores(texts: Sequence[str], truths: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Returns how many captions are exact, and how many words right, as plain data.

    Args:
        texts: The written captions.
        truths: For each the captions that are true. That with the largest share of
            right words counts.

    Examples:
        >>> result = scores(["a cat", "a dog"], [["a cat"], ["a fox", "two foxes"]])
        >>> result["exact"], result["words"]
        (0.5, 0.75)
    """
    best = [
        max((words_right(text, truth) for truth in each), key=lambda n: n[0] / n[1])
        for text, each in zip(texts, truths, strict=True)
    ]
    right, sizes = np.array(best).T
    exact = [text in each for text, each in zip(texts, truths, strict=True)]
    return {
        "exact": float(np.mean(exact)),
        "words": float(right.sum() / sizes.sum()),
        "right": right / sizes,
    }


def frequent_words(texts: Sequence[str]) -> str:
    """Returns a caption of the most frequent word at each place, or the end there.

    Examples:
        >>> frequent_words(["a red cross", "a blue cross", "a red square moves"])
        'a red cross'
    """
    words: list[str] = []
    rows = [text.split() for text in texts]
    for place in range(max(map(len, rows))):
        counts = Counter(row[place] if place < len(row) else None for row in rows)
        most = counts.most_common(1)[0][0]
        if most is None:
            break
        words.append(most)
    return " ".join(words)


def baselines(
    learned: Captioned,
    tested: Captioned,
    truths: Sequence[Sequence[str]],
    settings: options.Settings,
    spelled: Callable[[str], str],
) -> dict[str, dict[str, Any]]:
    """Scores captions that need no model, by name.

    Args:
        learned: The pictures of the training.
        tested: The held-out pictures.
        truths: Their true captions, as the tokenizer of the model spells them.
        settings: Arguments of the run.
        spelled: What spells the others like them.
    """
    most = Counter(learned.texts).most_common(1)[0][0]
    with status("finding the nearest pictures to compare with"):
        near = nearest(learned, tested, settings)
    simple = {
        FREQUENT: [most] * len(truths),
        PLACES: [frequent_words(learned.texts)] * len(truths),
        NEAREST: near,
    }
    return {
        name: scores([*map(spelled, texts)], truths) for name, texts in simple.items()
    }


def nearest(
    learned: Captioned, tested: Captioned, settings: options.Settings
) -> list[str]:
    """Returns for each picture the caption of the nearest one of the training.

    Args:
        learned: The pictures of the training.
        tested: The held-out pictures.
        settings: Arguments of the run.
    """
    rng = np.random.default_rng(settings.seed)
    chosen = rng.permutation(len(learned.texts))[: images.BASELINE_ROWS].tolist()
    x = images.pixels([learned.images[n] for n in chosen], settings)
    y = images.pixels([*tested.images], settings)
    return [learned.texts[chosen[n]] for n in nearest_rows(x, y)]


def nearest_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the row of x that is nearest to each row of y.

    Examples:
        >>> nearest_rows(np.array([[0], [5]]), np.array([[4], [9], [1]])).tolist()
        [1, 1, 0]
    """
    # |x - y|² without the term that is the same for all x
    return np.argmin(np.sum(x * x, axis=1) - 2 * y @ x.T, axis=1)


def judge(own: dict[str, Any], others: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns whether a model beats the best simple one, as plain data.

    Args:
        own: Scores of the model.
        others: Scores of simple models by name.
    """
    words = {name: each["words"] for name, each in others.items()}
    best = others[verdict.best_of(words)]
    return verdict.verdict(
        "The model",
        own["words"],
        words,
        "words right on the held-out pictures",
        verdict.difference(own["right"] - best["right"]),
        ["more --steps", "more pictures"],
        rows="held-out pictures",
    )
