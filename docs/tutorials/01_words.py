# %% [markdown] title
# # Words as numbers, and n-grams

# %% [markdown] goals
# After this tutorial you will be able to
#
# - turn a text into numbers by characters, words and byte pairs, and say what a
#   one-hot vector is;
# - estimate the probability of the next character from counts, and generate text
#   with it;
# - measure a language model in bits per character on held-out text, and explain why
#   smoothing is necessary.

# %% imports
import os

import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq
from kerasseq import text as kt

# %% [markdown] settings_about
# The settings of the experiments are in one place. Change them and run again.

# %% settings
characters = None  # of the reference of Python; None: all
lengths = (1, 2, 3, 4, 5, 6, 7)  # of the n-grams
few, many = 0.01, 1.0  # smoothing constants k

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    characters, lengths = 20_000, (1, 2, 3)

# %% [markdown] question
# ## The question
#
# A language model predicts what comes next in a text. A computer only calculates with
# numbers. How does a text become numbers, and how far does one get by counting alone,
# without a neural network?
#
# We use the reference manual of Python, which every installation of Python contains.
# The cell below divides it into three parts: the *training* part is counted, the
# *validation* part serves to choose between models, and the *test* part is kept for
# the final number.

# %% data
text = kerasseq.datasets.python_reference()[:characters]
first, second = int(0.8 * len(text)), int(0.9 * len(text))
parts = {"train": text[:first], "valid": text[first:second], "test": text[second:]}
for name, part in parts.items():
    print(f"{name:6}{len(part):8} characters")
print(parts["train"][:190])

# %% [markdown] tokens
# ## A text becomes numbers
#
# A *tokenizer* cuts a text into tokens, and its *vocabulary* gives each token an id.
# A token may be a character, a word, or something between the two. The next cell
# shows the same words with three tokenizers. Byte-pair encoding (BPE) begins with
# single bytes and repeatedly merges the most frequent pair of neighbors; `Ġ` stands
# for a space.

# %% tokenizers
sample = "The unpredictable variable"
tokenizers = {
    "characters": kt.CharacterTokenizer(unknown=None).fit(text),
    "words": kt.WordTokenizer(2000).fit(text),
    "byte pairs": kt.BytePairTokenizer(1000).fit(text),
}
for name, tokenizer in tokenizers.items():
    ids, tokens, _ = tokenizer.encode_with_offsets(sample)
    print(f"{name}: vocabulary of {len(tokenizer.vocabulary)}, {len(ids)} tokens")
    print("   ", tokens)
    print("   ", ids.tolist())

# %% [markdown] tokens_seen
# Characters need a small vocabulary and long sequences, words the opposite, and a
# rare word becomes `<unk>`, the unknown token. Byte pairs are a compromise: frequent
# words are one token, and rare ones are composed of pieces.
#
# An id is only a name: character 40 is not twice character 20. A *one-hot vector*
# removes the false order. It has one entry for each token of the vocabulary, all 0
# but a 1 at the id. Sums of one-hot vectors are counts: the next cell adds those of
# the words of each sentence, and prints the table of counts of course D. Such a *bag
# of words* does not contain the order of the words.

# %% counts
sentences = ["yes, we have no bananas", "say yes for bananas", "no bananas, we say"]
bag = kt.BagOfWords().fit(sentences)
to_id = {word: i for i, word in enumerate(bag.vocabulary)}
words = [sentence.replace(",", " ,").split() for sentence in sentences]
one_hot = [ops.one_hot([to_id[w] for w in row], len(to_id)) for row in words]
table = np.stack([ops.convert_to_numpy(ops.sum(v, axis=0)) for v in one_hot], axis=1)
for word, row in zip(bag.vocabulary, table.astype(int), strict=True):
    print(f"{word:8}", *row)
print("difference from BagOfWords:", np.abs(table.T - bag.transform(sentences)).max())

# %% [markdown] equation
# ## The equation
#
# The order of the tokens is what a language model is about. Let $u_1, \dots, u_T$ be
# the ids of a text. An *n-gram model* assumes that the next token depends on the last
# $n - 1$ tokens only, the *context* $c$. With $N(\cdot)$, the number of occurrences
# in the training text, and the size $V$ of the vocabulary,
#
# $$
# p(u \mid c) = \frac{N(c\,u) + k}{N(c) + k V}
# $$
#
# With $k = 0$ this is the relative frequency: how often $u$ followed $c$, divided by
# how often $c$ occurred before any token. A *smoothing constant* $k > 0$ gives
# unseen n-grams a small probability.
#
# A model is good if it gives high probabilities to a text that it has not counted.
# The *cross-entropy* in bits per character, and the *perplexity*, are
#
# $$
# H = -\frac{1}{T} \sum_{t=1}^{T} \log_2 p(u_t \mid c_t), \qquad
# \mathrm{PP} = 2^H
# $$
#
# where $c_t$ is the context of $u_t$. The perplexity is the effective number of
# choices: if all $V$ tokens are equally probable, then $\mathrm{PP} = V$ and
# $H = \log_2 V$.

