"""Is a network worth its price? Count words, or read them in order: eleven labels.

    python examples/compare_classifiers.py

The texts are French sentences of children about their family, with several labels each:
who is meant, and is the relation good (+), bad (-), neutral (0), or not mentioned (i)?
Negation and word order decide, so counts of words and pairs do not suffice. Prints F1
of each label, the mean with a bootstrap interval of 95 %, and seconds. Takes about a
minute on a laptop; `kerasseq compare` has more learners and seeds.
Source: course slides E.
"""

import argparse
import time

import kerasseq
import keras
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC


def support_vectors(training, test):
    """An SVC for each label, on counts of words and pairs of words."""
    counts = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[?!]")
    model = make_pipeline(counts, OneVsRestClassifier(SVC(kernel="linear")))
    model.fit(training.texts, indicators(training.labels, training.names))
    return model.predict(test.texts)


def network(training, test, epochs, units):
    """A GRU in both directions over word pieces."""
    keras.utils.set_random_seed(0)
    model = kerasseq.models.SequenceClassifier(
        "gru",
        training.names,
        tokenizer="wordpiece",
        multi_label=True,
        units=units,
        bidirectional=True,
        dropout=0.3,
    )
    model.compile(keras.optimizers.Adam(5e-3, global_clipnorm=1.0))
    model.fit(training.texts, training.labels, epochs=epochs, verbose=0)
    found = [each.label for each in model.classify(test.texts)]
    return indicators(found, training.names)


def indicators(labels, names):
    """1 for each label of a text, else 0, `(texts, labels)`."""
    return np.array([[int(name in row) for name in names] for row in labels])


def main(arguments=None):
    """Trains both, and prints their scores side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--units", type=int, default=96)
    parser.add_argument("--texts", type=int, default=1648)
    options = parser.parse_args(arguments)

    training, test = kerasseq.datasets.family_sentences(options.texts)
    y = indicators(test.labels, test.names)
    print("label   ", *(f"{name:>4}" for name in test.names), " mean  95 %       s")
    learners = {
        "SVC": lambda: support_vectors(training, test),
        "GRU": lambda: network(training, test, options.epochs, options.units),
    }
    for name, learn in learners.items():
        start = time.perf_counter()
        predicted = learn()
        seconds = time.perf_counter() - start
        rows = [[test.names[n] for n in np.flatnonzero(row)] for row in predicted]
        report = kerasseq.training.label_report(
            test.labels, rows, test.names, multi_label=True
        ).scores
        f1 = [report[label]["f1-score"] for label in test.names]
        means = kerasseq.training.bootstrap_f1(y, predicted).mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        cells = " ".join(f"{value:4.2f}" for value in f1)
        print(
            f"{name:8} {cells}  {np.mean(f1):.2f}  {low:.2f}-{high:.2f} {seconds:3.0f}"
        )
    print(f"such as {test.texts[0]!r}: {' '.join(test.labels[0])}")


if __name__ == "__main__":
    main()
