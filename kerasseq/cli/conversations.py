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

from typing import Any

import kerasseq
from kerasseq.cli import (
    asking,
    conversation_data,
    figures,
    generate,
    labeled,
    options,
    preference_data,
    runs,
    schedule,
    text_models,
    verdict,
)
from kerasseq.cli.console import Console, set_seed, status
from kerasseq.cli.errors import UsageError, about
from kerasseq.cli.options import Option
from kerasseq.cli.run import Run

FILE = None  # it reads two
PATHS = ("file", "text")
DEFAULTS = {
    "base": None,
    **text_models.DEFAULTS,
    "file": None,
    "text": None,
    "text_weight": 0.1,
    "encoding": "utf-8",
    "held_out": 0.1,
    "batch_size": 32,
    "learning_rate": 5e-4,
    **schedule.TRAINED,
    "max_minutes": None,
}
CHOICES = text_models.CHOICES
HELP = {
    "held_out": "fraction of the conversations that is held out",
    "batch_size": "conversations in a batch, and blocks of the text among them",
    "epochs": f"passes over the conversations (default: {options.EPOCHS})",
}
_FILE = 'conversations: JSON lines with "messages"'
_TEXT = "a text whose blocks are mixed with the conversations"
_WEIGHT = "what a token of the text counts, beside 1 of an answer"
OPTIONS = (
    text_models.BASE._replace(help="the language model to train further"),
    *text_models.OPTIONS,
    Option("--file", str, _FILE, "FILE", "data"),
    Option("--text", str, _TEXT, "FILE", "data"),
    Option("--text-weight", options.positive, _WEIGHT, "X", "training"),
)
MOST_ASKED = 100  # held-out conversations whose last question is answered
ADVICE = "more conversations or another --learning-rate"


def train(run: Run) -> runs.Results:
    """Trains on the conversations, and compares with the model before.

    Args:
        run: The run.

    Returns:
        The results, as plain data.
    """
    settings = run.settings
    check_options(settings)
    (rows, text), data = run.read("the conversations", conversation_data.read)
    model = generate.load_language_model(settings.base)
    conversation_data.check_template(model, settings.base)
    talks = conversation_data.fitting(model, rows, settings.file, 2)
    learned, held_out = preference_data.split(
        talks, settings.held_out, settings.seed, at_least=1
    )
    keys = [conversation_data.key(talk) for talk in learned]
    repeated = labeled.repeated(keys, map(conversation_data.key, held_out))
    with about(settings.text):
        blocks, end = conversation_data.mixed(model, text, len(learned), settings.seed)
    before = scores_of(model, held_out, end, settings.batch_size)
    set_seed(settings.seed)
    with about(settings.base):
        text_models.adapt(model, settings)
    batches = batches_of(model, learned, blocks, settings)
    steps = schedule.number_of_steps(settings, batches.steps_per_epoch)
    compile_model(model, settings, steps)
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
            raise UsageError(
                f"expected --{name}, received none. See  kerasseq train conversations "
                "--help"
            )
    if settings.text is None and settings.text_weight != DEFAULTS["text_weight"]:
        raise UsageError("--text-weight is for --text, received none. Add --text")


def batches_of(
    model: Any, learned: list[Any], blocks: list[str], settings: options.Settings
) -> Any:
    """Returns the batches of conversations, with blocks of a text among them."""
    weights = [1.0] * len(learned) + [settings.text_weight] * len(blocks)
    return model.answer_batches(
        [*learned, *blocks],
        sample_weight=weights,
        sequence_length=conversation_data.BLOCK,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )


def compile_model(model: Any, settings: options.Settings, steps: int) -> None:
    """Compiles with an Adam that counts from 0, and whose rate falls to 0."""
    if isinstance(model, kerasseq.models.GPT) and settings.lora is None:
        rate = settings.learning_rate
        model.compile(kerasseq.training.gpt_optimizer(model, rate, steps))
        return
    model.compile(schedule.adam(settings.learning_rate, steps))


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
        bits, tokens = asking.bits_of_answers(model, held_out, batch_size)
        scores = {"bits": bits, "tokens": tokens}
        if end:
            scores["bits_per_byte"] = asking.bits_per_byte(model, end)
    questions = [*filter(None, map(asking.last_question, held_out[:MOST_ASKED]))]
    if questions:
        scores["right"], _ = asking.share_right(model, questions)
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
        >>> found = compare(before, {**before, "bits": np.array([5.0, 1])})
        >>> found["bits_per_token"], found["bits_per_token_before"]
        (1.5, 3.0)
    """
    tokens = after["tokens"]
    means = [float(each["bits"].sum() / tokens.sum()) for each in (after, before)]
    found = {"bits_per_token": means[0], "bits_per_token_before": means[1]}
    for name in ("right", "bits_per_byte"):
        if name in after:
            found |= {name: after[name], f"{name}_before": before[name]}
    if "asked" in after:
        found["asked"] = after["asked"]
    by = verdict.difference(before["bits"] - after["bits"], tokens)
    numbers = f"{means[0]:.3f} bits for a token of an answer, before {means[1]:.3f}"
    words = numbers, by, "held-out conversations", ADVICE
    return {**found, "verdict": verdict.of_training(*words)}


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
