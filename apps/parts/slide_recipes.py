"""How the computed numbers of the slides follow from their inputs, by public names.

A recipe takes the inputs of an example alone, never its numbers, and returns its
results by name. `kerasseq.datasets.slides` has the examples.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

import kerasseq
from kerasseq import datasets, layers, models, text, training


def compute(recipe: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the results of a recipe."""
    return RECIPES[recipe](**inputs)


def array(values: Any) -> Any:
    """Returns a tensor as a list of numbers, or as a number."""
    return np.asarray(ops.convert_to_numpy(values), "float64").tolist()


def eliza(lines):
    """Lets ELIZA answer."""
    bot = text.Eliza()
    return {"greeting": bot.greeting, "replies": [bot.reply(line) for line in lines]}


def joined(pieces, end_of_word):
    """Joins sub-words: the mark stands at the end of a word."""
    return {"text": "".join(pieces).replace(end_of_word, " ")}


def word_order(texts):
    """Compares two texts of the same words: as bags, and after self-attention."""
    bag = text.BagOfWords()
    counts = bag.fit_transform(texts)
    words = [each.lower().split() for each in texts]
    ids = [[bag.vocabulary.index(word) for word in each] for each in words]
    x = ops.one_hot(np.array(ids), len(bag.vocabulary))  # (2, T, D)
    positions = layers.SinePositionEncoding()(x)

    def difference(x):
        a, b = ops.mean(keras.layers.Attention()([x, x]), axis=1)
        return array(ops.max(ops.abs(a - b)))

    return {
        "bags": int(np.abs(counts[0] - counts[1]).sum()),
        "without_positions": difference(x),
        "with_positions": difference(x + positions),
    }


def code_of(layer, position, width):
    """Returns the code of one position."""
    codes = layer(np.zeros((1, position + 1, width), "float32"))
    return {"code": array(codes[0, position])}


def amplitude(position, width):
    """Encodes a position by its number."""
    return code_of(layers.AmplitudePosition(), position, width)


def binary(position, width):
    """Encodes a position by its digits."""
    return code_of(layers.BinaryPosition(), position, width)


def retrieval(query, keys):
    """Scores keys by their equal fields, and weighs them by a softmax."""
    scores = [sum(a == b for a, b in zip(query, key, strict=True)) for key in keys]
    weights = ops.softmax(np.array(scores, "float32"))
    return {"scores": scores, "weights": array(weights)}


def count(model):
    """Counts weights and matrices of a published model, as lecture E does.

    Results of matrices that the model does not have by these names are left out.
    """
    row, found = models.architectures[model], models.count(model)
    weights = {part.name: part.weights for part in found.parts}
    up, keys = weights.get("Up-projection"), weights.get("Key")
    attention = found.groups.get("attention")
    results = {
        "all": models.count(model, what="all").total,
        "total": found.total,
        "matrices": found.number,
        "context": row.max_sequence_length,
        "up": up,
        "up_per_layer": up and up // row.num_layers,
        "keys_per_layer": keys and keys // row.num_layers,
        "share_of_attention": attention and attention / found.total,
    }
    return {name: value for name, value in results.items() if value is not None}


def billions(models):
    """Counts the parameters of several models."""
    counted = kerasseq.models.count
    return {"billions": {m: counted(m, what="all").total / 1e9 for m in models}}


