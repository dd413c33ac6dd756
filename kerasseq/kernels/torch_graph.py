"""A function of tensors recorded on PyTorch as the operations that it comes to.

Keras finds its way through layers, masks and scopes anew at each call: milliseconds for
a Transformer, and more than its products where one token is read. Operations that were
written down once run without that, and need no compiler.
"""

import collections
import warnings
import weakref

from keras import ops, tree

from kerasseq.kernels import torch_passes as passes

EAGER_CALLS = 8  # before a shape is worth the recording, which costs a few calls
SHAPES = 64  # that are kept, those used last: a recording holds on to memory


def recorded(function, *, gradients=False, donated=False):
    """The function, which runs as a list of operations once it was called often.

    Args:
        function: Function of structures of tensors, the same at each call, that gives
            one, without effects. It is recorded anew for each new shape, and the last
            `SHAPES` are kept. What cannot be recorded, since it decides by a value,
            runs as it is.
        gradients: Whether gradients flow back, to weights, too.
        donated: Whether what came out and goes in again is given up: entries of a
            cache are then written into it, not into a copy.

    Returns:
        A function of the same arguments.
    """
    import torch

    made = collections.OrderedDict()

    def call(*args):
        leaves = [ops.convert_to_tensor(x) for x in tree.flatten(args)]
        key = tuple((x.shape, x.dtype, x.device) for x in leaves)
        if key not in made:
            made[key] = _Calls(function, args, gradients, donated)
            if len(made) > SHAPES:
                made.popitem(last=False)
        made.move_to_end(key)
        with torch.set_grad_enabled(gradients and torch.is_grad_enabled()):
            return made[key](leaves)

    return call


class _Calls:
    """Calls with arguments of one structure, and of the same shapes."""

    def __init__(self, function, args, gradients, donated):
        self.function, self.left = function, EAGER_CALLS
        self.gradients, self.donated = gradients, donated
        self.args = tree.map_structure(lambda x: 0, args)
        self.graph = self.outputs = None
        self.written, self.own = [], {}

    def __call__(self, leaves):
        if self.left:
            self.left -= 1
            if not self.left:
                self.graph = self._record(leaves)
        if self.graph is None:
            return self.function(*tree.pack_sequence_as(self.args, leaves))
        if not self.written:
            return tree.pack_sequence_as(self.outputs, self.graph(*leaves))
        outputs = self.graph(*self._writable(leaves))
        self.own = {id(x): weakref.ref(x) for x in outputs}
        return tree.pack_sequence_as(self.outputs, outputs)

    def _writable(self, leaves):
        """The leaves, with copies of those that are written into but not our own."""
        leaves = list(leaves)
        holders = collections.Counter(x.untyped_storage().data_ptr() for x in leaves)
        for n in self.written:
            x = leaves[n]
            own = self.own.get(id(x), lambda: None)() is x
            if not own or holders[x.untyped_storage().data_ptr()] > 1:
                leaves[n] = x.clone()
        return leaves

    def _record(self, leaves):
        """The operations, or None if they cannot be recorded."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx

        def flat(*leaves):
            outputs = self.function(*tree.pack_sequence_as(self.args, list(leaves)))
            self.outputs = tree.map_structure(lambda x: 0, outputs)
            outputs = tree.flatten(outputs)
            if self.gradients and any(hasattr(x, "_keras_mask") for x in outputs):
                raise ValueError("a mask is no output of a list of operations")
            return [ops.convert_to_tensor(x) for x in outputs]

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                graph = make_fx(torch.func.functionalize(flat))(*leaves)
            return self._spared(graph)
        except Exception:  # whatever the reason, it runs as it is
            return None

    def _spared(self, graph):
        graph = passes.shortened(graph)
        if not self.gradients:
            graph = passes.folded(graph)
        graph = passes.multiplied(graph, gradients=self.gradients)
        if self.donated:
            graph, self.written = passes.written_in_place(graph)
        return passes.bound(graph)
