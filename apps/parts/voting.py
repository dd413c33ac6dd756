"""What the lab Votes computes: writers of digits, votes on what they write, DPO.

`prepare_votes.py` has trained three small GPTs to write eight digits, which differ in
the share of even ones, and has traced GRPO on the second of them.
"""

import functools
import itertools
import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from parts.errors import Refused

FILE = pathlib.Path(__file__).parent.parent / "prepared" / "votes.npz"
SHARES = {"odd": 0.3, "balanced": 0.5, "even": 0.7}  # of even digits, by writer
WRITERS = tuple(SHARES)
BASE = "balanced"
DIGITS, PROMPT = 8, ":"
PAIRS = tuple(itertools.combinations(WRITERS, 2))
KEYS = ("prompt", "chosen", "rejected", "chosen_model", "rejected_model")
MOST = 2000  # votes
BATCH, SAMPLES = 32, 500
LIMITS = {"unscaled": 0.949, "no_ratio": 0.858, "scaled": None}  # of GRPO
Vote = dict[str, Any]


def writer() -> Any:
    """Returns a GPT that can write digits, not trained."""
    from kerasseq import models, text

    tokenizer = text.CharacterTokenizer(unknown=None).fit(PROMPT + "0123456789")
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16}
    return models.GPT(tokenizer, **sizes, max_sequence_length=DIGITS + 2)


def trained(name: str) -> Any:
    """Returns a writer with its weights, which are stored as half floats."""
    model = writer()
    with np.load(FILE) as arrays:
        count = len(model.get_weights())
        names = [f"{name}_{n}" for n in range(count)]
        model.set_weights([arrays[each].astype("float32") for each in names])
    return model


@functools.cache
def loaded(name: str) -> Any:
    """Returns a writer; for functions that run in the worker and do not train it."""
    return trained(name)


def answers(model: Any, count: int, seed: int) -> list[str]:
    """Returns what a writer writes."""
    rows = model.generate([PROMPT] * count, DIGITS, seed=seed)
    return [row.removeprefix(PROMPT) for row in rows]


def even(text: str) -> int:
    """Counts the even digits of a text.

    Examples:
        >>> even("1248")
        3
    """
    return sum(digit in "02468" for digit in text)


def pair(number: int, seed: int) -> dict[str, list[str]]:
    """Returns two writers in random order, and what they write, for a vote.

    Args:
        number: The number of the vote.
        seed: The seed of the session.
    """
    rng = np.random.default_rng([seed, number])
    names = list(PAIRS[rng.integers(len(PAIRS))])
    if rng.integers(2):
        names.reverse()
    draws = [int(rng.integers(2**31)) for _ in names]
    texts = [answers(loaded(n), 1, s)[0] for n, s in zip(names, draws, strict=True)]
    return {"names": names, "texts": texts}


def vote(found: dict[str, list[str]], chosen: int) -> Vote:
    """Returns the row of a vote for A, 0, or B, 1."""
    (chosen_text, other), names = found["texts"], found["names"]
    if chosen:
        chosen_text, other = other, chosen_text
    values = PROMPT, chosen_text, other, names[chosen], names[1 - chosen]
    return dict(zip(KEYS, values, strict=True))


def simulated(number: int, count: int, worth: float, seed: int) -> list[Vote]:
    """Returns votes of a class to which each even digit is worth something.

    A vote is drawn by Bradley and Terry: the first of two texts is chosen with
    probability σ(worth · difference of their even digits).

    Args:
        number: The number of the first vote.
        count: How many votes are drawn.
        worth: What an even digit is worth.
        seed: The seed of the session.
    """
    rng = np.random.default_rng([seed, number, count])
    texts = {
        name: answers(loaded(name), count, int(rng.integers(2**31))) for name in WRITERS
    }
    rows = []
    for n in range(count):
        names = list(PAIRS[rng.integers(len(PAIRS))])
        both = [texts[name][n] for name in names]
        gap = worth * (even(both[0]) - even(both[1]))
        first = rng.random() < 1 / (1 + math.exp(-gap))
        rows.append(vote({"names": names, "texts": both}, 0 if first else 1))
    return rows


