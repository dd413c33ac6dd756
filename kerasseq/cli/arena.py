"""`kerasseq arena`: blind votes between continuations of two language models.

Show a prompt and its continuations by two random runs, in random order and without
their names, and read a vote: a or b for the better one, t for a tie, s to skip, q to
quit. Prompts come in the order of their file, and again from the first. Each vote is
appended at once to the file of --votes, which a later session continues; Ctrl-C quits,
too. Then the ratings of Bradley and Terry are printed; without runs, they alone are.

The file of votes is a file of preferences, with "prompt", "chosen" and "rejected", and
the runs as "chosen_model" and "rejected_model". In a row of a tie, "tie" is true, and
which text is "chosen" is random.

Examples:
  kerasseq arena runs/lstm runs/gpt --prompts prompts.txt
  kerasseq arena runs/1 runs/2 runs/3 --prompts prompts.txt --votes class.jsonl
  kerasseq arena --votes class.jsonl
"""

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import kerasseq
from kerasseq.cli import generate, options, runs
from kerasseq.cli.console import Console, choose_backend, print_json, status
from kerasseq.cli.errors import UsageError, truncate_word
from kerasseq.cli.text_tables import JSON_LINES
from kerasseq.core.files import parse_json, read_text

ANSWERS = ("a", "b", "t", "s", "q")
QUESTION = "Which is better, a or b? (t tie, s skip, q quit) "
MAX_ANSWER = 1000  # characters of a line
MAX_USELESS = 20  # pairs in a row
_prior = options.bounded(lambda x: x == 0 or 1e-3 <= x <= 1e6, "0, or at least 0.001")

# The files: prompts, and votes that are appended one by one


class Prompt(NamedTuple):
    """A prompt.

    Attributes:
        line: Its line in the file.
        text: The text to continue.
    """

    line: int
    text: str


def read_prompts(file: str) -> list[Prompt]:
    """Reads prompts: the lines of a text, or "prompt" of the objects of JSON lines.

    Args:
        file: The file; lines with whitespace alone are left out.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it has no prompt, or a line of JSON lines has none.
    """
    is_json = pathlib.Path(file).suffix.lower() in JSON_LINES
    lines = enumerate(read_text(file).split("\n"), 1)
    prompts = [Prompt(n, line.rstrip("\r")) for n, line in lines if line.strip()]
    if is_json:
        prompts = [Prompt(n, _prompt(line, f"{file}, line {n}")) for n, line in prompts]
    if not prompts:
        raise ValueError(f"expected at least one prompt in {file}, which has no text")
    return prompts


def _prompt(line, where):
    row = parse_json(line, where)
    text = row.get("prompt") if isinstance(row, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError(
            f'{where}: expected an object with a text as "prompt", received {line:.60}'
        )
    return text


def count_votes(file: str) -> int:
    """Counts the votes in a file; 0 if there is none. Needs Keras to be loaded.

    Raises:
        TypeError: If a line of it has a value of a wrong type.
        ValueError: If a line is not a vote. The message has its number.
    """
    from kerasseq.training.votes import read_votes  # loads Keras

    path = pathlib.Path(file)
    if not path.exists() or (path.is_file() and not read_text(path).strip()):
        return 0
    return len(read_votes(path))


def check_writable(file: str) -> None:
    """Raises an `OSError` if no votes can be appended to a file, before one is lost."""
    path = pathlib.Path(file)
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} for the votes {path}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PermissionError(f"the votes {path} cannot be written. Choose others")


def append_vote(file: str, row: Mapping[str, Any]) -> None:
    """Appends a vote as one line; after an error the file is as it was before.

    Args:
        file: The file, which is created if it does not exist.
        row: The vote.

    Raises:
        OSError: If it cannot be written.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "votes.jsonl")
        ...     append_vote(path, {"chosen_model": "a"})
        ...     append_vote(path, {"chosen_model": "b"})
        ...     print(path.read_text(), end="")
        {"chosen_model": "a"}
        {"chosen_model": "b"}
    """
    text = json.dumps(row, ensure_ascii=False) + "\n"
    data = text.encode("utf-8", "backslashreplace")  # lone surrogates, as in JSON
    with open(file, "a+b", buffering=0) as opened:
        end = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, end - 1))
        if opened.read(1) not in (b"", b"\n"):  # a last line without its end
            data = b"\n" + data
        try:
            if opened.write(data) < len(data):
                raise OSError(f"{file} could not be written")
        except OSError:
            opened.truncate(end)
            raise


