"""`kerasseq train translation`: pairs of texts, and how many come out right."""

import math
import os

import keras
import numpy as np

from kerasseq import datasets, models, training
from kerasseq.cli import capacity, figures, fitting, names, runs, tokenizing
from kerasseq.cli.console import note
from kerasseq.cli.defaults import TRANSLATION
from kerasseq.cli.quiet import set_seed
from kerasseq.cli.train import sha256
from kerasseq.cli.waiting import waiting

HELD_OUT = 0.05  # of the pairs
TESTED = 500  # of the held-out pairs, at most
SHOWN = 4  # examples in the table and the figure
WARM_UP = 100  # steps in which the rate of a Transformer rises
LONGEST = 60  # tokens of an example in the figure


def train(job) -> dict:
    """Train, translate what was held out, draw.

    Args:
        job: The `Job`.

    Returns:
        The results, as plain data.
    """
    settings, say = job.settings, job.console.say
    with waiting("reading the pairs"):
        pairs, data = read_pairs(settings)
    job.check_data(data)
    learned, held_out = split(pairs, settings.seed)
    tokenizers = [tokenizer(settings, texts) for texts in learned]
    size = tokenizers[1].vocabulary_size
    capacity.check(settings, len(learned.sources), size)
    with waiting("building the model"):
        model = build(settings, tokenizers)
    with waiting("making batches"):
        batches = model.batches(
            *learned, batch_size=settings.batch_size, seed=settings.seed
        )
    job.begin(data)
    kinds = [t.vocabulary_size for t in tokenizers]
    say(
        f"{data['source']}: {len(learned.sources):,} pairs to learn from, "
        f"{len(held_out.sources):,} held out; {kinds[0]:,} and {kinds[1]:,} kinds of "
        "tokens."
    )
    say(
        f"{settings.model}: {model.count_params():,} weights, on "
        f"{keras.backend.backend()}; the run is kept in {job.folder}"
    )
    try:
        history = fitting.fit(
            model,
            batches.stream,
            folder=job.folder,
            steps=steps(settings),
            interval=settings.checkpoint_every,
            console=job.console,
            label=settings.model,
            metric="accuracy",
        )
    except KeyboardInterrupt:
        runs.save_model(model, job.folder)
        raise
    runs.save_model(model, job.folder)
    tested = datasets.Pairs(*(texts[:TESTED] for texts in held_out))
    with waiting("translating what is held out"):
        translations = model.translate(tested.sources)
    results = {
        **measure([t.text for t in translations], tested.targets),
        "task": job.task,
        "model": settings.model,
        "weights": model.count_params(),
        "steps": steps(settings),
        "loss": history[-1]["loss"],
        "run": str(job.folder),
    }
    show(job.console, results, translations, tested)
    draw(job, translations, tested, history)
    job.finish(results)
    return results


def steps(settings) -> int:
    """How long to train."""
    return settings.steps or TRANSLATION[bool(settings.full)][0]


def read_pairs(settings):
    """The pairs, and where they are from."""
    if settings.pairs is not None:
        pairs, report = datasets.read_pairs(
            settings.pairs, encoding=settings.encoding, strict=settings.strict
        )
        if report.problems:
            note(str(report))
        settings.pairs = os.path.abspath(settings.pairs)  # to resume from anywhere
        source = os.path.basename(settings.pairs)
    else:
        settings.data = source = settings.data or names.PAIRS[0]
        count = TRANSLATION[bool(settings.full)][1]
        pairs = datasets.generated_pairs(source, count, seed=settings.seed)
    lines = "\n".join(map("\t".join, zip(*pairs, strict=True)))
    return pairs, {
        "source": source,
        "pairs": len(pairs.sources),
        "sha256": sha256(lines),
    }


def split(pairs, seed):
    """What is learned from, and what is tested on; they share no text."""
    count = len(pairs.sources)
    if count * HELD_OUT < 1:
        raise ValueError(
            f"{count} pairs are too few to hold some of them out: give "
            f"{round(1 / HELD_OUT)} at least"
        )
    return datasets.split(pairs, (1 - HELD_OUT, HELD_OUT), seed=seed)


def tokenizer(settings, texts):
    """The tokenizer of one side."""
    text = "\n".join(texts)
    made = tokenizing.make(settings.tokenizer, settings.vocabulary_size, text)
    if settings.tokenizer not in tokenizing.KINDS:  # a path: to resume from anywhere
        settings.tokenizer = os.path.abspath(settings.tokenizer)
    return made


def build(settings, tokenizers):
    """The model, compiled."""
    set_seed(settings.seed)
    cosine, alpha = keras.optimizers.schedules.CosineDecay, 0.02
    if settings.model == "transformer":
        model = models.Transformer(
            *tokenizers,
            num_layers=settings.layers,
            num_heads=math.gcd(settings.units, 4),
            hidden_dim=settings.units,
            dropout=settings.dropout,
            norm_placement="pre",
        )
        warm = min(WARM_UP, steps(settings) // 2)
        rest, rate = steps(settings) - warm, settings.learning_rate
        rate = cosine(0.0, rest, alpha, warmup_target=rate, warmup_steps=warm)
    else:
        model = models.Seq2Seq(
            settings.model,
            *tokenizers,
            attention=None if settings.attention == "none" else settings.attention,
            units=settings.units,
            num_layers=settings.layers,
            dropout=settings.dropout,
        )
        rate = cosine(settings.learning_rate, steps(settings), alpha)
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
    return model


def measure(said, wanted) -> dict:
    """How good the translations are, in percent; None where a package is missing."""
    found = {"exact": training.exact_match(said, wanted), "tested": len(said)}
    try:
        found["bleu"] = training.bleu(said, wanted, tokenize="char")
        found["chrf"] = training.chrf(said, wanted)
    except ImportError as error:
        note(str(error))
        found |= {"bleu": None, "chrf": None}
    return found


def show(console, results, translations, tested):
    """Print the scores, and a few examples."""
    rows = [
        (label, "-" if results[name] is None else f"{results[name]:.1f}")
        for name, label in (
            ("exact", "exactly right, %"),
            ("bleu", "BLEU, of characters"),
            ("chrf", "chrF"),
        )
    ]
    title = f"On {results['tested']} pairs that were held out"
    console.table(title, ("score", ">value"), rows)
    rows = [
        (source, t.text, "" if t.text == wanted else wanted)
        for source, t, wanted in zip(*tested[:1], translations, tested[1], strict=True)
    ]
    columns = ("source", "translation", "right would be")
    console.table("Some of them", columns, examples(rows, translations))


def examples(rows, translations):
    """A few of the rows, those that fit into a figure first."""
    short = [len(t.source_tokens) <= LONGEST for t in translations]
    return [rows[n] for n in np.argsort(np.logical_not(short), kind="stable")[:SHOWN]]


def draw(job, translations, tested, history):
    """Draw the figures, or say what is missing for them."""
    if not figures.possible():
        note(f"no figures: {figures.MISSING}")
        return
    title = f"{job.settings.model} on {job.record['data']['source']}"
    with waiting("drawing the figures"):
        files = [figures.history(job.folder, history, "accuracy", title)]
        if translations[0].alignment is not None:
            shown = examples(translations, translations)
            files.append(figures.alignments(job.folder / "alignments.png", shown))
    job.console.say(f"Figures: {', '.join(str(file) for file in files)}")
