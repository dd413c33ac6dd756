r"""GELU by tanh, the form that GPT-2, BERT and T5 1.1 were trained with.

Hendrycks and Gimpel 2016. Course slides A, C.
"""

import keras

from kerasseq.core.serialization import register


@register
def gelu_by_tanh(x):
    r"""$\frac x2 \left(1 + \tanh(\sqrt{2 / \pi}\,(x + 0.044715\,x^3))\right)$.

    Examples:
        >>> y = gelu_by_tanh(keras.ops.convert_to_tensor([1.0]))
        >>> round(float(y[0]), 4)  # 0.8413 without the approximation
        0.8412
    """
    return keras.activations.gelu(x, approximate=True)
