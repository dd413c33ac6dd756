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
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.fitted import check_fitted
from kerasseq.tasks.labeling import SequenceLabeler
from kerasseq.tasks.labels import Label
from kerasseq.tasks.tagging import (
    TaggerMixin,
    all_tags,
    tag_array,
    tag_rows,
    weighted_tags,
)
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.tracing.attribution import TokenInputs
from kerasseq.training.metrics import RunningMean

METRICS = 4  # arguments of `compile` up to the metrics


@register
class SequenceTagger(TaggerMixin, SequenceLabeler):
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
        num_layers: Number of layers, for an architecture by name; the stacks of a
            WaveNet.
        bidirectional: Whether a label may depend on later steps: layers run in both
            directions, and the attention of a Transformer is not causal.
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
        tokenizer: AnyTokenizer | str | None = None,
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

        Metrics are weighted: padding and further tokens of a word have the weight 0.
        With a CRF, the loss is always its own, and the accuracy that of `decode`.
        """
        if len(args) < METRICS and "metrics" not in kwargs:
            metrics = [] if self._arguments["crf"] else self.default_metrics()
            kwargs = {"metrics": [], "weighted_metrics": metrics, **kwargs}
        super().compile(*args, **kwargs)

    def real_steps(self, x: Any) -> Any:
        features, value = self._arguments["features"], self._arguments["mask_value"]
        if features is None:
            return super().real_steps(x)
        if value is None:
            return ops.ones(ops.shape(x)[:2], "bool")
        # As the layer of the model compares: in its dtype.
        x = ops.cast(x, self.get_layer("masking").compute_dtype)
        return ops.any(ops.not_equal(x, value), axis=-1)

    def _build_layers(self, arguments, kwargs):
        super()._build_layers(arguments, kwargs)
        if arguments["crf"]:
            # `compute_metrics` has no access to the weights of the CRF on JAX.
            self._path_accuracy = RunningMean(name="accuracy")

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
        labeled, weights = _labeled_steps(y_pred, sample_weight)
        # As `tag` decodes: the first tokens of words, and else all but padding.
        words = self._arguments["tokenizer"] is not None
        steps = labeled if words else attached_mask(y_pred)
        right = ops.equal(crf.decode(y_pred, steps), ops.cast(y, "int32"))
        counted = ops.cast(labeled, weights.dtype) * weights[:, None]
        self._path_accuracy.update_state(
            ops.reshape(right, (-1,)), sample_weight=ops.reshape(counted, (-1,))
        )
        loss = ops.sum(crf.loss(y, y_pred, labeled), axis=1) * weights
        count = ops.maximum(ops.sum(ops.cast(labeled, loss.dtype)), 1)
        loss = ops.sum(loss) / count + sum(self.losses)
        self._count_loss(loss, y_pred, count)
        return loss

    def best_tags(
        self, scores: Sequence[np.ndarray], batch_size: int
    ) -> Sequence[np.ndarray]:
        if self.crf is None:
            return super().best_tags(scores, batch_size)
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

    def token_inputs(self, text: str) -> TokenInputs:
        """Returns words, separated by spaces, as inputs with their tokens."""
        check_fitted(self)
        (ids,), _ = self.text_rows(self.tokenizer, [text.split()])
        text = " ".join(text.split())
        offsets = self.tokenizer.encode_with_offsets(text).offsets.tolist()
        tokens = [text[a:b] for a, b in offsets]
        return TokenInputs(ids[None], tokens, np.arange(len(ids)))

    def texts_of(self, x: Any) -> list[str] | None:
        return [" ".join(words) for words in x] if text_inputs.are_words(x) else None

    def all_labels(self, y: Any) -> Any:
        return all_tags(y)

    def targets(
        self, rows: Any, y: Any, first: Any, class_weight: Any
    ) -> tuple[Any, Any]:
        if class_weight is not None and self._arguments["crf"]:
            raise ValueError(
                "class_weight must be None with crf=True, whose loss is that of whole "
                f"sequences, received {class_weight!r}"
            )
        labels = self._labels
        if isinstance(rows, list):
            y, weights = tag_rows(labels, y, [len(row) for row in rows], first)
        else:
            array = as_array(y)
            if array is None:
                raise ValueError(
                    f"y must be an array (rows, steps), as x is, received "
                    f"{checks.short(y)}, which are of several lengths"
                )
            y, weights = self._target_array(rows, array)
        return y, weighted_tags(labels, y, weights, class_weight)

    def _target_array(self, rows, y):
        """Labels of arrays; those below 0 and those of padding are ignored."""
        y, known = tag_array(self._labels, y)
        if np.ndim(rows) != 2:
            return y, None if known.all() else known.astype("float32")
        y, known = pad_rows(y), pad_rows(known)
        is_all = known[rows != self.padding_id].all()
        return y, None if is_all else known.astype("float32")


def _labeled_steps(scores, sample_weight):
    """The mask of the steps with a label, and the weight of each row."""
    mask = attached_mask(scores)
    if sample_weight is None:
        return mask, ops.ones(ops.shape(scores)[:1], scores.dtype)
    sample_weight = ops.cast(sample_weight, scores.dtype)
    if len(sample_weight.shape) == 1:
        return mask, sample_weight
    mask = ops.logical_and(mask, sample_weight > 0)
    return mask, ops.max(sample_weight, axis=1)
