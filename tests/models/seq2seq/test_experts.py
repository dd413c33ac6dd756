"""Encoder-decoder models with mixtures of experts in their blocks."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models
from kerasseq.layers import MixtureOfExperts, RWKV4ChannelMix

pytestmark = pytest.mark.once("tables of arguments; the layer is tested elsewhere")

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "dropout": 0.0}
E = 3
RANDOM = np.random.default_rng(0)
SOURCE = RANDOM.integers(3, 15, (5, 7)).astype("int32")
TARGET = RANDOM.integers(3, 15, (5, 6)).astype("int32")
SOURCE[0, 4:] = TARGET[0, 3:] = TARGET[1, 5:] = 0


def array(x):
    return keras.ops.convert_to_numpy(x)


def experts(**options):
    keras.utils.set_random_seed(3)
    return MixtureOfExperts(E, 11, name="experts", **options)


def made(**options):
    sizes = {**SIZES, "vocabulary_size": 13, **options}
    return models.T5(**{"feed_forward": [experts(), "relu"], **sizes})


@pytest.mark.full("on each backend, a GPT with experts does the same")
def test_losses_reach_fit_and_files(tmp_path):
    """Decoding with caches equals forward passes, and a file has the losses."""
    mixture = experts(router_aux_loss_coef=2.0, top_k=1, norm_topk_prob=False)
    model = made(num_layers=1, feed_forward=mixture)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    source = np.array([[3, 5, 7, 1], [4, 1, 0, 0]], "int32")
    target = np.array([[0, 7, 6, 5], [0, 4, 9, 9]], "int32")
    target[:, 0] = model.target_vocabulary.start
    logits = model([source, target], training=True)
    state = loaded.run_encoder(source, 4)
    for t in range(4):
        found, state = loaded.decode_step(state, target[:, t])
        np.testing.assert_allclose(array(found), array(logits)[:, t], atol=1e-5)
    added = float(array(sum(model.losses)))
    assert 2 * 2 * 0.99 < added < 2 * 2 * E, "two mixtures, each 2 · 1 or more"
    next_ids = np.roll(target, -1, axis=1)
    task = float(array(model.default_loss()(next_ids, logits)))
    loaded.compile(keras.optimizers.SGD(0.0))
    history = loaded.fit([source, target], next_ids, verbose=0).history
    assert history["loss"][0] == pytest.approx(task + added, rel=1e-4)


def test_padding_of_targets_counts_nowhere():
    """More of it changes no loss of experts, nor the logits."""
    model = made(decoder_feed_forward=experts(router_aux_loss_coef=2.0))
    wide = np.pad(TARGET, ((0, 0), (0, 4)))
    source = np.pad(SOURCE, ((0, 0), (0, 2)))
    first = array(model([SOURCE, TARGET], training=True))
    losses = [float(array(loss)) for loss in model.losses]
    second = array(model([source, wide], training=True))
    np.testing.assert_allclose(
        losses, [float(array(loss)) for loss in model.losses], rtol=1e-5
    )
    assert len(losses) == 3 and losses[1] > 1.9
    real = (TARGET != 0)[..., None]
    np.testing.assert_allclose(first * real, second[:, :6] * real, atol=1e-5)


def test_a_transformer_and_an_encoder_have_them_too():
    mixed = ["gelu", experts()]
    sizes = {**SIZES, "source_vocabulary_size": 13, "target_vocabulary_size": 17}
    model = models.Transformer(**sizes, feed_forward=mixed, intermediate_dim=5)
    for blocks in (model.encoder.blocks, model.decoder.blocks):
        assert blocks[0].intermediate_dim == 5
        assert blocks[1].feed_forward.num_experts == E
    one, two = (b[1].feed_forward for b in (model.encoder.blocks, model.decoder.blocks))
    assert one is not two and one is not mixed[1]
    vectors = models.T5Encoder(vocabulary_size=17, **SIZES, feed_forward=experts())
    assert vectors.predict([[3, 5]], verbose=0).shape[2] == 8
    assert [b.feed_forward.num_experts for b in vectors.encoder.blocks] == [E, E]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feed_forward": ["relu"]}, "each of the 2 blocks, received a list of 1"),
        ({"num_decoder_layers": 3}, "each of the 3 blocks, received a list of 2"),
        ({"decoder_feed_forward": "tanh"}, 'decoder_feed_forward="tanh" is not one of'),
        ({"feed_forward": ["relu", "none"]}, 'feed_forward="none" is not one of'),
        (
            {"feed_forward": MixtureOfExperts(2, 3), "intermediate_dim": 7},
            "received intermediate_dim=7. Leave it out",
        ),
        (
            {"decoder_feed_forward": RWKV4ChannelMix(7)},
            "decoder_feed_forward must carry no states",
        ),
    ],
)
def test_wrong_networks(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)
