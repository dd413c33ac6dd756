"""`kerasseq train translation`: translations of texts, learned from pairs.

Train a translation model with attention on pairs: number names, dates, or a file with a
source, a tab and a target on each line. Some pairs are held out. The percentage of them
that is translated exactly is printed, with BLEU and chrF. The decoder is of the kind of
the encoder; for one that is not recurrent, it is a GRU.

Examples:
  kerasseq train translation --data numbers-de
  kerasseq train translation --data numbers-de --preset full
  kerasseq train translation --model transformer --preset full
  kerasseq train translation --pairs deu.txt --tokenizer word --steps 5000
then:
  kerasseq translate "twenty-one"
"""

import math
import zlib
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import figures, options, runs, schedule, text_models, verdict
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, note, set_seed, status
from kerasseq.cli.errors import about
from kerasseq.cli.options import PerModel
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.datasets import Pairs, generated_pairs, read_pairs
from kerasseq.datasets import split as split_pairs
from kerasseq.text.tokenizers.tokenizer import Tokenizer

BUCKETS = 512  # of hashed characters and pairs of characters
ROWS = 20_000  # training pairs, at most, that the most similar one is among
Translations = list[Any]  # as from the method `translate` of a model
FILE = "pairs"  # the argument that names the user's data
MODELS = options.ARCHITECTURES
PAIRS = (
    "numbers-de",
    "numbers-fr",
    "corrections",
    "dates",
    "named",
    "copy",
    "reverse",
    "sort",
)
ATTENTIONS = ("bahdanau", "luong", "none")
PRESETS = {"quick": (500, 20_000), "full": (2000, 60_000)}  # steps, generated pairs
HELD_OUT = 0.05  # of the pairs
MAX_TESTED = 500  # of the held-out pairs
EXAMPLES = 4  # in the table and the figure
WARM_UP = 100  # steps of a Transformer
MAX_DRAWN = 60  # source tokens of an example in the figure


