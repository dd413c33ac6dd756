# %% [markdown] title
# # Translation: the bottleneck, and attention

# %% [markdown] goals
# After this tutorial you will be able to
#
# - explain how an encoder and a decoder translate, and what the decoder knows about the
#   source;
# - compute Bahdanau's additive attention, and train models with and without it;
# - read from a map which words of the source a translation attends to, and measure how
#   the share of right translations depends on the length of the source.

# %% [markdown] imports_text
# The tutorial needs kerasseq with the extra `data`, whose package num2words has the
# names of the numbers. It downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq
from kerasseq.tracing import plots

# %% [markdown] settings_text
# These settings hold for the whole tutorial. `steps` is the number of training steps,
# `units` the number of units of the first two models, and `wide` that of a third one in
# the experiment at the end.

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
# **encoder-decoder** has two parts: the encoder reads the whole source, then the
# decoder writes the translation, word after word, until it writes a special token,
# `<end>`.
#
# **What should the decoder get from the encoder?** The first models of this kind handed
# over one vector of fixed size, whatever the length of the source. This vector is the
# **bottleneck**: all that the decoder needs has to be in it. In 2015 Bahdanau, Cho and
# Bengio let the decoder return to all words of the source before it writes each word of
# its own. This is **attention**.
#
# We compare both on a small task of translation: names of numbers, from English to
# French. Their words do not correspond one to one: *seventy-two* is *soixante-douze*,
# sixty-twelve, and *ninety* is *quatre-vingt-dix*, four-twenty-ten.

# %% [markdown] data_text
# The next cell samples different numbers of one to nine digits, equally many of each
# length as far as there are enough. A hyphen becomes a space and commas are removed, so
# that a token is a word. One number in twenty is held out for the test.

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
# A few dozen words are enough for a billion numbers. All numbers are different, so no
# test number is in the training set: a model cannot remember translations, it has to
# compose them.

# %% [markdown] equation
# ## The equation
#
# Let $x_1, \dots, x_S$ be the words of the source and $y_1, \dots, y_T$ those of the
# translation, the last of which is `<end>`. In the equations each word stands for its
# embedding, a learned vector, and $[a; b]$ is the concatenation of two vectors.
#
# The **encoder** has two GRUs ([Gates](04_gates.md)). One reads the source from left to
# right; $\overrightarrow{h}_j$ is its state after $x_j$. The other reads from right to
# left; $\overleftarrow{h}_j$ is its state after $x_j$. Together they are the state of
# the encoder at word $j$:
#
# $$
# h_j = [\overrightarrow{h}_j ; \overleftarrow{h}_j] \qquad j = 1, \dots, S
# $$
#
# The **decoder** is a third GRU, with the state $s_t$. At step $t$ its inputs are the
# previous word of the translation, $y_{t-1}$, where $y_0$ is a token for the start, and
# a vector $c_t$ from the encoder, the **context**. State and context give the
# probabilities of the next word:
#
# $$
# \begin{aligned}
# s_t &= \mathrm{GRU}(s_{t-1}, [y_{t-1}; c_t]) \\
# o_t &= \tanh(W_c\, [s_t; c_t]) \\
# p(y_t \mid y_1, \dots, y_{t-1}, x) &= \mathrm{softmax}(W_o\, o_t + b_o)
# \end{aligned}
# $$
#
# $W_c$, $W_o$ and $b_o$ are learned. A dense layer computes the first state $s_0$ from
# the last states of both GRUs of the encoder,
# $[\overrightarrow{h}_S ; \overleftarrow{h}_1]$: the one that reads from right to left
# ends at the first word.
#
# Our two models differ only in $c_t$. *Without attention* it is the same vector at each
# step, those last states: $c_t = [\overrightarrow{h}_S ; \overleftarrow{h}_1]$. This is
# the bottleneck: its size, twice `units`, does not depend on $S$.
#
# *With attention* $c_t$ is a weighted mean of all states of the encoder, with new
# weights at each step. A small network with the learned matrices $W_q$ and $W_k$ and
# the learned vector $v$ computes a **score** $e_{tj}$ for each state, and a softmax
# turns the scores into **attention weights** $\alpha_{tj}$, whose sum over $j$ is 1:
#
# $$
# \begin{aligned}
# e_{tj} &= v^\top \tanh(W_q s_{t-1} + W_k h_j) \\[1ex]
# \alpha_{tj} &= \frac{\exp e_{tj}}{\sum_{i=1}^{S} \exp e_{ti}} \\[1ex]
# c_t &= \sum_{j=1}^{S} \alpha_{tj} h_j
# \end{aligned}
# $$
#
# The score is called *additive*, as two projections are added: one of the **query**
# $s_{t-1}$, the state in which the decoder is about to write, and one of the **key**
# $h_j$. No position appears in these equations: a query finds its key by content. All
# operations are differentiable, so the scores are learned along with the translation,
# from pairs of texts. No one tells the network which words of a pair belong together.
# The weights have to find it out, which is why they are called an **alignment**.

