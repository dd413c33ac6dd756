r"""The LSTM, with peepholes or without, and with coupled gates.

Hochreiter and Schmidhuber 1997; peepholes from Gers et al. 2002. Course slides C and D
have the plain form; slides A give each gate a whole matrix on the memory.
"""

from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.layer import RecurrentLayer
from kerasseq.tracing import record


@register
class LSTMCell(RecurrentCell):
    r"""One time step of an LSTM.

    $$
    \begin{aligned}
    i_t &= \sigma(x_t W_i + h_{t-1} U_i + p_i \odot c_{t-1} + b_i) \\
    f_t &= \sigma(x_t W_f + h_{t-1} U_f + p_f \odot c_{t-1} + b_f) \\
    g_t &= \tanh(x_t W_g + h_{t-1} U_g + b_g) \\
    c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
    o_t &= \sigma(x_t W_o + h_{t-1} U_o + p_o \odot c_t + b_o) \\
    h_t &= o_t \odot \tanh(c_t)
    \end{aligned}
    $$

    Weights stand in the order $i$, $f$, $g$, $o$, without $i$ if `coupled`, and load
    from `keras.layers.LSTMCell`. The peepholes come last, in the order $i$, $f$, $o$.

    Args:
        units: Size of the state.
        activation: What stands for $\tanh$.
        recurrent_activation: What stands for $\sigma$.
        use_bias: Whether there is a $b$.
        kernel_initializer: Initializer of $W$.
        recurrent_initializer: Initializer of $U$.
        bias_initializer: Initializer of $b$.
        unit_forget_bias: Whether $b_f$ starts at 1, so that the network remembers.
        kernel_regularizer: Regularizer of $W$.
        recurrent_regularizer: Regularizer of $U$.
        bias_regularizer: Regularizer of $b$.
        kernel_constraint: Constraint on $W$.
        recurrent_constraint: Constraint on $U$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs that is dropped in training, from 0 to below 1.
        recurrent_dropout: Fraction of the state that is dropped in training.
        seed: Seed of the dropout.
        peephole: Whether the gates see the memory: None, they do not ($p = 0$);
            "diagonal", unit by unit, as above; "full", through matrices, all three on
            the old memory: $c_{t-1} P_i$, $c_{t-1} P_f$, $c_{t-1} P_o$.
        coupled: Whether what is forgotten is what is written, $i_t = 1 - f_t$.
        peephole_initializer: Initializer of $p$ or $P$.
        peephole_regularizer: Regularizer of $p$ or $P$.
        peephole_constraint: Constraint on $p$ or $P$.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> cell = LSTMCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 1997;
        Gers, Schraudolph and Schmidhuber, "Learning Precise Timing with LSTM Recurrent
        Networks", JMLR 2002 (peepholes). Slides A, B, C, D.
    """

    state_names = ("hidden_state", "cell_state")
    equation = ("lstm", "peephole", "coupled")

    def __init__(
        self,
        units,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        unit_forget_bias=True,
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        *,
        peephole=None,
        coupled=False,
        peephole_initializer="zeros",
        peephole_regularizer=None,
        peephole_constraint=None,
        **kwargs,
    ):
        checks.one_of("peephole", peephole, [None, "diagonal", "full"])
        super().__init__(locals())

    @property
    def gates(self):
        return 3 if self.coupled else 4

    def build(self, input_shape):
        super().build(input_shape)
        if self.peephole is None:
            return
        seeing = self.gates - 1  # every gate but the candidate
        full = self.peephole == "full"
        self.peephole_kernel = self.add_weight(
            shape=(self.units, seeing * self.units) if full else (seeing, self.units),
            name="peephole_kernel",
            initializer=self.peephole_initializer,
            regularizer=self.peephole_regularizer,
            constraint=self.peephole_constraint,
        )

    def initial_bias(self, shape, dtype=None):
        bias = super().initial_bias(shape, dtype)
        if not self.unit_forget_bias:
            return bias
        start = 0 if self.coupled else self.units
        ones = ops.ones((self.units,), dtype=bias.dtype)
        return ops.concatenate([bias[:start], ones, bias[start + self.units :]])

    def in_loop(self):
        peepholes = {"p": self.peephole_kernel} if self.peephole else {}
        return {**super().in_loop(), **peepholes}

    def step(self, projected, states, training=False):
        h, c = states
        sigma, phi = self.sigma, self.phi
        sums = projected + self.recurrent_product(h, training)
        if self.peephole == "full":
            sums = sums + self.all_peepholes(c)
        *i, f, g, o = ops.split(sums, self.gates, axis=-1)  # each (B, H)

        if self.peephole == "diagonal":
            *p_i, p_f, p_o = ops.split(self.peephole_kernel, self.gates - 1)  # (1, H)
            f = f + p_f * c
            i = [i + p_i * c for i, p_i in zip(i, p_i, strict=True)]
        f = record(self, "forget_gate", sigma(f))
        i = record(self, "input_gate", 1 - f if self.coupled else sigma(i[0]))
        g = record(self, "candidate", phi(g))
        c = record(self, "cell_state", f * c + i * g)
        if self.peephole == "diagonal":
            o = o + p_o * c
        o = record(self, "output_gate", sigma(o))
        h = record(self, "hidden_state", o * phi(c))
        return h, [h, c]

    def all_peepholes(self, c):
        """$c P$ for every gate, with zeros for the candidate, which sees no memory."""
        seen = kernels.matmul(c, self.peephole_kernel)
        candidate = (self.gates - 2) * self.units
        nothing = ops.zeros_like(seen[:, : self.units])
        return ops.concatenate(
            [seen[:, :candidate], nothing, seen[:, candidate:]], axis=-1
        )


