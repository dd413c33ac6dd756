"""What a model would generate next: the distribution, and the tree of a beam search."""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from kerasseq import decoding
from kerasseq.core import checks


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
    model: Any, prompt: Any, count: int | None = None, **sampling: Any
) -> NextTokens:
    """Computes the distribution of the token that `generate` would draw next.

    Args:
        model: The model.
        prompt: Text or ids, as for `generate`. For an encoder-decoder model this is
            the source, and the distribution that of the first target token.
        count: Number of tokens to return, the most probable ones; all if None.
        **sampling: `temperature`, `top_k`, `top_p` and `min_p`, as for `generate`.

    Returns:
        A `NextTokens` tuple: the tokens, most probable first, their probabilities
        before and after each filter, and which filter removed them.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the prompt is empty, or an argument out of range.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("abcd")
        >>> model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
        >>> choice = model.next_tokens("abba", temperature=0.5, top_k=2)
        >>> list(choice.stages), choice.cut_by[1:4]
        (['model', 'temperature', 'top_k'], [None, 'top_k', 'top_k'])
    """
    sampler = decoding.get_sampler("random", **sampling)
    if count is not None:
        checks.whole_number("count", count)
    own = model.token_generation
    state, last = own.start(prompt, 1)
    logits, _ = model.step(state, ops.convert_to_tensor(last[:, 0]))
    stages = sampler.stages(ops.convert_to_tensor(logits))
    stages = {name: ops.convert_to_numpy(p)[0] for name, p in stages.items()}
    ids = np.argsort(-stages["model"], kind="stable")[:count].astype("int32")
    stages = {name: p[ids] for name, p in stages.items()}
    cut_by = [
        next((name for name, p in stages.items() if p[n] == 0), None)
        for n in range(len(ids))
    ]
    tokens = [own.token_text(int(i)) for i in ids]
    return NextTokens(tokens, ids, stages, cut_by)


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
    model: Any,
    prompt: Any,
    max_new_tokens: int,
    *,
    width: int = 3,
    length_penalty: float = 0.0,
    stop: Any = None,
) -> SearchTree:
    """Runs a beam search, and returns all expansions beside the greedy path.

    Args:
        model: The model.
        prompt: Text or ids, as for `generate`; for an encoder-decoder model the
            source.
        max_new_tokens: The most tokens of a sequence.
        width: Number of hypotheses.
        length_penalty: As for `decoding.Beam`.
        stop: Tokens that end a sequence, as for `generate`.

    Returns:
        A `SearchTree`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the prompt is empty, or an argument out of range.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("abcd")
        >>> model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
        >>> search = model.search_tree("abba", 5, width=2)
        >>> search.tree.step[search.best].tolist(), len(search.greedy_tokens)
        ([0, 1, 2, 3, 4], 5)
    """
    checks.whole_number("max_new_tokens", max_new_tokens)
    own = model.token_generation
    beam = decoding.Beam(width, length_penalty=length_penalty)
    state, last = own.start(prompt, max_new_tokens)
    options = {"max_new_tokens": max_new_tokens, "stop": own.stop_ids(stop)}
    hypotheses = beam.search(model.step, state, last, return_trees=True, **options)
    greedy = decoding.generate(model.step, state, last, **options)
    length = int(greedy.lengths[0])
    tree = hypotheses.trees[0]
    return SearchTree(
        tree=tree,
        tokens=[own.token_text(int(token)) for token in tree.token],
        best=_path(tree, hypotheses.ids[0, 0, : hypotheses.lengths[0, 0]].tolist()),
        score=float(hypotheses.scores[0, 0]),
        greedy_tokens=[own.token_text(int(token)) for token in greedy.ids[0, :length]],
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
