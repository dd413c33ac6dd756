"""Writes the function `row`, which computes a step of one sequence, as LLVM IR.

Its pointers do not overlap (`noalias`), so that LLVM vectorizes its loops over the
units without checks.
"""

import functools
from collections.abc import Callable

from kerasseq.kernels.derived.graph import GRADIENT, MASK, NUMBER, Value
from kerasseq.kernels.torch.elementary import ATTRIBUTES, number
from kerasseq.kernels.torch.instructions import (
    ZERO,
    operation,
    reduction,
    without_denormals,
)
from kerasseq.kernels.torch.loops import Job, Loops
from kerasseq.kernels.torch.schedule import (
    STEPS,
    Array,
    Function,
    Piece,
    Place,
    piece_of_argument,
)

FIRST = {"sum": ZERO, "max": number(float("-inf"))}  # before any unit


class Row:
    """The text of a function `row`.

    Args:
        name: The name of the function that calls it.
        function: What it computes.
        entry: Returns the place of a number in the table.
        inline: Whether it becomes a part of the function that calls it.
        output: The state whose gradient includes that of the outputs.

    Attributes:
        given: Places that it takes pointers to.
        sizes: Numbers that it takes, and their names.
        text: The text.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        entry: Callable[[int], int],
        *,
        inline: bool,
        output: int | None,
    ) -> None:
        self.loops = Loops(function, name)
        self.pieces, self.output = function.pieces, output
        self._entry = entry
        self.sizes: dict[int, str] = {}
        # Columns from which on arrays are read or written, with the number of them.
        self._accesses: dict[tuple[Array, int], dict[int, int]] = {}
        self._written: set[tuple[Array, int]] = set()
        self._scalars: dict[tuple[Value, int], str] = {}  # known outside of loops
        self._sums: dict[Value, str] = {}
        self._count = 0
        lines, block = [], "entry"
        for n, (stage, width) in enumerate(sorted(self.loops.jobs)):
            self._stage, self._width = stage, width
            lines += self._loop(f"l{n}", block, self.loops.jobs[stage, width])
            block = f"l{n}_e"
        self.given, before = self._pointers()
        taken = [f"ptr noalias {self._pointer_name(place)}" for place in self.given]
        taken += [f"i64 {size}" for size in self.sizes.values()]
        self.text: str = "\n".join(
            [
                f"define internal void @row_{name}({', '.join(taken)}) "
                f"{'alwaysinline' if inline else 'noinline'} nounwind {ATTRIBUTES} {{",
                "entry:",
                *before,
                *lines,
                "  ret void",
                "}",
            ]
        )

    def size(self, n: int) -> str:
        """The name of a number that is read from the table."""
        if n < 2:
            return str(n)
        if n not in self.sizes:
            self.sizes[n] = f"%n{self._entry(n)}"
        return self.sizes[n]

    # Loops.

    def _emit(self, lines: list[str], text: str) -> str:
        self._count += 1
        lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def _loop(self, label: str, before: str, jobs: list[Job]) -> list[str]:
        """Writes a loop over units."""
        self._index = f"%{label}_j"
        # Instructions before the loop and in it, and the values known in it.
        self._outside, self._inside, self._known = [], [], {}
        emit = functools.partial(self._emit, self._inside)
        sums: list[tuple[Value, str, str]] = []
        results = [self._get(job.piece) for job in jobs]  # reads before it writes
        for job, x in zip(jobs, results, strict=True):
            if job.total:
                old = f"%{label}_r{len(sums)}"
                new = reduction(emit, job.total.op, old, x)
                sums.append((job.total, old, new))
            else:
                self._store(job, x)
        lines = [
            *self._outside,
            f"  br label %{label}",
            f"{label}:",
            f"  {self._index} = phi i64 [ 0, %{before} ], [ %{label}_k, %{label} ]",
            *(
                f"  {old} = phi float [ {FIRST[total.op]}, %{before} ], "
                f"[ {new}, %{label} ]"
                for total, old, new in sums
            ),
            *self._inside,
            f"  %{label}_k = add nuw nsw i64 {self._index}, 1",
            f"  %{label}_c = icmp ult i64 %{label}_k, {self.size(self._width)}",
            f"  br i1 %{label}_c, label %{label}, label %{label}_e",
            f"{label}_e:",
        ]
        emit = functools.partial(self._emit, lines)
        for total, _, new in sums:  # a sum of pieces may take several loops
            if total in self._sums:
                new = reduction(emit, total.op, self._sums[total], new)
            self._sums[total] = new
        return lines

    def _store(self, job: Job, x: str) -> None:
        pointer = self._pointer(self._inside, job.place)
        self._written.add((job.place.array, job.place.ahead))
        if job.add:
            old = self._emit(self._inside, f"load float, ptr {pointer}")
            x = self._emit(self._inside, f"fadd float {old}, {x}")
        self._inside.append(f"  store float {x}, ptr {pointer}")

    # Values. A key is a value, a unit, and whether that unit serves all; if not, it is
    # computed in the loop over j for the unit + j.

    def _get(self, piece: Piece) -> str:
        """Computes a piece in a loop over its units; returns the name."""
        first = piece.value, piece.start, piece.value.width == 1
        stack = [first]
        while stack:
            value, start, single = key = stack[-1]
            known = self._cache(single)
            args = [] if (value, start) in known else self._arguments(*key)
            missing = [arg for arg in args if arg[:2] not in self._cache(arg[2])]
            if missing:
                stack += missing
                continue
            stack.pop()
            if (value, start) not in known:
                found = [self._cache(arg[2])[arg[:2]] for arg in args]
                known[value, start] = self._compute(*key, found)
        return self._cache(first[2])[first[:2]]

    def _cache(self, single: bool) -> dict[tuple[Value, int], str]:
        return self._scalars if single else self._known

    def _find(self, value: Value, start: int, single: bool) -> Place | None:
        width = 1 if single else self._width
        return self.loops.find(Piece(value, start, width), self._stage)

    def _arguments(
        self, value: Value, start: int, single: bool
    ) -> list[tuple[Value, int, bool]]:
        """The keys of what a unit is computed from."""
        if value.op == NUMBER or value in self._sums:
            return []
        if self._find(value, start, single):
            return []
        piece = Piece(value, start, 1 if single else self._width)
        return [
            (part.value, part.start, single or argument.width == 1)
            for argument in value.args
            for part in self.pieces(*piece_of_argument(argument, piece))
        ]

    def _compute(self, value: Value, start: int, single: bool, args: list[str]) -> str:
        if value.op == NUMBER:
            return number(value.detail)
        if value in self._sums:
            return self._sums[value]
        lines = self._outside if single else self._inside
        emit = functools.partial(self._emit, lines)
        place = self._find(value, start, single)
        if place is None:
            return operation(emit, value, args)
        x = self._load(lines, place, single)
        if value.op != GRADIENT:
            return x
        if value.detail == self.output:
            path = Place(Array("d_path", value.width, STEPS), place.at)
            x = emit(f"fadd float {x}, {self._load(lines, path, single)}")
        return without_denormals(emit, x)

    def _load(self, lines: list[str], place: Place, single: bool) -> str:
        pointer = self._pointer(lines, place, single)
        if element_type(place.array) == "float":
            return self._emit(lines, f"load float, ptr {pointer}")
        byte = self._emit(lines, f"load i8, ptr {pointer}")
        return self._emit(lines, f"icmp ne i8 {byte}, 0")

    # Pointers.

    def _pointer(self, lines: list[str], place: Place, single: bool = False) -> str:
        width, index = (1, "0") if single else (self._width, self._index)
        starts = self._accesses.setdefault((place.array, place.ahead), {})
        starts[place.at] = max(width, starts.get(place.at, 0))
        kind, name = element_type(place.array), self._pointer_name(place)
        return self._emit(lines, f"getelementptr {kind}, ptr {name}, i64 {index}")

    def _pointer_name(self, place: Place) -> str:
        """A name without the number of units, so that others may have the text."""
        array, at, ahead = place
        return f"%{array.name}_{ahead}_{list(self._accesses[array, ahead]).index(at)}"

    def _pointers(self) -> tuple[list[Place], list[str]]:
        """Returns the pointers that are taken, and lines that define the others.

        Pointers that are marked `noalias` may not reach the same memory if it is
        written. So in arrays that are written, parts that overlap share a pointer.
        """
        given, lines = [], []
        for (array, ahead), starts in self._accesses.items():
            first, end = None, -1
            for at in sorted(starts):
                place = Place(array, at, ahead)
                if first and (array, ahead) in self._written and at < end:
                    lines.append(
                        f"  {self._pointer_name(place)} = getelementptr "
                        f"{element_type(array)}, ptr {self._pointer_name(first)}, "
                        f"i64 {self.size(at - first.at)}"
                    )
                else:
                    given.append(place)
                    first = place
                end = max(end, at + starts[at])
        return given, lines


def element_type(array: Array) -> str:
    """The type of the elements of an array, in LLVM."""
    return "i8" if array.name == MASK else "float"
