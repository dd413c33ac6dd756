"""A function of tensors recorded on PyTorch as the operations that it comes to.

Keras finds its way through layers, masks and scopes anew at each call: milliseconds for
a Transformer, and more than its products where one token is read. Operations that were
written down once run without that, and need no compiler.
"""

import warnings

from keras import ops, tree

EAGER_CALLS = 8  # before a shape is worth the recording, which costs a few calls


def recorded(function):
    """The function, which runs as a list of operations once it was called often.

    Args:
        function: Function of structures of tensors, the same at each call, that gives
            one, without effects. It is recorded anew for each new shape. What cannot
            be recorded, since it decides by a value, runs as it is.

    Returns:
        A function of the same arguments, without gradients.
    """
    import torch

    made = {}

    def call(*args):
        leaves = [ops.convert_to_tensor(x) for x in tree.flatten(args)]
        key = tuple((x.shape, x.dtype, x.device) for x in leaves)
        if key not in made:
            made[key] = _Calls(function, args)
        with torch.no_grad():
            return made[key](leaves)

    return call


class _Calls:
    """Calls with arguments of one structure, and of the same shapes."""

    def __init__(self, function, args):
        self.function, self.left = function, EAGER_CALLS
        self.args = tree.map_structure(lambda x: 0, args)
        self.graph = self.outputs = None

    def __call__(self, leaves):
        if self.left:
            self.left -= 1
            if not self.left:
                self.graph = self._record(leaves)
        if self.graph is None:
            return self.function(*tree.pack_sequence_as(self.args, leaves))
        return tree.pack_sequence_as(self.outputs, self.graph(*leaves))

    def _record(self, leaves):
        """The operations, or None if they cannot be recorded."""
        from torch.fx.experimental.proxy_tensor import make_fx

        def flat(*leaves):
            outputs = self.function(*tree.pack_sequence_as(self.args, list(leaves)))
            self.outputs = tree.map_structure(lambda x: 0, outputs)
            return [ops.convert_to_tensor(x) for x in tree.flatten(outputs)]

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return make_fx(flat)(*leaves)
        except Exception:  # whatever the reason, it runs as it is
            return None
