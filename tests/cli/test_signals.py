"""Signals, also inside callbacks, where Python drops what a handler raises."""

import gc
import os
import signal
import sys
import time
import weakref

import pytest

from kerasseq.cli import control, quickstart

pytestmark = pytest.mark.once("signals of Python")


class Finalized:
    def __init__(self, signum):
        self.signum = signum

    def __del__(self):
        os.kill(os.getpid(), self.signum)


def in_gc(signum):
    def callback(phase, info):
        gc.callbacks.remove(callback)
        os.kill(os.getpid(), signum)

    gc.callbacks.append(callback)
    gc.collect()


def in_finalizer(signum):
    Finalized(signum)


def in_weak_reference(signum):
    kept = {1, 2}
    reference = weakref.ref(kept, lambda _: os.kill(os.getpid(), signum))
    del kept
    assert reference() is None


@pytest.mark.parametrize("signum", [*control.SIGNALS, signal.SIGHUP])
@pytest.mark.parametrize("send", [in_gc, in_finalizer, in_weak_reference])
def test_no_signal_is_lost(command, monkeypatch, send, signum):
    def run(args):
        with control.signals_handled():
            send(signum)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                time.sleep(0.01)

    monkeypatch.setattr(quickstart, "run", run)
    before = sys.unraisablehook
    assert command("quickstart", code=130).err == "kerasseq: stopped\n"
    assert sys.unraisablehook is before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_errors_of_callbacks_are_shown(command, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)

    def callback(phase, info):
        gc.callbacks.remove(callback)
        raise RuntimeError("of a callback")

    def run(args):
        gc.callbacks.append(callback)
        gc.collect()

    monkeypatch.setattr(quickstart, "run", run)
    command("quickstart")
    assert [each.exc_type for each in seen] == [RuntimeError]


def test_closed_terminal_stops_once():
    seen = []
    with control.signals_handled(lambda number, frame: seen.append(number)):
        with control.signals_handled(lambda number, frame: seen.append(-number)):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)  # of the shell, after that of the terminal
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [-signal.SIGHUP, signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_ignored_hang_up_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
    try:
        with control.signals_handled():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_output_to_a_closed_terminal_is_discarded(monkeypatch):
    terminal, output = os.openpty()
    monkeypatch.setattr(control, "OUTPUTS", (output,))
    with control.signals_handled(lambda *_: None):
        os.close(terminal)
        with pytest.raises(OSError):
            os.write(output, b"lost")
        os.kill(os.getpid(), signal.SIGHUP)
        os.write(output, b"discarded")
    os.close(output)
