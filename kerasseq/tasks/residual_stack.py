r"""Layers after attention as architectures by name: residual blocks around them.

$$
Z_0 = X W, \qquad
A_l = Z_{l-1} + \mathrm{Layer}_l(\mathrm{Norm}(Z_{l-1})), \qquad
Z_l = A_l + \mathrm{FFN}_l(\mathrm{Norm}(A_l)), \qquad
Y = \mathrm{Norm}(Z_L)
$$

$W$ is there only if the inputs have another width than $Z$. There is no position
encoding: these layers know the order of the steps, "linear_attention" by a convolution
over four steps before queries, keys and values. A block is the one in which the authors
use the layer: Mamba's has no feed-forward network and a root-mean-square norm, those of
RWKV have the channel mix as feed-forward network, others have GELU. Blocks of RWKV-7
after the first mix their values with those of the first.
"""

import math
import random
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.carried_state import CarriesState
from kerasseq.core.dense import Dense
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_sequence, check_width
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Shape, Tensor
from kerasseq.linear.linear_attention import LinearAttention
from kerasseq.linear.rwkv4 import RWKV4ChannelMix, RWKV4TimeMix
from kerasseq.linear.rwkv7 import RWKV7TimeMix
from kerasseq.linear.rwkv7_channel_mix import RWKV7ChannelMix
from kerasseq.transformer import mixers
from kerasseq.transformer.decoder import TransformerDecoder
from kerasseq.transformer.feed_forward import NONE
from kerasseq.transformer.norms import make_norm
from kerasseq.transformer.rwkv7_block import block_class

CONV_KERNEL = 4  # as in Mamba
MIXES = {
    "rwkv4": (RWKV4TimeMix, RWKV4ChannelMix),
    "rwkv7": (RWKV7TimeMix, RWKV7ChannelMix),
}
RESIDUAL = (*mixers.WITH_HEADS, *mixers.OF_ANY_WIDTH)


