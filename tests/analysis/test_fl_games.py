"""FL Games' tables and figures come from one command each, and judge the paper's claims."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import fl_games
import fl_games_methods
import fl_games_thresholds
import numpy as np
import pandas as pd
import pytest

import simfl
from paper.claims import metric, read_claims
from paper.estimate import Probe
from paper.experiments import Scale, Trial
from paper.study import OnlyPlanned, Study
from simfl.runs.runfolder import load_run
from simfl.scenario.scenario import Scenario

# One exhibit of every kind in the quick tests; the others are the same functions on other data.
KINDS = ("table1", "table2", "fig2a", "fig2", "fig3", "fig7", "fig17")
LIME = importlib.util.find_spec("lime") is not None


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all exhibits keep their runs, which they share."""
    return tmp_path_factory.mktemp("fl_games")


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for a measure of oscillations."""
    monkeypatch.setitem(fl_games_methods.ROUNDS, "smoke", 5)
    monkeypatch.setitem(fl_games_methods.EPOCHS, "smoke", 1)


def shown(exhibit: str, out: Path) -> None:
    """Run an exhibit at the smallest scale: it has values, and a figure for each of its claims."""
    verdicts = fl_games.main(fl_games.PAPER, [exhibit, "--scale", "smoke", "--out", str(out)])

    values = pd.read_csv(out / "smoke" / f"{exhibit}.csv")
    assert not values.empty
    about = fl_games.EXHIBITS[exhibit].part_of or exhibit
    claims = [one for one in read_claims(fl_games.PAPER.claims) if one["figure"] == about]
    assert set(verdicts.get("claim", [])) == {one["id"] for one in claims}
    for one in claims:
        if "data" not in one and about == exhibit:
            assert len(metric(values, one["metric"])) == 1, one["id"]
    for picture in (out / "smoke").glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.grid(1)
@pytest.mark.parametrize("exhibit", KINDS)
def test_an_exhibit_is_shown(exhibit: str, out: Path) -> None:
    """Its values, its figures, and a figure for each of its claims."""
    shown(exhibit, out)
    pictures = {path.stem for path in (out / "smoke").glob("*.png")}
    drawn = {one: {one} for one in ("fig2a", "fig3", "fig7")}
    drawn |= {"fig2": {"fig2b", "fig2c"}, "fig17": {"fig17i", "fig17ii"}}
    assert drawn.get(exhibit, set()) <= pictures


@pytest.mark.slow
@pytest.mark.parametrize("exhibit", [one for one in fl_games.EXHIBITS if one not in KINDS])
def test_every_other_exhibit_is_shown(exhibit: str, out: Path) -> None:
    """The same on the other data sets; Figure 1a needs lime, and is left out without it."""
    shown(exhibit, out)
    if exhibit == "fig1":
        assert (out / "smoke" / "fig1a.png").exists() == LIME


def test_a_calibrated_game_ends_below_what_the_first_seeds_run_without_an_end_gives(
    out: Path,
) -> None:
    """The threshold is used for all seeds; a variable game's warm start is an epoch of 11
    rounds.
    """
    study = Study(fl_games.SCALES["smoke"], out / "smoke", 2, (fl_games.DIGITS,))

    asked = fl_games_methods.method(study, fl_games.DIGITS, "v_par_calibrated")

    (unended,) = (out / "smoke" / "runs").glob("*v_par_calibrated_unended-0-*")
    run = load_run(unended)
    assert run.manifest["reason"] == "versions reached 14"
    train = run.evaluations.query("on == 'train' and version > 11")["accuracy"]
    expected = round(float(np.percentile(train, 5)) + 0.02, 3)
    assert asked.overrides[-1] == f"algorithm.equilibrium.threshold={expected}"
    for trial in study.run([asked]):
        assert fl_games.of_a_game(trial.run)["threshold"] == expected


def test_where_a_game_would_have_ended_under_other_rules(tmp_path: Path) -> None:
    """At the first, or the third, low round after a warm start.

    A seed that never gets there has no line in the picture.
    """
    rounds = pd.RangeIndex(1, 9, name="version")
    train = [0.5, 0.8, 0.58, 0.7, 0.6, 0.54, 0.53, 0.9]
    played = pd.DataFrame({"train": train, "test": np.arange(8) / 10}, index=rounds)
    settled = fl_games_thresholds.settled

    assert settled(played, 0.6, 0, 1) == 1
    assert settled(played, 0.6, 2, 1) == 3
    assert settled(played, 0.6, 2, 3) == 7
    assert settled(played, 0.55, 2, 1) == 6
    assert settled(played, 0.55, 7, 1) is None

    played.to_pickle(tmp_path / "course")

    class Played(Trial):
        run = None  # the course is all that is asked for

    def course(_: object) -> pd.DataFrame:
        return played

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fl_games_thresholds, "course", course)
        trials = [Played("digits", "f_seq", seed, tmp_path) for seed in (0, 1)]
        values = fl_games_thresholds.by_threshold(trials, {("digits", "f_seq"): 2})
        study = Study(fl_games.SCALES["smoke"], tmp_path, 2, (fl_games.DIGITS,))
        fl_games_thresholds.draw(study, trials, values, "thresholds")
    at = values.set_index(["name", "figure"])["value"]
    assert at["f_seq", "test_accuracy_at_0.60"].tolist() == [0.2, 0.2]
    assert at["f_seq_low_3", "rounds_at_0.60"].tolist() == [7, 7]
    assert at["f_seq", "lowest"].tolist() == [0.53, 0.53]
    assert "f_seq_warm_100" not in at.index
    assert (tmp_path / "thresholds.png").exists()


@pytest.mark.parametrize("name", ["fedsgd_long", "fedprox_long"])
def test_a_baseline_ends_as_soon_as_it_knows_enough(name: str, tmp_path: Path) -> None:
    """By its training accuracy, on clients' data, in the first version that has as much."""
    study = Study(fl_games.SCALES["smoke"], tmp_path, 1, (fl_games.DIGITS,))
    one = fl_games_methods.method(study, fl_games.DIGITS, name)
    scenario = Scenario.from_yaml(one.scenario, (*one.overrides, "algorithm.enough=0.6"))

    run = simfl.run(scenario, tmp_path / "run")

    train = run.evaluations.query("on == 'train'")["accuracy"].tolist()
    assert run.manifest["reason"].startswith("learned: training accuracy 0.")
    assert train[-1] >= 0.6 and all(one < 0.6 for one in train[:-1])


