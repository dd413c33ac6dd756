import gzip
import struct
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from kerasseq.vectors.files import read_vectors, write_vectors

pytestmark = pytest.mark.once("reads and writes files")

FORMATS = ("word2vec_text", "word2vec_binary", "glove")
WORDS = ["roi", "reine", "été", "北京", "😀\u2028", "3", "\x85"]
MATRIX = np.random.default_rng(3).normal(size=(7, 5)).astype("float32")
MATRIX[2] = [0, -0.0, 1e-45, -3.4028235e38, 1 / 3]


def same(received, words, matrix):
    assert received[0] == list(words)
    assert received[1].dtype == "float32" and received[1].shape == np.shape(matrix)
    np.testing.assert_array_equal(received[1].view("u4"), matrix.view("u4"))


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("format", FORMATS)
def test_written_is_read(tmp_path, format, ending):
    file = tmp_path / f"v{ending}"
    write_vectors(file, WORDS, MATRIX, format)
    same(read_vectors(file), WORDS, MATRIX)
    same(read_vectors(file, format), WORDS, MATRIX)
    same(read_vectors(file, limit=3), WORDS[:3], MATRIX[:3])
    same(read_vectors(file, limit=99), WORDS, MATRIX)
    assert file.read_bytes().startswith(b"\x1f\x8b") == bool(ending)
    before = file.read_bytes()
    write_vectors(file, WORDS, MATRIX.astype("float64"), format)
    assert file.read_bytes() == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("vectors")


def ends_with_a_number(word):
    try:
        float(word.rpartition(" ")[2].encode())
    except ValueError:
        return False
    return True


words = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))
    .map(lambda word: word.strip(" ").removeprefix("\ufeff").strip(" "))
    .filter(lambda word: word and word[0] != "\ufeff" and not ends_with_a_number(word)),
    unique=True,
    min_size=1,
    max_size=5,
)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(data=st.data(), words=words, format=st.sampled_from(FORMATS))
def test_any_words_and_numbers(folder, data, words, format):
    if format != "glove":
        words = list(dict.fromkeys(word.replace(" ", "_") for word in words))
    dimension = data.draw(st.integers(1, 3))
    matrix = data.draw(arrays("float32", (len(words), dimension), elements=numbers))
    write_vectors(folder / "v", words, matrix, format)
    same(read_vectors(folder / "v", format), words, matrix)
    if dimension > 1:  # else the first line may look like a header
        same(read_vectors(folder / "v"), words, matrix)


@given(content=st.binary(max_size=60), format=st.sampled_from((None, *FORMATS)))
def test_any_bytes_give_vectors_or_a_message(folder, content, format):
    for start in (b"", b"2 2\n", b"2 2\na 1 2\n"):
        (folder / "w").write_bytes(start + content)
        try:
            found, matrix = read_vectors(folder / "w", format)
        except ValueError as error:
            assert str(folder / "w") in str(error)
        else:
            assert 0 < len(found) == len(set(found)) == len(matrix)


PACKED = [struct.pack("<2f", 1, 2), struct.pack("<2f", 3, 0.5)]


