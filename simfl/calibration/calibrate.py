"""Calibrates profiles: measured rows and base profiles give profiles with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from simfl.calibration.clock_power import ALIKE_HZ, clock_of, is_sweep, training_draws
from simfl.calibration.computing import (
    UNUSED,
    WORK_KEYS,
    ComputingFit,
    fit_computing,
    slower_at,
)
from simfl.calibration.doubts import about_base, about_fit, about_watts
from simfl.calibration.held_out import told_terms
from simfl.calibration.links import LINK_TERMS, link_prior, transfer_amounts
from simfl.calibration.machines import TERMS, TRAINING
from simfl.calibration.measurements import Measurements, read_measurements
from simfl.calibration.plausible import refuse_implausible_transfer
from simfl.calibration.posterior import CHAINS, Posterior, best_shares, generator, posterior
from simfl.calibration.power import WAITING, power_figures
from simfl.calibration.terms import Rows
from simfl.calibration.twins import Figure, Twin
from simfl.calibration.works import model_part, works
from simfl.common.model_work import KINDS, ModelWork
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.accelerator import Accelerator
from simfl.system.catalogue import Catalogue, Profile
from simfl.system.cpu import Cpu
from simfl.system.device import Device
from simfl.system.link import FixedRateLink
from simfl.system.uncertainty import Calibrated

PARTIAL = ("RAPL", "NVML")
"""How the names of meters begin that see only a part of a device."""
IDLE_ABOVE = 1.2
"""Idle watts above this multiple of the training watts cannot be right, even if readings
scatter.
"""


@dataclass(frozen=True, eq=False)
class Calibration:
    """The result of a file of measurements.

    `rated`: devices with computations whose base profile has rates by kind of work, with that
    base's name. `meters`: what measured each device's watts while idle, and while training; empty
    if no row says. `doubts`: rows that are far from their base or from the fit, one line each.
    """

    path: Path
    twins: Sequence[Twin]
    computing: ComputingFit | None
    rated: Mapping[str, str]
    meters: Mapping[str, tuple[set[str], set[str]]]
    doubts: Sequence[str] = ()

    @property
    def warnings(self) -> list[str]:
        """Doubtful points, one line each: rows that are far from what is likely, bases that may be
        derived from the same rows, meters that do not see a whole device or not the same part of
        it, and figures that no row determines.
        """
        known = [
            f"{device}: its base {base} has rates by kind of work; where these come from the same"
            " rows, what is left out is predicted from itself"
            for device, base in self.rated.items()
        ]
        for device, (idle, training) in self.meters.items():
            if idle and training and idle != training:
                known.append(
                    f"{device}: {', '.join(sorted(idle))} read its watts while idle,"
                    f" {', '.join(sorted(training))} while training; the difference of two meters"
                    " is what training costs"
                )
            known += [
                f"{device}: its watts are those of {meter}; simulated joules are taken for the"
                " whole device's"
                for meter in sorted(idle | training)
                if meter.startswith(PARTIAL)
            ]
        return [*self.doubts, *known] + [
            f"{twin.name}: no row tells {one.key}; {one.value:.3g} {one.unit}"
            f" ({one.interval[0]:.2g} to {one.interval[1]:.2g}) is {one.origin}"
            for twin in self.twins
            for one in twin.figures
            if one.origin and not one.origin.startswith(UNUSED)
        ]


def calibrate(
    path: Path,
    bases: Sequence[str] = (),
    base_link: str = "wifi5_ac",
    folders: Sequence[Path] = (),
    for_model: str | None = None,
) -> Calibration:
    """Calibrated profiles of all devices and links that have rows in the file.

    `bases` are profiles to begin from: NAME for every device without a profile of its own name, or
    DEVICE=NAME. `folders` hold profiles of one's own. With `for_model`, one that the rows train,
    the profiles are for this model alone: their seconds are those that were measured of it. Raises
    ScenarioError for rows that are wrong.
    """
    measured, catalogue = read_measurements(path), Catalogue(folders)
    for one in measured.transfers:
        if one.link in measured.devices:
            raise measured.wrong(one.line, "link", one.link, "a name that no device has")
    profiles = _bases(measured, bases, catalogue)
    devices = {name: catalogue.device(one.name) for name, one in profiles.items()}
    _refuse_clocks(measured, devices)
    _refuse_idle(measured)
    counted = works(measured)
    computing = fit_computing(measured, counted, devices)
    if for_model is not None:
        _refuse_unmeasured(measured, computing, for_model)
    clocks = {
        name: _clock(measured, devices[name], profiles[name], name, name in _computed(computing))
        for name in measured.devices
    }
    of_devices = _device_twins(measured, profiles, devices, clocks, computing, counted, for_model)
    of_links, doubts = _link_twins(measured, catalogue, base_link)
    twins = [*of_devices, *of_links]
    doubts += about_watts(measured, devices, clocks, of_devices)
    if computing is not None:
        names = computing.devices
        bases_of = [profiles[name].name for name in names]
        doubts += about_base(computing.rows, computing.fit, names, bases_of)
        doubts += about_fit(computing.rows, computing.fit, names)
    keys = {term.key for term in TERMS}
    rated = {
        name: profiles[name].name
        for name in _computed(computing)
        if keys & set(profiles[name].figures())
    }
    return Calibration(path, twins, computing, rated, _meters(measured), doubts)


def _computed(computing: ComputingFit | None) -> Sequence[str]:
    """The devices that have rows of computations."""
    return () if computing is None else computing.devices


def _meters(measured: Measurements) -> dict[str, tuple[set[str], set[str]]]:
    """The meters that measured each device's watts, while idle and while training."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for one in measured.draws:
        idle, training = found.setdefault(one.device, (set(), set()))
        if one.meter:
            (idle if one.state == "idle" else training).add(one.meter)
    return found


