# %% [markdown] title
# # Teacher forcing, exposure bias, and beam search

# %% [markdown] goals
# After this tutorial you will be able to
#
# - explain what a decoder receives as input in training and in use, and measure the
#   difference;
# - train with scheduled sampling, and judge whether it helped;
# - write a beam search, read its tree, and say what a wider beam does and does not
#   guarantee.

# %% [markdown] question
# ## The question
#
# A decoder is trained on right targets, but in use it continues from its own output,
# errors included. How much does this cost? And is choosing the most probable token at
# each step a good way to find a probable sequence?

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq
from kerasseq import datasets, decoding, training
from kerasseq.text import CharacterTokenizer

# %% settings
pairs, tested, steps, units = 8000, 192, 300, 64
widths = (1, 2, 4, 16)

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    pairs, tested, steps, units = 200, 16, 2, 8
    widths = (1, 2)

# %% [markdown] equation
# ## The equation
#
# A model of targets $y = (y_1, \dots, y_T)$, given a source $x$, is a product over the
# tokens:
#
# $$\log p(y \mid x) = \sum_{t=1}^{T} \log p(y_t \mid y_1, \dots, y_{t-1}, x)$$
#
# Training minimizes the negative of this sum. The tokens behind the bar are those of
# the right target: this is **teacher forcing**. In use there is no right target. The
# tokens behind the bar are then the model's own output $\hat y_1, \dots, \hat y_{t-1}$,
# and after an error they form a beginning that no training example had. This is
# **exposure bias**.
#
# **Scheduled sampling** (Bengio et al. 2015) mixes the two in training. At step $i$ of
# the training each input of the decoder is the right token with probability
# $\varepsilon_i$, and the prediction of the model otherwise. $\varepsilon_i$ begins at
# 1 and falls.
#
# In use, **greedy search** takes the most probable token at each step. **Beam search**
# keeps the $W$ most probable beginnings, the hypotheses. At each step it expands each
# of them by every token, and keeps the best $W$ of all expansions by the sum
#
# $$s(y_1 \dots y_t) = s(y_1 \dots y_{t-1}) + \log p(y_t \mid y_1 \dots y_{t-1}, x)$$
#
# A hypothesis that ends with the end token leaves the beam. $W = 1$ is greedy search.

# %% [markdown] scratch_text
# ## From scratch
#
# The search needs one function, from a beginning to the log-probabilities of the next
# token.


# %% scratch tags=["scratch"]
def beam_search(next_log_p, width, max_length, end=None):
    beam, finished = [([], 0.0)], []
    for _ in range(max_length):
        expansions = [
            ([*tokens, token], score + float(log_p))
            for tokens, score in beam
            for token, log_p in enumerate(next_log_p(tokens))
        ]
        expansions.sort(key=lambda expansion: -expansion[1])
        beam = []
        for tokens, score in expansions[:width]:
            ended = tokens[-1] == end or len(tokens) == max_length
            (finished if ended else beam).append((tokens, score))
    return max(finished, key=lambda hypothesis: hypothesis[1])


# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.decoding.Beam` searches for all rows of a batch at once, on the accelerator
# if there is one, and takes the state of the decoder along. The test is a set of random
# Markov chains, in which the next token depends on the last one only. There a
# brute-force search over all sequences is possible, too.

# %% library_code
chains, tokens_of, steps_of = 60, 5, 6
rng = np.random.default_rng(0)
transitions = rng.dirichlet(np.full(tokens_of, 0.7), (chains, tokens_of))
log_p = np.log(transitions).astype("float32")  # (chains, last token, next token)


def step(state, token):
    rows = ops.take_along_axis(state, token[:, None, None], axis=1)
    return rows[:, 0], state


prompts = np.zeros((chains, 1), "int32")


def compare(width):
    """The scores of kerasseq for all chains, and the largest difference."""
    found = decoding.Beam(width).search(step, log_p, prompts, max_new_tokens=steps_of)
    own = [
        beam_search(lambda tokens, p=p: p[tokens[-1] if tokens else 0], width, steps_of)
        for p in log_p
    ]
    same = [
        list(ids) == tokens
        for ids, (tokens, _) in zip(found.ids[:, 0], own, strict=True)
    ]
    scores = np.array([score for _, score in own])
    return scores, np.abs(scores - found.scores[:, 0]).max(), np.mean(same)


every = np.indices((tokens_of,) * steps_of).reshape(steps_of, -1)
last = np.concatenate([np.zeros_like(every[:1]), every[:-1]])
every_count = every.shape[1]
best = log_p[:, last, every].sum(axis=1).max(axis=1)  # of all sequences
found_best = {}
for width in (1, 2, 4, 16):
    scores, gap, same = compare(width)
    found_best[width] = float(np.mean(scores > best - 1e-4))
    print(
        f"width {width:2}  difference {gap:.0e}  same sequence {same:.2f}  "
        f"most probable found {found_best[width]:.2f}"
    )
