"""Fits power draw of devices: idle, and while training.

Each is fitted by itself: how much watts differ from model to model says nothing of how far idle
ones are off, and the other way round. An accelerator's training has two: while it computes, and
during the fixed time of a step, in which it may wait for its host. A CPU's falls with its clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from simfl.calibration.clock_power import METER, ClockPower, at_clock, clock_powers
from simfl.calibration.computing import subjects_of
from simfl.calibration.held_out import LEAST_SHARE
from simfl.calibration.measurements import Measurements
from simfl.calibration.plausible import refuse_implausible
from simfl.calibration.posterior import CHAINS, DEGREES, Posterior, generator, posterior
from simfl.calibration.terms import Prior, Rows, Term, sigma
from simfl.calibration.twins import Figure
from simfl.calibration.works import model_part
from simfl.common.arrays import FloatArray
from simfl.system.accelerator import Accelerator
from simfl.system.device import Device

IDLE = Term("idle", "power_idle_w", "W", per_unit=True)
ACTIVE = Term("active", "processor.power_active_w", "W", per_unit=True)
"""Of the whole device."""
WAITING = Term("waiting", "processor.stall_utilization", "", per_unit=True)
"""Of the whole device in the fixed time of steps; the figure is the share beyond idle power."""
STATIC = "processor.power_static_w"
FACTOR = 3.0
"""Spread of idle power, and of what training adds to it, around the base profile's."""
MODELS = 0.12, 0.7
"""The same of models that keep one device as busy as each other: 4 to 38 % with 90 %."""
AS_BUSY = 0.5
"""How likely a model that was not measured keeps an accelerator as busy as those that were. Else it
may be anything, most likely nearly idle or nearly as busy (the arcsine law): networks on graphics
processors draw from a sixth of the watts of others up to as much (docs/decisions.md)."""
LEAST_W = 0.01
"""Of a base's idle power, and of what training adds to it."""


def power_figures(
    measured: Measurements,
    devices: Mapping[str, Device],
    clocks: Mapping[str, float | None],
    fixed: Mapping[int, float],
    model: str | None = None,
) -> dict[str, list[Figure]]:
    """Idle power of every device that has watts, and that of the whole device while it trains a
    model that was not measured; of accelerators whose rows tell it also their stall utilization,
    of CPUs with training watts their static power.

    `devices` are the bases, `clocks` those that the twins' watts hold for, None the highest;
    `fixed` is the share of a row's seconds, by its line, that is the fixed time of steps and
    trainings. Of what was not measured the base's watts are believed: what training adds to idle
    power, or the share that idle power has. With a `model`, training is that of this model, if its
    watts were measured on every device whose watts were. Raises ScenarioError with the line of a
    row that cannot be right.
    """
    its_rows = None if model is None else _rows_of(measured, model)
    if its_rows is not None:
        measured = its_rows
    draws = measured.draws
    names = list(dict.fromkeys(one.device for one in draws))
    if not names:
        return {}
    trains = np.array([one.state == "train" for one in draws])
    accelerates = [isinstance(devices[name].processor, Accelerator) for name in names]
    thing = np.array([names.index(one.device) for one in draws])
    waits = np.array([fixed.get(one.line, 0.0) for one in draws])
    waits *= trains & np.array(accelerates)[thing]
    tells = []
    for place in range(len(names)):
        own = waits[trains & (thing == place)]
        # Of one model, steps of one size have a mean that is as good: only other sizes tell both.
        least = own.min(initial=1.0) if its_rows is not None else 0.0
        tells.append(bool(own.max(initial=0.0) - least >= LEAST_SHARE))
    waits *= np.array(tells)[thing]
    rows = Rows(
        np.array([one.line for one in draws]),
        thing,
        np.array(_drawn_by(measured)),
        np.stack([1.0 - waits, waits], axis=1),
        np.array([one.watts for one in draws]),
    )
    idle_w = np.array([max(devices[name].power_idle_w, LEAST_W) for name in names])
    added_w = np.array([max(devices[name].computing_w(clocks[name]), LEAST_W) for name in names])
    falls = clock_powers(measured, devices)
    for row, one in enumerate(draws):
        rows.amounts[row] *= at_clock(falls, one, devices[one.device], clocks[one.device])
    rng = generator("power", names)
    active_w = idle_w + added_w
    waiting_w = np.sqrt(idle_w * active_w)
    fits = []
    for terms, chosen, base_w, scatter in (
        ((IDLE,), ~trains, [idle_w], METER),
        (
            (ACTIVE, WAITING)[: 1 + any(tells)],
            trains,
            [active_w, waiting_w],
            MODELS if its_rows is None else METER,
        ),
    ):
        count = len(terms)
        belief = sigma(FACTOR) ** 2 * np.eye(len(names) * count)
        prior = Prior(terms, np.log(base_w[:count]).T, belief, *scatter)
        bases = [devices[name].name for name in names]
        own = replace(rows.only(chosen), amounts=rows.amounts[chosen, :count])
        refuse_implausible(str(measured.path), "watts", own, prior, bases)
        fits.append(posterior(own, prior, rng))
    found = {
        name: _figures(
            fits[0] if place in thing[~trains] else None,
            fits[1] if place in thing[trains] else None,
            place,
            (idle_w[place], added_w[place]),
            tells[place],
            accelerates[place] and its_rows is None,
            rng,
        )
        for place, name in enumerate(names)
    }
    for name, fall in falls.items():
        idle, active = found[name]
        found[name].append(_static(fall, idle, active, clocks[name]))
    return found


