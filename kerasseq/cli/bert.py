"""`kerasseq train bert`: the pre-training of BERT on a text.

Pre-train BERT on a text: predict masked tokens, and whether a sentence follows another.
By default the text counts in number words, which a small model learns in less than a
minute; prose takes hours. The last tenth is held out: there both accuracies are
measured before and after training, beside the most frequent token and chance. In a file
of your own, blank lines separate paragraphs or documents.

Examples:
  kerasseq train bert
  kerasseq train bert --text my.txt --units 128 --sequence-length 64 --epochs 5
then:
  kerasseq predict runs/bert-1 --text "one two [MASK] four"
  kerasseq predict runs/bert-1 --text "one two three ." --next "four five six ."
"""

import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import figures, labeled, limits, options, runs, tokenize
from kerasseq.cli.console import Console, set_seed, status
from kerasseq.cli.options import Option
from kerasseq.cli.runs import sha256
from kerasseq.datasets import counting, python_reference, text_file

if TYPE_CHECKING:
    from kerasseq.cli.job import Job
    from kerasseq.text.tokenizers.tokenizer import Tokenizer

Documents = list[list[str]]  # lists of sentences
FILE = "text"  # the argument that names the user's data
TEXTS = ("counting", "python-reference")
DEFAULTS = {
    "text": None,
    "data": None,
    "encoding": "utf-8",
    "vocabulary_size": options.VOCABULARY_SIZE,
    "mask_rate": 0.15,
    "mask_token_rate": 0.8,
    "random_token_rate": 0.1,
    "next_rate": 0.5,
    "units": 64,
    "num_layers": 2,
    "num_heads": 4,
    "dropout": 0.0,
    "sequence_length": 32,
    "batch_size": 64,
    "learning_rate": 3e-3,
    **limits.TRAINED,
}
STEPS = 400  # if neither --epochs nor --steps is given
COUNTING = 2000  # documents that are generated
HELD_OUT = 10  # one document in ten
MIN_SENTENCES = 8  # of a document
MAX_WORDS = 60  # in a sentence on average; more means that lines are sentences
MAX_TESTED = 1000  # pairs of the held-out documents
WARM_UP = 0.1  # of the steps
SHOWN = 30  # tokens in the figure


CHOICES = {"data": TEXTS}
HELP = {
    "num_heads": "attention heads",
    "epochs": "passes over the text, such as 2.5",
    "steps": f"training steps, instead of --epochs (default: {STEPS})",
    "vocabulary_size": "maximum number of tokens in the vocabulary of WordPiece",
}
_NEXT = "fraction of the pairs whose second sentence follows the first"
_MASKS = "masked tokens and sentence pairs"
OPTIONS = (
    Option("--text", str, "a file: a text", "FILE", "data"),
    *(
        Option(name, kind, text, "X", _MASKS)
        for name, kind, text in (
            ("--mask-rate", options.probability, "fraction of the tokens to predict"),
            (
                "--mask-token-rate",
                options.share,
                "fraction of these that becomes [MASK]",
            ),
            (
                "--random-token-rate",
                options.share,
                "fraction that becomes a random token",
            ),
            ("--next-rate", options.share, _NEXT),
        )
    ),
)


def train(job: "Job") -> runs.Results:
    """Trains the model, measures it before and after, and draws the figures.

    Args:
        job: The `Job` of `kerasseq train`.

    Returns:
        The results, as plain data.
    """
    from kerasseq.cli.fitting import adam, check_memory  # loads Keras

    settings = job.settings
    documents, data = job.read("the text", read)
    documents, held_out = split(documents, data["source"])
    text = "\n".join("\n".join(document) for document in documents)
    tokenizer = tokenize.make("wordpiece", settings.vocabulary_size, text)
    sized = options.Settings(**{**vars(settings), "model": "transformer"})
    check_memory(sized, settings.batch_size)
    with status("building the model"):
        model = build(settings, tokenizer)
    with status("tokenizing the text", len(text)):
        batches = model.batches(
            documents,
            masking=masking(settings, tokenizer),
            batch_size=settings.batch_size,
            seed=settings.seed,
            next_rate=settings.next_rate,
        )
        tested = model.batches(held_out, batch_size=MAX_TESTED).batch(0)
    steps = STEPS
    if settings.epochs or settings.steps:
        steps = limits.number_of_steps(settings, batches.steps_per_epoch)
    warm_up = int(WARM_UP * steps)
    model.compile(adam(settings.learning_rate, steps, warm_up, last=0.02))
    job.start(
        data,
        f"{data['source']}: {len(documents):,} documents with {len(text):,} "
        f"characters, {len(held_out):,} held out; {tokenizer.vocabulary_size:,} "
        "tokens.",
    )
    before = measure(model, tested, "measuring the model before training")
    history = job.fit(model, batches, steps, "tokens_accuracy")
    results = job.results(
        *(model, history, steps),
        before=before,
        after=measure(model, tested, "measuring the model"),
        baselines=baselines(batches, tested),
        pairs=len(tested[1]["next"]),
    )
    show(job.console, results)
    for name, what in (("tokens", "masked tokens"), ("next", "next sentences")):
        others = {"the most frequent answer": results["baselines"][name]}
        score, what = results["after"][name], f"accuracy of {what}"
        labeled.show_verdict(job.console, "BERT", score, others, what)
    job.draw(lambda: draw(job, model, held_out, history, results))
    return job.finish(results)


