import gzip

import pytest

from kerasseq.datasets import read_tagged

CONLL_2003 = """\
-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

-DOCSTART- -X- -X- O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
CONLL_U = """\
# sent_id = 1
# text = Du 10 000 fois.
1-2\tDu\t_\t_
1\tde\tde\tADP
2\tle\tle\tDET
3\t10 000\t10 000\tNUM
3.1\t_\t_\t_
4\t#\t#\tSYM

# sent_id = 2
1\tOui\toui\tINTJ
"""


@pytest.fixture
def read(tmp_path):
    def function(content, **options):
        path = tmp_path / "a.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_tagged(path, **options)

    return function


def test_conll_2003(read):
    data = read(CONLL_2003)
    assert data.sentences == [["EU", "rejects"], ["Peter", "Blackburn"]]
    assert data.tags == [["B-ORG", "O"], ["B-PER", "I-PER"]]
    assert data.names == ["B-ORG", "B-PER", "I-PER", "O"]
    assert read(CONLL_2003, tag_column=1).tags == [["NNP", "VBZ"], ["NNP", "NNP"]]
    assert read(CONLL_2003, tag_column=-2, limit=1).tags == [["B-NP", "B-VP"]]


def test_conll_u(read):
    data = read(CONLL_U, word_column=1, tag_column=3)
    assert data.sentences == [["de", "le", "10 000", "#"], ["Oui"]]
    assert data.tags == [["ADP", "DET", "NUM", "SYM"], ["INTJ"]]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_bytes_of_the_same_text(read, end, compress, encoding):
    text = "Été O\nÀ\u00a0la\u2028 B-X\n \t\n\nx O".replace("\n", end)
    data = text.encode(encoding)
    data = gzip.compress(data) if compress else data
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    found = read(data, encoding=name)
    # Only spaces and tabs separate columns, and only line ends lines.
    assert found.sentences == [["Été", "À\u00a0la\u2028"], ["x"]]
    assert found.tags == [["O", "B-X"], ["O"]]


def test_comments(read):
    pound = "# # B-NP\n5 CD I-NP\n\n# # B-NP\n"  # as in CoNLL-2000
    with pytest.raises(
        ValueError, match="line 1 could be .* '# # B-NP'. Pass `comments"
    ):
        read(pound)
    assert read(pound, comments=False).sentences == [["#", "5"], ["#"]]
    assert read(pound, comments=True).sentences == [["5"]]
    text = "# one two three\nx A\n# B\n\n# y =\n#\n#z A\n"
    assert read(text).sentences == [["x", "#"], ["#z"]]
    with pytest.raises(ValueError, match="line 2 must have 4 columns"):
        read(text, comments=False)
    with pytest.raises(ValueError, match="no line with a word"):
        read("# # B-NP\n")
    assert read("# # B-NP\n", comments=False).sentences == [["#"]]


def test_scores_are_words_unless_the_first_column_has_numbers(read):
    assert read("won O\n2-1 O\n").sentences == [["won", "2-1"]]


def test_wrong_lines_are_counted_or_skipped(tmp_path):
    path = tmp_path / "t.conll"
    path.write_text("a X\nb\n\nc X Y\nd X\nf\n\ne Z\n")
    message = "t.conll, line 2 has no tag: 'b'.* So 3 lines are wrong: line 2, 4, 6"
    with pytest.raises(ValueError, match=message):
        read_tagged(path)
    with pytest.warns(UserWarning, match="2 sentences are left out, as 3 lines"):
        assert read_tagged(path, missing="skip") == ([["e"]], [["Z"]])
    path.write_text("a X\nb\n")
    with pytest.raises(ValueError, match="line 2 has no tag"):
        read_tagged(path, missing="skip")
    with pytest.raises(ValueError, match='missing="drop" is not one of'):
        read_tagged(path, missing="drop")


def test_columns_of_conll_u_by_the_name(tmp_path):
    line = "{}\t{}\t_\tNOUN\tN\t_\t0\troot\t_\t_\n"
    text = "# text = a b\n" + line.format(1, "a") + line.format(2, "b")
    for name in ("t.conllu", "t.CONLLU.gz"):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if "gz" in name else data)
        expected = [["a", "b"]], [["NOUN", "NOUN"]]
        assert read_tagged(tmp_path / name) == expected
        assert read_tagged(tmp_path / name, tag_column=4).tags == [["N", "N"]]


def test_separators(read):
    assert read("a b\tX\n\nc\tY").sentences == [["a b"], ["c"]]
    assert read("a  X\nb \t Y \n").tags == [["X", "Y"]]
    assert read("a|b|X\n", separator="|", word_column=1).sentences == [["b"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (gzip.compress(b""), "no line with a word"),
        ("\n\n-DOCSTART- O\n", "no line with a word. A line should have a word"),
        ("a O\n\nb\n", r"line 3 has no tag: 'b'\. A line should"),
        ("a\nb\n", "line 1 has no tag: 'a'"),
        ("a O\nb X O\n", r"line 2 must have 2 columns, .*, received 3: 'b X O'"),
        ("a\tO\nb\t\n", "line 2 has no tag"),
        ("a\tO\n\tO\n", "line 2 has no word"),
        (b"a O\nb\xe9 O\n", r"not utf-8 \(byte 5, line 2\)\. Try encoding='cp1252'"),
        (b"a O\n\0\xff\n", "binary file"),
        (gzip.compress(b"a O\n" * 50)[:-9], "damaged: it begins as a file of gzip"),
        (b"\x1f\x8bxx", "damaged"),
    ],
)
def test_damaged_files(read, content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(tag_column=4), ValueError, "`tag_column` must be a column of the file"),
        (dict(word_column=-5), ValueError, "`word_column` must .* 4 columns"),
        (dict(tag_column=0), ValueError, "`tag_column` must differ, received 0 and 0"),
        (dict(word_column=3), ValueError, "must differ, received 3 and -1"),
        (dict(word_column="a"), TypeError, "word_column must be a whole number"),
        (dict(separator=""), TypeError, "`separator` must be a string"),
        (dict(comments="#"), TypeError, "comments must be True or False"),
        (dict(limit=0), ValueError, "limit must be at least 1"),
        (dict(encoding="utf8x"), ValueError, "`encoding` 'utf8x'"),
    ],
)
def test_refused(read, options, error, message):
    with pytest.raises(error, match=message):
        read(CONLL_2003, **options)


def test_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file a.txt"):
        read_tagged(tmp_path / "a.txt")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_tagged(tmp_path)


def test_large_files_are_not_decompressed(read, monkeypatch):
    from kerasseq.core import files

    monkeypatch.setattr(files, "LARGEST", 1000)
    assert len(read(gzip.compress(b"a O\n" * 250)).tags[0]) == 250
    with pytest.raises(ValueError, match="larger than 1,000 bytes when decompressed"):
        read(gzip.compress(b"a O\n" * 251))
