"""Lab 12, Tokens: byte-pair encoding, its alternatives, word vectors, and rules."""

from collections import Counter

import streamlit as st

from labs.code import tokens as code
from parts import figures, lab, pieces, strips, word_vectors
from parts.errors import Refused

EQUATIONS = {
    "merges": (
        r"(a, b) = \arg\max_{(x, y)} N(x\,y), \qquad V \leftarrow V \cup \{ab\}",
    ),
    "compare": (r"V \cdot D, \qquad T^2",),
    "ngrams": (
        r"p(x_t \mid x_{t-n+1} \dots x_{t-1}) = "
        r"\frac{N(x_{t-n+1} \dots x_t)}{N(x_{t-n+1} \dots x_{t-1})}",
    ),
}
TRIES = (
    {"text": "a banana, my banana, no banana, one banana and the banana"},
    {"view": "compare", "sentence": "The tokennizer of an unbeleivably long word 🙂"},
    {"view": "eliza"},
    {"view": "vectors", "word": "mouse"},
    {
        **{"view": "vectors", "part": "analogy"},
        **{"first": "man", "second": "woman", "third": "uncle"},
    },
    {"view": "vectors", "part": "plural", "plurals": "is~was~has~this"},
    {"view": "ngrams", "unit": "word"},
)
CORPUS = """This example is taken from the multitude of tokenizer examples explained \
on the Hugging Face courses.
This is one example of tokenization.
There is several tokenizer algorithms.
Hopefully, you will be able to understand how they are trained and generate tokens."""
SENTENCE = "The tokenizer of an unbelievably long word is unbelievable!"
VIEWS = ("merges", "compare", "vectors", "ngrams", "eliza")
MAX_MERGES = 60
PAIRS = 12  # the most frequent ones that are shown
CHARACTERS = 100_000  # of the reference of Python, to train on
KINDS = {  # the classes in kerasseq.text
    "character": "CharacterTokenizer",
    "bpe": "BytePairTokenizer",
    "unigram": "UnigramTokenizer",
    "wordpiece": "WordPieceTokenizer",
    "word": "WordTokenizer",
}
UNKNOWN = ("\N{REPLACEMENT CHARACTER}", "<unk>", "[UNK]")


def train(text):
    """Returns the merges, and the text and its pairs after 0, 1, 2, … of them."""
    from kerasseq.text import BytePairTokenizer

    names = ("left", "right", "token")
    alphabet = BytePairTokenizer(10**6, all_bytes=False, min_count=10**9).fit(text)
    size = alphabet.vocabulary_size
    trained = BytePairTokenizer(size + MAX_MERGES, all_bytes=False).fit(text)
    merges, found = trained.trace(), []
    for n in range(len(merges) + 1):
        tokenizer = BytePairTokenizer(size + n, all_bytes=False).fit(text)
        found.append((tokenizer.tokenize(text), pieces.of(tokenizer, text)))
    rows = [
        merge._asdict()
        | {f"{n}_text": pieces.readable(getattr(merge, n)) for n in names}
        for merge in merges
    ]
    pairs = [
        [
            ([pieces.readable(one) for one in pair], count)
            for pair, count in Counter(step.pairs).most_common(PAIRS)
        ]
        for step in trained.steps(text)
    ]
    return rows, found, pairs


def merges(here):
    """Draws byte-pair encoding merge by merge."""
    with here.controls():
        text = here.passage("text", CORPUS, most=2000)
    if len(text) < 2:
        raise Refused("too_short")
    found, cut, pairs = here.compute(train, text)
    with here.controls():
        n = here.stepper("merges", 0, len(found), 0)
    tokens, shown = cut[n]
    if n:
        last = found[n - 1]
        words = {
            k: strips.visible(last[f"{k}_text"]) for k in ("left", "right", "token")
        }
        here.say("merged", **{k: f"`{word}`" for k, word in words.items()})
        here.say("times", count=last["count"])
    new = [i for i, token in enumerate(tokens) if n and token == found[n - 1]["token"]]
    here.strip("pieces", shown, marked=new)
    here.facts(
        ("tokens", here.write(len(shown))),
        ("per_token", here.write(len(text) / len(shown), 2)),
    )
    before = [
        {
            here.text("merge_pair"): " ".join(strips.visible(s) for s in pair),
            here.text("count"): count,
        }
        for pair, count in pairs[n]
    ]
    here.details("merge_pairs", before)
    rows = [
        {
            "merges": i,
            "tokens": len(p),
            "of": "text",
            "token": strips.visible(m["token_text"]),
            "count": m["count"],
        }
        for i, ((_, p), m) in enumerate(
            zip(cut, [{"token_text": "", "count": None}, *found], strict=True)
        )
    ]
    titles = {k: here.text(k) for k in ("merges", "tokens", "token", "count")}
    chart = figures.lines(
        here.style, rows, "merges", "tokens", "of", titles=titles, at=n
    )
    here.picture("curve", chart, rows, titles)
    here.code(code.MERGES, text=text, merges=n)


