"""Tests of the tools of the tutorials: planted faults, execution, rendering."""

import dataclasses
import json
import xml.etree.ElementTree

import nbformat
import pytest

from docs.tools import (
    __main__,
    check,
    execute,
    figures,
    kernel,
    key,
    notebooks,
    pages,
    render,
    results,
    tutorial,
)
from docs.tools.tutorial import Cell, Tutorial, TutorialError

pytestmark = pytest.mark.once("makes files of files")
GATES = tutorial.read("04_gates")


def changed(name=None, /, *, french=None, labels=None, **values):
    """Tutorial 4 with another cell, another French text, or other labels."""
    cells = [
        dataclasses.replace(cell, **values) if cell.name == name else cell
        for cell in GATES.cells
    ]
    return dataclasses.replace(
        GATES,
        cells=tuple(cells),
        french=GATES.french if french is None else french,
        labels=GATES.labels if labels is None else labels,
    )


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def swapped():
    order = list(GATES.cells)
    order[0], order[1] = order[1], order[0]
    return dataclasses.replace(GATES, cells=tuple(order))


@pytest.mark.parametrize(
    ("planted", "problem"),
    [
        (changed("summary", source="{{ nothing }}"), "the template nothing is no"),
        (changed("summary", source="None."), "summary: only one language uses"),
        (changed("question", source="It is 0.5."), 'question (en): "0.5" must be'),
        (changed("question", source="Of 97 %."), 'question (en): "97 %" must be'),
        (
            changed(french=GATES.french | {"question": "Soit 0,5."}),
            'question (fr): "0,5" must be',
        ),
        (changed(french=without(GATES.french, "goals")), "fr/ lacks goals"),
        (changed(french=GATES.french | {"more": "Oui."}), "fr/ has more"),
        (
            changed(french=dict(reversed(GATES.french.items()))),
            "the French cells must have the order",
        ),
        (
            changed(labels=without(GATES.labels, "symbols read")),
            'the label "symbols read" has no translation',
        ),
        (changed(labels=GATES.labels | {"x": "y"}), 'the label "x" is not in a fig'),
        (changed("goals", name="aims"), "there is no cell goals"),
        (swapped(), "the cells must have the order title, goals"),
        (changed("scratch", source="x = 1\n" * 41), "41 lines of code have the tag"),
        (changed("forced_gates", tags=frozenset()), "2 cells have the tag solution"),
        (changed("small", tags=frozenset()), "must be followed by a cell with the tag"),
        (
            changed("race_figure_caption", source="Bars."),
            "race_figure_caption (en) must have an alternative text",
        ),
        (
            changed("race_figure_caption", name="other"),
            "the figure race_figure must be followed by the cell race_figure_caption",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_fault_of_a_source_is_found(planted, problem):
    assert any(problem in line for line in check.source_problems(planted))


def test_faults_of_results_are_found():
    stale = changed("settings", source="epochs = 7")
    found = [*check.result_problems(stale)]
    assert len(found) == 5  # the results, three backends, other seeds
    assert "Run python -m docs.tools refresh 04" in found[0]
    (line,) = check.result_problems(changed(labels=GATES.labels | {"1 open": "1"}))
    assert "other French labels" in line
    never = dataclasses.replace(GATES, name="99_never")
    nothing, *missing = check.result_problems(never)
    assert "was not executed" in nothing
    assert ["missing" in line for line in missing] == [True] * 4


def test_fault_of_a_page_is_found():
    text = GATES.french["goals"] + " Rien."
    found = [*check.page_problems(changed(french=GATES.french | {"goals": text}))]
    assert [line.partition(" ")[0] for line in found] == [
        "pages/fr/course/04_gates.md",
        "pages/fr/course/notebooks/04_gates.ipynb",
    ]


def test_what_the_key_depends_on():
    now = key.key(GATES)
    settings = next(cell for cell in GATES.cells if cell.name == "settings").source
    assert key.key(changed("settings", source=settings + "\n# More.")) == now
    assert key.key(changed("goals", source="Other words.")) == now
    assert key.key(changed("small", source="seed = 1")) == now
    assert key.key(changed("settings", source=settings + "\nmore = 1")) != now
    labels = GATES.labels | {"symbols read": "lus"}
    assert key.key(changed(labels=labels)) == now
    assert key.labels_key(changed(labels=labels)) != key.labels_key(GATES)


def test_data_are_part_of_the_key(monkeypatch, tmp_path):
    (source,) = key.sources({"parentheses"})
    copy = tmp_path / "parentheses.py"
    monkeypatch.setattr(key, "sources", lambda named: [copy])
    code = source.read_text().replace("raise ValueError(", "raise KeyError(0, ")
    assert code != source.read_text()
    copy.write_text(code + "\n# More.\nfrom kerasseq.core import packages\n")
    assert key.key(GATES) == results.read(GATES.name, results.OUTPUTS)["key"]
    copy.write_text(source.read_text() + "\nmore = 1\n")
    assert key.key(GATES) != results.read(GATES.name, results.OUTPUTS)["key"]


def test_page():
    english, french = (pages.page(GATES, language) for language in ("en", "fr"))
    assert english.startswith('---\ntitle: "Gates: gated RNN')
    assert "## From scratch { #scratch_about }" in english
    assert "KERASSEQ_SMALL" not in english + french
    printed = results.read(GATES.name, results.OUTPUTS)["printed"]
    assert f"```text\n{printed['same']}\n```" in english
    assert 'axis.set_ylabel("exactitude sur de nouvelles chaînes")' in french
    assert "figures/04_gates_race_figure_dark.svg#only-dark" in french
    assert english.count("<figcaption") == english.count('<figcaption markdown="span">')
    assert english.count('??? success "Solution ') == 3
    folded = french[french.index('??? success "Corrigé 3"') :]
    assert "\n    Si la porte d’oubli vaut 0" in folded
    assert french.count("| PyTorch | 1,00 |") == 1


def test_notebook():
    text = notebooks.notebook(GATES, "fr")
    assert text == notebooks.notebook(GATES, "fr")
    found = nbformat.reads(text, as_version=4)
    nbformat.validate(found)
    order = [cell.id for cell in found.cells]
    assert order[:4] == ["title", "before_you_start", "install", "choose_backend"]
    assert order[order.index("solutions") - 1] == "references"
    assert order[-2:] == ["forced_gates", "forced_gates_after"]
    assert "small" not in order
    assert "(03_forgetting.ipynb)" in text
    assert all(not cell.get("outputs") for cell in found.cells)


def test_figures_are_equal_each_time():
    drawing = pytest.importorskip("matplotlib.figure")

    def draw():
        figure = drawing.Figure()
        axis = figure.subplots()
        axis.plot([1, 2], [3, 4], color="#0072b2")
        axis.imshow([[1, 2], [3, 5]])
        return figures.svg(figure)

    text = draw()
    assert draw() == text
    assert "date" not in text and "#0072b2" in text
    assert len(xml.etree.ElementTree.fromstring(text)) > 5
    assert "#0072b2" not in figures.dark(text) and "#56b4e9" in figures.dark(text)


@pytest.fixture
def tiny():
    """A tutorial of four cells."""
    cells = (
        Cell("train", "import keras\nresult = 0.25\nprint('9/9 ━━━ 1s')", True),
        Cell("warn", "import sys\nprint('loss 1')\nprint('I0', file=sys.stderr)", True),
        Cell("small", "result = 7.0", True, frozenset({"small"})),
        Cell(
            "lines",
            "import matplotlib.pyplot as plt\n"
            "figure, axis = plt.subplots()\n"
            "axis.set_xlabel('steps')\n"
            "figure",
            True,
            frozenset({"figure"}),
        ),
    )
    return Tutorial("98_tiny", cells, {}, {"steps": "pas de temps"})


def test_execution(tiny):
    pytest.importorskip("matplotlib")
    done = execute.execute(tiny, "torch")
    assert done.printed == {"warn": "loss 1"}
    assert done.told["values"]["result"] == 0.25
    assert done.told["backend"] == "torch"
    english, french = (done.figures["lines", language] for language in ("en", "fr"))
    assert ">steps<" in english and ">pas de temps<" in french
    json.dumps(done.told)


def test_cell_that_fails(tiny, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(kernel, "START", "")  # loads Keras; `test_execution` runs it
    failing = Cell("broken", "1 / 0", True)
    planted = dataclasses.replace(tiny, cells=(failing,))
    with pytest.raises(
        TutorialError, match="98_tiny: cell broken failed on torch"
    ) as e:
        execute.execute(planted, "torch")
    assert "ZeroDivisionError" in str(e.value)


def test_failure_keeps_the_results(monkeypatch, capsys):
    def fail(*_, **__):
        raise TutorialError("04_gates: cell train failed on torch")

    monkeypatch.setattr(execute, "execute", fail)
    before = {path: path.read_bytes() for path in folder_of_gates()}
    assert __main__.main(["refresh", "04", "--force"]) == 1
    assert "cell train failed" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder_of_gates()} == before
    assert __main__.main(["refresh", "77"]) == 1
    assert 'there is no tutorial "77"' in capsys.readouterr().err


def folder_of_gates():
    return [path for path in results.folder("04_gates").rglob("*") if path.is_file()]


def test_results_are_replaced_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "folder", lambda name: tmp_path / "results" / name)
    told = {"values": {"result": 0.5}, "seconds": 1.0, "backend": "torch"}
    told |= {"keras": "3.15.1", "kerasseq": "0.1.0"}
    first = execute.Execution({"a": "x"}, {("old", "en"): "<svg/>"}, told)
    results.write("04_gates", "k1", "l1", first)
    results.write_seeds("04_gates", "k1", "torch", [0.25, 0.75])
    second = execute.Execution({"a": "y"}, {("new", "en"): "<svg/>"}, told)
    results.write("04_gates", "k2", "l2", second)
    found = {path.name for path in (tmp_path / "results").rglob("*")}
    files = {"backends.json", "new.en.svg", "outputs.json", "seeds.json"}
    assert found == {"04_gates", *files}
    assert results.read("04_gates", results.OUTPUTS)["printed"] == {"a": "y"}
    assert results.read("04_gates", results.BACKENDS)["torch"]["key"] == "k2"


def test_other_seeds_change_weights_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(results, "folder", lambda name: tmp_path / name)
    given = []

    def run(read, backend, **_):
        given.append("\n".join(cell.source for cell in read.code))
        number = 0.25 * len(given)
        told = {"values": {"result": number}, "seconds": 1.0, "backend": backend}
        return execute.Execution(told=told)

    monkeypatch.setattr(execute, "execute", run)
    assert __main__.main(["seeds", "01", "04"]) == 0
    assert results.read("01_words", results.SEEDS)["results"] == []
    assert results.read("04_gates", results.SEEDS)["results"] == [0.25, 0.5]
    first, second = given
    assert "set_random_seed(1000 + seed)" in first
    plain = "\n".join(cell.source for cell in GATES.code)
    assert second.replace("2000 + ", "") == plain
    assert pages._noise("01_words", "en").startswith("No weights are drawn")
    assert "donne 0,250 et 0,500" in pages._noise("04_gates", "fr")
    assert __main__.main(["seeds", "04"]) == 0
    assert len(given) == 2  # not again


def test_render_deletes_what_is_of_no_cell(tmp_path):
    old = tmp_path / "en" / "course" / "figures" / "04_gates_gone_dark.svg"
    old.parent.mkdir(parents=True)
    old.write_text("<svg/>")
    render.render(GATES, tmp_path)
    assert not old.exists()
    assert len(render.existing("04_gates", tmp_path)) == 2 * (2 + 2 * 3)
