"""The oracle knows the machines' mean latencies, and no latency that is still to come."""

import numpy as np
import pytest

import simfl
from simfl.measures.estimation_error import estimation_errors
from tests.small import simulated, small


def timing(decisions, noise, versions, **changes):
    """Edge servers of five clients each, timing only."""
    return small(
        data={"name": "sizes", "examples_per_client": 200, "partition": "iid"},
        model="lenet",
        population={"name": "paper", "clients": 15, "edges": 3, "noise": noise},
        algorithm={"name": "none", "local": {"steps": 5, "batch_size": 32}},
        protocol={"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 2},
        decisions={"scheduling": "round_robin", "estimator": "oracle", **decisions},
        stop={"versions": versions},
        **changes,
    )


@pytest.mark.parametrize("selection", ["all", {"name": "random", "count": 5}])
def test_without_noise_it_knows_every_latency(selection, tmp_path):
    """Messages, turns of all clients, aggregation: to rounding."""
    run = simfl.run(timing({"selection": selection}, 0.0, 8), tmp_path / "run")

    errors = estimation_errors(run)

    assert len(errors) == 5
    assert errors["relative_error"].abs().max() < 1e-12


@pytest.mark.parametrize("selection", ["all", {"name": "random", "count": 2}])
def test_with_noise_it_knows_the_mean(selection, tmp_path):
    """The mean of the longest of noisy turns, which is longer than the longest mean turn."""
    run = simfl.run(timing({"selection": selection}, 0.2, 200), tmp_path / "run")
    still = simfl.run(timing({"selection": "all"}, 0.0, 8), tmp_path / "still")

    errors = estimation_errors(run)
    by_edge = errors.groupby("edge")
    deviation = by_edge["realised_s"].sem()

    assert by_edge["estimated_s"].nunique().max() <= 2  # before the first dispatch, and after
    off = (by_edge["estimated_s"].last() - by_edge["realised_s"].mean()).abs()
    assert (off < 3 * deviation).all()
    if selection == "all":
        nominal_s = estimation_errors(still).groupby("edge")["realised_s"].first()
        assert (by_edge["realised_s"].mean() > nominal_s + 5 * deviation).any()


def test_it_does_not_see_the_future(tmp_path):
    """Single latencies are as far from it as from their own mean."""
    errors = estimation_errors(simfl.run(timing({}, 0.2, 150), tmp_path / "run"))

    spread = errors.groupby("edge")[["error_s", "realised_s"]].std()

    np.testing.assert_allclose(spread["error_s"], spread["realised_s"], rtol=0.05)


def test_its_draws_are_its_own():
    """Where estimates decide nothing a run with it is the run with any other estimator."""
    runs = [
        simulated(timing({"estimator": estimator}, 0.2, 12))[1] for estimator in ("oracle", "mean")
    ]

    assert runs[0].log.fingerprint == runs[1].log.fingerprint


def test_it_knows_at_which_clocks_clients_compute(tmp_path):
    """FedCure's clocks follow its estimates, its estimates the clocks: they meet in a fixed point.

    The distance shrinks by at least a third with every dispatch (Eq. 16's log-slope is 1 / 3).
    """
    run = simfl.run(timing({"allocation": "fedcure"}, 0.0, 40), tmp_path / "run")

    errors = estimation_errors(run)

    assert errors["relative_error"].abs().iloc[0] > 0.01
    assert errors["relative_error"].abs().tail(6).max() < 1e-4


def test_a_flat_server_is_told_too():
    """Under a flat protocol, where a rule goes by it: each client's turn, and the round of all."""
    everybody = {"selection": {"name": "virtual_queue", "share": 1.0}}
    scenario = timing(everybody, 0.0, 2).with_overrides(["protocol=synchronous"])

    run = simulated(scenario)[1]

    view = run.observations.clients(np.arange(15), run.clock.now_s, 9, -1)
    np.testing.assert_allclose(view.estimated_duration_s, view.last_duration_s, rtol=1e-12)
    np.testing.assert_allclose(view.edge_latency_s, view.last_duration_s.max(), rtol=1e-12)


def test_one_client_in_flight_is_any_client():
    """The latency of asynchronous dispatches is the mean over clients."""
    protocol = {"name": "asynchronous", "concurrency": 1}
    scenario = timing({"selection": {"name": "virtual_queue", "count": 1}}, 0.0, 30)
    run = simulated(scenario.with_overrides([f"protocol={protocol}"]))[1]

    view = run.observations.clients(np.arange(15), run.clock.now_s, 99, -1)

    mean_s = view.estimated_duration_s.mean()
    np.testing.assert_allclose(view.edge_latency_s, mean_s, rtol=0.05)
