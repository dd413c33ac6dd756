"""Models without layers that record: the error names them, and how to move."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import tracing
from kerasseq.tracing.unrecorded import COUNTERPARTS

pytestmark = pytest.mark.once("error messages")

X = np.random.default_rng(0).normal(size=(2, 7, 4)).astype("float32")


def model_of(*layers):
    return keras.Sequential([keras.Input((7, 4)), *layers])


def messages(model, key, x=X):
    """The messages for a key of a trace, and of an intervention."""
    with tracing.trace(model) as inside:
        model(x)
    with pytest.raises(KeyError) as traced:
        inside[key]
    with pytest.raises(KeyError) as replaced, tracing.intervene(model, {key: 0.0}):
        model(x)
    return [error.value.args[0] for error in (traced, replaced)]


def recurrent(**options):
    return keras.layers.LSTM(3, return_sequences=True, name="lstm", **options)


def test_layers_of_keras_are_named_with_those_in_their_place():
    ours = kerasseq.layers.GRU(3, name="gru")
    for model in (model_of(recurrent()), model_of(recurrent(), ours)):
        for message in messages(model, "lstm/forget_gate"):
            assert "received keras.layers.LSTM 'lstm'" in message
            assert "kerasseq.layers.LSTM in its place" in message
            assert "call the model" not in message  # which the user did
    both = model_of(keras.layers.Bidirectional(recurrent(), name="both"))
    for message in messages(both, "both/forward_lstm/forget_gate"):
        assert "received keras.layers.LSTM 'both/forward_lstm'" in message
    for message in messages(model_of(recurrent()), "zebra"):
        assert "received keras.layers.LSTM 'lstm'" in message
    layer = keras.layers.GRU(3)
    for message in messages(layer, "update_gate"):
        assert "received keras.layers.GRU. Build" in message
    # A wrong name of a layer that records is what it was.
    for message in messages(model_of(recurrent(), ours), "gru/updategate"):
        assert message.startswith("no 'gru/updategate' was recorded. Did you mean")


def test_layers_without_a_counterpart():
    model = model_of(keras.layers.Dense(3, name="dense"))
    for message in messages(model, "dense/output"):
        assert "received keras.layers.Dense 'dense'. Its output is that of" in message
    layer = model.get_layer("dense")
    y = keras.Model(model.inputs, layer.output)([X])  # as the message says
    assert keras.ops.shape(y) == (2, 7, 3)


def test_models_of_keras_hub():
    hub = pytest.importorskip("keras_hub")
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8}
    backbone = hub.models.GPT2Backbone(
        vocabulary_size=11, max_sequence_length=5, **sizes
    )
    ids = np.ones((1, 3), "int32")
    x = {"token_ids": ids, "padding_mask": ids}
    key = "transformer_layer_0/self_attention/alignment"
    for message in messages(backbone, key, x):
        assert "received keras_hub.models.GPT2Backbone. Save it" in message
    with pytest.raises(ValueError, match=r"recorded none\. Only layers of kerasseq"):
        tracing.logit_lens(backbone, x)
    with tracing.trace(backbone) as inside:
        backbone(x)
    with pytest.raises(ValueError, match=r"without any\. Only layers of kerasseq"):
        tracing.attention_rollout(inside)
    block = keras.Sequential([hub.layers.TransformerEncoder(8, 2, name="block")])
    for message in messages(block, key.replace("transformer_layer_0", "block")):
        assert "received keras_hub.layers.TransformerEncoder 'block'" in message


def test_a_model_that_was_not_called():
    with tracing.trace(model_of(kerasseq.layers.LSTM(3, name="lstm"))) as inside:
        pass
    with pytest.raises(KeyError, match=r"nothing was recorded.*call the model itself"):
        inside["lstm/forget_gate"]


def test_counterparts_are_layers_of_kerasseq():
    assert set(COUNTERPARTS.values()) <= set(kerasseq.layers.__all__)
