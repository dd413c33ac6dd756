"""Stands for `kerasseq train`: writes progress as the command does, without Keras.

    python -m tests.apps.stub FOLDER STEPS SECONDS_PER_STEP [--fail]

It resumes after the last step, and stops at the file `stop` and at Ctrl-C.
"""

import json
import pathlib
import signal
import sys
import time

from kerasseq.core.progress import SAVE, STOP, ProgressFile


def main(folder, steps, seconds, fail=""):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text("{}")
    state = "finished"
    with ProgressFile(folder) as file:
        first = file.last.get("step", 0)
        line = {"state": "starting", "pid": 1, "steps": int(steps), "time": time.time()}
        try:
            for step in range(first + 1, int(steps) + 1):
                time.sleep(float(seconds))
                line |= {"state": "training", "step": step, "time": time.time()}
                file.append(line | {"loss": 1 / step, "accuracy": 1 - 0.5 / step})
                if (folder / SAVE).exists():
                    (folder / "model.keras").write_text(f"a model of step {step}")
                    (folder / SAVE).unlink()
                if (folder / STOP).exists():
                    (folder / STOP).unlink()
                    raise KeyboardInterrupt
                if fail:
                    raise ValueError("planted")
        except KeyboardInterrupt:
            state = "stopped"
        except ValueError as error:
            state, line["message"] = "failed", str(error)
        if state == "finished":  # before its last line, as the command does
            (folder / "results.json").write_text(json.dumps({"accuracy": {}}))
            (folder / "model.keras").write_text("a model")
        file.append(line | {"state": state})


if __name__ == "__main__":
    # As the command does: in a background process SIGINT is ignored otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(*sys.argv[1:])
