"""Whose joules a decision saves: clients', servers' or the network's, in total and to a target."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from simfl.study.comparable import caveat_sentences, unlike_versions
from simfl.study.comparisons import paired_differences
from simfl.study.effects import main_effects
from simfl.study.figure_text import of_run
from simfl.study.loaded import LoadedStudy, load_study
from simfl.study.means import point_means
from simfl.study.pareto import study_front, unranked
from simfl.study.rows import row
from simfl.study.studyfile import Questions
from simfl.study.targets import target_of
from tests.study.studies import run_here, session

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "seconds_and_joules.md").read_text(encoding="utf-8")
UNTRAINED = "algorithm={name: none, local: {epochs: 2}}"
"""In place of the first scenario's: the same seconds and joules, and nothing is learned."""

PARTS = ("client_energy_j", "server_energy_j", "network_energy_j")
PIS = ("population.groups=[{device: rpi_4b, link: wifi5_ac, share: 1.0}]",)
CAPPED = ("decisions.allocation.name=capped", "decisions.allocation.frequency_hz=6.0e8")
SLOW = ("decisions.allocation.name=capped", "decisions.allocation.share=0.6")
WIFI = tuple(f"population.groups.{group}.link=wifi5_ac" for group in (1, 2))
OWN = ("population.server_idle_share=0", "population.client_idle=rounds")


def first(folder: Path, *settings: str) -> LoadedRun:
    """README's first scenario, with some keys set."""
    [text] = re.findall(r"^```yaml\n(# first\.yaml\n.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (folder / "first.yaml").write_text(text)
    scenario = Scenario.from_yaml(folder / "first.yaml").with_overrides(list(settings))
    return simfl.run(scenario, folder / str(len(list(folder.iterdir()))))


def test_the_first_runs_joules_are_mostly_the_clouds(tmp_path: Path) -> None:
    """As README says: of all joules, the cloud's, the clients', and these beyond idle power."""
    run = first(tmp_path, UNTRAINED)

    kilo = [run.manifest[f"{name}energy_j"] / 1e3 for name in ("", "server_", "client_")]
    said = (
        f"energy of all machines: {kilo[0]:.2f} kJ in the first run, of which the cloud takes "
        f"{kilo[1]:.2f} kJ, mostly for being on. Clients take {kilo[2]:.2f} kJ "
        f"(`client_energy_j`), {run.manifest['client_active_j']:.0f} J of it above idle power"
    )
    assert said in " ".join(README.split())
    for table in (run.manifest, run.rounds):
        added = sum(table[name] for name in PARTS)
        np.testing.assert_allclose(added, table["energy_j"], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "name"), [((), "as it is"), (SLOW, "clocks at 60 %"), (WIFI, "phones on Wi-Fi")]
)
def test_where_the_clients_joules_go_in_the_first_table(
    tmp_path: Path, change: tuple[str, ...], name: str
) -> None:
    """README's columns of the whole run: computing, radio, waiting."""
    joules = first(tmp_path, UNTRAINED, *change).clients.sum(numeric_only=True)

    radio_j = joules["upload_j"] + joules["download_j"] + joules["tail_j"]
    cells = f"{joules['compute_j']:.0f} J | {radio_j:.0f} J | {joules['idle_j']:.0f} J"
    assert re.search(rf"^\| {name}[^|]*\|[^|]*\|[^|]*\| {cells} \|$", README, re.MULTILINE)


