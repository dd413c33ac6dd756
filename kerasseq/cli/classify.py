"""`kerasseq train classify`: a classifier of texts, compared with simple models."""

import os
import time
from typing import TYPE_CHECKING, Any

import kerasseq
from kerasseq.cli import (
    figures,
    gaps,
    heads,
    labeled,
    options,
    runs,
    tables,
    training_rows,
)
from kerasseq.cli.console import note, set_seed, status
from kerasseq.cli.errors import about
from kerasseq.cli.options import PerModel
from kerasseq.datasets.splitting import split_by_class

if TYPE_CHECKING:
    from kerasseq.cli.job import Job

FILE = "file"  # the argument that names the user's data
DATA = ("names",)
MODELS = (*options.ARCHITECTURES, *heads.MODELS)
DEFAULTS = {
    "model": "gru",
    "file": None,
    "data": None,
    "encoding": "utf-8",
    "text": None,
    "label": None,
    "no_header": False,
    "missing": "error",
    "held_out": 0.2,
    "max_characters": 1000,
    "balanced": False,
    "tokenizer": PerModel("character", bert="bpe", gpt="bpe"),
    "vocabulary_size": options.VOCABULARY_SIZE,
    "units": 96,
    "num_layers": PerModel(1, bert=2, gpt=2),
    "num_heads": 4,
    "preset": None,
    "dropout": PerModel(0.3, bert=0.1, gpt=0.1),
    "batch_size": PerModel(64, bert=32, gpt=32),
    "learning_rate": PerModel(6e-3, bert=1e-3, gpt=1e-3),
    "epochs": None,
    "steps": None,
    "checkpoint_every": 100,
    "seed": 0,
}
TEXT_NAMES = ("text", "sentence", "review", "comment", "content", "message", "name")
LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "language", "y")
PART = 8192  # texts that are classified at a time


def add_task(add: options.Add) -> None:
    """Adds the task to the parser of `kerasseq train`."""
    parser = add(
        "classify",
        """\
Train a classifier on a table with a column of texts and one of labels. A part of each
class is held out. There precision, recall and F1 of each class are printed, with the
accuracy of two simple models: the most frequent class, and logistic regression.""",
        """\
examples:
  kerasseq train classify --file reviews.csv --text review --label stars
  kerasseq train classify --data names --model lstm --epochs 6
  kerasseq train classify --file reviews.csv --preset models/bert-base-uncased
then:
  kerasseq predict runs/classify-gru-1 --text "Danmark"
  kerasseq evaluate runs/classify-gru-1 --file test.csv""",
    )
    options.add_resume(parser)
    group = options.add_data(parser, DEFAULTS, "--file", tables.KINDS, DATA)
    group.add_argument("--text", metavar="COLUMN", help="column of the texts")
    group.add_argument("--label", metavar="COLUMN", help="column of the labels")
    gaps.add_no_header(group)
    gaps.add_gaps(group, "rows with an empty text or label")
    text = "fraction of each class that is held out"
    options.add(group, DEFAULTS, "--held-out", options.fraction, text, "X")
    text = "maximum length of a text; longer ones are cut"
    options.add(group, DEFAULTS, "--max-characters", options.length, text)
    text = "give all classes the same share of the loss"
    group.add_argument("--balanced", action="store_true", default=None, help=text)
    options.add_tokenizer(group, DEFAULTS)
    heads.add_options(options.add_model(parser, DEFAULTS, MODELS), DEFAULTS)
    group = options.add_training(
        parser, DEFAULTS, "training steps, instead of --epochs"
    )
    options.add_epochs(group)
    options.add_location(parser, "runs/classify-MODEL-N")


def train(job: "Job") -> runs.Results:
    """Trains the model, evaluates it beside simple models and draws the figures.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data.
    """
    from kerasseq.cli.fitting import check_memory  # loads Keras

    settings = job.settings
    texts, labels, data = read(settings)
    job.check_data(data)
    with status("splitting the texts"):
        rows, tested = split_by_class(labels, settings.held_out, settings.seed)
    if not len(tested):
        raise ValueError(
            f"{data['source']} must have two rows of a label, to hold one out, "
            "received one of each"
        )
    x, y = [texts[n] for n in rows], [labels[n] for n in rows]
    preset = heads.load_preset(settings)
    tokenizer = heads.make_tokenizer(settings, "\n".join(x), preset)
    if preset is None:
        check_memory(settings, len(x))
    with status("building the model"):
        model = build(settings, tokenizer, sorted(set(labels)), x, preset)
    with status("tokenizing the texts", sum(map(len, x))):
        batches = model.batches(
            x,
            y,
            batch_size=settings.batch_size,
            class_weight="balanced" if settings.balanced else None,
            seed=settings.seed,
        )
    job.start(data)
    training_rows.keep(job.folder, x)
    job.console.write(
        f"{data['source']}: {len(x):,} texts with {len(model.labels)} labels, "
        f"{len(tested):,} held out; {tokenizer.vocabulary_size:,} kinds of tokens."
    )
    start = time.perf_counter()
    task = heads if settings.model in heads.MODELS else labeled
    steps = task.compile_for(model, settings, batches.steps_per_epoch)
    history = job.fit(model, batches, steps, "accuracy")
    seconds = time.perf_counter() - start
    title = f"{settings.model} on {data['source']}"
    chosen = labeled.bounded(tested, settings.seed)
    held_out = [texts[n] for n in chosen], [labels[n] for n in chosen]
    results = evaluate(model, *held_out) | {
        "task": job.task,
        "model": settings.model,
        "parameters": model.count_params(),
        "steps": steps,
        "loss": history[-1]["loss"],
        "repeated": labeled.repeated(x, held_out[0]),
        "run": str(job.folder),
    }
    with status("training logistic regression to compare with", sum(map(len, x))):
        results["baselines"] = labeled.baselines(x, y, *held_out, settings.seed)
    heading = labeled.title_of(len(chosen), len(tested), "texts")
    labeled.show_report(job.console, results, heading)
    labeled.show_hardest(job.console, results["hardest"])
    labeled.show_baselines(job.console, results, seconds, len(x))
    labeled.show_repeated(job.console, results["repeated"], len(chosen), "texts")
    labeled.draw(job.console, job.folder, lambda: draw(job, history, results, title))
    job.finish(results)
    return results


