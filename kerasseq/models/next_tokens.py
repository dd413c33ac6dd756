"""What a model would generate next: the distribution, and the tree of a beam search."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from kerasseq import decoding
from kerasseq.core.types import Nested
from kerasseq.decoding.inputs import Step


class NextTokens(NamedTuple):
    """The distribution of the next token, before and after each filter of a sampler.

    All arrays have one entry for each token, the most probable first.

    Attributes:
        tokens: The text of each token.
        ids: int32, their ids.
        stages: float32 probabilities by stage, in the order of generation: "model",
            "temperature", and those of "top_k", "top_p" and "min_p" that are given.
            Those of the last stage are the ones that are sampled from.
        cut_by: The name of the stage that removed the token, or None.
    """

    tokens: list[str]
    ids: np.ndarray
    stages: dict[str, np.ndarray]
    cut_by: list[str | None]


def next_tokens(
    step: Step,
    state: Nested,
    prompt: np.ndarray,
    sampler: decoding.Sampler,
    text_of: Callable[[int], str],
    count: int | None = None,
) -> NextTokens:
    """Computes the distribution of the token after a prompt.

    Args:
        step: The step function, as for `decoding.generate`.
        state: The state of one row before the last token of the prompt.
        prompt: That token, `(1, 1)`.
        sampler: A sampler, whose stages are returned.
        text_of: Function from an id to its text.
        count: Number of tokens to return, the most probable ones; all if None.
    """
    logits, _ = step(state, ops.convert_to_tensor(prompt[:, 0]))
    stages = sampler.stages(ops.convert_to_tensor(logits))
    stages = {name: ops.convert_to_numpy(p)[0] for name, p in stages.items()}
    ids = np.argsort(-stages["model"], kind="stable")[:count].astype("int32")
    stages = {name: p[ids] for name, p in stages.items()}
    cut_by = [
        next((name for name, p in stages.items() if p[n] == 0), None)
        for n in range(len(ids))
    ]
    return NextTokens([text_of(int(i)) for i in ids], ids, stages, cut_by)


class SearchTree(NamedTuple):
    """The expansions of a beam search, beside the greedy path.

    Attributes:
        tree: A `decoding.BeamTree`: step, parent, token, score, finished and kept of
            each node.
        tokens: The text of the token of each node.
        best: Indices of the nodes of the best sequence, from its first token on.
        score: The score of the best sequence, as the search returns it.
        greedy_tokens: The text of each token of greedy search.
        greedy_scores: float32, the log-probability after each of them.
    """

    tree: decoding.BeamTree
    tokens: list[str]
    best: list[int]
    score: float
    greedy_tokens: list[str]
    greedy_scores: np.ndarray


def search_tree(
    step: Step,
    state: Nested,
    prompt: np.ndarray,
    beam: decoding.Beam,
    text_of: Callable[[int], str],
    **options: Any,
) -> SearchTree:
    """Runs a beam search and a greedy search on one prompt.

    Args:
        step: The step function, as for `decoding.generate`.
        state: The state of one row before the last token of the prompt.
        prompt: That token, `(1, 1)`.
        beam: The beam.
        text_of: Function from an id to its text.
        **options: As for `Beam.search`: `max_new_tokens` and `stop`.
    """
    hypotheses = beam.search(step, state, prompt, return_trees=True, **options)
    greedy = decoding.generate(step, state, prompt, **options)
    length = int(greedy.lengths[0])
    tree = hypotheses.trees[0]
    return SearchTree(
        tree=tree,
        tokens=[text_of(int(token)) for token in tree.token],
        best=_path(tree, hypotheses.ids[0, 0, : hypotheses.lengths[0, 0]].tolist()),
        score=float(hypotheses.scores[0, 0]),
        greedy_tokens=[text_of(int(token)) for token in greedy.ids[0, :length]],
        greedy_scores=greedy.log_probabilities[0, :length].cumsum(),
    )


def _path(tree, ids):
    """Returns the nodes of a sequence of ids."""
    path, parent = [], -1
    for token in ids:
        children = (tree.parent == parent) & (tree.token == token) & tree.kept
        if not path:
            children &= tree.step == 0
        parent = int(np.flatnonzero(children)[0])
        path.append(parent)
    return path
