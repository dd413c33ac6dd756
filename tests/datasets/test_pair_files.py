import codecs

import pytest

from kerasseq.datasets import Pairs, Problem, read_pairs

GOOD = "Go.\tVa !\nHi.\tSalut.\n"
PAIRS = Pairs(["Go.", "Hi."], ["Va !", "Salut."])


def write(tmp_path, data):
    path = tmp_path / "pairs.txt"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    "data, encoding",
    [
        (GOOD, "utf-8"),
        (GOOD.strip(), "utf-8"),
        (GOOD.replace("\n", "\r\n"), "utf-8"),
        (GOOD.replace("\n", "\r"), "utf-8"),
        (codecs.BOM_UTF8 + GOOD.encode(), "utf-8"),
        (codecs.BOM_UTF8 + GOOD.encode(), "UTF-8-SIG"),
        (GOOD.encode("utf-16"), "utf-16"),
        (codecs.BOM_UTF16_LE + GOOD.encode("utf-16-le"), "utf-16-le"),
        ("Go.\tVa !\tCC-BY 2.0 #1\nHi.\tSalut.\tby me\tand you\n", "utf-8"),
        ("  Go. \t Va !\nHi.\tSalut. \t\n", "utf-8"),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_reads(tmp_path, data, encoding, strict):
    path = write(tmp_path, data)
    pairs, report = read_pairs(path, encoding=encoding, strict=strict)
    assert pairs == PAIRS
    assert report == (str(path), 2, 2, 0, [])
    assert read_pairs(str(path), encoding=encoding)[0] == PAIRS


def test_other_ends_of_lines_belong_to_the_text(tmp_path):
    text = "a\x0bb\x0cc\tü\x85x\u2028y\nd\te\n"
    assert read_pairs(write(tmp_path, text))[0] == (
        ["a\x0bb\x0cc", "d"],
        ["ü\x85x\u2028y", "e"],
    )


def test_problems_are_counted_and_the_first_three_shown(tmp_path):
    lines = ["Go.\tVa !", "no tab 2", "\tvide", "", "no tab 5", "Hi.\t \tme", " ",
             "no tab 8", "no tab 9", "Hi.\tSalut.", "\t"]  # fmt: skip
    pairs, report = read_pairs(write(tmp_path, "\n".join(lines)))
    assert pairs == PAIRS
    assert report.problems == [
        Problem("no tab", 4, [(2, "no tab 2"), (5, "no tab 5"), (8, "no tab 8")]),
        Problem("empty source", 1, [(3, "\tvide")]),
        Problem("empty target", 1, [(6, "Hi.\t \tme")]),
    ]
    assert (report.lines, report.kept, report.blank) == (11, 2, 3)
    told = str(report).splitlines()
    assert told[0].endswith("pairs.txt: 11 lines read, 2 kept as pairs, 6 left out")
    assert (
        told[1]
        == "  no tab: 4 lines: line 2 'no tab 2', line 5 'no tab 5', line 8 \
'no tab 8' …"
    )
    assert told[2] == "  empty source: 1 line: line 3 '\\tvide'"


def test_excerpts_are_short_and_harmless(tmp_path):
    line = "\x1b[31mred " + "long " * 99
    report = read_pairs(write(tmp_path, f"{line}\n{GOOD}"))[1]
    assert report.problems[0].examples == [(1, line[:39] + "…")]
    assert "\x1b" not in str(report) and len(str(report)) < 400


def test_a_state_across_lines_is_kept(tmp_path):
    korean = write(tmp_path, "가\t나\n다\t라\n".encode("iso2022_kr"))
    assert read_pairs(korean, encoding="iso-2022-kr")[0] == (["가", "다"], ["나", "라"])
    joined = write(tmp_path, b"Go.\tVa~\n !\nHi.\tSalut.\n")  # ~ joins two lines
    assert read_pairs(joined, encoding="hz")[0] == (["Go.", "Hi."], ["Va !", "Salut."])


def test_a_few_lines_in_another_encoding_are_counted(tmp_path):
    good = "Été.\tSommer.\n".encode()
    bad = "Été.\tÜbel\n".encode("latin-1")
    pairs, report = read_pairs(write(tmp_path, good * 5 + bad + good + bad))
    assert len(pairs.sources) == 6
    assert report.problems == [
        Problem("wrong encoding", 2, [(6, r"\xc9t\xe9.	\xdcbel"),
                                      (8, r"\xc9t\xe9.	\xdcbel")])
    ]  # fmt: skip
    pairs, report = read_pairs(write(tmp_path, good * 20 + bad * 19))
    assert len(pairs.sources) == 20 and report.problems[0].count == 19
    assert len(report.problems[0].examples) == 3


@pytest.mark.parametrize(
    "data, encoding, message",
    [
        ("Été\tà\n".encode("latin-1") * 9 + b"a\tb\n" * 99, "utf-8",
         r"not utf-8 \(byte 0, line 1\). Try encoding='cp1252'"),
        ("é\tà\n".encode("latin-1"), "utf-8", "Try encoding='cp1252'"),
        (GOOD.encode("utf-16"), "utf-8", "Try encoding='utf-16'"),
        (GOOD.encode("utf-16"), "latin-1", "Try encoding='utf-16'"),
        ("é\tà\n" * 9, "ascii", "Try encoding='utf-8'"),
        (GOOD.encode("utf-16")[:-1], "utf-16", "looks like a binary"),
        (b"a\tb\0\n", "utf-8", "binary"),
        (GOOD, "uft-8", "Did you mean 'utf-8'"),
        (GOOD, "rot13", "no text encoding"),
    ],
)  # fmt: skip
def test_the_file_as_a_whole_is_in_another_encoding(tmp_path, data, encoding, message):
    with pytest.raises(ValueError, match=message):
        read_pairs(write(tmp_path, data), encoding=encoding)


@pytest.mark.parametrize("data", ["\n \r\n", "Go. Va !\nHi. Salut.\n", "\ta\nb\t\n"])
def test_a_file_without_a_pair_is_always_an_error(tmp_path, data):
    with pytest.raises(ValueError, match="No pair was found. A line should be") as told:
        read_pairs(write(tmp_path, data))
    assert r"'Go.\tVa !'" in str(told.value)
    assert "0 kept as pairs" in str(told.value)


def test_strict(tmp_path):
    blank = write(tmp_path, f"\n{GOOD}\n")
    assert read_pairs(blank, strict=True)[1].blank == 2
    path = write(tmp_path, f"{GOOD}Go.\t\nno tab\n")
    with pytest.raises(ValueError, match="Not every line is a pair") as told:
        read_pairs(path, strict=True)
    assert "line 4 'no tab'" in str(told.value)
    assert read_pairs(path)[0] == PAIRS


def test_limit(tmp_path):
    path = write(tmp_path, f"no tab\n\n{GOOD}no tab\na\tb\n")
    pairs, report = read_pairs(path, limit=2)
    assert pairs == PAIRS
    assert (report.lines, report.kept, report.blank) == (4, 2, 1)
    assert report.problems[0].count == 1
    assert len(read_pairs(path, limit=99)[0].sources) == 3
    with pytest.raises(ValueError, match="limit must be at least 1"):
        read_pairs(path, limit=0)
    with pytest.raises(TypeError, match="limit"):
        read_pairs(path, limit="2")


def test_wrong_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file none.txt in"):
        read_pairs(tmp_path / "none.txt")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_pairs(tmp_path)
    with pytest.raises(ValueError, match="is empty"):
        read_pairs(write(tmp_path, b""))
    with pytest.raises(TypeError, match="`path`"):
        read_pairs(3)
    with pytest.raises(TypeError, match="`encoding`"):
        read_pairs(tmp_path / "pairs.txt", encoding=None)
