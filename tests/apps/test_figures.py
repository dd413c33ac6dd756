"""Figures as functions: data, colors that everybody can tell apart, hover and table."""

import itertools

import numpy as np
import pytest

from parts import figures, figures_matrix, moving, strips, tables
from parts.style import CELLS, DARK, LIGHT, Style

pytestmark = pytest.mark.once("figures are data")

NAMED = {"row": "Row", "column": "Column", "value": "Value"}
TITLES = {"step": "Step", "loss": "Loss", "run": "Run"}
ROWS = [
    {"step": step, "loss": 1 / step, "run": run}
    for run in ("lstm#1", "lstm#2", "elman#1")
    for step in (1, 2, 3)
]
# Machado, Oliveira and Fernandes 2009: how a color looks without one kind of cone.
BLINDNESS = {
    "protanopia": [
        [0.152, 1.053, -0.205],
        [0.115, 0.786, 0.099],
        [-0.004, -0.048, 1.052],
    ],
    "deuteranopia": [
        [0.367, 0.861, -0.228],
        [0.280, 0.673, 0.047],
        [-0.012, 0.043, 0.969],
    ],
    "tritanopia": [
        [1.256, -0.077, -0.179],
        [-0.078, 0.931, 0.148],
        [0.005, 0.691, 0.304],
    ],
}


def rgb(color):
    """The linear RGB of "#rrggbb"."""
    value = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value > 0.04045, ((value + 0.055) / 1.055) ** 2.4, value / 12.92)


def luminance(color):
    return rgb(color) @ [0.2126, 0.7152, 0.0722]


