r"""Which tokens moved a decision: gradient times input.

For the score $y_k$ of a class, a function of the embeddings $e_1, \dots, e_T$ of the
tokens, the attribution of a token is

$$
s_t = e_t \cdot \frac{\partial y_k}{\partial e_t}
$$

It is the change of the score, to first order, if the embedding of the token becomes 0.
For a linear model the attributions and the bias sum to the score.

From: Shrikumar, Greenside and Kundaje, "Learning Important Features Through Propagating
Activation Differences", 2017, section 2.
"""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.tracing.listeners import differentiating


class Attribution(NamedTuple):
    """What moved the decision for a text.

    Attributes:
        label: The label whose score is explained.
        tokens: The parts of the text, one for each token.
        scores: float32 of shape `(tokens,)`: positive ones speak for the label.
    """

    label: Any
    tokens: list[str]
    scores: np.ndarray


def attribution(model: Any, text: str, label: Any = None) -> Attribution:
    """Computes how much each token of a text moved the score of a label.

    Args:
        model: A trained `SequenceClassifier` with a tokenizer.
        text: A string.
        label: The label to explain; the most probable one if None.

    Returns:
        An `Attribution`.

    Raises:
        TypeError: If the model does not classify texts, or `text` is not a string.
        ValueError: If the model does not know the label.

    Examples:
        >>> from kerasseq.models import SequenceClassifier
        >>> from kerasseq.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer().fit("ab")
        >>> model = SequenceClassifier("gru", ["x", "y"], tokenizer=tokenizer, units=3)
        >>> found = attribution(model, "abba", "x")
        >>> found.tokens, found.scores.shape
        (['a', 'b', 'b', 'a'], (4,))
    """
    tokenizer = getattr(model, "tokenizer", None)
    if not hasattr(model, "classify") or tokenizer is None:
        raise TypeError(
            "model must be a SequenceClassifier with a tokenizer, received "
            f"{checks.short(model)}"
        )
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, received {checks.short(text)}")
    if label is None:
        p = model.classify(text, threshold=0.0).probabilities
        label = max(p, key=p.get)
    k = model.labels.index(checks.one_of("label", label, model.labels))
    (ids,), _ = model.text_rows(tokenizer, [text])
    e = model.get_layer("embedding")(ids[None])
    with differentiating():
        gradient = kernels.gradients(lambda e: scores_of(model, e)[0, k], e)
    scores = ops.convert_to_numpy(ops.sum(e * gradient, axis=-1))[0]
    offsets = tokenizer.encode_with_offsets(text).offsets.tolist()
    return Attribution(label, [text[a:b] for a, b in offsets], scores)


def scores_of(model: Any, e: Any) -> Any:
    """Applies the layers of a classifier after the embedding.

    Args:
        model: A `SequenceClassifier`.
        e: Embeddings `(batch, time, width)`, without padding.

    Returns:
        The outputs of the model.
    """
    layers = [layer for layer in model.layers if isinstance(layer, keras.Layer)]
    first = layers.index(model.get_layer("embedding")) + 1
    x = e
    for layer in layers[first:]:
        x = tree.flatten(layer(x))[0]  # without states
    return x
