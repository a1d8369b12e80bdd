"""What CoreFed's tables hang on: M, the split, how long it is trained, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from corefed_experiments import (
    COLOUR_IMAGES,
    CORE,
    MATCHED,
    NOISE,
    OFFSETS,
    PUBLISHED,
    SWEPT,
    experiment,
    step_lengths,
)

from paper import Experiment, Study, Trial, draw_by_data, print_figures
from paper.agents import Served, fairness, serve
from paper.prices import prices
from paper.tables import COLUMNS
from simfl.measures.core.blocking import ratio_sum

DEVICES = (("jetson_nano", "wifi5_ac"), ("rpi_4b", "wifi5_ac"), ("phone_high_sd865", "lte_2021"))
CHECKPOINTS = {"smoke": (1, 2), "quick": (50, 100, 200), "paper": (50, 100, 200)}
"""Versions at which the long runs are looked at; the last one ends them."""

ALPHAS = (0.05, 0.1, 0.5)
NUMBERS = {"adult": ("standardised", "raw"), "digits": ("",)}
"""Data sets with a linear model and their inputs; digits stand in at the smallest scale."""
FEW_VERSIONS = {"1 version": 1, "3 versions": 3}
"""How long standardised inputs are trained, too: the paper does not say how long it trains."""


def offsets(study: Study) -> pd.DataFrame:
    """Table 3 again with other M, which the paper does not state there."""
    there = [data for data in study.data if data in COLOUR_IMAGES]
    settings = {f", M = {offset:g}": offset for offset in SWEPT}
    planned = [
        under(setting, experiment(study, data, name, offset, [NOISE]))
        for setting, offset in settings.items()
        for data in there
        for name in CORE
    ]
    served = serve(study.run(planned), study.options)
    found = [
        compared_under(setting, served, dict.fromkeys(COLOUR_IMAGES, offset))
        for setting, offset in settings.items()
    ]
    values = pd.concat(found, ignore_index=True)
    shown = ("mean", "product", "worst", "ratio")
    print_figures(values[values["figure"].isin(shown)])
    return values


def under(setting: str, one: Experiment) -> Experiment:
    """The experiment with the setting behind its name."""
    return replace(one, name=one.name + setting)


def compared_under(
    setting: str, served: Sequence[Served], offsets: Mapping[str, float]
) -> pd.DataFrame:
    """`fairness` of the runs under one setting among themselves."""
    own = [one for one in served if one.trial.name.endswith(setting)]
    return fairness(own, offsets, baseline=f"fedavg{setting}", method=f"corefed{setting}")


def long(study: Study) -> pd.DataFrame:
    """Table 1 for 200 versions, against FedAvg with its own steps and with CoreFed's."""
    checkpoints = CHECKPOINTS[study.scale.name]
    extra = [
        f"stop.versions={checkpoints[-1]}",
        f"evaluate.every={checkpoints[0]}",
        "evaluate.clients=true",
    ]
    there = {data: OFFSETS[data] for data in study.data}
    planned = [experiment(study, data, n, M, extra) for data, M in there.items() for n in CORE]
    for data, rate in step_lengths(study, there, extra).items():
        planned.append(experiment(study, data, MATCHED, there[data], extra, rate=rate))
    trials = study.run(planned)
    rows = [row for one in _by_seed(trials) for row in _compared_at(one, checkpoints)]
    values = pd.DataFrame(rows, columns=COLUMNS)
    print_figures(values)
    axes = {"xlabel": "version", "ylabel": "mean log utility"}
    draw_by_data(study, trials, "long", _welfare, **axes)
    return values


def _by_seed(trials: list[Trial]) -> Iterator[dict[str, Trial]]:
    """The runs of one data set and seed by name."""
    for data, seed in dict.fromkeys((one.data, one.seed) for one in trials):
        yield {one.name: one for one in trials if (one.data, one.seed) == (data, seed)}


def _compared_at(
    runs: Mapping[str, Trial], checkpoints: tuple[int, ...]
) -> Iterator[tuple[str, str, int, str, float]]:
    """Per run and checkpoint the product, and the sums of ratios of both kinds of FedAvg to it.

    Figures before the last checkpoint bear its version: ratio_50.
    """
    courses = {name: utilities_by_version(one) for name, one in runs.items()}
    for name, one in runs.items():
        key = (one.data, name, one.seed)
        for version in checkpoints:
            if version not in courses[name].index:  # it diverged
                continue
            own = courses[name].loc[version].to_numpy()
            at = "" if version == checkpoints[-1] else f"_{version}"
            yield *key, f"product{at}", own.prod() if (own > 0).all() else np.nan
            for base, figure in (("fedavg", "ratio"), (MATCHED, "matched_ratio")):
                if base in runs and name != base and version in courses[base].index:
                    other = courses[base].loc[version].to_numpy()
                    ratio = ratio_sum(own, other) if (own > 0).all() else np.nan
                    yield *key, f"{figure}{at}", ratio