_PAIRS = "a file: pairs of texts, each a line with a tab between them"
_PRESETS = "; ".join(
    f"{preset}: {steps:,} steps, {pairs:,} generated pairs"
    for preset, (steps, pairs) in PRESETS.items()
)
_STRICT = "stop at a line of the file that is not a pair"
OPTIONS = task_table(
    shared("model", "gru", names=MODELS),
    Option("--pairs FILE", "data", str, _PAIRS),
    shared("data", names=PAIRS),
    shared("encoding", "utf-8"),
    Option("--strict", "data", None, _STRICT, False),
    Option("--preset NAME", "training", PRESETS, _PRESETS, "quick"),
    shared("tokenizer", "character"),
    shared("vocabulary_size", options.VOCABULARY_SIZE),
    Option(
        "--attention NAME", "model", ATTENTIONS, "for a recurrent model", "bahdanau"
    ),
    shared("units", 128),
    shared("num_layers", PerModel(1, transformer=2)),
    shared("dropout", 0.0),
    shared("batch_size", 64),
    shared("learning_rate", PerModel(4e-3, transformer=2e-3)),
    shared("steps", None, "training steps, instead of those of the preset"),
    shared("patience"),
    shared("max_minutes"),
    shared("checkpoint_every", 100),
    shared("seed", 0),
    shared("loss_chunk_size"),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, translates the held-out texts and draws the figures.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    pairs, data = run.read("the pairs", load_pairs)
    with about(settings.pairs):
        training_pairs, held_out = split(pairs, settings.seed)
    schedule.set_patience(settings, settings.pairs is not None)
    learned, validation = validation_part(training_pairs, settings)
    tokenizers = [
        text_models.trained_tokenizer(settings, "\n".join(texts))
        for texts in training_pairs
    ]
    sizes = [t.vocabulary_size for t in tokenizers]
    schedule.check_memory(settings, len(training_pairs.sources), sizes[1])
    with status("building the model"):
        model = build(settings, tokenizers)
    with status("batching the pairs"):
        batches = model.batches(
            *learned, batch_size=settings.batch_size, seed=settings.seed
        )
    run.start(
        data,
        f"{data['source']}: {len(training_pairs.sources):,} training pairs, "
        f"{len(held_out.sources):,} held out; vocabularies of {sizes[0]:,} and "
        f"{sizes[1]:,} tokens.",
    )
    steps = number_of_steps(settings)
    history = run.fit(model, batches, steps, "accuracy", validation=validation)
    tested = Pairs(*(texts[:MAX_TESTED] for texts in held_out))
    with status("translating the held-out texts"):
        translations = model.translate(tested.sources)
    texts, references = [t.text for t in translations], tested.targets
    others = answers(training_pairs, tested)
    advice = ["more pairs", "--epochs"]
    results = run.results(
        *(model, history, steps),
        **evaluate(texts, references),
        baselines={name: evaluate(each, references) for name, each in others.items()},
        verdict=verdict_of(*(settings.model, texts, others, references, advice)),
    )
    show(run.console, results, translations, tested)
    run.draw(lambda: draw(run, translations, history))
    return run.finish(results)


def number_of_steps(settings: options.Settings) -> int:
    """Returns the number of training steps: as given, or of the preset."""
    return settings.steps or PRESETS[settings.preset][0]


def load_pairs(settings: options.Settings) -> tuple[Pairs, dict[str, Any]]:
    """Returns the pairs, and their source with a checksum."""
    if settings.pairs is not None:
        pairs = read_file(settings)
        source = settings.own_file("pairs")
    else:
        settings.data = source = settings.data or PAIRS[0]
        count = PRESETS[settings.preset][1]
        pairs = generated_pairs(source, count, seed=settings.seed)
    lines = "\n".join(map("\t".join, zip(*pairs, strict=True)))
    count = len(pairs.sources)
    return pairs, {"source": source, "pairs": count, "sha256": sha256(lines)}


def read_file(settings: options.Settings) -> Pairs:
    """Reads the pairs of `--pairs`, and notes which lines are none."""
    pairs, report = read_pairs(
        settings.pairs, encoding=settings.encoding, strict=settings.strict
    )
    if report.problems:
        note(str(report))
    return pairs


def split(pairs: Pairs, seed: int) -> list[Pairs]:
    """Splits the pairs into training pairs and held-out pairs, which share no text."""
    count = len(pairs.sources)
    if count * HELD_OUT < 1:
        raise ValueError(
            f"expected at least {round(1 / HELD_OUT)} pairs, received {count}: too few "
            "to hold some of them out"
        )
    return split_pairs(pairs, (1 - HELD_OUT, HELD_OUT), seed=seed)


def validation_part(
    pairs: Pairs, settings: options.Settings
) -> tuple[Pairs, tuple[list[str], list[str]] | None]:
    """Splits training pairs: some choose the step at which training stops.

    Args:
        pairs: The training pairs.
        settings: Arguments of the run, with `patience`; 0 trains on all pairs.

    Returns:
        The pairs to learn from, and those for validation; None if there are none.
    """
    share = min(HELD_OUT, MAX_TESTED / len(pairs.sources))
    if not settings.patience or len(pairs.sources) * share < 1:
        return pairs, None
    learned, validated = split_pairs(pairs, (1 - share, share), seed=settings.seed)
    return learned, tuple(validated)


def build(
    settings: options.Settings, tokenizers: list[Tokenizer]
) -> "kerasseq.models.Seq2Seq | kerasseq.models.Transformer":
    """Builds and compiles the model."""
    set_seed(settings.seed)
    steps, warm_up = number_of_steps(settings), 0
    if settings.model == "transformer":
        model = kerasseq.models.Transformer(
            *tokenizers,
            num_layers=settings.num_layers,
            num_heads=math.gcd(settings.units, 4),
            hidden_dim=settings.units,
            dropout=settings.dropout,
            norm_placement="pre",
        )
        warm_up = min(WARM_UP, steps // 2)
    else:
        model = kerasseq.models.Seq2Seq(
            settings.model,
            *tokenizers,
            decoder=None if settings.model in options.RECURRENT else "gru",
            attention=None if settings.attention == "none" else settings.attention,
            units=settings.units,
            num_layers=settings.num_layers,
            dropout=settings.dropout,
        )
    model.compile(
        schedule.adam(settings.learning_rate, steps, warm_up, last=0.02),
        loss_chunk_size=settings.loss_chunk_size,
    )
    return model


def show(
    console: Console, results: runs.Results, translations: Translations, tested: Pairs
) -> None:
    """Prints the scores and some examples."""
    rows = [
        (label, "-" if results[name] is None else f"{results[name]:.1f}")
        for name, label in (
            ("exact", "exact matches, %"),
            ("bleu", "BLEU, of characters"),
            ("chrf", "chrF"),
        )
    ]
    title = f"On {results['tested']} held-out pairs"
    console.table(title, ("score", ">value"), rows)
    rows = [
        (source, t.text, "" if t.text == reference else reference)
        for source, t, reference in zip(
            tested.sources, translations, tested.targets, strict=True
        )
    ]
    columns = ("source", "translation", "reference, if different")
    console.table("Examples", columns, examples(rows, translations))
    console.write(results["verdict"]["sentence"])


def examples(rows: list[Any], translations: Translations) -> list[Any]:
    """Selects some rows, first those that fit into a figure."""
    long = [len(t.source_tokens) > MAX_DRAWN for t in translations]
    return [rows[n] for n in np.argsort(long, kind="stable")[:EXAMPLES]]


def draw(run: Run, translations: Translations, history: runs.History) -> list[Any]:
    """Draws the training, and the alignments of some translations."""
    files = [figures.history(run.folder, history, "accuracy", run.title)]
    if translations[0].alignment is not None:
        shown = examples(translations, translations)
        files.append(figures.alignments(run.folder / "alignments.png", shown))
    return files


# Scores, also of answers that need no model


def evaluate(translations: list[str], references: list[str]) -> dict[str, Any]:
    """Computes the scores of translations; None where a package is missing."""
    training = kerasseq.training
    exact = training.exact_match(translations, references)
    scores = {"exact": exact, "tested": len(translations)}
    try:
        scores["bleu"] = training.bleu(translations, references, tokenize="char")
        scores["chrf"] = training.chrf(translations, references)
    except ImportError as error:
        note(str(error))
        scores |= {"bleu": None, "chrf": None}
    return scores


def of_each(translations: list[str], references: list[str]) -> tuple[str, np.ndarray]:
    """Returns the score of each translation by itself, and what it is.

    Examples:
        >>> what, scores = of_each(["one", "ten"], ["one", "two"])
        >>> scores.tolist()[0]
        100.0
    """
    rows = zip(translations, references, strict=True)
    try:
        scores = [kerasseq.training.chrf([one], [other]) for one, other in rows]
        return "mean chrF of a translation", np.array(scores)
    except ImportError:
        equal = np.array(translations) == np.array(references)
        return "exact matches in percent", 100.0 * equal


def answers(training: Pairs, tested: Pairs) -> dict[str, list[str]]:
    """Returns the source itself, and the target of the most similar training source.

    Args:
        training: The training pairs.
        tested: The held-out pairs.
    """
    with status("translating by the most similar training pair"):
        known = np.stack([_counts(text) for text in training.sources[:ROWS]])
        nearest = [_nearest(known, text) for text in tested.sources]
    return {
        "a copy of the source": tested.sources,
        "the most similar training pair": [training.targets[n] for n in nearest],
    }


def _counts(text: str) -> np.ndarray:
    """Counts hashed characters and pairs of them, and scales the counts to norm 1."""
    parts = [*text, *(text[n : n + 2] for n in range(len(text) - 1))]
    hashed = [zlib.crc32(part.encode("utf-8", "replace")) % BUCKETS for part in parts]
    counts = np.bincount(hashed, minlength=BUCKETS).astype("float32")
    return counts / max(float(np.linalg.norm(counts)), 1.0)


def _nearest(known: np.ndarray, text: str) -> int:
    """Returns the row that is most similar to a text.

    Examples:
        >>> _nearest(np.stack([_counts("one two"), _counts("three")]), "two one")
        0
    """
    return int(np.argmax(known @ _counts(text)))


def verdict_of(
    name: str,
    translations: list[str],
    others: dict[str, list[str]],
    references: list[str],
    advice: list[str],
) -> dict[str, Any]:
    """Returns whether the translations are better than answers without a model.

    Args:
        name: The model.
        translations: Its translations.
        others: The other answers, by name.
        references: The right ones.
        advice: The options that are most likely to help.
    """
    what, own = of_each(translations, references)
    scores = {other: of_each(each, references)[1] for other, each in others.items()}
    return verdict.compare(name, own, scores, what, advice, rows="held-out pairs")
