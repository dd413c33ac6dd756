"""The plan of ring attention: which device holds what, reads what, and sends how much.

What runs is `kernels/ring_attention.py`; the plan uses its cuts and its order. Liu,
Zaharia and Abbeel 2023. Course slides E.
"""

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

from kerasseq.core import checks
from kerasseq.core.table import Table
from kerasseq.kernels import block_length, part_read
from kerasseq.tracing import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kerasseq.attention.multi_head import MultiHeadAttention

Range: TypeAlias = tuple[int, int] | None  # first and last index; None for padding

BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
POSITION, MASK = 4, 1  # bytes of an int32, and of a boolean
CELL = 1.3  # inches of a step in the figure
LEGIBLE = 16  # steps of which the figure can write what is read


@dataclasses.dataclass(frozen=True)
class RingPlan:
    """How a ring of devices shares a sequence.

    `print` shows it as a table, and so does a notebook; `plot` draws it.

    Attributes:
        queries: First and last index of the queries of each device; None if a device
            has padding only.
        keys: The same of the keys that each device holds.
        reads: `reads[r][i]` is the device whose keys device r reads at step i.
        bytes_per_step: What each device sends to the next one during a step: keys and
            values, and the mask and the positions if they are needed. During the last
            step it sends nothing. The backward pass sends the same once more, and in
            each step the gradients of keys and values, which are as large.
    """

    queries: tuple[Range, ...]
    keys: tuple[Range, ...]
    reads: tuple[tuple[int, ...], ...]
    bytes_per_step: int

    @property
    def devices(self) -> int:
        """P, the number of devices."""
        return len(self.keys)

    @property
    def bytes_per_device(self) -> int:
        """What each device sends in a forward pass."""
        return (self.devices - 1) * self.bytes_per_step

    def __str__(self) -> str:
        return f"{self._table()}\n{self._traffic()}"

    def _repr_html_(self) -> str:
        return f"{self._table().html()}<p>{self._traffic()}</p>"

    def _table(self):
        header = ["device", "queries", "keys"]
        header += [f"step {i + 1} reads" for i in range(self.devices)]
        rows = [
            [str(r), _shown(self.queries[r]), _shown(self.keys[r])]
            + [_shown(self.keys[part]) for part in parts]
            for r, parts in enumerate(self.reads)
        ]
        return Table(rows, header)

    def _traffic(self):
        P = self.devices
        if P == 1:
            return "One device sends nothing."
        return (
            f"Each device sends {self.bytes_per_step:,} bytes to the next one during "
            f"each step but the last: {self.bytes_per_device:,} bytes."
        )

    def plot(self) -> "Figure":
        """Draws which keys each device reads at each step.

        Returns:
            A matplotlib `Figure`. A color stands for the keys of one device, and an
            arrow for what a device sends to the next one.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        P = self.devices
        width = min(CELL * P + 2.5, drawing.MAX_WIDTH)
        figure = drawing.figure(width, 0.55 * P + 1.4)
        axis = figure.subplots()
        for r, parts in enumerate(self.reads):
            for i, part in enumerate(parts):
                _draw_cell(axis, r, i, _color(part, P))
                if P <= LEGIBLE:
                    _write(axis, r, i, _shown(self.keys[part]))
                if r + 1 < P and i + 1 < P:
                    _draw_arrow(axis, r, i)
        axis.set_xlim(-0.5, P - 0.5)
        axis.set_ylim(P - 0.5, -0.5)
        axis.set_xticks(range(P), range(1, P + 1))
        names = [f"device {r}: {_shown(own)}" for r, own in enumerate(self.queries)]
        axis.set_yticks(range(P), names)
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)
        axis.set_xlabel("step")
        axis.set_ylabel("queries")
        title = "The keys that each device reads"
        if P > 1:
            title += f"\narrow: {self.bytes_per_step:,} bytes, also from {P - 1} to 0"
        figure.suptitle(title, fontsize="medium")
        return figure


def plan(
    layer: "MultiHeadAttention",
    batch: int,
    query_length: int,
    key_length: int,
    *,
    devices: int,
    block_size: int,
    masked: bool,
) -> RingPlan:
    """Plans how devices share a sequence.

    Args:
        layer: The layer, whose heads, widths and types count.
        batch: B.
        query_length: T.
        key_length: S.
        devices: P.
        block_size: The largest number of keys in a block.
        masked: Whether the keys have a padding mask.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If there are fewer queries or keys than devices.
    """
    sizes = {"length": query_length, "value_length": key_length}
    lengths = [checks.size(name, value) for name, value in sizes.items()]
    for name, length in zip(sizes, lengths, strict=True):
        if length < devices:
            raise ValueError(
                f"{name} must be at least devices={devices}, received {length}. One "
                "device computes shorter sequences"
            )
    part_q, part = (_part(length, devices, block_size) for length in lengths)
    numbers = layer.key_value_heads * (layer.key_dim + layer.value_dim)
    each = numbers * BYTES[layer.compute_dtype] + MASK * checks.flag("masked", masked)
    sent = checks.size("batch", batch) * part * each
    if layer.biases_scores and layer.bias_is_constant:
        sent += (batch if masked else 1) * part * POSITION
    ring = range(devices)
    return RingPlan(
        queries=tuple(_range(r, part_q, lengths[0]) for r in ring),
        keys=tuple(_range(r, part, lengths[1]) for r in ring),
        reads=tuple(tuple(part_read(r, i, devices) for i in ring) for r in ring),
        bytes_per_step=sent,
    )


def _part(length, devices, block_size):
    blocks, size = block_length(length, devices, block_size)
    return blocks * size


def _range(device, part, length):
    first = device * part
    return (first, min(first + part, length) - 1) if first < length else None


def _shown(indices):
    if indices is None:
        return "–"
    first, last = indices
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def _color(part, devices):
    if devices <= len(drawing.COLORS):
        return drawing.COLORS[part]
    from matplotlib import colormaps

    return colormaps["viridis"](0.85 * part / (devices - 1))  # white is legible


def _draw_cell(axis, r, i, color):
    axis.barh(r, 0.76, height=0.62, left=i - 0.38, color=color)


def _write(axis, r, i, text):
    axis.text(i, r, text, ha="center", va="center", color="white", fontsize="small")


def _draw_arrow(axis, r, i):
    """Returns an arrow from a cell to the one of the next device, one step later."""
    style = {"arrowstyle": "->", "color": "gray", "shrinkA": 0, "shrinkB": 0}
    axis.annotate("", (i + 0.6, r + 0.67), (i + 0.4, r + 0.33), arrowprops=style)
