"""CoreFed's tables (arXiv 2211.02091), ours beside the paper's, and what they leave out.

    python analysis/corefed.py table1 --scale quick --data-root DIR
    python analysis/corefed.py table2|table3|table4|offsets|core|price|all

docs/papers/corefed.md says what is compared, and what came out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from paper import (
    Exhibit,
    Experiment,
    Paper,
    Scale,
    Study,
    Trial,
    draw_by_data,
    main,
    print_figures,
)
from paper.agents import DRAWS, Served, by_seed, fairness, serve
from paper.prices import prices
from paper.tables import COLUMNS, mean_and_deviation, print_markdown
from simfl.measures.core.agents import Agents
from simfl.measures.core.blocking import against
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.core.certificate import certificate
from simfl.runs.execution import federation_of
from simfl.scenario.yaml_source.source import read_source
from simfl.streams import Streams

ROOT = Path(__file__).parents[1]
SCENARIOS = ROOT / "scenarios" / "papers" / "corefed"

OFFSETS = {"adult": 3.0, "mnist": 1.0, "cifar10": 3.0, "cifar10_subset": 3.0, "digits": 3.0}
RAISED = 4.0  # Tables 2 to 4 print utilities above 3, which M = 3 cannot give
SWEPT = (3.5, 4.0, 5.0)
COLOUR_IMAGES = ("cifar10", "cifar10_subset", "digits")  # digits stand in at the smallest scale
NOISE = "data.noise_variance=[0.0, 0.5, 1.0]"
DEVICES = (("jetson_nano", "wifi5_ac"), ("rpi_4b", "wifi5_ac"), ("phone_high_sd865", "lte_2021"))
CORE = ("fedavg", "corefed", "normalized")

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
    }
}
DEEP = {"smoke": "mlp", "quick": {"name": "vgg11", "width": 0.25}, "paper": "vgg11"}

# Rows of the paper's tables: agents, U(Average), U(Multi), sum of ratios.
PAPER_TABLES: Mapping[tuple[str, str, str], str] = {
    ("table1", "adult", "fedavg"): "2.59 0.77 1.46 1.61 2.91 -",
    ("table1", "adult", "corefed"): "2.62 0.90 1.53 1.68 3.61 2.80",
    ("table1", "mnist", "fedavg"): "0.34 0.29 0.92 0.52 0.091 -",
    ("table1", "mnist", "corefed"): "0.36 0.41 0.91 0.56 0.13 2.66",
    ("table1", "cifar10", "fedavg"): "0.63 1.40 0.51 0.84 0.45 -",
    ("table1", "cifar10", "corefed"): "0.73 1.35 0.71 0.93 0.70 2.62",
    ("table2", "cifar10", "fedavg"): "0.25 3.25 3.46 2.35 2.89 -",
    ("table2", "cifar10", "corefed"): "1.63 3.17 3.32 2.71 17.15 2.25",
    ("table3", "cifar10", "fedavg"): "3.28 3.30 1.42 2.67 15.37 -",
    ("table3", "cifar10", "corefed"): "3.26 3.27 1.95 2.83 20.79 2.74",
    ("table4", "cifar10", "fedavg"): (
        "2.11 2.30 3.04 3.28 1.15 2.70 2.00 2.72 2.76 3.14 2.52 7084 -"
    ),
    ("table4", "cifar10", "corefed"): (
        "2.26 2.50 3.12 3.32 1.42 2.50 1.99 2.80 2.65 2.99 2.55 9173 9.77"
    ),
}


def methods(offset: float) -> dict[str, dict[str, Any]]:
    """The algorithm sections by name, but for local training, which is the scenario's."""
    corefed = {"name": "corefed", "offset": offset}
    return {
        "fedavg": {"name": "fedavg", "weights": "uniform"},
        "corefed": corefed,
        "normalized": {**corefed, "step": "normalized"},
        "afl": {"name": "afl"},
        "qffl": {"name": "qffl"},
    }


def experiment(
    study: Study, data: str, name: str, offset: float, extra: Sequence[str] = ()
) -> Experiment:
    """Method `name` with M = `offset`, as small as the scale has it."""
    scenario = SCENARIOS / f"{data}.yaml"
    local = read_source(scenario).content["algorithm"]["local"]
    section = {**methods(offset)[name], "local": local}
    reduced = (*LENGTHS[study.scale.name], *REDUCED.get(study.scale.name, {}).get(data, ()))
    overrides = (f"algorithm={json.dumps(section)}", *reduced, *extra)
    return Experiment(data, name, scenario, overrides)


