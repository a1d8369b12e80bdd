"""How the watts of a training CPU fall with its clock: the share of them that does not.

At a fraction x of a reference clock, training adds to idle power

    added(x) / added(1) = s + (1 - s) x^exponent

times the cores that draw power (`Cpu.powered_cores`), where s is the share of static power. Watts
of one model at several clocks tell s, whatever the model draws at the reference clock. Where none
do, it is the base's, or typical of cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy import stats

from simfl.calibration.computing import subjects_of
from simfl.calibration.measurements import Draw, Measurements
from simfl.calibration.posterior import CHAINS, DEGREES, generator
from simfl.calibration.terms import sigma
from simfl.common.arrays import FloatArray, IntArray
from simfl.system.cpu import Cpu
from simfl.system.device import Device

ALIKE_HZ = 1.01
"""Clock frequencies within this factor count as equal."""
TYPICAL_SHARE, SHARE_FACTOR = 0.15, 3.0
"""Static share at the highest clock, and its spread: the measured tables of cores of two phones
(phone_high_sd865, phone_flagship_sd8plus_gen1) have 0.16 and 0.15.
"""
METER = 0.05, 0.5
"""Scatter of a wattmeter's readings of one state, and the spread of that."""
COUNTS = "and counts below the measured clock alone"
_SHARES = np.geomspace(1e-3, 0.99, 400)
_SCATTERS = METER[0] * np.exp(METER[1] * np.linspace(-3.0, 3.0, 25))


@dataclass(frozen=True, eq=False)
class ClockPower:
    """A CPU's static share at `reference_hz`: the best value, and draws (CHAINS).

    `idle_share` is that of idle power in the whole device's watts at the reference clock. `origin`
    is empty if rows determine the static share; otherwise it says what it rests on.
    """

    processor: Cpu
    reference_hz: float
    idle_share: float
    share: float
    draws: FloatArray
    origin: str

    def watts(self, clock_hz: float, at_hz: float) -> float:
        """Watts of the whole training device at a clock, as a multiple of those `at_hz`."""
        its, others = (
            self.idle_share + (1.0 - self.idle_share) * self._added(hz, np.array(self.share))
            for hz in (clock_hz, at_hz)
        )
        return float(its / others)

    def static_w(self, added_w: FloatArray, clock_hz: float) -> FloatArray:
        """Static watts per core, of the best value and the draws (1 + CHAINS).

        `added_w` is what training adds to idle power at a clock.
        """
        shares = np.append(self.share, self.draws)
        at_reference_w = added_w / self._added(clock_hz, shares)
        static_w: FloatArray = (
            shares * at_reference_w / self.processor.powered_cores(self.reference_hz)
        )
        return static_w

    def _added(self, clock_hz: float, shares: FloatArray) -> FloatArray:
        return _added(self.processor, self.reference_hz, clock_hz, shares)


def clock_powers(measured: Measurements, devices: Mapping[str, Device]) -> dict[str, ClockPower]:
    """The static share of each device with training watts whose base is a CPU, by its name."""
    subjects = subjects_of(measured.computations)
    load_of = {one.line: its for one, its in zip(measured.computations, subjects, strict=True)}
    found = {}
    for name in measured.devices:
        device, rows = devices[name], training_draws(measured, name)
        if not rows or not isinstance(device.processor, Cpu):
            continue
        clocks_hz = np.array([clock_of(one, device) for one in rows])
        watts = np.array([one.watts for one in rows])
        highest_w = float(np.median(watts[clocks_hz * ALIKE_HZ >= clocks_hz.max()]))
        idle = [one.watts for one in measured.draws if (one.device, one.state) == (name, "idle")]
        if idle:
            idle_share = min(median(idle) / highest_w, 0.99)
        else:
            base_w = device.power_idle_w + device.computing_w(float(clocks_hz.max()))
            idle_share = device.power_idle_w / base_w if base_w else 0.0
        # Rows that do not say what was trained are taken for one load.
        loads = [load_of.get(one.line, "") for one in rows]
        found[name] = _clock_power(
            device.processor,
            clocks_hz,
            watts,
            np.array([loads.index(one) for one in loads]),
            idle_share,
            generator("clocks", [name]),
        )
    return found


