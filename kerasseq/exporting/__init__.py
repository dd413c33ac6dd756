"""Models as files of other runtimes, which run them without Keras.

Each file is loaded by its runtime when it is written, and compared with the model.
Loads Keras when a model is exported.
"""

from kerasseq.core.namespace import explain_calls as _explain_calls
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.exporting.exports import export_model
from kerasseq.exporting.results import Exported, Rounded

__all__ = ["Exported", "Rounded", "export_model"]
_explain_calls(__name__)
__getattr__ = _missing_name(__name__)
