import codecs
import sys

import pytest

from kerasseq.datasets import python_reference, text_file


def test_python_reference_is_prose():
    text = python_reference()
    assert 300_000 < len(text) < 1_000_000
    assert text == python_reference()
    assert "\n\n\n" not in text
    assert not any(set(line) <= set("*=-~+| ") for line in text.splitlines() if line)
    letters = sum(c.isalpha() or c.isspace() for c in text)
    assert letters / len(text) > 0.85
    assert len(set(text)) < 200
    # Clean-up loses no sentence.
    assert "Assert statements are a convenient way to insert debugging" in text


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="counted on Python 3.11")
def test_python_reference_keeps_most_of_the_text():
    from pydoc_data.topics import topics

    assert len(python_reference()) > 0.9 * sum(map(len, topics.values()))


def write(tmp_path, data: bytes):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data, encoding, text",
    [
        ("été\r\nà\rb\n".encode(), "utf-8", "été\nà\nb\n"),
        (codecs.BOM_UTF8 + b"ab", "utf-8", "ab"),
        ("été".encode("latin-1"), "latin-1", "été"),
        ("été".encode("utf-16"), "utf-16", "été"),
        (codecs.BOM_UTF16_BE + "été".encode("utf-16-be"), "utf-16-be", "été"),
        (b"ab\n", "ascii", "ab\n"),
    ],
)
def test_reads(tmp_path, data, encoding, text):
    assert text_file(write(tmp_path, data), encoding) == text
    assert text_file(str(tmp_path / "a.txt"), encoding=encoding) == text


@pytest.mark.parametrize(
    "data, encoding, message",
    [
        (b"", "utf-8", "is empty"),
        (b" \r\n\t", "utf-8", "only whitespace"),
        (codecs.BOM_UTF8, "utf-8", "only whitespace"),
        (b"ab\0c", "utf-8", "binary file, not text: byte 2"),
        (b"\x89PNG\r\n\0", "utf-8", "binary"),
        (b"t\xe9", "utf-8", r"not utf-8 \(byte 1, line 1\). Try encoding='cp1252'"),
        (b"\x81", "utf-8", "Try encoding='latin-1'"),
        ("é".encode(), "ascii", "Try encoding='utf-8'"),
        ("ab".encode("utf-16"), "utf-8", "Try encoding='utf-16'"),
        ("ab".encode("utf-16"), "latin-1", "Try encoding='utf-16'"),
        ("ab".encode("utf-32"), "utf-8", "Try encoding='utf-32'"),
        (b"ab", "uft-8", "'uft-8' is no text encoding. Did you mean 'utf-8'"),
        (b"ab", "lattin-1", "Did you mean 'latin-1'"),
        (b"ab", "rot13", "no text encoding"),
        (b"ab", "a\0b", "no text encoding"),
    ],
)
def test_unreadable(tmp_path, data, encoding, message):
    with pytest.raises(ValueError, match=message) as caught:
        text_file(write(tmp_path, data), encoding)
    assert "\n" not in str(caught.value)


def test_wrong_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file b.txt in"):
        text_file(tmp_path / "b.txt")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        text_file(tmp_path)
    with pytest.raises(TypeError, match="`path`"):
        text_file(3)
    with pytest.raises(TypeError, match="`encoding`"):
        text_file(tmp_path, None)
