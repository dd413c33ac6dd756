# %% [markdown] title
# # Why a recurrent network forgets

# %% [markdown] goals
# After this tutorial you will be able to
#
# - write the gradient with respect to an early state as a product of Jacobians, and
#   compute it with `keras.ops`;
# - predict from the spectral radius of the recurrent matrix and from the activation
#   whether the gradient vanishes or explodes, and say what a forget gate changes;
# - say what gradient clipping repairs, and what it does not.

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
units, distance = 32, 40
radii, forget_biases = (0.5, 1.0, 1.5), (0.0, 1.0, 3.0)
length, steps, batch_size, last = 30, 200, 32, 20
learning_rate, clip = 0.05, 1.0
seed = 0

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    units, distance, length, steps, batch_size, last = 4, 5, 5, 6, 2, 2

# %% [markdown] question
# ## The question
#
# A recurrent network can carry its state over any number of steps
# ([A network with memory](02_memory.md)). In principle its last state can depend on its
# first input. Training has to find the weights that do this, and it uses the gradient
# alone. **What becomes of the gradient on its way from the last step back to the
# first?**
#
# The task of this tutorial is the plainest one that needs a memory: read
# {{ length }} random numbers between $-1$ and $1$, and answer with the first. An answer
# of 0 whatever was read has a mean squared error of about $1/3$, the variance of these
# numbers. Only a network that kept the first number does better.

# %% data
rng = np.random.default_rng(seed)
numbers = rng.uniform(-1, 1, (steps, batch_size, length, 1)).astype("float32")
targets = numbers[:, :, 0]
zero_loss = float(np.mean(targets[-last:] ** 2))
print("batches, sequences, numbers:", numbers.shape[:3])
print(f"loss of always 0 on the last {last} batches: {zero_loss:.3f}")

# %% [markdown] data_after
# On the last {{ last }} batches, which all networks below are compared on, the loss of
# always answering 0 is {{ zero_loss | number(3) }}.

# %% [markdown] equation
# ## The equations
#
# An Elman network computes its state $h_t$ from the input $x_t$, a row, with an
# activation $f$; $W$, $U$ and $b$ are learned:
#
# $$
# z_t = x_t W + h_{t-1} U + b, \qquad h_t = f(z_t)
# $$
#
# The loss $L$ depends on the last state $h_T$. The chain rule gives its gradient with
# respect to the state $k$ steps earlier, as a product with one factor per step:
#
# $$
# \frac{\partial L}{\partial h_{T-k}} = \frac{\partial L}{\partial h_T}
# \prod_{t=T}^{T-k+1} \mathrm{diag}\big(f'(z_t)\big)\, U^\top
# $$
#
# Each factor is a **Jacobian**, the matrix of the derivatives of $h_t$ with respect to
# $h_{t-1}$. The **spectral radius** $\rho$ of $U$ is the largest absolute value of its
# eigenvalues. In a linear network, $f(z) = z$, the product is a power of $U^\top$. Its
# norm changes like $\rho^k$: it vanishes for $\rho < 1$ and explodes for $\rho > 1$.
# The derivative of $\tanh$ is $1 - h_t^2 \le 1$, so this activation can only make the
# factors smaller.
#
# An LSTM has a second path. Its cell state is
# $c_t = f_t \odot c_{t-1} + i_t \odot g_t$, where the forget gate $f_t$ lies between 0
# and 1 ([Gates](04_gates.md)). Along the cell state, without the paths through $h$,
# the factor of a step is the gate:
#
# $$
# \frac{\partial c_t}{\partial c_{t-1}} \approx \mathrm{diag}(f_t)
# $$
#
# **Gradient clipping** is a change of the update. If the norm of the gradient $g$ of
# all weights is larger than a limit $m$, it is scaled to $m$, with its direction kept:
#
# $$
# g \leftarrow g \cdot \min\left(1, \frac{m}{\lVert g \rVert}\right)
# $$

# %% [markdown] scratch_about
# ## From scratch
#
# The function runs the network forward and keeps the derivatives of the activation.
# Then it multiplies by one Jacobian after another, from the last step to the first, and
# notes the norm of the gradient each time. The loss is the simplest possible:
# $L = h_T v^\top$ with a random row $v$, so that $\partial L / \partial h_T = v$.


