# %% [markdown] title
# # Self-attention by hand, and positions

# %% [markdown] goals
# After this tutorial you will be able to
#
# - compute queries, keys, values, scores and attention weights of a sequence with
#   matrix products, with and without a causal mask;
# - show that several heads are a concatenation, equal to a multi-head attention layer;
# - explain why self-attention needs positions, and add them in three ways.

# %% [markdown] question
# ## The question
#
# A recurrent network reads a sequence one token after the other, and everything that it
# keeps has to pass through one state. In self-attention each token takes what it needs
# from every other token directly, in one step. How is this computed, and what happened
# to the order of the tokens? In "the dog bites the man" the order decides who is
# bitten.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq
from kerasseq import tracing

# %% settings
length = 10
examples = 2048
test_pairs = 500
epochs = 8

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    examples, test_pairs, epochs = 64, 16, 1

# %% [markdown] equation
# ## The equation
#
# The input is a matrix $X$ with one row of $D$ numbers for each of $T$ tokens. Three
# learned matrices make three vectors of each token: a query $q_t$, a key $k_t$ and a
# value $v_t$, the rows of
#
# $$Q = X W^Q, \qquad K = X W^K, \qquad V = X W^V$$
#
# The score of a query and a key is their dot product, divided by the square root of
# their width $d_k$. The softmax of all scores of a query gives its attention weights
# $\alpha$, positive numbers with sum 1. The output of the query is the mean of the
# values, weighted by them:
#
# $$\alpha_{ts} = \frac{\exp(q_t \cdot k_s / \sqrt{d_k})}
# {\sum_{r} \exp(q_t \cdot k_r / \sqrt{d_k})}, \qquad
# h_t = \sum_s \alpha_{ts} v_s$$
#
# In matrices this is $H = \mathrm{softmax}(Q K^T / \sqrt{d_k})\, V$. A **causal mask**
# sets the scores with $s > t$ to $-\infty$ before the softmax: their weights are 0, and
# a token receives nothing from later tokens. A language model needs this, since it has
# to predict them.
#
# One set of weights per query is often too little. **Multi-head attention** computes
# $N$ heads with matrices of their own, concatenates the outputs, and multiplies by one
# more matrix:
#
# $$\mathrm{output} = [H_1, \dots, H_N]\, W^O$$

# %% [markdown] scratch_text
# ## From scratch
#
# The functions follow the equations line by line. The kernels have the shapes of Keras:
# $(D, N, d_k)$ for queries, keys and values, $(N, d_k, D)$ for the output.


# %% scratch tags=["scratch"]
def softmax(scores):
    scores = ops.convert_to_tensor(scores)
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    return powers / ops.sum(powers, axis=-1, keepdims=True)


def mask_future(scores):
    T = scores.shape[-1]
    future = np.arange(T)[None, :] > np.arange(T)[:, None]  # (query, key)
    return ops.where(future, -np.inf, scores)


def head(x, W_q, W_k, W_v, causal=False):
    q, k, v = (ops.matmul(x, W) for W in (W_q, W_k, W_v))  # (T, d_k) each
    scores = ops.matmul(q, ops.transpose(k)) / np.sqrt(q.shape[-1])  # (T, T)
    alpha = softmax(mask_future(scores) if causal else scores)
    return ops.matmul(alpha, v), alpha


def multi_head(x, W_q, W_k, W_v, W_o, causal=False):
    N, K, D = W_o.shape
    found = [head(x, W_q[:, n], W_k[:, n], W_v[:, n], causal=causal) for n in range(N)]
    joined = ops.concatenate([h for h, _ in found], axis=-1)  # (T, N d_k)
    output = ops.matmul(joined, ops.reshape(W_o, (N * K, D)))
    return output, ops.stack([alpha for _, alpha in found])  # (T, D), (N, T, T)


# %% [markdown] slide_text
# Subtracting the largest score changes nothing in the result, but keeps the exponential
# function from overflowing.
#
# As a first test, the table of scores of slides E: six tokens, masked. On the slide
# each *column* belongs to a query; here each *row* does, as in the equation, so the
# table is transposed. The cells below the diagonal of the slide are masked, whatever
# they hold.

