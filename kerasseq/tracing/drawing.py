"""What the figures share: sizes, colors, names. Loads matplotlib only when drawing."""

import functools
import io
import numbers

import numpy as np

from kerasseq.core.checks import nearest

# Okabe and Ito's colors, which people of any color vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
WIDEST = 20  # inches


def figure(width, height):
    """A matplotlib figure that nothing else holds, and that notebooks show."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "figures need matplotlib, which is not installed: "
            'pip install "kerasseq[viz]"'
        ) from error
    made = Figure(figsize=(width, height), layout="constrained")
    made._repr_png_ = functools.partial(_png, made)
    return made


def _png(made):
    out = io.BytesIO()
    made.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


def width_for(length, tokens):
    """Inches for so many steps: wider with tokens, which must be read."""
    per_step = 0.12 if tokens is None else 0.24
    return min(max(5.0, length * per_step), WIDEST)


def number_ticks(axis, numbers, at_most):
    """Ticks at 0, 1, 2 … with these numbers beside them, or as many as find room."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def number(place, _):
        known = place == int(place) and 0 <= place < len(numbers)
        return str(numbers[int(place)]) if known else ""

    axis.set_major_locator(MaxNLocator(nbins=at_most, integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(number))


def legend(made, axis):
    """A legend under the axes, where it hides nothing."""
    handles, labels = axis.get_legend_handles_labels()
    first = dict(reversed(list(zip(labels, handles, strict=True))))
    # Bars first, as read from left to right, then the lines.
    names = sorted(
        dict.fromkeys(labels), key=lambda label: hasattr(first[label], "get_ls")
    )
    room = made.get_figwidth() / (0.5 + 0.1 * max(map(len, names)))  # in columns
    made.legend(
        [first[name] for name in names],
        names,
        loc="outside lower center",
        ncols=max(1, min(len(names), int(room))),
        frameon=False,
    )


def words(name):
    """A name as words.

    Examples:
        >>> words("forget_gate")
        'forget gate'
    """
    return name.replace("_", " ")


def split(key):
    """The path and the name of a key.

    Examples:
        >>> split("model/lstm/forget_gate"), split("forget_gate")
        (('model/lstm', 'forget_gate'), ('', 'forget_gate'))
    """
    path, _, name = key.rpartition("/")
    return path, name


def layer_values(trace, layer):
    """The path that `layer` means, and its arrays `(batch, time, units)` by name."""
    layers = {}
    for key in trace:
        value = trace[key][0] if isinstance(trace[key], list) else trace[key]
        if np.ndim(value) == 3:
            path, name = split(key)
            layers.setdefault(path, {})[name] = np.asarray(value, "float32")
    if not layers:
        raise ValueError(
            "there is nothing over time to draw: give a trace in which a recurrent "
            "layer of kerasseq ran"
        )
    if layer is None:
        path = next(iter(layers))
    elif layer in layers:
        path = layer
    else:
        path = next((p for p in layers if p.startswith(layer)), None)
    if path is None:
        raise ValueError(
            f'layer="{layer}" is not in the trace.{nearest(layer, layers)} There is: '
            + ", ".join(layers)
        )
    return path, layers[path]


def known(argument, name, names):
    """Return `name` if it is one of `names`."""
    if name in names:
        return name
    raise ValueError(
        f'{argument}: "{name}" is not there.{nearest(name, names)} There is: '
        + ", ".join(names)
    )


def in_order(names):
    """Gates first, then what they act on, then the states."""
    last = ("candidate", "cell_state", "hidden_state")

    def rank(name):
        if name.endswith("_gate"):
            return 0
        return 1 + (last.index(name) if name in last else len(last))

    return sorted(names, key=rank)


def one_sequence(value, example, units):
    """One sequence, `(time, units)`, and the indices of its units."""
    if not -len(value) <= example < len(value):
        raise ValueError(
            f"example={example} is not in the batch, which has {len(value)} sequences"
        )
    count = value.shape[-1]
    if units is None:
        units = count
    units = list(range(units) if isinstance(units, numbers.Integral) else units)
    if not units or not all(0 <= unit < count for unit in units):
        raise ValueError(f"units must be some of 0 to {count - 1}, got {units}")
    return value[example][:, units], units


def columns(history):
    """A history as lists by name; what an epoch does not have is nan."""
    if not isinstance(history, list):
        return {name: list(values) for name, values in history.items()}
    names = dict.fromkeys(name for epoch in history for name in epoch)
    return {name: [epoch.get(name, np.nan) for epoch in history] for name in names}