def compared(
    study: Study,
    table: str,
    offsets: Mapping[str, float],
    names: Sequence[str],
    extra: Sequence[str] = (),
) -> pd.DataFrame:
    """Run `names` on the data sets of `offsets`, print the table; its values."""
    there = [data for data in study.data if data in offsets]
    planned = [experiment(study, data, n, offsets[data], extra) for data in there for n in names]
    values = fairness(serve(study.run(planned), study.options), offsets)
    _print_beside(table, values)
    rest = ("worst", "variance", "jain_index", "test_mean", "blocking_margin", "worst_off_gain")
    print_figures(values[values["figure"].isin(rest)])
    return values


def _print_beside(table: str, values: pd.DataFrame) -> None:
    """Agents' utilities, U(Average), U(Multi) and the sum of ratios, the paper's row below ours."""
    for data, own in values.groupby("data", sort=False):
        agents = [one for one in pd.unique(own["figure"]) if one.startswith("agent_")]
        columns = [*agents, "mean", "product", "ratio"]
        rows: dict[str, list[str]] = {}
        for name, of_name in own.groupby("name", sort=False):
            cells = {figure: part["value"] for figure, part in of_name.groupby("figure")}
            rows[str(name)] = [
                mean_and_deviation(cells[one].to_numpy(), 3) if one in cells else "-"
                for one in columns
            ]
            if "ratio" in cells:
                low, high = (cells[f"ratio_{end}"].mean() for end in ("low", "high"))
                rows[str(name)][-1] += f" [{low:.3f} to {high:.3f}]"
            printed = PAPER_TABLES.get((table, str(data).removesuffix("_subset"), str(name)))
            if printed is not None:
                rows[f"{name}, paper"] = printed.split()
        print_markdown(str(data), pd.DataFrame.from_dict(rows, orient="index", columns=columns))
    print("Sum of ratios with the mean ends of the 90 % bootstrap intervals over local samples\n")


def table1(study: Study) -> pd.DataFrame:
    """Three agents on every data set, M as in the paper."""
    return compared(study, "table1", OFFSETS, CORE)


def table2(study: Study) -> pd.DataFrame:
    """VGG-11 on colour images."""
    model = f"model={json.dumps(DEEP[study.scale.name])}"
    return compared(study, "table2", dict.fromkeys(COLOUR_IMAGES, RAISED), CORE, [model])


def table3(study: Study) -> pd.DataFrame:
    """Agents with noise of variance 0, 0.5 and 1 on their images; egalitarian rules beside."""
    offsets = dict.fromkeys(COLOUR_IMAGES, RAISED)
    return compared(study, "table3", offsets, (*CORE, "afl", "qffl"), [NOISE])


def table4(study: Study) -> pd.DataFrame:
    """Ten agents."""
    offsets = dict.fromkeys(COLOUR_IMAGES, RAISED)
    return compared(study, "table4", offsets, CORE, ["population.clients=10"])


def offsets(study: Study) -> pd.DataFrame:
    """Table 3 again with other M, which the paper does not state there."""
    found = []
    for offset in SWEPT:
        by_data = dict.fromkeys(COLOUR_IMAGES, offset)
        there = [data for data in study.data if data in by_data]
        planned = [experiment(study, data, n, offset, [NOISE]) for data in there for n in CORE]
        values = fairness(serve(study.run(planned), study.options), by_data)
        found.append(values.assign(name=values["name"] + f", M = {offset:g}"))
    values = pd.concat(found, ignore_index=True)
    shown = ("mean", "product", "worst", "ratio")
    print_figures(values[values["figure"].isin(shown)])
    return values


def core(study: Study) -> pd.DataFrame:
    """Is the model in the core? Models that coalitions train alone; on convex models, all."""
    rows: list[tuple[str, str, int, str, float]] = []
    subsets = [one for size in (1, 2) for one in combinations(range(3), size)]
    for data in study.data:
        offset = OFFSETS[data]
        planned = [experiment(study, data, name, offset) for name in CORE]
        trials = study.run([*planned, *(_coalition(study, data, one) for one in subsets)])
        rows += _certified(study, [one for one in trials if one.name in CORE], offset)
        for _, seed, runs in by_seed(serve(trials, study.options)):
            rows += [(data, name, seed, *row) for name, row in _withstood(runs, offset)]
    values = pd.DataFrame(rows, columns=COLUMNS)
    print_figures(values)
    return values


