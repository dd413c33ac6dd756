"""`kerasseq train conversations`: a language model learns to answer.

Train the language model of a run further, on a file of conversations: JSON lines with
"messages", of which only the answers count. The tokenizer of the run needs a chat
template: start with  kerasseq train language-model --chat. Mixed with blocks of a text,
such as that of the run, a model forgets less of it. A part of the conversations is held
out, and the model is compared there with itself before, in bits for each token of an
answer (lower is better), and in right answers to the last question.

Examples:
  kerasseq train language-model --text facts.txt --model gpt --tokenizer bpe --chat
  kerasseq train conversations --base runs/language-model-gpt-1 --file talks.jsonl
  kerasseq train conversations --base runs/1 --file talks.jsonl --text facts.txt
  kerasseq train conversations --base runs/1 --file talks.jsonl --lora 8
then:
  kerasseq chat runs/conversations-1
"""

import json
import math
import re
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import (
    chat,
    figures,
    generate,
    labeled,
    language_model,
    options,
    preference_data,
    runs,
    schedule,
    text_models,
    tokenize,
    verdict,
)
from kerasseq.cli.commands import Option, shared, task_defaults, task_table
from kerasseq.cli.console import Console, note, set_seed, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.run import Run
from kerasseq.core.files import sha256
from kerasseq.core.messages import Message
from kerasseq.datasets import text_file
from kerasseq.datasets.conversation_files import conversation_rows
from kerasseq.text.chat import answers
from kerasseq.text.tokenizers.tokenizer import chat_template_of

FILE = None  # it reads two
PATHS = ("file", "text")
_FILE = 'conversations: JSON lines with "messages"'
_TEXT = "a text whose blocks are mixed with the conversations"
_WEIGHT = "what a token of the text counts, beside 1 of an answer"
OPTIONS = task_table(
    text_models.BASE._replace(help="the language model to train further"),
    *text_models.OPTIONS,
    Option("--file FILE", "data", str, _FILE),
    Option("--text FILE", "data", str, _TEXT),
    Option("--text-weight X", "training", options.positive, _WEIGHT, 0.1),
    shared("encoding", "utf-8"),
    shared("held_out", 0.1, "fraction of the conversations that is held out"),
    shared(
        "batch_size", 32, "conversations in a batch, and blocks of the text among them"
    ),
    shared("learning_rate", 5e-4),
    *schedule.TRAINED,
    shared("max_minutes"),
    shared("loss_chunk_size"),
    shared(
        "epochs", None, f"passes over the conversations (default: {options.EPOCHS})"
    ),
)
DEFAULTS = task_defaults(OPTIONS)
MOST_ASKED = 100  # held-out conversations whose last question is answered
ADVICE = "more conversations or another --learning-rate"
BLOCK = 64  # tokens of a block of the text
LONGEST_TOKEN = 32  # characters of a block per token, at most
SCORED = 20_000  # characters at the end of the text, at most