# %% [markdown] scratch_text
# The three equations of attention become five lines, and a sixth one for padding. Here
# vectors are rows, so the matrices stand on their right. In the shapes, `B` is the
# number of sequences in the batch, `T` that of queries and `S` that of keys; `D`, `M`
# and `U` are the numbers of features of a query, of a key, and of the $\tanh$. Sources
# of one batch differ in length and are padded: where `mask` is false, the score becomes
# $-10^9$, and the softmax makes it the weight 0.


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
# `q + k` has four axes: each query is added to each key, and `B * T * S * U` numbers go
# through the $\tanh$. A dot product of each query and each key, the score of
# [Self-attention](09_self_attention.md), is a matrix multiplication and cheaper. The
# decoder calls such a function at each of its steps with a single query, as $s_t$ is
# not known before $c_t$.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.BahdanauAttention` is this function as a layer, whose argument is
# `U`. The next cell samples queries and keys for two sequences; the last two keys of
# the second sequence are padding. It calls the layer and our function with the same
# weights.

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
# The two results agree to rounding, and padding has the weight 0.
#
# `kerasseq.models.Seq2Seq` is the whole encoder-decoder. The cell trains it twice with
# the same settings, with `attention=None` and with Bahdanau's attention. The learning
# rate falls from `learning_rate` to 0, and gradients are clipped ([Why it
# forgets](03_forgetting.md)). In training $y_{t-1}$ is the previous word of the right
# translation. In `translate` there is no right translation: the decoder takes the most
# probable word at each step, and this word is its next input. We count a translation
# only if every word of it is right.
#
# In the code the model with attention is `searching`, since its authors called it
# RNNsearch: it searches the source before each word.


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
# `translate` also returns the attention weights, as `alignment`: an array with a row
# for each step of the decoder and a column for each word of the source. We look at
# those of one number, 272,091. The last row is the step that writes `<end>`.

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
# in columns. The bright cells run from the upper left to the lower right.
#
# Each row is a word that the decoder writes; its bright cells are the words of the
# source whose states $h_j$ its context is made of. The sum of a row is 1. Compare the
# row "soixante", with one bright cell, and the row "cent", with none, and look for the
# rows that share the columns "ninety" and "one".

# %% [markdown] inside_after
# Follow the rows from top to bottom: the bright cells move through the source from left
# to right, although no training pair says which words belong together.
#
# The French of France has no single word for ninety: *ninety one* is
# *quatre-vingt-onze*, four-twenty-eleven, and three rows share two columns. *douze*,
# twelve, depends on *two* and on *seventy*: after *twenty* it would be *deux*, two.
# Compare the two columns in this row: the weight of one of them can be small, because
# the state $h_j$ at one word has read its neighbors as well.
#
# The row *cent* is spread over several columns, and one of them is *and*, a word that
# has no counterpart. A possible reason: French writes *deux cents*, but *deux cent
# soixante-douze*. The decoder has to know what follows the hundred, and the states
# after *hundred* contain it. An alignment shows from which states the context was
# computed. It doesn't prove which words mattered.

# %% [markdown] misconception
# ## A misconception
#
# *"Without attention the state is just too small. Make it wide enough, and the last
# state of the encoder holds the whole sentence."*
#
# A vector of floating-point numbers certainly has room for nine digits. The question is
# whether training finds a way to write them into it and to read them from it. If the
# statement is right, a model without attention whose states are
# {{ width_ratio | integer }} times as wide should be at least as good as the model with
# attention, on short numbers and on long ones.

# %% [markdown] experiment
# ## The experiment
#
# We train the wide model without attention with the same settings, and then compare all
# three by the length of the source.

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
# The test set is sorted by the number of words of the source and cut into five groups
# of equal size. Each point of the figure is one group: its mean length, and the share
# of its numbers that are translated exactly.

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
# Lines of the share of exact translations against the length of the source, for three
# models: all are high on the left; on the right only the one with attention is.
#
# Short sources are on the left, long ones on the right. Compare the three lines at the
# left end, and then at the right end. A point is a fifth of the test set: where two
# lines differ by one number or two, that is chance.

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
# On the shortest fifth of the test set the three models are alike. On the longest
# fifth, the model with attention has {{ long_attention | percent }} of the numbers
# right, the wide model without attention {{ long_wide | percent }}, the narrow one
# {{ long_without | percent }}. The wide model has {{ parameter_ratio | number(1) }}
# times as many parameters as the model with attention.
#
# So the misconception is right on short numbers, and a larger state helps on long ones.
# But there the difference remains, where it should vanish. Is it only that a long
# translation has more words that can be wrong? No: the model with attention has to
# write the same words, and its line hardly falls.
#
# The equations suggest a reason. Without attention the whole source must be packed into
# one vector, and unpacked in the right order, and the encoder learns this through the
# gradient that passes that one vector. With attention, the word is still where the
# encoder read it; the path from $h_j$ to the output is a few operations long, however
# long the source.
#
# The experiment stops after {{ steps | integer }} steps. It doesn't show that a model
# without attention cannot learn the task. With more steps both come closer, even the
# narrow one, whose vector has no more room than before; the first of the questions
# below tries it. What attention saves here is training. The first encoder-decoders
# without attention translated whole sentences, with large states and days of training.

