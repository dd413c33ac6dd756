"""Sequence classification: many to one. `tasks/__init__.py` follows `fit`."""

from collections.abc import Sequence
from typing import Any, Self

import keras

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, one_or_several
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.class_labels import Classification, classify
from kerasseq.tasks.heads import ClassHead
from kerasseq.tasks.labels import Label
from kerasseq.tasks.sequence_layers import POOLINGS
from kerasseq.tasks.sequence_model import SequenceModel
from kerasseq.tasks.step_by_step import Steps, step_by_step
from kerasseq.text.tokenizers.conversion import AnyTokenizer


@register
class SequenceClassifier(SequenceModel):
    r"""Classifies a sequence, from the outputs at its real steps, pooled to one vector.

    | `pooling` | scores |
    |---|---|
    | "last" | $y = W h_T + b$ |
    | "mean" | $y = W \bar h + b$, with $\bar h = \frac{1}{T} \sum_t h_t$ |
    | "max" | $y = W \hat h + b$, with $\hat h_c = \max_t h_{t,c}$ |
    | "mean_max" | $y = W [\bar h, \hat h] + b$ |

    The architecture "bag" is fastText's classifier: $h_t$ are the embeddings, of the
    tokens and of the hashed n-grams of 2 to 4 characters of the first 2048 characters,
    and $\bar h$ is their mean, with dropout before and after it. It has neither
    `num_layers` nor `bidirectional`, and no n-grams for ids or vectors.

    The inputs are texts, ids or vectors:

    | argument | inputs |
    |---|---|
    | `tokenizer` | strings: a list, an array, a column of a table, a `tf.data` set |
    | `vocabulary_size` | ids: lists, or an array `(rows, time)` with padding 0 |
    | `features` | vectors: an array `(rows, time, features)` |

    Args:
        architecture: "elman", "gated", "lstm", "peephole_lstm", "full_peephole_lstm",
            "coupled_lstm", "gru", "min_gru", "min_lstm", "slstm", "transformer",
            "blockwise", "longformer", "adaptive_span", "wavenet",
            "linear_attention", "gla", "retention", "delta_net", "mlstm", "rwkv7",
            "s4d", "mamba", "rwkv4", "bag", or a layer with outputs
            `(batch, units)` or `(batch, time, units)`. With `bidirectional` also
            "reformer" and "linformer", which read later steps.
        labels: The names of the classes; their number, for labels from 0 on; or None:
            `fit` learns the names.
        tokenizer: A fitted tokenizer; or "character", "word", "bpe", "wordpiece" or
            "unigram": `fit` trains it on the texts, with at most 1000 tokens.
        multi_label: Whether an input may have several labels, or none. Labels are lists
            then, or arrays of 0 and 1.
        vocabulary_size: Number of ids, if the inputs are ids.
        features: Number of features, if the inputs are vectors.
        units: Units of each layer, for an architecture by name; of a bag the size of an
            embedding.
        num_layers: Number of layers, for an architecture by name; the stacks of a
            WaveNet.
        bidirectional: Whether an output of a layer may depend on later steps: layers
            run in both directions, and the attention of a Transformer is not causal.
        dropout: Dropout rate of the inputs of each layer; of a bag that of the
            embeddings and of their mean.
        embedding_dim: Size of the embedding of an id. `units` if None.
        mask_value: For vectors: a step whose features all have this value is padding.
        pooling: "last", "mean", "max" or "mean_max", without padding; a layer with
            outputs `(batch, units)` has nothing to pool. None for "mean_max" of texts,
            "last" of ids and vectors, and the mean of a bag.
        activation: "softmax" for probabilities, "sigmoid" with `multi_label`; None for
            logits, which train the same.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a name or number is wrong, or not exactly one of `tokenizer`,
            `vocabulary_size` and `features` is given.

    Examples:
        >>> model = SequenceClassifier("gru", tokenizer="character", units=3)
        >>> history = model.fit(["ja", "nein"], ["yes", "no"], verbose=0)
        >>> model.labels, model.classify("ja").label in model.labels
        (['no', 'yes'], True)
        >>> model = SequenceClassifier("gru", 2, vocabulary_size=11, units=3)
        >>> model.predict(np.array([[4, 7, 1, 0]]), verbose=0).shape
        (1, 2)

    References:
        Slides B, C: many to one. Joulin, Grave, Bojanowski and Mikolov, "Bag of Tricks
        for Efficient Text Classification", 2016.
    """

    def __init__(
        self,
        architecture: str | keras.Layer,
        labels: int | Sequence[Label] | None = None,
        *,
        tokenizer: AnyTokenizer | str | None = None,
        multi_label: bool = False,
        vocabulary_size: int | None = None,
        features: int | None = None,
        units: int = 64,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        embedding_dim: int | None = None,
        mask_value: float | None = None,
        pooling: str | None = None,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        function = "sigmoid" if checks.flag("multi_label", multi_label) else "softmax"
        arguments = {
            "architecture": architecture,
            "labels": labels,
            "tokenizer": tokenizer,
            "multi_label": multi_label,
            "vocabulary_size": vocabulary_size,
            "features": features,
            "units": units,
            "num_layers": num_layers,
            "bidirectional": bidirectional,
            "dropout": dropout,
            "embedding_dim": embedding_dim,
            "mask_value": mask_value,
            "pooling": checks.one_of("pooling", pooling, [None, *POOLINGS]),
            "activation": checks.one_of("activation", activation, [None, function]),
        }
        super().__init__(arguments, **kwargs)

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """Makes the model again; files without `pooling` have that of the last step."""
        return super().from_config({"pooling": "last", **config}, custom_objects)

    def head_of(self, arguments: Config) -> ClassHead:
        names = ("labels", "multi_label", "activation")
        return ClassHead(*(arguments[name] for name in names))

    @one_or_several(Classification)
    def classify(
        self,
        x: Any,
        *,
        threshold: float = 0.5,
        batch_size: int = BATCH_SIZE,
        missing: str = "error",
    ) -> Classification | list[Classification]:
        """Finds the most probable label, or with `multi_label` all probable ones.

        Args:
            x: One input, such as a text, or several as for `fit`.
            threshold: With `multi_label`: the least probability of a label.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves rows with an empty cell (None, NaN, or a text or word
                "") without prediction, and warns with their number; by default they are
                an error.

        Returns:
            A `Classification` for one input, else a list of them; None for rows that
            are left out.

        Raises:
            ValueError: If the labels have not been learned yet, or cells are empty.

        Examples:
            >>> from kerasseq.models import SequenceClassifier
            >>> from kerasseq.text import CharacterTokenizer
            >>> tokenizer = CharacterTokenizer().fit("yes no")
            >>> model = SequenceClassifier("gru", ["no", "yes"], tokenizer=tokenizer)
            >>> [each.label in ("no", "yes") for each in model.classify(["no", "on"])]
            [True, True]
        """
        options = {"batch_size": batch_size, "missing": missing}
        return classify(self, x, threshold=threshold, **options)

    def step_by_step(self, x: Any) -> Steps:
        """Computes states, gates and the probabilities of the labels after each step.

        Recurrent layers and causal Transformers take one pass, and pool the steps so
        far; where an output depends on later steps, and for a bag, the model classifies
        each prefix.

        Args:
            x: One text, ids `(T,)`, or vectors `(T, features)`, as for `fit`.

        Returns:
            A `Steps` tuple: tokens, labels, probabilities `(T, labels)`, and values by
            path, such as `"lstm/forget_gate"` `(T, units)`.

        Raises:
            TypeError: If the input has the wrong type.
            ValueError: If the labels have not been learned yet, or `x` is empty.

        Examples:
            >>> from kerasseq.text import CharacterTokenizer
            >>> tokenizer = CharacterTokenizer().fit("()")
            >>> model = SequenceClassifier("lstm", 2, tokenizer=tokenizer, units=3)
            >>> steps = model.step_by_step("(())")
            >>> steps.tokens, steps.probabilities.shape
            (['(', '(', ')', ')'], (4, 2))
            >>> steps.values["lstm/forget_gate"].shape
            (4, 3)
        """
        return step_by_step(self, x)