# %% slide
slide_scores = np.array(
    [
        [3.53, 0.80, 1.96, 4.48, 3.74, -1.95],
        [0, -0.30, -0.21, 0.82, 0.29, 2.91],
        [0, 0, 0.89, 0.67, 2.99, -0.41],
        [0, 0, 0, 1.31, 1.73, -1.48],
        [0, 0, 0, 0, 3.07, 2.94],
        [0, 0, 0, 0, 0, 0.31],
    ],
    "float32",
)
slide_weights = np.array(
    [
        [1.00, 0.75, 0.69, 0.92, 0.46, 0.00],
        [0.00, 0.25, 0.08, 0.02, 0.01, 0.46],
        [0.00, 0.00, 0.24, 0.02, 0.22, 0.02],
        [0.00, 0.00, 0.00, 0.04, 0.06, 0.01],
        [0.00, 0.00, 0.00, 0.00, 0.24, 0.48],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.03],
    ]
)
computed = ops.convert_to_numpy(softmax(mask_future(slide_scores.T)))
print(computed.round(2))
slide_difference = float(np.abs(computed - slide_weights.T).max())
print("largest difference to the slide", round(slide_difference, 4))

# %% [markdown] slide_seen
# All six queries agree with the slide to {{ slide_difference | number(4) }}. The slide
# prints rounded scores and rounded weights, so the last digit may differ. The first
# token can attend to itself only: its weight is 1 whatever the score is. Each row has
# the sum 1.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.MultiHeadAttention` has the arguments and the weights of Keras'
# layer. The next cell gives the weights of a layer to the functions above.

# %% library_code
keras.utils.set_random_seed(0)
layer = kerasseq.layers.MultiHeadAttention(num_heads=3, key_dim=4, use_bias=False)
x = np.random.default_rng(0).normal(size=(1, 6, 12)).astype("float32")
expected, expected_weights = layer(
    x, x, use_causal_mask=True, return_attention_scores=True
)
kernels = layer.get_weights()
output, alpha = multi_head(x[0], *kernels, causal=True)


def difference(a, b):
    return float(np.abs(ops.convert_to_numpy(a) - ops.convert_to_numpy(b)).max())


print("kernels ", *[kernel.shape for kernel in kernels])
print(f"output   {difference(output, expected[0]):.1e}")
print(f"weights  {difference(alpha, expected_weights[0]):.1e}")
W_q, W_k, W_v, W_o = kernels
heads = [head(x[0], W_q[:, n], W_k[:, n], W_v[:, n], causal=True) for n in range(3)]
summed = sum(ops.matmul(h, W_o[n]) for n, (h, _) in enumerate(heads))
print(f"sum of heads  {difference(summed, expected[0]):.1e}")

# %% [markdown] library_seen
# Output and weights are equal up to rounding. The last line shows a second view of the
# heads: concatenating and multiplying by $W^O$ is the same as multiplying each head by
# its own rows of $W^O$ and adding the results.

# %% [markdown] inside
# ## Look inside
#
# `kerasseq.tracing.trace` records what a layer computes, under the names of the
# equation.

# %% inside_code
with tracing.trace(layer) as inside:
    layer(x, x, use_causal_mask=True)
for name, value in inside.items():
    print(f"{name:12}", value.shape)

# %% [markdown] inside_seen
# The batch comes first, then the heads: scores and weights are one matrix of six rows
# and six columns for each head. The figure shows the weights of the slide beside those
# of the three heads, which are not trained.

# %% masked_weights tags=["figure"]
figure, axes = plt.subplots(1, 4, figsize=(7, 2.2), layout="constrained", sharey=True)
maps = [computed, *inside["alignment"][0]]
names = ["slide", "head 1", "head 2", "head 3"]
for axis, weights, name in zip(axes, maps, names, strict=True):
    image = axis.imshow(weights, vmin=0, vmax=1)
    axis.set_title(name, fontsize="medium")
    axis.set_xlabel("key")
    axis.set_xticks(range(6), range(1, 7))
    axis.set_yticks(range(6), range(1, 7))
axes[0].set_ylabel("query")
figure.colorbar(image, ax=axes, label="attention weight")
plt.close(figure)
figure

# %% [markdown] masked_weights_caption
# Four matrices of attention weights, each with zeros above the diagonal.
#
# Attention weights under a causal mask. Nothing above the diagonal: no query receives a
# later token. The heads without training spread their weight; the example of the slide
# has clear preferences.

