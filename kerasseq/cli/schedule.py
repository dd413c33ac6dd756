"""How a run trains: memory, learning rate, number of steps, and when it stops.

With a validation part it stops when no step is better than the best one. The losses
there stand in the history, which is a part of each checkpoint. So a run that is resumed
goes on counting, and needs no other state than the best weights. Loads no Keras.
"""

import contextvars
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kerasseq.cli import options
from kerasseq.cli.commands import shared
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks

if TYPE_CHECKING:
    import keras

# Defaults of tasks that count in epochs.
TRAINED = (
    *(shared("epochs"), shared("steps")),
    *(shared("checkpoint_every", 100), shared("seed", 0)),
)
# Of those that stop where a validation part is best: steps and epochs are limits there.
PATIENCE = 5
STOPPED = (
    *(shared("epochs"), shared("steps"), shared("patience", PATIENCE)),
    *(shared("max_minutes"), shared("checkpoint_every", 100), shared("seed", 0)),
)
LONG_EPOCHS, FEW_STEPS = 60, 3000  # if no limit is given, the shorter of the two
WEIGHT_DECAY, BETA_2 = 0.01, 0.98  # of `adamw`
BYTES = 4  # of a float32
COPIES = 4  # of each parameter: value, gradient and two moments of Adam
BEST = "best.npz"  # in the folder of a run: the weights of the best step
LEAST_INTERVAL = 10  # steps between two validations
LOSS = "val_loss"
# Parameters of a layer, as a multiple of the square of its width.
SQUARES = {"elman": 2, "gated": 4, "gru": 6, "min_gru": 2, "min_lstm": 3, "bag": 0}
SQUARES |= dict.fromkeys(("bert", "gpt", "transformer", "vit", *options.SPARSE), 12)
SQUARES |= {"linear_attention": 12, "gla": 13, "retention": 13, "delta_net": 13}
SQUARES |= {"mlstm": 13, "s4d": 10, "mamba": 6, "rwkv4": 13, "rwkv7": 12}
SQUARES["conformer"] = 24
SQUARES_OF_LSTM = 8  # of any other layer: 4 gates, each of input and state
# In how many parts a batch is computed, by `--micro-batches`.
parts: contextvars.ContextVar[int] = contextvars.ContextVar("parts", default=1)


def set_patience(settings: SimpleNamespace, is_own: bool) -> None:
    """Sets the patience if it is not given: 5 for the user's own data, else 0.

    Args:
        settings: Arguments of the run.
        is_own: Whether it has a file of the user.

    Examples:
        >>> settings = SimpleNamespace(patience=None)
        >>> set_patience(settings, is_own=True)
        >>> settings.patience
        5
    """
    if settings.patience is None:
        settings.patience = PATIENCE if is_own else 0


def number_of_steps(
    settings: SimpleNamespace,
    steps_per_epoch: int,
    epochs: float = options.EPOCHS,
    at_least: int = 1,
) -> int:
    """Returns the number of training steps that `--steps` or `--epochs` mean.

    With `--patience` they are a limit: if none is given, that of small data is higher.

    Args:
        settings: Arguments of the run.
        steps_per_epoch: Steps of a pass over the data.
        epochs: Passes, if neither is given.
        at_least: The least number of steps, if neither is given.

    Examples:
        >>> settings = SimpleNamespace(steps=None, epochs=None, patience=5)
        >>> number_of_steps(settings, 17), number_of_steps(settings, 1000)
        (1020, 10000)
    """
    if settings.steps:
        return settings.steps
    if getattr(settings, "patience", 0) and not settings.epochs:
        epochs = max(epochs, min(LONG_EPOCHS, FEW_STEPS / steps_per_epoch))
    least = 1 if settings.epochs else at_least
    return max(least, math.ceil((settings.epochs or epochs) * steps_per_epoch))


