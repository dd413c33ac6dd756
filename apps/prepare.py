"""Trains every model that the pages need, as before a lecture: `app --prepare`."""

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


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # At exit the runs save. A second Ctrl-C, as the command sends, does not end it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("stopped; the same command continues", file=sys.stderr)
        sys.exit(130)
