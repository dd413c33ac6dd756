# %% [markdown] title
# # Translation: the bottleneck, and attention

# %% [markdown] goals
# After this tutorial you will be able to
#
# - explain how an encoder and a decoder translate, and what the decoder knows about
#   the source;
# - compute Bahdanau's additive attention, and train models with and without it;
# - read an alignment, and measure how accuracy depends on the length of the source.

# %% [markdown] imports_text
# The tutorial needs kerasseq with the extra `data`, and downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq
from kerasseq.tracing import plots

# %% [markdown] settings_text
# These settings hold for the whole tutorial. `units` is the width of the state of most
# models; `wide` is the width of one model that comes at the end.

# %% settings
examples, highest = 6000, 999_999_999
steps, batch_size, learning_rate = 300, 64, 0.008
units, wide = 48, 144

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    examples, highest, steps, batch_size, units, wide = 120, 999, 2, 8, 5, 7

# %% [markdown] question
# ## The question
#
# A translation may have more words than its source, fewer words, or another order. A
# network that writes one output for each input word cannot do that. An
# **encoder-decoder** has two networks: the encoder reads the whole source, then the
# decoder writes the translation, word after word, until it writes the end token.
#
# **What should the decoder get from the encoder?** The first models of this kind
# handed over one vector, whatever the length of the source. This vector is the
# bottleneck: all that the decoder needs has to be in it. In 2015 Bahdanau, Cho and
# Bengio let the decoder return to the source before each word. That was attention.
#
# We compare both on a small task of translation: names of numbers, from English to
# French. It has words that do not correspond one to one: *seventy-two* is
# *soixante-douze*, sixty-twelve, and *ninety* is *quatre-vingt-dix*, four-twenty-ten.

# %% [markdown] data_text
# The next cell samples numbers of one to nine digits. A hyphen becomes a space and
# commas are removed, so that a token is a word. One number in twenty is held out.

# %% data
names = kerasseq.datasets.number_names(examples, target="fr", high=highest, seed=0)
sources, targets = (
    [text.replace("-", " ").replace(",", "") for text in side] for side in names
)
train, test = kerasseq.datasets.split((sources, targets), 0.05, seed=0)
english = kerasseq.text.WordTokenizer().fit("\n".join(train.sources))
french = kerasseq.text.WordTokenizer().fit("\n".join(train.targets))
for source, target in zip(test.sources[:3], test.targets[:3], strict=True):
    print(source, "=", target, end="\n\n")
print("training pairs:", len(train.sources), "  test pairs:", len(test.sources))
print("words:", english.vocabulary_size, "English,", french.vocabulary_size, "French")

# %% [markdown] data_after
# A few dozen words are enough for a billion numbers. No test number is in the training
# set, so a model cannot remember translations: it has to compose them.

# %% [markdown] equation
# ## The equation
#
# Let $x_1, \dots, x_S$ be the words of the source and $y_1, \dots, y_T$ those of the
# translation. The encoder is recurrent; it reads the source in both directions, and its
# states are
#
# $$
# h_1, \dots, h_S \qquad h_j = [\overrightarrow{h}_j ; \overleftarrow{h}_j]
# $$
#
# The decoder has the state $s_t$. It is recurrent, too, and its inputs are the previous
# word of the translation and a vector $c_t$, called the **context**:
#
# $$
# s_t = \mathrm{GRU}(s_{t-1}, [y_{t-1}; c_t]) \qquad
# p(y_t \mid y_1, \dots, y_{t-1}, x) = \mathrm{softmax}(W_o\, o(s_t, c_t))
# $$
#
# where $o$ is one dense layer. The first state $s_0$ is computed by a dense layer from
# the last states of the encoder, in both models.
#
# *Without attention* the context is the same at each step, the last states of both
# directions: $c_t = [\overrightarrow{h}_S ; \overleftarrow{h}_1]$. Its width does not
# depend on $S$.
#
# *With attention* the context is a weighted mean of all states of the encoder. A small
# network with the weights $W_q$, $W_k$ and $v$ computes a **score** for each of them,
# and a softmax turns the scores into weights with the sum 1:
#
# $$
# e_{tj} = v^\top \tanh(W_q s_{t-1} + W_k h_j) \qquad
# \alpha_{tj} = \frac{\exp e_{tj}}{\sum_{k=1}^{S} \exp e_{tk}} \qquad
# c_t = \sum_{j=1}^{S} \alpha_{tj} h_j
# $$
#
# The score is called *additive*, as two projections are added: one of the **query**
# $s_{t-1}$, which stands for what the decoder is about to write, and one of the **key**
# $h_j$. Nothing in these equations names a position: a query finds its key by content.
# All operations are differentiable, so the scores are learned along with the
# translation, from pairs of texts that no one has aligned.

