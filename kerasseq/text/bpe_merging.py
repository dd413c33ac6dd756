"""Apply learned merges to one word: the pair learned first is merged first.

Symbols form a chain in which each knows its neighbours, and a heap gives the next
merge, so that a word of n symbols costs n log n: a text need not have spaces.
"""

import heapq


def apply_merges(symbols: list[int], ranks: dict) -> list[int]:
    """Merge neighbours until no pair is among the merges.

    Args:
        symbols: Ids of the symbols of a word.
        ranks: For each pair of ids its rank, lower is earlier, and the id it becomes.

    Returns:
        The ids that are left.

    Examples:
        >>> apply_merges([0, 1, 0, 1, 2], {(1, 2): (1, 4), (0, 1): (0, 3)})
        [3, 3, 2]
    """
    return [symbol for _, symbol in merge(symbols, ranks)]


def merge(symbols: list[int], ranks: dict) -> list[tuple[int, int]]:
    """The same, with the number of the symbol at which each id begins.

    Examples:
        >>> merge([0, 1, 0, 1, 2], {(1, 2): (1, 4), (0, 1): (0, 3)})
        [(0, 3), (2, 3), (4, 2)]
    """
    end = len(symbols)
    symbols = [*symbols, None]  # a stop on both sides: index -1 is the same
    left = [*range(-1, end - 1), end - 1]
    right = [*range(1, end + 1), end]
    heap = []

    def offer(at):
        pair = symbols[at], symbols[right[at]]
        if pair in ranks:
            rank, symbol = ranks[pair]
            heap.append((rank, at, pair, symbol))

    for at in range(end):
        offer(at)
    heapq.heapify(heap)
    while heap:
        _, at, pair, symbol = heapq.heappop(heap)
        after = right[at]
        if (symbols[at], symbols[after]) != pair:
            continue  # one of the two has been merged meanwhile
        symbols[at], symbols[after] = symbol, None
        right[at] = right[after]
        left[right[at]] = at
        for start in (left[at], at):
            pair = symbols[start], symbols[right[start]]
            if start >= 0 and pair in ranks:
                rank, symbol = ranks[pair]
                heapq.heappush(heap, (rank, start, pair, symbol))
    return [(at, symbol) for at, symbol in enumerate(symbols) if symbol is not None]
