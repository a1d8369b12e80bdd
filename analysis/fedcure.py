"""FedCure's table and figures (arXiv 2511.10227), ours beside the paper's.

    python analysis/fedcure.py table1 --scale quick --data-root DIR
    python analysis/fedcure.py fig2|fig3|fig4a|fig4b|fig5|fig6|all

docs/papers/fedcure.md says what is compared, and what came out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from fedcure_formation import draw_formation, formation

from paper import (
    Exhibit,
    Experiment,
    Paper,
    Scale,
    Study,
    Trial,
    cohens_d,
    draw_by_data,
    gather,
    main,
    mean_accuracy,
    new_figure,
    print_figures,
    print_table,
    save_figure,
)
from simfl.measures.dispatches import decisions
from simfl.measures.edge_participation import edge_participation
from simfl.measures.efficiency import efficiency_gap
from simfl.measures.round_latency import coefficient_of_variation, round_latencies
from simfl.measures.virtual_queues import growth, virtual_queues
from simfl.pictures.overview import COLOURS
from simfl.runs.runfolder import LoadedRun

ROOT = Path(__file__).parents[1]
SCENARIOS = ROOT / "scenarios" / "papers" / "fedcure"

KAPPA = 0.8
ACCURACIES = {"xlabel": "version", "ylabel": "test accuracy"}
LAST = 3  # evaluations at the end of a run that an accuracy is the mean of
FROM_HOME = "decisions.association=initial"
METHODS = {
    "greedy": (FROM_HOME, "decisions.scheduling=greedy"),
    "fair": (FROM_HOME, "decisions.scheduling=fair"),
    "fedgreedy": ("decisions.scheduling=greedy",),
    "fedfair": ("decisions.scheduling=fair",),
    "fedcure": (),
}
PARTITIONS = {
    "initial": (FROM_HOME,),
    "intermediate": ("decisions.association=half_way.py:HalfWay",),
    "kmeans": ("decisions.association=kmeans",),
    "mean_shift": ("decisions.association=mean_shift",),
    "fedcure": (),
}
BETAS = (0.1, 0.5, 2, 10, 50)
# The appendix: 10 clients with one of 3 labels each, on 3 edge servers.
RH_SETUP = (
    "population.clients=10",
    "population.edges=3",
    "data.labels=3",
    "data.partition.labels_per_edge=1",
    "data.partition.labels_per_client=1",
)
RH_RULES = {"rh": ("decisions.association=reputation_hedonic",), "fedcure": ()}
# Time, energy and decisions do not depend on what is learned. The exhibits measure what they show.
TIMING = ("algorithm.name=none", "evaluate.measures=[]")

SMALLER = ("population.clients=25", "evaluate.every=5")
REDUCED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "smoke": {"digits": (*SMALLER, "protocol.edge_rounds=2", "stop.versions=10")},
    "quick": {
        "digits": (*SMALLER, "stop.versions=50"),
        "mnist": (
            *SMALLER,
            "stop.versions=50",
            "algorithm.local.batch_size=8",
            "data.examples=5000",
            "data.test_examples=2000",
        ),
        "cifar10_subset": (*SMALLER, "stop.versions=100", "algorithm.local.batch_size=8"),
    },
}
TIMED: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "smoke": (24, ("protocol.edge_rounds=2",)),
    "quick": (300, ()),
    "paper": (1000, ()),
}

PAPER_TABLE_1 = {
    (data, method): text
    for method, row in {
        "greedy": ("37.97 ± 0.03", "18.25 ± 0.06", "9.36 ± 1.08", "14.56 ± 1.84"),
        "fair": ("76.19 ± 0.90", "18.65 ± 0.85", "29.20 ± 7.93", "15.99 ± 2.45"),
        "fedgreedy": ("96.09 ± 0.12", "50.39 ± 1.33", "56.63 ± 2.09", "33.75 ± 1.73"),
        "fedfair": ("96.37 ± 0.05", "53.15 ± 0.62", "58.46 ± 1.13", "34.83 ± 1.72"),
        "fedcure": ("96.37 ± 0.05", "52.90 ± 0.92", "57.51 ± 1.30", "34.94 ± 1.66"),
    }.items()
    for data, text in zip(("mnist", "cifar10", "svhn", "cinic10"), row, strict=True)
}


def experiment(study: Study, data: str, name: str, overrides: tuple[str, ...]) -> Experiment:
    """One that trains, as small as the scale has it."""
    reduced = REDUCED.get(study.scale.name, {}).get(data, ())
    return Experiment(data, name, SCENARIOS / f"{data}.yaml", (*reduced, *overrides))


def timed(
    study: Study, data: str, name: str, versions: int, overrides: tuple[str, ...]
) -> Experiment:
    """One that trains nothing, at the paper's size unless for tests, for so many versions."""
    longest, reduced = TIMED[study.scale.name]
    sets = (*TIMING, f"stop.versions={min(versions, longest)}", *reduced, *overrides)
    return Experiment(data, name, SCENARIOS / f"{data}.yaml", sets)


