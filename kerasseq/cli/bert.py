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

import re
from typing import TYPE_CHECKING, Any

import numpy as np

import kerasseq
from kerasseq.cli import figures, options, runs, schedule, text_models, verdict
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, set_seed, status
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.datasets import counting, python_reference, text_file

if TYPE_CHECKING:
    from kerasseq.models import BERT
    from kerasseq.text.tokenizers.tokenizer import Tokenizer


Documents = list[list[str]]  # lists of sentences
FILE = "text"  # the argument that names the user's data
TEXTS = ("counting", "python-reference")
STEPS = 400  # if neither --epochs nor --steps is given
COUNTING = 2000  # documents that are generated
HELD_OUT = 10  # one document in ten
MIN_SENTENCES = 8  # of a document
MAX_WORDS = 60  # in a sentence on average; more means that lines are sentences
MAX_TESTED = 1000  # pairs of the held-out documents
WARM_UP = 0.1  # of the steps
SHOWN = 30  # tokens in the figure
MOST_FREQUENT = "the most frequent answer"


_MASKED = "fraction of the tokens to predict"
_MARKED = "fraction of these that becomes [MASK]"
_RANDOM = "fraction that becomes a random token"
_NEXT = "fraction of the pairs whose second sentence follows the first"
_MASKS = "masked tokens and sentence pairs"
OPTIONS = task_table(
    Option("--text FILE", "data", str, "a file: a text"),
    shared("data", names=TEXTS),
    shared("encoding", "utf-8"),
    shared(
        "vocabulary_size",
        options.VOCABULARY_SIZE,
        "maximum number of tokens in the vocabulary of WordPiece",
    ),
    Option("--mask-rate X", _MASKS, options.probability, _MASKED, 0.15),
    Option("--mask-token-rate X", _MASKS, options.share, _MARKED, 0.8),
    Option("--random-token-rate X", _MASKS, options.share, _RANDOM, 0.1),
    Option("--next-rate X", _MASKS, options.share, _NEXT, 0.5),
    shared("units", 64),
    shared("num_layers", 2),
    shared("num_heads", 4, "attention heads"),
    shared("dropout", 0.0),
    shared("sequence_length", 32),
    shared("batch_size", 64),
    shared("learning_rate", 3e-3),
    *schedule.TRAINED,
    shared("epochs", None, "passes over the text, such as 2.5"),
    shared("steps", None, f"training steps, instead of --epochs (default: {STEPS})"),
)
DEFAULTS = task_defaults(OPTIONS)


def train(run: Run) -> runs.Results:
    """Trains the model, measures it before and after, and draws the figures.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    documents, data = run.read("the text", read)
    documents, held_out = split(documents, data["source"])
    text = "\n".join("\n".join(document) for document in documents)
    tokenizer = text_models.tokenizer_by_name(
        "wordpiece", settings.vocabulary_size, text
    )
    sized = options.Settings(**{**vars(settings), "model": "transformer"})
    schedule.check_memory(sized, sum(map(len, documents)))
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
        steps = schedule.number_of_steps(settings, batches.steps_per_epoch)
    warm_up = int(WARM_UP * steps)
    model.compile(schedule.adam(settings.learning_rate, steps, warm_up, last=0.02))
    run.start(
        data,
        f"{data['source']}: {len(documents):,} documents with {len(text):,} "
        f"characters, {len(held_out):,} held out; {tokenizer.vocabulary_size:,} "
        "tokens.",
    )
    _, y, weights = tested
    before = predict(model, tested, "measuring the model before training")
    history = run.fit(model, batches, steps, "tokens_accuracy")
    after = predict(model, tested, "measuring the model")
    simple = most_frequent(batches, y)
    results = run.results(
        *(model, history, steps),
        before=accuracies(before, y, weights),
        after=accuracies(after, y, weights),
        baselines=accuracies(simple, y, weights),
        pairs=len(y["next"]),
        verdicts=verdicts(after, simple, y, weights),
    )
    show(run.console, results)
    run.draw(lambda: draw(run, model, held_out, history, results))
    return run.finish(results)


def read(settings: options.Settings) -> tuple[Documents, dict[str, Any]]:
    """Returns the documents, and their source with a checksum."""
    if settings.text is not None:
        documents = documents_of(text_file(settings.text, settings.encoding))
        source = settings.own_file("text")
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


def build(settings: options.Settings, tokenizer: "Tokenizer") -> "BERT":
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


def predict(model: "BERT", tested: Any, what: str) -> dict[str, np.ndarray]:
    """Predicts the masked tokens and whether sentences follow one another.

    Args:
        model: The model.
        tested: Inputs, labels and weights of held-out pairs.
        what: What this is, for the progress.
    """
    with status(what):
        logits = model.predict(tested[0], batch_size=256, verbose=0)
    return {name: logits[name].argmax(axis=-1) for name in tested[1]}


def most_frequent(batches: Any, y: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Answers with the most frequent token, and with the more frequent class.

    Args:
        batches: The training batches, of which the first epoch is counted.
        y: The labels of held-out pairs.
    """
    _, known, weights = batches.all()
    token = np.bincount(known["tokens"][weights["tokens"] > 0]).argmax()
    following = np.mean(y["next"]) >= 0.5
    return {
        "tokens": np.full_like(y["tokens"], token),
        "next": np.full_like(y["next"], following),
    }


