"""`kerasseq train classify`: a classifier of texts, compared with simple models.

Train a classifier on a table with a column of texts and one of labels. A part of each
class is held out. There precision, recall and F1 of each class are printed, with the
accuracy of two simple models: the most frequent class, and logistic regression.

Examples:
  kerasseq train classify --file reviews.csv --text review --label stars
  kerasseq train classify --data names --model lstm --epochs 6
  kerasseq train classify --file reviews.csv --preset models/bert-base-uncased
then:
  kerasseq predict runs/classify-gru-1 --text "Danmark"
  kerasseq evaluate runs/classify-gru-1 --file test.csv
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import labeled, options, runs, schedule, text_models, text_tables
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import note, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.options import PerModel
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.datasets.splitting import split_by_class

FILE = "file"  # the argument that names the user's data
DATA = ("names",)
MODELS = (*options.ARCHITECTURES, "bag", *text_models.MODELS)
POOLING = ("last", "mean", "max", "mean_max")
TEXT_NAMES = ("text", "sentence", "review", "comment", "content", "message", "name")
LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "language", "y")
FEW_WORDS = 2  # of a text that is read as characters
PART = 8192  # texts that are classified at a time

UNKNOWN = dict.fromkeys(("--multi-label", "--multilabel"), labeled.SEVERAL)

OPTIONS = task_table(
    shared("model", "gru", names=MODELS),
    shared("file", None, f"a file: {text_tables.KINDS}"),
    shared("data", names=DATA),
    shared("encoding", "utf-8"),
    shared("text"),
    shared("label"),
    shared("no_header", False),
    shared("missing", "error"),
    shared("held_out", 0.2),
    shared("max_characters", 1000),
    shared("balanced", False),
    shared(
        "tokenizer",
        PerModel(None, bert="bpe", gpt="bpe"),
        f"{', '.join(options.TOKENIZERS)}, or a file or folder (default: bpe; "
        "character for texts of one or two words)",
    ),
    shared("vocabulary_size", options.VOCABULARY_SIZE),
    shared("units", PerModel(96, bag=32)),
    shared("num_layers", PerModel(1, bert=2, gpt=2)),
    shared("num_heads", 4),
    shared("preset"),
    *text_models.OPTIONS,
    shared("dropout", PerModel(0.5, bag=0.3, bert=0.1, gpt=0.1)),
    Option(
        "--pooling NAME",
        "model",
        POOLING,
        "of the outputs of the last layer: what is classified",
        PerModel("mean_max", bag=None, bert=None, gpt=None),
    ),
    shared("batch_size", 32),
    shared("learning_rate", PerModel(3e-3, bag=1e-2, bert=1e-3, gpt=1e-3)),
    *schedule.STOPPED,
    shared(
        "epochs",
        None,
        f"passes over the texts, at most (default: {options.EPOCHS}; more for a "
        f"small table, up to {schedule.LONG_EPOCHS})",
    ),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, evaluates it beside simple models and draws the figures.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    if settings.pooling and settings.model in text_models.MODELS:
        raise UsageError(
            f"--pooling is not for {settings.model}, whose token [CLS] or last token "
            "is classified. Leave it out, or choose another --model"
        )
    texts, labels, data = read(settings)
    run.check_data(data)
    with status("splitting the texts"):
        rows, tested = split_by_class(labels, settings.held_out, settings.seed)
    if not len(tested):
        raise ValueError(
            f"{data['source']} must have two rows of a label, to hold one out, "
            "received one of each"
        )
    x, y = part_of(texts, labels, rows)
    if settings.tokenizer is None and settings.preset is None:
        settings.tokenizer = chosen_tokenizer(x)
    preset, tokenizer = text_models.prepare(settings, x)
    with status("building the model"):
        names = sorted(set(labels))
        model = text_models.build(settings, "classify", names, tokenizer, x, preset)
    with status("tokenizing the texts", sum(map(len, x))):
        learned, validated = labeled.validation_part(y, settings)
        batches = model.batches(
            *part_of(x, y, learned),
            batch_size=settings.batch_size,
            class_weight="balanced" if settings.balanced else None,
            seed=settings.seed,
        )
    run.start(
        data,
        f"{data['source']}: {len(x):,} texts with {len(model.labels)} labels, "
        f"{len(tested):,} held out; {tokenizer.vocabulary_size:,} kinds of tokens.",
        x,
    )
    validation = part_of(x, y, validated) if len(validated) else None
    history = text_models.fit(run, model, batches, validation)
    chosen = labeled.bounded(tested, settings.seed)
    held_out = part_of(texts, labels, chosen)
    results = evaluate(model, *held_out)
    results["repeated"] = labeled.repeated(x, held_out[0])
    with status("training logistic regression to compare with", sum(map(len, x))):
        results["baselines"] = labeled.baselines(x, y, *held_out, settings.seed)
    counts = {"rows": len(x), "tested": len(chosen), "held_out": len(tested)}
    other = "--model bag" if settings.model != "bag" else "--model gru"
    advice = [other, "more rows" if settings.preset else "--preset FOLDER"]
    counts |= {"what": "texts", "advice": advice}
    return labeled.report(run, model, history, results, **counts)


def chosen_tokenizer(texts: list[str]) -> str:
    """Returns the kind of tokens for texts, by their number of words; says so.

    Names, and texts of languages without spaces, are read as characters.

    Examples:
        >>> chosen_tokenizer(["Ada Lovelace", "Byron"])
        'character'
        >>> chosen_tokenizer(["a joy to watch", "dull and slow", "Great"])
        'bpe'
    """
    words = float(np.median([len(text.split()) for text in texts]))
    name = "character" if words <= FEW_WORDS else "bpe"
    note(f"the texts have {words:g} words (median): --tokenizer {name}")
    return name


def part_of(
    texts: list[str], labels: list[str], rows: Iterable[int]
) -> tuple[list[str], list[str]]:
    """Returns some of the texts with their labels."""
    return [texts[n] for n in rows], [labels[n] for n in rows]


def read(settings: options.Settings) -> tuple[list[str], list[str], dict[str, Any]]:
    """Returns texts and labels, and their source with a checksum."""
    if settings.file is None:
        settings.data = source = settings.data or DATA[0]
        parts = kerasseq.datasets.names_by_language()
        texts = [text for part in parts for text in part.texts]
        labels = [part.names[n] for part in parts for n in part.labels]
    else:
        table = text_tables.read_texts(
            settings.file, settings.encoding, not settings.no_header
        )
        texts, labels = columns(table, settings, settings.file)
        source = settings.own_file("file")
    with status("checking the labels"):
        labeled.check_labels(labels, source)
        texts = cut(texts, settings.max_characters)
        checksum = sha256("\n".join([*texts, *labels]))
    return texts, labels, {"source": source, "rows": len(texts), "sha256": checksum}


def cut(texts: list[str], most: int) -> list[str]:
    """Returns texts of at most `most` characters, and notes how many are cut."""
    count = sum(len(text) > most for text in texts)
    if not count:
        return texts
    note(f"{count:,} texts are cut to {most:,} characters (--max-characters)")
    return [text[:most] for text in texts]


def columns(
    table: text_tables.Texts, settings: options.Settings, file: str
) -> tuple[list[str], list[str]]:
    """Returns texts and labels of a table.

    Args:
        table: The table.
        settings: The names of the columns, `text` and `label`, or None; those that are
            guessed are set. And `missing`: "skip" drops rows with an empty cell.
        file: Its file, for messages.

    Raises:
        ValueError: If a column is missing, or cells are empty.
    """
    given = [name for name in (settings.text, settings.label) if name is not None]
    without = [name for name in given if name != settings.text]
    with about(file):
        settings.text = text_tables.column(
            table, settings.text, "--text", TEXT_NAMES, without
        )
        settings.label = text_tables.column(
            table, settings.label, "--label", LABEL_NAMES, [settings.text]
        )
    names = [settings.text, settings.label]
    table = text_tables.without_gaps(table, names, file, settings.missing)
    return table.columns[settings.text], table.columns[settings.label]


def evaluate(
    model: "kerasseq.models.SequenceClassifier", texts: list[str], labels: list[str]
) -> dict[str, Any]:
    """Classifies texts with known labels, and returns the scores as plain data.

    With them is for which texts the label is right, "right", an array `(texts,)`.
    """
    predictions = []
    for part in labeled.in_parts(texts, PART, "classifying the texts"):
        # Without the probabilities of all labels, which take memory.
        predictions += [
            each._replace(probabilities={})
            for each in model.classify(part, batch_size=256)
        ]
    result = labeled.scores(labels, [each.label for each in predictions], model.labels)
    right = [str(p.label) == y for p, y in zip(predictions, labels, strict=True)]
    hardest = labeled.hardest(texts, labels, predictions)
    return {**result, "hardest": hardest, "right": np.array(right, int)}
