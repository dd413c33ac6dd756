"""From logits to tokens: samplers, the generation loop, and beam search."""

from kerasseq.decoding.beam import Beam, BeamResult, BeamTree
from kerasseq.decoding.contrastive import Contrastive
from kerasseq.decoding.generation import Generated, generate, get_sampler, stream
from kerasseq.decoding.samplers import (
    Greedy,
    MinP,
    RandomSampler,
    Sampler,
    Temperature,
    TopK,
    TopP,
)

__all__ = [
    "Beam",
    "BeamResult",
    "BeamTree",
    "Contrastive",
    "Generated",
    "Greedy",
    "MinP",
    "RandomSampler",
    "Sampler",
    "Temperature",
    "TopK",
    "TopP",
    "generate",
    "get_sampler",
    "stream",
]