def read(settings: options.Settings) -> tuple[Documents, dict[str, Any]]:
    """Returns the documents, and their source with a checksum."""
    if settings.text is not None:
        documents = documents_of(text_file(settings.text, settings.encoding))
        settings.text = os.path.abspath(settings.text)  # to resume from any folder
        source = os.path.basename(settings.text)
    else:
        settings.data = source = settings.data or TEXTS[0]
        if source == "counting":
            documents = counting(COUNTING, seed=settings.seed)
        else:
            documents = documents_of(python_reference())
    checksum = sha256("\n\n".join(map("\n".join, documents)))
    data = {"source": source, "documents": len(documents)}
    return documents, {**data, "sha256": checksum}


def documents_of(text: str) -> Documents:
    r"""Splits a text into documents of at least eight sentences.

    A sentence ends with a punctuation mark or a blank line; if there are hardly any
    marks, with its line. Paragraphs are joined to documents.

    Examples:
        >>> documents_of("To be. Or not\nto be?\n\nThat is it.")
        [['To be.', 'Or not to be?', 'That is it.']]
        >>> documents_of("one two\nthree four\n" * 4 + "\nfive\nsix")[1]
        ['five', 'six']
    """
    paragraphs = re.split(r"\n\s*\n", text)
    end = r"(?<=[.!?:;…])\s+"
    marks = len(re.findall(end, text + " "))
    if marks * MAX_WORDS < len(text.split()):
        end = r"\n"
    documents, document = [], []
    for paragraph in paragraphs:
        sentences = [" ".join(s.split()) for s in re.split(end, paragraph)]
        document += filter(None, sentences)
        if len(document) >= MIN_SENTENCES:
            documents.append(document)
            document = []
    return documents + [document] * bool(document)


def split(documents: Documents, source: str) -> tuple[Documents, Documents]:
    """Splits documents into a training part and the end that is held out.

    Raises:
        ValueError: If there are too few documents.
    """
    count = max(2, len(documents) // HELD_OUT)
    if len(documents) < 2 * count:
        raise ValueError(
            f"{source} must have at least four documents of {MIN_SENTENCES} sentences, "
            f"received {len(documents)}: pairs of sentences need several documents in "
            "the part for training and in the part that is held out"
        )
    return documents[:-count], documents[-count:]


def masking(
    settings: options.Settings, tokenizer: "Tokenizer"
) -> "kerasseq.training.MaskedLMMaskGenerator":
    """Returns the masking of the tokens."""
    return kerasseq.training.MaskedLMMaskGenerator(
        tokenizer,
        mask_selection_rate=settings.mask_rate,
        mask_token_rate=settings.mask_token_rate,
        random_token_rate=settings.random_token_rate,
        seed=settings.seed,
    )


def build(settings: options.Settings, tokenizer: "Tokenizer") -> "kerasseq.models.BERT":
    """Builds the model."""
    set_seed(settings.seed)
    return kerasseq.models.BERT(
        tokenizer,
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        hidden_dim=settings.units,
        max_sequence_length=settings.sequence_length,
        dropout=settings.dropout,
        head="pretraining",
    )


def measure(model: "kerasseq.models.BERT", tested: Any, what: str) -> dict[str, float]:
    """Computes both accuracies on held-out pairs.

    Args:
        model: The model.
        tested: Inputs, labels and weights.
        what: What this is, for the progress.
    """
    x, y, weights = tested
    with status(what):
        logits = model.predict(x, batch_size=256, verbose=0)
    right = {name: logits[name].argmax(axis=-1) == y[name] for name in y}
    return {name: float(np.average(right[name], weights=weights[name])) for name in y}


def baselines(batches: Any, tested: Any) -> dict[str, float]:
    """Computes the accuracy of the most frequent token and of chance.

    Args:
        batches: The training batches, of which the first epoch is counted.
        tested: Inputs, labels and weights of held-out pairs.
    """
    _, y, weights = batches.all()
    most_frequent = np.bincount(y["tokens"][weights["tokens"] > 0]).argmax()
    _, y, weights = tested
    right = y["tokens"] == most_frequent
    return {
        "tokens": float(np.average(right, weights=weights["tokens"])),
        "next": float(max(np.mean(y["next"]), 1 - np.mean(y["next"]))),
    }


def show(console: Console, results: runs.Results) -> None:
    """Prints the accuracies."""
    rows = [
        (title, f"{results[name]['tokens']:.3f}", f"{results[name]['next']:.3f}")
        for name, title in (
            ("baselines", "most frequent answer"),
            ("before", "BERT before training"),
            ("after", "BERT"),
        )
    ]
    title = f"Accuracy on {results['pairs']:,} held-out pairs of sentences"
    console.table(title, ("model", ">masked tokens", ">next sentence"), rows)


def draw(
    job: "Job",
    model: "kerasseq.models.BERT",
    held_out: Documents,
    history: runs.History,
    results: runs.Results,
) -> list[Any]:
    """Draws the training, and the attention over a held-out text."""
    title = f"BERT on {job.record['data']['source']}"
    lines = {"most frequent token": results["baselines"]["tokens"]}
    x, tokens = example(model, " ".join(held_out[0]))
    return [
        figures.history(job.folder, history, "tokens_accuracy", title, lines),
        figures.attention(job.folder, figures.record(model, x), tokens),
    ]


def example(
    model: "kerasseq.models.BERT", text: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns the inputs of a model for the beginning of a text, and its tokens."""
    ids = model.tokenizer.encode(text)[: min(SHOWN, model.max_sequence_length) - 2]
    special = model.preprocessor.special_ids
    row = np.array([[special["[CLS]"], *ids, special["[SEP]"]]], "int32")
    x = {"ids": row, "segments": np.zeros_like(row)}
    if "positions" in model.input:
        x["positions"] = np.arange(row.shape[1], dtype="int32")[None]
    return x, [model.tokenizer.vocabulary[i] for i in row[0]]
