# %% [markdown] title
# # A network with memory: the Elman network

# %% [markdown] goals
# After this tutorial you will be able to
#
# - compute the states of an Elman network with `keras.ops`, and the same with one
#   layer;
# - compute its gradients by backpropagation through time, and compare them with those
#   of automatic differentiation;
# - measure what a trained network has stored in its state, and on which lengths it
#   works.

# %% [markdown] imports_about
# The tutorial needs kerasseq, Keras and matplotlib, and downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_about
# All settings are in one place. Change them and run again.

# %% settings
examples, test_examples = 6000, 1000
epochs, units = 5, 16
learning_rate, batch_size = 0.005, 64
seeds = (0, 1)
read, full = 12, 20  # the probe looks at the state after 12 of 20 symbols

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    examples, test_examples, epochs, units, seeds = 128, 60, 1, 4, (0,)

# %% [markdown] question
# ## The question
#
# An [n-gram model](01_words.md) uses a context of fixed length: what lies before it
# has no effect. Many questions about a sequence cannot be answered so. **Can a network
# read a sequence one symbol at a time, and carry in a vector of fixed size what it
# needs to answer at the end?**
#
# The task is an old one: is a string of parentheses balanced? It is if each
# parenthesis that is opened is closed later, and none is closed too early. The cell
# below samples strings of lengths 4 to 20 and prints the first three of each class.

# %% data
data = kerasseq.datasets.parentheses(examples, colors=1, lengths=(4, 20), seed=0)
test = kerasseq.datasets.parentheses(test_examples, colors=1, lengths=(4, 20), seed=1)
for label in (1, 0):
    for row in data.ids[data.labels == label][:3]:
        print("balanced  " if label else "unbalanced", "".join(" ()"[i] for i in row))

# %% [markdown] data_after
# A network gets one id per symbol, 1 for `(`, 2 for `)` and 0 for the padding at the
# end, and answers after the last symbol. Half of the strings are balanced, so guessing
# gives one half. To decide from left to right it is enough to know two things: how
# many parentheses are open, which is called the **depth**, and whether one was closed
# too early.

# %% [markdown] equation
# ## The equation
#
# Let $x_t$ be the vector of the symbol at step $t$, written as a row. A **recurrent
# network** has a state $h_t$, and computes it from the symbol and from the state
# before it. In an **Elman network**
#
# $$
# h_t = \mathrm{ReLU}(x_t W + h_{t-1} U + b), \qquad h_0 = 0
# $$
#
# where $\mathrm{ReLU}(z) = \max(z, 0)$ for each element. The matrices $W$ and $U$ and
# the vector $b$ are learned. They are the same at every step, so the number of weights
# does not depend on the length of the sequence.
#
# The network has one loss $L$, computed from the last state $h_T$, and every step has
# contributed to it. **Backpropagation through time** applies the chain rule from the
# last step to the first. Let $a_t = x_t W + h_{t-1} U + b$ be the pre-activation,
# $\odot$ the product of elements and $[a_t > 0]$ a vector of ones and zeros, which is
# the derivative of ReLU. With
#
# $$
# \delta_t = \frac{\partial L}{\partial h_t} \odot [a_t > 0], \qquad
# \frac{\partial L}{\partial h_{t-1}} = \delta_t U^\top
# $$
#
# the gradients are sums over all steps, since all steps share the weights:
#
# $$
# \frac{\partial L}{\partial W} = \sum_t x_t^\top \delta_t, \qquad
# \frac{\partial L}{\partial U} = \sum_t h_{t-1}^\top \delta_t, \qquad
# \frac{\partial L}{\partial b} = \sum_t \delta_t
# $$
#
# Each term of the first two sums is an outer product: a column times a row.

# %% [markdown] scratch_about
# ## From scratch
#
# The first function below is the loop of the equation, the second goes back over the
# same steps. Both take a batch of sequences; the product of a transposed batch with
# another is the sum of the outer products of its rows. A state is positive exactly
# where its pre-activation is.


# %% scratch tags=["scratch"]
def forward(x, W, U, b):
    """Returns the states h_0 … h_T, each (batch, units), of x (batch, time, n)."""
    states = [ops.zeros((x.shape[0], U.shape[0]))]
    for t in range(x.shape[1]):
        z = ops.matmul(x[:, t], W) + ops.matmul(states[-1], U) + b
        states.append(ops.relu(z))
    return states


