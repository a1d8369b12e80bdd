"""The tables that traces become."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simfl.system.traces.tables import (
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
        "backwards": "1 intervals end before they start",
        "period": "period_s: must be above 0",
    }.items():
        with pytest.raises(TraceError, match=rf"{name}\.parquet: {message}"):
            read_intervals(tmp_path / f"{name}.parquet")
    negative = {"client": [0], "seconds_per_example": [-1.0], "uplink_bps": [1.0]}
    pq.write_table(pa.table({**negative, "downlink_bps": [1.0]}), tmp_path / "negative.parquet")
    with pytest.raises(TraceError, match="seconds_per_example: must be above 0"):
        read_capacities(tmp_path / "negative.parquet")
