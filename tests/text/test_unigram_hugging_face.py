"""The same ids as Hugging Face's `tokenizers`, with the same pieces and scores."""

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers

from kerasseq.datasets import python_reference
from kerasseq.text import UnigramTokenizer
from tests.text.unigram_examples import tokenizer

SCHEMES = {True: "always", False: "never", "first": "first"}
REFERENCE = python_reference()
# Pieces with their letters missing, of equal weight, and inside other pieces.
ODD = {
    "▁": -3.0, "▁a": -3.5, "a": -3.0, "b": -3.0, "ab": -6.0, "aba": -6.0, "cd": -4.0,
    "dcd": -7.0, "▁▁a": -0.5, "a▁b": -0.5, "é": -4.0, "\n": -3.0, "b\n": -4.5,
    "xyz": -30.0, "c d": -0.1, " b": -0.1,
}  # fmt: skip
TEXTS = st.lists(
    st.sampled_from([*"aabbcdcdxyzé▁☃\n\t", " ", " ", "<s>", "<pad>", "👩‍🚀"]),
    max_size=25,
).map("".join)


def peer(ours):
    vocabulary = list(zip(ours.vocabulary, ours.scores.tolist(), strict=True))
    model = models.Unigram(
        vocabulary, unk_id=ours.id_of(ours.unknown), byte_fallback=ours.byte_fallback
    )
    theirs = tokenizers.Tokenizer(model)
    scheme = SCHEMES[ours.add_prefix_space]
    if ours.lossless:  # as in the files of Llama: always one more space
        normal = [normalizers.Prepend("▁")] if scheme == "always" else []
        normal += [normalizers.Replace(" ", "▁")]
        theirs.normalizer = normalizers.Sequence(normal)
        scheme = "never"
    theirs.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=scheme)
    special = [t for t in ours.special_tokens if t != ours.unknown]
    theirs.add_special_tokens(
        [tokenizers.AddedToken(t, special=True, normalized=False) for t in special]
    )
    return theirs


@pytest.fixture(scope="module")
def learned():
    options = {"byte_fallback": True, "special_tokens": ["<pad>", "<s>"]}
    ours = UnigramTokenizer(900, **options).fit(REFERENCE[:60_000])
    return ours.vocabulary, ours.scores


@pytest.mark.parametrize("prefix", SCHEMES)
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_the_same_ids_for_real_text(learned, prefix, byte_fallback):
    ours = UnigramTokenizer.from_pieces(
        *learned,
        special_tokens=["<pad>", "<s>"],
        byte_fallback=byte_fallback,
        add_prefix_space=prefix,
        lossless=False,
    )
    theirs = peer(ours)
    texts = [
        REFERENCE[60_000:100_000],
        " début ▁<s> naïve☃☃ \t\n<pad>日本語",
        "",
        " ",
        "▁",
    ]
    for text in texts:
        assert ours.encode(text).tolist() == theirs.encode(text).ids
    assert len(set(ours.encode(texts[0]).tolist())) > 400


@settings(max_examples=100)
@given(TEXTS)
def test_the_same_ids_for_random_texts(text):
    for prefix in SCHEMES:
        for byte_fallback in (True, False):
            ours = tokenizer(
                ODD,
                special_tokens=["<pad>", "<s>"],
                byte_fallback=byte_fallback,
                add_prefix_space=prefix,
                lossless=False,
            )
            assert ours.encode(text).tolist() == peer(ours).encode(text).ids


@settings(max_examples=100)
@given(TEXTS)
def test_the_same_ids_where_spaces_are_kept(text):
    text = text.replace("▁", "")  # which is a space there, and three bytes here
    for prefix in (True, False):
        ours = tokenizer(ODD, special_tokens=["<pad>", "<s>"], add_prefix_space=prefix)
        assert ours.encode(text).tolist() == peer(ours).encode(text).ids


@settings(max_examples=100)
@given(TEXTS)
def test_the_same_text_from_the_same_ids(text):
    text = text.replace("▁", "").replace("<s>", "").replace("<pad>", "")
    ours = tokenizer(ODD, special_tokens=["<pad>", "<s>"])
    theirs = peer(ours)
    theirs.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    ids = ours.encode(text).tolist()
    assert ours.decode(ids) == theirs.decode(ids) == text


def test_what_differs_on_purpose():
    ours = tokenizer({"▁": -2.0, **dict.fromkeys("<0x41>", -5.0)}, lossless=False)
    text = "<0x41>"
    assert ours.tokenize(text) == ["▁", *text]
    assert ours.decode(ours.encode(text)) == text
    theirs = peer(ours)
    assert theirs.encode(text).tokens == ["▁", "<0x41>"]  # which is the byte of "A"
