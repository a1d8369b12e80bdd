"""Errors of latency estimates, read off a run's log."""

import json

import pytest

import simfl
from simfl.measures.estimation_error import EstimationError, estimation_errors
from simfl.measures.virtual_queues import VirtualQueues
from simfl.protocols.observations import Observations
from simfl.protocols.run import Run
from tests.small import small

SEMI = {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 2}


def scenario(**changes):
    """Eight clients on four edge servers, real training."""
    return small(
        population={"edges": 4},
        protocol=SEMI,
        **{"stop": {"versions": 9}, "decisions": {"scheduling": "greedy"}, **changes},
    )


def test_errors_are_of_the_estimates_and_latencies_that_the_cloud_saw(tmp_path, monkeypatch):
    """Each decision's own estimate against the latency that the cloud observed afterwards."""
    estimates, latencies = [], {}
    schedule, arrived = Run.schedule, Observations.arrived

    def watched_schedule(run, idle, round_number):
        view = run.observations.edges(run.clock.now_s, round_number, idle)
        edge = schedule(run, idle, round_number)
        estimates.append((round_number, edge, view.estimated_latency_s[edge]))
        return edge

    def watched_arrived(observations, server, latency_s):
        latencies.setdefault(server.number, []).append(latency_s)
        arrived(observations, server, latency_s)

    monkeypatch.setattr(Run, "schedule", watched_schedule)
    monkeypatch.setattr(Observations, "arrived", watched_arrived)

    errors = estimation_errors(simfl.run(scenario(), tmp_path / "run"))

    ends = {edge: iter(observed[1:]) for edge, observed in latencies.items()}
    expected = [(*one, next(ends[one[1]], None)) for one in estimates]
    expected = [one for one in expected if one[3] is not None]
    assert 4 <= len(errors) == len(expected)
    for found, (number, edge, estimated_s, realised_s) in zip(
        errors.itertuples(), expected, strict=True
    ):
        assert (found.round, found.edge, found.estimated_s) == (number, edge, estimated_s)
        assert found.realised_s == pytest.approx(realised_s)
        assert found.error_s == pytest.approx(estimated_s - realised_s)
        assert found.relative_error == pytest.approx((estimated_s - realised_s) / realised_s)


def test_edge_servers_that_send_nothing_have_latencies_too(tmp_path):
    """Standalone training: a dispatch ends with its clients' last computation."""
    errors = estimation_errors(simfl.run(scenario(algorithm="standalone"), tmp_path / "run"))

    assert len(errors) >= 4
    assert (errors["realised_s"] > 0).all()


@pytest.mark.parametrize("override", ["protocol=synchronous", "log.level=rounds"])
def test_without_decisions_there_are_no_errors(override, tmp_path):
    """An empty table with its columns, and no figures, as of the other measures of schedules."""
    run = simfl.run(scenario().with_overrides([override]), tmp_path / "run")

    errors = estimation_errors(run)

    assert errors.empty and "error_s" in errors
    assert EstimationError().compute(run) == VirtualQueues().compute(run) == {}


def test_the_manifest_holds_the_mean_errors(tmp_path):
    """As a measure of the scenario."""
    run = simfl.run(scenario(evaluate={"measures": ["estimation_error"]}), tmp_path / "run")

    figures = json.loads((run.path / "manifest.json").read_text())["measures"]["estimation_error"]

    errors = estimation_errors(run)
    assert figures["mean_error_s"] == pytest.approx(errors["error_s"].mean())
    assert figures["mean_absolute_error_s"] == pytest.approx(errors["error_s"].abs().mean())
    assert figures["mean_absolute_relative_error"] == pytest.approx(
        errors["relative_error"].abs().mean()
    )
