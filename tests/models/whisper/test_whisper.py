"""Whisper's equations, caches, windows and counts."""

import math

import keras
import numpy as np
import pytest
from keras import ops
from safetensors.numpy import load_file

from kerasseq import kernels, layers, models
from kerasseq.models.whisper.encoder import SoundWindow, sinusoids
from tests.models.whisper.toys import (
    DECODER,
    ENCODER,
    D,
    M,
    N,
    Reference,
    T,
    V,
    ids,
    sounds,
    whisper,
)

pytestmark = pytest.mark.everywhere("encoder, decoder and caches of each backend")


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture(scope="module")
def model():
    return whisper()


@pytest.fixture(scope="module")
def reference(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper") / "folder"
    models.save_pretrained(model, folder)
    return Reference(load_file(folder / "model.safetensors"), N)


@pytest.fixture(scope="module")
def expected(model, reference):
    """Two sounds, ids, and what the equations give for them."""
    audio, target = sounds(1.0, 0.61), ids(2, 7)
    inputs = model.encode(audio, [row.tolist() for row in target])
    inputs["target"] = target
    frames = numpy(layers.LogMelSpectrogram(M)(inputs["audio"]))
    memory = reference.encode(frames)
    return inputs, memory, *reference.decode(target, memory)


def test_it_computes_the_equations(model, expected):
    inputs, memory, logits, attention = expected
    target, sounds = model.input["target"], dict(model.input)
    del sounds["target"]
    x = model.encoder(sounds)
    y = model.decoder(target, x, None)
    (weights,) = model.decoder.cross_attentions(target, x, None, [0])
    whole = keras.Model(model.input, [x, y, weights])  # one program to compile
    found = whole.predict(inputs, verbose=0)
    np.testing.assert_allclose(found[0], memory, atol=1e-5)
    np.testing.assert_allclose(found[1], logits, atol=1e-4)
    assert found[2].shape == (2, N, 7, 50)
    np.testing.assert_allclose(found[2], attention[0], atol=1e-5)


def test_steps_with_caches_are_the_whole(model, expected):
    inputs, _, logits, _ = expected
    step = kernels.compiled(lambda *given: model.step(*given), pure=True)
    state, kept = model.initial_state(inputs["audio"], 9), np.arange(V) != V - 2
    for t, tokens in enumerate(inputs["target"].T):
        found, state = step(state, ops.convert_to_tensor(tokens))
        found = numpy(found)
        assert np.isneginf(found[:, V - 2]).all()  # the start is never written
        np.testing.assert_allclose(found[:, kept], logits[:, t, kept], atol=1e-4)


def test_what_is_beyond_a_sound_counts_as_zero():
    inputs = {"audio": np.arange(1.0, 11).reshape(2, 5), "lengths": np.array([2, 5])}
    inputs["audio"][0, 2:] = np.nan
    for size, expected in (
        (3, [[1, 2, 0], [6, 7, 8]]),
        (7, [[1, 2, 0, 0, 0, 0, 0], [6, 7, 8, 9, 10, 0, 0]]),
    ):
        assert numpy(SoundWindow(size)(inputs)).tolist() == expected


@pytest.mark.once("SoundWindow is tested on each backend")
def test_a_sound_alone_is_as_beside_longer_ones(model, expected):
    inputs, _, logits, attention = expected
    count = int(inputs["lengths"][1])
    alone = {name: x[1:] for name, x in inputs.items()}
    alone["audio"] = alone["audio"][:, :count]
    np.testing.assert_allclose(numpy(model(alone)), logits[1:], atol=1e-4)
    np.testing.assert_allclose(model.predict(inputs, verbose=0), logits, atol=1e-4)
    state = model.initial_state(alone["audio"], 9)
    first, _ = model.step(state, ops.convert_to_tensor(alone["target"][:, 0]))
    np.testing.assert_allclose(numpy(first)[0, :30], logits[1, 0, :30], atol=1e-4)
    found = model.cross_attentions(alone["audio"], alone["target"])
    for weights, wanted in zip(found, attention, strict=True):
        np.testing.assert_allclose(numpy(weights), wanted[1:], atol=1e-5)


@pytest.mark.once("NumPy")
def test_positions_are_sines_then_cosines():
    found = sinusoids(5, 6)
    for t in range(5):
        for i, omega in enumerate((1, 10_000**-0.5, 10_000**-1)):
            assert found[t, i] == pytest.approx(math.sin(t * omega))
            assert found[t, 3 + i] == pytest.approx(math.cos(t * omega))


@pytest.mark.once("shapes")
def test_the_weights(model):
    sizes = {weight.path: tuple(weight.shape) for weight in model.weights}
    assert sizes["encoder_convolution_1/kernel"] == (3, M, D)
    assert sizes["encoder_position/embeddings"] == (50, D)
    assert sizes["decoder_position_embedding/embeddings"] == (T, D)
    assert not any("key/bias" in path for path in sizes)
    biases = {"query/bias", "value/bias", "attention_output/bias"}
    for block, parts in {
        f"encoder_block_{ENCODER - 1}": ("self_attention",),
        f"decoder_block_{DECODER - 1}": ("self_attention", "cross_attention"),
    }.items():
        for part in parts:
            assert {f"{block}/{part}/{name}" for name in biases} <= set(sizes)
    fixed = [weight.path for weight in model.non_trainable_weights]
    assert fixed == ["encoder_position/embeddings"]


PUBLISHED = {  # layers, width, heads, mels, vocabulary, parameters
    "tiny": (4, 384, 6, 80, 51_865, 37_760_640),
    "base": (6, 512, 8, 80, 51_865, 72_593_920),
    "small": (12, 768, 12, 80, 51_865, 241_734_912),
    "medium": (24, 1024, 16, 80, 51_865, 763_857_920),
    "large-v2": (32, 1280, 20, 80, 51_865, 1_543_304_960),
    "large-v3": (32, 1280, 20, 128, 51_866, 1_543_490_560),
}


def parameters(layers, width, heads, mels, vocabulary):
    """The number of parameters of a Whisper of a few layers, made without values."""
    with keras.device("meta"):
        model = models.Whisper(
            vocabulary_size=vocabulary,
            num_layers=layers,
            num_heads=heads,
            hidden_dim=width,
            num_mels=mels,
        )
    return model.count_params()


@pytest.mark.once("PyTorch makes weights without memory")
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's meta device")
@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_of_the_published_models(name):
    depth, *sizes, count = PUBLISHED[name]
    one, two = (parameters(layers, *sizes) for layers in (1, 2))
    assert one + (depth - 1) * (two - one) == count


@pytest.mark.once("the number does not depend on the backend")
def test_the_count_of_tiny():
    assert models.Whisper(vocabulary_size=51_865).count_params() == 37_760_640
