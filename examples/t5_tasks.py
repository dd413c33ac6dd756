"""Train one T5 on four tasks, which are named by a prefix of the source.

    python examples/t5_tasks.py

The tasks are the translation of numbers into German, sorting of letters, acceptability
of word order, and the number of equal letters of two words. Takes about five minutes on
a laptop, and needs `pip install num2words`. Source: course slides A (T5:
translate, acceptability, similarity, summarize), Raffel et al. 2020.
"""

import argparse
import itertools
import random

import kerasseq
import keras

NOUNS = (
    "cat dog bird friend king teacher river tree boat car cloud doctor farmer garden "
    "horse island lamp moon neighbor owl painter queen road singer"
)
VERBS = (
    "sleep run think eat sing work play read grow fall jump listen move rest smile "
    "speak stand stay swim turn wait walk wonder write"
)


def translation(draw):
    """Draws a number below 1000, in English and German."""
    number = draw.randrange(1000)
    pair = kerasseq.datasets.number_names(1, low=number, high=number)
    return f"translate English to German: {pair.sources[0]}", pair.targets[0]


def order(draw):
    """Draws letters, and sorts them."""
    letters = draw.choices("abcdefgh", k=draw.randint(3, 7))
    return f"sort: {''.join(letters)}", "".join(sorted(letters))


def acceptability(draw):
    """Draws a sentence, in half of the cases with two adjacent words exchanged."""
    nouns, verbs = NOUNS.split(), VERBS.split()
    words = ["the", draw.choice(nouns), "near", "the", draw.choice(nouns)]
    words += [draw.choice(verbs) + "s"]
    wrong = draw.random() < 0.5
    if wrong:
        n = draw.randrange(len(words) - 1)
        words[n : n + 2] = words[n + 1], words[n]
    return f"acceptable: {' '.join(words)}", "unacceptable" if wrong else "acceptable"


def similarity(draw):
    """Draws two words, and counts the positions with the same letter."""
    one = draw.choices("abcdefgh", k=3)
    other = [c if draw.random() < 0.5 else draw.choice("abcdefgh") for c in one]
    equal = sum(a == b for a, b in zip(one, other, strict=True))
    return f"similarity: {''.join(one)} {''.join(other)}", f"{equal} of 3"


TASKS = (translation, order, acceptability, similarity)


def examples(task, count, draw):
    """Draws distinct examples of a task."""
    found = {}
    for _ in range(4 * count):
        source, target = task(draw)
        found[source] = target
        if len(found) == count:
            break
    return list(found.items())


def main(arguments=None):
    """Trains on all tasks together, and tests each on held-out examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument(
        "--examples", type=int, default=20_000, help="examples of each task"
    )
    parser.add_argument("--hidden-dim", type=int, default=96)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args(arguments)

    draw = random.Random(0)
    drawn = [examples(task, options.examples, draw) for task in TASKS]
    held_out = [pairs[: len(pairs) // 10][:100] for pairs in drawn]
    train = []
    for pairs in drawn:  # repeats the examples of small tasks
        own = itertools.cycle(pairs[len(pairs) // 10 :])
        train += itertools.islice(own, options.examples)
    sources, targets = map(list, zip(*train, strict=True))
    tokenizer = kerasseq.text.CharacterTokenizer().fit("".join(sources + targets))

    keras.utils.set_random_seed(0)
    model = kerasseq.models.T5(
        tokenizer, num_layers=options.layers, hidden_dim=options.hidden_dim, dropout=0.0
    )
    rate = keras.optimizers.schedules.CosineDecay(
        0.0,
        options.steps,
        alpha=0.02,
        warmup_target=2e-3,
        warmup_steps=options.steps // 10,
    )
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
    epochs = max(1, options.steps // 200)  # prints the progress after each
    model.fit(
        sources,
        targets,
        batch_size=64,
        epochs=epochs,
        steps_per_epoch=options.steps // epochs,
        verbose=2,
    )
    for task, pairs in zip(TASKS, held_out, strict=True):
        inputs, expected = zip(*pairs, strict=True)
        length = max(map(len, expected)) + 1
        outputs = [
            t.text for t in model.translate(inputs, max_length=length, alignments=False)
        ]
        accuracy = kerasseq.training.exact_match(outputs, expected)
        print(f"{task.__name__:15}{accuracy:5.1f} %   {inputs[0]}  ->  {outputs[0]}")


if __name__ == "__main__":
    main()
