"""Sparse attention by name in every task model: "transformer" with that attention."""

import importlib.util

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import (
    Forecaster,
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
)
from kerasseq.tasks.transformer_stack import NEVER_CAUSAL, SPARSE, TransformerStack
from kerasseq.transformer.mixers import OF_PAIRS
from tests.processes import run_python
from tests.tasks.helpers import array

pytestmark = pytest.mark.once("the layers are tested everywhere")

B, T, V, C, H = 3, 71, 13, 5, 8
rng = np.random.default_rng(0)
IDS = rng.integers(1, V, (B, T)).astype("int32")
SIZES = {"vocabulary_size": V, "units": H, "num_layers": 2}
CASES = [(name, True) for name in SPARSE]
CASES += [(name, False) for name in SPARSE if name not in NEVER_CAUSAL]


@pytest.mark.parametrize(("name", "bidirectional"), CASES)
def test_padding_batch_size_and_later_steps(name, bidirectional):
    keras.utils.set_random_seed(0)
    model = SequenceTagger(name, C, bidirectional=bidirectional, **SIZES)
    attention = model.get_layer(name).blocks[1]._self_attention_layer
    assert type(attention) is OF_PAIRS[name]
    y = array(model(IDS))
    zeros = np.zeros((B, 3), "int32")
    padded = [np.hstack([IDS, zeros]), np.hstack([zeros, IDS])]
    right, left = (model.predict(x, batch_size=2, verbose=0) for x in padded)
    np.testing.assert_allclose(right[:, :T], y, atol=1e-5)
    np.testing.assert_allclose(left[:, 3:], y, atol=1e-5)
    other = IDS.copy()
    other[:, -1] = IDS[:, -1] % (V - 1) + 1
    change = np.abs(array(model(other)) - y).max(axis=(0, 2))
    assert change[-1] > 1e-5 and (change[:-1].max() > 1e-5) == bidirectional


@pytest.mark.full("layers are loaded in new processes everywhere")
def test_a_model_travels_to_another_backend(tmp_path):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX, too")
    for name in SPARSE:
        keras.utils.set_random_seed(0)
        sizes = {**SIZES, "num_layers": 1}
        model = SequenceClassifier(name, C, bidirectional=True, **sizes)
        model.save(tmp_path / f"{name}.keras")
        np.save(tmp_path / name, array(model(IDS)))
    np.save(tmp_path / "ids", IDS)
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    run_python(LOAD, tmp_path, *SPARSE, KERAS_BACKEND="jax", **quick)


LOAD = """
import pathlib, sys
import numpy as np, kerasseq
folder, *names = sys.argv[1:]
folder = pathlib.Path(folder)
ids = np.load(folder / "ids.npy")
for name in names:
    model = kerasseq.load_model(folder / f"{name}.keras")
    found = model.predict(ids, verbose=0)
    np.testing.assert_allclose(found, np.load(folder / f"{name}.npy"), atol=1e-5)
"""


@pytest.mark.parametrize("causal", [False, True])
def test_dense_in_the_limit(causal):
    def path(weight):  # a decoder has the weights of an encoder in another order
        return weight.path.partition("/")[2]

    dense = TransformerStack(H, 2, causal=causal)
    x = rng.normal(size=(B, T, 5)).astype("float32")
    expected = array(dense(x))
    for name, options in (
        ("blockwise", {}),
        ("longformer", {"sliding_window": T}),
        ("multi_head", {"sliding_window": T}),
    ):
        layer = TransformerStack(H, 2, causal=causal, attention=name, **options)
        layer.build(x.shape)
        known = {path(w): w for w in dense.weights}
        for w in layer.weights:
            w.assign(known[path(w)])
        np.testing.assert_allclose(array(layer(x)), expected, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_windows_spans_and_the_first_token(causal):
    x = rng.normal(size=(1, T, H)).astype("float32")

    def reach(changed, **options):
        """The steps whose outputs change with one of the inputs."""
        keras.utils.set_random_seed(0)
        layer = TransformerStack(H, causal=causal, **options)
        other = x.copy()
        other[:, changed, 0] += 1
        y = array(layer(x)), array(layer(other))
        return np.flatnonzero(np.abs(y[1] - y[0]).max(axis=(0, 2)) > 1e-6)

    window = {"attention": "longformer", "sliding_window": 3}
    near = np.arange(13 if causal else 11, 16)
    np.testing.assert_array_equal(reach(13, **window), near)
    window["global_tokens"] = "first"
    assert reach(0, **window).size == T  # all read the first token
    first = [] if causal else [0]  # which reads all
    np.testing.assert_array_equal(reach(13, **window), [*first, *near])
    spans = {"attention": "adaptive_span", "max_length": 5}
    assert reach(13, **spans).max() == 13 + 31  # a span of 0, and its ramp


def test_the_tasks_train_and_write():
    for name in ("longformer", "adaptive_span"):
        model = LanguageModel(name, **SIZES)
        history = model.fit(IDS.reshape(-1), sequence_length=23, verbose=0)
        assert np.isfinite(history.history["loss"][0])
        assert len(model.generate(IDS[0, :3], 4, seed=0)) == 7
    model = Seq2Seq(
        *("linformer",),
        **{"source_vocabulary_size": V, "target_vocabulary_size": V, "units": H},
        decoder="gru",
    )
    model.fit((IDS[:, :7], IDS[:, :5]), IDS[:, :5], verbose=0)
    model = Forecaster("blockwise", units=H, horizon=2)
    assert model.forecast(np.arange(23.0), steps=3).shape == (3,)


def test_a_stack_is_saved_with_all_its_arguments(tmp_path):
    options = {"attention": "longformer", "sliding_window": 3, "max_length": 101}
    layer = TransformerStack(H, global_tokens="first", **options)
    model = SequenceClassifier(layer, C, vocabulary_size=V)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded._arguments["architecture"].get_config() == layer.get_config()
    np.testing.assert_allclose(array(loaded(IDS)), array(model(IDS)), atol=1e-6)


def test_errors():
    for name, layer in (("reformer", "Reformer"), ("linformer", "Linformer")):
        for build in (
            lambda name: SequenceTagger(name, C, **SIZES),
            lambda name: LanguageModel(name, **SIZES),
            lambda name: Forecaster(name, units=H),
        ):
            with pytest.raises(ValueError, match=f"{layer}Attention .* all positions"):
                build(name)
    with pytest.raises(ValueError, match='received "linformer": LinformerAttention'):
        TransformerStack(H, causal=True, attention="linformer")
    with pytest.raises(ValueError, match='global_tokens need attention="longformer"'):
        TransformerStack(H, global_tokens="first")
    with pytest.raises(ValueError, match="at most max_length=5"):
        layer = TransformerStack(H, attention="linformer", max_length=5)
        layer(np.ones((2, 7, H), "float32"))
