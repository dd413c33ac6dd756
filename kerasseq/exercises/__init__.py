"""Exercises of the tutorials, whose answers `check` tells right from wrong.

Three for each tutorial, in English and French. Loads Keras when an answer is compared
with a layer.
"""

from kerasseq.core.namespace import explain_calls as _explain_calls
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.exercises import (  # noqa: F401  # fill the table
    after_attention,
    attention_to_images,
    characters_to_exposure,
    words_to_gates,
)
from kerasseq.exercises.checking import check, numbers, question, solution
from kerasseq.exercises.verdict import Verdict

__all__ = ["Verdict", "check", "numbers", "question", "solution"]
_explain_calls(__name__)
__getattr__ = _missing_name(__name__)
