"""Pre-train a GPT, then teach it four tasks by few labels: GPT's four forms of input.

    python examples/gpt_tasks.py

The text tells what animals, plants, tools and dishes do, and never says what is what.
Each task is then taught by words of which half are never shown: of what kind is a thing
("classify"), does one sentence follow from another ("entail"), are two things of one
kind, in whatever order they come ("compare"), and how does a story go on ("choose").
The net that has read the text, and the same one from scratch, are tested with the other
half of the words. Takes some two minutes on a laptop. Source: Radford et al. 2018,
figure 1; course slides D (the GPT architecture).
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
    """A sentence of the text: a thing, or its kind, and what it does."""
    kind = draw.choice(KINDS)
    thing = draw.choice([*THINGS[kind].split(), kind])
    seen = draw.choice(("the", "tom sees a", "every"))
    return f"{seen} {thing} . it {draw.choice(DOINGS[kind])} ."


def another(kind, draw):
    """A kind that is not this one."""
    return draw.choice([k for k in KINDS if k != kind])


def classify(kind, things, draw):
    """The kind of a thing."""
    return f"the {draw.choice(things[kind])}", KINDS.index(kind)


def entail(kind, things, draw):
    """Whether the second sentence follows from the first."""
    said = draw.choice((kind, another(kind, draw)))
    pair = f"tom sees a {draw.choice(things[kind])}", f"tom sees a {said}"
    return pair, int(said == kind)


def compare(kind, things, draw):
    """Whether two things are of one kind; their order does not matter."""
    other = draw.choice((kind, another(kind, draw)))
    pair = f"the {draw.choice(things[kind])}", f"the {draw.choice(things[other])}"
    return pair, int(other == kind)


def choose(kind, things, draw):
    """How a story goes on: one of three."""
    kinds = [kind, *draw.sample([k for k in KINDS if k != kind], 2)]
    order = draw.sample(range(3), 3)
    ways = [f"it {draw.choice(DOINGS[kinds[k]])} ." for k in order]
    return (f"the {draw.choice(things[kind])} .", ways), order.index(0)


TASKS = {classify: len(KINDS), entail: 2, compare: 2, choose: None}


def examples(task, things, count, seed):
    """Draw examples of a task, evenly of all kinds.

    Args:
        task: One of `TASKS`.
        things: By kind, the words that it may use.
        count: How many.
        seed: Of the draw.

    Returns:
        What the model reads, and the right answers.
    """
    draw = random.Random(seed)
    found = [task(KINDS[n % len(KINDS)], things, draw) for n in range(count)]
    x, y = zip(*found, strict=True)
    return list(x), np.array(y)


def main(arguments=None):
    """Pre-train, and fine-tune with and without."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stories", type=int, default=8000, help="in the text")
    parser.add_argument("--epochs", type=int, default=20, help="of pre-training")
    parser.add_argument("--labels", type=int, default=100, help="examples to learn")
    parser.add_argument("--fine", type=int, default=30, help="epochs of fine-tuning")
    parser.add_argument("--width", type=int, default=64)
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
        hidden_dim=options.width,
        max_sequence_length=64,
        dropout=0.0,
    )
    fresh = kerasseq.models.GPT.from_config(model.get_config())
    model.fit(text, epochs=options.epochs, verbose=2)
    print("the owl . it ->", model.generate("the owl . it", 6, temperature=0))

    words = {kind: names.split() for kind, names in THINGS.items()}
    shown = {kind: names[::2] for kind, names in words.items()}
    others = {kind: names[1::2] for kind, names in words.items()}
    for task, classes in TASKS.items():
        right = []
        for gpt in (model, fresh):
            net = gpt.with_head(task.__name__, num_classes=classes)
            net.compile(keras.optimizers.Adam(5e-4, global_clipnorm=1.0))
            x, y = examples(task, shown, options.labels, seed=1)
            net.fit(x, y, epochs=options.fine, batch_size=16, verbose=0)
            x, y = examples(task, others, 400, seed=2)
            right.append(np.mean(net.predict(x, verbose=0).argmax(axis=-1) == y))
        print(
            f"{task.__name__:9} by words never shown: pre-trained {right[0]:.1%}, from "
            f"scratch {right[1]:.1%}"
        )


if __name__ == "__main__":
    main()
