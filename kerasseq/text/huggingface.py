"""Tokenizers from Hugging Face's `tokenizer.json`: what of it is known here.

A file names its parts: a normalizer, a pre-tokenizer, a model, added tokens. Known are
byte-level BPE (GPT-2, GPT-4 and their kin), WordPiece with BERT's parts, and unigram
with Metaspace (T5 and its kin). Another part is an error that names it: it would give
other ids. Post-processors, which only put marks around a text, are left out, and
so are the spaces that a few special tokens swallow.
"""

from kerasseq.text import byte_pair_files
from kerasseq.text.files import tokens_in_order
from kerasseq.text.unigram_tokenizer import UnigramTokenizer
from kerasseq.text.wordpiece_tokenizer import WordPieceTokenizer

_PREFIX = {"always": True, "never": False, "first": "first"}


def build(content: dict, path):
    """A tokenizer from the content of a `tokenizer.json`.

    Args:
        content: The file as a dictionary.
        path: Where it came from, for messages.

    Raises:
        ValueError: If a part is missing, damaged or not known here.
    """
    kind = content["model"].get("type")
    builders = {"BPE": _byte_pair, "Unigram": _unigram, "WordPiece": _wordpiece}
    if kind not in builders:
        known = ", ".join(builders)
        raise ValueError(f"{path}: the model's type is {kind!r}, known are {known}")
    try:
        return builders[kind](content, path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged, or of a version not known here: {error!r}"
        ) from error


def _byte_pair(content, path):
    model = content["model"]
    _refuse(path, "normalizer", content.get("normalizer"))
    for part in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        _refuse(path, f"model.{part}", model.get(part) or None)
    for part in ("byte_fallback", "ignore_merges"):
        _refuse(path, f"model.{part}", model.get(part) or None)
    special, ids = _added(content, model["vocab"])
    merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    return byte_pair_files.build(
        tokens_in_order(ids, path),
        merges,
        path,
        {"special_tokens": special, "pattern": _pattern(content, path)},
    )


def _pattern(content, path):
    """How the text is cut before merging."""
    parts = _sequence(content.get("pre_tokenizer"), "pretokenizers")
    kinds = [part["type"] for part in parts]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]):
        _refuse(path, "pre_tokenizer", content.get("pre_tokenizer") or "none")
    _refuse(path, "add_prefix_space", parts[-1]["add_prefix_space"] or None)
    if kinds == ["ByteLevel"]:
        if not parts[0].get("use_regex", True):
            _refuse(path, "use_regex", False)
        return "gpt2"
    cut = parts[0]
    if cut["behavior"] != "Isolated" or cut["invert"] or parts[1]["use_regex"]:
        _refuse(path, "pre_tokenizer", cut)
    return cut["pattern"]["Regex"]


def _unigram(content, path):
    model = content["model"]
    _refuse(path, "normalizer", content.get("normalizer"))
    cut = content.get("pre_tokenizer") or {"type": "none"}
    if cut["type"] != "Metaspace" or cut["replacement"] != "▁":
        _refuse(path, "pre_tokenizer", cut)
    if not cut.get("split", True):
        _refuse(path, "pre_tokenizer.split", False)
    pieces, scores = map(list, zip(*model["vocab"], strict=True))
    special, ids = _added(content, {piece: i for i, piece in enumerate(pieces)})
    added = tokens_in_order(ids, path)[len(pieces) :]
    unknown = None if model["unk_id"] is None else pieces[model["unk_id"]]
    return UnigramTokenizer.from_pieces(
        pieces + added,
        scores + [0.0] * len(added),
        unknown=unknown,
        special_tokens=special,
        byte_fallback=model.get("byte_fallback", False),
        add_prefix_space=_PREFIX[cut["prepend_scheme"]],
        lossless=False,
    )


def _wordpiece(content, path):
    model = content["model"]
    normalizer, cut = content.get("normalizer"), content.get("pre_tokenizer")
    for name, part, known in (
        ("normalizer", normalizer, "BertNormalizer"),
        ("pre_tokenizer", cut, "BertPreTokenizer"),
    ):
        if part is None or part["type"] != known:
            _refuse(path, name, part or "none")
    special, ids = _added(content, model["vocab"])
    return WordPieceTokenizer.from_vocabulary(
        tokens_in_order(ids, path),
        special_tokens=special,
        unknown=model["unk_token"],
        lowercase=normalizer["lowercase"],
        strip_accents=normalizer["strip_accents"],
        split_chinese=normalizer["handle_chinese_chars"],
        clean=normalizer["clean_text"],
        prefix=model["continuing_subword_prefix"],
        max_word_length=model["max_input_chars_per_word"],
    )


def _sequence(part, name):
    """The parts of a `Sequence`, or the one part, or none."""
    if part is None:
        return []
    return part[name] if part["type"] == "Sequence" else [part]


def _added(content, vocabulary):
    """Special tokens in the order of their ids, and the ids of all tokens."""
    ids = {**vocabulary}  # an error unless it is a dictionary
    added = sorted(content.get("added_tokens") or [], key=lambda token: token["id"])
    for token in added:
        ids[token["content"]] = token["id"]
    return [token["content"] for token in added], ids


def _refuse(path, name, value):
    """Raise if a part is there that this package does not have."""
    if value is not None:
        kind = value.get("type", value) if isinstance(value, dict) else value
        raise ValueError(
            f"{path}: {name} = {kind!r} is not known to kerasseq, which would give "
            "other ids. Use the package tokenizers for this file"
        )
