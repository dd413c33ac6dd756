"""The process that exports a file: `python -m kerasseq.exporting.worker QUESTION`.

The question is a file of JSON that names the model, the folder, and the file of the
answer. What converters print goes to the log of this process.
"""

import errno
import json
import os
import pathlib
import signal
import sys
import threading
from typing import Any

import kerasseq.models  # noqa: F401  # registers every class
from kerasseq.core.loading import load_model
from kerasseq.exporting.failures import is_final
from kerasseq.exporting.writing import write_model


def main(question: str) -> None:
    """Answers a question: what was written, or why not.

    Args:
        question: The file.
    """
    request = json.loads(pathlib.Path(question).read_text(encoding="utf-8"))
    answer = pathlib.Path(request.pop("answer"))
    content = _answer(request)
    answer.write_text(json.dumps(content), encoding="utf-8")


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        model = load_model(request.pop("file"))
    except Exception as error:
        return {"damaged": str(error)}
    try:
        return write_model(model, pathlib.Path(request.pop("folder")), **request)
    except OSError as error:
        if not is_final(error):
            raise
        return {"errno": error.errno or errno.EIO}
    except MemoryError as error:
        return {"memory": str(error) or "no memory is left"}


def end_with_parent() -> None:
    """Ends this process as soon as the one that started it ends: nothing waits for it.

    The standard input, of which nothing is read, is then closed.
    """
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    main(sys.argv[1])
