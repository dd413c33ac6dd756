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
# All settings are in one place; change them and run again. `many_units` and
# `short_epochs` belong to the experiment at the end.

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
# error shrinks or grows at each step on its way back ([Why it
# forgets](03_forgetting.md)). **Can a network keep a number for fifty steps and change
# it at each of them?**
#
# Balanced parentheses ([A network with memory](02_memory.md)) need exactly that: the
# number of open ones, plus one at each `(`, minus one at each `)`. This time the
# strings have 40 to 60 symbols and are *hard*: an unbalanced string is a balanced one
# in which a single symbol was replaced, so that every symbol has to be counted. The
# cell prints one string of each class.

# %% data
long = kerasseq.datasets.parentheses(
    examples, colors=1, lengths=(40, 60), kind="hard", seed=seed
)
for label in (1, 0):
    row = long.ids[list(long.labels).index(label)]
    print("balanced  " if label else "unbalanced", "".join(" ()"[i] for i in row))

# %% [markdown] data_after
# The two strings look alike. As before, a network gets one id per symbol, 1 for `(`, 2
# for `)` and 0 for the padding at the end, and answers after the last symbol.

# %% [markdown] equation
# ## The equations
#
# A **gate** is a vector of numbers between 0 and 1 that multiplies another vector
# element by element ($\odot$). Near 0 it blocks, near 1 it lets pass. A sigmoid
# $\sigma(a) = 1 / (1 + e^{-a})$ computes it from the input $x_t$, a row, and from the
# state $h_{t-1}$. At the start $h_0 = 0$. The matrices $W$ and $U$ and the vectors $b$
# are learned; each gate has its own.
#
# The **gated RNN** has a single gate, $z_t$. (In the last tutorial $z_t$ was the
# pre-activation; from here on it is a gate, as in the papers.) It mixes the old state
# with a **candidate** $\bar h_t$, which is what an Elman network takes as its new
# state:
#
# $$
# \begin{aligned}
# z_t &= \sigma(x_t W_z + h_{t-1} U_z + b_z) \\
# \bar h_t &= \mathrm{ReLU}(x_t W_h + h_{t-1} U_h + b_h) \\
# h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot \bar h_t
# \end{aligned}
# $$
#
# Where $z_t = 1$ the state is copied exactly, and so is the gradient on its way back.
#
# The **LSTM** separates what is stored, the **cell state** $c_t$ with $c_0 = 0$, from
# its output $h_t$. Its candidate is called $g_t$. The **forget gate** $f_t$ multiplies
# the old cell state, the **input gate** $i_t$ the candidate, and the **output gate**
# $o_t$ the new cell state after a $\tanh$:
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
# The fourth line is the important one. With $f_t = 1$ and $i_t = 1$ the cell state is
# the sum of all candidates. If $g_t$ is positive at each `(` and equally negative at
# each `)`, this sum counts.
#
# The terms with $p$ are the **peepholes**. $p_i$, $p_f$ and $p_o$ are learned vectors,
# so that a gate depends on the cell state of its own unit only. Without them the gates
# depend on the cell states through $h_{t-1}$ alone, in which a unit with a closed
# output gate is 0. The usual LSTM, also that of Keras, has no peepholes: $p = 0$.
#
# The **GRU** has no cell state. Its **update gate** $z_t$ is the gate of the gated RNN.
# Its **reset gate** $r_t$ multiplies what the candidate gets from the old state,
# including a second bias $b'_h$:
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
# The function below is the LSTM with peepholes, line by line. $W_i$, $W_f$, $W_g$ and
# $W_o$ stand side by side in one array `W`, and `U` and `b` are built in the same way,
# so that one line computes the pre-activations `z` of all four; `ops.split` separates
# them. The rows of `p` are the three peepholes.


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
# `kerasseq.layers.PeepholeLSTM` has its weights in the same order: `W`, `U`, `b` and
# `p`. The cell gives it random weights, calls both versions on two sequences of seven
# vectors, and prints the largest difference between their states.

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
# The difference is rounding. Look at the shapes: with 5 inputs and 3 units, `W` has 5
# rows and 4 times 3 columns.

# %% [markdown] race
# ## The race
#
# `SequenceClassifier` is an embedding, which gives each id a learned vector, a
# recurrent network, and a dense layer on its last state. The function trains one and
# measures its accuracy on new strings. Only the name of the network differs between the
# calls.


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
# Half of the strings are balanced, so guessing gives one half. After the same number of
# training steps the Elman network reaches {{ elman_accuracy | percent }}, the LSTM {{
# lstm_accuracy | percent }} and the LSTM with peepholes {{ peephole_accuracy | percent
# }}.