def read(settings: options.Settings) -> tuple[list[str], list[str], dict[str, Any]]:
    """Returns texts and labels, and their source with a checksum."""
    if settings.file is None:
        settings.data = source = settings.data or DATA[0]
        parts = kerasseq.datasets.names_by_language()
        texts = [text for part in parts for text in part.texts]
        labels = [part.names[n] for part in parts for n in part.labels]
    else:
        table = read_text_table(settings.file, settings.encoding, settings.no_header)
        texts, labels = columns(table, settings, settings.file)
        source = os.path.basename(settings.file)
        settings.file = os.path.abspath(settings.file)  # to resume from any folder
    with status("checking the labels"):
        labeled.check_labels(labels, source)
        texts = cut(texts, settings.max_characters)
        checksum = runs.sha256("\n".join([*texts, *labels]))
    return texts, labels, {"source": source, "rows": len(texts), "sha256": checksum}


def cut(texts: list[str], most: int) -> list[str]:
    """Returns texts of at most `most` characters, and notes how many are cut."""
    count = sum(len(text) > most for text in texts)
    if not count:
        return texts
    note(f"{count:,} texts are cut to {most:,} characters (--max-characters)")
    return [text[:most] for text in texts]


def read_text_table(file: str, encoding: str, no_header: bool | None = None) -> Any:
    """Reads a table as text; cp1252 is tried where UTF-8, the default, does not fit."""
    encoding = None if encoding == "utf-8" else encoding
    return tables.read_table(file, encoding, True, has_header=not no_header)


def columns(
    table: Any, settings: options.Settings, file: str
) -> tuple[list[str], list[str]]:
    """Returns texts and labels of a table.

    Args:
        table: A `pandas.DataFrame`.
        settings: The names of the columns, `text` and `label`, or None; those that are
            guessed are set. And `missing`: "skip" drops rows with an empty cell.
        file: Its file, for messages.

    Raises:
        ValueError: If a column is missing, or cells are empty.
    """
    given = [name for name in (settings.text, settings.label) if name is not None]
    without = [name for name in given if name != settings.text]
    with about(file):
        settings.text = tables.column(
            table, settings.text, "--text", TEXT_NAMES, without
        )
        settings.label = tables.column(
            table, settings.label, "--label", LABEL_NAMES, [settings.text]
        )
    names = [settings.text, settings.label]
    table = gaps.without_gaps(table, names, file, settings.missing)
    return table[settings.text].tolist(), table[settings.label].tolist()


def build(
    settings: options.Settings,
    tokenizer: Any,
    labels: list[str],
    texts: list[str],
    preset: Any = None,
) -> Any:
    """Builds the model."""
    if settings.model in heads.MODELS:
        return heads.build(settings, "classify", labels, tokenizer, texts, preset)
    set_seed(settings.seed)
    return kerasseq.models.SequenceClassifier(
        settings.model,
        labels,
        tokenizer=tokenizer,
        units=settings.units,
        num_layers=settings.num_layers,
        dropout=settings.dropout,
        bidirectional=True,
    )


def evaluate(
    model: "kerasseq.models.SequenceClassifier", texts: list[str], labels: list[str]
) -> dict[str, Any]:
    """Classifies texts with known labels, and returns the scores as plain data."""
    found = []
    for part in labeled.in_parts(texts, PART, "classifying the texts"):
        # Without the probabilities of all labels, which take memory.
        found += [
            each._replace(probabilities={})
            for each in model.classify(part, batch_size=256)
        ]
    result = labeled.scores(labels, [each.label for each in found], model.labels)
    return {**result, "hardest": labeled.hardest(texts, labels, found)}


def draw(
    job: "Job", history: runs.History, results: runs.Results, title: str
) -> list[Any]:
    """Draws the training and the confusion matrix."""
    lines = {name: each["accuracy"] for name, each in results["baselines"].items()}
    file = job.folder / "confusion.png"
    return [
        figures.history(job.folder, history, "accuracy", title, lines),
        figures.confusion(file, results["confusion"], results["labels"], title),
    ]
