"""`kerasseq train forecast --file`: tables of the user."""

import decimal
import gzip
import json

import numpy as np
import pytest

from kerasseq.cli import fitting, forecast, options, runs, tables, text_tables
from kerasseq.series import forecast_scores
from kerasseq.series.columns import Columns
from kerasseq.series.frames import read_series
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

ROWS = 47
RUN = ["--units", "3", "--steps", "4", "--checkpoint-every", "2", "--horizon", "3"]
SALES = [
    f"{2019 + n // 12}-{n % 12 + 1:02d}-01,{100 + 10 * np.sin(n / 2) + n % 5:.1f}"
    for n in range(ROWS)
]
TABLE = "\n".join(["month,sales", *SALES]) + "\n"


def train(file, *words):
    return ["train", "forecast", "--file", file, *RUN, *words]


@pytest.fixture
def sales(tmp_path):
    file = tmp_path / "sales.csv"
    file.write_text(TABLE)
    return file.name


def line(number, text):
    """The table with another line, counted from 1."""
    lines = TABLE.splitlines()
    lines[number - 1 : number] = [text] if text else []
    return "\n".join(lines)


def test_scores_forecast_and_figures(command, tmp_path, sales, drawn):
    command_of_file = train(sales, "--run", "r")
    done = command(*command_of_file)
    assert "columns found: --value sales --date month" in done.err
    assert "every month from 2019-01-01 to 2022-11-01; the last 9 are held" in done.out
    for name in ("seasonal naive", "AR(", "MASE", "2023-02-01"):
        assert name in done.out
    files = set(snapshot(tmp_path / "r"))
    assert {"forecast.csv", "forecast.png", "held_out.png", "model.keras"} < files
    rows = (tmp_path / "r" / "forecast.csv").read_text().splitlines()
    assert rows[0] == "month,sales,sales_0.1,sales_0.9" and len(rows) == 4
    assert rows[1].startswith("2022-12-01,")
    scores = json.loads((tmp_path / "r" / "results.json").read_text())["scores"]
    values = np.array([float(row.split(",")[1]) for row in SALES])
    errors = [np.abs(values[o : o + 3] - values[o - 1]) for o in range(38, 45)]
    scale = np.mean(np.abs(values[12:38] - values[:26]))
    assert scores["naive"]["MAE"] == pytest.approx(np.mean(errors))
    assert scores["naive"]["MASE"] == pytest.approx(np.mean(errors) / scale)
    assert "lstm/forget_gate" in command("inspect", "r").out


def test_a_stopped_run_continues_the_end_of_the_table(
    command, tmp_path, sales, monkeypatch
):
    """Not the training part, which ends inside the table."""

    def interrupt(self, batch, logs=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fitting.SaveModel, "on_train_batch_end", interrupt)
        command(*train(sales, "--run", "r"), code=130)
    assert not (tmp_path / "r" / "results.json").exists()
    done = command("predict", "r")
    assert "the forecast starts after 2022-11-01" in done.err
    assert "2022-12-01" in done.out and "2022-02-01" not in done.out
    model, _ = runs.load_model(tmp_path / "r")
    assert model._fitted.trained == {None: 38}
    command("train", "--resume", "r")
    assert "after 2022-11-01" in command("predict", "r", "--horizon", "2").err


def test_a_model_that_does_not_beat_its_baseline_says_so(command, tmp_path):
    rows = [f"2020-01-{n + 1:02},{n}" for n in range(31)]  # AR has no error
    (tmp_path / "line.csv").write_text("\n".join(["day,n", *rows]))
    done = command(*train("line.csv", "--run", "r"))
    results = json.loads((tmp_path / "r" / "results.json").read_text())
    best = results["not_beaten"][0]
    assert best.startswith("AR(") and results["verdict"] in done.out
    assert "lstm does not beat its baseline: MASE" in done.out
    assert f", {best} " in results["verdict"]
    errors = {"lstm": [0.0], "naive": [1.0]}
    assert forecast_scores.Comparison(
        np.ones((1, 1, 1)), {k: np.ones((1, 1, 1)) + v for k, v in errors.items()},
        np.array([1.0])
    ).verdict("lstm") == ""  # fmt: skip


