"""CoreFed's tables come from one command each, beside the paper's, and judge its claims."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import corefed
import corefed_core
import corefed_derived
import corefed_experiments as experiments
import numpy as np
import pandas as pd
import pytest
import yaml

import simfl
from paper import Study
from paper.claims import metric, read_claims
from paper.estimate import Probe
from paper.results import RESULTS
from paper.study import OnlyPlanned
from simfl.common.files import DataMissing
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError

TABLES = [name for name in corefed.PAPER.exhibits if name.startswith("table")]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all exhibits keep their runs, which they share."""
    return tmp_path_factory.mktemp("corefed")


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rounds than even the smallest scale: the displayed content does not depend on them."""
    offset, weights, extra = corefed_core.CONVEX["regression, weights 3 1 1"]
    short = {"weighted": (offset, weights, (*extra, "stop.versions=40"))}
    monkeypatch.setattr(corefed_core, "CONVEX", short)
    offset, weights, extra = corefed_core.TIGHT
    tight = (offset, weights, (*extra, "stop.versions=40"))
    monkeypatch.setattr(corefed_core, "TIGHT", tight)
    monkeypatch.setattr(corefed_core, "FACTORS", (1.5,))
    lengths = experiments.LENGTHS
    monkeypatch.setitem(lengths, "smoke", ("algorithm.local.epochs=1", "stop.versions=3"))


@pytest.mark.grid(3)
@pytest.mark.parametrize("exhibit", corefed.PAPER.exhibits)
def test_an_exhibit_is_shown(exhibit: str, out: Path) -> None:
    """Its values, and a figure for each of its claims that is about the data at hand."""
    corefed.main(corefed.PAPER, [exhibit, "--scale", "smoke", "--out", str(out)])

    values = pd.read_csv(out / "smoke" / f"{exhibit}.csv")
    for one in read_claims(corefed.PAPER.claims):
        if one["figure"] == exhibit and "data" not in one:
            assert len(metric(values, one["metric"])) == 1, one["id"]
    if exhibit == "convex":
        own = values.set_index(["name", "figure"])["value"]
        assert own["weighted", "coalitions_margin"] > -1e-6 and own["weighted", "radius_1.5"] > 0
        assert own["weighted", "least_margin_possible"] > 0  # no part of the agents could block
        tight, alone = corefed_core.TIGHT_NAME, corefed_core.OWN_OPTIMUM
        assert own[tight, "least_margin_possible"] < 0 < own[tight, "coalitions_margin"]
        assert own[alone, "coalitions_margin"] < 0 and own[alone, "stable"] == 0
    if exhibit == "adult_row":
        own = values.set_index(["data", "name", "figure"])["value"]
        assert own["adult", "corefed, paper", "even_ratio_sum"] == pytest.approx(4.95, abs=0.005)
        assert own["adult", "corefed, paper", "even_blocks"] == 1
        assert own["cifar10", "corefed, paper", "even_blocks"] == 0
    if exhibit == "price":
        assert (out / "smoke" / "price.png").read_bytes().startswith(b"\x89PNG")
        own = values.set_index(["name", "figure"])["value"]
        assert own["fedavg", "seconds_to_worst"] == own["fedavg", "joules_to_mean"] == 1.0
        assert own["corefed", "worst_s"] > 0


def test_a_row_of_a_table_can_be_shown_alone(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without FedAvg's there is nothing to stand beside, and no rate of its server."""
    asked = ["table1", "--scale", "smoke", "--out", str(out), "--only", "corefed"]

    corefed.main(corefed.PAPER, asked)

    assert "| corefed " in capsys.readouterr().out
    assert set(pd.read_csv(out / "smoke" / "table1.csv")["name"]) == {"corefed"}


