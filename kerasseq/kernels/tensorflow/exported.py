"""The options of the converter to LiteRT."""

from typing import Any

import tensorflow as tf


def lite_options(int8: bool) -> dict[str, Any]:
    """Returns options of the converter to LiteRT; with `int8` for weights of 8 bits."""
    # Keras' default also allows operations that the interpreter alone does not have.
    options = {"target_spec": {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}}
    return {**options, "optimizations": [tf.lite.Optimize.DEFAULT] if int8 else []}
