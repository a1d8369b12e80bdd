"""FedSAC's tables and figures: what is run, what is chosen, what is shown."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fedsac
import fedsac_choices as choices
import fedsac_experiments as experiments
import pandas as pd
import pytest
import yaml

import simfl
from paper import Experiment, Study, Trial, command, main, results
from paper.estimate import Probe
from paper.results import write_results
from paper.study import OnlyPlanned
from paper.tables import COLUMNS
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.scenario.scenario import Scenario


def study(scale: str, folder: Path) -> Study:
    """A study of a scale, which has run nothing yet."""
    chosen = experiments.SCALES[scale]
    return Study(chosen, folder, chosen.seeds, chosen.data)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds of one split, and one setting per baseline."""
    sizes = replace(experiments.SIZES["smoke"], scenes=("POW",), rounds=2, clients={20: ("POW",)})
    monkeypatch.setitem(experiments.SIZES, "smoke", sizes)
    for method, grid in experiments.GRIDS.items():
        monkeypatch.setitem(experiments.GRIDS, method, grid[:1])


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where exhibits share their runs."""
    return tmp_path_factory.mktemp("fedsac")


@pytest.mark.grid(2)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("exhibit", list(fedsac.PAPER.exhibits))
def test_every_exhibit_is_shown_at_the_smallest_scale(
    exhibit: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its head says what was reduced, its values have the common columns."""
    arguments = [exhibit, "--scale", "smoke", "--out", str(out)]

    main(fedsac.PAPER, arguments)

    assert "Reduced: scikit-learn's digits" in capsys.readouterr().out
    values = pd.read_csv(out / "smoke" / f"{exhibit}.csv")
    assert list(values.columns) == COLUMNS
    nothing_to_show = exhibit == "figure4"  # its split is not among this fixture's
    assert len(values) > 0 or nothing_to_show


@pytest.mark.usefixtures("small")
def test_baselines_send_models_and_fedsac_less(out: Path) -> None:
    """The byte counts of Table 8, which hold at any scale."""
    arguments = ["table8", "--scale", "smoke", "--out", str(out)]

    verdicts = main(fedsac.PAPER, arguments)

    elsewhere = verdicts["claim"].isin(["cla_moves_less_with_the_grid", "saved_megabytes"])
    assert list(verdicts[elsewhere]["verdict"]) == ["SKIPPED", "SKIPPED"]
    assert len(verdicts[~elsewhere]) == 6
    assert set(verdicts[~elsewhere]["verdict"]) == {"HOLDS"}


@pytest.mark.usefixtures("small")
def test_a_split_can_be_asked_for_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its column; a data set alone means all splits of the scale."""
    planned: list[str] = []
    monkeypatch.setattr(
        Study, "run", lambda self, asked, *_: planned.extend(one.data for one in asked) or []
    )

    for data in (["fashion_mnist DIR(2.0)"], ["fashion_mnist DIR(1.0)", "svhn"]):
        del planned[:]
        arguments = ["table7", "--scale", "paper", "--out", str(tmp_path), "--data", *data]
        main(fedsac.PAPER, arguments)
        scenes = [f"svhn {scene}" for scene in experiments.SCENES] if len(data) > 1 else []
        assert list(dict.fromkeys(planned)) == [data[0], *scenes]


def test_models_weigh_what_table_8_says() -> None:
    """26.27 and 7.97 MB for ten clients' models, one direction."""
    assert [
        f"{10 * fedsac.MODEL_BYTES[one] / 1e6:.4f}" for one in ("cifar10", "fashion_mnist")
    ] == [
        "26.2724",
        "7.9684",
    ]
    assert experiments.published("table8")["fashion_mnist POW", "fedavg"] == "7.97"
    assert experiments.published("table8")["cifar10 CLA", "cgsv"] == "26.27"


