"""Pre-train a small BERT, then teach it by few labels which words of a text are code.

    python examples/pretrain_bert.py

The text is Python's own reference, where code stands in quotation marks. With the
marks taken away, the net says of each word whether it is code. It is shown 32
sentences; one that was pre-trained and the same one from scratch are then compared on
others. None of these sentences is in the text of the pre-training. Takes some five
minutes on a laptop. Source: Devlin et al. 2019; course
slides A, C.
"""

import argparse
import re
from pydoc_data.topics import topics

import kerasseq
import keras
import numpy as np

LENGTH = 64


def sentences(text):
    """The sentences of a text that have five words at least."""
    found = re.split(r"(?<=[.:?!])\s+|\n\s*\n", text)
    found = [" ".join(sentence.split()) for sentence in found]
    return [s for s in found if len(re.findall(r"[A-Za-z]{2,}", s)) >= 5]


def labelled(sentence):
    """Words without quotation marks, and for each whether it stood between two."""
    parts = [part.split() for part in sentence.split('"')]
    words = [(word, n % 2) for n, part in enumerate(parts) for word in part]
    return tuple(map(list, zip(*words, strict=True)))


def choose(tokenizer, few, most, seed):
    """Sentences with code: a few to learn from, others to test with."""
    own = {s for text in topics.values() for s in sentences(text)}
    own = [s for s in sorted(own) if s.count('"') > 0 and s.count('"') % 2 == 0]
    own = [s for s in own if len(tokenizer.encode(s)) <= LENGTH // 2]
    chosen = np.random.default_rng(seed).permutation(len(own))[: few + most]
    chosen = [own[i] for i in chosen]
    return chosen[:few], chosen[few:]


def f1(model, examples):
    r"""$2 PR / (P + R)$ of the words said to be code, P precision and R recall."""
    words, tags = zip(*map(labelled, examples), strict=True)
    said = [logits.argmax(axis=-1) for logits in model.predict(words, verbose=0)]
    said, tags = np.concatenate(said), np.concatenate(tags)
    return 2 * np.sum(said * tags) / np.sum(said + tags)


def fine_tune(model, examples, epochs):
    """Learn from the labels, a few sentences at a time."""
    words, tags = zip(*map(labelled, examples), strict=True)
    model.compile(keras.optimizers.Adam(3e-4))
    model.fit(list(words), list(tags), epochs=epochs, batch_size=8, verbose=0)


def main(arguments=None):
    """Pre-train, show what was learned, and fine-tune with and without."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="of pre-training")
    parser.add_argument("--steps", type=int, default=100, help="in an epoch")
    parser.add_argument("--fine", type=int, default=20, help="epochs of fine-tuning")
    parser.add_argument("--few", type=int, default=32, help="sentences with labels")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=3000)
    options = parser.parse_args(arguments)
    keras.utils.set_random_seed(0)

    reference = kerasseq.datasets.python_reference()
    tokenizer = kerasseq.text.WordPieceTokenizer(options.vocabulary).fit(reference)
    train, test = choose(tokenizer, options.few, most=400, seed=0)
    hidden = {*train, *test}
    documents = [[s for s in sentences(t) if s not in hidden] for t in topics.values()]
    model = kerasseq.models.BERT(
        tokenizer,
        num_layers=options.layers,
        num_heads=4,
        hidden_dim=options.width,
        max_sequence_length=LENGTH,
        head="pretraining",
    )
    fresh = model.with_head("tag", num_classes=2)

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

    learned = model.with_head("tag", num_classes=2)
    for name, net in (("pre-trained", learned), ("from scratch", fresh)):
        fine_tune(net, train, options.fine)
        print(f"{name}: F1 {f1(net, test):.3f} on {len(test)} other sentences")


if __name__ == "__main__":
    main()
