"""What the lab Speech computes. The page shows these functions as its code."""

import inspect

import numpy as np

LETTERS, RATE, STRIDE, MELS, WINDOW = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4000, 40, 16, 128
STEPS, EVERY, BATCH = 1200, 50, 16


def messages(count, seed):
    """Returns messages of 2 to 5 random letters, all of other speeds and pitches."""
    from kerasseq import datasets

    rng = np.random.default_rng(seed)
    letters = [rng.choice(list(LETTERS), n) for n in rng.integers(2, 6, count)]
    return datasets.morse(
        count,
        text=["".join(each) for each in letters],
        sampling_rate=RATE,
        dot=(0.05, 0.08),
        seed=seed,
    )


def make():
    """Returns a network of one Conformer block, which knows nothing yet."""
    from kerasseq import models, text

    return models.SpeechRecognizer(
        "conformer",
        text.CharacterTokenizer(unknown=None).fit(LETTERS),
        **{"units": 32, "num_layers": 1, "num_heads": 2, "sampling_rate": RATE},
        **{"num_mels": MELS, "num_fft_bins": WINDOW, "stride": STRIDE},
    )


def train(steps, seed):
    """Trains, and yields steps, model, loss and wrong characters, every 50 steps."""
    import keras

    keras.utils.set_random_seed(seed)
    model, test = make(), messages(8 * BATCH, 1)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps - 2 * EVERY, warmup_target=5e-3, warmup_steps=2 * EVERY
    )
    options = {"beta_2": 0.98, "weight_decay": 0.01, "global_clipnorm": 1.0}
    model.compile(keras.optimizers.AdamW(rate, **options))
    for done in range(EVERY, steps + 1, EVERY):
        sounds = messages(EVERY * BATCH, 1000 * (1 + seed) + done)
        fitted = model.fit(sounds, batch_size=BATCH, verbose=0)
        wrong = model.error_rates(test).characters
        yield done, model, fitted.history["loss"][-1], wrong


def beam(y, width):
    """Returns the most probable texts, each with its probability.

    Args:
        y: Probabilities of the letters and of the blank, `(frames, letters + 1)`.
        width: How many texts are kept at each frame.
    """
    found = {(): (1.0, 0.0)}  # p of paths that end with a blank, and with a letter
    for *letters, blank in y:
        new = {}
        for text, (b, n) in found.items():
            whole = new.setdefault(text, [0.0, 0.0])
            whole[0] += blank * (b + n)
            for k, p in enumerate(letters):
                before = b if text[-1:] == (k,) else b + n
                if text[-1:] == (k,):
                    whole[1] += p * n
                new.setdefault((*text, k), [0.0, 0.0])[1] += p * before
        best = sorted(new, key=lambda text: -sum(new[text]))[:width]
        found = {text: new[text] for text in best}
    return [(list(text), sum(p)) for text, p in found.items() if sum(p) > 0]


def collapse(path, blank):
    """Returns what a path reads as: equal neighbors merged, blanks left out."""
    merged = [k for n, k in enumerate(path) if n == 0 or path[n - 1] != k]
    return [k for k in merged if k != blank]


def paths_of(y, label):
    """Returns all paths that read as a label, each with its probability.

    Args:
        y: Probabilities, `(frames, symbols)`; the last symbol is the blank.
        label: Numbers of the symbols.
    """
    import itertools

    blank, found = y.shape[1] - 1, []
    for path in itertools.product(range(blank + 1), repeat=len(y)):
        if collapse(path, blank) == label:
            found.append((list(path), float(np.prod(y[range(len(y)), path]))))
    return sorted(found, key=lambda each: -each[1])


def forward(y, label):
    """Returns α, `(2 |label| + 1, frames)`: sums over the beginnings of paths."""
    blank = y.shape[1] - 1
    places = [blank]
    for k in label:
        places += [k, blank]
    alpha = np.zeros((len(places), len(y)))
    for t in range(len(y)):
        for j, k in enumerate(places):
            if t == 0:
                before = float(j < 2)
            else:
                before = alpha[max(0, j - 1) : j + 1, t - 1].sum()
                if j > 1 and k != blank and k != places[j - 2]:
                    before += alpha[j - 2, t - 1]
            alpha[j, t] = y[t, k] * before
    return alpha


HEAD = f"""import numpy as np

LETTERS, RATE, STRIDE = {LETTERS!r}, {RATE}, {STRIDE}
MELS, WINDOW = {MELS}, {WINDOW}
STEPS, EVERY, BATCH = {STEPS}, {EVERY}, {BATCH}
"""
SOUND = """
import numpy as np

from kerasseq import datasets, layers

ranges = {"dot": ({dot}, {dot}), "pitch": ({pitch}, {pitch}), "snr": ({snr}, {snr})}
sounds = datasets.morse(
    1, text=[{text}], sampling_rate={rate}, fading=0, seed={seed}, **ranges
)
sound = sounds.audio[0]
"""
OWN = """
import numpy as np

from kerasseq import datasets, layers

sound = datasets.morse(1, text=["OWN"], sampling_rate={rate}).audio[0]
# Instead of it, for your own file: sound = datasets.read_wave("sound.wav", {rate})
"""
FRAMES = """
layer = layers.LogMelSpectrogram(
    num_mels={mels}, num_fft_bins={window}, stride=40, sampling_rate={rate}, scale="log"
)
frames = np.asarray(layer(sound[None]))[0]
print(len(sound), "samples,", frames.shape, "frames and bands")
print("the loudest band of each tenth frame:", frames.argmax(axis=1)[::10])
"""
TEXT = """

for done, model, loss, wrong in train(STEPS, 0):
    print(done, "steps: loss", round(loss, 2), "wrong", round(wrong, 3))
    if done == {step}:
        break

heard = model.transcribe(sound)
print(heard.text, heard.times)

[scores] = model.predict([sound], verbose=0)
y = np.exp(scores - scores.max(axis=1, keepdims=True))
y /= y.sum(axis=1, keepdims=True)
print("best path:", "".join((*LETTERS, "-")[k] for k in y.argmax(axis=1)))
for ids, p in beam(y, {width}):
    print(model.tokenizer.decode(ids), "log-probability", np.log(p))
"""
PATHS = """

symbols, label = {symbols}, {label}
y = np.array({table})
y /= y.sum(axis=1, keepdims=True)
for path, p in paths_of(y, label):
    print("".join(symbols[k] for k in path), p)

alpha = forward(y, label)
print("sum over paths:", alpha[-2:, -1].sum())

from kerasseq import training

loss = training.CTC()(np.array([label]), np.log(y[None]).astype("float32"))
print("loss:", -np.log(alpha[-2:, -1].sum()), "training.CTC:", float(loss))
"""
QUICK = {f"{STEPS}, {EVERY}, {BATCH}\n": "6, 2, 2\n"}  # in tests it trains few steps


def source(view, own=False):
    """Returns the code of a view, as a template."""
    sound = OWN if own else SOUND
    if view == "frames":
        return sound + FRAMES
    used = (
        (messages, make, train, beam)
        if view == "text"
        else (collapse, paths_of, forward)
    )
    functions = "\n\n".join(inspect.getsource(function) for function in used)
    if view == "paths":
        return f"import numpy as np\n\n\n{functions}{PATHS}"
    return f"{HEAD}\n\n{functions}\n{sound}{TEXT}"
