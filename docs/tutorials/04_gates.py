# %% [markdown] title
# # Gates: gated RNN, LSTM, peepholes and GRU

# %% [markdown] goals
# After this tutorial you will be able to
#
# - write the equations of a gated RNN, an LSTM, an LSTM with peepholes and a GRU, and
#   say what each gate multiplies;
# - compute an LSTM with peepholes with `keras.ops`, and the same with one layer;
# - measure when gates help, and read in the cell state what a trained LSTM has stored.

# %% [markdown] imports_about
# The tutorial needs kerasseq, Keras and matplotlib, and downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq
from kerasseq.tracing import plots

# %% [markdown] settings_about
# All settings are in one place. Change them and run again.

# %% settings
examples, test_examples = 20_000, 1000
epochs, short_epochs = 3, 2
units, many_units = 32, 128
learning_rate, batch_size = 0.005, 64
seed = 0

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    examples, test_examples, epochs, short_epochs = 64, 8, 1, 1
    units, many_units = 4, 8

# %% [markdown] question
# ## The question
#
# An Elman network overwrites its whole state at every step, and the gradient of a late
# error shrinks or grows at each step on its way back
# ([Why it forgets](03_forgetting.md)). **Can a network keep a number for fifty steps
# and change it at each of them?**
#
# The task of this tutorial needs exactly that. A string of parentheses is balanced if
# each one that is opened is closed later, and none is closed too early. To decide this
# from left to right one has to count: plus one for `(`, minus one for `)`. The cell
# below prints one string of each class. In *hard* strings only one symbol is wrong, so
# that no part of the string is enough to give the answer.

# %% data
long = kerasseq.datasets.parentheses(
    examples, colors=1, lengths=(40, 60), kind="hard", seed=seed
)
for label in (1, 0):
    row = long.ids[list(long.labels).index(label)]
    print("balanced  " if label else "unbalanced", "".join(" ()"[i] for i in row))

# %% [markdown] data_after
# The two strings look alike. A network gets one id per symbol, 1 for `(`, 2 for `)` and
# 0 for the padding at the end, and answers after the last symbol.

# %% [markdown] equation
# ## The equations
#
# A **gate** is a vector of numbers between 0 and 1, computed from the input and the
# state by a sigmoid $\sigma$, that multiplies another vector element by element
# ($\odot$). Near 0 it blocks, near 1 it lets pass. In all equations $x_t$ is the input
# at step $t$ as a row, $h_t$ the state, and $W$, $U$ and $b$ are learned.
#
# The **gated RNN** has a single gate. It mixes the old state with a candidate
# $\bar h_t$, which is an Elman network's new state:
#
# $$
# \begin{aligned}
# z_t &= \sigma(x_t W_z + h_{t-1} U_z + b_z) \\
# \bar h_t &= \mathrm{ReLU}(x_t W_h + h_{t-1} U_h + b_h) \\
# h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot \bar h_t
# \end{aligned}
# $$
#
# With $z_t = 1$ the state is copied exactly, and so is the gradient. The **LSTM**
# separates what is stored, the cell state $c_t$, from what is shown, $h_t$, and has
# three gates: forget $f_t$, input $i_t$ and output $o_t$.
#
# $$
# \begin{aligned}
# i_t &= \sigma(x_t W_i + h_{t-1} U_i + p_i \odot c_{t-1} + b_i) \\
# f_t &= \sigma(x_t W_f + h_{t-1} U_f + p_f \odot c_{t-1} + b_f) \\
# g_t &= \tanh(x_t W_g + h_{t-1} U_g + b_g) \\
# c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
# o_t &= \sigma(x_t W_o + h_{t-1} U_o + p_o \odot c_t + b_o) \\
# h_t &= o_t \odot \tanh(c_t)
# \end{aligned}
# $$
#
# The terms with $p$ are the **peepholes**: each gate may use the cell state of its own
# unit, also while the output gate hides it. Without them, $p = 0$. Note the fourth
# line: with $f_t = 1$ the cell state is a sum, and a sum can count.
#
# The **GRU** has no cell state. Its update gate $z_t$ keeps the state as in the gated
# RNN, and its reset gate $r_t$ decides how much of the state the candidate uses:
#
# $$
# \begin{aligned}
# z_t &= \sigma(x_t W_z + h_{t-1} U_z + b_z) \\
# r_t &= \sigma(x_t W_r + h_{t-1} U_r + b_r) \\
# \hat h_t &= \tanh(x_t W_h + r_t \odot (h_{t-1} U_h + b'_h) + b_h) \\
# h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot \hat h_t
# \end{aligned}
# $$

