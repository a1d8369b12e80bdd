"""Regions: cost and emissions of electricity from the grid, by the hour.

Rows of the event log draw constant power. So a row's emissions are exactly its joules times the
mean intensity over its time: E / (t1 - t0) * integral of the intensity from t0 to t1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np

from simfl.common.arrays import FloatArray, IntArray
from simfl.system.series import StepSeries

JOULES_PER_KWH = 3.6e6

Steps = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Region:
    """Electricity of one place: [seconds, value] pairs from midnight, each valid until the next.

    The price is in `currency`; null is unknown.
    """

    name: str
    carbon_gco2_per_kwh: Annotated[Steps, "pairs of time in seconds and grams of CO2 equivalent"]
    price_per_kwh: Annotated[Steps | None, "pairs of time in seconds and money"] = None
    currency: str = "EUR"
    period_s: Annotated[float | None, "> 0", "seconds after which both repeat; null: never"] = (
        86400.0
    )
    sources: Mapping[str, str] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("carbon_gco2_per_kwh", "price_per_kwh"):
            try:
                self._series(getattr(self, key))
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
        least = min(grams for _, grams in self.carbon_gco2_per_kwh)
        if least < 0:
            raise ValueError(f"carbon_gco2_per_kwh: found {least:g}, accepted: grams >= 0")

    @cached_property
    def carbon(self) -> StepSeries | None:
        """Grams of CO2 equivalent per kilowatt-hour over time."""
        return self._series(self.carbon_gco2_per_kwh)

    @cached_property
    def price(self) -> StepSeries | None:
        """Money per kilowatt-hour over time; None: unknown."""
        return self._series(self.price_per_kwh)

    def _series(self, steps: Steps | None) -> StepSeries | None:
        if steps is None:
            return None
        times_s, values = [row[0] for row in steps], [row[1] for row in steps]
        return StepSeries(times_s, values, self.period_s)


@dataclass(frozen=True, eq=False)
class Electricity:
    """Which region's electricity each device uses: `regions[index]`, index over devices.

    Simulated time 0 is `start_s` seconds after midnight. Raises ValueError for prices in different
    currencies, which cannot be added up.
    """

    regions: Sequence[Region]
    index: IntArray
    start_s: float = 0.0

    def __post_init__(self) -> None:
        currencies = {one.currency for one in self.regions if one.price is not None}
        if len(currencies) > 1:
            raise ValueError(
                f"region: found prices in {' and '.join(sorted(currencies))}, accepted: regions"
                " with one currency"
            )

    def counted(
        self, device: IntArray, start_s: FloatArray, end_s: FloatArray, energy_j: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Grams of CO2 and money for joules drawn at constant power from start to end, per row.

        Money is NaN if a region's price is unknown.
        """
        grams, money = np.zeros((2, device.size))
        for number, region in enumerate(self.regions):
            own = np.flatnonzero(self.index[device] == number)
            by_clock = (self.start_s + start_s[own], self.start_s + end_s[own])
            span = (*by_clock, energy_j[own] / JOULES_PER_KWH)
            grams[own] = _weighed(region.carbon, *span)
            money[own] = _weighed(region.price, *span)
        return grams, money


def _weighed(
    series: StepSeries | None, start_s: FloatArray, end_s: FloatArray, energy_kwh: FloatArray
) -> FloatArray:
    """Kilowatt-hours times the mean of a series over their time."""
    if series is None:
        return np.full(start_s.size, np.nan)
    lasts_s = end_s - start_s
    known = lasts_s > 0
    mean = np.where(
        known,
        series.integral(start_s, end_s) / np.where(known, lasts_s, 1.0),
        series.at(start_s),
    )
    return energy_kwh * mean
