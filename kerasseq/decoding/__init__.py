"""From logits to tokens: samplers, the generation loop, and beam search."""

from typing import TYPE_CHECKING

from kerasseq.core.namespace import explain_calls as _explain_calls
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.decoding.beam import Beam, BeamResult, BeamTree
from kerasseq.decoding.contrastive import Contrastive
from kerasseq.decoding.ctc import CTCResult, ctc_greedy
from kerasseq.decoding.ctc_align import CTCAlignment, ctc_align
from kerasseq.decoding.ctc_beam import ctc_beam
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
    "CTCAlignment",
    "CTCResult",
    "Contrastive",
    "Generated",
    "Greedy",
    "MinP",
    "RandomSampler",
    "Sampler",
    "Temperature",
    "TopK",
    "TopP",
    "ctc_align",
    "ctc_beam",
    "ctc_greedy",
    "generate",
    "get_sampler",
    "stream",
]

_explain_calls(__name__)
if not TYPE_CHECKING:  # a checker knows the names by itself
    __getattr__ = _missing_name(__name__)