def _bases(
    measured: Measurements, bases: Sequence[str], catalogue: Catalogue
) -> dict[str, Profile]:
    """Each device's base profile."""
    given = dict(one.rpartition("=")[::2] for one in bases)
    first = {one.device: one.line for one in reversed(measured.on_devices)}
    for name in given:
        if name and name not in first:
            accepted = f"one of the file's devices: {', '.join(first)}"
            raise ScenarioError(str(measured.path), None, "--base", name, accepted)
    found = {}
    for name, line in first.items():
        own = name if catalogue.holds("device", name) else given.get("")
        chosen = given.get(name, own)
        if chosen is None:
            message = f"no profile is called {name!r}; accepted: --base {name}=PROFILE, one like it"
            raise measured.wrong(line, "device", name, "", message)
        found[name] = catalogue.profile("device", chosen)
    return found


def _refuse_clocks(measured: Measurements, devices: Mapping[str, Device]) -> None:
    for one in measured.on_devices:
        processor = devices[one.device].processor
        low, high = processor.frequency_min_hz, processor.frequency_max_hz
        if one.clock_hz is not None and not low / ALIKE_HZ <= one.clock_hz <= high * ALIKE_HZ:
            accepted = f"{low:g} to {high:g}, the clocks of {devices[one.device].name}"
            raise measured.wrong(one.line, "clock_hz", one.clock_hz, accepted)


def _refuse_idle(measured: Measurements) -> None:
    """Raises ScenarioError for a device that draws more power when idle than when training."""
    for name in measured.devices:
        idle, training = (
            [one for one in measured.draws if one.device == name and one.state == state]
            for state in ("idle", "train")
        )
        if not idle or not training:
            continue
        idle_w, active_w = (median(one.watts for one in its) for its in (idle, training))
        if idle_w > IDLE_ABOVE * active_w:
            first = training[0]
            accepted = (
                f"less while idle than the {active_w:.4g} of training (line {first.line}),"
                " by one meter"
            )
            message = f"found {idle_w:.4g} while idle, accepted: {accepted}"
            raise measured.wrong(idle[0].line, "watts", idle_w, accepted, message)


def _refuse_unmeasured(measured: Measurements, computing: ComputingFit | None, model: str) -> None:
    """Raises ScenarioError where a device that computed has no row of the model."""
    try:
        model_part(model)
    except ValueError as error:
        accepted = str(error).removeprefix("accepted: ")
        raise ScenarioError(str(measured.path), None, "--for", model, accepted) from error
    devices = _computed(computing)
    lacking = [
        name
        for place, name in enumerate(devices)
        if computing is not None and not computing.measures(place, model)
    ]
    if lacking or computing is None:
        models = dict.fromkeys(one.model for one in measured.computations if one.model)
        whose = f" of {', '.join(lacking)}" if lacking else ""
        accepted = f"a model that rows{whose} train" + (f": {', '.join(models)}" if models else "")
        raise ScenarioError(str(measured.path), None, "--for", model, accepted)