greedy_best, two_best, beam_best = (found_best[width] for width in (1, 2, 4))

# %% [markdown] library_seen
# The two searches agree up to rounding. The last column compares them with all
# {{ every_count | integer }} sequences: greedy search finds the most probable one in
# {{ greedy_best | percent }} of the chains, a beam of width 4 in
# {{ beam_best | percent }}. A beam is no guarantee: a beginning that looks poor is
# dropped, and its good continuation is never seen.

# %% [markdown] data_text
# ## A model that makes errors
#
# The task is to reverse strings of 6 to 12 letters. The model is an encoder-decoder of
# GRUs *without attention*, trained for {{ steps | integer }} steps, so that it is good
# but not perfect. It is trained twice from the same initial weights: with teacher
# forcing, and with scheduled sampling, where $\varepsilon$ falls in the form of a
# sigmoid to one quarter.

# %% train
train_pairs, test = datasets.split(
    datasets.reverse_task(pairs, symbols="abcdefgh", min_length=6, max_length=12), 0.1
)
test = datasets.Pairs(test.sources[:tested], test.targets[:tested])
letters = CharacterTokenizer().fit(train_pairs.sources)
longest = 14
schedule = training.ScheduledSampling(
    "inverse_sigmoid", k=max(1, steps / 8), lowest=0.25
)


def train(scheduled_sampling=None):
    keras.utils.set_random_seed(0)
    model = kerasseq.models.Seq2Seq(
        "gru",
        letters,
        letters,
        attention=None,
        units=units,
        scheduled_sampling=scheduled_sampling,
    )
    rate = keras.optimizers.schedules.CosineDecay(0.01, steps, alpha=0.05)
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
    model.fit(train_pairs, steps_per_epoch=steps, epochs=1, verbose=0)
    return model


forced_model, sampled_model = train(), train(schedule)
shown = forced_model.generate(test.sources[:4], longest)
for source, output in zip(test.sources[:4], shown, strict=True):
    print(f"{source:12}  {output:12}  {'right' if output == source[::-1] else 'wrong'}")

# %% [markdown] inside
# ## Look inside: the accuracy of each position
#
# The next cell computes for each position of the target whether the predicted token is
# right. First the decoder receives the right target, as in training. Then it receives
# its own output.

# %% inside_code


def with_teacher(model):
    """Whether each token is right after the right tokens; NaN after the end."""
    inputs, labels = model.arrays(*test)
    predicted = model.predict(inputs, verbose=0).argmax(axis=-1)
    return np.where(labels > 0, predicted == labels, np.nan)


def on_its_own(model, sampler="greedy"):
    """The same, after the output of the model itself."""
    outputs = model.generate(test.sources, longest, sampler=sampler)
    right = np.full((tested, longest), np.nan)
    for row, output, target in zip(right, outputs, test.targets, strict=True):
        output, target = [*output, "end"], [*target, "end"]
        row[: len(target)] = [output[n : n + 1] == [y] for n, y in enumerate(target)]
    return right


def after_an_error(right):
    """The accuracy of the tokens that come after a wrong one."""
    errors = np.cumsum(right == 0, axis=1) - (right == 0)
    return float(np.nanmean(np.where(errors > 0, right, np.nan)))


accuracy = {}
for name, model in (("teacher", forced_model), ("scheduled", sampled_model)):
    forced, own = with_teacher(model), on_its_own(model)
    accuracy[name] = {
        "forced": float(np.nanmean(forced)),
        "own": float(np.nanmean(own)),
        "after": after_an_error(own),
        "exact": float(np.mean(np.nanmin(own, axis=1))),
        "positions": (np.nanmean(forced[:, :12], 0), np.nanmean(own[:, :12], 0)),
    }
    print(name, {k: round(v, 3) for k, v in accuracy[name].items() if k != "positions"})
forced_tokens, own_tokens = accuracy["teacher"]["forced"], accuracy["teacher"]["own"]
after_tokens, exact = accuracy["teacher"]["after"], accuracy["teacher"]["exact"]
sampled_forced = accuracy["scheduled"]["forced"]
sampled_own, sampled_exact = (
    accuracy["scheduled"]["own"],
    accuracy["scheduled"]["exact"],
)

# %% positions tags=["figure"]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
forced, own = accuracy["teacher"]["positions"]
axis.plot(range(1, len(forced) + 1), forced, "o-", color="C0", label="right target")
axis.plot(range(1, len(own) + 1), own, "s-", color="C1", label="own output")
axis.set_xlabel("position in the target")
axis.set_ylabel("accuracy")
axis.legend(title="input of the decoder")
plt.close(figure)
figure

