"""Encoder-decoder models: training on pairs, and what `translate` needs of a model."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.ids import check_inputs
from kerasseq.core.padding import PADDING, bucket
from kerasseq.core.types import Tensor, method_of
from kerasseq.datasets.pairs import Pairs
from kerasseq.models import generation, inspection
from kerasseq.models.seq2seq import pictures, translation
from kerasseq.models.seq2seq.pairs import (
    PairRows,
    are_arrays,
    held_out_pairs,
    read_pairs,
)
from kerasseq.models.seq2seq.translation import BATCH_SIZE
from kerasseq.models.seq2seq.vocabulary import Rows, Vocabulary
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.data_checks import sample_weights
from kerasseq.tasks.fit_call import FitCall, of_parts
from kerasseq.tasks.input_rows import (
    check_finite,
    check_not_empty,
    is_empty_list,
)
from kerasseq.tasks.loss_means import weights_of_positions
from kerasseq.tasks.streaming import encoded_batches, streamed
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training import PairBatches, TokenAccuracy
from kerasseq.training.batches import KerasData
from kerasseq.training.pair_batches import pair_arrays


class Translator(TaskModel):
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
    default_sampler: str = "greedy"
    padding: int = PADDING
    token_generation: property = property(translation.TargetGeneration)

    @method_of(generation.generate)
    def generate(self): ...

    @method_of(generation.stream)
    def stream(self): ...

    @method_of(inspection.next_tokens)
    def next_tokens(self): ...

    @method_of(inspection.search_tree)
    def search_tree(self): ...

    @method_of(translation.translate)
    def translate(self): ...

    @property
    def source_tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the sources; None for ids and features."""
        of = self.source_vocabulary
        return None if of is None else of.tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the targets; None for ids."""
        return self.target_vocabulary.tokenizer

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
        pairs, weights = read_pairs(x, call.y, call.sample_weight)
        if isinstance(pairs, Pairs):
            call.refuse("for pairs of texts or ids", "class_weight")
            check_not_empty(pairs.sources)
            return PairRows(self, pairs, weights)
        self._check_ids(*pairs)
        return KerasData(*pairs, weights, call.class_weight)

    def held_out_data(self, call: FitCall) -> Any:
        x, y, weights = held_out_pairs(call.validation_data, call.held_out_rows)
        if isinstance(x, Pairs):
            check_not_empty(x.sources, call.method)
            x, y = self.arrays(*x)
        self._check_ids(x, y)
        return of_parts(x, y, weights)

    def _encode_rows(self, x, y, weights):
        """Returns the arrays of rows of a stream."""
        pairs, weights = read_pairs(x, y, weights)
        inputs, wanted = self.arrays(*pairs)
        if weights is None:
            return inputs, wanted
        weights = sample_weights(weights, len(wanted))
        return inputs, wanted, np.repeat(weights[:, None], wanted.shape[1], axis=1)

    def batches(
        self,
        sources: Rows,
        targets: Rows,
        *,
        batch_size: int = BATCH_SIZE,
        seed: int = 0,
        sample_weight: Any = None,
    ) -> PairBatches:
        """Returns the batches that `fit` trains on, for a custom training loop."""
        return PairBatches(
            self.encode_sources(sources),
            self.target_vocabulary.encode(targets),
            batch_size,
            seed,
            sample_weight=sample_weight,
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
        rows, single = self.token_generation.read_prompts(sources)
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
            pairs, _ = read_pairs(x, rows=call.held_out_rows, advice=advice)
            x = self.encode(*pairs) if isinstance(pairs, Pairs) else pairs[0]
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

    def max_target_length(self, source: np.ndarray) -> int:
        """Returns the default of `max_length`."""
        return 3 * bucket(self.source_length(source)) + 32

    def map_shape(self, source: np.ndarray) -> tuple[int, ...] | None:
        """Returns rows and columns of the feature map of an encoder model, or None."""
        return None

    def source_length(self, source: np.ndarray) -> int:
        """Returns the number of positions of a batch of sources."""
        return source.shape[1]

    def _compiled(self, name):
        """Returns the compiled model of that name, a function of a list of inputs."""
        model, programs = getattr(self, name), kernels.programs(self)
        make = functools.partial(kernels.inference, model, pure=programs.pure)
        return programs.get("model", name, make)

    @property
    def align(self) -> Callable[[list[Tensor]], Tensor]:
        """The compiled `alignment_model`, a function of `[source, target]`."""
        return self._compiled("alignment_model")

    def ids(self, text: str) -> np.ndarray:
        """Returns the ids of a target text, as its tokenizer numbers them."""
        if self.target_tokenizer is None:
            raise ValueError(
                "stop must be ids, as the model has no target_tokenizer, received "
                f"stop={text!r}"
            )
        return self.target_tokenizer.encode(text)
