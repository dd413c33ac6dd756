"""`kerasseq report`: one page about a road of runs, from a text to a chat.

Compare language models that follow each other, such as one that has read a text, the
same after conversations, and after votes. The page has the data and the parameters of
each, its bits per byte of a text (lower is better, and comparable between tokenizers),
the share of questions that it answers right, and what it writes. An answer is right if
it is that of the file, or ends with it.

Examples:
  kerasseq report road/1-read.keras road/2-talk.keras --questions questions.jsonl
  kerasseq report runs/base runs/votes --text held-out.txt --output report.html
"""

import argparse
import html
import pathlib
from collections.abc import Sequence
from typing import Any, TypeAlias

from kerasseq.cli import chat, generate, options, runs
from kerasseq.cli.console import Console, choose_backend, note, print_json, status
from kerasseq.cli.errors import about, check_new_file
from kerasseq.datasets import text_file
from kerasseq.datasets.conversation_files import conversation_rows

# ("heading", text), ("paragraph", text) or ("table", headings, rows)
Block: TypeAlias = tuple[str, str] | tuple[str, Sequence[str], Sequence[Sequence[str]]]
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{border-bottom:1px solid #999;"
    "padding:.3em .8em;text-align:left}"
)
MAX_TEXT = 100_000  # characters of a text that are scored
SHOWN = 5  # questions with their answers on the page
SUFFIXES = (".md", ".html")
COLUMNS = {  # of the page: the heading, and how a number is written
    "data": ("data", "{}"),
    "steps": ("steps", "{:,}"),
    "tokens": ("tokens read", "{:,}"),
    "parameters": ("parameters", "{:,}"),
    "bits_per_byte": ("bits per byte", "{:.3f}"),
    "right": ("right answers", "{:.3f}"),
}


