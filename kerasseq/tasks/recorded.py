"""Training on PyTorch without Keras' way through the layers, where nothing is random.

Keras finds its way through layers, masks and scopes anew in each step. For a small
Transformer on a CPU that takes as long as half of its products; TensorFlow and JAX
compile it away.
"""

import functools

import keras

from kerasseq import kernels

OURS = ("keras", "kerasseq")


class RecordedSteps:
    """A functional model whose steps of training PyTorch records: a mixin.

    After some batches of one shape its forward pass runs as the list of operations
    that it comes to; gradients flow as before, and the figures are the same. Not
    recorded are models that draw (dropout) or count in training, layers of others,
    and losses of activities.
    """

    _in_train_step = False

    def train_step(self, *args):
        self._in_train_step = True
        try:
            return super().train_step(*args)
        finally:
            self._in_train_step = False

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        # What was recorded may be of layers that were changed since.
        self.__dict__.pop("_is_plain", None)
        self._forward = kernels.training(functools.partial(super().call, training=True))

    def call(self, inputs, training=None, mask=None):
        if training and self._in_train_step and self._is_plain:
            return self._forward(inputs)
        return super().call(inputs, training=training, mask=mask)

    @functools.cached_property
    def _is_plain(self):
        """Whether its call is a function of inputs and weights alone."""
        if keras.backend.backend() != "torch" or self.jit_compile:
            return False
        return not self.non_trainable_variables and all(
            type(layer).__module__.partition(".")[0] in OURS
            and layer.activity_regularizer is None
            for layer in self._flatten_layers(include_self=False)
        )
