"""Ctrl-C waits for the end of a block."""

import os
import signal
import threading

import pytest

from kerasseq.core.interrupts import deferred_interrupt

pytestmark = pytest.mark.once("signals")


def test_the_block_is_finished_before_the_interrupt():
    before, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("block")
    assert done == ["block"] and signal.getsignal(signal.SIGINT) is before


def test_an_error_of_the_block_is_raised():
    with pytest.raises(ZeroDivisionError), deferred_interrupt():
        1 / 0  # noqa: B018


def test_other_threads_have_no_signals():
    done = []

    def work():
        with deferred_interrupt():
            done.append("block")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["block"]
