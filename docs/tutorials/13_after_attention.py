# %% [markdown] title
# # After attention: memories of constant size

# %% [markdown] goals
# After this tutorial you will be able to
#
# - write linear attention and the delta rule as a state that is updated step by step,
#   and say which weights of attention they correspond to;
# - measure how many pairs of keys and values such a state can hold;
# - train a model without attention that answers questions about what it has read, and
#   compute what it saves.

# %% [markdown] imports_text
# The tutorial needs kerasseq, Keras and matplotlib, and downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_text
# The settings: the width of keys and values, the numbers of pairs and the repetitions
# of the first experiment, and the model and its training in the second one.

# %% settings
width, numbers, repetitions = 32, (2, 4, 8, 12, 16, 24, 32, 48), 40
pairs, symbols, hidden_dim, steps, batch_size = 8, 32, 64, 500, 64

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    width, numbers, repetitions = 8, (2, 4, 8), 2
    pairs, symbols, hidden_dim, steps, batch_size = 3, 5, 8, 2, 4

# %% [markdown] question
# ## The question
#
# A Transformer that writes text keeps the keys and values of all tokens that it has
# read ([A Transformer](10_gpt.md)). This memory grows with the text, and each new token
# is compared with all of it. An LSTM keeps a state of constant size
# ([Gates](04_gates.md)), but has to compute its steps one after the other.
#
# **Can a state of constant size be read like attention, and what does it forget?**
#
# The task that separates memories is *recall*: a list of keys, each with a value, is
# read once; then a key is given, and its value is to be found. A dictionary does this,
# and so does attention.

# %% [markdown] equation
# ## The equations
#
# Attention without the softmax compares a query $q_t$ with all earlier keys $k_s$ and
# adds the values $v_s$ with these weights:
#
# $$
# y_t = \sum_{s \le t} (q_t^\top k_s)\, v_s
# $$
#
# A product of matrices may be computed in another order. The sum of the products
# $k_s v_s^\top$ is a matrix $S_t$, which does not depend on the query. It can be kept
# and updated, and the keys and values may be thrown away:
#
# $$
# S_t = S_{t-1} + k_t v_t^\top \qquad y_t = S_t^\top q_t
# $$
#
# This is **linear attention**: its cost grows with the length and not with its square.
# The first equation computes all steps at once in training, the second one token after
# the other. With orthogonal unit keys, reading with $q = k_s$ gives exactly $v_s$, as
# all other products vanish. In $d$ dimensions there are only $d$ orthogonal keys.
#
# The sum never takes anything away. The **delta rule** first reads what is stored under
# the key, and writes the difference only, by the share $\beta_t$ between 0 and 1:
#
# $$
# S_t = S_{t-1} + \beta_t\, k_t \bigl(v_t - S_{t-1}^\top k_t\bigr)^\top
# $$
#
# With $\beta_t = 1$ and a unit key, reading at once gives exactly $v_t$: what the state
# held under this key before is replaced.

# %% [markdown] scratch_text
# Both are loops over two or three lines.


# %% scratch tags=["scratch"]
def linear_attention(q, k, v):
    """y of the second equation; q and k (T, K), v (T, V)."""
    S, outputs = ops.zeros((k.shape[1], v.shape[1])), []
    for t in range(k.shape[0]):
        S = S + ops.outer(k[t], v[t])
        outputs.append(ops.matmul(q[t], S))
    return ops.stack(outputs)


def delta_rule(q, k, v, beta):
    """y of the last equation; beta (T,)."""
    q, k, v, beta = map(ops.convert_to_tensor, (q, k, v, beta))
    S, outputs = ops.zeros((k.shape[1], v.shape[1])), []
    for t in range(k.shape[0]):
        stored = ops.matmul(k[t], S)
        S = S + beta[t] * ops.outer(k[t], v[t] - stored)
        outputs.append(ops.matmul(q[t], S))
    return ops.stack(outputs)


