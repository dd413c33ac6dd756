r"""Recurrent decoder, with or without attention.

$$
\begin{aligned}
s_0 &= \tanh(W_0 \bar h) \\
s_t &= f([y_{t-1}; c_t], s_{t-1}), \quad c_t = \mathrm{attend}(s_{t-1}, h)
&& \text{Bahdanau} \\
s_t &= f(y_{t-1}, s_{t-1}), \quad c_t = \mathrm{attend}(s_t, h) && \text{Luong} \\
s_t &= f([y_{t-1}; \bar h], s_{t-1}), \quad c_t = \bar h && \text{no attention} \\
o_t &= \tanh(W_o [s_t; c_t]), \qquad p_t = \mathrm{softmax}(W_y o_t + b)
\end{aligned}
$$

with the outputs of the encoder $h$ (the memory), their summary $\bar h$, and the
embedding of the previous token, $y_{t-1}$. With input feeding, $o_{t-1}$ is an input of
$f$ as well. With `output_reads="previous"` the output reads the previous token, too, as
in Bahdanau's $p_t = g(y_{t-1}, s_t, c_t)$: $o_t = \tanh(W_o [s_t; c_t; y_{t-1}])$.

In training all target tokens are known. If no step needs the output of the step before,
each layer processes all of them at once, `_call_parallel`; else `_call_step_by_step`
loops over the time. In decoding, `decode_step` takes one token at a time.

Cho et al. 2014 (no attention: RNNenc); Bahdanau et al. 2015 (RNNsearch); Luong et al.
2015. Left out: the maxout layer of Bahdanau's output, for which $o_t$ stands here.
Course slides A, C, D.
"""

import functools
import random
from typing import Any

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.attention import choices
from kerasseq.attention.alignment import AlignmentAttention, BahdanauAttention
from kerasseq.attention.base import SingleHeadAttention
from kerasseq.core import checks, masks
from kerasseq.core.dense import Dense
from kerasseq.core.padding import START
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.models.seq2seq import decoder_cells as cells
from kerasseq.models.seq2seq.hard_attention import (
    ReinforcedChoices,
    doubly_stochastic_loss,
    draw_noise,
    hand_on,
    is_reinforced,
)
from kerasseq.models.seq2seq.scheduled_sampling import ScheduledSampler, deserialize
from kerasseq.rnn.layer import RNN
from kerasseq.tasks.architectures import first_output
from kerasseq.tracing import listeners
from kerasseq.training import Reinforcement, ScheduledSampling

OUTPUT_READS = (None, "previous")  # beside the state and the context


