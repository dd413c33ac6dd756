"""Training, evaluation and scoring of causal language models on texts.

A text may be a string, a list of strings, a file or an array of ids.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.ids import check_inputs
from kerasseq.core.padding import padded
from kerasseq.core.types import Tensor, method_of
from kerasseq.models import answer_rows, answers, generation, inspection, shard_rows
from kerasseq.models.answer_rows import AnswerRows
from kerasseq.models.text_blocks import (
    TextCut,
    TextRows,
    are_texts,
    as_ids,
    check_no_file_name,
    first_ids,
    known_ids,
    read_texts,
    scoring_rows,
    text_of_file,
)
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.data_checks import check_id_arrays, check_targets
from kerasseq.tasks.fit_call import FitCall, of_parts, parts_of
from kerasseq.tasks.input_rows import check_not_empty
from kerasseq.tasks.loss_means import weights_of_positions
from kerasseq.tasks.streaming import repeated, streamed
from kerasseq.text.surprise import Surprise, token_texts
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training import BitsPerCharacter
from kerasseq.training.batches import KerasData, TrainingRows


class CausalLM(TaskModel):
    """A model from ids `(B, T)` to logits `(B, T, V)` of the next token after each.

    A subclass builds the graph; its arguments include `tokenizer` and
    `vocabulary_size`.
    """

    context_length: int | None = None  # the most tokens of a text, if positions end
    fit_options: tuple[str, ...] = ("sequence_length",)
    evaluate_options: tuple[str, ...] = ("sequence_length",)
    cut: TextCut = TextCut()
    token_generation: property = property(generation.TokenGeneration)
    default_sampler: str = "random"
    compiles_loop: bool = True  # of decoding, as a whole
    answer_batches: Callable[..., Any] = answers.answer_batches
    sample_answers: Callable[..., Any] = answers.sample_answers

    def __init__(
        self, inputs: Tensor, outputs: Tensor, arguments: dict[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(inputs, outputs, arguments, **kwargs)
        self.tokenizer: Tokenizer | None = arguments["tokenizer"]
        size = known_ids(self.tokenizer, arguments["vocabulary_size"])
        self.vocabulary_size: int = size

    def _check_causal(self, name: str) -> None:
        """Raises if the first outputs depend on the last input.

        They may differ by rounding, as a convolution by Fourier transforms mixes the
        rounding errors of all steps.

        Args:
            name: What the message says sees the future.
        """
        if self.vocabulary_size < 2:
            return
        ids = np.zeros((1, min(7, self.context_length or 7)), "int32")
        other = ids.copy()
        other[0, -1] = 1
        before, after = (
            ops.convert_to_numpy(ops.cast(self(i), "float32"))[0] for i in (ids, other)
        )
        rounding = 1e-2 if self.compute_dtype in ("float16", "bfloat16") else 1e-5
        change = np.max(np.abs(after - before)[:-1], initial=0)
        if change > rounding * np.max(np.abs(before)):
            raise ValueError(
                f"{name} sees the future: its outputs at early steps depend on later "
                "tokens, which it must predict. A bidirectional layer cannot be used "
                "here"
            )

    @method_of(generation.generate)
    def generate(self): ...

    @method_of(generation.stream)
    def stream(self): ...

    @method_of(inspection.next_tokens)
    def next_tokens(self): ...

    @method_of(inspection.search_tree)
    def search_tree(self): ...

    def default_loss(self) -> keras.losses.Loss:
        # A mean over what counts, such as answers, and not over all that is read.
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return [BitsPerCharacter(name="bits")]

    def counted(self, x: Any, sample_weight: Any) -> Any:
        if self.token_head is None:
            return sample_weight
        return weights_of_positions(keras.tree.flatten(x)[0], sample_weight)

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str | None = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        r"""Configures training like `TaskModel.compile`; the default is Adam at 3e-3.

        Args:
            optimizer: Adam at 3e-3, with gradients clipped to a global norm of 1.
            loss: The mean of $-\ln p$ of the next tokens.
            loss_weights: As for `keras.Model.compile`.
            metrics: Bits per token of what counts.
            **kwargs: As for `TaskModel.compile`.
        """
        if optimizer is None:
            optimizer = keras.optimizers.Adam(3e-3, global_clipnorm=1.0)
        if metrics is None and kwargs.get("weighted_metrics") is None:
            metrics, kwargs["weighted_metrics"] = [], self.default_metrics()
        super().compile(optimizer, loss, loss_weights, metrics, **kwargs)

    def training_data(self, call: FitCall) -> KerasData | TrainingRows:
        length = shard_rows.block_length(call.x, call.own.get("sequence_length"))
        length = call.own["sequence_length"] = self._block_length(length, 64)
        x = shard_rows.opened(self, call.x, length)
        rows = answers.rows_of_answers(
            self, x, call.y, call.sample_weight, sequence_length=length
        )
        if rows is not None:
            call.refuse("for answers and whole documents", "class_weight")
            return AnswerRows(rows, self.padded_inputs, answers.longest_row(self))
        x, is_streamed = streamed(
            text_of_file(x), call.y, call.steps_per_epoch, call.validation_split
        )
        call.streamed = is_streamed
        if is_streamed:
            call.refuse("for a stream of texts", "sample_weight", "class_weight")
            texts = repeated(x)
            return KerasData(self.cut.stream(texts, self.ids, length, call.batch_size))
        x, y = read_texts(x, call.y)
        check_not_empty(x)
        ids = self.ids(x) if y is None else None
        if ids is not None:
            call.refuse("for a text", "sample_weight", "class_weight")
            check_no_file_name(x, len(ids), length)
            return TextRows(ids, self.cut, length)
        check_id_arrays(x)
        self._check_ids(x, y)
        check_targets(x, y)
        return KerasData(x, y, call.sample_weight, call.class_weight)

    def training_on(
        self, call: FitCall, source: Any, arguments: dict[str, Any]
    ) -> contextlib.AbstractContextManager[dict[str, Any]]:
        return self.cut.training_on(call, source, arguments)

    def padded_inputs(self, ids: np.ndarray, real: np.ndarray) -> Any:
        """Returns what the model reads of rows that are padded on the right.

        Padding changes no output before it, as the model is causal.

        Args:
            ids: `(B, T)`.
            real: Boolean `(B, T)`, False at padding.
        """
        return ids

    def held_out_data(self, call: FitCall) -> Any:
        data, length = call.validation_data, call.own.get("sequence_length")
        x, y, weights = parts_of(data)
        if call.method == "evaluate":
            x, length = shard_rows.evaluated(self, x, 64 if length is None else length)
        else:
            x = shard_rows.opened(self, x, length)
        rows = answers.rows_of_answers(self, x, y, weights, sequence_length=length)
        if rows is not None:
            return answer_rows.arrays(rows, self.padded_inputs)
        x, y = self._read(x, y, call.held_out_rows, length)
        check_not_empty(x, call.method)
        ids = self.ids(x) if y is None else None
        if ids is None:
            check_id_arrays(x)
            self._check_ids(x, y)
            return of_parts(x, y, weights)
        if weights is not None:
            raise ValueError(
                "sample_weight must be left out for a text, received "
                f"{checks.short(weights)}"
            )
        if call.method == "evaluate":  # of a short text, one block
            positions = self.context_length or len(ids)
            length = min(length, max(len(ids) - 1, 1), positions)
        return self.cut.blocks(ids, length, call.held_out_size)

    def evaluating_on(
        self, arguments: dict[str, Any]
    ) -> contextlib.AbstractContextManager[dict[str, Any]]:
        return self.cut.evaluating_on(arguments)

    def _read(self, x, y, rows, sequence_length):
        """Texts as a list; of a stream the ids of some rows; others as they are."""
        x, is_limited = streamed(text_of_file(x), y, rows, None)
        if is_limited:
            return first_ids(x.rows(), self.ids, rows * sequence_length + 1), None
        return read_texts(x, y)

    def predicted(self, call: FitCall, outputs: Callable[..., Any]) -> Any:
        x, _ = read_texts(call.x, rows=call.held_out_rows)
        if isinstance(x, list | tuple) and not x:
            return []
        if are_texts(x):
            lengths = [len(self.ids(text)) for text in x]
            logits = outputs(self.encode(x))
            return [each[:n] for each, n in zip(logits, lengths, strict=True)]
        ids = self.ids(x)
        if ids is not None:
            x = ids[None]
            self._check_length(len(ids))
        else:
            check_id_arrays(x)
        self._check_ids(x)
        return outputs(x)

    def encode(self, x: str | list[str]) -> np.ndarray:
        """Returns texts as the batch of ids that the model reads.

        Args:
            x: A text, or a list of texts.

        Returns:
            int32 `(B, T)`, the ids of the tokenizer; `(1, T)` for one text. Shorter
            rows end with 0, which changes no output before it, as the model is causal.

        Raises:
            TypeError: If `x` is no text and no list of texts.
            ValueError: If a text is empty, or the model has no tokenizer.

        Examples:
            >>> import kerasseq
            >>> tokenizer = kerasseq.text.CharacterTokenizer(unknown=None).fit("abc")
            >>> model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
            >>> model.encode("cab").tolist(), keras.ops.shape(model(model.encode("ca")))
            ([[2, 0, 1]], (1, 2, 3))
        """
        texts = [x] if isinstance(x, str) else read_texts(x)[0]
        if not are_texts(texts):
            raise TypeError(
                f"x must be a text or a list of texts, received {checks.short(x)}"
            )
        return padded([self.ids(text) for text in texts])

    def _check_ids(self, *arrays: Any) -> None:
        """Raises if an id is outside the vocabulary."""
        for each in arrays:
            check_inputs(each, {"ids": self.vocabulary_size})

    def _block_length(self, sequence_length: int | None, default: int) -> int:
        """Tokens of a block, checked; as many as the model reads if None is given."""
        if sequence_length is None:
            return min(default, self.context_length or default)
        length = checks.whole_number("sequence_length", sequence_length)
        self._check_length(length)
        return length

    def _check_length(self, sequence_length: int) -> None:
        """Raises if rows are longer than the position embeddings."""
        if self.context_length is not None and sequence_length > self.context_length:
            raise ValueError(
                f"sequence_length must be at most the {self.context_length} positions "
                f"of the model, received {sequence_length}. Choose shorter blocks, or "
                "build the model with a larger max_sequence_length"
            )

    def ids(self, source: Any) -> np.ndarray | None:
        """Returns the ids of a text, a file or an array `(tokens,)`; else None."""
        return as_ids(source, self.tokenizer, self.vocabulary_size)

    def cross_entropy(
        self, source: Any, *, batch_size: int = 32, sequence_length: int | None = None
    ) -> float:
        r"""Computes the mean of $-\ln p$ over all tokens of a text but the first.

        Args:
            source: A text, file or ids, as for `fit`.
            batch_size: Rows of a forward pass.
            sequence_length: The text is scored in rows of this length. The first
                quarter of each row is context. If None, the model's longest, at most
                256.

        Returns:
            Mean in nats per token.

        Raises:
            TypeError: If `source` is none of these.
            ValueError: If a row is longer than the positions, or an id out of range.
        """
        total = count = 0
        for log_p in self._log_probabilities(
            self._scored_ids(source), batch_size, sequence_length
        ):
            total -= log_p.sum()
            count += len(log_p)
        return float(total / count)

    def surprise(
        self, source: Any, *, batch_size: int = 32, sequence_length: int | None = None
    ) -> Surprise:
        """Computes the surprise of each token of a text: −log₂ p, given those before.

        Args:
            source: A text, file or ids, as for `fit`.
            batch_size: As for `cross_entropy`.
            sequence_length: As for `cross_entropy`.

        Returns:
            A `text.Surprise` with the tokens and their bits; NaN for the first token,
            which the model does not predict.

        Raises:
            TypeError: If `source` is none of these.
            ValueError: If there are fewer than two tokens, or an id is out of range.

        Examples:
            >>> import kerasseq
            >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("ab")
            >>> model = kerasseq.models.LanguageModel("gru", tokenizer, units=3)
            >>> surprise = model.surprise("abba")
            >>> surprise.tokens, surprise.bits.shape
            (['a', 'b', 'b', 'a'], (4,))
        """
        ids = self._scored_ids(source)
        parts = [*self._log_probabilities(ids, batch_size, sequence_length)]
        log_p = np.concatenate(parts)
        bits = np.concatenate([[np.nan], np.abs(log_p) / math.log(2)])
        source = source if isinstance(source, str) else None
        return Surprise(token_texts(self.tokenizer, source, ids), bits)

    def _scored_ids(self, source: Any) -> np.ndarray:
        """Returns the ids of a text whose tokens are scored."""
        ids = self.ids(read_texts(shard_rows.one_text(self, source))[0])
        if ids is None:
            raise TypeError(
                "source must be a text, a file or ids of shape (tokens,), received "
                f"{checks.short(source)}. Score each text of a batch by itself"
            )
        return ids

    def _log_probabilities(
        self, ids: np.ndarray, batch_size: int, sequence_length: int | None
    ) -> Iterator[np.ndarray]:
        """Yields the log-probabilities of the tokens but the first, batch by batch."""
        sequence_length = self._block_length(sequence_length, 256)
        for x, y, counted in scoring_rows(ids, sequence_length, batch_size):
            if kernels.is_uncompiled():  # as inside `tracing.intervene`
                logits = keras.ops.convert_to_numpy(self(x, training=False))
            else:
                logits = self.predict_on_batch(x)
            logits = np.asarray(logits, "float64")
            logits -= logits.max(axis=-1, keepdims=True)
            log_p = np.take_along_axis(logits, y[..., None], axis=-1)[..., 0]
            log_p -= np.log(np.exp(logits).sum(axis=-1))
            yield log_p[counted]

    def bits_per_token(self, source: Any, **kwargs: Any) -> float:
        """Returns `cross_entropy` in bits; per character with a character tokenizer."""
        return self.cross_entropy(source, **kwargs) / math.log(2)
