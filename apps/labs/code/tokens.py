"""The code that the lab Tokens shows."""

MERGES = """
from kerasseq.text import BytePairTokenizer

text = {text}
alphabet = BytePairTokenizer(1000, all_bytes=False, min_count=10**6).fit(text)
size = alphabet.vocabulary_size + {merges}
tokenizer = BytePairTokenizer(size, all_bytes=False).fit(text)
for merge in tokenizer.trace():
    print(merge.count, merge.left, "+", merge.right, "=", merge.token)
print(tokenizer.tokenize(text))
"""

COMPARE = """
import kerasseq
from kerasseq import text

reference = kerasseq.datasets.python_reference()[:{characters}]
tokenizers = [
    text.CharacterTokenizer(),
    text.BytePairTokenizer({size}),
    text.UnigramTokenizer({size}),
    text.WordPieceTokenizer({size}),
    text.WordTokenizer({size}),
]
for tokenizer in tokenizers:
    tokens = tokenizer.fit(reference).tokenize({sentence})
    print(type(tokenizer).__name__, tokenizer.vocabulary_size, len(tokens), tokens)
"""

NGRAMS = """
import kerasseq

reference = kerasseq.datasets.python_reference()[:{characters}]
tokenizer = kerasseq.text.WordTokenizer() if {unit} == "word" else None
found = kerasseq.text.shannon_series(reference, tokenizer, length=80, seed={seed})
for order, text in found.items():
    print(order, text)
"""

ELIZA = """
from kerasseq.text import Eliza

eliza = Eliza({rules})
for said in {said}:
    print(said, "->", eliza.reply(said))
    print(eliza.explain())
"""
