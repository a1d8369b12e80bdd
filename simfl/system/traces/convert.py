"""`simfl convert-trace`: other projects' trace files become the Parquet tables of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from simfl.system.traces import fedscale, flash, flhetbench
from simfl.system.traces.tables import Capacities, Intervals, TraceError

Reader = Callable[[Path], tuple[Intervals, int]] | Callable[[Path], tuple[Capacities, int]]

FORMATS: Mapping[str, tuple[str, Reader]] = {
    "fedscale-behaviour": ("FedScale's client_behave_trace: availability", fedscale.read_behaviour),
    "fedscale-capacity": ("FedScale's client_device_capacity", fedscale.read_capacity),
    "flash-intervals": ("a table client,start_s,end_s over two days", flash.read_intervals_csv),
    "flash-states": ("FLASH's state_traces.json: availability", flash.read_states),
    "flash-speeds-kib": (
        "FLASH's network speeds, read as KiB/s",
        flash.speeds_reader(flash.KIB_BITS),
    ),
    "flash-speeds-kbit": (
        "FLASH's network speeds, read as kbit/s",
        flash.speeds_reader(flash.KBIT_BITS),
    ),
    "flhetbench-timers": ("FLHetBench's cached_timers.json", flhetbench.read_timers),
    "flhetbench-resnet": (
        "FLHetBench's training_latency.json, ResNet",
        flhetbench.latency_reader("ResNet"),
    ),
    "flhetbench-vit": (
        "FLHetBench's training_latency.json, ViT",
        flhetbench.latency_reader("Vit"),
    ),
    "mobiperf": ("MobiPerf records, as in FLHetBench's device cases", flhetbench.read_mobiperf),
}
"""What each format is, and the function that reads it."""


def convert(trace_format: str, source: Path, out: Path) -> str:
    """Write the table of `source` to `out`; one line that says what it holds.

    Raises TraceError for an unknown format and for what cannot be read.
    """
    if trace_format not in FORMATS:
        raise TraceError(f"unknown format {trace_format!r}; accepted: {', '.join(FORMATS)}")
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is looked at below
        table, dropped = FORMATS[trace_format][1](source)
    table.write(out)
    left_out = f"; {dropped} malformed or empty entries left out" if dropped else ""
    return f"{out}: {_summary(table)}{left_out}"


def _summary(table: Intervals | Capacities) -> str:
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
