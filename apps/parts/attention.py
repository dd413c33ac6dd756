"""What the lab Attention computes, in the worker: values of models that run."""

import pathlib
from typing import Any

from parts import pieces, strips, work

MAX_TOKENS = 24  # that are read and drawn
BEST = 5  # tokens of a distribution that are kept
SCORES = ("dot", "scaled_dot", "cosine", "general", "additive", "concat", "location")
WITH_UNITS = ("additive", "concat")
TASKS = ("same", "other", "position")
UNITS = 64
ITEMS, WIDTH = 8, 16  # keys of a retrieval task, and their width
NOISE = 0.2
BATCH, TESTED = 64, 512  # examples


def _trace(folder, text):
    """Traces a GPT over the first tokens of a text."""
    import kerasseq

    model = work.model(folder)
    most = min(MAX_TOKENS, model.context_length or MAX_TOKENS)
    batch = model.tokenizer.encode(text)[None, :most]
    with kerasseq.tracing.trace(model) as trace:
        model(batch)
    tokens = [visible(piece) for piece in pieces.of(model.tokenizer, text)[:most]]
    return model, batch, trace, tokens


def _word(tokenizer, i):
    """The label of an id."""
    if pieces.is_of_bytes(tokenizer):
        return visible(pieces.readable(tokenizer.vocabulary[i]))
    return visible(tokenizer.decode([i]))


def visible(token: str) -> str:
    """Returns a token with its spaces and line ends as signs, and one for no text.

    Examples:
        >>> visible(" a")
        '·a'
    """
    return strips.visible(token) or "∅"


def block(
    folder: pathlib.Path, text: str, layer: int, temperature: float
) -> dict[str, Any]:
    """Returns what one block of a GPT computes, and the predictions of all.

    Args:
        folder: The run of the model.
        text: The text, of which the first `MAX_TOKENS` tokens are read.
        layer: The index of the block.
        temperature: The divisor of the logits.

    Returns:
        "tokens", a label for each; "values", the recorded arrays of the block by name,
        and "token" `(T, D)`, the embeddings without positions; "best" and
        "probability" `(layers + 1, T, BEST)`, the most probable next tokens after the
        embedding and after each block.
    """
    import numpy as np
    from keras import ops

    import kerasseq

    model, batch, trace, tokens = _trace(folder, text)
    prefix = f"block_{layer}/"
    values = {
        key.removeprefix(prefix): np.array(value[0])
        for key, value in trace.items()
        if key.startswith(prefix)
    }
    embedding = model.get_layer("embedding")
    values["token"] = ops.convert_to_numpy(embedding(batch))[0]
    lens = kerasseq.tracing.logit_lens(model, batch)
    scaled = lens._replace(logits=lens.logits.astype("float64") / temperature)
    p = scaled.probabilities()[:, 0]  # (layers + 1, T, V)
    best = np.argsort(-p, axis=-1, kind="stable")[..., :BEST]
    words = {i: _word(model.tokenizer, i) for i in np.unique(best).tolist()}
    return {
        "tokens": tokens,
        "values": values,
        "best": [[[words[i] for i in at] for at in rows] for rows in best.tolist()],
        "probability": np.take_along_axis(p, best, -1),
    }


def sizes(folder: pathlib.Path) -> tuple[int, int]:
    """Returns the number of layers and of heads of a model."""
    config = work.model(folder).get_config()
    return config["num_layers"], config["num_heads"]


def heads(folder: pathlib.Path, text: str) -> dict[str, Any]:
    """Returns the labels of the tokens, and the weights `(layers, heads, T, T)`."""
    import numpy as np

    _, _, trace, tokens = _trace(folder, text)
    weights = [w[0] for key, w in trace.items() if key.endswith("/alignment")]
    return {"tokens": tokens, "weights": np.stack(weights)}


def shares(weights: Any) -> dict[str, float]:
    """Returns to which tokens a head attends: means from the third query on.

    Args:
        weights: `(T, T)`, a row for each query.

    Examples:
        >>> import numpy as np
        >>> found = shares(np.tril(np.ones((3, 3))) / [[1], [2], [3]])
        >>> {part: round(share, 2) for part, share in found.items()}
        {'first': 0.33, 'previous': 0.33, 'itself': 0.33, 'others': 0.0}
    """
    rows = range(2, len(weights))
    found = {
        "first": sum(weights[i][0] for i in rows),
        "previous": sum(weights[i][i - 1] for i in rows),
        "itself": sum(weights[i][i] for i in rows),
    }
    found = {part: float(total) / len(rows) for part, total in found.items()}
    return found | {"others": max(0.0, 1 - sum(found.values()))}


