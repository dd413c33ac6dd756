# %% [markdown] title
# # Character language models

# %% [markdown] goals
# After this tutorial you will be able to
#
# - write the loss of a language model, and state it in bits per character;
# - train an LSTM on a text, and compare it with n-grams on text that is held out;
# - sample from a model with temperature, top-k and top-p, and say what each of them
#   costs.

# %% [markdown] imports_text
# The tutorial needs kerasseq, Keras and matplotlib, and downloads nothing.

# %% imports
import os
import re
import zlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_text
# These are the settings: how much text is used and how much of it is held out, the LSTM
# and its training, and the temperatures of the experiment.

# %% settings
num_characters, num_held_out = 600_000, 20_000
units, sequence_length, batch_size = 128, 96, 32
steps, learning_rate = 1100, 0.006
temperatures, num_samples, num_generated = (0.1, 0.3, 0.5, 0.8, 1.0, 1.5), 16, 800

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    num_characters, num_held_out = 6000, 500
    units, sequence_length, batch_size, steps = 5, 16, 4, 2
    temperatures, num_samples, num_generated = (0.5, 1.0), 2, 30

# %% [markdown] question
# ## The question
#
# **Given the beginning of a text, which character comes next, and how well can a
# network know?** A model that answers with a probability for each character is a
# language model. It needs no labels, as each character is the label of the text before
# it. And it can write: draw a character, append it, and ask again. GPT does the same
# with pieces of words and a larger network.
#
# [N-grams](01_words.md) look at a few characters only. A recurrent network reads the
# text from its beginning, and its state can hold what it read long ago
# ([Gates](04_gates.md)).

# %% [markdown] data_text
# The text is the reference of the Python language, English prose of about half a
# million characters that comes with Python. Its end is held out: no model is trained on
# it.

# %% data
text = kerasseq.datasets.python_reference()[:num_characters]
train, held_out = text[:-num_held_out], text[-num_held_out:]
tokenizer = kerasseq.text.CharacterTokenizer().fit(train)
num_classes = tokenizer.vocabulary_size
print(train[:181], "...")
print(len(train), "characters to train on,", num_classes, "different ones")

# %% [markdown] data_after
# A token is a single character here: letters, digits, punctuation, spaces and ends of
# lines.

# %% [markdown] equation
# ## The equation
#
# Let $x_1, \dots, x_T$ be the characters of a text. Any probability of a whole text can
# be written as a product, one factor for each character:
#
# $$
# p(x_1, \dots, x_T) = \prod_{t=1}^{T} p(x_t \mid x_1, \dots, x_{t-1})
# $$
#
# A recurrent network computes each factor from its state $h_t$. One dense layer gives
# the **logits** $z_t$, one number for each of the $V$ characters of the vocabulary, and
# a softmax turns them into probabilities:
#
# $$
# h_t = \mathrm{LSTM}(x_t, h_{t-1}) \qquad z_t = W h_t + b \qquad
# p(x_{t+1} = v \mid x_1, \dots, x_t) = \frac{e^{z_{tv}}}{\sum_{w=1}^{V} e^{z_{tw}}}
# $$
#
# The loss is the mean of $-\log p$ of the characters that really follow, the
# **cross-entropy**. With the logarithm to base 2 its unit is the bit:
#
# $$
# L = -\frac{1}{T-1} \sum_{t=1}^{T-1} \log_2 p(x_{t+1} \mid x_1, \dots, x_t)
# $$
#
# $L$ bits per character mean that the model is as uncertain as if it had to choose
# among $2^L$ characters of equal probability; $2^L$ is called the **perplexity**. A
# model that knows nothing needs $\log_2 V$ bits.
#
# Three options change the distribution before a character is drawn. The **temperature**
# $\tau$ divides the logits: $p_\tau(v) \propto e^{z_v/\tau}$. **Top-k** keeps the $k$
# most probable characters, and **top-p** the fewest that have the probability $p$
# together. What is left is divided by its sum.

# %% [markdown] scratch_text
# The loss and the three options from scratch. Note the shift in the first function: the
# logits at position $t$ belong to the character at position $t + 1$.


