import importlib
import importlib.util
import tokenize

import pytest

from kerasseq.datasets import python_tokens
from kerasseq.datasets.python_tokens import MODULES, TAGS, source_lines, tagged_lines

SOURCE = '''\
def f(x):  # to be
    """Text
    of lines."""
    y = "a b" + \\
        1.5
    return None if x else y

match += f("""
x"""); z = 2
'''


def tagged(unit, bio=False):
    return tagged_lines(source_lines(SOURCE), unit, bio)


def test_lines_of_strings_are_left_out():
    assert [line for line, _ in source_lines(SOURCE)] == [
        "def f(x):  # to be",
        'y = "a b" + \\',
        "1.5",
        "return None if x else y",
    ]


def test_tokens():
    sentences, tags = tagged("token")
    assert sentences[0] == ["def", "f", "(", "x", ")", ":", "# to be"]
    assert tags[0] == [
        *("keyword", "name", "operator", "name", "operator", "operator", "comment")
    ]
    assert list(zip(sentences[1], tags[1], strict=True)) == [
        *(("y", "name"), ("=", "operator"), ('"a b"', "string"), ("+", "operator"))
    ]
    assert tags[2:] == [
        ["number"],
        ["keyword", "keyword", "keyword", "name", "keyword", "name"],
    ]
    assert tagged("token", bio=True).tags[2] == ["B-number"]


def test_strings_with_expressions_are_one_token():
    source = 'x = f"a {b!r:>{w}} c{{d}}" + f"{y}"\nz = f"""a\n{q}\n"""; y\n'
    ((line, tokens),) = source_lines(source)
    strings = [line[t.start : t.end] for t in tokens if t.tag == "string"]
    assert strings == ['f"a {b!r:>{w}} c{{d}}"', 'f"{y}"']


def test_words():
    sentences, tags = tagged("word", bio=True)
    assert sentences[1] == ["y", "=", '"', "a", "b", '"', "+"]
    assert tags[1] == [
        *("B-name", "B-operator", "B-string", "I-string", "I-string", "I-string"),
        "B-operator",
    ]
    assert sentences[2] == ["1", ".", "5"]
    assert tags[2] == ["B-number", "I-number", "I-number"]
    assert tagged("word").tags[2] == ["number"] * 3


def test_characters():
    sentences, tags = tagged("character", bio=True)
    assert "".join(sentences[1]) == 'y = "a b" + \\'
    assert tags[1][:6] == ["B-name", "O", "B-operator", "O", "B-string", "I-string"]
    assert tags[1][-3:] == ["B-operator", "O", "O"]  # a backslash is not a token
    plain = tagged("character").tags
    assert plain == [
        [tag.removeprefix("B-").removeprefix("I-") for tag in row] for row in tags
    ]


@pytest.mark.parametrize("unit", ["word", "character", "token"])
def test_units_have_a_tag_each(unit):
    data = python_tokens(1009, unit=unit, seed=3)
    assert len(data.sentences) == len(data.tags) == 1009
    for sentence, tags in zip(*data, strict=True):
        assert len(sentence) == len(tags) > 0
    assert set(data.names) == {*TAGS, *(["O"] if unit == "character" else [])}


def test_characters_are_lines_of_the_source():
    source = "".join(
        importlib.util.find_spec(name).loader.get_source(name) for name in MODULES
    )
    lines = {line.strip() for line in source.splitlines()}
    texts = ["".join(s) for s in python_tokens(1009, unit="character").sentences]
    assert len(set(texts)) == 1009  # each once
    assert set(texts) <= lines


def test_tokens_are_those_of_tokenize():
    path = importlib.util.find_spec("heapq").origin
    with open(path, "rb") as file:
        expected = [
            (token.string, token.line.strip())
            for token in tokenize.tokenize(file.readline)
            if token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.COMMENT)
        ]
    with tokenize.open(path) as file:
        source = file.read()
    tokens = [
        (line[token.start : token.end], line)
        for line, found in source_lines(source)
        for token in found
        if token.tag in ("keyword", "name", "number", "comment")
    ]
    assert len(tokens) > 500
    assert tokens == [pair for pair in expected if pair in set(tokens)]


def test_seed():
    one, same, other = (python_tokens(53, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
    assert python_tokens(53, seed=1, bio=True).sentences == one.sentences


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(count=0), ValueError, "count must be at least 1"),
        (
            dict(count=10**6),
            ValueError,
            r"`count` must be at most \d\d,\d\d\d, .* 1,000",
        ),
        (dict(unit="words"), ValueError, 'Did you mean "word"'),
        (dict(bio="yes"), TypeError, "bio must be True or False"),
    ],
)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        python_tokens(**arguments)


def test_without_source(monkeypatch):
    module = importlib.import_module("kerasseq.datasets.python_tokens")
    monkeypatch.setattr(module, "MODULES", ("math",))
    module._lines.cache_clear()
    with pytest.raises(FileNotFoundError, match="source of the module math"):
        python_tokens(3)
    module._lines.cache_clear()
