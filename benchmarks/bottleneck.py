"""Reversing strings of 5 to 30 symbols, with and without attention, by length.

Without attention the decoder receives the source as one vector of fixed size, so
accuracy falls with the length of the string. With attention it does not. Figures are
the percentage of test strings, none of them in the training data, that are reversed
without an error.
"""

import time

LENGTHS = ((5, 10), (11, 15), (16, 20), (21, 25), (26, 30))


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--attention", default="none,luong,bahdanau")
    parser.add_argument("--model", default="gru")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=60_000)
    parser.add_argument(
        "--test-pairs", type=int, default=100, help="test strings of each length"
    )
    parser.add_argument("--seed", type=int, default=0)


def run(options):
    """Trains each model, and returns a table of accuracies by length."""
    from kerasseq import datasets

    lengths = {"min_length": LENGTHS[0][0], "max_length": LENGTHS[-1][1]}
    pairs = datasets.reverse_task(options.pairs, **lengths, seed=options.seed)
    held_out = datasets.reverse_task(
        options.test_pairs * 26, **lengths, seed=options.seed + 1
    )
    table = []
    for attention in options.attention.split(","):
        start = time.perf_counter()
        model = train(pairs, None if attention == "none" else attention, options)
        seconds = time.perf_counter() - start
        row = {"attention": attention, **evaluate(model, pairs, held_out)}
        table.append({**row, "seconds": round(seconds)})
    return {"task": "reverse, lengths 5 to 30", "steps": options.steps, "table": table}


def train(pairs, attention, options):
    """Returns a model trained on the pairs."""
    import keras

    from kerasseq import models, text

    keras.utils.set_random_seed(options.seed)
    tokenizer = text.CharacterTokenizer().fit(pairs.sources)
    model = models.Seq2Seq(
        options.model, tokenizer, tokenizer, attention=attention, units=options.units
    )
    schedule = keras.optimizers.schedules.CosineDecay(4e-3, options.steps, alpha=0.01)
    model.compile(keras.optimizers.Adam(schedule, global_clipnorm=1.0))
    model.fit(pairs, steps_per_epoch=options.steps, epochs=1, verbose=0)
    return model


def evaluate(model, pairs, held_out):
    """Returns the exact-match percentage for each range of lengths."""
    from kerasseq import training

    training_sources, accuracy = set(pairs.sources), {}
    for shortest, longest in LENGTHS:
        chosen = [
            (source, target)
            for source, target in zip(*held_out, strict=True)
            if shortest <= len(source) <= longest and source not in training_sources
        ]
        sources, targets = zip(*chosen, strict=True)
        outputs = [t.text for t in model.translate(list(sources), alignments=False)]
        accuracy[f"{shortest}-{longest}"] = training.exact_match(outputs, targets)
    return accuracy