def test_noise_is_left_to_the_autoregression(command, tmp_path):
    """Without --steps the run takes as many as help: none here."""
    values = np.random.default_rng(0).normal(size=61).round(3)
    (tmp_path / "noise.csv").write_text("\n".join(["n", *map(str, values)]))
    words = ["--units", "3", "--horizon", "2", "--run", "r"]
    dry = command("train", "forecast", "--file", "noise.csv", *words, "--dry-run")
    assert "lstm beside AR(1), for as many steps as help, would be" in dry.out
    out = command("train", "forecast", "--file", "noise.csv", *words).out
    results = json.loads((tmp_path / "r" / "results.json").read_text())
    assert results["steps"] == 0 and results["stopped_by"] == "selection"
    assert results["baseline"] == "AR(1)" and results["selection"] in out
    assert "lstm adds nothing to AR(1) here" in out
    error = results["scores"]["AR(1)"]["MASE"]
    assert f"The forecasts are those of AR(1): MASE {error:.4g}" in out
    assert results["nominal_coverage"] == pytest.approx(0.8)
    assert f"The intervals hold {results['coverage']:.0%} of the held-out" in out
    assert "The run in r is finished" in command("train", "--resume", "r").out


def test_written_forecasts_keep_all_digits(command, tmp_path):
    """Of dates with fractions of a second, and of small values."""
    rows = [f"2024-01-01 00:00:00.{n:03}5,{n % 3 + n / 9}e-12" for n in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["time,n", *rows]))
    command(*train("t.csv", "--run", "r", "--value", "n"))
    command("predict", "r", "--out", "out.csv")
    command("predict", "r", "--out", "out.jsonl")
    expected = (tmp_path / "r" / "forecast.csv").read_text().splitlines()
    table = (tmp_path / "out.csv").read_text().splitlines()
    for line, row in zip(expected, table, strict=True):
        assert line.split(",")[1:] == row.split(",")[1:]
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines]
    assert written[0]["time"] == "2024-01-01T00:00:00.040500"
    for line, row in zip(expected[1:], written, strict=True):
        assert [float(n) for n in line.split(",")[1:]] == list(row.values())[1:]
    assert "the forecast starts after 2024-01-01T00:00:00.039500" in (
        command("predict", "r").err
    )


def test_constant_series_and_empty_ends(command, tmp_path):
    rows = [
        f"2023-{n % 12 + 1:02}-30,{shop},{'' if n > 9 else value}".replace(
            "02-30", "02-28"
        )
        for n in range(12)
        for shop, value in (("a", 5), ("b", n % 3 + n / 9))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["day,shop,n", *rows]))
    words = ["--group", "shop", "--run", "r", "--missing", "interpolate"]
    words += ["--season", "3"]
    done = command(*train("t.csv", *words))
    assert "4 rows at the end have no value: the future" in done.out
    assert "1 of the 2 series are constant before the held-out part" in done.out
    assert "MASE is undefined for 1 of the 2 series, which it leaves out" in done.out
    found = (tmp_path / "r" / "forecast.csv").read_text().splitlines()
    assert found[1] == "a,2023-11-30,5.0,5.0,5.0"
    assert [row.split(",")[1] for row in found[4:]] == [
        "2023-11-30", "2023-12-30", "2024-01-30"
    ]  # fmt: skip
    assert "after 2023-10-30" in command("predict", "r").err
    scores = json.loads((tmp_path / "r" / "results.json").read_text())
    assert all(row["MASE"] is not None for row in scores["scores"].values())
    # A gap is filled as the run was told to, unless told otherwise.
    (tmp_path / "gap.csv").write_text("\n".join(["day,shop,n", *rows[:8], *rows[10:]]))
    filled = command("predict", "r", "--file", "gap.csv")
    assert filled.out.count("2023-11-30") == 2
    refused = command("predict", "r", "--file", "gap.csv", "--missing", "error", code=2)
    assert "missing" in refused.err
    later = "\n".join(["day,shop,n"] + [f"2024-01-{n:02},a,{n}" for n in range(1, 30)])
    (tmp_path / "days.csv").write_text(later)
    done = command("predict", "r", "--file", "days.csv", code=2)
    assert "fitted to dates every month, but those of the series 'a' are every d" in (
        done.err
    )


