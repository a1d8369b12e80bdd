"""Published numbers of the field: their tolerances, the choice of a learning rate, the tables."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yardsticks
from plain_fedavg import split_rows

import simfl
from paper import Experiment, Study, Trial
from paper.claims import read_claims
from simfl import Scenario, run

PAPER = yardsticks.PAPER
POINTS = {"mnist": (0.3, 1.0), "fashion_mnist": (1.0, 3.0)}


def test_every_published_number_has_its_tolerance() -> None:
    """Around it: a factor of 1.7, or points of accuracy; less than half where nothing is learnt."""
    claims = {(one["metric"], *one["data"]): one for one in read_claims(PAPER.claims)}
    for _, row in yardsticks.PUBLISHED.iterrows():
        few = "label" in row["name"]
        value = math.nan if row["figure"] == "times" else float(row["value"])
        if row["figure"] == "times":
            claim = claims[f"times/{row['name']}", row["data"]]
            assert claim["at_least"] >= 1.2 and claim["at_most"] <= 14.1
        elif row["figure"] == "rounds":
            claim = claims[f"rounds_bound/{row['name']}", row["data"]]
            assert claim["at_least"] == pytest.approx(value / yardsticks.FACTOR, abs=0.05)
            assert claim["at_most"] == pytest.approx(value * yardsticks.FACTOR, abs=0.05)
        elif "1 label" in row["name"]:
            claim = claims[f"accuracy/{row['name']}", row["data"]]
            assert (claim.get("at_least"), claim["at_most"]) == (None, 0.5)
        else:
            claim = claims[f"accuracy/{row['name']}", row["data"]]
            points = POINTS[row["data"]][few]
            assert 100 * claim["at_least"] == pytest.approx(value - points)
            assert 100 * claim["at_most"] == pytest.approx(value + points)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """The smallest scale, of IID columns."""
    return Study(PAPER.scales["smoke"], tmp_path, 1, ("iid", "mnist"))


NEVER = math.nan


@pytest.mark.parametrize(
    ("rounds", "accuracies", "chosen", "ends"),
    [
        ((30.0, 20.0, 25.0), (0.97, 0.97, 0.97), 0.2, (None, 26, 21)),
        ((NEVER, NEVER, NEVER), (0.5, 0.6, 0.7), 0.3, (None, None, None)),
        ((20.0, 20.0, NEVER), (0.97, 0.98, NEVER), 0.2, (None, None, 21)),
        ((NEVER, NEVER, NEVER), (0.5, NEVER, NEVER), 0.1, (None, None, None)),
        ((NEVER, 20.0, 30.0), (0.98, 0.97, 0.97), 0.2, (None, 31, 21)),
    ],
)
def test_the_rate_is_the_one_that_gets_there_first(
    monkeypatch: pytest.MonkeyPatch,
    study: Study,
    rounds: tuple[float, ...],
    accuracies: tuple[float, ...],
    chosen: float,
    ends: tuple[int | None, ...],
) -> None:
    """On held-out images, with one seed, the largest rate first; one that is late is given up."""
    rates = (0.1, 0.2, 0.3)
    asked: list[Experiment] = []

    def run(self: Study, grid: list[Experiment]) -> list[Trial]:
        assert self.seeds == 1
        asked.extend(grid)
        return [Trial(one.data, one.name, 0, Path()) for one in grid]

    def gathered(trials: list[Trial], _: object) -> pd.DataFrame:
        (one,) = trials
        of = rates.index(float(one.name.removeprefix("C = 0.1, B = 10, rate ")))
        # A run that diverged at once has few rounds and no accuracy: it does not win by that.
        values = {"rounds": rounds[of], "rounds_bound": 1.0, "accuracy": accuracies[of]}
        return pd.DataFrame({"figure": values.keys(), "value": values.values()})

    monkeypatch.setattr(Study, "run", run)
    monkeypatch.setattr(yardsticks, "gather", gathered)
    monkeypatch.setattr(yardsticks, "RATES", rates)
    monkeypatch.setattr(study, "scale", PAPER.scales["paper"])
    cell = Experiment("iid", "C = 0.1, B = 10", Path("mcmahan.yaml"), ("data.name=mnist",))

    assert yardsticks.chosen_rate(study, cell) == chosen
    for one, rate, end in zip(asked, reversed(rates), ends, strict=True):
        assert one.overrides[2:4] == (f"data.name={yardsticks.HELD_OUT}", "data.of=mnist")
        assert f"algorithm.local.learning_rate={rate}" in one.overrides
        assert one.overrides[4:] == (() if end is None else (f"stop.versions={end}",))


def test_without_the_whole_grid_a_cell_has_no_rate(
    monkeypatch: pytest.MonkeyPatch, study: Study
) -> None:
    """What was cut off does not choose."""
    monkeypatch.setattr(Study, "run", lambda self, grid: [])
    cell = Experiment("iid", "C = 0.1, B = 10", Path("mcmahan.yaml"), ("data.name=mnist",))

    assert yardsticks.chosen_rate(study, cell) is None


def test_the_tables_are_shown(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    """A cell of each: its run ends at the target, or has a bound only; the split is the cell's."""
    few = yardsticks.PUBLISHED.query("name in ('C = 0.1, B = 10', 'fedavg, 2 labels')")
    monkeypatch.setattr(yardsticks, "PUBLISHED", few)

    rounds = yardsticks.mcmahan_2nn(study).set_index("figure")["value"]
    accuracy = yardsticks.niid_bench(study)

    assert rounds["rounds_bound"] == rounds["rounds_end"] == 2
    assert np.isnan(rounds["rounds"]) and rounds["accuracy"] < 0.3
    assert list(accuracy["name"]) == ["fedavg, 2 labels"]
    assert 0.1 <= accuracy["value"].item() <= 0.8