def ratings(rows: Sequence[Vote]) -> list[dict[str, Any]]:
    """Returns the ratings of the writers in votes, with intervals."""
    from kerasseq import training

    votes = [(row["chosen_model"], row["rejected_model"]) for row in rows]
    found = training.ratings(votes, prior=1)
    columns = found.players, found.values, found.interval, found.votes
    return [
        {
            "writer": name,
            "rating": float(value),
            "low": float(low),
            "high": float(high),
            "votes": int(number),
        }
        for name, value, (low, high), number in zip(*columns, strict=True)
    ]


def aligned(rows: Sequence[Vote], beta: float, steps: int) -> dict[str, Any]:
    """Trains the second writer on votes by DPO, and returns how its answers move.

    Args:
        rows: The votes.
        beta: How strongly it is held near what it was.
        steps: Training steps of 32 votes.

    Returns:
        "before" and "after": for 0 to 8 even digits the share of the answers; their
        "shares" of even digits, some "texts" before and after, and "kl" in nats an
        answer.
    """
    import keras

    from kerasseq import training

    keras.utils.set_random_seed(0)
    model = trained(BASE)
    before = answers(model, SAMPLES, 1)
    columns = {key: [row[key] for row in rows] for key in KEYS[:3]}
    trainer = training.DPO(model, beta)
    trainer.compile(keras.optimizers.Adam(1e-3, global_clipnorm=1.0))
    trainer.fit(columns, batch_size=BATCH, steps_per_epoch=steps, verbose=0)
    after = answers(model, SAMPLES, 1)
    kl = trainer.divergence([PROMPT], max_new_tokens=DIGITS, num_generations=SAMPLES)
    found = {"before": before, "after": after}
    return {
        **{name: histogram(texts) for name, texts in found.items()},
        "shares": {
            name: even("".join(t)) / SAMPLES / DIGITS for name, t in found.items()
        },
        "texts": {name: texts[:6] for name, texts in found.items()},
        "kl": kl,
    }


def histogram(texts: Sequence[str]) -> list[float]:
    """Returns the share of texts with each number of even digits.

    Examples:
        >>> histogram(["11111111", "24680246"])
        [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5]
    """
    counts = np.bincount([even(text) for text in texts], minlength=DIGITS + 1)
    return (counts / len(texts)).tolist()


def usable(rows: Sequence[Vote]) -> list[Vote]:
    """Returns the votes between two different texts, on which a model can learn."""
    return [row for row in rows if row["chosen"] != row["rejected"]]


def written(rows: Sequence[Vote]) -> str:
    """Returns votes as JSON lines, a file of preferences."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(text: str) -> list[Vote]:
    """Returns the votes of a file.

    Raises:
        Refused: If a line is no vote, or there are too many or none.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            row = _row(line)
            if row is None:
                raise Refused("bad_vote", line=number, writers=", ".join(WRITERS))
            rows.append(row)
    if not 1 <= len(rows) <= MOST:
        raise Refused("bad_count", found=len(rows), most=MOST)
    return rows


def _row(line):
    """The vote in a line, or None."""
    try:
        row = json.loads(line)
        found = {key: row[key] for key in KEYS}
    except (ValueError, KeyError, TypeError):
        return None
    texts = [found["chosen"], found["rejected"]]
    of_digits = all(
        isinstance(text, str)
        and 1 <= len(text) <= DIGITS
        and text.isascii()
        and text.isdecimal()
        for text in texts
    )
    names = [found["chosen_model"], found["rejected_model"]]
    known = all(isinstance(n, str) and n in WRITERS for n in names)
    distinct = names[0] != names[1]
    is_vote = of_digits and known and distinct and found["prompt"] == PROMPT
    return found if is_vote else None


def curves() -> dict[str, dict[str, np.ndarray]]:
    """Returns share of even digits and KL in training by GRPO, by kind and step."""
    with np.load(FILE) as arrays:
        return {
            kind: {name: arrays[f"{kind}_{name}"] for name in ("step", "even", "kl")}
            for kind in LIMITS
        }
