"""Writes the functions of a plan as LLVM IR.

A function computes one step for all sequences, or all steps of a cell that has no
products: for each row it calls `row`, whose pointers do not overlap (`noalias`), so
that LLVM vectorizes its loops over the units without checks. Sums over the units end a
loop; what needs them is in the next one.

Addresses and sizes are read from a table, so that one function serves all batch sizes,
lengths and, unless the step divides by it, numbers of units.
"""

from collections.abc import Hashable

from kerasseq.kernels.derived.graph import (
    BOOLEAN,
    GRADIENT,
    HEAVY,
    MASK,
    NUMBER,
    Value,
    walk,
)
from kerasseq.kernels.torch.elementary import ATTRIBUTES, FUNCTIONS, number
from kerasseq.kernels.torch.schedule import (
    PAIR,
    STEPS,
    UNITS,
    Array,
    Function,
    Piece,
    Place,
    Store,
    arguments,
    piece_of_argument,
)

# Gradients below this are set to 0 before they become denormal numbers, with which a
# CPU computes several times as slowly. TensorFlow and XLA set denormals to 0 as well.
VANISHED = 1e-32

ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
CALLS = {
    **{name: name for name in ("tanh", "erf", "exp", "log", "sigmoid")},
    **{"expm1": "expm1", "log1p": "log1p", "absolute": "llvm.fabs.f32"},
    **{name: f"llvm.{name}.f32" for name in ("sqrt", "sin", "cos")},
    **{"maximum": "llvm.maximum.f32", "minimum": "llvm.minimum.f32"},
}
COMPARISONS = {
    **{"greater": "ogt", "greater_equal": "oge", "less": "olt", "less_equal": "ole"},
    **{"equal": "oeq", "not_equal": "une"},
}

ZERO, ONE = number(0), number(1)


class Source:
    """The text of a module.

    Attributes:
        text: The functions.
        table: What the functions read, by what it is: "batch", "steps" (a number of
            steps), a number, or an array, of which there are an address and the numbers
            of elements between steps and between sequences. Each with its place.
        scratch: Names and sizes of rows that a function uses within a step.
    """

    def __init__(self) -> None:
        self.text: list[str] = [FUNCTIONS]
        self.table: dict[Hashable, int] = {"batch": 0, "steps": 1}
        self.scratch: list[tuple[str, int]] = []
        self._length = 2

    def entry(self, what: Hashable) -> int:
        """The place of an entry in the table."""
        if what not in self.table:
            self.table[what] = self._length
            self._length += 3 if isinstance(what, Array) else 1
        return self.table[what]

    def add(self, name: str, function: Function, **options) -> None:
        """Adds a function; the options are those of `Row`."""
        row = Row(self, name, function, **options)
        row.write()
        self.text += [row.text(), Rows(self, row).text()]

    def temporary(self, width: int) -> Place:
        """Returns a row for values that a later loop over the units reads."""
        self.scratch.append((f"scratch{len(self.scratch)}", width))
        return Place(Array(*self.scratch[-1], UNITS))