# %% [markdown] order
# ## What happens to the order?
#
# Look at the equation once more: the position $t$ of a token appears nowhere, except in
# the mask. If the rows of $X$ are permuted, the rows of $Q$, $K$ and $V$ are permuted,
# so are the rows and columns of the scores, and so are the rows of the output. Without
# a mask self-attention is **permutation equivariant**. The next cell tests this: it
# moves the tokens of $X$ to other positions and looks for their outputs there.

# %% order_code
moved = np.array([3, 0, 5, 1, 4, 2])


def order_effect(x, **options):
    """Distance of the outputs of moved tokens from the moved outputs."""
    before, after = layer(x, x, **options), layer(x[:, moved], x[:, moved], **options)
    return difference(ops.convert_to_numpy(before)[:, moved], after)


sine = kerasseq.layers.SinePositionEncoding()
code = ops.convert_to_numpy(sine(x))
with_positions = [layer(y, y) for y in (x + code, x[:, moved] + code)]
print(f"attention alone      {order_effect(x):.1e}")
print(f"with a causal mask   {order_effect(x, use_causal_mask=True):.2f}")
moved_outputs = ops.convert_to_numpy(with_positions[0])[:, moved]
print(f"with positions       {difference(moved_outputs, with_positions[1]):.2f}")

# %% [markdown] order_seen
# Without positions each token gets the same output wherever it stands. A sentence is
# then a bag of words: the two sentences about the dog and the man have the same
# outputs, in another order. A causal mask or a position encoding ends this.

# %% [markdown] positions
# ## Three ways to add positions
#
# **Sinusoidal** (Vaswani et al. 2017): a vector of sines and cosines of the position
# $p$ is added to the embedding of the token,
#
# $$PE(p, 2i) = \sin(\omega_i p), \qquad PE(p, 2i + 1) = \cos(\omega_i p), \qquad
# \omega_i = 10000^{-2i/D}$$
#
# **RoPE** (Su et al. 2021): each pair of features of a query and of a key is rotated by
# the angle $\omega_i p$. With $R_p$ for these rotations, the score is
# $(R_p q) \cdot (R_s k) = q \cdot (R_{s-p} k)$: it depends on the distance $s - p$
# only.
#
# **ALiBi** (Press et al. 2022): the vectors stay as they are, and a bias
# $-m_n\, |p - s|$ is added to the score. Each head $n$ has its own slope $m_n$, and
# nothing is learned.
#
# The next cell computes, with the layers of kerasseq, what a query at position 0 has in
# common with a key at distance $s$.

# %% positions_code
distances = 40
zeros = np.zeros((1, distances, 16), "float32")
codes = ops.convert_to_numpy(sine(zeros))[0]  # (positions, features)
rotate = kerasseq.layers.RotaryEmbedding()
rotated = ops.convert_to_numpy(rotate(zeros[:, :, None] + 1))[0, :, 0]
biases = kerasseq.layers.AlibiBias()(np.zeros((1, 2, distances, distances)))
slopes = ops.convert_to_numpy(biases)[0, :, -1, ::-1]  # of the last query, by distance
products = codes @ codes.T
spread = float(np.ptp([products[p, p + 5] for p in range(distances - 5)]))
print(f"PE(p) . PE(p + 5) differs between positions by {spread:.1e}")

# %% [markdown] positions_seen
# The dot product of two sinusoidal encodings depends on their distance alone, although
# each encoding tells an absolute position. The figure shows the encodings, and the
# three functions of the distance.

# %% position_codes tags=["figure"]
figure, axes = plt.subplots(1, 4, figsize=(7, 2.3), layout="constrained")
image = axes[0].imshow(codes.T, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1)
axes[0].set_xlabel("position")
axes[0].set_ylabel("feature")
axes[0].set_title("sinusoidal code", fontsize="medium")
axes[1].plot(products[0], color="C0")
axes[1].set_title("sinusoidal: product", fontsize="medium")
axes[2].plot(rotated @ rotated[0], color="C1")
axes[2].set_title("RoPE: product", fontsize="medium")
axes[3].plot(slopes[0], color="C2", label="head 1")
axes[3].plot(slopes[1], color="C3", label="head 2")
axes[3].set_title("ALiBi: bias", fontsize="medium")
axes[3].legend()
for axis in axes[1:]:
    axis.set_xlabel("distance")
