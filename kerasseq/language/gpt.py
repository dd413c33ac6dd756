"""GPT and its kin: decoder-only Transformers that write."""

import dataclasses
import functools

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.attention.cache import update_cache
from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed, own
from kerasseq.core.padding import bucket
from kerasseq.core.serialization import register
from kerasseq.language import stack
from kerasseq.language.architectures import architectures
from kerasseq.language.causal import CausalModel, known_ids
from kerasseq.language.generation import GenerationMixin
from kerasseq.language.gpt_task import GPTTask
from kerasseq.positions import by_name
from kerasseq.tasks.recorded import RecordedSteps
from kerasseq.transformer import norms
from kerasseq.transformer.decoder import TransformerDecoder

KINDS = ("decoder", "prefix_decoder")
FIELDS = (  # of an architecture, which are arguments here
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "norm",
    "norm_placement",
    "feed_forward",
    "use_bias",
    "position",
    "num_key_value_heads",
    "head_dim",
    "parallel",
    "embedding_norm",
    "tie_embeddings",
)
SHORTEST_CACHE = 64  # a shorter one would be compiled for each length without gain


@register
class GPT(GenerationMixin, RecordedSteps, CausalModel):
    r"""A Transformer that predicts each token from those before it.

    $$x_0 = E_w + P, \qquad x_l = \mathrm{Block}_l(x_{l-1}), \qquad
    p = \mathrm{softmax}(\mathrm{LayerNorm}(x_L) E^T)$$

    Its options are the columns of the course's table of language models: with others
    than the defaults it is a LLaMA, a BLOOM, a PaLM; see `from_architecture`.

    Weights begin as in GPT-2, normal, of deviation 0.02, of positions 0.01; with the
    norms before the parts the kernels whose products are added to x have
    $0.02 / \sqrt{2 L}$, since 2 L of them add up.

    Args:
        tokenizer: A fitted tokenizer of `kerasseq.text`, saved with the model.
        vocabulary_size: Number of ids, for a model without a tokenizer.
        num_layers: L.
        num_heads: N.
        hidden_dim: D, the width between the layers.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        max_sequence_length: The most tokens it reads at once.
        dropout: Fraction dropped in training.
        norm: "layer" or "rms".
        norm_placement: Of the norms: "pre", "post" or "deep".
        feed_forward: "gelu", "gelu_tanh" as in the weights of GPT-2, "relu", "swiglu",
            "geglu" …, see `FeedForward`.
        use_bias: Whether dense layers and norms have biases.
        position: "learned", "sinusoidal", "rope", "alibi", "relative" as in T5,
            "transformer_xl", None, or a position object as for `MultiHeadAttention`.
        num_key_value_heads: Heads of keys and values; N if None.
        head_dim: Width of a head; D / N if None.
        parallel: Whether attention and feed-forward network stand side by side.
        sliding_window: A token sees itself and what is fewer places back.
        embedding_norm: Whether a norm follows the embedding.
        tie_embeddings: Whether logits come from the table of the embedding.
        layer_norm_epsilon: Epsilon of the norms.
        use_query_key_value_bias: Whether the projections of queries, keys and values
            have biases; as `use_bias` if None. True without other biases is Qwen2.
        query_key_norm: Of each head of queries and keys: "layer", "rms" as in Qwen3, or
            None for no norm.
        embedding_scale: What the vectors of tokens are multiplied by: $\sqrt D$ in
            Gemma; 1 if None.
        head: "tokens" for logits `(B, T, V)`, or None for what is below them, vectors
            `(B, T, D)`, to which `with_head` adds a task.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong, or heads do not divide the width.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> model = GPT(tokenizer, num_layers=2, num_heads=2, hidden_dim=8)
        >>> len(model.generate("he", max_new_tokens=7, seed=0))
        9

    References:
        Radford et al. 2018 and 2019. Slides A, C, D, E.
    """

    def __init__(
        self,
        tokenizer=None,
        *,
        vocabulary_size=None,
        num_layers=4,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=None,
        max_sequence_length=256,
        dropout=0.0,
        norm="layer",
        norm_placement="pre",
        feed_forward="gelu",
        use_bias=True,
        position="learned",
        num_key_value_heads=None,
        head_dim=None,
        parallel=False,
        sliding_window=None,
        embedding_norm=False,
        tie_embeddings=True,
        layer_norm_epsilon=1e-5,
        use_query_key_value_bias=None,
        query_key_norm=None,
        embedding_scale=None,
        head="tokens",
        **kwargs,
    ):
        arguments = own(locals())
        size = known_ids(tokenizer, vocabulary_size)
        for name in ("num_layers", "num_heads", "hidden_dim", "max_sequence_length"):
            checks.whole_number(name, arguments[name])
        checks.one_of("head", head, ("tokens", None))
        if embedding_scale is not None:
            _check_scale(embedding_scale)
        if isinstance(position, str) or position is None:
            checks.one_of("position", position, by_name.DECODER_POSITIONS)
        inner = by_name.make_decoder_positions(position, num_layers, hidden_dim)
        added = 0.02 / (2 * num_layers) ** 0.5
        blocks = [
            TransformerDecoder(
                intermediate_dim or 4 * hidden_dim,
                num_heads,
                dropout,
                layer_norm_epsilon=layer_norm_epsilon,
                norm=norm,
                norm_placement=norm_placement,
                feed_forward=feed_forward,
                kernel_initializer=normal(),
                output_initializer=normal(added) if norm_placement == "pre" else None,
                use_bias=use_bias,
                position=inner[n],
                num_key_value_heads=num_key_value_heads,
                head_dim=head_dim,
                parallel=parallel,
                sliding_window=sliding_window,
                depth=num_layers if norm_placement == "deep" else None,
                seed=drawn_seed(dropout),
                use_query_key_value_bias=use_query_key_value_bias,
                query_key_norm=query_key_norm,
                name=f"block_{n}",
            )
            for n in range(num_layers)
        ]
        embedding = keras.layers.ReversibleEmbedding(
            size,
            hidden_dim,
            tie_weights=tie_embeddings or head is None,
            embeddings_initializer=normal(),
            name="embedding",
        )

        def made(name, wanted):
            if not wanted:
                return None
            options = {"epsilon": layer_norm_epsilon, "use_bias": use_bias}
            return norms.make(norms.checked(norm), **options, dtype=None, name=name)

        layers = stack.Stack(
            embedding=embedding,
            position=by_name.make_embedding_position(
                position, max_sequence_length, initializer=normal(0.01)
            ),
            norms=(
                made("embedding_norm", embedding_norm),
                made("final_norm", norm_placement == "pre"),
            ),
            drop=keras.layers.Dropout(
                dropout, seed=drawn_seed(dropout), name="dropout"
            ),
            blocks=blocks,
            logits=None,
            embedding_scale=embedding_scale,
        )
        inputs = keras.Input((None,), dtype="int32", name="ids")
        outputs, _ = layers.vectors(layers.embedding(inputs))
        if head is not None:
            outputs = layers.scores(outputs)
        super().__init__(inputs, outputs, arguments, **kwargs)
        self.stack, self.head = layers, head
        self.max_sequence_length = max_sequence_length
        self.longest = max_sequence_length if position == "learned" else None

    def ids(self, source):
        """As for `CausalModel`.

        Raises:
            ValueError: If the model has no head, and cannot predict tokens.
        """
        found = super().ids(source)
        if found is not None and self.head is None:
            raise ValueError(
                "this GPT has no head that predicts tokens, received head=None. Build "
                'it with head="tokens" to train on texts and to generate, or add '
                'another head with with_head("classify", num_classes=2), for example'
            )
        return found

    def start(self, rows, count):
        """The state of decoding after all but the last token of each prompt.

        Args:
            rows: Prompts as lists of ids.
            count: How many tokens will be generated.

        Returns:
            The state: "caches" with the keys and values of each layer, and "index", the
            next position of each row `(B,)`. And the last tokens `(B, 1)`.
        """
        batch, longest = len(rows), max(map(len, rows))
        length = max(bucket(longest + count), SHORTEST_CACHE)
        if self.longest is not None:
            length = min(length, self.longest)
        prompt_length = min(bucket(max(longest - 1, 1)), length)
        limit = self.stack.constant_length
        cached = limit is None or max(prompt_length, longest + count) <= limit
        ids = np.zeros((batch, prompt_length if cached else length), "int32")
        for row, prompt in enumerate(rows):
            ids[row, : len(prompt) - 1] = prompt[:-1]
        index = np.array([len(prompt) - 1 for prompt in rows], "int32")
        last = np.array([[prompt[-1]] for prompt in rows], "int32")
        ids, index = ops.convert_to_tensor(ids), ops.convert_to_tensor(index)
        if not cached:  # keys change with the length: each step reads the whole text
            return {"ids": ids, "index": index}, last
        return {"caches": self._compiled_prefill(length)(ids), "index": index}, last

    def step(self, state, token):
        """The step function of decoding: `(state, token) -> (logits, state)`."""
        index = state["index"]
        if "ids" in state:
            ids = update_cache(state["ids"], token[:, None], index)
            logits = self.stack.next_scores(ids, index)
            return logits, {"ids": ids, "index": index + 1}
        logits, caches = self.stack(token[:, None], state["caches"], index)
        return logits[:, 0], {"caches": caches, "index": index + 1}

    def prefill(self, ids, length):
        """Caches of so many tokens, filled with those of prompts `(B, P)`."""
        caches = self.stack.make_caches(ops.shape(ids)[0], length)
        return self.stack(ids, caches, 0)[1]

    def _compiled_prefill(self, length):
        programs = kernels.programs(self.step)
        prefill = functools.partial(self.prefill, length=length)
        return programs.get(
            "prefill", length, lambda: kernels.compiled(prefill, pure=programs.pure)
        )

    def with_head(
        self, head, *, num_classes=None, language_model_weight=0.0, dropout=None
    ):
        """This model with a task on top, to be fine-tuned on texts and labels.

        Args:
            head: "classify", "entail", "compare", "choose", "tag" or "span"; see
                `GPTTask`.
            num_classes: Number of classes, for heads with classes.
            language_model_weight: How much it goes on to learn the texts themselves;
                0.5 in the paper.
            dropout: Fraction dropped in training; as before if None.

        Returns:
            A `GPTTask` with the weights of this model, which stays as it is.

        Raises:
            ValueError: If the head is unknown, or `num_classes` does not fit it.

        Examples:
            >>> model = GPT(vocabulary_size=11, num_layers=1, hidden_dim=8)
            >>> model.with_head("classify", num_classes=3).output_shape
            (None, 3)
        """
        return GPTTask(
            self,
            head,
            num_classes=num_classes,
            language_model_weight=language_model_weight,
            dropout=dropout,
        )

    @classmethod
    def from_architecture(cls, architecture, tokenizer=None, **changes):
        """The model that a row of `models.architectures` describes.

        Args:
            architecture: A name, such as "gpt2_small", or a row, such as
                `architectures["llama_7b"].small()`.
            tokenizer: A fitted tokenizer; the vocabulary is its then.
            **changes: Fields of the row to change, such as `num_layers=2`.

        Returns:
            The model, with random weights.

        Raises:
            KeyError: If there is no such row.
            ValueError: If the row is of another kind of model.

        Examples:
            >>> row = architectures["gpt2_small"].small()
            >>> model = GPT.from_architecture(row)
            >>> model.count_params()
            17328
        """
        row = architecture
        row = architectures[row] if isinstance(row, str) else row
        row = dataclasses.replace(row, **changes) if changes else row
        if row.kind not in KINDS:
            raise ValueError(
                f"{row.title} is of kind={row.kind!r}; GPT builds {' and '.join(KINDS)}"
            )
        options = {name: getattr(row, name) for name in FIELDS}
        if row.max_sequence_length:
            options["max_sequence_length"] = row.max_sequence_length
        if tokenizer is None:
            options["vocabulary_size"] = row.vocabulary_size
        return cls(tokenizer, **options)


def _check_scale(scale):
    """Raise unless it is a finite number above 0.

    Examples:
        >>> _check_scale(0)
        Traceback (most recent call last):
        ...
        ValueError: embedding_scale must be a finite number above 0, received 0. Pass \
hidden_dim**0.5, as in Gemma, or None for 1
    """
    if not 0 < checks.number("embedding_scale", scale) < float("inf"):
        raise ValueError(
            "embedding_scale must be a finite number above 0, received "
            f"{scale}. Pass hidden_dim**0.5, as in Gemma, or None for 1"
        )


def normal(deviation=0.02):
    """GPT-2's initializer; one for each weight."""
    return keras.initializers.RandomNormal(stddev=deviation)
