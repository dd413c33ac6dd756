"""The progress of runs of `kerasseq train`, for other programs. Loads no Keras.

A program starts the command in a process of its own, and follows the folder of the run:

    subprocess.Popen(["kerasseq", "train", "parentheses", "--run", "r"])
    lines, offset, restarted = kerasseq.runs.read_progress("r")
"""

from kerasseq.core.progress import (
    Progress,
    RunState,
    read_progress,
    read_state,
    request_model,
    request_stop,
)

__all__ = [
    "Progress",
    "RunState",
    "read_progress",
    "read_state",
    "request_model",
    "request_stop",
]
