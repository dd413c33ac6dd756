"""Series of a user's table: dates, gaps, columns and the messages about mistakes."""

import numpy as np
import pandas as pd
import pytest

from kerasseq.tasks.series_dates import calendar_columns
from kerasseq.tasks.series_frames import Columns, read_series

pytestmark = pytest.mark.once("plain Python and pandas")

SEASONS = [("MS", 12), ("ME", 12), ("QS", 4), ("YS", 1), ("W-TUE", 52), ("D", 7),
           ("B", 5), ("h", 24), ("30min", 48), ("2D", 1), ("YE", 1)]  # fmt: skip


def table(freq="D", periods=23, **columns):
    index = pd.date_range("2023-11-29", periods=periods, freq=freq)
    values = np.arange(float(periods)) ** 2
    return pd.DataFrame({"sales": values, **columns}, index=index)


def without(frame, *rows):
    return frame.drop(frame.index[list(rows)])


@pytest.mark.parametrize(("freq", "season"), SEASONS)
def test_frequencies_continue_as_those_of_pandas(freq, season):
    frame = table(freq, 30)
    found = read_series(frame[:23], Columns()).frequency
    after = found.after(frame.index[22].to_datetime64(), 7)
    np.testing.assert_array_equal(after, frame.index[23:].to_numpy("M8[s]"))
    assert found.season == season


def test_the_fifteenth_of_each_month():
    dates = table("MS").index + pd.Timedelta(days=14, hours=6)
    frequency = read_series(table("MS").set_index(dates), Columns()).frequency
    expected = np.array(["2025-11-15T06", "2025-12-15T06"], "M8[s]")
    np.testing.assert_array_equal(frequency.after(dates[-1], 2), expected)


@pytest.mark.parametrize("freq", ["MS", "B", "h"])
@pytest.mark.parametrize("missing", ["interpolate", "forward"])
def test_missing_cells_and_dates_are_filled_as_pandas_does(freq, missing):
    frame = table(freq)
    holes = without(frame, 5, 6)
    holes.iloc[11, 0] = np.nan
    found = read_series(holes, Columns(), missing).series[0]
    expected = holes.asfreq(freq).sales
    expected = expected.interpolate() if missing == "interpolate" else expected.ffill()
    np.testing.assert_allclose(found.values, expected)
    np.testing.assert_array_equal(found.dates, frame.index.to_numpy("M8[s]"))


def forms(dates):
    """The same months in a column, written in several ways."""
    return [
        dates.strftime("%Y-%m-%d"), dates.strftime("%d.%m.%Y"),
        dates.strftime("%m/%d/%Y"), dates.year * 100 + dates.month,
        dates.strftime("%b %Y"), dates.to_period("M"), dates,
    ]  # fmt: skip


def test_dates_however_they_are_written():
    dates = pd.date_range("2023-12-01", periods=23, freq="MS")
    for written in forms(dates):
        frame = pd.DataFrame({"month": written, "sales": np.arange(23.0)})
        if isinstance(written, pd.PeriodIndex):
            found = read_series(frame.set_index("month").sales, Columns())
        else:
            found = read_series(frame, Columns(value="sales", date="month"))
        np.testing.assert_array_equal(found.series[0].dates, dates.to_numpy("M8[s]"))
    years = pd.DataFrame({"year": np.arange(1949, 1960), "n": np.arange(11.0)})
    found = read_series(years, Columns("n", "year"))
    assert str(found.frequency) == "every 12 months"


def test_groups_future_rows_and_calendar():
    parts = [table(price=np.arange(23.0), shop=name) for name in ("b", "a")]
    frame = pd.concat(parts).rename_axis("day").reset_index().sort_values(["day"])
    frame.loc[frame.day > "2023-12-18", "sales"] = np.nan
    columns = Columns("sales", "day", "shop", known=("price",))
    found = read_series(frame, columns)
    assert [one.name for one in found.series] == ["a", "b"]
    for one in found.series:
        np.testing.assert_array_equal(one.values, np.arange(20.0) ** 2)
        np.testing.assert_array_equal(one.others[:, 0], np.arange(23.0))
        part = one.until(7, 2)
        assert (len(part.values), len(part.others), len(part.dates)) == (7, 9, 9)
    dates = pd.date_range("2024-01-29T05", periods=11, freq="31h")
    actual = calendar_columns(dates.to_numpy("M8[s]"), ["month", "weekday", "hour"])
    expected = [(dates.month - 1) / 11, dates.day_of_week / 6, dates.hour / 23]
    np.testing.assert_allclose(actual, np.transpose(expected), atol=1e-6)


def changed(column, row, value):
    frame = table(price=np.ones(23)).astype("object")
    frame.iloc[row, frame.columns.get_loc(column)] = value
    return frame


BACK = table().iloc[[0, 1, 2, 4, 3, 5]]
TWICE = table().iloc[[0, 1, 2, 2, 3]]
V, P = Columns("sales"), Columns("sales", known=("price",))


@pytest.mark.parametrize(
    ("frame", "columns", "message"),
    [
        (table(), Columns("sale"), "no column 'sale'. Did you mean \"sales\""),
        (table(), Columns("sales", date="day"), "date: there is no column 'day'"),
        (table(), Columns("sales", known=("sales",)), "named twice, as value"),
        (table(price=1.0), Columns(), "received sales, price. Name it with value="),
        (table().astype(str), Columns(), "received none"),
        (table()[:0], V, "no rows"),
        (changed("sales", 7, None), V, "'sales' is empty at 2023-12-06"),
        (changed("price", 7, None), P, "'price' is empty at 2023-12-06"),
        (changed("sales", 7, "x"), V, "2023-12-06 has 'x'. Correct it"),
        (changed("sales", 7, "1,5"), V, "Write numbers with a point"),
        (changed("sales", 7, np.inf), V, "2023-12-06 has inf"),
        (BACK, V, "at 2023-12-02 2023-12-02 follows 2023-12-03. Sort"),
        (TWICE, V, "at 2023-12-01 2023-12-01 repeats"),
        (without(table(), 7), V, "2023-12-07 is 2 days after 2023-12-05, and the oth"),
        (without(table("MS"), 7), V, "and the others are 1 month apart"),
        (table().tz_localize("UTC"), V, "time zone"),
        (table().reset_index().astype(str), Columns("sales", "sales"), "named twice"),
    ],
)
def test_mistakes_are_named(frame, columns, message):
    with pytest.raises(ValueError) as caught:
        read_series(frame, columns)
    assert message in str(caught.value)


def test_other_mistakes():
    day = pd.DataFrame({"day": ["2024-01-01", "soon"], "sales": [1.0, 2.0]})
    with pytest.raises(ValueError, match="'day' must have dates, but row 1 has 'soon'"):
        read_series(day, Columns("sales", "day"))
    late = changed("sales", 0, None)
    with pytest.raises(ValueError, match="empty in the first 1 rows"):
        read_series(late, V, "forward")
    with pytest.raises(ValueError, match='missing="fill" is not one of'):
        read_series(table(), V, "fill")
    with pytest.raises(TypeError, match="must be a pandas DataFrame, received list"):
        read_series([1.0, 2.0], V)
    with pytest.raises(ValueError, match="of the shape"):
        read_series(np.ones((3, 2)), Columns())