def train(run: Run) -> runs.Results:
    """Trains on the conversations, and compares with the model before.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    check_options(settings)
    (rows, text), data = run.read("the conversations", read)
    model = generate.load_chat_model(settings.base)
    talks = fitting(model, rows, settings.file, 2)
    learned, held_out = preference_data.split(
        talks, settings.held_out, settings.seed, at_least=1
    )
    keys = [key(talk) for talk in learned]
    repeated = labeled.repeated(keys, map(key, held_out))
    with about(settings.text):
        blocks, end = mixed(model, text, len(learned), settings.seed)
    before = scores_of(model, held_out, end, settings.batch_size)
    set_seed(settings.seed)
    with about(settings.base):
        text_models.adapt(model, settings)
    weights = [1.0] * len(learned) + [settings.text_weight] * len(blocks)
    batches = model.answer_batches(
        [*learned, *blocks],
        sample_weight=weights,
        sequence_length=BLOCK,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    steps = schedule.number_of_steps(settings, batches.steps_per_epoch)
    optimizer = schedule.adam(settings.learning_rate, steps)  # counts from 0
    if isinstance(model, kerasseq.models.GPT) and settings.lora is None:
        rate = settings.learning_rate
        optimizer = kerasseq.training.gpt_optimizer(model, rate, steps)
    model.compile(optimizer, loss_chunk_size=settings.loss_chunk_size)
    words = (
        f"{data['source']}: {len(talks):,} conversations, {len(held_out):,} held out"
    )
    more = f"; {len(blocks):,} blocks of {data['text']} among them" if text else ""
    run.start(data, f"{words}{more}.", keys)
    history = run.fit(model, batches, steps, "bits")
    after = scores_of(model, held_out, end, settings.batch_size)
    scores = compare(before, after)
    scores |= {"conversations": len(talks), "held_out": len(held_out)}
    scores |= {"repeated": repeated, **text_models.save(run, model)}
    results = run.results(model, history, steps, **scores)
    show(run.console, results)
    labeled.show_repeated(run.console, repeated, len(held_out), "conversations")
    title = f"conversations of {data['source']}"
    run.draw(lambda: [figures.history(run.folder, history, "bits", title)])
    return run.finish(results)


def check_options(settings: options.Settings) -> None:
    """Raises a `UsageError` if an option is missing, or needs another one."""
    for name in ("base", "file"):
        if getattr(settings, name) is None:
            help = "See  kerasseq train conversations --help"
            raise UsageError(f"expected --{name}, received none. {help}")
    if settings.text is None and settings.text_weight != DEFAULTS["text_weight"]:
        raise UsageError("--text-weight is for --text, received none. Add --text")


def scores_of(
    model: Any, held_out: list[Any], end: str, batch_size: int
) -> dict[str, Any]:
    """Scores a model on held-out conversations, and on the end of the text.

    Args:
        model: A language model.
        held_out: The conversations.
        end: A text that is in no batch; "" for none.
        batch_size: How many conversations are predicted at a time.

    Returns:
        "bits" and "tokens" `(conversations,)`, and perhaps "right" and "bits_per_byte".
    """
    with status("evaluating"):
        bits, tokens = chat.bits_of_answers(model, held_out, batch_size)
        scores = {"bits": bits, "tokens": tokens}
        if end:
            scores["bits_per_byte"] = chat.bits_per_byte(model, end)
    questions = [*filter(None, map(chat.last_question, held_out[:MOST_ASKED]))]
    if questions:
        scores["right"], _ = chat.share_right(model, questions)
        scores["asked"] = len(questions)
    return scores


def compare(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Compares the scores before and after training, as plain data.

    Args:
        before: From `scores_of`.
        after: The same after training.

    Examples:
        >>> import numpy as np
        >>> before = {"bits": np.array([9.0, 3]), "tokens": np.array([3, 1])}
        >>> result = compare(before, {**before, "bits": np.array([5.0, 1])})
        >>> result["bits_per_token"], result["bits_per_token_before"]
        (1.5, 3.0)
    """
    tokens = after["tokens"]
    means = [float(each["bits"].sum() / tokens.sum()) for each in (after, before)]
    result = {"bits_per_token": means[0], "bits_per_token_before": means[1]}
    for name in ("right", "bits_per_byte"):
        if name in after:
            result |= {name: after[name], f"{name}_before": before[name]}
    if "asked" in after:
        result["asked"] = after["asked"]
    by = verdict.difference(before["bits"] - after["bits"], tokens)
    numbers = f"{means[0]:.3f} bits for a token of an answer, before {means[1]:.3f}"
    words = numbers, by, "held-out conversations", ADVICE
    return {**result, "verdict": verdict.of_training(*words)}


def show(console: Console, results: runs.Results) -> None:
    """Prints the scores before and after, and the sentences about them."""
    rows = [
        (what, f"{results[f'{name}_before']:.3f}", f"{results[name]:.3f}")
        for what, name in (
            ("bits for a token of an answer", "bits_per_token"),
            ("right answers to the last question", "right"),
            ("bits per byte of the text's end", "bits_per_byte"),
        )
        if name in results
    ]
    title = f"On {results['held_out']:,} held-out conversations"
    console.table(title, ("", ">before", ">after"), rows)
    console.write(results["verdict"]["sentence"])
    if results.get("asked", results["held_out"]) < results["held_out"]:
        console.write(f"Of them {results['asked']:,} were asked.")
    if "bits_per_byte" not in results:
        console.write(
            "What the model forgot of what it read before is not measured: see --text."
        )
    elif results["bits_per_byte"] > results["bits_per_byte_before"]:
        console.write(
            "The model needs more bits for the text than before: it has forgotten "
            "some of it. A larger --text-weight or a smaller --learning-rate helps."
        )


# What is read: conversations, and a text


def read(
    settings: options.Settings,
) -> tuple[tuple[dict[int, list[Message]], str], dict[str, Any]]:
    """Reads the conversations by their lines, and the text; "" for none."""
    rows = conversation_rows(settings.file, settings.encoding)
    if len(rows) < 2:
        raise ValueError(
            f"{settings.file} must have at least two conversations, as one is held "
            "out, received one"
        )
    data: dict[str, Any] = {"source": settings.own_file("file"), "rows": len(rows)}
    text = ""
    if settings.text is not None:
        text = text_file(settings.text, settings.encoding)
        data["text"] = settings.own_file("text")
    words = [*map(key, rows.values()), text]
    return (rows, text), {**data, "sha256": sha256("\n".join(words))}