# %% scratch tags=["scratch"]
def gradient_norms(x, W, U, b, v, activation):
    """Returns the norms of dL/dh at distances 0, 1, 2, … divided by the first."""
    batch, time, _ = x.shape
    h = ops.zeros((batch, U.shape[0]))
    derivatives = []
    for t in range(time):
        z = ops.matmul(x[:, t], W) + ops.matmul(h, U) + b
        h = ops.tanh(z) if activation == "tanh" else z
        derivatives.append(1 - h**2 if activation == "tanh" else ops.ones_like(z))
    gradient = ops.tile(v, (batch, 1))
    norms = [np.linalg.norm(ops.convert_to_numpy(gradient))]
    for derivative in derivatives[:0:-1]:
        gradient = ops.matmul(gradient * derivative, ops.transpose(U))
        norms.append(np.linalg.norm(ops.convert_to_numpy(gradient)))
    return np.array(norms) / norms[0]


# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.ElmanRNN` is the layer. Its recurrent matrix starts as a random
# orthogonal matrix times `radius`, and thus has this spectral radius. Automatic
# differentiation, not our product, gives the gradients in
# `kerasseq.tracing.gradient_flow`: it takes a compiled model, inputs and targets, and
# returns the norm at each state. The cell compares both for each radius.


# %% same
def elman(radius, activation="tanh"):
    """Returns an Elman layer whose recurrent matrix has this spectral radius."""
    return kerasseq.layers.ElmanRNN(
        units,
        activation=activation,
        kernel_initializer=keras.initializers.GlorotUniform(seed=1),
        recurrent_initializer=keras.initializers.Orthogonal(gain=radius, seed=2),
        name="elman",
    )


def product(v, h):
    return ops.sum(v * h, axis=-1)


x = rng.normal(size=(2, distance + 1, 3)).astype("float32")
v = rng.normal(size=(1, units)).astype("float32")
for activation in ("linear", "tanh"):
    for radius in radii:
        layer = elman(radius, activation)
        model = keras.Sequential([keras.Input(x.shape[1:]), layer])
        model.compile(loss=product)
        flow = kerasseq.tracing.gradient_flow(model, x, np.tile(v, (2, 1)))
        theirs = flow["elman/hidden_state"][::-1]
        weights = map(ops.convert_to_tensor, layer.get_weights())
        ours = gradient_norms(x, *weights, v, activation)
        gap = np.abs(theirs / theirs[0] / ours - 1).max()
        gap = "below 1e-3" if gap < 1e-3 else gap
        print(f"{activation:7} radius {radius}: largest relative difference {gap}")

# %% [markdown] same_after
# The product of Jacobians is what automatic differentiation computes. The difference is
# rounding, over numbers of very different sizes.

# %% [markdown] distance_about
# `kerasseq.tracing.gradient_by_distance` does the same in one call, without a model or
# data: it feeds random vectors to a copy of the layer. The next cells take the norms at
# up to {{ distance }} steps and draw them.

# %% distances
norms = {}
for activation in ("linear", "tanh"):
    for radius in radii:
        found = kerasseq.tracing.gradient_by_distance(
            elman(radius, activation), distance
        )
        norms[activation, radius] = found["hidden_state"]
        last_norm = norms[activation, radius][-1]
        print(f"{activation:7} radius {radius}: {last_norm:8.1e} at {distance} steps")
linear_low, linear_one, linear_high = (float(norms["linear", r][-1]) for r in radii)
tanh_low, tanh_one, tanh_high = (float(norms["tanh", r][-1]) for r in radii)
low, one, high = radii

# %% distance_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 3.6))
names = ("radius 0.5", "radius 1", "radius 1.5")
for n, (name, radius) in enumerate(zip(names, radii, strict=True)):
    axis.plot(norms["linear", radius], color=f"C{n}", label=name)
    axis.plot(norms["tanh", radius], color=f"C{n}", linestyle="--")
axis.plot([], [], color="0.5", label="linear activation")
axis.plot([], [], color="0.5", linestyle="--", label="tanh activation")
axis.set_yscale("log")
axis.set_xlabel("distance k in steps")
axis.set_ylabel("norm of the gradient,\nrelative to k = 0")
figure.legend(loc="outside right center")
figure

# %% [markdown] distance_figure_caption
# Six curves of the norm of the gradient against the distance, on a logarithmic axis.
# The three of linear networks are straight: falling, level and rising. The three with
# tanh lie below them, and all fall.
#
# Norm of the gradient against the distance, for three spectral radii, with linear
# activation (solid) and with tanh (dashed). On the logarithmic axis a constant factor
# per step is a straight line.

