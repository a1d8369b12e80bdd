"""Fits training times: rates of each kind of work per device, from measured rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simfl.calibration.held_out import Prediction, leave_one_out, predictions, told_terms
from simfl.calibration.machines import TERM_PRIORS, TERMS, TRAINING, Base, amounts, prior_of
from simfl.calibration.measurements import Computation, Measurements
from simfl.calibration.plausible import refuse_implausible, refuse_stray
from simfl.calibration.posterior import UNLIKE, Posterior, generator, posterior
from simfl.calibration.terms import Rows
from simfl.calibration.twins import Figure
from simfl.calibration.works import model_part
from simfl.common.arrays import BoolArray, FloatArray
from simfl.common.model_work import ModelWork
from simfl.scenario.sections import Part
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.device import Device
from simfl.system.measured import MeasuredProcessor

WORK_KEYS = (
    "seconds_per_example",
    "seconds_per_batch",
    "batch_examples",
    "cycles_per_example",
    "cycles_per_bit",
)
"""Keys of a processor that cannot be combined with rates by kind of work."""
UNUSED = "not used by"
"""How the origin of a figure begins that the only model of a profile has no work for."""
ONE_MODEL = 0.05, 0.8
"""Scatter of rows of one model around its own fit, and the spread of that: within 3.7 times."""


@dataclass(frozen=True, eq=False)
class ComputingFit:
    """What rows of computations say about `devices`; `subjects` are the trained models, by
    index. `only` is the one model that it is for, None if for any.
    """

    devices: Sequence[str]
    bases: Sequence[Base]
    subjects: Sequence[str]
    rows: Rows
    fit: Posterior
    held_out: Sequence[Prediction]
    only: str | None = None

    @property
    def fitted(self) -> list[Prediction]:
        """Every row as predicted by the fit to all rows."""
        return predictions(self.rows, self.fit, self.rows)

    def fixed_shares(self) -> dict[int, float]:
        """The share of each row's seconds, by its line, that is the fixed time of its steps and
        trainings.
        """
        fixed = [term.name in ("step", "training") for term in self.fit.prior.terms]
        parts = self.rows.amounts * np.exp(self.fit.logs[self.rows.thing])
        shares = parts[:, fixed].sum(1) / parts.sum(1)
        return dict(zip(self.rows.line.tolist(), shares.tolist(), strict=True))

    def errors(self, device: int) -> FloatArray:
        """Draws of the logarithm of the error of seconds, beside each draw of figures.

        Of a model that was not measured, or, of a fit to one model, of another row of it.
        """
        errors = self.fit.errors[:, device]
        return errors if self.only is None else errors / UNLIKE

    def of_model(self, model: str) -> ComputingFit:
        """The fit to a model's own rows alone, which differ by less than models do.

        So its figures are those at which this model trains, whatever batch size tells; rates of
        other models would be others. Each row counts in full.
        """
        own = self.rows.only(self._trains(model))
        own = replace(own, subject=np.arange(len(own)))
        prior = replace(self.fit.prior, scatter=ONE_MODEL[0], scatter_spread=ONE_MODEL[1])
        random = generator(f"computing {model_part(model)}", self.devices)
        return replace(self, rows=own, fit=posterior(own, prior, random), only=model)

    def measures(self, device: int, model: str) -> bool:
        """Whether rows of a device train a model, however they write it."""
        return bool((self._trains(model) & (self.rows.thing == device)).any())

    def _trains(self, model: str) -> BoolArray:
        part = model_part(model)
        same = [place for place, name in enumerate(self.subjects) if model_part(name) == part]
        trains: BoolArray = np.isin(self.rows.subject, same)
        return trains

    def figures(self, device: int, slower: float) -> list[Figure]:
        """A device's figures, at a clock at which it takes so many times as long as at its
        highest.
        """
        told = told_terms(self.rows, self.fit, device)
        best, draws = self.fit.figures(device), self.fit.drawn_figures(device)
        found = []
        for place, term in enumerate(self.fit.prior.terms):
            origin = "" if told[place] else self._origin(device, place)
            power = 1.0 if term.per_unit else -1.0
            value = float(best[place]) * slower**power
            its = draws[:, place] * slower**power
            found.append(Figure(term.key, term.unit, value, its, origin))
        return found

    def _origin(self, device: int, place: int) -> str:
        """The basis of a figure that the device's own rows do not determine."""
        if self.only is not None and not self.rows.amounts[:, place].any():
            return f"{UNUSED} {self.only}"
        base = self.bases[device]
        term = self.fit.prior.terms[place]
        expected = "the prior" if term.per_unit else "the base's peak"
        if term.key in base.figures:
            expected = "the base's figure"
        siblings = [
            name
            for other, name in enumerate(self.devices)
            if other != device
            and self.bases[other].family == base.family
            and told_terms(self.rows, self.fit, other)[place]
        ]
        return f"from {expected}" + (f" and rows of {', '.join(siblings)}" if siblings else "")


