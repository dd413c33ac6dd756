"""All paths of connectionist temporal classification, one by one, in NumPy."""

import itertools

import numpy as np


def log_softmax(x):
    """Log-probabilities of the last axis, in float64."""
    x = np.asarray(x, "float64")
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def read(path, blank):
    """The text of a path: equal neighbors merged, blanks left out."""
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != blank)


def paths(logits, blank):
    """Log-probabilities of all paths `(T,)` of logits `(T, V)`, by their texts."""
    log_y = log_softmax(logits)
    T, V = log_y.shape
    found = {}
    for path in itertools.product(range(V), repeat=T):
        log_p = log_y[np.arange(T), list(path)].sum()
        found.setdefault(read(path, blank), {})[path] = log_p
    return found


def text_log_probabilities(logits, blank):
    """The sums over the paths of each text."""
    return {
        text: np.logaddexp.reduce(list(of_text.values()))
        for text, of_text in paths(logits, blank).items()
    }


def loss_and_gradient(logits, text, blank):
    """The loss of a text, and its gradient with respect to the logits `(T, V)`."""
    of_text = paths(logits, blank).get(tuple(text), {})
    if not of_text:
        return np.inf, np.zeros(logits.shape)
    log_p = np.logaddexp.reduce(list(of_text.values()))
    gradient = np.exp(log_softmax(logits))
    for path, log_path in of_text.items():
        gradient[np.arange(len(path)), list(path)] -= np.exp(log_path - log_p)
    return -log_p, gradient
