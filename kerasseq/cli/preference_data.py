"""Votes, prompts and a reward to train on, and what training changed: scores.

Importing this module loads no Keras.
"""

import importlib.util
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.cli import options, runs, verdict
from kerasseq.cli.arena import Prompt, read_prompts
from kerasseq.cli.console import Console, note
from kerasseq.cli.errors import UsageError, about, truncate_word
from kerasseq.core.files import sha256
from kerasseq.core.messages import are_messages
from kerasseq.datasets.preference_files import preference_rows
from kerasseq.text.chat.answers import preference_texts
from kerasseq.text.tokenizers.tokenizer import chat_template_of

Ids = np.ndarray  # of a text, (tokens,)
MOST = 64  # prompts whose answers are sampled, and least number of answers
CHANCE = 0.5  # share of right choices between two answers without a model
AT_ONCE = 256  # votes, or answers
ADVICE = {
    "dpo": "more votes or another --learning-rate",
    "reward": "more votes or another --learning-rate",
    "grpo": "more --steps or another --learning-rate",
}


class Vote(NamedTuple):
    """A prompt with two answers, of which the first was chosen.

    Attributes:
        line: Its line in the file.
        texts: Prompt, chosen and rejected answer: texts, messages, or ids.
    """

    line: int
    texts: tuple[Any, Any, Any]

    @property
    def key(self) -> str:
        """What is the same for repeated votes, also for those with the other choice."""
        prompt, *answers = (
            text if isinstance(text, str) else text.tolist() for text in self.texts
        )
        return json.dumps([prompt, *sorted(answers)])


def read_votes(settings: options.Settings) -> tuple[list[Vote], dict[str, Any]]:
    """Reads the votes of `--file`, without ties, and their source with a checksum."""
    rows, ties = preference_rows(settings.file)
    if ties:
        note(f"{settings.file}: votes of a tie that are left out: {ties:,}")
    if len(rows) < 2:
        raise ValueError(
            f"{settings.file} must have at least two votes that are no ties, as one is "
            "held out, received one"
        )
    source = settings.own_file("file")
    votes = [Vote(line, texts) for line, texts in rows.items()]
    checksum = sha256("\n".join(json.dumps(vote.texts) for vote in votes))
    return votes, {"source": source, "rows": len(votes), "sha256": checksum}


def read_prompt_lines(
    settings: options.Settings,
) -> tuple[list[Prompt], dict[str, Any]]:
    """Reads the prompts of `--prompts`, and their source with a checksum."""
    prompts = read_prompts(settings.prompts)
    source = settings.own_file("prompts")
    checksum = sha256("\n".join(prompt.text for prompt in prompts))
    return prompts, {"source": source, "rows": len(prompts), "sha256": checksum}


def encode_text(model: Any, text: str, where: str) -> Ids:
    """Returns the ids of a text, at least one.

    Args:
        model: The language model.
        text: The text.
        where: Its place, for messages.

    Raises:
        ValueError: If the tokenizer does not know it, or it has no token.
    """
    try:
        ids = np.asarray(model.tokenizer.encode(text), "int32")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if not len(ids):
        raise ValueError(
            f"{where}: expected a text of at least one token, received "
            f"{truncate_word(text, 40)!r}, which has none for the model"
        )
    return ids


def longest_of(model: Any) -> int | None:
    """Returns the most tokens that a model reads, of a prompt with an answer.

    Args:
        model: A language model, or a reward model.

    Returns:
        The number; None if there is no limit.
    """
    if hasattr(model, "rewards"):
        return model.preprocessor.longest
    length = model.context_length
    return None if length is None else length + 1  # the last token is not read


def encode_votes(model: Any, votes: Sequence[Vote], file: str) -> list[Vote]:
    """Returns votes with ids in place of texts, with long answers cut at their end.

    Votes whose answers are the same for the model are left out; a note says how many.

    Args:
        model: A language model, or a reward model.
        votes: The votes.
        file: The file, for messages.

    Raises:
        ValueError: If the model cannot read a text, or fewer than two votes are left.
    """
    kept, cut, longest = [], 0, longest_of(model)
    for vote in votes:
        where = f"{file}, line {vote.line}"
        texts = vote.texts
        if any(map(are_messages, texts)):
            with about(where):
                template = chat_template_of(model.tokenizer)
                texts = preference_texts(template, texts)
        prompt, *answers = (encode_text(model, text, where) for text in texts)
        room = None if longest is None else max(0, longest - len(prompt))
        cut += any(room is not None and len(answer) > room for answer in answers)
        chosen, rejected = (answer[:room] for answer in answers)
        if not np.array_equal(chosen, rejected):
            kept.append(Vote(vote.line, (prompt, chosen, rejected)))
    if len(kept) < 2:
        raise ValueError(
            f"{file} must have at least two votes between answers that differ for the "
            f"model, which reads {longest} tokens, received {len(kept)}. Vote on "
            "shorter texts, with  kerasseq arena --length"
        )
    if cut:
        note(
            f"the answers of {cut:,} votes are cut: the model reads {longest} tokens "
            "of prompt and answer"
        )
    if len(kept) < len(votes):
        note(
            f"{len(votes) - len(kept):,} votes are left out, as their answers are the "
            "same for the model"
        )
    return kept