def add_command(add: options.Add) -> None:
    """Adds the command to the parser."""
    parser = add("report")
    text = "the folders of runs, or .keras files, in the order of the road"
    parser.add_argument("folders", metavar="RUN", nargs="+", help=text)
    text = "a text that no run was trained on, for the bits per byte"
    options.add(parser, "--text", str, text, "FILE")
    text = "questions with right answers: JSON lines of conversations"
    options.add(parser, "--questions", str, text, "FILE")
    text = "the page, a new file that ends in .md or .html"
    options.add(parser, "--output", str, text, "FILE", default="report.md")
    options.add_encoding(parser)
    options.add_backend(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Runs `kerasseq report`."""
    check_new_file("--output", args.output, SUFFIXES)
    output = pathlib.Path(args.output)
    for folder in args.folders:
        runs.find_model(folder)
    text = None if args.text is None else text_file(args.text, args.encoding)
    if text is not None and len(text) > MAX_TEXT:
        note(f"the first {MAX_TEXT:,} of {len(text):,} characters are scored")
        text = text[:MAX_TEXT]
    questions = [] if args.questions is None else _read_questions(args)
    choose_backend(args.backend)
    stages = [_stage(folder, text, questions) for folder in args.folders]
    sentences = verdicts(stages)
    blocks = _blocks(stages, questions, sentences)
    output.write_text(render(blocks, output.suffix), encoding="utf-8")
    if args.json:
        print_json({"stages": stages, "sentences": sentences, "page": str(output)})
        return
    console = Console()
    console.table("The road", *_table(stages))
    for sentence in sentences:
        console.write(sentence)
    console.write(f"The page: {output}")


def _read_questions(args):
    """Conversations up to their last answer, which is expected."""
    questions = []
    for line, talk in conversation_rows(args.questions, args.encoding).items():
        question = chat.last_question(talk)
        if question is None:
            raise ValueError(
                f"{args.questions}, line {line} must end with a question of the user "
                "and its answer"
            )
        questions.append(question)
    return questions


def _stage(folder, text, questions) -> dict[str, Any]:
    """Returns what the page says about a run, as plain data."""
    _, record = runs.find_model(folder)
    model = generate.load_language_model(folder)
    arguments = {} if record is None else record["arguments"]
    steps = int(getattr(model.optimizer, "iterations", 0)) or None
    sizes = [arguments.get(name) for name in ("batch_size", "sequence_length")]
    stage = {
        "run": folder,
        "data": None if record is None else record["data"]["source"],
        "steps": steps,
        "tokens": steps * sizes[0] * sizes[1] if steps and all(sizes) else None,
        "parameters": model.count_params(),
    }
    if text is not None:
        with about(folder), status(f"scoring the text with {folder}", len(text)):
            stage["bits_per_byte"] = chat.bits_per_byte(model, text)
    if questions:
        with about(folder):
            stage |= _asked(model, folder, questions)
    return stage


def _asked(model, folder, questions):
    """Returns the share of right answers and the first ones; {} without a template."""
    if getattr(model.tokenizer, "chat_template", None) is None:
        note(f"{folder} has no chat template, and is not asked")
        return {}
    right, answers = chat.share_right(model, questions)
    return {"right": right, "answers": answers[:SHOWN]}


def verdicts(stages: Sequence[dict[str, Any]]) -> list[str]:
    """Says of each stage that lost something what it lost.

    Examples:
        >>> verdicts([{"run": "a", "right": 0.5}, {"run": "b", "right": 0.25}])
        ['b answers fewer questions right than a: 0.250 after 0.500.']
    """
    sentences = []
    for before, after in zip(stages, stages[1:], strict=False):
        names = f"{after['run']} {{}} {before['run']}: {{:.3f}} after {{:.3f}}."
        if after.get("right", 0) < before.get("right", 0):
            words = "answers fewer questions right than"
            sentences.append(names.format(words, after["right"], before["right"]))
        key = "bits_per_byte"
        if after.get(key, 0) > before.get(key, float("inf")):
            words = "needs more bits per byte of the text than"
            sentences.append(names.format(words, after[key], before[key]))
    return sentences


def _table(stages):
    """Returns the headings and the rows of what is known of a stage at least."""
    used = [name for name in COLUMNS if any(s.get(name) is not None for s in stages)]

    def cell(stage, name):
        value = stage.get(name)
        return "–" if value is None else COLUMNS[name][1].format(value)

    rows = [[stage["run"], *(cell(stage, name) for name in used)] for stage in stages]
    return ["run", *(COLUMNS[name][0] for name in used)], rows


def _blocks(stages, questions, sentences):
    """Returns the page: headings, paragraphs and tables."""
    blocks: list[Block] = [
        ("heading", "From a text to a chat"),
        ("table", *_table(stages)),
        *(("paragraph", sentence) for sentence in sentences),
    ]
    if any("answers" in stage for stage in stages):
        asked = [stage for stage in stages if "answers" in stage]
        rows = [
            [
                talk[-2]["content"],
                talk[-1]["content"],
                *(stage["answers"][n] for stage in asked),
            ]
            for n, talk in enumerate(questions[:SHOWN])
        ]
        names = ["question", "right", *(stage["run"] for stage in asked)]
        blocks += [("heading", "Answers"), ("table", names, rows)]
        count = f"{len(questions):,} question{'s' * (len(questions) > 1)}"
        blocks.append(("paragraph", f"The first of {count}."))
    return blocks


# The page


def render(blocks: Sequence[Block], suffix: str) -> str:
    r"""Returns a page.

    Args:
        blocks: Its blocks. The first heading is the title.
        suffix: `.md` or `.html`.

    Examples:
        >>> print(render([("heading", "A"), ("table", ["n"], [["a|b"]])], ".md"))
        # A
        <BLANKLINE>
        | n |
        |---|
        | a\|b |
        <BLANKLINE>
    """
    if suffix == ".md":
        return "\n\n".join(map(_markdown, blocks)) + "\n"
    title = next(block[1] for block in blocks if block[0] == "heading")
    head = f"<meta charset='utf-8'><title>{_text(title)}</title><style>{STYLE}</style>"
    body = "\n".join(map(_html, blocks))
    return (
        f"<!doctype html>\n<html><head>{head}</head>\n<body>\n{body}\n</body></html>\n"
    )


def _markdown(block):
    kind, *parts = block
    if kind == "heading":
        return f"# {_cell(parts[0])}"
    if kind == "paragraph":
        return _cell(parts[0])
    headings, rows = parts
    lines = [headings, ["---"] * len(headings), *rows]
    texts = [
        f"| {' | '.join(map(_cell, line))} |" if n != 1 else f"|{'|'.join(line)}|"
        for n, line in enumerate(lines)
    ]
    return "\n".join(texts)


def _cell(text):
    """Returns a text in one line, without the marks of tables and of HTML."""
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace("|", "\\|")
    return text.replace("<", "&lt;")


def _html(block):
    kind, *parts = block
    if kind in ("heading", "paragraph"):
        tag = "h1" if kind == "heading" else "p"
        return f"<{tag}>{_text(parts[0])}</{tag}>"
    headings, rows = parts
    head = "".join(f"<th>{_text(heading)}</th>" for heading in headings)
    cells = ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(text):
    return html.escape(str(text))