plt.close(figure)
figure

# %% [markdown] position_codes_caption
# A heat map of sinusoidal encodings, and three curves over the distance of two
# positions.
#
# Left: the 16 features of the sinusoidal encoding, fast waves at the top, slow ones at
# the bottom. Then what each way gives for a query and a key at a distance. The product
# of two sinusoidal encodings, and that of a vector of ones with its rotated copy, are
# sums of the same cosines of the distance, so the two curves have one shape. ALiBi
# gives straight lines.

# %% [markdown] misconception
# ## A misconception
#
# *"Attention knows the order of the words: after all it receives the sentence as a
# list."*
#
# The test of permutation says otherwise, but perhaps training finds a way. So here is a
# task in which nothing but the order counts. A string has ten letters; exactly one is
# "a" and exactly one is "b". Does "a" come before "b"? The test set has each string
# twice: as it is, and with "a" and "b" exchanged, which changes the answer.

# %% [markdown] experiment
# ## The experiment
#
# The model has one Transformer block, a self-attention followed by a small network that
# is applied to each token; the mean over the tokens, and a linear classifier. It is
# trained four times, with the positions as the only difference.

# %% data
A, B = 1, 2


def exchange(x):
    return np.where(x == A, B, np.where(x == B, A, x))


def a_first(x):
    return ((x == A).argmax(axis=1) < (x == B).argmax(axis=1)).astype("int32")


def strings(count, length, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(3, 11, (count, length))  # eight other letters
    places = rng.permuted(np.tile(np.arange(length), (count, 1)), axis=1)
    x[np.arange(count), places[:, 0]] = A
    x[np.arange(count), places[:, 1]] = B
    return x.astype("int32")


train_x = strings(examples, length, seed=1)
test_x = strings(test_pairs, length, seed=2)
test_x = np.concatenate([test_x, exchange(test_x)])
print("".join("?abcdefghij"[i] for i in test_x[0]), a_first(test_x)[0])
print(
    "".join("?abcdefghij"[i] for i in exchange(test_x)[0]), a_first(test_x)[test_pairs]
)


# %% [markdown] train_text
# `kerasseq.layers.TransformerEncoder` is the block without a mask, and takes RoPE or
# ALiBi as its argument `position`.


# %% train
def build(name, block=kerasseq.layers.TransformerEncoder):
    keras.utils.set_random_seed(0)
    inside_attention = {
        "RoPE": kerasseq.layers.RotaryEmbedding(),
        "ALiBi": kerasseq.layers.AlibiBias(),
    }
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 32)(ids)
    if name == "sinusoidal":
        x = x + kerasseq.layers.SinePositionEncoding()(x)
    x = block(64, num_heads=2, position=inside_attention.get(name), name="block")(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, keras.layers.Dense(2)(x))


