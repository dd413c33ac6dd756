"""Writes the functions of a plan as LLVM IR.

A function goes through the steps of one sequence after the other: one step, or all
steps of a cell that has no products. Addresses are read from a table, so that one
function serves all batch sizes and lengths. Loops over units are marked as parallel:
no unit reads what the same loop writes for another one, so that LLVM vectorizes them
without checks.
"""

from kerasseq.kernels.derived.graph import GRADIENT, NUMBER, Value, walk
from kerasseq.kernels.torch.elementary import ATTRIBUTES, FUNCTIONS, number
from kerasseq.kernels.torch.plan import (
    PAIR,
    STEPS,
    Array,
    Function,
    Job,
    Piece,
    Place,
    Time,
)

FIRST = {"sum": number(0), "max": number(float("-inf"))}  # before any unit
REDUCTIONS = {  # sums in any order and so in vectors
    "sum": "fadd reassoc nsz contract float {}, {}",
    "max": "call float @maximum(float {}, float {})",
}
PARALLEL = "!llvm.access.group !0"


class Source:
    """The text of a module.

    Attributes:
        functions: The texts of its functions, by their names.
        arrays: What the functions read and write. The table that they take has the
            number of sequences, the number of steps and, of each array, the address and
            the numbers of elements between steps and between sequences.
    """

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.arrays: list[Array] = []
        self._loops = ["!0 = distinct !{}", '!1 = !{!"llvm.loop.parallel_accesses",!0}']

    def entry(self, array: Array) -> int:
        """Returns the place of an array in the table."""
        if array not in self.arrays:
            self.arrays.append(array)
        return 2 + 3 * self.arrays.index(array)

    def loop(self) -> int:
        """Returns the number of a new loop over the units with parallel accesses."""
        n = len(self._loops)
        self._loops.append(f"!{n} = distinct !{{!{n}, !1}}")
        return n

    def text(self) -> str:
        """Returns the whole text."""
        return "\n".join([FUNCTIONS, *self.functions.values(), *self._loops])


