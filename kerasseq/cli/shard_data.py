"""`--data DIR` of a language model: ids of `kerasseq prepare`, or those of nanoGPT."""

import argparse
import os
from typing import Any

import numpy as np

from kerasseq.cli import options, text_models
from kerasseq.cli.errors import UsageError, refuse
from kerasseq.core.files import sha256
from kerasseq.datasets import TokenShards
from kerasseq.datasets.token_shards import INDEX, NANO_GPT
from kerasseq.text.tokenizers.tokenizer import Tokenizer

OF_SHARDS = ("tokenizer", "vocabulary_size", "chat")  # which the folder determines
END_OF_GPT2 = 50256  # the id of <|endoftext|>, which nanoGPT's shards have
DECODED = 2**14  # ids that are decoded at a time


def name_or_folder(names: tuple[str, ...]) -> Any:
    """Returns the type of `--data`: one of several names, or a folder."""

    def check(value):
        try:
            return (
                value if are_shards(value) else options.data_set(names, "text")(value)
            )
        except argparse.ArgumentTypeError as error:
            text = f"{error}, or a folder of kerasseq prepare"
            raise argparse.ArgumentTypeError(text) from None

    return check


def are_shards(data: str | None) -> bool:
    """Returns whether `--data` is a folder, also one of a resumed run that is gone."""
    return data is not None and (os.path.isdir(data) or os.path.isabs(data))


def with_shards(arguments: dict[str, Any]) -> dict[str, Any]:
    """Checks the arguments that were given beside `--data`.

    Raises:
        UsageError: If one contradicts the folder, or needs one.
    """
    data = arguments.get("data")
    if not are_shards(data):
        if "documents_apart" in arguments:
            raise UsageError(
                "--documents-apart is for a folder of kerasseq prepare: give one as "
                "--data DIR, or leave it out"
            )
        return arguments
    if not os.path.isdir(data):
        raise UsageError(f"there is no folder {data} of kerasseq prepare (--data)")
    if not os.path.exists(os.path.join(data, INDEX)):
        _check_nano_gpt(data, arguments.get("tokenizer"))
        return {**arguments, "data": os.path.abspath(data)}
    refuse(
        [name for name in OF_SHARDS if name in arguments],
        f"cannot be chosen with --data {data}, whose tokenizer is there. Leave it out",
    )
    return {**arguments, "data": os.path.abspath(data)}


def _check_nano_gpt(data, tokenizer):
    if not os.path.exists(os.path.join(data, NANO_GPT["training"])):
        raise UsageError(
            f"--data {data} has neither {INDEX} of kerasseq prepare nor train.bin of "
            "nanoGPT"
        )
    if tokenizer is None or not os.path.exists(tokenizer):
        raise UsageError(
            f"--data {data} has ids of nanoGPT, without their tokenizer. Add the "
            "folder of the tokenizer that made them, such as --tokenizer gpt2 for one "
            "of GPT-2"
        )


def open_shards(settings: options.Settings) -> tuple[TokenShards, dict[str, Any]]:
    """Opens the training part, and describes it."""
    shards = part_of(settings, "training")
    index = os.path.join(settings.data, INDEX)
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            checksum = sha256(file.read())
    else:
        checksum = sha256(f"{len(shards.ids)} {shards.fingerprint}")
    source = os.path.basename(settings.data)
    return shards, {"source": source, "tokens": len(shards.ids), "sha256": checksum}


def part_of(settings: options.Settings, part: str) -> TokenShards:
    """Opens a part of the folder, with blocks as the run reads them."""
    of_nano_gpt, index = {}, os.path.join(settings.data, INDEX)
    if os.path.isdir(settings.data) and not os.path.exists(index):
        name = settings.tokenizer
        tokenizer = text_models.tokenizer_by_name(name, settings.vocabulary_size, "")
        of_nano_gpt = {"tokenizer": tokenizer, "end": END_OF_GPT2}
    return TokenShards(
        settings.data,
        part,
        sequence_length=settings.sequence_length if part == "training" else 1,
        documents_apart=settings.documents_apart,
        **of_nano_gpt,
    )


def texts(settings: options.Settings, shards: TokenShards) -> tuple[str, str]:
    """Returns the held-out text, and the one that n-gram models are fitted to.

    Both are limited by the arguments of the run, and decoded from the ids.
    """
    held_out = part_of(settings, "held_out")
    first = decoded(shards.tokenizer, held_out.ids, settings.held_out)
    last = decoded(
        shards.tokenizer, shards.ids, settings.ngram_characters, from_end=True
    )
    return first, last


def decoded(
    tokenizer: Tokenizer, ids: Any, characters: int, *, from_end: bool = False
) -> str:
    """Decodes the first ids, or the last ones, to at most so many characters.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer().fit("abc")
        >>> ids = tokenizer.encode("abcabc")
        >>> decoded(tokenizer, ids, 4), decoded(tokenizer, ids, 2, from_end=True)
        ('abca', 'bc')
    """
    count = min(DECODED, len(ids))
    while True:
        part = ids[len(ids) - count :] if from_end else ids[:count]
        text = tokenizer.decode(np.asarray(part))
        if len(text) >= characters or count == len(ids):
            return text[-characters:] if from_end else text[:characters]
        count = min(2 * count, len(ids))


def describe(
    data: dict[str, Any], tokenizer: Tokenizer, held_out: str, ngram_text: str
) -> str:
    """Describes the ids and their parts."""
    return (
        f"{data['source']}: {data['tokens']:,} tokens, "
        f"{tokenizer.vocabulary_size:,} kinds of tokens; {len(held_out):,} characters "
        "of the held-out documents are tested (--held-out); the n-gram models are "
        f"fitted to the last {len(ngram_text):,} characters (--ngram-characters)."
    )


def batches_apart(
    model: Any, settings: options.Settings, validation: tuple[np.ndarray, ...] | None
) -> tuple[Any, Any]:
    """Returns batches of blocks that end where documents end, and validation.

    Args:
        model: The language model.
        settings: Arguments of the run.
        validation: The blocks on which the best step would be chosen if the documents
            were joined, of which there are as many here; None for none.
    """
    shards = part_of(settings, "training")
    if validation is not None:
        last = min(len(validation[0]), len(shards) // 2)
        batches = model.answer_batches(shards[-last:], batch_size=last)
        shards, validation = shards[:-last], batches.batch(0)
    words = {"batch_size": settings.batch_size, "seed": settings.seed}
    return model.answer_batches(shards, **words), validation
