"""Music as a language: a network learns melodies note by note, and composes one.

    python examples/melodies.py melody.wav

A symbol is a note with its length, `c4q` for a quarter of the middle C, and `|` ends a
bar. The melodies of `datasets.melodies` have bars of four quarters, the form A A B A',
and end on a C. A model that predicts the next symbol is asked for whole melodies, and
the rules are counted in them, beside those of a trigram model: it counts three symbols,
so that it cannot repeat a phrase. With the defaults on PyTorch 0.96 of the bars of the
network are full, of the trigrams 0.50; 0.40 of the melodies of the network repeat the
phrase, none of the trigrams. Writes the first melody as sound, too. Takes a few
minutes. Source: course slides C (next symbol, of music).
"""

import argparse
import re

import kerasseq
import keras
import numpy as np
from kerasseq import datasets
from kerasseq.text import NGramModel, WordTokenizer

EIGHTHS = {"e": 1, "q": 2, "d": 3, "h": 4}
STEPS = {"c": 0, "d": 2, "e": 4, "f": 5, "g": 7, "a": 9, "b": 11}  # semitones
START = "start"  # before each melody


def rules(melodies):
    """The shares of full bars, of repeated phrases, and of melodies that end on C."""
    bars = [[bar.split() for bar in m.split("|")[:8]] for m in melodies]
    full = [sum(EIGHTHS.get(n[-1], 9) for n in bar) == 8 for b in bars for bar in b]
    again = [len(b) > 3 and b[:2] == b[2:4] for b in bars]
    ends = [len(b) == 8 and " ".join(b[7]).split(" ")[-1][:1] == "c" for b in bars]
    return np.mean(full), np.mean(again), np.mean(ends)


def by_counts(tokenizer, text, count, length):
    """Melodies of a trigram model."""
    model = NGramModel(3, k=0.001, tokenizer=tokenizer).fit(text)
    texts = (model.generate(START, length, seed=seed) for seed in range(count))
    return [text.split(START)[1].strip() for text in texts]


def sound(melody, rate=16000, eighth=0.2):
    """A tone for each note, softer towards its end, as samples from -1 to 1."""
    tones = []
    for note in re.findall(r"\b[a-g][45][eqdh]\b", melody):
        t = np.arange(int(rate * eighth * EIGHTHS[note[-1]])) / rate
        pitch = 12 * (int(note[1]) - 4) + STEPS[note[0]] - 9  # semitones above 440 Hz
        wave = np.sin(2 * np.pi * 440 * 2 ** (pitch / 12) * t)
        tones.append(0.5 * wave * np.exp(-3 * t) * np.minimum(1, t * 200))
    return np.concatenate(tones)


def main(arguments=None):
    """Trains both models, and prints how often each follows the rules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", default="melody.wav", help="sound")
    parser.add_argument("--melodies", type=int, default=4000)
    parser.add_argument("--steps", type=int, default=800, help="training steps")
    parser.add_argument("--model", default="transformer", help="or gru, mamba …")
    parser.add_argument("--units", type=int, default=96)
    parser.add_argument("--count", type=int, default=50, help="melodies to compose")
    options = parser.parse_args(arguments)

    train = datasets.melodies(options.melodies)
    text = " ".join(f"{START} {melody}" for melody in train)
    tokenizer = WordTokenizer().fit(text)
    keras.utils.set_random_seed(0)
    model = kerasseq.models.LanguageModel(
        options.model, tokenizer, units=options.units, num_layers=2
    )
    schedule = keras.optimizers.schedules.CosineDecay(4e-3, options.steps)
    model.compile(keras.optimizers.Adam(schedule, global_clipnorm=1.0))
    model.fit(text, sequence_length=96, steps_per_epoch=options.steps, verbose=2)

    length = max(len(melody.split()) for melody in train) + 1
    prompts = [START] * options.count
    texts = model.generate(prompts, length, stop=[START], seed=0)
    composed = [t.replace(START, "").strip() for t in texts]
    counted = by_counts(tokenizer, text, options.count, length)
    new = np.mean([melody not in train for melody in composed])
    print("               full bars  A repeated  ends on C")
    for name, found in {
        "the grammar": datasets.melodies(options.count, seed=1),
        "network": composed,
        "trigrams": counted,
    }.items():
        print(f"{name:14}", *(f"{share:10.2f}" for share in rules(found)))
    print(f"{new:.2f} of the melodies of the network are in none of the training data")
    print(composed[0])
    datasets.write_wave(options.file, sound(composed[0]))
    print(f"wrote {options.file}")


if __name__ == "__main__":
    main()
