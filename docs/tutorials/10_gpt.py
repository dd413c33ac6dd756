# %% [markdown] title
# # A Transformer block, and GPT on text

# %% [markdown] goals
# After this tutorial you will be able to
#
# - write a Transformer block and a whole GPT with `keras.ops`, and compare its logits
#   with those of `kerasseq.models.GPT`;
# - train a small GPT on a real text, generate from it with cached keys and values, and
#   state its quality in bits per character;
# - look at the attention of each head, and at what the model would predict after each
#   block.

# %% [markdown] question
# ## The question
#
# Self-attention moves information between tokens, but it is only a weighted mean. What
# else is needed to make a language model of it, and what does each layer add?

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq
from kerasseq import tracing
from kerasseq.text import CharacterTokenizer, NGramModel

# %% settings
layers, heads, width, context = 3, 4, 64, 64
steps = 1200
held_out = 10_000

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    layers, width, steps, held_out = 2, 16, 8, 600

# %% [markdown] equation
# ## The equation
#
# A block has two sublayers. The attention of the [previous
# tutorial](09_self_attention.md), with a causal mask, collects information from earlier
# tokens. The feed-forward network then computes something from each token separately: a
# hidden layer that is four times as wide, an activation, and back. Each sublayer is
# surrounded by two things.
#
# - A **residual connection**: the output of the sublayer is *added* to its input. The
#   vector that runs through the model and only receives sums is called the residual
#   stream. Gradients reach the first layer through these sums without passing a matrix.
# - A **layer normalization** of the input: mean 0 and variance 1 over the features of
#   each token, then a learned scale $\gamma$ and shift $\beta$.
#
# $$\mathrm{LN}(x) =
# \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta$$
#
# $$z = x + \mathrm{Attention}(\mathrm{LN}_1(x)), \qquad
# y = z + W_2\, \mathrm{GELU}(W_1\, \mathrm{LN}_2(z) + b_1) + b_2$$
#
# This is the order of GPT-2, with the norm before the sublayer ("pre-norm"). The first
# Transformer had it after the sum ("post-norm").
#
# **GPT** is a stack of $L$ such blocks. The input of the first block is the embedding
# of each token plus a learned embedding of its position. After the last block there is
# one more norm, and the product with the embedding matrix $E$ gives a logit for each
# token of the vocabulary:
#
# $$x_0 = E_{\mathrm{ids}} + P, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
# p = \mathrm{softmax}(\mathrm{LN}(x_L)\, E^T)$$

# %% [markdown] scratch_text
# ## From scratch
#
# The functions take the weights as a dictionary from names to arrays, with the names
# that Keras gives them; `part` takes those of one layer. For one text of $T$ tokens the
# vectors are the rows of a matrix $(T, D)$.


# %% scratch tags=["scratch"]
def part(w, name):
    return {key[len(name) + 1 :]: w[key] for key in w if key.startswith(name + "/")}


def norm(x, w):
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)
    return w["gamma"] * (x - mean) / ops.sqrt(variance + 1e-5) + w["beta"]


def attention(x, w):
    q, k, v = (  # (T, D) to (heads, T, K)
        ops.einsum("td,dnk->ntk", x, w[f"{name}/kernel"]) + w[f"{name}/bias"][:, None]
        for name in ("query", "key", "value")
    )
    scores = ops.matmul(q, ops.transpose(k, (0, 2, 1))) / np.sqrt(q.shape[-1])
    future = np.triu(np.ones(scores.shape[-2:], bool), 1)
    h = ops.matmul(ops.softmax(ops.where(future, -np.inf, scores)), v)
    output = ops.einsum("ntk,nkd->td", h, w["attention_output/kernel"])
    return output + w["attention_output/bias"]


def dense(x, w):
    return ops.matmul(x, w["kernel"]) + w["bias"]


def block(x, w):
    n = norm(x, part(w, "self_attention_layer_norm"))
    x = x + attention(n, part(w, "self_attention"))
    n = norm(x, part(w, "feedforward_layer_norm"))
    hidden = dense(n, part(w, "feed_forward/intermediate_dense"))
    hidden = ops.gelu(hidden, approximate=False)
    return x + dense(hidden, part(w, "feed_forward/output_dense"))


def gpt(ids, E, P, w):
    x = ops.take(E, ids, axis=0) + P[: len(ids)]
    for n in range(layers):
        x = block(x, part(w, f"block_{n}"))
    return ops.matmul(norm(x, part(w, "final_norm")), ops.transpose(E))


# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.models.GPT` is built from `kerasseq.layers.TransformerDecoder`. The text is
# the reference of Python itself, which is part of every Python installation, and the
# tokens are its characters. The next cell builds a model and lists the weights of its
# first block.

# %% library_code
text = kerasseq.datasets.python_reference()
train_text, test_text = text[:-held_out], text[-held_out:]
tokenizer = CharacterTokenizer().fit(text)
keras.utils.set_random_seed(0)
options = {"num_layers": layers, "num_heads": heads, "hidden_dim": width}
options["max_sequence_length"] = context
model = kerasseq.models.GPT(tokenizer, **options)
parameters = model.count_params()
print(f"{len(text):,} characters, {tokenizer.vocabulary_size} different")
print(f"{parameters:,} parameters")
for weight in model.get_layer("block_0").weights:
    print(f"{weight.path:50} {tuple(weight.shape)}")

# %% [markdown] equal_text
# Four matrices and their biases belong to the attention, two to the feed-forward
# network. The functions from scratch receive these weights, and a text. Then the text
# is given to the model once more, one token at a time: `start` makes an empty cache of
# keys and values, and `step` computes the logits after one more token and adds its key
# and value to the cache. `generate` works in this way.

# %% equal


def difference(a, b):
    return float(np.abs(ops.convert_to_numpy(a) - ops.convert_to_numpy(b)).max())


ids = tokenizer.encode("The object is a class")
whole = ops.convert_to_numpy(model(ids[None]))[0]  # (T, V)
w = {weight.path: ops.convert_to_tensor(weight) for weight in model.weights}
E, P = w["embedding/embeddings"], w["position_embedding/embeddings"]
scratch_difference = difference(gpt(ids, E, P, w), whole)
print(f"from scratch  {scratch_difference:.1e}")

state, _ = model.start([ids[:1].tolist()], len(ids))
cached = []
for token in ids:
    logits, state = model.step(state, ops.convert_to_tensor([token]))
    cached.append(ops.convert_to_numpy(logits)[0])
cache_difference = difference(np.stack(cached), whole)
print(f"with a cache  {cache_difference:.1e}")

# %% [markdown] equal_seen
# All three compute the same logits up to rounding. The cache is possible because of the
# causal mask: keys and values of earlier tokens do not depend on later ones, so they
# need not be computed again. A new token costs one query instead of a pass over the
# whole text.

# %% [markdown] train_text
# ## Training
#
# Each token of a block of {{ context | integer }} characters is predicted from those
# before it, so one pass trains on all positions at once.
# `kerasseq.training.gpt_optimizer` is AdamW with warm-up and cosine decay. The last
# {{ held_out | integer }} characters of the text are held out. As baselines, n-gram
# models count the same training text.

# %% train
model.compile(kerasseq.training.gpt_optimizer(model, 0.005, steps, warm_up=50))
history = model.fit(
    train_text,
    validation_data=test_text,
    sequence_length=context,
    batch_size=16,
    steps_per_epoch=steps // 8,
    epochs=8,
    verbose=0,
)
test_bits = history.history["val_bits"]
print("held-out bits per character", np.round(test_bits, 2))
print(model.generate("The object", 120, temperature=0.7, seed=1))

# %% [markdown] train_seen
# The continuation has the look of the text, with words and punctuation, and little
# sense. The model has seen {{ seen | integer }} characters.

# %% [markdown] inside
# ## Look inside
#
# What did the heads learn? The next figure shows the attention weights of all of them
# for a short text.

# %% inside_code
shown = "the class of the object"
with tracing.trace(model) as trace:
    model(tokenizer.encode(shown)[None])
weights = np.stack(
    [trace[f"block_{n}/self_attention/alignment"][0] for n in range(layers)]
)  # (layers, heads, T, T)
previous = np.diagonal(weights, -1, axis1=2, axis2=3).mean(axis=-1)
print("mean weight of the previous character, a row for each block")
print(previous.round(2))
seen = steps * 16 * context

# %% attention_heads tags=["figure"]
size = (1.6 * heads, 1.6 * layers)
figure, axes = plt.subplots(layers, heads, figsize=size, layout="constrained")
for n in range(layers):
    for m in range(heads):
        axis = axes[n, m]
        axis.imshow(weights[n, m], vmin=0, vmax=1)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_title(f"{n + 1} / {m + 1}", fontsize="small")
axes[-1, 0].set_xlabel("key")
axes[-1, 0].set_ylabel("query")
plt.close(figure)
figure

