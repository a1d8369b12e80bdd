"""FedScale's device traces: pickles of availability and capacity (ICML 2022).

`client_behave_trace` maps a client to `active` and `inactive`, the seconds at which it comes and
goes, and `finish_time`, after which the trace repeats: it is present at t if active[i] <= t mod
finish_time <= inactive[i]. `client_device_capacity` maps a client to `computation`, milliseconds of
one example's inference, and `communication`, in units of 1024 bit/s; training takes three times as
long as inference, and uplink and downlink have the same rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD
from simfl.system.traces.safe_pickle import read_plain_pickle
from simfl.system.traces.tables import (
    MAXIMUM_CLIENTS,
    PERIOD_S,
    RATE_BPS,
    SECONDS_PER_EXAMPLE,
    Capacities,
    Intervals,
    TraceError,
    make_intervals,
    within,
)

KIBIT_BITS = 1024.0


def read_behaviour(path: Path) -> tuple[Intervals, int]:
    """Availability; intervals that are empty or outside the trace are dropped."""
    who: list[int] = []
    starts: list[float] = []
    ends: list[float] = []
    periods: list[float] = []
    for client, entry in _entries(path):
        try:
            active, inactive = entry["active"], entry["inactive"]
            periods.append(float(entry["finish_time"]))
            pairs = [(float(on), float(off)) for on, off in zip(active, inactive, strict=True)]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise TraceError(f"{path}: client {client}: no readable entry: {error!r}") from error
        if not within(periods[-1], PERIOD_S):
            raise TraceError(
                f"{path}: client {client}: finish_time: found {periods[-1]:g}, accepted:"
                f" {PERIOD_S[0]:g} to {PERIOD_S[1]:g}"
            )
        who += [len(periods) - 1] * len(pairs)
        starts += [on for on, _ in pairs]
        ends += [off for _, off in pairs]
    return make_intervals(who, starts, ends, periods)


def read_capacity(path: Path) -> tuple[Capacities, int]:
    """Seconds of training per example, and rates; impossible entries are dropped."""
    rows = []
    for client, entry in _entries(path):
        try:
            rows.append((float(entry["computation"]), float(entry["communication"])))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise TraceError(f"{path}: client {client}: no readable entry: {error!r}") from error
    inference_ms, rate_kibit = np.array(rows).T
    seconds = TRAINING_FLOPS_PER_FORWARD * inference_ms / 1000.0
    rate_bps = KIBIT_BITS * rate_kibit
    good = within(seconds, SECONDS_PER_EXAMPLE) & within(rate_bps, RATE_BPS)
    if not good.any():
        ms = [1000.0 * one / TRAINING_FLOPS_PER_FORWARD for one in SECONDS_PER_EXAMPLE]
        kibit = [one / KIBIT_BITS for one in RATE_BPS]
        raise TraceError(
            f"{path}: found {len(rows)} entries, none of them possible, accepted: computation of"
            f" {ms[0]:g} to {ms[1]:g} ms, communication of {kibit[0]:g} to {kibit[1]:g} kibit/s"
        )
    return Capacities(seconds[good], rate_bps[good], rate_bps[good]), int((~good).sum())


def _entries(path: Path) -> Iterator[tuple[Any, Any]]:
    content = read_plain_pickle(path)
    if not isinstance(content, dict) or not content:
        raise TraceError(f"{path}: accepted: a pickled dictionary with an entry per client")
    if len(content) > MAXIMUM_CLIENTS:
        raise TraceError(
            f"{path}: found {len(content):,} clients, accepted: at most {MAXIMUM_CLIENTS:,}"
        )
    yield from content.items()