# %% [markdown] scratch_text
# The three equations are five lines. Sources of one batch differ in length and are
# padded; the mask gives padding the weight 0.


# %% scratch tags=["scratch"]
def additive_attention(s, h, W_q, W_k, v, mask):
    """Contexts (B, T, M) and weights (B, T, S) of queries s (B, T, D), keys h."""
    q = ops.matmul(s, W_q)[:, :, None, :]  # (B, T, 1, U)
    k = ops.matmul(h, W_k)[:, None, :, :]  # (B, 1, S, U)
    e = ops.matmul(ops.tanh(q + k), v)[..., 0]  # (B, T, S)
    e = ops.where(mask[:, None, :], e, -1e9)  # padding
    alpha = ops.softmax(e, axis=-1)
    return ops.matmul(alpha, h), alpha


# %% [markdown] scratch_after
# `q + k` has four axes: each query is added to each key. This makes the additive score
# more expensive than a dot product, which is a matrix multiplication.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.BahdanauAttention` is this function as a layer. With random queries
# and keys, and the weights of the layer, both give the same.

# %% library_attention
rng = np.random.default_rng(0)
s = rng.normal(size=(2, 3, 4)).astype("float32")  # 3 queries of width 4
h = rng.normal(size=(2, 5, 6)).astype("float32")  # 5 keys of width 6
mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
layer = kerasseq.layers.BahdanauAttention(7)
context, alpha = layer(s, h, mask=mask, return_attention_scores=True)
our_context, our_alpha = additive_attention(s, h, layer.W_q, layer.W_k, layer.v, mask)


def max_difference(a, b):
    """The largest absolute difference of two tensors."""
    return float(np.abs(ops.convert_to_numpy(a) - ops.convert_to_numpy(b)).max())


print("max difference, contexts:", max_difference(context, our_context))
print("max difference, weights: ", max_difference(alpha, our_alpha))
print("weights with two keys padded:", ops.convert_to_numpy(alpha)[1, 0].round(2))

# %% [markdown] library_train_text
# The two results agree to rounding, and padding has the weight 0. `Seq2Seq` is the
# whole encoder-decoder. We train it twice with the same settings, without and with
# attention, and count a translation only if every word of it is right.


# %% library_train
def train_model(attention, units):
    """Trains an encoder-decoder of GRUs, whose states have this width."""
    keras.utils.set_random_seed(0)
    model = kerasseq.models.Seq2Seq(
        "gru", english, french, attention=attention, units=units
    )
    schedule = keras.optimizers.schedules.CosineDecay(learning_rate, steps)
    model.compile(keras.optimizers.Adam(schedule, global_clipnorm=1.0))
    model.fit(train, batch_size=batch_size, steps_per_epoch=steps, verbose=0)
    return model


def exact(model):
    """Whether each translation of the test set is right."""
    found = model.translate(test.sources, max_length=32, alignments=False)
    pairs = zip(found, test.targets, strict=True)
    return np.array([translation.text == target for translation, target in pairs])


without, searching = train_model(None, units), train_model("bahdanau", units)
right_without, right_searching = exact(without), exact(searching)
exact_without = float(right_without.mean())
exact_attention = float(right_searching.mean())
parameters_attention = searching.count_params()
print("exact translations without attention:", round(exact_without, 3))
print("exact translations with attention:   ", round(exact_attention, 3))

# %% [markdown] library_after
# Encoder, training data, number of steps and learning rate are the same. With attention
# {{ exact_attention | percent }} of the test numbers are translated exactly; without
# it, {{ exact_without | percent }}.

# %% [markdown] inside
# ## Look inside
#
# `translate` returns the attention weights of each translation as its `alignment`. A
# row of the map is a step of the decoder, a column is a word of the source.

# %% alignment tags=["figure"]
translation = searching.translate("two hundred and seventy two thousand and ninety one")
figure = plots.plot_attention(
    translation.alignment, translation.source_tokens, translation.target_tokens
)
figure.axes[0].set_xlabel("source")
figure.axes[0].set_ylabel("translation")
figure.axes[-1].set_ylabel("attention weight")
figure

