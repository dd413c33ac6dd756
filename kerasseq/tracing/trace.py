"""`trace`: everything that the layers of a model record during an eager call."""

import contextlib
from collections.abc import Mapping

from keras import ops

from kerasseq import kernels
from kerasseq.core.checks import nearest
from kerasseq.tracing.recorder import listening, paths

# These run compiled code, in which no Python is left to record anything.
_COMPILED = (
    "fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
)
_ADVICE = "A trace covers an eager call: inside it, call the model itself, model(x)."


class Trace(Mapping):
    """What was recorded: NumPy arrays by path, such as `"lstm/forget_gate"`.

    Values of recurrent layers have shape `(batch, time, units)`, with time in the order
    of the input. A layer that is called more than once gives a list, a value per call.
    At masked steps the states are those of the last real step, and all else is zero.
    """

    def __init__(self, model):
        self._model = model
        self._paths = paths(model)
        self._values = {}

    def receive(self, layer, name, value):
        if not self._model.built:  # Keras tries the layers out before the first call
            return value
        path = self._paths.get(id(layer))
        if path is None or not hasattr(value, "shape"):
            return value
        if not kernels.is_concrete(value):
            raise RuntimeError(
                f"{layer.name} ran inside compiled code, from which {name} cannot be "
                f"recorded. {_ADVICE} A cell runs inside keras.layers.RNN that way: "
                "kerasseq.layers.RNN takes the same cell and can be traced."
            )
        key = f"{path}/{name}" if path else name
        self._values.setdefault(key, []).append(ops.convert_to_numpy(value))
        return value

    def __getitem__(self, key):
        if not self._values:
            raise KeyError(f"nothing was recorded, so there is no {key!r}. {_ADVICE}")
        if key not in self._values:
            raise KeyError(
                f"no {key!r} was recorded.{nearest(key, self._values)} There is: "
                + ", ".join(self._values)
            )
        values = self._values[key]
        return values[0] if len(values) == 1 else list(values)

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        shown = ", ".join(f"{k}: {_shape(v)}" for k, v in self.items())
        return f"Trace({shown})"


def _shape(value):
    return [v.shape for v in value] if isinstance(value, list) else value.shape


@contextlib.contextmanager
def trace(model):
    """Record what the layers of `model` compute.

    Args:
        model: A Keras model, or one layer.

    Yields:
        A `Trace`, filled by each eager call of the model inside the block.

    Raises:
        RuntimeError: If `fit`, `predict` or another compiled call runs inside the
            block: it would record nothing.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.LSTM(3)
        >>> with trace(layer) as inside:
        ...     _ = layer(np.ones((2, 7, 5)))
        >>> inside["forget_gate"].shape
        (2, 7, 3)
    """
    recorded = Trace(model)
    with _compiled_calls_forbidden(model), listening(recorded):
        yield recorded


@contextlib.contextmanager
def _compiled_calls_forbidden(model):
    """Put a function that raises before each compiled method of the model."""

    def forbid(name):
        def forbidden(*args, **kwargs):
            raise RuntimeError(
                f"{name} runs compiled code, which no trace sees. {_ADVICE}"
            )

        return forbidden

    names = [name for name in _COMPILED if hasattr(model, name)]
    before = {name: vars(model)[name] for name in names if name in vars(model)}
    # object's own __setattr__: Keras would track the functions as part of the model.
    for name in names:
        object.__setattr__(model, name, forbid(name))
    try:
        yield
    finally:
        for name in names:
            if name in before:  # a trace around this one
                object.__setattr__(model, name, before[name])
            else:
                object.__delattr__(model, name)