def fit_computing(
    measured: Measurements, works: Sequence[ModelWork], devices: dict[str, Device]
) -> ComputingFit | None:
    """The fit to all rows of computations; None without such rows.

    `works` belong to the rows; `devices` are the base devices by name. Raises ScenarioError with
    the line of a row that cannot be right.
    """
    if not measured.computations:
        return None
    names = list(dict.fromkeys(one.device for one in measured.computations))
    bases = [base_of(devices[name], measured) for name in names]
    each = subjects_of(measured.computations)
    subjects = list(dict.fromkeys(each))
    # Steps in a loop say nothing of a training's fixed time: then the fit has no term for it.
    is_whole = any(one.trainings for one in measured.computations)
    priors = (*TERM_PRIORS, TRAINING) if is_whole else TERM_PRIORS
    rows = _rows(measured, works, devices, names, [subjects.index(one) for one in each])
    rows = replace(rows, amounts=rows.amounts[:, : len(priors)])
    prior, path = prior_of(bases, priors), str(measured.path)
    refuse_implausible(path, "seconds", rows, prior, [devices[name].name for name in names])
    fit = posterior(rows, prior, generator("computing", names))
    refuse_stray(path, "seconds", rows, fit)
    held_out = leave_one_out(rows, prior, generator("held out", names))
    return ComputingFit(names, bases, subjects, rows, fit, held_out)


def subjects_of(computations: Sequence[Computation]) -> list[str]:
    """What each row trained, regardless of shape and batch size: its prediction error is shared.

    A model is named as in its first row, and work without a model by its first line.
    """
    first: dict[Part | ModelWork | None, str] = {}
    return [
        first.setdefault(
            model_part(one.model) if one.model else one.work,
            one.model or f"work of line {one.line}",
        )
        for one in computations
    ]


def base_of(device: Device, measured: Measurements) -> Base:
    """A profile's figures of speed; raises ScenarioError if it has none."""
    processor = device.processor
    if not isinstance(processor, MeasuredProcessor):
        raise _no_base(device, measured)
    figures = {
        term.key: getattr(processor.rates, term.name, None)
        if term.key.startswith("processor.rates.")
        else getattr(processor, term.key.removeprefix("processor."))
        for term in (*TERMS, TRAINING.term)
    }
    given = {key: float(figure) for key, figure in figures.items() if figure}
    peak: float | None = getattr(processor, "flops_per_s", None)
    shares = {one.term.key: one.expected for one in TERM_PRIORS if not one.term.per_unit}
    if peak is None:
        peaks = [figure / shares[key] for key, figure in given.items() if key in shares]
        peak = float(np.median(peaks)) if peaks else None
    if peak is None:
        raise _no_base(device, measured)
    return Base(device.device_class, peak, given)


def slower_at(device: Device, clock_hz: float | None) -> float:
    """How many times as long a device takes at a clock as at its highest; None is the highest."""
    if clock_hz is None:
        return 1.0
    waiting: float = getattr(device.processor, "memory_bound", 0.0)
    return (1.0 - waiting) * device.processor.frequency_max_hz / clock_hz + waiting


def _rows(
    measured: Measurements,
    works: Sequence[ModelWork],
    devices: dict[str, Device],
    names: Sequence[str],
    subjects: Sequence[int],
) -> Rows:
    each = []
    for one, work in zip(measured.computations, works, strict=True):
        if not work.forward_flops > 0:
            found = f"found {one.model!r}, which computes nothing that is counted"
            raise measured.wrong(one.line, "model", one.model, "", found)
        slower = slower_at(devices[one.device], one.clock_hz)
        steps_and_whole = [*amounts(work, one.examples, one.batches), one.trainings]
        each.append([slower * amount for amount in steps_and_whole])
    computed = measured.computations
    return Rows(
        np.array([one.line for one in computed]),
        np.array([names.index(one.device) for one in computed]),
        np.array(subjects),
        np.array(each),
        np.array([one.seconds for one in computed]),
    )


def _no_base(device: Device, measured: Measurements) -> ScenarioError:
    accepted = "a base with flops_per_s or rates, of a processor cpu, thermal_cpu or accelerator"
    return ScenarioError(str(measured.path), None, "--base", device.name, accepted)