# %% [markdown] inside
# ## Look inside
#
# What does the LSTM store? `kerasseq.tracing.trace` records its states and gates while
# the trained network reads one balanced string. The record is a dictionary whose keys
# end in `/cell_state`, `/forget_gate` and so on. The cell chooses the unit whose cell
# state is most correlated with the number of open parentheses.

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
# Above: the number of open parentheses. Below: the cell state of unit {{ unit }}. The
# two curves turn at the same symbols; if the lower one is upside down, the unit counts
# with the opposite sign. Their correlation is {{ correlation | number(2) }} in absolute
# value.

# %% [markdown] inside_after
# Nothing in the training named this number: the network got only the answer at the end
# of each string. The next figure shows the gates while it reads the same string.

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
# A row for each unit, a column for each symbol. A row of the forget gate that stays
# bright belongs to a unit that keeps its cell state; a row that changes with the
# symbols, to a unit that erases it at some of them. Find the row of unit {{ unit }}.

# %% [markdown] gates_after
# Where the forget gate is bright, the input gate and the candidate decide what is added
# to the cell state.

# %% [markdown] misconception
# ## A misconception
#
# *"An LSTM is better than an Elman network everywhere, and the Elman network only fails
# for want of units."* Both halves can be tested. The first: train both networks on
# short strings, of lengths 4 to 20. The second: give the Elman network four times as
# many units for the long strings.

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
# The figure compares all six trainings.

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
# Accuracy on new strings; the dashed line is guessing. Compare blue and green in both
# groups. The other two networks were trained on long strings only.

# %% [markdown] experiment_after
# On short strings the Elman network reaches {{ short_elman | percent }} and the LSTM {{
# short_lstm | percent }}. There it needs no gates, and it has fewer parameters and less
# work per step.
#
# On long strings the Elman network reaches {{ large_elman | percent }} with {{
# many_units }} units, the LSTM {{ lstm_accuracy | percent }} with {{ units }}. Room for
# the number is not what is missing: trained on short strings, an Elman network also
# classifies many of length 40 correctly ([A network with memory](02_memory.md)). So
# weights that can count do exist, but training on long strings does not find them. What
# is missing is a path on which the gradient survives fifty steps.

# %% [markdown] exercises
# ## Exercises
#
# 1. Count the parameters of `ElmanRNN`, `GatedRNN`, `GRU`, `LSTM` and `PeepholeLSTM` of
#    `kerasseq.layers` with {{ units }} units and 8 inputs: call `layer.build((None,
#    None, 8))`, then `layer.count_params()`. Explain the ratios by the equations.
# 2. Show that `PeepholeLSTM` equals `keras.layers.LSTM` if the peepholes are zero and
#    the other weights are the same.
# 3. Force the forget gate of the trained LSTM to 0, then to 1, while it reads the test
#    strings. `kerasseq.tracing.intervene(model, {key: value})` does so within a `with`
#    block; the keys are those of the trace. Which accuracy do you expect in each case?

# %% count_parameters tags=["solution"]
for name in ("ElmanRNN", "GatedRNN", "GRU", "LSTM", "PeepholeLSTM"):
    counted = getattr(kerasseq.layers, name)(units)
    counted.build((None, None, 8))
    print(f"{name:14}{counted.count_params():6}")

# %% [markdown] count_parameters_after
# A set of $W$, $U$ and $b$ is needed for each gate and for the candidate: one in an
# Elman network, two in a gated RNN, three in a GRU, four in an LSTM. The peepholes add
# three vectors. The GRU, as that of Keras, stores a second bias in each of its three
# sets. Only $b'_h$ makes a difference: in the gates the two biases are simply added,
# and the equations write their sum.

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
# With a forget gate of 0 no cell state outlives a step; only $h_{t-1}$ carries anything
# on. With a gate of 1 nothing is ever forgotten: the count survives, but so does what
# other units would have erased.

# %% [markdown] summary
# ## What was seen
#
# - A gate multiplies a stored vector by numbers between 0 and 1. At 1 the state and its
#   gradient are copied.
# - On strings of 40 to 60 symbols the LSTM reached {{ lstm_accuracy | percent }} and
#   the Elman network {{ elman_accuracy | percent }}, or {{ large_elman | percent }}
#   with four times as many units; on strings of 4 to 20 symbols it reached {{
#   short_elman | percent }}.
# - The cell state of one unit followed the number of open parentheses, with a
#   correlation of {{ correlation | number(2) }} in absolute value.

# %% [markdown] questions
# ## Questions that the code can answer
#
# 1. Does a GRU learn the long strings in the same number of steps, and a gated RNN?
#    Call `train("gru", units, long, test, epochs)`, then `train` with `"gated"`, then
#    both with more epochs.
# 2. At which length does the Elman network begin to fail? Change the lengths of `short`
#    and `short_test`, for example to `(20, 30)`.
# 3. Does the LSTM count beyond what it has seen? Sample strings of lengths 80 to 100 as
#    `test` was sampled, and give them to `lstm_model.evaluate`.

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