def _figures(
    idle: Posterior | None,
    active: Posterior | None,
    place: int,
    base_w: tuple[float, float],
    tells: bool,
    may_wait_more: bool,
    rng: np.random.Generator,
) -> list[Figure]:
    """The figures of the device at `place` of the fits, None where it has no such rows.

    `base_w` are the base's idle power and what training adds; `tells` says whether rows tell what
    an accelerator draws while it waits, `may_wait_more` whether the model that will train may keep
    it less busy than the measured ones. First of each array is the best value, then draws come.
    """
    spread = np.append(1.0, np.exp(sigma(FACTOR) * rng.standard_normal(CHAINS)))
    base_idle_w, base_added_w = base_w
    waiting: list[Figure] = []
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
        if tells and idle is None:
            idle_w = np.minimum(idle_w, _fitted(active, place, 1))
        active_w = np.maximum(training_w * np.exp(np.append(0.0, error)), idle_w + LEAST_W)
        is_as_busy, another = np.full(CHAINS + 1, True), np.ones(CHAINS + 1)
        if may_wait_more:
            is_as_busy[1:] = rng.random(CHAINS) < AS_BUSY
            another[1:] = rng.beta(0.5, 0.5, CHAINS)
        if tells:
            beyond_w = np.maximum(training_w - idle_w, LEAST_W)
            share = np.clip((_fitted(active, place, 1) - idle_w) / beyond_w, 0.0, 1.0)
            share = np.where(is_as_busy, share, another)
            waiting = [Figure(WAITING.key, WAITING.unit, float(share[0]), share[1:])]
        elif may_wait_more:
            active_w = idle_w + np.where(is_as_busy, 1.0, another) * (active_w - idle_w)
    return [
        *(
            Figure(term.key, term.unit, float(its[0]), its[1:], "" if fit else "the base's")
            for term, its, fit in ((IDLE, idle_w, idle), (ACTIVE, active_w, active))
        ),
        *waiting,
    ]


def _static(fall: ClockPower, idle: Figure, active: Figure, clock_hz: float | None) -> Figure:
    """Static power of a CPU whose idle and active watts these are at a clock, None the highest."""
    at_hz = clock_hz or fall.processor.frequency_max_hz
    added_w = np.append(active.value - idle.value, active.draws - idle.draws)
    static_w = fall.static_w(added_w, at_hz)
    return Figure(STATIC, "W", float(static_w[0]), static_w[1:], fall.origin)


def _rows_of(measured: Measurements, model: str) -> Measurements | None:
    """Without the watts of other models; None if a device has training watts, but none of this one.

    Watts without a model are taken for those of the one that is asked for.
    """
    trained = {one.line: one.model for one in measured.computations}
    part = model_part(model)
    kept = [
        one
        for one in measured.draws
        if one.state != "train" or model_part(trained.get(one.line) or model) == part
    ]
    training = [
        {one.device for one in which if one.state == "train"} for which in (measured.draws, kept)
    ]
    return replace(measured, draws=kept) if training[0] == training[1] else None


def _fitted(fit: Posterior, place: int, term: int = 0) -> FloatArray:
    """A device's watts of a term: the best fit's, then the draws'."""
    return np.append(fit.figures(place)[term], fit.drawn_figures(place)[:, term])


def _drawn_by(measured: Measurements) -> list[int]:
    """What drew each row's watts, by number, so that rows of one subject share most of their error.

    That is a model that was trained; an idle device, as one meter shows it; or else the row itself.
    """
    trained = dict(
        zip(
            (one.line for one in measured.computations),
            subjects_of(measured.computations),
            strict=True,
        )
    )
    whose: list[str | int | tuple[str, str]] = [
        (one.device, one.meter or "") if one.state == "idle" else trained.get(one.line, one.line)
        for one in measured.draws
    ]
    numbers = {one: number for number, one in enumerate(dict.fromkeys(whose))}
    return [numbers[one] for one in whose]