def test_capping_the_pis_clocks_saves_the_pis_joules(tmp_path: Path) -> None:
    """The total grows, what Pis draw beyond idle power falls by more, as the page says.

    Where neither a server's nor a waiting Pi's idle power is charged, the total agrees.
    """
    settings = ((), CAPPED, OWN, (*OWN, *CAPPED))
    runs = [first(tmp_path, *PIS, UNTRAINED, *more) for more in settings]

    def change(column: str, before: LoadedRun, after: LoadedRun) -> float:
        return after.manifest[column] / before.manifest[column] - 1

    total, active = (change(column, *runs[:2]) for column in ("energy_j", "client_active_j"))
    assert f"draw {-active:.0%} less beyond idle power".replace("%", " %") in PAGE
    assert f"the total grows by {total:.0%}".replace("%", " %") in PAGE
    assert change("client_active_j", *runs[2:]) == pytest.approx(active)
    assert change("energy_j", *runs[2:]) < 0
    assert runs[0].manifest["fingerprint"] == runs[2].manifest["fingerprint"]


def test_targets_of_every_part(tmp_path: Path) -> None:
    """Each has a column, in the unit that says where a run that missed it was censored."""
    run = first(tmp_path, "model.hidden=[32]", "algorithm.local.batch_size=16")
    targets = Questions(targets={"accuracy": [0.5, 0.99]}).target_columns()
    found = row(run, targets)
    met = run.rounds[run.rounds["accuracy"] >= 0.5].iloc[0]

    for name, column in (
        ("energy", "energy_j"),
        ("client_energy", "client_energy_j"),
        ("client_active", "client_active_j"),
        ("server_energy", "server_energy_j"),
    ):
        reached, missed = (f"{name}_to_accuracy_{target}_j" for target in ("0.5", "0.99"))
        assert found[reached] == met[column] == run.spent_to(column, accuracy=0.5)
        asked = target_of(reached)
        assert asked is not None
        assert (asked.what, asked.spent) == ("accuracy 0.5", column)
        assert of_run(found, missed) == f"> {run.manifest[column]:.4g}"


def study_of(folder: Path, factor: str, levels: list[Any]) -> LoadedStudy:
    """A study of one factor, on two seeds, run to its end."""
    one = session(folder, points={"grid": {factor: levels}})
    assert {outcome.status for outcome in run_here(one)} == {"completed"}
    one.collect()
    return load_study(folder / "out")


@pytest.mark.parametrize(
    ("key", "levels", "others"),
    [
        ("server_idle_share", [1.0, 0.1], "client_energy_j"),
        ("client_idle", ["always", "rounds"], "server_energy_j"),
    ],
)
def test_who_is_charged_is_no_saving(
    key: str, levels: list[Any], others: str, tmp_path: Path
) -> None:
    """Joules that count idle power get no difference, effect or rank; all others do."""
    factor = f"population.{key}"
    study = study_of(tmp_path, factor, levels)
    counted = {"energy_j", "client_energy_j", "server_energy_j"} - {others}
    counted |= {f"{name.removesuffix('_j')}_to_accuracy_0.1_j" for name in counted}
    for metric in (*counted, others, "client_active_j", "time_s", "accuracy"):
        (one,) = paired_differences(study.table, metric, factor, levels[0]).to_dict("records")
        assert (one["verdict"] == "counted differently") == (metric in counted)
        assert np.isnan(one["difference"]) == (metric in counted)
        assert main_effects(study.table, metric, [factor]).empty == (metric in counted)
        (said, *_) = caveat_sentences(study.table, [metric]) or [""]
        assert said.startswith(f"counted differently: {metric} under {key} {levels[1]}") == (
            metric in counted
        )
    means = point_means(study.table, [factor], ["energy_j"])
    assert study_front(study.table, [factor], {"energy_j": "min"})[factor].tolist() == levels[:1]
    (left,) = unranked(means, [factor], {"energy_j": "min"})
    assert left.endswith(f"(counted differently under {key} {levels[1]})")


