"""How much each step of a sequence still matters to the loss."""

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.tracing.recorder import listening, paths
from kerasseq.tracing.trace import Trace

STATES = ("hidden_state", "cell_state")


class _Probes:
    """Listens during a differentiated call, and hands each time loop its probes.

    A probe is an array of zeros that the loop adds to a state at every step: the
    gradient with respect to the probe is the gradient with respect to the state.
    """

    def __init__(self, layer_paths, probes):
        self._paths = layer_paths
        self._probes = probes
        self._calls = {}

    def receive(self, layer, name, value):
        return value

    def probes(self, layer):
        """The probes of the next call of `layer`, by the names of the states."""
        path = self._paths.get(id(layer))
        call = self._calls.get(path, 0)
        self._calls[path] = call + 1
        return {
            name: probe
            for (of, at, name), probe in self._probes.items()
            if of == path and at == call
        }


def gradient_flow(model, x, y) -> dict[str, np.ndarray]:
    r"""Measure the gradient of the loss with respect to the states, step by step.

    For each recurrent layer and time step this is
    $\lVert\partial L/\partial h_t\rVert$, and $\lVert\partial L/\partial c_t\rVert$
    where there is a memory cell: the norm over batch and units of everything through
    which the state acts on the loss $L$, now and later. Where it falls to zero, the
    network cannot learn from what it saw there.

    Args:
        model: A compiled Keras model with recurrent layers of kerasseq.
        x: Inputs, as for `model.fit`.
        y: Targets, as for `model.fit`.

    Returns:
        Arrays of shape `(time,)` by path, such as `"lstm/hidden_state"` and
        `"lstm/cell_state"`, with time in the order of the input. A layer that is called
        more than once has `#1`, `#2` … after the name from its second call on. Masked
        steps have no gradient.

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
    if not getattr(model, "compiled", False):
        raise ValueError(
            "gradient_flow needs a loss: call model.compile(loss=...) before it"
        )
    if not model.built:
        model(x, training=False)
    layer_paths = paths(model)
    zeros = _zeros_like_states(model, layer_paths, x)

    def loss(probes):
        with listening(_Probes(layer_paths, probes)):
            y_pred = model(x, training=False)
        return model.compute_loss(x=x, y=y, y_pred=y_pred, training=False)

    found = kernels.gradients(loss, zeros)
    flow = {}
    for (path, call, name), gradient in found.items():
        gradient = ops.convert_to_numpy(ops.cast(gradient, "float32"))
        key = f"{path}/{name}" if path else name
        flow[key + (f"#{call}" if call else "")] = np.linalg.norm(gradient, axis=(0, 2))
    return flow


def _zeros_like_states(model, layer_paths, x):
    """A probe for each state that the recurrent layers of the model keep."""
    recorded = Trace(model)
    with listening(recorded), keras.StatelessScope():  # leaves states and seeds alone
        model(x, training=False)
    zeros = {}
    for path in dict.fromkeys(layer_paths.values()):
        for name in STATES:
            key = f"{path}/{name}" if path else name
            calls = recorded.get(key, [])
            for call, value in enumerate(calls if isinstance(calls, list) else [calls]):
                zeros[path, call, name] = np.zeros(value.shape, value.dtype)
    if not zeros:
        raise ValueError(
            "no layer of the model recorded a state over time. gradient_flow sees the "
            "recurrent layers of kerasseq.layers; use them for keras.layers.LSTM and "
            "the like"
        )
    return zeros
