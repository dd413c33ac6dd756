"""Training on PyTorch without Keras' way through the layers, where nothing is random.

Keras finds its way through layers, masks and scopes anew in each step. For a small
Transformer on a CPU that takes as long as half of its products; TensorFlow and JAX
compile it away.
"""

import functools

import keras

from kerasseq import kernels


class RecordedSteps:
    """A functional model whose steps of training PyTorch records: a mixin.

    After some batches of one shape its forward pass runs as the list of operations
    that it comes to; gradients flow as before, and the figures are the same. It is
    recorded anew after a change of the layers. Not recorded are models that draw
    (dropout) or count in training, layers of others, and losses of activities.
    """

    _in_train_step = False

    def train_step(self, *args):
        self._in_train_step = True
        try:
            return super().train_step(*args)
        finally:
            self._in_train_step = False

    def call(self, inputs, training=None, mask=None):
        if training and self._in_train_step:
            recorded = self._recorded_pass()
            if recorded is not None:
                return recorded(inputs)
        return super().call(inputs, training=training, mask=mask)

    def _recorded_pass(self):
        """The forward pass of training, if PyTorch may record it; else None."""
        if keras.backend.backend() != "torch" or self.jit_compile:
            return None
        programs, forward = kernels.programs(self), super().call

        def make():
            if not programs.pure or self._draws_or_adds():
                return None
            return kernels.training(functools.partial(forward, training=True))

        return programs.get("training", None, make)

    def _draws_or_adds(self):
        """Whether its call is more than a function of inputs and weights."""
        return bool(self.non_trainable_variables) or any(
            layer.activity_regularizer is not None
            for layer in self._flatten_layers(include_self=False)
        )
