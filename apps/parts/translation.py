"""What the lab Translation computes, in the worker: translations of trained models."""

import pathlib
from typing import Any

from parts import work
from parts.attention import visible

DATA = {"dates": "dates", "numbers": "numbers-de"}  # as `kerasseq train` names them
GENERATED, HELD_OUT = 20_000, 0.05  # pairs of a run, and the share held out
TESTED = 300  # held-out pairs that are translated
BATCH = 100
WIDTHS = {"dates": 4, "numbers": 8}  # characters of a source in a group
EXAMPLES = 12  # held-out pairs to choose from
MOST = 90  # tokens of a target


def held_out(data: str, count: int) -> Any:
    """Returns pairs that the run has not trained on."""
    from kerasseq import datasets

    pairs = datasets.generated_pairs(DATA[data], GENERATED, seed=0)
    _, held = datasets.split(pairs, (1 - HELD_OUT, HELD_OUT), seed=0)
    return datasets.Pairs(held.sources[:count], held.targets[:count])


def align(folder: pathlib.Path, source: str) -> dict[str, Any]:
    """Returns the translation of a source, and to what the decoder attends.

    Returns:
        "output", the translation; "source" and "target", labels of the tokens that are
        read and written, the end included; "weights" `(target, source)`, or None
        without attention; "probability" of each token of the target, given those
        before it; "unknown", characters of the source that the model does not know.
    """
    import numpy as np

    model = work.model(folder)
    found = model.translate(source, max_length=MOST)
    ids, log_p = _continue(model, source, [])
    return {
        "output": found.text,
        "source": list(map(visible, found.source_tokens)),
        "target": _labels(model, ids),
        "weights": found.alignment,
        "probability": np.exp(log_p),
        "unknown": list(found.unknown),
    }


def _continue(model, source, prefix):
    """Returns the greedy target after a prefix: its ids, and their log-probabilities.

    Those of the prefix are not computed: they are 0.
    """
    import numpy as np

    from kerasseq import decoding

    vocabulary = model.target_vocabulary
    ids = np.stack(model.encode_sources([source]))
    found = decoding.generate(
        model.step,
        model.initial_state(ids, MOST),
        [[vocabulary.start, *prefix]],
        max_new_tokens=MOST - len(prefix),
        stop=vocabulary.end,
    )
    length = int(found.lengths[0])
    log_p = np.concatenate([np.zeros(len(prefix)), found.log_probabilities[0, :length]])
    return [*prefix, *found.ids[0, :length].tolist()], log_p


def _labels(model, ids):
    """Returns the labels of target ids."""
    import numpy as np

    return list(map(visible, model.target_vocabulary.tokens(np.array(ids))))


def evaluate(folder: pathlib.Path, data: str) -> dict[str, Any]:
    """Returns how a model translates held-out pairs.

    Returns:
        "source", "target" and "output", texts; "exact", whether they are the same;
        "forced" and "own", for each pair a list: whether the token at each position of
        the target is right, after the right tokens and after those of the model.
    """
    model, pairs = work.model(folder), held_out(data, TESTED)
    found = model.translate(pairs.sources, MOST, batch_size=BATCH, alignments=False)
    inputs, wanted = model.arrays(*pairs)
    predicted = model.predict(inputs, batch_size=BATCH, verbose=0).argmax(-1)
    forced, own = [], []
    for ids, row, one in zip(wanted, predicted, found, strict=True):
        ids = ids[ids != 0]
        right = model.target_vocabulary.tokens(ids)
        written = [*one.target_tokens, *[None] * len(right)]
        forced.append((row[: len(ids)] == ids).tolist())
        own.append([a == b for a, b in zip(right, written, strict=False)])
    outputs = [one.text for one in found]
    exact = [a == b for a, b in zip(outputs, pairs.targets, strict=True)]
    texts = {"source": pairs.sources, "target": pairs.targets, "output": outputs}
    return {**texts, "exact": exact, "forced": forced, "own": own}


