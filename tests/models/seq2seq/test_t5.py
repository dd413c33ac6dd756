"""T5: equals KerasHub's, weights, initial values, training on spans."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq.models import T5, architectures
from kerasseq.training import SpanCorruption
from tests.models.seq2seq.transformer_toys import (
    D,
    F,
    L,
    N,
    W,
    fill,
    made,
    numpy,
    pairs,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

SOURCE, TARGET = pairs()
SOURCE %= W  # both sides have one vocabulary
SOURCE[:, 0] = 3


def parts(model):
    """Yields the blocks of a model with the names of KerasHub's."""
    for stack in ("encoder", "decoder"):
        for n in range(L):
            ours = model.get_layer(f"{stack}_block_{n}")
            yield stack, n, ours


def copy_attention(ours, theirs):
    for name in ("query", "key", "value"):
        kernel = numpy(getattr(ours, f"{name}_dense").kernel)
        getattr(theirs, f"{name}_projector").kernel.assign(kernel.reshape(D, -1))
    kernel = numpy(ours.output_dense.kernel)
    theirs.output_projector.kernel.assign(kernel.reshape(-1, D))


def copy_block(ours, theirs, cross):
    copy_attention(ours._self_attention_layer, theirs.self_attention)
    theirs.self_attention_layer_norm.weight.assign(
        ours._self_attention_layer_norm.scale
    )
    if cross:
        copy_attention(ours._cross_attention_layer, theirs.cross_attention)
        theirs.cross_attention_layer_norm.weight.assign(
            ours._cross_attention_layer_norm.scale
        )
    feed = ours._feedforward_sublayer
    if feed.gated:
        theirs.input_projector.kernel.assign(feed.gate_dense.kernel)
        theirs.gate_projector.kernel.assign(feed.intermediate_dense.kernel)
    else:
        theirs.input_projector.kernel.assign(feed.intermediate_dense.kernel)
    theirs.output_projector.kernel.assign(feed.output_dense.kernel)
    theirs.layer_norm.weight.assign(ours._feedforward_layer_norm.scale)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of its own building and masks
@pytest.mark.parametrize("variant", ["t5", "t5 1.1"])
def test_equal_to_keras_hub(variant):
    hub = pytest.importorskip("keras_hub")
    model = fill(made(variant, head_dim=5))
    gated = variant != "t5"
    backbone = hub.models.T5Backbone(
        vocabulary_size=W + 2,
        num_layers=L,
        num_heads=N,
        hidden_dim=D,
        intermediate_dim=F,
        key_value_dim=5,
        dropout=0.0,
        activation="gelu" if gated else "relu",
        use_gated_activation=gated,
        tie_embedding_weights=not gated,
    )
    embedding = model.get_layer("embedding")
    backbone.token_embedding.embeddings.assign(embedding.embeddings)
    for stack, n, ours in parts(model):
        theirs = getattr(backbone, f"{stack}_transformer_layers")[n]
        copy_block(ours, theirs, cross=stack == "decoder")
        if n == 0:
            bias = ours._self_attention_layer.position.embeddings
            theirs.self_attention.relative_attention_bias.assign(bias)
    for stack in ("encoder", "decoder"):
        norm = model.get_layer(f"{stack}_final_norm")
        getattr(backbone, f"{stack}_layer_norm").weight.assign(norm.scale)
    outputs = backbone(
        {
            "encoder_token_ids": SOURCE,
            "encoder_padding_mask": (SOURCE != 0).astype("int32"),
            "decoder_token_ids": TARGET,
            "decoder_padding_mask": np.ones_like(TARGET),
        }
    )
    memory = numpy(model.encoder(ops.convert_to_tensor(SOURCE))[0])
    real = SOURCE != 0
    wanted = numpy(outputs["encoder_sequence_output"])
    np.testing.assert_allclose(memory[real], wanted[real], atol=1e-5)
    y = numpy(outputs["decoder_sequence_output"])
    if gated:
        logits = y @ numpy(embedding.reverse_embeddings)
    else:
        logits = y @ numpy(embedding.embeddings).T / np.sqrt(D)
    np.testing.assert_allclose(numpy(model([SOURCE, TARGET])), logits, atol=2e-5)


