"""The key of a result: a hash of what it depends on, without prose and comments."""

import ast
import hashlib
import importlib
import inspect
import io
import pathlib
import re
import tokenize

from docs.tools import labels
from docs.tools.tutorial import Tutorial

DATA = re.compile(r"\bkerasseq\.datasets\.(\w+)")


def key(tutorial: Tutorial) -> str:
    """Returns the key of a tutorial: its code, settings, and the data it names.

    Text, comments, the cell of small settings, and the rest of the library do not
    count. A module of data counts without its comments, docstrings and errors.
    """
    parts = [bare(cell.source) for cell in tutorial.code]
    named = {name for code in parts for name in DATA.findall(code)}
    for path in sources(named):
        parts.append(bare(path.read_text(encoding="utf-8"), errors=False))
    return _hash(parts)


def labels_key(tutorial: Tutorial) -> str:
    """Returns the key of the labels that the French figures show."""
    others = [cell.source for cell in tutorial.code if "figure" not in cell.tags]
    elsewhere = {node.value for code in others for node in labels.literals(code)}
    shown = sorted(tutorial.labels.items())
    return _hash([text for pair in shown if pair[0] not in elsewhere for text in pair])


def _hash(parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def sources(named: set[str]) -> list[pathlib.Path]:
    """Returns the files of the functions of `kerasseq.datasets` with these names.

    Examples:
        >>> [path.name for path in sources({"parentheses"})]
        ['parentheses.py']
    """
    datasets = importlib.import_module("kerasseq.datasets")
    found = [getattr(datasets, name, None) for name in sorted(named)]
    files = {inspect.getsourcefile(f) for f in found if callable(f)}
    return sorted(pathlib.Path(file) for file in files if file)


def bare(code: str, *, errors: bool = True) -> str:
    r"""Removes comments, docstrings and blank lines.

    Args:
        code: The source.
        errors: Whether to keep what raises errors, which a tutorial never meets, and
            imports from kerasseq, of which the errors are a part.

    Examples:
        >>> bare('"About."\nx = 1  # one\n\n# more\n')
        'x = 1'
        >>> bare("if x:\n    raise y(\n    z)\ny()", errors=False)
        'if x:\ny()'
    """
    lines = code.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(code)):
        removed = None
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            removed = node.body[0] if node.body and _is_text(node.body[0]) else None
        elif not errors and (isinstance(node, ast.Raise) or _is_own_import(node)):
            removed = node
        if removed:
            for row in range(removed.lineno - 1, removed.end_lineno):
                lines[row] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _is_own_import(node):
    return isinstance(node, ast.ImportFrom) and node.module.startswith("kerasseq.")


def _is_text(node):
    return isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
