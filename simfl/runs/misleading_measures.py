"""Warnings of misleading figures of measures (docs/warnings.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from simfl.common.notices import Notice, notice
from simfl.runs.runfolder import LoadedRun

Measures = Mapping[str, Mapping[str, float]]


def misleading_figures(run: LoadedRun, measures: Measures) -> list[Notice]:
    """Warnings of a measured run; `measures` are the figures by their measure's name."""
    rules = (_other_coalitions, _no_indices)
    return [one for rule in rules for one in rule(run, measures)]


def _other_coalitions(run: LoadedRun, measures: Measures) -> Iterator[Notice]:
    """The mean JS is over pairs of edge servers with clients; if fewer have clients, the pairs
    differ.
    """
    if "mean_js_after" not in measures.get("coalition_stability", {}):
        return  # before a table is read: runs without measures do not need pandas
    home = run.details("associate").iloc[0]["home_edges"]
    before, after = len(set(home)), run.clients["edge"].nunique()
    if before != after:
        message = (
            f"mean_js_before is over the pairs of {before} coalitions, mean_js_after over those of"
            f" {after}: edge servers without clients are in neither"
        )
        yield notice("other_coalitions", message)


def _no_indices(run: LoadedRun, measures: Measures) -> Iterator[Notice]:
    """Indices of shares with negative values: a regression's R^2, or utilities below 0."""
    figures = measures.get("equity", {})
    if math.isnan(figures.get("jain_index", 0.0)):
        message = (
            "jain_index, gini, entropy and equity_ratio of `equity` are undefined: they need"
            f" values that are not negative and not all 0; the worst is {figures['worst']:.4g}"
        )
        yield notice("undefined_indices", message)
