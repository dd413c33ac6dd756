"""Trains every model that the pages need, as before a lecture: `app --prepare`."""

import contextlib
import signal
import sys
import time

from streamlit.logger import set_log_level


def main() -> int:
    """Trains what is missing, two at a time; returns the exit code."""
    set_log_level("ERROR")  # the parts warn that there is no page
    from parts import places, prepared, runs, work

    work.one_thread()
    backend = work.backend()
    manager = runs.Runs(places.runs())
    names = list(prepared.recipes())
    missing = [n for n in names if prepared.find(manager, n, backend) is None]
    print(f"{len(names) - len(missing)} of {len(names)} models are ready on {backend}")
    started = time.monotonic()
    found = {name: prepared.make(manager, name, backend) for name in missing}
    failed = []
    while found:
        time.sleep(1)
        for name, run in list(found.items()):
            now = manager.run(runs.EVERYBODY, run.id)
            if now.is_active:
                continue
            del found[name]
            seconds = time.monotonic() - started
            print(f"{name}: {now.state} after {seconds:.0f} s", now.message, flush=True)
            if now.state != "finished":
                failed.append(name)
    if failed:
        print(f"not ready: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def end_as_interrupted() -> None:
    """Lets Ctrl-C, SIGTERM and a closed terminal end the program: the runs save.

    What `nohup` ignores stays ignored; below a background process Ctrl-C does not.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        ignored = number and signal.getsignal(number) is signal.SIG_IGN
        if number and not (ignored and name == "SIGHUP"):
            signal.signal(number, _interrupt)


def _interrupt(number, frame):
    """Ends the program, once: a signal may come from several sides."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    end_as_interrupted()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # At exit the runs save. A closed terminal cannot be written to.
        with contextlib.suppress(OSError):
            print("stopped; the same command continues", file=sys.stderr, flush=True)
        sys.exit(130)
