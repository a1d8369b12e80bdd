"""Tails of radios between a device's activities, and the waiting after them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.eventlog.accounts import Accounts
from simfl.eventlog.kinds import KIND_INDEX, KINDS, STATES, Actors
from simfl.eventlog.log import EventLog
from simfl.protocols.clock import Clock
from simfl.protocols.idle_tracker import IdleTracker
from simfl.system.battery import Batteries
from simfl.system.charge import Charge
from simfl.system.link_columns import LinkColumns

TAIL_S, TAIL_W, IDLE_W = 4.0, 2.0, 1.0


class Bench:
    """Devices that rest, and the rows that they have left."""

    def __init__(self, count: int = 1, charge_j: float | None = None, tail_s: float = TAIL_S):
        self.clock, idle_w = Clock(), np.full(count, IDLE_W)
        self.accounts = Accounts(np.r_[idle_w, 0.0, 0.0], count, list(KINDS), STATES)
        self.log = EventLog(Actors(count, 0), self.accounts)
        self.rows: list[tuple[str, int, float, float, float]] = []
        add = self.log.add

        def watched(rows):
            self.rows += [
                (list(KINDS)[kind], *rest)
                for kind, *rest in zip(
                    *(rows[name].tolist() for name in ("kind", "actor", "start_s", "time_s")),
                    rows["energy_j"].tolist(),
                    strict=True,
                )
            ]
            add(rows)

        self.log.add = watched
        none, tail_w = np.zeros(count), np.full(count, TAIL_W)
        radios = LinkColumns(none, none, none + 0.5, none, np.full(count, tail_s), tail_w)
        charge = None
        if charge_j is not None:
            charge = Charge(Batteries(np.full(count, 100.0), charge_j), idle_w)
        self.all = np.arange(count)
        self.tracker = IdleTracker(self.log, self.clock, 0, radios, charge=charge)

    def at(self, time_s: float) -> IdleTracker:
        """The devices at a later moment."""
        self.clock.env.run(until=time_s)
        return self.tracker

    def works(self, who: int, until_s: float, radio_idle_s: float = 0.0, **more: float) -> None:
        """A device begins an activity now, which gets a row in the log."""
        now_s, whom = self.clock.now_s, np.array([who])
        self.log.add(self.tracker.until_now(whom))
        self.tracker.free(whom, until_s, radio_idle_s, **more)
        energy_j = IDLE_W * (until_s - now_s)
        self.log.row("upload", who, until_s, start_s=now_s, energy_j=energy_j)

    def close(self) -> None:
        """Book what is open, and check every invariant."""
        now_s = self.clock.now_s
        self.log.add(self.tracker.until_now(self.tracker.waiting(now_s)))
        self.log.row("idle", self.all.size, now_s, start_s=0.0)
        self.log.finish(now_s)
        laws = self.accounts.close(now_s)
        assert all(laws.values()), self.accounts.violations


def test_a_tail_and_the_waiting_after_it() -> None:
    """4 s at 3 W, then 1 W: known and paid at every moment, booked when it is over."""
    bench = Bench()
    bench.works(0, 1.0)

    spent_j = {2.0: 2.0 + 2.0, 5.0: 5.0 + 8.0, 7.0: 7.0 + 8.0}
    for time_s, joules in spent_j.items():
        bench.at(time_s)
        assert bench.accounts.energy_j(time_s) == pytest.approx(joules)
    bench.works(0, 8.0)
    bench.close()

    assert bench.rows == [("tail", 0, 1.0, 5.0, 12.0), ("idle", 0, 5.0, 7.0, 2.0)]


def test_the_next_message_cuts_a_tail_short() -> None:
    """It needs no promotion then; after the tail it does, and so does the first one."""
    bench = Bench()
    assert bench.tracker.radio_idle_s(bench.all, 0.0).tolist() == [np.inf]
    bench.works(0, 1.0)

    assert bench.at(3.0).radio_idle_s(bench.all, 3.0).tolist() == [2.0]
    bench.works(0, 6.0, radio_idle_s=0.5)
    assert bench.at(11.0).radio_idle_s(bench.all, 11.0).tolist() == [np.inf]
    bench.close()

    assert bench.rows == [
        ("tail", 0, 1.0, 3.0, 6.0),
        ("tail", 0, 6.0, 9.5, 10.5),
        ("idle", 0, 9.5, 11.0, 1.5),
    ]


@pytest.mark.parametrize(("present_until_s", "tail_ends_s"), [(3.0, 3.0), (0.5, None), (9.0, 5.0)])
def test_who_leaves_or_crashes_has_no_tail_any_more(
    present_until_s: float, tail_ends_s: float | None
) -> None:
    """Whoever is away when its tail would begin has none; its radio is asleep afterwards."""
    bench = Bench()
    bench.works(0, 1.0, present_until_s=present_until_s)

    idle_s = bench.at(4.0).radio_idle_s(bench.all, 4.0)
    assert idle_s.tolist() == [3.0 if present_until_s == 9.0 else np.inf]
    bench.at(6.0)
    bench.close()

    tails = [row for row in bench.rows if row[0] == "tail"]
    assert tails == ([("tail", 0, 1.0, tail_ends_s, 3 * (tail_ends_s - 1))] if tail_ends_s else [])


def test_a_radio_that_is_switched_off_has_no_tail() -> None:
    """A client round that a crash ended: nothing but waiting follows."""
    bench = Bench()
    bench.works(0, 1.0, radio_idle_s=np.inf)
    bench.at(2.0)
    bench.close()

    assert bench.rows == [("idle", 0, 1.0, 2.0, 1.0)]


def test_a_battery_that_runs_empty_ends_the_tail() -> None:
    """6 J last for 2 s of 3 W; nothing is paid for afterwards."""
    bench = Bench(charge_j=6.0)
    bench.works(0, 1e-12)
    bench.at(5.0)
    bench.close()

    [tail, idle] = bench.rows
    assert tail == ("tail", 0, 1e-12, pytest.approx(2.0), pytest.approx(6.0))
    assert idle == ("idle", 0, pytest.approx(2.0), 5.0, pytest.approx(0.0))


def test_without_a_tail_devices_only_wait() -> None:
    """A radio that falls asleep at once is awake for a message that follows at once."""
    bench = Bench(tail_s=0.0)
    bench.works(0, 1.0)
    assert bench.at(1.0).radio_idle_s(bench.all, 1.0).tolist() == [0.0]
    assert bench.at(2.0).radio_idle_s(bench.all, 2.0).tolist() == [np.inf]
    bench.close()

    assert bench.rows == [("idle", 0, 1.0, 2.0, 1.0)]


ACTIVITIES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([0.0, 0.25, 1.0, 5.0]),
        st.sampled_from([0.5, 1.0, 4.0]),
        st.sampled_from([0.0, 0.5, 6.0, np.inf]),
        st.sampled_from([0.0, 3.0, np.inf]),
    ),
    max_size=12,
)


@given(activities=ACTIVITIES, rest_s=st.sampled_from([0.125, 3.0, 20.0]))
@settings(max_examples=60, deadline=None)
def test_every_second_and_every_tail_is_paid_once(
    activities: list[tuple[int, float, float, float, float]], rest_s: float
) -> None:
    """Three devices at work at random moments, against a sum by hand, row for row."""
    bench, expected = Bench(3), []
    rests = dict.fromkeys(range(3), (0.0, 0.0))
    for who, wait_s, lasts_s, radio_idle_s, present_until_s in activities:
        free_s, awake_s = rests[who]
        now_s = max(bench.clock.now_s, free_s) + wait_s
        if now_s > bench.clock.now_s:
            bench.at(now_s)
        expected += rest(who, free_s, awake_s, now_s)
        end_s = now_s + lasts_s
        bench.works(who, end_s, radio_idle_s, present_until_s=end_s + present_until_s)
        rests[who] = end_s, min(end_s - radio_idle_s + TAIL_S, end_s + present_until_s)
        # Somebody may ask, or write, at any moment: that changes nothing.
        bench.log.flush(bench.clock.now_s)
        bench.accounts.energy_j(bench.clock.now_s)
    horizon_s = max(bench.clock.now_s, *(free_s for free_s, _ in rests.values())) + rest_s
    bench.at(horizon_s)
    bench.close()
    for who, (free_s, awake_s) in rests.items():
        expected += rest(who, free_s, awake_s, horizon_s)

    columns = ["kind", "actor", "start_s", "time_s", "energy_j"]
    tables = [pd.DataFrame(rows, columns=columns) for rows in (bench.rows, expected)]
    left, right = (table.sort_values(["actor", "start_s"], ignore_index=True) for table in tables)
    pd.testing.assert_frame_equal(left, right, check_dtype=False, rtol=1e-12)
    tails_j = bench.accounts.joules[:, KIND_INDEX["tail"]].sum()
    assert tails_j == pytest.approx(sum(row[4] for row in expected if row[0] == "tail"))


def rest(
    who: int, free_s: float, awake_s: float, now_s: float
) -> list[tuple[str, int, float, float, float]]:
    """What a device does from `free_s` to `now_s` whose radio would be awake until `awake_s`."""
    tail_ends_s = min(max(awake_s, free_s), now_s)
    parts = [
        ("tail", who, free_s, tail_ends_s, (IDLE_W + TAIL_W) * (tail_ends_s - free_s)),
        ("idle", who, tail_ends_s, now_s, IDLE_W * (now_s - tail_ends_s)),
    ]
    return [part for part in parts if part[3] > part[2]]
