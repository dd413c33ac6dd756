"""Which loop over the units computes what, in the function of a step.

A sum over the units needs a loop of its own before the loop that reads it. Pieces of
the same width that need as many loops before share one.
"""

from typing import NamedTuple

from kerasseq.kernels.derived.graph import HEAVY, NUMBER, Value, walk
from kerasseq.kernels.torch.schedule import (
    UNITS,
    Array,
    Function,
    Piece,
    Place,
    Store,
    arguments,
)


class Job(NamedTuple):
    """What a loop does with a piece.

    Attributes:
        piece: What it computes.
        place: Where it is written; None if it is summed up.
        add: Whether it is added to what is there.
        total: The value, "sum" or "max", that it is a part of.
    """

    piece: Piece
    place: Place | None = None
    add: bool = False
    total: Value | None = None


class Loops:
    """The loops of a function.

    Args:
        function: What is computed.
        name: Begins the names of new arrays.

    Attributes:
        jobs: By the stage, which is the number of loops before, and the width.
        scratch: Rows that a later loop reads.
    """

    def __init__(self, function: Function, name: str) -> None:
        self.function, self.name = function, name
        self.jobs: dict[tuple[int, int], list[Job]] = {}
        self.scratch: list[Array] = []
        self._stages: dict[Value, int] = self._find_stages()
        self._stored: dict[Value, list[tuple[int, Store]]] = {}
        self._reduced: set[Value] = set()
        self._queue: list[tuple[Piece, int]] = []
        for store in function.stores:
            self._add_store(store)
        seen: set[tuple[Piece, int]] = set()
        while self._queue:
            item = self._queue.pop()
            if item not in seen:
                seen.add(item)
                self._need(*item)

    def _find_stages(self) -> dict[Value, int]:
        """How many loops each value needs before that in which it is computed."""
        found: dict[Value, int] = {}
        for value in walk([store.piece.value for store in self.function.stores]):
            before = max([found[a] for a in value.args], default=0)
            if self.function.find(Piece(value, 0, value.width)):
                before = 0
            elif value.op in ("sum", "max"):
                before += 1
            found[value] = before
        return found

    def _add(self, stage: int, job: Job) -> None:
        self.jobs.setdefault((stage, job.piece.width), []).append(job)
        self._queue.append((job.piece, stage))

    def _add_store(self, store: Store) -> None:
        value = store.piece.value
        stage = 0 if self.function.find(store.piece) else self._stages[value]
        self._add(stage, Job(store.piece, store.place, store.add))
        if not store.add:
            self._stored.setdefault(value, []).append((stage, store))

    def _need(self, piece: Piece, stage: int) -> None:
        """Adds what a loop needs, to compute a piece, of the loops before."""
        value = piece.value
        if value.op == NUMBER or self.find(piece, stage):
            return
        parts = arguments(piece, self.function.pieces)
        if value.op in ("sum", "max"):
            if value not in self._reduced:
                self._reduced.add(value)
                for part in parts:
                    self._add(self._stages[value] - 1, Job(part, total=value))
        elif value.op in HEAVY and piece.width > 1 and self._stages[value] < stage:
            row = Array(f"{self.name}_{len(self.scratch)}", piece.width, UNITS)
            self.scratch.append(row)
            self._add_store(Store(piece, Place(row)))
        else:
            self._queue += [(part, stage) for part in parts]

    def find(self, piece: Piece, stage: int) -> Place | None:
        """Where a loop reads a piece: given, or written by an earlier loop."""
        place = self.function.find(piece)
        for ready, (known, at, *_) in self._stored.get(piece.value, ()):
            first = piece.start - known.start
            inside = first >= 0 and first + piece.width <= known.width
            if place is None and inside and ready < stage:
                place = at._replace(at=at.at + first)
        return place
