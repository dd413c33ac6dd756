"""A recurrent language model one token at a time, as generating needs it."""

import keras
from keras import ops, tree

from kerasseq import kernels


class Stepper:
    """One step of a chain of recurrent layers, compiled once for all texts.

    Args:
        embedding: The layer that turns ids into vectors.
        recurrent: The `kerasseq.layers.RNN`s, in order.
        logits: The layer that scores the next token.
        pure: Whether the layers are known to have no effects.
    """

    def __init__(self, embedding, recurrent, logits, *, pure):
        self.first = [layer.get_initial_state(1) for layer in recurrent]
        ids = keras.Input(batch_shape=(1, 1), dtype="int32")
        states = tree.map_structure(
            lambda s: keras.Input(batch_shape=s.shape, dtype=s.dtype), self.first
        )
        x, after = embedding(ids), []
        for layer, state in zip(recurrent, states, strict=True):
            x, state = layer.advance(x, state)
            after.append(state)
        inputs = [ids, *tree.flatten(states)]
        outputs = [logits(x[:, -1]), *tree.flatten(after)]
        self.call = kernels.inference(keras.Model(inputs, outputs), pure=pure)

    def __call__(self, ids, states=None):
        """Read ids one by one.

        Args:
            ids: At least one id.
            states: What an earlier call gave; None to start.

        Returns:
            Logits of the next token, `(1, vocabulary)`, and the states to go on from.
        """
        flat = tree.flatten(self.first) if states is None else states
        for token in ids:
            token = ops.convert_to_tensor([[token]], "int32")
            logits, *flat = self.call([token, *flat])
        return ops.convert_to_numpy(logits), flat
