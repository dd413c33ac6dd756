"""`kerasseq train language-model`: a language model on a text, compared with n-grams.

Train a language model on a text, character by character or with another tokenizer. The
last tenth is held out: at the end the model is compared there with unigram, bigram and
trigram models, in bits per character (lower is better).

Examples:
  kerasseq train language-model --text shakespeare.txt --model peephole_lstm
  kerasseq train language-model --data python-reference --units 256 --num-layers 2
  kerasseq train language-model --text old.txt --encoding cp1252 --steps 500
  kerasseq train language-model --text poems.txt --base runs/mine --lora 8
  kerasseq train language-model --data ids --model gpt   # of  kerasseq prepare
"""

from typing import Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import (
    figures,
    labeled,
    options,
    prepare,
    runs,
    schedule,
    text_models,
    tokenize,
    verdict,
)
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, note, set_seed, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.options import PerModel
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.datasets import python_reference, text_file
from kerasseq.text import CharacterTokenizer, NGramModel
from kerasseq.text.tokenizers.tokenizer import Tokenizer

FILE = "text"  # the argument that names the user's data
PATHS = (FILE, "data")
MODELS = (*options.CAUSAL, "gpt")
TEXTS = ("python-reference",)
POSITIONS = {  # of a gpt: the argument `position` of the model
    "learned": "learned",
    "sinusoidal": "sinusoidal",
    "rope": "rope",
    "alibi": "alibi",
    "relative": "relative",
    "transformer-xl": "transformer_xl",
    "none": None,
}
WITHOUT_SPECIAL = ("character", "wordpiece")  # tokens of a chat template
NGRAMS = {"unigram": 1, "bigram": 2, "trigram": 3}
SMOOTHING = {1: 1.0, 2: 0.1, 3: 0.01}  # added to each count: less for rarer contexts
SHOWN = 64  # tokens in the figures
MAX_VALIDATION = 100_000  # tokens on which the best step is chosen
REPEATED = 0.01  # of the held-out text, from which on a sentence says so
PIECE = 100  # held-out characters that are drawn together for an interval


_HELD_OUT = "maximum number of characters held out, at most a tenth of the text"
_DATA = f"or a folder of ids, of  kerasseq prepare (default: {TEXTS[0]})"
_APART = "of a folder of ids: no block reads over the end of a document"
_CHAT = "give the tokenizer a chat template, for  kerasseq train conversations"
_REMAT = "what the backward pass computes again, to save memory"
_NGRAMS = "maximum number of characters that the n-gram models are fitted to"
OPTIONS = task_table(
    shared("model", "peephole_lstm", names=MODELS),
    text_models.BASE,
    *text_models.OPTIONS,
    Option("--text FILE", "data", str, "a file: a text"),
    Option("--data NAME|DIR", "data", prepare.name_or_folder(TEXTS), _DATA),
    Option("--documents-apart", "data", None, _APART, False),
    shared("encoding", "utf-8"),
    shared("tokenizer", "character"),
    Option("--chat", "model", None, _CHAT, False),
    shared("vocabulary_size", options.VOCABULARY_SIZE),
    shared("units", 128),
    shared("num_layers", PerModel(1, gpt=4)),
    shared("num_heads", 4, "attention heads of a gpt"),
    Option("--position NAME", "model", POSITIONS, "for a gpt", "learned"),
    shared("dropout", 0.0),
    shared("sequence_length", PerModel(96, gpt=64)),
    shared("batch_size", PerModel(64, gpt=12)),
    shared("learning_rate", PerModel(3e-3, gpt=1e-3)),
    Option("--held-out N", "data", options.integer(2), _HELD_OUT, 200_000),
    Option("--ngram-characters N", "data", options.integer(3), _NGRAMS, 2_000_000),
    *schedule.STOPPED,
    shared("patience"),
    Option("--remat NAME", "training", ("full", "activations"), _REMAT),
    shared("loss_chunk_size"),
    shared(
        "epochs", None, f"passes over the text, such as 2.5 (default: {options.EPOCHS})"
    ),
)
DEFAULTS = task_defaults(OPTIONS)
RUN = 32  # characters; copies of at least 2 * RUN - 1 are found for certain