def split(rows: Sequence[Any], fraction: float, seed: int, at_least: int) -> Any:
    """Splits rows in random order, and returns those to learn from and the others.

    Args:
        rows: The rows.
        fraction: The fraction that is held out.
        seed: Seed of the order.
        at_least: How many are held out at least.

    Examples:
        >>> learned, held_out = split("abcde", 0.4, seed=0, at_least=1)
        >>> len(learned), len(held_out), sorted(learned + held_out)
        (3, 2, ['a', 'b', 'c', 'd', 'e'])
    """
    order = np.random.default_rng(seed).permutation(len(rows))
    count = min(max(at_least, round(fraction * len(rows))), len(rows) - 1)
    learned, held_out = order[: len(rows) - count], order[len(rows) - count :]
    return [rows[n] for n in learned], [rows[n] for n in held_out]


def columns(votes: Sequence[Vote]) -> dict[str, list[Ids]]:
    """Returns votes as columns, as `training.DPO` reads them."""
    prompt, chosen, rejected = zip(*(vote.texts for vote in votes), strict=True)
    return {"prompt": [*prompt], "chosen": [*chosen], "rejected": [*rejected]}


def load_reward(name: str) -> Any:
    """Loads the reward of `--reward`: that of a run, or a function in a file.

    Args:
        name: A folder or `.keras` file, or `file.py:function`.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no reward model, or the file has no such function.
    """
    file, mark, function = name.rpartition(":")
    if mark and file.endswith(".py"):
        return load_function(file, function)
    if name.endswith(".py"):
        raise UsageError(
            f"--reward must name a function of {name}, as {name}:function, received "
            "the file alone"
        )
    model, _ = runs.load_model(name)
    if getattr(model, "head", None) != "reward":
        raise ValueError(
            f"--reward must be a run of  kerasseq train preferences --method reward,  "
            f"or a function, as file.py:function, received {type(model).__name__} in "
            f"{name}"
        )
    return model


