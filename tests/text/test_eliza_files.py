"""Files of rules that are damaged or wrong: where, and what would be right."""

import pathlib
import re

import pytest

from kerasseq.text import Eliza
from kerasseq.text.classical.eliza.reader import FOLDER, LANGUAGES
from tests.text.test_eliza import SMALL

WRONG = [
    # What is replaced, by what, and what the error says.
    ('greeting = "Hello."', "", 'lacks "greeting", which must be a string'),
    ('greeting = "Hello."', "greeting = 3", "greeting must be a string, received 3"),
    ('greeting = "Hello."', 'greeting = " "', "greeting is empty"),
    ("greeting =", "greetings =", 'unknown key "greetings". Did you mean "greeting"?'),
    ("greeting =", "zzz = 1\ngreeting =", 'unknown key "zzz". The keys are: greeting'),
    ('["bye"]', "[]", "goodbyes is an empty list: write at least one"),
    ('["bye"]', '"bye"', "goodbyes must be a list, received 'bye'"),
    ('["bye"]', '["@x"]', 'pattern "@x": there is no group @x; the groups are: none'),
    ('["Hm?"]', '["Hm?", 3]', "silence: number 2 must be a string that is not empty"),
    ('["Hm?"]', '["Hm?", ""]', "silence: number 2 must be a string that is not empty"),
    ('["Hm?"]', '["{1}?"]', "silence: reply 1 has {1}, but no pattern took anything"),
    ("[reflections]", "[reflections]\nx = 1", "[reflections] x must be a string"),
    ("[reflections]", '[reflections]\n"" = "x"', "[reflections] has an empty key"),
    ("[reflections]", '[reflections]\n"*" = "x"', '[reflections] "*" has no letter'),
    ("[reflections]", "reflections = 3\n[x]", 'unknown key "x"'),
    ("rank = 7", 'rank = "7"', "rank must be a whole number, received '7'"),
    ("rank = 7", "rank = true", "rank must be a whole number, received True"),
    ("rank = 7", "rnak = 7", '[keyword.high] has an unknown key "rnak". Did you mean'),
    ("rank = 7", "also = 7", "[keyword.high] also must be a list"),
    ("rank = 7", 'also = ["low"]', '"low" is a keyword already, of [keyword.low]'),
    ("rank = 7", 'also = ["so so"]', '"so so" can never be found'),
    ("[keyword.high.rules]", "[keyword.high.rule]", 'Did you mean "rules"?'),
    ('"* high +" = ["high: {3}"]\n"high low" = ["newkey"]', "", "has no rules"),
    ("[keyword.high.rules]", "[keyword.low.rules]", "is no TOML: Cannot declare"),
    ('["high: {3}"]', "[]", '[keyword.high.rules] * high + is an empty list'),
    ("{3}", "{4}", '"* high +": reply 1 uses {4}, but the parts of the pattern are '
     '1 "*", 2 "high", 3 "+"'),
    ("{3}", "{0}", "uses {0}"),
    ("{3}", "{3-2}", "uses {3-2}"),
    ("{3}", "{1}", 'uses {1}, which may be empty: write "+" in the pattern'),
    ("{3}", "{2}", 'uses {2}, which is always "high"; the parts of the pattern are'),
    ("{3}", "{x}", "has {x}: write {2}, {2-4} or {said 2}"),
    ("{3}", "{3", "has a brace without its other half"),
    ("{3}", "3}", "has a brace without its other half"),
    ('"* high +"', '"* high @x"', "there is no group @x; the groups are: none"),
    ('"* high +"', '"* + high"', '"* +": nothing tells where the one ends'),
    ('"* high +"', '""', 'pattern "": it is empty'),
    ('"* high +"', '"* a||b +"', '"a||b": on both sides of | there must be one word'),
    ('"goto low"', '"goto nowhere"', 'other has "goto nowhere", but there is no'),
    ('"goto low"', '"goto other"', "goto runs in a circle: other"),
    ('["low 1"', '["goto other"', "goto runs in a circle: low, other"),
    ('"Back to your {3}."', '"newkey"', '"newkey" cannot be kept for later'),
    ('["Go on.", "I see."]', '["newkey {"]', "has a brace without"),
    ("[keyword.low.rules]", "[substitutions]\nhigh = 'low'\n[keyword.low.rules]",
     '"high" can never be found: patterns see it as "low"'),
    ("[keyword.low.rules]", "[substitutions]\n'a b' = 'c'\n[keyword.low.rules]\n"
     "'* a b *' = ['x']", '"a b" is replaced by "c" before patterns are tried'),
    ("[keyword.low.rules]", "[groups]\nkin = ['big aunt']\n[keyword.low.rules]",
     '[groups] kin: "big aunt" can never be found'),
    ("[keyword.low.rules]", "[groups]\nkin = []\n[keyword.low.rules]",
     "[groups] kin is an empty list"),
    ("[keyword.low.rules]", "[elision]\nsplit = ['l']\n[keyword.low.rules]",
     '[elision] split: "l" must end with an apostrophe'),
    ("[keyword.low.rules]", "[[agreement]]\nsubject = 'i'\n[keyword.low.rules]",
     '[agreement 1] lacks "becomes"'),
    ("[keyword.low.rules]", "[[agreement]]\nsubjects = 'i'\n[keyword.low.rules]",
     '[agreement 1] has an unknown key "subjects". Did you mean "subject"?'),
    ("[reflections]", "agreement = [3]\n[reflections]", "written as [[agreement]]"),
    ("[reflections]", "keyword = 3\n[reflections]", "is no TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_a_wrong_rule(tmp_path, old, new, said):
    assert old in SMALL
    path = tmp_path / "wrong.toml"
    path.write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        Eliza(path)
    assert str(caught.value).startswith(f"{path}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty: copy"),
        (b" \n\n", "is empty: copy"),
        (b"\xef\xbb\xbf", "is empty: copy"),
        (b"a = 1\nb = 'caf\xe9'\n", "line 2 has the byte 0xe9 (byte 14 of the file)"),
        (b"\x7fELF\x80\0", "is not UTF-8: line 1 has the byte 0x80"),
        (b"PK\3\4\0\0", "is no TOML: "),
        (b"a = 1\nb = [1,\n", "is no TOML: "),
        (b'greeting = "Hello\n', "(at line 1, column 18)"),
        (b'a = """Hello\n\n', "(at the end, line 2)"),
        (b"a = " + b"[" * 9999, "nested too deep"),
        (b'{"greeting": "Hello"}', "(at line 1, column 1)"),
        (b"[project]\nname = 'x'\n", 'unknown key "project". The keys are: greeting'),
        (SMALL.encode("utf-16"), "is not UTF-8"),
    ],
)
def test_a_damaged_or_foreign_file(tmp_path, content, said):
    path = tmp_path / "damaged.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        Eliza(path)
    assert str(caught.value).startswith(f"{path}")


def test_a_file_without_keywords(tmp_path):
    path = tmp_path / "none.toml"
    head = SMALL.partition("[keyword")[0]
    for content in (head, head + "[keyword]\n"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match="keyword"):
            Eliza(path)


def test_a_file_that_is_not_there_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match='no file de in .* "en" and "fr"'):
        Eliza("de")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Eliza(tmp_path)
    for rules in (None, 3, ["en"]):
        with pytest.raises(TypeError, match="`rules` must be"):
            Eliza(rules)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_files_as_windows_writes_them(tmp_path, start, end):
    path = tmp_path / "small.toml"
    path.write_bytes(start + SMALL.encode().replace(b"\n", end))
    assert Eliza(str(path)).reply("low") == "Low 1"


def test_the_rules_of_kerasseq_are_all_that_lie_in_the_folder():
    assert {path.stem for path in pathlib.Path(FOLDER).glob("*.toml")} == {*LANGUAGES}
