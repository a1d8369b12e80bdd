"""`simfl convert-trace`: converts trace files of other projects to the tables of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from simfl.system.traces import fedscale, flash, flash_phones, flhetbench
from simfl.system.traces.flash_phones import Phones
from simfl.system.traces.tables import (
    Capacities,
    Intervals,
    TraceError,
    read_capacities,
    read_intervals,
)

IntervalFormat = Literal[
    "fedscale-behaviour", "flash-intervals", "flash-states", "flhetbench-timers"
]
"""Formats of availability."""

RateFormat = Literal["fedscale-capacity", "flash-speeds-kib", "flash-speeds-kbit", "mobiperf"]
"""Formats of capacities with rates."""


@dataclass(frozen=True)
class Format:
    """A format's description, and its reader: a table, and the number of rows left out."""

    about: str
    read: Callable[[Path], tuple[Intervals | Capacities | Phones, int]]


FORMATS: Mapping[str, Format] = {
    "fedscale-behaviour": Format(
        "FedScale's client_behave_trace: availability", fedscale.read_behaviour
    ),
    "fedscale-capacity": Format("FedScale's client_device_capacity", fedscale.read_capacity),
    "flash-batch-times": Format(
        "FLASH's measured batch times: a folder of device profiles", flash_phones.read_batch_times
    ),
    "flash-intervals": Format(
        "a table client,start_s,end_s over two days: availability", flash.read_intervals_csv
    ),
    "flash-states": Format("FLASH's state_traces.json: availability", flash.read_states),
    "flash-speeds-kib": Format(
        "FLASH's network speeds, read as KiB/s", flash.speeds_reader(flash.KIB_BITS)
    ),
    "flash-speeds-kbit": Format(
        "FLASH's network speeds, read as kbit/s", flash.speeds_reader(flash.KBIT_BITS)
    ),
    "flhetbench-timers": Format(
        "FLHetBench's cached_timers.json: availability", flhetbench.read_timers
    ),
    "flhetbench-resnet": Format(
        "FLHetBench's training_latency.json, ResNet", flhetbench.latency_reader("ResNet")
    ),
    "flhetbench-vit": Format(
        "FLHetBench's training_latency.json, ViT", flhetbench.latency_reader("Vit")
    ),
    "mobiperf": Format(
        "MobiPerf records, as in FLHetBench's device cases", flhetbench.read_mobiperf
    ),
}


def convert(trace_format: str, source: Path, out: Path) -> str:
    """Write the table of `source` to `out`; returns a line that describes it.

    Raises TraceError for an unknown format and for unreadable files.
    """
    table, dropped = _read(trace_format, source)
    table.write(out)
    left_out = f"; {dropped} malformed or empty entries left out" if dropped else ""
    return f"{out}: {_summary(table, out)}{left_out}"


def intervals_in(file: Path, trace_format: IntervalFormat | None) -> Intervals:
    """The availability table in a file of this format, or (None) written by `convert`.

    Raises TraceError.
    """
    if trace_format is None:
        return read_intervals(file)
    table, _ = _read(trace_format, file)
    assert isinstance(table, Intervals), "what such formats are"
    return table


def capacities_in(file: Path, trace_format: RateFormat | None) -> Capacities:
    """The capacity table, as in `intervals_in`."""
    if trace_format is None:
        return read_capacities(file)
    table, _ = _read(trace_format, file)
    assert isinstance(table, Capacities), "what such formats are"
    return table


def _read(trace_format: str, source: Path) -> tuple[Intervals | Capacities | Phones, int]:
    if trace_format not in FORMATS:
        raise TraceError(f"unknown format {trace_format!r}; accepted: {', '.join(FORMATS)}")
    with np.errstate(over="ignore", invalid="ignore"):  # results are checked below
        return FORMATS[trace_format].read(source)


def _summary(table: Intervals | Capacities | Phones, out: Path) -> str:
    if isinstance(table, Phones):
        return table.summary(out)
    if isinstance(table, Intervals):
        share = table.share
        return (
            f"{table.clients} clients with {table.client.size} intervals,"
            f" available {share.mean():.1%} of the time (median client {np.median(share):.1%})"
        )
    parts = [f"{table.seconds_per_example.size} clients"]
    for name, values in (
        ("median s per example", table.seconds_per_example),
        ("median uplink bit/s", table.uplink_bps),
    ):
        if not np.isnan(values).all():
            parts.append(f"{name} {np.nanmedian(values):.4g}")
    return ", ".join(parts)