def lab(linear):
    """CIE L*a*b*."""
    matrix = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
    xyz = np.array(matrix) @ np.clip(linear, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("style", [Style(), Style(dark=True)], ids=["light", "dark"])
def test_colors_stand_out_from_the_page(style):
    for color in (*style.palette, style.ink):
        bright, dim = sorted((luminance(color), luminance(style.paper)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 3, color


@pytest.mark.parametrize("kind", [None, *BLINDNESS])
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_networks_have_different_colors_for_every_vision(palette, kind):
    matrix = np.array(BLINDNESS[kind]) if kind else np.eye(3)
    seen = [lab(matrix @ rgb(color)) for color in palette[:4]]
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)]
    assert min(distances) > 11


def test_a_network_has_the_same_color_in_each_figure():
    style = Style()
    assert figures.colors(style, ["gru#3", "lstm#1", "lstm#2"]) == [
        style.color("gru"),
        style.color("lstm"),
        style.color("lstm"),
    ]
    assert len({style.color(cell) for cell in CELLS}) == len(CELLS)


def encoding(chart):
    """The encoding of the first layer."""
    spec = chart.to_dict()
    return (spec["layer"][0] if "layer" in spec else spec)["encoding"]


def test_lines_differ_in_dashes_and_show_their_values():
    names = {"lstm#1": "LSTM 1", "lstm#2": "LSTM 2", "elman#1": "Elman"}
    chart = figures.lines(
        Style(), ROWS, "step", "loss", "run", titles=TITLES, names=names, at=2
    )
    found = encoding(chart)
    assert found["color"]["scale"]["domain"] == list(names.values())
    dashes = found["strokeDash"]["scale"]["range"]
    assert len({tuple(dash) for dash in dashes}) == 3
    assert [tip["title"] for tip in found["tooltip"]] == ["Run", "Step", "Loss"]
    spec = chart.to_dict()
    (nearest,) = spec["params"]  # the mouse need not hit a line
    assert nearest["select"]["nearest"]
    points = spec["layer"][1]
    assert nearest["views"] == [points["name"]]
    assert points["encoding"]["tooltip"] == found["tooltip"]
    assert "color" not in points["encoding"]  # the legend shows lines


def test_one_line_has_no_legend():
    rows = [row for row in ROWS if row["run"] == "lstm#1"]
    found = encoding(figures.lines(Style(), rows, "step", "loss", "run", titles=TITLES))
    assert found["color"]["legend"] is None


def test_a_panel_has_no_legend():
    options = {"titles": TITLES, "legend": False}
    found = encoding(figures.lines(Style(), ROWS, "step", "loss", "run", **options))
    assert found["color"]["legend"] is None is found["strokeDash"]["legend"]


@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_figure_is_a_chart_in_each_style(language):
    style = Style(dark=True, projector=True, language=language)
    matrix = np.arange(-3.0, 3.0).reshape(2, 3)
    charts = [
        figures.lines(style, ROWS, "step", "loss", "run", titles=TITLES, log_x=2),
        figures.bars(style, ROWS, "loss", "step", titles=TITLES),
        figures.bars(style, ROWS, "loss", "step", titles=TITLES, by="run"),
        figures.stacked(style, ROWS, "loss", "step", "run", titles=TITLES),
        figures_matrix.matrix(style, matrix, "ab", "xyz", titles=NAMED, diverging=True),
    ]
    for chart in charts:
        config = chart.to_dict()["config"]
        assert config["axis"]["labelFontSize"] > Style().font_size
        assert ("locale" in config) == (language == "fr")


def test_a_heat_map_has_every_value_even_with_equal_labels():
    matrix = np.array([[1.0, 2.0], [3.0, float("nan")]])
    chart = figures_matrix.matrix(Style(), matrix, ["a", "a"], ["b", "b"], titles=NAMED)
    (values,) = chart.to_dict()["datasets"].values()
    assert [v["value"] for v in values] == [1.0, 2.0, 3.0, None]
    assert {(v["i"], v["j"]) for v in values} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_empty_figures():
    for rows in ([], [{"step": 1, "loss": 0.0, "run": "a"}]):
        figures.lines(Style(), rows, "step", "loss", "run", titles=TITLES).to_dict()
        figures.bars(Style(), rows, "loss", "step", titles=TITLES).to_dict()


def test_tables_of_arrays_and_rows():
    rows = tables.as_rows(np.array([[1.5, 2.5]]))
    assert tables.as_csv(rows).splitlines() == [
        "row,column,value",
        "0,0,1.5",
        "0,1,2.5",
    ]
    assert tables.as_csv([]) == ""


def test_boxes_escape_what_users_type():
    html = strips.boxes(
        Style(), ["<script>", "", " \n", "🙂", "שלום"], titles=['"><b>'] * 5, marked=[1]
    )
    assert "<script>" not in html
    assert '"><b>' not in html
    assert "∅" in html and "·↵" in html and "🙂" in html
    assert html.count('dir="auto"') == 5


def test_boxes_by_value():
    html = strips.boxes(Style(), "ab", values=[0.0, 1.0])
    assert "0.06)" in html and "0.92)" in html
    assert strips.boxes(Style(), "", values=[]).count("<span") == 0


def test_the_picture_that_moves():
    html = moving.reading(Style(), [1, 1, -1, -1], 'a "string"')
    assert html.count("<text") == 4
    assert "prefers-reduced-motion" in html
    assert 'aria-label="a &quot;string&quot;"' in html


def test_a_logarithmic_axis_has_powers_of_ten():
    rows = [{"step": n, "loss": 10.0**-n, "run": "a"} for n in range(30)]
    found = figures.lines(
        Style(), rows, "step", "loss", "run", titles=TITLES, log_y=(1e-12, 1e12)
    ).to_dict()
    y = found["layer"][0]["encoding"]["y"]
    assert y["scale"]["domain"] == pytest.approx([1e-12, 1])
    assert np.log10(y["axis"]["values"]) == pytest.approx(np.arange(-12, 1, 2))
    assert '"-12": "10⁻¹²"' in y["axis"]["labelExpr"].encode().decode("unicode_escape")


@pytest.mark.parametrize("values", [[], [0.0], [1.0], [3.0, 3.0]])
def test_a_logarithmic_axis_of_few_values(values):
    rows = [{"step": 1, "loss": value, "run": "a"} for value in values]
    found = figures.lines(
        Style(), rows, "step", "loss", "run", titles=TITLES, log_y=(1e-12, 1e12)
    ).to_dict()
    low, high = found["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low == 1 and high == 10
