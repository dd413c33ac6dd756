"""Language models over any architecture by name, or over a causal layer."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.carried_state import carries_state
from kerasseq.core.dense import Dense
from kerasseq.core.padding import bucket, pad_rows
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Nested, Tensor
from kerasseq.models import hidden_states
from kerasseq.models.arguments import checked_arguments
from kerasseq.models.causal_lm import CausalLM
from kerasseq.models.text_blocks import known_ids
from kerasseq.tasks.architectures import build_layers, first_output
from kerasseq.tasks.loss_chunks import TokenHead
from kerasseq.tasks.sequence_layers import embedding_width
from kerasseq.text.tokenizers.conversion import AnyTokenizer


@register
class LanguageModel(CausalLM):
    r"""Predict each token of a text from those before it.

    $$p(x_{t+1} \mid x_1 \dots x_t) = \mathrm{softmax}(W h_t + b)$$

    or with `skip` $\mathrm{softmax}(W_{hp} h_t + W_{xp} x_t + b)$, where $x_t$ is the
    embedding of the token: `W` has the rows of $W_{hp}$, and then those of $W_{xp}$.

    Args:
        architecture: "elman", "gated", "lstm", "peephole_lstm", "full_peephole_lstm",
            "coupled_lstm", "gru", "min_gru", "min_lstm", "slstm", "transformer",
            "blockwise", "longformer", "adaptive_span", "wavenet",
            "linear_attention", "gla", "retention", "delta_net", "mlstm", "rwkv7",
            "s4d", "mamba", "rwkv4", or a causal layer with outputs
            `(batch, time, units)`.
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        units: Width of the layers, for an architecture by name.
        num_layers: Number of layers, for an architecture by name; the stacks of a
            WaveNet.
        embedding_dim: Width of the vector of a token. `units` if None.
        dropout: Fraction dropped before each layer in training.
        skip: Whether the output also reads the embedding of the token.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, if neither or both of `tokenizer` and
            `vocabulary_size` are given, or if the layer sees the future.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> model = LanguageModel("lstm", tokenizer, units=5)
        >>> len(model.generate("he", max_new_tokens=7, seed=0))
        9

    References:
        Slides A, B, C, D, E: causal language models.
    """

    divides_weights: bool = False

    @checked_arguments()
    def __init__(
        self,
        architecture: str | keras.Layer,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        units: int = 128,
        num_layers: int = 1,
        embedding_dim: int | None = None,
        dropout: float = 0.0,
        skip: bool = False,
        **kwargs: Any,
    ) -> None:
        size = known_ids(tokenizer, vocabulary_size)
        width = embedding_width(embedding_dim, units)
        checks.fits_memory("vocabulary_size", size, width)
        if isinstance(architecture, str):
            checks.fits_memory("units", units, units)
            checks.fits_memory("num_layers", num_layers, units * units)
        inputs = keras.Input((None,), dtype="int32", name="ids")
        embedding = keras.layers.Embedding(size, width, name="embedding")
        x = x_t = embedding(inputs)
        layers = build_layers(
            architecture, units=units, num_layers=num_layers, dropout=dropout
        )
        for layer in layers:
            x = first_output(layer(x))
        if len(x.shape) != 3:
            raise ValueError(
                f"a language model needs an output at every step, but "
                f"{layers[-1].name} gives {x.shape}: build it with return_sequences"
            )
        logits = Dense(size, dtype=scores_dtype(), name="logits")
        scored = self._scored(x, x_t) if skip else x
        vars(self)["token_head"] = TokenHead(lambda: scored, [logits], logits)
        super().__init__(inputs, logits(scored), self._arguments, **kwargs)
        self.skip: bool = skip
        self._sequence_layers = layers
        self.hidden_width: int | None = x.shape[-1]
        backwards = any(getattr(layer, "go_backwards", False) for layer in layers)
        if backwards or not self._carries_state():
            self._check_causal(layers[0].name)

    def start(
        self, rows: list[list[int]], count: int
    ) -> tuple[dict[str, Nested], np.ndarray]:
        """Returns the state of decoding after all but the last token of each prompt.

        Args:
            rows: Prompts as lists of ids.
            count: How many tokens will be generated.

        Returns:
            The state: "states" of layers that carry one, as recurrent layers and
            convolutions do; for other layers "ids", the text so far, and "index", the
            next position of each row. And the last tokens `(B, 1)`.
        """
        longest = max(map(len, rows))
        last = np.array([[row[-1]] for row in rows], "int32")
        if self._carries_state():
            ids = pad_rows([row[:-1] for row in rows])
            lengths = np.array([[len(row) - 1] for row in rows])
            mask = np.arange(ids.shape[1]) < lengths
            inputs = ops.convert_to_tensor(ids), ops.convert_to_tensor(mask)
            return {"states": self._compiled_prefill()(*inputs)}, last
        ids = np.zeros((len(rows), bucket(longest + count)), "int32")
        for row, prompt in zip(ids, rows, strict=True):
            row[: len(prompt) - 1] = prompt[:-1]
        index = np.array([len(row) - 1 for row in rows], "int32")
        state = {"ids": ids, "index": index}
        return {name: ops.convert_to_tensor(x) for name, x in state.items()}, last

    def step(
        self, state: dict[str, Nested], token: Tensor
    ) -> tuple[Tensor, dict[str, Nested]]:
        """Returns the step function of decoding: `(state, token) -> (logits, state)`.

        Layers that carry a state advance by one token. Other layers read the whole text
        again.
        """
        if "states" in state:
            h, states = self._advance(token[:, None], state["states"])
            after = {"states": states}
        else:
            index = state["index"][:, None]  # (B, 1)
            here = ops.arange(ops.shape(state["ids"])[1])[None] == index
            ids = ops.where(here, token[:, None], state["ids"])
            # A causal layer does not read the padding after the text.
            h = kernels.take_steps(self._last_outputs(ids), index)
            after = {"ids": ids, "index": state["index"] + 1}
        h = h[:, -1]
        scored = h
        if self.skip:
            scored = self._scored(h, self.get_layer("embedding")(token))
        logits = self.get_layer("logits")(scored)
        return logits, hidden_states.update(state, after, h)

    @staticmethod
    def _scored(h: Tensor, x: Tensor) -> Tensor:
        """Joins what logits are computed from: the output, and the step's input."""
        return ops.concatenate([h, ops.cast(x, h.dtype)], axis=-1)

    def _last_outputs(self, ids: Tensor) -> Tensor:
        """Returns the outputs `(B, T, H)` of the last layer before the logits."""
        x = self.get_layer("embedding")(ids)
        for layer in self._sequence_layers:
            x = first_output(layer(x))
        return x

    def prefill(self, ids: Tensor, mask: Tensor) -> list[Nested]:
        """Returns the states of the layers after prompts `(B, P)`."""
        states = [
            layer.get_initial_state(ops.shape(ids)[0])
            for layer in self._sequence_layers
        ]
        return self._advance(ids, states, mask)[1]

    def _compiled_prefill(self) -> Callable[..., list[Nested]]:
        programs = kernels.programs(self.step)
        return programs.get(
            "prefill", None, lambda: kernels.compiled(self.prefill, pure=programs.pure)
        )

    def _advance(
        self, ids: Tensor, states: list[Nested], mask: Tensor | None = None
    ) -> tuple[Tensor, list[Nested]]:
        """Returns the outputs of the last layer, and the states of all."""
        x, after = self.get_layer("embedding")(ids), []
        for layer, state in zip(self._sequence_layers, states, strict=True):
            x, state = layer.advance(x, state, mask)
            after.append(state)
        return x, after

    def _carries_state(self) -> bool:
        return all(map(carries_state, self._sequence_layers))

    @property
    def compiles_loop(self) -> bool:  # a custom layer may not compile with XLA
        return self._carries_state()
