"""Reads the file of a SentencePiece model, such as `spiece.model` or `tokenizer.model`.

The file is a message of Protocol Buffers (`sentencepiece_model.proto`): the pieces with
their scores and kinds, the type of the model, and the normalization of texts.
`read_sentencepiece` writes these as the components of a `tokenizer.json`:

| in the file | in the `tokenizer.json` |
|---|---|
| pieces and scores, type Unigram | the model `Unigram` |
| the same, type BPE | the model `BPE`, merges in the order of the scores |
| `precompiled_charsmap` | the normalizer `Precompiled` |
| `remove_extra_whitespaces` | `Replace` at both ends, and of several spaces |
| `add_dummy_prefix`, and ▁ for a space | `Prepend` and `Replace`, as in LLaMA 2 |
| user-defined symbols | `Split` into symbols, which are pieces, and other text |
| control symbols, such as `</s>` | special tokens, which are found in a text |

From: Kudo and Richardson, "SentencePiece", 2018, and the source of its package.
"""

import base64
import os
import pathlib
import re
import struct
from typing import Any, NamedTuple

from kerasseq.core.files import read_bytes, read_json
from kerasseq.core.schema import check
from kerasseq.text.tokenizers.byte_alphabet import SPACE

FILES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces
TYPES = {1: "Unigram", 2: "BPE", 3: "Word", 4: "Character"}
MODELS = ("Unigram", "BPE")  # of a `tokenizer.json`
EXTRA = "extra_ids"
WITH_EXTRA_IDS = ("t5", "mt5", "switchtransformers")
AS_IN_FILE = (*WITH_EXTRA_IDS, "", "llama", "mistral", "mixtral", "gemma")
# By the kind of model: tokens before the pieces, pieces left out, tokens after them.
LAYOUTS = {
    **dict.fromkeys(AS_IN_FILE, ((), 0, ())),
    "xlmroberta": (("<s>", "<pad>", "</s>", "<unk>"), 3, ("<mask>",)),
    "camembert": (
        ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        1,
        ("<mask>",),
    ),
    "debertav2": ((), 0, ("[MASK]",)),
}
# A symbol that no normalization changes.
SYMBOL = re.compile(rf"[!-@\[-~{SPACE}]+")
Fields = dict[int, list[Any]]


class Piece(NamedTuple):
    """A piece of the vocabulary, with ▁ for a space."""

    text: str
    score: float = 0.0
    kind: int = CONTROL