def test_one_position_bias_for_encoder_and_decoder_each():
    model = made("t5")
    tables = [w for w in model.weights if tuple(w.shape) == (32, N)]
    assert len(tables) == 2
    layers = {
        stack: {id(b._self_attention_layer.position) for _, _, b in parts(model)}
        for stack in ("encoder", "decoder")
    }
    assert all(len(found) == 2 for found in layers.values())  # both stacks, one each
    objects = [b._self_attention_layer.position for _, _, b in parts(model)]
    assert [p.bidirectional for p in objects] == [True] * L + [False] * L
    cross = model.get_layer("decoder_block_0")._cross_attention_layer
    assert cross.position is None and cross.factor == 1


def test_names_and_number_of_weights():
    paths = [w.path for w in made("t5").weights]
    assert not any(path.endswith(("bias", "beta")) for path in paths)
    assert sum("reverse" in w.path for w in made("t5 1.1").weights) == 1
    assert made("t5", relative_buckets=8).count_params() == (
        made("t5").count_params() - 2 * 24 * N
    )


def test_number_of_weights_of_t5_small():
    row = architectures["t5_small"]
    one = T5.from_architecture(row, num_layers=1).count_params()
    two = T5.from_architecture(row, num_layers=2).count_params()
    assert one + 5 * (two - one) == 60_506_624


@pytest.mark.parametrize("seed", range(3))
def test_untrained_model_depends_on_the_order_of_tokens(seed):
    keras.utils.set_random_seed(seed)
    model = T5(vocabulary_size=13, num_layers=1, hidden_dim=32, dropout=0.0)
    ids = np.arange(4, 11)[None]
    there, back = (
        numpy(model.encoder(ops.array(x))[0])[0] for x in (ids, ids[:, ::-1])
    )
    change = there - back[::-1]
    assert np.abs(change).mean() > 0.05 * np.abs(there).mean()


def test_initial_standard_deviations():
    keras.utils.set_random_seed(0)
    model = T5(vocabulary_size=13, num_layers=1, hidden_dim=97, num_heads=1)
    block = model.get_layer("encoder_block_0")
    attention, inner = block._self_attention_layer, block._feedforward_sublayer
    for dense, wanted in (
        (attention.query_dense, 97**-0.75),  # D^-1/2 K^-1/4
        (attention.value_dense, 97**-0.5),
        (attention.output_dense, 97**-0.5),
        (inner.output_dense, (4 * 97) ** -0.5),
    ):
        std = numpy(dense.kernel).std()
        assert std == pytest.approx(wanted, rel=0.05), dense.name


def test_fit_on_span_corruption():
    keras.utils.set_random_seed(0)
    start = np.random.default_rng(0).integers(1, 8, (32, 1))
    texts = (start + np.arange(12)) % 7 + 1  # each id follows from the one before
    corrupt = SpanCorruption(range(12, 7, -1), rate=0.25, mean_length=3)
    model = T5(
        vocabulary_size=13, num_layers=1, num_heads=2, hidden_dim=16, dropout=0.0
    )
    compiles_fast = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.Adam(0.02), jit_compile=compiles_fast)
    history = model.fit(*corrupt.pairs(texts), batch_size=32, epochs=20, verbose=0)
    assert history.history["loss"][-1] < 0.6 * history.history["loss"][0]
    said = model.translate(corrupt.pairs(texts[:2], start=100)[0])
    assert [t.alignment.ndim for t in said] == [2, 2]


def test_tokenizer_or_vocabulary_size_is_required():
    with pytest.raises(ValueError, match="expected either source_tokenizer, for texts"):
        T5()
