"""The blocks that tokens of all kinds go through, with or without caches."""

import keras

from kerasseq.core.arguments import drawn_seed
from kerasseq.core.types import Config, Nested, Tensor
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.experts import MixtureOfExperts
from kerasseq.transformer.norms import make_norm

EPSILON = 1e-6  # of the norms, as in ViT


class Stack:
    """Blocks with the norms before each sublayer, and a final norm.

    A `TransformerDecoder` without encoder and without causal mask is an encoder block
    that can keep keys and values.

    Args:
        arguments: The arguments of the model.
    """

    def __init__(self, arguments: Config) -> None:
        a = arguments
        drop, width = a["dropout"], a["intermediate_dim"] or 4 * a["hidden_dim"]
        self.dropout: keras.Layer = keras.layers.Dropout(
            drop, seed=drawn_seed(drop), name="dropout"
        )
        self.blocks: list[TransformerDecoder] = []
        for n in range(a["num_layers"]):
            network = {"intermediate_dim": width, "feed_forward": "gelu"}
            if a["num_experts"] is not None and n == a["num_layers"] - 1:
                network = {"intermediate_dim": None}
                network["feed_forward"] = experts(a["num_experts"], width)
            block = TransformerDecoder(
                **network,
                num_heads=a["num_heads"],
                dropout=drop,
                layer_norm_epsilon=EPSILON,
                norm_placement="pre",
                seed=drawn_seed(drop),
                name=f"block_{n}",
            )
            self.blocks.append(block)
        self.final_norm: keras.Layer = make_norm(
            "layer", epsilon=EPSILON, use_bias=True, name="final_norm"
        )

    def __call__(
        self,
        x: Tensor,
        real: Tensor | None = None,
        attend: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Returns the hidden states `(B, T, D)` of tokens.

        Args:
            x: `(B, T, D)`.
            real: Boolean `(B, T)`, True at real tokens; None if all are.
            attend: Boolean `(B, T, T)`, which tokens see which; None for all.
            training: Whether to apply dropout.
        """
        x = self.dropout(x, training=training)
        options = {"decoder_padding_mask": real, "decoder_attention_mask": attend}
        options = {name: mask for name, mask in options.items() if mask is not None}
        for block in self.blocks:
            x = block(x, **options, use_causal_mask=False, training=training)
        return self.final_norm(x)

    def advance(
        self, x: Tensor, caches: list[Nested], index: Tensor | int, attend: Tensor
    ) -> tuple[Tensor, list[Nested]]:
        """Returns the hidden states of further tokens, and the caches with them.

        Args:
            x: `(B, T, D)`.
            caches: A cache of each block.
            index: Where the first token goes in the caches.
            attend: Boolean `(B, T, S)`, which tokens of the caches each sees.
        """
        updated = []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(
                x,
                decoder_attention_mask=attend,
                self_attention_cache=cache,
                self_attention_cache_update_index=index,
                use_causal_mask=False,
                training=False,
            )
            updated.append(cache)
        return self.final_norm(x), updated

    def caches(self, batch: int | Tensor, length: int) -> list[Nested]:
        """Returns empty caches for `length` tokens."""
        return [block.make_cache(batch, length) for block in self.blocks]


def experts(count: int, width: int) -> MixtureOfExperts:
    """Returns the experts of the last block: two for each token, of half the width.

    So a token costs what it costs without experts.

    Args:
        count: The number of experts.
        width: The width of the feed-forward network in the other blocks.
    """
    return MixtureOfExperts(
        count,
        width // 2,
        top_k=2,
        feed_forward="gelu",
        use_bias=True,
        router_aux_loss_coef=0.01,
        name="feed_forward",
    )
