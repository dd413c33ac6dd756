"""`kerasseq train vectors`: word vectors of a text, with nearest words and analogies.

Learn word vectors from a text, each line of which is a sentence or a paragraph. The
text is read line by line: it need not fit into memory. At the end the nearest words of
some frequent words are printed, and how many analogies (man, woman; king, queen) are
answered, as far as the text has their words.

Examples:
  kerasseq train vectors my.txt --run runs/mine
  kerasseq train vectors --data analogies --min-count 1
  kerasseq train vectors my.txt.gz --model glove --dimensions 50 --epochs 30
then:
  kerasseq predict runs/mine --text king
  kerasseq predict runs/mine --text "man woman king"
  kerasseq inspect runs/mine
"""

import hashlib
import os
import pathlib
from typing import TYPE_CHECKING, Any

import kerasseq
from kerasseq.cli import figures, options, runs, schedule
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, note, status
from kerasseq.cli.errors import about
from kerasseq.cli.options import PerModel
from kerasseq.cli.run import Run
from kerasseq.core import checks, packages
from kerasseq.core.files import regular, sha256
from kerasseq.datasets import analogies, python_reference
from kerasseq.datasets.files import check_is_file

if TYPE_CHECKING:
    from kerasseq.models import WordVectors


FILE = "text"  # the argument that names the user's data
DATA = ("python-reference", "analogies")
MODELS = ("skip_gram", "cbow", "glove")
SHOWN, NEAREST = 6, 5  # words in the table, and neighbors of each
DRAWN = 60  # words in the figure
SHORTEST = 5  # letters of a word that is shown: shorter ones are mostly grammar


