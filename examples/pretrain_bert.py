"""Pre-train a small BERT, and fine-tune it to find the words of a text that are code.

    python examples/pretrain_bert.py

The text is the Python language reference, which has code in quotation marks. The
labels are the words between these marks, which are removed. Fine-tuning uses 32
sentences; a pre-trained model and one from scratch are compared on other sentences,
none of them in the text of the pre-training. Takes about five minutes on a laptop.
Source: Devlin et al. 2019; course slides A, D.
"""

import argparse
import re
from pydoc_data.topics import topics

import kerasseq
import keras
import numpy as np

LENGTH = 64


def sentences(text):
    """The sentences of a text with at least five words."""
    found = re.split(r"(?<=[.:?!])\s+|\n\s*\n", text)
    found = [" ".join(sentence.split()) for sentence in found]
    return [s for s in found if len(re.findall(r"[A-Za-z]{2,}", s)) >= 5]


def words_and_labels(sentence):
    """The words without quotation marks, with label 1 for those between two marks."""
    parts = [part.split() for part in sentence.split('"')]
    words = [(word, n % 2) for n, part in enumerate(parts) for word in part]
    return tuple(map(list, zip(*words, strict=True)))


def split(tokenizer, num_train, num_test, seed):
    """Draws sentences with code for training and test."""
    own = {s for text in topics.values() for s in sentences(text)}
    own = [s for s in sorted(own) if s.count('"') > 0 and s.count('"') % 2 == 0]
    own = [s for s in own if len(tokenizer.encode(s)) <= LENGTH // 2]
    chosen = np.random.default_rng(seed).permutation(len(own))[: num_train + num_test]
    chosen = [own[i] for i in chosen]
    return chosen[:num_train], chosen[num_train:]


def f1(model, examples):
    r"""$2 PR / (P + R)$ of the words predicted as code; P precision, R recall."""
    words, tags = zip(*map(words_and_labels, examples), strict=True)
    predicted = [logits.argmax(axis=-1) for logits in model.predict(words, verbose=0)]
    predicted, tags = np.concatenate(predicted), np.concatenate(tags)
    return 2 * np.sum(predicted * tags) / np.sum(predicted + tags)


def fine_tune(model, examples, epochs):
    """Trains a model on labeled sentences."""
    words, tags = zip(*map(words_and_labels, examples), strict=True)
    model.compile(keras.optimizers.Adam(3e-4))
    model.fit(list(words), list(tags), epochs=epochs, batch_size=8, verbose=0)


def main(arguments=None):
    """Pre-trains a model, and fine-tunes it and one from scratch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="epochs of pre-training")
    parser.add_argument("--steps", type=int, default=100, help="steps per epoch")
    parser.add_argument(
        "--fine-tuning-epochs", type=int, default=20, help="epochs of fine-tuning"
    )
    parser.add_argument(
        "--labels", type=int, default=32, help="sentences of fine-tuning"
    )
    parser.add_argument("--hidden-dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocabulary-size", type=int, default=3000)
    options = parser.parse_args(arguments)
    keras.utils.set_random_seed(0)

    reference = kerasseq.datasets.python_reference()
    tokenizer = kerasseq.text.WordPieceTokenizer(options.vocabulary_size).fit(reference)
    train, test = split(tokenizer, options.labels, num_test=400, seed=0)
    held_out = {*train, *test}
    documents = [
        [s for s in sentences(t) if s not in held_out] for t in topics.values()
    ]
    model = kerasseq.models.BERT(
        tokenizer,
        num_layers=options.layers,
        num_heads=4,
        hidden_dim=options.hidden_dim,
        max_sequence_length=LENGTH,
        head="pretraining",
    )
    fresh = model.with_head("tag", labels=2)

    steps = options.epochs * options.steps
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, alpha=0.02, warmup_target=1e-3, warmup_steps=steps // 10
    )
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0))
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

    pretrained = model.with_head("tag", labels=2)
    for name, net in (("pre-trained", pretrained), ("from scratch", fresh)):
        fine_tune(net, train, options.fine_tuning_epochs)
        print(f"{name}: F1 {f1(net, test):.3f} on {len(test)} other sentences")


if __name__ == "__main__":
    main()
