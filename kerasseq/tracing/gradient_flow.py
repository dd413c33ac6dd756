"""Gradient of the loss with respect to the states at each time step."""

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Nested, Tensor
from kerasseq.tracing.depth import build_with_loss
from kerasseq.tracing.listeners import About, Listener, join, listening, paths
from kerasseq.tracing.recording import Trace

STATES = ("hidden_state", "cell_state")


class _Probes(Listener):
    """Gives each time loop its probes during a differentiated call.

    A probe is an array of zeros that the loop adds to a state at every step. The
    gradient with respect to the probe is the gradient with respect to the state. A
    layer that computes its states of all steps at once has them added to what it
    writes, or to values without a recurrence, such as those of a `WaveNet`, here.
    """

    differentiates = True
    follows_states = True

    def __init__(
        self, layer_paths: dict[int, str], probes: dict[tuple[str, int, str], Tensor]
    ) -> None:
        self._paths = layer_paths
        self._probes = probes
        self._calls = {}
        self._written = set()

    def probes(self, layer: keras.Layer) -> dict[str, Tensor]:
        """Returns the probes of the next call of `layer`, by state name."""
        path = self._paths.get(id(layer))
        call = self._calls.get(path, 0)
        self._calls[path] = call + 1
        return {
            name: probe
            for (of, at, name), probe in self._probes.items()
            if of == path and at == call
        }

    def write(self, layer: keras.Layer, name: str, value: Tensor) -> Tensor:
        path = self._paths.get(id(layer))
        self._written.add((path, name))
        return self._add_probe(path, name, value)

    def receive(
        self, layer: keras.Layer, name: str, value: Tensor, about: About
    ) -> Tensor:
        path = self._paths.get(id(layer))
        if name not in STATES or (path, name) in self._written:
            return value
        return self._add_probe(path, name, value)

    def _add_probe(self, path, name, value):
        """Returns the value with the probe of this call."""
        call = self._calls.get((path, name), 0)
        self._calls[path, name] = call + 1
        probe = self._probes.get((path, call, name))
        return value if probe is None else value + ops.cast(probe, value.dtype)


class States(Trace):
    """A trace of the states of all layers, also where a faster way has none."""

    follows_states = True


def gradient_flow(model: keras.Model, x: Nested, y: Nested) -> dict[str, np.ndarray]:
    r"""Computes the norm of the loss gradient at each state of each time step.

    For each recurrent layer and time step this is
    $\lVert\partial L/\partial h_t\rVert$, and $\lVert\partial L/\partial c_t\rVert$
    if there is a cell state; for each block of a `WaveNet` it is the gradient at the
    input of the block; for linear attention, its relatives, Mamba, S4D and RWKV that
    at the state, whatever its shape. The norm is over batch and units, and the gradient
    includes all paths from the state to the loss $L$, through later steps as well.
    Where it vanishes, the network cannot learn from the inputs up to that step.

    Args:
        model: A compiled Keras model with layers of kerasseq that have a state.
        x: Inputs, as for `model.fit`.
        y: Targets, as for `model.fit`.

    Returns:
        Arrays of shape `(time,)` by path, such as `"lstm/hidden_state"` and
        `"lstm/cell_state"`, with time in the order of the input, or in reading order
        inside the backward copy of residual blocks. A layer that is called more than
        once has `#1`, `#2` … after the name from its second call on. At masked steps
        the gradient is zero.

    Raises:
        ValueError: If the model is not compiled, or records no states.

    Examples:
        >>> import kerasseq
        >>> model = keras.Sequential([kerasseq.layers.LSTM(3), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> flow = gradient_flow(model, np.ones((2, 7, 5)), np.ones((2, 1)))
        >>> [flow[key].shape for key in flow if key.endswith("cell_state")]
        [(7,)]
    """
    build_with_loss(model, x)
    layer_paths = paths(model)
    zeros = _zeros_like_states(model, layer_paths, x)
    if not zeros:
        raise ValueError(
            "model must have a recurrent layer of kerasseq.layers, or another one with "
            "a state, such as Mamba, received one that recorded no states. Replace "
            "keras.layers.LSTM by kerasseq.layers.LSTM, and other recurrent layers "
            "likewise"
        )

    def loss(probes):
        # Metrics, which a model may update with its loss, stay as they are.
        with listening(_Probes(layer_paths, probes)), keras.StatelessScope():
            y_pred = model(x, training=False)
            return model.compute_loss(x=x, y=y, y_pred=y_pred, training=False)

    of_probes = kernels.gradients(loss, zeros)
    flow = {}
    for (path, call, name), gradient in of_probes.items():
        gradient = ops.convert_to_numpy(ops.cast(gradient, "float32"))
        gradient = gradient.astype("float64")  # squares of small numbers are not 0
        key = join(path, name)
        by_time = np.moveaxis(gradient, 1, 0).reshape(gradient.shape[1], -1)
        flow[key + (f"#{call}" if call else "")] = np.linalg.norm(by_time, axis=1)
    return flow


def has_states(model: keras.Model, x: Nested) -> bool:
    """Returns whether a layer has states of time steps, as `gradient_flow` needs.

    Args:
        model: A Keras model.
        x: Inputs, as for `gradient_flow`.

    Examples:
        >>> has_states(keras.Sequential([keras.layers.Dense(3)]), np.ones((2, 5)))
        False
    """
    return bool(_zeros_like_states(model, paths(model), x))


def _zeros_like_states(
    model: keras.Model, layer_paths: dict[int, str], x: Nested
) -> dict[tuple[str, int, str], np.ndarray]:
    """Returns a probe for each state of the recurrent layers of the model."""
    recorded = States(model)
    with (
        listening(recorded),
        keras.StatelessScope(),
    ):  # keeps states and seeds unchanged
        model(x, training=False)
    zeros = {}
    for path in dict.fromkeys(layer_paths.values()):
        for name in STATES:
            key = join(path, name)
            calls = recorded.get(key, [])
            for call, value in enumerate(calls if isinstance(calls, list) else [calls]):
                zeros[path, call, name] = np.zeros(value.shape, value.dtype)
    return zeros
