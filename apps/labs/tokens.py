"""Lab 9, Tokens: byte-pair encoding merge by merge, and its alternatives."""

from parts import figures, lab

EQUATION = r"(a, b) = \arg\max_{(x, y)} N(x\,y), \qquad V \leftarrow V \cup \{ab\}"
CORPUS = """This example is taken from the multitude of tokenizer examples explained on \
the Hugging Face courses.
This is one example of tokenization.
There is several tokenizer algorithms.
Hopefully, you will be able to understand how they are trained and generate tokens."""
MAX_MERGES = 60
CODE = """
from kerasseq.text import BytePairTokenizer

text = {text}
alphabet = BytePairTokenizer(1000, all_bytes=False, min_count=10**6).fit(text)
size = alphabet.vocabulary_size + {merges}
tokenizer = BytePairTokenizer(size, all_bytes=False).fit(text)
for merge in tokenizer.trace():
    print(merge.count, merge.left, "+", merge.right, "=", merge.token)
print(tokenizer.tokenize(text))
"""


def train(text):
    """Returns the merges, and the pieces of the text after 0, 1, 2, … of them."""
    from kerasseq.text import BytePairTokenizer

    alphabet = BytePairTokenizer(1000, all_bytes=False, min_count=10**9).fit(text)
    size = alphabet.vocabulary_size
    tokenizer = BytePairTokenizer(size + MAX_MERGES, all_bytes=False).fit(text)
    merges = tokenizer.trace()
    pieces = []
    for n in range(len(merges) + 1):
        part = BytePairTokenizer(size + n, all_bytes=False).fit(text)
        offsets = part.encode_with_offsets(text).offsets.tolist()
        pieces.append([text[a:b] for a, b in offsets])
    return [m._asdict() for m in merges], pieces


def body(here):
    """Draws the page."""
    with here.controls():
        text = here.passage("text", CORPUS, most=2000)
    merges, pieces = here.compute(train, text)
    with here.controls():
        n = here.slider("merges", 0, max(1, len(merges)), 0)
    here.strip("pieces", pieces[n])
    rows = [{"merges": i, "tokens": len(p), "of": "text"} for i, p in enumerate(pieces)]
    titles = {"merges": here.text("merges"), "tokens": here.text("tokens")}
    chart = figures.lines(here.style, rows, "merges", "tokens", "of", titles=titles)
    here.picture("curve", chart, rows)
    here.code(CODE, text=text, merges=n)


if __name__ == "__main__":
    lab.show("tokens", body, equation=EQUATION)