# %% [markdown] scratch_about
# ## From scratch
#
# The function below is the LSTM with peepholes, line by line. The four matrices $W_i$,
# $W_f$, $W_g$ and $W_o$ stand side by side in one array `W`, so that one product per
# step computes all of them; `ops.split` separates the results.


# %% scratch tags=["scratch"]
def lstm(x, W, U, b, p):
    """Returns all states (batch, time, units) of an LSTM with peepholes."""
    batch, time, _ = x.shape
    p_i, p_f, p_o = p
    h = c = ops.zeros((batch, U.shape[0]))
    states = []
    for t in range(time):
        z = ops.matmul(x[:, t], W) + ops.matmul(h, U) + b
        z_i, z_f, z_g, z_o = ops.split(z, 4, axis=-1)
        i = ops.sigmoid(z_i + p_i * c)
        f = ops.sigmoid(z_f + p_f * c)
        g = ops.tanh(z_g)
        c = f * c + i * g
        o = ops.sigmoid(z_o + p_o * c)
        h = o * ops.tanh(c)
        states.append(h)
    return ops.stack(states, axis=1)


# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.PeepholeLSTM` takes its weights in the same order: `W`, `U`, `b` and
# the peepholes. The cell gives it random weights, calls both, and prints the largest
# difference of two states.

# %% same
rng = np.random.default_rng(seed)
x = rng.normal(size=(2, 7, 5)).astype("float32")
layer = kerasseq.layers.PeepholeLSTM(3, return_sequences=True)
layer.build(x.shape)
weights = [rng.normal(size=w.shape).astype("float32") for w in layer.get_weights()]
layer.set_weights(weights)
ours = lstm(*map(ops.convert_to_tensor, (x, *weights)))
gap = np.abs(ops.convert_to_numpy(layer(x)) - ops.convert_to_numpy(ours)).max()
print("shapes of the weights", [w.shape for w in weights])
print("largest difference   ", "below 1e-5" if gap < 1e-5 else gap)

# %% [markdown] same_after
# The difference is rounding. The layer multiplies all inputs by `W` at once, before its
# loop over time; only the products with `U` depend on the step before.

# %% [markdown] race
# ## The race
#
# `SequenceClassifier` is an embedding, a recurrent network and a dense layer on its
# last state. The function trains one and measures its accuracy on strings that it has
# not seen. The same call trains every kind of network; only the name differs.


# %% train
def train(cell, units, data, test, epochs):
    """Returns a trained network, its accuracy on new strings, and its history."""
    keras.utils.set_random_seed(seed)
    model = kerasseq.models.SequenceClassifier(cell, 2, vocabulary_size=3, units=units)
    model.compile(keras.optimizers.Adam(learning_rate), metrics=["accuracy"])
    history = model.fit(
        data.ids, data.labels, batch_size=batch_size, epochs=epochs, verbose=0
    )
    found = model.evaluate(
        test.ids, test.labels, batch_size=500, verbose=0, return_dict=True
    )
    print(f"{cell:14}{units:4} units  {found['accuracy']:.3f}")
    return model, found["accuracy"], history.history["accuracy"]


test = kerasseq.datasets.parentheses(
    test_examples, colors=1, lengths=(40, 60), kind="hard", seed=seed + 1
)
lstm_model, lstm_accuracy, _ = train("lstm", units, long, test, epochs)
_, peephole_accuracy, _ = train("peephole_lstm", units, long, test, epochs)
_, elman_accuracy, _ = train("elman", units, long, test, epochs)

# %% [markdown] race_after
# Half of the strings are balanced, so guessing gives one half. On lengths 40 to 60 the
# Elman network reaches {{ elman_accuracy | percent }}, the LSTM
# {{ lstm_accuracy | percent }} and the LSTM with peepholes
# {{ peephole_accuracy | percent }}, after the same number of steps.

# %% [markdown] inside
# ## Look inside
#
# What does the LSTM store? The next cell records the states while the trained network
# reads one balanced string, computes how many parentheses are open after each symbol,
# and chooses the unit whose cell state is most correlated with this number.

# %% inside_figure tags=["figure"]
chosen = list(test.labels).index(1)
row = test.ids[chosen][test.ids[chosen] > 0]
with kerasseq.tracing.trace(lstm_model) as inside:
    lstm_model(row[None])
