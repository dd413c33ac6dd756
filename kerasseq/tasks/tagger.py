"""Sequence tagging, a label for each step. `tasks/__init__.py` follows `fit`."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.masks import attached_mask
from kerasseq.core.padding import bucket
from kerasseq.core.serialization import register
from kerasseq.core.types import Config
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.crf import CRF
from kerasseq.tasks.heads import Loss, Metrics, TagHead
from kerasseq.tasks.labels import Label
from kerasseq.tasks.sequence_model import SequenceModel
from kerasseq.tasks.tagging import tag, typed_tags
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.training.label_batches import Rows
from kerasseq.training.metrics import RunningMean


class CRFHead(TagHead):
    """Tags that a `CRF` finds together; it has the loss and the accuracy."""

    def targets(self, rows: Rows, y: Any, class_weight: Any = None) -> tuple[Any, Any]:
        if class_weight is not None:
            raise ValueError(
                "class_weight must be None with crf=True, whose loss is that of whole "
                f"sequences, received {class_weight!r}"
            )
        return super().targets(rows, y)

    def loss(self) -> Loss:
        # Keras would trace the model again for each batch to build an unused loss.
        return None

    def metrics(self) -> Metrics:
        return []


@register
class SequenceTagger(SequenceModel):
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

    def head_of(self, arguments: Config) -> TagHead:
        head = CRFHead if arguments["crf"] else TagHead
        return head(arguments["labels"], activation=arguments["activation"])

    def answers_of(self, scores: Any, arguments: Config) -> Any:
        if not arguments["crf"]:
            return scores
        return CRF(scores.shape[-1], name="crf")(scores)

    @property
    def crf(self) -> CRF | None:
        """The `CRF`, or None."""
        return self.get_layer("crf") if self._arguments["crf"] else None

    def real_steps(self, x: Any) -> Any:
        features, value = self._arguments["features"], self._arguments["mask_value"]
        if features is None:
            return super().real_steps(x)
        if value is None:
            return ops.ones(ops.shape(x)[:2], "bool")
        # As the layer of the model compares: in its dtype.
        x = ops.cast(x, self.get_layer("masking").compute_dtype)
        return ops.any(ops.not_equal(x, value), axis=-1)

    def build_layers(self, arguments: Config, options: dict[str, Any]) -> None:
        super().build_layers(arguments, options)
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
        count = ops.sum(ops.cast(labeled, loss.dtype))  # 0 in a part without labels
        loss = ops.sum(loss) / ops.maximum(count, 1) + sum(self.losses)
        return self.loss_means.count(loss, count)

    @typed_tags
    def tag(
        self, x: Any, *, batch_size: int = BATCH_SIZE, missing: str = "error"
    ) -> list[Label] | list[list[Label]]:
        """Finds the most probable tags.

        Args:
            x: A list of words, or a text, which is split at spaces; or several of them;
                or inputs as for `fit`.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves rows with an empty cell (None, NaN, or a text or word
                "") without prediction, and warns with their number; by default they are
                an error.

        Returns:
            A list of tags for one sequence of words, else a list of lists; None for
            rows that are left out. Padding, wherever it is, has no tag.

        Raises:
            ValueError: If cells are empty.

        Examples:
            >>> from kerasseq.models import SequenceTagger
            >>> from kerasseq.text import WordTokenizer
            >>> tokenizer = WordTokenizer().fit("the cat sat")
            >>> model = SequenceTagger("gru", ["DET", "NOUN"], tokenizer=tokenizer)
            >>> [len(tags) for tags in model.tag(["the cat sat", "the cat"])]
            [3, 2]
        """
        options = {"batch_size": batch_size, "missing": missing}
        return tag(self, x, **options, best=self._best_paths if self.crf else None)

    def _best_paths(self, scores, batch_size):
        """Returns the tags of a CRF, for rows of about the same length together."""
        crf, lengths = self.crf, np.array([len(row) for row in scores])
        decode = kernels.programs(self).get(
            "decode", None, lambda: kernels.compiled(crf.decode)
        )
        paths = [None] * len(scores)
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
                    paths[row] = best[: lengths[row]]
        return paths


def _labeled_steps(scores, sample_weight):
    """Returns the mask of the steps with a label, and the weight of each row."""
    mask = attached_mask(scores)
    if sample_weight is None:
        return mask, ops.ones(ops.shape(scores)[:1], scores.dtype)
    sample_weight = ops.cast(sample_weight, scores.dtype)
    if len(sample_weight.shape) == 1:
        return mask, sample_weight
    mask = ops.logical_and(mask, sample_weight > 0)
    return mask, ops.max(sample_weight, axis=1)
