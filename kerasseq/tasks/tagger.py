"""One label for each step of a sequence: many to many."""

from kerasseq.core.arguments import own
from kerasseq.core.serialization import register
from kerasseq.tasks.labeller import SequenceLabeller


@register
class SequenceTagger(SequenceLabeller):
    r"""Give every step of a sequence a label of its own. Padding counts nowhere.

    $$y_t = W h_t + b$$

    Args:
        architecture: A name, as for `SequenceClassifier`, or a layer of your own, which
            gives `(batch, time, units)`.
        num_classes: Number of labels.
        vocabulary_size: Number of ids, if the inputs are ids `(batch, time)`. Id 0 is
            padding.
        features: Number of features, if the inputs are vectors
            `(batch, time, features)`.
        units: Width of the layers, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        bidirectional: Whether they read in both directions.
        dropout: Fraction dropped before each layer in training.
        embedding_dim: Width of the vector of an id. `units` if None.
        mask_value: For vectors: a step with only this value is padding.
        activation: "softmax" for probabilities; None for logits, which train the same.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, or if the layer gives no sequence.

    Examples:
        >>> model = SequenceTagger("lstm", 3, vocabulary_size=11, units=5)
        >>> model.predict(np.array([[4, 7, 1, 0]]), verbose=0).shape
        (1, 4, 3)

    References:
        Slides B, C: many to many.
    """

    per_step = True

    def __init__(
        self,
        architecture,
        num_classes,
        *,
        vocabulary_size=None,
        features=None,
        units=64,
        num_layers=1,
        bidirectional=False,
        dropout=0.0,
        embedding_dim=None,
        mask_value=None,
        activation=None,
        **kwargs,
    ):
        super().__init__(own(locals()), **kwargs)
