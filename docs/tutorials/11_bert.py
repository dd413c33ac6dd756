# %% [markdown] title
# # BERT: learning from masked words, and fine-tuning

# %% [markdown] goals
# After this tutorial you will be able to
#
# - mask the tokens of a text as BERT does, and say why not all chosen tokens become
#   [MASK];
# - pre-train a small BERT on text without labels, and measure what it has learned;
# - fine-tune it on a task with few labeled examples, and compare it with the same
#   network without pre-training.

# %% [markdown] imports_text
# The tutorial needs kerasseq, Keras and matplotlib. It downloads nothing.

# %% imports
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_text
# These are the settings of all that follows: the number of generated documents, the
# training steps of the pre-training, and for the fine-tuning the number of labeled
# examples, the epochs and the random seeds.

# %% settings
num_documents, steps, reports = 2000, 1100, 11
num_labeled, tuning_epochs, num_test = 128, 20, 250
seeds = (0, 1)

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    num_documents, steps, reports = 40, 2, 2
    num_labeled, tuning_epochs, num_test = 8, 1, 8
    seeds = (0,)

# %% [markdown] question
# ## The question
#
# A classifier learns from labels, and labels are expensive: each text has to be read
# and judged by hand. Text without labels costs nothing. **What can a network learn from
# text alone, and how much is that knowledge worth for another task?**
#
# A GPT predicts the next token, so each position may only attend to what stands on
# its left ([A Transformer block, and GPT](10_gpt.md)). BERT (*Bidirectional
# Encoder Representations from Transformers*) predicts tokens that were removed from
# the middle of a text, from what stands on the left *and* on the right. It needs no
# causal mask, and each text is its own exercise.
#
# The text of this tutorial counts in words. It is as simple as a text can be that has
# an order, and so a small model learns it within a minute.

