"""What all models of pairs share: training on pairs, and translating."""

import functools

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.padding import END, PADDING, START, bucket, pad_rows
from kerasseq.decoding import Beam, generate
from kerasseq.seq2seq.translation import Translation
from kerasseq.tasks.base import TaskModel
from kerasseq.training import PairBatches, TokenAccuracy
from kerasseq.training.pair_batches import pair_arrays


class Translator(TaskModel):
    """A model with the inputs `source` and `target` that says what follows each token.

    A subclass builds the graph, sets `source_side` and `target_side`, and has
    `start_model`, from a source to the state of decoding, or `start`, if the state
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
            validation_data: Other pairs, `(sources, targets)`.
            seed: Seed of the order.
            **kwargs: As for `keras.Model.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: If a row is not of the kind that the model reads.
            ValueError: If there is no pair, a row is empty, or an id out of range.
        """
        shared = {"epochs": epochs, "initial_epoch": initial_epoch, **kwargs}
        if isinstance(validation_data, tuple | list):
            validation_data = self.arrays(*validation_data)
        pairs = _both(x, y)
        if pairs is None:
            return super().fit(
                x,
                y,
                steps_per_epoch=steps_per_epoch,
                validation_data=validation_data,
                **shared,
            )
        batches = self.batches(*pairs, batch_size=batch_size, seed=seed)
        steps = steps_per_epoch or batches.steps_per_pass
        return super().fit(
            batches.stream(start=initial_epoch * steps),
            steps_per_epoch=steps,
            validation_data=validation_data,
            validation_batch_size=batch_size,
            shuffle=False,  # the stream comes shuffled
            **shared,
        )

    def batches(self, sources, targets, *, batch_size=64, seed=0) -> PairBatches:
        """The batches that `fit` trains on, for a loop of one's own."""
        sources = self.encode_sources(sources)
        return PairBatches(sources, self.target_side.encode(targets), batch_size, seed)

    def arrays(self, sources, targets):
        """Pairs as `((source, target), wanted)`, for `keras.Model.evaluate`.

        Args:
            sources: As for `fit`.
            targets: As for `fit`.

        Returns:
            Arrays of ids of the model.
        """
        return pair_arrays(
            self.encode_sources(sources), self.target_side.encode(targets)
        )

    def evaluate(self, x=None, y=None, **kwargs):
        """Measure, as `keras.Model.evaluate` does, on pairs as for `fit`."""
        pairs = _both(x, y)
        x, y = (x, y) if pairs is None else self.arrays(*pairs)
        return super().evaluate(x, y, **kwargs)

    def encode_sources(self, sources):
        """Sources as rows of the model's ids; an array of features as it is."""
        if self.source_side is None:
            return np.asarray(sources, "float32")
        return self.source_side.encode(sources)

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
            texts: A string or a list of strings; for a model without tokenizers rows of
                ids; for one that reads images an array `(rows, ...)`.
            beam: Width of a beam search, or a `decoding.Beam`. Without it the best
                token is taken each time.
            sampler: A sampler of `kerasseq.decoding`, instead of a beam.
            length: The most tokens of a target, its end included. If None, three times
                the places of the source and 32 more.
            batch_size: Sources translated at once.
            alignments: Whether to compute alignments. If None, where there are any.
            seed: Seed of a sampler that draws.

        Returns:
            A `Translation` for one string, else a list of them.

        Raises:
            TypeError: If a text is none.
            ValueError: If a text is empty, if there are no alignments, or if an option
                is out of range.
        """
        if isinstance(beam, int) or beam is None:
            beam = None if beam is None else Beam(beam)
        elif not isinstance(beam, Beam):
            raise TypeError(f"beam must be a width or a decoding.Beam, got {beam!r}")
        if beam is not None and sampler is not None:
            raise ValueError("give beam or sampler, not both")
        if alignments and self.alignment_model is None:
            raise ValueError(
                "alignments=True, but this model has none: it was built without "
                'attention. attention="bahdanau" has them'
            )
        checks.whole_number("batch_size", batch_size)
        if length is not None:
            checks.whole_number("length", length)
        aligned = self.alignment_model is not None and alignments in (None, True)
        one = isinstance(texts, str)
        texts = [texts] if one else texts
        if not len(texts):
            return []
        ids = self.encode_sources(texts)
        found = []
        for start in range(0, len(ids), batch_size):
            rows = slice(start, start + batch_size)
            found += self._translate(
                texts[rows], ids[rows], beam, sampler, length, batch_size, aligned, seed
            )
        return found[0] if one else found

    def _translate(self, texts, ids, beam, sampler, length, size, aligned, seed):
        """Translate one batch, filled up to one of a few sizes."""
        count = len(ids)
        size = min(size, 1 << (count - 1).bit_length())
        places = [*range(count), *[0] * (size - count)]
        if isinstance(ids, list):
            source = pad_rows([ids[n] for n in places])
        else:
            source = ids[places]
        length = length or self.most(source)
        state = self.start(source, length)
        prompt = np.full((size, 1), START, "int32")
        options = {"length": length, "stop": END, "fill": PADDING}
        if beam is None:
            written = generate(
                self.step, state, prompt, sampler=sampler, seed=seed, **options
            )
            said = written.ids[:, None]
            scores = written.log_probabilities.sum(axis=1)[:, None]
        else:
            found = beam.search(self.step, state, prompt, **options)
            said, scores = found.ids, found.scores
        weights = self._alignments(source, said[:, 0]) if aligned else [None] * size
        return [
            self._translation(texts[n], source[n], said[n], scores[n], weights[n])
            for n in range(count)
        ]

    def _alignments(self, source, said):
        """Weights `(B, T, S)` of what was said, from one more run over all of it."""
        behind = np.concatenate([np.full((len(said), 1), START), said[:, :-1]], axis=1)
        target = np.zeros((len(said), bucket(behind.shape[1])), "int32")
        target[:, : behind.shape[1]] = np.where(behind == END, PADDING, behind)
        weights = kernels.inference(self.alignment_model)
        return keras.ops.convert_to_numpy(weights([source, target]))

    def _translation(self, text, source, said, scores, weights):
        texts = [self.target_side.decode(ids) for ids in said]
        first = said[0][said[0] != PADDING]
        side = self.source_side
        read = (
            source[source != PADDING] if side else np.arange(self.places(source[None]))
        )
        tokens = side.tokens(read) if side else [str(n) for n in read]
        if weights is not None:
            weights = weights[: len(first), : len(read)]
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

    def start(self, source, length):
        """The state before the first of so many tokens."""
        return self._start([source])

    @functools.cached_property
    def _start(self):
        return kernels.inference(self.start_model)


def _both(x, y):
    """Sources and targets, if x and y are such; None for anything else."""
    if y is None and isinstance(x, tuple) and len(x) == 2:
        x, y = x
    if y is None or isinstance(x, tuple | dict):
        return None
    return x, y


def _unknown(side, text):
    """What the tokenizer of a side does not know of a text."""
    count = getattr(side and side.tokenizer, "unknown_characters", None)
    return dict(count(text)) if count else {}
