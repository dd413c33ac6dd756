r"""The residual connection of a sublayer $f$, with the norm in one of three places.

$$
\begin{aligned}
\text{post:}\quad & \mathrm{Norm}(x + f(x)) \\
\text{pre:}\quad & x + f(\mathrm{Norm}(x)) \\
\text{deep:}\quad & \mathrm{Norm}(\alpha x + f(x))
\end{aligned}
$$

"post" is the placement of Vaswani et al. 2017, "pre" that of GPT-2 (Xiong et al. 2020),
"deep" is DeepNorm, Wang et al. 2022: $\alpha$ grows with the number of layers, and some
weights of $f$ are initialized smaller by a factor $\beta$, so that one training step
changes the output of a thousand layers as little as that of a few. Course slides A, B;
the table of C.
"""

from collections.abc import Callable

from kerasseq.core.types import Tensor

NORM_PLACEMENTS = ("post", "pre", "deep")


def pre_sublayer(
    x: Tensor, norm: Callable[[Tensor], Tensor], norm_placement: str
) -> Tensor:
    """Returns the input of the sublayer: x, normalized if the placement is "pre"."""
    return norm(x) if norm_placement == "pre" else x


def post_sublayer(
    x: Tensor,
    f_x: Tensor,
    norm: Callable[[Tensor], Tensor],
    norm_placement: str,
    alpha: float = 1.0,
) -> Tensor:
    """Adds the residual connection, and normalizes unless the placement is "pre".

    Args:
        x: Input of the residual connection.
        f_x: Output of the sublayer.
        norm: Layer or function that normalizes a tensor.
        norm_placement: "post", "pre" or "deep".
        alpha: α of "deep".

    Examples:
        >>> double = lambda x: 2 * x
        >>> [post_sublayer(5.0, 1.0, double, name, 3.0) for name in NORM_PLACEMENTS]
        [12.0, 6.0, 32.0]
    """
    if norm_placement == "pre":
        return x + f_x
    return norm((alpha * x if norm_placement == "deep" else x) + f_x)


def deepnorm_encoder(
    layers: int, decoder_layers: int | None = None
) -> tuple[float, float]:
    r"""Returns α and β of DeepNorm in an encoder of N layers.

    Args:
        layers: N.
        decoder_layers: M, number of decoder layers of an encoder-decoder; None for an
            encoder alone.

    Examples:
        >>> print("%.3f %.3f" % deepnorm_encoder(12))
        2.213 0.319
        >>> print("%.3f %.3f" % deepnorm_encoder(12, 6))
        1.686 0.418
    """
    if decoder_layers is None:
        return (2 * layers) ** 0.25, (8 * layers) ** -0.25
    # 0.81 and 0.87 are of the paper, for stacks of both kinds.
    size = (layers**4 * decoder_layers) ** (1 / 16)
    return 0.81 * size, 0.87 / size


def deepnorm_decoder(layers: int, cross_attention: bool = False) -> tuple[float, float]:
    r"""Returns α and β of DeepNorm in a decoder of M layers.

    Args:
        layers: M.
        cross_attention: Whether the layers have a third sublayer, the cross-attention.

    Examples:
        >>> print("%.3f %.3f" % deepnorm_decoder(12))
        2.213 0.319
    """
    sublayers = (3 if cross_attention else 2) * layers
    return sublayers**0.25, (4 * sublayers) ** -0.25