def test_a_loaded_run_continues_the_table(command, refused, tmp_path, sales):
    command(*train(sales, "--run", "r"))
    model, _ = runs.load_model(tmp_path / "r")
    frame = model.forecast(3)
    assert frame["month"].astype(str).tolist()[0].startswith("2022-12-01")
    rows = (tmp_path / "r" / "forecast.csv").read_text().splitlines()
    expected = [float(row.split(",")[1]) for row in rows[1:]]
    np.testing.assert_allclose(frame["sales"], expected)
    for huge in ("1e308", "1e20"):
        (tmp_path / "t.csv").write_text(line(ROWS + 1, f"2022-11-01,{huge}"))
        message = refused("predict", "r", "--file", "t.csv")
        assert "t.csv: the column 'sales' must have" in message and huge[2:] in message


def test_resumed_run_equals_an_uninterrupted_one(
    command, refused, tmp_path, sales, monkeypatch
):
    command(*train(sales, "--run", "whole"))
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "save_model", stop)
        assert "--resume r" in command(*train(sales, "--run", "r"), code=130).err
    assert not (tmp_path / "r" / "results.json").exists()
    assert "started with --horizon 3" in refused(
        "train", "forecast", "--horizon", 5, "--resume", "r"
    )
    command("train", "forecast", "--resume", "r", "--file", tmp_path / sales)
    whole, resumed = (tmp_path / name / "forecast.csv" for name in ("whole", "r"))
    assert whole.read_text() == resumed.read_text()
    (tmp_path / "r" / "results.json").unlink()
    (tmp_path / sales).write_text(line(9, "2019-08-01,7"))
    done = command("train", "--resume", "r", code=2)
    assert "sales.csv has changed since" in done.err


def stop(*_):
    raise KeyboardInterrupt


def test_several_series_and_known_columns(command, tmp_path):
    rows = ["day;shop;sales;holiday;sky"]
    for n in range(45):
        for shop, level in (("Ä", 1.5), ("b", 1000.5)):
            sky = ("fair", "rain", "snow")[n % 3]
            cell = "" if n >= 42 else f"{level + n % 7}".replace(".", ",")
            rows.append(
                f"{n % 28 + 1}.{n // 28 + 2:02d}.2023;{shop};{cell};{n % 2};{sky}"
            )
    (tmp_path / "shops.tsv.gz").write_bytes(
        gzip.compress("\n".join(rows).replace(";", "\t").encode("cp1252"))
    )
    (tmp_path / "shops.csv").write_text("\n".join(rows), encoding="cp1252")
    words = ["--value", "sales", "--group", "shop", "--known", "holiday,sky"]
    words += ["--calendar", "weekday", "--missing", "forward"]
    outputs = []
    for file in ("shops.csv", "shops.tsv.gz"):
        done = command(*train(file, *words, "--run", f"of-{file}"))
        assert "read as cp1252" in done.err and "decimal comma" in done.err
        assert "sky has 3 categories, such as 'fair'" in done.err
        assert "--date day" in done.err and "2023-03-17" in done.out
        outputs.append((tmp_path / f"of-{file}" / "forecast.csv").read_text())
    assert outputs[0] == outputs[1] and "Ä,2023-03-15" in outputs[0]