# The command


class Pair(NamedTuple):
    """Continuations of a prompt by two runs, which are shown as A and B.

    Attributes:
        prompt: The prompt.
        names: The names of the runs.
        texts: The continuations.
    """

    prompt: str
    names: tuple[str, str]
    texts: tuple[str, str]

    @property
    def is_useful(self) -> bool:
        """Whether it can be a preference: two different texts, both not empty."""
        return all(self.texts) and self.texts[0] != self.texts[1]

    def vote(self, chosen: int, tie: bool) -> dict[str, Any]:
        """Returns the row of a vote for A, 0, or B, 1."""
        row = {
            "prompt": self.prompt,
            "chosen": self.texts[chosen],
            "rejected": self.texts[1 - chosen],
            "chosen_model": self.names[chosen],
            "rejected_model": self.names[1 - chosen],
        }
        return {**row, "tie": True} if tie else row


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("arena")
    text = "the folders of at least two runs"
    parser.add_argument("folders", metavar="RUN", nargs="*", help=text)
    text = 'the prompts, one on each line; in .jsonl, the "prompt" of each object'
    options.add(parser, "--prompts", str, text, "FILE")
    text = "the votes, JSON lines to which others are appended"
    options.add(parser, "--votes", str, text, "FILE", default="votes.jsonl")
    generate.add_sampling(parser, length=100)
    text = "ties added between each two runs, so that the ratings are finite; 0 is "
    text += "maximum likelihood"
    options.add(parser, "--prior", _prior, text, "X", default=1.0)
    options.add_seed(parser, None)
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq arena`."""
    console = Console(stderr=args.json)
    if args.folders or args.prompts is not None:
        _vote(args, console)
    elif not pathlib.Path(args.votes).exists():
        raise UsageError(
            f"there is no file {args.votes} with votes. To vote, give at least two "
            "runs and --prompts"
        )
    else:
        choose_backend(args.backend)
    _show_ratings(args, console)


def _vote(args, console):
    """Loads the runs, and reads votes until the user quits."""
    names = _distinct(args.folders)
    if args.prompts is None:
        raise UsageError(
            "--prompts is needed to vote. To print the ratings of --votes alone, leave "
            "out the runs"
        )
    prompts = read_prompts(args.prompts)
    check_writable(args.votes)
    for name in names:
        runs.find_model(name)
    choose_backend(args.backend)
    votes = count_votes(args.votes)
    models = {name: generate.load_language_model(name) for name in names}
    for name, model in models.items():
        _check_prompts(prompts, args.prompts, name, model.tokenizer)
    try:
        _vote_in_rounds(models, prompts, votes, args, console)
    except KeyboardInterrupt:  # a usual way to quit: each vote is in the file
        console.write()


def _distinct(folders):
    """Returns the names of the runs, without a slash at the end."""
    names = [str(pathlib.Path(folder)) for folder in folders]
    if len(names) < 2:
        raise UsageError(
            "expected at least two runs to vote between, received "
            f"{names[0] if names else 'none'}"
        )
    paths = [pathlib.Path(name).resolve() for name in names]
    for n, path in enumerate(paths):
        if path in paths[:n]:
            raise UsageError(f"expected distinct runs, received {names[n]} twice")
    return names


def _check_prompts(prompts, file, name, tokenizer):
    for line, text in prompts:
        if not len(tokenizer.encode(text)):
            raise ValueError(
                f"{file}, line {line}: expected a prompt of at least one token, "
                f"received {truncate_word(text, 40)!r}, which has none in {name}"
            )


def _vote_in_rounds(
    models: Mapping[str, Any],
    prompts: Sequence[Prompt],
    votes: int,
    args: argparse.Namespace,
    console: Console,
) -> None:
    """Shows pairs and appends the votes, until the user quits.

    Args:
        models: The models by the names of their runs.
        prompts: The prompts.
        votes: Number of votes that the file has.
        args: The options of the command.
        console: Where the pairs are shown.
    """
    seed = np.random.SeedSequence(args.seed).entropy
    skipped = useless = 0
    while True:
        # With a seed, a later session continues as this one would have.
        rng = np.random.default_rng([seed, votes, skipped])
        prompt = prompts[(votes + skipped) % len(prompts)]
        pair = _pair(models, prompt.text, args, rng)
        useless = 0 if pair.is_useful else useless + 1
        if useless:
            skipped += 1
            _check_useless(useless, args)
            continue
        console.write(f"\nVote {votes + 1:,}", style="bold")
        console.write(pair.prompt)
        for letter, text in zip("AB", pair.texts, strict=True):
            console.write(f"\n{letter}", style="bold")
            console.write(text)
        console.write()
        answer = _read_answer(console)
        if answer == "q":
            return
        if answer == "s":
            skipped += 1
            continue
        is_tie = answer == "t"
        chosen = int(rng.integers(2)) if is_tie else ANSWERS.index(answer)
        append_vote(args.votes, pair.vote(chosen, is_tie))
        votes += 1


def _pair(models, prompt, args, rng):
    """Generates the continuations of two random runs, in random order."""
    drawn = rng.choice(len(models), 2, replace=False)
    names = [[*models][n] for n in drawn]
    with status("generating two continuations"):
        texts = [
            generate.continuation(models[name], prompt, args, int(rng.integers(2**31)))
            for name in names
        ]
    return Pair(prompt, tuple(names), tuple(texts))


def _check_useless(number, args):
    if number == MAX_USELESS:
        raise ValueError(
            f"expected two different continuations, received equal or empty ones "
            f"{number} times in a row with --temperature {args.temperature:g}. Choose "
            "a higher one, or other runs"
        )


def _read_answer(console):
    """Returns one of `ANSWERS`. A terminal is asked again after a wrong one."""
    while True:
        console.print(QUESTION, end="")
        try:
            line = sys.stdin.readline(MAX_ANSWER) if sys.stdin else ""
        except UnicodeDecodeError:
            line = "\ufffd"
        if not line:  # the end of the input
            console.write()
            return "q"
        answer = line.strip().lower()
        if answer in ANSWERS:
            return answer
        text = f"expected a, b, t, s or q, received {truncate_word(answer, 40)!r}"
        if not sys.stdin.isatty():
            console.write()
            raise ValueError(f"{text} from the input")
        console.write(text)


def _show_ratings(args, console):
    """Prints the ratings of all votes in the file."""
    votes = count_votes(args.votes)
    rows = []
    if votes:
        rated = kerasseq.training.ratings(args.votes, prior=args.prior)
        columns = (rated.players, rated.values, rated.interval, rated.elo, rated.votes)
        rows = [
            {
                "run": name,
                "rating": float(value),
                "interval": [*map(float, bounds)],
                "elo": float(elo),
                "votes": int(number),
            }
            for name, value, bounds, elo, number in zip(*columns, strict=True)
        ]
    if args.json:
        print_json({"votes": votes, "prior": args.prior, "ratings": rows})
    elif rows:
        _show_table(votes, rows, args, console)
    else:
        console.info(f"There are no votes in {args.votes}")


def _show_table(votes, rows, args, console):
    console.table(
        f"Ratings of {votes:,} votes in {args.votes}",
        ("run", ">rating", ">95 %", ">Elo", ">votes"),
        [
            (
                row["run"],
                f"{row['rating']:z.2f}",
                "{:z.2f} to {:z.2f}".format(*row["interval"]),
                f"{row['elo']:.0f}",
                f"{row['votes']:,}",
            )
            for row in rows
        ],
    )
    console.info(
        "A rating that is higher by 0.69 means two votes of three, by 1.10 three of "
        "four."
    )
    if args.prior:
        console.info(
            "Ties between each two runs that are added to the votes (--prior): "
            f"{args.prior:g}"
        )