def read_sentencepiece(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the content of a `tokenizer.json` with the ids of a SentencePiece model.

    The ids are those of the model of Hugging Face whose folder the file is in, as the
    `tokenizer_config.json` or `config.json` beside it says; without these files those
    of the package `sentencepiece`.

    One difference remains: the package `tokenizers` applies `precompiled_charsmap` to
    characters with all their accents at once, as for published files. Of a letter
    followed by several combining accents it may lose one.

    Args:
        path: The file.

    Raises:
        ValueError: If it is damaged, or cannot be written with the same ids.
    """
    path = pathlib.Path(path)
    settings = {**_table(path, "config.json"), **_table(path, "tokenizer_config.json")}
    try:
        pieces, trainer, rules = _read(read_bytes(path))
        kind = TYPES[trainer.get(3, [1])[-1]]
        added = _added_tokens(_table(path, "added_tokens.json"), settings)
    except (LookupError, TypeError, ValueError, struct.error) as error:
        raise ValueError(
            f"{path} must be a model of SentencePiece, and it and the files beside it "
            f"complete, received {error!r}. Download the folder again"
        ) from error
    if reason := _beyond(kind, pieces, trainer, rules, settings):
        raise ValueError(
            f"{path} cannot be read with the same ids, since {reason}. "
            f"{_advice(kind, path.parent)}"
        )
    pieces = _ordered(pieces, settings)
    special = {i: p for i, p in enumerate(pieces) if p.kind in (CONTROL, UNKNOWN)}
    added = {i: token for i, token in added.items() if i >= len(pieces)}
    added |= {i: {"content": p.text, "special": True} for i, p in special.items()}
    return {
        "added_tokens": [{**added[i], "id": i} for i in sorted(added)],
        "normalizer": _normalizer(rules),
        "pre_tokenizer": _splits(kind, pieces),
        "model": _model(kind, pieces, _flag(trainer, 35, False)),
        "decoder": _decoder(_flag(rules, 3)),
    }


def _read(data: bytes) -> tuple[list[Piece], Fields, Fields]:
    """Returns the pieces, the settings of the training and of the normalization."""
    message = _fields(data)
    pieces = []
    for part in message.get(1, []):
        fields = _fields(part)
        score = struct.unpack("<f", fields.get(2, [bytes(4)])[-1])[0]
        kind = fields.get(3, [NORMAL])[-1]
        pieces.append(Piece(fields[1][-1].decode(), score, kind))
    if sum(piece.kind == UNKNOWN for piece in pieces) != 1:
        raise ValueError("pieces without one that is unknown")
    if len({piece.text for piece in pieces}) < len(pieces):
        raise ValueError("pieces that are not distinct")
    trainer, rules = (_fields(message.get(n, [b""])[-1]) for n in (2, 3))
    return pieces, trainer, rules


def _fields(data: bytes) -> Fields:
    r"""Returns the values of a message of Protocol Buffers by their numbers.

    Examples:
        >>> _fields(b"\x08\x96\x01\x12\x02ab")
        {1: [150], 2: [b'ab']}
    """
    values, at = {}, 0

    def varint():  # seven bits a byte, the lowest first
        nonlocal at
        value, shift, more = 0, 0, True
        while more:
            if at == len(data) or shift > 63:
                raise ValueError("a field that does not end")
            value |= (data[at] & 0x7F) << shift
            more, shift, at = data[at] & 0x80, shift + 7, at + 1
        return value

    while at < len(data):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            value = varint()
        else:
            size = varint() if wire == 2 else {1: 8, 5: 4}[wire]
            value, at = data[at : at + size], at + size
        if at > len(data):
            raise ValueError("a field that does not end")
        values.setdefault(number, []).append(value)
    return values


def _flag(fields, number, default=True) -> bool:
    return bool(fields.get(number, [default])[-1])


def _table(path, name) -> dict[str, Any]:
    """Returns a JSON file beside the model; empty if there is none."""
    file = path.with_name(name)
    content = read_json(file) if file.exists() else {}
    return content if isinstance(content, dict) else {}


def _beyond(kind, pieces, trainer, rules, settings) -> str | None:
    """Returns why no components of a `tokenizer.json` have the same ids, or None."""
    symbols = [piece.text for piece in pieces if piece.kind == USER_DEFINED]
    reasons = {
        f"its type is {kind}": kind not in MODELS,
        "it has spaces at the end of words": _flag(trainer, 24, False),
        "it keeps spaces as spaces": not _flag(rules, 5),
        "it has unused pieces": any(piece.kind == UNUSED for piece in pieces),
        "its normalization may change user-defined symbols": any(rules.get(2, []))
        and any(" " in s or SYMBOL.fullmatch(s) is None for s in symbols),
        "its model is for lower case": settings.get("do_lower_case", False),
        f"the ids of {_layout(settings)} are others": _layout(settings) not in LAYOUTS,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _advice(kind, folder) -> str:
    """Returns what to do about a model that cannot be read."""
    if kind not in MODELS:  # transformers has no converter for it either
        return "Encode the texts with the package sentencepiece, and give the model ids"
    return (
        "With the package transformers, write a tokenizer.json first: transformers."
        f'AutoTokenizer.from_pretrained("{folder}").save_pretrained("{folder}")'
    )


def _layout(settings) -> str:
    """Returns the kind of model: `xlmroberta` for XLMRobertaTokenizerFast."""
    name = settings.get("tokenizer_class") or settings.get("model_type") or ""
    return re.sub("Tokenizer(Fast)?$|[-_]", "", str(name)).lower()


def _ordered(pieces, settings) -> list[Piece]:
    """Returns the pieces by the ids of the model of the folder."""
    layout = _layout(settings)
    first, skipped, last = LAYOUTS[layout]
    if layout in WITH_EXTRA_IDS:
        last = [f"<extra_id_{i}>" for i in reversed(range(settings.get(EXTRA, 100)))]
    first = [Piece(t, kind=UNKNOWN if t == "<unk>" else CONTROL) for t in first]
    return [*first, *pieces[skipped:], *map(Piece, last)]


def _added_tokens(listed, settings) -> dict[int, dict[str, Any]]:
    """Returns the tokens of other files by their ids."""
    check(listed, {str: int}, "added_tokens.json")
    decoder = settings.get("added_tokens_decoder") or {}
    check(decoder, {str: {str: object}}, "added_tokens_decoder")
    check(settings.get(EXTRA, 0), int, EXTRA)
    added = {i: {"content": token, "special": True} for token, i in listed.items()}
    return added | {int(i): token for i, token in decoder.items()}


def _normalizer(rules):
    parts = []
    if charsmap := rules.get(2, [b""])[-1]:
        table = base64.b64encode(charsmap).decode()
        parts.append({"type": "Precompiled", "precompiled_charsmap": table})
    if _flag(rules, 4):  # a ▁ at the end counts as a space
        parts.append(_replace({"Regex": rf"\A +|[ {SPACE}]+\z"}, ""))
        parts.append(_replace({"Regex": " {2,}"}, " "))
    if _flag(rules, 3):
        parts.append({"type": "Prepend", "prepend": SPACE})
    return {
        "type": "Sequence",
        "normalizers": [*parts, _replace({"String": " "}, SPACE)],
    }


def _splits(kind, pieces):
    """Returns the pre-tokenizer that keeps user-defined symbols whole, the longest.

    With them, or Unigram, a word such as `<0x41>` would be a byte: its `<` is apart.
    """
    symbols = [piece.text for piece in pieces if piece.kind == USER_DEFINED]
    whole = [re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True)]
    if (symbols or kind == "Unigram") and any(piece.kind == BYTE for piece in pieces):
        whole.append("<(?=0x[0-9A-F]{2}>)")
    if not whole:
        return None
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    return {**split, "pattern": {"Regex": "|".join(whole)}}


def _model(kind, pieces, byte_fallback):
    ids = {piece.text: i for i, piece in enumerate(pieces)}
    (unknown,) = (i for i, piece in enumerate(pieces) if piece.kind == UNKNOWN)
    if kind == "Unigram":
        vocabulary = [[piece.text, piece.score] for piece in pieces]
        options = {"vocab": vocabulary, "unk_id": unknown}
    else:
        has_symbols = any(piece.kind == USER_DEFINED for piece in pieces)
        options = {
            "vocab": ids,
            "merges": _merges(pieces),
            "unk_token": pieces[unknown].text,
            "fuse_unk": True,
            "ignore_merges": has_symbols,  # they are not the result of merges
        }
    return {"type": kind, "byte_fallback": byte_fallback, **options}


def _merges(pieces) -> list[list[str]]:
    """Returns all pairs of pieces that together are a piece, by its score."""
    normal = {piece.text: piece.score for piece in pieces if piece.kind == NORMAL}
    merges = []
    for token in sorted(normal, key=lambda token: -normal[token]):
        pairs = ((token[:n], token[n:]) for n in range(1, len(token)))
        merges += [[*pair] for pair in pairs if normal.keys() >= {*pair}]
    return merges


def _decoder(prefixed):
    parts = [_replace({"String": SPACE}, " "), {"type": "ByteFallback"}]
    parts.append({"type": "Fuse"})
    if prefixed:
        parts.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": parts}


def _replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}