# %% [markdown] distance_after
# With linear activation the norm at distance {{ distance }} is
# {{ linear_low | scientific }} for a radius of {{ low | number(1) }},
# {{ linear_one | number(3) }} for a radius of 1, and {{ linear_high | scientific }} for
# {{ high | number(1) }}: a power of the radius, as the equation says. Note that only
# the linear network explodes here. With $\tanh$ the norms are
# {{ tanh_low | scientific }}, {{ tanh_one | scientific }} and
# {{ tanh_high | scientific }}: the random inputs drive the states away from 0, and
# there the derivative is below 1. A network with $\tanh$ does explode at this radius
# if its states stay small, and the task below is such a case.

# %% [markdown] gate_about
# The LSTM has gates instead. The forget gate of an untrained LSTM is near $\sigma$ of
# its bias, the **forget bias**: one half for 0, close to 1 for 3. The cell takes the
# gradient with respect to the cell state for several biases. The last line sets a bias
# of 20, which makes the gate 1 within rounding, and the recurrent weights to 0, which
# cuts the paths through $h$.

# %% gates
lstm = kerasseq.layers.LSTM(
    units,
    kernel_initializer=keras.initializers.GlorotUniform(seed=1),
    recurrent_initializer=keras.initializers.Orthogonal(seed=2),
)
cell_norms = {}
for bias in forget_biases:
    found = kerasseq.tracing.gradient_by_distance(lstm, distance, forget_bias=bias)
    cell_norms[bias] = found["cell_state"]
    print(f"forget bias {bias:4.0f}: {cell_norms[bias][-1]:8.1e} at {distance} steps")
found = kerasseq.tracing.gradient_by_distance(
    lstm, distance, forget_bias=20.0, spectral_radius=0.0
)
cell_norms["one"] = found["cell_state"]
print(f"forget gate    1: {cell_norms['one'][-1]:8.6f} at {distance} steps, no paths h")
bias_0, bias_1, bias_3, gate_1 = (float(n[-1]) for n in cell_norms.values())

# %% gate_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 3.4))
names = ("forget bias 0", "forget bias 1", "forget bias 3", "forget gate 1")
for n, (name, values) in enumerate(zip(names, cell_norms.values(), strict=True)):
    axis.plot(values, color=f"C{n}", label=name)
axis.set_yscale("log")
axis.set_xlabel("distance k in steps")
axis.set_ylabel("norm of the gradient along c,\nrelative to k = 0")
figure.legend(loc="outside right center")
figure

# %% [markdown] gate_figure_caption
# Four curves of the gradient along the cell state against the distance: the larger the
# forget bias, the slower the fall; with a forget gate of 1 the curve is level.
#
# Gradient with respect to the cell state of an untrained LSTM. The nearer the forget
# gate is to 1, the slower it falls.

# %% [markdown] gate_after
# A forget bias of 0 leaves {{ bias_0 | scientific }} of the gradient, a bias of 1, the
# default of Keras, {{ bias_1 | scientific }}, and a bias of 3
# {{ bias_3 | number(2) }}. These three include the paths through $h$, which add to the
# gradient; the gate alone would leave less, $\sigma(3)^{40} \approx 0.14$ for the bias
# of 3. With a gate of 1 and no other path it is {{ gate_1 | number(3) }}: the cell
# state is copied, and so is its gradient. An LSTM is therefore not safe from vanishing
# gradients by its architecture alone. It can *learn* gates near 1, and the bias decides
# where it starts.

# %% [markdown] inside
# ## Look inside
#
# So far the loss was a random projection. `gradient_flow` shows the gradient of the
# real loss in the real task. The next cell builds the network of the experiment, a
# layer of {{ units }} units and a dense layer, and takes the gradient of its loss at
# each state, before any training.


# %% build
def build(radius, clip=None):
    """Returns a compiled network for the task."""
    output = keras.layers.Dense(
        1, kernel_initializer=keras.initializers.GlorotUniform(seed=3)
    )
    model = keras.Sequential([keras.Input((length, 1)), elman(radius), output])
    optimizer = keras.optimizers.SGD(learning_rate, global_clipnorm=clip)
    model.compile(optimizer, loss="mse")
    return model


