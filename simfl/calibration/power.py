"""Fits power draw of devices: idle, and while training.

They are fitted separately: how much watts differ between models says nothing about the error of
idle power, and vice versa.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simfl.calibration.computing import subjects_of
from simfl.calibration.measurements import Measurements
from simfl.calibration.plausible import refuse_implausible
from simfl.calibration.posterior import CHAINS, DEGREES, Posterior, posterior
from simfl.calibration.terms import Prior, Rows, Term, sigma
from simfl.calibration.twins import Figure
from simfl.common.arrays import FloatArray
from simfl.streams import Streams
from simfl.system.device import Device

IDLE = Term("idle", "power_idle_w", "W", per_unit=True)
ACTIVE = Term("active", "processor.power_active_w", "W", per_unit=True)
"""Watts of the whole device."""
FACTOR = 3.0
"""Spread of idle power and of the added power while training, around the base's, as a factor."""
METER = 0.05, 0.5
"""Scatter of a wattmeter's readings of one state, and its spread."""
MODELS = 0.12, 0.7
"""The same for models on one device: 4 to 38 % with 90 %. Boards draw nearly the same power for all
models, graphics processors do not.
"""
LEAST_W = 0.01
"""Lower limit of a base's idle power, and of what training adds to it."""


def power_figures(
    measured: Measurements, devices: Mapping[str, Device], clocks: Mapping[str, float | None]
) -> dict[str, list[Figure]]:
    """Idle power of every device with measured watts, and power of the whole device while it trains
    a model that was not measured.

    `devices` are the bases; `clocks` are those for which the twins' watts hold, None being the
    highest. What was not measured is taken from the base: the power that training adds to idle
    power, or the share of idle power. Raises ScenarioError with the line of a row that cannot be
    right.
    """
    draws = measured.draws
    names = list(dict.fromkeys(one.device for one in draws))
    if not names:
        return {}
    rows = Rows(
        np.array([one.line for one in draws]),
        np.array([names.index(one.device) for one in draws]),
        np.array(_drawn_by(measured)),
        np.ones((len(draws), 1)),
        np.array([one.watts for one in draws]),
    )
    trains = np.array([one.state == "train" for one in draws])
    idle_w = np.array([max(devices[name].power_idle_w, LEAST_W) for name in names])
    added_w = np.array([max(_added_w(devices[name], clocks[name]), LEAST_W) for name in names])
    rng = Streams(0).generator("calibration.power")
    fits = []
    for term, chosen, base_w, scatter in (
        (IDLE, ~trains, idle_w, METER),
        (ACTIVE, trains, idle_w + added_w, MODELS),
    ):
        belief = sigma(FACTOR) ** 2 * np.eye(len(names))
        prior = Prior((term,), np.log(base_w)[:, None], belief, *scatter)
        bases = [devices[name].name for name in names]
        refuse_implausible(str(measured.path), "watts", rows.only(chosen), prior, bases)
        fits.append(posterior(rows.only(chosen), prior, rng))
    return {
        name: _figures(
            fits[0] if place in rows.thing[~trains] else None,
            fits[1] if place in rows.thing[trains] else None,
            place,
            (idle_w[place], added_w[place]),
            rng,
        )
        for place, name in enumerate(names)
    }


def _figures(
    idle: Posterior | None,
    active: Posterior | None,
    place: int,
    base_w: tuple[float, float],
    rng: np.random.Generator,
) -> list[Figure]:
    """The figures of the device at index `place` of the fits; a fit is None if it has no such rows.

    `base_w` are the base's idle power and what training adds. The first element of each array is
    the best value, followed by the draws.
    """
    spread = np.append(1.0, np.exp(sigma(FACTOR) * rng.standard_normal(CHAINS)))
    base_idle_w, base_added_w = base_w
    if active is None:
        assert idle is not None
        idle_w = _fitted(idle, place)
        active_w = idle_w + base_added_w * spread
    else:
        training_w = _fitted(active, place)
        error = active.scatter * rng.standard_t(DEGREES, CHAINS)
        if idle is None:
            idle_w = training_w / (1.0 + base_added_w / base_idle_w * spread)
        else:
            idle_w = _fitted(idle, place)
        active_w = np.maximum(training_w * np.exp(np.append(0.0, error)), idle_w + LEAST_W)
    return [
        Figure(term.key, term.unit, float(its[0]), its[1:], "" if fit else "the base's")
        for term, its, fit in ((IDLE, idle_w, idle), (ACTIVE, active_w, active))
    ]


def _fitted(fit: Posterior, place: int) -> FloatArray:
    """A device's watts: the best fit's, followed by the draws'."""
    return np.append(fit.figures(place), fit.drawn_figures(place))


def _added_w(device: Device, clock_hz: float | None) -> float:
    """The power that training adds to a device's idle power."""
    cost = device.processor.compute(1e6, clock_hz or device.processor.frequency_max_hz)
    return float((cost.dynamic_j + cost.static_j) / cost.duration_s)


def _drawn_by(measured: Measurements) -> list[int]:
    """What caused each row's watts, by number: a trained model, or else the row itself."""
    trained = dict(
        zip(
            (one.line for one in measured.computations),
            subjects_of(measured.computations),
            strict=True,
        )
    )
    whose: list[str | int] = [trained.get(one.line, one.line) for one in measured.draws]
    numbers = {one: number for number, one in enumerate(dict.fromkeys(whose))}
    return [numbers[one] for one in whose]
