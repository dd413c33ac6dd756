r"""GPT: decoder-only Transformer language models, from ids to logits and loss.

$$x_0 = E_w + P, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
p = \mathrm{softmax}(\mathrm{LayerNorm}(x_L) E^T)$$

`GPT` is made of a `Stack` of layers (`stack.py`), which it applies to whole texts, and
with cached keys and values to one token. The blocks are in `transformer/decoder.py`,
`generate` and `stream` in `generation.py`, and training on texts in `causal_lm.py`.
"""

import contextlib
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.attention.cache import update_cache
from kerasseq.core import checks
from kerasseq.core.padding import bucket
from kerasseq.core.serialization import register
from kerasseq.core.types import Nested, Tensor
from kerasseq.models import hidden_states
from kerasseq.models.arguments import among, check_memory, checked_arguments
from kerasseq.models.causal_lm import CausalLM
from kerasseq.models.gpt import segments
from kerasseq.models.gpt.gpt_task import GPTTask
from kerasseq.models.gpt.stack import Stack, check_row, make_stack, options_of
from kerasseq.models.text_blocks import known_ids
from kerasseq.positions import by_name
from kerasseq.published.architectures import Architecture, find
from kerasseq.tasks.labels import Label
from kerasseq.tasks.loss_chunks import scored
from kerasseq.text.tokenizers.conversion import AnyTokenizer
from kerasseq.transformer.global_tokens import check_global_tokens, given

SHORTEST_CACHE = 64  # shorter ones would be compiled for each length without gain


