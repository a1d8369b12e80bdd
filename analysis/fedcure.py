"""FedCure's table and figures (arXiv 2511.10227), ours beside the paper's.

    python analysis/fedcure.py table1 --scale quick --data-root DIR
    python analysis/fedcure.py fig2|fig3|fig4a|fig4b|fig5|fig6|clocks|theorem4|theorem5|eps2
    python analysis/fedcure.py unstated|unstated_long|readings|all

docs/papers/fedcure.md says what is compared, and what came out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
from fedcure_experiments import (
    CLOCK_READINGS,
    CLOCKS,
    LAST,
    METHODS,
    OWN_CLOCKS,
    PARTITIONS,
    RH_RULES,
    RH_SETUP,
    ROOT,
    STUDY_SEEDS,
    Readings,
    accuracy,
    carried,
    experiment,
    experiments,
    published,
    published_by_reading,
    readings,
    timed,
    with_seeds,
)
from fedcure_formation import draw_formation, edges_of_clients, formation
from fedcure_theory import FEWER_EVENTS_SIZE, LOGISTIC_SIZE, eps2, theorem4, theorem5

from paper import (
    Exhibit,
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
from simfl.measures.inequality import coefficient_of_variation
from simfl.measures.round_latency import round_latencies
from simfl.measures.virtual_queues import growth, virtual_queues
from simfl.pictures.colours import COLOURS
from simfl.runs.runfolder import LoadedRun

ACCURACIES = {"xlabel": "version", "ylabel": "test accuracy"}
BETAS = (0.1, 0.5, 2, 10, 50)
SMOKE_READINGS = 3


def table1(study: Study) -> pd.DataFrame:
    """Accuracy of the five methods, the baselines at both clocks; Cohen's d of FedCure, FedFair."""
    values = study.measured(experiments(study, CLOCK_READINGS), accuracy)
    print_table(values, "accuracy", published("table1", "accuracy"), scale=100, digits=2)
    printed = published("table1", "cohens_d")
    for data, own in values.groupby("data", sort=False):
        of = {name: one["value"].to_numpy() for name, one in own.groupby("name")}
        if {"fedcure", "fedfair"} <= of.keys():
            d = cohens_d(of["fedcure"], of["fedfair"])
            print(f"Cohen's d of FedCure and FedFair, {data}: {d:.2f}", end=" ")
            print(f"(paper: {printed.get((str(data), 'fedcure'), '-')})\n")
    return values


def unstated(study: Study) -> pd.DataFrame:
    """FedCure alone under every reading of what the paper leaves open, against its one figure."""
    known = readings()
    short = [name for name in known.sets if name not in known.long]
    some = short[:SMOKE_READINGS] if study.scale.name == "smoke" else short
    return _judged(study, known, some, "unstated")


def unstated_long(study: Study) -> pd.DataFrame:
    """The same of the readings under which a run takes hours."""
    known = readings()
    return _judged(study, known, sorted(known.long), "unstated_long")


def _judged(study: Study, known: Readings, named: Sequence[str], name: str) -> pd.DataFrame:
    chosen = {one: known.sets[one] for one in named}
    trials = with_seeds(study, STUDY_SEEDS).run(experiments(study, chosen), accuracy)
    values = gather(trials, accuracy)
    print_table(values, "accuracy", scale=100, digits=2)
    for one, points in known.far(values).items():
        print(f"{one}: {points:+.2f} points from the paper's {known.target}")
    near = ", ".join(known.near(values))
    print(f"Carried (within {known.within} points, else the nearest below and above): {near}\n")
    draw_by_data(study, trials, name, **ACCURACIES)
    return values


def all_readings(study: Study) -> pd.DataFrame:
    """Table 1 again under every reading that is carried (Eq. 16 for all five)."""
    known = readings()
    named = {
        f"{method}+{reading}": (*known.sets[reading], *sets)
        for reading in carried()
        for method, sets in METHODS.items()
    }
    values = study.measured(experiments(study, named), accuracy)
    print_table(values, "accuracy", published_by_reading("accuracy"), scale=100, digits=2)
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
    trials = _on_partitions(study)
    values = gather(trials, accuracy)
    values = pd.concat([values, _ratios(values)], ignore_index=True)
    print_table(values, "accuracy", scale=100, digits=2)
    print_table(values, "accuracy_ratio", published("fig3", "accuracy_ratio"), digits=2)
    draw_by_data(study, trials, "fig3", **ACCURACIES)
    return values


