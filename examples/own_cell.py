r"""Write a recurrent cell, and train it beside the GRU.

    python examples/own_cell.py

The minimal gated unit has one gate less than the GRU:

    f = sigmoid(x W_f + h U_f + b_f)
    g = tanh(x W_g + (f * h) U_g + b_g)
    h' = (1 - f) * h + f * g

`project` is what does not depend on the state: `kerasseq.layers.RNN` calls it once for
all steps, and derives its loop from `step`. Takes half a minute on a laptop. Source:
Zhou et al. 2016; course slides C, the parenthesis task.
"""

import argparse
import time

import kerasseq
import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable("examples")
class MinimalGatedCell(keras.layers.Layer):
    """The minimal gated unit."""

    state_names = ("hidden_state",)  # in traces

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = self.output_size = units

    def build(self, input_shape):
        wide = 2 * self.units
        self.W = self.add_weight(shape=(input_shape[-1], wide), name="W")
        self.U = self.add_weight(shape=(self.units, wide), name="U")
        self.b = self.add_weight(shape=(wide,), initializer="zeros", name="b")

    def project(self, inputs, training=False):
        return ops.matmul(inputs, self.W) + self.b

    def step(self, projected, states, training=False):
        (h,) = states
        x_f, x_g = ops.split(projected, 2, axis=-1)
        U_f, U_g = ops.split(ops.convert_to_tensor(self.U), 2, axis=-1)
        f = ops.sigmoid(x_f + ops.matmul(h, U_f))
        f = kerasseq.tracing.record(self, "forget_gate", f)
        g = ops.tanh(x_g + ops.matmul(f * h, U_g))
        h = (1 - f) * h + f * g
        return h, [h]

    def call(self, inputs, states, training=False):
        return self.step(self.project(inputs), states)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def main(arguments=None):
    """Trains both cells on short strings, and tests them on longer ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--strings", type=int, default=8000)
    parser.add_argument("--units", type=int, default=32)
    options = parser.parse_args(arguments)

    size, units = options.strings, options.units
    train = kerasseq.datasets.parentheses(size, colors=1, seed=0)
    test = kerasseq.datasets.parentheses(500, colors=1, kind="hard", seed=1)
    for layer in (
        kerasseq.layers.RNN(MinimalGatedCell(units), name="minimal"),
        kerasseq.layers.GRU(units, name="gru"),
    ):
        keras.utils.set_random_seed(0)
        model = kerasseq.models.SequenceClassifier(layer, 2, vocabulary_size=3)
        model.compile(keras.optimizers.Adam(5e-3))
        model.train_on_batch(train.ids[:64], train.labels[:64])  # compiles
        start = time.perf_counter()
        model.fit(
            train.ids, train.labels, batch_size=64, epochs=options.epochs, verbose=0
        )
        seconds = time.perf_counter() - start
        found = np.argmax(model.predict(test.ids, verbose=0), axis=-1)
        accuracy = np.mean(found == test.labels)
        print(f"{layer.name:8} {accuracy:.1%} of the hard strings, {seconds:.0f} s")


if __name__ == "__main__":
    main()