@register
class GPT(CausalLM):
    r"""A decoder-only Transformer that predicts each token from those before it.

    Its options are the columns of the course's table of language models: with options
    other than the defaults it is a LLaMA, a BLOOM or a PaLM; see `from_architecture`.

    Weights are initialized as in GPT-2, from normal distributions of standard deviation
    0.02, for positions 0.01. With `norm_placement="pre"` it is $0.02 / \sqrt{2 L}$ for
    the last kernel of each sublayer, as the outputs of 2 L of them are added.

    Args:
        tokenizer: Fitted, saved with the model; see `kerasseq.text.as_tokenizer`.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        num_heads: N.
        hidden_dim: D.
        intermediate_dim: Width of the feed-forward networks by name; 4 D if None.
        max_sequence_length: The most tokens of a text.
        dropout: Dropout rate.
        norm: "layer" or "rms".
        norm_placement: "pre", "post" or "deep".
        feed_forward: "gelu", "gelu_tanh" as in the weights of GPT-2, "relu", "swiglu",
            "geglu" …, see `FeedForward`; "none" for blocks without one; a layer, of
            which each block gets a copy; or a list with one of these for each block.
        use_bias: Whether dense layers and norms have biases.
        position: "learned", "sinusoidal", "rope", "alibi", "relative" as in T5,
            "transformer_xl", None, or a position object as for `MultiHeadAttention`.
        num_key_value_heads: Number of key and value heads; N if None.
        head_dim: Width of a head; D / N if None.
        parallel: Whether attention and feed-forward network are applied in parallel.
        sliding_window: Each token attends to this many tokens, itself included; to all
            before it if None.
        embedding_norm: Whether to normalize the embeddings.
        tie_embeddings: Whether the output projection is the embedding matrix.
        layer_norm_epsilon: Epsilon of the norms.
        use_query_key_value_bias: Whether the query, key and value projections have
            biases; as `use_bias` if None. True without other biases is Qwen2.
        query_key_norm: Norm of each query and key head: "layer", "rms" as in Qwen3, or
            None.
        embedding_scale: Factor of the token embeddings: $\sqrt D$ in Gemma; 1 if None.
        head: "tokens" for logits `(B, T, V)`, or None for hidden states `(B, T, D)`,
            to which `with_head` adds a task.
        attention: What reads the sequence in the blocks: "multi_head", "blockwise",
            "longformer", "adaptive_span", or in their place "gla", "min_gru" …, see
            `TransformerDecoder`; a causal layer, of which each block gets a copy; or a
            list with one of these for each block. Layers that carry states know the
            order of tokens, and need no `position`.
        logit_soft_cap: c, which bounds the logits: $c \tanh(x / c)$; none if None.
        global_tokens: Of "longformer": "first", ids of tokens, or None. They attend to
            all tokens before them, and all tokens after them attend to them.
        memory_length: M, the tokens before a segment of which a token sees the hidden
            states, as in Transformer-XL; none if None. Needs `position` "rope" or
            "transformer_xl". `fit` and `evaluate` cut a text into as many parts as a
            batch has rows, and these into segments: each row continues that of the
            batch before. Both begin with an empty memory, which no file contains. In
            `generate` a token sees itself and the M before. A call reads whole texts.
        residual: Whether the blocks have residual connections.
        **kwargs: `name` and `trainable`.

    Call arguments:
        global_mask: Boolean `(B, T)`, the global tokens of this call in place of
            `global_tokens`.
        padding_mask: Boolean `(B, T)`, False at padding, which then has no position,
            and loads no expert.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or `num_heads` does not divide D.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> model = GPT(tokenizer, num_layers=2, num_heads=2, hidden_dim=8)
        >>> len(model.generate("he", max_new_tokens=7, seed=0))
        9

    References:
        Radford et al. 2018 and 2019; Dai et al. 2019 (memory). Slides A, C, D, E.
    """

    # Of the architectures that this class builds.
    built_attention: tuple[str, ...] = ("multi_head",)
    fields: tuple[str, ...] = (  # of an architecture, which are arguments here
        *("num_layers", "num_heads", "hidden_dim", "intermediate_dim", "norm"),
        *("norm_placement", "feed_forward", "use_bias", "position", "head_dim"),
        *("num_key_value_heads", "parallel", "embedding_norm", "tie_embeddings"),
        "max_sequence_length",
    )

    @checked_arguments(head=among("tokens", None))
    def __init__(
        self,
        tokenizer: AnyTokenizer | None = None,
        *,
        vocabulary_size: int | None = None,
        num_layers: int = 4,
        num_heads: int = 4,
        hidden_dim: int = 128,
        intermediate_dim: int | None = None,
        max_sequence_length: int = 256,
        dropout: float = 0.0,
        norm: str = "layer",
        norm_placement: str = "pre",
        feed_forward: Any = "gelu",
        use_bias: bool = True,
        position: Any = "learned",
        num_key_value_heads: int | None = None,
        head_dim: int | None = None,
        parallel: bool = False,
        sliding_window: int | None = None,
        embedding_norm: bool = False,
        tie_embeddings: bool = True,
        layer_norm_epsilon: float = 1e-5,
        use_query_key_value_bias: bool | None = None,
        query_key_norm: str | None = None,
        embedding_scale: float | None = None,
        head: str | None = "tokens",
        attention: Any = "multi_head",
        logit_soft_cap: float | None = None,
        global_tokens: str | Sequence[int] | None = None,
        memory_length: int | None = None,
        residual: bool = True,
        **kwargs: Any,
    ) -> None:
        config = self._arguments
        size = known_ids(tokenizer, vocabulary_size)
        config["global_tokens"] = check_global_tokens(global_tokens, size)
        segments.check_memory_length(memory_length, position, attention, sliding_window)
        if isinstance(position, str) or position is None:
            checks.one_of("position", position, by_name.DECODER_POSITIONS)
        learned = position == "learned"
        check_memory(
            config,
            vocabulary_size=size,
            max_sequence_length=max_sequence_length if learned else None,
        )
        stack = make_stack(size, types.SimpleNamespace(**config))
        ids = keras.Input((None,), dtype="int32", name="ids")
        chosen = {"global_mask": stack.global_mask(ids)}
        outputs, _ = stack.hidden_states(stack.embedding(ids), **chosen)  # (B, T, D)
        if head is not None:
            vars(self)["token_head"] = stack.token_head(outputs)
            outputs = stack.logits(outputs)  # (B, T, V)
        super().__init__(ids, outputs, config, **kwargs)
        self.stack: Stack = stack
        self.head = head
        self.hidden_width: int | None = hidden_dim
        self.max_sequence_length: int = config["max_sequence_length"]
        # Only learned positions end.
        self.context_length: int | None = self.max_sequence_length if learned else None
        self.memory_length: int | None = memory_length
        self.segment_memory: segments.SegmentMemory | None = None
        if memory_length:
            shapes = segments.state_shapes(num_layers, memory_length, hidden_dim)
            memory = segments.SegmentMemory(shapes, dtype=self.dtype_policy)
            self.segment_memory = memory
            self.cut: segments.TextCut = segments.Consecutive(memory)
        if not isinstance(attention, str):
            self._check_causal("attention")

    def call(
        self,
        inputs: Any,
        training: bool | None = None,
        mask: Any = None,
        global_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> Any:
        """Applies the model to whole texts; to segments in `fit` with a memory."""
        memory = self.segment_memory
        if isinstance(inputs, Mapping) and "padding_mask" in inputs:  # of `fit`
            inputs, padding_mask = inputs["ids"], inputs["padding_mask"]
        if padding_mask is not None:
            return scored(self, self.stack.of_padded(inputs, padding_mask, global_mask))
        if memory is None or not memory.is_used:
            with given(self, global_mask):
                return super().call(inputs, training=training, mask=mask)
        (ids,) = keras.tree.flatten(inputs)
        outputs, states = self._advance(ids, memory.read(), None, training)
        memory.write(states)
        return outputs

    def padded_inputs(self, ids: np.ndarray, real: np.ndarray) -> Any:
        """Returns the inputs of the model; experts must not count padding."""
        return {"ids": ids, "padding_mask": real} if self.stack.has_experts else ids

    def _advance(self, ids, states, mask, training):
        h, after = self.stack.advance(self.stack.embedding(ids), states, mask, training)
        return scored(self, h), after

    def advance(
        self, ids: Any, states: list[Tensor] | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Reads the next segment of texts, for a model with `memory_length`.

        Each token attends to those before it in the segment, and to the memory. If
        everything before fits into it, the segments give the logits of the whole text.

        Args:
            ids: Ids of a segment, `(B, T)`.
            states: The memory, as returned for the segment before; None to start.
            mask: Boolean `(B, T)`, False at padding, which the memory leaves out.

        Returns:
            Logits `(B, T, V)`, and the memory: for each block its last M inputs, `(B,
            M, D)`, without a gradient; and `(B, M)`, True at those of real tokens.

        Raises:
            TypeError: If `ids` are no integers, or `states` not a list of tensors.
            ValueError: If there is no memory, or it is of another model or batch.

        Examples:
            >>> sizes = {"vocabulary_size": 11, "num_layers": 1, "hidden_dim": 8}
            >>> model = GPT(**sizes, position="rope", memory_length=5)
            >>> ids = np.array([[3, 1, 4, 1, 5, 9]])
            >>> _, states = model.advance(ids[:, :4])
            >>> logits, states = model.advance(ids[:, 4:], states)
            >>> whole, last = map(keras.ops.convert_to_numpy, (model(ids), logits))
            >>> bool(np.allclose(last, whole[:, 4:], atol=1e-5))
            True
        """
        ids, states = segments.checked(self.segment_memory, ids, states, mask)
        if isinstance(ids, np.ndarray):  # not in a compiled graph
            self._check_ids(ids)
        return self._advance(ops.convert_to_tensor(ids), states, mask, False)

    def train_step(self, *args: Any) -> Any:
        """Runs a step of Keras' training, with the memory of `fit`."""
        with self._step_of("train"):
            return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        """Runs a step of evaluation, as Keras does; with the memory of `evaluate`."""
        with self._step_of("test"):
            return super().test_step(*args)

    def _step_of(self, kind):
        memory = self.segment_memory
        return memory.in_step(kind) if memory else contextlib.nullcontext()

    def _has_changed(self, step):
        memory = self.segment_memory
        return super()._has_changed(step) or bool(memory and memory.has_changed(step))

    def ids(self, source: Any) -> np.ndarray | None:
        """Returns the ids of a text, as for `CausalLM`.

        Raises:
            ValueError: If the model has no head, and cannot predict tokens.
        """
        ids = super().ids(source)
        if ids is not None and self.head is None:
            raise ValueError(
                "this GPT has no head that predicts tokens, received head=None. Build "
                'it with head="tokens" to train on texts and to generate, or add '
                'another head with with_head("classify", labels=2), for example'
            )
        return ids

    def with_head(
        self,
        head: str,
        labels: int | Sequence[Label] | None = None,
        *,
        multi_label: bool = False,
        language_model_weight: float = 0.0,
        truncate: bool = False,
        dropout: float | None = None,
    ) -> GPTTask:
        """Adds a task head, to fine-tune the model on texts and labels.

        Args:
            head: "classify", "entail", "compare", "choose", "reward", "tag" or "span".
            labels: As for `GPTTask`, like the next three.
            multi_label: Whether an example may have several labels.
            language_model_weight: Weight of the language modeling loss.
            truncate: Whether texts that are too long are cut.
            dropout: Dropout rate; as before if None.

        Returns:
            A `GPTTask` with copies of the weights of this model.

        Raises:
            ValueError: If the head is unknown, or `labels` do not fit it.

        Examples:
            >>> model = GPT(vocabulary_size=11, num_layers=1, hidden_dim=8)
            >>> model.with_head("classify", 3).output_shape
            (None, 3)
        """
        return GPTTask(
            self,
            head,
            labels,
            multi_label=multi_label,
            language_model_weight=language_model_weight,
            truncate=truncate,
            dropout=dropout,
        )

    @classmethod
    def from_architecture(
        cls,
        architecture: str | Architecture,
        tokenizer: AnyTokenizer | None = None,
        **changes: Any,
    ) -> Self:
        """Builds the model that a row of `models.architectures` describes.

        Args:
            architecture: A name, such as "gpt2_small", or a row, such as
                `architectures["llama_7b"].small()`.
            tokenizer: A fitted tokenizer, whose vocabulary replaces that of the row.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model with initial weights.

        Raises:
            ValueError: If there is no such row, or it is of another kind of model.

        Examples:
            >>> GPT.from_architecture(find("gpt2_small").small()).count_params()
            17328
        """
        row = find(architecture, **changes)
        cls._check_architecture(row)
        options = cls._options_of(row)
        if tokenizer is None:
            options["vocabulary_size"] = row.vocabulary_size
        return cls(tokenizer, **{n: v for n, v in options.items() if v is not None})

    @classmethod
    def _options_of(cls, row):
        """Returns the fields of a row that are arguments of this class."""
        return options_of(row, cls.fields)

    @classmethod
    def _check_architecture(cls, row):
        check_row(row, cls.__name__, cls.built_attention)

    def start(
        self, rows: list[list[int]], count: int
    ) -> tuple[dict[str, Nested], np.ndarray]:
        """Returns the state of decoding after prompts, with room for `count` tokens.

        Returns:
            The state after all but the last token of each row of ids: "caches", the
            keys and values of each layer, and "index" `(B,)`, the next position. And
            the last tokens `(B, 1)`.
        """
        batch, longest_prompt = len(rows), max(map(len, rows))
        length = max(bucket(longest_prompt + count), SHORTEST_CACHE)
        if self.context_length is not None:
            length = min(length, self.context_length)
        prompt_length = min(bucket(max(longest_prompt - 1, 1)), length)
        programs = kernels.programs(self.step)
        limit = programs.get("limit", None, lambda: self.stack.cache_limit)
        cached = limit is None or max(prompt_length, longest_prompt + count) <= limit
        ids = np.zeros((batch, prompt_length if cached else length), "int32")
        for row, prompt in enumerate(rows):
            ids[row, : len(prompt) - 1] = prompt[:-1]
        index = np.array([len(prompt) - 1 for prompt in rows], "int32")
        last = np.array([[prompt[-1]] for prompt in rows], "int32")
        ids, index = ops.convert_to_tensor(ids), ops.convert_to_tensor(index)
        if not cached:  # keys change with the length: each step reads the whole text
            return {"ids": ids, "index": index}, last
        prefill = functools.partial(self.prefill, length=length)
        compiled = functools.partial(kernels.compiled, prefill, pure=programs.pure)
        inputs = [ids, index]
        if programs.get("sizes", None, lambda: self.stack.caches_follow_weights):
            inputs.append(self.stack.make_caches(batch, length))
        caches = programs.get("prefill", length, compiled)(*inputs)
        return {"caches": caches, "index": index}, last

    def step(
        self, state: dict[str, Nested], token: Tensor
    ) -> tuple[Tensor, dict[str, Nested]]:
        """Returns the step function: `(state, token) -> (logits, state)`."""
        index = state["index"]
        if "ids" in state:
            ids = update_cache(state["ids"], token[:, None], index)
            h = self.stack.next_hidden_state(ids, index)
            after = {"ids": ids, "index": index + 1}
        else:
            x = self.stack.embedding(token[:, None])
            chosen = self.stack.global_mask(token[:, None], index)
            h, caches = self.stack.hidden_states(
                x, state["caches"], index, global_mask=chosen
            )
            after = {"caches": caches, "index": index + 1}
        return self.stack.logits(h)[:, 0], hidden_states.update(state, after, h[:, 0])

    def prefill(
        self,
        ids: Tensor,
        lengths: Tensor,
        caches: list[Nested] | None = None,
        *,
        length: int,
    ) -> list[Nested]:
        """Returns the caches and states after prompts.

        Args:
            ids: `(B, P)`.
            lengths: Tokens of each prompt, `(B,)`: padding changes no state.
            caches: Empty ones, where compiled code does not know their size.
            length: Tokens that the caches have room for.
        """
        real = ops.arange(ops.shape(ids)[1], dtype="int32") < lengths[:, None]
        if caches is None:
            caches = self.stack.make_caches(ops.shape(ids)[0], length)
        x = self.stack.embedding(ids)
        chosen = self.stack.global_mask(ids, mask=real)
        return self.stack.hidden_states(x, caches, 0, real, chosen)[1]
