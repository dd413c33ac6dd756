"""What training on preferences changed: scores on held-out votes or prompts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.cli import verdict
from kerasseq.cli.console import Console
from kerasseq.cli.preference_data import Vote, columns

MOST = 64  # prompts whose answers are sampled, and least number of answers
CHANCE = 0.5  # share of right choices between two answers without a model
AT_ONCE = 256  # votes, or answers
ADVICE = {
    "dpo": "more votes or another --learning-rate",
    "reward": "more votes or another --learning-rate",
    "grpo": "more --steps or another --learning-rate",
}


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
        found = log_probability(logits, ids[:, 1:], answer[:, 1:])
        parts.append(ops.convert_to_numpy(found).reshape(-1, 2))
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
    found = {"accuracy": score, "margin": margin}
    if method == "reward":
        what = "accuracy"
        found["accuracy_before"] = float(right(before["rewards"]).mean())
    else:
        what = "share whose chosen answer gained more probability"
        found |= {"rewards_chosen": rewards[0], "rewards_rejected": rewards[1]}
        for name, scores in (("before", before), ("after", after)):
            found[f"more_probable_{name}"] = float(right(scores["log_p"]).mean())
    numbers = f"{what} {score:.3f}, chance {CHANCE}"
    words = numbers, by, "held-out votes", ADVICE[method]
    found["verdict"] = verdict.of_training(*words)
    return found


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
