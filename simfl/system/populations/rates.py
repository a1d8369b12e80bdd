"""Clients' rates from a trace: each client draws a row with its uplink and downlink rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.common.files import TracePath
from simfl.streams import Streams
from simfl.system.catalogue import CatalogueError
from simfl.system.link import FixedRateLink, Link
from simfl.system.populations.base import named
from simfl.system.traces.convert import RateFormat, capacities_in

RateTrace = Annotated[
    TracePath | None,
    "table of uplink_bps and downlink_bps, from which each client draws a row; null: the links'"
    " own rates",
]
RateTraceFormat = Annotated[
    RateFormat | None,
    "format of a rate_trace of another project; null: made by simfl convert-trace",
]


def traced_rates(
    file: Path,
    trace_format: RateFormat | None,
    named_at: Mapping[str, str],
    links: Mapping[str, Link],
    streams: Streams,
    clients: int,
) -> tuple[list[Link], FloatArray, FloatArray]:
    """`links` at a trace's mean rates, and the factors of each client.

    The first factor multiplies both rates of a client, the second its downlink once more
    (`World.rate_factor` and `downlink_factor`). `named_at` has the link's name by the key that
    names it. Raises CatalogueError, with the key at fault, for a table without rates and for a link
    whose rate is not fixed, such as a connection that lost packets slow down.
    """
    with named("rate_trace"):
        table = capacities_in(file, trace_format)
        rows_bps = known_rows(file, np.stack([table.uplink_bps, table.downlink_bps], axis=1))
    own_bps = drawn_rows(streams, "population.rate_trace", np.arange(clients), rows_bps)
    mean_bps = rows_bps.mean(axis=0)
    at_mean: list[Link] = []
    for name, link in links.items():
        if not isinstance(link, FixedRateLink) or type(link).rate_bps != FixedRateLink.rate_bps:
            key = next(key for key, one in named_at.items() if one == name)
            raise CatalogueError(f"{key}: {name} has no fixed rate that a trace could set")
        up_bps, down_bps = map(float, mean_bps)
        at_mean.append(replace(link, uplink_bps=up_bps, downlink_bps=down_bps))
    up_factor, down_factor = (own_bps / mean_bps).T
    return at_mean, up_factor, down_factor / up_factor


def known_rows(file: Path, rows: FloatArray) -> FloatArray:
    """The complete rows of a trace; raises CatalogueError if there is none."""
    known = ~np.isnan(rows).reshape(len(rows), -1).any(axis=1)
    if not known.any():
        raise CatalogueError(f"{file}: has no row with all figures")
    return rows[known]


def drawn_rows(streams: Streams, component: str, client: IntArray, rows: FloatArray) -> FloatArray:
    """A row for each client, drawn with replacement."""
    place = (streams.uniform(component, client) * len(rows)).astype(np.int64)
    return rows[np.minimum(place, len(rows) - 1)]