def accuracy(run: LoadedRun) -> dict[str, float]:
    """Mean of the last evaluations: a single one depends on which edge server came last."""
    return {"accuracy": mean_accuracy(run, LAST)}


def table1(study: Study) -> pd.DataFrame:
    """Accuracy of the five methods, and Cohen's d between FedCure and FedFair."""
    values = gather(study.run(_all(study, METHODS)), accuracy)
    print_table(values, "accuracy", PAPER_TABLE_1, scale=100, digits=2)
    for data, own in values.groupby("data", sort=False):
        of = {name: one["value"].to_numpy() for name, one in own.groupby("name")}
        d = cohens_d(of["fedcure"], of["fedfair"])
        print(f"Cohen's d of FedCure and FedFair, {data}: {d:.2f} (paper: 0.00 to 0.78)\n")
    return values


def fig2(study: Study) -> pd.DataFrame:
    """Label distributions before, half-way and after formation; mean JS divergence by switch."""
    trials = study.run([timed(study, data, "fedcure", 1, ()) for data in study.data])
    values = gather(trials, formation)
    print_figures(values, digits=6)
    draw_formation(study, trials, "fig2")
    return values


def fig3(study: Study) -> pd.DataFrame:
    """Accuracy by round on the partitions that formation goes through, and on clusters."""
    trials = study.run(_all(study, PARTITIONS))
    values = gather(trials, accuracy)
    values = pd.concat([values, _ratios(values)], ignore_index=True)
    print_table(values, "accuracy", scale=100, digits=2)
    print_table(values, "accuracy_ratio", {("mnist", "fedcure_to_initial"): "1.40"}, digits=2)
    draw_by_data(study, trials, "fig3", **ACCURACIES)
    return values


def fig4a(study: Study) -> pd.DataFrame:
    """Coefficient of variation of the latency of scheduled dispatches, over 100 rounds."""
    planned = [
        timed(study, data, name, 100, sets) for data in study.data for name, sets in METHODS.items()
    ]
    values = gather(
        study.run(planned),
        lambda run: {"cov": coefficient_of_variation(round_latencies(run).latency_s)},
    )
    print_table(values, "cov", {("mnist", "fedcure"): "0.0223 (best of all)"}, digits=4)
    figure, axes = new_figure(values["data"].nunique())
    for axis, (data, own) in zip(axes, values.groupby("data", sort=False), strict=True):
        spread = own.groupby("name", sort=False)["value"].agg(["mean", "std"])
        axis.bar(spread.index, spread["mean"], yerr=spread["std"].fillna(0), color=COLOURS[0])
        axis.set(title=data, ylabel="COV of round latency")
    save_figure(figure, study.folder, "fig4a")
    return values