path = next(key for key in inside if key.endswith("/cell_state"))
cell_state = np.asarray(inside[path])[0]
depth = np.cumsum(np.where(row == 1, 1, -1))
correlations = [abs(np.corrcoef(depth, c)[0, 1]) for c in cell_state.T]
unit = int(np.nanargmax(correlations))
correlation = float(correlations[unit])

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 3.6), sharex=True)
above.step(range(1, len(row) + 1), depth, where="mid", color="C1")
above.set_ylabel("open\nparentheses")
below.plot(range(1, len(row) + 1), cell_state[:, unit], color="C0")
below.set_ylabel("cell state\nof one unit")
below.set_xlabel("symbols read")
figure

# %% [markdown] inside_figure_caption
# Two curves over the symbols of a balanced string: the number of open parentheses, and
# the cell state of one unit of the LSTM, which rises and falls with it or against it.
#
# The number of open parentheses (above) and the cell state of unit {{ unit }} (below).
# Their correlation is {{ correlation | number(2) }} in absolute value.

# %% [markdown] inside_after
# The cell state of this unit rises and falls with the number of open parentheses, or
# against it if its sign is negative. Nothing in the training named this number: the
# network got only the answer at the end. The gates at the same steps show how the unit
# keeps it.

# %% gates_figure tags=["figure"]
figure = plots.plot_gates(
    inside,
    tokens="".join(" ()"[i] for i in row),
    gates=["forget_gate", "input_gate", "output_gate"],
    title="",
)
figure.set_size_inches(7, 4)
figure

# %% [markdown] gates_figure_caption
# Three heat maps of the forget, input and output gate of each unit at each symbol.
#
# The gates of all units. A row of the forget gate that stays near 1 belongs to a unit
# that keeps its cell state.

# %% [markdown] gates_after
# Compare the rows: in some units the forget gate hardly moves, in others it changes
# with every symbol. The input gate and the candidate then decide what is added.

# %% [markdown] misconception
# ## A misconception
#
# *"An LSTM is better than an Elman network everywhere, and the Elman network only fails
# for want of units."* Both halves can be tested. The first: train both on short
# strings, of lengths 4 to 20. The second: give the Elman network four times as many
# units for the long strings.

# %% [markdown] experiment
# ## The experiment
#
# The cell trains the Elman network and the LSTM on short strings, and a large Elman
# network on long ones. `result` is the number of this tutorial.

# %% short_and_large
short = kerasseq.datasets.parentheses(
    examples, colors=1, lengths=(4, 20), kind="hard", seed=seed
)
short_test = kerasseq.datasets.parentheses(
    test_examples, colors=1, lengths=(4, 20), kind="hard", seed=seed + 1
)
print("lengths 4 to 20")
_, short_elman, _ = train("elman", units, short, short_test, short_epochs)
_, short_lstm, _ = train("lstm", units, short, short_test, short_epochs)
print("lengths 40 to 60")
_, large_elman, _ = train("elman", many_units, long, test, epochs)
result, result_name = lstm_accuracy, "accuracy of the LSTM on lengths 40 to 60"

# %% [markdown] race_figure_about
# The figure compares all of them.

# %% race_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(6.5, 3.2))
groups = {
    "Elman": (short_elman, elman_accuracy),
    "Elman, more units": (None, large_elman),
    "LSTM": (short_lstm, lstm_accuracy),
    "LSTM, peepholes": (None, peephole_accuracy),
}
for n, (name, pair) in enumerate(groups.items()):
    places = [side + 0.2 * (n - 1.5) for side in (0, 1) if pair[side] is not None]
    heights = [height for height in pair if height is not None]
    axis.bar(places, heights, 0.18, label=name, color=f"C{n}")
axis.axhline(0.5, color="0.5", linestyle="--", linewidth=1)
axis.set_xticks([0, 1], ["lengths 4 to 20", "lengths 40 to 60"])
axis.set_ylabel("accuracy on new strings")
axis.set_ylim(0, 1.02)
figure.legend(loc="outside right center")
figure

# %% [markdown] race_figure_caption
# Bars of the accuracy on new strings: on short ones the Elman network and the LSTM are
# alike, on long ones only the networks with gates are above one half.
#
# Accuracy on new strings. The dashed line is guessing.

