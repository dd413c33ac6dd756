"""Byte-pair tokenizers from files of others: GPT-2's two, and one in JSON."""

from kerasseq.core.files import read_json, read_text
from kerasseq.text.byte_pair_tokenizer import BytePairTokenizer
from kerasseq.text.files import tokens_in_order


def from_vocabulary_and_merges(vocabulary, merges, **options) -> BytePairTokenizer:
    """Read GPT-2's pair of files.

    Args:
        vocabulary: Path of `vocab.json`, an id for each token.
        merges: Path of `merges.txt`, a pair of tokens on each line.
        **options: Of `BytePairTokenizer`. Unless `special_tokens` are among them, they
            are those tokens that no merge makes and that are no single symbol.

    Raises:
        ValueError: If a file is damaged, or the two do not belong together.
    """
    tokens = tokens_in_order(read_json(vocabulary), vocabulary)
    return build(tokens, read_merges(merges), merges, options)


def build(tokens, merges, path, options) -> BytePairTokenizer:
    """A tokenizer from tokens and merges; special tokens are found if not given."""
    if "special_tokens" not in options:
        made = {left + right for left, right in merges}
        options["special_tokens"] = [t for t in tokens if len(t) > 1 and t not in made]
    tokenizer = BytePairTokenizer(len(tokens), **options)
    try:
        tokenizer.take(tokens, merges)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return tokenizer


def read_merges(path) -> list[list[str]]:
    """The pairs of a `merges.txt`.

    Raises:
        ValueError: If a line is no pair; the text says which.
    """
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise ValueError(
                f"{path}, line {number}: two tokens with a space between them must "
                f"stand here, not {line[:60]!r}"
            )
        merges.append(pair)
    return merges
