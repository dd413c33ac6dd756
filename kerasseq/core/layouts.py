"""Which axis of a weight is divided among devices, by the end of its path.

Two products after each other need one exchange between devices if the axis between them
is divided: the heads of attention, the width of a feed-forward network, the channels of
Mamba. Shoeybi et al. 2019, Megatron-LM, section 3.
"""

from typing import Any

import keras

from kerasseq.core import checks

MODEL, DATA = "model", "data"
# Every weight of a path matches at most one; the others are on each device as a whole.
LAYOUTS = {
    r"(.*/)?(source_|target_)?embedding/embeddings": (MODEL, DATA),  # (V, D)
    r".*attention/(query|key|value)/kernel": (DATA, MODEL, None),  # (D, N, K)
    r".*attention/(query|key|value)/bias": (MODEL, None),  # (N, K)
    r".*attention/attention_output/kernel": (MODEL, None, DATA),  # (N, K, D)
    r".*feed_forward/(gate|intermediate)_dense/kernel": (DATA, MODEL),  # (D, F)
    r".*feed_forward/(gate|intermediate)_dense/bias": (MODEL,),  # (F,)
    r".*feed_forward/output_dense/kernel": (MODEL, DATA),  # (F, D)
    r".*experts[^/]*/(gate|intermediate|output)_kernel": (MODEL, DATA, None),  # E, D, F
    r".*mamba/input/kernel": (DATA, MODEL),  # (D, 2 C)
    r".*mamba/conv/kernel": (None, None, MODEL),  # (K, 1, C)
    r".*mamba/(conv/bias|step/bias|skip)": (MODEL,),  # (C,)
    r".*mamba/(log_rate|selection/kernel)": (MODEL, None),  # (C, S)
    r".*mamba/step/kernel": (None, MODEL),  # (R, C)
    r".*mamba/attention_output/kernel": (MODEL, DATA),  # (C, D)
}


def layout_map(
    cls: Any,
    device_mesh: keras.distribution.DeviceMesh,
    model_parallel_dim_name: str = "model",
    data_parallel_dim_name: str = "batch",
) -> keras.distribution.LayoutMap:
    """Returns how the weights of a model are divided among devices, before it is built.

    Heads, widths of feed-forward networks, channels of Mamba, experts and the rows of
    embeddings are divided along the axis of the model; the other large axis of these
    weights along that of the batch. Norms, positions and heads of tasks are on each
    device as a whole, and so are all weights of models that are made from layers by
    name, such as recurrent ones. Keras applies it on JAX.

    Args:
        cls: The class of the model; None for a layout of all models.
        device_mesh: The devices.
        model_parallel_dim_name: The axis of the mesh that divides the weights. Its size
            must divide the number of heads, also of those of keys and values, the width
            of the feed-forward networks and the vocabulary size.
        data_parallel_dim_name: The axis of the mesh that divides the batch.

    Returns:
        A `keras.distribution.LayoutMap`, for `keras.distribution.ModelParallel`.

    Raises:
        TypeError: If `device_mesh` is not a mesh.
        ValueError: If a name is not that of an axis of the mesh.

    Examples:
        >>> import kerasseq
        >>> names = ["batch", "model"]
        >>> mesh = keras.distribution.DeviceMesh((1, 1), names, ["cpu:0"])
        >>> map = kerasseq.models.GPT.get_layout_map(mesh)
        >>> map["block_0/self_attention/query/kernel"].axes
        ('batch', 'model', None)

    References:
        Shoeybi et al. 2019, section 3; KerasHub's `get_layout_map`.
    """
    if not isinstance(device_mesh, keras.distribution.DeviceMesh):
        raise TypeError(
            "device_mesh must be a keras.distribution.DeviceMesh, received "
            f"{checks.short(device_mesh)}"
        )
    names = {MODEL: model_parallel_dim_name, DATA: data_parallel_dim_name, None: None}
    for argument, name in zip(
        ("model_parallel_dim_name", "data_parallel_dim_name"),
        names.values(),
        strict=False,
    ):
        checks.one_of(argument, name, list(device_mesh.axis_names))
    layout = keras.distribution.LayoutMap(device_mesh)
    for path, axes in LAYOUTS.items() if cls is None or cls.divides_weights else ():
        layout[path] = tuple(names[axis] for axis in axes)
    return layout
