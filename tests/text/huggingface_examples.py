"""Generated tokenizers of the package `tokenizers`, and texts hard to tokenize."""

import copy
import functools
import itertools
import json

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from kerasseq.datasets import python_reference
from kerasseq.text.tokenizers.byte_alphabet import BYTES

CORPUS = python_reference()[:20_000]
CORPUS += " déjà vu naïve Été 北京 東京 שלום مرحبا 👩‍🚀 e\u0301 ﬁ ½ Ⅷ"
BOOLS = [True, False]
BEHAVIORS = ["Isolated", "Removed", "Contiguous"]
BEHAVIORS += ["MergedWithPrevious", "MergedWithNext"]
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def components(kind, **options):
    """A component with every combination of its options."""
    return [
        {"type": kind, **dict(zip(options, values, strict=True))}
        for values in itertools.product(*options.values())
    ]


PATTERNS = [{"String": " "}, {"String": "aa"}, {"Regex": r"\s+"}, {"Regex": "[aeiou]"}]
PATTERNS += [{"Regex": r"(?i:the)|\p{M}"}, {"Regex": " {2,}"}, {"Regex": "[.,]|▁"}]
NORMALIZERS = [
    *({"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD")),
    {"type": "Lowercase"},
    {"type": "StripAccents"},
    *components("Strip", strip_left=BOOLS, strip_right=BOOLS),
    *components("Prepend", prepend=["▁", "xy "]),
    *components("Replace", pattern=PATTERNS, content=["▁", "", "xyz"]),
    *components(
        "BertNormalizer",
        clean_text=BOOLS,
        handle_chinese_chars=BOOLS,
        strip_accents=[*BOOLS, None],
        lowercase=BOOLS,
    ),
]
PRE_TOKENIZERS = [
    {"type": "BertPreTokenizer"},
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    *components(
        "ByteLevel", add_prefix_space=BOOLS, trim_offsets=[True], use_regex=BOOLS
    ),
    *components(
        "Metaspace",
        replacement=["▁"],
        prepend_scheme=["always", "first", "never"],
        split=BOOLS,
    ),
    *components(
        "Split",
        pattern=[*PATTERNS, {"Regex": LLAMA_3}],
        behavior=BEHAVIORS,
        invert=BOOLS,
    ),
    *components("Digits", individual_digits=BOOLS),
    *components("Punctuation", behavior=BEHAVIORS),
]
DECODERS = [
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    *components("WordPiece", prefix=["##"], cleanup=BOOLS),
    *components("Strip", content=[" ", "a"], start=[0, 1, 2], stop=[0]),
    *components("Replace", pattern=PATTERNS, content=[" "]),
    *components(
        "Metaspace", replacement=["▁"], prepend_scheme=["always", "first", "never"]
    ),
]
ADDED = ["<m>", "abc1", "ABC1", "<|end|>", "é", "  ", "\n", "the", "The cat", "<unk>"]
ADDED += ["[UNK]", "▁", "<M>X", " <s>", "e\u0301x", "北京", "a", "0"]
OPTIONS = ("single_word", "lstrip", "rstrip", "normalized", "special")
# Combining marks, emoji with joiners, CJK, right to left, controls, line ends, spaces.
ATOMS = """the |abc1|theABC1dog|a<m>b| <m> |<M>|<|end|>|é|e\u0301|E\u0301\u0323|\u0301
👩‍🚀|👨‍👩‍👧|🏽|北|京|東京|שלום|مرحبا|\x00|\x07|\x7f|\u200d|\u200b|\t| |  |     |ﬁ|½|Ⅷ
Å|ΑΣ|각|\u1100\u1161\u11a8|İ|ß|ẞ|'s|don't|.|,|!?|12|345|▁|<unk>|<0x41>|<s>|The cat
\u3000|\xa0|\u2028|\x85|\x1c|ñ|a\u0323\u0308|क्षि|ก็|🙂|xyz|a|aaaaaaaaa|ǆ|℃|ﷺ|…|$|€|“q”|_
\u0345|ᾳ|\ufffd|\ue000|q\u0307\u0323|\U0001d15e""".replace("<|end|>", "<!end!>")
ATOMS = [a.replace("!end!", "|end|") for a in ATOMS.replace("\n", "|").split("|")]
ATOMS += ["\n", "\r\n"]


