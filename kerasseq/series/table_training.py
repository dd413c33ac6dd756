"""How a `Forecaster` is trained on a table: for as many steps as help."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.arguments import check_names
from kerasseq.series.autoregression import fit_shared, forecast_map
from kerasseq.series.columns import Columns
from kerasseq.series.forecaster_layers import MAX_LAG
from kerasseq.series.intervals import conformal_shifts, outward
from kerasseq.series.selection import (
    CHECKS,
    EXACT,
    LEAST_EPOCHS,
    STEPS,
    BestStep,
    Selection,
    checked_windows,
    rows_of_parts,
    split_counts,
)
from kerasseq.series.windows import TableWindows
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.fit_call import FitCall
from kerasseq.training.batches import BATCH_SIZE, KerasData, OrderedBatches

# Arguments of `fit` for a table.
OF_TABLE = ("value", "date", "group", "missing", "season", "length")
LEAST_CHANGE = 0.9  # of the errors, for the baseline of another table to be named
# Options of `fit` with which it trains as it is told.
EXPLICIT = (
    "epochs", "steps_per_epoch", "shuffle", "sample_weight", "class_weight", "patience",
)  # fmt: skip


def baseline(model: Any) -> str:
    """Returns what the forecasts of the network are added to.

    Args:
        model: The forecaster.

    Returns:
        "AR(9)" for an autoregression, "naive", "seasonal naive" or "mean".

    Examples:
        >>> from kerasseq.models import Forecaster
        >>> model = Forecaster("gru", horizon=2, units=3)
        >>> windows = model.prepare(np.sin(np.arange(20.0)))
        >>> model.baseline
        'AR(2)'
    """
    if model._fitted is not None and model._fitted.order:
        return f"AR({model._fitted.order})"
    season = int(ops.convert_to_numpy(model.get_layer("baseline").season))
    return {0: "mean", 1: "naive"}.get(season, "seasonal naive")


def selection(model: Any) -> Selection | None:
    """Returns how many steps `fit(table)` chose; None if the number was given."""
    return None if model._fitted is None else model._fitted.selection


def training_verdict(model: Any) -> str:
    """Returns a sentence on whether the network helps; "" without a selection.

    Args:
        model: The forecaster.

    Examples:
        >>> from kerasseq.models import Forecaster
        >>> model = Forecaster("elman", horizon=2, units=3)
        >>> selection = model.choose_steps(np.sin(np.arange(40.0)))
        >>> model.training_verdict()  # doctest: +NORMALIZE_WHITESPACE
        'elman adds nothing to AR(2) here: on the validation part it does not reduce
        the errors.'
    """
    if model.selection is None:
        return ""
    return model.selection.sentence(model.title, model.baseline)


def choose_steps(
    model: Any, data: Any, *, batch_size: int = BATCH_SIZE, **options: Any
) -> Selection:
    """Finds how many training steps help, for a training loop of your own.

    `fit(data)` does the same, and then trains. A copy of the weights is trained on
    the first part of each series, and its forecasts of the last fifth of the
    windows are compared with those of the baseline. If their mean absolute error is
    less than 3 % smaller at best, or by less than its standard error, no steps
    help. Afterwards the weights are what they were, and the intervals of forecasts
    are calibrated on the same windows.

    Args:
        model: The forecaster.
        data: A table, as for `fit`.
        batch_size: Windows of a batch.
        **options: `value`, `date`, `group`, `missing`, `season` and `length`, as
            for `prepare`.

    Returns:
        The `Selection`: `steps`, and `gain`, the part of the errors that it saves.
    """
    if model._arguments["baseline"] != "ar":
        raise ValueError(
            'choose_steps needs a network that starts at zero, baseline="ar", '
            f"received baseline={model._arguments['baseline']!r}"
        )
    checks.whole_number("batch_size", batch_size)
    check_names("choose_steps", choose_steps, OF_TABLE, options)
    windows = prepare_named(model, data, options)
    return find_steps(model, windows, batch_size)[0]


def prepare_named(model: Any, data: Any, options: Mapping[str, Any]) -> TableWindows:
    """Returns the windows of a table, whose columns `fit` was given by name."""
    names = ("value", "date", "group")
    columns = Columns(**{name: options.get(name) for name in names})
    others = {k: v for k, v in options.items() if k not in names}
    return model._prepare(data, columns, **others)


def without_end(model: Any, windows: TableWindows, call: FitCall) -> Any:
    """Returns the windows to train on, and those at the end for validation.

    Args:
        model: The forecaster.
        windows: The windows of its table.
        call: The call of `fit`, with `patience` and the sample weights of the windows.

    Returns:
        Two tuples of inputs, targets and weights, which are None if none are given.

    Raises:
        ValueError: If there are too few windows, or not as many weights.
    """
    parts = split_counts(windows.counts, model._arguments["horizon"])
    trained, held = rows_of_parts(windows.counts, parts)
    if not len(held):
        raise ValueError(
            f"patience={call.patience} needs windows for validation at the end of the "
            f"series, received {len(windows.x)} windows, too few to hold some out. "
            "Give validation_data, or leave it out"
        )
    x, y = windows[:2]
    weights = sample_weights(call.sample_weight, len(x))
    if weights is None:
        return (x[trained], y[trained], None), (x[held], y[held])
    return tuple((x[rows], y[rows], weights[rows]) for rows in (trained, held))


def find_steps(model: Any, windows: TableWindows, batch_size: int) -> Any:
    """Returns the selection and the history of the training that it took."""
    fitted, horizon = model._fitted, model._arguments["horizon"]
    fitted.shifts = None
    parts = split_counts(windows.counts, horizon)
    trained, held = rows_of_parts(windows.counts, parts)
    if not len(held):
        fitted.selection = Selection(0)
        return fitted.selection, keras.callbacks.History()
    checked = held[checked_windows(len(held), fitted.length)]
    x, y = windows.x[trained], windows.y[trained]
    before = fitted.length + horizon - 1
    values = [
        series[: count + before]
        for (count, _), series in zip(parts, windows.values, strict=True)
        if count
    ]
    state = [ops.convert_to_numpy(v) for v in changed_variables(model)]
    errors = model._set_baseline(x, y, values)
    every = steps_between_checks(len(x), batch_size)
    compared = windows.x[checked], windows.y[checked]
    best = BestStep(model._predict_sorted, model._median, *compared, every)
    epochs = 1 if best.is_exact else CHECKS  # one, so that the history has a loss
    history = train_on(model, x, y, batch_size, every, epochs, callbacks=[best])
    for variable, value in zip(changed_variables(model), state, strict=True):
        variable.assign(value)
    model._set_baseline(windows.x, windows.y, windows.values)
    fitted.selection = best.selection(len(held))
    quantiles = model._arguments["quantiles"]
    if quantiles:
        shifts = conformal_shifts(best.y, best.forecasts, quantiles)
        # A network is the best of several here, and trained again afterwards.
        is_trained = fitted.selection.steps > 0
        fitted.shifts = outward(shifts, quantiles) if is_trained else shifts
        # The shifts are those of forecasts to which these errors were added.
        model.get_layer("baseline").set_errors(errors)
    return fitted.selection, history


def selected_windows(model: Any, windows: TableWindows, call: FitCall) -> KerasData:
    """Selects the windows to train on for as many steps as help; completes the call."""
    chosen, history = find_steps(model, windows, call.batch_size)
    if not chosen.steps:
        call.history = history
        if call.keras.get("verbose", "auto"):
            print(model.training_verdict())
        return KerasData(*windows[:2])
    call.epochs = chosen.steps // chosen.every
    call.keras["shuffle"] = False  # windows are drawn at random
    return KerasData(drawn_windows(*windows[:2], call.batch_size, chosen.every))


def advice_on_several(x: Any) -> str:
    """Returns how several series are given, if these are some in a list.

    Examples:
        >>> advice_on_several([np.ones(7), np.ones(5)])
        '. Several series stand in one table, with a column of their names'
    """
    if not isinstance(x, list | tuple) or not all(np.ndim(each) == 1 for each in x):
        return ""
    return ". Several series stand in one table, with a column of their names"


def print_verdict_on_baseline(model: Any, windows: TableWindows) -> None:
    """Prints a sentence if the autoregression of the first table is a poor one here.

    Args:
        model: A forecaster that was fitted to a table.
        windows: Those of a further table. Nothing is printed if its own autoregression
            would make errors that are less than a tenth smaller.
    """
    fitted, horizon = model._fitted, model._arguments["horizon"]
    longest = min(fitted.length, MAX_LAG)
    own = fit_shared(windows.values, fitted.season, longest) if fitted.order else None
    if own is None:
        return
    x = windows.x[:, : fitted.length]
    coefficients, constants = forecast_map(own, horizon)
    of_own = x[:, fitted.length - own.order :, 0] @ coefficients + constants
    of_first = model.get_layer("baseline").forecasts_of(x)
    new, kept = (np.abs(windows.y - each).mean() for each in (of_own, of_first))
    if kept > EXACT and new <= LEAST_CHANGE * kept:
        print(
            f"{model.baseline} was fitted to the first table: AR({own.order}) of this "
            f"one would make errors {1 - new / kept:.0%} smaller. Make a new "
            "Forecaster for another series."
        )


def drawn_windows(
    x: np.ndarray, y: np.ndarray, batch_size: int, every: int
) -> OrderedBatches:
    """Returns the batches of an epoch of some steps, drawn at random."""
    # Its seed is set by `keras.utils.set_random_seed`.
    rng = np.random.default_rng(int(np.random.randint(2**31)))

    def take(_):
        rows = rng.integers(len(x), size=batch_size)
        return x[rows], y[rows]

    return OrderedBatches(range(every), take)


def train_on(
    model: Any,
    x: np.ndarray,
    y: np.ndarray,
    batch_size: int,
    every: int,
    epochs: int,
    **more: Any,
) -> keras.callbacks.History:
    """Trains on windows drawn at random, in epochs of some steps, and says nothing."""
    batches = drawn_windows(x, y, batch_size, every)
    more |= {"epochs": epochs, "verbose": 0, "shuffle": False}
    return keras.Model.fit(model, batches, **more)


def changed_variables(model: Any) -> list[keras.Variable]:
    """Returns the variables that training changes."""
    model._build_optimizer()
    return [*model.variables, *model.optimizer.variables]


def steps_between_checks(windows: int, batch_size: int) -> int:
    """Returns how many training steps are between two checks: 10, or more of many.

    Examples:
        >>> steps_between_checks(500, 32), steps_between_checks(100_000, 32)
        (10, 235)
    """
    of_epochs = LEAST_EPOCHS * -(-windows // batch_size)
    return -(-max(STEPS, of_epochs) // CHECKS)