SHOPS = "\n".join(
    ["month,shop,sales"]
    + [row.replace(",", f",{shop},") for shop in "ab" for row in SALES]
)
MISTAKES = [
    (line(9, "2019-08-01,"), [], "'sales' is empty at line 9"),
    (line(9, "2019-08-01,many"), [], "line 9 has 'many'"),
    (line(9, "2019-08-01,1e308"), [], "'sales' must have numbers of at most 3.4e+38"),
    (line(9, "2019-07-01,3"), [], "line 9 2019-07-01 repeats"),
    (line(9, "2018-08-01,3"), [], "line 9 2018-08-01 follows 2019-07-01"),
    (line(9, ""), [], "a jump at line 9: 2019-09-01"),
    (SHOPS, [], "tells 2 series apart. Name it: --group shop"),
    (TABLE, ["--missing", "skip"], "skip\" is not for series, whose steps must be"),
    (line(9, "soon,3"), [], "line 9 has 'soon'"),
    (TABLE, ["--value", "sale"], "The columns are month, sales"),
    (TABLE, ["--date", "day"], "--date: there is no column 'day'"),
    (TABLE, ["--value", "sales", "--with", "price"], "--with: there is no column"),
    (TABLE, ["--horizon", "60"], "has 47 values, too few for --horizon 60"),
    (TABLE, ["--sequence-length", "40"], "too few for windows of length 40"),
    (TABLE, ["--data", "ar"], "exclude each other"),
    (TABLE, ["--encoding", "utf-99"], "no text encoding"),
    ("month,a,b\n2020-01-01,1,2\n", [], "not exactly one column fits: a, b"),
    ("month,a\n" + "\n".join(f"{y},5" for y in range(1900, 1960)), ["--date", "month"],
     "is constant, 5 at every step"),
    ("", [], "empty"),
    ("\n\n", [], "empty"),
    ("month,sales\n", [], "no rows"),
    ("2020-01-01,5\n2020-02-01,6\n", [], "line 1: expected the names of the columns"),
    ("a,b\n1,2\n3,4,5\n", [], "line 3"),
    ("a\0b", [], "binary"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words", "message"), MISTAKES)
def test_mistakes(command, tmp_path, text, words, message):
    (tmp_path / "t.csv").write_text(text)
    done = command(*train("t.csv", *words, "--run", "r"), code=2)
    assert message in done.err.splitlines()[-1]
    assert set(snapshot(tmp_path)) == {"t.csv"}


def test_other_files(refused, tmp_path):
    (tmp_path / "t.docx").write_text("a")
    assert "expected a table, .csv" in refused(*train("t.docx"))
    assert "no file u.csv" in refused(*train("u.csv"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TABLE.encode())[:50])
    assert "t.csv.gz is damaged" in refused(*train("t.csv.gz"))
    (tmp_path / "t.jsonl").write_text('{"day": "2020-01-01", "n": 1}\n[3]\n')
    assert "t.jsonl, line 2: expected an object" in refused(*train("t.jsonl"))
    assert "--value is for --file" in refused("train", "forecast", "--value", "x")


def test_the_same_table_in_other_formats(tmp_path):
    csv = tmp_path / "t.csv"
    csv.write_text("\ufeffday, n\n2020-01-01, 1\n\n2020-01-02, 2\n", encoding="utf-8")
    frame = tables.read_table(csv)
    assert frame.index.tolist() == [2, 4] and list(frame) == ["day", "n"]
    lines = tmp_path / "t.jsonl"
    rows = [json.dumps(row) + "\n" for row in frame.to_dict("records")]
    lines.write_text("".join(rows))
    other = tables.read_table(lines)
    assert other.to_dict("list") == frame.to_dict("list")
    assert tables.date_columns(frame) == ["day"]
    assert tables.number_columns(frame) == ["n"]


def test_parquet_is_the_same_table_as_csv(command, capsys, tmp_path):
    """Dates, whole numbers, empty cells, categories, decimals; lists are left out."""
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    count = 40
    day = pandas.date_range("2020-01-01", periods=count // 2).repeat(2)
    frame = pandas.DataFrame({
        "day": day,
        "shop": pandas.Categorical(["a", "b"] * (count // 2)),
        "sales": pandas.array([0, 1, None, *(n % 7 for n in range(3, count))], "Int64"),
        "price": [decimal.Decimal(n) / 4 for n in range(count)],
        "holiday": [n % 3 == 0 for n in range(count)],
        "date": day.date,
    })  # fmt: skip
    frame.to_csv("t.csv", index=False)
    table = pyarrow.Table.from_pandas(frame.assign(tokens=[[1, 2]] * count))
    table = table.replace_schema_metadata()  # written by another program than pandas
    pyarrow.parquet.write_table(table, "t.parquet")
    found = []
    for name in ("t.csv", "t.parquet"):
        table = tables.read_table(name)
        columns = Columns("sales", "day", "shop", known=("price", "holiday"))
        assert tables.number_columns(table) == ["sales", "price", "holiday"]
        assert tables.date_columns(table) == ["day", "date"]
        with pytest.raises(ValueError, match="'sales' of.*empty at (line 4|row 3)"):
            read_series(table, columns)
        found.append(read_series(table, columns, "interpolate").series)
    assert 'column "tokens" has lists or objects' in capsys.readouterr().err
    for one, other in zip(*found, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.others, other.others)
        np.testing.assert_array_equal(one.dates, other.dates)
    csv, parquet = (text_tables.read_texts(f"t.{e}") for e in ("csv", "parquet"))
    for name in ("shop", "sales", "holiday", "date"):
        assert csv.columns[name] == parquet.columns[name], name
    frame.set_index(["day", "shop"]).to_parquet("i.parquet")
    assert list(tables.read_table("i.parquet"))[:2] == ["day", "shop"]
    content = (tmp_path / "t.parquet").read_bytes()
    for damaged in (b"PAR1", content[:-300], content[:200] + bytes(9) + content[209:]):
        (tmp_path / "d.parquet").write_bytes(damaged)
        with pytest.raises(ValueError, match="d.parquet is no parquet file, or is dam"):
            tables.read_table("d.parquet")


def test_many_series_are_compared_and_shown_in_part(command, monkeypatch, tmp_path):
    monkeypatch.setattr(forecast, "MAX_SERIES", 2)
    monkeypatch.setattr(forecast, "MAX_FORECASTS", 4)
    monkeypatch.setattr(forecast, "SHOWN_ROWS", 5)
    rows = ["day,shop,sales"] + [
        f"2023-01-{n + 1:02},s{k},{(n * (k + 2)) % 7 + n / 9:.2f}"
        for n in range(30)
        for k in range(3)
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    done = command(*train("t.csv", "--group", "shop", "--run", "r"))
    assert "2 of the 3 series, chosen at random, are compared" in done.out
    assert "and 4 more rows, in forecast.csv" in done.out
    assert len((tmp_path / "r" / "forecast.csv").read_text().splitlines()) == 1 + 9
    settings = options.Settings(horizon=3)
    some = Columns("sales", "day", "shop")
    table = read_series(tables.read_table("t.csv"), some)
    assert forecast.origins(table, [24] * 3, settings) == [[24] * 3]
    monkeypatch.setattr(forecast, "MAX_FORECASTS", 6)
    assert forecast.origins(table, [24] * 3, settings) == [[24] * 3, [26] * 3]


def test_columns_are_guessed_from_some_rows(monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(tables, "GUESSED", 5)
    frame = pandas.DataFrame(
        {"a": ["2020-01-01"] * 23, "n": range(23), "t": ["x"] * 23}
    )
    assert tables.number_columns(frame) == ["n"] and tables.date_columns(frame) == ["a"]