# %% [markdown] positions_caption
# Two curves of accuracy over the position in the target.
#
# The accuracy of each position, for the model trained with teacher forcing. The
# distance of the two curves is what its own errors cost. It is 0 at the first position,
# which has no token before it.

# %% [markdown] inside_seen
# With the right target as input {{ forced_tokens | percent }} of the tokens are right,
# with its own output {{ own_tokens | percent }}. After a wrong token the accuracy of
# the rest is {{ after_tokens | percent }}. A loss or an accuracy that is measured with
# teacher forcing, as during training, therefore tells too little about the use: whole
# outputs are right in {{ exact | percent }} of the cases.
#
# Scheduled sampling has {{ sampled_forced | percent }} with the right target and
# {{ sampled_own | percent }} with its own output; {{ sampled_exact | percent }} of its
# outputs are right. It has a price: as soon as the model's own predictions are inputs,
# some of them do not fit the target any more, and the model learns more slowly from
# them. Bengio et al. report gains with it in image captioning, parsing and speech, with
# longer training. It is a trade-off that has to be measured in each task.

# %% [markdown] tree_text
# ## The tree of a beam search
#
# `search_tree` returns every expansion that a beam search considered, and the greedy
# path. The next cell looks for a test string in which the two results differ, and draws
# the tree.

# %% tree
beams = forced_model.translate(test.sources, longest, sampler=decoding.Beam(3))
greedy = forced_model.translate(test.sources, longest)
gains = [b.score - g.score for b, g in zip(beams, greedy, strict=True)]
chosen = test.sources[int(np.argmax(gains))]
found = forced_model.search_tree(chosen, longest, width=3)
greedy_text = "".join(found.greedy_tokens[:-1])
print("source ", chosen, "  right target", chosen[::-1])
print("greedy ", greedy_text, f"log p {found.greedy_scores[-1]:.2f}")
print(
    "beam   ", "".join(found.tokens[n] for n in found.best[:-1]), f"{found.score:.2f}"
)

# %% beam_tree tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
tree = found.tree
position = tree.step + 1
order = np.lexsort((-tree.score, tree.step))
rank = np.empty(len(order), int)
first = np.searchsorted(tree.step[order], tree.step[order])
rank[order] = np.arange(1, len(order) + 1) - first
for n, parent in enumerate(tree.parent):
    if parent >= 0:
        color = "C1" if n in found.best else "C0"
        x, y = [position[parent], position[n]], [rank[parent], rank[n]]
        axis.plot(x, y, color=color, alpha=0.8 if tree.kept[n] else 0.2, zorder=1)
for n, text in enumerate(found.tokens):
    color = "C1" if n in found.best else "C0" if tree.kept[n] else "0.6"
    axis.scatter(position[n], rank[n], s=130, color=color, alpha=0.4, zorder=2)
    shape, place = (text if len(text) == 1 else "∎"), (position[n], rank[n])
    axis.annotate(shape, place, ha="center", va="center", zorder=3, fontsize="small")
axis.invert_yaxis()
axis.set_xlabel("position in the target")
axis.set_ylabel("rank of the expansion")
plt.close(figure)
figure

# %% [markdown] beam_tree_caption
# A tree of letters from left to right, with three branches that are continued at each
# step.
#
# All expansions of a beam of width 3, the most probable on top; ∎ is the end. One color
# is the best sequence, another the hypotheses that were kept; the gray ones were
# dropped.

# %% [markdown] misconception
# ## A misconception
#
# *"Beam search finds the most probable sequence, and the wider the beam, the better the
# output."*
#
# The first half was tested on the Markov chains: a beam of width 2 found the most
# probable sequence in {{ two_best | percent }} of them. The second half supposes that
# more probable is better. This is a question to the model, not to the search.

# %% [markdown] experiment
# ## The experiment
#
# The test strings are decoded with beams of several widths. For each the cell measures
# the mean log-probability of the outputs, which the search maximizes, and the
# percentage of outputs that are right, which is what we want.

# %% experiment_code
mean_scores, exact_by_width = {}, {}
for width in widths:
    beams = forced_model.translate(test.sources, longest, sampler=decoding.Beam(width))
    mean_scores[width] = float(np.mean([b.score for b in beams]))
    right = [b.text == y for b, y in zip(beams, test.targets, strict=True)]
    exact_by_width[width] = float(np.mean(right))
    print(
        f"width {width:2}  log-probability {mean_scores[width]:.3f}  "
        f"right {exact_by_width[width]:.3f}"
    )
score_narrow, score_wide = mean_scores[widths[0]], mean_scores[widths[-1]]
exact_narrow, exact_wide = exact_by_width[widths[0]], exact_by_width[widths[-1]]
widest = widths[-1]
result = own_tokens
result_name = "accuracy of tokens on the model's own output"

