"""Look inside a model: what its layers compute, and how gradients flow through time.

`trace` records, `gradient_flow` differentiates, `plots` draws. Layers call `record`.
`position_criteria` measures what the course asks of a code of positions.
"""

import importlib

from kerasseq.tracing.criteria import Criterion, position_criteria
from kerasseq.tracing.gradient_flow import gradient_flow
from kerasseq.tracing.recorder import collecting, injecting, listener, muted, record
from kerasseq.tracing.trace import Trace, trace

__all__ = [
    "Criterion",
    "Trace",
    "collecting",
    "gradient_flow",
    "injecting",
    "listener",
    "muted",
    "plots",
    "position_criteria",
    "record",
    "trace",
]


def __getattr__(name):
    if name == "plots":  # loaded on first use
        return importlib.import_module("kerasseq.tracing.plots")
    raise AttributeError(f"module 'kerasseq.tracing' has no attribute '{name}'")