def key(talk: list[Message]) -> str:
    """Returns what is the same for a conversation that is there twice."""
    return json.dumps(talk)


def fitting(
    model: Any, rows: dict[int, list[Message]], file: str, at_least: int = 1
) -> list[Any]:
    """Returns the conversations that the model reads, long ones cut after an answer.

    Args:
        model: The language model.
        rows: The conversations by their lines.
        file: The file, for messages.
        at_least: How many must be left.

    Raises:
        ValueError: If one has no answer, or too few are left.
    """
    template, kept, cut = chat_template_of(model.tokenizer), [], 0
    longest = model.context_length
    room = np.inf if longest is None else longest + 1  # the last token is not read
    for line, given in rows.items():
        talk, where = given, f"{file}, line {line}"
        while talk and count(model, answers.parts(template, talk, where)) > room:
            talk = shorter(talk)
        if talk:
            kept.append(talk)
            cut += talk is not given
    if len(kept) < len(rows):
        note(
            f"conversations left out: {len(rows) - len(kept):,} of {len(rows):,}, as "
            f"the model reads {longest} tokens"
        )
    if cut:
        note(
            f"conversations cut after an answer: {cut:,}, as the model reads {longest} "
            "tokens"
        )
    if len(kept) < at_least:
        raise ValueError(
            f"{file} must have conversations of at most {room} tokens, which the model "
            f"reads, at least {at_least}, received {len(kept)}. Train a base with a "
            "larger --sequence-length"
        )
    said = "\n".join(message["content"] for talk in kept for message in talk)
    tokenize.note_unknown(model.tokenizer, said, "conversations")
    return kept


def count(model: Any, parts: list[tuple[str, bool]]) -> int:
    """Returns the tokens of a conversation, whose parts are tokenized apart."""
    return sum(len(model.tokenizer.encode(text)) for text, _ in parts)


def shorter(talk: list[Message]) -> list[Message]:
    """Returns a conversation without its last answer; empty if it has one.

    Examples:
        >>> talk = [{"role": r, "content": "x"} for r in ("user", "assistant") * 2]
        >>> len(shorter(talk)), len(shorter(talk[:2]))
        (2, 0)
    """
    places = [n for n, each in enumerate(talk) if n and each["role"] == "assistant"]
    return talk[: places[-2] + 1] if len(places) > 1 else []


def mixed(model: Any, text: str, most: int, seed: int) -> tuple[list[str], str]:
    """Returns blocks of a text that are drawn at random, and its end, to be scored.

    Args:
        model: The language model.
        text: The text; "" for none.
        most: The largest number of blocks.
        seed: Seed of the draw.

    Raises:
        ValueError: If the text is too short.
    """
    if not text:
        return [], ""
    text, end = language_model.split(text, SCORED)
    language_model.check_held_out(model.tokenizer, end)
    length = min(BLOCK, model.context_length or BLOCK) + 1
    # A large text is not tokenized as a whole.
    per_token = len(end) / len(model.tokenizer.encode(end))
    starts = np.arange(0, len(text), math.ceil(length * per_token))
    drawn = np.sort(np.random.default_rng(seed).permutation(starts)[:most])
    blocks = [*filter(None, (block(model.tokenizer, text, n, length) for n in drawn))]
    tokenize.note_unknown(model.tokenizer, "\n".join(blocks), "blocks of the text")
    return blocks, end


def block(tokenizer: Any, text: str, start: int, length: int) -> str:
    """Returns the tokens of a text from a place on, or from the word after it.

    Args:
        tokenizer: Tokenizer of the model.
        text: The text.
        start: Position of a character.
        length: The largest number of tokens.

    Returns:
        The block; "" if it has fewer than two tokens, of which one is predicted.

    Examples:
        >>> from kerasseq.text import WordTokenizer
        >>> text = "a red cat , a blue dog"
        >>> tokenizer = WordTokenizer().fit(text)
        >>> block(tokenizer, text, 0, 3), block(tokenizer, text, 3, 3)
        ('a red cat', 'cat , a')
    """
    rest = text[start : start + LONGEST_TOKEN * length]
    if start and (space := re.search(r"\s+(?=\S)", rest)):
        rest = rest[space.end() :]
    ends = tokenizer.encode_with_offsets(rest).offsets[:length, 1]
    return rest[: int(ends.max())] if len(ends) > 1 else ""
