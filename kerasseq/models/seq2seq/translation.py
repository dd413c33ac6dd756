"""`translate`, and how encoder-decoder models generate targets.

How `translate` works, in the order of the calls:

1. `options` checks the arguments and makes the sampler (`models/generation.py`).
2. `Vocabulary.encode` turns the sources into ids, `group_by_length` these into batches.
3. `initial_state` runs the encoder, and returns the first state of the decoder.
4. `decode` (`decoding/generation.py`) calls `step`, until all targets have ended.
5. `_alignments` returns the attention weights of the model for finished targets.
6. `Vocabulary.decode` turns the ids of the targets into texts.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Self

import keras
import numpy as np

from kerasseq import decoding
from kerasseq.core import arguments, checks
from kerasseq.core.padding import bucket
from kerasseq.core.types import Nested, one_or_several
from kerasseq.decoding.generation import decode
from kerasseq.models.generation import Options, Stop, TokenGeneration
from kerasseq.models.seq2seq import pictures
from kerasseq.models.seq2seq.vocabulary import Rows, Vocabulary
from kerasseq.tasks.input_rows import check_data
from kerasseq.tasks.sources import read

BATCH_SIZE = 64  # of `fit`, `translate` and `generate`


@dataclasses.dataclass(frozen=True)
class Translation:
    """The target generated for one source; `str(translation)` is its text.

    Attributes:
        text: The target: a string, or an array of ids for a model without tokenizers.
        score: Its log-probability among targets without padding and start, which are
            never written; of a beam with length penalty, the score.
        alignment: Attention weights, an array `(target tokens, source tokens)`, or None
            for a model without attention. The last row is the end token.
        source_tokens: Labels of the columns of the alignment.
        target_tokens: Labels of its rows.
        candidates: The `n_best` of a beam as pairs of text and score, best first.
        unknown: Characters of the source that the tokenizer does not know, with counts.
        maps: The alignment over the feature map of a picture, an array `(target tokens,
            rows, columns)`, see `plot_caption`; None for other sources.
    """

    text: Any
    score: float
    alignment: np.ndarray | None
    source_tokens: list[str]
    target_tokens: list[str]
    candidates: list[tuple[Any, float]]
    unknown: dict[str, int]
    maps: np.ndarray | None = None

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, ids: np.ndarray, scores: np.ndarray, **others: Any
    ) -> Self:
        """Makes the translation of hypotheses `(N, T)`, the best first."""
        texts = [vocabulary.decode(each) for each in ids]
        candidates = zip(texts, scores.tolist(), strict=True)
        return cls(
            text=texts[0],
            score=float(scores[0]),
            candidates=[(text, score) for text, score in candidates if score > -np.inf],
            **others,
        )

    def __str__(self) -> str:
        return str(self.text)


@one_or_several(Translation)
@checks.only_listed(arguments.check_names)
def translate(
    model: Any,
    sources: Rows,
    max_length: int | None = None,
    *,
    max_new_tokens: int | None = None,
    sampler: "decoding.Sampler | decoding.Beam | str | None" = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    stop: str | int | Sequence[str | int] | None = None,
    seed: int | None = None,
    batch_size: int = BATCH_SIZE,
    alignments: bool | None = None,
) -> "Translation | list[Translation]":
    """Generates the target of one source or of several, with scores and alignments.

    `generate` has the same arguments and returns the texts alone.

    Args:
        model: The model.
        sources: A string or a list; ids or rows of ids for a model without
            tokenizers; an array `(rows, ...)` for an image encoder.
        max_length: The most tokens of a target, its end included. If None, three
            times the length to which sources are padded, plus 32.
        max_new_tokens: The same: a target has no prompt.
        sampler: A sampler of `kerasseq.decoding`, a beam such as
            `decoding.Beam(4)`, or a name, as for `generate`. Greedy by default.
        temperature: As for `generate`, like the next five.
        top_k: Sample from the k most probable tokens.
        top_p: Sample from tokens with this cumulative probability.
        min_p: Sample from tokens with this fraction of the largest probability.
        stop: Target tokens that end a target, besides the end token.
        seed: Seed of the draws.
        batch_size: Sources per batch.
        alignments: Whether to compute alignments. If None, if the model has any.

    Returns:
        A `Translation` for one source, else a list of them.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a source is empty, or an argument is out of range.
    """
    options = model.token_generation.options(
        max_new_tokens, max_length, stop, seed,
        sampler=sampler, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
    )  # fmt: skip
    if alignments and model.alignment_model is None:
        raise ValueError(
            "alignments=True needs a model with attention, received one with "
            'attention=None. Build it with attention="bahdanau"'
        )
    checks.whole_number("batch_size", batch_size)
    rows, single = model.token_generation.read_prompts(sources)
    aligned = alignments is not False and model.alignment_model is not None
    translate_rows = model.token_generation.translate_rows
    translations = translate_rows(rows, options, batch_size, aligned)
    return translations[0] if single else translations


class TargetGeneration(TokenGeneration):
    """How an encoder-decoder model generates: targets of sources, token by token.

    Args:
        model: A `Translator`.
    """

    has_hidden_states = False

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.vocabulary: Vocabulary = model.target_vocabulary

    def read_prompts(self, prompts: Any) -> tuple[list[Any], bool]:
        """Returns the sources as a list, and whether there was only one."""
        check_data(prompts, "sources")
        if (vocabulary := self.model.source_vocabulary) is not None:
            single = vocabulary.is_one_row(prompts)
        else:
            single = pictures.is_one(prompts, self.model.inputs[0].shape)
        return [prompts] if single else list(read(prompts)[0]), single

    def generate_rows(self, rows: list[Any], options: Options) -> list[Any]:
        """Returns the target of each source."""
        translations = self.translate_rows(rows, options, BATCH_SIZE, aligned=False)
        return [translation.text for translation in translations]

    def start(self, prompt: Any, count: int) -> tuple[Nested, np.ndarray]:
        """Returns the state of one source before its first target token, the start."""
        rows, _ = self.read_prompts(prompt)
        source = self._batch(self.model.encode_sources(rows))
        if len(source) != 1:
            raise ValueError(f"prompt must be one source, received {len(source)}")
        return self._first(source, count)

    def _first(self, source, length):
        """Returns the state of a batch before its first token, and the start."""
        start = np.full((len(source), 1), self.vocabulary.start, "int32")
        return self.model.initial_state(source, length), start

    def token_text(self, i: int) -> str:
        return self.vocabulary.tokens([i])[0]

    def stream_row(self, row: Any, options: Options) -> Iterator[Any]:
        """Checks the source at once, and returns the iterator."""
        source = self._batch(self.model.encode_sources([row]))
        length = self._max_length(source, options)
        tokens = decoding.stream(
            self.model.step,
            *self._first(source, length),
            max_new_tokens=length,
            sampler=options.sampler,
            stop=options.stop,
            seed=options.seed,
        )
        return self._texts(tokens)

    def _texts(self, tokens):
        """Yields the text of each token, or its id."""
        ids, length = [], 0
        for token in tokens:
            ids.append(int(token[0]))
            text = self.vocabulary.decode(np.array(ids))
            if self.vocabulary.tokenizer is None:
                yield from text[length:].tolist()
                length = len(text)
            elif not text.endswith("\ufffd"):  # an incomplete character
                yield text[length:]
                length = len(text)

    def stop_ids(self, stop: Stop) -> tuple[int, ...]:
        """Returns the end and further target tokens, as ids of the model."""
        own = self.vocabulary
        return own.end, *(i + own.offset for i in super().stop_ids(stop))

    def translate_rows(
        self, rows: list[Any], options: Options, batch_size: int, aligned: bool
    ) -> list[Translation]:
        """Returns the `Translation` of each source."""
        if not rows:
            return []
        ids, translated = self.model.encode_sources(rows), [None] * len(rows)
        seeds = row_seeds(options.seed, len(rows))
        for indices in group_by_length(ids, batch_size):
            # Some rows are repeated, as each new batch size is compiled anew.
            size = min(batch_size, 1 << (len(indices) - 1).bit_length())
            batch = np.resize(indices, size)
            source = self._batch([ids[n] for n in batch])  # (B, S)
            length = self._max_length(source, options)
            hypotheses = decode(
                self.model.step,
                *self._first(source, length),
                options.sampler,
                max_new_tokens=length,
                stop=options.stop,
                fill=self.model.padding,
                seed=seeds[batch],
            )
            alpha = self._alignments(source, hypotheses) if aligned else [None] * size
            for b, n in enumerate(indices):
                parts = [part[b] for part in hypotheses]
                translated[n] = self._translation(rows[n], source[b], *parts, alpha[b])
        return translated

    def _alignments(self, source, hypotheses):
        """Computes attention weights `(B, T, S)` of the best targets, in one pass."""
        ids, lengths = hypotheses.ids[:, 0], hypotheses.lengths[:, 0]
        shifted = np.insert(ids, 0, self.vocabulary.start, axis=1)
        target = self.vocabulary.padded(shifted[:, : lengths.max()])
        return keras.ops.convert_to_numpy(self.model.align([source, target]))

    def _translation(self, row, source, ids, scores, lengths, alpha):
        """Makes the `Translation` of one source, ids or features, from hypotheses.

        Their ids are `(N, T)`, the weights `alpha` of the best one `(T, S)` or None.
        """
        best, model, unknown = ids[0, : lengths[0]], self.model, {}
        if model.source_vocabulary is None:
            source_tokens = [*map(str, range(model.source_length(source[None])))]
        else:
            source_tokens = model.source_vocabulary.tokens_of(source)
            unknown = model.source_vocabulary.unknown_characters(row)
        if alpha is not None:
            alpha = alpha[: len(best), : len(source_tokens)]
        return Translation.of(
            self.vocabulary,
            ids,
            scores,
            alignment=alpha,
            source_tokens=source_tokens,
            target_tokens=self.vocabulary.tokens(best),
            maps=pictures.as_maps(alpha, model.map_shape(source[None])),
            unknown=unknown,
        )

    def _max_length(self, source, options):
        length = options.max_length or options.max_new_tokens
        return length or self.model.max_target_length(source)

    def _batch(self, sources):
        """Rows of ids, padded; or features; as one array."""
        own = self.model.source_vocabulary
        return np.stack(sources) if own is None else own.padded(sources)


def group_by_length(
    rows: Sequence[Sequence[int] | np.ndarray] | np.ndarray, batch_size: int
) -> Iterator[np.ndarray]:
    """Yields the indices of each batch: rows that are padded to the same length.

    The default length of a target then depends on its own source only.

    Examples:
        >>> rows = [[5] * 3, [5] * 20, [5] * 7, [5] * 8]
        >>> [n.tolist() for n in group_by_length(rows, batch_size=2)]
        [[0, 2], [3], [1]]
    """
    lengths = np.array([bucket(len(row)) for row in rows])
    for length in np.unique(lengths):
        indices = np.flatnonzero(lengths == length)
        yield from np.split(indices, range(batch_size, len(indices), batch_size))


def row_seeds(seed: int | None, count: int) -> np.ndarray:
    """Returns a seed for each row, so that batches draw different numbers.

    Examples:
        >>> bool(np.all(row_seeds(7, 3)[:2] == row_seeds(7, 2)))
        True
    """
    if seed is not None:
        checks.whole_number("seed", seed, 0)
    return np.random.default_rng(seed).integers(2**31, size=count)