@register
class LSTM(RecurrentLayer):
    r"""An LSTM over a sequence.

    $$
    \begin{aligned}
    i_t &= \sigma(x_t W_i + h_{t-1} U_i + p_i \odot c_{t-1} + b_i) \\
    f_t &= \sigma(x_t W_f + h_{t-1} U_f + p_f \odot c_{t-1} + b_f) \\
    g_t &= \tanh(x_t W_g + h_{t-1} U_g + b_g) \\
    c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
    o_t &= \sigma(x_t W_o + h_{t-1} U_o + p_o \odot c_t + b_o) \\
    h_t &= o_t \odot \tanh(c_t)
    \end{aligned}
    $$

    Takes the arguments of `keras.layers.LSTM` in the same order, and its weights.
    `LSTMCell` explains those of the cell, `RNN` the others.

    Args:
        units: Size of the state.
        activation: What stands for $\tanh$.
        recurrent_activation: What stands for $\sigma$.
        use_bias: Whether there is a $b$.
        kernel_initializer: Initializer of $W$.
        recurrent_initializer: Initializer of $U$.
        bias_initializer: Initializer of $b$.
        unit_forget_bias: Whether $b_f$ starts at 1, so that the network remembers.
        kernel_regularizer: Regularizer of $W$.
        recurrent_regularizer: Regularizer of $U$.
        bias_regularizer: Regularizer of $b$.
        activity_regularizer: Regularizer of the outputs.
        kernel_constraint: Constraint on $W$.
        recurrent_constraint: Constraint on $U$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs that is dropped in training.
        recurrent_dropout: Fraction of the state that is dropped in training.
        seed: Seed of the dropout.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last state, too.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last state of the one before.
        unroll: Whether to write the steps out instead of looping.
        use_cudnn: Whether cuDNN runs it: "auto", on PyTorch with a GPU where it
            computes the same thing; True, or else an error; False, never.
        peephole: Whether the gates see the memory: None, they do not ($p = 0$);
            "diagonal", unit by unit, as above; "full", through matrices, all three on
            the old memory: $c_{t-1} P_i$, $c_{t-1} P_f$, $c_{t-1} P_o$.
        coupled: Whether what is forgotten is what is written, $i_t = 1 - f_t$.
        peephole_initializer: Initializer of $p$ or $P$.
        peephole_regularizer: Regularizer of $p$ or $P$.
        peephole_constraint: Constraint on $p$ or $P$.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …

    Examples:
        >>> layer = LSTM(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)

    References:
        Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 1997;
        Gers, Schraudolph and Schmidhuber, "Learning Precise Timing with LSTM Recurrent
        Networks", JMLR 2002 (peepholes). Slides A, B, C, D.
    """

    Cell = LSTMCell

    def __init__(
        self,
        units,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        unit_forget_bias=True,
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        return_sequences=False,
        return_state=False,
        go_backwards=False,
        stateful=False,
        unroll=False,
        use_cudnn="auto",
        *,
        peephole=None,
        coupled=False,
        peephole_initializer="zeros",
        peephole_regularizer=None,
        peephole_constraint=None,
        **kwargs,
    ):
        super().__init__(locals())


@register
class PeepholeLSTM(LSTM):
    r"""An LSTM whose gates see the memory: `LSTM` with `peephole="diagonal"`.

    Args:
        units: Size of the state and of the memory.
        *args: As for `LSTM`.
        peephole: As for `LSTM`.
        **kwargs: As for `LSTM`.

    Examples:
        >>> layer = PeepholeLSTM(3)
        >>> layer.build((None, None, 5))
        >>> layer.get_weights()[-1].shape  # input, forget and output gate
        (3, 3)

    References:
        Gers, Schraudolph and Schmidhuber, "Learning Precise Timing with LSTM Recurrent
        Networks", JMLR 2002. Slides A.
    """

    def __init__(self, units, *args, peephole="diagonal", **kwargs):
        super().__init__(units, *args, peephole=peephole, **kwargs)
