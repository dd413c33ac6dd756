"""Losses and accuracies by size: means, power laws, tables, what they do not show."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli.console import Console

OPERATIONS = 6  # of a weight and a token: 2 forward, 4 backward
FREE, NEEDED = "E free", 3  # sizes
COLUMNS = ("width", "seed", "parameters", "operations", "loss", "accuracy", "seconds")
Found = Mapping[str, Mapping[int, dict[str, float]]]  # by width and seed


def summary(
    records: Found, *, tokens: int, entropy: float | None, has_law: bool, samples: int
) -> dict[str, Any]:
    """Computes the means and the laws.

    Args:
        records: For each width and seed the parameters, the loss in bits, the seconds,
            and for passages the accuracy.
        tokens: Tokens that each model has learned from.
        entropy: E in bits, where it is known.
        has_law: Whether power laws are fitted to the losses.
        samples: Bootstrap samples of the intervals.

    Returns:
        Plain data: a row for each width, the laws by name, whether the mean falls with
        every width by more than the deviation, the loss of the widest model as
        predicted from the others, and sentences on what this does not show.
    """
    rows = [_row(int(w.removeprefix("width")), by, tokens) for w, by in records.items()]
    rows.sort(key=lambda row: row["parameters"])
    means, deviations = (
        np.array([row[key] for row in rows]) for key in ("loss", "deviation")
    )
    least = np.maximum(deviations[1:], deviations[:-1])
    results = {
        "widths": rows,
        "falls": bool((-np.diff(means) > least).all()),
        "laws": {},
        "predicted": None,
        "entropy": entropy,
    }
    if has_law:
        results |= _laws(rows, entropy, samples)
    return results | {"notes": notes(results)}


def _row(width, by_seed, tokens):
    first = next(iter(by_seed.values()))
    row = {
        "width": width,
        "parameters": first["parameters"],
        "operations": OPERATIONS * first["parameters"] * tokens,
        "seeds": {str(seed): dict(each) for seed, each in by_seed.items()},
    }
    for key, deviation in (("loss", "deviation"), ("accuracy", "accuracy_deviation")):
        if key in first:
            values = np.array([each[key] for each in by_seed.values()])
            spread = values.std(ddof=1) if len(values) > 1 else 0.0
            row |= {key: float(values.mean()), deviation: float(spread)}
    return row


def _laws(rows, entropy, samples):
    sizes = [row["parameters"] for row in rows]
    losses = [[each["loss"] for each in row["seeds"].values()] for row in rows]
    floors = {"E = 0": 0.0} if entropy is None else {f"E = {entropy:.3f}": entropy}
    if len(sizes) >= NEEDED:
        floors[FREE] = None
    laws: dict[str, Any] = {}
    predicted = None
    for name, floor in floors.items():
        if floor is not None and floor >= np.min(losses):
            continue  # the losses are not above it, as a sentence says
        law = kerasseq.training.power_law(sizes, losses, floor=floor, samples=samples)
        laws[name] = {
            "factor": law.factor,
            "exponent": law.exponent,
            "exponents": [*law.exponents],
            "floor": law.floor,
            "floors": [*law.floors],
            "residual": law.residual,
        }
        if floor is not None and len(sizes) >= NEEDED:
            smaller = kerasseq.training.power_law(
                sizes[:-1], losses[:-1], floor=floor, samples=1
            )
            predicted = float(smaller.predict(sizes[-1]))
    return {"laws": laws, "predicted": predicted}


def notes(results: Mapping[str, Any]) -> list[str]:
    """Returns sentences on what the losses do not show."""
    rows, entropy, laws = results["widths"], results["entropy"], results["laws"]
    first, last = rows[0], rows[-1]
    times = last["operations"] / first["operations"]
    said = [
        "Equal steps are not equal compute: the widest model took "
        f"{times:,.1f} times the operations of the narrowest, and a model that is not "
        "trained until it gains no more says how fast it learns, not what it can learn."
    ]
    if FREE in laws:
        low, high = laws[FREE]["floors"]
        said.append(
            f"{len(rows)} sizes within a factor of {times:,.1f} are too few to know E: "
            f"{low:.2f} to {high:.2f} bits fit. A law needs sizes over several powers "
            "of ten."
        )
    elif laws:
        said.append(
            f"{len(rows)} sizes are a line, and no test of a law: that needs sizes "
            "over several powers of ten."
        )
    lowest = min(each["loss"] for row in rows for each in row["seeds"].values())
    if entropy and lowest <= entropy:
        said.append(
            f"A loss of {lowest:.3f} bits is not above the entropy, {entropy:.3f}: no "
            "law is fitted with it. Is --entropy in bits a token, and does the "
            "training not have the held-out text?"
        )
    if len(first["seeds"]) == 1:
        said.append("With one seed there is no deviation, and no interval.")
    return said


# Tables


def show(console: Console, results: Mapping[str, Any]) -> None:
    """Prints the losses by width, the laws, and what they do not show."""
    rows, has_accuracy = results["widths"], bool(results["lines"])
    columns = ["width", ">parameters", ">operations", ">bits", ">deviation"]
    columns += [">accuracy", ">deviation"] if has_accuracy else []
    count = len(results["seeds"])
    what = "the last word" if has_accuracy else "a token"
    title = f"Bits of {what}, {results['steps']:,} steps, mean of {count} seed"
    console.table(
        title + "s" * (count > 1), columns, [_cells(row, has_accuracy) for row in rows]
    )
    if has_accuracy:
        shown = [f"{name} {value:.3f}" for name, value in results["lines"].items()]
        console.write(f"Accuracy from no more than {', '.join(shown)}.")
    else:
        does = "falls" if results["falls"] else "does not fall"
        more = " by more than the deviation" if count > 1 else ""
        console.write(f"The mean loss {does} with every width{more}.")
    if results["laws"]:
        fitted = results["laws"].items()
        laws = [(name, *_law(law, has_interval=count > 1)) for name, law in fitted]
        names = ("loss = A N^-α + E", ">α", ">95 %", ">E", ">95 %", ">A")
        console.table("Power laws; N is the number of parameters", names, laws)
    if results["predicted"] is not None:
        console.write(
            f"The loss of the widest model, predicted from the others: "
            f"{results['predicted']:.3f} bits; measured: {rows[-1]['loss']:.3f}."
        )
    for sentence in results["notes"]:
        console.write(sentence)


def _cells(row, has_accuracy):
    cells = [row["width"], f"{row['parameters']:,}", f"{row['operations']:.1e}"]
    keys = ("loss", "deviation", "accuracy", "accuracy_deviation")
    for key in keys[: 4 if has_accuracy else 2]:
        known = len(row["seeds"]) > 1 or not key.endswith("deviation")
        cells.append(f"{row[key]:.3f}" if known else "–")
    return cells


def _law(law, has_interval):
    for key in ("exponent", "floor"):
        yield f"{law[key]:.3f}"
        low, high = law[f"{key}s"]
        yield f"{low:.3f} to {high:.3f}" if has_interval else "–"
    yield f"{law['factor']:.3g}"


def rows_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row of the table for each model, a width and a seed."""
    return [
        {"width": row["width"], "operations": row["operations"], "seed": seed, **each}
        for row in rows
        for seed, each in row["seeds"].items()
    ]