# %% [markdown] experiment_seen
# From greedy search to a beam of width {{ widest | integer }} the mean log-probability
# goes from {{ score_narrow | number(3) }} to {{ score_wide | number(3) }}, and the
# right outputs from {{ exact_narrow | percent }} to {{ exact_wide | percent }}. Why not
# further? Of the {{ wrong_count | integer }} wrong greedy outputs,
# {{ of_search | integer }} have a lower probability than the right target (exercise 2):
# these are errors of the search. The others are errors of the model, which gives the
# wrong string a higher probability than the right one, and no search over its
# probabilities can repair them. In machine translation very wide beams can even make
# the output worse, as they find short targets that the model overrates (Koehn and
# Knowles 2017).

# %% [markdown] exercises
# ## Exercises
#
# 1. Check that scheduled sampling with a constant ratio of 1 is teacher forcing: train
#    two models for a few steps and compare the outputs.
# 2. How many of the wrong greedy outputs have a lower probability than the right
#    target? These are errors of the search, the others are errors of the model.
# 3. Print the probabilities $\varepsilon_i$ of the four schedules, `"constant"`,
#    `"linear"`, `"exponential"` and `"inverse_sigmoid"`.

# %% solution_ratio tags=["solution"]
outputs = []
for one in (None, training.ScheduledSampling("constant", ratio=1.0)):
    keras.utils.set_random_seed(0)
    model = kerasseq.models.Seq2Seq(
        "gru", letters, letters, attention=None, units=8, scheduled_sampling=one
    )
    model.compile("adam")
    model.fit(train_pairs, steps_per_epoch=3, epochs=1, verbose=0)
    outputs.append(model.predict(model.arrays(*test)[0], verbose=0))
print(f"largest difference of the logits {np.abs(outputs[0] - outputs[1]).max():.1e}")

# %% solution_errors tags=["solution"]
inputs, labels = forced_model.arrays(*test)
logits = forced_model.predict(inputs, verbose=0)
all_log_p = ops.convert_to_numpy(ops.log_softmax(logits))
chosen_log_p = np.take_along_axis(all_log_p, labels[..., None], axis=-1)[..., 0]
right_scores = np.where(labels > 0, chosen_log_p, 0).sum(axis=1)
wrong = [n for n, g in enumerate(greedy) if g.text != test.targets[n]]
of_search = int(sum(greedy[n].score < right_scores[n] for n in wrong))
wrong_count = len(wrong)
print(f"{wrong_count} wrong outputs, {of_search} of them errors of the search")

# %% solution_schedules tags=["solution"]
arguments = {
    "constant": {"ratio": 0.5},
    "linear": {"steps": 300},
    "exponential": {"k": 0.99},
    "inverse_sigmoid": {"k": 40},
}
for name, options in arguments.items():
    one = training.ScheduledSampling(name, **options)
    print(f"{name:16}", [round(float(one.ratio(i)), 2) for i in (0, 75, 150, 225, 300)])

# %% [markdown] summary
# ## Summary
#
# - Teacher forcing trains a decoder on right beginnings; in use it continues from its
#   own. Here {{ forced_tokens | percent }} of the tokens were right with the one,
#   {{ own_tokens | percent }} with the other.
# - Scheduled sampling trains on the model's own predictions, too. It had
#   {{ sampled_own | percent }} in use.
# - Beam search in fifteen lines gives the sequences of `kerasseq.decoding.Beam`. A beam
#   of width 4 found the most probable sequence in {{ beam_best | percent }} of the
#   Markov chains.
# - A more probable output need not be a better one: {{ exact_narrow | percent }} of the
#   greedy outputs were right, and {{ exact_wide | percent }} of those of the widest
#   beam.

# %% [markdown] questions
# ## Questions
#
# 1. What happens to the two curves with `attention="bahdanau"`?
# 2. Is scheduled sampling better or worse with `lowest=0.75`, or with more steps?
# 3. What does `decoding.Beam(4, length_penalty=1.0)` change in this task, and why so
#    little?

# %% [markdown] references
# ## References
#
# - Lowerre, "The HARPY Speech Recognition System", 1976, for beam search.
# - Williams and Zipser, "A Learning Algorithm for Continually Running Fully Recurrent
#   Neural Networks", 1989, for teacher forcing.
# - Bengio, Vinyals, Jaitly and Shazeer, "Scheduled Sampling for Sequence Prediction
#   with Recurrent Neural Networks", 2015.
# - Ranzato et al., "Sequence Level Training with Recurrent Neural Networks", 2016, for
#   the term exposure bias.
# - Koehn and Knowles, "Six Challenges for Neural Machine Translation", 2017.
# - Slides A and D.
# - Lab *Translation* of the app (`kerasseq app`).
# - Before: [Translation and its bottleneck](07_translation.md). Next: [Self-attention
#   by hand, and positions](09_self_attention.md).
