"""Random invalid inputs and masks for calls of built layers."""

import random

import numpy as np

from kerasseq import layers
from tests.uses import HEADS, IMAGES, Use, X, tried

MASK = np.ones((2, 5), bool)
SQUARE = np.ones((2, 5, 5), bool)
# Arrays of wrong rank, width, batch size, length or dtype.
ARRAYS = [
    *(X[0], X[0, 0], X[None], X[..., :5], X[:1], X[:, :3], X > 0, np.ones((3, 5, 6))),
    *(MASK[0], MASK[:1], MASK[:, :4], MASK[..., None], SQUARE[:, :4], np.array(1.0)),
]


def of_calls():
    """Returns layers and valid inputs of their calls."""
    memory = {"query": X, "value": X, "query_mask": MASK, "value_mask": MASK}
    stack = {"padding_mask": MASK, "attention_mask": SQUARE}
    both = {"decoder_sequence": X, "encoder_sequence": X}
    both |= {"decoder_padding_mask": MASK, "encoder_padding_mask": MASK}
    return [
        *(
            call(made, {"sequences": X, "mask": MASK})
            for made in (layers.ElmanRNN(3), layers.LSTM(3), layers.GRU(3))
        ),
        call(layers.CausalConv1D(3, 2), {"x": X, "mask": MASK}),
        call(layers.WaveNet(3, dilations=[1, 2]), {"x": X, "mask": MASK}),
        call(layers.LinearAttention(2, 3), {"x": X, "mask": MASK}),
        call(layers.AlignmentAttention(3), memory),
        call(layers.LuongAttention(), memory),
        call(layers.MultiHeadAttention(2, 3), {**memory, "attention_mask": SQUARE}),
        call(layers.SinePositionEncoding(), {"inputs": X}),
        call(layers.PositionEmbedding(5), {"inputs": X}),
        call(layers.BinaryPosition(), {"inputs": X}),
        call(layers.RotaryEmbedding(), {"inputs": HEADS[..., :2]}),
        call(layers.FeedForward(7), {"x": X}),
        call(layers.MixtureOfExperts(3, 7), {"x": X}),
        call(layers.TransformerEncoder(7, 2), {"inputs": X, **stack}),
        call(layers.TransformerDecoder(7, 2), both),
        call(layers.ConvSubsampling(3, 2), {"x": X, "mask": MASK}),
        call(layers.ConformerBlock(7, 2, 3), {"x": X, "mask": MASK}),
        call(layers.PatchEmbedding(2, 3), {"inputs": IMAGES}),
        call(layers.VectorQuantizer(5, 6), {"x": X, "mask": MASK}),
        call(
            layers.LogMelSpectrogram(2, 8, 3, 1000),
            {"audio": X[..., 0], "mask": MASK},
        ),
        call(layers.SpecAugment(1, 2, 1, 2), {"x": X, "mask": MASK}),
    ]


def call(layer, arguments):
    """Returns the use of a layer, which is built at the first call."""
    first, *others = arguments

    def function(**given):
        if not layer.built:  # by shapes, as a call would compile
            layer.build(
                *(x.shape for name, x in arguments.items() if "mask" not in name)
            )
        return layer(given[first], **{name: given[name] for name in others})

    return Use(type(layer).__name__, function, arguments)


def wrong_calls(count, seed=0):
    """Yields the outcomes of `count` calls with one input replaced."""
    draw = random.Random(seed)
    uses = of_calls()
    for number in range(count):
        use = uses[number % len(uses)]
        yield tried(use, draw.choice([*use.arguments]), draw.choice(ARRAYS))