def test_variants_and_baselines_are_the_papers() -> None:
    """Twelve rows of Table 1; everything that is published has a row of ours."""
    assert len(fl_games_methods.METHODS) == 12
    published = fl_games.PUBLISHED
    assert set(published.loc[published["table"] == "table1", "name"]) == set(
        fl_games_methods.METHODS
    )
    assert len(published[published["table"] == "table1"]) == 12 * 4 * 2


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("data", [fl_games.MNIST, fl_games.DSPRITES])
def test_what_is_run_is_a_valid_scenario(scale: str, data: str, tmp_path: Path) -> None:
    """Every method; at the paper's size as long as the card says."""
    study = Study(Scale(scale, 1, (data,)), tmp_path, 1, (data,))
    rounds = {}
    for name in (*fl_games_methods.METHODS, *fl_games_methods.BY_HEART, *fl_games_methods.READINGS):
        one = fl_games_methods.method(study, data, name)
        scenario = Scenario.from_yaml(one.scenario, one.overrides)
        rounds[name] = scenario.stop.versions
    if scale == "paper":
        assert (rounds["f_par"], rounds["v_par"], rounds["fedavg"]) == (1000, 2000, 3)


def test_rounds_of_table_1_stand_beside_those_of_table_4() -> None:
    """They are of the same games on the same data; our own reading has its variant's."""
    rounds = fl_games.EXHIBITS["table1"].published("rounds")
    assert rounds["colored_fashion_mnist", "f_par_smooth"] == "58.4"
    assert rounds["colored_fashion_mnist", "f_par_smooth_eq2"] == "58.4"
    assert "colored_mnist" not in {data for data, _ in rounds}