def train(run: Run) -> runs.Results:
    """Trains the model, compares it with n-gram models and draws the figures.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    in_shards = prepare.are_shards(settings.data)
    read = prepare.open_shards if in_shards else read_text
    source, data = run.read("the text", read)
    schedule.set_patience(settings, settings.text is not None or in_shards)
    base = text_models.load_base(settings)
    parts = (parts_of_shards if in_shards else parts_of_text)(settings, source, base)
    del source  # a large text need not stay in memory beside its ids
    tokenizer, ids, held_out, ngram_text = parts
    with about(settings.text):
        check_held_out(tokenizer, held_out)
    ids, validation = validation_part(ids, settings)
    with about(settings.text):
        batches = kerasseq.training.TextBatches(
            ids, settings.sequence_length, settings.batch_size, settings.seed
        )
    if base is None:
        schedule.check_memory(settings, batches.rows, tokenizer.vocabulary_size)
    with status("building the model"):
        model = base or build(settings, tokenizer)
    if settings.batch_size > batches.rows:
        note(
            f"a batch has all {batches.rows:,} sequences of the text, fewer than "
            f"--batch-size {settings.batch_size:,}: each epoch is one step"
        )
    if settings.documents_apart:
        batches, validation = prepare.batches_apart(model, settings, validation)
    steps = schedule.number_of_steps(settings, batches.steps_per_epoch)
    with about(settings.base):
        text_models.adapt(model, settings)
    model.compile(
        optimizer(model, settings, steps),
        remat=settings.remat,
        loss_chunk_size=settings.loss_chunk_size,
    )
    words = data, tokenizer, held_out, ngram_text
    run.start(data, (prepare.describe if in_shards else describe)(*words))
    before = None if base is None else own_bits(model, held_out)[0].sum()
    history = run.fit(model, batches, steps, "bits", validation=validation)
    with status("comparing with n-gram models"):
        scores = compare(settings, model, ngram_text, held_out)
    if before is not None:
        scores["bits_per_character_of_base"] = before / scores["held_out_characters"]
    scores |= text_models.save(run, model)
    results = run.results(model, history, steps, **scores)
    show(run.console, results)
    run.draw(lambda: draw(run, model, held_out, history, results))
    return run.finish(results)


def read_text(settings: options.Settings) -> tuple[str, dict[str, Any]]:
    """Returns the text, and its source with a checksum."""
    if settings.text is not None:
        text = text_file(settings.text, settings.encoding)
        source = settings.own_file("text")
    else:
        settings.data = source = settings.data or TEXTS[0]
        text = python_reference()
    return text, {"source": source, "characters": len(text), "sha256": sha256(text)}


class Parts(NamedTuple):
    """What a run learns from, and what it is tested on.

    Attributes:
        tokenizer: The tokenizer.
        ids: The ids of the training text.
        held_out: The text that is held out.
        ngram_text: The end of the training text, for the n-gram models.
    """

    tokenizer: Tokenizer
    ids: Any
    held_out: str
    ngram_text: str


def parts_of_text(settings: options.Settings, text: str, base: Any) -> Parts:
    """Splits a text, and encodes it with the tokenizer of the base, or a new one."""
    with about(settings.text):
        text, held_out = split(text, settings.held_out)
    if base is None:
        tokenizer = trained_tokenizer(settings, text)
    else:
        tokenizer = base.tokenizer
        tokenize.note_unknown(tokenizer, text, "text")
    with status("tokenizing the text", len(text)):
        ids = tokenize.encode(tokenizer, text)
    return Parts(tokenizer, ids, held_out, text[-settings.ngram_characters :])


def parts_of_shards(settings: options.Settings, shards: Any, base: Any) -> Parts:
    """Opens the ids of a folder, which its own tokenizer made."""
    if base is not None:
        shards.check_tokenizer(base.tokenizer, base.vocabulary_size)
    return Parts(shards.tokenizer, shards.ids, *prepare.texts(settings, shards))


def trained_tokenizer(settings: options.Settings, text: str) -> Tokenizer:
    """Trains or loads the tokenizer, with a chat template if the options ask for one.

    Raises:
        UsageError: If it cannot have the special tokens of the template.
    """
    if not settings.chat:
        return text_models.trained_tokenizer(settings, text)
    template = kerasseq.text.ChatTemplate()
    special = template.special_tokens
    if settings.tokenizer in WITHOUT_SPECIAL:
        raise UsageError(
            f"--chat needs a tokenizer with the special tokens {', '.join(special)}, "
            f"received --tokenizer {settings.tokenizer}. Choose word, bpe or unigram"
        )
    tokenizer = text_models.trained_tokenizer(settings, text, special)
    if tokenizer.chat_template is None:  # one from a file may have its own
        if not set(special) <= set(tokenizer.vocabulary):
            raise UsageError(
                f"--tokenizer {settings.tokenizer} must have a chat template for "
                f"--chat, or the tokens {', '.join(special)}"
            )
        tokenizer.chat_template = template
    return tokenizer


def validation_part(
    ids: np.ndarray, settings: options.Settings
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Splits off the end of the training part, on which the best step is chosen.

    Args:
        ids: The ids of the training part.
        settings: Arguments of the run, with `patience`; 0 trains on all ids.

    Returns:
        The ids to learn from, and rows of ids and of the next ones for validation; None
        if there are none.
    """
    count = min(round(labeled.VALIDATION * len(ids)), MAX_VALIDATION)
    if not settings.patience or count <= settings.sequence_length:
        return ids, None
    end, length = np.asarray(ids[-count:]), settings.sequence_length
    read = (count - 1) // length * length
    blocks = [part.reshape(-1, length) for part in (end[:read], end[1 : read + 1])]
    return ids[:-count], tuple(blocks)


