"""The event log: order, parts, cutting at the horizon, and the books kept of it."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from simfl.eventlog.accounts import Accounts
from simfl.eventlog.kinds import COLUMNS, CUTS, KIND_INDEX, KINDS, SCHEMA, STATES, Actors
from simfl.eventlog.log import MOST_BLOCKS, EventLog
from simfl.eventlog.parquet_parts import part_paths
from simfl.eventlog.rows import cut_rows, join_rows, make_rows
from simfl.system.interruptions import CAUSES

ACTORS = Actors(clients=2, edges=1)


def new_log(folder=None, rows_per_segment=1000):
    """A log of two clients (1 W idle), an edge server (2 W) and a cloud (3 W)."""
    accounts = Accounts(np.array([1.0, 1.0, 2.0, 3.0, 0.0]), 2, list(KINDS), STATES)
    return EventLog(ACTORS, accounts, folder, rows_per_segment)


def stage(kind, actor, start_s, end_s, **columns):
    """One row of a client's round."""
    return make_rows(
        1,
        kind=KIND_INDEX[kind],
        actor=actor,
        start_s=start_s,
        time_s=end_s,
        duration_s=end_s - start_s,
        **columns,
    )


def test_rows_booked_ahead_are_written_in_order_of_their_end(tmp_path):
    """Rows added early but ending late come later; simultaneous ones by kind, then actor."""
    log = new_log(tmp_path)
    log.add(stage("upload", 1, 1.0, 5.0))
    log.add(stage("compute", 1, 0.0, 1.0))
    log.add(stage("upload", 0, 2.0, 5.0))
    log.row("edge_aggregate", ACTORS.edge(0), 5.0, start_s=5.0)
    log.row("select", ACTORS.cloud, 0.5)

    log.finish(5.0)

    events = pd.read_parquet(tmp_path / "events.parquet")
    found = list(zip(events["time_s"], events["kind"], events["actor"], strict=True))
    assert found == [
        (0.5, "select", "cloud"),
        (1.0, "compute", "client-1"),
        (5.0, "upload", "client-0"),
        (5.0, "upload", "client-1"),
        (5.0, "edge_aggregate", "edge-0"),
    ]
    assert events["seq"].tolist() == [0, 1, 2, 3, 4]
    assert events["client"].isna().tolist() == [True, False, False, False, True]


def test_many_small_blocks_of_rows_are_gathered(tmp_path):
    """Rows booked one by one are held as few blocks, and written as if nothing had happened."""
    log, alone = new_log(tmp_path / "many", rows_per_segment=10**6), 2 * MOST_BLOCKS + 5

    tracemalloc.start()
    for number in range(alone):
        log.row("select", ACTORS.cloud, float(alone - number), value=float(number))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    log.finish(float(alone))

    assert held / alone < 1000  # bytes; a row in a block of its own takes 2000
    events = pd.read_parquet(tmp_path / "many" / "events.parquet")
    assert events["time_s"].tolist() == [float(number) for number in range(1, alone + 1)]
    assert events["value"].tolist() == [float(alone - number) for number in range(1, alone + 1)]


def test_a_segment_holds_only_what_has_ended(tmp_path):
    """While the run goes on, finished rows lie in complete part files, later ones wait."""
    log = new_log(tmp_path, rows_per_segment=2)
    log.add(stage("compute", 0, 0.0, 1.0))
    log.add(stage("compute", 1, 0.0, 9.0))

    log.advance(2.0)

    (part,) = part_paths(tmp_path / "events")
    assert pd.read_parquet(part)["actor"].tolist() == ["client-0"]
    assert not (tmp_path / "events.parquet").exists()
    log.finish(9.0)
    assert pd.read_parquet(tmp_path / "events.parquet")["actor"].tolist() == [
        "client-0",
        "client-1",
    ]
    assert not (tmp_path / "events").exists()


def test_rows_that_end_now_wait_for_others_that_do(tmp_path):
    """What is written stays in order, though rows of the same moment are booked later."""
    log = new_log(tmp_path)
    log.row("edge_aggregate", ACTORS.edge(0), 5.0)

    log.flush(5.0)
    log.row("upload", 0, 5.0)
    log.finish(6.0)

    events = pd.read_parquet(tmp_path / "events.parquet")
    assert events["kind"].tolist() == ["upload", "edge_aggregate"]