# %% [markdown] scratch_about
# ## From scratch
#
# For $n = 2$, *bigrams*, the context is one character, and all probabilities fit into
# a matrix $P$: the row is the context, the column the next character. The functions
# below count the pairs, divide each row by its sum, compute $H$ and draw a text.


# %% scratch tags=["scratch"]
def bigram_matrix(ids, size, k):
    """Returns P, where P[c, u] is the probability of u after c."""
    pairs = ops.cast(ids[:-1], "int32") * size + ops.cast(ids[1:], "int32")
    N = ops.reshape(ops.bincount(pairs, minlength=size * size), (size, size))
    N = ops.cast(N, "float32") + k
    return N / ops.sum(N, axis=1, keepdims=True)


def bits(P, ids):
    """Returns the cross-entropy in bits per character, from the second one on."""
    pairs = ops.cast(ids[:-1], "int32") * P.shape[1] + ops.cast(ids[1:], "int32")
    p = ops.take(ops.reshape(P, (-1,)), pairs)
    return float(-ops.mean(ops.log2(p)))


def write(P, start, length, seed):
    """Draws one character after another, each from the row of the last one."""
    rows = ops.convert_to_numpy(ops.cumsum(P, axis=1))
    rng = np.random.default_rng(seed)
    ids = [start]
    for _ in range(length):
        row = rows[ids[-1]]
        ids.append(int(np.searchsorted(row / row[-1], rng.random(), side="right")))
    return ids


# %% [markdown] scratch_used
# The next cell applies them: it counts the training part and checks that the rows
# are distributions.

# %% scratch_run
tokenizer = tokenizers["characters"]
vocabulary_size = len(tokenizer.vocabulary)
train, valid, test = (tokenizer.encode(part) for part in parts.values())
P = bigram_matrix(train, vocabulary_size, few)
row_sums = ops.convert_to_numpy(ops.sum(P, axis=1))
scratch_bits = bits(P, valid)
print("shape of P:", tuple(P.shape), " sums of rows:", row_sums.min(), row_sums.max())
print(
    f"bits per character: {scratch_bits:.3f} (uniform {np.log2(vocabulary_size):.3f})"
)
print(tokenizer.decode(write(P, int(train[0]), 120, seed=1)))

# %% [markdown] scratch_seen
# The rows sum to 1 up to rounding. On the validation part the model needs
# {{ scratch_bits | number(2) }} bits per character, where guessing among all
# {{ vocabulary_size | integer }} characters needs {{ uniform_bits | number(2) }}.
# The text that it draws has the rhythm of English, but hardly a word.

# %% [markdown] library
# ## With kerasseq
#
# `kerasseq.text.NGramModel` counts n-grams of any length and stores only those that
# occur. For $n = 2$ its probabilities must be those of our matrix.

# %% library_run
uniform_bits = float(np.log2(vocabulary_size))
model = kt.NGramModel(2, k=few).fit(train, vocabulary_size)
rows = np.stack([model.probabilities([c]) for c in range(vocabulary_size)])
difference = float(np.abs(rows - ops.convert_to_numpy(P)).max())
print(f"maximum difference: {difference:.1e}")
print(f"bits per character: {model.bits_per_token(valid):.3f}")
print(f"perplexity: {model.perplexity(valid):.2f}")

# %% [markdown] shannon_about
# The two agree up to rounding. Shannon generated such texts in 1948, with characters
# and with words: in his first order the tokens are independent, in the second each
# depends on the one before, in the third on two. The cell below does the same with
# `kerasseq.text.shannon_series`.

# %% shannon
for order, written in kt.shannon_series(text, orders=(0, 1, 2, 3), seed=2).items():
    print(f"characters, order {order}: {' '.join(written.split())}")
by_words = kt.shannon_series(text, kt.WordTokenizer(), orders=(1, 2), length=18, seed=2)
for order, written in by_words.items():
    print(f"words, order {order}: {written}")

