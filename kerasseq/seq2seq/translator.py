"""Encoder-decoder models: training on pairs, `translate`, `generate` and `stream`."""

import dataclasses
from typing import Any

import keras
import numpy as np

from kerasseq import decoding, kernels
from kerasseq.core import checks
from kerasseq.core.ids import check_inputs
from kerasseq.core.padding import PADDING, bucket, pad_rows
from kerasseq.datasets.pairs import are_tuples, two_lists
from kerasseq.language.generation import GenerationMixin, decode
from kerasseq.tasks.base import TaskModel
from kerasseq.training import PairBatches, TokenAccuracy
from kerasseq.training.pair_batches import pair_arrays


@dataclasses.dataclass(frozen=True)
class Translation:
    """The target that a model generates for one source.

    `str(translation)` is the text.

    Attributes:
        text: The target: a string, or an array of ids for a model without tokenizers.
        score: Its log-probability; of a beam with length penalty, the score.
        alignment: Array `(target tokens, source tokens)` of attention weights; None for
            a model without attention. The last row is the end token.
        source_tokens: Labels of the columns of the alignment.
        target_tokens: Labels of its rows.
        candidates: The `n_best` of a beam as pairs of text and score, best first.
        unknown: Characters of the source that the tokenizer does not know, with counts.
    """

    text: Any
    score: float
    alignment: np.ndarray | None
    source_tokens: list[str]
    target_tokens: list[str]
    candidates: list[tuple[Any, float]]
    unknown: dict[str, int]

    def __str__(self):
        return str(self.text)