# %% [markdown] exercises
# ## Exercises
#
# **1.** Slides B write the score with one matrix,
# $e_{tj} = v^\top \tanh(W [s_{t-1}; h_j])$. Show that this is the same score, for the
# right $W$: build it from `layer.W_q` and `layer.W_k` of the layer above, compute the
# attention weights from it, `layer.v`, `s`, `h` and `mask`, and compare them with
# `alpha`.

# %% solution_concat tags=["solution"]
W = ops.concatenate([layer.W_q, layer.W_k], axis=0)  # (4 + 6, 7)
pairs = np.concatenate(
    [np.repeat(s[:, :, None], 5, axis=2), np.repeat(h[:, None], 3, axis=1)], axis=-1
)  # (2, 3, 5, 4 + 6)
e = ops.matmul(ops.tanh(ops.matmul(pairs, W)), layer.v)[..., 0]
e = ops.where(mask[:, None, :], e, -1e9)
print("max difference of the weights:", max_difference(ops.softmax(e, axis=-1), alpha))

# %% [markdown] solution_concat_after
# In the equation $W = [W_q, W_k]$, side by side; in the code, where vectors are rows,
# `W_q` is above `W_k`. A product with a concatenation is the sum of two products.

# %% [markdown] exercise_errors
# **2.** Does the model without attention get lost at the end of a long number, or
# earlier? Translate the test set: each result of
# `without.translate(test.sources, max_length=32)` has a `text`. For each wrong one
# compute the position of the first wrong word, divided by the number of words of the
# right translation.

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

# %% [markdown] solution_errors_after
# About half of the wrong translations are wrong in the first quarter already, and few
# only near the end. So the decoder does not lose the thread after many good words.
# (Words after the first error do not count, as the decoder continues from its own wrong
# word.)

# %% [markdown] exercise_entropy
# **3.** For which French words is the attention on one source word, and for which on
# several? Each result of `searching.translate` has the words `target_tokens`, and its
# `alignment` has a row for each of them. Compute the entropy of each row,
# $-\sum_j \alpha_{tj} \log_2 \alpha_{tj}$, and its mean for each word. It is 0 bits if
# one weight is 1, and $\log_2 S$ bits if all $S$ weights are equal.

# %% solution_entropy tags=["solution"]
entropies = {}
for found in searching.translate(test.sources[:100], max_length=32):
    rows = -(found.alignment * np.log2(found.alignment + 1e-12)).sum(axis=1)
    for word, bits in zip(found.target_tokens, rows, strict=True):
        entropies.setdefault(word, []).append(float(bits))
means = sorted((np.mean(bits), word) for word, bits in entropies.items())
for bits, word in [*means[:3], *means[-3:]]:
    print(f"{word:12} {bits:5.2f} bits")

# %% [markdown] solution_entropy_after
# *deux* and *soixante* follow from one source word. Before *cent* the decoder has to
# know what follows it, and before `<end>` that nothing is left; no single word tells
# this, and the weights are spread.

# %% [markdown] summary
# ## What we saw
#
# - An encoder-decoder without attention hands over one vector. It translated
#   {{ exact_without | percent }} of the test numbers exactly, and
#   {{ long_without | percent }} of the longest fifth.
# - Additive attention computes a score for each state of the encoder, a softmax, and a
#   weighted mean. With it the same encoder-decoder reached
#   {{ exact_attention | percent }}, and {{ long_attention | percent }} of the longest
#   fifth.
# - States {{ width_ratio | integer }} times as wide, without attention, reached
#   {{ exact_wide | percent }} after the same number of steps, and
#   {{ long_wide | percent }} of the longest fifth.
# - The weights are an alignment that was learned without aligned data.
#
# The decoder was trained with the right previous words, but in use it continues from
# its own ones. What this difference does is the subject of [the next
# tutorial](08_exposure.md). If the encoder attends to itself, no recurrence is needed
# at all: [Self-attention](09_self_attention.md).

# %% [markdown] questions
# ## Questions that the code can answer
#
# - How much do the models without attention gain from more training? Set
#   `steps = 1000`.
# - Do the three models still differ on short numbers? Set
#   `examples, highest = 1000, 999`: there are no more than a thousand of them.
# - What happens to the alignment if the encoder reads from left to right only? Pass
#   `bidirectional=False` to `Seq2Seq` in `train_model`, and draw the map again.
# - Luong's attention comes after the step of the GRU: its query is $s_t$, its score
#   $s_t^\top W h_j$, and the context goes into $o_t$ only. Is it as good? Compute
#   `exact(train_model("luong", units)).mean()`.

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
