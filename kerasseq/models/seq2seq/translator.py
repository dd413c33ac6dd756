"""Encoder-decoder models: training on pairs, `translate`, `generate` and `stream`.

How `translate` works, in the order of the calls:

1. `_options` checks the arguments and makes the sampler (`models/generation.py`).
2. `Vocabulary.encode` turns the sources into ids, `group_by_length` these into batches.
3. `initial_state` runs the encoder, and returns the first state of the decoder.
4. `decode` (`decoding/generation.py`) calls `step`, until all targets have ended.
5. `_alignments` returns the attention weights of the model for finished targets.
6. `Vocabulary.decode` turns the ids of the targets into texts.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq import decoding, kernels
from kerasseq.core import checks
from kerasseq.core.arguments import check_names
from kerasseq.core.ids import check_inputs
from kerasseq.core.padding import PADDING, bucket
from kerasseq.core.types import Tensor, one_or_several
from kerasseq.datasets.pairs import Pairs
from kerasseq.decoding.generation import decode
from kerasseq.models.generation import GenerationMixin
from kerasseq.models.seq2seq import pictures
from kerasseq.models.seq2seq.pairs import (
    PairRows,
    are_arrays,
    held_out_pairs,
    read_pairs,
    refuse_weights,
)
from kerasseq.models.seq2seq.translation import Translation, group_by_length, row_seeds
from kerasseq.models.seq2seq.vocabulary import Rows, Vocabulary
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.fit_call import FitCall, of_parts
from kerasseq.tasks.input_rows import (
    check_data,
    check_finite,
    check_not_empty,
    is_empty_list,
)
from kerasseq.tasks.loss_means import weights_of_positions
from kerasseq.tasks.sources import read
from kerasseq.tasks.streaming import encoded_batches, streamed
from kerasseq.training import PairBatches, TokenAccuracy
from kerasseq.training.batches import KerasData
from kerasseq.training.pair_batches import pair_arrays

BATCH_SIZE = 64  # of `fit`, `translate` and `generate`


class Translator(GenerationMixin, TaskModel):
    """Base class of models with the inputs `source` and `target`.

    The model predicts each token of the target from the source and the target tokens
    before it. A subclass builds the graph and defines

    - `source_vocabulary`, None for features such as images; `target_vocabulary`;
    - `initial_state(source, length)`, from a batch of sources to the state of the
      decoder before the first of at most `length` tokens;
    - `step(state, token)`, the decoder for one token: logits and the next state;
    - `alignment_model`, from source and target to attention weights, or None.
    """

    source_vocabulary: Vocabulary | None
    target_vocabulary: Vocabulary
    default_batch_size: int = BATCH_SIZE
    default_sampler = "greedy"
    padding = PADDING

    def default_loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=self.padding
        )

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return [TokenAccuracy(name="accuracy", ignore_class=self.padding)]

    def counted(self, x: Any, sample_weight: Any) -> Any:
        return weights_of_positions(keras.tree.flatten(x)[-1], sample_weight)

    def training_data(self, call: FitCall) -> KerasData | PairRows:
        check_not_empty(call.x)
        x, is_streamed = streamed(
            call.x, call.y, call.steps_per_epoch, call.validation_split
        )
        if is_streamed:
            call.refuse("for a stream of pairs", "sample_weight", "class_weight")
            size = checks.whole_number("batch_size", call.batch_size)
            encode = self._encode_rows
            return KerasData(encoded_batches(x, encode, batch_size=size, per_step=True))
        pairs = read_pairs(x, call.y)
        if isinstance(pairs, Pairs):
            call.refuse("for pairs of texts or ids", "sample_weight", "class_weight")
            check_not_empty(pairs.sources)
            return PairRows(self, pairs)
        self._check_ids(*pairs)
        return KerasData(*pairs, call.sample_weight, call.class_weight)

    def held_out_data(self, call: FitCall) -> Any:
        x, y, weights = held_out_pairs(call.validation_data, call.held_out_rows)
        if isinstance(x, Pairs):
            check_not_empty(x.sources, call.method)
            x, y = self.arrays(*x)
        self._check_ids(x, y)
        return of_parts(x, y, weights)

    def _encode_rows(self, x, y, weights):
        """Returns the arrays of rows of a stream."""
        refuse_weights(weights)
        return self.arrays(*read_pairs(x, y))

    def batches(
        self,
        sources: Rows,
        targets: Rows,
        *,
        batch_size: int = BATCH_SIZE,
        seed: int = 0,
    ) -> PairBatches:
        """Returns the batches that `fit` trains on, for a custom training loop."""
        return PairBatches(
            self.encode_sources(sources),
            self.target_vocabulary.encode(targets),
            batch_size,
            seed,
            **self.target_vocabulary.pair_options,
        )

    def arrays(
        self, sources: Rows, targets: Rows
    ) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Returns pairs as arrays for Keras.

        Args:
            sources: As for `fit`.
            targets: As for `fit`.

        Returns:
            `((source, target), shifted_target)`, arrays of ids, where `target` begins
            with the start and `shifted_target` ends with the end.
        """
        return pair_arrays(
            self.encode_sources(sources),
            self.target_vocabulary.encode(targets),
            **self.target_vocabulary.pair_options,
        )

    def encode(
        self, sources: Rows, targets: Rows | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns sources and targets as the batch of arrays that the model reads.

        Three ids are padding, start and end of a target, and those of tokens follow.

        Args:
            sources: A source, or several, as for `translate`.
            targets: The target of each; None for the start token alone.

        Returns:
            `(source, target)`: ids `(B, S)`, or features of images, and ids `(B, T)`
            that begin with the start token. B is 1 for one source.

        Raises:
            TypeError: If a row is not a string, or not ids.
            ValueError: If a row is empty, or the numbers of sources and targets differ.

        Examples:
            >>> from kerasseq.models import Seq2Seq
            >>> sizes = {"source_vocabulary_size": 5, "target_vocabulary_size": 7}
            >>> model = Seq2Seq("gru", **sizes, units=3)
            >>> source, target = model.encode([4, 1], [6, 2, 3])
            >>> y = model((source, target))
            >>> source.tolist(), target.tolist(), keras.ops.shape(y)
            ([[6, 3]], [[1, 8, 4, 5]], (1, 4, 9))
        """
        rows, single = self._read_prompts(sources)
        if single and targets is not None:
            targets = [targets]
        rows = self.encode_sources(rows)
        vocabulary = self.target_vocabulary
        ends = [[]] * len(rows) if targets is None else vocabulary.encode(targets)
        if len(ends) != len(rows):
            raise ValueError(
                f"expected {len(rows)} targets, one a source, received {len(ends)}"
            )
        return pair_arrays(rows, ends, **vocabulary.pair_options)[0]

    def predicted(self, call: FitCall, outputs: Callable[..., Any]) -> Any:
        x = call.x
        if not are_arrays(x) and not is_empty_list(x):
            advice = "To translate, use translate(sources)"
            x, y = pairs = read_pairs(x, rows=call.held_out_rows, advice=advice)
            x = self.encode(x, y) if isinstance(pairs, Pairs) else x
        self._check_ids(x)
        return outputs(x)

    def _check_ids(self, x, y=None):
        """Raises if an array has ids that are out of range."""
        source, target = self.source_vocabulary, self.target_vocabulary
        check_inputs(x, {"source": source and source.size, "target": target.size})
        if source is None:  # features, such as images
            check_finite("source", keras.tree.flatten(x)[0])
        check_inputs(y, {"targets": target.size})

    def encode_sources(self, sources: Rows) -> list[np.ndarray] | np.ndarray:
        """Returns sources as rows of ids; for an image encoder as one float array."""
        if self.source_vocabulary is not None:
            return self.source_vocabulary.encode(sources)
        return pictures.read_features(sources, self.inputs[0].shape)

    @one_or_several(Translation)
    @checks.only_listed(check_names)
    def translate(
        self,
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
        options = self._options(
            sampler=sampler,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            max_new_tokens=max_new_tokens,
            max_length=max_length,
            stop=stop,
            seed=seed,
        )
        if alignments and self.alignment_model is None:
            raise ValueError(
                "alignments=True needs a model with attention, received one with "
                'attention=None. Build it with attention="bahdanau"'
            )
        checks.whole_number("batch_size", batch_size)
        rows, single = self._read_prompts(sources)
        aligned = alignments is not False and self.alignment_model is not None
        translations = self._translate_rows(rows, options, batch_size, aligned)
        return translations[0] if single else translations

    def _translate_rows(self, rows, options, batch_size, aligned):
        """Returns the `Translation` of each source."""
        if not rows:
            return []
        ids, translated = self.encode_sources(rows), [None] * len(rows)
        seeds = row_seeds(options.seed, len(rows))
        for indices in group_by_length(ids, batch_size):
            # Some rows are repeated, as each new batch size is compiled anew.
            size = min(batch_size, 1 << (len(indices) - 1).bit_length())
            batch = np.resize(indices, size)
            source = self._as_batch([ids[n] for n in batch])  # (B, S)
            length = self._max_length(source, options)
            hypotheses = decode(
                self.step,
                self.initial_state(source, length),
                np.full((size, 1), self.target_vocabulary.start, "int32"),
                options.sampler,
                max_new_tokens=length,
                stop=options.stop,
                fill=self.padding,
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
        shifted = np.insert(ids, 0, self.target_vocabulary.start, axis=1)
        target = self.target_vocabulary.padded(shifted[:, : lengths.max()])
        return keras.ops.convert_to_numpy(self.align([source, target]))

    def _translation(self, row, source, ids, scores, lengths, alpha):
        """Makes the `Translation` of one source, ids or features, from hypotheses.

        Their ids are `(N, T)`, the weights `alpha` of the best one `(T, S)` or None.
        """
        best, vocabulary, unknown = ids[0, : lengths[0]], self.source_vocabulary, {}
        if vocabulary is None:
            source_tokens = [*map(str, range(self.source_length(source[None])))]
        else:
            source_tokens = vocabulary.tokens_of(source)
            unknown = vocabulary.unknown_characters(row)
        if alpha is not None:
            alpha = alpha[: len(best), : len(source_tokens)]
        return Translation.of(
            self.target_vocabulary,
            ids,
            scores,
            alignment=alpha,
            source_tokens=source_tokens,
            target_tokens=self.target_vocabulary.tokens(best),
            maps=pictures.as_maps(alpha, self.map_shape(source[None])),
            unknown=unknown,
        )

    def _max_length(self, source, options):
        length = options.max_length or options.max_new_tokens
        return length or self.max_target_length(source)

    def max_target_length(self, source: np.ndarray) -> int:
        """Returns the default of `max_length`."""
        return 3 * bucket(self.source_length(source)) + 32

    def map_shape(self, source: np.ndarray) -> tuple[int, ...] | None:
        """Returns rows and columns of the feature map of an encoder model, or None."""
        return None

    def source_length(self, source: np.ndarray) -> int:
        """Returns the number of positions of a batch of sources."""
        return source.shape[1]

    def _as_batch(self, sources):
        """Rows of ids, padded; or features; as one array."""
        features = self.source_vocabulary is None
        return np.stack(sources) if features else self.source_vocabulary.padded(sources)

    def _compiled(self, name):
        """Returns the compiled model of that name, a function of a list of inputs."""
        model, programs = getattr(self, name), kernels.programs(self)
        make = functools.partial(kernels.inference, model, pure=programs.pure)
        return programs.get("model", name, make)

    @property
    def align(self) -> Callable[[list[Tensor]], Tensor]:
        """The compiled `alignment_model`, a function of `[source, target]`."""
        return self._compiled("alignment_model")

    # `generate` and `stream`, see `GenerationMixin`.

    def _read_prompts(self, prompts):
        """Returns the sources as a list, and whether there was only one."""
        check_data(prompts, "sources")
        if (vocabulary := self.source_vocabulary) is not None:
            single = vocabulary.is_one_row(prompts)
        else:
            single = pictures.is_one(prompts, self.inputs[0].shape)
        return [prompts] if single else list(read(prompts)[0]), single

    def _generate_rows(self, rows, options):
        translations = self._translate_rows(rows, options, BATCH_SIZE, aligned=False)
        return [translation.text for translation in translations]

    def _decoding_start(self, prompt, count):
        rows, _ = self._read_prompts(prompt)
        source = self._as_batch(self.encode_sources(rows))
        if len(source) != 1:
            raise ValueError(f"prompt must be one source, received {len(source)}")
        start = np.full((1, 1), self.target_vocabulary.start, "int32")
        return self.initial_state(source, count), start

    def _token_text(self, i):
        return self.target_vocabulary.tokens([i])[0]

    def _stream_row(self, row, options):
        """Checks the source at once, and returns the iterator."""
        source = self._as_batch(self.encode_sources([row]))
        length = self._max_length(source, options)
        tokens = decoding.stream(
            self.step,
            self.initial_state(source, length),
            np.full((1, 1), self.target_vocabulary.start, "int32"),
            max_new_tokens=length,
            sampler=options.sampler,
            stop=options.stop,
            seed=options.seed,
        )
        return self._stream_texts(tokens)

    def _stream_texts(self, tokens):
        """Yields the text of each token, or its id."""
        ids, length = [], 0
        for token in tokens:
            ids.append(int(token[0]))
            text = self.target_vocabulary.decode(np.array(ids))
            if self.target_vocabulary.tokenizer is None:
                yield from text[length:].tolist()
                length = len(text)
            elif not text.endswith("\ufffd"):  # an incomplete character
                yield text[length:]
                length = len(text)

    def _stop_ids(self, stop):
        """Returns the end and further target tokens, as ids of the model."""
        vocabulary = self.target_vocabulary
        return vocabulary.end, *(i + vocabulary.offset for i in super()._stop_ids(stop))

    def ids(self, text: str) -> np.ndarray:
        """Returns the ids of a target text, as its tokenizer numbers them."""
        if self.target_vocabulary.tokenizer is None:
            raise ValueError(
                "stop must be ids, as the model has no target_tokenizer, received "
                f"stop={text!r}"
            )
        return self.target_vocabulary.tokenizer.encode(text)
