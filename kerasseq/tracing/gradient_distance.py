r"""Gradient of a loss at the last step with respect to the states of earlier steps.

$$
g_k = \frac{\lVert\partial L / \partial h_{T-k}\rVert}
{\lVert\partial L / \partial h_T\rVert},
\qquad L = v^T h_T
$$

In a linear network $g_k$ is $\lVert v^T U^k \rVert / \lVert v \rVert$: it vanishes if
the spectral radius $\rho$ of $U$ is below 1, and explodes if it is above. With a forget
gate of 1 the gradient along the cell state of an LSTM stays 1.

Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks",
2013. Course slides A, B, C, D.
"""

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.types import Tensor
from kerasseq.tracing.gradient_flow import gradient_flow


def gradient_by_distance(
    layer: keras.layers.RNN,
    max_distance: int = 50,
    *,
    spectral_radius: float | None = None,
    forget_bias: float | None = None,
    batch_size: int = 16,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    r"""Measures how the gradient vanishes or explodes with the distance in time.

    The layer is copied, with its weights if it is built, and reads random vectors from
    a standard normal distribution. Its activation is the one it was made with.

    Args:
        layer: A recurrent layer of kerasseq.
        max_distance: The largest distance.
        spectral_radius: Scales each matrix $U$ of the recurrent kernel to this largest
            absolute eigenvalue $\rho$; unchanged if None.
        forget_bias: Sets the bias of the gate that keeps the state where it is 1: the
            forget gate of an LSTM and a MinLSTM, $z$ of a GRU and of a gated network;
            unchanged if None.
        batch_size: Number of sequences.
        seed: Seed of the inputs and of $v$.

    Returns:
        Arrays `(max_distance + 1,)`, 1 at distance 0, by state: "hidden_state", and
        "cell_state" if there is one.

    Raises:
        TypeError: If the layer is not a recurrent layer of kerasseq.
        ValueError: If an argument is out of range, or the layer has no such gate.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.ElmanRNN(5, activation="linear")
        >>> norms = gradient_by_distance(layer, 3, spectral_radius=0.5)
        >>> norms["hidden_state"].round(3).tolist()
        [1.0, 0.5, 0.25, 0.125]
    """
    cell = getattr(layer, "cell", None)
    if not hasattr(cell, "keep_gate"):
        raise TypeError(
            "layer must be a recurrent layer of kerasseq.layers, such as LSTM(8), "
            f"received {checks.short(layer)}"
        )
    steps = checks.whole_number("max_distance", max_distance) + 1
    checks.whole_number("batch_size", batch_size)
    rng = np.random.default_rng(checks.seed("seed", seed))
    features = layer.cell.kernel.shape[0] if layer.built else cell.units
    config = {
        **layer.get_config(),
        "name": "layer",
        "return_sequences": False,
        "return_state": False,
        "go_backwards": False,
        "stateful": False,
    }
    copy = type(layer).from_config(config)
    model = keras.Sequential([keras.Input((steps, features)), copy])
    if layer.built:
        copy.set_weights(layer.get_weights())
    if spectral_radius is not None:
        _scale_recurrent_kernel(copy.cell, spectral_radius)
    if forget_bias is not None:
        _set_forget_bias(copy.cell, forget_bias)
    model.compile(loss=_projection)
    x = rng.normal(size=(batch_size, steps, features)).astype("float32")
    v = np.tile(rng.normal(size=cell.units), (batch_size, 1)).astype("float32")
    flow = gradient_flow(model, x, v)
    return {
        key.removeprefix("layer/"): _relative(norms[::-1])
        for key, norms in flow.items()
    }


def _relative(norms):
    """Norms divided by the first one; zeros if it is 0."""
    return np.divide(norms, norms[0], out=np.zeros_like(norms), where=norms[0] > 0)


def _projection(v: Tensor, h: Tensor) -> Tensor:
    """Computes $v^T h$, as a loss."""
    return ops.sum(ops.cast(v, h.dtype) * h, axis=-1)


def _scale_recurrent_kernel(cell, radius):
    """Gives the matrix of each gate this spectral radius."""
    if checks.finite("spectral_radius", radius) < 0:
        raise ValueError(f"spectral_radius must be 0 or more, received {radius}")
    if not hasattr(cell, "recurrent_kernel"):
        raise ValueError(
            f"spectral_radius must be None for {type(cell).__name__}, which has no "
            f"recurrent kernel, received {radius}"
        )
    kernel = ops.convert_to_numpy(cell.recurrent_kernel)
    matrices = np.split(kernel.astype("float64"), cell.gates, axis=1)
    largest = [np.abs(np.linalg.eigvals(U)).max() for U in matrices]
    if radius and not all(largest):
        raise ValueError(
            "layer must have a recurrent kernel whose eigenvalues are not all 0 to be "
            f"scaled to spectral_radius={radius}"
        )
    scaled = [
        radius / r * U if radius else 0 * U
        for r, U in zip(largest, matrices, strict=True)
    ]
    cell.recurrent_kernel.assign(np.concatenate(scaled, axis=1))


def _set_forget_bias(cell, value):
    """Sets the bias of the gate that keeps the state."""
    gate, units = cell.keep_gate, cell.units
    if gate is None or cell.bias is None:
        raise ValueError(
            "forget_bias must be None for a layer without a gate and bias that keep "
            f"the state, received {value} for {type(cell).__name__}"
        )
    bias = ops.convert_to_numpy(cell.bias).copy()
    at = slice(gate * units, (gate + 1) * units)
    bias[..., at] = 0
    bias.reshape(-1, bias.shape[-1])[0, at] = checks.finite("forget_bias", value)
    cell.bias.assign(bias)
