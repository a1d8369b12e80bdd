"""Output of `simfl calibrate`: figures with their intervals, and their predictive accuracy."""

from __future__ import annotations

import statistics

from simfl.calibration.calibrate import Calibration
from simfl.calibration.computing import ComputingFit
from simfl.calibration.held_out import Prediction
from simfl.calibration.terms import LEVEL
from simfl.common.quantity import quantity
from simfl.console.tables import FigureTable
from simfl.console.terminal import Terminal


def print_calibration(found: Calibration) -> None:
    """Figures of every twin, then each row as predicted from the rows of the other models."""
    console, fit = Terminal(), found.computing
    console.print(_figures(found), crop=False)
    if fit is not None:
        if fit.held_out:
            console.print(_predicted(fit), crop=False)
        console.print(summary(fit))
    for warning in found.warnings:
        console.print(f"warning: {warning}", soft_wrap=True)


def summary(fit: ComputingFit) -> str:
    """How well held-out models are predicted, in a sentence."""
    if not fit.held_out:
        return "One model alone: nothing can be held out, measure a second one to see the error."
    told = [one for one in fit.held_out if not one.missing]
    parts = [f"{_words(told)} whose kinds of work the other rows have"] if told else []
    rest = [one for one in fit.held_out if one.missing]
    parts += [f"{_words(rest)} with a kind that they lack"] if rest else []
    return "Left out in turn: " + "; ".join(parts) + "."


def _words(rows: list[Prediction]) -> str:
    factors = [one.factor for one in rows]
    inside = sum(one.is_inside for one in rows)
    return (
        f"{len(rows)} rows within a factor of {statistics.median(factors):.2f} in the median and"
        f" {max(factors):.2f} at worst, {inside} of them in their {LEVEL:.0%} interval,"
    )


def _figures(found: Calibration) -> FigureTable:
    rows = []
    for twin in found.twins:
        keys = [one.key for one in twin.figures]
        for one in twin.figures:
            low, high = one.interval
            short = one.key.removeprefix("processor.")
            rows.append(
                [
                    twin.name,
                    one.key if short in keys else short,
                    quantity(one.value, one.unit)
                    if one.value >= 1
                    else f"{one.value:.3g} {one.unit}",
                    f"{low / one.value:.2f} to {high / one.value:.2f}"
                    if one.value and one.unit
                    else f"is {low:.2g} to {high:.2g}",
                    one.origin or "rows",
                ]
            )
    heads = ["profile", "figure", "told by"], ["value", f"{LEVEL:.0%} interval, times"]
    ordered = [[name, key, origin, value, spread] for name, key, value, spread, origin in rows]
    return FigureTable("Calibrated figures", *heads, ordered)


def _predicted(fit: ComputingFit) -> FigureTable:
    rows = [
        [
            fit.devices[one.thing],
            fit.subjects[one.subject],
            f"{one.line}",
            f"{one.measured:.4g}",
            f"{one.predicted:.4g}",
            f"{one.predicted / one.measured:.2f}",
            f"{one.low:.3g} to {one.high:.3g}" + ("" if one.is_inside else " (outside)"),
            ", ".join(one.missing) or "-",
        ]
        for one in fit.held_out
    ]
    figures = ["line", "seconds", "predicted", "ratio", f"{LEVEL:.0%} interval", "not in rows"]
    return FigureTable("Each model left out in turn", ["device", "model"], figures, rows)
