"""What is run for FedSAC's tables: data and splits, methods with their grids, settings, scales."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from paper import Experiment, Scale, Study
from simfl.runs.runfolder import LoadedRun

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios" / "papers" / "fedsac"
SCENES = ("POW", "CLA", "DIR(1.0)", "DIR(2.0)", "DIR(3.0)")

# Table 9: learning rate, local epochs and beta per split, in the order of SCENES.
TABLE_9 = {
    "cifar10": ((0.05, 0.05, 0.05, 0.03, 0.03), (15, 20, 20, 20, 20), (5, 3, 10, 2, 10)),
    "svhn": ((0.03, 0.05, 0.05, 0.05, 0.05), (20, 20, 20, 20, 20), (5, 3, 5, 10, 5)),
    "fashion_mnist": ((0.1, 0.05, 0.05, 0.05, 0.05), (20, 20, 20, 20, 15), (10, 1, 10, 20, 25)),
    "digits": ((0.1,) * 5, (2,) * 5, (10, 1, 10, 20, 25)),
}
TABLE_9["cifar10_subset"] = TABLE_9["cifar10"]
TABLE_7_BETA = {"POW": 10, "DIR(1.0)": 10, "DIR(2.0)": 5, "DIR(3.0)": 5}
"""With these Table 7 gives the figures that Table 2 has, against Table 9."""

ROWS_DEALT = {"digits": 1200, "cifar10_subset": 9000}
"""POW and CLA deal 20,000 rows where there are as many."""

GRIDS: dict[str, tuple[dict[str, Any], ...]] = {
    "fedsac": tuple({"beta": float(beta)} for beta in (1, 2, 3, 5, 10, 20, 25)),
    "fedavg": ({},),
    "qffl": ({"q": 0.1}, {"q": 1.0}, {"q": 5.0}),
    "cffl": ({"upload_share": 0.1}, {"upload_share": 1.0}),
    "cgsv": (
        {"beta": 1.0, "normalisation": 0.15},
        {"beta": 1.0, "normalisation": 0.5},
        {"beta": 10.0, "normalisation": 0.5},
    ),
    "fedave": ({"beta": 2.0}, {"beta": 5.0}),
}
"""The settings that each method is tried with (fedsac_choices.py says which of them counts)."""

BY_EPOCHS = {"importance_unit": "epochs"}
"""Section 4.1.1: "every 10 epochs"; with E of 15 and 20 that is every round, as in Algorithm 1."""

ABLATIONS: dict[str, dict[str, Any]] = {
    "fedsac": {},
    "without_allocation": {"allocation": "off"},
    "without_aggregation": {"aggregation": "off"},
    "without_aggregation_kept": {"aggregation": "kept"},
    "without_aggregation_by_size": {"aggregation": "by_size"},
}
"""Without aggregation: FedAvg's mean, what a submodel lacks standing at zero, at the server's own
value, or out of the mean."""

READINGS: dict[str, dict[str, Any]] = {
    "fedsac": {},
    "fedsac_by_rounds": {"importance_unit": "versions"},
    "fedsac_after_local": {"rewards": "after_local"},
}
"""FedSAC as the tables have it; importance every 10 rounds; rewards as trained last."""

SAME_ROW = {
    "fedsac": ("fedsac_grid", "fedsac_floor", "fedsac_by_rounds", "fedsac_after_local"),
    "without_aggregation": ("without_aggregation_kept", "without_aggregation_by_size"),
    **{name: (f"{name}_floor",) for name in ("fedavg", "qffl", "cffl", "cgsv", "fedave")},
}
"""Rows that stand beside the same published figures."""


@dataclass(frozen=True)
class Sizes:
    """What a scale overrides; None leaves a value at the paper's.

    `courses_every`: rounds between evaluations of FedSAC's submodels; `grid_seeds`: with how many
    of the first seeds (each with a split of its own) the settings of a grid are tried; `grid_on`:
    the scene on which they are tried for all of them (None: each has a grid of its own).
    """

    scenes: tuple[str, ...] = SCENES
    epochs: int | None = None
    rounds: int | None = None
    training_rows: int | None = None
    courses_every: int = 5
    grid_seeds: int = 1
    grid_on: str | None = None
    clients: Mapping[int, tuple[str, ...]] = field(
        default_factory=lambda: {20: SCENES, 40: SCENES[2:4], 60: SCENES[2:4]}
    )


SIZES = {
    "smoke": Sizes(scenes=("POW", "DIR(1.0)"), clients={20: ("POW",)}),
    "quick": Sizes(
        scenes=SCENES[:3],
        epochs=2,
        rounds=15,
        training_rows=12_000,
        courses_every=3,
        clients={20: SCENES[:3]},
    ),
    "paper": Sizes(grid_seeds=2, grid_on="POW"),
}
SCALES = {
    "smoke": Scale("smoke", 1, ("digits",), "scikit-learn's digits, a 40-40 network, 8 rounds"),
    "quick": Scale(
        "quick",
        3,
        ("fashion_mnist", "cifar10_subset"),
        "of the training images 12,000 (CIFAR-10 subset: 10,000), a tenth of them the server's;"
        " POW and CLA deal 10,000 (9,000) instead of 20,000; 15 rounds of 2 local epochs; 3 seeds;"
        " POW, CLA and DIR(1.0) only; up to 20 clients",
    ),
    "paper": Scale("paper", 5, ("cifar10", "svhn", "fashion_mnist"), estimate=True),
}


def column(data: str, scene: str, clients: int = 10) -> str:
    """What a data set with its split is called in tables."""
    return f"{data} {scene}" if clients == 10 else f"{data} {scene}, {clients} clients"


def fedsac(
    study: Study, data: str, scene: str, name: str = "fedsac", clients: int = 10, **keys: Any
) -> Experiment:
    """FedSAC with Table 9's settings but for `keys`."""
    beta = {"beta": float(TABLE_9[data][2][SCENES.index(scene)])}
    return _experiment(study, data, scene, clients, name, "fedsac", {**BY_EPOCHS, **beta, **keys})