@pytest.mark.parametrize(
    ("of_settings", "fairest", "floored"),
    [
        # fairness, best client: the fairest is 5 points below, the next 1.
        ([(95.0, 0.80), (90.0, 0.84), (40.0, 0.85)], "s0", "s1"),
        ([(95.0, 0.83), (90.0, 0.84), (40.0, 0.85)], "s0", "s0"),
        # What is undefined is chosen only where nothing else is.
        ([(float("nan"), 0.85), (-3.0, 0.84)], "s1", "s1"),
        ([(float("nan"), 0.85), (90.0, 0.60)], "s1", "s0"),
        # A run that diverged has no accuracy either.
        ([(float("nan"), float("nan")), (1.0, 0.5)], "s1", "s1"),
    ],
)
def test_a_setting_is_chosen_by_fairness_without_and_with_a_floor(
    of_settings: list[tuple[float, float]], fairest: str, floored: str, tmp_path: Path
) -> None:
    """The floor is on the accuracy of the best client, 2 points below the method's best."""
    settings = {
        f"s{place}": Experiment("d", f"m s{place}", tmp_path) for place in range(len(of_settings))
    }
    rows = [
        ("d", f"m s{place}", seed, figure, value + (0.001 if seed else -0.001))
        for place, both in enumerate(of_settings)
        for seed in (0, 1)
        for figure, value in zip(("fairness", "reward_max"), both, strict=True)
    ]

    table = choices.choose(pd.DataFrame(rows, columns=COLUMNS), settings)

    one = choices.Tried("m", "d", table)
    assert (one.chosen(choices.FAIREST), one.chosen(choices.ABOVE_FLOOR)) == (fairest, floored)


def test_a_setting_that_is_undefined_with_one_of_two_seeds_comes_last(tmp_path: Path) -> None:
    """Its mean over the other seed would be no mean over the grid's."""
    settings = {f"s{place}": Experiment("d", f"m s{place}", tmp_path) for place in range(2)}
    rows = [
        ("d", "m s0", 1, "fairness", 99.0),
        *(("d", "m s1", seed, "fairness", 10.0) for seed in (0, 1)),
        *(("d", f"m s{place}", seed, "reward_max", 0.8) for place in (0, 1) for seed in (0, 1)),
    ]

    table = choices.choose(pd.DataFrame(rows, columns=COLUMNS), settings)

    assert choices.Tried("m", "d", table).chosen(choices.FAIREST) == "s1"


def test_what_is_undefined_is_left_out_and_a_diverged_run_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A correlation may not be defined; of a model that is NaN nothing is, which is a result."""
    one = study("smoke", tmp_path)
    (trial,) = one.run([experiments.fedsac(one, "digits", "POW")])
    run = trial.run
    measures = run.manifest["measures"]["collaborative_fairness"]

    monkeypatch.setitem(measures, "fairness", float("nan"))
    undefined = experiments.figures(run)
    monkeypatch.setitem(run.manifest, "status", "diverged")
    diverged = experiments.figures(run)

    assert "fairness" not in undefined and undefined["reward_max"] > 0
    assert math.isnan(diverged["fairness"])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("exhibit", ["table2", "table4"])
def test_what_is_recorded_is_what_is_shown(
    exhibit: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run by run and at the end; of runs that are there already nothing changes."""
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    arguments = [exhibit, "--scale", "smoke", "--out", str(out), "--record"]
    texts = []
    for commit in ("first", "later"):
        monkeypatch.setattr(results, "current_commit", lambda commit=commit: commit)
        main(fedsac.PAPER, arguments)
        texts.append((tmp_path / "fedsac.csv").read_text(encoding="utf-8"))

    shown = pd.read_csv(out / "smoke" / f"{exhibit}.csv")
    recorded = results.read_results(tmp_path / "fedsac.csv")
    both = shown.merge(recorded, on=COLUMNS)
    assert len(both) == len(shown) == len(recorded) > 0
    assert texts[0] == texts[1]


