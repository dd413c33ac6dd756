"""The stacks of a Transformer, made from its options."""

import dataclasses
from typing import Any

import keras

from kerasseq.core.arguments import drawn_seed
from kerasseq.positions.by_name import make_attention_position, make_embedding_position
from kerasseq.seq2seq.stacks import Decoder, Encoder
from kerasseq.transformer import norms
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.encoder import TransformerEncoder


@dataclasses.dataclass(frozen=True)
class Options:
    """What both stacks are made of.

    Attributes:
        num_layers: L, of the encoder, and of the decoder if nothing else is said.
        hidden_dim: D.
        block: Arguments of the blocks, but for the positions.
        positions: What adds a code: a name and how many there are.
        inner: Position objects inside the attentions of encoder and decoder.
        embedding_norm: Whether a norm follows the embedding.
        factor: Of the vectors of tokens.
        logit_factor: Of what logits are made of.
        embedding_deviation: Of the first weights of the embedding.
        tie_embeddings: Whether logits come from the table of the target.
        last_dropout: Whether something is dropped behind the last norm, too.
        num_decoder_layers: L of the decoder; `num_layers` if None.
    """

    num_layers: int
    hidden_dim: int
    block: dict
    positions: tuple
    inner: tuple
    embedding_norm: bool
    factor: float
    logit_factor: float
    embedding_deviation: float
    tie_embeddings: bool
    last_dropout: bool
    num_decoder_layers: int | None = None

    def encoder(self, size):
        """The `Encoder` alone, of so many ids."""
        embedding = keras.layers.ReversibleEmbedding(
            size,
            self.hidden_dim,
            embeddings_initializer=self._initializer(),
            name="embedding",
        )
        return Encoder(**self._parts(embedding, "encoder"))

    def stacks(self, sizes, shared):
        """The two stacks.

        Args:
            sizes: Number of ids of source and target.
            shared: Whether both read one table.

        Returns:
            `Encoder` and `Decoder`.
        """
        target = keras.layers.ReversibleEmbedding(
            sizes[1],
            self.hidden_dim,
            tie_weights=self.tie_embeddings,
            embeddings_initializer=self._initializer(),
            name="embedding" if shared else "target_embedding",
        )
        source = target
        if not shared:
            source = keras.layers.Embedding(
                sizes[0],
                self.hidden_dim,
                embeddings_initializer=self._initializer(),
                name="source_embedding",
            )
        decoder = Decoder(
            **self._parts(target, "decoder"), logit_factor=self.logit_factor
        )
        return Encoder(**self._parts(source, "encoder")), decoder

    def _initializer(self):
        return keras.initializers.RandomNormal(stddev=self.embedding_deviation)

    def _parts(self, embedding, stack) -> dict[str, Any]:
        """The attributes of one stack."""
        kind, length = self.positions
        deep = self.block["norm_placement"] == "deep"
        layers = self.num_layers
        after = self.num_decoder_layers or layers
        cls, inner, depth = TransformerEncoder, self.inner[0], (layers, after)
        if stack == "decoder":
            cls, inner, depth, layers = TransformerDecoder, self.inner[1], after, after
        blocks = [
            cls(
                **self.block,
                seed=drawn_seed(self.block["dropout"]),
                position=inner,  # one for all blocks
                depth=depth if deep else None,
                name=f"{stack}_block_{n}",
            )
            for n in range(layers)
        ]
        ends = (self.embedding_norm, self.block["norm_placement"] == "pre")
        made = [
            self._norm(f"{stack}_{which}_norm") if wanted else None
            for which, wanted in zip(("embedding", "final"), ends, strict=True)
        ]
        drops = [self._drop(f"{stack}_{which}_dropout") for which in ("first", "last")]
        return {
            "embedding": embedding,
            "factor": self.factor,
            "position": make_embedding_position(kind, length, name=f"{stack}_position"),
            "longest": length if kind == "learned" else None,
            "norms": tuple(made),
            "drops": (drops[0], drops[1] if self.last_dropout else None),
            "blocks": blocks,
        }

    def _norm(self, name):
        return norms.make_norm(
            self.block["norm"],
            epsilon=self.block["layer_norm_epsilon"],
            use_bias=self.block["use_bias"],
            name=name,
        )

    def _drop(self, name):
        rate = self.block["dropout"]
        return keras.layers.Dropout(rate, seed=drawn_seed(rate), name=name)


def inner_positions(position):
    """The position objects of encoder and decoder: the one looks ahead."""
    return make_attention_position(position, causal=False), make_attention_position(
        position
    )
