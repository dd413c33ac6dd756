# %% [markdown] title
# # From a wave to text

# %% [markdown] goals
# After this tutorial you will be able to
#
# - compute a log-mel spectrogram from the samples of a sound, with a Fourier transform
#   and mel filters;
# - write the loss of connectionist temporal classification (CTC) as a sum over paths,
#   and compute it without listing them;
# - train a network that writes down Morse code, say why nothing can be read at first,
#   and read its output by the best path, by a beam search, and with a language model.

# %% [markdown] imports_text
# The tutorial needs kerasseq, Keras and matplotlib, and downloads nothing.

# %% imports
import itertools
import os
import re

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import kerasseq

# %% [markdown] settings_text
# The settings: samples a second, the samples of a window and from a window to the next,
# mel bands, the network, and its training in parts, after each of which it is tested.
# `easy` makes all messages alike: one speed, one pitch, a steady tone.

# %% settings
rate, window, stride, bands = 4000, 128, 40, 12
sizes = {"units": 32, "num_layers": 1, "num_heads": 2}
parts, steps, batch_size, rate_of_learning = 20, 25, 16, 0.004
tested, words_tested = 100, 200
easy = {"sampling_rate": rate, "dot": (0.05, 0.05), "pitch": (600, 600), "fading": 0}

# %% small tags=["small"]
if "KERASSEQ_SMALL" in os.environ:
    sizes = {"units": 5, "num_layers": 1, "num_heads": 1}
    parts, steps, batch_size, tested, words_tested = 2, 1, 2, 3, 3

# %% [markdown] question
# ## The question
#
# A sound is a row of numbers, the pressure of the air at one moment after the other. A
# text is a much shorter row of letters. When each letter is heard stands in neither: a
# transcript of an hour of speech has words, and no times. **How can a network learn to
# write when the times of the letters are unknown?**
#
# Speech needs days of training. Morse code needs a minute, and has all of its
# difficulties: letters of different lengths, pauses, noise. `kerasseq.datasets.morse`
# keys messages as a person does, with tones and pauses up to a tenth too long or too
# short, and adds noise.

# %% sound
sounds = kerasseq.datasets.morse(
    1, text="HELLO", rhythm=0.1, snr=(20, 20), seed=0, **easy
)
wave, message = sounds.audio[0], sounds.texts[0]
samples, letters = len(wave), len(message)
print(message, kerasseq.datasets.morse_code(message))
print(f"{samples} samples, {samples / rate:.2f} seconds, {letters} letters")
print(wave[2000:2006].round(3))

# %% [markdown] equation
# ## The equations
#
# **From the wave to frames.** A tone is not in a sample but in how the samples go up
# and down. So the wave $x$ is cut into overlapping windows of $N$ samples, one every
# $s$ samples. Each is multiplied by a bell $w$, and its Fourier transform $X$ says how
# much of each frequency it has. Neighboring frequencies are then added up in $M$ bands
# by triangular filters $F$, which are as broad as listeners need to tell tones apart,
# and the logarithm is taken, since loudness is heard in ratios:
#
# $$X_{t,k} = \sum_{n=0}^{N-1} w_n\, x_{ts + n - N/2}\; e^{-2\pi i k n / N}, \qquad
# L_{t,m} = \ln \sum_k |X_{t,k}|^2\, F_{k,m}$$
#
# The bands are evenly spaced on the mel scale, $2595 \log_{10}(1 + f / 700)$.
#
# **From frames to a text.** At each frame $t$ the network gives probabilities $y_t(k)$
# of the letters and of one more symbol, the *blank* ∅. A *path* $\pi$ has one of them
# at each frame. It reads as a text once equal neighbors are merged and blanks left out:
# `H∅EEL∅LL∅O` reads HELLO, and without the blank between them two letters L would be
# one. CTC asks no path for times. The probability of a text $l$ is the sum over **all**
# paths that read as it,
#
# $$p(l) = \sum_{\pi \text{ reads as } l}\; \prod_t y_t(\pi_t), \qquad
# L_{\text{CTC}} = -\ln p(l)$$
#
# There are too many to list, but they share their beginnings. Write $l$ with a blank
# before, between and after its letters, as $l'$ with $2|l| + 1$ places, and let
# $\alpha_t(j)$ be the probability of all beginnings that are at place $j$ at frame $t$.
# A path stays, moves on by one place, or skips a blank between two different letters:
#
# $$\alpha_t(j) = y_t(l'_j)\,\bigl(\alpha_{t-1}(j) + \alpha_{t-1}(j - 1)
# + [\,l'_j \ne \varnothing,\; l'_j \ne l'_{j-2}\,]\; \alpha_{t-1}(j - 2)\bigr)$$
#
# At the end a path is at the last letter or at the blank after it.

