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

from collections.abc import Callable
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


class TokenInputs(NamedTuple):
    """A text as the inputs of a model.

    Attributes:
        inputs: The inputs of the model, a batch of one without padding in between.
        tokens: The parts of the text, one for each token.
        places: Where each of them is on the time axis; or float `(tokens, time)`, the
            share that each token has in each step.
    """

    inputs: Any
    tokens: list[str]
    places: np.ndarray


def attribution(
    model: Any, text: str | tuple[str, str], label: Any = None
) -> Attribution:
    """Computes how much each token of a text moved the score of a label.

    Args:
        model: A trained classifier of texts with a tokenizer: a `SequenceClassifier`,
            a `BERT` with the head "classify", or a `GPTTask` with "classify" or
            "entail".
        text: A string; or a pair of strings, if the model takes pairs.
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
        >>> attributed = attribution(model, "abba", "x")
        >>> attributed.tokens, attributed.scores.shape
        (['a', 'b', 'b', 'a'], (4,))
    """
    is_classifier = hasattr(model, "token_inputs") and hasattr(model, "classify")
    if is_classifier and model.labels is None:
        model.classify(text)  # raises: the labels have not been learned yet
    if not is_classifier or getattr(model, "tokenizer", None) is None:
        raise TypeError(
            "model must be a classifier of texts with a tokenizer, such as a "
            f"SequenceClassifier, received {checks.short(model)}"
        )
    if not isinstance(text, str | tuple):
        raise TypeError(f"text must be a string, received {checks.short(text)}")
    if label is None:
        p = model.classify(text, threshold=0.0).probabilities
        label = max(p, key=p.get)
    k = model.labels.index(checks.one_of("label", label, model.labels))
    inputs, tokens, places = model.token_inputs(text)
    e, after = embeddings_of(model, inputs), after_embedding(model)
    with differentiating():
        gradient = kernels.gradients(lambda e: after(e, inputs)[0, k], e)
    scores = ops.convert_to_numpy(ops.sum(e * gradient, axis=-1))[0]
    of_tokens = scores[places] if places.ndim == 1 else places @ scores
    return Attribution(label, tokens, of_tokens.astype("float32"))


def embeddings_of(model: Any, inputs: Any) -> Any:
    """Computes the embeddings of the ids, `(batch, time, width)`."""
    graph = keras.Function(tree.flatten(model.input), model.embedded)
    return graph(tree.flatten(inputs))


def after_embedding(model: Any) -> Callable[[Any, Any], Any]:
    """Returns the function from embeddings, and the inputs, to the outputs of a model.

    Args:
        model: A model with the symbolic tensor `embedded`, the embeddings of its first
            input.
    """
    symbolic = tree.flatten(model.input)
    graph = keras.Function([model.embedded, *symbolic], model.outputs[0])
    return lambda e, inputs: graph([e, *tree.flatten(inputs)])
