"""Writes the functions of a plan as LLVM IR.

A function computes one step for all sequences, or all steps of a cell that has no
products. Addresses and sizes are read from a table, so that one function serves all
batch sizes, lengths and, unless the step divides by it, numbers of units.
"""

from collections.abc import Callable, Hashable

from kerasseq.kernels.torch.elementary import FUNCTIONS
from kerasseq.kernels.torch.row import Row, element_type
from kerasseq.kernels.torch.schedule import PAIR, STEPS, UNITS, Array, Function


class Source:
    """The text of a module.

    Attributes:
        text: The functions.
        table: What the functions read, with its place: "batch" and "steps" are numbers
            of rows and steps; a number; an array, of which there are the address and
            the numbers of elements between steps and between sequences.
        scratch: Rows that a function uses within a step.
    """

    def __init__(self) -> None:
        self.text: list[str] = [FUNCTIONS]
        self.table: dict[Hashable, int] = {"batch": 0, "steps": 1}
        self.scratch: list[Array] = []
        self._length = 2

    def entry(self, what: Hashable) -> int:
        """The place of an entry in the table."""
        if what not in self.table:
            self.table[what] = self._length
            self._length += 3 if isinstance(what, Array) else 1
        return self.table[what]

    def add(
        self,
        name: str,
        function: Function,
        *,
        backward: bool,
        whole: bool,
        output: int,
    ) -> None:
        """Adds a function.

        Args:
            name: Its name.
            function: What it computes.
            backward: Whether it goes through the steps from the last to the first.
            whole: Whether it computes all steps.
            output: The state whose gradient includes that of the outputs.
        """
        # Calling a function as short as one without products takes a while.
        row = Row(name, function, self.entry, inline=whole, output=output)
        rows = Rows(name, row, self.entry, backward=backward, whole=whole)
        self.text += [row.text, rows.text()]
        self.scratch += row.loops.scratch


class Rows:
    """Writes the function that calls `row` for each sequence, or step and sequence.

    Args:
        name: Its name.
        row: The function that it calls.
        entry: Returns the place of an entry of the table.
        backward: Whether it goes through the steps from the last to the first.
        whole: Whether it computes all steps, of one sequence after the other.
    """

    def __init__(
        self,
        name: str,
        row: Row,
        entry: Callable[[Hashable], int],
        *,
        backward: bool,
        whole: bool,
    ) -> None:
        self.name, self.row, self.entry = name, row, entry
        self.backward, self.whole = backward, whole
        self.taken = list(row.sizes.values())  # before others are read here

    def text(self) -> str:
        """The text of the function, of the number of the first step and the table."""
        outer, inner = ("row", "step") if self.whole else ("step", "row")
        lines = {"row": self._row_offsets(), "step": self._step_offsets()}
        return "\n".join(
            [
                f"define void @{self.name}(i64 %first, ptr %table) nounwind {{",
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
        """Lines that read the table."""
        entry = self.entry
        wanted = {"%count_row": entry("batch"), "%count_step": entry("steps")}
        wanted |= {name: entry(n) for n, name in self.row.sizes.items()}
        starts = {at: self.row.size(at) for _, at, _ in self.row.given if at > 1}
        wanted |= {name: entry(n) for n, name in starts.items()}
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
        word = "sub" if self.backward else "add"
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
        given += [f"i64 {size}" for size in self.taken]
        return [*lines, f"  call void @row_{self.name}({', '.join(given)})"]