# %% scratch tags=["scratch"]
def next_character_loss(logits, ids):
    """Mean of -ln p of each next character; logits (B, T, V), ids (B, T)."""
    log_p = ops.log_softmax(logits[:, :-1], axis=-1)  # after the last: unknown
    targets = ids[:, 1:, None]  # the first character has no prediction
    return -ops.mean(ops.take_along_axis(log_p, targets, axis=-1))


def distribution(z, temperature=1.0, k=None, p=1.0):
    """The probabilities to draw from, of logits (V,)."""
    probabilities = ops.softmax(z / temperature)
    order = ops.argsort(-probabilities)  # most probable first
    ranked = ops.take(probabilities, order)
    before = ops.cumsum(ranked) - ranked  # what more probable ones have together
    kept = ops.logical_and(before < p, ops.arange(len(z)) < (k or len(z)))
    ranked = ops.where(kept, ranked, 0.0)
    return ops.take(ranked / ops.sum(ranked), ops.argsort(order))


# %% [markdown] scratch_after
# `ops.argsort(order)` undoes the sorting. The most probable character is always kept,
# as nothing comes before it.

# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.models.LanguageModel` is the network, with an architecture by name. Before
# training, we compare its loss, and the samplers of `kerasseq.decoding`, with the
# functions above.

# %% library_equal
keras.utils.set_random_seed(0)
model = kerasseq.models.LanguageModel("lstm", tokenizer, units=units)
ids = tokenizer.encode(train[:65])[None]
logits = ops.convert_to_numpy(model(ids))
loss, theirs = float(next_character_loss(logits, ids)), model.cross_entropy(train[:65])
print("difference of the losses:", abs(loss - theirs))
z = 4 * np.random.default_rng(0).normal(size=(1, num_classes)).astype("float32")
for name, sampler, ours in [
    ("temperature", kerasseq.decoding.Temperature(0.5), distribution(z[0], 0.5)),
    ("top-k", kerasseq.decoding.TopK(5), distribution(z[0], k=5)),
    ("top-p", kerasseq.decoding.TopP(0.9), distribution(z[0], p=0.9)),
]:
    difference = float(ops.max(ops.abs(sampler.distribution(z)[0] - ours)))
    print(f"max difference, {name}: {difference:.1e}")
uniform_bits = float(np.log2(num_classes))
print("bits before training:", round(loss / np.log(2), 2), " log2 V:", uniform_bits)

# %% [markdown] library_train_text
# All agree to rounding. Before training, the network needs about as many bits as a
# uniform guess. Now it is trained on blocks of the text, beside n-grams with Kneser–Ney
# smoothing, which only count.

# %% library_train
schedule = keras.optimizers.schedules.CosineDecay(learning_rate, steps)
model.compile(keras.optimizers.Adam(schedule, global_clipnorm=1.0))
options = {"sequence_length": sequence_length, "batch_size": batch_size}
model.fit(train, steps_per_epoch=steps, verbose=0, **options)

ngrams = {}
for n in (1, 2, 3, 6):
    counts = kerasseq.text.NGramModel(n, smoothing="kneser_ney", tokenizer=tokenizer)
    ngrams[n] = counts.fit(train)
ngram_bits = {n: counts.bits_per_token(held_out) for n, counts in ngrams.items()}
lstm_bits = float(model.bits_per_token(held_out))
bigram_bits, sixgram_bits = float(ngram_bits[2]), float(ngram_bits[6])
perplexity = 2**lstm_bits
result, result_name = lstm_bits, "bits per character of the LSTM"
for n, bits in ngram_bits.items():
    print(f"{n}-grams {bits:.2f} bits per held-out character")
print(f"LSTM    {lstm_bits:.2f} bits per held-out character")

# %% [markdown] library_after
# On text that none of them has been trained on, the LSTM needs
# {{ lstm_bits | number(2) }} bits per character, bigrams
# {{ bigram_bits | number(2) }}. It is as uncertain as if it had to choose among
# {{ perplexity | number(1) }} characters instead of {{ num_classes | integer }}. Note
# the 6-grams, too: this text repeats whole sentences, and a table of all groups of six
# characters, {{ sixgram_bits | number(2) }} bits, is hard to beat in a minute of
# training.

# %% [markdown] inside
# ## Look inside
#
# The mean hides that characters differ. `surprise` returns $-\log_2 p$ of each
# character of a text, given those before it.