def train(model):
    model.compile(
        keras.optimizers.Adam(0.005),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(train_x, a_first(train_x), batch_size=64, epochs=epochs, verbose=0)
    answers = model.predict(test_x, batch_size=250, verbose=0).argmax(axis=1)
    return float(np.mean(answers == a_first(test_x)))


models = {name: build(name) for name in ("none", "sinusoidal", "RoPE", "ALiBi")}
accuracy = {name: train(model) for name, model in models.items()}
for name, value in accuracy.items():
    print(f"{name:10} {value:.3f}")
accuracy_none, accuracy_alibi = accuracy["none"], accuracy["ALiBi"]
accuracy_rope = accuracy["RoPE"]
result = accuracy["sinusoidal"]
result_name = "accuracy with sinusoidal positions"

# %% [markdown] experiment_seen
# With sinusoidal positions {{ result | percent }} of the answers are right, with RoPE
# {{ accuracy_rope | percent }}. Without positions it is {{ accuracy_none | percent }},
# and this is no accident of training: the outputs of a string and of its copy with "a"
# and "b" exchanged are the same vectors in another order, so their mean is the same.
# The model gives both the same answer, and one of the two is wrong.
#
# ALiBi reaches {{ accuracy_alibi | percent }}, which may surprise. Its bias depends on
# the distance $|p - s|$, and not on which of the two comes first. Without a causal mask
# a string and its mirror image have the same outputs, in reversed order. ALiBi was made
# for language models, where the causal mask gives the direction.

# %% [markdown] trained_text
# What does the model with sinusoidal positions do? The figure shows the attention
# weights of both heads for one test string.

# %% trained_weights tags=["figure"]
example = test_x[:1]
with tracing.trace(models["sinusoidal"]) as trained:
    models["sinusoidal"](example)
letters = ["?abcdefghij"[i] for i in example[0]]
figure, axes = plt.subplots(1, 2, figsize=(6.5, 3.2), layout="constrained")
for n, axis in enumerate(axes):
    image = axis.imshow(trained["block/self_attention/alignment"][0, n], vmin=0)
    axis.set_xticks(range(length), letters)
    axis.set_yticks(range(length), letters)
    axis.set_xlabel("key")
    axis.set_ylabel("query")
    axis.set_title(["head 1", "head 2"][n], fontsize="medium")
    figure.colorbar(image, ax=axis, label="attention weight", shrink=0.8)
plt.close(figure)
figure

# %% [markdown] trained_weights_caption
# Attention weights of the two trained heads, with a row and a column for each letter.
#
# Each row is a query, each column a key. Compare the columns of "a" and "b" with the
# others: they are the only letters that matter for the answer.

# %% [markdown] exercises
# ## Exercises
#
# 1. Apply the mask *after* the softmax, by setting the weights of later tokens to 0.
#    What is the sum of a row then?
# 2. Train the block without any position encoding, but with a causal mask
#    (`kerasseq.layers.TransformerDecoder`). Does it learn the order?
# 3. The scores are divided by $\sqrt{d_k}$. Draw random queries and keys of width 4, 64
#    and 1024, and compute the standard deviation of their scores with and without the
#    division, and the largest of 16 attention weights.

# %% solution_mask tags=["solution"]
late = np.tril(ops.convert_to_numpy(softmax(slide_scores.T)))
print("sums, mask after the softmax ", late.sum(axis=1).round(2))
print("sums, mask before the softmax", computed.sum(axis=1).round(2))

# %% solution_causal tags=["solution"]
causal_accuracy = train(build("none", kerasseq.layers.TransformerDecoder))
print(f"causal mask, no positions {causal_accuracy:.3f}")

# %% solution_scale tags=["solution"]
rng = np.random.default_rng(0)
for width in (4, 64, 1024):
    scores = rng.normal(size=(500, width)) @ rng.normal(size=(width, 16))
    for factor in (1, 1 / np.sqrt(width)):
        largest = ops.convert_to_numpy(softmax(factor * scores)).max(axis=1).mean()
        print(f"{width:5}  std {np.std(factor * scores):5.2f}  largest {largest:.2f}")

# %% [markdown] summary
# ## Summary
#
# - Self-attention is three projections, a matrix of scores, a softmax for each query,
#   and a weighted mean. Twenty lines of `keras.ops` gave the output of
#   `kerasseq.layers.MultiHeadAttention`, and the example of the slides.
# - Several heads are a concatenation followed by one matrix, or a sum of heads.
# - Attention alone is permutation equivariant. Where only the order counts, the same
#   block answered {{ accuracy_none | percent }} of the test right without positions and
#   {{ result | percent }} with sinusoidal ones.
# - ALiBi without a causal mask knows distances, but no direction:
#   {{ accuracy_alibi | percent }}.

# %% [markdown] questions
# ## Questions
#
# 1. Test the trained models on strings of 20 letters: call `strings` with another
#    length. Which position encoding still works on strings that are longer than those
#    of the training?
# 2. Replace `SinePositionEncoding` by `kerasseq.layers.PositionEmbedding(10)`, whose
#    encodings are learned. Does it need more epochs?
# 3. Put a second block after the first one in `build`. Does depth help the model
#    without positions?

# %% [markdown] references
# ## References
#
# - Vaswani et al., "Attention Is All You Need", 2017.
# - Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
# - Press, Smith and Lewis, "Train Short, Test Long: Attention with Linear Biases
#   Enables Input Length Extrapolation", 2022.
# - Slides A, B, C, D and E. The table of scores is that of slides E.
# - Labs *Attention, step by step* and *Positions* of the app (`kerasseq app`).
# - Before: [Teacher forcing, exposure bias, beam search](08_exposure.md). Next: [A
#   Transformer, and GPT on text](10_gpt.md).