def backward(x, states, U, dh):
    """Returns the terms of the gradients of W, U and b, from the last step back."""
    terms = []
    for t in reversed(range(x.shape[1])):
        delta = dh * ops.cast(states[t + 1] > 0, "float32")
        dW = ops.matmul(ops.transpose(x[:, t]), delta)
        dU = ops.matmul(ops.transpose(states[t]), delta)
        terms.append((dW, dU, ops.sum(delta, axis=0)))
        dh = ops.matmul(delta, ops.transpose(U))
    return terms


# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.ElmanRNN` takes `W`, `U` and `b` in this order. The next cell gives
# it random weights, computes the last state of two sequences with the layer and with
# the loop, and prints the largest difference.

# %% same
rng = np.random.default_rng(0)
x = rng.uniform(0, 1, size=(2, 5, 3)).astype("float32")
layer = kerasseq.layers.ElmanRNN(4)
small = keras.Sequential([keras.Input((5, 3)), layer])
shapes = [w.shape for w in layer.get_weights()]
before = [rng.uniform(-0.3, 0.7, shape).astype("float32") for shape in shapes]
layer.set_weights(before)
W, U, b = map(ops.convert_to_tensor, before)
states = forward(ops.convert_to_tensor(x), W, U, b)
h = ops.convert_to_numpy(states[-1])
gap = np.abs(ops.convert_to_numpy(small(x)) - h).max()
print("shapes of W, U and b", shapes)
print("largest difference  ", "below 1e-5" if gap < 1e-5 else gap)

# %% [markdown] same_after
# The difference is rounding. The next cell does the same with the gradients. For the
# targets $y$ the loss is the mean of $(h_T - y)^2$ over all its elements. The layer is
# trained for one step of gradient descent with a learning rate of 1. Such a step
# subtracts the gradient from the weights, so the weights before minus the weights
# after *are* the gradient that automatic differentiation has computed.

# %% gradients
y = rng.normal(size=h.shape).astype("float32")
small.compile(keras.optimizers.SGD(1.0), "mse")
small.train_on_batch(x, y)
automatic = [w - now for w, now in zip(before, layer.get_weights(), strict=True)]
dh = ops.convert_to_tensor(2 * (h - y) / y.size)
terms = backward(ops.convert_to_tensor(x), states, U, dh)
for n, name in enumerate("WUb"):
    parts = [ops.convert_to_numpy(term[n]) for term in terms]
    gap = np.abs(sum(parts) - automatic[n]).max()
    sizes = " ".join(f"{np.linalg.norm(part):5.2f}" for part in parts[::-1])
    print(f"{name}: difference", "below 1e-4" if gap < 1e-4 else gap, " terms", sizes)

# %% [markdown] gradients_after
# The sums agree with automatic differentiation up to rounding. The five numbers of a
# row are the norms of the terms of steps 1 to 5: how much each step contributed to the
# gradient. The first term of `U` is 0, since $h_0 = 0$. How these terms change when
# the sequence is long is the subject of [Why it forgets](03_forgetting.md).

# %% [markdown] training
# ## Training
#
# `SequenceClassifier` is an embedding, a recurrent network and a dense layer on its
# last state. The cell trains one for each seed and prints its accuracy on new strings
# after each epoch; the learning rate decreases from epoch to epoch. It also keeps a
# network that was not trained, for comparison.


# %% train
def make(seed):
    """Returns a network with random weights."""
    keras.utils.set_random_seed(seed)
    model = kerasseq.models.SequenceClassifier(
        "elman", 2, vocabulary_size=3, units=units
    )
    model.compile(keras.optimizers.Adam(learning_rate), metrics=["accuracy"])
    return model


def accuracy(model, ids, labels):
    """Returns the fraction of strings that are classified correctly."""
    scores = model.predict(ids, batch_size=500, verbose=0)
    return float(np.mean(scores.argmax(-1) == labels))


untrained = make(seeds[0])
models = [make(seed) for seed in seeds]
for seed, model in zip(seeds, models, strict=True):
    scores = []
    for epoch in range(epochs):
        model.optimizer.learning_rate = learning_rate / (1 + epoch)
        model.fit(data.ids, data.labels, batch_size=batch_size, verbose=0)
        scores.append(accuracy(model, test.ids, test.labels))
    print(f"seed {seed}:", *(f"{score:.3f}" for score in scores))
