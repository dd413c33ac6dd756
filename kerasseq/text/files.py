"""Vocabularies as others write them."""


def tokens_in_order(ids: dict, path) -> list[str]:
    """Tokens by id, from a dictionary of ids by token.

    Raises:
        ValueError: If the ids are not 0, 1, 2 and so on.

    Examples:
        >>> tokens_in_order({"b": 1, "a": 0}, "vocab.json")
        ['a', 'b']
    """
    if not isinstance(ids, dict) or not ids:
        raise ValueError(f"{path}: the vocabulary must give each token an id")
    if not all(isinstance(i, int) for i in ids.values()):
        raise ValueError(f"{path}: ids must be whole numbers")
    tokens = sorted(ids, key=ids.get)
    for expected, token in enumerate(tokens):
        if ids[token] != expected:
            raise ValueError(
                f"{path}: ids must be 0, 1, 2 …, but {token!r} has {ids[token]} where "
                f"{expected} is next"
            )
    return tokens