def test_accuracies_closer_than_one_example_are_told(tmp_path: Path) -> None:
    """With 359 test examples, if two settings learn the same; not if they are far apart."""
    same = study_of(tmp_path, "population.groups.0.device", ["rpi_4b", "rpi_5"])
    (said,) = caveat_sentences(same.table, ["accuracy", "loss"])
    assert said.startswith("accuracy is a share of 359 test examples, in steps of 0.0028:")

    shares = np.where(same.table["point"] == 0, 180, 270) / 359
    far = same.table.assign(accuracy=shares)
    assert caveat_sentences(far, ["accuracy"]) == []
    regression = same.table.assign(accuracy=0.1234567 + 0.01 * same.table["seed"])
    assert caveat_sentences(regression, ["accuracy"]) == []


def test_joules_that_are_mostly_idle_power_are_told() -> None:
    """Over the settings, from half on in each; of clients' joules and those to a target alone."""
    joules = {
        "client_energy_j": [10.0, 30.0, 50.0, 50.0],
        "client_active_j": [4.0, 4.0, 20.0, 22.0],
    }
    runs = pd.DataFrame({"point": [0, 0, 1, 1], "seed": [1, 2, 1, 2], **joules})
    metrics = ["client_energy_j", "client_energy_to_accuracy_0.5_j", "energy_j", "client_active_j"]

    (said,) = caveat_sentences(runs, metrics)

    assert said.startswith(
        "client_energy_j, client_energy_to_accuracy_0.5_j: 58 to 80 % of the clients' joules are"
    )
    assert caveat_sentences(runs, metrics[2:]) == []
    busy = runs.assign(client_active_j=[4.0, 4.0, 30.0, 30.0])
    assert caveat_sentences(busy, metrics) == []
    assert caveat_sentences(runs.assign(client_energy_j=0.0, client_active_j=0.0), metrics) == []


def test_costs_of_versions_with_unlike_updates_are_told() -> None:
    """Where nothing is learned; not with equal updates, another end, or of other figures."""
    runs = pd.DataFrame(
        {
            "point": [0, 0, 1, 1],
            "seed": [1, 2, 1, 2],
            "reason": "versions reached 30",
            "loss": np.nan,
            "merged_updates": [240.0, 240.0, 30.0, 31.0],
        }
    )
    metrics = ["time_s", "client_energy_j", "staleness"]

    (said,) = caveat_sentences(runs, metrics)

    assert said.startswith("time_s, client_energy_j: of equal versions, but of 30.5 to 240 merged")
    assert caveat_sentences(runs, ["staleness"]) == []
    assert caveat_sentences(runs.assign(merged_updates=[240.0, 240.0, 230.0, 230.0]), metrics) == []
    assert caveat_sentences(runs.assign(reason="updates reached 240"), metrics) == []
    ends = ["versions reached 30"] * 2 + ["versions reached 60"] * 2
    assert caveat_sentences(runs.assign(reason=ends), metrics) == []
    slightly = runs.assign(loss=0.3, merged_updates=[240.0, 240.0, 200.0, 200.0])
    assert caveat_sentences(slightly, metrics) == []


def test_what_is_learned_by_far_fewer_updates_is_told() -> None:
    """Costs are not with accuracy beside them, which shows their worth; without it they are."""
    runs = pd.DataFrame(
        {
            "point": [0, 0, 1, 1],
            "reason": "versions reached 30",
            "loss": [0.3, 0.4, 0.5, 0.6],
            "accuracy": [0.9, 0.8, 0.7, 0.6],
            "merged_updates": [240.0, 240.0, 150.0, 160.0],
        }
    )
    words = "accuracy: of equal versions, but of 155 to 240 merged updates of clients by setting"

    (said,) = unlike_versions(runs, ["time_s", "accuracy"])

    assert said.startswith(words) and "may be of less training" in said
    (said,) = unlike_versions(runs, ["client_energy_j", "staleness"])
    assert said.startswith(words.replace("accuracy", "client_energy_j"))
    assert unlike_versions(runs, ["staleness"]) == []
    assert unlike_versions(runs.assign(merged_updates=[240.0, 240.0, 170.0, 170.0]), ["loss"]) == []
    assert len(unlike_versions(runs.drop(columns="point"), ["accuracy"])) == 1