trained_accuracy = float(
    np.mean([accuracy(model, test.ids, test.labels) for model in models])
)

# %% [markdown] training_after
# After the last epoch the networks classify {{ trained_accuracy | percent }} of the
# new strings correctly, on average. The embedding and the network have learned this
# from the answers alone.

# %% [markdown] inside
# ## Look inside
#
# `kerasseq.tracing.trace` records all states while a network reads. The next cell does
# this for balanced strings of length {{ full }}, computes the depth after each symbol,
# and chooses the unit whose state is most correlated with the depth. The figure shows
# one string.

# %% states_figure tags=["figure"]
balanced = kerasseq.datasets.parentheses(
    2 * test_examples, colors=1, lengths=(full, full), kind="balanced", seed=2
)
ids = balanced.ids[:, :full]
symbols = np.where(ids == 1, 1, -1)
depth = np.cumsum(symbols, axis=1)


def states_of(model):
    """Returns the states (strings, time, units) while a network reads `ids`."""
    with kerasseq.tracing.trace(model) as inside:
        model(ids)
    path = next(key for key in inside if key.endswith("/hidden_state"))
    return np.asarray(inside[path])


hidden = states_of(models[0])
flat = hidden.reshape(-1, units)
used = np.flatnonzero(flat.std(axis=0) > 0)
correlations = [np.corrcoef(depth.ravel(), flat[:, u])[0, 1] for u in used]
best = int(np.argmax(np.abs(correlations)))
unit, correlation = int(used[best]), float(np.abs(correlations[best]))
deepest = int(depth.max(axis=1).argmax())

figure, (above, below) = plt.subplots(
    2, 1, figsize=(7, 3.8), sharex=True, height_ratios=(1, 2), layout="constrained"
)
above.plot(range(full), depth[deepest], "s-", color="C1", label="depth")
above.plot(range(full), hidden[deepest, :, unit], "o-", color="C0", label="one unit")
above.legend()
image = below.imshow(hidden[deepest].T, aspect="auto", interpolation="nearest")
below.set_xticks(range(full), ["()"[i - 1] for i in ids[deepest]])
below.set_yticks([])
below.set_ylabel("unit")
below.set_xlabel("symbols, in reading order")
figure.colorbar(image, ax=below, label="hidden state")
figure

# %% [markdown] states_figure_caption
# Above, two curves over the symbols of a string: the depth, and the state of one unit,
# which goes up and down with it or against it. Below, a heat map of all units.
#
# Above: the depth and the state of unit {{ unit }}. Below: the states of all
# {{ units }} units. Over all strings and steps the correlation of this unit with the
# depth is {{ correlation | number(3) }} in absolute value.

# %% [markdown] inside_after
# The training never named the depth, but a unit follows it: the state has become a
# counter. Compare the other rows of the heat map: some follow the depth as well, others
# react to the last symbols or stay at zero.

# %% [markdown] misconception
# ## A misconception
#
# *"The hidden state stores the sequence that was read."* If it did, one could read any
# of the first symbols out of a later state. Whether this is possible can be measured
# with a **linear probe**: a linear regression from the state to the quantity in
# question, fitted on one half of the strings and tested on the other.

# %% [markdown] experiment
# ## The experiment
#
# The cell takes the state after {{ read }} of {{ full }} symbols. One probe reads the
# depth; $R^2$ is the fraction of its variance that is explained, 1 if the probe is
# exact and 0 if it is no better than the mean. {{ read }} other probes read the
# symbols 1 to {{ read }}. They are compared with guessing: always the symbol that is
# the more frequent one at this position.


# %% probe
def probe(state, target):
    """Returns the predictions of a linear probe, fitted on every other string."""
    inputs = np.column_stack([state, np.ones(len(state))])
    coefficients = np.linalg.lstsq(inputs[::2], target[::2], rcond=None)[0]
    return inputs[1::2] @ coefficients


def r2(model):
    """Returns the R² of the depth, read from the state of a network."""
    target = depth[:, read - 1]
    errors = probe(states_of(model)[:, read - 1], target) - target[1::2]
    return float(1 - np.mean(errors**2) / np.var(target[1::2]))