# %% [markdown] inside
# ## Look inside
#
# The matrix $P$ holds everything that the bigram model has learned. The figure shows
# the rows and columns of the space (␣) and the letters.

# %% matrix tags=["figure"]
letters = " abcdefghijklmnopqrstuvwxyz"
ids = tokenizer.encode(letters)
figure, axis = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
image = axis.imshow(rows[np.ix_(ids, ids)], vmin=0, vmax=0.6)
axis.set_xticks(range(len(letters)), ["␣", *letters[1:]])
axis.set_yticks(range(len(letters)), ["␣", *letters[1:]])
axis.set_xlabel("next character u")
axis.set_ylabel("character before it, c")
figure.colorbar(image, label="probability p(u | c)")
plt.close(figure)
figure

# %% [markdown] matrix_caption
# Heat map of 27 by 27 cells; most are dark, a few in each row are bright, for example
# u after q.
#
# Each row is a distribution. After q comes almost always u; after many consonants, a
# vowel; the first column shows which letters end words.

# %% [markdown] inside_counts
# The next cell prints the largest entries of some rows, and how often each context was
# counted.

# %% inside_rows
counts = np.bincount(train[:-1], minlength=vocabulary_size)
for letter in "qthz":
    c = int(tokenizer.encode(letter)[0])
    best = np.argsort(-rows[c])[:4]
    after = "  ".join(f"{tokenizer.decode([u])!r} {rows[c, u]:.2f}" for u in best)
    print(f"{letter}: counted {counts[c]:6}   {after}")
occurred = len(set(zip(train[:-1].tolist(), train[1:].tolist(), strict=True)))
empty = 1 - occurred / vocabulary_size**2
print(f"pairs that never occurred: {empty:.3f}")

# %% [markdown] inside_seen
# Of all possible pairs, {{ empty | percent }} never occurred in the training part.
# Some of them are impossible, others only rare, and counts alone do not distinguish
# the two.

# %% [markdown] misconception
# ## A misconception
#
# "More context is more information, so a longer n-gram model is always better."
#
# It is true that the longer context contains the shorter one. The question is whether
# the counts can use it: with each additional character the number of possible contexts
# is multiplied by {{ vocabulary_size | integer }}, while the training text stays the
# same.

# %% [markdown] experiment
# ## The experiment
#
# We fit n-gram models for several $n$ and compute the bits per character on the
# training part, which was counted, and on the validation part, which was not: without
# smoothing, with a small constant $k$ and with $k = 1$. The cell also prints how many
# of the n-grams of the validation part occur in the training part.

# %% experiment_run
print(" n   training    k = 0  small k    k = 1   seen")
curves = {"training": [], "few": [], "many": [], "seen": []}
for n in lengths:
    none, some, one = (
        kt.NGramModel(n, k=k).fit(train, vocabulary_size) for k in (0, few, many)
    )
    seen = float(np.mean(np.isfinite(none.log_probabilities(valid))))
    for name, value in {
        "training": some.bits_per_token(train),
        "few": some.bits_per_token(valid),
        "many": one.bits_per_token(valid),
        "seen": seen,
    }.items():
        curves[name].append(value)
    row = (curves["training"][-1], none.bits_per_token(valid), curves["few"][-1])
    print(f"{n:2}", *(f"{b:8.3f}" for b in (*row, curves["many"][-1])), f"{seen:8.3f}")
best_n = lengths[int(np.argmin(curves["few"]))]
best_n_many = lengths[int(np.argmin(curves["many"]))]
best = kt.NGramModel(best_n, k=few).fit(train, vocabulary_size)
result = best.bits_per_token(test)
result_name = "bits per character of the best n, on the test part"
print(f"best n: {best_n}   {result_name}: {result:.3f}")

# %% curves tags=["figure"]
figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axis.plot(lengths, curves["training"], "o--", color="C0", label="training, small k")
axis.plot(lengths, curves["few"], "s-", color="C1", label="validation, small k")
axis.plot(lengths, curves["many"], "^-", color="C2", label="validation, k = 1")
axis.set_xlabel("length n of the n-grams")
axis.set_ylabel("bits per character")
axis.set_ylim(bottom=0)
axis.grid(alpha=0.3)
axis.legend()
plt.close(figure)
figure

# %% [markdown] curves_caption
# Line chart of bits per character against n: the training curve falls, both
# validation curves fall and then rise.
#
# On the text that was counted, longer is better. On text that was not, there is a best
# n, and how fast the curve rises after it depends on the smoothing.

