r"""The Transformer as an architecture by name, for every task model.

$$
Z_0 = \sqrt{D}\,X W + P, \qquad
Z_l = \mathrm{Block}_l(Z_{l-1}), \qquad
Y = \mathrm{LayerNorm}(Z_L)
$$

with the sine position encoding $P$. $W$ is there only if the inputs have another width
than $D$. The norms come before each sublayer (Xiong et al. 2020), so that no warm-up of
the learning rate is needed. Vaswani et al. 2017. Attention is that of all pairs, or a
sparse one, whose name is then that of the architecture.
"""

import math
import random
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks, masks
from kerasseq.core.dense import Dense
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Shape, Tensor
from kerasseq.positions.sine import SinePositionEncoding
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.global_tokens import GlobalTokens, check_attention, most
from kerasseq.transformer.mixers import OF_PAIRS
from kerasseq.transformer.norms import LayerNormalization

DENSE = "multi_head"
SPARSE = tuple(name for name in OF_PAIRS if name != DENSE)
LONGEST = 1024  # tokens of a text, for an attention that needs to know
NEVER_CAUSAL = tuple(n for n in SPARSE if hasattr(OF_PAIRS[n], "never_causal"))


@register
class TransformerStack(ListedConfig, WithSublayers, keras.layers.Layer):
    """Transformer blocks with position encoding, from a sequence to a sequence.

    Padding, on the left or on the right, does not change the outputs at real positions.

    Args:
        units: The hidden size, D.
        num_layers: Number of blocks, L.
        num_heads: Number of attention heads; the greatest common divisor of `units` and
            4 if None.
        causal: Whether a position attends only to itself and to earlier positions.
        dropout: Dropout rate of attention weights and sublayer outputs.
        seed: Seed of dropout.
        attention: "multi_head", "blockwise", "longformer", "adaptive_span", or, if not
            causal, "reformer" or "linformer".
        sliding_window: A position attends to positions at a distance below this only;
            256 of "longformer" if None.
        global_tokens: Of "longformer": "first", the first real position, which attends
            to all and is attended to by all; or None.
        max_length: The longest sequence of "linformer"; of "reformer" and
            "adaptive_span" the one for which buckets and spans suffice.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, F)`.
        mask: Boolean `(B, T)`, True at real positions. Keras passes it.
        training: Whether dropout is applied.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, `num_heads` does not divide `units`,
            or the attention cannot be causal.

    Examples:
        >>> layer = TransformerStack(6, num_layers=2, causal=True)
        >>> keras.ops.shape(layer(np.ones((3, 7, 5))))
        (3, 7, 6)
        >>> layer = TransformerStack(
        ...     6, attention="longformer", sliding_window=2, global_tokens="first"
        ... )
        >>> keras.ops.shape(layer(np.ones((3, 37, 5))))
        (3, 37, 6)
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 1,
        *,
        num_heads: int | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        attention: str = DENSE,
        sliding_window: int | None = None,
        global_tokens: str | None = None,
        max_length: int = LONGEST,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units: int = checks.size("units", units)
        self.num_layers: int = checks.size("num_layers", num_layers)
        checks.fits_memory("units", self.units, 12 * self.units)
        checks.fits_memory("num_layers", self.num_layers, 12 * self.units**2)
        if num_heads is None:
            num_heads = math.gcd(self.units, 4)
        self.num_heads: int = checks.size("num_heads", num_heads)
        if self.units % self.num_heads:
            raise ValueError(
                f"num_heads must divide units={self.units}, received "
                f"num_heads={self.num_heads}. Choose a divisor"
            )
        self.causal: bool = checks.flag("causal", causal)
        self.dropout: float = checks.rate("dropout", dropout)
        self.seed: int | None = None if seed is None else checks.seed("seed", seed)
        self.supports_masking = True
        checked = check_attention(attention, sliding_window, global_tokens, None)
        self.attention: str = checked["attention"]
        self.sliding_window: int | None = checked["sliding_window"]
        self.global_tokens: str | None = checked["global_tokens"]
        self.max_length: int = checks.size("max_length", max_length)
        check_causal("attention", self.attention, self.causal)
        draw = random.Random(self.seed)
        # Sparse attention needs to be causal without a mask of all pairs. Files know
        # the blocks of dense attention as encoders.
        self._decodes: bool = self.causal and self.attention != DENSE
        make = TransformerDecoder if self._decodes else TransformerEncoder
        self.position: SinePositionEncoding = SinePositionEncoding(
            name="position", dtype=self.dtype_policy
        )
        self.blocks: list[TransformerEncoder | TransformerDecoder] = [
            make(
                4 * self.units,
                self.num_heads,
                dropout=self.dropout,
                activation="gelu",
                norm_placement="pre",
                seed=None if self.seed is None else draw.getrandbits(30),
                attention=self.attention,
                sliding_window=self.sliding_window,
                max_length=self.max_length,
                max_global_tokens=most(self.global_tokens, self.max_length),
                name=f"block_{n}",
                dtype=self.dtype_policy,
            )
            for n in range(1, self.num_layers + 1)
        ]
        self.find_global: GlobalTokens | None = None
        if self.global_tokens is not None:
            self.find_global = GlobalTokens(self.global_tokens, name="global_tokens")
        self.norm: LayerNormalization = LayerNormalization(
            name="norm", dtype=self.dtype_policy
        )
        self.projection: keras.layers.Dense | None = None

    def build(self, inputs_shape: Shape) -> None:
        if inputs_shape[-1] != self.units:
            self.projection = Dense(
                self.units, use_bias=False, name="projection", dtype=self.dtype_policy
            )
            self.projection.build(inputs_shape)
        shape = (*inputs_shape[:-1], self.units)
        for layer in (self.position, *self.blocks, self.norm):
            layer.build(shape)
        self.built = True

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        x = masks.zero_masked(inputs, mask)
        if self.projection is not None:
            x = kernels.dense(self.projection, x)
        x = self.units**0.5 * x
        z = x + self.position(x, mask=mask)  # (B, T, D)
        time = ops.shape(z)[1]
        options: dict[str, Tensor | None] = {"training": training}
        if self.find_global is not None:
            real = ops.ones(ops.shape(z)[:2], "bool") if mask is None else mask
            options["global_mask"] = self.find_global(real)
        prefix = "decoder_" if self._decodes else ""
        options[f"{prefix}padding_mask"] = mask
        if self.causal and not self._decodes:
            options["attention_mask"] = masks.causal(time, time)
        for block in self.blocks:
            z = block(z, **options)
        return self.norm(z)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape[:-1], self.units)


def check_causal(name: str, attention: str, causal: bool) -> None:
    """Raises if an attention must not depend on later steps, and does.

    Examples:
        >>> check_causal("attention", "linformer", False)
    """
    if causal and attention in NEVER_CAUSAL:
        layer = OF_PAIRS[attention]
        raise ValueError(
            f'{name} must not read later steps here, received "{attention}": '
            f"{layer.__name__} {layer.never_causal}. Use bidirectional=True where a "
            'task has it, or another attention, such as "longformer"'
        )
