"""Exchanges the labels of figures: string literals in code, by a catalogue."""

import ast
from collections.abc import Iterator, Mapping

# Arguments that a reader of the figure sees.
METHODS = {
    "annotate", "legend", "set_label", "set_title", "set_xlabel", "set_xticklabels",
    "set_ylabel", "set_yticklabels", "suptitle", "supxlabel", "supylabel", "text",
    "title", "xlabel", "ylabel",
}  # fmt: skip
KEYWORDS = {"label", "title", "xlabel", "ylabel", "labels", "tick_labels"}


def literals(code: str) -> Iterator[ast.Constant]:
    """Yields the string literals of code, without those within f-strings."""
    todo: list[ast.AST] = [ast.parse(code)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
        elif not isinstance(node, ast.JoinedStr):
            todo.extend(ast.iter_child_nodes(node))


def translate(code: str, labels: Mapping[str, str]) -> str:
    """Replaces the literals that the catalogue has.

    Examples:
        >>> translate('axis.set_xlabel("steps")', {"steps": "pas"})
        'axis.set_xlabel("pas")'
    """
    lines = [line.encode() for line in code.split("\n")]  # ast counts bytes
    found = [node for node in literals(code) if node.value in labels]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))[::-1]:
        first, last = node.lineno - 1, node.end_lineno - 1
        text = labels[node.value].replace("\\", r"\\").replace('"', r"\"")
        text = '"' + text.replace("\n", r"\n") + '"'
        tail = lines[last][node.end_col_offset :]
        lines[first : last + 1] = [
            lines[first][: node.col_offset] + text.encode() + tail
        ]
    return b"\n".join(lines).decode()


def shown(code: str) -> set[str]:
    """Returns the literals that are labels by their place, and have words.

    Examples:
        >>> sorted(shown('a.plot(x, "o-", label="loss"); a.set_title("LSTM")'))
        ['loss']
    """
    found = set()
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        seen = [k.value for k in node.keywords if k.arg in KEYWORDS]
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            seen += node.args
        for part in seen:
            found |= {literal.value for literal in literals(ast.unparse(part))}
    return {text for text in found if _has_words(text)}


def _has_words(text: str) -> bool:
    """Whether a text has a word in lower case outside of equations."""
    outside = "".join(text.split("$")[::2])
    return any(
        word.isalpha() and word.islower() for word in outside.split() if word[1:]
    )
