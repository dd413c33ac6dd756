"""What `kerasseq train preferences` reads: votes, prompts, and a reward.

Importing this module loads no Keras.
"""

import importlib.util
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.cli import options, runs
from kerasseq.cli.arena_files import Prompt, read_prompts
from kerasseq.cli.console import note
from kerasseq.cli.errors import UsageError, about, truncate_word
from kerasseq.core.files import sha256
from kerasseq.core.messages import are_messages
from kerasseq.datasets.preference_files import preference_rows
from kerasseq.text.chat.answers import preference_texts
from kerasseq.text.tokenizers.tokenizer import chat_template_of

Ids = np.ndarray  # of a text, (tokens,)


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
    source = os.path.basename(settings.file)
    settings.file = os.path.abspath(settings.file)  # to resume from any folder
    votes = [Vote(line, texts) for line, texts in rows.items()]
    checksum = sha256("\n".join(json.dumps(vote.texts) for vote in votes))
    return votes, {"source": source, "rows": len(votes), "sha256": checksum}


def read_prompt_lines(
    settings: options.Settings,
) -> tuple[list[Prompt], dict[str, Any]]:
    """Reads the prompts of `--prompts`, and their source with a checksum."""
    prompts = read_prompts(settings.prompts)
    source = os.path.basename(settings.prompts)
    settings.prompts = os.path.abspath(settings.prompts)
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
    found = getattr(module, name, None)
    if not callable(found):
        known = [n for n, value in vars(module).items() if _is_own(value, module)]
        raise ValueError(
            f"--reward: {file} has no function {name!r}. "
            + (f"Choose from {', '.join(known)}" if known else "It defines none")
        )
    return found


def _is_own(value, module):
    return callable(value) and getattr(value, "__module__", "") == module.__name__
