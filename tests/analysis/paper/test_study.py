"""Experiments are run once per seed, and not again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paper import (
    Exhibit,
    Experiment,
    Paper,
    Scale,
    Study,
    cohens_d,
    command,
    final_accuracy,
    gather,
    main,
    mean_accuracy,
    plot_means,
    print_figures,
    print_table,
    results,
)
from paper.estimate import LENGTHS, Probe, ends_itself, kind_of, probed
from paper.pictures import new_figure
from paper.results import read_results
from paper.study import OnlyPlanned
from simfl.assembly.simulation import Options
from simfl.protocols.publication import Progress
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario

SCENARIO = """
data: {name: digits, partition: iid}
model: linear
population:
  name: catalogue
  clients: 4
  groups: [{device: rpi_4b, link: wifi5_ac, share: 1.0}]
algorithm: {name: fedavg, local: {epochs: 1, batch_size: 32, learning_rate: 0.05}}
protocol: synchronous
stop: {versions: 2}
"""
CLAIMS = """
paper: A paper
claims:
  - id: half
    statement: Half is right.
    source: Table 1
    kind: hard
    figure: table1
    metric: accuracy/fedavg
    at_least: 0.5
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario of a second."""
    file = tmp_path / "base.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return file


def study(folder: Path, seeds: int = 2, *, estimate: bool = False) -> Study:
    """On digits."""
    return Study(Scale("smoke", seeds, ("digits",), estimate=estimate), folder, seeds, ("digits",))


def test_a_trial_is_run_once(scenario: Path, tmp_path: Path, capsys) -> None:
    """A second call, and the same scenario under another name, read the existing run."""
    first = study(tmp_path / "out").run([Experiment("digits", "fedavg", scenario)])
    capsys.readouterr()
    same = Experiment("digits", "of_another_table", scenario, ("algorithm.name=fedavg",))

    second = study(tmp_path / "out").run([Experiment("digits", "fedavg", scenario), same])

    assert capsys.readouterr().out == ""
    assert [(one.name, one.seed) for one in first] == [("fedavg", 0), ("fedavg", 1)]
    paths = [one.folder for one in first]
    assert [one.folder for one in second] == [paths[0], paths[0], paths[1], paths[1]]
    assert len(set(paths)) == 2


def test_every_run_is_kept_when_it_ends(scenario: Path, tmp_path: Path) -> None:
    """Runs before an interruption are kept, and existing runs are marked as such."""
    kept: list[tuple[int, bool]] = []

    def keep(values: pd.DataFrame, *, again: bool) -> None:
        kept.append((values["seed"].item(), again))
        if kept == [(0, True)]:
            raise KeyboardInterrupt

    def versions(run: LoadedRun) -> dict[str, float]:
        return {"versions": run.manifest["counts"]["versions"]}

    one = study(tmp_path / "out")
    one.keep = keep
    with pytest.raises(KeyboardInterrupt):
        one.measured([Experiment("digits", "fedavg", scenario)], versions)

    found = one.measured([Experiment("digits", "fedavg", scenario)], versions)

    assert kept == [(0, True), (0, False), (1, True)]
    assert found["value"].tolist() == [2, 2] and found["seed"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("stop", "takes_s"),
    [
        ("{versions: 3}", 6.0),
        ("{time_s: 100}", 20.0),
        ("{time_s: 100, versions: 3}", 6.0),
        ("{accuracy: 0.9}", 0.0),
    ],
)
def test_a_run_takes_as_long_as_its_versions(scenario: Path, stop: str, takes_s: float) -> None:
    """Two core-seconds and ten simulated ones each, to whichever end is the first."""
    asked = Scenario.from_yaml(scenario, [f"stop={stop}"])

    assert Probe(core_s=2.0, simulated_s=10.0).takes_s(asked) == takes_s


def test_runs_of_one_kind_compute_about_as_much(scenario: Path) -> None:
    """Rates and weights of the algorithm change nothing, its switches and local training do."""

    def kind(*overrides: str, seed: int = 0) -> str:
        return kind_of(Scenario.from_yaml(scenario, overrides, seed))

    prox = "algorithm.name=fedprox"
    assert kind(prox, "algorithm.mu=0.1") == kind(prox, "algorithm.mu=0.5", seed=1)
    assert kind("stop.versions=9") == kind("evaluate.every=5") == kind()
    others = (prox, "algorithm.local.epochs=2", "model=mlp", "data.examples=300")
    assert len({kind(), *map(kind, others)}) == 1 + len(others)


def test_a_short_run_says_what_a_version_takes(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first and the last, so that neither reading data nor beginning counts."""
    seconds = iter(range(0, 1000, 3))
    monkeypatch.setattr("paper.estimate.time.process_time", lambda: next(seconds))
    asked = Scenario.from_yaml(scenario, [])

    found = probed(asked, Options())

    assert found.core_s == 3.0 and found.simulated_s > 0
    assert next(seconds) == 3 * LENGTHS[0]  # the first length was enough