class Writer:
    """Writes one function.

    Args:
        source: What it becomes a part of.
        function: What it computes.
        output: The state whose gradient includes that of the outputs.
    """

    def __init__(self, source: Source, function: Function, output: int) -> None:
        self.source, self.function, self.output = source, function, output
        self.cuts, self.find = function.schedule.cuts, function.schedule.find
        self._start: list[str] = []  # reads the table
        self._step: list[str] = []  # finds the rows of a step
        self._named: set[str] = set()  # what these define
        self._taken: list[str] = []  # what the loops read of that
        self._alike: dict[Piece, str] = {}  # pieces of one unit, known outside of loops
        self._sums: dict[Value, str] = {}
        self._block = "step"  # what comes before the next loop
        self._count = 0

    def text(self, name: str, *, backward: bool, whole: bool) -> str:
        """Returns the text of the function of the first step and the table.

        A step of a sequence is a function of its own: constants stay in registers.
        Calling one as short as one without products would take a while.

        Args:
            name: Its name.
            backward: Whether it goes through the steps from the last to the first.
            whole: Whether it computes all steps.
        """
        inline = "alwaysinline" if whole else "noinline"
        self._read("%batch", "i64", 0)
        self._read("%steps", "i64", 1)
        loops = [self._loop(*loop) for loop in self.function.loops]
        lines, taken = "\n".join, ", ".join(self._taken)
        return f"""
define internal void @row_{name}({taken}) {inline} nounwind {ATTRIBUTES} {{
step:
{lines(loops)}
  ret void
}}
define void @{name}(i64 %first, ptr %table) nounwind {{
entry:
{lines(self._start)}
  br label %sequence_start
sequence_start:
  %sequence = phi i64 [ 0, %entry ], [ %next_sequence, %sequence_end ]
  br label %step
step:
  %now = phi i64 [ 0, %sequence_start ], [ %next_now, %step_end ]
  %t0 = {"sub" if backward else "add"} i64 %first, %now
  %t1 = add i64 %t0, 1
{lines(self._step)}
  call void @row_{name}({taken})
  br label %step_end
step_end:
  %next_now = add nuw nsw i64 %now, 1
  %more_steps = icmp ult i64 %next_now, %steps
  br i1 %more_steps, label %step, label %sequence_end
sequence_end:
  %next_sequence = add nuw nsw i64 %sequence, 1
  %more_sequences = icmp ult i64 %next_sequence, %batch
  br i1 %more_sequences, label %sequence_start, label %end
end:
  ret void
}}"""

    def _emit(self, lines: list[str], text: str) -> str:
        """Adds an instruction; returns the name of its result."""
        self._count += 1
        lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def _loop(self, time: Time, jobs: list[Job]) -> str:
        """Writes a loop over units."""
        n, before = self.source.loop(), self._block
        self._time, self._index, self._block = time, f"%j{n}", f"end{n}"
        # Instructions before the loop and in it, and the pieces known in it.
        self._outside: list[str] = []
        self._inside: list[str] = []
        self._known: dict[Piece, str] = {}
        starts, sums = [], {}
        results = [self._get(job.piece) for job in jobs]  # reads before it writes
        for job, x in zip(jobs, results, strict=True):
            total = job.total
            if total is None:
                self._store(job, x)
                continue
            old = sums.get(total, f"%sum{n}_{len(sums)}")
            if total not in sums:  # its other pieces may be in loops before
                starts.append((old, self._sums.get(total, FIRST[total.op]), total))
            text = REDUCTIONS[total.op].format(old, x)
            sums[total] = self._emit(self._inside, text)
        self._sums |= sums
        phis = [
            f"  {old} = phi float [ {first}, %{before} ], [ {sums[total]}, %loop{n} ]"
            for old, first, total in starts
        ]
        lines = "\n".join
        return f"""
{lines(self._outside)}
  br label %loop{n}
loop{n}:
  %j{n} = phi i64 [ 0, %{before} ], [ %next{n}, %loop{n} ]
{lines(phis)}
{lines(self._inside)}
  %next{n} = add nuw nsw i64 %j{n}, 1
  %more{n} = icmp ult i64 %next{n}, {jobs[0].piece.width}
  br i1 %more{n}, label %loop{n}, label %end{n}, !llvm.loop !{n}
end{n}:"""

    def _store(self, job: Job, x: str) -> None:
        pointer = self._pointer(self._inside, job.place)
        if job.add:
            old = self._emit(self._inside, f"load float, ptr {pointer}, {PARALLEL}")
            x = self._emit(self._inside, f"fadd float {old}, {x}")
        self._inside.append(f"  store float {x}, ptr {pointer}, {PARALLEL}")

    # Pieces. Those of one unit are computed before the loop, and known from then on.

    def _get(self, piece: Piece) -> str:
        """Computes a piece in a loop over its units; returns the name."""
        for each in walk([piece], self._arguments):
            if each not in self._cache(each):
                names = [self._cache(a)[a] for a in self._arguments(each)]
                self._cache(each)[each] = self._compute(each, names)
        return self._cache(piece)[piece]

    def _cache(self, piece: Piece) -> dict[Piece, str]:
        return self._alike if piece.width == 1 else self._known

    def _arguments(self, piece: Piece) -> list[Piece]:
        """Returns what a piece is computed from: nothing if it is known, or read."""
        known = piece in self._cache(piece) or piece.value in self._sums
        return [] if known or self._place(piece) else self.cuts.arguments(piece)

    def _place(self, piece: Piece) -> Place | None:
        return self.find(piece, self._time)

    def _compute(self, piece: Piece, names: list[str]) -> str:
        value = piece.value
        lines = self._outside if piece.width == 1 else self._inside
        if value.op == NUMBER:
            return number(value.detail)
        if value in self._sums:
            return self._sums[value]
        place = self._place(piece)
        if place is not None:
            return self._load(lines, value, place)
        if value.op in ("broadcast", "stop_gradient"):
            return names[0]
        if value.op == "power":
            names.append(number(value.detail))
        return self._call(lines, value.op, *names)

    def _call(self, lines: list[str], op: str, *names: str) -> str:
        listed = ", ".join(f"float {name}" for name in names)
        return self._emit(lines, f"call float @{op}({listed})")

    def _load(self, lines: list[str], value: Value, place: Place) -> str:
        x = self._load_from(lines, place)
        if value.op != GRADIENT:
            return x
        if value.detail == self.output:
            path = Place(Array("d_path", value.width, STEPS), place.at)
            x = self._emit(lines, f"fadd float {x}, {self._load_from(lines, path)}")
        return self._call(lines, "vanish", x)

    # Memory.

    def _load_from(self, lines: list[str], place: Place) -> str:
        more = f", {PARALLEL}" if lines is self._inside else ""
        return self._emit(lines, f"load float, ptr {self._pointer(lines, place)}{more}")

    def _pointer(self, lines: list[str], place: Place) -> str:
        """Writes the address of a unit: at the index of the loop, if in one."""
        x = self._row(place.array, place.ahead)
        offsets = [place.at] if place.at else []
        offsets += [self._index] if lines is self._inside else []
        for offset in offsets:
            x = self._emit(lines, f"getelementptr float, ptr {x}, i64 {offset}")
        return x

    def _row(self, array: Array, ahead: int) -> str:
        """Writes the address of a row of a sequence at a step, or after it."""
        name, row = array.name, f"%{array.name}_{ahead}"
        if row not in self._named:
            self._named.add(row)
            at = self.source.entry(array)
            self._read(f"%{name}", "ptr", at)
            self._read(f"%{name}_step", "i64", at + 1)
            self._read(f"%{name}_row", "i64", at + 2)
            time = f"%t{ahead}"
            if array.kind == PAIR:
                time = self._emit(self._step, f"and i64 {time}, 1")
            step = self._emit(self._step, f"mul i64 {time}, %{name}_step")
            offset = self._emit(self._step, f"mul i64 %sequence, %{name}_row")
            offset = self._emit(self._step, f"add i64 {offset}, {step}")
            self._taken.append(f"ptr {row}")
            address = f"getelementptr float, ptr %{name}, i64 {offset}"
            self._step.append(f"  {row} = {address}")
        return row

    def _read(self, name: str, kind: str, at: int) -> None:
        """Reads an entry of the table at the start of the function."""
        if name not in self._named:
            self._named.add(name)
            self._start += [
                f"  {name}_at = getelementptr i64, ptr %table, i64 {at}",
                f"  {name} = load {kind}, ptr {name}_at",
            ]
