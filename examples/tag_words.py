"""Tag words with a bidirectional LSTM, with and without a conditional random field.

    python examples/tag_words.py train.conll

Without a file the words are pieces of Python source, to be tagged as keywords, names,
strings, comments and so on, which takes half a minute on a laptop. The CRF scores
neighboring tags as well, so that the tags of a line fit together. Source: Huang, Xu and
Yu 2015; course slides B, C (many to many).
"""

import argparse

import kerasseq
import keras


def main(arguments=None):
    """Trains both taggers, and prints the F1 score of whole entities."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="file in a CoNLL format")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--lines", type=int, default=3000, help="sentences, at most")
    options = parser.parse_args(arguments)

    if options.file is None:
        data = kerasseq.datasets.python_tokens(options.lines, bio=True)
    else:
        data = kerasseq.datasets.read_tagged(options.file, limit=options.lines)
    held_out = len(data.sentences) // 5
    x, y = data.sentences[held_out:], data.tags[held_out:]
    x_test, y_test = data.sentences[:held_out], data.tags[:held_out]

    for crf in (False, True):
        keras.utils.set_random_seed(0)
        tagger = kerasseq.models.SequenceTagger(
            "lstm", tokenizer="word", bidirectional=True, crf=crf, units=options.units
        )
        tagger.compile(keras.optimizers.Adam(3e-3))
        tagger.fit(x, y, epochs=options.epochs, verbose=0)
        scores = kerasseq.training.entity_scores(y_test, tagger.tag(x_test))
        name = "with CRF" if crf else "without CRF"
        print(f"{name:11} F1 of entities {scores['micro avg']['f1-score']:.3f}")

    words = x_test[0]
    for word, tag in zip(words, tagger.tag(words), strict=True):
        print(f"  {word:12} {tag}")


if __name__ == "__main__":
    main()
