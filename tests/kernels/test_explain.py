"""The equations that `explain` prints, computed as they stand there, and their text."""

import math
import re

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers
from kerasseq.kernels.derived.explain import STEP_BY_STEP
from kerasseq.kernels.derived.letters import Watch
from kerasseq.kernels.derived.terms import letter
from kerasseq.rnn.elman import ElmanCell
from kerasseq.rnn.gated import GatedCell
from kerasseq.rnn.gru import GRUCell
from kerasseq.rnn.lstm import LSTMCell
from kerasseq.rnn.min_gru import MinGRUCell
from kerasseq.rnn.min_lstm import MinLSTMCell

pytestmark = pytest.mark.once("text, which does not depend on the backend")

BATCH, FEATURES, UNITS = 2, 5, 3
SIGNS = {"⊙": "*", "−": "-", "²": "**2", "³": "**3", "ᵀ": ".T", "/": "/", "·": "@"}
SIGNS |= {"≥": ">=", "≤": "<="}
NAME = r"[^\W\d_][\u0302-\u0304]?(?:_\{[^}]*\}|_\w[\u0302-\u0304]?)?′*|[^\W\d]\w+"
TOKEN = re.compile(
    r"(?P<gradient>∂L/∂(?P<of>\(|" + NAME + r")(?:\[[^\]]*\])?(?:\|t\+1)?)"
    r"|(?P<call>1\[|√\(|\|(?=[^|]*\|)|[a-z_σ]+\d*[²]?\((?!h_))"
    r"|(?P<name>(?:" + NAME + r")(?:\[[:\d, ]+\])?)"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<sign>\S)"
)