@pytest.mark.parametrize(
    "content",
    [
        b"2 2\na 1 2\nb 3 0.5\n",
        b"2 2\na 1 2 \nb 3 0.5 ",  # fastText ends each line with a space
        b"2 2\r\na 1 2\r\nb 3 5e-1\r\n\r\n",
        b"\xef\xbb\xbf2 2\na +1 2.\nb 3 .5\n\n",
        b"2 2\na %bb %b" % tuple(PACKED),  # as gensim
        b"2 2\na %b\nb %b\n" % tuple(PACKED),  # as word2vec
        b"a 1 2\nb 3 0.5\n",
        b"a 1 2\nb 3 0.5",
        b"a 1 2\nb 3 0.5\n\n\n",
        b"\xef\xbb\xbfa 1 2\nb 3 0.5\n",
        b"2  2\na 1 2\nb 3 0.5\n",  # gensim splits the header at any spaces
        b"2\t2\na %bb %b" % tuple(PACKED),
    ],
)
def test_files_of_other_programs(tmp_path, content):
    for name, data in (("v", content), ("v.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(data)
        same(read_vectors(tmp_path / name), "ab", np.float32([[1, 2], [3, 0.5]]))


def test_words_with_spaces(tmp_path):
    content = ". . . 1 2\nat name@domain.com 3 4\n5 6 7\n"
    (tmp_path / "v").write_text(content)
    found, matrix = read_vectors(tmp_path / "v")
    assert found == [". . .", "at name@domain.com", "5"]
    write_vectors(tmp_path / "w", found, matrix, "glove")
    assert (tmp_path / "w").read_text() == content


def test_numbers_that_look_like_a_header(tmp_path):
    (tmp_path / "v").write_text("2 3\n4 5\n")
    same(read_vectors(tmp_path / "v", no_header=True), "24", np.float32([[3], [5]]))
    with pytest.raises(ValueError, match="expected 2 words of 3 numbers"):
        read_vectors(tmp_path / "v")


def test_words_that_are_not_utf8(tmp_path):
    (tmp_path / "v").write_bytes(b"2 2\na\xc3 1 2\na 3 4\n")
    with pytest.raises(ValueError, match="line 2: expected a word in UTF-8"):
        read_vectors(tmp_path / "v")
    assert read_vectors(tmp_path / "v", errors="replace")[0] == ["a\ufffd", "a"]
    with pytest.raises(ValueError, match="line 3: expected each word once"):
        read_vectors(tmp_path / "v", errors="ignore")
    received = read_vectors(tmp_path / "v", errors="ignore", duplicates="first")
    same(received, "a", np.float32([[1, 2]]))
    received = read_vectors(tmp_path / "v", errors="surrogateescape")
    write_vectors(tmp_path / "w", *received, errors="surrogateescape")
    assert (tmp_path / "w").read_bytes() == (tmp_path / "v").read_bytes()


def test_progress_and_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("kerasseq.vectors.reading.CHUNK", 17)
    monkeypatch.setattr("kerasseq.vectors.reading.OFTEN", 3)
    for format in FORMATS:
        calls = []
        write_vectors(tmp_path / "v", WORDS, MATRIX, format)
        received = read_vectors(
            tmp_path / "v", progress=lambda *both, calls=calls: calls.append(both)
        )
        same(received, WORDS, MATRIX)
        assert calls == [(3, 7), (6, 7), (7, 7)]


def test_memory_is_that_of_the_matrix(tmp_path):
    matrix = np.random.default_rng(0).normal(size=(300, 499)).astype("float32")
    for format in FORMATS:
        write_vectors(tmp_path / "v", map(str, range(300)), matrix, format)
        tracemalloc.start()
        read_vectors(tmp_path / "v", format)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Chunks of 1 MiB: twice in text, thrice where a binary one is continued.
        assert peak < matrix.nbytes + 3.5 * 2**20


BAD = {
    "empty": (b"", "received an empty file"),
    "blank": (b" \n\n", "received an empty file"),
    "zero": (b"0 5\n", "line 1: expected a header with at least one word"),
    "zip": (b"PK\x03\x04\x14", "line 1: expected the number of words.*Unzip"),
    "prose": (b"Once upon a time\n", "line 1: expected the number of words"),
    "short": (b"a 1 2\nb 3\n", "line 2: .* 2 numbers, as line 1 has, received 1"),
    "long": (b"2 2\na 1 2\nb 3 4 5\n", "line 3: .* the header says, received 3"),
    "gap": (b"a 1 2\n\nb 3 4\n", "line 2: .* received 0 after ''"),
    "letters": (b"a 1 2\nb x 4\n", "line 2: .* received 1 after 'b x'"),
    "dimension": (b"2 3\na 1 2\nb 3 4\n", "line 2: .* 3 numbers.*received 2"),
    "python": (b"a 1 2\nb 3_0 4\n", "line 2: .* received 1 after 'b 3_0'"),
    "python first": (b"a 1_0 2\nb 1_0 4\n", "line 1: .* received 1 after 'a 1_0'"),
    "tab": (b"a 1 2\nb \x0b3 4\n", "line 2: .* received 1 after"),
    "two spaces": (b"a 1 2\nb  3 4\n", "line 2: .*single spaces, received b'b  3 4'"),
    "between": (b"a 1  2\nb 3  4\n", "line 1: .*single spaces, received"),
    "before": (b"a 1 2\n b 3 4\n", "line 2: .*single spaces, received"),
    "few": (b"3 2\na 1 2\nb 3 4000\n", "line 4: expected 3 words.* after 2"),
    "huge": (b"99999999999 300\na 1 2\n", "expected 99999999999 words.*of 22 bytes"),
    "many": (b"1 2\na 1 2\nb 3 4\n", "line 3: .* after 1 words.*received more"),
    "again": (b"a 1 2\nb 1 3\na 4 5\n", "line 3: .*'a' again, which is word 1"),
    "no word": (b"a 1 2\n 3 4\n", "line 2: expected a word, received none"),
    "nan": (b"a 1 2\nb nan 3\n", "line 2: expected finite.* received nan"),
    "overflow": (b"a 1 2\nb 1e39 3\n", "line 2: expected finite.* received inf"),
    "latin": (b"a 1 2\n\xe9t\xe9 3 4\n", r"line 2: .*received b'\\xe9t"),
    "cut": (b"2 2\na %bb %b" % (PACKED[0], PACKED[1][:7]), "of 20 bytes|byte 14: .*"),
    "more": (b"1 2\na %bb %b" % tuple(PACKED), "byte 14: .* received more"),
    "bytes": (b"2 2\na %b\xff %b" % tuple(PACKED), "byte 14: .*UTF-8"),
    "gzip": (gzip.compress(b"a 1 2\n")[:-9], "is damaged: it begins as a file of gzip"),
    "bomb": (gzip.compress(b"99999999 9999\na 1 2\n"), "expected 99999999 words"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?s){tmp_path / 'v'}.*({message})"):
        read_vectors(tmp_path / "v")


def test_wrong_layout(tmp_path, monkeypatch):
    (tmp_path / "v").write_bytes(b"a 1 2\n")
    for options in ({"format": "word2vec_text"}, {"no_header": False}):
        with pytest.raises(ValueError, match="no_header=True if a text file has none"):
            read_vectors(tmp_path / "v", **options)
    (tmp_path / "v").write_bytes(b"2 2\n" + b"x" * 70_000)
    with pytest.raises(ValueError, match="byte 4: .* more than 65,536 bytes"):
        read_vectors(tmp_path / "v", "word2vec_binary")
    monkeypatch.setattr("kerasseq.core.checks.memory", lambda: 10**6)
    (tmp_path / "v.gz").write_bytes(gzip.compress(b"3 99999\n" + bytes(2**21)))
    with pytest.raises(ValueError, match="expected vectors that fit into memory"):
        read_vectors(tmp_path / "v.gz")
    with pytest.raises(FileNotFoundError):
        read_vectors(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_vectors(tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": "text"}, ValueError, 'format="text" is not one of'),
        ({"format": "glove", "no_header": False}, ValueError, "contradicts"),
        ({"format": "word2vec_binary", "no_header": True}, ValueError, "contradicts"),
        ({"no_header": "yes"}, TypeError, "no_header must be True or False"),
        ({"limit": 0}, ValueError, "limit must be at least 1"),
        ({"errors": "lenient"}, ValueError, 'errors="lenient" is not'),
        ({"errors": None}, TypeError, "errors must be a string"),
        ({"duplicates": "last"}, ValueError, 'duplicates="last" is not one of'),
    ],
)
def test_wrong_arguments_of_reading(tmp_path, options, error, message):
    (tmp_path / "v").write_bytes(b"a 1 2\n")
    with pytest.raises(error, match=message):
        read_vectors(tmp_path / "v", **options)


@pytest.mark.parametrize(
    ("words", "matrix", "format", "error", "message"),
    [
        (["a", "a"], [[1], [2]], "glove", ValueError, r"words\[1\].*is repeated"),
        (["a", ""], [[1], [2]], "glove", ValueError, r"words\[1\].*is empty"),
        (["a\nb"], [[1]], "word2vec_binary", ValueError, "contains a newline"),
        (["a b"], [[1]], "word2vec_text", ValueError, 'format="glove"'),
        (["a b"], [[1]], "word2vec_binary", ValueError, "contains a space"),
        (["a 1"], [[1]], "glove", ValueError, "ends with a number"),
        (["a 1_0"], [[1]], "glove", ValueError, "ends with a number"),
        ([" a"], [[1]], "glove", ValueError, "begins or ends with a space"),
        (["\ufeffa"], [[1]], "glove", ValueError, "begins with a byte order mark"),
        (["\ud800"], [[1]], "glove", ValueError, "must be Unicode"),
        ([b"a"], [[1]], "glove", TypeError, "must be a string"),
        ("ab", [[1], [2]], "glove", TypeError, "`words` must be a list"),
        (["a"], [1], "glove", ValueError, "a row per word"),
        (["a"], [[1], [2]], "glove", ValueError, "a row per word"),
        ([], np.empty((0, 2)), "glove", ValueError, "at least one row"),
        (["a"], [["x"]], "glove", TypeError, "must hold real numbers"),
        (["a", "b"], [[1], [1e39]], "glove", ValueError, "in row 1"),
        (["a"], [[1]], "bin", ValueError, 'format="bin" is not one of'),
    ],
)
def test_nothing_wrong_is_written(tmp_path, words, matrix, format, error, message):
    with pytest.raises(error, match=message):
        write_vectors(tmp_path / "v", words, matrix, format)
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr("kerasseq.vectors.files.OFTEN", 1)
    (tmp_path / "v.gz").write_text("old")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vectors(tmp_path / "v.gz", WORDS, MATRIX, progress=stop)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
