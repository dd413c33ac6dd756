"""What runs in the kernel of a tutorial, around its cells."""

import json
import time
from collections.abc import Mapping
from typing import Any

from docs.tools import figures

START = "from docs.tools import kernel as _kernel\n_kernel.start()"
VALUES = "_kernel.values(globals())"
LONGEST = 200  # characters of a string that templates may name
_started = 0.0


def start() -> None:
    """Sets the style of figures, and starts the clock after heavy imports."""
    global _started
    import keras  # noqa: F401  # its time is not that of the tutorial
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update(figures.style())
    _started = time.process_time()


def show(figure: Any, labels: Mapping[str, str] | None = None) -> None:
    """Displays a figure as SVG, and closes it.

    The labels exchange texts that the plots of kerasseq write; those in the code of the
    cell were exchanged before.
    """
    import matplotlib.pyplot as plt
    from IPython.display import display

    if not hasattr(figure, "savefig"):
        raise TypeError(
            "the last line of a figure cell must be a matplotlib figure, received "
            f"{type(figure).__name__}"
        )
    if labels:
        translate(figure, labels)
    display({"image/svg+xml": figures.svg(figure)}, raw=True)
    plt.close("all")


def translate(figure: Any, labels: Mapping[str, str]) -> None:
    """Exchanges the texts of a figure that the labels have.

    Examples:
        >>> from matplotlib.figure import Figure
        >>> axis = Figure().subplots()
        >>> _ = axis.set_ylabel("unit"), axis.set_xticks([0, 1], ["closed", "open"])
        >>> translate(axis.figure, {"unit": "unité", "open": "ouverte"})
        >>> axis.get_ylabel(), [t.get_text() for t in axis.get_xticklabels()]
        ('unité', ['closed', 'ouverte'])
    """
    from matplotlib.text import Text

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            ticks = [tick.get_text() for tick in axis.get_majorticklabels()]
            if labels.keys() & set(ticks):  # the axis writes its ticks when drawn
                translated = [labels.get(tick, tick) for tick in ticks]
                axis.set_ticks(axis.get_majorticklocs(), translated)
    for text in figure.findobj(Text):
        text.set_text(labels.get(text.get_text(), text.get_text()))


def plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the public numbers and short strings of a namespace.

    Examples:
        >>> plain({"n": 3, "x": np.float32(0.5), "_y": 1, "t": "a", "a": [1]})
        {'n': 3, 'x': 0.5, 't': 'a'}
    """
    values = {}
    for name, value in found.items():
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()
        if isinstance(value, float):
            value = float(f"{value:.6g}")
        is_text = isinstance(value, str) and len(value) <= LONGEST
        if name[0] != "_" and (is_text or isinstance(value, (int, float))):
            values[name] = value
    return values


def values(found: Mapping[str, Any]) -> None:
    """Displays what templates can name, and the CPU seconds since `start`."""
    import keras
    from IPython.display import display

    import kerasseq

    told = {
        "values": plain(found),
        "seconds": round(time.process_time() - _started, 1),
        "kerasseq": kerasseq.__version__,
        "keras": keras.__version__,
        "backend": keras.backend.backend(),
    }
    display({"application/json": json.loads(json.dumps(told))}, raw=True)
