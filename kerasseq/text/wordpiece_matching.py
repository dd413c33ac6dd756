"""Cut a word into the longest pieces from the left."""


def longest_pieces(
    word: str, ids: dict[str, int], prefix: str, longest: int
) -> list[tuple[int, int, int]] | None:
    """Return the id, start and end of each piece of a word; None if none fits.

    Args:
        word: Any string.
        ids: The id of each piece.
        prefix: What pieces inside a word begin with in `ids`.
        longest: The length of the longest piece.

    Examples:
        >>> longest_pieces("unhappy", {"un": 0, "##happy": 1}, "##", 7)
        [(0, 0, 2), (1, 2, 7)]
    """
    places, start, before = [], 0, ""
    while start < len(word):
        for end in range(min(len(word), start + longest), start, -1):
            piece = ids.get(before + word[start:end])
            if piece is not None:
                break
        else:
            return None
        places.append((piece, start, end))
        start, before = end, prefix
    return places
