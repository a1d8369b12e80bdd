"""Doubts about measured rows that nothing refuses: far from their base, or from their own fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from simfl.calibration.clock_power import at_clock, clock_of, clock_powers
from simfl.calibration.measurements import Draw, Measurements
from simfl.calibration.posterior import Posterior
from simfl.calibration.power import ACTIVE, IDLE, LEAST_W
from simfl.calibration.terms import Rows
from simfl.calibration.twins import Twin
from simfl.common.arrays import FloatArray
from simfl.system.accelerator import Accelerator
from simfl.system.device import Device

UNLIKE_BASE = 4.0
"""A device whose rows are typically this many times its base's is rather another one, or the rows
have another unit or count.
"""
UNLIKE_FIT = 1.5
"""A row that is off its fit by more was taken for an outlier, or lost against the base."""
COSTS_NOTHING = 1.05
"""Training watts below this multiple of the idle ones make training nearly free."""
MOST_LINES = 3
"""How many rows a doubt names."""


def about_base(rows: Rows, fit: Posterior, names: Sequence[str], bases: Sequence[str]) -> list[str]:
    """One line per device whose seconds are typically far from those that its base makes likely."""
    ratio = rows.measured / fit.prior.expected(rows)
    found = [
        _unlike_base(name, "seconds", float(np.median(ratio[rows.thing == place])), bases[place])
        for place, name in enumerate(names)
    ]
    return [one for one in found if one]


def about_fit(rows: Rows, fit: Posterior, names: Sequence[str]) -> list[str]:
    """One line per device or link some of whose rows of seconds are far from the fit to them."""
    fitted: FloatArray = (rows.amounts * np.exp(fit.logs[rows.thing])).sum(1)
    found = []
    for place, name in enumerate(names):
        own = rows.thing == place
        its = zip(
            rows.line[own].tolist(), rows.measured[own].tolist(), fitted[own].tolist(), strict=True
        )
        found.append(_unlike_fit(name, "seconds", list(its)))
    return [one for one in found if one]


def about_watts(
    measured: Measurements,
    devices: Mapping[str, Device],
    clocks: Mapping[str, float | None],
    twins: Sequence[Twin],
) -> Iterator[str]:
    """Watts far from a base's or from the profile's, and training that costs next to nothing.

    An accelerator's training watts differ by how much it waits, so that single rows tell nothing.
    """
    falls = clock_powers(measured, devices)
    for twin in twins:
        device = devices[twin.name]
        figures = {one.key: one for one in twin.figures}
        rows = {
            state: [one for one in measured.draws if (one.device, one.state) == (twin.name, state)]
            for state in ("idle", "train")
        }
        for state, key in (("idle", IDLE.key), ("train", ACTIVE.key)):
            if not rows[state]:
                continue
            ratio = median(one.watts / _base_w(device, one) for one in rows[state])
            if said := _unlike_base(twin.name, f"watts ({state})", ratio, device.name):
                yield said
            if state == "train" and isinstance(device.processor, Accelerator):
                continue
            its = [
                (
                    one.line,
                    one.watts,
                    figures[key].value * at_clock(falls, one, device, clocks[twin.name]),
                )
                for one in rows[state]
            ]
            if said := _unlike_fit(twin.name, f"watts ({state})", its):
                yield said
        if rows["idle"] and rows["train"]:
            idle_w, active_w = figures[IDLE.key].value, figures[ACTIVE.key].value
            if active_w < COSTS_NOTHING * idle_w:
                yield (
                    f"{twin.name}: training draws {active_w:.3g} W and idling {idle_w:.3g} W, so"
                    " training costs next to no energy; are both the whole device's, by one meter?"
                )


def _base_w(base: Device, row: Draw) -> float:
    """What a base draws in the state and at the clock of a row."""
    idle_w = max(base.power_idle_w, LEAST_W)
    if row.state == "idle":
        return idle_w
    return idle_w + max(base.computing_w(clock_of(row, base)), LEAST_W)


def _unlike_base(name: str, column: str, ratio: float, base: str) -> str:
    if 1 / UNLIKE_BASE <= ratio <= UNLIKE_BASE:
        return ""
    return (
        f"{name}: its {column} are typically {ratio:.2g} times those of {base}; check units and"
        " counts, or take a base that is nearer"
    )


def _unlike_fit(name: str, column: str, rows: Sequence[tuple[int, float, float]]) -> str:
    """`rows`: line, measured, fitted."""
    off = [one for one in rows if not 1 / UNLIKE_FIT <= one[1] / one[2] <= UNLIKE_FIT]
    if not off:
        return ""
    worst = sorted(off, key=lambda one: -abs(np.log(one[1] / one[2])))[:MOST_LINES]
    lines = ", ".join(f"line {line}: {was:.3g}, fitted {fits:.3g}" for line, was, fits in worst)
    return (
        f"{name}: {len(off)} of {len(rows)} rows of {column} are more than {UNLIKE_FIT:g} times off"
        f" the fit ({lines}); they count as outliers, or the base outweighs them"
    )