def load_function(file: str, name: str) -> Callable[..., Any]:
    """Loads a function of a Python file, which is executed.

    Args:
        file: The file.
        name: The name of the function.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file raises an error, or has no such function.
    """
    if not pathlib.Path(file).is_file():
        raise FileNotFoundError(f'--reward: there is no file "{file}"')
    spec = importlib.util.spec_from_file_location("kerasseq_reward", file)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(
            f"--reward: {file} raised {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, value in vars(module).items() if _is_own(value, module)]
        raise ValueError(
            f"--reward: {file} has no function {name!r}. "
            + (f"Choose from {', '.join(known)}" if known else "It defines none")
        )
    return function


def _is_own(value, module):
    return callable(value) and getattr(value, "__module__", "") == module.__name__


# What training changed: scores on held-out votes or prompts


def of_votes(trainer: Any, votes: Sequence[Vote]) -> dict[str, np.ndarray]:
    """Returns the scores of both answers of votes.

    Args:
        trainer: A `DPO` or a reward model.
        votes: The votes, as ids.

    Returns:
        "rewards" `(votes, 2)`; of a `DPO` also "log_p", the log-probabilities.
    """
    rows = columns(votes)
    if not hasattr(trainer, "reference"):
        return {"rewards": np.asarray(trainer.rewards(rows))}
    rewards = np.asarray(trainer.predict(rows, batch_size=AT_ONCE, verbose=0))
    fixed = log_probabilities(trainer.reference, trainer.encode(rows))
    return {"rewards": rewards, "log_p": fixed + rewards / trainer.beta}


def of_model(model: Any, votes: Sequence[Vote]) -> np.ndarray:
    """Returns rewards or log-probabilities of both answers of votes, `(votes, 2)`.

    Args:
        model: A reward model or a language model.
        votes: The votes, as ids.
    """
    if hasattr(model, "rewards"):
        return of_votes(model, votes)["rewards"]
    from kerasseq.training.preference_batches import pair_arrays

    return log_probabilities(model, pair_arrays([vote.texts for vote in votes]))


def log_probabilities(model: Any, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the log-probability of both answers of votes, `(votes, 2)`.

    Args:
        model: A language model.
        arrays: The votes as `DPO` reads them.
    """
    from keras import ops

    from kerasseq.training.policy import log_probability

    parts = []
    for n in range(0, len(arrays["ids"]), AT_ONCE):
        ids, answer = (
            arrays[name][n : n + AT_ONCE].reshape(-1, arrays[name].shape[-1])
            for name in ("ids", "answer")
        )
        logits = model.predict(ids[:, :-1], verbose=0)
        log_p = log_probability(logits, ids[:, 1:], answer[:, 1:])
        parts.append(ops.convert_to_numpy(log_p).reshape(-1, 2))
    return np.concatenate(parts)


def right(values: np.ndarray) -> np.ndarray:
    """Returns 1 where the chosen answer has the larger value, 0.5 if both are equal.

    Examples:
        >>> right(np.array([[2, 1], [1, 1], [0, 1]])).tolist()
        [1.0, 0.5, 0.0]
    """
    return (np.sign(values[:, 0] - values[:, 1]) + 1) / 2


def compare_votes(
    method: str, before: dict[str, np.ndarray], after: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Compares scores of held-out votes before and after training, as plain data.

    Args:
        method: "dpo" or "reward".
        before: From `of_votes`.
        after: The same after training.
    """
    gained = right(after["rewards"])
    by = verdict.difference(gained - CHANCE)
    score = float(gained.mean())
    rewards = after["rewards"].mean(axis=0).tolist()
    margin = rewards[0] - rewards[1]
    result = {"accuracy": score, "margin": margin}
    if method == "reward":
        what = "accuracy"
        result["accuracy_before"] = float(right(before["rewards"]).mean())
    else:
        what = "share whose chosen answer gained more probability"
        result |= {"rewards_chosen": rewards[0], "rewards_rejected": rewards[1]}
        for name, scores in (("before", before), ("after", after)):
            result[f"more_probable_{name}"] = float(right(scores["log_p"]).mean())
    numbers = f"{what} {score:.3f}, chance {CHANCE}"
    words = numbers, by, "held-out votes", ADVICE[method]
    result["verdict"] = verdict.of_training(*words)
    return result


def of_prompts(trainer: Any, prompts: Sequence[str], seed: int) -> np.ndarray:
    """Returns the rewards of sampled answers, at least `MOST`, `(answers,)`.

    Args:
        trainer: A `GRPO`.
        prompts: The prompts.
        seed: Seed of the answers.
    """
    size = max(1, AT_ONCE // trainer.num_generations)
    rounds = -(-MOST // (len(prompts) * trainer.num_generations))
    prompts = [*prompts] * rounds
    parts = [
        trainer.sample(prompts[n : n + size], seed=seed + n)["rewards"]
        for n in range(0, len(prompts), size)
    ]
    return np.concatenate(parts).astype("float64")


def compare_rewards(
    before: np.ndarray, after: np.ndarray, is_held_out: bool
) -> dict[str, Any]:
    """Compares rewards of answers before and after training, as plain data.

    Args:
        before: From `of_prompts`.
        after: The same after training.
        is_held_out: Whether the prompts are held out.
    """
    means = {"reward": float(after.mean()), "reward_before": float(before.mean())}
    numbers = "mean reward {reward:.3f}, before {reward_before:.3f}".format(**means)
    rows = f"answers to {'held-out' if is_held_out else 'the training'} prompts"
    by = verdict.difference(after - before)
    return {**means, "verdict": verdict.of_training(numbers, by, rows, ADVICE["grpo"])}


def divergence(trainer: Any, votes: Sequence[tuple[Any, ...]], seed: int) -> float:
    """Returns the KL divergence from the reference, in nats an answer.

    Args:
        trainer: A `DPO`.
        votes: Ids of prompts and of two answers, whose lengths those sampled have.
        seed: Seed of the answers.
    """
    lengths = [max(map(len, answers)) for _, *answers in votes]
    longest, room = max(lengths), trainer.longest
    if room is not None:
        shortest = min(len(prompt) for prompt, *_ in votes)
        longest = max(1, min(longest, room - shortest))
    prompts = {
        tuple(prompt.tolist())
        for prompt, *_ in votes
        if room is None or len(prompt) + longest <= room
    }
    chosen = [list(prompt) for prompt in sorted(prompts)[:MOST]]
    if not chosen:
        return float("nan")
    sizes = {"max_new_tokens": longest, "num_generations": max(1, MOST // len(chosen))}
    return trainer.divergence(chosen, **sizes, seed=seed)


def show(console: Console, results: dict[str, Any]) -> None:
    """Prints the scores before and after, and the sentence about them."""
    of_pairs = "chosen answer gained more"
    if results["method"] == "reward":
        of_pairs = "pairs in the right order"
    rows = [
        (name, _shown(results.get(before)), _shown(results[after]))
        for name, before, after in (
            ("chosen answer more probable", "more_probable_before",
             "more_probable_after"),
            (of_pairs, "accuracy_before", "accuracy"),
            ("reward of chosen answers", None, "rewards_chosen"),
            ("reward of rejected answers", None, "rewards_rejected"),
            ("margin", None, "margin"),
            ("mean reward", "reward_before", "reward"),
            ("KL from the base, nats an answer", None, "kl"),
        )
        if after in results
    ]  # fmt: skip
    what = "votes" if "votes" in results else "prompts"
    count = results["held_out"]
    title = f"On {count:,} held-out {what}" if count else f"On the training {what}"
    console.table(title, ("", ">before", ">after"), rows)
    console.write(results["verdict"]["sentence"])


def _shown(value):
    return "" if value is None else f"{value:z.3f}"