def by_length(found: dict[str, Any], width: int) -> list[dict[str, Any]]:
    """Returns the share of exact translations by the length of the source.

    Args:
        found: The result of `evaluate`.
        width: Characters in a group of lengths.

    Examples:
        >>> found = {"source": ["a", "bc", "def"], "exact": [True, True, False]}
        >>> by_length(found, width=2)[1]
        {'length': 3, 'exact': 0.5, 'pairs': 2}
    """
    groups: dict[int, list[bool]] = {}
    for source, exact in zip(found["source"], found["exact"], strict=True):
        groups.setdefault(len(source) // width, []).append(exact)
    return [
        {
            "length": group * width + width // 2,
            "exact": sum(exact) / len(exact),
            "pairs": len(exact),
        }
        for group, exact in sorted(groups.items())
    ]


def by_position(found: dict[str, Any], least: int = 10) -> list[dict[str, Any]]:
    """Returns the share of right tokens by their position in the target.

    Args:
        found: The result of `evaluate`.
        least: Positions that fewer targets have are left out.

    Examples:
        >>> by_position({"forced": [[True, True]], "own": [[True, False]]}, least=1)[-1]
        {'position': 2, 'prefix': 'own', 'right': 0.0, 'pairs': 1}
    """
    longest = max(map(len, found["own"]), default=0)
    rows = []
    for kind in ("forced", "own"):
        for n in range(longest):
            right = [row[n] for row in found[kind] if len(row) > n]
            if len(right) >= least:
                row = {"position": n + 1, "prefix": kind}
                row |= {"right": sum(right) / len(right), "pairs": len(right)}
                rows.append(row)
    return rows


def examples(found: dict[str, Any]) -> list[dict[str, str]]:
    """Returns some held-out pairs, first those that the model gets wrong."""
    order = sorted(range(len(found["exact"])), key=found["exact"].__getitem__)
    names = ("source", "target", "output")
    return [{name: found[name][n] for name in names} for n in order[:EXAMPLES]]


def force(
    folder: pathlib.Path, source: str, target: str, planted: int
) -> dict[str, Any]:
    """Predicts each token of a target after the right tokens, and after its own.

    Args:
        folder: The run of the model.
        source: The source.
        target: The right target.
        planted: The position, from 1, at which the model is given its second choice
            instead of its first one; 0 for none.

    Returns:
        "right", "forced" and "own", labels of the tokens; "p_forced" and "p_own", the
        probability of the right token at each position.
    """
    import numpy as np
    from keras import ops

    model = work.model(folder)
    ids, _ = _continue(model, source, [])
    planted = min(planted, len(ids))
    if planted:
        own = _predict(model, source, ids)
        second = int(np.argsort(own[planted - 1])[-2])
        ids = [*ids[: planted - 1], second]
        if second != model.target_vocabulary.end and planted < MOST:
            ids, _ = _continue(model, source, ids)
    right = [*model.target_vocabulary.encode(target)[0].tolist()]
    logits = {
        name: _predict(model, source, x)
        for name, x in {"forced": right, "own": ids}.items()
    }
    right.append(model.target_vocabulary.end)
    found = {"right": _labels(model, right), "own": _labels(model, ids)}
    found["forced"] = _labels(model, logits["forced"].argmax(-1)[: len(right)])
    for name, z in logits.items():
        p = ops.convert_to_numpy(ops.softmax(z))
        pairs = enumerate(right[: len(p)])
        found[f"p_{name}"] = [float(p[n, token]) for n, token in pairs]
    return found


def _predict(model, source, ids):
    """Returns the logits `(len(ids) + 1, V)` after each beginning of a target."""
    import numpy as np

    start = model.target_vocabulary.start
    inputs = [np.stack(model.encode_sources([source])), np.array([[start, *ids]])]
    return model.predict(inputs, verbose=0)[0]


def beam(
    folder: pathlib.Path, source: str, width: int, penalty: float
) -> dict[str, Any]:
    """Returns the tree of a beam search, beside the greedy path.

    Returns:
        "nodes": for each expansion its "step", "rank" among those of its step,
        "parent" (its index, -1 at the beginning), "token", "text" (all tokens so far),
        "score" (their log-probability), "role" ("both", "best", "greedy", "kept" or
        "pruned") and "finished"; "best" and "greedy", the tokens and the
        log-probability of the two results.
    """
    import numpy as np

    model = work.model(folder)
    found = model.search_tree(source, MOST, width=width, length_penalty=penalty)
    tree, tokens = found.tree, list(map(visible, found.tokens))
    greedy = list(map(visible, found.greedy_tokens))
    order = np.lexsort((-tree.score, ~tree.kept, tree.step))
    first = np.searchsorted(tree.step[order], tree.step)
    rank = np.argsort(order) - first + 1
    on_greedy = _follow(tree, tokens, greedy)
    nodes: list[dict[str, Any]] = []
    for n, parent in enumerate(tree.parent.tolist()):
        before = nodes[parent]["text"] if parent >= 0 else ""
        is_greedy, is_best = n in on_greedy, n in found.best
        role = "kept" if tree.kept[n] else "pruned"
        role = {(1, 1): "both", (1, 0): "best", (0, 1): "greedy"}.get(
            (is_best, is_greedy), role
        )
        node = {"step": int(tree.step[n]) + 1, "rank": int(rank[n]), "parent": parent}
        node |= {"token": tokens[n], "text": before + tokens[n], "role": role}
        node |= {"score": float(tree.score[n]), "finished": bool(tree.finished[n])}
        nodes.append(node)
    return {
        "nodes": nodes,
        "best": [tokens[n] for n in found.best],
        "best_score": float(tree.score[found.best[-1]]),
        "greedy": greedy,
        "greedy_score": float(found.greedy_scores[-1]),
    }


def _follow(tree, tokens, path):
    """Returns the nodes of a path, as far as they are in the tree."""
    found, parent = set(), -1
    for step, token in enumerate(path):
        children = (
            n
            for n, label in enumerate(tokens)
            if label == token and tree.parent[n] == parent and tree.step[n] == step
        )
        parent = next(children, None)
        if parent is None:
            break
        found.add(parent)
    return found