depth_r2, untrained_r2 = r2(models[0]), r2(untrained)
opened = np.mean(symbols[1::2, :read] > 0, axis=0)
guessed = np.maximum(opened, 1 - opened)
found = np.array(
    [
        np.mean(
            (probe(hidden[:, read - 1], symbols[:, s]) > 0) == (symbols[1::2, s] > 0)
        )
        for s in range(read)
    ]
)
print(f"R2 of the depth: trained {depth_r2:.4f}, untrained {untrained_r2:.4f}")
print("symbol  ", *(f"{s + 1:5}" for s in range(read)))
print("probe   ", *(f"{value:5.2f}" for value in found))
print("guessing", *(f"{value:5.2f}" for value in guessed))
early_found, early_guessed = float(np.mean(found[:5])), float(np.mean(guessed[:5]))
last_read = float(found[-1])

# %% probe_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(6.5, 3), layout="constrained")
places = np.arange(1, read + 1)
axis.bar(places, found, 0.6, color="C0", label="probe on the state")
axis.step(places, guessed, where="mid", color="C1", linewidth=2, label="guessing")
axis.set_xticks(places)
axis.set_ylim(0.4, 1.02)
axis.set_xlabel("symbol to be read")
axis.set_ylabel("accuracy")
figure.legend(loc="outside upper center", ncols=2)
figure

# %% [markdown] probe_figure_caption
# Bars of the accuracy with which each symbol is read from the state after the last of
# them, and a line for guessing: bars and line are close for the early symbols.
#
# The state after {{ read }} symbols: how well each of them can be read from it. The
# axis begins below one half, which is guessing between two equally frequent symbols.

# %% [markdown] experiment_after
# The depth is read with an $R^2$ of {{ depth_r2 | number(3) }}, and of
# {{ untrained_r2 | number(2) }} if the network was not trained. Of the symbols 1 to 5
# the probes read {{ early_found | percent }} correctly, and guessing
# {{ early_guessed | percent }}; of the last symbol they read {{ last_read | percent }}.
# The state holds the depth and the last symbols, and of the early symbols a linear
# probe finds next to nothing. The state is not a copy of the string but a summary for
# the task.
#
# A network without a window is not bound to a length either: the same $W$, $U$ and $b$
# are applied at each step, and the training strings had at most 20 symbols. The last
# cell measures the accuracy on strings of one length each, and prints the mean of
# their greatest depths. The strings of the last row have length 100, too, but are
# composed of five strings of length 20, of which at most the first is unbalanced, so
# that they are hardly deeper than those of training. `result` is the mean over the
# seeds at length 30.


# %% longer
def deepest_of(ids):
    """Returns the greatest depth of each string."""
    return np.cumsum(np.choose(ids, (0, 1, -1)), axis=1).max(axis=1)


def measure(name, ids, labels):
    """Returns the mean accuracy over the seeds, and prints a row of the table."""
    scores = [accuracy(model, ids, labels) for model in models]
    print(f"{name:10}{deepest_of(ids).mean():5.1f} ", *(f"{s:.3f}" for s in scores))
    return float(np.mean(scores))


print("length    depth  accuracy by seed")
by_length = {}
for length in (20, 30, 40, 60, 100):
    strings = kerasseq.datasets.parentheses(
        test_examples, colors=1, lengths=(length, length), seed=3
    )
    by_length[length] = measure(str(length), strings.ids, strings.labels)
    if length == full:
        parts = [strings.ids[:, :full]]
        parts += [ids[n : n + test_examples] for n in (0, 7, 19, 31)]
        joined_ids, joined_labels = np.concatenate(parts, axis=1), strings.labels
joined = measure("100 joined", joined_ids, joined_labels)
at_40, at_100 = by_length[40], by_length[100]
trained_depth = int(deepest_of(data.ids).max())
result, result_name = by_length[30], "accuracy at length 30, trained on 4 to 20"

