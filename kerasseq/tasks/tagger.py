"""Sequence tagging: many to many, a label for each step."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.masks import attached_mask
from kerasseq.core.padding import bucket, pad_rows
from kerasseq.core.serialization import register
from kerasseq.core.types import Config
from kerasseq.tasks import text_inputs
from kerasseq.tasks.crf import CRF
from kerasseq.tasks.labeling import SequenceLabeler
from kerasseq.tasks.labels import Label
from kerasseq.text.tokenizer import Tokenizer
from kerasseq.training.label_batches import check_rows

METRICS = 4  # arguments of `compile` up to the metrics


@register
class SequenceTagger(SequenceLabeler):
    r"""Labels each step of a sequence. Padding is ignored by loss and metrics.

    $$y_t = W h_t + b$$

    With `crf=True`, these are the scores of a `CRF`, which adds scores for neighboring
    tags, so that the tags of a sequence fit together.

    The inputs are words, ids or vectors:

    | argument | inputs |
    |---|---|
    | `tokenizer` | lists of words; a tag belongs to the first token of a word |
    | `vocabulary_size` | ids: lists, or an array `(rows, time)` with padding 0 |
    | `features` | vectors: an array `(rows, time, features)` |

    Args:
        architecture: A name, as for `SequenceClassifier`, or a layer with outputs
            `(batch, time, units)`.
        labels: The names of the tags; their number, for tags from 0 on; or None: `fit`
            learns the names.
        tokenizer: A fitted tokenizer, or the name of one, as for `SequenceClassifier`.
        crf: Whether a `CRF` finds the tags of a sequence together.
        vocabulary_size: Number of ids, if the inputs are ids.
        features: Number of features, if the inputs are vectors.
        units: Units of each layer, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        bidirectional: Whether a label may depend on later steps: recurrent layers run
            in both directions, and the attention of a Transformer is not causal.
        dropout: Dropout rate of the inputs of each layer.
        embedding_dim: Size of the embedding of an id. `units` if None.
        mask_value: For vectors: a step whose features all have this value is padding.
        activation: "softmax" for probabilities; None for logits, which train the same,
            and which a CRF needs.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a name or number is wrong, or if the layer has no output at each
            step.

    Examples:
        >>> model = SequenceTagger("lstm", tokenizer="word", units=5, crf=True)
        >>> words, tags = [["Ada", "runs"]], [["NAME", "VERB"]]
        >>> history = model.fit(words, tags, verbose=0)
        >>> len(model.tag(["Ada", "runs"]))
        2
        >>> model = SequenceTagger("lstm", 3, vocabulary_size=11, units=5)
        >>> model.predict(np.array([[4, 7, 1, 0]]), verbose=0).shape
        (1, 4, 3)

    References:
        Slides B, C: many to many. Huang, Xu and Yu 2015.
    """

    per_step = True

    def __init__(
        self,
        architecture: str | keras.Layer,
        labels: int | Sequence[Label] | None = None,
        *,
        tokenizer: Tokenizer | str | None = None,
        crf: bool = False,
        vocabulary_size: int | None = None,
        features: int | None = None,
        units: int = 64,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        embedding_dim: int | None = None,
        mask_value: float | None = None,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        functions = [None] if checks.flag("crf", crf) else [None, "softmax"]
        arguments = {
            "architecture": architecture,
            "labels": labels,
            "tokenizer": tokenizer,
            "crf": crf,
            "vocabulary_size": vocabulary_size,
            "features": features,
            "units": units,
            "num_layers": num_layers,
            "bidirectional": bidirectional,
            "dropout": dropout,
            "embedding_dim": embedding_dim,
            "mask_value": mask_value,
            "activation": checks.one_of("activation", activation, functions),
        }
        super().__init__(arguments, **kwargs)

    def outputs_of(self, scores: Any, arguments: Config) -> Any:
        if not arguments["crf"]:
            return scores
        return CRF(scores.shape[-1], name="crf")(scores)

    def default_loss(self) -> keras.losses.Loss | None:
        # Keras would trace the model again for each batch to build an unused loss.
        return None if self._arguments["crf"] else super().default_loss()

    @property
    def crf(self) -> CRF | None:
        """The `CRF`, or None."""
        return self.get_layer("crf") if self._arguments["crf"] else None

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Configures training, as for every model of a task.

        The default metrics are weighted: further tokens of a word have the weight 0.
        With a CRF, the loss is always its own, and the accuracy that of `decode`.
        """
        if len(args) < METRICS and "metrics" not in kwargs:
            metrics = [] if self._arguments["crf"] else self.default_metrics()
            kwargs = {"metrics": [], "weighted_metrics": metrics, **kwargs}
        super().compile(*args, **kwargs)

    def _build_layers(self, arguments, kwargs):
        super()._build_layers(arguments, kwargs)
        if arguments["crf"]:
            # `compute_metrics` has no access to the weights of the CRF on JAX.
            self._path_accuracy = keras.metrics.Mean(name="accuracy")

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        r"""Computes the loss; with a CRF $-\log p(y \mid x)$, as a mean over steps."""
        crf = self.crf
        if crf is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        mask, weights = _real_steps(y_pred, sample_weight)
        right = ops.equal(crf.decode(y_pred, mask), ops.cast(y, "int32"))
        self._path_accuracy.update_state(right, sample_weight=mask)
        loss = ops.sum(crf.loss(y, y_pred, mask), axis=1) * weights
        count = ops.sum(ops.cast(mask, loss.dtype))
        return ops.sum(loss) / ops.maximum(count, 1) + sum(self.losses)

    def tag(self, x: Any, *, batch_size: int = 32) -> list[Label] | list[list[Label]]:
        """Finds the most probable tags.

        Args:
            x: A list of words, or a text, which is split at spaces; or several of them;
                or inputs as for `fit`.
            batch_size: Rows that are processed at once.

        Returns:
            A list of tags for one sequence of words, else a list of lists.

        Examples:
            >>> from kerasseq.text import WordTokenizer
            >>> tokenizer = WordTokenizer().fit("the cat sat")
            >>> model = SequenceTagger("gru", ["DET", "NOUN"], tokenizer=tokenizer)
            >>> [len(tags) for tags in model.tag(["the cat sat", "the cat"])]
            [3, 2]
        """
        if isinstance(x, str):
            return self.tag([x], batch_size=batch_size)[0]
        x = self._plain(x, None)[0]
        if text_inputs.are_texts(x):
            is_one = not any(" " in text.strip() for text in x)
            x = [list(x)] if is_one else [text.split() for text in x]
            if is_one:
                return self.tag(x, batch_size=batch_size)[0]
        names = np.array(self.labels, dtype=object)
        scores = self.predict(x, batch_size=batch_size, verbose=0)
        lengths = _lengths(x) if isinstance(scores, np.ndarray) else None
        if lengths is not None:
            scores = [row[:length] for row, length in zip(scores, lengths, strict=True)]
        if self.crf is None:
            return [names[row.argmax(axis=-1)].tolist() for row in scores]
        return [names[tags].tolist() for tags in self._decoded(scores, batch_size)]

    def _decoded(self, scores, batch_size):
        """The most probable tags of each sequence, of scores `(time, labels)`."""
        crf, lengths = self.crf, np.array([len(row) for row in scores])
        decode = kernels.programs(self).get(
            "decode", None, lambda: kernels.compiled(crf.decode)
        )
        found = [None] * len(scores)
        buckets = np.array([bucket(len(row)) for row in scores])
        for size in np.unique(buckets):
            places = np.flatnonzero(buckets == size)
            for start in range(0, len(places), batch_size):
                rows = places[start : start + batch_size]
                e = np.zeros((len(rows), size, len(self.labels)), "float32")
                for n, row in enumerate(rows):
                    e[n, : lengths[row]] = scores[row]
                mask = np.arange(size) < lengths[rows, None]
                tags = ops.convert_to_numpy(decode(e, mask))
                for row, best in zip(rows, tags, strict=True):
                    found[row] = best[: lengths[row]]
        return found

    def text_rows(
        self, tokenizer: Tokenizer, x: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        if not text_inputs.are_words(x):
            raise TypeError(
                "x must be a list of lists of words, as the model has a tokenizer, "
                f"received {checks.short(x)}"
            )
        return text_inputs.word_rows(tokenizer, x)

    def texts_of(self, x: Any) -> list[str] | None:
        return [" ".join(words) for words in x] if text_inputs.are_words(x) else None

    def all_labels(self, y: Any) -> Any:
        return y

    def targets(
        self, rows: Any, y: Any, first: Any, class_weight: Any
    ) -> tuple[Any, Any]:
        if class_weight is not None and self._arguments["crf"]:
            raise ValueError(
                "class_weight must be None with crf=True, whose loss is that of whole "
                f"sequences, received {class_weight!r}"
            )
        if not isinstance(rows, list):
            y, weights = self._target_array(rows, np.asarray(y))
        else:
            y, weights = self._target_rows(rows, y, first)
        if class_weight is None:
            return y, weights
        flat = np.concatenate(y) if isinstance(y, list) else y.reshape(-1)
        factors = self.weights_of(class_weight, flat)
        if isinstance(y, list):
            pairs = zip(y, weights, strict=True)
            return y, [factors[tags] * weight for tags, weight in pairs]
        return y, factors[y] * (1 if weights is None else weights)

    def _target_array(self, rows, y):
        """Labels of arrays; those below 0 and those of padding are ignored."""
        known = np.ones(y.shape, bool)
        if y.dtype.kind in "iu":
            known = y >= 0
            y = np.where(known, y, self.labels[0])
        y = self._labels.encode(y.reshape(-1)).reshape(y.shape)
        if np.ndim(rows) != 2:
            return y, None if known.all() else known.astype("float32")
        y, known = pad_rows(y), pad_rows(known)
        return y, None if known[rows != 0].all() else known.astype("float32")

    def _target_rows(self, rows, y, first):
        """Labels of rows; of words, at their first tokens."""
        check_rows(rows, y)
        found, weights = [], []
        for n, (row, tags) in enumerate(zip(rows, y, strict=True)):
            places = np.arange(len(row)) if first is None else first[n]
            if len(tags) != len(places):
                what = "ids" if first is None else "words"
                raise ValueError(
                    f"y[{n}] must have a tag for each of {len(places)} {what}, "
                    f"received {len(tags)} tags"
                )
            labels, weight = np.zeros(len(row), "int32"), np.zeros(len(row), "float32")
            labels[places] = self._labels.encode(tags, f"y[{n}]")
            weight[places] = 1
            found.append(labels)
            weights.append(weight)
        return found, weights


def _real_steps(scores, sample_weight):
    """The mask of the steps with a label, and the weight of each row."""
    mask = attached_mask(scores)
    if sample_weight is None:
        return mask, ops.ones(ops.shape(scores)[:1], scores.dtype)
    sample_weight = ops.cast(sample_weight, scores.dtype)
    if len(sample_weight.shape) == 1:
        return mask, sample_weight
    mask = ops.logical_and(mask, sample_weight > 0)
    return mask, ops.max(sample_weight, axis=1)


def _lengths(x):
    """The lengths of rows of ids without padding; None for vectors."""
    if hasattr(x, "ndim"):
        return np.argmax(np.cumsum(x != 0, 1), 1) + 1 if x.ndim == 2 else None
    return [len(row) for row in x]
