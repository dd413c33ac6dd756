"""Every public model, and functions for published architectures and checkpoints.

`architectures` is the table of published Transformers. `count` computes the number of
parameters of one without building it, `costs` its operations and its memory.
`from_pretrained` and `save_pretrained` read and write checkpoints of Hugging Face and
KerasHub.
"""

import importlib
from typing import TYPE_CHECKING, Any

import kerasseq.core.serialization  # first: checks the backend
import kerasseq.layers  # noqa: F401  # registers every layer
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.models.bert.bert import BERT
from kerasseq.models.chat import Chat
from kerasseq.models.equal_sizes import MatchedWidth, matched_width
from kerasseq.models.gpt.gpt import GPT
from kerasseq.models.gpt.gpt_task import GPTTask
from kerasseq.models.language_model import LanguageModel
from kerasseq.models.mamba import Mamba
from kerasseq.models.multimodal.multimodal import Multimodal
from kerasseq.models.picture_tokenizer.picture_tokenizer import PictureTokenizer
from kerasseq.models.reinforced import ReinforcedModel
from kerasseq.models.rwkv import RWKV
from kerasseq.models.seq2seq.bart import BART
from kerasseq.models.seq2seq.recurrent import Seq2Seq
from kerasseq.models.seq2seq.t5 import T5, T5Encoder
from kerasseq.models.seq2seq.transformer import Transformer
from kerasseq.models.vit.vit import ViT
from kerasseq.models.whisper.settings import WhisperGeneration
from kerasseq.models.whisper.whisper import Whisper
from kerasseq.models.xlstm import XLSTM
from kerasseq.published.architectures import architectures
from kerasseq.published.costing import costs
from kerasseq.published.counting import count
from kerasseq.series.forecaster import Forecaster
from kerasseq.speech.recognizer import SpeechRecognizer
from kerasseq.tasks import adapter_files as _adapter_files
from kerasseq.tasks.classifier import SequenceClassifier
from kerasseq.tasks.tagger import SequenceTagger
from kerasseq.vectors.word_vectors import WordVectors

if TYPE_CHECKING:  # at run time __getattr__ imports them, as they import the models
    from kerasseq.pretrained.checkpoints import from_pretrained, save_pretrained

__all__ = [
    "SequenceClassifier",
    "SequenceTagger",
    "Forecaster",
    "SpeechRecognizer",
    "Whisper",
    "WhisperGeneration",
    "LanguageModel",
    "Seq2Seq",
    "Transformer",
    "T5",
    "T5Encoder",
    "BART",
    "GPT",
    "GPTTask",
    "Mamba",
    "RWKV",
    "XLSTM",
    "BERT",
    "Chat",
    "ViT",
    "Multimodal",
    "PictureTokenizer",
    "ReinforcedModel",
    "MatchedWidth",
    "WordVectors",
    "architectures",
    "costs",
    "count",
    "from_pretrained",
    "matched_width",
    "save_pretrained",
]

_adapter_files.register_formats(  # these modules import the models as well
    peft=lambda: importlib.import_module("kerasseq.pretrained.peft"),
    keras_hub=lambda: importlib.import_module("kerasseq.pretrained.keras_hub_lora"),
)

if not TYPE_CHECKING:  # a checker knows the names by itself

    def __getattr__(name: str) -> Any:
        if name not in ("from_pretrained", "save_pretrained"):
            return _missing_name(__name__)(name)
        checkpoints = importlib.import_module("kerasseq.pretrained.checkpoints")
        globals()[name] = getattr(checkpoints, name)
        return globals()[name]