def _device_twins(
    measured: Measurements,
    profiles: Mapping[str, Profile],
    devices: Mapping[str, Device],
    clocks: Mapping[str, float | None],
    computing: ComputingFit | None,
    counted: Sequence[ModelWork],
    model: str | None,
) -> list[Twin]:
    fits = {name: computing if name in _computed(computing) else None for name in measured.devices}
    fixed = {} if computing is None else computing.fixed_shares()
    powers = power_figures(measured, devices, clocks, fixed, model)
    if computing is not None and model is not None:
        own = computing.of_model(model)
        fits = {name: own if one is not None else None for name, one in fits.items()}
    found = []
    for name, fitted in fits.items():
        profile, device, clock_hz = profiles[name], devices[name], clocks[name]
        figures: list[Figure] = []
        drops, sets = ["processor.measured_hz"], {}
        if clock_hz is not None:
            sets["processor.measured_hz"] = clock_hz
        calibrated, errors = None, None
        if fitted is not None:
            place = fitted.devices.index(name)
            figures += fitted.figures(place, slower_at(device, clock_hz))
            figures += _kept_fixed_time(profile, device, clock_hz, figures)
            drops += [f"processor.{key}" for key in WORK_KEYS]
            calibrated = _calibrated(measured, name, figures)
            if model is not None:
                calibrated = _for_one_model(calibrated, measured, counted, model)
            errors = fitted.errors(place)
        if name in powers:
            figures += powers[name]
            idle, active = powers[name][:2]
            drops += _replaced_powers(device, active.value - idle.interval[1])
            if model is not None and not active.origin:
                # Watts of the model's steps as a whole, unless its rows tell their parts.
                drops.append(WAITING.key)
            figures += _same_watts(device, clock_hz, idle, active)
        source = _source(measured, name)
        found.append(Twin(name, profile, figures, source, drops, sets, calibrated, errors))
    return found


def _clock(
    measured: Measurements, device: Device, profile: Profile, name: str, computed: bool
) -> float | None:
    """The clock frequency for which a twin's seconds and watts hold; None is the highest.

    It is the highest of the measured watts, or the base's if some of its figures are kept. Raises
    ScenarioError for watts at another clock, unless they tell how a CPU's fall with it.
    """
    training = training_draws(measured, name)
    processor, top_hz = profile.values["processor"], device.processor.frequency_max_hz
    clocks = [clock_of(one, device) for one in training]
    its_hz: float | None = processor.get("measured_hz")
    stays = not computed or (not training and "power_active_w" in processor)
    if its_hz is not None and stays:
        clock_hz = its_hz
    else:
        clock_hz = max(clocks, default=top_hz)
    falls = isinstance(device.processor, Cpu) and is_sweep(clocks)
    for one, hz in zip(training, clocks, strict=True):
        if not falls and is_sweep([hz, clock_hz]):
            accepted = f"{clock_hz:g} where there are watts: {_one_clock(device)}"
            raise measured.wrong(one.line, "clock_hz", hz, accepted)
    return None if clock_hz * ALIKE_HZ >= top_hz else clock_hz


def _one_clock(device: Device) -> str:
    """Why a device's watts are of one clock."""
    if isinstance(device.processor, Accelerator):
        return (
            "an accelerator's profile holds those of one; give rows of another mode another device"
        )
    return "the base's seconds or watts are of this one"


def _kept_fixed_time(
    profile: Profile, device: Device, clock_hz: float | None, fitted: Sequence[Figure]
) -> list[Figure]:
    """The base's fixed time of a training, if no row is of whole trainings, at the twin's clock."""
    key, processor = TRAINING.term.key, device.processor
    base_s = profile.values["processor"].get("seconds_per_training")
    if not base_s or key in [one.key for one in fitted]:
        return []
    base_hz = profile.values["processor"].get("measured_hz") or processor.frequency_max_hz
    seconds = base_s * base_hz / (clock_hz or processor.frequency_max_hz)
    if seconds == base_s:
        return []
    return [Figure(key, "s", seconds, np.full(CHAINS, seconds), "the base's")]


def _same_watts(
    device: Device, clock_hz: float | None, idle: Figure, active: Figure
) -> list[Figure]:
    """Further figures of an accelerator that are the same watts: its own idle power, and that of
    modes at the clock of the measured rows.
    """
    processor = device.processor
    if not isinstance(processor, Accelerator):
        return []
    top_hz = clock_hz or processor.frequency_max_hz
    modes = [
        name
        for name, mode in processor.modes.items()
        if top_hz / ALIKE_HZ <= mode.frequency_max_hz <= top_hz * ALIKE_HZ
    ]
    return [
        replace(idle, key="processor.power_idle_w"),
        *(replace(active, key=f"processor.modes.{name}.power_active_w") for name in modes),
    ]


