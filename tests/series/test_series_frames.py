"""Series of a user's table: dates, gaps, columns and the messages about mistakes."""

import numpy as np
import pandas as pd
import pytest

from kerasseq.series.columns import Columns
from kerasseq.series.dates import calendar_columns
from kerasseq.series.frames import read_series

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


def monthly(first, count, months=1):
    """Months counted from the first date, clipped to the month's end."""
    steps = [pd.DateOffset(months=months * n) for n in range(count)]
    return [pd.Timestamp(first) + step for step in steps]


@pytest.mark.parametrize(
    ("dates", "after"),
    [
        (monthly("2020-08-30", 6), ["2021-02-28", "2021-03-30", "2021-04-30"]),
        (monthly("2021-10-29T06:30", 13),
         ["2022-11-29T06:30", "2022-12-29T06:30", "2023-01-29T06:30"]),
        (monthly("2023-08-31", 7, 2), ["2024-10-31", "2024-12-31", "2025-02-28"]),
        (monthly("2020-02-29", 5, 12), ["2025-02-28", "2026-02-28", "2027-02-28"]),
        (pd.date_range("2024-01-01T00:00:00.1", periods=5, freq="250ms"),
         ["2024-01-01T00:00:01.35", "2024-01-01T00:00:01.6", "2024-01-01T00:00:01.85"]),
        (pd.date_range("2024-01-01T23:59:58.5", periods=5, freq="1s"),
         ["2024-01-02T00:00:03.5", "2024-01-02T00:00:04.5", "2024-01-02T00:00:05.5"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_text", [False, True])
def test_dates_are_counted_from_those_of_the_series(dates, after, as_text):
    frame = pd.DataFrame({"t": dates, "y": np.arange(float(len(dates)))})
    frame["t"] = frame.t.astype(str) if as_text else frame.t
    one = read_series(frame, Columns("y", "t")).series[0]
    np.testing.assert_array_equal(one.dates_after(3), np.array(after, "M8[us]"))
    holes = without(frame, 2)
    filled = read_series(holes, Columns("y", "t"), "interpolate").series[0]
    np.testing.assert_array_equal(filled.dates, one.dates)


def shops(frequencies, periods=11):
    """A table of several series, each with dates of its own."""
    parts = [
        pd.DataFrame({"shop": name, "y": np.arange(float(len(dates))), "t": dates})
        for name, dates in frequencies.items()
    ]
    return pd.concat(parts).sort_values("t", kind="stable").reset_index(drop=True)


def test_each_series_has_its_own_day_of_the_month():
    frame = shops({
        "a": monthly("2021-01-01", 11), "b": monthly("2021-01-15", 7),
        "c": monthly("2020-12-31", 9), "d": monthly("2020-11-30", 5),
        "e": monthly("2021-06-10", 1),
    })  # fmt: skip
    found = read_series(frame, Columns("y", "t", "shop"))
    after = [one.dates_after(1)[0].astype("M8[D]") for one in found.series]
    expected = ["2021-12-01", "2021-08-15", "2021-09-30", "2021-04-30", "2021-07-10"]
    np.testing.assert_array_equal(after, np.array(expected, "M8[D]"))
    assert [one.until(1).after(0).frequency.day for one in found.series] == [
        1, 15, 31, 30, 10
    ]  # fmt: skip


def test_series_of_several_distances():
    week = pd.date_range("2024-01-01", periods=5, freq="B")  # could be days, too
    weeks = pd.date_range("2024-01-01", periods=9, freq="B")
    found = read_series(shops({"a": week, "b": weeks}), Columns("y", "t", "shop"))
    for one in found.series:
        following = pd.date_range(one.dates[-1], periods=4, freq="B")[1:]
        np.testing.assert_array_equal(one.dates_after(3), following)
    holiday = pd.Series(np.arange(8.0), weeks[:8]).drop(weeks[5])  # a Monday
    found = read_series(holiday, Columns(), "interpolate").series[0]
    np.testing.assert_array_equal(found.dates, weeks[:8])
    days = pd.date_range("2024-01-01", periods=9)
    months = monthly("2024-01-01", 5)
    with pytest.raises(ValueError) as caught:
        read_series(shops({"b": months, "a": days}), Columns("y", "t", "shop"))
    assert (
        "received every day for the series 'a' and every month for the series 'b'. "
        "Forecast them with two models"
    ) in str(caught.value)
    with pytest.raises(ValueError, match="at least two dates, received 1 at row 0"):
        read_series(shops({"a": days[:1]}), Columns("y", "t", "shop"))


def test_empty_cells_at_the_end_are_the_future():
    values = [1.0, 2.0, np.nan, 4.0, np.nan, np.nan]
    nan, full = np.nan, [1.0, 2, 3, 4, 5, 6]
    days = pd.date_range("2024-01-01", periods=6)
    frame = pd.DataFrame({"y": values, "past": full, "known": full}, index=days)
    for missing, third in (("interpolate", 3.0), ("forward", 2.0)):
        for data in (frame.y, values):
            one = read_series(data, Columns(), missing).series[0]
            np.testing.assert_array_equal(one.values, [1, 2, third, 4])
        known = frame.assign(known=[1, 2, 3, 4, 5, nan])
        columns = Columns("y", past=("past",), known=("known",))
        one = read_series(known, columns, missing).series[0]
        np.testing.assert_array_equal(one.others[:, 1], [1, 2, 3, 4, 5])
        assert len(one.dates) == 5 and len(one.values) == 4
    end = frame.drop(index=days[2])  # dates may be missing, too
    one = read_series(end, Columns("y"), "interpolate").series[0]
    np.testing.assert_array_equal(one.values, [1, 2, 3, 4])
    even = read_series(frame.y[3:], Columns()).series[0]
    assert even.values.tolist() == [4.0]
    ends = {"past": [1, 2, 3, nan, nan, nan]}
    with pytest.raises(ValueError, match="'past' is empty in the last 1 rows before"):
        read_series(frame.assign(**ends), columns, "interpolate")
    one = read_series(frame.assign(**ends), columns, "forward").series[0]
    np.testing.assert_array_equal(one.others[:4, 0], [1, 2, 3, 3])


def test_a_single_column_of_dates_needs_no_name():
    days = monthly("2024-01-30", 7)
    frame = pd.DataFrame({"y": np.arange(7.0), "when": days, "shop": list("abababa")})
    written = [
        days, [str(day.date()) for day in days],
        [f"{day:%d.%m.%Y}" for day in days], pd.PeriodIndex(days, freq="M"),
    ]  # fmt: skip
    for dates in written:
        found = read_series(frame.assign(when=dates), Columns("y"))
        assert found.columns.date == "when" and str(found.frequency) == "every month"
    indexed = read_series(frame.set_index("when").assign(other=days), Columns("y"))
    assert indexed.columns.date is None and indexed.frequency is not None
    for texts in ("10:30", "a-1", "12", "2024"):
        plain = read_series(frame.assign(when=texts), Columns("y"))
        assert plain.frequency is None
    with pytest.raises(ValueError, match="received when, other. Name it with date="):
        read_series(frame.assign(other=days), Columns("y"))


@pytest.mark.parametrize("same_dates", [True, False])
@pytest.mark.parametrize("by_date", [True, False])
def test_several_series_without_a_group_are_named(same_dates, by_date):
    second = monthly("2024-01-01" if same_dates else "2024-01-15", 6)
    frame = shops({"b": monthly("2024-01-01", 7), "a": second})
    frame = frame if by_date else frame.sort_values(["shop", "t"])
    with pytest.raises(ValueError) as caught:
        read_series(frame, Columns("y", "t"))
    assert 'tells 2 series apart. Name it: group="shop"' in str(caught.value)
    assert "Sort" not in str(caught.value)


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
        (
            table(price=1.0),
            Columns(),
            "received sales, price. Name it with value=. "
            "Several series stand below each other",
        ),
        (table().astype(str), Columns(), "received none"),
        (table()[:0], V, "no rows"),
        (changed("sales", 7, None), V, "'sales' is empty at 2023-12-06"),
        (changed("price", 7, None), P, "'price' is empty at 2023-12-06"),
        (changed("sales", 7, "x"), V, "2023-12-06 has 'x'. Correct it"),
        (changed("sales", 7, "1,5"), V, "Write numbers with a point"),
        (changed("sales", 7, np.inf), V, "2023-12-06 has inf"),
        (changed("sales", 7, 1e308), V, "float32 has no larger ones, received 1e"),
        (changed("price", 7, "-1e308"), P, "'price' must have numbers of at most 3.4e"),
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
    with pytest.raises(ValueError, match="empty in the first 1 rows"):
        read_series(late, V, "interpolate")
    with pytest.raises(ValueError, match='missing="fill" is not one of'):
        read_series(table(), V, "fill")
    with pytest.raises(ValueError, match='"skip" is not for series.*"interpolate" or'):
        read_series(table(), V, "skip")
    fine = pd.DataFrame({"t": pd.date_range("2024", periods=3, freq="500ns"), "y": 1.0})
    with pytest.raises(ValueError, match="whole microseconds, but row 1 has 2024"):
        read_series(fine, Columns("y", "t"))
    with pytest.raises(TypeError, match="must be a pandas DataFrame, received list"):
        read_series([1.0, 2.0], V)
    with pytest.raises(ValueError, match="the series .*received 1e\\+308 in step 1"):
        read_series([1.0, 1e308], Columns())
    with pytest.raises(ValueError, match="of the shape"):
        read_series(np.ones((3, 2)), Columns())