@register
class ResidualStack(ListedConfig, CarriesState, WithSublayers, keras.layers.Layer):
    """Residual blocks of a layer that carries a state, from a sequence to a sequence.

    All steps are computed at once; `advance` continues from a list of states, those of
    all blocks. Padding on either side changes nothing at real steps.

    Args:
        architecture: "linear_attention", "gla", "retention", "delta_net", "mlstm",
            "rwkv7", "s4d", "mamba" or "rwkv4".
        units: Width of the blocks, D; even for "retention".
        num_layers: Number of blocks, L.
        num_heads: Number of heads, for a layer that has heads; 4 if None, or as
            many of these as divide `units`.
        dropout: Dropout rate of the outputs of the sublayers.
        seed: Seed of dropout.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, F)`.
        mask: Boolean `(B, T)`, True at real steps. Keras passes it.
        training: Whether dropout is applied.

    Returns:
        `(B, T, D)`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If an argument is out of range, or `num_heads` does not divide
            `units`.

    Examples:
        >>> layer = ResidualStack("mamba", 6, num_layers=2)
        >>> keras.ops.shape(layer(np.ones((3, 7, 5))))
        (3, 7, 6)
        >>> y, states = layer.advance(np.ones((3, 7, 5)))
        >>> y, states = layer.advance(np.ones((3, 1, 5)), states)
        >>> [keras.ops.shape(state) for state in states]
        [(3, 3, 12), (3, 12, 16), (3, 3, 12), (3, 12, 16)]
    """

    def __init__(
        self,
        architecture: str,
        units: int,
        num_layers: int = 1,
        *,
        num_heads: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.architecture: str = checks.one_of("architecture", architecture, RESIDUAL)
        self.units: int = checks.size("units", units)
        self.num_layers: int = checks.size("num_layers", num_layers)
        checks.fits_memory("units", self.units, 12 * self.units)
        checks.fits_memory("num_layers", self.num_layers, 12 * self.units**2)
        if num_heads is None:
            num_heads = self._default_heads()
        self.num_heads: int = checks.size("num_heads", num_heads)
        mixers.head_width(self.units, self.num_heads, None)
        self.dropout: float = checks.rate("dropout", dropout)
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        self.supports_masking = True
        draw = random.Random(self.seed)
        self.blocks: list[TransformerDecoder] = [
            self._make_block(n, None if seed is None else draw.getrandbits(30))
            for n in range(self.num_layers)
        ]
        self.norm: keras.layers.Layer = make_norm(
            self._norm_type,
            epsilon=1e-5,
            use_bias=True,
            name="norm",
            dtype=self.dtype_policy,
        )
        self.projection: keras.layers.Dense | None = None

    def _default_heads(self):
        if self.architecture == "mlstm":  # heads of one number are normalized to 0
            return min(math.gcd(self.units, 4), max(self.units // 2, 1))
        if self.architecture != "retention":
            return math.gcd(self.units, 4)
        if self.units % 2:
            raise ValueError(
                'units must be even for "retention", which rotates pairs of features, '
                f"received {self.units}. Choose {self.units + 1}"
            )
        return math.gcd(self.units // 2, 4)

    @property
    def _norm_type(self):
        return "rms" if self.architecture == "mamba" else "layer"

    def _make_block(self, n, seed):
        """Makes block n, from 0, as the authors of its layer use it."""
        options = {"intermediate_dim": 4 * self.units, "feed_forward": "gelu"}
        attention = self.architecture
        if attention == "linear_attention":
            attention = LinearAttention(
                self.num_heads,
                self.units // self.num_heads,
                conv_kernel=CONV_KERNEL,
                name=attention,
                dtype=self.dtype_policy,
            )
        if attention == "mamba":
            options = {"intermediate_dim": None, "feed_forward": NONE}
        if attention in MIXES:
            time_mix, channel_mix = MIXES[attention]
            place = {"layer_index": n, "num_layers": self.num_layers}
            place["dtype"] = self.dtype_policy
            heads = {"num_heads": self.num_heads} if attention == "rwkv7" else {}
            attention = time_mix(name="time_mix", **heads, **place)
            network = channel_mix(name="channel_mix", **place)
            options = {"intermediate_dim": None, "feed_forward": network}
        return block_class(attention)(
            num_heads=self.num_heads,
            dropout=self.dropout,
            norm=self._norm_type,
            norm_placement="pre",
            attention=attention,
            seed=seed,
            name=f"block_{n + 1}",
            dtype=self.dtype_policy,
            **options,
        )

    def build(self, shape: Shape) -> None:
        self.features: int = shape[-1]
        if self.features != self.units:
            self.projection = Dense(
                self.units, use_bias=False, name="projection", dtype=self.dtype_policy
            )
            self.projection.build(shape)
        shape = (*shape[:-1], self.units)
        for layer in (*self.blocks, self.norm):
            layer.build(shape)
        self.built = True

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        z, first = self._project(x, mask), None
        for block in self.blocks:
            shared = {"first_value": first} if block.shares_value else {}
            z = block(z, decoder_padding_mask=mask, training=training, **shared)
            if shared:
                z, first = z
        return self.norm(z)

    def _project(self, x, mask):
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.features)
        return x if self.projection is None else kernels.dense(self.projection, x)

    def _carriers(self) -> Iterator[keras.layers.Layer]:
        """Yields the layers inside that carry states, in order."""
        for block in self.blocks:
            yield from block.state_carriers.values()

    def state_shapes(self) -> list[Shape]:
        return [shape for each in self._carriers() for shape in each.state_shapes()]

    def state_dtypes(self) -> list[str]:
        return [dtype for each in self._carriers() for dtype in each.state_dtypes()]

    def get_initial_state(self, batch_size: int | Tensor) -> list[Tensor]:
        """Returns the states of all blocks before the first step.

        Args:
            batch_size: Number of sequences.
        """
        super().get_initial_state(batch_size)  # raises if the layer is not built
        return [
            state
            for each in self._carriers()
            for state in each.get_initial_state(batch_size)
        ]

    def _advance(self, x, states, mask):
        if states[0] is None:
            states = self.get_initial_state(ops.shape(x)[0])
        z, before, after = self._project(x, mask), iter(states), []
        first = None
        for block in self.blocks:
            own = {"attention": [], "feed_forward": []}
            for key, layer in block.state_carriers.items():
                own[key] = [next(before) for _ in layer.state_shapes()]
            shared = {"first_value": first} if block.shares_value else {}
            z, own = block.advance(z, own, mask, **shared)
            if shared:
                z, first = z
            after += tree.flatten(own)
        return self.norm(z), after

    def compute_output_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.units)
