"""`kerasseq train tag`: a tagger of words, such as of names in texts.

Train a tagger on a file in a CoNLL format: a word and its tag on each line, a blank
line after each sentence. A part of the sentences is held out. There precision, recall
and F1 of each tag are printed, those of entities for BIO and IOBES tags, and the
accuracy of simple models: the most frequent tag of each word, and logistic regression
on the word and its neighbors.

Examples:
  kerasseq train tag --file train.conll --crf
  kerasseq train tag --data python-tokens --epochs 3
  kerasseq train tag --file train.conll --preset models/bert-base-cased
then:
  kerasseq predict runs/tag-lstm-1 --text "for line in lines :"
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import labeled, options, runs, schedule, text_models
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import noted_warnings, status
from kerasseq.cli.errors import UsageError
from kerasseq.cli.options import PerModel
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.datasets import Tagged, python_tokens, read_tagged

BASELINE_WORDS = 30_000  # that logistic regression is fitted to
PART = 8192  # sentences that are tagged at a time
FILE = "file"  # the argument that names the user's data
DATA = ("python-tokens",)
MODELS = (*options.ARCHITECTURES, *text_models.MODELS)


_COLUMN = (
    "column of the {} in a CoNLL file, from 0; negative from the last (default: {})"
)
_NUMBER = options.integer(-1000, 1000)
COLUMNS = (
    Option(
        "--word-column N", "data", _NUMBER, _COLUMN.format("words", "0; 1 for .conllu")
    ),
    Option(
        "--tag-column N", "data", _NUMBER, _COLUMN.format("tags", "-1; 3 for .conllu")
    ),
)
CRF = "find the tags of a sentence together, by a conditional random field"
OPTIONS = task_table(
    shared("model", "lstm", names=MODELS),
    shared("file", None, "a file: words with tags"),
    shared("data", names=DATA),
    shared("encoding", "utf-8"),
    *COLUMNS,
    shared("missing", "error", "for sentences with a line without word or tag"),
    shared("held_out", 0.2, "fraction of the sentences that is held out"),
    Option("--crf", "model", None, CRF, False),
    shared("tokenizer", PerModel("word", bert="bpe", gpt="bpe")),
    shared("vocabulary_size", PerModel(10_000, bert=4000, gpt=4000)),
    shared("units", PerModel(64, bert=96, gpt=96)),
    shared("num_layers", PerModel(1, bert=2, gpt=2)),
    shared("num_heads", 4),
    shared("preset"),
    *text_models.OPTIONS,
    shared("dropout", PerModel(0.0, bert=0.1, gpt=0.1)),
    shared("batch_size", 32),
    shared("learning_rate", PerModel(3e-3, bert=1e-3, gpt=1e-3)),
    *schedule.STOPPED,
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, evaluates it and draws the figures.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    if settings.crf and settings.model in text_models.MODELS:
        raise UsageError(
            f"--crf is for recurrent models, not for {settings.model}. Leave it "
            "out, or choose another model"
        )
    tagged, data = run.read("the sentences", read)
    with status("splitting the sentences"):
        training, held_out = split(tagged, settings.held_out, settings.seed)
    tested = labeled.bounded(np.arange(len(held_out.sentences)), settings.seed)
    tested = part_of(held_out, np.sort(tested))
    lines = [" ".join(words) for words in training.sentences]
    preset, tokenizer = text_models.prepare(settings, lines)
    with status("building the model"):
        model = text_models.build(
            settings, "tag", tagged.names, tokenizer, lines, preset
        )
    with status("tokenizing the words", sum(map(len, lines))):
        kinds = np.zeros(len(lines), int).tolist()  # any sentence may be held out
        learned, validated = labeled.validation_part(kinds, settings)
        batches = model.batches(
            *part_of(training, learned),
            batch_size=settings.batch_size,
            seed=settings.seed,
        )
    run.start(
        data,
        f"{data['source']}: {len(lines):,} sentences with {len(model.labels)} tags, "
        f"{len(held_out.sentences):,} held out; {tokenizer.vocabulary_size:,} kinds of "
        "tokens.",
        keys(training),
    )
    validation = part_of(training, validated) if len(validated) else None
    history = text_models.fit(run, model, batches, validation and tuple(validation))
    results = evaluate(model, tested) | {
        "sizes": np.array([len(words) for words in tested.sentences]),
        "baselines": baselines(training, tested),
        "repeated": labeled.repeated(keys(training), keys(tested)),
    }
    counts = {"rows": len(lines), "tested": len(tested.sentences)}
    counts["held_out"] = len(held_out.sentences)
    crf = [] if settings.crf or settings.model in text_models.MODELS else ["--crf"]
    advice = [*crf, "--preset FOLDER", "more sentences"][:2]
    counts |= {"what": "sentences", "advice": advice}
    return labeled.report(run, model, history, results, **counts)


def read(settings: options.Settings) -> tuple[Tagged, dict[str, Any]]:
    """Returns sentences with tags, and their source with a checksum."""
    if settings.file is None:
        settings.data = source = settings.data or DATA[0]
        tagged = python_tokens(10_000, unit="token", seed=settings.seed)
    else:
        tagged = read_file(settings.file, settings.encoding, settings)
        source = settings.own_file("file")
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
    return tagged, {**data, "sha256": sha256("\n".join(words))}


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
    with noted_warnings():
        return read_tagged(
            file, encoding=encoding, missing=given.missing or "error", **columns
        )


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


def evaluate(model: "kerasseq.models.SequenceTagger", tagged: Tagged) -> dict[str, Any]:
    """Tags sentences with known tags, and returns the scores as plain data.

    With them are the numbers of right tags, "right", an array `(sentences,)`.
    """
    predicted = []
    for part in labeled.in_parts(tagged.sentences, PART, "tagging the sentences"):
        predicted += model.tag(part, batch_size=256)
    scores = labeled.scores(tagged.tags, predicted, model.labels)
    return {**scores, "right": np.array(right(predicted, tagged))}


def baselines(training: Tagged, held_out: Tagged) -> dict[str, dict[str, float]]:
    """Computes the accuracy of simple models on held-out sentences.

    They are the most frequent tag, that of each word, and logistic regression on the
    word and its neighbors, if scikit-learn is installed.
    """
    start, count = time.perf_counter(), len(training.sentences)
    by_word, all_tags = defaultdict(Counter), Counter()
    for words, tags in zip(*training, strict=True):
        all_tags.update(tags)
        for word, tag in zip(words, tags, strict=True):
            by_word[word][tag] += 1
    majority = all_tags.most_common(1)[0][0]
    tags = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}
    frequent = [[tags.get(w, majority) for w in words] for words in held_out.sentences]
    seconds = time.perf_counter() - start
    most = [[majority] * len(words) for words in held_out.sentences]
    sizes = np.array([len(words) for words in held_out.sentences])
    results = {
        "majority": labeled.scored(right(most, held_out), 0.0, count, sizes),
        "most frequent tag of the word": labeled.scored(
            right(frequent, held_out), seconds, count, sizes
        ),
    }
    if not labeled.has_sklearn():
        return results
    from sklearn.feature_extraction import DictVectorizer

    start, vectorizer = time.perf_counter(), DictVectorizer()
    ends = np.cumsum([len(words) for words in training.sentences])
    count = max(1, int(np.searchsorted(ends, BASELINE_WORDS)))
    part = part_of(training, np.arange(min(count, len(ends))))
    x = vectorizer.fit_transform(features(part.sentences))
    correct = labeled.logistic_regression(
        x,
        [tag for row in part.tags for tag in row],
        vectorizer.transform(features(held_out.sentences)),
        [tag for row in held_out.tags for tag in row],
    )
    sums = np.add.reduceat(correct.astype(int), np.cumsum(sizes) - sizes)
    seconds = time.perf_counter() - start
    results["logistic regression, word and neighbors"] = labeled.scored(
        sums, seconds, len(part.sentences), sizes
    )
    return results


def right(predicted: Sequence[Sequence[str]], tagged: Tagged) -> list[int]:
    """Counts the right tags of each sentence."""
    pairs = zip(predicted, tagged.tags, strict=True)
    return [sum(a == b for a, b in zip(*row, strict=True)) for row in pairs]


def features(sentences: Sequence[Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yields what logistic regression knows of each word.

    Examples:
        >>> next(features([["Ada", "writes"]]))["next"]
        'writes'
    """
    for words in sentences:
        around = ["", *words, ""]
        for n, word in enumerate(words):
            yield {
                "word": word,
                "lower": word.lower(),
                "end": word[-3:],
                "start": word[:2],
                "shape": re.sub("[A-Z]", "A", re.sub("[0-9]", "0", word))[:4],
                "before": around[n],
                "next": around[n + 2],
            }
