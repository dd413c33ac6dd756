"""Compiles and differentiates functions of tensors, alike on the three backends.

`tensorflow/functions.py`, `jax/functions.py` and `torch/functions.py` implement each of
them under the same name.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import keras
from keras import ops, tree

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.operations import backend_module

_uncompiled = contextvars.ContextVar("kerasseq_uncompiled", default=0)  # open blocks
_convertible = contextvars.ContextVar("kerasseq_convertible", default=False)


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Runs the functions of `compiled` and `inference` in Python inside the block.

    Examples:
        >>> calls = []
        >>> def double(x):
        ...     calls.append(keras.ops.shape(x))
        ...     return 2 * x
        >>> function = compiled(double)
        >>> with uncompiled():
        ...     y, y = function(np.ones(3)), function(np.ones(3))
        >>> calls
        [(3,), (3,)]
    """
    _uncompiled.set(_uncompiled.get() + 1)
    try:
        yield
    finally:
        _uncompiled.set(_uncompiled.get() - 1)


def is_uncompiled() -> bool:
    """Returns whether a block of `uncompiled` is open in the current context."""
    return _uncompiled.get() > 0


def _plain(function: Callable[..., Nested]) -> Callable[..., Nested]:
    """Returns the function, without gradients: its arguments become tensors."""
    no_gradients = backend_module("functions").no_gradients

    def call(*args: Nested) -> Nested:
        with no_gradients():
            return function(*tree.map_structure(ops.convert_to_tensor, args))

    return call


def compiled(
    function: Callable,
    *,
    jit: bool = False,
    donated: bool = False,
    pure: bool | None = True,
) -> Callable:
    """Compiles a function for inference, where the backend compiles.

    Weights are read at each call, so the function follows later training. Layers must
    be built before.

    Args:
        function: Function of structures of tensors that returns one, without side
            effects. It is compiled again for each new shape.
        jit: Whether TensorFlow compiles with XLA, which takes longer at first: for a
            loop over small steps. JAX always does, PyTorch never.
        donated: Whether an output may be overwritten when the caller passes it in
            again, as in a loop: PyTorch then updates caches in place.
        pure: Whether the function is known to have no side effects, as `Fingerprint`
            finds it. If False, it runs as it is. If None, PyTorch runs it as it is;
            TensorFlow and JAX run its Python once for each new shape.

    Returns:
        A function of the same arguments. On PyTorch it runs without gradients.

    Examples:
        >>> layer = keras.layers.Dense(2)
        >>> layer.build((None, 3))
        >>> keras.ops.shape(compiled(layer)(keras.ops.ones((5, 3))))
        (5, 2)
    """
    plain = _plain(function)
    if pure is False or (pure is None and keras.backend.backend() == "torch"):
        return plain
    fast = backend_module("functions").compiled(function, jit=jit, donated=donated)

    def call(*args: Nested) -> Nested:
        return plain(*args) if is_uncompiled() else fast(*args)

    return call


def inference(model: keras.Model, *, pure: bool | None = True) -> Callable:
    """Compiles the forward pass of a model for inference.

    `predict_on_batch` costs a millisecond of bookkeeping; this is for a loop whose body
    costs less than that. Weights are read at each call, so the function follows later
    training.

    Args:
        model: A `keras.Model` with a list of inputs, called with fixed shapes.
        pure: Whether its layers are known to have no side effects, as for `compiled`.

    Returns:
        A function from the list of inputs to the outputs, as tensors.

    Examples:
        >>> inputs = keras.Input((3,))
        >>> model = keras.Model([inputs], keras.layers.Dense(2)(inputs))
        >>> keras.ops.shape(inference(model)([np.ones((1, 3), "float32")]))
        (1, 2)
    """
    return compiled(lambda inputs: model(inputs, training=False), pure=pure)


def gradients(function: Callable, arguments: Nested) -> Nested:
    """Computes the gradients of a scalar function, outside a training step.

    Args:
        function: Takes one structure of tensors, returns one number. Variables that it
            assigns keep their old values: it runs inside a `keras.StatelessScope`.
        arguments: Structure of floating tensors.

    Returns:
        Structure like `arguments`, of the gradients. Zeros where the result does not
        depend on an argument.

    Examples:
        >>> g = gradients(lambda a: keras.ops.sum(a["x"] ** 2), {"x": np.ones(3)})
        >>> keras.ops.convert_to_numpy(g["x"]).tolist()
        [2.0, 2.0, 2.0]
    """
    arguments = tree.map_structure(ops.convert_to_tensor, arguments)

    def stateless(arguments: Nested) -> Tensor:
        with keras.StatelessScope():
            return function(arguments)

    return backend_module("functions").gradients(stateless, arguments)


