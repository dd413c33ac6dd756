"""Pre-train a small BERT on Python's own reference, then teach it topics by few labels.

    python examples/pretrain_bert.py

Takes some five minutes on a laptop. The test sentences are in no text of the
pre-training. Source: Devlin et al. 2019; course slides A, C.
"""

import argparse
import re
from pydoc_data.topics import topics

import kerasseq
import keras
import numpy as np

TOPICS = ["compound", "debugger", "formatstrings", "import", "string-methods", "types"]
LENGTH = 64


def sentences(text):
    """The sentences of a text that have five words at least."""
    found = re.split(r"(?<=[.:?!])\s+|\n\s*\n", text)
    found = [" ".join(sentence.split()) for sentence in found]
    return [s for s in found if len(re.findall(r"[A-Za-z]{2,}", s)) >= 5]


def labelled(tokenizer, few, most, seed):
    """A few sentences of each topic to learn from, and others to test with."""
    rng = np.random.default_rng(seed)
    train, test = [], []
    for label, topic in enumerate(TOPICS):
        own = sorted(set(sentences(topics[topic])))
        own = [s for s in own if len(tokenizer.encode(s)) <= LENGTH - 2]
        own = [own[i] for i in rng.permutation(len(own))[: few + most]]
        train += [(s, label) for s in own[:few]]
        test += [(s, label) for s in own[few:]]
    return [tuple(zip(*part, strict=True)) for part in (train, test)]


def accuracy(model, train, test, epochs):
    """Fine-tune on the few, and count what is right of the others."""
    model.compile(keras.optimizers.Adam(3e-4))
    model.fit(train[0], train[1], epochs=epochs, batch_size=16, verbose=0)
    guesses = model.predict(test[0], verbose=0).argmax(axis=-1)
    return float(np.mean(guesses == np.array(test[1])))


def main(arguments=None):
    """Pre-train, show what was learned, and fine-tune with and without."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12, help="of 100 steps each")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--fine", type=int, default=30, help="epochs of fine-tuning")
    parser.add_argument("--few", type=int, default=8, help="labels of each topic")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=3000)
    options = parser.parse_args(arguments)
    keras.utils.set_random_seed(0)

    reference = kerasseq.datasets.python_reference()
    tokenizer = kerasseq.text.WordPieceTokenizer(options.vocabulary).fit(reference)
    train, test = labelled(tokenizer, options.few, most=60, seed=0)
    hidden = set(test[0])
    documents = [[s for s in sentences(t) if s not in hidden] for t in topics.values()]
    model = kerasseq.models.BERT(
        tokenizer,
        num_layers=2,
        num_heads=4,
        hidden_dim=options.width,
        max_sequence_length=LENGTH,
        head="pretraining",
    )
    fresh = model.with_head("classify", num_classes=len(TOPICS))

    model.compile(keras.optimizers.Adam(1e-3, global_clipnorm=1.0))
    for epoch in range(options.epochs):
        log = model.fit(
            documents,
            epochs=epoch + 1,
            initial_epoch=epoch,
            steps_per_epoch=options.steps,
            verbose=0,
        ).history
        losses = f"{log['tokens_loss'][0]:.2f}, next sentence {log['next_loss'][0]:.3f}"
        print(f"{(epoch + 1) * options.steps:>5} steps: masked words {losses}")
    print("The [MASK] statement:", model.fill("The [MASK] statement", k=3)[0])

    learned = model.with_head("classify", num_classes=len(TOPICS))
    for name, net in (("pre-trained", learned), ("from scratch", fresh)):
        right = accuracy(net, train, test, options.fine)
        print(
            f"{name}: {right:.0%} of {len(test[1])} sentences of {len(TOPICS)} topics"
        )


if __name__ == "__main__":
    main()