def fig4a(study: Study) -> pd.DataFrame:
    """Coefficient of variation of the latency of scheduled dispatches, over 100 rounds."""
    planned = [
        timed(study, data, name, 100, sets)
        for data in study.data
        for name, sets in CLOCK_READINGS.items()
    ]
    values = gather(with_seeds(study, 20).run(planned), _variation)
    print_table(values, "cov", published("fig4a", "cov"), digits=4)
    if values.empty:
        return values
    figure, axes = new_figure(values["data"].nunique())
    for axis, (data, own) in zip(axes, values.groupby("data", sort=False), strict=True):
        spread = own.groupby("name", sort=False)["value"].agg(["mean", "std"])
        axis.barh(spread.index, spread["mean"], xerr=spread["std"].fillna(0), color=COLOURS[0])
        axis.set(title=data, xlabel="COV of round latency")
        axis.invert_yaxis()
    save_figure(figure, study.folder, "fig4a")
    return values


def clocks(study: Study) -> pd.DataFrame:
    """The third rule over 100 rounds: FedCure at f* (decided once, or ever again) and at f_max."""
    planned = [
        timed(study, data, name, 100, sets) for data in study.data for name, sets in CLOCKS.items()
    ]
    values = gather(with_seeds(study, 20).run(planned), _spent)
    seconds = values[values["figure"] == "time_s"].pivot_table(
        index=["data", "seed"], columns="name", values="value"
    )
    ratio = seconds.reindex(columns=["fedcure", f"fedcure{OWN_CLOCKS}"]).dropna()
    ratio["value"] = ratio["fedcure"] / ratio[f"fedcure{OWN_CLOCKS}"]
    ratio = ratio.reset_index().assign(name="fedcure", figure="time_ratio")
    values = pd.concat([values, ratio[values.columns]], ignore_index=True)
    print_figures(values)
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
    trials = study.run(experiments(study, RH_RULES, RH_SETUP), _accuracy_rh_setup)
    values = gather(trials, _accuracy_rh_setup)
    values = pd.concat([values, _over_rh(values)], ignore_index=True)
    print_table(
        values, "accuracy_rh_setup", published("fig6", "accuracy_rh_setup"), scale=100, digits=2
    )
    draw_by_data(study, trials, "fig6", **ACCURACIES)
    return values


def _accuracy_rh_setup(run: LoadedRun) -> dict[str, float]:
    return {"accuracy_rh_setup": mean_accuracy(run, LAST)}


def _over_rh(values: pd.DataFrame) -> pd.DataFrame:
    """What FedCure's accuracy is above RH's, per seed."""
    wide = values.pivot_table(index=["data", "seed"], columns="name", values="value")
    wide = wide.reindex(columns=["fedcure", "rh"]).dropna()
    above = (wide["fedcure"] - wide["rh"]).rename("value").reset_index()
    return above.assign(name="fedcure_over_rh", figure="accuracy_rh_setup")[values.columns]


def _on_partitions(study: Study) -> list[Trial]:
    """One trial per partition and seed; where all clients sit as at the start, that one's.

    A plan has all partitions: where clients sit only a run says.
    """
    seated = [
        timed(study, data, name, 1, sets)
        for data in study.data
        for name, sets in PARTITIONS.items()
    ]
    seats: dict[tuple[str, str], list[list[int]]] = {}
    for one in [] if study.only_plan else study.run(seated):
        seats.setdefault((one.data, one.name), []).append(edges_of_clients(one.run))

    def trained_as(data: str, name: str) -> str:
        found = seats.get((data, name))
        return "initial" if found and found == seats.get((data, "initial")) else name

    trained = study.run(
        [
            experiment(study, data, name, sets)
            for data in study.data
            for name, sets in PARTITIONS.items()
            if trained_as(data, name) == name
        ],
        accuracy,
    )
    return [
        replace(one, name=name)
        for name in PARTITIONS
        for one in trained
        if trained_as(one.data, name) == one.name
    ]


