"""Ctrl-C during training, taken between two steps: nothing is left half done."""

import signal
import threading

import keras

from kerasseq.cli.console import note


class Interrupt(keras.callbacks.Callback):
    """Turn the first Ctrl-C into a `KeyboardInterrupt` after the step that is running.

    A second one interrupts at once.
    """

    def __init__(self):
        super().__init__()
        self.asked = False
        self.before = None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self.ask)
        return self

    def __exit__(self, *exc_info):
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)

    def ask(self, signum, frame):
        """Note the wish of the user."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.asked = True
        note("stopping after this step; Ctrl-C again stops at once")

    def on_train_batch_end(self, batch, logs=None):
        if self.asked:
            raise KeyboardInterrupt
