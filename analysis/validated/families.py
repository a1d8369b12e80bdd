"""Held-out predictions of each family of devices, from rows of its other models.

Everything goes through what `simfl calibrate` does: the same prior, fit and intervals. Bases know
nothing but a machine's peak, so that nothing is predicted from figures that were fitted to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from kinds_of_work import (
    BATCH,
    FITTED,
    LAYERS,
    PHONES,
    layer_rows,
    profile_of,
    shipped_terms,
    task_work,
)
from kinds_of_work import TERMS as FLASH_TERMS
from torch import nn

from simfl.calibration.held_out import predictions
from simfl.calibration.machines import TERMS, Base, amounts, prior_of
from simfl.calibration.measurements import read_measurements
from simfl.calibration.posterior import DEGREES, posterior
from simfl.calibration.terms import Rows
from simfl.calibration.works import works
from simfl.common.arrays import FloatArray
from simfl.common.model_work import KINDS, ModelWork
from simfl.learning.vision import torchvision
from simfl.learning.work import count_work
from validated.scores import Held, plain_interval
from validated.ssd import ssd_mobilenet_v1

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "analysis" / "published"
KNOWN_ROWS = ROOT / "tests" / "calibration" / "one_core.csv"
CPU_BASE = "minipc_n100"
"""The profile that stands for a server's core before it is measured."""

VITS = {"vit_tiny": (3, 192), "vit_small": (6, 384)}
"""Heads and width of the smaller vision transformers (DeiT's, arXiv 2012.12877)."""

OPERATIONS = [place for place, term in enumerate(TERMS) if term.name in KINDS]
"""The columns of amounts that are operations."""
PHONE_OPERATIONS_PER_CYCLE = 8.0
"""Of a core with one 128-bit unit that multiplies and adds: a phone's peak, by its clock."""

LAYERS_BEHIND, LAYERS_TESTED = 30, 100
"""Of each phone and layer, so many steps are calibrated on, and so many others are tested."""


@dataclass(frozen=True, eq=False)
class Table:
    """Measured rows of devices: `amounts` (rows, terms) took `seconds`."""

    device: list[str]
    subject: list[str]
    amounts: FloatArray
    seconds: FloatArray

    def __len__(self) -> int:
        return len(self.seconds)

    def only(self, chosen: Callable[[str, str], bool]) -> Table:
        """The rows of some devices and subjects."""
        pairs = zip(self.device, self.subject, strict=True)
        places = [place for place, pair in enumerate(pairs) if chosen(*pair)]
        return Table(
            [self.device[place] for place in places],
            [self.subject[place] for place in places],
            self.amounts[places],
            self.seconds[places],
        )

    def with_rows(self, other: Table) -> Table:
        """These and others."""
        return Table(
            self.device + other.device,
            self.subject + other.subject,
            np.concatenate([self.amounts, other.amounts]),
            np.concatenate([self.seconds, other.seconds]),
        )

    def rows(self, devices: Sequence[str], known: Sequence[str] = ()) -> Rows:
        """As a fit reads them; subjects that are `known` come first in the numbering."""
        subjects = list(dict.fromkeys([*known, *self.subject]))
        return Rows(
            np.arange(len(self)),
            np.array([devices.index(one) for one in self.device], dtype=int),
            np.array([subjects.index(one) for one in self.subject], dtype=int),
            self.amounts.reshape(len(self), len(TERMS)),
            self.seconds,
        )


def predicted(
    family: str, behind: Table, asked: Table, bases: Mapping[str, Base], rng: np.random.Generator
) -> list[Held]:
    """What rows `behind` predict of those `asked`; without any, what the bases do."""
    devices = list(bases)
    known, wanted = behind.rows(devices), asked.rows(devices, behind.subject)
    fit = posterior(known, prior_of([*bases.values()]), rng)
    errors: dict[tuple[str, str], FloatArray] = {}
    found = []
    for place, one in enumerate(predictions(wanted, fit, known)):
        device, subject = asked.device[place], asked.subject[place]
        work = asked.amounts[place]
        own = behind.only(lambda name, _, device=device: name == device)
        # What the sum misses is a model's own, the same in all of its rows.
        error = errors.setdefault(
            (device, subject), fit.scatter * rng.standard_t(DEGREES, len(fit.scatter))
        )
        found.append(
            Held(
                family,
                device,
                subject,
                one.measured,
                one.predicted,
                (one.low, one.high),
                one.missing,
                np.log(np.exp(fit.draws[:, one.thing]) @ work) + error,
                plain_interval(
                    own.amounts[:, OPERATIONS].sum(1), own.seconds, float(work[OPERATIONS].sum())
                ),
            )
        )
    return found