@register
class RecurrentDecoder(WithSublayers, keras.layers.Layer):
    r"""Predicts each token of a target from the memory of the source.

    Args:
        layers: Recurrent layers of `kerasseq.layers`, from the inputs to the outputs,
            with `return_sequences=True`.
        vocabulary_size: Number of ids, V, with padding, start and end.
        embedding_dim: Size of the token embeddings, E.
        attention: An `AlignmentAttention` or `KernelAttention`; None for none.
        input_feeding: Whether $o_{t-1}$ is an input of step t.
        dropout: Dropout rate of the token embeddings and of $o_t$.
        scheduled_sampling: A `training.ScheduledSampling`; None for teacher forcing.
        output_reads: What $o_t$ reads beside $s_t$ and $c_t$: "previous", the embedding
            $y_{t-1}$ of the previous token; nothing if None.
        doubly_stochastic: Factor in training of `doubly_stochastic_loss`, for soft
            attention.
        reinforcement: A `training.Reinforcement` for hard attention with
            `gradient="reinforce"`; its defaults if None.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        target: Ids `(B, T)`, with the start first.
        memory: $h$, `(B, S, M)`.
        summary: $\bar h$, `(B, N)`.
        memory_mask: Boolean `(B, S)`, True at real positions.
        return_attention_scores: Whether to return the attention weights as well.
        return_hidden: Whether to return the hidden states before the logits instead.
        training: Whether to apply dropout and scheduled sampling.

    Returns:
        Logits `(B, T, V)` of the token after each target token, or hidden states `(B,
        T, H)`; and the attention weights `(B, T, S)`, if asked for.

    Raises:
        ValueError: If the attention has dropout, and the steps run one by one, or an
            option is for another attention.
    """

    rematerialized: tuple[str, ...] = ("call",)

    def __init__(
        self,
        layers: list[keras.Layer],
        vocabulary_size: int,
        *,
        embedding_dim: int,
        attention: keras.Layer | None = None,
        input_feeding: bool = False,
        dropout: float = 0.0,
        scheduled_sampling: ScheduledSampling | None = None,
        output_reads: str | None = None,
        doubly_stochastic: float = 0.0,
        reinforcement: Reinforcement | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.recurrent_layers: list[RNN] = [deserialize(layer) for layer in layers]
        self.vocabulary_size: int = checks.size("vocabulary_size", vocabulary_size)
        self.embedding_dim: int = checks.size("embedding_dim", embedding_dim)
        self.attention: SingleHeadAttention | None = deserialize(attention)
        self.attends_before_step: bool = isinstance(self.attention, BahdanauAttention)
        self.attends_after_step: bool = not (
            self.attention is None or self.attends_before_step
        )
        self.input_feeding: bool = bool(input_feeding)
        self.output_reads: str | None = checks.one_of(
            "output_reads", output_reads, OUTPUT_READS
        )
        self.dropout = dropout
        self.units: int = cells.output_size(self.recurrent_layers[-1])
        dtype = self.dtype_policy
        self.embedding: keras.layers.Embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, name="embedding", dtype=dtype
        )
        # With a seed, so that checkpoints hold the state of its generator.
        seed = random.randint(1, 10**9) if dropout else None
        self.dropout_layer: keras.layers.Dropout = keras.layers.Dropout(
            dropout, seed=seed, dtype=dtype
        )
        self.first_states: keras.layers.Dense = Dense(
            sum(sum(cells.state_sizes(layer)) for layer in self.recurrent_layers),
            activation="tanh",
            name="first_states",
            dtype=dtype,
        )
        self.combine: keras.layers.Dense = Dense(
            self.units, activation="tanh", use_bias=False, name="combine", dtype=dtype
        )
        self.logits: keras.layers.Dense = Dense(
            vocabulary_size, dtype=scores_dtype(self.compute_dtype), name="logits"
        )
        self.scheduled_sampler: ScheduledSampler = ScheduledSampler(scheduled_sampling)
        self._check_attention()
        self.doubly_stochastic: float = checks.number(
            "doubly_stochastic", doubly_stochastic
        )
        self._check_options(reinforcement)
        self.reinforced_choices: ReinforcedChoices | None = None
        if is_reinforced(self.attention):
            self.reinforced_choices = ReinforcedChoices(reinforcement, name="choices")

    def _check_attention(self):
        attention = self.attention
        if attention is None:
            return
        if not isinstance(attention, SingleHeadAttention):
            raise TypeError(
                'attention must be None, "bahdanau", "luong", or a layer such as '
                f"kerasseq.layers.AlignmentAttention, received {attention!r}"
            )
        if getattr(attention, "dropout", 0) and self.runs_step_by_step(training=True):
            raise ValueError(
                "attention must not have dropout if the decoder runs step by step, "
                f"received {attention!r}. Use LuongAttention without input feeding and "
                "scheduled sampling, or an attention without dropout"
            )

    def _check_options(self, reinforcement):
        attention = self.attention
        if reinforcement is not None and not is_reinforced(attention):
            raise ValueError(
                'reinforcement needs attention="hard", or a layer with '
                f'gradient="reinforce", received {attention!r}. Leave it out'
            )
        if not self.doubly_stochastic:
            return
        if attention is None or getattr(attention, "hard", False):
            raise ValueError(
                'doubly_stochastic needs soft attention, such as attention="soft", '
                f"received {attention!r}. Leave it out"
            )

    def runs_step_by_step(self, training: bool) -> bool:
        """Returns whether a step needs the output of the step before."""
        sampling = training and self.scheduled_sampler.schedule is not None
        return self.attends_before_step or self.input_feeding or sampling

    def build(
        self, target_shape: Shape, memory_shape: Shape, summary_shape: Shape
    ) -> None:
        M, N, H = memory_shape[-1], summary_shape[-1], self.units
        self.embedding.build(target_shape)
        self.first_states.build((None, N))
        if self.attention is not None:
            self._check_memory_length(memory_shape[1])
            if not self.attention.built:  # one that was loaded is built
                self.attention.build((None, 1, H), (None, None, M))
        context_size = N if self.attention is None else M
        features = self.embedding_dim + self.input_feeding * H
        features += 0 if self.attends_after_step else context_size
        for layer in self.recurrent_layers:
            if not layer.built:
                layer.build((None, None, features))
            features = cells.output_size(layer)
        token_size = self.embedding_dim if self.output_reads else 0
        self.combine.build((None, H + context_size + token_size))
        self.logits.build((None, H))
        self.scheduled_sampler.build()
        if self.reinforced_choices is not None:
            self.reinforced_choices.build()
        self.built = True

    def _check_memory_length(self, length):
        max_length = getattr(self.attention, "max_length", None)
        if None not in (max_length, length) and length > max_length:
            raise ValueError(
                f"max_length of the attention must be at least {length}, the number of "
                f"source positions, received max_length={max_length}"
            )

    def call(
        self,
        target: Tensor,
        memory: Tensor,
        summary: Tensor,
        memory_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool = False,
        *,
        return_hidden: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if return_attention_scores and self.attention is None:
            raise ValueError(
                "return_attention_scores=True needs a decoder with attention, received "
                "one with attention=None"
            )
        y = self.dropout_layer(self.embedding(target), training=training)  # (B, T, E)
        state = self.initial_state(memory, summary, memory_mask)
        if self.runs_step_by_step(training):
            o, alpha = self._call_step_by_step(target, y, state, training)
        else:
            o, alpha = self._call_parallel(y, state, training)
        if training and self.doubly_stochastic:
            self.add_loss(
                self.doubly_stochastic * doubly_stochastic_loss(alpha, target)
            )
        o = self.dropout_layer(o, training=training)
        if return_hidden:
            return o
        logits = self.logits(o)  # (B, T, V)
        return (logits, alpha) if return_attention_scores else logits

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None

    def initial_state(
        self, memory: Tensor, summary: Tensor, memory_mask: Tensor | None = None
    ) -> dict[str, Any]:
        """Computes the state before the first token.

        Returns:
            Dictionary of "source", which is constant: memory, mask, summary and the
            projected keys; "cell_states", a list of the states of each layer; and with
            input feeding "output", $o_0 = 0$.
        """
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory)[:2], "bool")
        else:
            memory = masks.zero_masked(memory, memory_mask)
        source = {"memory": memory, "mask": memory_mask, "summary": summary}
        if isinstance(self.attention, AlignmentAttention):
            source["keys"] = self.attention.project_keys(memory)
        states = cells.split_states(self.first_states(summary), self.recurrent_layers)
        state = {"source": source, "cell_states": states}
        if self.input_feeding:
            state["output"] = ops.zeros_like(states[-1][0])
        return state

    def decode_step(
        self, state: dict[str, Any], token: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns the step function of decoding: `(state, token) -> (logits, state)`.

        To be called by a `core.method_layer.MethodLayer`, like `initial_state` and
        `attention_scores`.
        """
        y = self.embedding(token)
        s, c, _, cell_states = self._observed_step(y, state)
        o = self.combine(self._read_by_output(s, c, y))
        after = {"source": state["source"], "cell_states": cell_states}
        if self.input_feeding:
            after["output"] = o
        return self.logits(o), after

    def attention_scores(self, *args: Any, **kwargs: Any) -> Tensor:
        """Computes the attention weights `(B, T, S)`, with the arguments of `call`."""
        return self.call(*args, **kwargs, return_attention_scores=True)[1]

    def _read_by_output(self, s, c, y):
        """Returns the input of $o_t$: $[s_t; c_t]$, or $[s_t; c_t; y_{t-1}]$."""
        parts = [s, c, y] if self.output_reads == "previous" else [s, c]
        return ops.concatenate(parts, axis=-1)

    def _observed_step(self, y, state):
        """Runs one step, as a loop of one step for listeners to the layers."""
        observed = cells.observe(self)
        if observed is None or not observed.observes:
            return self._recurrent_step(y, state)
        carry = {name: x for name, x in state.items() if name != "source"}

        def step(carry, inputs):
            s, c, alpha, cell_states = self._recurrent_step(
                inputs["y"], {**carry, "source": state["source"]}
            )
            return {**carry, "cell_states": cell_states}, {"s": s, "c": c}

        after, outputs = cells.run_observed(self, observed, step, carry, {"y": y[None]})
        return outputs["s"][0], outputs["c"][0], None, after["cell_states"]

    def _recurrent_step(self, y, state, training=False):
        """Returns one step of attention and of all recurrent layers.

        Args:
            y: $y_{t-1}$, `(B, E)`.
            state: As returned by `initial_state`.
            training: Whether the cells apply dropout, and attention samples.

        Returns:
            $s_t$ `(B, H)`, $c_t$ `(B, M)`, the attention weights `(B, S)` or None, and
            the new "cell_states".
        """
        source, cell_states = state["source"], state["cell_states"]
        c, alpha = source["summary"], None
        if self.attends_before_step:
            c, alpha = self._attend_once(cell_states[-1][0], source, training)
        inputs = [y] if self.attends_after_step else [y, c]
        if self.input_feeding:
            inputs.append(state["output"])
        x, new_states = ops.concatenate(inputs, axis=-1), []
        for layer, states in zip(self.recurrent_layers, cell_states, strict=True):
            x, states = cells.cell_step(layer.cell, x, states, training)
            new_states.append(states)
        if self.attends_after_step:
            c, alpha = self._attend_once(x, source, training)
        return x, c, alpha, new_states

    def _attend(self, query, source, training=False):
        """Computes context `(B, T, M)` and weights `(B, T, S)` of `(B, T, H)`."""
        memory, keys = source["memory"], source.get("keys")
        return self.attention.attend(
            query,
            memory,
            memory if keys is None else keys,
            ops.cast(source["mask"], "bool")[:, None],
            projected=keys is not None,
            training=training,
        )

    def _attend_once(self, query, source, training):
        """Returns the same for one query of each row, `(B, H)`."""
        c, alpha = self._attend(query[:, None], source, training)
        return c[:, 0], alpha[:, 0]

    def _draw_soft(self, y, training):
        """Draws which rows read the expected value of hard attention, or None."""
        if self.reinforced_choices is None or not training:
            return None
        return self.reinforced_choices.draw_soft(ops.shape(y)[0])

    def _call_parallel(self, y, state, training):
        """Processes all target tokens at once, layer by layer.

        Args:
            y: Embeddings of the target tokens, `(B, T, E)`.
            state: The state before the first token.
            training: Whether layers apply dropout.

        Returns:
            $o_t$ of all steps, `(B, T, H)`, and the attention weights `(B, T, S)` or
            None.
        """
        source, x, alpha = state["source"], y, None
        if self.attention is None:
            c = ops.repeat(source["summary"][:, None], ops.shape(x)[1], axis=1)
            x = ops.concatenate([x, c], axis=-1)
        states = state["cell_states"]
        for layer, first in zip(self.recurrent_layers, states, strict=True):
            x = first_output(layer(x, initial_state=first, training=training))
        if self.attention is not None:
            with choices.collect(soft=self._draw_soft(y, training)) as chosen:
                c, alpha = self._attend(x, source, training)
            hand_on(self.attention.name, chosen)
        return self.combine(self._read_by_output(x, c, y)), alpha

    def _call_step_by_step(self, target, y, state, training):
        """Processes the target tokens one after the other; see `_call_parallel`.

        Args:
            target: Ids `(B, T)`.
            y: Their embeddings, `(B, T, E)`.
            state: The state before the first token.
            training: Whether to apply dropout and scheduled sampling.
        """
        observed = cells.observe(self)
        carry = {name: x for name, x in state.items() if name != "source"}
        inputs = {"y": y}
        if training and self.scheduled_sampler.schedule is not None:
            inputs |= self.scheduled_sampler.draw(target, self.vocabulary_size)
            # Predicted tokens get the dropout of the target tokens that they replace.
            inputs["dropout_mask"] = self.dropout_layer(
                ops.ones_like(y), training=training
            )
            carry["predicted"] = ops.full_like(target[:, 0], START)
        source, soft = state["source"], self._draw_soft(y, training)
        noise = draw_noise(self.attention, y, source["memory"]) if training else None
        if noise is not None:
            inputs["position_noise"] = noise
        inputs = tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), inputs)
        step = functools.partial(self._loop_step, source, soft, training)
        with cells.dropout_masks(self.recurrent_layers, y, training):
            if observed is None or not observed.changes:
                with listeners.pause():
                    _, outputs = kernels.scan(step, carry, inputs)  # (T, B, ...)
            if observed is not None and observed.observes:
                # Without a change a second run: recording does not change the result.
                _, changed = cells.run_observed(self, observed, step, carry, inputs)
                outputs = changed if observed.changes else outputs
        outputs = {name: ops.swapaxes(x, 0, 1) for name, x in outputs.items()}
        if "log_p" in outputs:
            choices.add(self.attention.name, outputs["log_p"], outputs["entropy"])
        if "o" not in outputs:  # no step needed it: computed for all steps at once
            read = self._read_by_output(outputs["s"], outputs["c"], y)
            outputs["o"] = self.combine(read)
        return outputs["o"], outputs.get("alpha")

    def _loop_step(self, source, soft, training, carry, inputs):
        """Runs one step of the loop over time: next carry, and outputs."""
        y = inputs["y"]
        if "predicted" in carry:
            predicted = self.embedding.call(carry["predicted"]) * inputs["dropout_mask"]
            y = ops.where(inputs["use_target"][:, None], y, predicted)
        noise = inputs.get("position_noise")  # (B, S)
        with choices.collect(None if noise is None else noise[:, None], soft) as chosen:
            s, c, alpha, cell_states = self._recurrent_step(
                y, {**carry, "source": source}, training
            )
        after, outputs = {"cell_states": cell_states}, {"s": s, "c": c}
        if chosen:
            outputs["log_p"] = chosen[0][:, 0]  # (B,)
            outputs["entropy"] = chosen.entropies[0][:, 0]
        if alpha is not None:
            outputs["alpha"] = alpha
        if carry.keys() != after.keys():  # the next step needs o
            o = outputs["o"] = self.combine.call(self._read_by_output(s, c, y))
        if "output" in carry:
            after["output"] = o
        if "predicted" in carry:
            token = self.scheduled_sampler.predict_token(
                self.logits(o), inputs.get("gumbel_noise")
            )
            after["predicted"] = ops.cast(token, carry["predicted"].dtype)
        return after, outputs

    def get_config(self) -> Config:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "layers": serialize(self.recurrent_layers),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "attention": serialize(self.attention),
            "input_feeding": self.input_feeding,
            "dropout": self.dropout,
            "scheduled_sampling": serialize(self.scheduled_sampler.schedule),
            "output_reads": self.output_reads,
            "doubly_stochastic": self.doubly_stochastic,
            "reinforcement": serialize(
                self.reinforced_choices and self.reinforced_choices.reinforcement
            ),
        }
