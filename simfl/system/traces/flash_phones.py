"""FLASH's measured batch times (C. Yang et al., WWW 2021) as profiles of devices.

FLASH measured a training step of LEAF's models on three phones, one of each tier, and assigns every
user's phone the tier with the nearest benchmark score. Phone models are looked up in AI Benchmark's
ranking; for unknown ones, a tier is drawn by the tiers' shares of users (PKU-Chengxu/FLASH
@55cbede, models/utils/device_util/device_util.py).

Choices
1. The table has the time of a step, but not its cost: clocks, watts and battery are those of a
   phone of the catalogue with a similar price, and are marked as unverified.
2. FLASH draws a client's time per batch anew in every round, for all of its batches, from a normal
   distribution. Here it is a lognormal factor with the same mean and variance on a round's
   computing (a group's `compute_noise`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from simfl.common.files import replacing
from simfl.system.catalogue import Catalogue, Profile
from simfl.system.traces.files import read_texts
from simfl.system.traces.tables import TraceError

USERS = {"slow": 18_820, "mid": 16_428, "fast": 159}
"""The number of FLASH's users with a phone of each tier."""

STAND_INS = {"slow": "phone_entry_heliog80", "mid": "phone_mid_sd660", "fast": "phone_high_sd865"}
"""The phone in the catalogue that supplies a tier's clocks, watts, memory and battery."""

BATCH_EXAMPLES = {"shakespeare": 100}
"""Examples in a measured batch; FLASH states it for this task only."""

ASSUMED_BATCH_EXAMPLES = 10
"""For the other tasks, the batch size of FLASH's own experiments."""

_SOURCE = "FLASH (C. Yang et al., WWW 2021), PKU-Chengxu/FLASH @55cbede, device_util.py"
_RATES = ("flops_per_s", "efficiency", "cycles_per_example", "cycles_per_bit")


@dataclass(frozen=True)
class BatchTime:
    """A row of the table: a training step of a task on a phone, mean and deviation in s."""

    task: str
    tier: str
    phone: str
    mean_s: float
    deviation_s: float

    @property
    def profile(self) -> str:
        """The name of its profile."""
        return f"flash_{self.task}_{self.tier}"

    @property
    def noise(self) -> float:
        """Sigma of the lognormal factor with mean 1 and the measured variance."""
        return math.sqrt(math.log1p((self.deviation_s / self.mean_s) ** 2))

    def text(self, stand_in: Profile) -> str:
        """The profile's file, with all other figures from a phone of the catalogue."""
        known = stand_in.values["processor"].items()
        processor = {key: value for key, value in known if key not in _RATES}
        processor |= {
            "seconds_per_batch": self.mean_s,
            "batch_examples": BATCH_EXAMPLES.get(self.task, ASSUMED_BATCH_EXAMPLES),
        }
        values = {**stand_in.values, "processor": processor}
        measured = (
            f"{self.phone}, {1e3 * self.mean_s:g} ms, deviation {1e3 * self.deviation_s:g} ms"
        )
        sources = {"processor.seconds_per_batch": f"{_SOURCE}: {measured}"}
        if self.task in BATCH_EXAMPLES:
            sources["processor.batch_examples"] = _SOURCE
        figures = replace(stand_in, values=values).figures()
        unverified = [name for name in figures if name not in sources]
        body = {"kind": "device", **values, "sources": sources, "unverified": unverified}
        about = (
            f"# FLASH's {self.tier} phone ({self.phone}) at LEAF's {self.task} model.",
            "# A step takes as long as that model's, whatever the scenario's; from round to round",
            f"# its seconds vary by a factor of sigma {self.noise:.2g} (compute_noise).",
            f"# All but the seconds is as in {stand_in.name}.",
        )
        content = yaml.safe_dump(body, sort_keys=False, width=10_000, default_flow_style=None)
        return "\n".join([*about, content])


@dataclass(frozen=True)
class Phones:
    """The rows of the table of batch times."""

    rows: Sequence[BatchTime]

    def write(self, folder: Path) -> None:
        """Write a profile for every row into a folder."""
        catalogue = Catalogue()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for row in self.rows:
                text = row.text(catalogue.profile("device", STAND_INS[row.tier]))
                with replacing(folder / f"{row.profile}.yaml") as file:
                    file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise TraceError(f"{folder}: cannot be written: {error.strerror or error}") from error

    def summary(self, folder: Path) -> str:
        """The number of profiles, and a population of those of the first task."""
        tasks = list(dict.fromkeys(row.task for row in self.rows))
        own = {row.tier: row for row in self.rows if row.task == tasks[0]}
        users = sum(USERS[tier] for tier in own)
        groups = [
            f"    - {{device: {row.profile}, link: wifi5_ac, share: {USERS[tier] / users:.4f},"
            f" compute_noise: {row.noise:.2g}}}"
            for tier, row in own.items()
        ]
        first = f"{len(self.rows)} device profiles, of {', '.join(tasks)}. Those of {tasks[0]}:"
        head = ["population:", "  name: catalogue", f"  profiles: [{folder}]", "  groups:"]
        return "\n".join([first, *head, *groups])


def read_batch_times(path: Path) -> tuple[Phones, int]:
    """The table `task,tier,measured_phone,mean_ms,std_ms`; no row is left out."""
    rows: list[BatchTime] = []
    columns = ("task", "tier", "measured_phone", "mean_ms", "std_ms")
    for line, (task, tier, phone, mean, deviation) in read_texts(path, columns):
        try:
            row = BatchTime(task, tier, phone, float(mean) / 1e3, float(deviation) / 1e3)
        except ValueError:
            raise TraceError(
                f"{path}:{line}: accepted: numbers, found {mean}, {deviation}"
            ) from None
        if tier not in USERS:
            raise TraceError(f"{path}:{line}: tier: found {tier!r}, accepted: {', '.join(USERS)}")
        if not task.isidentifier():
            raise TraceError(f"{path}:{line}: task: found {task!r}, accepted: a name")
        if not (0 < row.mean_s < 1e6 and 0 <= row.deviation_s < 1e6):
            accepted = "mean_ms above 0, std_ms of at least 0, both below 1e9"
            raise TraceError(f"{path}:{line}: accepted: {accepted}, found {mean}, {deviation}")
        if any(row.profile == one.profile for one in rows):
            raise TraceError(f"{path}:{line}: {task}, {tier}: given twice")
        rows.append(row)
    if not rows:
        raise TraceError(f"{path}: holds no batch time")
    return Phones(rows), 0
