"""What the lab Positions computes, in the worker: encodings and their criteria."""

import pathlib
from typing import Any

from parts import work

KINDS = ("sine", "learned", "binary", "amplitude")  # added to the tokens
KINDS += ("rotary", "alibi", "relative", "transformer_xl")  # inside the attention
BIASES = ("alibi", "relative", "transformer_xl")
TRAINED = ("learned", "sinusoidal", "rope", "alibi", "none")
HELD_OUT = 20_000  # characters of the reference that the models were not trained on
FACTOR = 8  # texts are so many times longer than those of the training
BIN = 4  # positions whose mean is drawn


def make(kind: str, length: int) -> Any:
    """Returns a layer of positions; that of a seed, if it has random weights."""
    import keras

    import kerasseq

    keras.utils.set_random_seed(0)
    layers = kerasseq.layers
    classes = {
        "sine": layers.SinePositionEncoding,
        "binary": layers.BinaryPosition,
        "amplitude": layers.AmplitudePosition,
        "rotary": layers.RotaryEmbedding,
        "alibi": layers.AlibiBias,
        "relative": layers.RelativePositionBias,
        "transformer_xl": layers.TransformerXLPosition,
    }
    if kind == "learned":
        return layers.PositionEmbedding(length)
    return classes[kind]()


def measure(kind: str, length: int, width: int) -> dict[str, Any]:
    """Returns an encoding and what it makes of pairs of positions.

    Returns:
        "code" `(length, width)`, or None for a bias; "relation" `(length, length)`, the
        distances of the encodings or the bias of the first head; "product", the dot
        products of the encodings or the same bias; "spread", how much the products of
        positions at the same distance differ.
    """
    import numpy as np

    from kerasseq import tracing

    layer = make(kind, length)
    relation = tracing.position_relation(layer, length, width)[..., 0]
    code, product = None, relation
    if kind not in BIASES:
        code = tracing.position_code(layer, length, width)
        product = code @ code.T
    offsets = range(1 - length, length)
    spread = max(float(np.ptp(np.diagonal(product, k))) for k in offsets)
    return {"code": code, "relation": relation, "product": product, "spread": spread}


def criteria(kind: str, length: int, width: int) -> dict[str, tuple[bool, Any]]:
    """Returns whether an encoding meets each of the five criteria, and the number."""
    from kerasseq import tracing

    found = tracing.position_criteria(make(kind, length), length, width)
    return {name: (bool(c.holds), c.value) for name, c in found.items()}


def beyond(folder: pathlib.Path) -> dict[str, Any]:
    """Returns how well a GPT predicts tokens beyond the length of its training.

    Returns:
        "trained", that length; "bits", the mean loss at the positions of each `BIN`.
        Learned positions end at the trained length.
    """
    import keras
    import numpy as np
    from keras import ops

    import kerasseq

    model = work.model(folder)
    trained = model.max_sequence_length
    ids = model.ids(kerasseq.datasets.python_reference()[-HELD_OUT:])
    length = FACTOR * trained
    rows = (len(ids) - 1) // length
    x, y = (ids[n : n + rows * length].reshape(rows, length) for n in (0, 1))
    length = model.context_length or length
    losses = [
        keras.losses.sparse_categorical_crossentropy(
            y[n : n + 16, :length], model(x[n : n + 16, :length]), from_logits=True
        )
        for n in range(0, rows, 16)
    ]
    bits = np.concatenate([ops.convert_to_numpy(loss) for loss in losses]) / np.log(2)
    return {
        "trained": trained,
        "bits": bits.mean(axis=0).reshape(-1, BIN).mean(axis=1).tolist(),
    }
