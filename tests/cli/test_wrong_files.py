"""Wrong files for each option of the command that reads a file or a folder.

Each attempt ends in success, or in exit code 2 and one line that names the file; then
nothing is left behind.
"""

import contextlib
import gzip
import io
import itertools
import pathlib
import shutil

import hypothesis
import pytest
from hypothesis import strategies as st
from PIL import Image

from kerasseq.cli import main
from kerasseq.cli.commands import COMMANDS
from kerasseq.cli.main import build_parser
from kerasseq.datasets import write_wave

pytestmark = pytest.mark.once("the command line")

MAX_LINE = 2500  # characters of an error
TEXT = ("the cat is on the mat.\na dog ran.\n" * 4 + "\n") * 6
TABLE = "text,label\n" + "".join(f"{a * 3} {a},{y}\n" for a, y in ("ax", "by") * 6)
WORDS = "Ada\tB\nruns\tO\n\nin\tO\nBath\tB\n\n" * 6
SALES = "date,sales\n" + "".join(
    f"{2019 + n // 12}-{n % 12 + 1:02}-01,{n % 7}\n" for n in range(80)
)
PAIRS = "".join(f"go {n}\tva {n}\n" for n in range(20))
CAPTIONS = "image,text\n" + "".join(f"{n}.png,a {w}\n" for n, w in enumerate("xyzxy"))
SEEN = "--units 4 --batch-size 2 --steps 1 --image-size 4 --patch-size 4"
CAPTIONED = {"contrastive": "", "captions": "", "draw": "--num-codes 2"}
CAPTIONED["draw"] += " --codebook-steps 1"
LINES = '{"text": "aaa", "label": "x"}\n{"text": "bbb", "label": "y"}\n' * 6
VOTES = '{"chosen_model": "a", "rejected_model": "b"}\n' * 6
PREFERENCES = "".join(
    f'{{"prompt": "the", "chosen": "cat{" on" * n}", "rejected": "a"}}\n'
    for n in range(4)
)
REWARDS = "def length(prompts, answers):\n    return [*map(len, answers)]\n"
TALKS = """{"messages": [{"role": "user", "content": "the"},\
 {"role": "assistant", "content": "cat"}]}
"""
ALIGNED = "train preferences --base language-model --run OUT --steps 1"
TALKING = "train conversations --run OUT --steps 1"
SAMPLED = f"{ALIGNED} --method grpo --max-new-tokens 2 --num-generations 2"
DECK = """
[[examples]]
id = "F:12"
title = "Two scores"
kind = "scores"
lab = "attention"
sentences = ["a b"]
"""
SIZES = "--units 4 --batch-size 2 --steps 1"
CONFIG = (
    '{"arguments": {"file": "table.csv", "units": 4, "steps": 1}, "task": "classify"}'
)
MODELS = (
    '{"file": "table.csv", "models": ["elastic-net"], "seeds": [0], "bootstrap": 2}'
)
SCALED = "--widths 2,4 --seeds 0 --steps 1 --sequence-length 5 --bootstrap 2"
SCALED_JSON = '"widths": [2, 4], "seeds": [0], "steps": 1, "sequence_length": 5'
# The files that are right, their endings, and the commands: F is a file, OUT is new.
USES = [
    (TEXT, "txt", "train language-model --text F --run OUT --sequence-length 5 "
        + SIZES),
    (TEXT, "txt", "train bert --text F --run OUT --steps 1 --units 4 --batch-size 2 "
        "--num-heads 1 --num-layers 1 --sequence-length 8"),
    (TEXT, "txt", "train vectors --text F --run OUT --steps 1"),
    (TABLE, "csv", f"train classify --file F --run OUT {SIZES}"),
    (LINES, "jsonl", f"train classify --file F --run OUT {SIZES}"),
    (TABLE, "parquet", f"train classify --file F --run OUT {SIZES}"),
    (TABLE, "xlsx", f"train classify --file F --run OUT {SIZES}"),
    (WORDS, "conll", f"train tag --file F --run OUT {SIZES}"),
    (SALES, "csv", f"train forecast --file F --run OUT {SIZES}"),
    (PAIRS, "txt", f"train translation --pairs F --run OUT {SIZES}"),
    (TABLE, "csv", "compare --file F --run OUT --models elastic-net --seeds 0"),
    (TEXT, "txt", "compare --file table.csv --unlabeled F --run OUT --bootstrap 2 "
        "--models elastic-net --seeds 0"),
    (TEXT, "d", "train images F --run OUT --steps 1"),
    (TEXT, "d", "train images --file F --run OUT --steps 1"),
    (TEXT, "d", f"train speech --data F --run OUT {SIZES}"),
    (TEXT, "json", f"train speech --count 9 --tokenizer F --run OUT {SIZES}"),
    *((TEXT, "d", f"train {task} {name}F --run OUT --steps 1")
      for task in CAPTIONED for name in ("", "--file ")),
    *((CAPTIONS, "csv", f"train {task} pictures --table F --run OUT {SEEN} {more}")
      for task, more in CAPTIONED.items()),
    *((TEXT, "json", f"train {task} pictures --tokenizer F --run OUT {SEEN} {more}")
      for task, more in CAPTIONED.items()),
    (TEXT, "d", "train classify --preset F --run OUT --steps 1"),
    (TEXT, "d", "train tag --preset F --run OUT --steps 1"),
    (TEXT, "json", "train language-model --text text.txt --tokenizer F --run OUT"),
    (TEXT, "json", "train classify --file table.csv --tokenizer F --run OUT"),
    (TEXT, "json", "train tag --file words.conll --tokenizer F --run OUT"),
    (TEXT, "json", "train translation --pairs pairs.txt --tokenizer F --run OUT"),
    (TEXT, "d", "train language-model --base F --run OUT"),
    (PREFERENCES, "jsonl", f"{ALIGNED} --file F"),
    (TALKS * 2, "jsonl", f"{TALKING} --base talker --file F"),
    (TALKS * 2, "d", f"{TALKING} --base F --file talks.jsonl"),
    (TEXT, "txt", f"{TALKING} --base talker --file talks.jsonl --text F"),
    (TEXT, "d", "train preferences --base F --file votes.jsonl --run OUT"),
    (TEXT, "txt", f"{SAMPLED} --prompts F --reward rewards.py:length"),
    (TEXT, "d", f"{SAMPLED} --prompts text.txt --reward F"),
    *((TEXT, "safetensors", f"{words} --adapter F --text one")
      for words in ("predict language-model", "inspect language-model")),
    (TEXT, "safetensors", "generate language-model --adapter F"),
    (TEXT, "d", "train --resume F"),
    (CONFIG, "json", "train --config F --run OUT"),
    (MODELS, "json", "compare --config F --run OUT"),
    (TEXT, "d", "compare --resume F"),
    (TEXT, "txt", f"scale --text F --run OUT {SCALED}"),
    (TEXT, "json", f"scale --text text.txt --tokenizer F --run OUT {SCALED}"),
    (f'{{"text": "text.txt", {SCALED_JSON}}}', "json", "scale --config F --run OUT"),
    (TEXT, "d", "scale --resume F"),
    (TEXT, "json", "tokenize one --tokenizer F"),
    (DECK, "toml", "app --deck F"),
    (TEXT, "txt", "tokenize --file F --tokenizer character"),
    (TEXT, "txt", "tokenize one --corpus F --tokenizer word"),
    (TEXT, "txt", "prepare F --out OUT --tokenizer character --processes 1"),
    (LINES, "jsonl", "prepare F --out OUT --tokenizer word --processes 1"),
    (TEXT, "json", "prepare text.txt --tokenizer F --out OUT --processes 1"),
    (TEXT, "toml", "eliza --rules F"),
    (TEXT, "d", "generate F"),
    (TEXT, "d", "chat F --prompt one"),
    (TEXT, "d", "report F --output OUT.md"),
    (TEXT, "txt", "report language-model --text F --output OUT.md"),
    (TALKS, "jsonl", "report language-model --questions F --output OUT.md"),
    (TEXT, "safetensors", "chat language-model --adapter F --prompt one"),
    (TEXT, "d", "inspect F"),
    (TEXT, "d", "predict F --text one"),
    (TEXT, "d", "evaluate F --file text.txt"),
    (TEXT, "d", "translate one --run F"),
    (TABLE, "csv", "predict classify --file F --out OUT.csv"),
    (TEXT, "txt", "predict classify --file F"),
    (WORDS, "conll", "predict tag --file F"),
    (SALES, "csv", "predict forecast --file F"),
    (CAPTIONS, "csv", "predict contrastive --captions F"),
    ("a x\na y\n", "txt", "predict contrastive --captions F"),
    (TEXT, "png", "predict captions --file F"),
    ("a x\na y\n", "txt", "predict draw --file F --out OUT"),
    (TABLE, "csv", "evaluate classify --file F"),
    (WORDS, "conll", "evaluate tag --file F"),
    ("a cat\n", "png", "inspect classify --file F --out OUT"),
    ("go 1\nva\n", "txt", "translate --file F --run translation"),
    (TEXT, "d", "transcribe F sound.wav"),
    (TEXT, "wav", "transcribe speech F"),
    (TEXT, "json", "transcribe speech sound.wav --beam 2 --language-model F"),
    (TEXT, "d", "evaluate speech --file F"),
    (TEXT, "d", "arena F language-model --prompts text.txt --votes OUT.jsonl"),
    (TEXT, "txt", "arena language-model other --prompts F --votes OUT.jsonl"),
    (VOTES, "jsonl", "arena --votes F"),
    (PAIRS, "txt", "compare translators --pairs F --run OUT --models rnnenc --steps 1 "
        "--tokenizers word --seeds 0 --parameters 5000 --bootstrap 2"),
    (PAIRS, "txt", "train translators --pairs F --run OUT --models rnnenc --steps 1 "
        "--tokenizers word --seeds 0 --parameters 5000 --bootstrap 2"),
    (TEXT, "d", "export F --out OUT"),
    (TEXT, "keras", "export F --out OUT"),
]  # fmt: skip
RIGHT = (
    "txt",
    "csv",
    "jsonl",
    "conll",
    "toml",
)  # endings of files that are accepted undamaged
OUTPUTS = {
    "--output",
    "--run",
    "--out",
    "--output-dir",
    "--save",
    "--align",
    "--figure",
}
SETUP = {
    "classify": "--file table.csv",
    "tag": "--file words.conll",
    "forecast": "--file sales.csv",
    "translation": "--pairs pairs.txt",
    "language-model": "--text text.txt --sequence-length 5",
    "speech": "--count 9 --sampling-rate 2000 --num-mels 5",
    "contrastive": "pictures --image-size 4 --patch-size 4",
    "captions": "pictures --image-size 4 --patch-size 4",
    "draw": f"pictures --image-size 4 --patch-size 4 {CAPTIONED['draw']}",
}


