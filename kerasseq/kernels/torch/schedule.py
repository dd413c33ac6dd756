"""Finds the products of a step, and the functions in between.

A step alternates between products and one function that computes all that needs no
further product. A value that a later function reads is stored by an earlier one or,
where that is quick, computed again.
"""

import bisect
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kerasseq.kernels.derived.graph import HEAVY, LEAVES, NUMBER, Value, walk

PRODUCTS = ("matmul", "matmul_transposed")

# Kinds of arrays: what they have a row for.
STEPS = "each step and sequence"
PAIR = "each sequence, at the last two steps"
BATCH = "each sequence"
UNITS = "all steps and sequences together"


class Array(NamedTuple):
    """Numbers in memory, `width` in a row.

    Those with fixed names: `x`, `mask`, `noise0` …, `parameter0` … and `d_path` are
    given, `state0` … are the states, `kept0` … what the backward pass reads besides,
    `gradient0` … the gradients of the states, `d_x` those of the inputs, `total0` …
    sums over all steps and sequences.
    """

    name: str
    width: int
    kind: str


class Place(NamedTuple):
    """Where a value lies: from column `at` on, in the row of step t + `ahead`."""

    array: Array
    at: int = 0
    ahead: int = 0


class Piece(NamedTuple):
    """Neighboring units of a value."""

    value: Value
    start: int
    width: int


class Store(NamedTuple):
    """A function writes a piece.

    Attributes:
        piece: What it writes.
        place: Where.
        add: Whether it is added to what is there.
        readable: Whether the rest of the step may read it there.
    """

    piece: Piece
    place: Place
    add: bool = False
    readable: bool = True


class Multiply(NamedTuple):
    """A product with a parameter; with `add` it is added to what is there."""

    left: Place
    width: int  # of the left factor
    parameter: int
    transposed: bool
    out: Place
    add: bool = False


class Function(NamedTuple):
    """What is computed between two products.

    Attributes:
        stores: What it writes.
        find: Returns where a piece lies that is not to be computed, or None.
        pieces: `Cuts` of the values.
    """

    stores: list[Store]
    find: Callable[[Piece], Place | None]
    pieces: "Cuts"


class Cuts:
    """Cuts values into pieces that are computed alike, without "slice" and joins."""

    def __init__(self) -> None:
        self._edges: dict[Value, list[int]] = {}

    def __call__(self, value: Value, start: int = 0, width: int = 0) -> list[Piece]:
        """Returns the pieces of the units from `start` on; of all units by default."""
        width = width or value.width
        if value.op == "slice":
            return self(value.args[0], value.detail + start, width)
        if value.op == "concatenate":
            found, position = [], 0
            for part in value.args:
                low = max(start, position)
                high = min(start + width, position + part.width)
                if low < high:
                    found += self(part, low - position, high - low)
                position += part.width
            return found
        edges = self.edges(value)
        inner = edges[
            bisect.bisect_right(edges, start) : bisect.bisect_left(edges, start + width)
        ]
        edges = [start, *inner, start + width]
        return [Piece(value, a, b - a) for a, b in itertools.pairwise(edges)]

    def stores(self, value: Value, place: Place, **options: bool) -> list[Store]:
        """The stores of the pieces of a value, side by side."""
        found = []
        for piece in self(value):
            found.append(Store(piece, place, **options))
            place = place._replace(at=place.at + piece.width)
        return found

    def edges(self, value: Value) -> list[int]:
        """The units at which another formula begins."""
        if value not in self._edges:
            for each in walk([value]):
                if each not in self._edges:
                    self._edges[each] = sorted(self._own_edges(each))
        return self._edges[value]

    def _own_edges(self, value: Value) -> set[int]:
        if value.op in (*LEAVES, *PRODUCTS, "sum", "max", "broadcast"):
            return set()
        if value.op == "slice":
            found = {e - value.detail for e in self._edges[value.args[0]]}
            return {e for e in found if 0 < e < value.width}
        if value.op == "concatenate":
            found, position = set(), 0
            for part in value.args:
                found |= {position + e for e in (0, *self._edges[part])}
                position += part.width
            return found - {0}
        whole = [a for a in value.args if a.width == value.width]
        return {e for a in whole for e in self._edges[a]}


def piece_of_argument(argument: Value, piece: Piece) -> Piece:
    """What a piece reads of an argument: the same units, or the one for all units."""
    if argument.width == piece.value.width:
        return Piece(argument, piece.start, piece.width)
    return Piece(argument, 0, 1)