@pytest.mark.parametrize(
    ("fedbuff", "other", "times", "behind"),
    [
        ((100.0, 100.0), (250.0, 250.0), 2.5, 1.0),
        ((100.0, 100.0), (80.0, 80.0), 0.8, 0.0),
        ((100.0, 100.0), (np.nan, 400.0), 4.0, 1.0),
        ((np.nan, 400.0), (100.0, 100.0), 0.25, 0.0),
        ((np.nan, 400.0), (np.nan, 400.0), np.nan, np.nan),
        ((100.0, 100.0), (np.nan, 50.0), 0.5, np.nan),
    ],
)
def test_seconds_are_compared_with_the_baseline_of_the_seed(
    fedbuff: tuple[float, float], other: tuple[float, float], times: float, behind: float
) -> None:
    """What a run that missed the target needed at least; no order where none is known."""
    rows = [
        ("phones", name, 3, figure, value)
        for name, pair in (("fedbuff", fedbuff), ("synchronous", other))
        for figure, value in zip(("seconds", "seconds_bound"), pair, strict=True)
    ]
    values = pd.DataFrame(rows, columns=["data", "name", "seed", "figure", "value"])

    found = yardsticks.by_seconds(values, "fedbuff").query("name == 'synchronous' and seed == 3")

    figures = found.set_index("figure")["value"]
    np.testing.assert_equal((figures["times_bound"], figures["behind"]), (times, behind))
    both = not np.isnan(fedbuff[0] + other[0])
    np.testing.assert_equal(figures["times"], times if both else np.nan)


def test_seconds_are_those_until_the_target(study: Study) -> None:
    """Oort's cells at the smallest scale: the first evaluation that is accurate enough, or none."""
    study.data = ("flash",)

    values = yardsticks.oort(study).set_index(["name", "figure"])["value"]

    for trial in study.folder.glob("runs/*"):
        run = simfl.load_run(trial)
        met = run.rounds[run.rounds["accuracy"] >= run.scenario["stop"]["accuracy"]]
        of = run.scenario["decisions"]["selection"]["name"]
        seconds = met["time_s"].min() if len(met) else run.rounds["time_s"].max()
        assert values[of, "seconds_bound"] == pytest.approx(seconds)
        assert values[of, "updates"] == run.rounds["updates"].sum()


def test_a_plain_loop_needs_as_many_rounds_as_simfl(study: Study) -> None:
    """Three of ten clients a round, on the digits, until 80 %: in the mean of two seeds."""
    plain = yardsticks.plain_loop(replace(study, seeds=2, data=("iid",)))
    rounds = []
    for seed in range(2):
        sets = ["data.name=digits", "population.clients=10", "stop.accuracy=0.8"]
        sets += ["decisions.selection.count=3", "algorithm.local.batch_size=10"]
        scenario = Scenario.from_yaml(yardsticks.SCENARIOS / "mcmahan.yaml", sets, seed)
        rounds.append(yardsticks.rounds_to_target(run(scenario))["rounds"])

    slow, fast = plain.groupby("name")["value"].mean()
    assert fast < slow
    assert 3 / 4 < np.mean(rounds) / slow < 4 / 3


def test_two_shards_are_of_neighbouring_labels() -> None:
    """A client has two shards of equal size, and so three labels at most; nobody shares a row."""
    labels = np.repeat(np.arange(10), 25)
    rows = split_rows(labels, "two_shards", 10, np.random.default_rng(0))

    assert sorted(np.concatenate(rows)) == list(range(250))
    assert {len(one) for one in rows} <= {24, 25, 26}
    assert max(len(np.unique(labels[one])) for one in rows) <= 4
    assert len(np.unique(labels[split_rows(labels, "iid", 10, np.random.default_rng(0))[0]])) > 4


def test_the_page_names_every_cell_that_was_not_run() -> None:
    """Published cells without a row at their scale, each by its name, or its table as a whole."""
    page = (yardsticks.ROOT / "docs" / "yardsticks.md").read_text(encoding="utf-8")
    said = page.partition("## What was not run")[2]
    recorded = pd.read_csv(yardsticks.ROOT / "analysis" / "results" / "yardsticks.csv", dtype=str)
    there = set(zip(recorded["exhibit"], recorded["data"], recorded["name"], strict=True))
    lacking = [
        (row["table"], row["name"])
        for _, row in yardsticks.PUBLISHED.iterrows()
        if (row["table"], row["data"], row["name"]) not in there
    ]
    whole = {"niid_bench": "all 14"}

    assert len(lacking) == 2 + 6 + 14
    for table, name in lacking:
        assert f"analysis/yardsticks.py {table} " in said
        assert whole.get(table, f"`{name}`") in said