def test_the_horizon_cuts_what_is_under_way():
    """Half of the time is half of the energy, and later rows are gone.

    So are messages under way: how far they have got is for others to say.
    """
    columns = {"energy_j": 8.0, "extra_j": 4.0, "active_j": 4.0}
    rows = stage("edge_aggregate", 0, 2.0, 6.0, **columns)
    message = stage("upload", 0, 2.0, 6.0, **columns, bytes=100, attempts=2)

    cut = cut_rows(rows, 4.0)
    gone = cut_rows(rows, 2.0)

    assert cut["time_s"] == 4.0 and cut["duration_s"] == 2.0
    assert cut["energy_j"] == 4.0 and cut["extra_j"] == 2.0
    assert cut["active_j"] == 2.0 and np.isnan(cut["cycles"])
    assert CUTS[cut["cut_by"][0]] == "end"
    assert gone.count == 0
    assert cut_rows(message, 4.0).count == 0 and cut_rows(message, 6.0).count == 1
    assert rows["energy_j"] == 8.0 and rows["cut_by"] == -1


def test_a_missing_or_unknown_column_is_an_error():
    """A row without its end, or with a column that does not exist, cannot be made."""
    with pytest.raises(ValueError, match="time_s is missing"):
        make_rows(1, kind=0, actor=0, start_s=0.0)
    with pytest.raises(ValueError, match="no such event columns: joules"):
        make_rows(1, kind=0, actor=0, start_s=0.0, time_s=1.0, joules=1.0)


def test_rows_hold_what_was_given_only():
    """A missing column takes no memory; joined with rows that have it, it has the default."""
    one = make_rows(2, kind=0, actor=[0, 1], start_s=0.0, time_s=1.0, active_j=[3.0, 4.0])
    other = make_rows(1, kind=1, actor=0, start_s=0.0, time_s=1.0, cycles=5.0, detail=None)

    both = join_rows([one, other])

    assert set(one.columns) == {"kind", "actor", "start_s", "time_s", "active_j"}
    assert one["edge"].tolist() == [-1, -1] and one["edge"].strides == (0,)
    assert set(both.columns) == set(one.columns) | {"cycles"}
    np.testing.assert_array_equal(both["active_j"], [3.0, 4.0, np.nan])
    np.testing.assert_array_equal(both["cycles"], [np.nan, np.nan, 5.0])
    assert both["detail"].tolist() == [None] * 3


def test_columns_are_empty_where_they_do_not_apply(tmp_path):
    """If the kind has the column, a missing value is its default; otherwise it is null."""
    log = new_log(tmp_path)
    log.add(stage("download", 0, 0.0, 1.0, active_j=2.0, attempts=3, lost_bytes=20))
    log.add(stage("compute", 0, 1.0, 2.0, cycles=5.0, cut_by=CUTS.index("crash")))
    log.row("idle", 1, 3.0, start_s=0.0, unmet_j=0.5)
    log.add(stage("upload", 0, 2.0, 3.0))
    log.finish(3.0)

    events = pd.read_parquet(tmp_path / "events.parquet").set_index("kind")
    found = events[["active_j", "tail_j", "attempts", "lost_bytes", "unmet_j", "cycles", "cut_by"]]
    assert found.astype(object).where(found.notna(), None).to_dict("index") == {
        "download": dict(zip(found, [2.0, 0.0, 3, 20, 0.0, None, None], strict=True)),
        "compute": dict(zip(found, [None, 0.0, None, None, 0.0, 5.0, "crash"], strict=True)),
        "upload": dict(zip(found, [None, 0.0, None, 0, 0.0, None, None], strict=True)),
        "idle": dict(zip(found, [None, None, None, None, 0.5, None, None], strict=True)),
    }


@pytest.mark.parametrize("name", [name for name, one in COLUMNS.items() if one.kinds is not None])
def test_a_figure_that_its_kind_has_not_is_refused(name, tmp_path):
    """What a row says and the list of columns lacks for its kind fails when it is written."""
    log = new_log(tmp_path)
    log.add(make_rows(1, kind=KIND_INDEX["select"], actor=3, start_s=0, time_s=0, **{name: 1}))

    with pytest.raises(ValueError, match=f"a row of kind select has {name}, which is for "):
        log.finish(1.0)