@functools.cache
def trained(kind):
    """A model that `tokenizers` has learned, as in a `tokenizer.json`."""
    settings = {"show_progress": False}
    if kind == "bytes":
        peer = tokenizers.Tokenizer(models.BPE())
        peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=500, initial_alphabet=alphabet, **settings
        )
    elif kind == "sentencepiece":  # LLaMA 2's and Mistral's
        peer = tokenizers.Tokenizer(
            models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
        )
        peer.pre_tokenizer = pre_tokenizers.Metaspace()
        special = ["<unk>", "<s>", *BYTES]
        trainer = trainers.BpeTrainer(
            vocab_size=700, special_tokens=special, limit_alphabet=60, **settings
        )
    elif kind == "wordpiece":
        peer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer = trainers.WordPieceTrainer(
            vocab_size=400, special_tokens=special, **settings
        )
    else:
        peer = tokenizers.Tokenizer(models.Unigram())
        peer.pre_tokenizer = pre_tokenizers.Metaspace()
        special = ["<unk>", *(BYTES if kind == "unigram with bytes" else [])]
        trainer = trainers.UnigramTrainer(
            vocab_size=500, special_tokens=special, unk_token="<unk>", **settings
        )
    peer.train_from_iterator([CORPUS], trainer)
    return json.loads(peer.to_str())["model"]


KINDS = ["bytes", "sentencepiece", "wordpiece", "unigram", "unigram with bytes"]


def generate(random, kind=None) -> dict:
    """The content of a `tokenizer.json` of components drawn at random."""
    kind = kind or random.choice(KINDS)
    model = copy.deepcopy(trained(kind))
    if model["type"] == "BPE":
        model["ignore_merges"] = random.random() < 0.3
        model["byte_fallback"] = random.random() < 0.5
        model["fuse_unk"] = random.random() < 0.5
    if kind == "unigram with bytes":
        model["byte_fallback"] = random.random() < 0.7
    if kind == "wordpiece":
        model["max_input_chars_per_word"] = random.choice([100, 7])
    return {
        **file(model),
        "added_tokens": _added(random, model["vocab"]),
        "normalizer": copy.deepcopy(_drawn(random, NORMALIZERS, "normalizers")),
        "pre_tokenizer": copy.deepcopy(_drawn(random, PRE_TOKENIZERS, "pretokenizers")),
        "decoder": copy.deepcopy(_drawn(random, DECODERS, "decoders")),
    }


def file(model, *added, **parts) -> dict:
    """The content of a `tokenizer.json`; added tokens get the next ids."""
    plain = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None}
    plain |= {"pre_tokenizer": None, "post_processor": None, "decoder": None}
    size = len(model["vocab"])
    tokens = [
        {**dict.fromkeys(OPTIONS, False), **token, "id": size + number}
        for number, token in enumerate(added)
    ]
    return {**plain, **parts, "added_tokens": tokens, "model": model}


def _drawn(random, table, name):
    if random.random() < 0.2:
        return None
    if random.random() < 0.5:
        return random.choice(table)
    steps = [random.choice(table) for _ in range(random.randint(0, 3))]
    return {"type": "Sequence", name: steps}


def _added(random, vocabulary):
    if isinstance(vocabulary, list):
        vocabulary = {piece: i for i, (piece, _) in enumerate(vocabulary)}
    added, next_id = [], len(vocabulary)
    for content in random.sample(ADDED, random.randint(0, 5)):
        number = vocabulary.get(content, next_id)
        next_id += number == next_id
        options = {name: random.random() < 0.4 for name in OPTIONS}
        added.append({"content": content, "id": number, **options})
    return sorted(added, key=lambda token: token["id"])


def text(random) -> str:
    """A text of hard characters."""
    return "".join(random.choice(ATOMS) for _ in range(random.randint(0, 14)))