def unbalanced(study: Study, data: str, scene: str) -> Experiment:
    """FedSAC on a Dirichlet split whose clients may have more than an equal share of all rows."""
    one = fedsac(study, data, scene, "fedsac_unbalanced")
    return replace(one, overrides=(*one.overrides, "data.partition.balance=false"))


def grid(
    study: Study, data: str, scene: str, clients: int = 10
) -> dict[str, dict[str, Experiment]]:
    """Per method its experiments by setting; messages are whole models, as in Table 8."""
    planned: dict[str, dict[str, Experiment]] = {}
    for method, settings in GRIDS.items():
        fixed: dict[str, Any] = dict(BY_EPOCHS) if method == "fedsac" else {}
        if method in ("cffl", "cgsv", "fedave"):
            fixed["positions"] = "dense"
        if method == "cffl" and scene == "CLA":
            fixed["weights"] = "classes"
        planned[method] = {}
        for keys in settings:
            setting = ", ".join(f"{key} {value:g}" for key, value in keys.items()) or "-"
            name = " ".join([method, *(f"{key} {value:g}" for key, value in keys.items())])
            part = {**fixed, **keys}
            one = _experiment(study, data, scene, clients, name, method, part)
            planned[method][setting] = one
    return planned


def fedavg_grid(study: Study, data: str, scene: str) -> list[Experiment]:
    """FedAvg by learning rate and local epochs (Appendix F), the epochs relative to Table 9's."""
    _, epochs = _training(study, data, scene)
    return [
        _experiment(study, data, scene, 10, f"eta {eta:g}, E {e}", "fedavg", {}, (eta, e))
        for eta in (0.03, 0.05, 0.1)
        for e in sorted({max(1, epochs * 3 // 4), epochs})
    ]


def figures(run: LoadedRun) -> dict[str, float]:
    """Fairness, rewards and costs of a run, without what is undefined; NaN for one that diverged.

    mb_per_round: megabytes (1e6) that all clients receive in a round.
    """
    measures = run.manifest.get("measures", {}).get("collaborative_fairness", {})
    names = ("fairness", "bounded_share", "reward_max", "reward_min", "contribution_max")
    versions = max(run.manifest["counts"]["versions"], 1)
    found = {name: float(measures.get(name, float("nan"))) for name in (*names, "ordered_pairs")}
    diverged = run.manifest["status"] == "diverged"
    return {
        **{name: value for name, value in found.items() if diverged or not math.isnan(value)},
        "mb_per_round": float(run.clients["bytes_received"].sum()) / versions / 1e6,
        "time_s": float(run.manifest["horizon_s"]),
        "client_energy_j": float(run.manifest["client_energy_j"]),
    }


@cache
def published(table: str) -> dict[tuple[str, str], str]:
    """The paper's figures of a table by (column, name); the subset's stand beside CIFAR-10's."""
    rows = pd.read_csv(HERE / "published" / "fedsac.csv", dtype=str)
    rows = rows[rows["table"] == table]
    found = {}
    for row in rows.itertuples():
        for data in (row.data, f"{row.data}_subset"):
            for name in (row.name, *SAME_ROW.get(row.name, ())):
                found[column(data, row.scene, int(row.clients)), name] = row.value
    return found


def _training(study: Study, data: str, scene: str) -> tuple[float, int]:
    """Learning rate and local epochs."""
    eta, epochs, _ = (values[SCENES.index(scene)] for values in TABLE_9[data])
    sizes = SIZES[study.scale.name]
    return float(eta), sizes.epochs or int(epochs)


def _experiment(
    study: Study,
    data: str,
    scene: str,
    clients: int,
    name: str,
    algorithm: str,
    keys: Mapping[str, Any],
    training: tuple[float, int] | None = None,
) -> Experiment:
    sizes = SIZES[study.scale.name]
    eta, epochs = training or _training(study, data, scene)
    batch = {"svhn": 64, "digits": 16}.get(data, 32)
    local = {"epochs": epochs, "batch_size": batch, "learning_rate": eta}
    part = {"name": algorithm, "local": local, **keys}
    rows = ROWS_DEALT.get(data, 20_000)
    overrides = [f"population.clients={clients}"]
    if sizes.training_rows:
        overrides.append(f"data.training_rows={sizes.training_rows}")
        rows = min(rows, 10_000)
    if sizes.rounds:
        overrides.append(f"stop.versions={sizes.rounds}")
    # Only FedSAC's courses are drawn; all others are scored at the end alone.
    every = sizes.courses_every if algorithm == "fedsac" else 1_000_000
    overrides.append(f"evaluate.every={every}")
    overrides += [f"algorithm={json.dumps(part)}", f"data.partition={_partition(scene, rows)}"]
    scenario = SCENARIOS / f"{data}.yaml"
    return Experiment(column(data, scene, clients), name, scenario, tuple(overrides))


def _partition(scene: str, rows: int) -> str:
    if scene == "POW":
        return f"{{name: power_law, total: {rows}}}"
    if scene == "CLA":
        return f"{{name: class_imbalance, total: {rows}}}"
    alpha = scene.removeprefix("DIR(").removesuffix(")")
    return f"{{name: dirichlet, alpha: {alpha}, balance: true}}"
