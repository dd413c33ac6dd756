"""What all models of pairs share: training on pairs, and translating."""

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.ids import arrays_within
from kerasseq.core.padding import PADDING, bucket, pad_rows
from kerasseq.datasets.pairs import are_tuples, two_lists
from kerasseq.seq2seq import translating
from kerasseq.seq2seq.translation import Translation
from kerasseq.tasks.base import TaskModel
from kerasseq.training import PairBatches, TokenAccuracy
from kerasseq.training.pair_batches import pair_arrays


class Translator(TaskModel):
    """A model with the inputs `source` and `target` that says what follows each token.

    A subclass builds the graph, sets `source_side` and `target_side`, and has
    `start_model`, from a source to the state of decoding, or `begun`, if the state
    depends on the length, too; `step`, the step function; and `alignment_model`, from
    both inputs to alignments `(B, T, S)`, or None.
    """

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
        steps = steps_per_epoch or batches.steps_per_pass
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
        arrays_within(x, {n: side and side.size for n, side in sides.items()})
        arrays_within(y, {"targets": self.target_side.size})

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
        *,
        beam=None,
        sampler=None,
        length=None,
        batch_size=64,
        alignments=None,
        seed=None,
    ):
        """Translate one source or several.

        Args:
            texts: A string or a list of strings; for a model without tokenizers ids,
                or rows of ids; for one that reads images an array `(rows, ...)`.
            beam: Width of a beam search, or a `decoding.Beam`. Without it the best
                token is taken each time.
            sampler: A sampler of `kerasseq.decoding`, instead of a beam.
            length: The most tokens of a target, its end included. If None, three times
                the places of the source and 32 more.
            batch_size: Sources translated at once.
            alignments: Whether to compute alignments. If None, where there are any.
            seed: Seed of a sampler that draws.

        Returns:
            A `Translation` for one source, else a list of them.

        Raises:
            TypeError: If a text is none.
            ValueError: If a text is empty, if there are no alignments, or if an option
                is out of range.
        """
        search = translating.search(beam, sampler, length)
        if alignments and self.alignment_model is None:
            raise ValueError(
                "alignments=True, but this model has none: it was built without "
                'attention. attention="bahdanau" has them'
            )
        checks.whole_number("batch_size", batch_size)
        if not hasattr(texts, "__iter__"):
            raise TypeError(f"texts must be a string, or several, got {texts!r}")
        one = isinstance(texts, str) or self._is_one_row(texts)
        rows = [texts] if one else list(texts)
        if not rows:
            return []
        ids, found = self.encode_sources(rows), [None] * len(rows)
        aligned = alignments in (None, True) and self.alignment_model is not None
        seeds = translating.seeds(seed, len(rows))
        for numbers in translating.alike(ids, batch_size):
            # Filled up to one of a few sizes.
            size = min(batch_size, 1 << (len(numbers) - 1).bit_length())
            filled = np.resize(numbers, size)
            source = [ids[n] for n in filled]
            source = pad_rows(source) if isinstance(ids, list) else np.stack(source)
            said = search(self, source, seeds[filled])
            weights = self._alignments(source, said) if aligned else [None] * size
            for place, n in enumerate(numbers):
                known = [part[place] for part in said]
                found[n] = self._translation(
                    rows[n], source[place], *known, weights[place]
                )
        return found[0] if one else found

    def _is_one_row(self, ids):
        """Whether these are the ids of one source, not rows of ids."""
        side = self.source_side
        if side is None or side.tokenizer or not hasattr(ids, "__getitem__"):
            return False
        first = np.asarray(ids[0]) if len(ids) else np.zeros(1)
        return first.ndim == 0 and first.dtype.kind in "iu"

    def _alignments(self, source, said):
        """Weights `(B, T, S)` of the best, from one more run over all of it."""
        behind = np.insert(said.ids[:, 0], 0, self.target_side.start, axis=1)
        longest = bucket(int(said.lengths[:, 0].max()))
        target = np.full((len(source), longest), PADDING, "int32")
        target[:, : behind.shape[1]] = behind[:, :longest]
        return keras.ops.convert_to_numpy(self.align([source, target]))

    def _translation(self, text, source, said, scores, lengths, weights):
        side, first = self.source_side, said[0, : lengths[0]]
        if side is None:
            tokens = [str(n) for n in range(self.places(source[None]))]
        else:
            tokens = side.tokens(source[source != PADDING])
        if weights is not None:
            weights = weights[: len(first), : len(tokens)]
        texts = [self.target_side.decode(ids) for ids in said]
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
        """Places of the memory of a batch of sources."""
        return source.shape[1]

    def most(self, source):
        """The most tokens of a target, where nobody says."""
        return 3 * bucket(self.places(source)) + 32

    def begun(self, source, length):
        """The state before the first of so many tokens."""
        return self.start([source])

    @property
    def start(self):
        """`start_model` as a function from a list of one batch of sources."""
        return self._compiled("start_model")

    @property
    def align(self):
        """`alignment_model` as a function from a list of sources and targets."""
        return self._compiled("alignment_model")

    def _compiled(self, name):
        """One of the models as a function, compiled for this one as it is now."""
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