def accuracies(
    answers: dict[str, np.ndarray],
    y: dict[str, np.ndarray],
    weights: dict[str, np.ndarray],
) -> dict[str, float]:
    """Computes both accuracies.

    Examples:
        >>> one, two = {"next": np.array([1, 0])}, {"next": np.array([1, 1])}
        >>> accuracies(one, two, {"next": np.ones(2)})
        {'next': 0.5}
    """
    return {
        name: float(np.average(answers[name] == y[name], weights=weights[name]))
        for name in y
    }


def verdicts(
    answers: dict[str, np.ndarray],
    simple: dict[str, np.ndarray],
    y: dict[str, np.ndarray],
    weights: dict[str, np.ndarray],
) -> dict[str, Any]:
    """Returns for both accuracies whether the model beats the most frequent answer."""
    by_name, count = {}, len(y["next"])
    for name, what in (("tokens", "masked tokens"), ("next", "next sentences")):
        sizes = weights[name].reshape(count, -1)
        own, other = (
            ((each[name] == y[name]).reshape(count, -1) * sizes).sum(axis=1)
            for each in (answers, simple)
        )
        by_name[name] = verdict.compare(
            "BERT",
            own,
            {MOST_FREQUENT: other},
            f"accuracy of {what}",
            ["more text", "--steps"],
            sizes=sizes.sum(axis=1),
            rows="held-out pairs",
        )
    return by_name


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
    for each in results["verdicts"].values():
        console.write(each["sentence"])


def draw(
    run: Run,
    model: "BERT",
    held_out: Documents,
    history: runs.History,
    results: runs.Results,
) -> list[Any]:
    """Draws the training, and the attention over a held-out text."""
    title = f"BERT on {run.record['data']['source']}"
    lines = {"most frequent token": results["baselines"]["tokens"]}
    x, tokens = example(model, " ".join(held_out[0]))
    return [
        figures.history(run.folder, history, "tokens_accuracy", title, lines),
        figures.attention(run.folder, figures.record(model, x), tokens),
    ]


def example(model: "BERT", text: str) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns the inputs of a model for the beginning of a text, and its tokens."""
    ids = model.tokenizer.encode(text)[: min(SHOWN, model.max_sequence_length) - 2]
    special = model.preprocessor.special_ids
    row = np.array([[special["[CLS]"], *ids, special["[SEP]"]]], "int32")
    x = {"ids": row, "segments": np.zeros_like(row)}
    if "positions" in model.input:
        x["positions"] = np.arange(row.shape[1], dtype="int32")[None]
    return x, [model.tokenizer.vocabulary[i] for i in row[0]]