def test_what_takes_little_is_measured_over_more_versions(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until there is something to measure."""
    seconds = iter(x / 10 for x in range(10_000))
    monkeypatch.setattr("paper.estimate.time.process_time", lambda: next(seconds))

    found = probed(Scenario.from_yaml(scenario, []), Options())

    assert found.core_s == pytest.approx(0.1)
    assert next(seconds) == pytest.approx(sum(LENGTHS) / 10)


@pytest.mark.parametrize(
    ("jobs", "took_s"), [((4, 8), 4.0), ((0, 8), 8.0), ((8, 8), 0.0)], ids=["at once", "late", "no"]
)
def test_a_version_is_charged_for_its_own_jobs(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, jobs: tuple[int, int], took_s: float
) -> None:
    """Four jobs of a second each, whenever they are trained."""
    clock = iter((0.0, took_s) * len(LENGTHS))

    def run(asked: Scenario, folder: Path, options: Options) -> None:
        assert options.watch is not None
        for version, trained in enumerate(jobs, 1):
            options.watch(Progress(10.0 * version, version, None, None, 0.0, 0, trained, {}))

    monkeypatch.setattr("paper.estimate.run", run)
    monkeypatch.setattr("paper.estimate.time.process_time", lambda: next(clock))

    found = probed(Scenario.from_yaml(scenario, []), Options())

    assert found == (Probe(4.0, 10.0) if took_s else Probe())


def test_what_diverges_at_once_says_nothing(scenario: Path) -> None:
    """No version was made after the first."""
    wild = ("algorithm.local.learning_rate=1e30", "algorithm.local.weight_decay=1.0")

    assert probed(Scenario.from_yaml(scenario, wild), Options()) == Probe()


def test_methods_have_hours_of_their_own(scenario: Path, tmp_path: Path, capsys) -> None:
    """Rounds of a batch are not charged as rounds of forty epochs; a plan says which take what."""
    one = study(tmp_path / "out", 2)
    one.only_plan = True
    long = ("algorithm.local.epochs=40", "stop.versions=200")
    short = ("algorithm.local={steps: 1, learning_rate: 0.05}", "stop.versions=200")

    with pytest.raises(OnlyPlanned):
        one.run(
            [Experiment("digits", "a", scenario, long), Experiment("digits", "b", scenario, short)]
        )

    hours = one.planned().set_index("name")["core_hours"]
    assert hours["a"] > 3 * hours["b"] > 0
    assert "4 of 4 runs to do, about " in capsys.readouterr().out


def test_a_game_takes_so_much_at_most(scenario: Path, tmp_path: Path, capsys) -> None:
    """It ends when it is settled."""
    game = ("algorithm={name: fl_games}", "model={name: mlp, hidden: [8]}")
    assert not ends_itself(Scenario.from_yaml(scenario, []))
    assert ends_itself(Scenario.from_yaml(scenario, game))

    study(tmp_path / "out", 1, estimate=True).run([Experiment("digits", "game", scenario, game)])

    assert "1 of 1 runs to do, at most 0.0 core-hours" in capsys.readouterr().out


def test_a_trial_that_was_cut_off_goes_on(scenario: Path, tmp_path: Path, monkeypatch) -> None:
    """Interrupted in the first run, the next call completes the same folder."""

    def interrupt(run: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("simfl.runs.outcome._final_scores", interrupt)
        with pytest.raises(KeyboardInterrupt):
            study(tmp_path / "out", 1).run([Experiment("digits", "fedavg", scenario)])
    (folder,) = (tmp_path / "out" / "runs").iterdir()

    (trial,) = study(tmp_path / "out", 1).run([Experiment("digits", "fedavg", scenario)])

    assert trial.folder == folder
    assert trial.run.manifest["status"] == "completed"


def test_absent_data_are_skipped_with_the_reason(scenario: Path, tmp_path: Path, capsys) -> None:
    """The other data sets go on; nothing stands in for what is not there."""
    absent = ("data.name=svhn", f"data.root={tmp_path}")
    one = study(tmp_path / "out", 1)

    trials = one.run(
        [Experiment("svhn", "fedavg", scenario, absent), Experiment("digits", "fedavg", scenario)]
    )

    assert [trial.data for trial in trials] == ["digits"]
    assert list(one.skipped) == ["svhn"]
    assert "SKIPPED svhn: " in capsys.readouterr().out


def test_a_run_that_diverges_is_a_result(scenario: Path, tmp_path: Path) -> None:
    """Its accuracy is NaN, also when it is read again."""
    wild = ("algorithm.local.learning_rate=1e30", "algorithm.local.weight_decay=1.0")
    for _ in range(2):
        (trial,) = study(tmp_path / "out", 1).run([Experiment("digits", "wild", scenario, wild)])

        assert trial.run.manifest["status"] == "diverged"
        assert np.isnan(final_accuracy(trial.run)) and np.isnan(mean_accuracy(trial.run, 2))


def test_the_wall_time_is_estimated_first(scenario: Path, tmp_path: Path, capsys) -> None:
    """Of the runs that are still to do, before any of them starts."""
    one = study(tmp_path / "out", 2, estimate=True)

    one.run([Experiment("digits", "fedavg", scenario)])
    one.run([Experiment("digits", "fedavg", scenario)])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("  2 of 2 runs to do, about 0.0 core-hours")
    assert lines[-1].startswith("  0 of 2 runs to do")


def test_a_paper_shows_its_exhibits_and_judges_its_claims(
    scenario: Path, tmp_path: Path, capsys
) -> None:
    """Table, verdicts and CSV files from one call."""
    claims = tmp_path / "a_paper.yaml"
    claims.write_text(CLAIMS, encoding="utf-8")

    def table1(one: Study) -> pd.DataFrame:
        trials = one.run([Experiment(data, "fedavg", scenario) for data in one.data])
        values = gather(trials, lambda run: {"accuracy": final_accuracy(run)})
        print_table(values, "accuracy", {("digits", "fedavg"): "99.9"}, scale=100, digits=1)
        return values

    paper = Paper(
        "A paper",
        claims,
        {"smoke": Scale("smoke", 1, ("digits",), "everything")},
        {"table1": Exhibit("Table 1: accuracy", table1)},
    )

    verdicts = main(paper, ["all", "--seeds", "2", "--out", str(tmp_path / "out")])

    assert verdicts["verdict"].tolist() == ["HOLDS"]
    assert verdicts["seeds"].tolist() == [2]
    printed = capsys.readouterr().out
    assert "Reduced: everything" in printed and "| digits, paper |" in printed
    kept = pd.read_csv(tmp_path / "out" / "smoke" / "table1.csv")
    assert kept.columns.tolist() == ["data", "name", "seed", "figure", "value"]
    assert (kept["value"] > 0.5).all()
    assert (tmp_path / "out" / "smoke" / "table1_claims.csv").exists()


@pytest.mark.parametrize("compares", [True, False])
def test_what_compares_runs_is_recorded_of_whole_seeds(
    scenario: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch, *, compares: bool
) -> None:
    """A margin against fewer others would take the place of one against all; plans stay whole."""
    (tmp_path / "a_paper.yaml").write_text(CLAIMS, encoding="utf-8")
    monkeypatch.setattr(command, "RESULTS", tmp_path)

    def table1(one: Study) -> pd.DataFrame:
        rates = {"fedavg": "0.05", "slower": "0.01"}
        key = "algorithm.local.learning_rate"
        planned = [
            Experiment("digits", name, scenario, (f"{key}={rate}",)) for name, rate in rates.items()
        ]
        trials = one.run(planned)
        return gather(trials, lambda run: {"accuracy": final_accuracy(run), "of": len(trials)})

    paper = Paper(
        "A paper",
        tmp_path / "a_paper.yaml",
        {"smoke": Scale("smoke", 2, ("digits",), estimate=True)},
        {"table1": Exhibit("Table 1", table1, compares=compares)},
    )

    judged = []

    def shown(*arguments: str) -> set[tuple[str, int]]:
        found = main(paper, ["table1", "--record", "--out", str(tmp_path / "out"), *arguments])
        judged.append(set(found["verdict"]))
        rows = read_results(tmp_path / "a_paper.csv")
        return set(zip(rows["name"], rows["seed"], strict=True))

    assert shown("--only", "fedavg", "--seeds", "1") == (set() if compares else {("fedavg", 0)})
    assert ("digits, seed 0" in capsys.readouterr().out) == compares
    assert shown("--seeds", "1") == {("fedavg", 0), ("slower", 0)}
    assert not (tmp_path / "plan.csv").exists()
    assert (judged[0] == {"SKIPPED"}) == compares
    assert len(shown()) == 4
    assert pd.read_csv(tmp_path / "plan.csv")["seeds"].tolist() == [2, 2]


def test_only_what_was_made_has_a_new_commit(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are only read keep their commit; rows computed from all seeds get a new one."""
    (tmp_path / "a_paper.yaml").write_text(CLAIMS, encoding="utf-8")
    monkeypatch.setattr(command, "RESULTS", tmp_path)

    def table1(one: Study) -> pd.DataFrame:
        trials = one.run([Experiment("digits", "fedavg", scenario)])
        values = gather(trials, lambda run: {"accuracy": final_accuracy(run)})
        return pd.concat([values, values.assign(name="of all")])

    scales = {"smoke": Scale("smoke", 2, ("digits",))}
    exhibits = {"table1": Exhibit("Table 1", table1)}
    paper = Paper("A paper", tmp_path / "a_paper.yaml", scales, exhibits)
    for commit, seeds in (("c1", "1"), ("c2", "2")):
        monkeypatch.setattr(results, "current_commit", lambda commit=commit: commit)
        arguments = ["table1", "--record", "--out", str(tmp_path / "out"), "--seeds", seeds]
        main(paper, arguments)

    rows = read_results(tmp_path / "a_paper.csv").set_index(["name", "seed"])["commit"]
    assert rows.to_dict() == {
        ("fedavg", 0): "c1", ("of all", 0): "c1", ("fedavg", 1): "c2", ("of all", 1): "c2"
    }  # fmt: skip
    assert not (tmp_path / "repeats.csv").exists()


def test_a_table_has_means_and_deviations_beside_the_papers_figures(capsys) -> None:
    """In percent where asked, "-" where there is nothing."""
    values = pd.DataFrame(
        [
            ("mnist", "a", 0, "accuracy", 0.5),
            ("mnist", "a", 1, "accuracy", 0.7),
            ("svhn", "b", 0, "accuracy", 0.25),
        ],
        columns=["data", "name", "seed", "figure", "value"],
    )

    table = print_table(values, "accuracy", {("mnist", "a"): "61"}, scale=100, digits=1)

    assert table.loc["a"].tolist() == ["60.0 ± 14.1", "61", "-", "-"]
    assert table.loc["b"].tolist() == ["-", "-", "25.0", "-"]
    assert "| a        | 60.0 ± 14.1 | 61" in capsys.readouterr().out

    print_figures(values, digits=1)

    assert "| mnist | accuracy  |" in capsys.readouterr().out


def test_cohens_d_of_the_papers_own_figures() -> None:
    """SVHN of FedCure's Table 1: 58.46 ± 1.13 and 57.51 ± 1.30 are 0.78 apart."""
    fair = 58.46 + 1.13 * np.array([-1.0, 0.0, 1.0])
    cure = 57.51 + 1.30 * np.array([-1.0, 0.0, 1.0])

    assert cohens_d(fair, cure) == pytest.approx(0.78, abs=0.005)
    assert np.isnan(cohens_d([1.0], [2.0]))


def test_curves_are_means_over_the_seeds(scenario: Path, tmp_path: Path) -> None:
    """A line per name, at every evaluated version."""
    trials = study(tmp_path / "out").run([Experiment("digits", "fedavg", scenario)])
    _, (axis,) = new_figure(1)

    plot_means(axis, trials)

    (line,) = axis.get_lines()
    both = [one.run.rounds["accuracy"] for one in trials]
    np.testing.assert_allclose(line.get_ydata(), (both[0] + both[1]) / 2)
    assert line.get_label() == "fedavg"


def test_after_the_limit_no_run_begins(scenario: Path, tmp_path: Path, capsys) -> None:
    """What is there is a result, the rest is said to be missing; a later call goes on."""
    experiment = Experiment("digits", "fedavg", scenario)
    study(tmp_path / "out", 1).run([experiment])
    late = study(tmp_path / "out", 2)
    late.limit_s = 0.0
    capsys.readouterr()

    trials = late.run([experiment])

    assert [one.seed for one in trials] == [0]
    assert "NOT RUN: 1 of 2" in capsys.readouterr().out
    assert len(study(tmp_path / "out", 2).run([experiment])) == 2


def test_single_experiments_by_the_beginning_of_their_names(scenario: Path, tmp_path: Path) -> None:
    """A grid's `a, rate 0.1` belongs to `a`."""
    names = ("fedavg, iid", "fedavg, iid, rate 0.1", "fedavg, iid_long", "fedprox, iid")
    some = study(tmp_path / "out", 1)
    some.only = ("fedavg, iid", "another")

    trials = some.run([Experiment("digits", name, scenario) for name in names])

    assert [one.name for one in trials] == ["fedavg, iid", "fedavg, iid, rate 0.1"]
    assert not some.asked_for("fedprox, iid")


def test_seeds_are_shared_out_among_machines(scenario: Path, tmp_path: Path) -> None:
    """What goes before all others is found out on each of them, with the first seeds."""
    experiment = Experiment("digits", "fedavg", scenario)
    later = study(tmp_path / "out", 2)
    later.from_seed = 1

    assert [one.seed for one in later.run([experiment])] == [1]
    assert [one.seed for one in later.of_first(1).run([experiment])] == [0]


def test_a_plan_runs_nothing(scenario: Path, tmp_path: Path) -> None:
    """It counts the runs of every experiment; where all are there, exhibits go on from them."""
    experiment = Experiment("digits", "fedavg", scenario)
    one = study(tmp_path / "out", 2)
    one.only_plan = True

    with pytest.raises(OnlyPlanned):
        one.run([experiment])

    assert not (tmp_path / "out" / "runs").exists()
    (row,) = one.planned().to_dict("records")
    assert (row["data"], row["name"], row["seeds"]) == ("digits", "fedavg", 2)
    assert row["core_hours"] > 0
    study(tmp_path / "out", 2).run([experiment])
    assert len(one.run([experiment])) == 2