# %% data
documents = kerasseq.datasets.counting(num_documents, seed=0)
held_out, train = documents[: num_documents // 10], documents[num_documents // 10 :]
print(*train[0][:3], sep="\n")

# %% [markdown] data_after
# A document is a list of sentences that continue each other. One document in ten is
# kept for the test. Now the tokenizer learns its vocabulary from the rest.

# %% tokenizer
text = "\n".join("\n".join(document) for document in train)
tokenizer = kerasseq.text.WordPieceTokenizer(1000).fit(text)
print("tokens in the vocabulary:", tokenizer.vocabulary_size)
print("special tokens:", *tokenizer.special_tokens)

# %% [markdown] equation
# ## The equation
#
# Let $w_1, \dots, w_T$ be the tokens of a text. Each is chosen with probability
# $r = 0.15$; the set of chosen positions is $M$. BERT reads $\tilde w$, in which the
# chosen tokens are replaced:
#
# $$
# \tilde w_i = \begin{cases}
# \text{[MASK]} & u_i < 0.8 \\
# w'_i & 0.8 \le u_i < 0.9 \\
# w_i & 0.9 \le u_i
# \end{cases} \qquad i \in M
# $$
#
# and $\tilde w_i = w_i$ elsewhere. Here $u_i$ is a random number between 0 and 1, and
# $w'_i$ a token drawn from the vocabulary. The loss is the cross-entropy of the
# *original* tokens at the chosen positions, and at no others:
#
# $$
# L = -\frac{1}{|M|} \sum_{i \in M} \log p(w_i \mid \tilde w)
# $$
#
# Why is a chosen token not always replaced by [MASK]? The texts of later tasks have no
# [MASK]. If only [MASK] had to be predicted, the network could ignore all other
# positions. With random and unchanged tokens in $M$, any token may have to be
# corrected or confirmed, so the network needs a good vector for each position.
#
# A second task is learned at the same time. The input has two spans,
# `[CLS] a [SEP] b [SEP]`, and the output at [CLS] says whether $b$ follows $a$ in the
# document. In half of the pairs it does; in the others $b$ is from another document.

# %% [markdown] scratch_text
# The masking and the loss fit in a few lines:


# %% scratch tags=["scratch"]
def mask_tokens(ids, mask_id, special_ids, vocabulary_size, rng, rate=0.15):
    """Returns the inputs of BERT, and where a token has to be predicted."""
    selectable = ~np.isin(ids, special_ids)  # (B, T)
    chosen = selectable & (rng.random(ids.shape) < rate)  # M
    words = np.setdiff1d(np.arange(vocabulary_size), special_ids)
    random_words = rng.choice(words, ids.shape)
    u = rng.random(ids.shape)
    inputs = np.where(chosen & (u < 0.8), mask_id, ids)
    inputs = np.where(chosen & (u >= 0.8) & (u < 0.9), random_words, inputs)
    return inputs, chosen


def masked_loss(logits, labels, weights):
    """Cross-entropy of the labels (B, P) where the weights are 1."""
    log_p = ops.log_softmax(logits, axis=-1)  # (B, P, V)
    log_p = ops.take_along_axis(log_p, labels[..., None], axis=-1)[..., 0]
    return -ops.sum(ops.multiply(weights, log_p)) / ops.sum(weights)


# %% [markdown] scratch_after
# `u` decides for each chosen token which of the three cases holds. Special tokens such
# as [CLS] and [PAD] are never chosen.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.training.MaskedLMMaskGenerator` draws such masks, and
# `kerasseq.models.BERT` with the head "pretraining" has both losses. The next cell
# masks the same sentence many times with both programs and compares how often each
# case occurs, as a share of all words.

# %% library_masks
mask_id = tokenizer.id_of("[MASK]")
special_ids = [tokenizer.id_of(token) for token in tokenizer.special_tokens]
row = tokenizer.encode(" ".join(train[0][:2]))
ids = np.tile(row, (4000, 1))  # the same text in each row


def shares(inputs, chosen):
    """Shares of all words: chosen, [MASK], another token, unchanged."""
    cases = [chosen, inputs == mask_id, (inputs != ids) & (inputs != mask_id)]
    return np.array([case.mean() for case in [*cases, chosen & (inputs == ids)]])


by_hand = shares(
    *mask_tokens(
        ids, mask_id, special_ids, tokenizer.vocabulary_size, np.random.default_rng(0)
    )
)
masked = kerasseq.training.MaskedLMMaskGenerator(tokenizer, seed=0)(ids)
chosen = np.zeros(ids.shape, bool)
rows, columns = np.nonzero(masked.weights)
chosen[rows, masked.positions[rows, columns]] = True
by_library = shares(masked.ids, chosen)

print("case       from scratch  kerasseq")
for n, name in enumerate(("chosen", "[MASK]", "other", "unchanged")):
    print(f"{name:10} {by_hand[n]:12.4f} {by_library[n]:9.4f}")
largest_difference = float(np.max(np.abs(by_hand - by_library)))
print(f"largest difference: {largest_difference:.4f}")

# %% [markdown] library_masks_after
# The shares agree up to the noise of drawing. "Unchanged" is slightly above a tenth of
# the chosen tokens, since a random token is sometimes the token itself.
#
# The model has two layers with four heads. `batches` draws pairs and masks; its batches
# give the positions to predict, the labels and the weights. The loss from scratch and
# the loss of the model must be equal.

# %% library_model
keras.utils.set_random_seed(0)
model = kerasseq.models.BERT(
    tokenizer,
    num_layers=2,
    num_heads=4,
    hidden_dim=64,
    max_sequence_length=32,
    dropout=0.0,
    head="pretraining",
)
batches = model.batches(train, batch_size=32)
x, y, weights = batches.batch(0)
words = np.array(tokenizer.vocabulary)
print(*words[x["ids"][0]])
logits = ops.convert_to_numpy(model(x)["tokens"])
loss_by_hand = float(masked_loss(logits, y["tokens"], weights["tokens"]))
crossentropy = keras.losses.SparseCategoricalCrossentropy(
    from_logits=True, reduction="mean_with_sample_weight"
)
loss_by_keras = float(crossentropy(y["tokens"], logits, weights["tokens"]))
print(f"loss {loss_by_hand:.4f}, difference {abs(loss_by_hand - loss_by_keras):.0e}")

# %% [markdown] library_model_after
# Before training the loss is close to the logarithm of the size of the vocabulary: all
# tokens are equally probable. Now the model is trained. The learning rate rises during
# the first tenth of the steps and then falls to almost zero.

# %% pretraining
warm_up = max(1, steps // 10)
schedule = keras.optimizers.schedules.CosineDecay(
    0.0, steps - warm_up, alpha=0.02, warmup_target=3e-3, warmup_steps=warm_up
)
model.compile(keras.optimizers.Adam(schedule, global_clipnorm=1.0))
history = model.fit(
    train, epochs=reports, steps_per_epoch=steps // reports, batch_size=32, verbose=0
).history


def accuracies(network, batch):
    """Accuracy of masked tokens and of next sentences."""
    x, y, weights = batch
    found = network.predict(x, batch_size=250, verbose=0)
    right = {name: found[name].argmax(axis=-1) == y[name] for name in y}
    return [float(np.average(right[n], weights=weights[n])) for n in ("tokens", "next")]


tested = model.batches(held_out, batch_size=1000).batch(0)
token_accuracy, next_accuracy = accuracies(model, tested)
_, y, weights = batches.batch(0)
frequent = np.bincount(y["tokens"][weights["tokens"] > 0]).argmax()
_, y, weights = tested
most_frequent = float(np.average(y["tokens"] == frequent, weights=weights["tokens"]))
print(f"most frequent token  {most_frequent:.3f}")
print(f"masked tokens        {token_accuracy:.3f}")
print(f"next sentences       {next_accuracy:.3f}")

# %% [markdown] pretraining_after
# On documents that the model has never read, {{ token_accuracy | percent }} of the
# masked tokens are predicted correctly; always answering the most frequent token
# gives {{ most_frequent | percent }}. Whether the second span follows the first is
# recognized in {{ next_accuracy | percent }} of the pairs. No label was needed. The
# next cell draws how the accuracy of masked tokens rises during the training.

# %% learning tags=["figure"]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
seen = steps // reports * np.arange(1, reports + 1)
axis.plot(seen, history["tokens_accuracy"], "C0o-", label="masked tokens")
axis.plot(seen, history["next_accuracy"], "C1s-", label="next sentence")
axis.axhline(most_frequent, color="C0", linestyle=":", label="most frequent token")
axis.set_xlabel("training steps")
axis.set_ylabel("accuracy")
axis.set_ylim(0, 1)
axis.legend(loc="lower right")
plt.close(figure)
figure

# %% [markdown] learning_caption
# Two curves of accuracy over the training steps, and a dotted line.
#
# Accuracy on the training batches, averaged between two points. At first the network
# learns only which tokens are frequent (dotted line); then both tasks improve together,
# since both need the values of the numbers.

# %% [markdown] inside
# ## Look inside
#
# `fill` returns the most probable tokens for each [MASK]. The second sentence asks for
# its first word, for which only the right-hand context can help.

# %% inside_fill
for sentence in (
    "twenty one twenty two twenty [MASK] twenty four .",
    "[MASK] forty four forty five forty six .",
):
    print(sentence)
    print("  ", *[f"{token} {p:.2f}" for token, p in model.fill(sentence, 3)[0]])

# %% [markdown] inside_fill_after
# Where does the answer come from? A trace records the attention weights of all heads.
# We take the row of the [MASK]: its weights over the tokens of the sentence.

# %% inside_trace
sentence = "[CLS] twenty one twenty two twenty [MASK] twenty four twenty five . [SEP]"
tokens = sentence.split()
ids = np.array([[tokenizer.id_of(token) for token in tokens]])
hole = tokens.index("[MASK]")
x = {"ids": ids, "segments": 0 * ids, "positions": np.array([[hole]])}
with kerasseq.tracing.trace(model) as inside:
    model(x)
heads = [w[0, :, hole] for key, w in inside.items() if key.endswith("alignment")]
heads = np.concatenate(heads)  # (layers × heads, T)
right = float(heads[:, hole + 1 :].sum() / len(heads))
print(f"{len(heads)} heads, mean weight on the right of the [MASK]: {right:.2f}")

# %% [markdown] inside_trace_after
# On average {{ right | percent }} of the attention goes to tokens on the right of the
# [MASK], which a causal mask would forbid.

# %% attention tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
image = axis.imshow(heads, cmap="viridis", vmin=0, aspect="auto")
axis.set_xticks(range(len(tokens)), tokens, rotation=60, ha="right")
axis.set_yticks(range(len(heads)), [f"{n // 4}.{n % 4}" for n in range(len(heads))])
axis.set_xlabel("token that is attended to")
axis.set_ylabel("layer.head")
figure.colorbar(image, label="attention weight")
plt.close(figure)
figure

# %% [markdown] attention_caption
# Heat map: one row for each of eight heads, one column for each token of the sentence.
#
# Attention weights of the [MASK]; each row sums to one. The heads differ: some attend
# to few tokens near the [MASK], on both sides, others to the whole sentence.

# %% [markdown] misconception
# ## A misconception
#
# > "Pre-training pays off only for those who have a large labeled data set to fine-tune
# > on."
#
# It sounds plausible: a larger network needs more data. We test it with a task that has
# {{ num_labeled | integer }} labeled examples: does a text count up or down? The
# pre-training texts only counted up, and never had a label.
#
# The same network is trained twice with the same examples for the same number of steps,
# once from the pre-trained weights and once from random weights. `with_head` keeps the
# encoder and replaces the head by a new classifier on the vector of [CLS].


# %% experiment_data
def direction_task(seed):
    """Returns 800 different texts of 4 to 11 numbers, and "up" or "down" for each."""
    rng = np.random.default_rng(seed)
    spans = [(first, length) for first in range(100) for length in range(4, 12)]
    texts, labels = [], []
    for n, (first, length) in enumerate(rng.permutation(spans)):
        numbers = (first + np.arange(length)) % 100
        labels.append(("up", "down")[n % 2])
        numbers = numbers if labels[-1] == "up" else numbers[::-1]
        texts.append(" ".join(map(kerasseq.datasets.number_word, numbers)) + " .")
    return texts, labels


texts, labels = direction_task(seed=0)
print(*zip(labels[:4], texts[:4], strict=True), sep="\n")

# %% [markdown] experiment
# Here is the experiment. It is repeated with several seeds, which draw other examples,
# other test texts and other initial weights.


# %% experiment_run
def fine_tuned_accuracy(encoder, seed):
    """Fine-tunes on the first texts of a task, and tests on the last ones."""
    texts, labels = direction_task(seed)
    keras.utils.set_random_seed(seed)
    classifier = encoder.with_head("classify", ["down", "up"])
    classifier.compile(keras.optimizers.Adam(1e-3))
    classifier.fit(
        texts[:num_labeled],
        labels[:num_labeled],
        batch_size=32,
        epochs=tuning_epochs,
        seed=seed,
        verbose=0,
    )
    found = [answer.label for answer in classifier.classify(texts[-num_test:])]
    return float(np.mean(np.array(found) == np.array(labels[-num_test:])))


from_text, from_random = [], []
for seed in seeds:
    keras.utils.set_random_seed(seed)
    untrained = kerasseq.models.BERT.from_config(model.get_config())
    from_text.append(fine_tuned_accuracy(model, seed))
    from_random.append(fine_tuned_accuracy(untrained, seed))
    print(f"seed {seed}: pre-trained {from_text[-1]:.3f}, random {from_random[-1]:.3f}")

pretrained_accuracy = float(np.mean(from_text))
random_accuracy = float(np.mean(from_random))
result = pretrained_accuracy
result_name = "accuracy after fine-tuning with 128 examples"

# %% [markdown] experiment_after
# From random weights the classifier reaches {{ random_accuracy | percent }}, where
# guessing gives one half; from the pre-trained weights it reaches
# {{ pretrained_accuracy | percent }} with the same examples and the same steps.
# Pre-training helps although there are few labels, and because of it: the order of a
# hundred numbers was learned from text, and the labels only had to say which question
# is asked.

# %% [markdown] exercises
# ## Exercises
#
# 1. Could the loss be computed at *all* positions? Count how many tokens of a batch
#    have to be predicted, and how many of them the input already shows unchanged, with
#    the rates of BERT and with all tokens chosen.
# 2. The second task: compute the probability that b follows a for a pair, for the two
#    spans exchanged, and for the same span twice. What has the model learned, the order
#    or only that the numbers are close?
# 3. Freeze the encoder, and train only the new head. Is the answer already in the
#    vector of [CLS]?

# %% [markdown] solution_1_text
# The first exercise: the shares of chosen and of unchanged tokens.

# %% solution_1 tags=["solution"]
ids = model.batches(train, batch_size=200).pairs.batch(0)[0]["ids"]
real = np.sum(~np.isin(ids, special_ids))
for rate, mask_rate, random_rate in ((0.15, 0.8, 0.1), (1.0, 0.0, 0.0)):
    masking = kerasseq.training.MaskedLMMaskGenerator(
        tokenizer,
        mask_selection_rate=rate,
        mask_token_rate=mask_rate,
        random_token_rate=random_rate,
    )
    masked = masking(ids)
    rows, columns = np.nonzero(masked.weights)
    inputs = masked.ids[rows, masked.positions[rows, columns]]
    same = np.mean(inputs == masked.labels[rows, columns])
    print(f"chosen {len(rows) / real:.2f} of the words, {same:.2f} of these unchanged")

# %% [markdown] solution_1_after
# If every token is chosen and none is replaced, the answer stands in the input: copying
# solves the task, and nothing about the text is learned.

# %% [markdown] solution_2_text
# The second exercise: pairs that follow each other, and others.

# %% solution_2 tags=["solution"]
a, b = "ten eleven twelve .", "thirteen fourteen fifteen ."
far = "seventy seventy one seventy two ."
pairs = {"a, b": (a, b), "b, a": (b, a), "a, a": (a, a), "a, far": (a, far)}
logits = model.predict(list(pairs.values()), verbose=0)["next"]
follows = ops.convert_to_numpy(ops.softmax(logits, axis=-1))[:, 1]
for name, p in zip(pairs, follows, strict=True):
    print(f"{name:7} {p:.2f}")

# %% [markdown] solution_2_after
# The wrong pairs of the training come from other documents, which mostly count
# elsewhere. To be close is enough to be right, so the order is hardly learned. RoBERTa
# (2019) leaves this task out, and ALBERT (2019) asks for the order of the two spans
# instead.

# %% [markdown] solution_3_text
# The third exercise: the weights of all layers that the pre-trained model has as well
# stay as they are.

# %% solution_3 tags=["solution"]
keras.utils.set_random_seed(0)
texts, labels = direction_task(0)
frozen = model.with_head("classify", ["down", "up"])
names = {layer.name for layer in model.layers}
for layer in frozen.layers:
    layer.trainable = layer.name not in names
frozen.compile(keras.optimizers.Adam(1e-3))
frozen.fit(texts[:num_labeled], labels[:num_labeled], epochs=tuning_epochs, verbose=0)
found = [answer.label for answer in frozen.classify(texts[-num_test:])]
trained = sum(int(np.prod(w.shape)) for w in frozen.trainable_weights)
print(f"{trained} trained parameters of {frozen.count_params()}")
print(f"accuracy {np.mean(np.array(found) == np.array(labels[-num_test:])):.3f}")

# %% [markdown] solution_3_after
# The new head has few parameters. What it reaches without any change to the encoder is
# what the vector of [CLS] already holds about the direction; the rest of the gain of
# fine-tuning comes from changing the encoder.

# %% [markdown] summary
# ## What we have seen
#
# - BERT predicts chosen tokens from both sides. Our masks and those of the library have
#   the same rates, and the losses are equal.
# - After {{ steps | integer }} steps {{ token_accuracy | percent }} of the masked
#   tokens of new documents were right, against {{ most_frequent | percent }} for the
#   most frequent token.
# - With {{ num_labeled | integer }} labeled examples the pre-trained network reached
#   {{ pretrained_accuracy | percent }}, and the same network without pre-training
#   {{ random_accuracy | percent }}.

# %% [markdown] questions
# ## Questions for the code
#
# - How many labels does the network with random weights need to reach what the
#   pre-trained one reaches? Change `num_labeled` to 512.
# - What changes if half of the tokens are chosen? Pass `masking=` to `fit`, a
#   `kerasseq.training.MaskedLMMaskGenerator` with `mask_selection_rate=1/2`.
# - Does the network profit from pre-training if the text counts by threes? Pass
#   `step=3` to `kerasseq.datasets.counting`.

# %% [markdown] references
# ## References
#
# - J. Devlin, M.-W. Chang, K. Lee, K. Toutanova: *BERT: Pre-training of Deep
#   Bidirectional Transformers for Language Understanding*, 2019.
# - Y. Liu et al.: *RoBERTa: A Robustly Optimized BERT Pretraining Approach*, 2019.
# - Z. Lan et al.: *ALBERT: A Lite BERT for Self-supervised Learning of Language
#   Representations*, 2019.
# - Slides A (BERT, masked tokens, next sentences) and C.
# - Lab *BERT* of the app (`kerasseq app`).