class Row:
    """Writes what a function computes for one sequence and step.

    Args:
        source: The module.
        name: The name of the function.
        function: What it computes.
        backward: Whether it goes through the steps from the last to the first.
        whole: Whether it computes all steps.
        output: The state whose gradient includes that of the outputs.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        function: Function,
        *,
        backward: bool = False,
        whole: bool = False,
        output: int | None = None,
    ) -> None:
        self.source, self.name, self.function = source, name, function
        self.backward, self.whole, self.output = backward, whole, output
        self.pieces = function.pieces
        # Columns from which on arrays are read or written, with the number of them.
        self.accesses: dict[tuple[Array, int], dict[int, int]] = {}
        self.written: set[tuple[Array, int]] = set()
        self.sizes: dict[int, None] = {}
        self.lines: list[str] = []
        self._scalars: dict[tuple[Value, int], str] = {}  # known outside of loops
        self._sums: dict[Value, str] = {}
        self._count = 0

    # Which loop computes what.

    def write(self) -> None:
        """Writes all loops."""
        self.stages = self._stages()
        # By stage and width; of sums and maxima, the value they are of.
        self.jobs: dict[tuple[int, int], list[tuple[Piece, Place | Value, bool]]] = {}
        self.stored: dict[Value, list[tuple[int, Store]]] = {}
        self._reduced: set[Value] = set()
        self._queue: list[tuple[Piece, int]] = []
        for store in self.function.stores:
            self._add_store(store)
        seen = set()
        while self._queue:
            item = self._queue.pop()
            if item not in seen:
                seen.add(item)
                self._need(*item)
        block = "entry"
        for n, (stage, width) in enumerate(sorted(self.jobs)):
            self.stage = stage
            block = self._loop(f"l{n}", block, width, self.jobs[stage, width])

    def _stages(self) -> dict[Value, int]:
        """How many loops over the units each value needs before."""
        found: dict[Value, int] = {}
        for value in walk([store.piece.value for store in self.function.stores]):
            before = max([found[a] for a in value.args], default=0)
            if self.function.find(Piece(value, 0, value.width)):
                before = 0
            elif value.op in ("sum", "max"):
                before += 1
            found[value] = before
        return found

    def _stage(self, piece: Piece) -> int:
        return 0 if self.function.find(piece) else self.stages[piece.value]

    def _add_store(self, store: Store) -> None:
        stage = self._stage(store.piece)
        job = store.piece, store.place, store.add
        self.jobs.setdefault((stage, store.piece.width), []).append(job)
        if not store.add:
            stores = self.stored.setdefault(store.piece.value, [])
            stores.append((stage, store))
        self._queue.append((store.piece, stage))

    def _need(self, piece: Piece, stage: int) -> None:
        """Sees to it that a loop can compute a piece."""
        value = piece.value
        if value.op == NUMBER or self.find(piece, stage):
            return
        if value.op in ("sum", "max"):
            if value not in self._reduced:
                self._reduced.add(value)
                stage = self.stages[value] - 1
                for part in arguments(piece, self.pieces):
                    job = part, value, False
                    self.jobs.setdefault((stage, part.width), []).append(job)
                    self._queue.append((part, stage))
        elif value.op in HEAVY and piece.width > 1 and self.stages[value] < stage:
            self._add_store(Store(piece, self.source.temporary(piece.width)))
        else:
            parts = arguments(piece, self.pieces)
            self._queue += [(part, stage) for part in parts]

    def find(self, piece: Piece, stage: int) -> Place | None:
        """Where a loop reads a piece: given, or written by an earlier loop."""
        place = self.function.find(piece)
        for ready, (known, at, *_) in self.stored.get(piece.value, ()):
            first = piece.start - known.start
            inside = first >= 0 and first + piece.width <= known.width
            if place is None and inside and ready < stage:
                place = at._replace(at=at.at + first)
        return place

    # Loops.

    def emit(self, lines: list[str], text: str) -> str:
        self._count += 1
        lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def size(self, n: int) -> str:
        """A number that is read from the table."""
        if n < 2:
            return str(n)
        self.sizes[n] = None
        return f"%n{self.source.entry(n)}"

    def _loop(self, label: str, before: str, width: int, jobs: list) -> str:
        """Writes a loop over units; returns the block in which it ends."""
        self.outside, self.inside, self._known = [], [], {}
        self.index, self.width = f"%{label}_j", width
        phis: list[tuple[Value, str, str]] = []
        stores = []
        for piece, target, add in jobs:
            x = self.get(piece.value, piece.start)
            if isinstance(target, Place):
                stores.append((target, x, add))
                continue
            old = f"%{label}_r{len(phis)}"
            phis.append((target, old, self._reduce(self.inside, target, old, x)))
        for place, x, add in stores:
            self._store(place, x, add)
        first = {"sum": ZERO, "max": number(float("-inf"))}
        self.lines += [
            *self.outside,
            f"  br label %{label}",
            f"{label}:",
            f"  {self.index} = phi i64 [ 0, %{before} ], [ %{label}_k, %{label} ]",
            *(
                f"  {old} = phi float [ {first[value.op]}, %{before} ], "
                f"[ {new}, %{label} ]"
                for value, old, new in phis
            ),
            *self.inside,
            f"  %{label}_k = add nuw nsw i64 {self.index}, 1",
            f"  %{label}_c = icmp ult i64 %{label}_k, {self.size(width)}",
            f"  br i1 %{label}_c, label %{label}, label %{label}_e",
            f"{label}_e:",
        ]
        for value, _, new in phis:  # a sum of pieces may take several loops
            if value in self._sums:
                new = self._reduce(self.lines, value, self._sums[value], new)
            self._sums[value] = new
        return f"{label}_e"

    def _reduce(self, lines: list[str], value: Value, total: str, x: str) -> str:
        if value.op == "sum":  # in any order, so in vectors
            return self.emit(lines, f"fadd reassoc nsz contract float {total}, {x}")
        return self.emit(
            lines, f"call float @llvm.maximum.f32(float {total}, float {x})"
        )

    def _store(self, place: Place, x: str, add: bool) -> None:
        pointer = self._pointer(self.inside, place, self.width, self.index)
        self.written.add((place.array, place.ahead))
        if add:
            old = self.emit(self.inside, f"load float, ptr {pointer}")
            x = self.emit(self.inside, f"fadd float {old}, {x}")
        self.inside.append(f"  store float {x}, ptr {pointer}")

    def _pointer(self, lines: list[str], place: Place, width: int, index: str) -> str:
        starts = self.accesses.setdefault((place.array, place.ahead), {})
        starts[place.at] = max(width, starts.get(place.at, 0))
        name = self.pointer_name(place)
        kind = element_type(place.array)
        return self.emit(lines, f"getelementptr {kind}, ptr {name}, i64 {index}")

    # Values.

    def get(self, value: Value, start: int) -> str:
        """Computes unit `start` + j of a value in a loop over j."""
        first = value, start, value.width == 1
        stack = [first]
        while stack:
            *key, single = stack[-1]
            known = self._scalars if single else self._known
            args = self._arguments(*stack[-1]) if tuple(key) not in known else []
            missing = [
                (v, s, one)
                for v, s, one in args
                if (v, s) not in (self._scalars if one else self._known)
            ]
            if missing:
                stack += missing
                continue
            stack.pop()
            if tuple(key) not in known:
                found = [
                    (self._scalars if one else self._known)[v, s] for v, s, one in args
                ]
                known[tuple(key)] = self._compute(*key, single, found)
        return (self._scalars if first[-1] else self._known)[value, start]

    def _arguments(self, value: Value, start: int, single: bool) -> list:
        """What a unit is computed from: values, units, and whether one serves all."""
        piece = Piece(value, start, 1 if single else self.width)
        if value.op == NUMBER or value in self._sums or self.find(piece, self.stage):
            return []
        return [
            (part.value, part.start, single or argument.width == 1)
            for argument in value.args
            for part in self.pieces(*piece_of_argument(argument, piece))
        ]

    def _compute(self, value: Value, start: int, single: bool, args: list[str]) -> str:
        lines = self.outside if single else self.inside
        if value.op == NUMBER:
            return number(value.detail)
        if value in self._sums:
            return self._sums[value]
        width = 1 if single else self.width
        place = self.find(Piece(value, start, width), self.stage)
        if place is None:
            return self._operation(lines, value, args)
        x = self._load(lines, place, single)
        return (
            self._gradient(lines, value, place, x, single)
            if value.op == GRADIENT
            else x
        )

    def _load(self, lines: list[str], place: Place, single: bool) -> str:
        width, index = (1, "0") if single else (self.width, self.index)
        pointer = self._pointer(lines, place, width, index)
        if element_type(place.array) == "float":
            return self.emit(lines, f"load float, ptr {pointer}")
        byte = self.emit(lines, f"load i8, ptr {pointer}")
        return self.emit(lines, f"icmp ne i8 {byte}, 0")

    def _gradient(self, lines, value, place, x, single) -> str:
        if value.detail == self.output:
            path = Place(Array("d_path", value.width, STEPS), place.at)
            more = self._load(lines, path, single)
            x = self.emit(lines, f"fadd float {x}, {more}")
        size = self.emit(lines, f"call float @llvm.fabs.f32(float {x})")
        gone = self.emit(lines, f"fcmp olt float {size}, {number(VANISHED)}")
        return self.emit(lines, f"select i1 {gone}, float {ZERO}, float {x}")

    def _operation(self, lines: list[str], value: Value, args: list[str]) -> str:
        """Writes one operation of `derived/graph.py`."""
        op, types = value.op, [is_boolean(a) for a in value.args]
        if op in ("broadcast", "stop_gradient"):
            return args[0]
        if op.startswith("logical_"):
            a, *b = [self._flag(lines, *pair) for pair in zip(args, types, strict=True)]
            word = {"logical_and": "and", "logical_or": "or"}.get(op, "xor")
            return self.emit(lines, f"{word} i1 {a}, {b[0] if b else 'true'}")
        if op == "where":
            condition = self._flag(lines, args[0], types[0])
            kind = "i1" if is_boolean(value) else "float"
            if kind == "float":
                args = [self._float(lines, *p) for p in zip(args, types, strict=True)]
            return self.emit(
                lines, f"select i1 {condition}, {kind} {args[1]}, {kind} {args[2]}"
            )
        args = [self._float(lines, *pair) for pair in zip(args, types, strict=True)]
        return self._arithmetic(lines, value, args)

    def _arithmetic(self, lines: list[str], value: Value, args: list[str]) -> str:
        op = value.op
        if op in ARITHMETIC:
            return self.emit(
                lines, f"{ARITHMETIC[op]} contract float {args[0]}, {args[1]}"
            )
        if op in COMPARISONS:
            return self.emit(
                lines, f"fcmp {COMPARISONS[op]} float {args[0]}, {args[1]}"
            )
        if op in CALLS:
            listed = ", ".join(f"float {a}" for a in args)
            return self.emit(lines, f"call contract float @{CALLS[op]}({listed})")
        return getattr(self, f"_{op}")(lines, value, *args)

    def _negative(self, lines, value, x):
        return self.emit(lines, f"fneg float {x}")

    def _rsqrt(self, lines, value, x):
        root = self.emit(lines, f"call float @llvm.sqrt.f32(float {x})")
        return self.emit(lines, f"fdiv float {ONE}, {root}")

    def _sign(self, lines, value, x):
        one = self.emit(lines, f"call float @llvm.copysign.f32(float {ONE}, float {x})")
        other = self.emit(lines, f"fcmp ueq float {x}, {ZERO}")  # NaN as well
        return self.emit(lines, f"select i1 {other}, float {x}, float {one}")

    def _power(self, lines, value, x):
        exponent = number(value.detail)
        return self.emit(
            lines, f"call float @llvm.pow.f32(float {x}, float {exponent})"
        )

    def _tanh_gradient(self, lines, value, y, d):  # (1 - y²) d
        square = self.emit(lines, f"fmul contract float {y}, {y}")
        slope = self.emit(lines, f"fsub contract float {ONE}, {square}")
        return self.emit(lines, f"fmul contract float {slope}, {d}")

    def _sigmoid_gradient(self, lines, value, y, d):  # y (1 - y) d
        rest = self.emit(lines, f"fsub contract float {ONE}, {y}")
        slope = self.emit(lines, f"fmul contract float {y}, {rest}")
        return self.emit(lines, f"fmul contract float {slope}, {d}")

    def _flag(self, lines: list[str], x: str, boolean: bool) -> str:
        return x if boolean else self.emit(lines, f"fcmp une float {x}, {ZERO}")

    def _float(self, lines: list[str], x: str, boolean: bool) -> str:
        if not boolean:
            return x
        return self.emit(lines, f"select i1 {x}, float {ONE}, float {ZERO}")

    # The pointers.

    def pointer_name(self, place: Place) -> str:
        """The name of a pointer to a part of a row, without the number of units."""
        array, at, ahead = place
        return f"%{array.name}_{ahead}_{list(self.accesses[array, ahead]).index(at)}"

    def pointers(self) -> tuple[list[Place], list[str]]:
        """Returns the pointers that `row` takes, and lines that define the others.

        Pointers that are marked `noalias` may not reach the same memory if it is
        written. So in arrays that are written, parts that overlap share a pointer.
        """
        given, lines = [], []
        for (array, ahead), starts in self.accesses.items():
            first, end = None, -1
            for at in sorted(starts):
                place = Place(array, at, ahead)
                if (array, ahead) in self.written and at < end:
                    distance = self.size(at - first.at)
                    start = self.pointer_name(first)
                    lines.append(
                        f"  {self.pointer_name(place)} = getelementptr "
                        f"{element_type(array)}, ptr {start}, i64 {distance}"
                    )
                else:
                    given.append(place)
                    first = place
                end = max(end, at + starts[at])
        return given, lines

    def text(self) -> str:
        """The text of `row`."""
        self.given, lines = self.pointers()
        self.taken = list(self.sizes)
        # A function that is short, as one without products is, takes longer to call.
        inline = "alwaysinline" if self.whole else "noinline"
        taken = [f"ptr noalias {self.pointer_name(place)}" for place in self.given]
        taken += [f"i64 {self.size(n)}" for n in self.sizes]
        return "\n".join(
            [
                f"define internal void @row_{self.name}({', '.join(taken)}) "
                f"{inline} nounwind {ATTRIBUTES} {{",
                "entry:",
                *lines,
                *self.lines,
                "  ret void",
                "}",
            ]
        )


def element_type(array: Array) -> str:
    """The type of the elements of an array, in LLVM."""
    return "i8" if array.name == MASK else "float"


def is_boolean(value: Value) -> bool:
    """Whether a value is true or false."""
    if value.op in ("where", "slice", "concatenate", "stop_gradient", "broadcast"):
        return is_boolean(value.args[-1])
    return value.op in BOOLEAN


class Rows:
    """Writes the function that calls `row` for each sequence, or step and sequence."""

    def __init__(self, source: Source, row: Row) -> None:
        self.source, self.row = source, row

    def text(self) -> str:
        """The text of the function, of the number of the first step and the table."""
        row = self.row
        outer, inner = ("row", "step") if row.whole else ("step", "row")
        lines = {"row": self._row_offsets(), "step": self._step_offsets()}
        return "\n".join(
            [
                f"define void @{row.name}(i64 %first, ptr %table) nounwind {{",
                "entry:",
                *self._loads(),
                f"  br label %loop_{outer}",
                *self._head(outer, "entry", f"end_{inner}"),
                *lines[outer],
                f"  br label %loop_{inner}",
                *self._head(inner, f"loop_{outer}", f"loop_{inner}"),
                *lines[inner],
                *self._call(),
                *self._tail(inner),
                *self._tail(outer),
                "  ret void",
                "}",
            ]
        )

    def _head(self, x: str, before: str, end: str) -> list[str]:
        return [
            f"loop_{x}:",
            f"  %{x} = phi i64 [ 0, %{before} ], [ %next_{x}, %{end} ]",
        ]

    def _tail(self, x: str) -> list[str]:
        return [
            f"  %next_{x} = add nuw nsw i64 %{x}, 1",
            f"  %more_{x} = icmp ult i64 %next_{x}, %count_{x}",
            f"  br i1 %more_{x}, label %loop_{x}, label %end_{x}",
            f"end_{x}:",
        ]

    def _loads(self) -> list[str]:
        entry = self.source.entry
        wanted = {"%count_row": entry("batch"), "%count_step": entry("steps")}
        numbers = dict.fromkeys([*self.row.taken, *(at for _, at, _ in self.row.given)])
        wanted |= {self.row.size(n): entry(n) for n in numbers if n > 1}
        arrays = dict.fromkeys(place.array for place in self.row.given)
        for array in arrays:
            at = entry(array)
            wanted[f"%{array.name}_per_step"] = at + 1
            wanted[f"%{array.name}_per_row"] = at + 2
        lines = []
        for name, at in wanted.items():
            place = f"{name}_at"
            lines.append(f"  {place} = getelementptr i64, ptr %table, i64 {at}")
            lines.append(f"  {name} = load i64, ptr {place}")
        for array in arrays:
            place = f"%{array.name}_at"
            at = entry(array)
            lines.append(f"  {place} = getelementptr i64, ptr %table, i64 {at}")
            lines.append(f"  %{array.name} = load ptr, ptr {place}")
        return lines

    def _row_offsets(self) -> list[str]:
        """Lines for where the row of a sequence begins in each array."""
        return [
            f"  %{array.name}_at_row = mul i64 %row, %{array.name}_per_row"
            for array in dict.fromkeys(place.array for place in self.row.given)
            if array.kind != UNITS
        ]

    def _step_offsets(self) -> list[str]:
        """Lines for where a step begins in each array."""
        word = "sub" if self.row.backward else "add"
        lines = [f"  %t0 = {word} i64 %first, %step", "  %t1 = add i64 %t0, 1"]
        lines += ["  %pair0 = and i64 %t0, 1", "  %pair1 = and i64 %t1, 1"]
        numbers = {STEPS: "t", PAIR: "pair"}
        for array, ahead in dict.fromkeys((p.array, p.ahead) for p in self.row.given):
            if array.kind in numbers:
                name, number = f"%{array.name}", f"%{numbers[array.kind]}{ahead}"
                lines.append(
                    f"  {name}_at_step{ahead} = mul i64 {number}, {name}_per_step"
                )
        return lines

    def _call(self) -> list[str]:
        """Lines that compute all pointers, and call `row`."""
        lines, given = [], []
        for n, (array, at, ahead) in enumerate(self.row.given):
            pointer = f"%{array.name}"
            offsets = [self.row.size(at)] if at else []
            if array.kind != UNITS:
                offsets.append(f"{pointer}_at_row")
            if array.kind in (STEPS, PAIR):
                offsets.append(f"{pointer}_at_step{ahead}")
            for k, offset in enumerate(offsets):
                kind = element_type(array)
                lines.append(
                    f"  %given{n}_{k} = getelementptr {kind}, ptr {pointer}, "
                    f"i64 {offset}"
                )
                pointer = f"%given{n}_{k}"
            given.append(f"ptr {pointer}")
        given += [f"i64 {self.row.size(n)}" for n in self.row.taken]
        return [*lines, f"  call void @row_{self.row.name}({', '.join(given)})"]