flows = {}
for name, radius in zip(("low", "one", "high"), radii, strict=True):
    flow = kerasseq.tracing.gradient_flow(build(radius), numbers[0], targets[0])
    flows[name] = flow["elman/hidden_state"]
    ratio = flows[name][0] / flows[name][-1]
    print(f"radius {radius}: first state / last state {ratio:8.1e}")
ratio_low, ratio_one, ratio_high = (float(f[0] / f[-1]) for f in flows.values())

# %% inside_figure tags=["figure"]
figure = plots.plot_gradient_flow(
    {
        "ρ = 0.5/hidden_state": flows["low"],
        "ρ = 1/hidden_state": flows["one"],
        "ρ = 1.5/hidden_state": flows["high"],
    },
    tokens=[str(t) for t in range(1, length + 1)],
    title="",
)
figure.set_size_inches(7, 3.8)
figure

# %% [markdown] inside_figure_caption
# Three curves of the gradient of the loss at each of the states. With the small radius
# it is tiny at the first numbers; with the large radius it is largest there.
#
# Gradient of the loss at each state of the untrained network, on the first batch. The
# loss depends on the answer after the last number; the number to remember is the first.

# %% [markdown] inside_after
# Read the curves from right to left. At a radius of {{ low | number(1) }} the gradient
# at the first state, the one that matters for the task, is
# {{ ratio_low | scientific }} times the gradient at the last. At
# {{ high | number(1) }} it is {{ ratio_high | number(1) }} times as large. The single
# input is a small number here, so the states stay smaller than under the random vectors
# above, and $\tanh$ damps less.

# %% [markdown] misconception
# ## A misconception
#
# *"Gradient clipping cures the forgetting of recurrent networks."* If this were true, a
# network with vanishing gradients would learn the task once its gradient is clipped.

# %% [markdown] experiment
# ## The experiment
#
# Train the network at each of the three radii, with and without clipping the norm of
# the gradient to {{ clip | integer }}. All six see the same {{ steps }} batches. The
# cell prints the mean loss of the last {{ last }} steps. `result` is the number of this
# tutorial.


# %% experiment_run
def train(radius, clip):
    """Returns the loss of each training step."""
    model, losses = build(radius, clip), []
    for x, y in zip(numbers, targets, strict=True):
        model.reset_metrics()
        losses.append(float(model.train_on_batch(x, y)))
    return np.array(losses)


losses = {}
for radius in radii:
    for limit in (None, clip):
        losses[radius, limit] = train(radius, limit)
        end = losses[radius, limit][-last:].mean()
        print(f"radius {radius}  clip {limit!s:5} loss {end:.4f}")

low_plain, low_clipped = (float(losses[low, c][-last:].mean()) for c in (None, clip))
one_clipped, high_clipped = (float(losses[r, clip][-last:].mean()) for r in (one, high))
diverged = int(np.argmax(~np.isfinite(losses[high, None])))
result, result_name = low_clipped, "loss at radius 0.5, clipped"

# %% [markdown] losses_figure_about
# The figure shows the losses of the smallest and of the largest radius.

# %% losses_figure tags=["figure"]
figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharey=True)
names = ("radius 0.5", "radius 1.5")
for axis, name, radius in zip(axes, names, (low, high), strict=True):
    axis.plot(losses[radius, None], color="C1", label="unclipped")
    axis.plot(losses[radius, clip], color="C0", linestyle="--", label="clipped")
    axis.axhline(1 / 3, color="0.5", linestyle=":", linewidth=1, label="always 0")
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("training step")
axes[0].set_yscale("log")
axes[0].set_ylim(0.01, 100)
axes[0].set_ylabel("loss")
axes[0].legend()
figure

# %% [markdown] losses_figure_caption
# Two panels of the loss against the training step. At radius one half both curves lie
# on each other, at the level of always answering 0. At the large radius the unclipped
# loss leaves the panel at the top, and the clipped loss falls far below this level.
#
# Loss of each training step, without and with clipping. The dotted line is the loss of
# always answering 0. A curve that leaves the panel at the top has exploded.

# %% [markdown] experiment_after
# At a radius of {{ high | number(1) }} clipping decides everything: without it the loss
# is no longer a number after {{ diverged }} steps, with it the network ends at
# {{ high_clipped | number(3) }}. At a radius of {{ low | number(1) }} it decides
# nothing: {{ low_plain | number(4) }} without and {{ low_clipped | number(4) }} with
# clipping, where always answering 0 gives {{ zero_loss | number(3) }}. Clipping
# shortens gradients that are too long. A gradient that vanished stays vanished: no
# scaling of the whole update brings back the share of the first number. What helps is
# a factor per step near 1. At a radius of 1 the same network ends at
# {{ one_clipped | number(3) }}.

