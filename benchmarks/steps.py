"""Training step and inference of a layer or module, as each backend runs them.

A training step is the forward pass, the mean of the output, the gradients of all
weights and an SGD update, compiled by tf.function or jax.jit. On a GPU each function
waits until the device has finished.
"""


def keras_steps(layer, x, jit=False):
    """Returns the functions to time for a built Keras layer.

    Args:
        layer: A built layer.
        x: NumPy array, the input of the layer.
        jit: Whether to compile with XLA on TensorFlow.

    Returns:
        Dictionary of two functions without arguments, `"train"` and `"infer"`.
    """
    import keras

    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        return torch_steps(layer, torch.from_numpy(x))
    if backend == "tensorflow":
        return tensorflow_steps(layer, x, jit)
    return jax_steps(layer, x)


def torch_steps(layer, x):
    """Returns the functions to time on PyTorch, also for a `torch.nn.Module`."""
    import torch

    layer, x = layer.to(torch_device()), x.to(torch_device())
    optimizer = torch.optim.SGD(layer.parameters(), 1e-3)

    def train():
        optimizer.zero_grad()
        y = layer(x)
        (y @ y.new_ones(y.shape[-1])).mean().backward()
        optimizer.step()
        wait_for_torch()

    def infer():
        with torch.no_grad():
            layer(x)
        wait_for_torch()

    return {"train": train, "infer": infer}


def torch_device():
    """Returns the name of the device of PyTorch: that of Keras, too."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def has_gpu():
    """Whether Keras' backend, PyTorch or JAX, computes on a GPU."""
    import keras

    if keras.backend.backend() == "jax":
        import jax

        return jax.default_backend() == "gpu"
    return torch_device() == "cuda"


def wait_for_torch():
    """Waits for the GPU of PyTorch, if there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def tensorflow_steps(layer, x, jit):
    """Returns the functions to time on TensorFlow."""
    import tensorflow as tf

    x = tf.constant(x)
    weights = [v.value for v in layer.trainable_variables]

    @tf.function(jit_compile=jit)
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum(layer(x, training=True), -1))
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(1e-3 * tf.convert_to_tensor(g))
        return loss

    @tf.function(jit_compile=jit)
    def call():
        return layer(x)

    return {"train": lambda: step().numpy(), "infer": lambda: call().numpy()}


def jax_steps(layer, x):
    """Returns the functions to time on JAX."""
    import jax

    x = jax.numpy.asarray(x)
    rest = [v.value for v in layer.non_trainable_variables]
    step, w = jax_step(layer, x)
    state = {"w": w}

    @jax.jit
    def call(w):
        return layer.stateless_call(w, rest, x)[0]

    def train():
        state["w"] = jax.block_until_ready(step(state["w"]))

    return {
        "train": train,
        "infer": lambda: jax.block_until_ready(call(state["w"])),
    }


def jax_step(layer, x):
    """Returns a training step on JAX, a function of the weights, and the weights."""
    import jax

    rest = [v.value for v in layer.non_trainable_variables]

    def loss(w):
        y, _ = layer.stateless_call(w, rest, x, training=True)
        return y.sum(-1).mean()

    @jax.jit
    def step(w):
        return [a - 1e-3 * g for a, g in zip(w, jax.grad(loss)(w), strict=True)]

    return step, [v.value for v in layer.trainable_variables]


def compiled(function):
    """Compiles a function for inference by tf.function or jax.jit; not on PyTorch."""
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function)
    if backend == "jax":
        import jax

        return jax.jit(function)
    import torch

    return torch.no_grad()(function)
