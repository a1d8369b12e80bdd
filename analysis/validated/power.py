"""Watts and joules of training on graphics cards, predicted against measured.

Rows are those of `analysis/published/accelerator_power.csv`: seconds of an epoch and mean watts of
the card, at the card's own power limit. The work of two of the five networks is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from kinds_of_work import profile_of
from torch import nn

from simfl.calibration.computing import ComputingFit, fit_computing
from simfl.calibration.machines import TERMS, amounts
from simfl.calibration.measurements import Computation, Draw, Measurements
from simfl.calibration.power import power_figures
from simfl.calibration.terms import ENDS
from simfl.calibration.twins import Figure
from simfl.common.arrays import FloatArray
from simfl.common.model_work import ModelWork
from simfl.learning.vision import torchvision
from simfl.learning.work import count_work
from simfl.system.accelerator import Accelerator
from simfl.system.cpu import Cpu
from simfl.system.device import Device

PUBLISHED_ROWS = Path(__file__).parents[1] / "published" / "accelerator_power.csv"
PROFILE = "cloud_v100"
GPUS = ("v100", "p100", "a40", "rtx6000")
IMAGES = {"shufflenetv2": 50_000, "resnet50": 1_281_167}
"""Of an epoch (CIFAR-100 and ImageNet), by the networks whose work is known."""
OTHER_BATCHES, OTHER_MODEL = "every second batch", "the other model"
FACTOR_APART = 4
"""So many times as large a batch is predicted from another at most."""
STEP = [term.name for term in TERMS].index("step")


@dataclass(frozen=True)
class Row:
    """A row as it was published: an epoch of steps of `batch` examples, and the mean watts."""

    gpu: str
    limit_w: float
    model: str
    batch: int
    seconds: float
    watts: float

    @property
    def steps(self) -> int:
        """Of an epoch, the last one short."""
        return math.ceil(IMAGES[self.model] / self.batch)


def published_rows() -> list[Row]:
    """All of them, as they stand in the file."""
    read = pd.read_csv(PUBLISHED_ROWS, comment="#")
    columns = [read[name] for name in ("gpu", "limit_w", "model", "batch_size", "seconds", "watts")]
    return [Row(*one) for one in zip(*columns, strict=True)]


@cache
def work_of(model: str) -> ModelWork:
    """Of one example: ResNet-50 on 3x224x224; ShuffleNet v2 for 3x32x32.

    The latter is torchvision's, without what makes an image smaller before the first stage.
    """
    models = torchvision().models
    with torch.device("meta"):
        if model == "resnet50":
            return count_work(models.resnet50(), torch.zeros(1, 3, 224, 224))
        small = models.shufflenet_v2_x1_0(num_classes=100)
        small.conv1[0].stride, small.maxpool = (1, 1), nn.Identity()
        return count_work(small, torch.zeros(1, 3, 32, 32))


def by_profile() -> pd.DataFrame:
    """The V100's steps by its profile as it is shipped, and with this card's limit as its power."""
    processor: Accelerator = profile_of(PROFILE).processor
    rows = []
    for one in published_rows():
        if one.gpu != "v100" or one.model not in IMAGES:
            continue
        cycles = processor.training_cycles(one.batch, work_of(one.model), 1)
        step_s = float(processor.compute(cycles, processor.frequency_max_hz).duration_s)
        measured_s = one.seconds * one.batch / IMAGES[one.model]
        rows.append(
            {
                "model": one.model,
                "batch": one.batch,
                "measured_s": measured_s,
                "predicted_s": step_s,
                "measured_w": one.watts,
                "shipped_w": processor.power_active_w,
                "limit_w": one.limit_w,
                "measured_j": one.watts * measured_s / one.batch,
                "shipped_j": processor.power_active_w * step_s / one.batch,
                "limit_j": one.limit_w * step_s / one.batch,
            }
        )
    return pd.DataFrame(rows)


def base_of(gpu: str, limit_w: float) -> Device:
    """A card that nobody measured: its limit, the shipped V100's peak and share of idle power."""
    shipped: Accelerator = profile_of(PROFILE).processor
    idle_w = shipped.power_idle_w * limit_w / shipped.power_active_w
    processor = replace(shipped, rates=None, power_active_w=limit_w, power_idle_w=idle_w)
    return Device(gpu, "server", processor, idle_w, None)


def measurements(rows: Sequence[Row]) -> Measurements:
    """Rows as a file for `simfl calibrate` has them: seconds and watts of models."""
    found = Measurements(PUBLISHED_ROWS)
    for line, one in enumerate(rows):
        batches = one.steps if one.model in IMAGES else 1
        examples = IMAGES.get(one.model, one.batch)
        found.computations.append(
            Computation(
                line, one.gpu, one.model, (), None, None, one.batch, batches, examples,
                one.seconds, None, None,
            )
        )  # fmt: skip
        found.draws.append(Draw(line, one.gpu, "train", one.watts, "", None))
    return found


def networks(cards: Sequence[str] = GPUS, left_out: Sequence[str] = ()) -> pd.DataFrame:
    """Each network left out on each card: the watts that any of its batches drew, and the interval
    of the power of a network that was not measured; of some `cards`, and networks if named.

    `inside_as_busy` is how many would lie in the interval of a CPU, whose models keep it as busy.
    """
    rows = published_rows()
    found = []
    for gpu in cards:
        own = [one for one in rows if one.gpu == gpu]
        base = base_of(gpu, own[0].limit_w)
        for model in left_out or dict.fromkeys(one.model for one in own):
            behind = measurements([one for one in own if one.model != model])
            active, of_cpu = (
                power_figures(behind, {gpu: one}, {gpu: None}, {})[gpu][1]
                for one in (base, _as_cpu(base))
            )
            watts = np.array([one.watts for one in own if one.model == model])
            low, high = active.interval
            least, most = of_cpu.interval
            found.append(
                {
                    "gpu": gpu,
                    "limit_w": own[0].limit_w,
                    "model": model,
                    "rows": len(watts),
                    "least_w": watts.min(),
                    "most_w": watts.max(),
                    "predicted_w": active.value,
                    "low_w": low,
                    "high_w": high,
                    "inside": int(((low <= watts) & (watts <= high)).sum()),
                    "inside_as_busy": int(((least <= watts) & (watts <= most)).sum()),
                }
            )
    return pd.DataFrame(found)