class Translator(GenerationMixin, TaskModel):
    """A model with the inputs `source` and `target` that predicts each target token.

    A subclass builds the graph, sets `source_side` and `target_side`, and defines
    `start_model`, from a source to the state of decoding, or `initial_state`, if the
    state also depends on the length; `step`, the step function; and `alignment_model`,
    from both inputs to alignments `(B, T, S)`, or None.
    """

    default_sampler = "greedy"

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=PADDING
        )

    def default_metrics(self):
        return [TokenAccuracy(name="accuracy")]

    def fit(
        self,
        x=None,
        y=None,
        *,
        batch_size=64,
        epochs=1,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_split=0.0,
        validation_data=None,
        seed=0,
        **kwargs,
    ):
        """Train on pairs.

        Args:
            x: Sources: strings, or ids, as lists of any lengths or an array
                `(rows, time)` in which 0 is padding; or both sides at once, such as
                `kerasseq.datasets.number_names` gives. Anything else, such as a
                stream of batches, goes to `keras.Model.fit` as it is.
            y: Targets, as the sources. Start and end are added here.
            batch_size: Pairs in a batch.
            epochs: Last epoch; an epoch is a pass over the pairs, or `steps_per_epoch`.
            initial_epoch: Epochs done already: their batches are not seen again.
            steps_per_epoch: Batches in an epoch. A whole pass if None.
            validation_split: Which fraction of the pairs, the last, is held out;
                `kerasseq.datasets.split` keeps translations of one text together.
            validation_data: Other pairs, `(sources, targets)`, or as for
                `keras.Model.fit`.
            seed: Seed of the order.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If a row is not of the kind that the model reads.
            ValueError: If there is no pair, a row is empty, or an id out of range.
        """
        pairs = _both(x, y)
        if pairs is not None and validation_data is None and validation_split:
            pairs, validation_data = _cut(pairs, validation_split)
            validation_split = 0.0
        shared = {
            "epochs": epochs,
            "initial_epoch": initial_epoch,
            "validation_data": self._held_out(validation_data),
            "validation_batch_size": batch_size,
            **kwargs,
        }
        if pairs is None:
            self._check_ids(x, y)
            return super().fit(
                x,
                y,
                batch_size=None if y is None else batch_size,
                steps_per_epoch=steps_per_epoch,
                validation_split=validation_split,
                **shared,
            )
        batches = self.batches(*pairs, batch_size=batch_size, seed=seed)
        steps = steps_per_epoch or batches.steps_per_epoch
        shared["shuffle"] = False  # the stream comes shuffled
        return super().fit(
            batches.stream(start=initial_epoch * steps), steps_per_epoch=steps, **shared
        )

    def _held_out(self, data):
        """Pairs as arrays, anything else as it is."""
        pairs = _both(tuple(data)) if isinstance(data, tuple | list) else None
        return data if pairs is None else self.arrays(*pairs)

    def batches(self, sources, targets, *, batch_size=64, seed=0) -> PairBatches:
        """The batches that `fit` trains on, for a loop of one's own."""
        sources, targets = (
            self.encode_sources(sources),
            self.target_side.encode(targets),
        )
        return PairBatches(sources, targets, batch_size, seed, marks=self._marks)

    def arrays(self, sources, targets):
        """Pairs as `((source, target), wanted)`, for `keras.Model.evaluate`.

        Args:
            sources: As for `fit`.
            targets: As for `fit`.

        Returns:
            Arrays of ids of the model.
        """
        sources, targets = (
            self.encode_sources(sources),
            self.target_side.encode(targets),
        )
        return pair_arrays(sources, targets, marks=self._marks)

    @property
    def _marks(self):
        """The ids of start and end."""
        return self.target_side.start, self.target_side.end

    def evaluate(self, x=None, y=None, **kwargs):
        """Measure, as `keras.Model.evaluate` does, on pairs as for `fit`."""
        pairs = _both(x, y)
        x, y = (x, y) if pairs is None else self.arrays(*pairs)
        self._check_ids(x, y)
        return super().evaluate(x, y, **kwargs)

    def predict(self, x, **kwargs):
        """Logits, as `keras.Model.predict` gives them, of the arrays of `arrays`."""
        self._check_ids(x)
        return super().predict(x, **kwargs)

    def _check_ids(self, x, y=None):
        """Raise if arrays of ids have some that the model does not know."""
        sides = {"source": self.source_side, "target": self.target_side}
        check_inputs(x, {n: side and side.size for n, side in sides.items()})
        check_inputs(y, {"targets": self.target_side.size})

    def encode_sources(self, sources):
        """Sources as rows of the model's ids; an array of features as it is."""
        if self.source_side is not None:
            return self.source_side.encode(sources)
        features, wanted = np.asarray(sources), self.inputs[0].shape
        if features.ndim != len(wanted) or features.dtype.kind not in "biuf":
            raise ValueError(
                "this model reads features: sources must be one array of numbers of "
                f"shape {wanted}, got shape {features.shape} of {features.dtype}"
            )
        return features.astype("float32")

    def translate(
        self,
        texts,
        max_length: int | None = None,
        *,
        sampler: "decoding.Sampler | decoding.Beam | str | None" = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        stop=None,
        seed: int | None = None,
        batch_size: int = 64,
        alignments: bool | None = None,
    ):
        """Generates the target of one source or of several, with scores and alignments.

        `generate` has the same arguments and returns the texts alone.

        Args:
            texts: A string or a list of strings; for a model without tokenizers ids,
                or rows of ids; for an image encoder an array `(rows, ...)`.
            max_length: The most tokens of a target, its end included. If None, three
                times the length of the source plus 32.
            sampler: A sampler of `kerasseq.decoding`, a `decoding.Beam`, or a name, as
                for `generate`. Greedy if nothing is given.
            temperature: As for `generate`, like the next five.
            top_k: Sample from the k most probable tokens.
            top_p: Sample from tokens with this cumulative probability.
            min_p: Sample from tokens with this fraction of the largest probability.
            stop: Target tokens that end a target, besides the end token.
            seed: Seed of the draws.
            batch_size: Sources decoded at once.
            alignments: Whether to compute alignments. If None, if the model has any.

        Returns:
            A `Translation` for one source, else a list of them.

        Raises:
            TypeError: If a text, or an option, has the wrong type.
            ValueError: If a text is empty, if the model has no alignments, or if an
                option is out of range.
        """
        options = self._options(
            sampler=sampler,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            max_new_tokens=None,
            max_length=max_length,
            stop=stop,
            seed=seed,
        )
        if alignments and self.alignment_model is None:
            raise ValueError(
                "alignments=True needs a model with attention, and this one was built "
                'without attention. attention="bahdanau" has alignments'
            )
        checks.whole_number("batch_size", batch_size)
        rows, single = self._read_prompts(texts)
        found = self._translate_rows(rows, options, batch_size, alignments is not False)
        return found[0] if single else found

    def _read_prompts(self, texts):
        """The sources as a list, and whether it was a single one."""
        if not hasattr(texts, "__iter__"):
            raise TypeError(f"texts must be a string, or several, got {texts!r}")
        single = isinstance(texts, str) or self._is_one_row(texts)
        return [texts] if single else list(texts), single

    def _generate_rows(self, rows, options):
        return [t.text for t in self._translate_rows(rows, options, 64, False)]

    def _stream_row(self, row, options):
        """Checks the source at once, and returns the iterator."""
        source = self._as_batch(self.encode_sources([row]))
        length = self._max_length(source, options)
        prompt = np.full((1, 1), self.target_side.start, "int32")
        tokens = decoding.stream(
            self.step,
            self.initial_state(source, length),
            prompt,
            max_new_tokens=length,
            sampler=options.sampler,
            stop=options.stop,
            seed=options.seed,
        )
        return self._pieces(tokens)

    def _pieces(self, tokens):
        """The text of each token, or its id."""
        ids, length = [], 0
        for token in tokens:
            ids.append(int(token[0]))
            text = self.target_side.decode(np.array(ids))
            if self.target_side.tokenizer is None:
                yield from text[length:].tolist()
                length = len(text)
            elif not text.endswith("\ufffd"):  # else a part of a character
                yield text[length:]
                length = len(text)

    def _stop_ids(self, stop):
        """The end, and further target tokens, as ids of the model."""
        side = self.target_side
        return side.end, *(i + side.shift for i in super()._stop_ids(stop))

    def ids(self, text):
        """The ids of a target text, as its tokenizer numbers them."""
        if self.target_side.tokenizer is None:
            raise ValueError(
                f"stop={text!r} is a text, and the model has no target_tokenizer: "
                "give ids"
            )
        return self.target_side.tokenizer.encode(text)

    def _max_length(self, source, options):
        length = options.max_length or options.max_new_tokens
        return length or self.max_target_length(source)

    def _translate_rows(self, rows, options, batch_size, alignments):
        """The `Translation` of each source."""
        if not rows:
            return []
        ids, found = self.encode_sources(rows), [None] * len(rows)
        aligned = alignments and self.alignment_model is not None
        seeds = row_seeds(options.seed, len(rows))
        for numbers in group_by_length(ids, batch_size):
            # The batch is filled up to one of a few sizes.
            size = min(batch_size, 1 << (len(numbers) - 1).bit_length())
            filled = np.resize(numbers, size)
            source = self._as_batch([ids[n] for n in filled])
            length = self._max_length(source, options)
            best = decode(
                self.step,
                self.initial_state(source, length),
                np.full((size, 1), self.target_side.start, "int32"),
                options.sampler,
                max_new_tokens=length,
                stop=options.stop,
                fill=PADDING,
                seed=seeds[filled],
            )
            weights = self._alignments(source, best) if aligned else [None] * size
            for row, n in enumerate(numbers):
                parts = [part[row] for part in best]
                found[n] = self._translation(rows[n], source[row], *parts, weights[row])
        return found

    def _as_batch(self, sources):
        """Rows of ids, padded, or features, as one array."""
        return np.stack(sources) if self.source_side is None else pad_rows(sources)

    def _is_one_row(self, ids):
        """Whether these are the ids of one source, not rows of ids."""
        side = self.source_side
        if side is None or side.tokenizer or not hasattr(ids, "__getitem__"):
            return False
        first = np.asarray(ids[0]) if len(ids) else np.zeros(1)
        return first.ndim == 0 and first.dtype.kind in "iu"

    def _alignments(self, source, best):
        """Attention weights `(B, T, S)` of the best targets, from one forward pass."""
        shifted = np.insert(best.ids[:, 0], 0, self.target_side.start, axis=1)
        longest = bucket(int(best.lengths[:, 0].max()))
        target = np.full((len(source), longest), PADDING, "int32")
        target[:, : shifted.shape[1]] = shifted[:, :longest]
        return keras.ops.convert_to_numpy(self.align([source, target]))

    def _translation(self, text, source, ids, scores, lengths, weights):
        side, first = self.source_side, ids[0, : lengths[0]]
        if side is None:
            tokens = [str(n) for n in range(self.places(source[None]))]
        else:
            tokens = side.tokens(source[source != PADDING])
        if weights is not None:
            weights = weights[: len(first), : len(tokens)]
        texts = [self.target_side.decode(row) for row in ids]
        known = zip(texts, scores.tolist(), strict=True)
        return Translation(
            text=texts[0],
            score=float(scores[0]),
            alignment=weights,
            source_tokens=tokens,
            target_tokens=self.target_side.tokens(first),
            candidates=[(t, score) for t, score in known if score > -np.inf],
            unknown=_unknown(side, text),
        )

    def places(self, source):
        """Number of source positions of a batch of sources."""
        return source.shape[1]

    def max_target_length(self, source):
        """The most tokens of a target if `max_length` is None."""
        return 3 * bucket(self.places(source)) + 32

    def initial_state(self, source, length):
        """The state of decoding before the first of so many tokens."""
        return self.start([source])

    @property
    def start(self):
        """The compiled `start_model`, from a list of one batch of sources."""
        return self._compiled("start_model")

    @property
    def align(self):
        """The compiled `alignment_model`, from a list of sources and targets."""
        return self._compiled("alignment_model")

    def _compiled(self, name):
        """One of these models as a function, compiled for the current layers."""
        programs = kernels.programs(self)
        return programs.get(
            "model",
            name,
            lambda: kernels.inference(getattr(self, name), pure=programs.pure),
        )


