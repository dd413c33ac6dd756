"""Records what the layers of a model compute, and plots it.

`trace` records gates, states and attention weights, and `intervene` replaces them.
`gradient_flow` measures gradients per time step, `gradient_by_depth` per layer,
`loss_surface` the loss around the weights, `attribution` which tokens moved a
decision, `position_criteria` what position encodings can do, `routing_information`
which experts take which kind of token. `plots` draws. A layer of your own calls
`record` to be traced.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.tracing.attribution import Attribution, attribution
from kerasseq.tracing.depth import gradient_by_depth
from kerasseq.tracing.gradient_distance import gradient_by_distance
from kerasseq.tracing.gradient_flow import gradient_flow
from kerasseq.tracing.head_scores import BestHead, HeadRole, HeadRoles, head_roles
from kerasseq.tracing.intervention import At, at, intervene
from kerasseq.tracing.listeners import record
from kerasseq.tracing.logit_lens import LogitLens, logit_lens
from kerasseq.tracing.loss_surface import LossSurface, loss_surface
from kerasseq.tracing.patching import patch
from kerasseq.tracing.positions import (
    Criterion,
    position_code,
    position_criteria,
    position_relation,
)
from kerasseq.tracing.recording import Trace, trace
from kerasseq.tracing.rollout import attention_rollout
from kerasseq.tracing.routing import RoutingInformation, routing_information
from kerasseq.tracing.senses import SenseRow, Senses, senses

if TYPE_CHECKING:
    from kerasseq.tracing import plots

__all__ = [
    "At",
    "Attribution",
    "BestHead",
    "Criterion",
    "HeadRole",
    "HeadRoles",
    "LogitLens",
    "LossSurface",
    "RoutingInformation",
    "SenseRow",
    "Senses",
    "Trace",
    "at",
    "attention_rollout",
    "attribution",
    "gradient_by_depth",
    "gradient_by_distance",
    "gradient_flow",
    "head_roles",
    "intervene",
    "logit_lens",
    "loss_surface",
    "patch",
    "plots",
    "position_code",
    "position_criteria",
    "position_relation",
    "record",
    "routing_information",
    "senses",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name == "plots":  # loaded on first use
        return importlib.import_module("kerasseq.tracing.plots")
    return _missing_name(__name__)(name)
