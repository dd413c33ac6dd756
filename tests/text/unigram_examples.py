"""Small vocabularies, and the slow way to do what lattices do: try every cut."""

import math

from kerasseq.text import UnigramTokenizer

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def ways(word, score):
    """Every way to cut a word, with its log-probability.

    >>> ways("aa", {"a": -1.0, "aa": -3.0})
    [(['a', 'a'], -2.0), (['aa'], -3.0)]
    """
    if not word:
        return [([], 0.0)]
    return [
        ([word[:end], *rest], score[word[:end]] + weight)
        for end in range(1, len(word) + 1)
        if word[:end] in score
        for rest, weight in ways(word[end:], score)
    ]


def log_total(weights):
    return math.log(sum(map(math.exp, weights)))


def tokenizer(score, **options):
    """A tokenizer of pieces with scores, after the special tokens and bytes."""
    options = {"unknown": "<unk>", "byte_fallback": True, **options}
    fixed = [*options.get("special_tokens", ())]
    fixed += [options["unknown"]] if options["unknown"] not in (None, *fixed) else []
    fixed += BYTES if options["byte_fallback"] else []
    scores = [0.0] * len(fixed) + list(score.values())
    return UnigramTokenizer.from_pieces([*fixed, *score], scores, **options)