def patches(image, patch):
    """Counts the pixels and the patches of a square image."""
    return {"pixels": image**2, "patches": (image // patch) ** 2}


def root(width):
    """Returns the divisor of scores of this width."""
    return {"root": width**0.5}


def balanced(sequences, colors):
    """Classifies sequences of parentheses."""
    found = [datasets.is_balanced(one, colors=colors) for one in sequences]
    return {"classes": [int(one) for one in found]}


def soft_selection(scores, items):
    """Returns the soft maxima of scores, and the item that they select softly."""
    x = ops.convert_to_tensor(scores, "float32")
    p = ops.softmax(x)
    return {
        "softmax": array(p),
        "maximum": max(scores),
        "soft_maximum": array(ops.sum(p * x)),
        "log_sum_exp": array(ops.logsumexp(x)),
        "argmax": array(ops.sum(p * ops.convert_to_tensor(items, "float32"))),
    }


def bag_of_words(texts):
    """Counts the words of texts."""
    bag = text.BagOfWords()
    counts = bag.fit_transform(texts)
    return {"counts": dict(zip(bag.vocabulary, counts.T.tolist(), strict=True))}


def cross_entropy(probability):
    """Returns −ln p of the true word."""
    p = np.array([[probability, 1 - probability]], "float32")
    return {"loss": array(ops.categorical_crossentropy([[1.0, 0.0]], p))[0]}


def memory(devices, gigabytes):
    """Returns the memory of all devices together."""
    both = zip(devices, gigabytes, strict=True)
    return {"gigabytes": [number * size for number, size in both]}


def chain(percents):
    """Multiplies the probabilities of the words of a sentence."""
    p = np.array(percents) / 100
    perplexity = training.Perplexity(from_logits=False)
    perplexity.update_state(np.zeros(len(p), int), np.stack([p, 1 - p], axis=1))
    return {"product": float(p.prod()), "perplexity": float(perplexity.result())}


def matrix(rows, columns):
    """Counts the weights of a matrix."""
    return {"weights": rows * columns}


def softmax(scores, causal=False):
    """Returns the weights of scores: a row for each key, a column for each query."""
    e = np.array(scores, "float32")
    if causal:  # a key after the query
        e = np.where(np.tril(np.ones(e.shape, bool), -1), -np.inf, e)
    return {"weights": array(ops.softmax(e, axis=0))}


def total(parts):
    """Adds numbers."""
    return {"total": sum(parts)}


def f1(precision, recall, support):
    """Returns F1 from the counts behind precision and recall of each label."""
    correct = [round(r * n) for r, n in zip(recall, support, strict=True)]
    found = [round(c / p) if p else 0 for c, p in zip(correct, precision, strict=True)]
    rows = zip(correct, found, support, strict=True)
    return {"f1": [2 * c / (f + n) for c, f, n in rows]}


def byte_pairs(corpus: Sequence[str], merges: int, sentence: str):
    """Trains byte-pair encoding, with what is counted before each merge."""
    alphabet = text.BytePairTokenizer(10**6, all_bytes=False, min_count=10**9)
    symbols = alphabet.fit(corpus).vocabulary
    # The lecture counts the token between texts as well.
    tokenizer = text.BytePairTokenizer(
        len(symbols) + merges + 1, special_tokens=["<|endoftext|>"], all_bytes=False
    ).fit(corpus)
    first, *later = tokenizer.steps(corpus)
    words_later = later[0].words if later else first.words  # no pair was left
    return {
        "words": {w.strip(): n for w, n in tokenizer.word_counts(corpus).items()},
        "alphabet": _g("".join(symbols)),
        "letters": _spelled(first.words),
        "pairs": {_g(" ".join(pair)): n for pair, n in first.pairs.items()},
        "first_merge": _g(first.merge.token) if first.merge else "",
        "after_one_merge": _spelled(words_later),
        "vocabulary_size": tokenizer.vocabulary_size,
        "merges": [_g(merge.token) for merge in tokenizer.trace()],
        "tokens": [_g(token) for token in tokenizer.tokenize(sentence)],
    }


def _g(word: str) -> str:
    """Returns a word with the sign of the slides for a space."""
    return word.replace("Ġ", "G")


def _spelled(words):
    return {_g(word): _g(" ".join(tokens)) for word, tokens in words.items()}


def characters(alphabet, text):
    """Numbers the characters of an alphabet."""
    tokenizer = kerasseq.text.CharacterTokenizer(unknown=None).fit(alphabet)
    ids = [int(i) for i in tokenizer.encode(text)]
    return {"size": tokenizer.vocabulary_size, "ids": ids}


def block(ids):
    """Writes what is learned from a block: each beginning, and the token after it."""
    batches = training.TextBatches(np.array(ids), len(ids) - 1, batch_size=1)
    x, y = (np.asarray(part)[0].tolist() for part in batches.batch(0))
    lines = [f"when input is {x[: t + 1]} the target: {y[t]}" for t in range(len(x))]
    return {"lines": lines}


def kernel(query, keys, values):
    """Averages values with weights of a Gaussian kernel of width 1."""
    x, k, v = (
        np.array(each, "float32").reshape(1, -1, 1) for each in (query, keys, values)
    )
    mean, weights = layers.KernelAttention()(x, v, k, return_attention_scores=True)
    return {"weights": array(weights[0, 0]), "mean": array(mean[0, 0, 0])}


RECIPES = {
    each.__name__: each
    for each in (
        *(eliza, joined, word_order, amplitude, binary, retrieval, count, billions),
        *(patches, root, balanced, soft_selection, bag_of_words, cross_entropy),
        *(memory, chain, matrix, softmax, total, f1, byte_pairs, characters, block),
        kernel,
    )
}
