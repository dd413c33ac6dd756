"""Text as numbers, and the models that need only counting. Loads no Keras."""

from kerasseq.text.character_tokenizer import CharacterTokenizer
from kerasseq.text.eliza import Eliza
from kerasseq.text.ngram import NGramModel

__all__ = ["CharacterTokenizer", "Eliza", "NGramModel"]
