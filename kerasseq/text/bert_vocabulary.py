"""BERT's `vocab.txt`: one token per line, in the order of their ids."""

from kerasseq.core.files import read_text


def read_bert_vocabulary(path) -> list[str]:
    """Read the tokens of a `vocab.txt`.

    Lines end with a line feed, before which other spaces do not count. Only a token
    that is a space itself keeps it, as U+2028 in the Chinese vocabulary.

    Args:
        path: The file, in UTF-8.

    Returns:
        The tokens.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is empty or not UTF-8, or a line is empty or a repetition.
    """
    lines = read_text(path).split("\n")
    if not lines[-1]:  # the last line ends as the others do
        lines.pop()
    if not lines:
        raise ValueError(f"{path} is empty: it must have a token on each line")
    seen = {}
    for number, line in enumerate(lines, 1):
        token = line.rstrip() or line.rstrip("\r")
        if not token:
            raise ValueError(f"{path}: line {number} is empty; each must be a token")
        if token in seen:
            raise ValueError(
                f"{path}: line {number} has {token!r}, as line {seen[token]} has. A "
                "token can have one id only"
            )
        seen[token] = number
    return list(seen)
