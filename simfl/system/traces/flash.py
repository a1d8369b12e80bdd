"""FLASH's traces (C. Yang et al., WWW 2021): phones' states, idle intervals, network speeds.

`state_traces.json` maps a user to `messages`, lines "YYYY-mm-dd HH:MM:SS<tab>state". As in FLASH, a
phone is ready while it is locked, on Wi-Fi and charging, and an interval that is cut off by the end
of the trace is left out. Times count from 2020-01-02 00:00:00, modulo the length of the user's
trace.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from simfl.system.traces.files import read_json, read_numbers
from simfl.system.traces.tables import (
    MAXIMUM_CLIENTS,
    PERIOD_S,
    RATE_BPS,
    Capacities,
    Intervals,
    TraceError,
    intervals_of,
    make_intervals,
    within,
)

# The local time of the collection. Its zone is not stated, but only differences are used, which are
# the same in any zone without summer time.
REFERENCE = datetime(2020, 1, 2, tzinfo=UTC)
TWO_DAYS_S = 172_800.0
KIB_BITS, KBIT_BITS = 8192.0, 1000.0

_CHANGES = {
    "battery_charged_on": ("charging", True),
    "battery_charged_off": ("charging", False),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("2g", "3g", "4g", "5g", "unknown"), ("wifi", False)),
}
_IGNORED = {"screen_on", "screen_off", "battery_low", "battery_okay", "phone_on", "phone_off"}


def read_intervals_csv(path: Path) -> tuple[Intervals, int]:
    """Ready intervals as rows `client,start_s,end_s` (.csv or .csv.gz), repeated every 2 days.

    Clients are numbered as in the file; those without rows are never present. Intervals are cut to
    the two days; those that are empty or outside are dropped and counted.
    """
    rows = read_numbers(path, ("client", "start_s", "end_s"))
    client = rows[:, 0].astype(np.int64)
    wrong = np.flatnonzero(~within(rows[:, 0], (0, MAXIMUM_CLIENTS - 1)) | (client != rows[:, 0]))
    if wrong.size or not rows.size:
        found = f"{rows[wrong[0], 0]:.15g} in row {wrong[0]}" if wrong.size else "no row"
        raise TraceError(
            f"{path}: client: found {found}, accepted: whole numbers, numbered from 0 to"
            f" {MAXIMUM_CLIENTS - 1:,}"
        )
    backwards = np.flatnonzero(rows[:, 2] < rows[:, 1])
    if backwards.size:
        raise TraceError(
            f"{path}: {backwards.size} intervals end before they start, the first in row"
            f" {backwards[0]}; accepted: start_s <= end_s"
        )
    period_s = np.full(int(client.max()) + 1, TWO_DAYS_S)
    start_s, end_s = np.clip(rows[:, 1:].T, 0.0, TWO_DAYS_S)
    return make_intervals(client, start_s, end_s, period_s)


def read_states(path: Path) -> tuple[Intervals, int]:
    """Ready intervals from the phones' states; users with malformed traces are dropped."""
    users = read_json(path, dict)
    traces: list[tuple[list[tuple[float, float]], float]] = []
    dropped = 0
    for user in users.values():
        try:
            traces.append(_ready(user["messages"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            dropped += 1
    if not traces:
        raise TraceError(f"{path}: holds no user with a readable trace")
    found, empty = intervals_of(traces)
    return found, dropped + empty


def _ready(messages: str) -> tuple[list[tuple[float, float]], float]:
    """A user's ready intervals, and the length of the trace; ValueError if it is unreadable."""
    state = {"charging": False, "locked": False, "wifi": False}
    ready: list[tuple[float, float]] = []
    since: float | None = None
    times: list[float] = []
    for line in filter(None, map(str.strip, messages.split("\n"))):
        moment, _, what = line.partition("\t")
        what = what.strip().lower()
        at_s = (_moment(moment) - REFERENCE).total_seconds()
        times.append(at_s)
        if what in _CHANGES:
            name, value = _CHANGES[what]
            state[name] = value
        elif what not in _IGNORED and not what.endswith("%"):
            raise ValueError(f"unknown state {what!r}")
        if all(state.values()):
            since = at_s if since is None else since
        elif since is not None:
            ready.append((since, at_s))
            since = None
    if not times or not within(times[-1] - times[0], PERIOD_S):
        raise ValueError("a trace without length, or one of ages")
    return ready, times[-1] - times[0]


def _moment(text: str) -> datetime:
    return datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=REFERENCE.tzinfo)


def speeds_reader(bits_per_unit: float) -> Callable[[Path], tuple[Capacities, int]]:
    """A reader of measured speeds (`flash_network_speed.csv`), in units of this many bits/s.

    FLASH's code divides KiB by the speed, that is, reads it as KiB/s; FLHetBench divides bytes by
    speed / 8, that is, reads it as kbit/s. The unit is not documented; the two differ by a factor
    of 8.19.
    """

    def read(path: Path) -> tuple[Capacities, int]:
        rates_bps = bits_per_unit * read_numbers(path, ("up_mean", "down_mean"))
        good = within(rates_bps, RATE_BPS).all(axis=1)
        if not good.any():
            raise TraceError(f"{path}: accepted: rows with up_mean and down_mean above 0")
        up, down = rates_bps[good].T
        return Capacities(np.full(up.size, np.nan), up, down), int((~good).sum())

    return read
