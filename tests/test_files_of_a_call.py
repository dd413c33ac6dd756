"""How many files of the package a call runs through: few, so that it is soon read."""

import pathlib
import sys

import keras
import pytest

import kerasseq

pytestmark = pytest.mark.everywhere("each backend has files of its own")

HOME = str(pathlib.Path(kerasseq.__file__).parent)


def files_of(call):
    """The files of kerasseq whose functions run in a call, after a first call."""
    call()
    found = set()

    def collect(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HOME):
            found.add(name.removeprefix(HOME))

    sys.setprofile(collect)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(found)


def test_a_recurrent_layer_runs_through_few_files():
    layer = kerasseq.layers.PeepholeLSTM(3, return_sequences=True)
    x = keras.ops.ones((2, 7, 5))
    # Without XLA TensorFlow has equations of its own, and the loop that runs them.
    most = 13 if keras.backend.backend() == "tensorflow" else 12
    files = files_of(lambda: layer(x))
    assert "/rnn/loop.py" in files
    assert len(files) <= most, files


def test_attention_runs_through_few_files():
    layer = kerasseq.layers.MultiHeadAttention(2, 3)
    x = keras.ops.ones((2, 7, 5))
    files = files_of(lambda: layer(x, x, use_causal_mask=True))
    assert "/attention/multi_head.py" in files
    assert len(files) <= 10, files
