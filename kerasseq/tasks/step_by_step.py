"""A classifier step by step: states, gates and the decision after each token."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq import tracing
from kerasseq.core.carried_state import carries_state
from kerasseq.core.padding import pad_rows
from kerasseq.core.types import Tensor
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.labeled_data import learned_rows
from kerasseq.tasks.labels import Label
from kerasseq.tasks.sequence_layers import LastStep, SequencePooling
from kerasseq.tasks.transformer_stack import TransformerStack
from kerasseq.text.surprise import token_texts

if TYPE_CHECKING:
    from kerasseq.tasks.classifier import SequenceClassifier


class Steps(NamedTuple):
    """What a classifier computes for one input, step by step.

    Attributes:
        tokens: The text of each token; ids or numbers of steps as strings for a model
            without a tokenizer.
        labels: The labels, in the order of the probabilities.
        probabilities: float32 `(T, labels)`: row t is the output of the model for the
            input up to step t.
        values: The gates, states and attention weights of the whole input by path, as
            in a trace, without the batch axis.
    """

    tokens: list[str]
    labels: list[Label]
    probabilities: np.ndarray
    values: dict[str, Any]


def step_by_step(model: "SequenceClassifier", x: Any) -> Steps:
    """Classifies each prefix of an input; see `SequenceClassifier.step_by_step`."""
    rows = learned_rows(model, x if isinstance(x, str) else [x])
    row = np.asarray(rows.arrays[0])  # ids (T,) or vectors (T, F)
    if not len(row):
        raise ValueError("x must have at least one step, received an empty input")
    with tracing.trace(model) as inside:
        scores = _scores_at_all_steps(model, row[None])
        if scores is None:
            model(row[None], training=False)
    if scores is None:
        prefixes = model.preprocessor.prefixes(x, row)
        scores = _scores_of_prefixes(model, prefixes)
    values = {  # without the batch, which weights such as a kernel do not have
        key: value[0] if inside.axes(key)[0] == "rows" else value
        for key, value in inside.items()
    }
    return Steps(
        tokens=_tokens(model, x, row),
        labels=list(model.labels),
        probabilities=model.probabilities(scores),
        values=values,
    )


def _tokens(model, x, row):
    if row.ndim > 1:
        return [str(step) for step in range(len(row))]
    if not isinstance(x, str):
        return [str(each) for each in row.tolist()]
    return token_texts(model.tokenizer, x, model.tokenizer.encode(x))


def _sequence_layers(model) -> Sequence[keras.Layer]:
    """Returns the layers between the inputs and the output, which read the sequence."""
    around = (keras.layers.InputLayer, keras.layers.Embedding, keras.layers.Masking)
    layers = [layer for layer in model.layers if not isinstance(layer, around)]
    pooling = (LastStep, SequencePooling)
    return [each for each in layers[:-1] if not isinstance(each, pooling)]


def _scores_at_all_steps(model, inputs: np.ndarray) -> Tensor | None:
    """Returns the outputs `(T, labels)` after each step, in one pass, or None.

    It takes more if an output may depend on later steps, or if there is padding.
    """
    layers, is_ids = _sequence_layers(model), inputs.ndim == 2
    masked = any(isinstance(each, keras.layers.Masking) for each in model.layers)
    masked = masked or (is_ids and (inputs == model.padding_id).any())
    if masked or not all(map(_is_causal, layers)):
        return None
    x = ops.convert_to_tensor(inputs)
    if is_ids:
        x = model.get_layer("embedding")(x)
    for layer in layers:
        if carries_state(layer):
            x, _ = layer.advance(x)
        else:
            x = layer(x, training=False)
    steps = x[0]
    for layer in model.layers:
        if isinstance(layer, SequencePooling):
            steps = layer.of_prefixes(steps)
    return ops.convert_to_numpy(model.get_layer("output")(steps))


def _is_causal(layer):
    if carries_state(layer):
        options = ("go_backwards", "stateful")
        return not any(getattr(layer, option, False) for option in options)
    return isinstance(layer, TransformerStack) and layer.causal


def _scores_of_prefixes(model, prefixes: list[np.ndarray]) -> np.ndarray:
    """Computes outputs `(T, labels)` for each prefix: batches, or one by one."""
    batches = [prefix[None] for prefix in prefixes]
    if prefixes[0].ndim == 1:
        starts = range(0, len(prefixes), BATCH_SIZE)
        parts = [prefixes[start:][:BATCH_SIZE] for start in starts]
        batches = [pad_rows(part, model.padding_id) for part in parts]
    scores = [model(batch, training=False) for batch in batches]
    return np.concatenate([ops.convert_to_numpy(each) for each in scores])