def tokenize(sentence, size):
    """Returns the tokens of a sentence, as shown, and the size, by tokenizer."""
    import kerasseq

    reference = kerasseq.datasets.python_reference()[:CHARACTERS]
    found = {}
    for kind, name in KINDS.items():
        make = getattr(kerasseq.text, name)
        tokenizer = make() if kind == "character" else make(size)
        tokenizer.fit(reference)
        tokens = tokenizer.tokenize(sentence)
        shown = tokens
        if pieces.is_of_bytes(tokenizer):
            shown = [pieces.readable(token) for token in tokens]
        found[kind] = tokens, shown, tokenizer.vocabulary_size
    return found


def compare(here):
    """Draws what several tokenizers make of a sentence, and what that costs."""
    with here.controls():
        sentence = here.line("sentence", SENTENCE, most=300)
        size = here.steps("size", (500, 1000, 2000, 4000), 1000)
        width = here.steps("width", (64, 256, 768, 4096), 768)
    if not sentence.strip():
        raise Refused("too_short")
    found = here.compute(tokenize, sentence, size)
    for kind, (_, shown, _) in found.items():
        here.strip(f"kind_{kind}", shown)
    rows = [
        {
            "kind": here.text(f"kind_{kind}"),
            "tokens": len(tokens),
            "vocabulary": vocabulary,
            "per_token": len(sentence) / max(1, len(tokens)),
            "embedding": vocabulary * width,
            "pairs": len(tokens) ** 2,
            "unknown": sum(token in UNKNOWN for token in tokens),
        }
        for kind, (tokens, _, vocabulary) in found.items()
    ]
    titles = {key: here.text(key) for key in rows[0]}
    for value in ("tokens", "embedding"):
        chart = figures.bars(here.style, rows, value, "kind", titles=titles)
        here.picture(f"cost_{value}", chart, rows, titles)
    here.code(code.COMPARE, sentence=sentence, size=size, characters=CHARACTERS)


def series(unit, seed):
    """Returns a text of each order."""
    import kerasseq

    reference = kerasseq.datasets.python_reference()[:CHARACTERS]
    tokenizer = kerasseq.text.WordTokenizer() if unit == "word" else None
    return kerasseq.text.shannon_series(reference, tokenizer, length=80, seed=seed)


def ngrams(here):
    """Draws texts of n-gram models."""
    with here.controls():
        unit = here.choice("unit", ("character", "word"), wide=True)
        seed = here.number("seed", 0, 9999, 0)
    for order, text in here.compute(series, unit, seed).items():
        here.strip(f"order_{order}", [text])
    here.code(code.NGRAMS, unit=unit, seed=seed, characters=CHARACTERS)


def talk(rules, said):
    """Returns the replies of ELIZA, and how each came about."""
    from kerasseq.text import Eliza

    eliza, found = Eliza(rules), []
    for text in said:
        reply, trace = eliza.reply(text), eliza.trace
        names = ("keyword", "pattern", "parts", "kept", "recalled")
        row = {name: getattr(trace, name) for name in names}
        row["parts"] = " | ".join(trace.parts)
        row["template"] = trace.template.text if trace.template else ""
        found.append((text, reply, {k: v for k, v in row.items() if v}))
    return found


def eliza(here):
    """Draws a conversation with ELIZA, and its rules."""
    with here.controls():
        default = here.text("said_default")
        text = here.passage("said", default, most=2000, rows=5)
    said = [line.strip() for line in text.splitlines() if line.strip()][:40]
    for line, reply, trace in here.compute(talk, here.language, said):
        rows = [{"step": here.text(f"rule_{k}"), "what": v} for k, v in trace.items()]
        st.chat_message("user").text(line)
        with st.chat_message("assistant"):
            st.text(reply)
            here.details("rule", rows)
    here.code(code.ELIZA, rules=here.language, said=said)


def body(here):
    """Draws one of the five parts."""
    parts = {"merges": merges, "compare": compare, "vectors": word_vectors.draw}
    parts |= {"ngrams": ngrams, "eliza": eliza}
    parts[here.view](here)


if __name__ == "__main__":
    lab.show("tokens", body, equations=EQUATIONS, views=VIEWS, tries=TRIES)
