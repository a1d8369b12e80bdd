"""Every criterion ends a run, with its reason."""

import json

import pytest

import simfl
from simfl.protocols.stopping import StopRule
from simfl.scenario.sections import Plateau, Stop
from simfl.study.rows import row
from tests.small import simulated, small


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ({"versions": 2}, "versions reached 2"),
        ({"energy_j": 1e-3}, "energy_j reached 0.001"),
        ({"bytes": 10.0}, "bytes reached 10"),
        ({"updates": 17}, "updates reached 17"),
        ({"accuracy": 0.01}, "accuracy reached 0.01"),
        ({"loss": 100.0}, "loss reached 100"),
    ],
)
def test_a_met_criterion_ends_the_run(stop, reason):
    """The run ends with the first version that meets it."""
    scenario = small(stop=stop)
    if "versions" not in stop:
        scenario = small().with_overrides(
            [f"stop={{versions: null, {', '.join(f'{k}: {v}' for k, v in stop.items())}}}"]
        )

    run = simulated(scenario)[1]

    assert run.publications.reason == reason


@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        ("synchronous", 3),
        ({"name": "hierarchical", "edge_rounds": 2}, 2),
        ({"name": "asynchronous", "concurrency": 4}, 20),
        ({"name": "buffered", "buffer": 4, "concurrency": 8}, 5),
        ({"name": "synchronous", "patience": {"over_selection": 2.0}}, 7),
    ],
)
def test_updates_count_those_of_clients_that_were_merged(protocol, versions, tmp_path):
    """Twenty of eight clients, by any protocol; those that are dropped do not count."""
    scenario = small(protocol=protocol, stop={"versions": None, "updates": 20})

    run = simfl.run(scenario, tmp_path / "run")

    tier = "edge" if run.scenario["protocol"]["name"] == "hierarchical" else "cloud"
    merging = run.events.query(f"kind == '{tier}_aggregate'")
    known = sum(json.loads(text)["updates"] for text in merging["detail"])
    assert run.manifest["reason"] == "updates reached 20"
    assert 20 <= known < 20 + 16
    assert run.manifest["counts"]["versions"] == versions
    assert row(run, {})["merged_updates"] == known


def test_simulated_time_ends_the_run_at_that_very_moment():
    """`time_s` cuts a client round in the middle; what was under way is booked up to there."""
    whole = simulated(small(stop={"versions": 1}))[1]
    limit_s = whole.clock.now_s / 3

    cut = simulated(small(stop={"versions": None, "time_s": limit_s}))[1]

    assert cut.clock.now_s == limit_s
    assert cut.publications.rounds == []
    assert all(cut.laws.values())


@pytest.mark.parametrize(
    ("stop", "known", "reason"),
    [
        (Stop(loss=0.5), {"loss": 0.4}, "loss reached 0.5"),
        (Stop(loss=0.5), {"loss": 0.6}, None),
        (Stop(accuracy=0.5, loss=0.5), {"loss": 0.4}, "loss reached 0.5"),
        (Stop(accuracy=0.5, loss=0.5), {"accuracy": 0.6}, "accuracy reached 0.5"),
        (Stop(loss=0.5), {"accuracy": 0.6}, None),
        (Stop(plateau=Plateau(versions=1, minimum_gain=0.01)), {"loss": 0.4}, None),
    ],
)
def test_a_version_may_have_a_loss_and_no_accuracy(stop, known, reason):
    """As for a protocol with its own values; each criterion uses its own figure."""
    of_version = {"version": 9, "accuracy": None, "loss": None, "energy_j": 0, "bytes": 0, **known}

    assert StopRule(stop).reason(of_version) == reason


def test_a_plateau_is_no_gain_over_some_versions():
    """The rule fires once the best accuracy is that many versions old."""
    rule = StopRule(Stop(plateau=Plateau(versions=3, minimum_gain=0.01)))
    accuracies = [0.5, 0.6, 0.605, 0.601, 0.6]

    reasons = [
        rule.reason(
            {"version": version, "accuracy": accuracy, "loss": 1.0, "energy_j": 0, "bytes": 0}
        )
        for version, accuracy in enumerate(accuracies, start=1)
    ]

    assert reasons == [None, None, None, None, "plateau: no gain over 3 versions"]
