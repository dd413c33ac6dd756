"""`kerasseq train language-model`: tokens of a text, beside models that count."""

import os

import keras
import numpy as np

from kerasseq import models, training
from kerasseq.cli import capacity, figures, fitting, runs, tokenizing
from kerasseq.cli.console import note
from kerasseq.cli.quiet import set_seed
from kerasseq.cli.train import sha256, steps_of
from kerasseq.cli.waiting import waiting
from kerasseq.datasets import python_reference, text_file
from kerasseq.text import CharacterTokenizer, NGramModel

COUNTED = {1: "single characters", 2: "pairs of characters", 3: "triples of characters"}
SHOWN = 64  # tokens in the figures


def train(job) -> dict:
    """Train, compare, draw.

    Args:
        job: The `Job`.

    Returns:
        The results, as plain data.
    """
    settings = job.settings
    with waiting("reading the text"):
        text, data = read_text(settings)
    job.check_data(data)
    text, held_out = split(text, settings.held_out)
    tokenizer = tokenizing.make(settings.tokenizer, settings.vocabulary_size, text)
    with waiting("tokenizing the text", len(text)):
        ids = tokenizing.encode(tokenizer, text)
    if settings.tokenizer not in tokenizing.KINDS:  # a path: to resume from anywhere
        settings.tokenizer = os.path.abspath(settings.tokenizer)
    counted = text[-settings.counted :]
    del text  # of a large one the ids are enough
    batches = training.TextBatches(
        ids, settings.sequence_length, settings.batch_size, settings.seed
    )
    steps = steps_of(settings, batches.steps_per_pass)
    capacity.check(settings, batches.rows, tokenizer.vocabulary_size)
    with waiting("building the model"):
        model = build(settings, tokenizer, steps)
    job.begin(data)
    say = job.console.say
    say(
        f"{data['source']}: {data['characters']:,} characters, {describe(tokenizer)}; "
        f"the last {len(held_out):,} are held out{bounded(data, held_out, counted)}."
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
            steps=steps,
            interval=settings.checkpoint_every,
            console=job.console,
            label=settings.model,
            metric="bits",
        )
    except KeyboardInterrupt:
        runs.save_model(model, job.folder)
        raise
    runs.save_model(model, job.folder)
    with waiting("comparing with models that count"):
        results = compare(model, tokenizer, counted, held_out)
    results |= {
        "task": job.task,
        "model": settings.model,
        "weights": model.count_params(),
        "steps": steps,
        "loss": history[-1]["loss"],
        "run": str(job.folder),
    }
    show(job.console, results)
    draw(job, model, held_out, history, results)
    job.finish(results)
    return results


def read_text(settings):
    """The text, and where it is from."""
    if settings.text is not None:
        text = text_file(settings.text, settings.encoding)
        settings.text = os.path.abspath(settings.text)  # to resume from anywhere
        source = os.path.basename(settings.text)
    else:
        settings.data = source = settings.data or "python-reference"
        text = python_reference()
    found = {"source": source, "characters": len(text), "sha256": sha256(text)}
    return text, found


