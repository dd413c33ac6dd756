"""When a run stops: after a signal, at the steps that are best, or by the clock.

Ctrl-C, SIGTERM and SIGHUP stop a run, also one that another program started. The losses
on the validation part stand in the history, which is a part of each checkpoint. So a
run that is resumed goes on counting, and needs no other state than the best weights.
Loads no Keras.
"""

import _thread
import contextlib
import math
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.cli import options

FILE = "best.npz"
LEAST_INTERVAL = 10  # steps between two validations
LOSS = "val_loss"
# A program in the background of a shell, or one whose parent ignores Ctrl-C, starts
# with SIGINT ignored.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANG_UP = getattr(signal, "SIGHUP", None)  # of a closed terminal; not on Windows
OUTPUTS = (1, 2)  # file descriptors
AGAIN = 0.05  # seconds until an interrupt that was lost is raised again


# Validation, steps and minutes


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


def is_over(history: Sequence[dict[str, float]], patience: int | None) -> bool:
    """Whether the last validations brought no lower loss.

    Examples:
        >>> is_over([{"val_loss": 2.0}, {"val_loss": 3.0}, {"val_loss": 2.5}], 2)
        True
    """
    if not patience or not history or LOSS not in history[-1]:
        return False
    return len(history) - 1 - best_of(history) >= patience


def interval(
    settings: options.Settings,
    steps_per_epoch: int,
    steps: int,
    validation: Any,
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


# Signals


@contextlib.contextmanager
def handled(handler: Callable[..., Any] = signal.default_int_handler) -> Iterator[None]:
    """Handles the signals until the block ends.

    SIGHUP is handled once, as shell and terminal may each send it. It stays ignored if
    it was before, as by `nohup`.

    Args:
        handler: The handler; by default one that raises `KeyboardInterrupt`.

    Yields:
        Nothing. Outside the main thread, where Python allows no handlers, this does
        nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = dict.fromkeys(SIGNALS, handler)
    if HANG_UP is not None and signal.getsignal(HANG_UP) is not signal.SIG_IGN:
        handlers[HANG_UP] = _HangUp(handler)
    before = {number: signal.signal(number, new) for number, new in handlers.items()}
    try:
        yield
    finally:
        for number, old in before.items():
            handled_once = signal.getsignal(number) is signal.SIG_IGN
            if not (handled_once and isinstance(old, _HangUp)):
                signal.signal(number, signal.SIG_DFL if old is None else old)


class _HangUp:
    """Handles the first SIGHUP, and ignores the others."""

    def __init__(self, handler: Callable[..., Any]):
        self.handler: Callable[..., Any] = handler

    def __call__(self, number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        _leave_terminal()
        self.handler(number, frame)


def _leave_terminal():
    """Discards further output to a terminal, as writing to a closed one fails."""
    null = os.open(os.devnull, os.O_WRONLY)
    for output in OUTPUTS:
        with contextlib.suppress(OSError):  # it may be closed
            if stat.S_ISCHR(os.fstat(output).st_mode):
                os.dup2(null, output)
    os.close(null)


def interrupt_at_once() -> None:
    """Lets the next signal raise `KeyboardInterrupt`, until the block of `handled`."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def none_lost() -> Iterator[None]:
    """Raises each `KeyboardInterrupt` again that Python drops, until the block ends.

    A handler runs between any two instructions, also inside a callback of the garbage
    collector (JAX has one), of a weak reference or in `__del__`. Python passes an error
    that is raised there to `sys.unraisablehook`, and the program goes on.

    Yields:
        Nothing.
    """
    before = sys.unraisablehook
    pending: list[threading.Timer] = []

    def hook(dropped):
        if dropped.exc_type is not KeyboardInterrupt:
            before(dropped)
            return
        # Not at once: the hook itself runs inside the callback.
        pending.append(threading.Timer(AGAIN, _thread.interrupt_main))
        pending[-1].daemon = True
        pending[-1].start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in pending:
            timer.cancel()
