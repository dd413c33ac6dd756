"""Word vectors: words of text per second in training, beside gensim.

Skip-gram with dimension 100, window 5 and five negative words, which the contexts of a
word share here and not in gensim; no subsampling. The text is the Python language
reference, repeated; both train on the same lists of words, with the same number of
threads, and draw the negative words while they train. The vocabulary is counted, and
our step compiled, before the time is taken. Figures are medians over rounds A B A B …;
on a machine in use, words per second of CPU time say more.

`--analogies` trains on `datasets.analogies` instead and prints the accuracy of each
class, beside that of the nearest word and of chance; then the same for the reference
with the same questions, of which it knows few.
"""

import os
import statistics
import time

from benchmarks.options import add_names_arguments, at_least, positive

METHODS = ("skip_gram", "cbow", "glove")
EPOCHS = {"skip_gram": 10, "cbow": 10, "glove": 50}  # on the analogies


def add_arguments(parser):
    """Adds the options of this benchmark."""
    parser.add_argument("--words", type=at_least(1000, int), default=500_000)
    parser.add_argument("--dimensions", type=positive(int), default=100)
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--batch-size", type=positive(int), default=None)
    parser.add_argument("--analogies", action="store_true", help="accuracy instead")
    parser.add_argument("--seed", type=at_least(0, int), default=0)
    add_names_arguments(parser, [("--methods", METHODS, ["skip_gram"])])


def run(options):
    """Returns a table of speeds, or of accuracies."""
    import keras

    found = {"backend": keras.backend.backend(), "threads": threads()}
    if options.analogies:
        return found | {"table": accuracies(options)}
    sentences = reference_words(options.words)
    trainers = {}
    for method in options.methods:
        trainers[f"kerasseq {method}"] = our_trainer(method, sentences, options)
        if method == "glove":
            continue  # gensim has none
        try:
            trainers[f"gensim {method}"] = peer_trainer(method, sentences, options)
        except ImportError:
            found["gensim"] = "not installed: pip install gensim"
    rows = {name: [] for name in trainers}
    for _ in range(options.rounds):
        for name, train in trainers.items():
            rows[name].append(measure(train))
    count = sum(map(len, sentences))
    found["words"] = count
    found["table"] = [
        {
            "implementation": name,
            "words/s": round(count / statistics.median(wall for wall, _ in times)),
            "words/s of CPU": round(count / statistics.median(cpu for _, cpu in times)),
        }
        for name, times in rows.items()
    ]
    return found


def threads():
    """The number of threads of all libraries."""
    return int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))


def measure(train):
    """Returns the seconds of a pass over the text, and those of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    train()
    return time.perf_counter() - wall, time.process_time() - cpu


def reference_words(count):
    """Returns paragraphs of the Python language reference as lists of words."""
    from kerasseq.datasets import python_reference

    paragraphs = python_reference().split("\n\n")
    sentences, found = [], 0
    tokens = [paragraph.lower().split() for paragraph in paragraphs]
    while found < count:
        for words in tokens:
            sentences.append(words)
            found += len(words)
    return sentences


def our_trainer(method, sentences, options):
    """Returns a function that trains on a pass over the text."""
    from kerasseq import models

    model = models.WordVectors(
        method, options.dimensions, min_count=1, subsample=None, seed=options.seed
    )
    batches = model.batches(sentences, epochs=1, batch_size=options.batch_size)

    def train(steps=batches.steps_per_epoch):
        model.fit(batches.stream(), epochs=1, steps_per_epoch=steps, verbose=0)

    train(2)  # compiles
    return train


def peer_trainer(method, sentences, options):
    """Returns such a function for gensim."""
    import gensim

    model = gensim.models.Word2Vec(
        vector_size=options.dimensions,
        sg=int(method == "skip_gram"),
        window=5,
        negative=5,
        min_count=1,
        sample=0,
        workers=threads(),
        seed=options.seed,
    )
    model.build_vocab(sentences)
    return lambda: model.train(sentences, total_examples=model.corpus_count, epochs=1)


def accuracies(options):
    """Returns a row for each text, method and class of analogies."""
    from kerasseq import datasets, models

    data = datasets.analogies(125_000, seed=options.seed)
    reference = datasets.python_reference().split("\n\n")
    table = []
    for text, sentences, least in (
        ("analogies", data.sentences, 1),
        ("python reference", reference, 5),
    ):
        for method in options.methods:
            model = models.WordVectors(
                method, options.dimensions, min_count=least, seed=options.seed
            )
            model.fit(sentences, epochs=EPOCHS[method], verbose=0)
            for kind, questions in data.questions.items():
                try:
                    score = model.analogy_score(questions)
                except ValueError:  # the reference knows no currencies
                    continue
                table.append(
                    {"text": text, "method": method, "class": kind} | score._asdict()
                )
    return table