# %% [markdown] scratch_text
# ## From scratch
#
# The spectrogram: the Fourier transform as a product with a matrix, and the filters.


# %% scratch tags=["scratch"]
def filters(number, N, rate):
    def hertz(mel):
        return 700 * (10 ** (mel / 2595) - 1)

    top = 2595 * np.log10(1 + rate / 2 / 700)
    centers = hertz(np.linspace(0, top, number + 2))
    f = np.arange(N // 2 + 1)[:, None] * rate / N  # frequencies of the transform
    rising = (f - centers[:-2]) / (centers[1:-1] - centers[:-2])
    falling = (centers[2:] - f) / (centers[2:] - centers[1:-1])
    return np.maximum(0, np.minimum(rising, falling))  # (frequencies, bands)


def log_mel(x, N, s, F):
    n = np.arange(N)
    w = 0.5 - 0.5 * np.cos(2 * np.pi * n / N)
    x = np.pad(x, N // 2, mode="reflect")
    windows = np.stack([x[t : t + N] for t in range(0, len(x) - N, s)])
    windows = windows[: (len(x) - N) // s]
    X = (w * windows) @ np.exp(-2j * np.pi * np.outer(n, np.arange(N // 2 + 1)) / N)
    return np.log(np.maximum(np.abs(X) ** 2 @ F, 1e-10))  # (frames, bands)


# %% [markdown] paths_text
# CTC: what a path reads as, the sum over all paths, and the same sum frame by frame.


# %% paths tags=["scratch"]
def collapse(path, blank):
    return [k for k, _ in itertools.groupby(path) if k != blank]


def all_paths(y, label, blank):
    paths = itertools.product(range(y.shape[1]), repeat=len(y))
    reading = [path for path in paths if collapse(path, blank) == label]
    return sum(np.prod(y[range(len(y)), path]) for path in reading)


def forward(y, label, blank):
    places = [blank]
    for k in label:
        places += [k, blank]
    alpha = np.eye(len(places))[0]  # before the first frame: at the first blank
    for t in range(len(y)):
        one, two = np.roll(alpha, 1), np.roll(alpha, 2)
        one[0], two[:2] = 0, 0
        skips = [k != blank and places[j - 2] != k for j, k in enumerate(places)]
        alpha = y[t, places] * (alpha + one + two * skips)
    return alpha[-2:].sum()


# %% [markdown] library
# ## The same with kerasseq
#
# `kerasseq.layers.LogMelSpectrogram` and `kerasseq.training.CTC` are these equations
# for a batch of sounds of different lengths. The cell compares the spectrograms of the
# message, and for random probabilities of four letters and the blank in six frames the
# sum over all paths, the sum by frames, and the loss of kerasseq.

# %% library_equal
layer = kerasseq.layers.LogMelSpectrogram(
    bands, window, stride, rate, mel_scale="htk", scale="log"
)
by_hand = log_mel(wave, window, stride, filters(bands, window, rate))
by_layer = ops.convert_to_numpy(layer(wave[None]))[0]
frames = len(by_hand)
print(f"{by_hand.shape} frames and bands, largest difference", end=" ")
print(f"{np.abs(by_hand - by_layer).max():.1e}")

scores = np.random.default_rng(0).normal(size=(6, 5))
y = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
label = [0, 1, 1]
loss = kerasseq.training.CTC()(np.array([label]), scores[None].astype("float32"))
number_of_paths = y.shape[1] ** len(y)
print(f"{number_of_paths} paths: {-np.log(all_paths(y, label, 4)):.5f}", end=", ")
print(f"by frames {-np.log(forward(y, label, 4)):.5f}", end=", ")
print(f"kerasseq {float(ops.convert_to_numpy(loss)):.5f}")

# %% [markdown] inside
# ## Look inside
#
# The next figure shows the message twice: as samples, and as frames. In the wave dots
# and dashes can be seen, but each tone is hundreds of numbers that go up and down. In
# the frames it is a bar in one band, and paler in its neighbors.

# %% wave_figure tags=["figure"]
figure, (top, low) = plt.subplots(2, 1, figsize=(8, 3.6), sharex=True)
seconds = samples / rate
heights = np.abs(wave[: samples // 40 * 40]).reshape(-1, 40).max(axis=1)
top.fill_between(np.linspace(0, seconds, len(heights)), -heights, heights, lw=0)
top.set_ylabel("samples")
low.imshow(
    by_hand.T,
    origin="lower",
    aspect="auto",
    interpolation="none",
    extent=(0, seconds, -0.5, bands - 0.5),
)
low.set_ylabel("mel band")
low.set_xlabel("seconds")
plt.close(figure)
figure

# %% [markdown] wave_figure_caption
# Above the wave, thick where a tone is heard; below the spectrogram, with bright bars
# in one band for dots and dashes.
#
# HELLO in Morse code as a wave, and as a log-mel spectrogram of 12 bands.

# %% [markdown] inside_after
# The wave has {{ samples | integer }} samples, the spectrogram {{ frames | integer }}
# frames. The network makes one of four of them, and is left with more than ten for each
# letter: enough for CTC, which needs at least one for each letter, and one more between
# equal neighbors.

# %% [markdown] misconception
# ## A misconception
#
# > "To read the text, take the most probable symbol at each frame."
#
# This gives the most probable *path*. The most probable *text* can be another one,
# because a text is the sum over its paths. Two frames are enough, with one letter A and
# the blank:

# %% greedy_or_beam
two_frames = np.array([[0.4, 0.6], [0.4, 0.6]])  # of A and of the blank
for text in ([0], []):
    name = "A" if text else "the empty text"
    print(f"{name:15} p = {all_paths(two_frames, text, 1):.2f}")
logits = np.log(two_frames)[None]
greedy_text = kerasseq.decoding.ctc_greedy(logits).ids.tolist()
beam_text = kerasseq.decoding.ctc_beam(logits).ids.tolist()
print("best path", greedy_text, "beam search", beam_text)

# %% [markdown] misconception_after
# The best path is twice the blank, with $0.6^2 = 0.36$, and reads as nothing. Each of
# the paths AA, A∅ and ∅A has less, but all three read as A, and have $0.64$ together.
# `kerasseq.decoding.ctc_beam` reads the frames from left to right, keeps the most
# probable beginnings of *texts*, and adds up the paths of each. Where one symbol
# of each frame has nearly all of the probability both agree; else they can differ.

# %% [markdown] experiment
# ## The experiment
#
# A network with one Conformer block learns from messages of 2 to 5 random letters, none
# of which comes twice. The test has {{ tested | integer }} others, which are keyed and
# heard in the same way. After each part of {{ steps | integer }} steps the cell
# measures the share of wrong characters, and the share of frames at which the blank is
# the most probable symbol.

# %% train
alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
tokenizer = kerasseq.text.CharacterTokenizer(unknown=None).fit(alphabet)
rng = np.random.default_rng(0)


def messages(count, seed):
    lengths = rng.integers(2, 6, count)
    texts = ["".join(rng.choice(list(alphabet), length)) for length in lengths]
    return kerasseq.datasets.morse(
        count, text=texts, rhythm=0.1, snr=(10, 25), seed=seed, **easy
    )


keras.utils.set_random_seed(0)
model = kerasseq.models.SpeechRecognizer(
    "conformer", tokenizer, num_mels=bands, num_fft_bins=window, stride=stride,
    sampling_rate=rate, **sizes,
)  # fmt: skip
schedule = keras.optimizers.schedules.CosineDecay(
    0.0, parts * steps, warmup_target=rate_of_learning, warmup_steps=4 * steps
)
model.compile(keras.optimizers.AdamW(schedule, global_clipnorm=1.0))
test = messages(tested, 1)
curve = []
for part in range(parts):
    fitted = model.fit(
        messages(steps * batch_size, 100 + part), batch_size=batch_size, verbose=0
    )
    best = [each.argmax(axis=-1) for each in model.predict(test.audio, verbose=0)]
    blanks = float(np.mean(np.concatenate(best) == len(alphabet)))
    errors = model.error_rates(test)
    curve.append((fitted.history["loss"][-1], errors.characters, blanks))
losses, wrong, blanks = map(list, zip(*curve, strict=True))
result, result_name = wrong[-1], "wrong characters"
half_steps = steps * (1 + int(np.argmax(np.array(wrong) < 0.5)))
first_wrong, first_blanks, last_blanks = wrong[0], blanks[0], blanks[-1]
words_wrong, weights = errors.words, model.count_params()
print(f"{weights:,} weights")
for part in range(0, parts, max(1, parts // 8)):
    print(f"{steps * (part + 1):4} steps: loss {losses[part]:6.2f}", end="")
    print(f", wrong {wrong[part]:6.1%}, blanks {blanks[part]:.1%}")

# %% learning_figure tags=["figure"]
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
done = steps * np.arange(1, parts + 1)
axis.plot(done, wrong, "o-", label="wrong characters")
axis.plot(done, blanks, "s--", label="frames with the blank")
axis.set_xlabel("training steps")
axis.set_ylabel("share")
axis.set_ylim(-0.03, 1.03)
right = axis.twinx()
right.plot(done, losses, ":", color="#666666", label="loss (right)")
right.set_ylim(0, 20)
right.set_ylabel("loss, nats a message")
right.spines["right"].set_visible(True)
figure.legend(loc="outside upper center", ncols=3)
plt.close(figure)
figure

# %% [markdown] learning_figure_caption
# Three curves over the steps: the wrong characters stay at 1 and then drop to nearly 0,
# the blanks fall a little at the same time, and the loss falls before and then with
# them.
#
# Wrong characters in messages that are not trained on, frames at which the blank wins,
# and the loss in training.

# %% [markdown] experiment_after
# At first the model learns one thing: to say blank. Most frames of most paths are
# blank, while a letter at a wrong time costs much. So the loss falls, and
# {{ first_wrong | percent }} of the characters are wrong after the first
# {{ steps | integer }} steps: the transcript is empty. Then a few letters win at a few
# frames, the sum over paths says where they fit, and everything follows. Half of the
# characters are right after {{ half_steps | integer }} steps, and at the end
# {{ result | percent }} are wrong; a message is wrong if one of its letters is, so
# {{ words_wrong | percent }} of the messages are. Still the blank wins at
# {{ last_blanks | percent }} of the frames. A run that is stopped too early shows
# nothing at all: harder Morse code, with digits, longer messages and all speeds and
# pitches, needs more than 500 steps of a larger network before the first letter is
# written ([measured](../results.md#morse-code)).

# %% [markdown] transcript_text
# ## What it writes, and when
#
# `transcribe` returns the text, its log-probability, and `.times`, the seconds at which
# each letter wins. The next figure shows what the network gives for HELLO.

# %% transcript
heard = model.transcribe(wave)
print(f"{heard.text}, log-probability {heard.log_probability:.2f}")
print(*(f"{a} {b:.2f}" for a, b in zip(heard.tokens, heard.times[:, 0], strict=True)))
(frame_scores,) = model.predict([wave], verbose=0)
frame_y = ops.convert_to_numpy(ops.softmax(frame_scores))
best_path = frame_y.argmax(axis=1)
print("".join((*alphabet, "-")[k] for k in best_path))
length = model.preprocessor.factor * stride / rate  # seconds of an output frame

# %% transcript_figure tags=["figure"]
figure, (top, low) = plt.subplots(2, 1, figsize=(8, 3.8), sharex=True)
top.imshow(
    by_hand.T,
    origin="lower",
    aspect="auto",
    interpolation="none",
    extent=(0, seconds, -0.5, bands - 0.5),
)
top.set_ylabel("mel band")
for token, (start, end) in zip(heard.tokens, heard.times, strict=True):
    top.text((start + end) / 2, bands, token, ha="center", weight="bold")
    top.axvline((start + end) / 2, color="w", lw=1, ls=":")
middle = (np.arange(len(frame_y)) + 0.5) * length
low.plot(middle, frame_y[:, -1], "--", color="#666666", label="blank")
for k in dict.fromkeys(k for k in best_path if k < len(alphabet)):
    low.plot(middle, frame_y[:, k], label=alphabet[k])
low.set_ylim(-0.03, 1.03)
low.set_ylabel("probability")
low.set_xlabel("seconds")
figure.legend(loc="outside upper center", ncols=6)
plt.close(figure)
figure

# %% [markdown] transcript_figure_caption
# Above the spectrogram with the letters H, E, L, L, O at their times; below the
# probabilities of the frames: the blank is near 1, and each letter has a narrow peak
# near its tones.
#
# What the network writes, and the probabilities that it gives at each frame. The
# command `kerasseq transcribe sound.wav --align picture.png` draws the upper half for
# any file.

# %% [markdown] transcript_after
# Each letter is a peak of one frame or two, somewhere among its tones or a little
# before them: CTC asks for the order and for nothing else, and this network has heard
# the whole message when it writes, since attention reaches to both sides. So `.times`
# are moments, not beginnings and ends.

# %% [markdown] noise_text
# ## A language model
#
# Now the noise gets as loud as the network has never heard it, and the messages are
# words of the Python reference. A 4-gram model of letters ([Words as
# numbers](01_words.md)) has read the reference, but without these
# {{ words_tested | integer }} words. The beam search adds its logarithm, with a weight,
# and a bonus for each letter, since a language model finds short texts more probable.
# Both numbers were chosen on other words.

# %% noise
reference = kerasseq.datasets.python_reference()
words = re.findall(r"(?<![A-Za-z])[a-z]{4,8}(?![A-Za-z])", reference)
words = [word.upper() for word in words]
distinct = sorted(set(words))
unseen = [distinct[n] for n in np.random.default_rng(1).permutation(len(distinct))]
unseen = unseen[:words_tested]
others = [word for word in words if word not in set(unseen)]
language = kerasseq.text.NGramModel(4, smoothing="kneser_ney", tokenizer=tokenizer)
language.fit("".join(others))


def noisy(words, decibels, seed=2, **changes):
    options = {**easy, "rhythm": 0.1, **changes}
    return kerasseq.datasets.morse(
        len(words), text=words, snr=(decibels, decibels), seed=seed, **options
    )


loud = noisy(unseen, 8)
searches = {
    "best path": {},
    "beam": {"beam": 16},
    "beam and 4-grams": {
        "beam": 16, "language_model": language, "weight": 0.6, "bonus": 2.0
    },
}  # fmt: skip
found = {name: model.error_rates(loud, **o) for name, o in searches.items()}
for name, errors in found.items():
    print(f"{name:17} wrong: {errors.characters:.1%} of the characters", end=", ")
    print(f"{errors.words:.1%} of the words")
greedy_wrong, beam_wrong, language_wrong = (e.characters for e in found.values())
mended = 1 - language_wrong / greedy_wrong

# %% [markdown] noise_after
# Where greedy decoding gets {{ greedy_wrong | percent }} of the characters wrong, the
# beam alone changes little, {{ beam_wrong | percent }}: the network is mostly sure of
# itself, even where it is wrong. The 4-grams leave {{ language_wrong | percent }}, and
# have mended {{ mended | percent }} of the errors. They know no sound, but know that
# after TH an E is more probable than a T.

# %% [markdown] align_text
# If the text is known, `align` finds its best path: the times at which each letter is
# heard. A text that the sound does not have gets a much lower probability.

# %% align
for text in (message, "JELLO"):
    aligned = model.align(wave, text)
    print(f"{text}: log-probability {aligned.log_probability:.2f}", end=", at ")
    print(*aligned.times[:, 0].round(2), "seconds")

# %% [markdown] exercises
# ## Exercises
#
# 1. How many frames does a text with a double letter need? Compute `forward` for the
#    text AA in one to four frames, with equal probabilities of A and the blank, and
#    say which paths there are.
# 2. The model has heard one pitch and one speed. What does it write at other pitches,
#    and at other speeds? Which of the two matters more, and why?
# 3. How wide must a beam be? Compare beams of 1, 2, 4 and 16 with the 4-grams on the
#    loud words.

# %% solution_frames tags=["solution"]
for number in range(1, 5):
    equal = np.full((number, 2), 0.5)
    reading = [
        path
        for path in itertools.product(range(2), repeat=number)
        if collapse(path, 1) == [0, 0]
    ]
    shown = ["".join("A∅"[k] for k in path) for path in reading]
    print(f"{number} frames: p = {forward(equal, [0, 0], 1):.4f}", *shown)

# %% [markdown] solution_frames_after
# Three frames: one for each letter, and a blank between them. In less the probability
# is 0, the loss infinite and the gradient useless. `kerasseq.training.check_ctc_labels`
# names the rows of a data set whose text does not fit, and `fit` calls it.

# %% solution_other tags=["solution"]
for pitch in (500, 600, 700, 1000):
    errors = model.error_rates(noisy(unseen, 20, pitch=(pitch, pitch)))
    print(f"pitch {pitch:4} Hz: wrong {errors.characters:.1%}")
for dot in (0.04, 0.05, 0.06, 0.08):
    errors = model.error_rates(noisy(unseen, 20, dot=(dot, dot)))
    print(f"dot   {dot:.2f} s: wrong {errors.characters:.1%}")

# %% [markdown] solution_other_after
# Both matter: with another pitch or another length of the dots most characters are
# wrong. A pitch in another band is another input, and a longer dot is no dot. Nothing
# in the network says that they mean the same: a network that is to understand them must
# hear them in training, as that of the lab *Speech* does.

# %% solution_beam tags=["solution"]
for width in (1, 2, 4, 16):
    options = {**searches["beam and 4-grams"], "beam": width}
    print(f"beam {width:2}: {model.error_rates(loud, **options).characters:.1%}")

# %% [markdown] solution_beam_after
# Few texts are enough: at most frames one symbol has nearly all of the probability, and
# at the others two or three share it. With a beam of 1 the language model mends less:
# only the best text is kept at each frame, and a better one can no longer be found.

# %% [markdown] summary
# ## What we have seen
#
# - A wave of {{ samples | integer }} numbers is {{ frames | integer }} frames of
#   {{ bands | integer }} bands; windows, Fourier transform and filters by hand are
#   those of `LogMelSpectrogram`.
# - CTC needs no times: the sum over paths, among {{ number_of_paths | integer }}, is
#   one over a few places, frame by frame.
# - At first the network says blank everywhere; half of the characters are right after
#   {{ half_steps | integer }} steps, and {{ result | percent }} are wrong at the end.
# - The most probable path is not always that of the most probable text; where the
#   network is sure, they agree.
# - In loud noise a language model of letters mended {{ mended | percent }} of the
#   errors.

# %% [markdown] questions
# ## Questions for the code
#
# - How does the loss fall with `snr=(0, 10)`, or with all speeds and pitches?
# - What does `factor=8` of `SpeechRecognizer` change, which leaves half of the frames?
# - Does a recurrent network learn it too? Write `"gru"` instead of `"conformer"`.

# %% [markdown] references
# ## References
#
# - S. Davis, P. Mermelstein: *Comparison of Parametric Representations for Monosyllabic
#   Word Recognition in Continuously Spoken Sentences*, 1980.
# - A. Graves, S. Fernández, F. Gomez, J. Schmidhuber: *Connectionist Temporal
#   Classification*, 2006.
# - A. Hannun et al.: *First-Pass Large Vocabulary Continuous Speech Recognition using
#   Bi-Directional Recurrent DNNs*, 2014 (prefix beam search).
# - A. Gulati et al.: *Conformer: Convolution-augmented Transformer for Speech
#   Recognition*, 2020; A. Radford et al.: *Robust Speech Recognition via Large-Scale
#   Weak Supervision*, 2022 (Whisper).
# - Slides A (spectrograms, the Conformer, Whisper, CTC). Lab *Speech* of the app
#   (`kerasseq app`).