# %% [markdown] experiment_seen
# On the training part the bits decrease with each additional character: a long context
# has often occurred only once, and then the next character is certain.
# On the validation part the fewest bits are reached at $n$ = {{ best_n | integer }}
# with the small constant and at $n$ = {{ best_n_many | integer }} with $k = 1$; with
# longer n-grams they rise again.
#
# Without smoothing one unseen n-gram is enough to make $H$ infinite, since
# $\log_2 0 = -\infty$. At $n$ = {{ longest | integer }} only
# {{ seen_longest | percent }} of the n-grams of the validation part had been seen. So
# a longer $n$ is not always better: the model needs as many counts as it
# distinguishes contexts.

# %% remember tags=["hidden"]
longest, seen_longest = lengths[-1], curves["seen"][-1]
perplexity = 2.0**result

# %% [markdown] exercises
# ## Exercises
#
# **1. Better smoothing.** `NGramModel(n, smoothing="kneser_ney")` mixes the
# probabilities of all shorter contexts. Does the misconception hold with it?

# %% solution_smoothing tags=["solution"]
for n in lengths:
    mixed = kt.NGramModel(n, smoothing="kneser_ney").fit(train, vocabulary_size)
    print(n, round(mixed.bits_per_token(valid), 3))
# The shorter contexts replace what the longer ones have not seen: the bits decrease
# more and more slowly, but a longer n does little harm. The fault was not the long
# context but the estimate from few counts.

# %% [markdown] exercise_data
# **2. More data.** Find the best $n$ for a tenth, a third and all of the training
# part.

# %% solution_data tags=["solution"]
for share in (0.1, 0.33, 1.0):
    ids = train[: int(share * len(train))]
    scores = [
        kt.NGramModel(n, k=few).fit(ids, vocabulary_size).bits_per_token(valid)
        for n in lengths
    ]
    print(f"{len(ids):7} best n: {lengths[int(np.argmin(scores))]}, {min(scores):.3f}")
# With more data the best n grows or stays, and the bits decrease.

# %% [markdown] exercise_pieces
# **3. Other tokens.** Bits per token of different tokenizers cannot be compared. Fit
# bigrams of byte pairs, and convert their cross-entropy to bits per *character*.

# %% solution_pieces tags=["solution"]
pieces = kt.BytePairTokenizer(1000).fit(parts["train"])
pairs = kt.NGramModel(2, k=few).fit(
    pieces.encode(parts["train"]), len(pieces.vocabulary)
)
ids = pieces.encode(parts["valid"])
per_character = pairs.bits_per_token(ids) * len(ids) / len(parts["valid"])
print(f"bits per token {pairs.bits_per_token(ids):.3f}, character {per_character:.3f}")
# The total number of bits is the same, divided by the characters instead of the
# tokens. Two byte pairs are a longer context than two characters.

# %% [markdown] summary
# ## What we have seen
#
# - A tokenizer turns a text into ids, and one-hot vectors turn ids into vectors
#   without a false order.
# - A bigram model is a matrix of relative frequencies. The version from scratch and
#   `kerasseq.text.NGramModel` differ by rounding only.
# - The best model with a small $k$ has $n$ = {{ best_n | integer }} and needs
#   {{ result | number(2) }} bits per character on the test part, a perplexity of
#   {{ perplexity | number(1) }} instead of {{ vocabulary_size | integer }}.
# - Counts do not generalize: two contexts that differ in one character have nothing in
#   common. The networks of the next tutorials share what they learn between contexts.
#   The next one is [A network with memory](02_memory.md).

# %% [markdown] questions
# ## Questions
#
# Each can be answered by changing one line.
#
# 1. What is the best $n$ if only the first 20,000 characters are used (`characters`)?
# 2. Which constant $k$ gives the fewest bits for $n = 4$ (`few`)?
# 3. Does a lowercase text (`text.lower()` in the cell of the data) need fewer bits
#    per character, and is that a better model?

# %% [markdown] references
# ## References
#
# - C. E. Shannon, "A Mathematical Theory of Communication", 1948: n-grams and entropy.
# - R. Sennrich, B. Haddow, A. Birch, "Neural Machine Translation of Rare Words with
#   Subword Units", 2016: byte-pair encoding of words.
# - S. Chen, J. Goodman, "An Empirical Study of Smoothing Techniques for Language
#   Modeling", 1999: Kneser–Ney and others.
# - Slides A (tokenization), C (the Markov model of Shannon), D (bag of words, sliding
#   window, cross-entropy), E (byte pairs).
# - Lab *Tokens* of the app (`kerasseq app`).
