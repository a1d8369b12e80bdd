"""What FedCure's exhibits run: methods, partitions, readings, sizes, and what the paper printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import yaml

from paper import Experiment, Study, mean_accuracy
from paper.results import RESULTS, read_results
from simfl.runs.runfolder import LoadedRun

ROOT = Path(__file__).parents[1]
SCENARIOS = ROOT / "scenarios" / "papers" / "fedcure"
PUBLISHED = pd.read_csv(ROOT / "analysis" / "published" / "fedcure.csv", dtype=str)

STUDY_SEEDS = 2  # of the study of what is not stated
LAST = 3  # evaluations at the end of a run that an accuracy is the mean of
FROM_HOME = "decisions.association=initial"
AT_MOST = "decisions.allocation=max"
OWN_CLOCKS = "_max"
"""Behind the name of a baseline: at its clients' highest clocks, as Eq. 16 is FedCure's own."""

METHODS = {
    "greedy": (FROM_HOME, "decisions.scheduling=greedy"),
    "fair": (FROM_HOME, "decisions.scheduling=fair"),
    "fedgreedy": ("decisions.scheduling=greedy",),
    "fedfair": ("decisions.scheduling=fair",),
    "fedcure": (),
}
# Both readings of the paper: Eq. 16 for all five, and Eq. 16 for FedCure alone.
CLOCK_READINGS = {
    **METHODS,
    **{f"{name}{OWN_CLOCKS}": (*sets, AT_MOST) for name, sets in METHODS.items() if sets},
}
# The third rule: FedCure at f*, at the highest clocks, and at f* decided in every edge round.
CLOCKS = {
    "fedcure": (),
    f"fedcure{OWN_CLOCKS}": (AT_MOST,),
    "fedcure_per_round": ("decisions.allocation.decided=per_round",),
}
PARTITIONS = {
    "initial": (FROM_HOME,),
    "intermediate": ("decisions.association=half_way.py:HalfWay",),
    "kmeans": ("decisions.association=kmeans",),
    "mean_shift": ("decisions.association=mean_shift",),
    "kmeans_sampled": ("decisions.association={name: kmeans, mode: sampled}",),
    "mean_shift_sampled": ("decisions.association={name: mean_shift, mode: sampled}",),
    "fedcure": (),
}
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
    "paper": (2000, ()),
}


@dataclass(frozen=True)
class Readings:
    """What the paper leaves open: overrides by reading, and which of them take long.

    A reading is carried if FedCure alone comes within `within` points of `target` with it; where it
    does so with none, the two are between which `target` lies.
    """

    target: float
    within: float
    sets: Mapping[str, tuple[str, ...]]
    long: frozenset[str]

    def far(self, values: pd.DataFrame) -> dict[str, float]:
        """Points from the target by reading, of each mean accuracy in `values`."""
        accuracies = values[values["figure"] == "accuracy"]
        means = accuracies.groupby("name", sort=False)["value"].mean()
        return {str(name): 100.0 * mean - self.target for name, mean in means.items()}

    def near(self, values: pd.DataFrame) -> tuple[str, ...]:
        """The readings that come as near as asked; where none does, the nearest on either side.

        The shipped one where nothing was run.
        """
        far = self.far(values)
        found = [name for name, points in far.items() if abs(points) <= self.within]
        if not found:
            below = [name for name, points in far.items() if points < 0]
            above = [name for name, points in far.items() if points > 0]
            found = [min(side, key=lambda name: abs(far[name])) for side in (below, above) if side]
        return tuple(found) or ("shipped",)


def readings() -> Readings:
    """As analysis/readings/fedcure.yaml has them."""
    file = ROOT / "analysis" / "readings" / "fedcure.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    judged = content["judged_by"]
    printed = published(judged["table"], judged["figure"])[judged["data"], judged["name"]]
    return Readings(
        target=float(printed.partition(" ± ")[0]),
        within=float(content["within"]),
        sets={name: tuple(one["sets"]) for name, one in content["readings"].items()},
        long=frozenset(name for name, one in content["readings"].items() if one.get("long")),
    )


def carried() -> tuple[str, ...]:
    """The readings that the recorded study comes near with, at the paper's size and two seeds."""
    recorded = read_results(RESULTS / "fedcure.csv")
    judged = recorded["exhibit"].isin(["unstated", "unstated_long"])
    own = recorded[judged & (recorded["scale"] == "paper") & (recorded["data"] == "mnist")]
    enough = own.groupby("name")["seed"].transform("nunique") >= STUDY_SEEDS
    return readings().near(own[enough])


def published(table: str, figure: str) -> dict[tuple[str, str], str]:
    """What the paper prints, by data set and name; a baseline's once, for both clock readings."""
    rows = PUBLISHED[(PUBLISHED["table"] == table) & (PUBLISHED["figure"] == figure)]
    return {
        (row.data, name): row.value
        for row in rows.itertuples()
        for name in (row.name, f"{row.name}{OWN_CLOCKS}")
    }


def published_by_reading(figure: str) -> dict[tuple[str, str], str]:
    """Table 1 again beside every reading that is carried: names METHOD+READING."""
    printed = published("table1", figure)
    return {
        (data, f"{name}+{reading}"): value
        for (data, name), value in printed.items()
        if name in METHODS
        for reading in carried()
    }


def experiment(study: Study, data: str, name: str, overrides: tuple[str, ...]) -> Experiment:
    """One that trains, as small as the scale has it."""
    reduced = REDUCED.get(study.scale.name, {}).get(data, ())
    return Experiment(data, name, SCENARIOS / f"{data}.yaml", (*reduced, *overrides))


def experiments(
    study: Study, named: Mapping[str, tuple[str, ...]], setup: tuple[str, ...] = ()
) -> list[Experiment]:
    """All of these on all data sets."""
    return [
        experiment(study, data, name, (*setup, *sets))
        for data in study.data
        for name, sets in named.items()
    ]


def timed(
    study: Study, data: str, name: str, versions: int, overrides: tuple[str, ...]
) -> Experiment:
    """One that trains nothing, at the paper's size unless for tests, for so many versions."""
    longest, reduced = TIMED[study.scale.name]
    sets = (*TIMING, f"stop.versions={min(versions, longest)}", *reduced, *overrides)
    return Experiment(data, name, SCENARIOS / f"{data}.yaml", sets)


def with_seeds(study: Study, seeds: int) -> Study:
    """The study with so many seeds, unless it is a test's or other seeds were asked for."""
    given = study.seeds != study.scale.seeds or study.scale.name == "smoke"
    return study if given else replace(study, seeds=seeds)


def accuracy(run: LoadedRun) -> dict[str, float]:
    """Mean of the last evaluations: a single one depends on which edge server came last."""
    return {"accuracy": mean_accuracy(run, LAST)}