# %% [markdown] scratch_after
# The first equation, with all weights at once, must give the same as the state.

# %% parallel
rng = np.random.default_rng(0)
q, k, v = (rng.normal(size=(20, width)).astype("float32") for _ in range(3))
weights = np.tril(q @ k.T)
difference = np.abs(weights @ v - ops.convert_to_numpy(linear_attention(q, k, v)))
print("largest difference:", float(difference.max() / np.abs(weights @ v).max()))

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers` has both as layers with several heads: `LinearAttention`, and
# `DeltaNet`, which computes $\beta_t$ from the input, makes queries and keys unit
# vectors, and divides queries by $\sqrt d$. With `gated=True` its state decays as well.
# A trace has what we need to do it by hand.

# %% library_equal
layer = kerasseq.layers.DeltaNet(1, width, gated=False, conv_kernel=None)
x = rng.normal(size=(1, 20, hidden_dim)).astype("float32")
layer(x)
with kerasseq.tracing.trace(layer) as inside:
    layer(x)


def unit(a):
    """Vectors of length 1."""
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


q, k, v = (inside[name][0, 0] for name in ("query", "key", "value"))
beta = inside["write"][0, 0]
by_hand = delta_rule(unit(q) / np.sqrt(width), unit(k), v, beta)
theirs = inside["heads"][0, 0]
difference = np.abs(ops.convert_to_numpy(by_hand) - theirs).max()
print("largest difference:", float(difference / np.abs(theirs).max()))

# %% [markdown] library_after
# The layer computes the steps in blocks of 64, with products of matrices inside a block
# and the state handed on between them: it is as parallel as attention. `advance`
# continues from a state, and any cut of a sequence gives the result of the whole.

# %% library_advance
whole = ops.convert_to_numpy(layer(x))
first, state = layer.advance(x[:, :13])
second, state = layer.advance(x[:, 13:], state)
parts = ops.convert_to_numpy(ops.concatenate([first, second], axis=1))
print("whole and parts:", float(np.abs(whole - parts).max()))
print("shape of the state:", tuple(state[0].shape))

# %% [markdown] inside
# ## Look inside
#
# What does a constant state save? For published models `kerasseq.models.costs` counts
# the memory that generation needs beside the weights, for one text.

# %% sizes
lengths = [2**n for n in range(7, 18)]
names = ("gpt2_small", "mamba_130m", "rwkv4_169m")
kept = {
    name: [
        kerasseq.models.costs(name, sequence_length=n).cache_bytes / 2**20
        for n in lengths
    ]
    for name in names
}
for name, sizes in kept.items():
    print(f"{name:12} {sizes[0]:8.2f} MiB for 128 tokens, {sizes[-1]:8.2f} for 131072")

# %% sizes_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
titles = {"gpt2_small": "GPT-2", "mamba_130m": "Mamba", "rwkv4_169m": "RWKV-4"}
for name, sizes in kept.items():
    axis.plot(lengths, sizes, "o-", label=titles[name])
axis.set_xscale("log", base=2)
axis.set_yscale("log")
axis.set_xlabel("tokens")
axis.set_ylabel("MiB")
axis.grid(alpha=0.3)
axis.legend()
plt.close(figure)
figure

# %% [markdown] sizes_figure_caption
# Three curves on logarithmic axes: one rises with the number of tokens, two are flat.
#
# What a model keeps of the text besides its weights, in 16-bit numbers, for three
# models of about the same size. Both axes are logarithmic.

# %% [markdown] sizes_after
# GPT-2 would need a thousand times as much for a thousand times as many tokens; the
# other two need the same for any text. Mamba and RWKV-4 have states of other kinds than
# our matrix, but the idea is the same: a recurrence that is linear in its state, so
# that all steps can be computed at once.

# %% [markdown] misconception
# ## A misconception
#
# > "A state of constant size forgets the oldest things first."
#
# It is what one knows from Elman networks, whose state is rewritten at each step ([Why
# a recurrent network forgets](03_forgetting.md)). For a matrix of keys and values
# it depends on how it is written. We fill it with more and more random pairs and ask
# for each of them, early ones and late ones.

# %% [markdown] experiment
# ## The experiment
#
# Keys are random unit vectors, values random signs. After all pairs are written, each
# key is asked, and the answer counts as right if all signs of the value are. No model
# is trained: this is the memory alone.


# %% capacity_run
def questions(number):
    """Random keys and values, and all keys again as questions."""
    keys = unit(rng.normal(size=(number, width)))
    values = np.sign(rng.normal(size=(number, width)))
    k = np.concatenate([keys, np.zeros_like(keys)])  # a question writes nothing
    v = np.concatenate([values, np.zeros_like(values)])
    q = np.concatenate([keys, keys])
    return [a.astype("float32") for a in (q, k, v, values)]


def right(y, values):
    """Whether all signs are right, for each pair."""
    answers = ops.convert_to_numpy(y)[len(values) :]
    return np.all(np.sign(answers) == values, axis=1)


def softmax_attention(q, k, v):
    """Attention to all pairs, which are kept; sharp enough for unit keys."""
    number = len(k) // 2
    weights = ops.softmax(40.0 * ops.matmul(q, ops.transpose(k[:number])))
    return ops.matmul(weights, v[:number])


rules = {
    "sum": linear_attention,
    "delta rule": lambda q, k, v: delta_rule(q, k, v, np.ones(len(k), "float32")),
    "softmax": softmax_attention,
}
found, compared = {rule: {} for rule in rules}, numbers[min(3, len(numbers) - 1)]
for number in numbers:
    drawn = [questions(number) for _ in range(repetitions)]
    for rule, answer in rules.items():
        hits = [right(answer(q, k, v), values) for q, k, v, values in drawn]
        found[rule][number] = np.mean(hits, axis=0)  # by the place of the pair
for rule, by_number in found.items():
    print(f"{rule:10}", *(f"{n}: {hits.mean():.2f} " for n, hits in by_number.items()))

# %% capacity tags=["figure"]
figure, (left, side) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for name, by_number in zip(
    ["sum", "delta rule", "softmax"], found.values(), strict=True
):
    left.plot(list(numbers), [hits.mean() for hits in by_number.values()], "o-")
    side.plot(by_number[compared], label=name)
left.axvline(width, color="gray", linestyle=":")
left.set_xlabel("pairs written")
left.set_ylabel("share of right answers")
side.set_xlabel("place of the pair, oldest first")
figure.legend(loc="outside right upper")
plt.close(figure)
figure

# %% [markdown] capacity_caption
# On the left three falling or flat curves against the number of pairs, on the right the
# share of right answers by the place of a pair.
#
# Left: right answers by the number of pairs; the dotted line is the width of the keys.
# Right: the same by the place of the pair, for one number of pairs.

# %% numbers_of_capacity
hits = {rule: by_number[compared] for rule, by_number in found.items()}
sum_right, delta_right = float(hits["sum"].mean()), float(hits["delta rule"].mean())
third = max(1, compared // 3)
sum_oldest, sum_newest = (
    float(hits["sum"][part].mean()) for part in (slice(third), slice(-third, None))
)
delta_oldest, delta_newest = (
    float(hits["delta rule"][part].mean())
    for part in (slice(third), slice(-third, None))
)
print(f"{compared} pairs       all  oldest third  newest third")
print(f"sum         {sum_right:7.2f}  {sum_oldest:12.2f}  {sum_newest:12.2f}")
print(f"delta rule  {delta_right:7.2f}  {delta_oldest:12.2f}  {delta_newest:12.2f}")

# %% [markdown] experiment_after
# With {{ compared | integer }} pairs the sum answers {{ sum_right | percent }} rightly,
# the delta rule {{ delta_right | percent }}. Random keys are not orthogonal, and the
# sum adds what it holds under all other keys to each answer. The delta rule removes
# this part from each new value, and so holds more in the same matrix. Softmax attention
# is right for any number, and pays with a memory that grows.
#
# Only the delta rule forgets the oldest first: {{ delta_oldest | percent }} of the
# oldest third are right and {{ delta_newest | percent }} of the newest, since each new
# pair changes what is stored under similar keys. The sum does not care for the order,
# {{ sum_oldest | percent }} and {{ sum_newest | percent }}: it does not forget, it
# blurs.

# %% [markdown] train_text
# Does a network learn to use such a memory? The second experiment trains a `GPT` with
# `DeltaNet` in place of attention, without positions. A text is a list of pairs, a key
# and then its value, and after it all keys in another order. The model answers with the
# values. To bind a key to the value that follows it, the layer has a short convolution
# over four tokens.


# %% train
def texts(number):
    """Ids, answers and where answers are, for `number` texts."""
    order = np.tile(np.arange(symbols), (number, 1))
    keys = rng.permuted(order, axis=1)[:, :pairs]
    values = rng.integers(0, symbols, (number, pairs))
    asked = rng.permuted(np.tile(np.arange(pairs), (number, 1)), axis=1)
    read = np.stack([keys, symbols + values], axis=2).reshape(number, 2 * pairs)
    x = np.concatenate([read, np.take_along_axis(keys, asked, 1)], axis=1)
    y = np.zeros_like(x)
    y[:, 2 * pairs :] = symbols + np.take_along_axis(values, asked, 1)
    return x, y, (y > 0).astype("float32")


def batches():
    """New texts for each step."""
    while True:
        yield texts(batch_size)


keras.utils.set_random_seed(0)
heads = 2
model = kerasseq.models.GPT(
    vocabulary_size=2 * symbols,
    num_layers=2,
    num_heads=heads,
    hidden_dim=hidden_dim,
    attention=kerasseq.layers.DeltaNet(heads, hidden_dim // heads, gated=False),
    position=None,
)
schedule = keras.optimizers.schedules.CosineDecay(
    1e-4, steps, warmup_target=3e-3, warmup_steps=max(1, steps // 10)
)
model.compile(keras.optimizers.AdamW(schedule, global_clipnorm=1.0))
model.fit(batches(), steps_per_epoch=steps, shuffle=False, verbose=0)
x, y, asked = texts(500)
answers = np.argmax(model.predict(x, verbose=0), axis=-1)
accuracy = float(np.mean((answers == y)[asked > 0]))
chance = 1 / symbols
result, result_name = accuracy, "accuracy of recall"
print(f"right answers: {accuracy:.3f}, by chance {chance:.3f}")

# %% [markdown] train_after
# The model answers {{ accuracy | percent }} of the questions about new texts rightly;
# by chance it would be {{ chance | percent }}. A trace shows where an answer comes
# from: the layer is linear in its values, so its output is a weighted sum of all
# earlier values, and the weights can be drawn like those of attention.

# %% maps tags=["figure"]
with kerasseq.tracing.trace(model) as inside:
    model(x[:1])
maps = np.stack(
    [inside[key][0] for key in inside if key.endswith("/alignment")]
)  # (layers, heads, T, T)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.8), layout="constrained")
limit = float(np.abs(maps).max())
for n, axis in enumerate(axes):
    drawn = axis.imshow(
        maps[n // heads, n % heads], "coolwarm", vmin=-limit, vmax=limit
    )
    axis.set_xlabel(f"{n // heads + 1}.{n % heads + 1}")
    axis.set_xticks([])
    axis.set_yticks([])
axes[0].set_ylabel("reading token")
figure.colorbar(drawn, ax=axes, label="weight")
plt.close(figure)
figure

# %% [markdown] maps_caption
# Four square maps below the diagonal, one for each head of both blocks.
#
# The weights of the values (columns) in the output of each token (rows), for one text,
# labeled with block and head. The last third of the rows are the questions.

# %% [markdown] maps_after
# Weights may be negative: that is how the delta rule takes something away. In rows of
# questions a head that answers has its large weights at the pair that is asked for.

# %% [markdown] exercises
# ## Exercises
#
# 1. Write the same key twice with different values, and read it. What do the sum and
#    the delta rule answer?
# 2. Let the state of linear attention decay by the factor $0.9$ in each step, as
#    retention does. Which pairs does it answer now?
# 3. From which number of tokens on does attention keep more numbers than a matrix of
#    $d \times d$ for each head?

# %% solution_1 tags=["solution"]
key = unit(np.ones((1, 4), "float32"))
k = np.repeat(key, 3, axis=0)
v = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], "float32")
k[2] = 0  # the question writes nothing
q = np.repeat(key, 3, axis=0)
print("sum:       ", ops.convert_to_numpy(linear_attention(q, k, v))[-1])
print("delta rule:", ops.convert_to_numpy(rules["delta rule"](q, k, v))[-1])

# %% [markdown] solution_1_after
# The sum gives the sum of both values, the delta rule the last one: it overwrites.


# %% solution_2 tags=["solution"]
def retention(q, k, v, decay=0.9):
    """Linear attention whose state decays."""
    S, outputs = ops.zeros((k.shape[1], v.shape[1])), []
    for t in range(k.shape[0]):
        S = decay * S + ops.outer(k[t], v[t])
        outputs.append(ops.matmul(q[t], S))
    return ops.stack(outputs)


drawn = [questions(numbers[-1]) for _ in range(repetitions)]
hits = np.mean([right(retention(q, k, v), values) for q, k, v, values in drawn], axis=0)
print("by place, oldest first:", *(f"{h:.2f}" for h in hits[:: max(1, len(hits) // 8)]))

# %% [markdown] solution_2_after
# Now the oldest pairs are lost, and the newest are answered better than by the plain
# sum: less is mixed into them. Decay is a choice of what to forget.

# %% solution_3 tags=["solution"]
for d in (32, 64, 128):
    print(f"d = {d}: 2 T d > d² for T > {d // 2}")

# %% [markdown] solution_3_after
# A head keeps $2 d$ numbers for each token, a matrix has $d^2$. Beyond $d / 2$ tokens
# the matrix is smaller, whatever the length of the text.

# %% [markdown] summary
# ## What we have seen
#
# - Attention without a softmax is a matrix that is updated step by step; both ways of
#   computing it agree.
# - The delta rule stores more in the same matrix: {{ delta_right | percent }} right
#   answers for {{ compared | integer }} pairs, the sum {{ sum_right | percent }}.
# - The delta rule forgets the oldest pairs first, the sum blurs all alike, and decay
#   chooses the newest.
# - A GPT with such a memory in place of attention answered {{ accuracy | percent }} of
#   the questions, with a state that does not grow.

# %% [markdown] questions
# ## Questions for the code
#
# - How many pairs can the trained model hold? Change `pairs` to 24.
# - Is the short convolution needed? Pass `conv_kernel=None` to `DeltaNet`.
# - How does Mamba do? Replace the model by `kerasseq.models.Mamba` with the same sizes.

# %% [markdown] references
# ## References
#
# - A. Katharopoulos et al.: *Transformers are RNNs*, 2020 (linear attention).
# - I. Schlag, K. Irie, J. Schmidhuber: *Linear Transformers Are Secretly Fast Weight
#   Programmers*, 2021 (the delta rule); S. Yang et al.: *Parallelizing Linear
#   Transformers with the Delta Rule over Sequence Length*, 2024.
# - A. Gu, T. Dao: *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*,
#   2023; B. Peng et al.: *RWKV: Reinventing RNNs for the Transformer Era*, 2023.
# - Slides A and C. Labs *Memory race* and *Language model* of the app (`kerasseq app`).
