"""Patterns of users: with groups, without an end, and none at all."""

import json

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from kerasseq.text import BytePairTokenizer, Eliza, load_tokenizer
from kerasseq.text.classical.eliza import reader
from kerasseq.text.tokenizers import splitting
from tests.limits import within

pytestmark = pytest.mark.once("plain Python: independent of the backend")
ENDLESS = "(?:a|a)+b|."


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(splitting, "SECONDS", 0.05)
    with within(60):
        yield


@pytest.mark.parametrize(
    "pattern", ["(a)(b)", "(a)|(b)", "(?P<x>b+)a*", "a(?=b)|(b)|(c)"]
)
def test_groups_do_not_matter(pattern):
    text = "abba cab"
    words = splitting.split(text, pattern)
    assert "".join(words) == text
    tokenizer = BytePairTokenizer(260, pattern=pattern).fit(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_with_offsets(text).offsets[-1, 1] == len(text)


def test_a_pattern_that_never_ends_is_given_up(quick):
    tokenizer = BytePairTokenizer(260, pattern=ENDLESS)
    with pytest.raises(ValueError, match=r"\(\?:a\|a\)\+b.* 40 characters within") as e:
        tokenizer.fit("a" * 40)
    assert "(?>a+)" in str(e.value)
    tokenizer.fit("abc")
    with pytest.raises(ValueError, match="40 characters"):
        tokenizer.encode("a" * 40)
    assert tokenizer.decode(tokenizer.encode("ab.")) == "ab."


@pytest.mark.parametrize("kind", ["pre_tokenizer", "normalizer"])
def test_a_pattern_of_a_file_is_given_up(quick, kind, tmp_path):
    peer = tokenizers.Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    peer.train_from_iterator(["abc"], trainer)
    content = json.loads(peer.to_str())
    part = {"pattern": {"Regex": ENDLESS}, "content": "x", "invert": False}
    if kind == "normalizer":
        content[kind] = {"type": "Replace", **part}
    else:
        content[kind] = {"type": "Split", "behavior": "Isolated", **part}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="it reports: .*retry-limit"):
        load_tokenizer(path).encode("a" * 40)


def test_patterns_of_eliza_are_no_expressions(tmp_path):
    """Whatever a rule has in its pattern is compared as it stands, word by word."""
    rules = (reader.FOLDER / "en.toml").read_text()
    path = tmp_path / "rules.toml"
    path.write_text(
        rules + '\n[keyword.aaa.rules]\n"* (?:x|x)+b *" = ["So?"]\n"*" = ["Well."]\n'
    )
    with within(60):
        try:
            reply = Eliza(path).reply(f"aaa {'a' * 40} {'x ' * 5000}")
        except ValueError as error:
            assert str(path) in str(error)
        else:
            assert reply == "Well."


def test_the_package_must_be_there(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "regex", None)
    splitting.expression_of.cache_clear()
    with pytest.raises(ImportError, match="pip install regex"):
        splitting.split("a", "never seen")
    splitting.expression_of.cache_clear()
