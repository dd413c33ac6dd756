"""Gives each public name a page of its own.

A page of `reference/` has a line `::: kerasseq.models.GPT` for each public name. Here
the line becomes a link with the first sentence of the docstring, and the name goes to
`reference/models/gpt.md`, with the links of its section.
"""

import functools
import pathlib
import re

import griffe
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, InclusionLevel

FOLDER = "reference/"
ENGLISH = "en/"
NAME = re.compile(r"^::: ((?:\w+\.)+(\w+))$", re.MULTILINE)
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
LINKS = re.compile(r"^(?:Tutorial|Lab|Guide|How-to): .*$", re.MULTILINE)


def on_files(files, config):
    """Adds the pages of the names, before they are built for each language."""
    root = pathlib.Path(config.docs_dir)
    for page in sorted((root / ENGLISH / FOLDER).glob("*.md")):
        for path in pages_of(page.name, page.read_text(encoding="utf-8")):
            where = (ENGLISH + path, config.docs_dir, config.site_dir)
            files.append(File(*where, False, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_read_source(page, config):
    """Returns the text of the page of a name."""
    path = page.file.src_uri.removeprefix(ENGLISH)
    folder, _, name = path.rpartition("/")
    if not folder.startswith(FOLDER):
        return None
    topic = pathlib.Path(config.docs_dir, ENGLISH, f"{folder}.md")
    return pages_of(topic.name, topic.read_text(encoding="utf-8"))[path]


def on_page_markdown(markdown, page, config, files):
    """Returns a page of the reference with links to its names."""
    folder, _, name = page.file.src_uri.removeprefix(ENGLISH).rpartition("/")
    if f"{folder}/" != FOLDER:
        return markdown
    listed = NAME.sub(
        lambda match: f"- [`{match[2]}`][{match[1]}]: {summary(match[1])}", markdown
    )
    return re.sub(r"^(- .*)\n\n(?=- )", r"\1\n", listed, flags=re.MULTILINE)


@event_priority(-200)
def on_nav(nav, config, files):
    """Puts the pages of the names into the section of the reference."""
    pages = {file.src_uri: file.page for file in files.documentation_pages()}
    for path, page in pages.items():
        topic = pages.get(f"{path.rpartition('/')[0]}.md")
        if topic and topic.parent:
            page.parent = topic.parent
    return nav


def on_post_page(output, page, config):
    """Returns a page without the indentation of its templates, a sixth of its bytes."""
    return without_indentation(output)


def without_indentation(page):
    r"""Returns HTML without spaces at the start of lines, except in `<pre>`.

    >>> without_indentation("<p>\n\n    a b\n  </p><pre>\n    c</pre>\n  d")
    '<p>\na b\n</p><pre>\n    c</pre>\nd'
    """
    parts = re.split(r"(<pre\b.*?</pre>)", page, flags=re.DOTALL)
    parts[::2] = [re.sub(r"\n\s+", "\n", part) for part in parts[::2]]
    return "".join(parts)


def pages_of(name, markdown):
    r"""Returns the pages of the names of a page by their paths.

    >>> found = pages_of("a.md", "# A\n\n## B\n\nGuide: [c](../c.md)\n\n::: d.E")
    >>> print(found["reference/a/e.md"])
    ---
    title: E
    ---
    [A](../a.md) · Guide: [c](../../c.md)
    <BLANKLINE>
    ::: d.E
        options: {heading_level: 1}
    """
    found, topic = {}, f"[{HEADING.search(markdown)[1]}](../{name})"
    for section in re.split(r"^(?=## )", markdown, flags=re.MULTILINE):
        links = LINKS.search(section)
        more = " · " + links[0].replace("](../", "](../../") if links else ""
        for full, short in NAME.findall(section):
            path = f"{FOLDER}{name.removesuffix('.md')}/{short.lower()}.md"
            if path in found:  # a function and the class of what it returns
                found[path] += f"\n\n::: {full}\n    options: {{heading_level: 2}}"
                continue
            found[path] = (
                f"---\ntitle: {short}\n---\n{topic}{more}\n\n"
                f"::: {full}\n    options: {{heading_level: 1}}"
            )
    return found


def summary(name):
    """Returns the first sentence of the docstring of a public name.

    >>> summary("kerasseq.text.Eliza")
    'ELIZA, a chatbot with rules.'
    """
    member = _package()[name.removeprefix("kerasseq.")]
    return " ".join(member.docstring.value.partition("\n\n")[0].split())


@functools.cache
def _package():
    """The package as griffe reads it, without importing it."""
    root = pathlib.Path(__file__).parents[2]
    return griffe.load("kerasseq", search_paths=[root], resolve_aliases=True).package
