"""Pre-train a GPT, and fine-tune it on the four kinds of tasks of the GPT paper.

    python examples/gpt_tasks.py

The text describes what animals, plants, tools and dishes do, without naming their
categories. Fine-tuning uses few labels and half of the words. The tasks are the
category of a word ("classify"), whether one sentence follows from another ("entail"),
whether two words have the same category ("compare"), and which sentence continues a
story ("choose"). The pre-trained model and one from scratch are tested with the other
half of the words. Takes about two minutes on a laptop. Source: Radford et al. 2018,
figure 1; course slides C (the GPT architecture).
"""

import argparse
import random

import kerasseq
import keras
import numpy as np

THINGS = {
    "animal": "badger crow deer fox goat hare heron lynx mole otter owl wolf",
    "plant": "alder birch elm fern heather ivy larch moss nettle oak reed willow",
    "tool": "anvil axe chisel drill file hammer lathe plane rasp saw shovel vice",
    "dish": "broth curry dumpling omelette pancake pie porridge pudding risotto "
    "salad soup stew",
}
DOINGS = {
    "animal": (
        "runs into the forest",
        "sleeps until the evening",
        "hears a noise",
        "looks for its young",
    ),
    "plant": (
        "grows beside the path",
        "drops its leaves",
        "needs more light",
        "bends in the wind",
    ),
    "tool": (
        "hangs on the wall",
        "must be sharpened",
        "lies in the workshop",
        "costs a week of wages",
    ),
    "dish": (
        "cools on the table",
        "needs a little salt",
        "smells of onions",
        "was cooked by her mother",
    ),
}
KINDS = list(THINGS)


def story(draw):
    """Draws a sentence of the text: a word or its category, and what it does."""
    kind = draw.choice(KINDS)
    thing = draw.choice([*THINGS[kind].split(), kind])
    seen = draw.choice(("the", "tom sees a", "every"))
    return f"{seen} {thing} . it {draw.choice(DOINGS[kind])} ."


def another(kind, draw):
    """Draws another category."""
    return draw.choice([k for k in KINDS if k != kind])


def classify(kind, things, draw):
    """Draws a word and its category."""
    return f"the {draw.choice(things[kind])}", KINDS.index(kind)


def entail(kind, things, draw):
    """Draws two sentences and whether the second follows from the first."""
    category = draw.choice((kind, another(kind, draw)))
    pair = f"tom sees a {draw.choice(things[kind])}", f"tom sees a {category}"
    return pair, int(category == kind)


def compare(kind, things, draw):
    """Draws two words and whether they have the same category."""
    other = draw.choice((kind, another(kind, draw)))
    pair = f"the {draw.choice(things[kind])}", f"the {draw.choice(things[other])}"
    return pair, int(other == kind)


def choose(kind, things, draw):
    """Draws a sentence and three continuations, with the index of the right one."""
    kinds = [kind, *draw.sample([k for k in KINDS if k != kind], 2)]
    order = draw.sample(range(3), 3)
    ways = [f"it {draw.choice(DOINGS[kinds[k]])} ." for k in order]
    return (f"the {draw.choice(things[kind])} .", ways), order.index(0)


TASKS = {classify: len(KINDS), entail: 2, compare: 2, choose: None}


def examples(task, things, count, seed):
    """Draws examples of a task, with all categories equally often.

    Args:
        task: One of `TASKS`.
        things: Dictionary of the words to use by category.
        count: Number of examples.
        seed: Random seed.

    Returns:
        Inputs of the model, and labels.
    """
    draw = random.Random(seed)
    found = [task(KINDS[n % len(KINDS)], things, draw) for n in range(count)]
    x, y = zip(*found, strict=True)
    return list(x), np.array(y)


def main(arguments=None):
    """Pre-trains a model, and fine-tunes it and one from scratch on each task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--stories", type=int, default=8000, help="sentences in the text"
    )
    parser.add_argument("--epochs", type=int, default=20, help="epochs of pre-training")
    parser.add_argument(
        "--labels", type=int, default=100, help="examples of fine-tuning"
    )
    parser.add_argument(
        "--fine-tuning-epochs", type=int, default=30, help="epochs of fine-tuning"
    )
    parser.add_argument("--hidden-dim", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args(arguments)
    keras.utils.set_random_seed(0)

    draw = random.Random(0)
    text = "\n".join(story(draw) for _ in range(options.stories))
    tokenizer = kerasseq.text.WordTokenizer().fit(text)
    model = kerasseq.models.GPT(
        tokenizer,
        num_layers=options.layers,
        num_heads=4,
        hidden_dim=options.hidden_dim,
        max_sequence_length=64,
        dropout=0.0,
    )
    fresh = kerasseq.models.GPT.from_config(model.get_config())
    model.fit(text, epochs=options.epochs, verbose=2)
    print("the owl . it ->", model.generate("the owl . it", 6, temperature=0))

    words = {kind: names.split() for kind, names in THINGS.items()}
    train = {kind: names[::2] for kind, names in words.items()}
    test = {kind: names[1::2] for kind, names in words.items()}
    for task, classes in TASKS.items():
        accuracies = []
        for gpt in (model, fresh):
            classifier = gpt.with_head(task.__name__, labels=classes)
            classifier.compile(keras.optimizers.Adam(5e-4, global_clipnorm=1.0))
            x, y = examples(task, train, options.labels, seed=1)
            classifier.fit(
                x, y, epochs=options.fine_tuning_epochs, batch_size=16, verbose=0
            )
            x, y = examples(task, test, 400, seed=2)
            accuracies.append(
                np.mean(classifier.predict(x, verbose=0).argmax(axis=-1) == y)
            )
        print(
            f"{task.__name__:9} accuracy on unseen words: "
            f"pre-trained {accuracies[0]:.1%}, from scratch {accuracies[1]:.1%}"
        )


if __name__ == "__main__":
    main()
