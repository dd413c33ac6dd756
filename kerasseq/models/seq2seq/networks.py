"""The feed-forward networks of the blocks of an encoder-decoder model."""

from typing import Any

import keras

from kerasseq.core.carried_state import carries_state
from kerasseq.transformer import mixers
from kerasseq.transformer.experts import MixtureOfExperts
from kerasseq.transformer.feed_forward import widths_of_blocks


def options_of_blocks(
    feed_forward: Any,
    num_layers: int,
    decoder_feed_forward: Any,
    num_decoder_layers: int,
    *,
    intermediate_dim: int | None,
    hidden_dim: int,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the arguments in which blocks differ, of encoder and of decoder.

    Args:
        feed_forward: Of the encoder: a name; a layer, of which each block gets a copy;
            or a list with one of these for each block.
        num_layers: L of the encoder.
        decoder_feed_forward: The same of the decoder; as the encoder if None.
        num_decoder_layers: L of the decoder.
        intermediate_dim: Width of the networks by name; 4 D if None.
        hidden_dim: D.

    Raises:
        ValueError: If a list has another length, a layer carries states, or a width is
            given and no block has a network by name.

    Examples:
        >>> encoder, decoder = options_of_blocks(
        ...     ["relu", MixtureOfExperts(3, 7)], 2, "gelu", 1,
        ...     intermediate_dim=None, hidden_dim=5)
        >>> [block["intermediate_dim"] for block in encoder], decoder
        ([20, None], [{'feed_forward': 'gelu', 'intermediate_dim': 20}])
    """
    names = "feed_forward", "decoder_feed_forward"
    values = [feed_forward, decoder_feed_forward]
    if decoder_feed_forward is None:
        names, values = ("feed_forward",) * 2, [feed_forward] * 2
    lengths = num_layers, num_decoder_layers
    encoder, decoder = (
        mixers.for_each_block(*given)
        for given in zip(names, values, lengths, strict=True)
    )
    for name, networks in zip(names, (encoder, decoder), strict=True):
        _check_states(name, networks)
    networks = [*encoder, *decoder]
    widths = widths_of_blocks(networks, intermediate_dim, 4 * hidden_dim)
    options = [
        {"feed_forward": network, "intermediate_dim": width}
        for network, width in zip(networks, widths, strict=True)
    ]
    return options[:num_layers], options[num_layers:]


def _check_states(name, networks):
    """Raises if a layer carries states, which decoding step by step would lose."""
    for network in networks:
        if isinstance(network, keras.Layer) and carries_state(network):
            raise ValueError(
                f"{name} must carry no states in a model with encoder and decoder, "
                f'received {network.name}. Choose another, such as "swiglu"'
            )


def has_experts(options: list[dict[str, Any]]) -> bool:
    """Returns whether a block has a mixture of experts, which must know the padding."""
    return any(isinstance(own["feed_forward"], MixtureOfExperts) for own in options)