def test_the_list_of_columns_is_the_whole_layout(tmp_path):
    """Every column of the file is listed, of kinds that there are; the file says its version."""
    log = new_log(tmp_path)
    log.finish(1.0)

    schema = pq.read_schema(tmp_path / "events.parquet")
    assert schema.names == [name for name, one in COLUMNS.items() if one.arrow is not None]
    assert schema.equals(SCHEMA)
    assert schema.metadata[b"format_version"] == b"3"
    assert {kind for one in COLUMNS.values() for kind in one.kinds or ()} <= set(KINDS)


def test_energy_by_any_moment_counts_rows_under_way_pro_rata():
    """Idle power of all devices plus the elapsed share of each activity's extra energy."""
    log = new_log()
    log.add(stage("compute", 0, 1.0, 3.0, energy_j=12.0, extra_j=10.0, bytes=0))

    assert log.accounts.energy_j(1.0) == pytest.approx(7.0)
    assert log.accounts.energy_j(2.0) == pytest.approx(14.0 + 5.0)
    assert log.accounts.energy_j(4.0) == pytest.approx(28.0 + 10.0)


def test_bytes_count_when_they_have_arrived():
    """Only complete messages count; what a computation holds in memory does not."""
    log = new_log()
    log.add(stage("download", 0, 0.0, 2.0, bytes=100))
    log.add(stage("compute", 0, 2.0, 3.0, bytes=7))

    assert log.accounts.bytes_moved(1.0) == 0
    assert log.accounts.bytes_moved(2.0) == 100
    assert log.accounts.bytes_moved(9.0) == 100


def test_bytes_of_a_cohort_count_one_by_one():
    """A message counts at the moment that it arrives, whether or not its cohort is complete."""
    log = new_log()
    uploads = [stage("upload", client, 0.0, 1.0 + client, bytes=100) for client in range(2)]
    log.add(join_rows(uploads))

    assert [log.accounts.bytes_moved(time_s) for time_s in (0.5, 1.0, 1.5, 2.0)] == [
        0,
        100,
        100,
        200,
    ]


def filled(log, horizon_s, **changes):
    """A log in which every device idles to the horizon, but client 0 as `changes` says."""
    rows = {"start_s": 0.0, "time_s": horizon_s, "duration_s": horizon_s, **changes}
    for actor in range(4):
        own = rows if actor == 0 else {"start_s": 0.0, "time_s": horizon_s, "duration_s": horizon_s}
        energy_j = log.accounts.power_idle_w[actor] * horizon_s
        log.add(make_rows(1, kind=KIND_INDEX["idle"], actor=actor, **{"energy_j": energy_j, **own}))
    log.finish(horizon_s)
    return log.accounts.close(horizon_s)


def test_a_sound_log_keeps_all_laws():
    """Every law is reported, and holds."""
    laws = filled(new_log(), 4.0)

    assert len(laws) == 8
    assert all(laws.values())


@pytest.mark.parametrize(
    ("law", "changes"),
    [
        ("states fill each device's time", {"time_s": 3.0, "duration_s": 3.0}),
        ("completion = dispatch + duration", {"duration_s": 3.5}),
        ("joules add up", {"energy_j": 5.0}),
        ("durations, joules and bytes are finite and not negative", {"energy_j": np.nan}),
        ("staleness is not negative", {"staleness": -2}),
    ],
)
def test_a_broken_law_is_reported(law, changes):
    """Each law is broken by one wrong row, and named with what was found."""
    log = new_log()

    laws = filled(log, 4.0, **changes)

    assert not laws[law]
    assert any(found.startswith(law) for found in log.accounts.violations)


def test_time_that_runs_back_is_reported():
    """A row that ends before what was already written breaks the log."""
    log = new_log()
    log.add(stage("compute", 0, 0.0, 5.0))
    log.flush(6.0)
    log.add(stage("compute", 0, 5.0, 4.0))
    log.flush(7.0)

    assert any(found.startswith("time never runs back") for found in log.accounts.violations)


def test_causes_of_interruptions_are_causes_of_cuts():
    """A client's row says by its cause's own number what broke it off."""
    assert CUTS[: len(CAUSES)] == CAUSES
