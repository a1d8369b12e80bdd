"""The tables that traces become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.system.traces.tables import (
    INTERVALS,
    Capacities,
    TraceError,
    intervals_of,
    make_intervals,
    read_capacities,
    read_intervals,
)

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-30, 130), st.integers(-30, 130)), max_size=30
)


def test_intervals_are_sorted_and_joined() -> None:
    """Overlapping and touching intervals of one client become one, those of others do not."""
    found, dropped = make_intervals(
        [1, 0, 1, 1, 0], [5.0, 2.0, 1.0, 7.0, 8.0], [7.0, 4.0, 3.0, 9.0, 9.0], [10.0, 10.0, 10.0]
    )

    assert found.client.tolist() == [0, 0, 1, 1]
    assert found.start_s.tolist() == [2.0, 8.0, 1.0, 5.0]
    assert found.end_s.tolist() == [4.0, 9.0, 3.0, 9.0]
    assert (found.clients, dropped) == (3, 0)
    np.testing.assert_allclose(found.share, [0.3, 0.6, 0.0])


@given(ROWS)
def test_a_moment_is_covered_as_before(rows: list[tuple[int, int, int]]) -> None:
    """Joining changes no moment's answer; malformed intervals are counted."""
    client, start, end = ([row[i] for row in rows] for i in range(3))
    found, dropped = make_intervals(client, start, end, np.full(4, 100.0))
    good = [(c, a, b) for c, a, b in rows if 0 <= a < b <= 100]

    assert dropped == len(rows) - len(good)
    for moment in np.arange(0.5, 100):
        for who in range(4):
            expected = any(c == who and a <= moment < b for c, a, b in good)
            own = found.client == who
            covered = ((found.start_s <= moment) & (moment < found.end_s) & own).any()
            assert covered == expected
    same = found.client[1:] == found.client[:-1]
    assert (found.start_s[1:][same] > found.end_s[:-1][same]).all()


@given(ROWS)
def test_folding_covers_the_same_moments(rows: list[tuple[int, int, int]]) -> None:
    """What lies outside the period, or across its end, is found at the same time modulo it."""
    rows = [row for row in rows if row[1] < row[2]]

    found, _ = intervals_of([([(a, b) for c, a, b in rows if c == who], 40.0) for who in range(4)])

    for moment in np.arange(0.5, 40):
        for who in range(4):
            expected = any(
                c == who and a <= moment + 40 * shift < b
                for c, a, b in rows
                for shift in range(-2, 5)
            )
            own = found.client == who
            assert ((found.start_s <= moment) & (moment < found.end_s) & own).any() == expected


def test_intervals_survive_a_file(tmp_path: Path) -> None:
    """Clients that are never there keep their number and their period."""
    found, _ = make_intervals([0, 2], [1.0, 2.0], [3.0, 4.0], [10.0, 20.0, 30.0])

    found.write(tmp_path / "one.parquet")
    again = read_intervals(tmp_path / "one.parquet")

    for name in ("client", "start_s", "end_s", "period_s"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    assert pq.read_table(tmp_path / "one.parquet").column("start_s").null_count == 1


def test_capacities_survive_a_file(tmp_path: Path) -> None:
    """What is not known stays unknown."""
    table = Capacities(np.array([1.0, np.nan]), np.array([1e6, 2e6]), np.array([np.nan, np.nan]))

    table.write(tmp_path / "one.parquet")
    again = read_capacities(tmp_path / "one.parquet")

    for name in ("seconds_per_example", "uplink_bps", "downlink_bps"):
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))


def test_wrong_files(tmp_path: Path) -> None:
    """No file, no Parquet, other columns, no rows, impossible values: one line with the file."""
    (tmp_path / "text.parquet").write_text("client,start_s")
    pq.write_table(pa.table({"client": [1]}), tmp_path / "columns.parquet")
    empty = {name: pa.array([], pa.float64()) for name in ("client", "start_s", "end_s")}
    pq.write_table(pa.table({**empty, "period_s": empty["client"]}), tmp_path / "empty.parquet")
    rows = {"client": [0], "start_s": [5.0], "end_s": [3.0], "period_s": [9.0]}
    pq.write_table(pa.table(rows), tmp_path / "backwards.parquet")
    pq.write_table(pa.table({**rows, "period_s": [0.0]}), tmp_path / "period.parquet")

    for name, message in {
        "nowhere": "no such file",
        "text": "accepted: a Parquet file with the columns client, start_s",
        "columns": "accepted: a Parquet file with the columns client, start_s",
        "empty": "holds no client",
        "backwards": "end_s: row 0 holds 3, accepted: 0 <= start_s < end_s <= period_s",
        "period": "period_s: row 0 holds 0, accepted: 1 to 1e\\+09",
    }.items():
        with pytest.raises(TraceError, match=rf"{name}\.parquet: {message}"):
            read_intervals(tmp_path / f"{name}.parquet")
    negative = {"client": [0], "seconds_per_example": [-1.0], "uplink_bps": [1.0]}
    pq.write_table(pa.table({**negative, "downlink_bps": [1.0]}), tmp_path / "negative.parquet")
    with pytest.raises(TraceError, match="seconds_per_example: row 0 holds -1, accepted: 1e-12 to"):
        read_capacities(tmp_path / "negative.parquet")


