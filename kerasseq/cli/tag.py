"""`kerasseq train tag`: a tagger of words, such as of names in texts."""

import os
import time
import warnings
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import figures, gaps, heads, labeled, options, runs, training_rows
from kerasseq.cli.console import note, set_seed, status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.options import PerModel
from kerasseq.datasets import Tagged, python_tokens, read_tagged

if TYPE_CHECKING:
    from kerasseq.cli.job import Job

PART = 8192  # sentences that are tagged at a time
FILE = "file"  # the argument that names the user's data
DATA = ("python-tokens",)
MODELS = (*options.ARCHITECTURES, *heads.MODELS)
DEFAULTS = {
    "model": "lstm",
    "file": None,
    "data": None,
    "encoding": "utf-8",
    "word_column": None,
    "tag_column": None,
    "missing": "error",
    "held_out": 0.2,
    "crf": False,
    "tokenizer": PerModel("word", bert="bpe", gpt="bpe"),
    "vocabulary_size": PerModel(10_000, bert=4000, gpt=4000),
    "units": PerModel(64, bert=96, gpt=96),
    "num_layers": PerModel(1, bert=2, gpt=2),
    "num_heads": 4,
    "preset": None,
    "dropout": PerModel(0.0, bert=0.1, gpt=0.1),
    "batch_size": 32,
    "learning_rate": PerModel(3e-3, bert=1e-3, gpt=1e-3),
    "epochs": None,
    "steps": None,
    "checkpoint_every": 100,
    "seed": 0,
}


def add_task(add: options.Add) -> None:
    """Adds the task to the parser of `kerasseq train`."""
    parser = add(
        "tag",
        """\
Train a tagger on a file in a CoNLL format: a word and its tag on each line, a blank
line after each sentence. A part of the sentences is held out. There precision, recall
and F1 of each tag are printed, those of entities for BIO and IOBES tags, and the
accuracy of the most frequent tag of each word.""",
        """\
examples:
  kerasseq train tag --file train.conll --crf
  kerasseq train tag --data python-tokens --epochs 3
  kerasseq train tag --file train.conll --preset models/bert-base-cased
then:
  kerasseq predict runs/tag-lstm-1 --text "for line in lines :" """,
    )
    options.add_resume(parser)
    group = options.add_data(parser, DEFAULTS, "--file", "words with tags", DATA)
    add_columns(group)
    gaps.add_gaps(group, "sentences with a line without word or tag")
    text = "fraction of the sentences that is held out"
    options.add(group, DEFAULTS, "--held-out", options.fraction, text, "X")
    options.add_tokenizer(group, DEFAULTS)
    group = options.add_model(parser, DEFAULTS, MODELS)
    heads.add_options(group, DEFAULTS)
    text = "find the tags of a sentence together, by a conditional random field"
    group.add_argument("--crf", action="store_true", default=None, help=text)
    group = options.add_training(
        parser, DEFAULTS, "training steps, instead of --epochs"
    )
    options.add_epochs(group)
    options.add_location(parser, "runs/tag-MODEL-N")


def train(job: "Job") -> runs.Results:
    """Trains the model, evaluates it and draws the figures.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data.
    """
    from kerasseq.cli.fitting import check_memory  # loads Keras

    settings = job.settings
    with status("reading the sentences"):
        tagged, data = read(settings)
    job.check_data(data)
    with status("splitting the sentences"):
        training, held_out = split(tagged, settings.held_out, settings.seed)
    tested = labeled.bounded(np.arange(len(held_out.sentences)), settings.seed)
    tested = part_of(held_out, np.sort(tested))
    lines = [" ".join(words) for words in training.sentences]
    preset = heads.load_preset(settings)
    tokenizer = heads.make_tokenizer(settings, "\n".join(lines), preset)
    if preset is None:
        check_memory(settings, len(lines))
    with status("building the model"):
        model = build(settings, tokenizer, tagged.names, lines, preset)
    with status("tokenizing the words", sum(map(len, lines))):
        batches = model.batches(
            *training, batch_size=settings.batch_size, seed=settings.seed
        )
    job.start(data)
    training_rows.keep(job.folder, keys(training))
    job.console.write(
        f"{data['source']}: {len(lines):,} sentences with {len(model.labels)} tags, "
        f"{len(held_out.sentences):,} held out; {tokenizer.vocabulary_size:,} kinds of "
        "tokens."
    )
    start = time.perf_counter()
    task = heads if settings.model in heads.MODELS else labeled
    steps = task.compile_for(model, settings, batches.steps_per_epoch)
    history = job.fit(model, batches, steps, "accuracy")
    seconds = time.perf_counter() - start
    results = evaluate(model, tested) | {
        "task": job.task,
        "model": settings.model,
        "parameters": model.count_params(),
        "steps": steps,
        "loss": history[-1]["loss"],
        "baselines": baselines(training, tested),
        "repeated": labeled.repeated(keys(training), keys(tested)),
        "run": str(job.folder),
    }
    counts = len(tested.sentences), len(held_out.sentences)
    show(job.console, results, labeled.title_of(*counts, "sentences"))
    labeled.show_baselines(job.console, results, seconds, len(lines))
    labeled.show_repeated(job.console, results["repeated"], counts[0], "sentences")
    title = f"{settings.model} on {data['source']}"
    labeled.draw(job.console, job.folder, lambda: draw(job, history, results, title))
    job.finish(results)
    return results


