"""Load Keras without the talk of its backend, which is no message of ours.

TensorFlow writes some lines past Python, to the file descriptor itself, whatever its
log level. What is not of that kind is printed all the same. Loads no Keras by itself.
"""

import contextlib
import os
import re
import sys
import tempfile

_TALK = re.compile(rb"(WARNING: All log messages before absl|[IWE]\d{4} \d\d:\d\d:)")


def load_keras():
    """Import Keras and its backend, which looks for its devices at the first tensor."""
    if "keras" not in sys.modules:
        with quiet():
            import keras

            keras.ops.zeros(())


def set_seed(seed):
    """Seed all that is random. Keras loads TensorFlow for that, if it is there."""
    import keras

    with quiet():
        keras.utils.set_random_seed(seed)


@contextlib.contextmanager
def quiet():
    """Hold back what is written to the file descriptor of stderr, and drop the talk."""
    try:
        sys.stderr.flush()
        before = os.dup(2)
    except (OSError, ValueError):  # there is no stderr: nothing to hold back
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            held.seek(0)
            for line in held:
                if not _TALK.match(line):
                    os.write(2, line)
