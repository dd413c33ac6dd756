"""The order in which waiting runs start: shared models first, then visitors in turn."""

import collections
from collections.abc import Iterable, Mapping

Key = tuple[str, str]  # the owner and the name of a run


class Turns:
    """Runs that wait.

    Those of `first` start in the order in which they came. Then comes, each time, the
    first run of the visitor who has the fewest runs training, and among these of the
    one who has waited longest since one of theirs began.

    Args:
        first: The owner who is served before all others.
    """

    def __init__(self, first: str):
        self._first = first
        self._waiting: list[Key] = []
        self._begun: list[str] = []  # owners, the latest start last

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Lets a run wait."""
        self._waiting.append(key)

    def remove(self, key: Key) -> None:
        """Takes a run out."""
        self._waiting.remove(key)

    def begin(self, key: Key) -> None:
        """Takes out a run that starts: its owner has had a turn."""
        self._waiting.remove(key)
        self._begun = [owner for owner in self._begun if owner != key[0]]
        self._begun.append(key[0])

    def clear(self) -> None:
        """Takes all runs out."""
        self._waiting.clear()

    def of(self, owner: str) -> int:
        """Returns how many runs of an owner wait."""
        return sum(key[0] == owner for key in self._waiting)

    def order(self, training: Iterable[str]) -> list[Key]:
        """Returns the waiting runs as they will start, if none that trains ends before.

        Args:
            training: The owner of each run that trains.

        Examples:
            >>> turns = Turns("everybody")
            >>> for key in [("a", "1"), ("a", "2"), ("b", "1"), ("everybody", "m")]:
            ...     turns.add(key)
            >>> turns.order(training=["a"])
            [('everybody', 'm'), ('b', '1'), ('a', '1'), ('a', '2')]
        """
        counts = collections.Counter(training)
        left, begun, found = list(self._waiting), list(self._begun), []
        while left:
            key = min(left, key=lambda key: self._rank(key, counts, begun))
            left.remove(key)
            found.append(key)
            counts[key[0]] += 1
            begun = [owner for owner in begun if owner != key[0]] + [key[0]]
        return found

    def _rank(self, key: Key, counts: Mapping[str, int], begun: list[str]):
        owner = key[0]
        last = begun.index(owner) if owner in begun else -1
        return owner != self._first, counts[owner], last