def split(text: str, held_out: int) -> tuple[str, str]:
    """Splits a text into a training part and the end that is held out.

    Args:
        text: The text.
        held_out: Maximum length of the second part, which is at most a tenth.

    Raises:
        ValueError: If the text is too short.
    """
    cut = len(text) - min(len(text) // 10, held_out)
    if len(text) - cut < 2:
        raise ValueError(
            f"expected a text of at least 20 characters, received {len(text)}: too few "
            "to hold out a tenth"
        )
    return text[:cut], text[cut:]


def check_held_out(tokenizer: Tokenizer, held_out: str) -> None:
    """Raises unless a token of the held-out text can be predicted.

    Raises:
        ValueError: If the text is a single token.
    """
    if len(tokenizer.encode(held_out)) < 2:
        raise ValueError(
            "the held-out text must have at least two tokens, as the first is not "
            f"predicted, received one: {held_out[:40]!r}. Give a longer text, or "
            "another --tokenizer"
        )


def describe(
    data: dict[str, Any], tokenizer: Tokenizer, held_out: str, ngram_text: str
) -> str:
    """Describes the text, its tokens and its parts."""
    characters = data["characters"]
    words = [
        f"{data['source']}: {characters:,} characters, "
        f"{tokenizer.vocabulary_size:,} kinds of tokens",
        f"the last {len(held_out):,} characters are held out",
    ]
    if len(held_out) < characters // 10:
        words[-1] += ", less than a tenth (--held-out)"
    if len(ngram_text) < characters - len(held_out):
        words.append(
            f"the n-gram models are fitted to the {len(ngram_text):,} before them "
            "(--ngram-characters)"
        )
    return "; ".join(words) + "."


def build(
    settings: options.Settings, tokenizer: Tokenizer
) -> "kerasseq.models.GPT | kerasseq.models.LanguageModel":
    """Builds the model."""
    set_seed(settings.seed)
    if settings.model == "gpt":
        return kerasseq.models.GPT(
            tokenizer,
            num_layers=settings.num_layers,
            num_heads=settings.num_heads,
            hidden_dim=settings.units,
            max_sequence_length=settings.sequence_length,
            dropout=settings.dropout,
            position=POSITIONS[settings.position],
            embedding_scale=settings.units**0.5
            if settings.position == "sinusoidal"
            else None,
        )
    return kerasseq.models.LanguageModel(
        settings.model,
        tokenizer,
        units=settings.units,
        num_layers=settings.num_layers,
        dropout=settings.dropout,
    )


def optimizer(model: Any, settings: options.Settings, steps: int) -> Any:
    """Returns the optimizer of a model."""
    import keras

    if settings.model == "gpt":
        return kerasseq.training.gpt_optimizer(model, settings.learning_rate, steps)
    return keras.optimizers.Adam(settings.learning_rate, global_clipnorm=1.0)


def own_bits(model: Any, text: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Computes the bits of each token of a text but the first, by a language model.

    Returns:
        Bits `(tokens - 1,)`, where each token stands `(tokens, 2)`, and whether the
        tokens restore the text.
    """
    ids, _, offsets = model.tokenizer.encode_with_offsets(text)
    is_exact = model.tokenizer.decode(ids) == text
    return model.surprise(ids).bits[1:], offsets, is_exact


def compare(
    settings: options.Settings,
    model: "kerasseq.models.GPT | kerasseq.models.LanguageModel",
    ngram_text: str,
    held_out: str,
) -> dict[str, Any]:
    """Computes bits per character on the held-out text, for the model and n-grams.

    All are evaluated on the same characters: those after the first token. The n-gram
    models are fitted to the end of the training text. Differences are those of pieces
    of the text, as the bits of neighboring characters depend on each other.
    """
    characters = CharacterTokenizer().fit(ngram_text)
    ids, tested = characters.encode(ngram_text), characters.encode(held_out)
    own, offsets, is_exact = own_bits(model, held_out)
    first = int(offsets[0, 1])
    pieces = np.arange(len(held_out) - first) // PIECE
    sizes = np.bincount(pieces)
    of_ngrams, of_pieces = {}, {}
    for name, n in NGRAMS.items():
        ngram = NGramModel(n, k=SMOOTHING[n]).fit(ids, characters.vocabulary_size)
        bits = -ngram.log_probabilities(tested)[first:] / np.log(2)
        of_ngrams[name], of_pieces[name] = float(bits.mean()), np.bincount(pieces, bits)
    # The first character may be several tokens, of bytes.
    starts = pieces[np.clip(offsets[1:, 0] - first, 0, len(pieces) - 1)]
    bits = np.bincount(starts, own, len(sizes))
    judged = verdict.compare(
        settings.model,
        bits,
        of_pieces,
        "bits per character",
        ["more text", "--epochs"],
        sizes=sizes,
        rows="held-out pieces",
        lowest=True,
    )
    if not is_exact:
        note(
            "this tokenizer does not restore the held-out text exactly: the characters "
            "that are lost cost the model no bits"
        )
    return {
        "bits_per_character": float(own.sum() / sizes.sum()),
        "bits_per_character_of_ngrams": of_ngrams,
        "held_out_characters": len(held_out) - first,
        "repeated": share_repeated(ngram_text, held_out),
        "verdict": judged,
    }


def bits_of_others(results: runs.Results) -> dict[str, float]:
    """Returns the bits per character of the n-gram models, and of the base."""
    before = results.get("bits_per_character_of_base")
    base = {} if before is None else {"base": before}
    return {**results["bits_per_character_of_ngrams"], **base}


def show(console: Console, results: runs.Results) -> None:
    """Prints the comparison."""
    others, after = bits_of_others(results), results["bits_per_character"]
    bits_of = {**others, results["model"]: after}
    rows = [(name, f"{b:.3f}", f"{2**b:.2f}") for name, b in bits_of.items()]
    title = f"On the held-out text ({results['held_out_characters']:,} characters)"
    console.table(title, ("model", ">bits per character", ">perplexity"), rows)
    console.write(results["verdict"]["sentence"])
    if results["repeated"] >= REPEATED:
        console.write(
            f"At least {results['repeated']:.0%} of the held-out text is in the "
            "training text, too, word for word: for a new text expect more bits."
        )
    if after >= others.get("base", np.inf):
        console.write(
            f"Training did not make the base better ({others['base']:.3f} before): "
            "try more --steps, or another --learning-rate."
        )


def draw(
    run: Run,
    model: "kerasseq.models.GPT | kerasseq.models.LanguageModel",
    held_out: str,
    history: runs.History,
    results: runs.Results,
) -> list[Any]:
    """Draws the training, and what happens inside the model for a held-out text."""
    ids = model.tokenizer.encode(held_out)[:SHOWN]
    tokens = tokenize.pieces(model.tokenizer, held_out)[:SHOWN]
    context = model.context_length  # of a GPT with learned positions, or None
    trace = figures.record(model, ids[None, :context])
    flow = figures.flow_of_last_prediction(model, ids)
    lines = bits_of_others(results)
    return [
        figures.history(run.folder, history, "bits", run.title, lines),
        *figures.of_trace(run.folder, trace, tokens, flow, tokens[:-1][:context]),
    ]


def share_repeated(training: str, held_out: str) -> float:
    """Returns the share of a held-out text that the training text has in long copies.

    It is at least this, as up to 31 characters at the ends of a copy do not count.

    Args:
        training: The training text.
        held_out: The held-out text.

    Examples:
        >>> copied = "".join(map(str, range(60)))[:96]
        >>> share_repeated(copied, copied + "x" * 96)
        0.5
    """
    starts = range(0, len(training) - RUN + 1, RUN)
    known = {training[start : start + RUN] for start in starts}
    repeated = np.zeros(len(held_out), bool)
    for start in range(len(held_out) - RUN + 1):
        if held_out[start : start + RUN] in known:
            repeated[start : start + RUN] = True
    return float(repeated.mean())