# %% [markdown] attention_heads_caption
# A grid of attention matrices, one row of panels for each block, one column for each
# head.
#
# Attention weights of block / head, dark for 0. Look for a line below the diagonal:
# such a head attends to the previous character. Others spread their weight over the
# text, or attend to few characters, whatever the query is.

# %% [markdown] lens_text
# The second look is at the residual stream. After each block it is a vector of the same
# width, in which the next block finds its input. `kerasseq.tracing.logit_lens` applies
# the final norm and the embedding matrix to it, as if the model ended there. The cell
# measures the bits per character of these early predictions on a part of the held-out
# text.

# %% lens
some = model.ids(test_text[: 8 * context + 1])
x, y = some[:-1].reshape(8, context), some[1:].reshape(8, context)
lens = tracing.logit_lens(model, x)
p = np.take_along_axis(lens.probabilities(), y[None, ..., None], axis=-1)
lens_bits = -np.log2(np.maximum(p[..., 0], 1e-30)).mean(axis=(1, 2))
for name, bits in zip(lens.layers, lens_bits, strict=True):
    print(f"{name:8} {bits:6.2f} bits")
lens_first, lens_one, lens_last = (float(lens_bits[n]) for n in (0, 1, -1))
found = tracing.logit_lens(model, tokenizer.encode(shown)[None])
probabilities = found.probabilities()[:, 0]  # (layers + 1, T, V)
best = probabilities.argmax(axis=-1)
predicted = [[tokenizer.decode([int(i)]) for i in row] for row in best]

# %% logit_lens tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 1.9), layout="constrained")
for n, row in enumerate(predicted):
    for t, character in enumerate(row):
        p = probabilities[n, t].max()
        style = {"alpha": 0.3 + 0.7 * p, "weight": "bold" if p > 0.5 else "normal"}
        shape = "␣" if character.isspace() else character
        axis.text(t, n, shape, ha="center", va="center", **style)
axis.set_xlim(-0.5, len(shown) - 0.5)
axis.set_ylim(layers + 0.5, -0.5)
axis.set_xticks(range(len(shown)), shown.replace(" ", "␣"))
axis.set_yticks(range(layers + 1), range(layers + 1))
axis.set_xlabel("character read")
axis.set_ylabel("after block")
plt.close(figure)
figure

# %% [markdown] logit_lens_caption
# A table of characters: a column for each character read, a row for the embedding and
# for each block.
#
# The most probable next character after each block; bold if its probability is above
# one half, pale if it is low. Row 0 is the embedding, before the first block. There the
# answer tends to be the character that was just read, because the same matrix serves as
# embedding and as output. The blocks turn "this character" into "the next character".

# %% [markdown] misconception
# ## A misconception
#
# *"A model with eight heads has eight times the attention parameters of a model with
# one head."*
#
# The heads share the width $D$: each has queries, keys and values of width $D / N$. The
# four matrices of a block have $4 D^2$ numbers, whatever $N$ is, and the feed-forward
# network has $8 D^2$. The cell counts.

# %% count
for n in (1, 2, 4, 8, 16):
    other = kerasseq.models.GPT(tokenizer, **{**options, "num_heads": n})
    print(f"{n:2} heads of width {width // n:2}: {other.count_params():,} parameters")
rule = 12 * layers * width**2
print(f"12 L D^2 = {rule:,}")

# %% [markdown] count_seen
# The number of parameters is the same in each line. More heads are more, but narrower,
# ways to look at the text. The rule $12\, L D^2$ counts the matrices of all blocks; the
# rest of the {{ parameters | integer }} parameters are embeddings, biases and norms.

# %% [markdown] experiment
# ## The experiment
#
# How good is the model? Bits per character are the mean of $-\log_2 p$ of the
# characters of the held-out text: a model that needs fewer bits is less surprised. The
# baselines are a model that knows the frequency of each character only (1), and models
# that look at the last one, two or four characters (2, 3, 5).

# %% result_code
ngrams = {}
for n in (1, 2, 3, 5):
    counts = NGramModel(n, smoothing="kneser_ney", tokenizer=tokenizer)
    ngrams[n] = float(counts.fit(train_text).bits_per_token(test_text))
    print(f"{n}-gram  {ngrams[n]:.2f} bits per character")
result = float(model.bits_per_token(test_text))
result_name = "bits per character on held-out text"
print(f"GPT     {result:.2f} bits per character")
bits_2, bits_3, bits_5 = ngrams[2], ngrams[3], ngrams[5]
table = len({train_text[i : i + 5] for i in range(len(train_text) - 4)})
print(f"{table:,} different 5-grams in the training text")

