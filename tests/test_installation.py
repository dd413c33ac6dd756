"""How kerasseq is installed: from its repository, as no package index has it.

Anybody can register a free name in an index. A command that installs kerasseq by its
name would run their code on the machines of all users who follow it.
"""

import ast
import pathlib
import re
import sys
import tomllib
import types

import pytest

from kerasseq.core import packages

pytestmark = pytest.mark.once("reads files")

ROOT = pathlib.Path(__file__).parent.parent
FOLDERS = ("kerasseq", "apps", "docs", "examples", "benchmarks", "tests")
ENDINGS = {".py", ".md", ".ipynb", ".toml", ".yml", ".txt"}
ADDRESS = "https://host.example/owner/kerasseq"
NAME = "kerasseq"
# Names in a command are those of an index, unless an address follows.
COMMANDS = re.compile(
    rf"pip3? install[^\n`;&|]*?[ \"']{NAME}(?:\[[\w,]+\])?+(?![\w./-])(?! @ )"
    rf"|(?<![\w/]){NAME}\[[\w,]+\](?! @ )"
)
ADJACENT = re.compile(r"[\"']\s*\n\s*f?[\"']")  # two literals that are one string


def by_name(text):
    """Lists what installs kerasseq from an index.

    >>> by_name('pip install -q "kerasseq[jax]" and pip install kerasseq')
    ['pip install -q "kerasseq[jax]', 'pip install kerasseq']
    >>> by_name('pip install "kerasseq[jax] @ git+https://a/b" -e ./kerasseq')
    []
    """
    text = ADJACENT.sub("", text.replace('\\"', '"'))
    return [match[0] for match in COMMANDS.finditer(text)]


def files():
    """All texts of the repository but this one."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "mkdocs.yml")]
    for folder in FOLDERS:
        found += [p for p in (ROOT / folder).rglob("*") if p.suffix in ENDINGS]
    return [path for path in found if path != pathlib.Path(__file__)]


def test_no_command_installs_kerasseq_by_name():
    found = {path: by_name(path.read_text(encoding="utf-8")) for path in files()}
    assert len(found) > 500
    assert [(path, lines) for path, lines in found.items() if lines] == []


# The arguments of functions of core/packages.py that are names of packages.
NAMES_PACKAGES = {
    "packages.missing": slice(1, None),
    "packages.install": slice(None),
    "packages.load": slice(1, 2),
}


def test_messages_name_packages_of_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    known = {re.match(r"[\w-]+", line)[0] for lines in lists for line in lines}
    known.add("h5py")  # of Keras
    named = set()
    for path in (ROOT / "kerasseq").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                function = ast.unparse(node.func)
                words = node.args[NAMES_PACKAGES.get(function, slice(0))]
                named |= {a.value for a in words if isinstance(a, ast.Constant)}
    assert {"matplotlib", "pandas", "scikit-learn", "safetensors"} <= named <= known


def test_a_notebook_installs_a_copy():
    pytest.importorskip("nbformat")
    text = pytest.importorskip("IPython.utils.text")
    cell = installing("04_gates", "en")
    assert cell.splitlines()[1].startswith('repository = "."')
    line = text.DollarFormatter().format(cell.splitlines()[-1], repository="/my copy")
    assert line == '%pip install -q -e "/my copy[torch,data,text,viz]"'


def installing(name, language):
    """The cell of a notebook that installs kerasseq."""
    import nbformat

    from docs.tools import notebooks, tutorial

    made = notebooks.notebook(tutorial.read(name), language)
    cells = nbformat.reads(made, as_version=4).cells
    return next(cell.source for cell in cells if cell.id == "install")


def test_the_address_of_the_repository_is_everywhere(monkeypatch):
    pytest.importorskip("nbformat")
    monkeypatch.setattr(packages, "REPOSITORY", ADDRESS)
    assert packages.requirement() == f'"kerasseq @ git+{ADDRESS}"'
    cell = installing("12_vit", "fr")
    assert f'"kerasseq[torch,data,text,viz] @ git+{ADDRESS}"' in cell
    assert by_name(cell) == [] and "repository" not in cell.replace(ADDRESS, "")

    from docs.hooks import repository

    page = (ROOT / "docs/pages/en/start/install.md").read_text(encoding="utf-8")
    shown = repository.with_address(page)
    assert "install -e" in page and "install -e" not in shown
    assert f'`pip install "kerasseq[jax] @ git+{ADDRESS}"`' in shown
    assert f'`pip install "kerasseq @ git+{ADDRESS}"`' in shown
    assert by_name(shown) == []
    assert repository.on_config(types.SimpleNamespace()).repo_url == ADDRESS


@pytest.mark.parametrize("address", ["", ADDRESS])
def test_links_of_the_description(monkeypatch, address):
    plugin = types.ModuleType("hatchling.metadata.plugin.interface")
    plugin.MetadataHookInterface = object  # it comes with pip's build
    monkeypatch.setitem(sys.modules, plugin.__name__, plugin)
    import importlib.util

    spec = importlib.util.spec_from_file_location("build", ROOT / "hatch_build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    monkeypatch.setattr(build.runpy, "run_path", lambda _: {"REPOSITORY": address})
    metadata = {}
    build.Description().update(metadata)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = metadata["readme"]["text"]
    if not address:
        assert text == readme and metadata["urls"] == {}
        return
    assert metadata["urls"] == {"Repository": address}
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) == len(re.findall(r"\]\(", readme)) > 15
    for picture, target in links:
        home = f"{address}/{'raw' if picture else 'blob'}/main/"
        assert target.startswith(home) and (ROOT / target.removeprefix(home)).exists()