def _cut(pairs, fraction):
    """The first pairs and the last ones, which are held out; one of each at least."""
    checks.fraction("validation_split", fraction)
    sources, targets = ([part] if isinstance(part, str) else part for part in pairs)
    count = round(len(sources) * fraction)
    if not 0 < count < len(sources):
        raise ValueError(
            f"validation_split={fraction} of {len(sources)} pairs leaves a part "
            "without a pair. Choose another fraction, or pass `validation_data`"
        )
    return (
        (sources[:-count], targets[:-count]),
        (sources[-count:], targets[-count:]),
    )


def _both(x, y=None):
    """Sources and targets, if x and y are such; None for anything else."""
    if y is None and isinstance(x, tuple) and len(x) == 2:
        x, y = x
    if y is None and isinstance(x, list):
        if not x or not are_tuples(x):
            raise TypeError(
                "expected sources and targets, or tuples (source, target) of strings, "
                "received one list. Pass one list of each, fit(sources, targets)"
            )
        x, y = two_lists(x)
    return None if y is None or _are_arrays(x) else (x, y)


def _are_arrays(x):
    """Whether x is what the model reads, source and target, as `arrays` gives them."""
    if isinstance(x, tuple) and len(x) == 2:
        return all(len(getattr(part, "shape", ())) > 1 for part in x)
    return isinstance(x, dict)


def _unknown(side, text):
    """What the tokenizer of a side does not know of a text."""
    count = getattr(side and side.tokenizer, "unknown_characters", None)
    return dict(count(text)) if count else {}


def group_by_length(rows, batch_size):
    """Indices of the rows of each batch: rows that are padded to the same length.

    So the default length of a target depends on its own source alone.

    Examples:
        >>> rows = [[5] * 3, [5] * 20, [5] * 7, [5] * 8]
        >>> [n.tolist() for n in group_by_length(rows, batch_size=2)]
        [[0, 2], [3], [1]]
    """
    lengths = np.array([bucket(len(row)) for row in rows])
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        yield from np.split(numbers, range(batch_size, len(numbers), batch_size))


def row_seeds(seed, count) -> np.ndarray:
    """A seed for each row, so that batches draw different numbers.

    Examples:
        >>> bool(np.all(row_seeds(7, 3)[:2] == row_seeds(7, 2)))
        True
    """
    if seed is not None:
        checks.whole_number("seed", seed, 0)
    return np.random.default_rng(seed).integers(2**31, size=count)