def _as_cpu(card: Device) -> Device:
    """The same watts, of a processor that no model lets wait."""
    its = card.processor
    assert isinstance(its, Accelerator)
    processor = Cpu(
        1,
        its.frequency_min_hz,
        its.frequency_max_hz,
        cycles_per_example=1.0,
        power_active_w=its.power_active_w,
        power_idle_w=its.power_idle_w,
    )
    return replace(card, processor=processor)


def held_out() -> pd.DataFrame:
    """Rows of the two networks from other rows of the same card, with and without a share.

    Behind a prediction are the network's own rows of every second batch, or all of the other's.
    """
    rows = [one for one in published_rows() if one.model in IMAGES]
    found = []
    for gpu in GPUS:
        for model in IMAGES:
            own = [one for one in rows if one.gpu == gpu and one.model == model]
            others = [one for one in rows if one.gpu == gpu and one.model != model]
            for name, behind, asked in (
                (OTHER_BATCHES, own[::2], own[1::2]),
                (OTHER_MODEL, others, own),
            ):
                found += predicted(name, behind, asked)
    return pd.DataFrame(found)


def predicted(name: str, behind: Sequence[Row], asked: Sequence[Row]) -> list[dict[str, object]]:
    """Rows of a card from others of it; `name` says which these are."""
    gpu = asked[0].gpu
    bases = {gpu: base_of(gpu, asked[0].limit_w)}
    measured = measurements(behind)
    fit = fit_computing(measured, [work_of(one.model) for one in behind], bases)
    assert fit is not None
    of_one = power_figures(measured, bases, {gpu: None}, {})[gpu]
    of_share = power_figures(measured, bases, {gpu: None}, fit.fixed_shares())[gpu]
    found = []
    for one in asked:
        work = np.array(amounts(work_of(one.model), IMAGES[one.model], one.steps))
        seconds, parts = _seconds(fit, work)
        share = parts[:, STEP] / parts.sum(1)
        with_one = _watts(of_one, np.zeros_like(share))
        with_share = _watts(of_share, share)
        low, high = np.quantile(seconds[1:] * with_share[1:], ENDS)
        found.append(
            {
                "behind": name,
                "gpu": gpu,
                "model": one.model,
                "batch": one.batch,
                "measured_s": one.seconds,
                "predicted_s": seconds[0],
                "measured_w": one.watts,
                "one_w": with_one[0],
                "share_w": with_share[0],
                "measured_j": one.seconds * one.watts,
                "one_j": seconds[0] * with_one[0],
                "share_j": seconds[0] * with_share[0],
                "low_j": low,
                "high_j": high,
                "waiting_share": share[0],
                "stall_utilization": of_share[2].value if len(of_share) > 2 else math.nan,
            }
        )
    return found


def for_one_model(cards: Sequence[str] = GPUS) -> pd.DataFrame:
    """Seconds of the two networks in each batch, from one other batch of the same on the same card.

    As a profile for this model has them (`simfl calibrate --for`), and as one for any model does.
    Batches are within `FACTOR_APART` of each other.
    """
    found = []
    for gpu in cards:
        for model, images in IMAGES.items():
            own = [one for one in published_rows() if one.gpu == gpu and one.model == model]
            for behind in own:
                bases = {gpu: base_of(gpu, behind.limit_w)}
                fit = fit_computing(measurements([behind]), [work_of(model)], bases)
                assert fit is not None
                fits = {"": fit.of_model(model), "any_": fit}
                for one in own:
                    apart = max(one.batch / behind.batch, behind.batch / one.batch)
                    if not 1 < apart <= FACTOR_APART:
                        continue
                    work = np.array(amounts(work_of(model), images, one.steps))
                    row: dict[str, object] = {"gpu": gpu, "model": model, "behind": behind.batch}
                    row |= {"batch": one.batch, "measured": one.seconds}
                    for name, its in fits.items():
                        said = np.exp(its.fit.draws[:, 0]) @ work * np.exp(its.errors(0))
                        low, high = np.quantile(said, ENDS)
                        row |= {f"{name}low": low, f"{name}high": high}
                    found.append(row)
    return pd.DataFrame(found)


def _seconds(fit: ComputingFit, work: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Seconds and their terms: the best fit's, then the draws'; the latter with an error."""
    logs = np.concatenate([fit.fit.logs[:1], fit.fit.draws[:, 0]])
    parts = work * np.exp(logs)
    errors = np.append(0.0, fit.fit.errors[:, 0])
    return parts.sum(1) * np.exp(errors), parts


def _watts(figures: Sequence[Figure], share: FloatArray) -> FloatArray:
    """Of a row of which a `share` (1 + draws) is fixed time: the best figures', then the draws'."""
    named: Mapping[str, FloatArray] = {one.key: np.append(one.value, one.draws) for one in figures}
    idle_w, active_w = named["power_idle_w"], named["processor.power_active_w"]
    stall = named.get("processor.stall_utilization", np.ones_like(share))
    return idle_w + (1.0 - (1.0 - stall) * share) * (active_w - idle_w)
