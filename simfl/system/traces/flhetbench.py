"""FLHetBench's traces (CVPR 2024): ready intervals, training latencies, measured network speeds.

`cached_timers.json` maps a phone to `isSuccess`, `trace_start`, `trace_end` and `ready_time`, pairs
of seconds; phones without success are left out. `training_latency.json` lists phones with the mean
milliseconds of a training step of two models (the batch size is not stated; a step counts as one
example). Records of MobiPerf (`device/case1-4.json`) hold `tcp_speed_results`, downloads in kbit/s;
FLHetBench uses them for both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from simfl.system.traces.files import as_number, read_json
from simfl.system.traces.tables import (
    PERIOD_S,
    RATE_BPS,
    SECONDS_PER_EXAMPLE,
    Capacities,
    Intervals,
    TraceError,
    intervals_of,
    within,
)

KBIT_BITS = 1000.0


def read_timers(path: Path) -> tuple[Intervals, int]:
    """Ready intervals, modulo the length of each trace; phones without success are dropped."""
    traces: list[tuple[list[tuple[float, float]], float]] = []
    dropped = 0
    for phone, timer in read_json(path, dict).items():
        try:
            if not timer["isSuccess"]:
                dropped += 1
                continue
            period_s = float(timer["trace_end"]) - float(timer["trace_start"])
            ready = [(float(start), float(end)) for start, end in timer["ready_time"]]
            if within(period_s, PERIOD_S):
                traces.append((ready, period_s))
            else:
                dropped += 1
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise TraceError(f"{path}: {phone}: no readable timer: {error!r}") from error
    if not traces:
        raise TraceError(f"{path}: holds no phone with a usable trace")
    found, empty = intervals_of(traces)
    return found, dropped + empty


def latency_reader(model: str) -> Callable[[Path], tuple[Capacities, int]]:
    """A reader of the training latencies of "ResNet" or "Vit"; rows without them are dropped."""

    def read(path: Path) -> tuple[Capacities, int]:
        rows = read_json(path, list)
        key = f"{model} Latency"
        latency_ms = [as_number(row.get(key)) for row in rows if isinstance(row, dict)]
        seconds = np.array(latency_ms) / 1000.0
        seconds = seconds[within(seconds, SECONDS_PER_EXAMPLE)]
        if not seconds.size:
            raise TraceError(f"{path}: accepted: rows with a number for '{key}'")
        unknown = np.full(seconds.size, np.nan)
        return Capacities(seconds, unknown, unknown), len(rows) - seconds.size

    return read


def read_mobiperf(path: Path) -> tuple[Capacities, int]:
    """The mean speed of each record; records without one are dropped."""
    rows = read_json(path, list)
    means = []
    for row in rows:
        speeds = row.get("tcp_speed_results") if isinstance(row, dict) else None
        if isinstance(speeds, list) and speeds:
            means.append(float(np.mean([as_number(speed) for speed in speeds])))
    rate_bps = KBIT_BITS * np.array(means)
    rate_bps = rate_bps[within(rate_bps, RATE_BPS)]
    if not rate_bps.size:
        raise TraceError(f"{path}: accepted: records with tcp_speed_results")
    return Capacities(np.full(rate_bps.size, np.nan), rate_bps, rate_bps), len(rows) - rate_bps.size