def fig4b(study: Study) -> pd.DataFrame:
    """Virtual queues for several beta."""
    planned = [
        timed(study, data, f"beta_{beta}", 1000, (f"decisions.scheduling.beta={beta}",))
        for data in study.data
        for beta in BETAS
    ]
    trials = study.run(planned)
    values = gather(trials, _queues)
    print_figures(values)
    axes = {"xlabel": "scheduling round", "ylabel": "longest virtual queue", "yscale": "symlog"}
    draw_by_data(study, trials, "fig4b", _longest_queue, **axes)
    return values


def fig5(study: Study) -> pd.DataFrame:
    """Formation by FedCure and by RH, whose clients seek their own gain, in RH's set-up."""
    trials = study.run(
        [
            timed(study, data, name, 1, (*RH_SETUP, *sets))
            for data in study.data
            for name, sets in RH_RULES.items()
        ]
    )
    values = gather(trials, formation)
    print_figures(values)
    draw_formation(study, trials, "fig5")
    return values


def fig6(study: Study) -> pd.DataFrame:
    """Accuracy on the coalitions of fig5."""
    trials = study.run(_all(study, RH_RULES, RH_SETUP))
    values = gather(trials, lambda run: {"accuracy_rh_setup": mean_accuracy(run, LAST)})
    print_table(values, "accuracy_rh_setup", scale=100, digits=2)
    draw_by_data(study, trials, "fig6", **ACCURACIES)
    return values


def _all(
    study: Study, named: Mapping[str, tuple[str, ...]], setup: tuple[str, ...] = ()
) -> list[Experiment]:
    return [
        experiment(study, data, name, (*setup, *sets))
        for data in study.data
        for name, sets in named.items()
    ]


def _ratios(values: pd.DataFrame) -> pd.DataFrame:
    """Of the final partition's accuracy to the initial one's, per seed."""
    wide = values.pivot_table(index=["data", "seed"], columns="name", values="value")
    ratio = (wide["fedcure"] / wide["initial"]).rename("value").reset_index()
    return ratio.assign(name="fedcure_to_initial", figure="accuracy_ratio")[values.columns]


def _queues(run: LoadedRun) -> dict[str, float]:
    """Growth and level of the queues, participation beyond what is owed, mean g."""
    queues, shares, gap = virtual_queues(run), edge_participation(run), efficiency_gap(run)
    assert queues is not None and shares is not None and gap is not None, "FedCure schedules"
    grown = growth(queues)
    return {
        "queue_growth": grown.of_owed,
        "queue_level": grown.level,
        "queue_over_rounds": queues.over_rounds[-1],
        "participation_surplus": shares.surplus.min(),
        "efficiency": gap.mean,
    }


def _longest_queue(trial: Trial) -> pd.Series:
    run = trial.run
    queues = virtual_queues(run)
    assert queues is not None
    return pd.Series(queues.longest, index=decisions(run)["round"])


SCALES = {
    "quick": Scale(
        "quick",
        5,
        ("mnist",),
        "training with 25 clients, 50 versions, batches of 8, 5,000 training and 2,000 test images;"
        " formation, latencies and queues at the paper's size",
    ),
    "smoke": Scale(
        "smoke", 1, ("digits",), "digits instead; 25 clients, 10 versions, 2 edge rounds"
    ),
    "paper": Scale("paper", 5, ("mnist", "cifar10", "svhn", "cinic10"), estimate=True),
}
PAPER = Paper(
    "FedCure (arXiv 2511.10227)",
    ROOT / "analysis" / "claims" / "fedcure.yaml",
    SCALES,
    {
        "table1": Exhibit("Table 1: accuracy of the methods, %", table1),
        "fig2": Exhibit("Figure 2: how coalitions form", fig2),
        "fig3": Exhibit("Figure 3: accuracy by partition, %", fig3),
        "fig4a": Exhibit("Figure 4a: variation of round latency", fig4a),
        "fig4b": Exhibit("Figure 4b: virtual queues", fig4b),
        "fig5": Exhibit("Figure 5: formation, FedCure and RH", fig5),
        "fig6": Exhibit("Figure 6: accuracy, FedCure and RH, %", fig6),
    },
)

if __name__ == "__main__":
    main(PAPER)
