"""CTC: the sum over all paths, its gradient, masks, and labels that do not fit."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from kerasseq import kernels
from kerasseq.training import CTC, check_ctc_labels
from kerasseq.training.ctc_paths import ctc_loss
from tests import ctc_paths
from tests.layer_checks import float64_is_there

pytestmark = pytest.mark.everywhere("values and gradients come from the backend")

T, V, BLANK = 5, 3, 2
# Repeats, an empty label, short rows; the sixth does not fit, nor does the seventh.
LABELS = [[0, 1], [0, 0], [1, 1, 0], [], [0, 0, 0], [1, 1, 1, 1], [0, 1], [1], [2, 0]]
FRAMES = [5, 4, 5, 3, 5, 5, 1, 1, 5]
Y = np.array([row + [-1] * (4 - len(row)) for row in LABELS])
MASK = np.arange(T) < np.array(FRAMES)[:, None]
X = np.random.default_rng(0).normal(size=(len(LABELS), T, V)).astype("float32")


def both(x, y, mask=None, blank=-1):
    """Returns the losses `(B,)` and the gradient of the sum of the finite ones."""
    y, x = np.asarray(y, "int32"), ops.convert_to_tensor(x)

    def total(x):
        losses = ctc_loss(x, y, mask, blank)
        return ops.sum(ops.where(ops.isfinite(losses), losses, 0))

    def compute(x):
        return ctc_loss(x, y, mask, blank), kernels.gradients(total, x)

    if keras.backend.backend() != "torch":  # there compiled code has no gradients
        compute = kernels.compiled(compute)
    return tuple(map(ops.convert_to_numpy, compute(x)))


def test_equals_the_sum_over_all_paths():
    x = np.where(MASK[..., None], X, np.nan)  # padding must not matter
    losses, gradient = both(x, Y, MASK)
    assert losses[5] == losses[6] == losses[8] == np.inf
    assert not gradient[[5, 6, 8]].any()
    assert not gradient[~MASK].any()
    for row in range(8):
        n = FRAMES[row]
        loss, d = ctc_paths.loss_and_gradient(X[row, :n], LABELS[row], BLANK)
        np.testing.assert_allclose(losses[row], loss, rtol=1e-5)
        np.testing.assert_allclose(gradient[row, :n], d, atol=1e-5)


def test_reaches_the_loss_of_a_model_through_its_mask():
    inputs = keras.Input((T, V))
    outputs = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, keras.layers.Activation("linear")(outputs))
    model.compile(loss=CTC())
    fits = np.isfinite(losses := both(X, Y, MASK)[0])
    x = np.where(MASK[..., None], X, 0)[fits]
    found = model.evaluate(x, Y[fits], batch_size=len(x), verbose=0)
    np.testing.assert_allclose(found, losses[fits].mean(), rtol=1e-5)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_a_row_of_weight_0_counts_nothing_even_if_its_label_does_not_fit(shape):
    fits = np.isfinite(losses := both(X, Y)[0])
    assert not fits.all()
    weights = np.where(fits, np.arange(2.0, 2 + len(Y)), 0).astype("float32")
    wanted = (losses[fits] * weights[fits]).sum() / len(Y)
    found = CTC()(Y, X, weights.reshape(shape))
    np.testing.assert_allclose(ops.convert_to_numpy(found), wanted, rtol=1e-5)
    double = CTC()(Y[fits], X[fits], 2.0) / CTC()(Y[fits], X[fits])
    assert float(double) == pytest.approx(2)


def test_half_precision_is_computed_in_float32():
    layer = keras.layers.Dense(V, dtype="mixed_float16")
    model = keras.Sequential([keras.Input((None, V)), layer])
    model.compile(keras.optimizers.Adam(0.1), loss=CTC(reduction="sum"))
    x = np.repeat(X[:2], 40, axis=1)
    first = model.evaluate(x, Y[:2], verbose=0)
    history = model.fit(x, Y[:2], epochs=3, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    assert history[-1] < first


@pytest.mark.full("the recurrence of the first test")
def test_float64():
    if not float64_is_there():
        pytest.skip("needs x64 on JAX")
    losses, gradient = both(X.astype("float64"), Y, MASK)
    assert losses.dtype == gradient.dtype == "float64"
    loss, d = ctc_paths.loss_and_gradient(X[0], LABELS[0], BLANK)
    np.testing.assert_allclose(losses[0], loss, rtol=1e-12)
    np.testing.assert_allclose(gradient[0], d, atol=1e-12)


@pytest.mark.once("the peer is of PyTorch")
def test_equals_that_of_pytorch():
    torch = pytest.importorskip("torch")
    B, frames, symbols = 7, 200, 31
    rng = np.random.default_rng(1)
    x = 2 * rng.normal(size=(B, frames, symbols))
    counts, lengths = rng.integers(1, 60, B), rng.integers(150, frames + 1, B)
    y = np.where(np.arange(60) < counts[:, None], rng.integers(0, 30, (B, 60)), -1)
    z = torch.tensor(x, requires_grad=True)
    log_y = torch.log_softmax(z, -1).transpose(0, 1)
    peer = torch.nn.CTCLoss(blank=30, reduction="none")
    peers = peer(log_y, *map(torch.tensor, (y * (y >= 0), lengths, counts)))
    peers.sum().backward()
    losses, gradient = both(
        x.astype("float32"), y, np.arange(frames) < lengths[:, None]
    )
    np.testing.assert_allclose(losses, peers.detach(), rtol=1e-4)
    error = np.abs(gradient - z.grad.numpy()).max()
    assert error <= 1e-4 * np.abs(z.grad.numpy()).max()


@pytest.mark.once("the compiled loop of each backend is that of short inputs")
def test_1500_frames():
    x = np.random.default_rng(2).normal(size=(2, 1500, 31)).astype("float32")
    losses, gradient = both(x, np.arange(120).reshape(2, 60) % 30)
    assert np.isfinite(losses).all()
    # Probabilities and posteriors sum to 1.
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=1e-4)


@pytest.mark.once("the same operations for any mask")
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_only_real_frames_count(data):
    """A row with holes in its mask equals its real frames alone."""
    holes = st.lists(st.booleans(), min_size=7, max_size=7)
    mask = np.array(data.draw(st.tuples(holes, holes)))
    size = data.draw(st.integers(0, 4))
    ids = st.lists(st.integers(0, 3), min_size=size, max_size=size)
    labels = np.array(data.draw(st.tuples(ids, ids))).reshape(2, size)
    x = np.random.default_rng(3).normal(size=(2, 7, 5)).astype("float32")
    losses, gradient = both(x, labels, mask)
    for row in np.flatnonzero(mask.any(1)):
        real = mask[row]
        alone, d = both(x[row : row + 1, real], labels[row : row + 1])
        np.testing.assert_allclose(losses[row], alone[0], rtol=1e-5)
        np.testing.assert_allclose(gradient[row, real], d[0], atol=1e-5)


@pytest.mark.once("arguments")
def test_the_blank_is_any_id():
    rolled = np.where(Y >= 0, (Y + 1) % V, -1)  # the blank, 2, becomes 0
    losses = both(np.roll(X, 1, axis=-1), rolled, MASK, blank=0)[0]
    np.testing.assert_allclose(losses, both(X, Y, MASK)[0], rtol=1e-6)
    inside = both(X[:1], [[0, -1, 1]])[0]  # padding is after the end
    assert inside == np.inf


@pytest.mark.once("Python")
def test_a_config_has_all_arguments():
    loss = CTC.from_config(CTC(blank=0, reduction="sum", name="a").get_config())
    assert (loss.blank, loss.reduction, loss.name) == (0, "sum", "a")


@pytest.mark.once("NumPy")
@pytest.mark.parametrize(
    ("labels", "frames", "message"),
    [
        ([[0], [1, 1]], [1, 2], r"labels\[1\] needs 3 frames or more, .* received 2"),
        ([[0], [3, 1]], [5, 5], r"labels\[1\] must have .* the blank, 3, received 3"),
        ([[0, 7]], [5], r"labels\[0\] must have ids of the 4 .* received 7"),
        ([[0, -1, 1]], [5], r"labels\[0\] must have .* received -1"),
        ([[0], [1]], [5], "frames must have one number for each of the 2 labels"),
    ],
)
def test_labels_are_checked(labels, frames, message):
    with pytest.raises(ValueError, match=message):
        check_ctc_labels(labels, frames, 4)


@pytest.mark.once("NumPy")
def test_labels_that_fit():
    """Those of a finite loss, and no others."""
    losses = both(X, Y, MASK)[0]
    for label, frames, loss in zip(Y, FRAMES, losses, strict=True):
        fits = True
        try:
            check_ctc_labels([label], [frames], V)
        except ValueError:
            fits = False
        assert fits == np.isfinite(loss)


@pytest.mark.once("arguments")
def test_logits_without_a_blank():
    with pytest.raises(ValueError, match="blank must be one of the 3 .* received 3"):
        CTC(blank=3)(Y, X)
    with pytest.raises(ValueError, match=r"y_pred must be logits .* shape \(9, 5\)"):
        CTC()(Y, X[..., 0])