# %% [markdown] longer_after
# Trained on at most 20 symbols, the networks classify {{ result | percent }} of the
# strings of length 30 correctly, {{ at_40 | percent }} of those of length 40, and
# {{ at_100 | percent }} of those of length 100. Of the joined strings of the same
# length, it is {{ joined | percent }}. The number of steps alone explains only a part
# of the errors. Long random strings are also deeper, and the weights were fitted to
# depths up to {{ trained_depth }}: beyond them the state takes values that never
# occurred in training. How well a network counts there differs between runs.

# %% [markdown] exercises
# ## Exercises
#
# 1. How many weights has an Elman network with {{ units }} units and an embedding of
#    8 numbers? Compare with a dense layer of {{ units }} units on all symbols of a
#    string of length 20, then of length 100.
# 2. Take strings with the same last three symbols after {{ read }} symbols. How far
#    apart are the states of two of them if their depths are equal, and if not?
# 3. Set the state to zero after {{ read }} of {{ full }} symbols, and let the network
#    read the rest of the balanced strings. How many does it still call balanced?

# %% count_weights tags=["solution"]
counted = kerasseq.layers.ElmanRNN(units)
counted.build((None, None, 8))
print("Elman network    ", counted.count_params())
for length in (20, 100):
    print(f"dense, length {length:3}", (length * 8 + 1) * units)

# %% [markdown] count_weights_after
# The Elman network has $8 n$ weights in $W$, $n^2$ in $U$ and $n$ in $b$, with $n$ the
# number of units, at any length. Those of the dense layer grow with the length, and it
# accepts one length only.

# %% distances tags=["solution"]
at_read, last = hidden[:, read - 1], symbols[:, read - 3 : read]
group = np.flatnonzero((last == last[0]).all(axis=1))[:200]
apart = np.linalg.norm(at_read[group][:, None] - at_read[group][None], axis=-1)
equal = depth[group, read - 1][:, None] == depth[group, read - 1][None]
other = ~np.eye(len(group), dtype=bool)
print(f"mean distance, equal depths     {apart[equal & other].mean():6.3f}")
print(f"mean distance, different depths {apart[~equal].mean():6.3f}")

# %% [markdown] distances_after
# The first distance is the smaller one: strings that differ in their first symbols but
# agree in depth and last symbols lead to states that are close to each other. The rest
# of the string is not enough to separate them.

# %% erased tags=["solution"]
for name, changes in {
    "unchanged": {},
    "erased": {"elman/hidden_state": kerasseq.tracing.at(0.0, steps=read - 1)},
}.items():
    with kerasseq.tracing.intervene(models[0], changes):
        answers = ops.convert_to_numpy(models[0](ids)).argmax(-1)
    print(f"{name:10} called balanced: {np.mean(answers == 1):.3f}")

# %% [markdown] erased_after
# Without the state, the network begins again at depth zero, and the rest of the string
# closes more than it opens. Only where the depth was zero anyway should the answer
# stay the same.

# %% [markdown] summary
# ## What was seen
#
# - An Elman network applies the same weights at each step to the input and to its
#   state. Its gradient is a sum with one term for each step.
# - With {{ units }} units it learned to classify strings of 4 to 20 parentheses:
#   {{ trained_accuracy | percent }} of new ones were right.
# - A linear probe read the depth from its state with an $R^2$ of
#   {{ depth_r2 | number(3) }}, and of the first five symbols it read
#   {{ early_found | percent }}, where guessing gives {{ early_guessed | percent }}.
# - On strings of length 30, longer than all of training, it reached
#   {{ result | percent }}, and {{ at_100 | percent }} on random strings of length 100,
#   which are deeper than most strings of training.

# %% [markdown] questions
# ## Questions that the code can answer
#
# 1. How many units are enough? Change `units` to 2, 4 and 8.
# 2. How much does the accuracy at lengths 40 and 60 depend on the run? Change `seeds`
#    to `(2, 3, 4)`.
# 3. Does the network count further if the training strings are longer? Change the
#    lengths of `data` to `(4, 40)`.

# %% [markdown] references
# ## References
#
# - J. Elman, "Finding Structure in Time", Cognitive Science, 1990.
# - P. Werbos, "Backpropagation Through Time: What It Does and How to Do It",
#   Proceedings of the IEEE, 1990.
# - G. Alain and Y. Bengio, "Understanding Intermediate Layers Using Linear Classifier
#   Probes", 2016.
# - Slides A, B and C. Lab *Memory race* of the app (`kerasseq app`).
