"""Small models to decode from: tables, and a GRU."""

import itertools

import keras
import numpy as np
from keras import ops

ALPHABET = ".sampler"  # 0 ends a word
UNITS = 7


def ids_of(word):
    return [ALPHABET.index(letter) for letter in word]


def word_of(ids):
    return "".join(ALPHABET[i] for i in ids)


def speller(word="sampler."):
    """A step function after whose tokens the next letter of the word is the best."""
    logits = np.zeros((len(ALPHABET), len(ALPHABET)), "float32")
    for letter, after in itertools.pairwise(ids_of(word)):
        logits[letter, after] = 5.0

    def step(state, token):
        return ops.take(logits, token, axis=0), state

    return step


def constant(logits):
    """A step function that always gives the same logits, one row of them."""

    def step(state, token):
        row = ops.convert_to_tensor(logits, "float32")
        return ops.broadcast_to(row, (token.shape[0], len(logits))), state

    return step


def tables(seeds, vocabulary):
    """For each seed log-probabilities given the two tokens before, `(seeds, V, V, V)`.

    They go into the state of `look_up`, one per row.
    """
    logits = np.stack(
        [np.random.default_rng(s).normal(size=(vocabulary,) * 3) * 2 for s in seeds]
    )
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def look_up(state, token):
    """A step function whose state has a table and the token before; that is 0 first."""
    logits = state["table"]
    for place in (state["previous"], token):
        shape = (-1,) + (1,) * (len(logits.shape) - 1)
        logits = ops.take_along_axis(logits, ops.reshape(place, shape), axis=1)[:, 0]
    return logits, {"table": state["table"], "previous": token}


def first_look(tables):
    previous = np.zeros(len(tables), "int32")
    return {"table": tables.astype("float32"), "previous": previous}


class Recurrent:
    """A GRU with random weights as a step function; its state has the hidden vector."""

    def __init__(self, vocabulary, seed=0):
        self.cell = keras.layers.GRUCell(UNITS)
        self.embedding = keras.layers.Embedding(vocabulary, 5)
        self.scores = keras.layers.Dense(vocabulary)
        self.embedding.build((None,))
        self.cell.build((None, 5))
        self.scores.build((None, UNITS))
        rng = np.random.default_rng(seed)
        for layer in (self.embedding, self.cell, self.scores):
            for weight in layer.weights:
                weight.assign(rng.normal(size=weight.shape) * 1.3)

    def __call__(self, state, token):
        h, _ = self.cell(self.embedding(token), [state["hidden"]])
        return self.scores(h), {"hidden": h, "count": state["count"] + 1}

    def start(self, batch):
        hidden = np.zeros((batch, UNITS), "float32")
        return {"hidden": hidden, "count": np.zeros((batch,), "int32")}

    def read(self, rows):
        """Logits and hidden vector after each token of rows of one length."""
        state, logits, hidden = self.start(len(rows)), [], []
        for token in np.transpose(rows).astype("int32"):
            z, state = self(state, ops.convert_to_tensor(token))
            logits.append(ops.convert_to_numpy(z))
            hidden.append(ops.convert_to_numpy(state["hidden"]))
        return np.stack(logits, axis=1), np.stack(hidden, axis=1)


def contrastive(read, vocabulary, ids, length, k, alpha):
    """The definition, in NumPy: every candidate is read after the whole text.

    `read` returns logits and hidden vectors of rows of ids.
    """
    ids = list(ids)
    for _ in range(length):
        logits, hidden = read([[*ids, v] for v in range(vocabulary)])
        p = np.exp(logits[0, -2] - logits[0, -2].max())
        p /= p.sum()
        scores = {}
        for v in np.argsort(-p, kind="stable")[:k]:
            before, h = hidden[v, :-1], hidden[v, -1]
            norms = np.linalg.norm(before, axis=1) * np.linalg.norm(h)
            scores[int(v)] = (1 - alpha) * p[v] - alpha * (before @ h / norms).max()
        ids.append(max(scores, key=scores.get))
    return ids[-length:]


def ragged(rows, real, fill=0):
    """Rows of ids put where `real` is True, and that mask."""
    prompt = np.full(real.shape, fill, "int32")
    for row, ids in enumerate(rows):
        prompt[row, real[row]] = ids
    return prompt, real