def split(text, at_most):
    """Nine tenths or more to learn from, and the end to be tested on.

    Args:
        text: The text.
        at_most: Characters that are held out of a text of ten times as many, or more.

    Raises:
        ValueError: If the text is too short to be split.
    """
    cut = len(text) - min(len(text) // 10, at_most)
    if len(text) - cut < 2:
        raise ValueError(
            f"the text has {len(text)} characters, too few to hold out a tenth: "
            "give a longer one"
        )
    return text[:cut], text[cut:]


def bounded(data, held_out, counted) -> str:
    """What is said of the bounds that a large text meets."""
    words, rest = [], data["characters"] - len(held_out)
    if len(held_out) < data["characters"] // 10:
        words.append("less than a tenth (--held-out)")
    if len(counted) < rest:
        words.append(
            f"the models that count learn from the {len(counted):,} before them "
            "(--counted)"
        )
    return "".join(f", {word}" for word in words)


def describe(tokenizer):
    """How many kinds of tokens there are."""
    if isinstance(tokenizer, CharacterTokenizer):
        return f"{len(tokenizer.characters)} different ones"
    return f"read as {tokenizer.vocabulary_size:,} kinds of tokens"


def build(settings, tokenizer, steps):
    """The model, compiled."""
    set_seed(settings.seed)
    if settings.model == "gpt":
        model = models.GPT(
            tokenizer,
            num_layers=settings.layers,
            num_heads=settings.heads,
            hidden_dim=settings.units,
            max_sequence_length=settings.sequence_length,
            dropout=settings.dropout,
        )
        optimizer = training.gpt_optimizer(model, settings.learning_rate, steps)
    else:
        model = models.LanguageModel(
            settings.model,
            tokenizer,
            units=settings.units,
            num_layers=settings.layers,
            dropout=settings.dropout,
        )
        optimizer = keras.optimizers.Adam(settings.learning_rate, global_clipnorm=1.0)
    model.compile(optimizer)
    return model


def compare(model, tokenizer, counted, held_out) -> dict:
    """Bits per character on the held-out text, for the model and for those that count.

    All are scored on the same characters, those after the first token. Those that count
    learn from the end of the text that the model learned from.
    """
    characters = CharacterTokenizer().fit(counted)
    ids, tested = characters.encode(counted), characters.encode(held_out)
    _, _, offsets = tokenizer.encode_with_offsets(held_out)
    first = int(offsets[0, 1])
    bits_of_counting = {}
    for n, name in COUNTED.items():
        ngram = NGramModel(n, k=smoothing(n)).fit(ids, characters.vocabulary_size)
        log_p = ngram.log_probabilities(tested)[first:]
        bits_of_counting[name] = float(-log_p.mean() / np.log(2))
    tokens_per_character = (len(offsets) - 1) / (len(held_out) - first)
    bits = model.bits_per_token(tokenizer.encode(held_out))
    if tokenizer.decode(tokenizer.encode(held_out)) != held_out:
        note(
            "this tokenizer does not give back the held-out text exactly: what is lost "
            "costs the model no bits"
        )
    return {
        "bits_per_character": bits * tokens_per_character,
        "bits_per_character_of_counting": bits_of_counting,
        "held_out_characters": len(held_out) - first,
    }


def smoothing(n):
    """What is added to each count: the longer the context, the less it was seen."""
    return {1: 1.0, 2: 0.1}.get(n, 0.01)


def show(console, results):
    """Print the table."""
    rows = [
        (f"counting {name}", f"{bits:.3f}", f"{2**bits:.2f}")
        for name, bits in results["bits_per_character_of_counting"].items()
    ]
    bits = results["bits_per_character"]
    rows.append((f"{results['model']}", f"{bits:.3f}", f"{2**bits:.2f}"))
    title = f"On the held-out text ({results['held_out_characters']:,} characters)"
    columns = ("model", ">bits per character", ">perplexity")
    console.table(title, columns, rows)


def draw(job, model, held_out, history, results):
    """Draw the figures, or say what is missing for them."""
    if not figures.possible():
        note(f"no figures: {figures.MISSING}")
        return
    counted = results["bits_per_character_of_counting"]
    with waiting("drawing the figures"):
        ids = model.tokenizer.encode(held_out)[:SHOWN]
        tokens = tokenizing.pieces(model.tokenizer, held_out)[:SHOWN]
        files = [
            figures.history(
                job.folder,
                history,
                "bits",
                f"{job.settings.model} on {job.record['data']['source']}",
                {f"counting {name}": bits for name, bits in counted.items()},
            ),
            *figures.inside(job.folder, model, ids, tokens),
        ]
    job.console.say(f"Figures: {', '.join(str(file) for file in files if file)}")
