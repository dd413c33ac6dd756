"""Small language models whose numbers NumPy computes, too."""

import numpy as np
from keras import ops

import kerasseq
from kerasseq import models

LETTERS = kerasseq.text.CharacterTokenizer(unknown=None).fit("abcde")
V, E, H = 5, 3, 7  # ids, width of an embedding, units


def elman(seed=0, **options):
    """A recurrent language model, with weights that NumPy draws."""
    model = models.LanguageModel("elman", LETTERS, units=H, embedding_dim=E, **options)
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)
    return model


def gpt(**options):
    return models.GPT(
        LETTERS, num_layers=1, num_heads=1, hidden_dim=6, max_sequence_length=11,
        **options,
    )  # fmt: skip


def logits_of(model, ids):
    """What `elman` computes for ids `(T,)`: `(T, V)`."""
    table, kernel, recurrent, bias, output, output_bias = (
        np.asarray(ops.convert_to_numpy(w), "float64") for w in model.weights
    )
    h, rows = np.zeros(H), []
    for n in ids:
        h = np.maximum(table[n] @ kernel + h @ recurrent + bias, 0)
        rows.append(h @ output + output_bias)
    return np.array(rows)


def log_p_of(model, ids, temperature=1.0):
    """The log-probability of each token but the first, `(T - 1,)`, by `elman`."""
    logits = logits_of(model, ids[:-1]) / temperature
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return log_p[np.arange(len(ids) - 1), ids[1:]]