_SMALL, _RARE = options.integer(at_most=1000), "words that are rarer are left out"
_NEGATIVES = "negative words for each, not for glove"
_SUBSAMPLE = "threshold of the random omission of frequent words; 0 keeps all"
OPTIONS = task_table(
    shared("model", "skip_gram", names=MODELS),
    Option("text TEXT", "data", str, "a text, as --text"),
    Option("--text FILE", "data", str, "a file: a text"),
    shared("data", names=DATA),
    shared("encoding", "utf-8"),
    Option("--dimensions --size N", "model", options.units, "size of a vector", 100),
    Option("--window N", "model", _SMALL, "largest distance of a context", 5),
    Option("--negatives N", "model", _SMALL, _NEGATIVES, 5),
    Option("--min-count N", "data", options.integer(), _RARE, 5),
    Option("--subsample X", "data", options.share, _SUBSAMPLE, 1e-3),
    shared(
        "batch_size",
        PerModel(256, glove=1024),
        "words of an update, a multiple of 32; of glove co-occurrences",
    ),
    shared(
        "learning_rate", PerModel(0.025, cbow=0.05, glove=0.05), "first learning rate"
    ),
    *schedule.TRAINED,
    Option("--seed N", "training", options.integer(0, 2**31 - 1), "random seed", 0),
    shared("steps", None, "training steps of up to 16 updates, instead of --epochs"),
    shared(
        "epochs", None, f"passes over the text, such as 2.5 (default: {options.EPOCHS})"
    ),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the vectors, prints nearest words and analogies, and draws a figure.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    text, data = run.read("the text", read)
    model = kerasseq.models.WordVectors(
        settings.model,
        settings.dimensions,
        window=settings.window,
        negatives=settings.negatives,
        min_count=settings.min_count,
        subsample=settings.subsample or None,
        seed=settings.seed,
    )
    model.compile(settings.learning_rate)
    contexts = 2 * settings.window + settings.negatives  # of each word of an update
    checks.fits_memory("batch_size", settings.batch_size, contexts)
    with about(settings.text), status("counting the words"):
        batches = model.batches(
            text, batch_size=settings.batch_size, encoding=settings.encoding
        )
    steps = schedule.number_of_steps(settings, batches.steps_per_epoch)
    if settings.model != "glove":  # whose AdaGrad takes smaller steps by itself
        batches.steps = steps
    run.start(data, f"{data['source']}: {len(model.words):,} words have a vector.")
    history = run.fit(model, batches, steps, None)
    results = run.results(
        *(model, history, steps),
        words=len(model.words),
        nearest=nearest_words(model, examples(model)),
        analogies=analogy_scores(model),
    )
    show(run.console, results)
    run.draw(lambda: draw(run, model, history))
    return run.finish(results)


def read(settings: options.Settings) -> tuple[Any, dict[str, Any]]:
    """Returns the text, or the path of its file, and its source with a checksum."""
    if settings.text is not None:
        settings.text = os.path.abspath(settings.text)  # to resume from any folder
        path = pathlib.Path(settings.text)
        check_is_file(path)
        with regular(path).open("rb") as file:  # which need not fit into memory
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        return path, {"source": path.name, "sha256": checksum}
    settings.data = source = settings.data or DATA[0]
    if source == "analogies":
        text = analogies(seed=0).sentences
    else:
        text = python_reference().split("\n\n")  # its lines break within sentences
    return text, {"source": source, "sha256": sha256("\n".join(text))}


def examples(model: "WordVectors") -> list[str]:
    """Returns frequent words that are not the most frequent words of grammar."""
    long = [word for word in model.words if len(word) >= SHORTEST]
    return (long or model.words)[:SHOWN]


def nearest_words(model: "WordVectors", words: list[str]) -> dict[str, Any]:
    """Returns the nearest words of some words, as plain data."""
    return {
        word: [neighbor._asdict() for neighbor in model.nearest(word, NEAREST)]
        for word in words
    }


def analogy_scores(model: "WordVectors") -> dict[str, dict[str, Any]]:
    """Answers the analogies of which the model has all words, as plain data."""
    try:
        questions = analogies(1).questions
    except ImportError:  # babel, for the currencies
        return {}
    return {
        name: model.analogy_score(rows)._asdict()
        for name, rows in questions.items()
        if any(all(word in model for word in row) for row in rows)
    }


def show(console: Console, results: runs.Results) -> None:
    """Prints the nearest words, and the analogies."""
    rows = [
        (word, ", ".join(f"{n['word']} {n['similarity']:.2f}" for n in neighbors))
        for word, neighbors in results["nearest"].items()
    ]
    console.table("Nearest words", ("word", "nearest, with cosine"), rows)
    rows = [
        (
            name,
            f"{score['questions']:,}",
            *(f"{score[key]:.3f}" for key in ("accuracy", "nearest", "chance")),
        )
        for name, score in results["analogies"].items()
    ]
    if rows:
        columns = ("class", ">questions", ">accuracy", ">nearest word", ">chance")
        console.table("Analogies", columns, rows)


def draw(run: Run, model: "WordVectors", history: runs.History) -> list[pathlib.Path]:
    """Draws the training, and the most frequent words in the plane."""
    files = [figures.history(run.folder, history, "loss", run.title)]
    if not packages.is_installed("sklearn"):
        note(
            "no figure of the words: scikit-learn is not installed. "
            + packages.install("scikit-learn")
        )
    elif len(model.words) > 2 and model.dimensions > 1:
        files.append(draw_words(model, model.words[:DRAWN], run.folder, run.title))
    return files


def draw_words(
    model: "WordVectors", words: list[str], folder: pathlib.Path, title: str
) -> pathlib.Path:
    """Draws words in the plane, by their two principal components."""
    plane = model.projection(words)
    figure = kerasseq.tracing.plots.plot_words(plane.points, plane.words, title=title)
    return figures.save(figure, folder / "words.png")


def predict(model: "WordVectors", texts: list[str]) -> list[dict[str, Any]]:
    """Returns the nearest words of a word, or the answers of three words."""
    rows = []
    for text in texts:
        words = [text] if text in model else text.split()
        words = [word.lower() if model.lowercase else word for word in words]
        if len(words) == 3:
            neighbors = model.analogy(*words, count=NEAREST)
        elif len(words) == 1:
            neighbors = model.nearest(words[0], NEAREST)
        else:
            raise ValueError(
                "expected a word, or three words of an analogy such as "
                f"'man woman king', received {text[:60]!r}"
            )
        rows.append({"nearest": [each._asdict() for each in neighbors]})
    return rows