# %% surprise tags=["figure"]
sentence = "If the object is a class, the value is an object."
figure, axis = plt.subplots(figsize=(7, 3))
positions = np.arange(len(sentence))
bars = [("bigrams", ngrams[2], -0.2), ("LSTM", model, 0.2)]
for label, each, shift in bars:
    bits = each.surprise(sentence).bits
    axis.bar(positions + shift, bits, 0.4, label=label)
axis.set_xticks(positions, list(sentence))
axis.set_xlim(0.4, len(sentence) - 0.4)
axis.set_xlabel("character")
axis.set_ylabel("surprise in bits")
axis.legend()
plt.close(figure)
figure

# %% [markdown] surprise_caption
# Bars of the surprise of each character of a sentence, for bigrams and for the LSTM.
#
# The surprise of each character, given the text before it. A low bar means that the
# model expected the character.

# %% [markdown] inside_after
# For the LSTM, the first letters of words are the expensive ones: this is where a text
# says something new. Within a word the bars soon fall, because the letters read so far
# leave few choices. Bigrams see one letter only, so their bars stay high to the end of
# a word. In both cases the first character is left out or predicted from nothing.

# %% [markdown] write_text
# The model continues a prompt if its characters are drawn one after the other.

# %% write
for options in ({"temperature": 0.7}, {"temperature": 1.0, "top_p": 0.9}):
    sample = model.generate("The value of the", num_generated // 2, seed=1, **options)
    print(options, "\n" + sample, end="\n\n")

# %% [markdown] write_after
# Many words exist, others are invented; line breaks, quotation marks and names of
# methods look right, but the sentences mean nothing. In half a million characters the
# network has learned much of the spelling and some syntax.

# %% [markdown] misconception
# ## A misconception
#
# *"The model knows which characters are probable, so the lower the temperature, the
# better the text."*
#
# A temperature below 1 indeed removes spelling errors. If lower were always better,
# text at a very low temperature would resemble real text most of all. This can be
# measured in two ways: which share of the words occurs in the training text, and which
# share of all sequences of 20 characters occurs for the first time.

# %% [markdown] experiment
# ## The experiment
#
# For each temperature the model writes several texts from the same prompt. The same
# two shares are computed for as much text that is held out. We also let the model
# measure its own texts: how many bits per character does it need for them?

# %% temperature_run
known = set(re.findall("[A-Za-z]{2,}", train))


def shares(texts):
    """Shares of known words, and of strings of 20 characters that are new."""
    words = [word for each in texts for word in re.findall("[A-Za-z]{2,}", each)]
    strings = [each[i : i + 20] for each in texts for i in range(len(each) - 20)]
    real = sum(word in known for word in words) / max(len(words), 1)
    return real, len(set(strings)) / len(strings)


prompt = "The value of the"
rows = {}
for temperature in temperatures:
    texts = model.generate(
        [prompt] * num_samples, num_generated, temperature=temperature, seed=0
    )
    texts = [each[len(prompt) :] for each in texts]
    bits = np.mean([model.bits_per_token(each) for each in texts])
    rows[temperature] = (*shares(texts), float(bits))
starts = np.linspace(0, num_held_out - num_generated, num_samples).astype(int)
real_texts = [held_out[start : start + num_generated] for start in starts]
real_words, real_new = shares(real_texts)
real_bits = float(np.mean([model.bits_per_token(each) for each in real_texts]))
print("temperature  known words  new strings  bits of the model")
for temperature, (words, new, bits) in rows.items():
    print(f"{temperature:11}  {words:11.3f}  {new:11.3f}  {bits:17.2f}")
print(f"  held out   {real_words:11.3f}  {real_new:11.3f}  {real_bits:17.2f}")
cold = min(temperatures)
_, cold_new, cold_bits = rows[cold]

# %% temperatures tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
x = list(rows)
axis.plot(x, [row[0] for row in rows.values()], "o-", color="C0", label="known words")
axis.plot(x, [row[1] for row in rows.values()], "s-", color="C1", label="new strings")
axis.axhline(real_words, color="C0", linestyle="--", label="known words, held-out text")
axis.axhline(real_new, color="C1", linestyle="--", label="new strings, held-out text")
axis.set_xlabel("temperature")
axis.set_ylabel("share, 0 to 1")
axis.set_ylim(0, 1.05)
axis.grid(alpha=0.3)
axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
plt.close(figure)
figure

# %% [markdown] temperatures_caption
# Two curves against the temperature: the share of known words falls, the share of new
# strings rises.
#
# Solid lines: text of the model. Dashed lines: real text that is held out. Neither end
# of the scale is close to both dashed lines.

# %% [markdown] experiment_after
# At the temperature {{ cold | number(1) }} only {{ cold_new | percent }} of the strings
# of 20 characters are new: the model writes the same phrases again and again. In real
# text {{ real_new | percent }} are new. And by its own measure the model's text is far
# too probable: {{ cold_bits | number(2) }} bits per character, where real text has
# {{ real_bits | number(2) }}.
#
# So the most probable characters do not make a typical text. People do not write what
# is most predictable; a text is worth writing because it says something that the
# reader could not predict. At high temperatures the other fault appears: words that do
# not exist. Between the two, a temperature somewhat below 1, or top-p, which removes
# only the improbable tail, is a compromise, and it depends on the model and on the use.

# %% [markdown] exercises
# ## Exercises
#
# **1.** Min-p keeps the characters that have at least a given share of the largest
# probability. Write it, and compare it with `kerasseq.decoding.MinP`.


# %% solution_min_p tags=["solution"]
def min_p(z, share):
    """The distribution of logits (V,), restricted to the more probable characters."""
    p = ops.softmax(z)
    p = ops.where(p >= share * ops.max(p), p, 0.0)
    return p / ops.sum(p)


difference = kerasseq.decoding.MinP(0.1).distribution(z)[0] - min_p(z[0], 0.1)
print("max difference:", float(ops.max(ops.abs(difference))))

# %% [markdown] exercise_error
# **2.** How long does the model feel a spelling error? Exchange two letters of a
# sentence, and compare the surprise at each position after it.

# %% solution_error tags=["solution"]
right, wrong = "The class is a class of objects.", "The clsas is a class of objects."
first, second = model.surprise(right).bits, model.surprise(wrong).bits
print("position  right  wrong")
for t in range(4, 16):
    print(f"{t:6} {wrong[t]!r} {first[t]:6.2f} {second[t]:6.2f}")

# %% [markdown] exercise_code
# **3.** A code that spends $-\log_2 p$ bits on each character compresses a text to its
# cross-entropy. How small would the held-out text become with the LSTM, compared with 8
# bits per character, and with the compressor of Python's `zlib`?

# %% solution_code tags=["solution"]
packed = zlib.compress(train.encode() + held_out.encode(), 9)
packed = 8 * (len(packed) - len(zlib.compress(train.encode(), 9))) / num_held_out
print(f"LSTM {lstm_bits / 8:.2f}, zlib after the training text {packed / 8:.2f}")

# %% [markdown] summary
# ## What we saw
#
# - A language model is trained on its own text, shifted by one character; its loss is
#   the cross-entropy, in bits per character.
# - On held-out text the LSTM reached {{ lstm_bits | number(2) }} bits, bigrams
#   {{ bigram_bits | number(2) }}, a uniform guess {{ uniform_bits | number(2) }}.
# - Surprise is high where words begin and low within them.
# - A lower temperature is not simply better: at {{ cold | number(1) }} only
#   {{ cold_new | percent }} of the strings were new.
#
# [A Transformer, and a GPT on your text](10_gpt.md) has the same loss and the same
# samplers, with attention instead of a state.

# %% [markdown] questions
# ## Questions that the code can answer
#
# - From which $n$ on do n-grams beat the LSTM? Change `(1, 2, 3, 6)`. And after twice
#   as many steps?
# - What do gates contribute? Replace `"lstm"` by `"elman"`.
# - Does top-p avoid the invented words at high temperatures? Add `top_p=0.9` to
#   `generate` in the experiment.

# %% [markdown] references
# ## References
#
# - Shannon, "A Mathematical Theory of Communication", 1948; "Prediction and Entropy of
#   Printed English", 1951.
# - Mikolov et al., "Recurrent neural network based language model", 2010; Graves,
#   "Generating Sequences With Recurrent Neural Networks", 2013.
# - Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation", 2018 (top-k);
#   Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020 (top-p).
# - Slides A, B, C, D and E. Lab *Language model* of the app (`kerasseq app`).