# %% [markdown] alignment_caption
# Heat map of attention weights: words of the translation in rows, words of the source
# in columns.
#
# The alignment of one number. Each row is one word that the decoder writes, and its
# bright cells are the words of the source that its context consists of. The sum of a
# row is 1.

# %% [markdown] inside_after
# Follow the rows from top to bottom: the bright cells move through the source from left
# to right. Where one English word becomes several French words,
# several rows share a column. Where a French word depends on two English words, such as
# *douze* on *seventy* and *two*, compare both columns: one of them can be dark, because
# the state $h_j$ at one word has read its neighbors as well. The alignment was not in
# the training data.
#
# A source position whose word has no counterpart, such as *and*, may be bright, too:
# the state at this position contains the words around it. An alignment shows from which
# states the context was computed. It doesn't prove which words mattered.

# %% [markdown] misconception
# ## A misconception
#
# *"Without attention the state is just too small. Make it wide enough, and the last
# state of the encoder holds the whole sentence."*
#
# A vector of floating-point numbers has certainly room for nine digits. The question is
# whether training finds a way to write them into it and to read them from it. If the
# sentence is right, a model without attention whose state is
# {{ width_ratio | integer }} times as wide should be at least as good as the model with
# attention, on short numbers and on long ones.

# %% [markdown] experiment
# ## The experiment
#
# We train the wide model without attention for the same number of steps, and compare
# all three by the length of the source.

# %% experiment_train
width_ratio = wide // units
wider = train_model(None, wide)
right_wide = exact(wider)
exact_wide = float(right_wide.mean())
parameters_wide = wider.count_params()
parameter_ratio = parameters_wide / parameters_attention
print("model                   parameters  exact")
for name, model, share in [
    ("without attention", without, exact_without),
    ("without attention, wide", wider, exact_wide),
    ("with attention", searching, exact_attention),
]:
    print(f"{name:23} {model.count_params():10,} {share:6.3f}")

# %% [markdown] experiment_groups_text
# The test set is sorted by length and cut into groups of equal size; each point of the
# figure is one of them.

# %% lengths tags=["figure"]
lengths = np.array([len(source.split()) for source in test.sources])
groups = np.array_split(np.argsort(lengths, kind="stable"), 5)
figure, axis = plt.subplots(figsize=(6.5, 3.6))
for label, right, marker in [
    ("with attention", right_searching, "o"),
    ("without attention, wide", right_wide, "s"),
    ("without attention", right_without, "^"),
]:
    x = [lengths[group].mean() for group in groups]
    axis.plot(x, [right[group].mean() for group in groups], marker + "-", label=label)
axis.set(ylim=(0, 1.05))
axis.set_xlabel("words of the source")
axis.set_ylabel("exact translations, 0 to 1")
axis.grid(alpha=0.3)
axis.legend()
plt.close(figure)
figure

# %% [markdown] lengths_caption
# Share of exact translations against the length of the source, for three models.
#
# Short sources are on the left, long ones on the right. A flat line means that length
# doesn't matter; a falling line is the bottleneck.

# %% shares
longest = groups[-1]
long_attention = float(right_searching[longest].mean())
long_without = float(right_without[longest].mean())
long_wide = float(right_wide[longest].mean())
result, result_name = exact_attention, "exact translations with attention"
print("longest fifth:  with attention", round(long_attention, 3))
print("       without attention, wide", round(long_wide, 3))
print("             without attention", round(long_without, 3))

# %% [markdown] experiment_after
# On the longest fifth of the test set, the model with attention has
# {{ long_attention | percent }} of the numbers right, the wide model without attention
# {{ long_wide | percent }}, the narrow one {{ long_without | percent }}. The wide model
# has {{ parameter_ratio | number(1) }} times as many parameters as the model with
# attention.
#
# A larger state helps, but the difference remains where the misconception says that it
# should vanish. That a vector has room is not the point. Without attention the whole
# sentence must be packed into one vector, and unpacked in the right order, and all of
# this must be learned through the gradient that passes that one vector. With attention,
# the word is still where the encoder read it; the path from it to the output is a few
# operations long, however long the source.
#
# What the experiment doesn't show: with many more steps and examples the wide model
# comes closer. The first encoder-decoders without attention translated whole sentences,
# with large states and weeks of training.

