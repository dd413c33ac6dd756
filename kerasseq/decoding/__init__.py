"""From logits to text: samplers, the loop that writes on, and beam search."""

from kerasseq.decoding.beam import Beam, BeamResult
from kerasseq.decoding.beam_tree import BeamTree
from kerasseq.decoding.contrastive import Contrastive
from kerasseq.decoding.generating import Generated, generate, stream
from kerasseq.decoding.greedy import Greedy
from kerasseq.decoding.min_p import MinP
from kerasseq.decoding.sampler import Sampler
from kerasseq.decoding.sampling import sample
from kerasseq.decoding.temperature import Temperature
from kerasseq.decoding.top_k import TopK
from kerasseq.decoding.top_p import TopP

__all__ = [
    "Beam",
    "BeamResult",
    "BeamTree",
    "Contrastive",
    "Generated",
    "Greedy",
    "MinP",
    "Sampler",
    "Temperature",
    "TopK",
    "TopP",
    "generate",
    "sample",
    "stream",
]
