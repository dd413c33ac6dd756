"""Every public model, and functions for published architectures and checkpoints.

`architectures` is the table of published Transformers. `count` computes the number of
parameters of one without building it, `costs` its operations and its memory.
`from_pretrained` and `save_pretrained` read and write checkpoints of Hugging Face and
KerasHub.
"""

from typing import TYPE_CHECKING

import kerasseq.core.serialization  # first: checks the backend
import kerasseq.layers  # noqa: F401  # registers every layer
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.language.architectures import architectures
from kerasseq.language.bert import BERT
from kerasseq.language.costs import costs
from kerasseq.language.counting import count
from kerasseq.language.gpt import GPT
from kerasseq.language.gpt_task import GPTTask
from kerasseq.language.language_model import LanguageModel
from kerasseq.language.mamba import Mamba
from kerasseq.language.rwkv import RWKV
from kerasseq.language.vectors import WordVectors
from kerasseq.pretrained.checkpoints import from_pretrained, save_pretrained
from kerasseq.seq2seq.recurrent import Seq2Seq
from kerasseq.seq2seq.t5 import T5, T5Encoder
from kerasseq.seq2seq.transformer import Transformer
from kerasseq.tasks.classifier import SequenceClassifier
from kerasseq.tasks.forecaster import Forecaster
from kerasseq.tasks.tagger import SequenceTagger
from kerasseq.vision.vit import ViT

__all__ = [
    "SequenceClassifier",
    "SequenceTagger",
    "Forecaster",
    "LanguageModel",
    "Seq2Seq",
    "Transformer",
    "T5",
    "T5Encoder",
    "GPT",
    "GPTTask",
    "Mamba",
    "RWKV",
    "BERT",
    "ViT",
    "WordVectors",
    "architectures",
    "costs",
    "count",
    "from_pretrained",
    "save_pretrained",
]

if not TYPE_CHECKING:  # a checker knows the names by itself
    __getattr__ = _missing_name(__name__)
