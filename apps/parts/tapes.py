"""The neural Turing machine of the lab Tape, which `prepare_tape.py` has trained."""

import pathlib
from typing import Any

import numpy as np

UNITS, PLACES, COLUMNS, BITS = 64, 32, 16, 8
TRAINED = 10  # vectors of the longest sequence in training
PATTERNS = ("random", "stairs", "same")
FILE = pathlib.Path(__file__).parent.parent / "prepared" / "tape.npz"
HEADS = ("write_weights", "read_weights")


def machine() -> Any:
    """Returns a network that reads vectors and a mark, and writes logits of bits."""
    import keras

    from kerasseq import layers

    x = keras.Input((None, BITS + 1))
    cell = layers.NTMCell(UNITS, PLACES, COLUMNS)
    h = layers.RNN(cell, return_sequences=True, name="machine")(x)
    return keras.Model(x, keras.layers.Dense(BITS, name="logits")(h))


def trained() -> Any:
    """Returns the machine with its weights, which are stored as half floats."""
    model = machine()
    with np.load(FILE) as arrays:
        model.set_weights([arrays[name].astype("float32") for name in arrays])
    return model


def vectors(pattern: str, length: int, seed: int) -> np.ndarray:
    """Returns what is to be copied, `(length, 8)`, 0 or 1."""
    if pattern == "random":
        return np.random.default_rng(seed).integers(0, 2, (length, BITS))
    if pattern == "stairs":
        return np.eye(BITS, dtype=int)[np.arange(length) % BITS]
    return np.tile(np.random.default_rng(seed).integers(0, 2, BITS), (length, 1))


def copied(pattern: str, length: int, seed: int) -> dict[str, np.ndarray]:
    """Returns what the machine reads and writes, and what is inside.

    Returns:
        "wanted" and "written" `(length, 8)`, the second the probabilities of 1;
        "write_weights" and "read_weights" `(steps, places)`; "tape" `(steps, places,
        columns)`, after each of the `2 length + 1` steps.
    """
    import keras

    from kerasseq import tracing

    wanted = vectors(pattern, length, seed)
    x = np.zeros((1, 2 * length + 1, BITS + 1), "float32")
    x[0, :length, :BITS] = wanted
    x[0, length, BITS] = 1
    model = trained()
    with tracing.trace(model) as inside:
        logits = keras.ops.convert_to_numpy(model(x))
    found = {name: np.asarray(inside[f"machine/{name}"])[0] for name in HEADS}
    steps = {name: values.reshape(2 * length + 1, -1) for name, values in found.items()}
    return {
        "wanted": wanted,
        "written": 1 / (1 + np.exp(-logits[0, length + 1 :])),
        **steps,
        "tape": np.asarray(inside["machine/tape"])[0],
    }
