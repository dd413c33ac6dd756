"""Extracts the prose of pages and docstrings, without code, equations and markup."""

import ast
import re

REMOVED = (
    r"^---\n.*?^---$",  # settings of a page
    r"<!--.*?-->",
    r"^(?P<fence>[ \t]*```+).*?^(?P=fence)[ \t]*$",
    r"^(?:\?\?\?|!!!)\+? \w+",  # kinds of boxes
    r"\$\$.*?\$\$",
    r"\\\[.*?\\\]",
    r"`+[^`]*`+",
    r"\$[^$\n]+(?:\n[^$\n]+)?\$",
    r"\{\{.*?\}\}|\{[ .:#][^}]*\}",
    r"^::: \S+$",
    r"\]\([^)]*\)|\]\[[^\]]*\]",
    r"https?://\S+",
    r"</?[a-zA-Z][^>]*>",
    r"^\s*(?:>>>|\.\.\.)[^\n]*(?:\n(?!\s*\n|\s*>>>)[^\n]*)*",
    r"\bscikit-learn\b",  # hunspell would take its parts for words
    r"\b\S*[_/@=]\S*",  # names in code
    r"\b\S*\w\.\w\S*",
    r"\b\w*\d\w*\b",
    r"\b\w*[a-z][A-Z]\w*\b",  # names of classes
    r"\b[A-Z]{2,}s?\b",  # abbreviations
)
PATTERNS = [re.compile(pattern, re.MULTILINE | re.DOTALL) for pattern in REMOVED]


def of_page(text):
    """Returns the prose of a Markdown page.

    >>> of_page("Use `LSTM` for $h_t$: [gates](gates.md).").split()
    ['Use', 'for', ':', '[gates', '.']
    """
    for pattern in PATTERNS:
        text = pattern.sub(" ", text)
    return text


def of_docstrings(source):
    r"""Returns the prose of the docstrings of a module.

    >>> of_docstrings('def f():\n    "Computes `x`."')
    '\nComputes  .'
    """
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds)
    ]
    arguments = re.compile(r"^( +)[*\w, `]+:", re.MULTILINE)
    commands = re.compile(r"^ .*\bkerasseq .*$|^ +--.*$", re.MULTILINE)
    found = [commands.sub("", text) for text in found]  # examples of the command
    return "\n".join(of_page(arguments.sub(r"\1", text)) for text in found)