def _coalition(study: Study, data: str, members: tuple[int, ...]) -> Experiment:
    """FedAvg among `members` alone."""
    selection = {"name": "coalition.py:Coalition", "members": members}
    extra = [f"decisions.selection={json.dumps(selection)}"]
    plain = experiment(study, data, "fedavg", OFFSETS[data], extra)
    return Experiment(data, f"coalition {members}", plain.scenario, plain.overrides)


def _withstood(
    runs: Mapping[str, Served], offset: float
) -> Iterable[tuple[str, tuple[str, float]]]:
    """The margin of the exact test of all that coalitions trained, by the model in question."""
    alone = {n: one.utilities(offset) for n, one in runs.items() if n.startswith("coalition")}
    for name in CORE:
        if name in runs and alone:
            own = runs[name].utilities(offset)
            margin = against(own, alone).margin if (own > 0).all() else float("nan")
            yield name, ("coalitions_margin", margin)


def _certified(
    study: Study, trials: Sequence[Trial], offset: float
) -> list[tuple[str, str, int, str, float]]:
    """The certificate over all predictors, for models that are affine."""
    rows = []
    for one in trials:
        if one.run.scenario["model"]["name"] != "linear":
            continue
        model = federation_of(one.run.path, study.options).losses(exact=True)
        agents = Agents.of(model, offset)
        bootstrap = Bootstrap(Streams(one.seed).generator("bootstrap"), DRAWS)
        whole = certificate(agents, model.theta, bootstrap)
        low, high = whole.interval or (float("nan"), float("nan"))
        figures = {
            "certificate_margin": whole.margin,
            "certificate_low": low,
            "certificate_high": high,
            "blocked": float(whole.stable is False),
        }
        rows += [(one.data, one.name, one.seed, *figure) for figure in figures.items()]
    return rows


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
            for name, figures in prices(runs, "fedavg", ("worst", "mean")).items():
                rows += [(data, name, seed, *figure) for figure in figures.items()]
    values = pd.DataFrame(rows, columns=COLUMNS)
    print_figures(values)
    axes = {"xlabel": "simulated s", "ylabel": "utility of the worst-off agent"}
    draw_by_data(study, trials, "price", lambda t: _course(t).set_index("time_s")["worst"], **axes)
    return values


def _course(trial: Trial) -> pd.DataFrame:
    """By version: time_s, clients' energy_j, and agents' worst and mean utility on their data."""
    own = trial.run.evaluations.query("on == 'own'")
    utilities = OFFSETS[trial.data] - own.pivot(index="version", columns="client", values="loss")
    course = trial.run.rounds.set_index("version")[["time_s", "client_energy_j"]]
    course = course.rename(columns={"client_energy_j": "energy_j"})
    return course.assign(worst=utilities.min(axis=1), mean=utilities.mean(axis=1)).dropna()


SCALES = {
    "quick": Scale(
        "quick",
        5,
        ("adult", "mnist", "cifar10_subset"),
        "2 epochs instead of 10 (assumed); Adult 10,000 rows and 30 versions, MNIST and a subset "
        "of CIFAR-10 3,000 images and 20 versions, instead of 50; Table 2: a quarter-width VGG-11",
    ),
    "smoke": Scale("smoke", 1, ("digits",), "digits instead of the paper's data; 8 versions"),
    "paper": Scale("paper", 5, ("adult", "mnist", "cifar10"), estimate=True),
}
EXHIBITS = {
    "table1": Exhibit("Table 1: utilities under FedAvg and CoreFed", table1),
    "table2": Exhibit("Table 2: VGG-11 (quick: of a quarter of its width), M = 4", table2),
    "table3": Exhibit("Table 3: noise of variance 0, 0.5, 1 on the agents' images, M = 4", table3),
    "table4": Exhibit("Table 4: ten agents, M = 4", table4),
    "offsets": Exhibit("Table 3 with M = 3.5, 4 and 5", offsets),
    "core": Exhibit("Core stability: certificates, and models that coalitions train", core),
    "price": Exhibit("The price of core stability on unlike devices", price),
}
PAPER = Paper(
    "CoreFed (arXiv 2211.02091)", ROOT / "analysis" / "claims" / "corefed.yaml", SCALES, EXHIBITS
)


if __name__ == "__main__":
    main(PAPER)