def with_gradient(forward: Callable, backward: Callable) -> Callable:
    """Returns a function with a gradient of its own.

    Both take all tensors as arguments: JAX differentiates a compiled function only if
    its gradient is not a closure over tensors.

    Args:
        forward: Function `(tensors, fixed) -> (y, saved)` of two dictionaries.
        backward: Function `(tensors, fixed, saved, G)` of the gradient G of y that
            returns those of the tensors. What is `fixed` has none.

    Returns:
        Function `(tensors, fixed) -> y`.

    Examples:
        >>> square = with_gradient(
        ...     lambda x, fixed: (x["x"] ** 2, ()),
        ...     lambda x, fixed, saved, G: {"x": G * fixed["slope"] * x["x"]},
        ... )
        >>> fixed = {"slope": keras.ops.array([2.0])}
        >>> x = {"x": np.ones(1, "float32")}
        >>> g = gradients(lambda x: keras.ops.sum(square(x, fixed)), x)
        >>> keras.ops.convert_to_numpy(g["x"]).tolist()
        [2.0]
    """
    if keras.backend.backend() == "jax":
        return backend_module("functions").with_gradient(forward, backward)

    def call(tensors: dict[str, Tensor], fixed: Nested) -> Tensor:
        names = list(tensors)

        def run(*values):
            given = dict(zip(names, values, strict=True))
            y, saved = forward(given, fixed)

            def gradient(*arguments, upstream=None):
                G = arguments[-1] if upstream is None else upstream
                by_name = backward(given, fixed, saved, G)
                return tuple(by_name[name] for name in names)

            return y, gradient

        return ops.custom_gradient(run)(*tensors.values())

    return call


def keep_variables(model: keras.Model) -> contextlib.AbstractContextManager[None]:
    """Keeps the variables of a model if an error interrupts a loop of Keras.

    On JAX Keras takes the variables out of the model in `fit`, `evaluate` and
    `predict`, and an error in the data would lose them.

    Args:
        model: A built model.

    Returns:
        A context manager for calls of these methods.

    Examples:
        >>> inputs = keras.Input((3,))
        >>> model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
        >>> with keep_variables(model):
        ...     model.predict(np.ones((1, 3)), verbose=0).shape
        (1, 2)
    """
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    return backend_module("functions").keep_variables(model)


def output_specs(function: Callable, *args: Nested) -> Nested:
    """Infers what `function(*args)` returns: a structure with shapes and dtypes.

    TensorFlow and JAX trace the function; PyTorch has to run it.

    Examples:
        >>> def double(x):
        ...     return {"y": keras.ops.concatenate([x, x], axis=-1)}
        >>> tuple(output_specs(double, keras.ops.ones((5, 3)))["y"].shape)
        (5, 6)
    """
    return backend_module("functions").output_specs(function, *args)


def default_jit_compile() -> bool:
    """Returns whether models compile with XLA if `jit_compile` is not given.

    On TensorFlow Keras' own "auto" leaves XLA off on a CPU, where it is faster. In the
    scope of a `tf.distribute` strategy with several replicas it stays off, because XLA
    compiles for one device. On PyTorch `jit_compile` means inductor, which needs a C++
    compiler and most of a minute.
    """
    return backend_module("functions").default_jit_compile()


def compiler() -> str:
    """Names the compiler of `jit_compile=True` here: "xla" or "inductor"."""
    return "inductor" if keras.backend.backend() == "torch" else "xla"


def has_cudnn() -> bool:
    """Returns whether the backend finds an NVIDIA GPU with cuDNN."""
    return backend_module("functions").has_cudnn()


def fuses_attention(q: Tensor) -> bool:
    """Returns whether `fused_attention` avoids scores of all pairs for such queries.

    PyTorch never does; JAX does not with cuDNN in half precision.

    Examples:
        >>> isinstance(fuses_attention(keras.ops.ones((2, 5, 3, 7))), bool)
        True
    """
    backend = keras.backend.backend()
    if backend == "jax":
        half = keras.backend.standardize_dtype(q.dtype) in ("float16", "bfloat16")
        return half and has_cudnn()
    return backend == "torch"


def is_concrete(value: Tensor) -> bool:
    """Returns whether `value` holds numbers, and is not a tracer or symbolic tensor."""
    if isinstance(value, keras.KerasTensor):
        return False
    return backend_module("functions").is_concrete(value)


def is_exporting() -> bool:
    """Returns whether PyTorch records a program for `export`, for inference only.

    Examples:
        >>> is_exporting()
        False
    """
    if keras.backend.backend() != "torch":
        return False
    return backend_module("functions").is_exporting()


@contextlib.contextmanager
def convertible_loops() -> Iterator[None]:
    """Lets TensorFlow write loops as the converters to other formats read them.

    Those stack what a loop writes in the order of its steps, from the first one on. A
    loop as it is otherwise writes the first step before the loop, or the last one
    first.

    Examples:
        >>> with convertible_loops():
        ...     has_convertible_loops() == (keras.backend.backend() == "tensorflow")
        True
    """
    token = _convertible.set(True)
    try:
        yield
    finally:
        _convertible.reset(token)


def has_convertible_loops() -> bool:
    """Returns whether a block of `convertible_loops` is open here, on TensorFlow."""
    return _convertible.get() and keras.backend.backend() == "tensorflow"


def uses_torchscript() -> bool:
    """Returns whether TorchScript records a program, as for "onnx" on PyTorch.

    Sizes are then tensors, and some of Keras' operations cannot be converted.

    Examples:
        >>> uses_torchscript()
        False
    """
    if keras.backend.backend() != "torch":
        return False
    return backend_module("functions").uses_torchscript()


def size_is_guessed(value: Tensor) -> bool:
    """Returns whether Keras infers shapes and has replaced an unknown size by a number.

    On PyTorch Keras runs a layer on the device "meta" with 83 in place of None. On the
    other backends an unknown size is not an `int`.

    Examples:
        >>> size_is_guessed(keras.ops.zeros((2, 83)))
        False
    """
    return getattr(getattr(value, "device", None), "type", None) == "meta"
