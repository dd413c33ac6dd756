"""Gradients by layer, and the loss around weights, against the model moved by hand."""

import keras
import numpy as np
import pytest

from kerasseq import layers, models, tracing
from kerasseq.tracing import plots
from tests.tracing.test_plots import draw

pytestmark = pytest.mark.everywhere
RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=(11, n)).astype("float32") for n in (5, 3))


def dense_model():
    keras.utils.set_random_seed(0)
    names = {"first": 7, "middle": 2, "last": 3}
    rows = [keras.layers.Dense(units, "tanh", name=n) for n, units in names.items()]
    model = keras.Sequential([keras.Input((5,)), *rows])
    model.compile("sgd", "mse")
    return model


def test_gradients_of_layers_are_those_of_differences():
    model = dense_model()
    found = tracing.gradient_by_depth(model, X, Y)
    assert list(found) == ["first", "middle", "last"]
    layer = model.get_layer("last")
    W, b = (np.array(w) for w in layer.get_weights())
    squares = 0.0
    for array in (W, b):
        for place in np.ndindex(array.shape):
            old, losses = array[place], []
            for step in (1e-2, -1e-2):
                array[place] = old + step
                layer.set_weights([W, b])
                losses.append(model.evaluate(X, Y, verbose=0))
            array[place] = old
            squares += ((losses[0] - losses[1]) / 2e-2) ** 2
    assert found["last"] == pytest.approx(squares**0.5, rel=1e-3)


def test_losses_are_those_of_a_model_that_is_moved():
    model = dense_model()
    before = [np.array(w) for w in model.get_weights()]
    surface = tracing.loss_surface(model, X, Y, points=3, span=0.7, seed=5)
    for kept, w in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(kept, w)
    rng = np.random.default_rng(5)
    directions = []
    for _ in range(2):
        drawn = [rng.normal(size=w.shape) if w.ndim == 2 else 0 * w for w in before]
        for w, d in zip(before, drawn, strict=True):
            if w.ndim == 2:
                d *= np.linalg.norm(w, axis=0) / np.linalg.norm(d, axis=0)
        directions.append(drawn)
    for i, alpha in enumerate(surface.positions):
        for j, beta in enumerate(surface.positions):
            moved = zip(before, *directions, strict=True)
            model.set_weights([w + alpha * d + beta * e for w, d, e in moved])
            loss = model.evaluate(X, Y, verbose=0)
            assert surface.losses[i, j] == pytest.approx(loss, rel=1e-4)
    np.testing.assert_allclose(surface.positions, [-0.7, 0, 0.7])


@pytest.mark.once("arithmetic of NumPy")
def test_curvature_and_rise_of_a_parabola():
    at = np.linspace(-2, 2, 41)
    line = tracing.LossSurface(at, 3 * at**2 + 5)
    assert (line.center, line.curvature) == (5, pytest.approx(6))
    assert line.rise(1.0) == pytest.approx(3)
    square = tracing.LossSurface(at, 3 * at[:, None] ** 2 + at[None] ** 2)
    assert square.curvature == pytest.approx(4)
    assert square.rise(1.0) == pytest.approx(2)
    with pytest.raises(ValueError, match="distance must be in"):
        line.rise(2.1)


@pytest.mark.once("the same code on every backend")
def test_models_of_ours_and_their_states_stay_as_they_are():
    """A GPT with dropout: its seeds and metrics are those of before."""
    ids = np.array([[1, 2, 3, 4, 2]], "int32")
    sizes = {"num_layers": 2, "num_heads": 1, "hidden_dim": 4}
    model = models.GPT(vocabulary_size=5, dropout=0.3, **sizes)
    model.compile("sgd")
    model.fit(ids[:, :-1], ids[:, 1:], verbose=0)
    before = [np.array(v) for v in model.variables]
    found = tracing.gradient_by_depth(model, ids[:, :-1], ids[:, 1:])
    assert [n for n in found if n.startswith("block")] == ["block_0", "block_1"]
    assert all(value > 0 for value in found.values())
    line = tracing.loss_surface(model, ids[:, :-1], ids[:, 1:], directions=1, points=3)
    loss = model.evaluate(ids[:, :-1], ids[:, 1:], verbose=0, return_dict=True)["loss"]
    assert line.center == pytest.approx(loss, rel=1e-5)
    for kept, v in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(kept, np.array(v))


@pytest.mark.once("messages")
def test_wrong_arguments_are_named():
    model = dense_model()
    for options, words in (
        ({"points": 4}, "points must be odd"),
        ({"points": 1}, "points"),
        ({"directions": 3}, "directions"),
        ({"span": 0}, "span"),
    ):
        with pytest.raises(ValueError, match=words):
            tracing.loss_surface(model, X, Y, **options)
    plain = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="compiled"):
        tracing.gradient_by_depth(plain, X, Y)
    plain.trainable = False
    plain.compile("sgd", "mse")
    with pytest.raises(ValueError, match="trainable"):
        tracing.loss_surface(plain, X, Y)


@pytest.mark.once("figures")
def test_figures():
    at = np.linspace(-1, 1, 7)
    line, square = tracing.LossSurface(at, at**2), at[:, None] ** 2 + at[None] ** 2
    figure = draw(plots.plot_loss_surface({"one": line, "two": line}))
    assert [each.get_label() for each in figure.axes[0].lines] == ["one", "two"]
    square = tracing.LossSurface(at, square)
    flat = tracing.LossSurface(at, np.ones((7, 7)))
    figure = draw(plots.plot_loss_surface({"bowl": square, "flat": flat}))
    assert [panel.get_title() for panel in figure.axes[:2]] == ["bowl", "flat"]
    draw(plots.plot_loss_surface({"flat": flat}))
    for wrong in ({}, {"one": line, "two": square}):
        with pytest.raises(ValueError, match="surfaces must have"):
            plots.plot_loss_surface(wrong)


def test_blocks_without_residual_connections_give_the_sublayer_alone():
    """Pre-norm: FFN(Norm(A)), A = Attention(Norm(X)); post-norm: norms of these."""
    x = RNG.normal(size=(2, 7, 6)).astype("float32")
    for placement in ("pre", "post"):
        options = {"norm_placement": placement, "feed_forward": "gelu"}
        block = layers.TransformerEncoder(11, 2, residual=False, **options)
        whole = layers.TransformerEncoder(11, 2, **options)
        block.build(x.shape)
        whole.build(x.shape)
        whole.set_weights(block.get_weights())
        y, attention = (keras.ops.convert_to_numpy(f(x)) for f in (block, whole))
        with tracing.trace(block) as trace:
            block(x)
        a, f = (trace[f"{n}_residual"] for n in ("self_attention", "feed_forward"))
        with tracing.trace(whole) as trace:
            whole(x)
        a_of_whole = trace["self_attention_residual"]
        np.testing.assert_allclose(a + x, a_of_whole, atol=1e-5)
        if placement == "pre":
            np.testing.assert_allclose(y, f, atol=1e-6)
        assert np.abs(y - attention).max() > 0.1
    with pytest.raises(ValueError, match="residual=False"):
        layers.TransformerEncoder(11, 2, norm_placement="deep", depth=3, residual=False)
    again = layers.TransformerEncoder.from_config(block.get_config())
    assert again.residual is False