ROW: dict[str, list[Any]] = {"client": [0], "start_s": [1.0], "end_s": [3.0], "period_s": [9.0]}
TWO = {"client": [0, 0], "start_s": [1.0, 4.0], "end_s": [3.0, 5.0], "period_s": [9.0, 9.0]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ROW | {"client": [-1]},
            "client: row 0 holds -1, accepted: whole numbers from 0 to 999,999",
        ),
        (ROW | {"client": [10**12]}, "client: row 0 holds 1000000000000"),
        (ROW | {"client": pa.array([None], pa.int64())}, "client: row 0 holds NaN or null"),
        (ROW | {"client": [0.5]}, "client: row 0 holds 0.5"),
        (ROW | {"client": ["0"]}, "client: found string, accepted: numbers"),
        (ROW | {"client": [True]}, "client: found bool, accepted: numbers"),
        (ROW | {"start_s": [np.nan]}, "start_s: row 0 holds NaN"),
        (ROW | {"start_s": pa.array([None], pa.float64())}, "start_s and end_s, or neither"),
        (ROW | {"end_s": [np.inf]}, "end_s: row 0 holds inf, accepted: finite"),
        (ROW | {"end_s": [0.5]}, "end before they start"),
        (ROW | {"period_s": [np.inf]}, "period_s: row 0 holds inf, accepted: finite"),
        (ROW | {"period_s": [1e300]}, "period_s: row 0 holds 1e"),
        (ROW | {"period_s": pa.array([None], pa.float64())}, "period_s: row 0 holds NaN or null"),
        (TWO | {"period_s": [9.0, 8.0]}, "period_s: row 1 holds 8, accepted: the same period"),
        (TWO | {"client": [0, 2]}, "client: row 1 holds 2, accepted: numbers from 0 without gaps"),
        (ROW | {"client": [1]}, "client: row 0 holds 1, accepted: numbers from 0 without gaps"),
    ],
)
def test_rows_that_cannot_be(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    """File, column and row are named."""
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")

    with pytest.raises(TraceError, match=r"rows\.parquet: ") as caught:
        read_intervals(tmp_path / "rows.parquet")

    assert message in str(caught.value)


@pytest.mark.parametrize("figure", [np.nan, np.inf, 0.0, 1e300])
@pytest.mark.parametrize("name", ["seconds_per_example", "uplink_bps", "downlink_bps"])
def test_figures_that_no_device_has(tmp_path: Path, name: str, figure: float) -> None:
    """A capacity is a finite number, or null where it is not known."""
    known = {
        "client": [0],
        "seconds_per_example": [1.0],
        "uplink_bps": [1e6],
        "downlink_bps": [1e6],
    }
    table = pa.table(known | {name: pa.array([figure], pa.float64())})
    pq.write_table(table, tmp_path / "rows.parquet")

    with pytest.raises(TraceError, match=rf"rows\.parquet: {name}: row 0 holds"):
        read_capacities(tmp_path / "rows.parquet")


def test_damaged_tables(tmp_path: Path) -> None:
    """A folder, a column twice, a file cut short, a page that cannot be unpacked."""
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({name: column * 999 for name, column in ROW.items()}), whole)
    content = whole.read_bytes()
    names = [*INTERVALS.names, "client"]
    double = pa.Table.from_arrays([pa.array([1.0])] * len(names), names=names)
    pq.write_table(double, tmp_path / "double.parquet")
    (tmp_path / "cut.parquet").write_bytes(content[:-20])
    (tmp_path / "page.parquet").write_bytes(content[:30] + bytes(60) + content[90:])
    (tmp_path / "folder.parquet").mkdir()

    for name in ("double", "cut", "page", "folder"):
        with pytest.raises(TraceError, match=rf"{name}\.parquet: "):
            read_intervals(tmp_path / f"{name}.parquet")


def test_more_rows_than_any_trace_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes can stand for billions of rows: they are counted before they are read."""
    monkeypatch.setattr("simfl.system.traces.tables.MAXIMUM_ROWS", 1)
    pq.write_table(pa.table(TWO), tmp_path / "two.parquet")

    with pytest.raises(TraceError, match="found 2 rows, accepted: at most 1"):
        read_intervals(tmp_path / "two.parquet")