def test_steps_as_long_as_corefeds_are_measured_for_that_row_alone(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """CoreFed's run decides how long they are, though its row is not asked for."""
    arguments = ["table1", "--scale", "smoke", "--only", "fedavg_matched"]

    corefed.main(corefed.PAPER, [*arguments, "--out", str(out)])
    corefed.main(corefed.PAPER, [*arguments, "--out", str(tmp_path), "--seeds", "1"])

    rates = {
        yaml.safe_load((one / "scenario.yaml").read_text())["algorithm"]["server_learning_rate"]
        for folder in (out, tmp_path)
        for one in (folder / "smoke" / "runs").glob("digits-fedavg_matched-0-*")
    }
    assert len(rates) == 1 and rates != {1.0}


PLANNED = [one for one in corefed.PAPER.exhibits if one != "adult_row"]  # which runs nothing


@pytest.mark.parametrize("exhibit", PLANNED)
def test_a_plan_counts_all_runs_of_an_exhibit(
    exhibit: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the names of its rows, though some runs decide how others are made."""
    monkeypatch.setattr(Study, "_probe", lambda self, data, scenario: Probe(1.0, 1.0))
    scale = replace(corefed.PAPER.scales["smoke"], seeds=2)
    planned = Study(scale, tmp_path, 2, scale.data, only_plan=True)

    with pytest.raises(OnlyPlanned):
        corefed.PAPER.exhibits[exhibit].show(planned)

    corefed.main(corefed.PAPER, [exhibit, "--scale", "smoke", "--out", str(out)])
    values = pd.read_csv(out / "smoke" / f"{exhibit}.csv")
    rows = {(data, name) for data, name, _ in planned.takes_s}
    assert {seed for _, _, seed in planned.takes_s} == {0, 1}
    shown = set(values[["data", "name"]].itertuples(index=False, name=None))
    alone = {one for one in rows if one[1].startswith("coalition")}  # whose models only compare
    no_run = {(corefed_core.TIGHT_DATA, corefed_core.OWN_OPTIMUM)}
    assert shown - no_run == rows - alone and bool(alone) == (exhibit == "core")
    assert bool(shown & no_run) == (exhibit == "convex")


ROWS = corefed.PUBLISHED[["table", "data", "name"]].drop_duplicates()


@pytest.mark.parametrize("row", ROWS.to_numpy().tolist(), ids="-".join)
def test_the_papers_rows_are_copied_without_error(row: list[str]) -> None:
    """Mean and product follow from its agents, and the sum of ratios from both rows."""
    table, data, name = row
    printed = corefed.published(*row)
    utilities = printed_utilities(table, data, name)
    if row == ["table2", "cifar10", "fedavg"]:
        # do not follow from .25, 3.25 and 3.46
        assert (printed["mean"], printed["product"]) == ("2.35", "2.89")
        return

    assert utilities.mean() == pytest.approx(float(printed["mean"]), abs=0.011)
    assert utilities.prod() == pytest.approx(float(printed["product"]), rel=0.05)
    if name == "corefed":
        ratio = (printed_utilities(table, data, "fedavg") / utilities).sum()
        assert ratio == pytest.approx(float(printed["ratio"]), abs=0.035)


def printed_utilities(table: str, data: str, name: str) -> np.ndarray:
    """The agents' utilities of a row of the paper."""
    printed = corefed.published(table, data, name)
    return np.array([float(v) for figure, v in printed.items() if figure.startswith("agent_")])


def test_margins_against_fedavg_are_those_of_the_recorded_utilities() -> None:
    """For every row of Tables 1 to 4 that has them, whatever their source."""
    rows = pd.read_csv(RESULTS / "corefed.csv", dtype=str)
    found = dict(corefed_derived.margins(corefed_derived.recorded_utilities(rows)))
    kept = rows[rows["exhibit"].isin(TABLES) & (rows["figure"] == corefed_derived.FIGURE)]

    assert len(kept) >= 26
    for row in kept.to_dict("records"):
        cell = tuple(row[one] for one in ("exhibit", "scale", "data", "seed", "name"))
        assert float(row["value"]) == pytest.approx(found[cell], abs=1e-9)


def test_margins_are_added_to_rows_that_stay_as_they_are() -> None:
    """With the commit of the run, in its place, and once."""
    head = "exhibit,scale,data,seed,name,figure,value,commit,platform"
    runs = {"fedavg": ("2.0", "1.0"), '"corefed, not"': ("1.50", "1.5"), "corefed": ("1.50", "1.5")}
    lines = [
        f"table1,quick,made,0,{name},{figure},{value},abc,a cpu"
        for name, (one, other) in runs.items()
        for figure, value in (
            ("agent_0", one),
            ("agent_1", other),
            ("blocking_margin", "0"),
            ("z", "1"),
        )
    ]
    text = "\n".join([head, *lines]) + "\n"
    rows = pd.DataFrame([next(csv.reader([one])) for one in lines], columns=head.split(","))
    found = dict(corefed_derived.margins(corefed_derived.recorded_utilities(rows)))

    added = corefed_derived.completed(text, found)

    new = [one for one in added.splitlines() if one not in text.splitlines()]
    assert [one for one in added.splitlines() if one not in new] == text.splitlines()
    assert new[0] == "table1,quick,made,0,fedavg,blocking_margin_fedavg,0.25,abc,a cpu"
    assert len(new) == 3 and added.splitlines()[4] == new[0]
    assert corefed_derived.completed(added, found) == added


def test_the_papers_scale_takes_all_data_and_rounds() -> None:
    """At the paper's size nothing is less than in the shipped scenarios, except local epochs."""
    changed = [
        *experiments.LENGTHS["paper"],
        *(one for each in experiments.REDUCED["paper"].values() for one in each),
        *experiments.DEEP["paper"][1:],
    ]
    assert {one.partition("=")[0] for one in changed} == {"algorithm.local.epochs"}


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("data", [*corefed.PAPER.scales["paper"].data, "cifar10"])
def test_a_round_at_the_papers_size(data: str, tmp_path: Path) -> None:
    """The scenario as shipped, one round of it, where its data are at hand."""
    scenario = Scenario.from_yaml(experiments.SCENARIOS / f"{data}.yaml", ["stop.versions=1"])
    try:
        run = simfl.run(scenario, tmp_path / "run")
    except ScenarioError as error:
        if not isinstance(error.__cause__, DataMissing):
            raise
        pytest.skip(str(error.__cause__))

    assert run.manifest["counts"]["versions"] == 1
    assert np.isfinite(run.clients["global_loss"]).all()


def test_every_claim_belongs_to_an_exhibit() -> None:
    """And every table of the paper has some."""
    claimed = {one["figure"] for one in read_claims(corefed.PAPER.claims)}

    assert set(TABLES) <= claimed <= set(corefed.PAPER.exhibits)
