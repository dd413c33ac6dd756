"""Reversing strings of 5 to 30 symbols, with attention and without, by length.

Without attention all that the decoder knows of a string is one vector, and the longer
the string, the less of it is left. With attention it looks again. Figures are the share
of strings, never seen in training, that come out right to the last symbol, in percent.
"""

import time

LENGTHS = ((5, 10), (11, 15), (16, 20), (21, 25), (26, 30))


def add_arguments(parser):
    """What to train, and how long."""
    parser.add_argument("--attention", default="none,luong,bahdanau")
    parser.add_argument("--model", default="gru")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=60_000)
    parser.add_argument(
        "--tested", type=int, default=100, help="strings of each length"
    )
    parser.add_argument("--seed", type=int, default=0)


def run(options):
    """Train each model, and test it by length."""
    from kerasseq import datasets

    longest = {"min_length": LENGTHS[0][0], "max_length": LENGTHS[-1][1]}
    pairs = datasets.reverse_task(options.pairs, **longest, seed=options.seed)
    held_out = datasets.reverse_task(
        options.tested * 26, **longest, seed=options.seed + 1
    )
    table = []
    for attention in options.attention.split(","):
        began = time.perf_counter()
        model = train(pairs, None if attention == "none" else attention, options)
        seconds = time.perf_counter() - began
        row = {"attention": attention, **test(model, pairs, held_out)}
        table.append({**row, "seconds": round(seconds)})
    return {"task": "reverse, lengths 5 to 30", "steps": options.steps, "table": table}


def train(pairs, attention, options):
    """A model that has seen the pairs."""
    import keras

    from kerasseq import models, text

    keras.utils.set_random_seed(options.seed)
    symbols = text.CharacterTokenizer().fit(pairs.sources)
    model = models.Seq2Seq(
        options.model, symbols, symbols, attention=attention, units=options.units
    )
    rate = keras.optimizers.schedules.CosineDecay(4e-3, options.steps, alpha=0.01)
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
    model.fit(pairs, steps_per_epoch=options.steps, epochs=1, verbose=0)
    return model


def test(model, pairs, held_out):
    """Percent exactly right, for each range of lengths."""
    from kerasseq import training

    known, found = set(pairs.sources), {}
    for shortest, longest in LENGTHS:
        chosen = [
            (source, target)
            for source, target in zip(*held_out, strict=True)
            if shortest <= len(source) <= longest and source not in known
        ]
        sources, targets = zip(*chosen, strict=True)
        said = [t.text for t in model.translate(list(sources), alignments=False)]
        found[f"{shortest}-{longest}"] = training.exact_match(said, targets)
    return found