def read(settings: options.Settings) -> tuple[Tagged, dict[str, Any]]:
    """Returns sentences with tags, and their source with a checksum."""
    if settings.file is None:
        settings.data = source = settings.data or DATA[0]
        tagged = python_tokens(10_000, unit="token", seed=settings.seed)
    else:
        tagged = read_file(settings.file, settings.encoding, settings)
        source = os.path.basename(settings.file)
        settings.file = os.path.abspath(settings.file)  # to resume from any folder
    if len(tagged.sentences) < 2 or len(tagged.names) < 2:
        raise ValueError(
            f"{source} must have at least two sentences and two tags, received "
            f"{len(tagged.sentences)} sentences with the tags {tagged.names}"
        )
    if len(tagged.names) > labeled.MAX_LABELS:
        raise ValueError(
            f"{source} must have at most {labeled.MAX_LABELS:,} tags, received "
            f"{len(tagged.names):,} in the last column, such as {tagged.tags[0][0]!r}"
        )
    words = [word for part in tagged for row in part for word in row]  # and tags
    data = {"source": source, "rows": len(tagged.sentences)}
    return tagged, {**data, "sha256": runs.sha256("\n".join(words))}


def add_columns(group: options.Options) -> None:
    """Adds the columns of a file of words with tags."""
    column = options.integer(-1000, 1000)
    for name, default in (("word", "0; 1 for .conllu"), ("tag", "-1; 3 for .conllu")):
        group.add_argument(
            f"--{name}-column",
            type=column,
            metavar="N",
            help=f"column of the {name}s in a CoNLL file, from 0; negative from the "
            f"last (default: {default})",
        )


def check_columns(given: Any, is_conll: bool) -> None:
    """Raises if columns of a CoNLL file are given for another kind of file."""
    for name in ("word", "tag"):
        if getattr(given, f"{name}_column") is not None and not is_conll:
            raise UsageError(f"--{name}-column is for words with tags, in a CoNLL file")


def read_file(
    file: str, encoding: str, given: Any, trained: dict[str, Any] | None = None
) -> Tagged:
    """Reads sentences with tags, and notes how many are dropped.

    Args:
        file: The file.
        encoding: Its encoding.
        given: The options: columns, which may be None, and `missing`.
        trained: The arguments of the training, whose columns are the default.
    """
    columns = {}
    for name in ("word_column", "tag_column"):
        column = getattr(given, name)
        columns[name] = (trained or {}).get(name) if column is None else column
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tagged = read_tagged(
            file, encoding=encoding, missing=given.missing or "error", **columns
        )
    for warning in found:
        note(str(warning.message))
    return tagged


def split(tagged: Tagged, fraction: float, seed: int) -> tuple[Tagged, Tagged]:
    """Splits sentences into training and held-out ones, at random."""
    order = np.random.default_rng(seed).permutation(len(tagged.sentences))
    count = min(max(1, round(len(order) * fraction)), len(order) - 1)
    rows = np.sort(order[count:]), np.sort(order[:count])
    return part_of(tagged, rows[0]), part_of(tagged, rows[1])


def keys(tagged: Tagged) -> list[str]:
    """Returns what tells equal sentences: their words, each on a line."""
    return ["\n".join(words) for words in tagged.sentences]


def part_of(tagged: Tagged, rows: np.ndarray) -> Tagged:
    """Returns some of the sentences."""
    return Tagged([tagged.sentences[n] for n in rows], [tagged.tags[n] for n in rows])


def build(
    settings: options.Settings,
    tokenizer: Any,
    labels: list[str],
    lines: list[str],
    preset: Any = None,
) -> Any:
    """Builds the model."""
    if settings.model in heads.MODELS:
        if settings.crf:
            raise UsageError("--crf is for recurrent models, not for a bert or gpt")
        return heads.build(settings, "tag", labels, tokenizer, lines, preset)
    set_seed(settings.seed)
    return kerasseq.models.SequenceTagger(
        settings.model,
        labels,
        tokenizer=tokenizer,
        crf=settings.crf,
        units=settings.units,
        num_layers=settings.num_layers,
        dropout=settings.dropout,
        bidirectional=True,
    )


def evaluate(model: "kerasseq.models.SequenceTagger", tagged: Tagged) -> dict[str, Any]:
    """Tags sentences with known tags, and returns the scores as plain data."""
    found = []
    for part in labeled.in_parts(tagged.sentences, PART, "tagging the sentences"):
        found += model.tag(part, batch_size=256)
    return labeled.scores(tagged.tags, found, model.labels)


def baselines(training: Tagged, held_out: Tagged) -> dict[str, dict[str, float]]:
    """Computes the accuracy of the most frequent tag, and of that of each word."""
    start = time.perf_counter()
    by_word, all_tags = defaultdict(Counter), Counter()
    for words, tags in zip(*training, strict=True):
        all_tags.update(tags)
        for word, tag in zip(words, tags, strict=True):
            by_word[word][tag] += 1
    majority = all_tags.most_common(1)[0][0]
    tags = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}
    pairs = [
        (word, tag)
        for sentence in zip(*held_out, strict=True)
        for word, tag in zip(*sentence, strict=True)
    ]
    seconds = time.perf_counter() - start
    right = [tags.get(word, majority) == tag for word, tag in pairs]
    return {
        "majority": {
            "accuracy": float(np.mean([majority == tag for _, tag in pairs])),
            "seconds": 0.0,
            "rows": len(training.sentences),
        },
        "most frequent tag of the word": {
            "accuracy": float(np.mean(right)),
            "seconds": seconds,
            "rows": len(training.sentences),
        },
    }


def show(console: Any, results: dict[str, Any], title: str) -> None:
    """Prints the scores of tags, and of entities."""
    labeled.show_report(console, results, title)
    if "entities" in results:
        f1 = results["entities"]["micro avg"]["f1-score"]
        console.write(f"F1 of entities: {f1:.3f}")


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
