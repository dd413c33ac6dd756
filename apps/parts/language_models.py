"""What the lab Language model computes in the worker: networks and n-gram models.

A model is named by the folder of a network, or by `(n, file)`: the length of the
n-grams, and the text they are counted in, or None for the reference of Python.
"""

import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from parts import work

LETTERS = "abcde"  # of the generated text
GENERATED = 100_000  # letters of it
HELD_OUT = 20_000  # characters at the end of a text, at most a tenth
ORDERS = (1, 2, 3, 4, 5, 6)
Model = pathlib.Path | tuple[int, pathlib.Path | None]


def split(file: pathlib.Path | None) -> tuple[str, str]:
    """Returns the part of a text that models are trained on, and the part held out."""
    from kerasseq import datasets

    text = datasets.text_file(file) if file else datasets.python_reference()
    cut = len(text) - min(len(text) // 10, HELD_OUT)
    return text[:cut], text[cut:]


def generated() -> tuple[str, float]:
    """Returns letters of a Markov source, and its bits per character: the least."""
    from kerasseq import datasets

    source = datasets.markov_source(len(LETTERS), order=2, seed=0)
    ids = source.sample(1, GENERATED, seed=1)[0]
    return "".join(LETTERS[n] for n in ids), source.optimum


@functools.lru_cache(maxsize=len(ORDERS) + 2)
def ngram(n: int, file: pathlib.Path | None) -> Any:
    """Returns an n-gram model; the content of a file never changes (`uploads`)."""
    from kerasseq.text import CharacterTokenizer, NGramModel

    tokenizer = CharacterTokenizer()
    model = NGramModel(n, smoothing="kneser_ney", tokenizer=tokenizer)
    return model.fit(split(file)[0])


def load(model: Model) -> Any:
    """Returns a model by its name."""
    return ngram(*model) if isinstance(model, tuple) else work.model(model)


def next_token(model: Model, text: str, sampling: dict[str, Any]) -> dict[str, Any]:
    """Returns the distribution of the next character.

    Args:
        model: The name of a model.
        text: What is continued.
        sampling: `temperature`, `top_k`, `top_p`, `min_p`, as for `generate`.

    Returns:
        The tokens, most probable first; their probabilities by stage; and by filter
        how many tokens it keeps, how many it cuts, and the probability of these.
    """
    found = load(model)
    if isinstance(model, tuple):
        tokens, stages = _next_of_ngram(found, text, sampling)
    else:
        tokens, _, stages, _ = found.next_tokens(text, **sampling)
    cuts, before = {}, stages["model"]
    for stage, p in stages.items():
        if stage not in ("model", "temperature"):
            gone = (p == 0) & (before > 0)
            cuts[stage] = int((p > 0).sum()), int(gone.sum()), float(before[gone].sum())
        before = p
    return {"tokens": tokens, "stages": stages, "cuts": cuts}


def _next_of_ngram(model, text, sampling):
    from kerasseq import decoding

    sampler = decoding.get_sampler("random", **sampling)
    stages = {
        name: np.asarray(_numpy(p))[0]
        for name, p in sampler.stages(_logits(model, text)).items()
    }
    order = np.argsort(-stages["model"], kind="stable")
    tokens = [model.tokenizer.decode([int(i)]) for i in order]
    return tokens, {name: p[order] for name, p in stages.items()}


def _numpy(tensor):
    import keras

    return keras.ops.convert_to_numpy(tensor)


def _logits(model, text):
    p = model.probabilities(text)
    smallest = np.finfo("float32").tiny  # without a logarithm of 0
    return np.log(np.maximum(p, smallest)).astype("float32")[None]


def stream(
    model: Model, text: str, length: int, sampling: dict[str, Any], seed: int
) -> Iterator[str]:
    """Returns an iterator over the characters of a continuation.

    Args:
        model: The name of a model.
        text: What is continued.
        length: The number of characters.
        sampling: As for `next_token`.
        seed: The seed of the draws.
    """
    found = load(model)
    if isinstance(model, tuple):
        return _stream_of_ngram(found, text, length, sampling, seed)
    return found.stream(text, length, seed=seed, **sampling)


def _stream_of_ngram(model, text, length, sampling, seed):
    from kerasseq import decoding

    sampler = decoding.get_sampler("random", **sampling)
    rng = np.random.default_rng(seed)
    for _ in range(length):
        u = rng.random(1, "float32")
        chosen = sampler.choose(_logits(model, text[1 - model.n :]), u, None, None)
        character = model.tokenizer.decode([int(_numpy(chosen)[0])])
        text += character
        yield character


def surprise(model: Model, text: str) -> tuple[list[str], np.ndarray]:
    """Returns the characters of a text, and the bits that a model needs for each.

    The first one, which a network cannot predict, has NaN.
    """
    characters, bits = load(model).surprise(text)
    return characters, np.where(np.arange(len(bits)) == 0, np.nan, bits)


def held_out(file: pathlib.Path | None) -> dict[int, float]:
    """Returns the bits per character of n-gram models on the part held out, by n."""
    test = split(file)[1]
    return {n: ngram(n, file).bits_per_token(test) for n in ORDERS}
