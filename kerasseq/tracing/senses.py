r"""The sense of a word, layer by layer.

In "the furry mole digs" and "the rusty mole clicks" the embedding of "mole" is the
same. Where in the model does its vector tell the two senses apart? `senses` collects
the vector of the word before and after each block, and each term that the block adds
to it, and trains a linear probe on each. Its accuracy is shown beside that of a control
task: the same probe with labels that were drawn for each word and cue. The test has
cues that training has not, so the control is at chance unless sentences leak into the
test.

A probe says that the sense can be read there, not that the model uses it: `patch` says
that.

Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks".
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.table import Table
from kerasseq.tracing.listeners import located
from kerasseq.tracing.probe import probe_accuracy
from kerasseq.tracing.recording import Trace, trace
from kerasseq.tracing.sublayers import Term, block_paths, block_terms
from kerasseq.tracing.texts import check_reads_texts
from kerasseq.tracing.unrecorded import unrecorded

Sentence = Sequence[Any]  # text, sense, cue, and more that is not used
TESTED = 0.3  # share of the cues, if there are no sentences for the test


class SenseRow(NamedTuple):
    """A vector of a word in one place of a model.

    Attributes:
        layer: The path of the block or layer; "embedding" before a recurrent layer.
        term: What the vector is: "input", "head 0", "bias", "feed_forward" and other
            sublayers, "output"; "hidden_state" of a recurrent layer.
        part_of: The sum to which the vector is added, such as "output"; None if it is
            no term of a sum.
        vector: float32 `(sentences, D)`, those of the test.
        probe_accuracy: Share of the test whose sense a linear probe finds.
        control_accuracy: The same with random labels of word and cue.
    """

    layer: str
    term: str
    part_of: str | None
    vector: np.ndarray
    probe_accuracy: float
    control_accuracy: float


class Senses(list[SenseRow]):
    """The rows of `senses`, in the order in which a model computes them.

    It prints as a table of accuracies.
    """

    def row(self, layer: str, term: str = "output") -> SenseRow:
        """Returns the row of a layer and a term.

        Args:
            layer: The path of the layer.
            term: The name of the term.

        Raises:
            KeyError: If there is no such row.
        """
        for row in self:
            if (row.layer, row.term) == (layer, term):
                return row
        known = ", ".join(f"{row.layer} {row.term}" for row in self)
        raise KeyError(f"there is no {term!r} of {layer!r}. There is: {known}")

    def table(self) -> Table:
        """Returns the accuracies as a table."""
        rows = [
            (row.layer, row.term, f"{row.probe_accuracy:.3f}",
             f"{row.control_accuracy:.3f}")
            for row in self
        ]  # fmt: skip
        return Table(rows, ("layer", "term", "probe", "control"))

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()


class _Labels(NamedTuple):
    """The labels of sentences.

    Attributes:
        senses: The sense of each.
        control: A label of the control task of each.
    """

    senses: np.ndarray
    control: np.ndarray


def senses(
    model: keras.Model,
    sentences: Sequence[Sentence],
    word: str | Sequence[str],
    test: Sequence[Sentence] | None = None,
    *,
    seed: int | None = 0,
) -> Senses:
    """Computes where in a model the vector of a word tells its sense.

    Args:
        model: A language model with a tokenizer: a `GPT`, with self-attention or
            another layer in its place, or a `LanguageModel`.
        sentences: Rows `(text, sense, cue, ...)`, such as the `HomonymSentence`s of
            `datasets.homonyms`: the cue is the word that tells the sense.
        word: The word; several words if the sentences are of several. The first of
            them in a sentence counts.
        test: Other sentences, to test the probes on. If None, the sentences with some
            of the cues of each sense, which the probes are then not trained on.
        seed: Seed of the labels of the control task, and of the choice of the cues.

    Returns:
        A `Senses`: a row for each vector. The terms of a sum add up to it, so that with
        the norms before the sublayers all terms of a block are its output.

    Raises:
        TypeError: If the model has no tokenizer, or an argument is of another type.
        ValueError: If a sentence does not have the word, or all have one sense.

    Examples:
        >>> from kerasseq import datasets, models, text
        >>> corpus = datasets.homonyms()
        >>> tokenizer = text.WordTokenizer().fit(corpus.vocabulary)
        >>> model = models.GPT(tokenizer, num_layers=1, num_heads=2, hidden_dim=8)
        >>> pairs = corpus.pairs(40, held_out=False)
        >>> rows = [sentence for pair in pairs for sentence in pair]
        >>> measured = senses(model, rows, corpus.words)
        >>> [row.term for row in measured]
        ['input', 'head 0', 'head 1', 'bias', 'feed_forward', 'output']
        >>> measured.row("block_0", "input").vector.shape[1]
        8
    """
    words = [word] if isinstance(word, str) else checks.several("word", word)
    if not words or not all(isinstance(each, str) and each for each in words):
        raise ValueError(
            f"word must be a string, or several, received {checks.short(word)}"
        )
    rng = checks.random_generator(seed)
    rows = _checked("sentences", sentences, words)
    if test is None:
        rows, held_out = _split(rows, rng)
    else:
        held_out = _checked("test", test, words)
    labels, test_labels = _labels(rows, held_out, rng)
    terms = _vectors(model, rows, words)
    return Senses(
        SenseRow(
            new.block,
            new.name,
            new.sum,
            new.value,
            *(
                probe_accuracy(old.value, label, new.value, test_label)
                for label, test_label in zip(labels, test_labels, strict=True)
            ),
        )
        for old, new in zip(terms, _vectors(model, held_out, words), strict=True)
    )


def _checked(name, sentences, words):
    """Returns rows (text, sense, cue) that have one of the words."""
    if isinstance(sentences, str) or not isinstance(sentences, Sequence):
        raise TypeError(
            f"{name} must be a list of rows (text, sense, cue), received "
            f"{checks.short(sentences)}"
        )
    rows = []
    for n, row in enumerate(sentences):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) < 3:
            raise TypeError(
                f"{name} must have rows (text, sense, cue), received "
                f"{checks.short(row)} at {n}"
            )
        if not isinstance(row[0], str) or _end(row[0], words) is None:
            raise ValueError(
                f"{name} must have the word {' or '.join(map(repr, words))} in each "
                f"text, received {checks.short(row[0])} at {n}"
            )
        rows.append((*row[:3], _match(row[0], words)[0]))
    if len({row[1] for row in rows}) < 2:
        raise ValueError(
            f"{name} must have at least two senses, received {len(rows)} rows with "
            f"{checks.short(sorted({str(row[1]) for row in rows}))}"
        )
    return rows


def _match(text, words):
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.search(rf"(?<!\w)(?:{pattern})(?!\w)", text)


def _end(text, words):
    """Returns where the first of the words ends in a text; None without any."""
    match = _match(text, words)
    return match and match.end()


def _split(rows, rng):
    """Sets the rows with some cues of each sense aside."""
    chosen = set()
    for sense in dict.fromkeys(row[1] for row in rows):
        cues = list(dict.fromkeys(row[2] for row in rows if row[1] == sense))
        if len(cues) < 2:
            raise ValueError(
                "sentences must have at least two cues of each sense, received "
                f"{len(cues)} of {sense!r}. Add sentences, or pass test"
            )
        count = max(1, round(TESTED * len(cues)))
        chosen |= {cues[n] for n in rng.choice(len(cues), count, replace=False)}
    return (
        [row for row in rows if row[2] not in chosen],
        [row for row in rows if row[2] in chosen],
    )


def _labels(rows, held_out, rng):
    """Returns senses and control labels of the rows to train and to test on."""
    kinds = sorted({str(row[1]) for row in rows})
    drawn = {}
    labels = []
    for part in (rows, held_out):
        control = [
            drawn.setdefault((row[3], row[2]), kinds[rng.integers(len(kinds))])
            for row in part
        ]
        of_sense = [str(row[1]) for row in part]
        labels.append(_Labels(np.array(of_sense), np.array(control)))
    return labels


def _vectors(model, rows, words) -> list[Term]:
    """Returns the vectors of the word in each row, by term."""
    check_reads_texts(model)
    texts, places = [], []
    for text, *_ in rows:
        ids, before = model.ids(text), model.ids(text[: _end(text, words)])
        if len(before) > len(ids) or not np.array_equal(ids[: len(before)], before):
            raise ValueError(
                "sentences must have the word as tokens of its own, received "
                f"{checks.short(text)}, in which a token goes on beyond it"
            )
        texts.append(ids)
        places.append(len(before) - 1)
    # Texts of one length at a time, so that there is no padding.
    terms, lengths = [], np.array([len(ids) for ids in texts])
    for length in np.unique(lengths):
        index = np.flatnonzero(lengths == length)
        x = np.stack([texts[n] for n in index])
        at = np.arange(len(index)), np.array([places[n] for n in index])
        for n, term in enumerate(_terms(model, x)):
            if n == len(terms):
                terms.append(term._replace(value=np.zeros(
                    (len(rows), term.value.shape[-1]), "float32"
                )))  # fmt: skip
            terms[n].value[index] = term.value[at]
    return terms


def _terms(model, x) -> list[Term]:
    """Returns the vectors `(B, T, D)` of all words of some texts."""
    with trace(model) as inside:
        model(x, training=False)
    blocks = block_paths(inside)
    if blocks:
        return [term for block in blocks for term in block_terms(inside, block)]
    states = _states(inside)
    if not states:
        raise ValueError(
            "model must have blocks or states of each step, received one that "
            f"recorded none. {unrecorded(model)}"
        )
    return [*_embeddings(model, x), *states]


def _states(inside: Trace) -> list[Term]:
    """Returns the hidden states of recurrent layers."""
    states, axes = [], ("rows", "steps", "units")
    for key in inside:
        path, _, name = key.rpartition("/")
        if name == "hidden_state" and inside.axes(key) == axes:
            states.append(Term(path, name, None, np.asarray(inside[key], "float32")))
    return states


def _embeddings(model, x):
    """Returns the embeddings of the ids, which no layer of Keras records."""
    for path, layer in located(model).items():
        if isinstance(layer, keras.layers.Embedding):
            v = ops.convert_to_numpy(ops.cast(layer(x), "float32"))
            return [Term(path, "output", None, v)]
    return []
