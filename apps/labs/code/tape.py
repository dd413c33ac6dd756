"""The code that the lab Tape shows."""

COPY = """
import keras
import numpy as np

from kerasseq import datasets, layers, tracing
from kerasseq.tracing import plots

x = keras.Input((None, 9))  # 8 bits, and a mark after the last vector
h = layers.RNN(layers.NTMCell(64, 32, 16), return_sequences=True)(x)
model = keras.Model(x, keras.layers.Dense(8)(h))
loss = keras.losses.BinaryCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-2, global_clipnorm=10.0), loss)
random = np.random.default_rng(0)
for step in range(5):  # the machine of this page was trained for 1250 steps
    n, seed = int(random.integers(1, 11)), int(random.integers(2**31))
    data = datasets.copy_bits(16, lengths=(n, n), seed=seed)
    model.train_on_batch(data.x, data.y, data.weights)
data = datasets.copy_bits(1, lengths=({length}, {length}), seed={seed})
with tracing.trace(model) as inside:
    logits = keras.ops.convert_to_numpy(model(data.x))
right = (logits > 0) == data.y
print(right[data.weights > 0].mean(), "of the bits are right")
plots.plot_tape(inside).savefig("tape.png")
"""
