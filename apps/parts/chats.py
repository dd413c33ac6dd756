"""The models of the lab Chat, which `prepare_chat.py` has trained; their answers."""

import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

STAGES = ("read", "talk")
SIZES = {"num_layers": 2, "num_heads": 4, "hidden_dim": 64, "max_sequence_length": 64}
MOST = 12  # tokens of an answer
EXAMPLE = 8  # which fact of each kind is asked about in an example
FOLDER = pathlib.Path(__file__).parent.parent / "prepared"
Settings = tuple[str, str, float, int]  # language, stage, temperature and seed


def file(language: str) -> pathlib.Path:
    """Returns the file with the weights of both stages."""
    return FOLDER / f"chat_{language}.npz"


@functools.cache
def facts(language: str) -> Any:
    """Returns all facts, those of the conversations, and the others."""
    from kerasseq import datasets

    found = datasets.conversations(language)
    return found, *found.split()


@functools.cache
def model(language: str, stage: str) -> Any:
    """Returns the model of a stage; its weights are stored as half floats."""
    from kerasseq import models, text

    found, _, _ = facts(language)
    template = text.ChatTemplate()
    tokenizer = text.WordTokenizer(special_tokens=template.special_tokens)
    tokenizer.fit(t for texts in found.sentences + found.questions for t in texts)
    tokenizer.chat_template = template
    made = models.GPT(tokenizer, **SIZES)
    with np.load(file(language)) as arrays:
        weights = [arrays[f"{stage}_{n}"] for n in range(len(made.weights))]
    made.set_weights([array.astype("float32") for array in weights])
    return made


def examples(language: str) -> list[str]:
    """Returns a question of each kind, which was in no conversation of the training."""
    _, _, others = facts(language)
    found = []
    for kind in dict.fromkeys(others.kinds):
        facts_of_kind = [n for n, other in enumerate(others.kinds) if other == kind]
        fact = facts_of_kind[EXAMPLE % len(facts_of_kind)]
        found.append(others.questions[fact][0])
    return found


def chat(settings: Settings, messages: Sequence[dict[str, str]]) -> Any:
    """Returns a chat after some messages."""
    from kerasseq import models

    language, stage, temperature, seed = settings
    sampling = {"temperature": temperature, "seed": seed}
    made = models.Chat(model(language, stage), max_new_tokens=MOST, **sampling)
    made.messages = list(messages)
    return made


def stream(
    settings: Settings, messages: Sequence[dict[str, str]], text: str
) -> Iterator[dict[str, Any]]:
    """Yields the pieces of an answer as plain data."""
    for piece in chat(settings, messages).stream(text):
        yield piece._asdict()


def answer(
    settings: Settings, messages: Sequence[dict[str, str]], text: str
) -> dict[str, Any]:
    """Returns the answer to a message.

    Args:
        settings: Language, stage, temperature and seed.
        messages: The messages before.
        text: The message.

    Returns:
        "pieces" of the answer; "read", the tokens that the model continues; "left_out",
        how many messages it no longer reads; "messages" after it.
    """
    made = chat(settings, messages)
    kept = made.read(text)
    tokenizer = made.model.tokenizer
    ids = tokenizer.encode(made.prompt(text))
    pieces = [piece._asdict() for piece in made.stream(text)]
    return {
        "pieces": pieces,
        "read": [tokenizer.vocabulary[i] for i in ids],
        "left_out": len(messages) + 1 - len(kept),
        "messages": made.messages,
    }


def scores(language: str, stage: str) -> dict[str, float]:
    """Returns the shares of right answers.

    Returns:
        "known" of all sentences that are completed; "asked" and "others" of the
        questions that conversations have and have not asked.
    """
    found, asked, others = facts(language)
    made = model(language, stage)
    template = made.tokenizer.chat_template
    shares = {"known": _right(made, found.beginnings(), found.answers)}
    for name, part in (("asked", asked), ("others", others)):
        prompts = [
            template.render([{"role": "user", "content": questions[0]}], True)
            for questions in part.questions
        ]
        shares[name] = _right(made, prompts, part.answers)
    return shares


def _right(made, prompts, answers):
    """Returns how often the most probable next token is the answer."""
    import keras

    rows = [made.tokenizer.encode(prompt) for prompt in prompts]
    ids = np.zeros((len(rows), max(map(len, rows))), "int32")
    for n, row in enumerate(rows):
        ids[n, : len(row)] = row
    logits = keras.ops.convert_to_numpy(made(ids))
    last = [logits[n, len(row) - 1].argmax() for n, row in enumerate(rows)]
    tokens = [made.tokenizer.vocabulary[i] for i in last]
    return float(np.mean(np.array(tokens) == np.array(answers)))