# %% [markdown] exercises
# ## Exercises
#
# **1.** Slides B write the score with one matrix,
# $e_{tj} = v^\top \tanh(W [s_{t-1}; h_j])$, where $[s; h]$ is the concatenation. Show
# with the layer above that this is the same score, for the right $W$.

# %% solution_concat tags=["solution"]
W = ops.concatenate([layer.W_q, layer.W_k], axis=0)  # (4 + 6, 7)
pairs = np.concatenate(
    [np.repeat(s[:, :, None], 5, axis=2), np.repeat(h[:, None], 3, axis=1)], axis=-1
)  # (2, 3, 5, 4 + 6)
e = ops.matmul(ops.tanh(ops.matmul(pairs, W)), layer.v)[..., 0]
e = ops.where(mask[:, None, :], e, -1e9)
print("max difference of the weights:", max_difference(ops.softmax(e, axis=-1), alpha))

# %% [markdown] exercise_errors
# **2.** Where do the wrong translations of the model without attention begin to be
# wrong? Compute the position of the first wrong word, as a share of the length.

# %% solution_errors tags=["solution"]
first_errors = []
for found, target in zip(
    without.translate(test.sources, max_length=32), test.targets, strict=True
):
    words, wanted = found.text.split(), target.split()
    if words != wanted:
        same = [a == b for a, b in zip(words, wanted, strict=False)]
        first = same.index(False) if False in same else len(same)
        first_errors.append(first / len(wanted))
print("wrong translations:", len(first_errors), "of", len(test.targets))
print("first wrong word, by quarters of the target (and after its end):")
print(np.histogram(first_errors, bins=[0, 0.25, 0.5, 0.75, 1, 9])[0])

# %% [markdown] exercise_entropy
# **3.** Which French words attend to one source word, and which to several? Compute the
# entropy of each row of the alignments, $-\sum_j \alpha_{tj} \log_2 \alpha_{tj}$, and
# its mean for each word.

# %% solution_entropy tags=["solution"]
entropies = {}
for found in searching.translate(test.sources[:100], max_length=32):
    rows = -(found.alignment * np.log2(found.alignment + 1e-12)).sum(axis=1)
    for word, bits in zip(found.target_tokens, rows, strict=True):
        entropies.setdefault(word, []).append(float(bits))
means = sorted((np.mean(bits), word) for word, bits in entropies.items())
for bits, word in [*means[:3], *means[-3:]]:
    print(f"{word:12} {bits:5.2f} bits")

# %% [markdown] summary
# ## What we saw
#
# - An encoder-decoder without attention hands over one vector. It translated
#   {{ exact_without | percent }} of the test numbers exactly, and
#   {{ long_without | percent }} of the longest ones.
# - Additive attention computes a score for each state of the encoder, a softmax, and a
#   weighted mean. With it the same encoder-decoder reached
#   {{ exact_attention | percent }}.
# - A state {{ width_ratio | integer }} times as wide, without attention, reached
#   {{ exact_wide | percent }} after the same number of steps.
# - The weights are an alignment that was learned without aligned data.
#
# The decoder was trained on the right previous words, but it continues its own ones.
# What this difference does is the subject of [the next tutorial](08_exposure.md). If
# the encoder attends to itself, no recurrence is needed at all:
# [Self-attention](09_self_attention.md).

# %% [markdown] questions
# ## Questions that the code can answer
#
# - Do the three models still differ on short numbers? Set `highest = 999`.
# - What happens to the alignment if the encoder reads in one direction only? Pass
#   `bidirectional=False` to `Seq2Seq`.
# - Luong's attention scores the state *after* the step, $s_t^\top W h_j$. Is it as
#   good? Train with `train_model("luong", units)`.

# %% [markdown] references
# ## References
#
# - Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for
#   Statistical Machine Translation", 2014; Sutskever, Vinyals and Le, "Sequence to
#   Sequence Learning with Neural Networks", 2014.
# - Bahdanau, Cho and Bengio, "Neural Machine Translation by Jointly Learning to Align
#   and Translate", 2015.
# - Luong, Pham and Manning, "Effective Approaches to Attention-based Neural Machine
#   Translation", 2015.
# - Jain and Wallace, "Attention is not Explanation", 2019; Wiegreffe and Pinter,
#   "Attention is not not Explanation", 2019.
# - Slides A, B, C and D. Lab *Translation* of the app (`kerasseq app`).