def adam(
    rate: float,
    steps: int,
    warm_up: int = 0,
    *,
    first: float = 0.0,
    last: float = 0.0,
    weight_decay: float | None = None,
    beta_2: float = 0.999,
) -> "keras.optimizers.Optimizer":
    """Returns Adam, whose learning rate rises, and then falls by a cosine.

    Args:
        rate: The highest learning rate.
        steps: Training steps.
        warm_up: The steps in which it rises.
        first: The learning rate of the first step, if it rises.
        last: The learning rate of the last step, as a fraction of `rate`.
        weight_decay: That of AdamW, which is used if it is given.
        beta_2: How much of the mean square of the gradients each step keeps.

    Examples:
        >>> [float(adam(0.5, 10, warm_up).learning_rate) for warm_up in (0, 2)]
        [0.5, 0.0]
    """
    import keras

    decay = keras.optimizers.schedules.CosineDecay
    if warm_up:
        rising = {"warmup_target": rate, "warmup_steps": warm_up}
        rates = decay(first, max(steps - warm_up, 1), last, **rising)
    else:
        rates = decay(rate, max(steps, 1), last)
    more = {"beta_2": beta_2, "global_clipnorm": 1.0}
    if weight_decay is None:
        return keras.optimizers.Adam(rates, **more)
    return keras.optimizers.AdamW(rates, weight_decay=weight_decay, **more)