def translation(folder: pathlib.Path, source: str) -> dict[str, Any]:
    """Returns how a Transformer translates, and to what its decoder attends.

    Returns:
        "output", the translation; "source" and "target", labels of the tokens that
        are read and written, the end included; "weights" of the cross-attention,
        `(layers, heads, target, source)`.
    """
    import numpy as np

    import kerasseq

    model = work.model(folder)
    with kerasseq.tracing.trace(model) as trace:
        found = model.translate(source, alignments=False)
    rows, columns = len(found.target_tokens), len(found.source_tokens)
    weights = []
    for key, steps in trace.items():
        if key.endswith("cross_attention/alignment"):
            layer = np.concatenate([step[0] for step in steps], axis=1)
            weights.append(layer[:, :rows, :columns])
    return {
        "output": found.text,
        "source": list(map(visible, found.source_tokens)),
        "target": list(map(visible, found.target_tokens)),
        "weights": np.stack(weights),
    }


def attend(scores: list[list[float]], causal: bool, temperature: float) -> Any:
    """Returns attention weights for given scores, computed by an attention layer.

    Args:
        scores: A row for each key, a column for each query, as on the slide.
        causal: Whether to mask later keys.
        temperature: The divisor of the scores.

    Returns:
        The weights, in the same layout.
    """
    import numpy as np
    from keras import ops

    import kerasseq

    keys = np.asarray(scores, "float32")[None] / temperature  # (1, S, T)
    queries = np.eye(keys.shape[2], dtype="float32")[None]  # s_iᵀ h_j = score (j, i)
    layer = kerasseq.layers.LuongAttention("dot")
    _, weights = layer(
        queries, keys, use_causal_mask=causal, return_attention_scores=True
    )
    return ops.convert_to_numpy(weights)[0].T


def retrieval(task: str, rng: Any, examples: int, alphabet: Any) -> tuple[Any, Any]:
    """Returns queries and keys `(examples, ITEMS, WIDTH)`: query i looks for key i.

    The keys of an example are different letters, as noisy one-hot vectors.

    Args:
        task: "same": the query is the letter; "other": it is the letter in another
            alphabet; "position": it is the number of the key.
        rng: A generator of NumPy.
        examples: Their number.
        alphabet: An orthogonal matrix, the letters of another alphabet.
    """
    import numpy as np

    letters = rng.permuted(np.tile(np.arange(WIDTH), (examples, 1)), axis=1)[:, :ITEMS]
    places = np.tile(np.arange(ITEMS), (examples, 1))
    wanted = places if task == "position" else letters
    codes = alphabet if task == "other" else np.eye(WIDTH)
    pair = codes[wanted], np.eye(WIDTH)[letters]
    return tuple(2 * (x + NOISE * rng.normal(size=x.shape)) for x in pair)


def race(task: str, steps: int, seed: int) -> dict[str, Any]:
    """Trains an attention layer with each score on a retrieval task.

    Returns:
        "accuracy", by score: how often the highest weight is at the right key of new
        examples; "weights", by score: those of the first, `(ITEMS, ITEMS)`.
    """
    import keras
    import numpy as np

    import kerasseq

    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    alphabet, _ = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))
    s, h = (keras.Input((ITEMS, WIDTH)) for _ in range(2))
    outputs = {}
    for score in SCORES:
        layer = kerasseq.layers.AlignmentAttention(
            UNITS if score in WITH_UNITS else None,
            score=score,
            max_length=ITEMS if score == "location" else None,
            name=score,
        )
        outputs[score] = layer(s, h, return_attention_scores=True)[1]
    model = keras.Model([s, h], outputs)  # seven layers that share nothing
    loss = {score: "sparse_categorical_crossentropy" for score in SCORES}
    model.compile(keras.optimizers.Adam(0.02), loss)
    right = np.arange(ITEMS)
    if steps:
        x = retrieval(task, rng, steps * BATCH, alphabet)
        y = dict.fromkeys(SCORES, np.tile(right, (steps * BATCH, 1)))
        model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    found = model.predict(retrieval(task, rng, TESTED, alphabet), TESTED, verbose=0)
    return {
        "accuracy": {
            n: float(np.mean(a.argmax(-1) == right)) for n, a in found.items()
        },
        "weights": {n: np.array(a[0], "float64") for n, a in found.items()},
    }
