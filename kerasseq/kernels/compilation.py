"""What compiling means on each backend."""

import keras


def default_jit_compile() -> bool:
    """Whether models compile with XLA when the user says nothing.

    On TensorFlow Keras' own "auto" leaves XLA off on a CPU, where it is faster. On
    PyTorch the word means inductor, which needs a C++ compiler and most of a minute.
    """
    return keras.backend.backend() != "torch"


def compiler() -> str:
    """What `jit_compile=True` means on this backend: "xla" or "inductor"."""
    return "inductor" if keras.backend.backend() == "torch" else "xla"


def has_cudnn() -> bool:
    """Whether our layers can run on cuDNN: whether the backend has an NVIDIA GPU."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return any(device.platform == "gpu" for device in jax.local_devices())
    if backend == "tensorflow":
        import tensorflow as tf

        return bool(tf.config.list_physical_devices("GPU"))
    import torch

    return torch.cuda.is_available() and torch.backends.cudnn.is_available()


def is_concrete(value) -> bool:
    """Whether `value` holds numbers now: it is no stand-in of a compiler."""
    if isinstance(value, keras.KerasTensor):
        return False
    if keras.backend.backend() == "jax":
        import jax

        return not isinstance(value, jax.core.Tracer)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return not tf.is_tensor(value) or hasattr(value, "numpy")
    import torch

    return not torch.compiler.is_compiling()


def size_is_guessed(value) -> bool:
    """Whether Keras infers shapes, and has put a number for a size that is unknown.

    It does so on PyTorch, where it runs a layer with 83 in place of None; elsewhere
    such a size is no `int`.

    Examples:
        >>> size_is_guessed(keras.ops.zeros((2, 83)))
        False
    """
    return getattr(getattr(value, "device", None), "type", None) == "meta"