# %% [markdown] experiment_after
# On short strings the Elman network reaches {{ short_elman | percent }} and the LSTM
# {{ short_lstm | percent }}. On long ones {{ many_units }} units give the Elman network
# {{ large_elman | percent }}, and {{ units }} units give the LSTM
# {{ lstm_accuracy | percent }}. What the Elman network lacks is not room for the
# number, but a path on which the gradient survives fifty steps. Where the distance is
# short it needs no gates, and has fewer parameters and less work per step.

# %% [markdown] exercises
# ## Exercises
#
# 1. Count the parameters of each kind of layer with {{ units }} units and 8 inputs.
#    Explain the ratios by the equations.
# 2. Show that an LSTM with peepholes equals `keras.layers.LSTM` if the peepholes are
#    zero.
# 3. Force the forget gate of the trained LSTM to 0, then to 1, while it reads the test
#    strings. Which accuracy do you expect in each case?

# %% count_parameters tags=["solution"]
for name in ("ElmanRNN", "GatedRNN", "GRU", "LSTM", "PeepholeLSTM"):
    counted = getattr(kerasseq.layers, name)(units)
    counted.build((None, None, 8))
    print(f"{name:14}{counted.count_params():6}")

# %% [markdown] count_parameters_after
# A set of $W$, $U$ and $b$ is needed for each gate and for the candidate: one in an
# Elman network, two in a gated RNN, three in a GRU, four in an LSTM. The GRU of Keras
# has one bias more, $b'$; the peepholes add three vectors.

# %% zero_peepholes tags=["solution"]
with_peepholes = kerasseq.layers.PeepholeLSTM(3)
without = keras.layers.LSTM(3)
with_peepholes.build(x.shape)
without.build(x.shape)
without.set_weights(weights[:3])
with_peepholes.set_weights([*weights[:3], np.zeros((3, 3))])
first, second = map(ops.convert_to_numpy, (with_peepholes(x), without(x)))
gap = np.abs(first - second).max()
print("largest difference", "below 1e-5" if gap < 1e-5 else gap)

# %% [markdown] zero_peepholes_after
# The first three weights of both layers have the same shapes and the same order.

# %% forced_gates tags=["solution"]
for value in (0.0, 1.0):
    changes = {path.replace("cell_state", "forget_gate"): value}
    with kerasseq.tracing.intervene(lstm_model, changes):
        answers = ops.convert_to_numpy(lstm_model(test.ids)).argmax(-1)
    print(f"forget gate {value:.0f}: accuracy {np.mean(answers == test.labels):.3f}")

# %% [markdown] forced_gates_after
# With a forget gate of 0 no cell state outlives a step, and the answer depends on the
# last symbols. With a gate of 1 nothing is ever forgotten: the count survives, but
# also what the other units would have removed.

# %% [markdown] summary
# ## What was seen
#
# - A gate multiplies a stored vector by numbers between 0 and 1. At 1 the state and its
#   gradient are copied.
# - On strings of 40 to 60 symbols the LSTM reached {{ lstm_accuracy | percent }} and
#   the Elman network {{ elman_accuracy | percent }}, or {{ large_elman | percent }}
#   with four times as many units.
# - On strings of 4 to 20 symbols the Elman network reached
#   {{ short_elman | percent }}.
# - The cell state of one unit followed the number of open parentheses, with a
#   correlation of {{ correlation | number(2) }}.

# %% [markdown] questions
# ## Questions that the code can answer
#
# 1. Does a GRU learn the long strings in the same number of steps? Replace `"lstm"` by
#    `"gru"` in one call of `train`, then increase `epochs`.
# 2. At which length does the Elman network begin to fail? Change the lengths of
#    `short` and `short_test`.
# 3. Does the LSTM count beyond what it has seen? Evaluate `lstm_model` on strings of
#    lengths 80 to 100.

# %% [markdown] references
# ## References
#
# - S. Hochreiter and J. Schmidhuber, "Long Short-Term Memory", Neural Computation,
#   1997.
# - F. Gers, N. Schraudolph and J. Schmidhuber, "Learning Precise Timing with LSTM
#   Recurrent Networks", JMLR, 2002: the peepholes.
# - K. Cho et al., "Learning Phrase Representations using RNN Encoder–Decoder for
#   Statistical Machine Translation", EMNLP, 2014: the GRU.
# - Slides A, C and D. Labs *Memory race* and *Gates* of the app (`kerasseq app`).