# %% [markdown] exercises
# ## Exercises
#
# 1. With $\tanh$ and random inputs, at which radius does a step back keep the norm of
#    the gradient, on average? Compute the mean factor per step for several radii.
# 2. The derivative of the sigmoid is at most $1/4$. What follows for the factor per
#    step? Check it for three radii.
# 3. Is a smaller limit always safer? Train at the largest radius with limits of 1,
#    $1/10$ and $1/30$.

# %% balanced_radius tags=["solution"]
for radius in (1.0, 1.5, 1.8, 1.9, 2.0, 2.5):
    found = kerasseq.tracing.gradient_by_distance(elman(radius), distance)
    factor = found["hidden_state"][-1] ** (1 / distance)
    print(f"radius {radius}: factor per step {factor:.2f}")

# %% [markdown] balanced_radius_after
# The factor grows more slowly than the radius: a larger $U$ gives larger states, and
# the derivative of $\tanh$ is smaller there.

# %% sigmoid_factor tags=["solution"]
for radius in (1.0, 2.0, 4.0):
    found = kerasseq.tracing.gradient_by_distance(elman(radius, "sigmoid"), 10)
    factor = found["hidden_state"][-1] ** (1 / 10)
    print(f"radius {radius}: factor per step {factor:.2f}, at most {radius / 4:.2f}")

# %% [markdown] sigmoid_factor_after
# This matrix multiplies every norm by exactly $\rho$, as it is orthogonal times $\rho$.
# So the factor is at most $\rho / 4$, and the gradient vanishes below a radius of 4.

# %% smaller_limits tags=["solution"]
for limit in (1.0, 1 / 10, 1 / 30):
    end = train(high, limit)[-last:].mean()
    print(f"limit {limit:.3f}: loss {end:.3f}")

# %% [markdown] smaller_limits_after
# With a small limit every step is short, whatever the gradient: the number of steps no
# longer suffices. The limit should be above the usual norm of the gradient, so that it
# cuts the exceptions only.

# %% [markdown] summary
# ## What was seen
#
# - The gradient with respect to an early state is a product with one Jacobian per step.
#   After {{ distance }} steps of a linear network its norm was
#   {{ linear_low | scientific }} for a spectral radius of {{ low | number(1) }}, and
#   {{ linear_high | scientific }} for {{ high | number(1) }}.
# - $\tanh$ damps: at a radius of 1 its norm was {{ tanh_one | scientific }}.
# - Along the cell state of an LSTM the factor of a step is the forget gate. With a
#   forget bias of 0 the norm was {{ bias_0 | scientific }}, with a bias of 3
#   {{ bias_3 | number(2) }}; with a gate of 1 it stayed {{ gate_1 | number(3) }}.
# - Clipping turned a training that exploded into a loss of
#   {{ high_clipped | number(3) }}, and left a training with vanishing gradients at
#   {{ low_clipped | number(3) }}, no better than always answering 0.

# %% [markdown] questions
# ## Questions that the code can answer
#
# 1. Over how many numbers can the network with radius 1 remember the first? Change
#    `length` in the settings.
# 2. Does a smaller learning rate make clipping unnecessary at the largest radius?
#    Change `learning_rate`.
# 3. What does ReLU do to the gradients? Replace `elman(radius)` by
#    `elman(radius, "relu")` in the first solution.

# %% [markdown] references
# ## References
#
# - S. Hochreiter, "Untersuchungen zu dynamischen neuronalen Netzen", diploma thesis,
#   TU München, 1991.
# - Y. Bengio, P. Simard and P. Frasconi, "Learning Long-Term Dependencies with Gradient
#   Descent Is Difficult", IEEE Transactions on Neural Networks, 1994.
# - R. Pascanu, T. Mikolov and Y. Bengio, "On the Difficulty of Training Recurrent
#   Neural Networks", ICML, 2013: the spectral radius, and clipping the norm.
# - R. Jozefowicz, W. Zaremba and I. Sutskever, "An Empirical Exploration of Recurrent
#   Network Architectures", ICML, 2015: the forget bias.
# - Slides A, B, C and D. Lab *Gradients* of the app (`kerasseq app`).
