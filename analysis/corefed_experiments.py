"""What is run for CoreFed's tables: methods, offsets, lengths, and steps as long as CoreFed's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from paper import Experiment, Scale, Study
from paper.study import OnlyPlanned
from simfl.scenario.yaml_source.source import read_source

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios" / "papers" / "corefed"

OFFSETS = {"adult": 3.0, "mnist": 1.0, "cifar10": 3.0, "cifar10_subset": 3.0, "digits": 3.0}
RAISED = 4.0  # Tables 2 to 4 print utilities above 3, which M = 3 cannot give
SWEPT = (3.5, 4.0, 5.0)
COLOUR_IMAGES = ("cifar10", "cifar10_subset", "digits")  # digits stand in at the smallest scale
NOISE = "data.noise_variance=[0.0, 0.5, 1.0]"
CORE = ("fedavg", "corefed", "normalized")
MATCHED = "fedavg_matched"
"""FedAvg whose server goes as far per version as CoreFed's does on average (`step_lengths`)."""

SCALES = {
    "quick": Scale(
        "quick",
        5,
        ("adult", "mnist", "cifar10_subset"),
        "2 epochs instead of 10 (assumed); Adult 10,000 rows and 30 versions, MNIST and a subset "
        "of CIFAR-10 3,000 images and 20 versions, instead of 50; Table 2: a quarter-width VGG-11",
    ),
    "smoke": Scale("smoke", 1, ("digits",), "digits instead of the paper's data; 8 versions"),
    "paper": Scale(
        "paper",
        5,
        ("adult", "mnist", "cifar10_subset"),
        "10,000 of CIFAR-10's images instead of CIFAR-10; 2 local epochs on MNIST and in Table 2, "
        "10 elsewhere (assumed: the paper states none); Table 2: a quarter-width VGG-11",
        estimate=True,
    ),
}
LENGTHS = {
    "smoke": ("algorithm.local.epochs=1", "stop.versions=8"),
    "quick": ("algorithm.local.epochs=2",),
    "paper": (),
}
REDUCED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "quick": {
        "adult": ("stop.versions=30", "data.examples=10000"),
        "mnist": ("stop.versions=20", "data.examples=3000", "data.test_examples=2000"),
        # the file has no examples key: what is held back for validation is not used
        "cifar10_subset": ("stop.versions=20", "data.validation_share=0.7"),
    },
    # Epochs are not stated: 2 of MNIST are about a fifth more steps than 10 of CIFAR-10's subset.
    "paper": {"mnist": ("algorithm.local.epochs=2",)},
}
QUARTER = {"name": "vgg11", "width": 0.25}
DEEP: Mapping[str, tuple[str, ...]] = {
    "smoke": ("model=mlp",),
    "quick": (f"model={json.dumps(QUARTER)}",),
    "paper": (f"model={json.dumps(QUARTER)}", "algorithm.local.epochs=2"),
}
"""Table 2's network, and how it is trained."""

PUBLISHED = pd.read_csv(HERE / "published" / "corefed.csv", dtype=str)
"""The paper's tables as printed: a row per table, data set, name and figure."""


def methods(offset: float, rate: float) -> dict[str, dict[str, Any]]:
    """The algorithm sections by name, but for local training, which is the scenario's."""
    corefed = {"name": "corefed", "offset": offset}
    fedavg = {"name": "fedavg", "weights": "uniform"}
    return {
        "fedavg": fedavg,
        MATCHED: {**fedavg, "server_learning_rate": rate},
        "corefed": corefed,
        "normalized": {**corefed, "step": "normalized"},
        "afl": {"name": "afl"},
        "qffl": {"name": "qffl"},
    }


def experiment(
    study: Study,
    data: str,
    name: str,
    offset: float,
    extra: Sequence[str] = (),
    *,
    rate: float = 1.0,
) -> Experiment:
    """Method `name` with M = `offset`, as small as the scale has it; `rate` is MATCHED's."""
    scenario = SCENARIOS / f"{data}.yaml"
    local = read_source(scenario).content["algorithm"]["local"]
    section = {**methods(offset, rate)[name], "local": local}
    reduced = (*LENGTHS[study.scale.name], *REDUCED.get(study.scale.name, {}).get(data, ()))
    overrides = (f"algorithm={json.dumps(section)}", *reduced, *extra)
    return Experiment(data, name, scenario, overrides)


def step_lengths(
    study: Study, offsets: Mapping[str, float], extra: Sequence[str] = ()
) -> dict[str, float]:
    """By data set how far CoreFed's server goes per version, over the clients' mean change.

    That is (1/n) sum_s 1/u_s (1 while it warms up), as its log has it, in the mean over the
    versions of the first seed: measured before FedAvg is run with it, and on nothing that is
    compared. 1 for data whose run is not there, as when runs are only planned.
    """
    planned = [experiment(study, data, "corefed", M, extra) for data, M in offsets.items()]
    lengths = dict.fromkeys(offsets, 1.0)
    with suppress(OnlyPlanned):
        for trial in replace(study.of_first(1), only=()).run(planned):
            moved = [sum(one) for one in trial.run.details("report")["coefficients"]]
            lengths[trial.data] = round(float(np.mean(moved)), 3)
    return lengths