def _replaced_powers(device: Device, added_w: float) -> list[str]:
    """Keys of a base that measured watts replace: its power law, and what contradicts the watts."""
    if isinstance(device.processor, Accelerator):
        return []
    static_w = getattr(device.processor, "power_static_w", 0.0)
    cores = getattr(device.processor, "cores", 1)
    beside = ["processor.power_static_w"] if static_w * cores >= added_w else []
    return ["processor.kappa", "processor.power_table", *beside]


def _calibrated(measured: Measurements, name: str, figures: Sequence[Figure]) -> Calibrated:
    own = [one for one in measured.computations if one.device == name]
    batches = [one.batch_size for one in own]
    clocks = [one.clock_hz for one in own]
    told = {figure.key for figure in figures if not figure.origin}
    known = [hz for hz in clocks if hz is not None]
    return Calibrated(
        len(own),
        tuple(dict.fromkeys(one.model for one in own if one.model)),
        tuple(term.name for term in TERMS if term.name in KINDS and term.key in told),
        (min(batches), max(batches)),
        (min(known), max(known)) if len(known) == len(clocks) else None,
    )


def _for_one_model(
    calibrated: Calibrated, measured: Measurements, counted: Sequence[ModelWork], model: str
) -> Calibrated:
    """The same, for one of the models that were measured."""
    part = model_part(model)
    flops = [
        work.forward_flops
        for one, work in zip(measured.computations, counted, strict=True)
        if one.model and model_part(one.model) == part
    ]
    return replace(calibrated, only=model, forward_flops=(min(flops), max(flops)))


def _source(measured: Measurements, name: str) -> str:
    """Where the figures come from, as text."""
    computed = sum(one.device == name for one in measured.computations)
    draws = [one for one in measured.draws if one.device == name]
    meters = sorted({one.meter for one in draws if one.meter})
    parts = [f"{computed} rows of seconds"] if computed else []
    if draws:
        parts.append(f"{len(draws)} of watts" + (f" ({', '.join(meters)})" if meters else ""))
    return f"measured, {' and '.join(parts)} in {measured.path.name}"


def _link_twins(
    measured: Measurements, catalogue: Catalogue, base: str
) -> tuple[list[Twin], list[str]]:
    """A calibrated profile of each link that was measured, and doubts about its rows."""
    transfers = measured.transfers
    if not transfers:
        return [], []
    profile, link = catalogue.profile("link", base), catalogue.link(base)
    if not isinstance(link, FixedRateLink):
        accepted = "a link of the model fixed_rate"
        raise ScenarioError(str(measured.path), None, "--base-link", base, accepted)
    names = list(dict.fromkeys(one.link for one in transfers))
    ways = [
        transfer_amounts(one.bytes, one.direction == "up", link.duty_cycle) for one in transfers
    ]
    rows = Rows(
        np.array([one.line for one in transfers]),
        np.array([names.index(one.link) for one in transfers]),
        np.array(_alike(measured)),
        np.array(ways),
        np.array([one.seconds for one in transfers]),
    )
    prior = link_prior(len(names), link)
    sent_bytes = np.array([one.bytes for one in transfers])
    refuse_implausible_transfer(str(measured.path), sent_bytes, rows, prior, base)
    small = best_shares(rows, prior)[:, -1] > 0.5
    rows = replace(rows, subject=np.array(_alike(measured, small.tolist())))
    fit = posterior(rows, prior, generator("links", names))
    twins = [
        _link_twin(measured, name, place, fit, rows, profile) for place, name in enumerate(names)
    ]
    return twins, about_fit(rows, fit, names)


def _alike(measured: Measurements, small: Sequence[bool] | None = None) -> list[int]:
    """What transfers share, by number: in one direction of a link its place, signal and traffic.

    `small` ones, which take most of their time for the round trip, share this instead.
    """
    sizes = small or [False] * len(measured.transfers)
    links = [
        (one.link, "" if its else one.direction)
        for one, its in zip(measured.transfers, sizes, strict=True)
    ]
    numbers = {one: number for number, one in enumerate(dict.fromkeys(links))}
    return [numbers[one] for one in links]


def _link_twin(
    measured: Measurements, name: str, place: int, fit: Posterior, rows: Rows, profile: Profile
) -> Twin:
    best, drawn, told = fit.figures(place), fit.drawn_figures(place), told_terms(rows, fit, place)
    figures = [
        Figure(
            term.key,
            term.unit,
            float(best[column]),
            drawn[:, column],
            "" if told[column] else f"from {profile.name}",
        )
        for column, term in enumerate(LINK_TERMS)
    ]
    count = int((rows.thing == place).sum())
    return Twin(name, profile, figures, f"measured, {count} transfers in {measured.path.name}")