def adamw(settings: SimpleNamespace, steps: int) -> "keras.optimizers.Optimizer":
    """Returns AdamW whose rate rises in `--warm-up` steps, and then falls to 0.

    Args:
        settings: Arguments of the run.
        steps: Training steps.
    """
    warm_up, rate = min(settings.warm_up, steps // 2), settings.learning_rate
    of_adam = {"weight_decay": WEIGHT_DECAY, "beta_2": BETA_2}
    return adam(rate, steps, warm_up, first=rate / (warm_up + 1), **of_adam)


def check_memory(
    settings: options.Settings,
    rows: int,
    vocabulary_size: int = 0,
    patches: int | None = None,
) -> None:
    """Raises if model and batch cannot fit into the memory of this machine.

    A backend reports this in its own words, or is killed by the system. The estimate is
    a lower bound: it refuses only what cannot work, and its message says so.

    Args:
        settings: Arguments of the run.
        rows: Number of examples: a batch has no more.
        vocabulary_size: Width of the logits, if the model has them at each step.
        patches: For images the number of patches, which are the time steps.

    Raises:
        UsageError: If they cannot fit. The message has the sizes and the memory.
    """
    model = getattr(settings, "model", "transformer")  # of pictures and captions
    names = model if isinstance(model, list) else [model]
    squares = min(SQUARES.get(name, SQUARES_OF_LSTM) for name in names)
    count = settings.num_layers * squares * settings.units**2
    count += 2 * vocabulary_size * settings.units
    sizes = f"--units {settings.units:,} and --num-layers {settings.num_layers:,}"
    _check_bytes(count * COPIES * BYTES, f"{sizes} need at least {count:,} parameters")
    batch = -(-min(settings.batch_size, rows) // parts.get())
    time_steps = getattr(settings, "sequence_length", 1)
    length = f"--sequence-length {time_steps:,}"
    if patches is not None:
        time_steps, length = patches, f"{patches:,} patches of --patch-size"
    # The backward pass needs outputs of each kernel, unless it computes them again.
    kept = 1 if getattr(settings, "remat", None) else max(1, squares // 2)
    if getattr(settings, "loss_chunk_size", None):
        vocabulary_size = 0  # the logits of few positions exist at a time
    width = kept * settings.num_layers * settings.units + vocabulary_size
    values = batch * time_steps * width
    sizes = f"--batch-size {batch:,}, {length}, {sizes}"
    _check_bytes(values * BYTES, f"{sizes} need at least {values:,} values in a step")


def _check_bytes(needed, what):
    if needed > checks.memory():
        raise UsageError(
            f"{what}, which take {needed / 2**30:,.0f} GiB or more; this machine has "
            f"{checks.memory() / 2**30:,.0f} GiB. Choose smaller sizes; those that "
            "take half of it are on the safe side"
        )


# When a run stops


class Stop(NamedTuple):
    """Why a run stopped, and which weights it keeps.

    Attributes:
        reason: "patience", "steps" or "minutes".
        step: The step whose weights are kept.
        loss: Their loss on the validation part; None without one.
    """

    reason: str
    step: int
    loss: float | None = None

    def sentence(self, steps: int, patience: int | None) -> str:
        """Says which step was best and why training stopped.

        Args:
            steps: The number of steps that were trained.
            patience: Validations without a better loss that were allowed.

        Examples:
            >>> Stop("patience", 40, 0.25).sentence(90, 5)
            'Training stopped after 90 steps, as 5 validations brought no lower loss. \
The weights of step 40 are kept: validation loss 0.25.'
        """
        why = {
            "patience": f", as {patience} validations brought no lower loss",
            "minutes": ", as --max-minutes are over",
            "steps": ", the limit of --steps or --epochs",
        }[self.reason]
        first = f"Training stopped after {steps:,} steps{why}."
        if self.loss is None:
            return first
        kept = f"The weights of step {self.step:,} are kept"
        return f"{first} {kept}: validation loss {self.loss:.4g}."


def losses_of(history: Sequence[dict[str, float]]) -> list[float]:
    """Returns the validation losses of the intervals; infinity in place of NaN."""
    losses = [float(numbers.get(LOSS, math.inf)) for numbers in history]
    return [math.inf if math.isnan(loss) else loss for loss in losses]


def best_of(history: Sequence[dict[str, float]]) -> int:
    """Returns the index of the interval with the lowest validation loss.

    Examples:
        >>> best_of([{"val_loss": 3.0}, {"val_loss": 2.0}, {"val_loss": 2.5}])
        1
    """
    return int(np.argmin(losses_of(history)))


def is_improving(history: Sequence[dict[str, float]]) -> bool:
    """Returns whether the last validation of a run brought the lowest loss.

    Examples:
        >>> is_improving([{"val_loss": 3.0}, {"val_loss": 2.0}]), is_improving([{}])
        (True, False)
    """
    is_validated = bool(history) and LOSS in history[-1]
    return is_validated and best_of(history) == len(history) - 1 > 0


def is_over(history: Sequence[dict[str, float]], patience: int | None) -> bool:
    """Returns whether the last validations brought no lower loss.

    Examples:
        >>> is_over([{"val_loss": 2.0}, {"val_loss": 3.0}, {"val_loss": 2.5}], 2)
        True
    """
    if not patience or not history or LOSS not in history[-1]:
        return False
    return len(history) - 1 - best_of(history) >= patience


def interval(
    settings: options.Settings, steps_per_epoch: int, steps: int, validation: Any
) -> int:
    """Returns the steps between two checkpoints: about an epoch with a validation part.

    Args:
        settings: Arguments of the run.
        steps_per_epoch: Steps of a pass over the data.
        steps: Steps of the run.
        validation: The validation part, or None.

    Examples:
        >>> settings = options.Settings(checkpoint_every=100)
        >>> interval(settings, 17, 900, None), interval(settings, 17, 900, "a part")
        (100, 17)
    """
    longest = min(settings.checkpoint_every, steps)
    if validation is None:
        return longest
    return min(longest, max(steps_per_epoch, LEAST_INTERVAL))


def reason(
    history: Sequence[dict[str, float]],
    steps: int,
    patience: int | None,
    has_best: bool,
) -> Stop:
    """Returns why a run stopped, and which weights it keeps.

    Args:
        history: Its history, with the step of each interval.
        steps: The steps that were allowed.
        patience: Intervals without a lower loss that were allowed, or None.
        has_best: Whether it has the best weights.

    Examples:
        >>> losses = [{"step": 10, "val_loss": 2.0}, {"step": 20, "val_loss": 3.0}]
        >>> reason(losses, 90, 1, has_best=True)
        Stop(reason='patience', step=10, loss=2.0)
    """
    done, why = history[-1]["step"], "steps"
    if done < steps:
        why = "patience" if is_over(history, patience) else "minutes"
    if not patience:
        return Stop(why, done)
    best = history[best_of(history) if has_best else -1]
    return Stop(why, best["step"], best[LOSS])
