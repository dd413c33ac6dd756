"""Records what the layers of a model compute, and plots it.

`trace` records gates, states and attention weights, `gradient_flow` measures gradients
per time step, `plots` draws both. `attribution` shows which tokens moved a decision.
A layer of your own calls `record` to be traced. `position_criteria` compares position
encodings.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kerasseq.tracing.attribution import Attribution, attribution
from kerasseq.tracing.gradient_flow import gradient_flow
from kerasseq.tracing.positions import Criterion, position_criteria
from kerasseq.tracing.recording import Trace, record, trace

if TYPE_CHECKING:
    from kerasseq.tracing import plots

__all__ = [
    "Attribution",
    "Criterion",
    "Trace",
    "attribution",
    "gradient_flow",
    "plots",
    "position_criteria",
    "record",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name == "plots":  # loaded on first use
        return importlib.import_module("kerasseq.tracing.plots")
    raise AttributeError(f"module 'kerasseq.tracing' has no attribute '{name}'")