def _welfare(trial: Trial) -> pd.Series:
    """The agents' mean log utility by version; NaN where one has none."""
    utilities = utilities_by_version(trial)
    return np.log(utilities.where(utilities > 0)).mean(axis=1, skipna=False)


def utilities_by_version(trial: Trial) -> pd.DataFrame:
    """The agents' utilities on their own data: (evaluated versions, agents)."""
    own = trial.run.evaluations.query("on == 'own'")
    return OFFSETS[trial.data] - own.pivot(index="version", columns="client", values="loss")


def splits(study: Study) -> pd.DataFrame:
    """Adult by the split's alpha, the inputs and the length of training.

    Which is as unequal as the paper's Table 1?
    """
    planned: dict[str, list[Experiment]] = {}
    for data in study.data:
        for alpha, numbers in product(ALPHAS, NUMBERS.get(data, ())):
            for versions in ("", *(FEW_VERSIONS if numbers != "raw" else {})):
                setting = ", ".join(filter(None, (f"alpha {alpha:g}", numbers, versions)))
                extra = _split(alpha, numbers)
                if versions:
                    extra.append(f"stop.versions={FEW_VERSIONS[versions]}")
                planned.setdefault(f", {setting}", []).extend(
                    under(f", {setting}", experiment(study, data, name, OFFSETS[data], extra))
                    for name in ("fedavg", "corefed")
                )
    served = serve(study.run([one for of in planned.values() for one in of]), study.options)
    found = []
    for setting in planned:
        values = compared_under(setting, served, OFFSETS)
        baseline = f"fedavg{setting}"
        distances = [
            (data, baseline, seed, "distance", _distance(own))
            for (data, seed), own in values[values["name"] == baseline].groupby(["data", "seed"])
        ]
        found += [one for one in (values, pd.DataFrame(distances, columns=COLUMNS)) if len(one)]
    if not found:
        return pd.DataFrame(columns=COLUMNS)
    values = pd.concat(found, ignore_index=True)
    shown = ("mean", "product", "worst", "ratio", "worst_off_gain", "distance")
    print_figures(values[values["figure"].isin(shown)])
    print("distance: of FedAvg's utilities, in order, from the paper's (root mean square)\n")
    return values


def _split(alpha: float, numbers: str) -> list[str]:
    partition = f"data.partition.alpha={alpha}"
    return [partition, f"data.numbers={numbers}"] if numbers else [partition]


def _distance(own: pd.DataFrame) -> float:
    """Of FedAvg's utilities in a run from those in the paper's row for Adult, both in order."""
    there = PUBLISHED.query("table == 'table1' and data == 'adult' and name == 'fedavg'")
    pair = [
        np.sort(rows.loc[rows["figure"].str.startswith("agent_"), "value"].astype(float))
        for rows in (own, there)
    ]
    return float(np.sqrt(((pair[0] - pair[1]) ** 2).mean()))


def price(study: Study) -> pd.DataFrame:
    """Seconds and joules on unlike devices until agents are as well off as FedAvg leaves them."""
    groups = [{"device": device, "link": link, "count": 1} for device, link in DEVICES]
    extra = [
        f"population.groups={json.dumps(groups)}",
        "evaluate.every=1",
        "evaluate.clients=true",
    ]
    names = (*CORE, "afl")
    planned = [experiment(study, d, n, OFFSETS[d], extra) for d in study.data for n in names]
    trials = study.run(planned)
    rows = []
    for data in pd.unique(np.array([one.data for one in trials])):
        for seed in range(study.seeds):
            runs = {t.name: _course(t) for t in trials if (t.data, t.seed) == (data, seed)}
            if "fedavg" not in runs:
                continue
            for name, figures in prices(runs, "fedavg", ("worst", "mean")).items():
                rows += [(data, name, seed, *figure) for figure in figures.items()]
    values = pd.DataFrame(rows, columns=COLUMNS)
    print_figures(values)
    axes = {"xlabel": "simulated s", "ylabel": "utility of the worst-off agent"}
    draw_by_data(study, trials, "price", lambda t: _course(t).set_index("time_s")["worst"], **axes)
    return values


def _course(trial: Trial) -> pd.DataFrame:
    """By version: time_s, clients' energy_j, and agents' worst and mean utility on their data."""
    utilities = utilities_by_version(trial)
    course = trial.run.rounds.set_index("version")[["time_s", "client_energy_j"]]
    course = course.rename(columns={"client_energy_j": "energy_j"})
    return course.assign(worst=utilities.min(axis=1), mean=utilities.mean(axis=1)).dropna()