def _ratios(values: pd.DataFrame) -> pd.DataFrame:
    """Of the final partition's accuracy to the initial one's, per seed."""
    wide = values.pivot_table(index=["data", "seed"], columns="name", values="value")
    wide = wide.reindex(columns=["fedcure", "initial"]).dropna()
    ratio = (wide["fedcure"] / wide["initial"]).rename("value").reset_index()
    return ratio.assign(name="fedcure_to_initial", figure="accuracy_ratio")[values.columns]


def _variation(run: LoadedRun) -> dict[str, float]:
    return {"cov": coefficient_of_variation(round_latencies(run).latency_s)}


def _spent(run: LoadedRun) -> dict[str, float]:
    """Kilojoules of the clients alone and of all, seconds, COV, least share of the rounds."""
    shares = edge_participation(run)
    assert shares is not None, "FedCure schedules"
    return {
        "client_energy_kj": float(run.manifest["client_energy_j"]) / 1e3,
        "energy_kj": float(run.rounds["energy_j"].iloc[-1]) / 1e3,
        "time_s": float(run.manifest["horizon_s"]),
        **_variation(run),
        "share_min": shares.share_min,
    }


def _queues(run: LoadedRun) -> dict[str, float]:
    """Growth and level of the queues, participation beyond what is owed, mean g."""
    queues, shares, gap = virtual_queues(run), edge_participation(run), efficiency_gap(run)
    assert queues is not None and shares is not None and gap is not None, "FedCure schedules"
    grown = growth(queues)
    return {
        "queue_growth": grown.of_owed,
        "queue_level": grown.level,
        "queue_over_rounds": queues.over_rounds[-1],
        "participation_surplus": shares.surplus_min,
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
        "training with 25 clients, batches of 8, 50 versions on 5,000 training and 2,000 test"
        " images (CIFAR-10's subset: 100 on all); what trains nothing is at the paper's size",
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
        "table1": Exhibit(
            "Table 1: accuracy of the methods, %",
            table1,
            published=partial(published, "table1"),
        ),
        "unstated": Exhibit(
            "Values that the paper does not state: FedCure's accuracy, %", unstated
        ),
        "readings": Exhibit("Table 1 by reading, %", all_readings, published=published_by_reading),
        "fig2": Exhibit(
            "Figure 2: how coalitions form", fig2, published=partial(published, "fig2")
        ),
        "fig3": Exhibit(
            "Figure 3: accuracy by partition, %",
            fig3,
            published=partial(published, "fig3"),
        ),
        "fig4a": Exhibit(
            "Figure 4a: variation of round latency", fig4a, published=partial(published, "fig4a")
        ),
        "clocks": Exhibit("Resource allocation: f* against the highest clocks", clocks),
        "fig4b": Exhibit("Figure 4b: virtual queues", fig4b),
        "fig5": Exhibit(
            "Figure 5: formation, FedCure and RH", fig5, published=partial(published, "fig5")
        ),
        "fig6": Exhibit(
            "Figure 6: accuracy, FedCure and RH, %",
            fig6,
            published=partial(published, "fig6"),
        ),
        "theorem4": Exhibit(
            "Theorem 4: how far efficiency stays from its best", theorem4, size=FEWER_EVENTS_SIZE
        ),
        "theorem5": Exhibit(
            "Theorem 5: the bound on the gap, logistic regression", theorem5, size=LOGISTIC_SIZE
        ),
        "eps2": Exhibit(
            "Assumption 1: eps2 by the mean JS divergence, logistic regression",
            eps2,
            size=LOGISTIC_SIZE,
        ),
        "unstated_long": Exhibit(
            "Values that the paper does not state, hours per run: FedCure's accuracy, %",
            unstated_long,
        ),
    },
)

if __name__ == "__main__":
    main(PAPER)
