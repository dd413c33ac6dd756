"""The layers around the cells: `RNN` for any cell, and the base of our named layers."""

import operator

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import check_mask, check_numbers
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.through import Through
from kerasseq.rnn.loop import run_through_time


@register
class RNN(WithSublayers, keras.layers.RNN):
    """Run any Keras cell through time, in a way that can be looked into.

    The same as `keras.layers.RNN`, argument by argument, but masks mean the same on
    every backend: a masked step leaves the state as it was, the last output is that
    of the last real step, and outputs before the first real step are zeros.

    Args:
        cell: A cell, with `state_size` and `call(inputs, states)`.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last states, too.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last states of the one before.
        unroll: Whether to write the steps out instead of looping.
        zero_output_for_mask: Whether outputs at masked steps are zeros. Otherwise they
            repeat the last real output.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        sequences: `(batch, time, features)`.
        initial_state: List of the states to start from, each `(batch, units)`.
        mask: Boolean, `(batch, time)`, True where a step is real.
        training: Whether dropout is on.

    Returns:
        `(batch, units)`, or `(batch, time, units)` with `return_sequences`; a tuple of
        this and the states with `return_state`.

    Raises:
        ValueError: If there is no step.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.RNN(keras.layers.GRUCell(3), return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    def __init__(
        self,
        cell,
        return_sequences=False,
        return_state=False,
        go_backwards=False,
        stateful=False,
        unroll=False,
        zero_output_for_mask=False,
        **kwargs,
    ):
        super().__init__(
            cell,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            zero_output_for_mask=zero_output_for_mask,
            **kwargs,
        )
        check_float64(self)
        self.supports_masking = True  # Keras 3.16 no longer sets it

    def call(self, sequences, initial_state=None, mask=None, training=False):
        check_numbers("sequences", sequences, more=True)
        if sequences.shape[1] == 0:
            raise ValueError(
                f"sequences have shape {tuple(sequences.shape)}, of 0 steps: "
                "there must be at least one step"
            )
        return super().call(
            sequences, initial_state=initial_state, mask=mask, training=training
        )

    def inner_loop(self, sequences, initial_state, mask, training=False):
        return run_through_time(
            self,
            sequences,
            initial_state,
            mask=as_mask(mask, sequences.shape),
            training=training,
            return_sequences=self.return_sequences,
        )

    def advance(self, sequences, states=None, mask=None):
        """Run on from `states`, whatever `return_state` and `return_sequences` say.

        Args:
            sequences: `(batch, time, features)`.
            states: What an earlier call gave; None to start.
            mask: Boolean `(batch, time)`, False at padding. No padding if None.

        Returns:
            All outputs `(batch, time, units)`, and the list of states to go on from.
        """
        if not self.built:
            self.build(sequences.shape)
        if states is None:
            states = self.get_initial_state(ops.shape(sequences)[0])
        return Through(self, "_advance")(sequences, states, mask)

    def _advance(self, sequences, states, mask):
        _, outputs, states = run_through_time(self, sequences, states, mask=mask)
        return outputs, states


def as_mask(mask, shape):
    """The boolean mask `(batch, time)` of sequences of this shape, or None.

    Raises:
        ValueError: If the mask has another rank, batch size or length.
    """
    mask = tree.flatten(mask)[0] if tree.is_nested(mask) else mask
    if mask is None:
        return None
    check_mask("mask", mask, ("batch", "time"), shape[:2], broadcasts=False)
    return ops.cast(mask, "bool")


class RecurrentLayer(RNN):
    """A layer whose arguments are those of its cell and those of `RNN` together.

    A subclass sets `Cell`, lists its arguments in `__init__` and hands over `locals()`.
    """

    Cell = None

    def __init_subclass__(cls, **kwargs):
        """Give the layer its cell's attributes: `layer.units`, `layer.dropout`."""
        super().__init_subclass__(**kwargs)
        for name in arguments.names(cls.Cell):
            setattr(cls, name, property(operator.attrgetter(f"cell.{name}")))

    def __init__(self, local_names: dict):
        given, kwargs = arguments.own(local_names), local_names["kwargs"]
        use_cudnn = given.pop("use_cudnn", "auto")
        if use_cudnn is True and not kernels.has_cudnn():
            raise ValueError(
                f"use_cudnn=True cannot be met: {keras.backend.backend()} finds no "
                'NVIDIA GPU with cuDNN here. "auto" and False run anywhere'
            )
        cell_arguments = {name: given.pop(name) for name in arguments.names(self.Cell)}
        shared = {key: kwargs[key] for key in ("dtype", "trainable") if key in kwargs}
        super().__init__(
            self.Cell(**cell_arguments, name="cell", **shared), **given, **kwargs
        )
        self.input_spec = keras.layers.InputSpec(ndim=3)
        if "use_cudnn" in local_names:
            self.use_cudnn = checks.one_of(
                "use_cudnn", use_cudnn, ["auto", True, False]
            )
            if use_cudnn is True and keras.backend.backend() == "tensorflow":
                self.supports_jit = False  # XLA does not know cuDNN's operation

    def build(self, sequences_shape, initial_state_shape=None):
        super().build(sequences_shape, initial_state_shape)
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: sequences_shape[-1]})

    @classmethod
    def from_config(cls, config):
        """Build the layer; where there is no cuDNN, one saved with it does without."""
        if config.get("use_cudnn") is True and not kernels.has_cudnn():
            config = {**config, "use_cudnn": "auto"}
        return cls(**config)

    def get_config(self):
        config = super().get_config()
        del config["cell"]
        config["activity_regularizer"] = arguments.as_config(
            "activity_regularizer", self.activity_regularizer
        )
        if hasattr(self, "use_cudnn"):
            config["use_cudnn"] = self.use_cudnn
        for name in arguments.names(self.Cell):
            config[name] = arguments.as_config(name, getattr(self, name))
        return config