def test_an_incomplete_grid_chooses_nothing(
    out: Path, small: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A method with a missing setting has no row; the number of available settings is stated."""
    whole = Study.run
    monkeypatch.setitem(experiments.GRIDS, "qffl", ({"q": 0.1}, {"q": 1.0}))

    def without_one(self: Study, planned: list[Experiment], *rest: Any) -> list[Trial]:
        return whole(self, [one for one in planned if one.name != "qffl q 1"], *rest)

    monkeypatch.setattr(Study, "run", without_one)
    trials, found = choices.compared(study("smoke", out / "smoke"), "digits", "POW")

    assert "1 of 2 runs of qffl's" in capsys.readouterr().out
    assert "qffl" not in {one.method for one in found}
    assert {one.name for one in trials} == {
        f"{name}{ending}"
        for name in ("fedavg", "cffl", "cgsv", "fedave")
        for ending in ("", "_floor")
    } | {"fedsac_grid", "fedsac_floor"}


@pytest.mark.usefixtures("small")
def test_a_plan_counts_what_follows_the_grid(tmp_path: Path) -> None:
    """For every split each setting once, and with all seeds FedSAC and one row per method."""
    sizes = replace(experiments.SIZES["smoke"], scenes=("POW", "CLA"))
    planned = replace(study("smoke", tmp_path), seeds=2, only_plan=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(experiments.SIZES, "smoke", sizes)
        patch.setattr(Study, "_probe", lambda self, data, scenario: Probe(1.0))

        with pytest.raises(OnlyPlanned):
            fedsac.table1(planned)

    settings = {
        f"{one.name}"
        for of in experiments.grid(planned, "digits", "POW").values()
        for one in of.values()
    }
    rows = {"fedsac", "fedsac_grid", "fedavg", "qffl", "cffl", "cgsv", "fedave"}
    for scene in ("POW", "CLA"):
        there = {(name, seed) for data, name, seed in planned.takes_s if data == f"digits {scene}"}
        assert there == {(one, 0) for one in settings} | {(one, s) for one in rows for s in (0, 1)}


@pytest.mark.usefixtures("small")
def test_one_grid_decides_for_all_splits_and_is_run_once(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For another split the recorded grid counts; settings that were never run are not chosen."""
    sizes = replace(experiments.SIZES["smoke"], grid_on="POW")
    monkeypatch.setitem(experiments.SIZES, "smoke", sizes)
    monkeypatch.setattr(choices, "RESULTS", tmp_path)
    of_pow = choices.tried(study("smoke", out / "smoke"), "digits", "POW")
    elsewhere = study("smoke", tmp_path)
    assert choices.recorded(elsewhere, "digits", "POW") == []

    values = choices.as_values([one for one in of_pow if one.method != "qffl"])
    write_results(tmp_path / "fedsac.csv", "grid", "smoke", values)
    run: list[str] = []
    monkeypatch.setattr(
        Study,
        "run",
        lambda self, planned, *_: run.extend(f"{one.data} {one.name}" for one in planned) or [],
    )
    found = choices.decided(elsewhere, "digits", "DIR(1.0)")

    assert run and all(one.startswith("digits POW qffl") for one in run)
    before = {one.method: one.table for one in of_pow if one.method != "qffl"}
    assert {one.method for one in found} == set(before)
    for one in found:
        pd.testing.assert_frame_equal(one.table, before[one.method], check_exact=True)


@pytest.mark.usefixtures("small")
def test_a_plan_of_more_clients_counts_every_number_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only the first, whose runs are not there."""
    sizes = replace(experiments.SIZES["smoke"], clients={15: ("POW",), 20: ("DIR(2.0)",)})
    monkeypatch.setitem(experiments.SIZES, "smoke", sizes)
    monkeypatch.setattr(Study, "_probe", lambda self, data, scenario: Probe(1.0))
    planned = replace(study("smoke", tmp_path), only_plan=True)

    with pytest.raises(OnlyPlanned):
        fedsac.table5(planned)

    columns = {data for data, _, _ in planned.takes_s}
    assert {"digits POW, 15 clients", "digits DIR(2.0), 20 clients"} <= columns


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("exhibit", list(fedsac.PAPER.exhibits))
def test_every_exhibit_is_shown_without_a_single_run(
    exhibit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where time was over before the first one began: claims are skipped, nothing breaks."""
    monkeypatch.setattr(Study, "run", lambda self, planned, *_: [])

    verdicts = main(fedsac.PAPER, [exhibit, "--scale", "smoke", "--out", str(tmp_path)])

    assert verdicts.empty or set(verdicts["verdict"]) <= {"SKIPPED"}


@pytest.mark.parametrize("data", experiments.SCALES["paper"].data)
@pytest.mark.parametrize("scene", experiments.SCENES)
def test_settings_are_those_of_table_9(data: str, scene: str, tmp_path: Path) -> None:
    """At the paper's scale, with the split of the column."""
    one = experiments.fedsac(study("paper", tmp_path), data, scene)

    scenario = Scenario.from_yaml(one.scenario, one.overrides)

    place = experiments.SCENES.index(scene)
    eta, epochs, beta = (values[place] for values in experiments.TABLE_9[data])
    local = scenario.algorithm.parameters["local"]
    assert (local["learning_rate"], local["epochs"]) == (eta, epochs)
    assert scenario.algorithm.parameters["beta"] == beta
    assert local["batch_size"] == (64 if data == "svhn" else 32)
    partition = {"POW": "power_law", "CLA": "class_imbalance"}.get(scene, "dirichlet")
    assert scenario.data.partition.name == partition


def test_the_scenario_files_are_the_first_column_of_table_9() -> None:
    """A file run by itself is FedSAC on POW, as the tables run it."""
    for data in ("fashion_mnist", "cifar10", "svhn", "cifar10_subset"):
        content = yaml.safe_load((experiments.SCENARIOS / f"{data}.yaml").read_text("utf-8"))
        eta, epochs, beta = (values[0] for values in experiments.TABLE_9[data])
        local = content["algorithm"]["local"]
        assert (local["learning_rate"], local["epochs"]) == (eta, epochs)
        assert content["algorithm"]["beta"] == beta
        assert content["algorithm"]["importance_unit"] == "epochs"


def test_the_unbalanced_split_is_the_same_but_for_the_balance(tmp_path: Path) -> None:
    """DIR deals to clients with an equal share already in one of the two."""
    of = study("paper", tmp_path)
    pair = (
        experiments.fedsac(of, "svhn", "DIR(2.0)"),
        experiments.unbalanced(of, "svhn", "DIR(2.0)"),
    )

    found = [Scenario.from_yaml(one.scenario, one.overrides).data.partition for one in pair]

    assert [one.parameters["balance"] for one in found] == [True, False]
    assert {one.name: one.parameters["alpha"] for one in found} == {"dirichlet": 2.0}


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("scene", experiments.SCENES)
def test_a_round_at_the_papers_size(scene: str, tmp_path: Path) -> None:
    """Fashion-MNIST with ten clients: bytes of ten models, as Table 8 has them, or less."""
    one = experiments.fedsac(study("paper", tmp_path), "fashion_mnist", scene)
    short: list[Any] = ["stop.versions=1", "evaluate.measures=[]"]
    given = (
        'algorithm.contributions={"accuracy": [0.3, 0.3, 0.4, 0.4, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8]}'
    )
    scenario = Scenario.from_yaml(one.scenario, [*one.overrides, *short, given])

    simulation = assemble(scenario, Options(device="cpu"))
    result = simfl.run(scenario, tmp_path / "run")

    sizes = simulation.partitioned.num_examples.tolist()
    if scene == "POW":
        assert sizes == [236, 628, 1020, 1412, 1804, 2197, 2589, 2981, 3373, 3760]
    assert sum(sizes) == (20_000 if scene in ("POW", "CLA") else 54_000)
    assert result.clients["bytes_received"].max() == 796_840
    assert result.clients["bytes_received"].sum() < 7_968_400


def test_an_undefined_correlation_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """With some seeds in the cell, with all of them below the table, which has no row of it."""
    rows = [
        ("d", name, seed, figure, 90.0 + seed)
        for name in ("some", "none", "standalone")
        for seed in (0, 1, 2)
        for figure in ("fairness", "reward_max")
        if figure == "reward_max" or (name == "some" and seed != 1)
    ]

    fedsac._fairness(pd.DataFrame(rows, columns=COLUMNS))

    said = capsys.readouterr().out
    assert "| some     | 91.00 ± 1.41 (2/3) |" in said
    assert said.count("undefined") == 1 and "d, none: the correlation is undefined" in said
    assert "standalone" not in said


def test_rewards_are_compared_with_what_clients_reach_alone() -> None:
    """Three of four get more; one gets what it reaches alone, which is no more."""
    clients = pd.DataFrame(
        {"reward_accuracy": [0.5, 0.6, 0.7, 0.9], "contribution": [0.4, 0.6, 0.6, 0.8]}
    )

    found = fedsac._by_client(SimpleNamespace(clients=clients))

    assert found["above_contribution_share"] == 0.75
    assert found["reward_range"] == pytest.approx(0.4)
    assert found["contribution of client 3"] == 0.8
