"""What the lab Attention computes, in the worker: values of models that run."""

import pathlib
from typing import Any

from parts import work

MAX_TOKENS = 24  # that are read and drawn
BEST = 5  # tokens of a distribution that are kept
SCORES = ("dot", "scaled_dot", "cosine", "general", "additive", "concat", "location")
WITH_UNITS = ("additive", "concat")
TASKS = ("same", "other", "position")
UNITS = 32
ITEMS, WIDTH = 8, 16  # keys of a retrieval task, and their width
NOISE = 0.2


def _trace(folder, text):
    """Traces a GPT over the first tokens of a text."""
    import numpy as np

    import kerasseq

    model = work.model(folder)
    found = model.tokenizer.encode_with_offsets(text)
    most = min(MAX_TOKENS, model.context_length or MAX_TOKENS)
    ids, offsets = found.ids[:most], found.offsets[:most].tolist()
    batch = np.asarray(ids, "int32")[None]
    with kerasseq.tracing.trace(model) as trace:
        model(batch)
    tokens = [visible(text[a:b]) for a, b in offsets]
    return model, batch, trace, tokens


def visible(token: str) -> str:
    """Returns a token with its spaces and line ends as signs.

    Examples:
        >>> visible(" a")
        '·a'
    """
    return token.replace(" ", "·").replace("\n", "↵").replace("\t", "⇥") or "∅"


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
        embedding and after each block; "entropy" `(layers + 1, T)`, in bits.
    """
    import numpy as np
    from keras import ops

    model, batch, trace, tokens = _trace(folder, text)
    names = [one.name for one in model.stack.blocks]
    prefix = f"{names[layer]}/"
    values = {
        key.removeprefix(prefix): np.array(value[0])
        for key, value in trace.items()
        if key.startswith(prefix)
    }
    values["token"] = ops.convert_to_numpy(model.stack.embedding(batch))[0]
    states = [trace[f"{names[0]}/input"], *(trace[f"{name}/output"] for name in names)]
    best, probability, entropy = [], [], []
    for h in states:
        z = model.stack.logits(model.stack.final_norm(h))[0] / temperature
        p = ops.convert_to_numpy(ops.softmax(z)).astype("float64")  # (T, V)
        order = np.argsort(-p, axis=-1, kind="stable")[:, :BEST]
        best.append([[model.tokenizer.decode([i]) for i in row] for row in order])
        probability.append(np.take_along_axis(p, order, -1))
        entropy.append(-np.sum(p * np.log2(p + 1e-30), axis=-1))
    return {
        "tokens": tokens,
        "values": values,
        "best": [[list(map(visible, row)) for row in rows] for rows in best],
        "probability": np.array(probability),
        "entropy": np.array(entropy),
    }


def sizes(folder: pathlib.Path) -> tuple[int, int]:
    """Returns the number of layers and of heads of a model."""
    stack = work.model(folder).stack
    return len(stack.blocks), stack.blocks[0].num_heads


def heads(folder: pathlib.Path, text: str) -> dict[str, Any]:
    """Returns the labels of the tokens, and the weights `(layers, heads, T, T)`."""
    import numpy as np

    model, _, trace, tokens = _trace(folder, text)
    weights = [trace[f"{b.name}/self_attention/alignment"][0] for b in model.stack.blocks]
    return {"tokens": tokens, "weights": np.stack(weights)}


def translation(folder: pathlib.Path, source: str) -> dict[str, Any]:
    """Returns how a Transformer translates, and where its decoder attends.

    Returns:
        "source" and "target", labels of the tokens; "output", the translation;
        "weights" of cross-attention, `(layers, heads, target, source)`; "mask"
        and "weights_self", those of the decoder's self-attention.
    """
    import numpy as np

    import kerasseq

    model = work.model(folder)
    with kerasseq.tracing.trace(model) as trace:
        output = model.generate(source)
    found = {}
    for key, steps in trace.items():
        if key.endswith("cross_attention/alignment"):
            steps = steps if isinstance(steps, list) else [steps]
            found[key] = np.concatenate([step[0] for step in steps], axis=1)
    return {"output": output, "weights": np.stack(list(found.values()))}


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
    if task == "position":
        wanted = np.tile(np.arange(ITEMS), (examples, 1))
    else:
        wanted = letters
    codes = alphabet if task == "other" else np.eye(WIDTH)
    noisy = [c + NOISE * rng.normal(size=c.shape) for c in (codes[wanted], np.eye(WIDTH)[letters])]
    return tuple(2 * c.astype("float32") for c in noisy)


def race(task: str, steps: int, seed: int) -> dict[str, Any]:
    """Trains an attention layer with each score on a retrieval task.

    Returns:
        "accuracy", by score: how often the highest weight is at the right key of new
        examples; "weights", by score: the mean weights `(ITEMS, ITEMS)` over them.
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
    batch = 64
    x = retrieval(task, rng, steps * batch, alphabet)
    y = np.tile(np.arange(ITEMS), (steps * batch, 1))
    model.fit(x, dict.fromkeys(SCORES, y), batch_size=batch, shuffle=False, verbose=0)
    found = model.predict(retrieval(task, rng, 512, alphabet), 512, verbose=0)
    right = np.arange(ITEMS)
    return {
        "accuracy": {n: float(np.mean(a.argmax(-1) == right)) for n, a in found.items()},
        "weights": {n: np.array(a[0], "float64") for n, a in found.items()},
    }
