r"""`kerasseq compare translators`: RNNenc, RNNsearch and a Transformer of equal size.

Train an encoder-decoder without attention (RNNenc), one with attention (RNNsearch) and
a Transformer on the same sentence pairs, each with words and with sub-words as tokens.
Their widths are chosen such that all have as many parameters, within 5 %. Printed are
BLEU, in all and by the length of the source, with intervals; what becomes of names that
the training does not have; and one sentence, translated by all. By default the pairs
are generated: French sentences with names of people, and their English translations.

Examples:
  kerasseq compare translators
  kerasseq compare translators --models rnnenc,rnnsearch --tokenizers word --seeds 0
  kerasseq compare translators --pairs deu.txt --vocabulary-size 4000 --steps 10000
  kerasseq compare --resume runs/translators-1
"""

import functools
import time
from typing import Any

import kerasseq
from kerasseq.cli import (
    contest,
    options,
    runs,
    schedule,
    translation,
    translator_scores,
)
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import choose_backend, set_seed, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.run import Run
from kerasseq.cli.schedule import BYTES, COPIES
from kerasseq.core import backend, checks, packages
from kerasseq.core.files import sha256
from kerasseq.datasets import Pairs, generated_pairs, named_sentences
from kerasseq.datasets import split as split_pairs
from kerasseq.text.tokenizers.tokenizer import Tokenizer