def left_out(
    family: str,
    table: Table,
    bases: Mapping[str, Base],
    always: Table | None = None,
    chosen: Sequence[str] | None = None,
) -> list[Held]:
    """Each subject left out on all devices at once; rows `always` are behind every prediction."""
    rng = np.random.default_rng(0)
    found = []
    for subject in chosen or dict.fromkeys(table.subject):
        behind = table.only(lambda _, name, subject=subject: name != subject)
        asked = table.only(lambda _, name, subject=subject: name == subject)
        behind = behind if always is None else always.with_rows(behind)
        found += predicted(family, behind, asked, bases, rng)
    return found


def nothing_behind(family: str, table: Table, bases: Mapping[str, Base]) -> list[Held]:
    """Every row as it is predicted before any is read."""
    empty = Table([], [], np.empty((0, len(TERMS))), np.empty(0))
    return predicted(family, empty, table, bases, np.random.default_rng(0))


# Raspberry Pis, Jetsons and a GPU: rows of whole models.


def trained_models(file: Path) -> Table:
    """Published times of models, as analysis/published/training_times.csv has them."""
    read = pd.read_csv(file, comment="#")
    if "examples" not in read:
        read["examples"] = read["batch_size"] * read["batches"]
        read["input_shape"] = "3x" + read["height"].astype(str) + "x" + read["width"].astype(str)
        read["outputs"] = 1000
    counted: dict[tuple[str, str, int], ModelWork] = {}
    each = []
    for row in read.itertuples():
        key = row.model, row.input_shape, row.outputs
        if key not in counted:
            shape = tuple(map(int, str(row.input_shape).split("x")))
            with torch.device("meta"):
                counted[key] = count_work(_model(row.model, row.outputs), torch.zeros(1, *shape))
        each.append(amounts(counted[key], row.examples, row.examples / row.batch_size))
    return Table(
        [*read["device"]], [*read["model"]], np.array(each), read["seconds"].to_numpy(dtype=float)
    )


def _model(name: str, outputs: int) -> nn.Module:
    """A model by the name that it has in a file of published times."""
    models = torchvision().models
    if name == "ssd_mobilenet_v1":
        return ssd_mobilenet_v1(outputs)
    if name == "mobilenet_v2_050":
        return models.mobilenet_v2(num_classes=outputs, width_mult=0.5)
    if name in VITS:
        heads, width = VITS[name]
        return models.VisionTransformer(224, 16, 12, heads, width, 4 * width, num_classes=outputs)
    if name == "resnext101_32x4d":
        block = models.resnet.Bottleneck
        return models.ResNet(block, [3, 4, 23, 3], outputs, groups=32, width_per_group=4)
    return getattr(models, name)(num_classes=outputs)


def peaks(devices: Sequence[str]) -> dict[str, Base]:
    """Bases that know a profile's `flops_per_s` and its class alone."""
    profiles = {name: profile_of(name) for name in dict.fromkeys(devices)}
    return {
        name: Base(getattr(one, "device_class", "server"), one.processor.flops_per_s)
        for name, one in profiles.items()
    }


def by_profile(table: Table) -> pd.DataFrame:
    """Every row by the figures that its profile is shipped with: device, subject, ratio."""
    places = [FLASH_TERMS.index(term.name) for term in TERMS]
    rows = []
    for place, device in enumerate(table.device):
        found_s = float(table.amounts[place] @ shipped_terms(device)[places])
        ratio = found_s / table.seconds[place]
        rows.append({"device": device, "subject": table.subject[place], "ratio": ratio})
    return pd.DataFrame(rows)


def one_rate(table: Table) -> pd.DataFrame:
    """Every row by its profile's `flops_per_s` and `efficiency` alone: device, model, ratio."""
    rows = []
    for place, device in enumerate(table.device):
        processor = profile_of(device).processor
        operations = table.amounts[place, OPERATIONS].sum()
        by_rate = operations / (processor.flops_per_s * processor.efficiency)
        ratio = by_rate / table.seconds[place]
        rows.append({"device": device, "subject": table.subject[place], "ratio": ratio})
    return pd.DataFrame(rows)


# One core of a server.


def core(recorded: Path, device: str) -> Table:
    """The median row of each model of a device in a file for `simfl calibrate`."""
    measured = read_measurements(recorded)
    lines = recorded.read_text(encoding="utf-8").splitlines()
    repeats: dict[str, list[tuple[FloatArray, float]]] = {}
    for one, work in zip(measured.computations, works(measured), strict=True):
        if one.device == device:
            name = one.model or lines[one.line - 1].rpartition(",")[2].replace(";", ",")
            each = np.array(amounts(work, one.examples, one.batches)) / one.batches
            repeats.setdefault(name, []).append((each, one.seconds / one.batches))
    seconds = [float(np.median([step_s for _, step_s in its])) for its in repeats.values()]
    return Table(
        [device] * len(repeats),
        [*repeats],
        np.array([its[0][0] for its in repeats.values()]),
        np.array(seconds),
    )