def changed(change):
    """A damage that changes the cells of each row: its number, and the cells."""

    def damage(content, mark):
        rows = [line.split(mark) for line in content.splitlines()]
        return "\n".join(mark.join(change(n, row)) for n, row in enumerate(rows))

    return damage


DAMAGE = {
    "none": lambda content, mark: content,
    "missing": lambda content, mark: None,
    "empty": lambda content, mark: b"",
    "byte-order-mark": lambda content, mark: b"\xef\xbb\xbf",
    "mark-of-utf-16": lambda content, mark: b"\xff\xfe",
    "blank": lambda content, mark: b"\n \n\t\n",
    "binary": lambda content, mark: bytes(range(256)) * 8,
    "binary-without-nul": lambda content, mark: bytes(range(128, 256)) * 8,
    "utf-16": lambda content, mark: content.encode("utf-16"),
    "utf-16-without-mark": lambda content, mark: content.encode("utf-16-le"),
    "utf-32": lambda content, mark: content.encode("utf-32"),
    "latin-1": lambda content, mark: content.replace("a", "é").encode("latin-1"),
    "surrogate": lambda content, mark: content.encode() + b"\xed\xa0\x80\n",
    "nul": lambda content, mark: content.encode() + b"\0",
    "header": lambda content, mark: content.splitlines()[0],
    "one-row": lambda content, mark: "\n".join(content.splitlines()[:2]),
    "two-rows": lambda content, mark: "\n".join(content.splitlines()[:3]),
    "no-header": lambda content, mark: content.partition("\n")[2],
    "one-class": changed(lambda n, row: row if n == 0 else [*row[:1], "x"][: len(row)]),
    "one-column": changed(lambda n, row: row[:1]),
    "first-empty": changed(lambda n, row: ["", *row[1:]]),
    "last-empty": changed(lambda n, row: row if n == 0 else [*row[:-1], ""]),
    "all-numbers": changed(lambda n, row: row if n == 0 else [f"{n}"] * len(row)),
    "words": changed(lambda n, row: row if n == 0 else [*row[:-1], "abc"]),
    "nan": changed(lambda n, row: row if n == 0 else [*row[:-1], "nan"]),
    "infinite": changed(lambda n, row: row if n == 0 else [*row[:-1], "inf"]),
    "huge": changed(lambda n, row: row if n == 0 else [*row[:-1], "1e308"]),
    "same-names": changed(lambda n, row: row if n else row[:1] * len(row)),
    "a-name-twice": changed(lambda n, row: [*row, row[0] if n == 0 else "z"]),
    "no-names": changed(lambda n, row: row if n else [""] * len(row)),
    "other-names": changed(lambda n, row: row if n else ["foo", "bar"][: len(row)]),
    "longer-rows": changed(lambda n, row: [*row, *["z"] * (n % 3)]),
    "open-quotation": changed(lambda n, row: [('"' * (n == 1)) + row[0], *row[1:]]),
    "gzip": lambda content, mark: gzip.compress(content.encode()),
    "cut-gzip": lambda content, mark: gzip.compress(content.encode() * 9)[:-30],
    "long-line": lambda content, mark: b"x" * 1_000_000,
    "old-line-ends": lambda content, mark: content.replace("\n", "\r"),
    "control-characters": lambda content, mark: content.replace("a", "\x1b[31m"),
    "spaces": lambda content, mark: content.replace(mark, "    "),
    "object": lambda content, mark: '{"a": 1}\n',
    "list": lambda content, mark: "[1, 2]\n",
    "null": lambda content, mark: "null\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with right files and small runs, which is the current one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("files"))
        patch.setattr("kerasseq.cli.figures.available", lambda: False)
        patch.setattr("kerasseq.cli.app._start", lambda *args: None)
        files = {"text.txt": TEXT, "table.csv": TABLE, "words.conll": WORDS,
                 "sales.csv": SALES, "pairs.txt": PAIRS, "rewards.py": REWARDS,
                 "votes.jsonl": PREFERENCES}  # fmt: skip
        for name, content in files.items():
            pathlib.Path(name).write_text(content)
        write_wave("sound.wav", [0.0, 0.5] * 300, 2000)
        pathlib.Path("pictures").mkdir()
        for n in range(5):
            Image.new("RGB", (5, 7), (50 * n, 0, 0)).save(f"pictures/{n}.png")
        pathlib.Path("pictures/all.csv").write_text(CAPTIONS)
        for task, words in SETUP.items():
            words = f"train {task} {words} --run {task} {SIZES}"
            assert main(words.split()) == 0, task
        shutil.copytree("language-model", "other")
        words = f"train language-model {SETUP['language-model']} --run talker {SIZES}"
        assert main([*words.split(), "--tokenizer", "word", "--chat"]) == 0
        pathlib.Path("talks.jsonl").write_text(TALKS * 2)
        yield pathlib.Path.cwd()


def entries(folder):
    return sorted(map(str, folder.rglob("*")))


def problem(use, damage):
    """Runs a command on a wrong file; returns what is wrong with its end, or None."""
    content, ending, words = use
    file = pathlib.Path(f"{damage}-file.{ending}")
    mark = next((mark for mark in "\t," if mark in content), " ")
    made = None if damage == "folder" else DAMAGE[damage](content, mark)
    if damage == "folder":
        file.mkdir()
    elif made is not None:
        file.write_bytes(made.encode() if isinstance(made, str) else made)
    before, out, err = entries(file.parent), io.StringIO(), io.StringIO()
    words = [str(file) if word == "F" else word for word in words.split()]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    after, err = entries(file.parent), err.getvalue()
    for path in set(after) - set(before) | {str(file)}:
        shutil.rmtree(path, ignore_errors=True)
        pathlib.Path(path).unlink(missing_ok=True)
    lines = [s for s in err.splitlines() if s.startswith("kerasseq: error: ")]
    if (code == 0 and not lines) or "matplotlib is not installed" in err:
        return None
    if damage == "none" and ending in RIGHT:
        return f"{words}: refused: {err[-500:]}"
    if code != 2 or len(lines) != 1 or "Traceback" in err or len(lines[0]) > MAX_LINE:
        return f"{words}: exit code {code}, {err[-500:]}"
    if file.name not in lines[0]:
        return f"{words}: does not name the file: {lines[0][:500]}"
    return f"{words}: left {set(after) - set(before)}" if after != before else None


def test_wrong_files(folder, monkeypatch, request):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    every = [*DAMAGE, "folder"]
    if request.config.getoption("full"):
        found = itertools.starmap(problem, itertools.product(USES, every))
        found = [each for each in found if each]
        assert not found, "\n".join(found)
        return

    @hypothesis.settings(max_examples=40)
    @hypothesis.given(use=st.sampled_from(USES), damage=st.sampled_from(every))
    def check(use, damage):
        assert not problem(use, damage)

    check()


def test_each_option_that_reads_a_file_is_tried():
    _, parsers = build_parser()
    tried = [words.split() for _, _, words in USES]
    for (command, task), parser in parsers.items():
        for action in parser._actions:
            names = action.option_strings or [action.metavar]
            metavar = "FILE" if action.dest == "tokenizer" else action.metavar
            is_read = metavar in ("FILE", "FOLDER", "RUN") and not OUTPUTS & {*names}
            if not is_read or command == "train" and task in COMMANDS:
                continue
            if task is not None and "--config" in names:  # as before the task
                continue
            given = [w for w in tried if w[0] == command and task in (None, w[1])]
            before = names if action.option_strings else [command, task]
            pairs = [pair for words in given for pair in itertools.pairwise(words)]
            assert any((name, "F") in pairs for name in before), (command, task, names)


def test_the_encoding_that_is_advised_is_used(folder, capsys):
    pathlib.Path("corpus.txt").write_bytes(TEXT.encode("utf-16"))
    words = ["tokenize", "the", "--tokenizer", "word", "--corpus", "corpus.txt"]
    assert main(words) == 2 and "--encoding utf-16" in capsys.readouterr().err
    assert main([*words, "--encoding", "utf-16"]) == 0