class Schedule:
    """Finds out which products and functions one direction of a step has.

    Args:
        known: Where values lie that are not computed in this direction: leaves, in the
            backward pass also new states and what was kept.
        backward: Whether it is the backward pass.
        pieces: Cuts the values.
    """

    def __init__(
        self, known: Mapping[Value, Place], backward: bool, pieces: Cuts
    ) -> None:
        self.backward, self.pieces = backward, pieces
        self.stores: list[Store] = []
        self.products: dict[Value, Multiply] = {}
        self.last: list[Multiply] = []  # products that nothing else in the step reads
        self.used: set[str] = set()  # names of arrays that are read
        # Each store with the level from which on it can be read.
        self._places: dict[Value, list[tuple[int, Store]]] = {}
        self._queue: list[tuple[Piece, int]] = []
        self._seen: set[tuple[Piece, int]] = set()
        self._made = 0
        for value, place in known.items():
            for store in pieces.stores(value, place):
                self._places.setdefault(store.piece.value, []).append((0, store))

    def level(self, value: Value) -> int:
        """How many products of this direction come before it."""
        return value.level if value.backward == self.backward else 0

    def temporary(self, width: int, kind: str = BATCH) -> Place:
        """Returns a new array of the backward pass, or of a step."""
        self._made += 1
        direction = "backward" if self.backward else "forward"
        return Place(Array(f"{direction}_{self._made}", width, kind))

    def store(self, value: Value, place: Place, **options: bool) -> None:
        """Plans to write a value; the options are those of `Store`."""
        for store in self.pieces.stores(value, place, **options):
            self.add(store)

    def add(self, store: Store) -> None:
        """Plans to write a piece."""
        value = store.piece.value
        level = self.level(value)
        self.stores.append(store)
        self._queue.append((store.piece, level))
        if store.readable:
            self._places.setdefault(value, []).append((level + 1, store))

    def complete(self) -> list[Multiply | Function]:
        """Returns what runs at a step, in order.

        This adds products, and stores of what later functions and products read.
        """
        while self._queue:
            piece, level = self._queue.pop()
            if (piece, level) in self._seen or piece.value.op == NUMBER:
                continue
            self._seen.add((piece, level))
            if place := self.find(piece, level):
                self.used.add(place.array.name)
            else:
                self._need(piece, level)
        return self._steps()

    def _need(self, piece: Piece, level: int) -> None:
        value = piece.value
        if value.op in PRODUCTS and value.backward == self.backward:
            out = self._result(value)
            store = Store(Piece(value, 0, value.width), out)
            self._places.setdefault(value, []).append((value.level, store))
            self.products[value] = self.multiply(value, out)
        elif value.op in HEAVY and self.level(value) < level:
            self.add(Store(piece, self.temporary(piece.width)))
        else:
            parts = arguments(piece, self.pieces)
            self._queue += [(part, level) for part in parts]

    def multiply(self, value: Value, out: Place, add: bool = False) -> Multiply:
        """Returns a product, whose left factor is stored if it is not yet."""
        factor, parameter = value.args
        left = self.locate(factor)
        if left is None:
            left = self.temporary(factor.width)
            self.store(factor, left)
        transposed = value.op == "matmul_transposed"
        return Multiply(left, factor.width, parameter.detail, transposed, out, add)

    def _result(self, value: Value) -> Place:
        """Where a product is written: where it is stored as a whole, if anywhere."""
        for store in self.stores:
            whole = store.readable and store.piece == (value, 0, value.width)
            if whole and store.place.array.width == value.width:
                self.stores.remove(store)
                return store.place
        return self.temporary(value.width)

    # Where values lie.

    def _options(self, piece: Piece) -> Iterator[tuple[int, Place]]:
        for ready, (known, place, *_) in self._places.get(piece.value, ()):
            first = piece.start - known.start
            if first >= 0 and first + piece.width <= known.width:
                yield ready, place._replace(at=place.at + first)

    def find(self, piece: Piece, level: int) -> Place | None:
        """Where functions of a level read a piece; None if they compute it."""
        options = self._options(piece)
        return next((place for ready, place in options if ready <= level), None)

    def locate(self, value: Value, *, all_steps: bool = False) -> Place | None:
        """Where all of a value lies side by side, for products.

        Args:
            value: A value of this pass, or one that is known.
            all_steps: Whether it must be there for all steps.
        """
        kinds = {STEPS} if all_steps else {STEPS, BATCH}
        if not self.backward:  # gradients of states lack those of the outputs
            kinds.add(PAIR)
        first, *others = self.pieces(value)
        for _, place in self._options(first):
            if place.array.kind in kinds and self._follow(place, first.width, others):
                self.used.add(place.array.name)
                return place
        return None

    def _follow(self, place: Place, width: int, others: Sequence[Piece]) -> bool:
        """Whether pieces lie behind the first one."""
        for piece in others:
            next_place = place._replace(at=place.at + width)
            if all(option != next_place for _, option in self._options(piece)):
                return False
            place, width = next_place, piece.width
        return True

    def _steps(self) -> list[Multiply | Function]:
        by_level: dict[int, list[Store]] = {}
        for store in self.stores:
            by_level.setdefault(self.level(store.piece.value), []).append(store)
        products = self.products.items()
        top = max([0, *by_level, *(value.level for value, _ in products)])
        found: list[Multiply | Function] = []
        for level in range(top + 1):
            found += [product for v, product in products if v.level == level]
            if level in by_level:
                find = functools.partial(self.find, level=level)
                found.append(Function(by_level[level], find, self.pieces))
        return found + self.last


def arguments(piece: Piece, pieces: Cuts) -> list[Piece]:
    """The pieces that a piece is computed from."""
    value, found = piece.value, []
    if value.op in ("sum", "max"):
        return pieces(value.args[0])
    for argument in value.args:
        found += pieces(*piece_of_argument(argument, piece))
    return found