def of_core(family: str, behind: Table, asked: Table) -> list[Held]:
    """Models that a core was not calibrated with."""
    base = Base("pc", profile_of(CPU_BASE).processor.flops_per_s)
    both = Table(behind.device[:1] * len(asked), asked.subject, asked.amounts, asked.seconds)
    return predicted(family, behind, both, {behind.device[0]: base}, np.random.default_rng(0))


# FLASH's phones: single layers, and tasks.


def phone_bases() -> dict[str, Base]:
    """Peaks by cores and clock, for the profiles' own rates were fitted to these rows."""
    found = {}
    for name in PHONES:
        processor: Any = profile_of(name).processor
        per_s = processor.cores * processor.frequency_max_hz
        found[name] = Base("phone", PHONE_OPERATIONS_PER_CYCLE * per_s)
    return found


def _in_order(flash_rows: Any) -> FloatArray:
    """Columns in the order of `TERMS`."""
    places = [FLASH_TERMS.index(term.name) for term in TERMS]
    ordered: FloatArray = np.asarray(flash_rows, dtype=float)[:, places]
    return ordered


def phone_layers(folder: Path) -> Iterator[tuple[str, str, FloatArray, FloatArray]]:
    """Phone, layer, amounts (steps, terms) and seconds of FLASH's single-layer steps."""
    with np.load(folder / "flash_layer_train_time.npz") as archive:
        for phone, (_, name) in PHONES.items():
            for layer in LAYERS:
                rows = layer_rows(layer, archive[f"{name}_{layer}_x"])
                seconds = archive[f"{name}_{layer}_seconds"].astype(float)
                yield phone, layer, _in_order(rows), seconds


def some_layers(folder: Path, count: int, held_out: bool) -> Table:
    """So many of each phone's and layer's steps, evenly spread over every second one.

    Steps that are held out are the others.
    """
    found = Table([], [], np.empty((0, len(TERMS))), np.empty(0))
    for phone, layer, work, seconds in phone_layers(folder):
        half = np.arange(int(held_out), len(seconds), 2)
        places = half[np.linspace(0, len(half) - 1, count).astype(int)]
        its = Table([phone] * count, [layer] * count, work[places], seconds[places])
        found = found.with_rows(its)
    return found


def phone_tasks(folder: Path) -> Table:
    """FLASH's four tasks on three phones; batches of 100 for shakespeare, of 10 assumed else."""
    read = pd.read_csv(folder / "flash_batch_train_time.csv")
    measured_s = read.pivot_table(index="task", columns="tier", values="mean_ms") / 1000.0
    counted = task_work()
    pairs = [(phone, tier, task) for phone, (tier, _) in PHONES.items() for task in counted]
    return Table(
        [phone for phone, _, _ in pairs],
        [task for _, _, task in pairs],
        np.array([amounts(counted[task], BATCH[task], 1.0) for _, _, task in pairs]),
        np.array([measured_s.loc[task, tier] for _, tier, task in pairs]),
    )


def of_layers(family: str, folder: Path) -> list[Held]:
    """Held-out steps of layers, from other steps of them and the tasks with convolutions."""
    tasks = phone_tasks(folder).only(lambda _, task: task in FITTED)
    behind = some_layers(folder, LAYERS_BEHIND, held_out=False).with_rows(tasks)
    asked = some_layers(folder, LAYERS_TESTED, held_out=True)
    return predicted(family, behind, asked, phone_bases(), np.random.default_rng(0))


def layer_errors(folder: Path) -> pd.DataFrame:
    """Median errors on all steps of layers that are held out, by phone and layer.

    Of the shipped profiles, and of the fit of `of_layers`.
    """
    bases = phone_bases()
    tasks = phone_tasks(folder).only(lambda _, task: task in FITTED)
    behind = some_layers(folder, LAYERS_BEHIND, held_out=False).with_rows(tasks)
    fit = posterior(behind.rows([*bases]), prior_of([*bases.values()]), np.random.default_rng(0))
    places = [FLASH_TERMS.index(term.name) for term in TERMS]
    rows = []
    for phone, layer, work, seconds in phone_layers(folder):
        several = {
            "shipped": work @ shipped_terms(phone)[places],
            "calibrated": work @ np.exp(fit.logs[[*bases].index(phone)]),
        }
        errors = {
            name: float(np.median(np.abs(one[1::2] / seconds[1::2] - 1.0)))
            for name, one in several.items()
        }
        rows.append({"phone": phone, "layer": layer, **errors})
    return pd.DataFrame(rows)
