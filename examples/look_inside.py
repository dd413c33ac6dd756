"""Train a small LSTM to count open parentheses, and plot its gates and states.

    python examples/look_inside.py gates.png

Takes about ten seconds on a laptop. Source: course slides C, the parenthesis task.
"""

import argparse

import kerasseq
import keras
import numpy as np
from kerasseq.tracing import plots

TEXT = "(()(()))((()())(()))()((()))"


def main(arguments=None):
    """Trains the model, traces it, and finds the unit that counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="gates.png", help="figure to write")
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args(arguments)

    # An opening parenthesis is +1, a closing one -1; the targets are the running sums.
    length = len(TEXT)
    data = kerasseq.datasets.parentheses(
        1000, colors=1, lengths=(length, length), kind="balanced", seed=0
    )
    symbols = np.array(data.sequences, "float32")[..., None]  # (B, T, 1)
    depth = np.cumsum(symbols, axis=1)

    keras.utils.set_random_seed(1)
    lstm = kerasseq.layers.LSTM(4, return_sequences=True, name="lstm")
    model = keras.Sequential([keras.Input((None, 1)), lstm, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.03), "mse")
    model.fit(symbols, depth, batch_size=64, epochs=options.epochs, verbose=0)

    x = np.array([1.0 if symbol == "(" else -1.0 for symbol in TEXT], "float32")
    with kerasseq.tracing.trace(model) as inside:
        y = keras.ops.convert_to_numpy(model(x[None, :, None]))[0, :, 0]
    print(f"largest error of the count: {np.max(np.abs(y - np.cumsum(x))):.2f}")

    cell_state = inside["lstm/cell_state"][0]  # (T, H)
    correlations = [np.corrcoef(unit, np.cumsum(x))[0, 1] for unit in cell_state.T]
    best = int(np.argmax(np.abs(correlations)))
    correlation = correlations[best]
    print(f"unit {best}: correlation {correlation:.2f} of cell state and depth")
    figure = plots.plot_gates(
        inside,
        tokens=TEXT,
        title=f"An LSTM counts open parentheses in the cell state of unit {best}",
    )
    figure.savefig(options.file, dpi=110)
    print(f"wrote {options.file}")


if __name__ == "__main__":
    main()