def training_draws(measured: Measurements, device: str) -> list[Draw]:
    """A device's watts while it trains."""
    return [one for one in measured.draws if (one.device, one.state) == (device, "train")]


def clock_of(row: Draw, device: Device) -> float:
    """The clock of a row, by default the highest."""
    return row.clock_hz or device.processor.frequency_max_hz


def at_clock(
    falls: Mapping[str, ClockPower], row: Draw, device: Device, clock_hz: float | None
) -> float:
    """A row's watts as a multiple of those at its device's clock, None the highest.

    1 unless a CPU was training.
    """
    if row.state != "train" or row.device not in falls:
        return 1.0
    at_hz = clock_hz or device.processor.frequency_max_hz
    return falls[row.device].watts(clock_of(row, device), at_hz)


def is_sweep(clocks_hz: FloatArray | Sequence[float]) -> bool:
    """Whether there are several clocks."""
    return len(clocks_hz) > 0 and bool(max(clocks_hz) > ALIKE_HZ * min(clocks_hz))


def _clock_power(
    processor: Cpu,
    clocks_hz: FloatArray,
    watts: FloatArray,
    loads: IntArray,
    idle_share: float,
    rng: np.random.Generator,
) -> ClockPower:
    """The static share that rows tell (clocks, watts and what was trained, by its number)."""
    reference_hz = float(clocks_hz.max())
    expected, origin = _expected(processor, reference_hz)
    log_density = stats.norm.logpdf(np.log(_SHARES), np.log(expected), sigma(SHARE_FACTOR))
    if any(is_sweep(clocks_hz[loads == load]) for load in np.unique(loads)):
        added = _added(processor, reference_hz, clocks_hz[:, None], _SHARES)
        errors = np.log(watts)[:, None] - np.log(idle_share + (1.0 - idle_share) * added)
        log_density = log_density + _log_likelihood(errors, loads)
        origin = ""
    density = np.exp(log_density - log_density.max())
    below = (np.cumsum(density) - density / 2.0) / density.sum()
    draws = np.exp(np.interp((np.arange(CHAINS) + 0.5) / CHAINS, below, np.log(_SHARES)))
    share = expected if origin else float(np.median(draws))
    return ClockPower(processor, reference_hz, idle_share, share, rng.permutation(draws), origin)


def _expected(processor: Cpu, reference_hz: float) -> tuple[float, str]:
    """The share before any row is read, and where it comes from."""
    cost = processor.compute(1.0, reference_hz)
    static_j, dynamic_j = float(cost.static_j), float(cost.dynamic_j)
    if static_j > 0.0 and dynamic_j > 0.0:
        return static_j / (static_j + dynamic_j), f"the base's, {COUNTS}"
    return TYPICAL_SHARE, f"typical of cores, {COUNTS}"


def _added(
    processor: Cpu, reference_hz: float, clock_hz: float | FloatArray, shares: FloatArray
) -> FloatArray:
    cores = processor.powered_cores(clock_hz) / processor.powered_cores(reference_hz)
    dynamic = (np.asarray(clock_hz) / reference_hz) ** processor.exponent
    added: FloatArray = cores * (shares + (1.0 - shares) * dynamic)
    return added


def _log_likelihood(errors: FloatArray, loads: IntArray) -> FloatArray:
    """Of each share (shares), from logarithms of measured over expected watts (rows, shares).

    Each load has a level of its own, and so one row less that tells the share.
    """
    levels = stats.norm.logpdf(np.log(_SCATTERS), np.log(METER[0]), METER[1])
    found = np.repeat(levels[:, None], errors.shape[1], axis=1)
    for load in np.unique(loads):
        own = errors[loads == load]
        away = (own - np.median(own, axis=0)) / _SCATTERS[:, None, None]
        tails = stats.t.logpdf(away, DEGREES) - np.log(_SCATTERS)[:, None, None]
        found += tails.sum(1) * (len(own) - 1) / len(own)
    total: FloatArray = np.logaddexp.reduce(found, axis=0)
    return total