# %% curve tags=["figure"]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
done = np.arange(1, 9) * (steps // 8)
axis.plot(done, test_bits, "o-", color="C0", label="GPT")
axis.axhline(bits_2, color="C1", linestyle="--", label="2-grams")
axis.axhline(bits_3, color="C2", linestyle="--", label="3-grams")
axis.axhline(bits_5, color="C3", linestyle="--", label="5-grams")
axis.set_xlabel("training steps")
axis.set_ylabel("bits per character")
axis.legend(loc=(0.03, 0.12))
plt.close(figure)
figure

# %% [markdown] curve_caption
# A falling curve of bits per character over the training steps, with three horizontal
# lines.
#
# Bits per character on the held-out text during the training, and those of the n-gram
# models.

# %% [markdown] experiment_seen
# After {{ steps | integer }} steps, about a minute, the GPT needs
# {{ result | number(2) }} bits per character. The bigrams need
# {{ bits_2 | number(2) }}, the trigrams {{ bits_3 | number(2) }}, and the 5-grams
# {{ bits_5 | number(2) }}. Compare the sizes as well: the 5-grams are a table with
# {{ table | integer }} rows, one for each string of five characters in the training
# text, and the reference repeats many phrases. Such a table grows with each character
# of context. The GPT looks at up to {{ context | integer }} characters with
# {{ parameters | integer }} parameters, and its curve has not ended.

# %% [markdown] exercises
# ## Exercises
#
# 1. Switch off one head at a time, by an intervention that sets its attention weights
#    to 0, and measure the bits on a part of the held-out text. Which head is needed
#    most?
# 2. Generate with a temperature far below 1, and with one above 1. What changes?
# 3. Compute the parameters of GPT-3 with `kerasseq.models.count`, and compare them with
#    $12\, L D^2$.

# %% solution_heads tags=["solution"]
sample = test_text[: 8 * context]
print(f"all heads       {model.bits_per_token(sample):.2f} bits")
for n in range(layers):
    for m in range(heads):
        key = f"block_{n}/self_attention/alignment"
        with tracing.intervene(model, {key: tracing.at(0.0, heads=m)}):
            print(
                f"without {n + 1} / {m + 1}   {model.bits_per_token(sample):.2f} bits"
            )

# %% solution_temperature tags=["solution"]
for temperature in (0.1, 0.7, 1.5):
    print(
        temperature, repr(model.generate("The ", 60, temperature=temperature, seed=1))
    )

# %% solution_gpt3 tags=["solution"]
row = kerasseq.models.architectures["gpt3"]
total = kerasseq.models.count(row).total
simple = 12 * row.num_layers * row.hidden_dim**2
print(f"{total:,} parameters, 12 L D^2 = {simple:,}, ratio {simple / total:.3f}")

# %% [markdown] summary
# ## Summary
#
# - A Transformer block is attention and a feed-forward network, each with a norm before
#   it and a residual connection around it. A GPT is an embedding, a stack of blocks,
#   and the embedding matrix once more.
# - Written with `keras.ops`, with the layers of kerasseq, and step by step with a
#   cache, the logits are the same up to rounding.
# - The number of heads does not change the number of parameters.
# - The residual stream can be read after each block: {{ lens_first | number(1) }} bits
#   per character at the embedding, {{ lens_one | number(1) }} after the first block,
#   {{ lens_last | number(1) }} at the end.
# - On held-out text the small GPT needs {{ result | number(2) }} bits per character,
#   trigrams {{ bits_3 | number(2) }}.

# %% [markdown] questions
# ## Questions
#
# 1. What are the bits per character with `position=None` in `options`? The causal mask
#    alone already breaks the symmetry of the positions.
# 2. Does the model learn as fast with `norm_placement="post"`?
# 3. Are two blocks of width 96 better than six of width 56, with nearly the same
#    $12\, L D^2$?

# %% [markdown] references
# ## References
#
# - Vaswani et al., "Attention Is All You Need", 2017.
# - Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018,
#   and "Language Models are Unsupervised Multitask Learners", 2019.
# - Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020.
# - nostalgebraist, "interpreting GPT: the logit lens", 2020.
# - Slides A, C, D and E. GPT-3 is counted in slides E.
# - Labs *Attention, step by step* and *Language model* of the app (`kerasseq app`).
# - Before: [Self-attention by hand, and positions](09_self_attention.md). Next: [BERT
#   and fine-tuning](11_bert.md).