def test_rounds_that_more_clients_add() -> None:
    """Compared with two clients, same seed and order of play; empty for a game without an end."""
    rounds = {"f_seq_2": (10, 20), "f_seq_10": (50, 45), "f_par_2": (8, 9), "f_par_10": (9, np.nan)}
    values = pd.DataFrame(
        [
            ("digits", name, seed, figure, value)
            for name, of_seeds in rounds.items()
            for seed, value in enumerate(of_seeds)
            for figure in ("rounds", "bytes")
        ],
        columns=["data", "name", "seed", "figure", "value"],
    )

    added = fl_games.added_rounds(values)

    assert set(added["figure"]) == {"added_rounds"}
    by_name = added.sort_values("seed").groupby("name")["value"].apply(list)
    assert by_name["f_seq_10"] == [40, 25]
    np.testing.assert_array_equal(by_name["f_par_10"], [1, np.nan])
    assert set(by_name.index) == {"f_seq_10", "f_par_10"}
    difference = metric(pd.concat([values, added]), "added_rounds/f_par_10 - added_rounds/f_seq_10")
    np.testing.assert_array_equal(difference, [-39, np.nan])


def test_accuracy_with_the_other_colour_is_kept() -> None:
    """It gives the sign of the reliance on colour; NaN without such a data set."""
    scores = pd.DataFrame({"on": ["test", "flipped"], "accuracy": [0.7, 0.55]})
    run = SimpleNamespace(
        clients=pd.DataFrame({"num_examples": [1, 3], "served_accuracy": [0.4, 0.6]}),
        rounds=pd.DataFrame({"accuracy": [0.7]}),
        manifest={"status": "completed"},
        evaluations=scores.assign(client=np.nan, version=1),
    )

    found = fl_games.accuracies(run)

    assert found["flipped_accuracy"] == 0.55
    assert found["train_accuracy"] == pytest.approx(0.55)
    assert found["reliance"] == pytest.approx(0.15)
    run.evaluations = run.evaluations[:1]
    assert np.isnan(fl_games.accuracies(run)["flipped_accuracy"])


def test_probabilities_of_the_extended_clients() -> None:
    """Evenly spaced from 0.3 to 0.1, of mean 0.2; uneven ones as in Choe et al."""
    for number, flip in fl_games_methods.CLIENTS.items():
        assert flip[0] == 0.3 and flip[-1] == pytest.approx(0.1)
        if number != "5_uneven":
            assert sum(flip) / len(flip) == pytest.approx(0.2)
    assert len(fl_games_methods.CLIENTS["10"]) == 10


def test_every_claim_belongs_to_an_exhibit() -> None:
    """None would be forgotten silently."""
    assert {one["figure"] for one in read_claims(fl_games.PAPER.claims)} <= set(fl_games.EXHIBITS)
    named = {f"table{n}" for n in range(1, 5)} | {f"fig{n}" for n in range(1, 21)}
    assert named <= {name for name, one in fl_games.EXHIBITS.items() if one.part_of is None}


PLANNED = {
    "table2": {f"f_{order}_{count}" for order in ("seq", "par") for count in (2, 5, 10)}
    | {f"f_{order}_{count}_unended" for order in ("seq", "par") for count in (5, 10)},
    "fig2a": {*fl_games_methods.GAMES},
    "fig2": {"f_seq", "f_seq_smooth", "v_seq", "v_seq_smooth_fast"},
    "fig8": {
        f"f_{order}_{number}" for order in ("seq", "par") for number in ("2", "3", "5_uneven")
    },
    "fig17": {"f_seq", "f_seq_gd", "c_25", "c_50", "c_75", "c_100"},
    "calibrated": {*fl_games_methods.BASELINES, *fl_games_methods.CALIBRATED},
}


@pytest.mark.parametrize("exhibit", PLANNED)
def test_a_plan_counts_the_runs_of_all_parts(
    exhibit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Including runs that follow from a calibrated threshold, and those of every part of a
    figure.
    """
    monkeypatch.setattr(Study, "_probe", lambda self, data, scenario: Probe(1.0, 1.0))
    planned = Study(
        fl_games.SCALES["smoke"], tmp_path, 2, (fl_games_methods.DIGITS,), only_plan=True
    )

    with pytest.raises(OnlyPlanned):
        fl_games.EXHIBITS[exhibit].show(planned)

    seeds: dict[str, set[int]] = {}
    for _, name, seed in planned.takes_s:
        seeds.setdefault(name, set()).add(seed)
    assert PLANNED[exhibit] <= set(seeds)
    for name, of in seeds.items():
        assert of == ({0} if name.endswith("_unended") else {0, 1}), name
