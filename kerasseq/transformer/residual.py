r"""How a block adds what a part of it, $f$, gives for $x$. The rule stands here alone.

$$
\begin{aligned}
\text{post:}\quad & \mathrm{Norm}(x + f(x)) \\
\text{pre:}\quad & x + f(\mathrm{Norm}(x)) \\
\text{deep:}\quad & \mathrm{Norm}(\alpha x + f(x))
\end{aligned}
$$

Post is of Vaswani et al. 2017, pre as in GPT-2 (Xiong et al. 2020), deep is DeepNorm,
Wang et al. 2022: there $\alpha$ grows with the number of layers, and some weights of
$f$ start smaller by $\beta$, so that a step of training changes the output of a
thousand layers no more than that of a few. Course slides A, B; the table of C.
"""

PLACEMENTS = ("post", "pre", "deep")


def enter(x, norm, placement):
    """What $f$ is given."""
    return norm(x) if placement == "pre" else x


def leave(x, f_x, norm, placement, alpha=1.0):
    """What the block goes on with.

    Args:
        x: What came in.
        f_x: What $f$ gave.
        norm: Function of a tensor.
        placement: One of `PLACEMENTS`.
        alpha: α, of "deep".

    Examples:
        >>> double = lambda x: 2 * x
        >>> [leave(5.0, 1.0, double, name, 3.0) for name in PLACEMENTS]
        [12.0, 6.0, 32.0]
    """
    if placement == "pre":
        return x + f_x
    return norm((alpha * x if placement == "deep" else x) + f_x)


def of_encoder(layers, decoder_layers=None):
    r"""α and β of DeepNorm in an encoder of N layers.

    Args:
        layers: N.
        decoder_layers: M, those of the decoder that reads it; None if there is none.

    Examples:
        >>> print("%.3f %.3f" % of_encoder(12))
        2.213 0.319
        >>> print("%.3f %.3f" % of_encoder(12, 6))
        1.686 0.418
    """
    if decoder_layers is None:
        return (2 * layers) ** 0.25, (8 * layers) ** -0.25
    size = (layers**4 * decoder_layers) ** (1 / 16)
    return 0.81 * size, 0.87 / size


def of_decoder(layers, cross=False):
    r"""α and β of DeepNorm in a decoder of M layers.

    Args:
        layers: M.
        cross: Whether it reads an encoder, by a third part in each layer.

    Examples:
        >>> print("%.3f %.3f" % of_decoder(12))
        2.213 0.319
    """
    parts = (3 if cross else 2) * layers
    return parts**0.25, (4 * parts) ** -0.25