FILE = "pairs"  # the argument that names the user's data
OF_FILE = ("strict",)
MODELS = ("rnnenc", "rnnsearch", "transformer")
TOKENIZERS = ("word", "bpe")
TABLE = "translators.csv"
NAMED = "named"
DATA = (NAMED, *(name for name in translation.PAIRS if name != NAMED))
FEWEST = 20  # pairs of a file
HELD_OUT = 0.2  # of the pairs of a file, at most
NEW_NAMES = 1 / 3  # share of the generated held-out pairs whose names are new
HEADS, LAYERS = 2, 2  # of the Transformer; the others have one layer
RATES = {"rnnenc": 1e-2, "rnnsearch": 1e-2, "transformer": 4e-3}
WARM_UP = 100  # steps, at most a quarter of all
UNKNOWN_TOKEN = "<unk>"
_TESTED = "held-out pairs; of a file, at most a fifth"
_SIZE = "parameters of each model, within 5 %%"
_SENTENCE = "a sentence that all translate (default: the longest with a new name)"
_SAMPLES = "bootstrap samples of the held-out pairs"
_PROCESSES = "models that train at the same time, each in a process of its own"
_COUNT = options.integer(20, 10**6)
OPTIONS = task_table(
    shared("models", list(MODELS), names=MODELS),
    Option("--tokenizers --tokenizer NAME", "data", TOKENIZERS, "", list(TOKENIZERS)),
    *(row for row in translation.OPTIONS if row.argument in ("pairs", "strict")),
    shared("data", names=DATA),
    shared("encoding", "utf-8"),
    Option("--count N", "data", _COUNT, "training pairs of --data", 12_000),
    Option("--test-examples N", "data", options.integer(4, 10**5), _TESTED, 600),
    Option("--data-seed N", "data", options.seed, "random seed of the pairs", 0),
    shared("vocabulary_size", 300, "maximum number of tokens of each tokenizer"),
    Option("--parameters N", "model", options.integer(1000), _SIZE, 150_000),
    shared("batch_size", 32),
    shared(
        "learning_rate",
        None,
        "highest learning rate of Adam (default: 0.01; for a transformer 0.004)",
    ),
    shared("steps", 1000, "training steps of each model"),
    shared("checkpoint_every", 100),
    shared("seeds", [0, 1, 2]),
    Option("--processes N", "training", options.integer(at_most=256), _PROCESSES, 1),
    Option("--bootstrap N", "", options.integer(at_most=100_000), _SAMPLES, 1000),
    Option("--sentence TEXT", "", str, _SENTENCE),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains each model with each tokenizer and seed, unless finished, and compares.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    if run.record and run.record.get("competitor"):
        return train_one(run)
    settings = run.settings
    choose_backend(None)  # to score, also after training in processes
    if not packages.is_installed("sacrebleu"):
        raise ImportError(packages.missing("BLEU needs", "sacrebleu"))
    data, record = run.read("the pairs", read_data)
    names = contest.names(
        [f"{m}-{t}" for m in settings.models for t in settings.tokenizers],
        settings.seeds,
    )
    run.start(
        record,
        f"{record['source']}: {len(data.training.sources):,} training pairs and "
        f"{len(data.tested.sources):,} held out, on {backend.chosen()}. The run is "
        f"saved in {run.folder}",
    )
    run.end_dry_run(f"{len(names)} models", competitors=names)

    def own(model):
        kind, tokenizer = model.split("-")
        return {"models": [kind], "tokenizers": [tokenizer]}

    count = len(data.tested.sources)
    stored = functools.partial(translator_scores.stored, count=count)
    words = own, stored, train_one
    by_model = contest.train_in_folders(run, names, *words)
    results = {
        "task": run.task,
        "source": record["source"],
        "pairs": [len(data.training.sources), count],
        "seeds": settings.seeds,
        "steps": settings.steps,
        **translator_scores.compare(data, by_model, settings.bootstrap),
        "run": str(run.folder),
    }
    translator_scores.show(run.console, results)
    rows = translator_scores.rows_of(results)
    contest.write_table(run, TABLE, translator_scores.COLUMNS, rows)
    return run.finish(results)


# The pairs


def read_data(
    settings: options.Settings,
) -> tuple[translator_scores.Data, dict[str, Any]]:
    """Reads or generates the pairs.

    Args:
        settings: Arguments of the run; the path of a file becomes absolute.

    Returns:
        The data, and their source with a checksum.

    Raises:
        UsageError: If an argument contradicts another.
        ValueError: If there are too few pairs, or the file is damaged.
    """
    if settings.sentence is not None and not settings.sentence.strip():
        raise UsageError("--sentence must be a text, received an empty one")
    if settings.pairs is not None:
        training, tested = _of_file(settings)
        source = settings.own_file("pairs")
    else:
        settings.data = source = settings.data or NAMED
        made = _named if source == NAMED else _generated
        training, tested = made(settings)
    parts = [zip(*part, strict=True) for part in (training, tested)]
    lines = ["\t".join(pair) for part in parts for pair in part]
    data = translator_scores.Data(
        training, tested, *_sentence(settings, training, tested)
    )
    record = {"source": source, "pairs": len(lines), "sha256": sha256("\n".join(lines))}
    return data, record


def _of_file(settings):
    pairs = translation.read_file(settings)
    count = len(pairs.sources)
    if count < FEWEST:
        raise ValueError(
            f"{settings.pairs} must have at least {FEWEST} pairs, received {count}: "
            "too few to train on some and to test on others"
        )
    share = min(HELD_OUT, settings.test_examples / count)
    with about(settings.pairs):
        return split_pairs(pairs, share, seed=settings.data_seed)


def _generated(settings):
    count = settings.count + settings.test_examples
    pairs = generated_pairs(settings.data, count, seed=settings.data_seed)
    return split_pairs(pairs, settings.test_examples / count, seed=settings.data_seed)


def _named(settings):
    """Sentences with known names, and held-out ones, some of them with new names."""
    new = round(settings.test_examples * NEW_NAMES)
    counts = (settings.count, settings.test_examples - new, new)
    parts = [
        named_sentences(n, new_names=k == 2, seed=3 * settings.data_seed + k)
        for k, n in enumerate(counts)
    ]
    training, *held_out = ([(s.source, s.target) for s in part] for part in parts)
    known = {source for source, _ in training}
    tested = [pair for part in held_out for pair in part if pair[0] not in known]
    return [Pairs(*map(list, zip(*part, strict=True))) for part in (training, tested)]


def _sentence(settings, training, tested):
    """Chooses the sentence that is named, or the longest with new names only."""
    if settings.sentence is not None:
        known = dict(zip(*tested, strict=True))
        return settings.sentence, known.get(settings.sentence)
    names = translator_scores.new_names(
        translator_scores.Data(training, tested, "", None)
    )
    chosen = max(
        range(len(tested.sources)),
        key=lambda n: (bool(names[n]), len(tested.sources[n])),
    )
    return tested.sources[chosen], tested.targets[chosen]


# The models


def train_one(run: Run) -> dict[str, Any]:
    """Trains a model, and translates the held-out sources.

    Args:
        run: Its run, with one model, one tokenizer and one seed.

    Returns:
        The results, as plain data: the translations and sizes.
    """
    import keras

    settings = run.settings
    (name,), (kind,), (seed,) = settings.models, settings.tokenizers, settings.seeds
    label = f"{name}-{kind}, seed {seed}"
    data, _ = run.read("the pairs", read_data)
    tokenizers = make_tokenizers(kind, settings.vocabulary_size, data.training)
    matched = width_of(name, tokenizers, settings.parameters)
    keras.utils.clear_session()
    set_seed(seed)
    model = build(name, tokenizers, matched.width)
    rate = settings.learning_rate or RATES[name]
    steps = settings.steps
    model.compile(schedule.adam(rate, steps, min(WARM_UP, steps // 4), last=0.02))
    with status("batching the pairs"):
        batches = model.batches(
            *data.training, batch_size=settings.batch_size, seed=seed
        )
    history = run.fit(model, batches, steps, "accuracy", label)
    with status(f"translating the held-out sources with {label}"):
        start = time.perf_counter()
        texts = translations(model, data.tested.sources)
        (sentence,) = translations(model, [data.sentence])
        seconds = time.perf_counter() - start
    lengths = map(len, tokenizers[0].encode(data.tested.sources))
    results = run.results(
        *(model, history, steps),
        tokenizer=kind,
        seed=seed,
        width=matched.width,
        vocabularies=[tokenizer.vocabulary_size for tokenizer in tokenizers],
        tokens=sum(lengths) / len(texts),
        seconds=kerasseq.runs.read_progress(run.folder).lines[-1]["seconds"],
        translating_seconds=round(seconds, 3),
        translations=texts,
        sentence=sentence,
    )
    return run.finish(results | {"model": name})


def make_tokenizers(
    kind: str, vocabulary_size: int, training: "kerasseq.datasets.Pairs"
) -> list[Tokenizer]:
    """Trains the tokenizers of sources and targets.

    Those of words differ; byte pairs are learned from both languages at once, so that a
    name is cut in the same way in both (Sennrich et al. 2016).
    """
    with status("training the tokenizers"):
        if kind == "word":
            return [
                kerasseq.text.WordTokenizer(vocabulary_size).fit("\n".join(texts))
                for texts in training
            ]
        both = kerasseq.text.BytePairTokenizer(
            vocabulary_size, level="character", unknown=UNKNOWN_TOKEN
        )
        return [both.fit("\n".join([*training.sources, *training.targets]))] * 2


def width_of(
    name: str, tokenizers: list[Tokenizer], parameters: int
) -> "kerasseq.models.MatchedWidth":
    """Finds the width at which a model has the parameters of all others.

    Raises:
        UsageError: If there is none, or the memory does not suffice.
    """
    needed = parameters * COPIES * BYTES
    if needed > checks.memory():
        raise UsageError(
            f"--parameters {parameters:,} take {needed / 2**30:,.0f} GiB; this machine "
            f"has {checks.memory() / 2**30:,.0f} GiB. Choose fewer"
        )
    multiple = HEADS if name == "transformer" else 1
    with status(f"finding the width of {name}"):
        try:
            return kerasseq.models.matched_width(
                lambda width: build(name, tokenizers, width).count_params(),
                parameters,
                multiple=multiple,
            )
        except ValueError as error:
            raise UsageError(f"--parameters: {name}: {error}") from error


def build(
    name: str, tokenizers: list[Tokenizer], width: int
) -> "kerasseq.models.Seq2Seq | kerasseq.models.Transformer":
    """Builds a model: RNNenc, RNNsearch, or a Transformer of two layers.

    The output of the recurrent ones reads the previous word, the state and the context,
    as in both papers.
    """
    if name == "transformer":
        return kerasseq.models.Transformer(
            *tokenizers,
            num_layers=LAYERS,
            num_heads=HEADS,
            hidden_dim=width,
            dropout=0.0,
            norm_placement="pre",
        )
    return kerasseq.models.Seq2Seq(
        "gru",
        *tokenizers,
        attention=None if name == "rnnenc" else "bahdanau",
        output_reads="previous",
        units=width,
    )


def translations(model: Any, sources: list[str]) -> list[str]:
    """Returns the translations of texts, by greedy search."""
    return [each.text for each in model.translate(sources, alignments=False)]
