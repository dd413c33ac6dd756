"""Tokenizers and count-based text models. Imports neither Keras nor a backend."""

from typing import TYPE_CHECKING

from kerasseq.core.namespace import explain_calls as _explain_calls
from kerasseq.core.namespace import missing_name as _missing_name
from kerasseq.text.chat.chat_template import ChatTemplate
from kerasseq.text.chat.jinja_template import JinjaTemplate
from kerasseq.text.classical.autoregression import AutoRegression
from kerasseq.text.classical.bag_of_words import BagOfWords
from kerasseq.text.classical.eliza import Eliza
from kerasseq.text.classical.hidden_markov import HiddenMarkovModel
from kerasseq.text.classical.ibm_model import IBMModel1
from kerasseq.text.classical.ngram import NGramModel
from kerasseq.text.classical.shannon import shannon_series
from kerasseq.text.classical.sliding_window import SlidingWindowModel
from kerasseq.text.surprise import Surprise
from kerasseq.text.tokenizers.basic_bpe import BasicBPE
from kerasseq.text.tokenizers.byte_pair_tokenizer import BytePairTokenizer
from kerasseq.text.tokenizers.character_tokenizer import CharacterTokenizer
from kerasseq.text.tokenizers.conversion import as_tokenizer
from kerasseq.text.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer
from kerasseq.text.tokenizers.loading import load_tokenizer
from kerasseq.text.tokenizers.rwkv_tokenizer import RWKVTokenizer
from kerasseq.text.tokenizers.unigram_tokenizer import UnigramTokenizer
from kerasseq.text.tokenizers.word_tokenizer import WordTokenizer
from kerasseq.text.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

__all__ = [
    "AutoRegression",
    "BagOfWords",
    "BasicBPE",
    "BytePairTokenizer",
    "CharacterTokenizer",
    "ChatTemplate",
    "Eliza",
    "HiddenMarkovModel",
    "HuggingFaceTokenizer",
    "IBMModel1",
    "JinjaTemplate",
    "NGramModel",
    "RWKVTokenizer",
    "SlidingWindowModel",
    "Surprise",
    "UnigramTokenizer",
    "WordPieceTokenizer",
    "WordTokenizer",
    "as_tokenizer",
    "load_tokenizer",
    "shannon_series",
]

_explain_calls(__name__)
if not TYPE_CHECKING:  # a checker knows the names by itself
    __getattr__ = _missing_name(__name__)
