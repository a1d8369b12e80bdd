"""The oracle knows the machines' mean latencies, and no latency that is still to come."""

import numpy as np
import pytest

import simfl
from simfl.measures.estimation_error import estimation_errors
from simfl.system.server_id import CLOUD
from tests.protocols.test_hand_timeline import PROFILES
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
    """Messages, client rounds of all clients, aggregation: to rounding."""
    run = simfl.run(timing({"selection": selection}, 0.0, 8), tmp_path / "run")

    errors = estimation_errors(run)

    assert len(errors) == 5
    assert errors["relative_error"].abs().max() < 1e-12


@pytest.mark.grid(1)
@pytest.mark.parametrize("selection", ["all", {"name": "random", "count": 2}])
def test_with_noise_it_knows_the_mean(selection, tmp_path):
    """The mean of the longest of noisy rounds, which is longer than the longest mean round."""
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
    """Under a flat protocol, if a rule uses it: each client's round, and the cohort's round."""
    everybody = {"selection": {"name": "virtual_queue", "share": 1.0}}
    scenario = timing(everybody, 0.0, 2).with_overrides(["protocol=synchronous"])

    run = simulated(scenario)[1]

    view = run.observations.clients(np.arange(15), run.clock.now_s, 9, CLOUD)
    np.testing.assert_allclose(view.estimated_duration_s, view.last_duration_s, rtol=1e-12)
    np.testing.assert_allclose(view.edge_latency_s, view.last_duration_s.max(), rtol=1e-12)


def test_one_client_in_flight_is_any_client():
    """The latency of asynchronous dispatches is the mean over clients."""
    protocol = {"name": "asynchronous", "concurrency": 1}
    scenario = timing({"selection": {"name": "virtual_queue", "count": 1}}, 0.0, 30)
    run = simulated(scenario.with_overrides([f"protocol={protocol}"]))[1]

    view = run.observations.clients(np.arange(15), run.clock.now_s, 99, CLOUD)

    mean_s = view.estimated_duration_s.mean()
    np.testing.assert_allclose(view.edge_latency_s, mean_s, rtol=0.05)


LINK = """
kind: link
link: {name: fixed_rate, uplink_bps: 2e6, downlink_bps: 4e6, rtt_s: 0.02, jitter_s: 0,
       power_transmit_w: 2, power_receive_w: 1.5, power_idle_w: 0.5,
       promotion_s: 0.5, power_promotion_w: 1.5, tail_s: 1.25, power_tail_w: 1.0}
"""
SHARED = {"name": "processor_sharing", "capacity_bps": 3e6}
ROUND_ROBIN = {"scheduling": "round_robin"}


@pytest.fixture
def sleepy(tmp_path):
    """Scenarios of 15 clients whose radios fall asleep after 1.25 s, and so do edge servers'."""
    for name, text in {**PROFILES, "radio": LINK, "wire": LINK}.items():
        (tmp_path / f"{name}.yaml").write_text(text)

    def scenario(sharing="dedicated", protocol=None, noise=0.0, versions=20, **decisions):
        return small(
            data={"name": "sizes", "examples_per_client": 20, "partition": "iid"},
            model="lenet",
            population={
                "name": "catalogue",
                "profiles": [str(tmp_path)],
                "groups": [{"device": "fast", "link": "radio", "share": 1.0}],
                "backhaul": "wire",
                "clients": 15,
                "edges": 3,
                "speed_spread": 0.3,
                "compute_noise": noise,
                "access_sharing": sharing,
            },
            algorithm={"name": "none", "local": {"steps": 5, "batch_size": 2}},
            protocol=protocol or {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 2},
            decisions={"estimator": "oracle", **decisions},
            stop={"versions": versions},
        )

    return scenario


@pytest.mark.parametrize("sharing", ["dedicated", SHARED, "fifo"])
def test_it_knows_rivals_and_sleeping_radios(sleepy, sharing, tmp_path):
    """Every latency of edge servers whose clients share a channel, to rounding."""
    run = simfl.run(sleepy(sharing, **ROUND_ROBIN), tmp_path / "run")

    errors = estimation_errors(run)

    assert len(errors) == 17
    assert errors["relative_error"].abs().max() < 1e-12
    assert errors.groupby("edge")["realised_s"].nunique().max() > 1  # asleep at first, then not


@pytest.mark.grid(1)
@pytest.mark.parametrize("sharing", ["dedicated", SHARED])
def test_it_knows_the_mean_with_rivals(sleepy, sharing, tmp_path):
    """Two of five clients, drawn at random, with noise."""
    decisions = {"selection": {"name": "random", "count": 2}, **ROUND_ROBIN}
    run = simfl.run(sleepy(sharing, noise=0.2, versions=80, **decisions), tmp_path / "run")

    errors = estimation_errors(run)

    deviation = errors.groupby("edge")["error_s"].sem()
    assert (errors.groupby("edge")["error_s"].mean().abs() < 3 * deviation).all()


@pytest.mark.parametrize("sharing", ["dedicated", SHARED, "fifo"])
def test_a_flat_server_knows_rivals_and_sleeping_radios(sleepy, sharing):
    """What it expects after three rounds is the fourth."""
    everybody = {"selection": {"name": "virtual_queue", "share": 1.0}}
    views = []
    for versions in (3, 4):
        synchronous = {"name": "synchronous"}
        run = simulated(sleepy(sharing, synchronous, versions=versions, **everybody))[1]
        views.append(run.observations.clients(np.arange(15), run.clock.now_s, 9, CLOUD))
    expected, found = views

    np.testing.assert_allclose(expected.estimated_duration_s, found.last_duration_s, rtol=1e-12)
    np.testing.assert_allclose(expected.edge_latency_s, found.last_duration_s.max(), rtol=1e-12)


def test_one_of_many_in_flight_has_rivals(sleepy):
    """Six in flight over one channel take longer than alone; the estimate is near to their mean."""
    decisions = {"selection": {"name": "random", "count": 1}}
    protocol = {"name": "asynchronous", "concurrency": 6}
    slow = {"name": "processor_sharing", "capacity_bps": 1e6}
    means_s = {}
    for name, sharing in (("alone", "dedicated"), ("shared", slow)):
        run = simulated(sleepy(sharing, protocol, versions=120, **decisions))[1]
        view = run.observations.clients(np.arange(15), run.clock.now_s, 99, CLOUD)
        rounds = view.past_seconds.sum() / view.participations.sum()
        means_s[name] = rounds, float(view.edge_latency_s[0])

    assert means_s["shared"][0] > 1.5 * means_s["alone"][0]
    for realised_s, estimated_s in means_s.values():
        assert estimated_s == pytest.approx(realised_s, rel=0.15)


def test_what_is_expected_is_of_the_slowest(sleepy, tmp_path):
    """For two clients dispatched together as for all five: without contention the slowest
    decides.
    """
    found = []
    for selection in ("all", {"name": "random", "count": 2}):
        one = sleepy(versions=2, selection=selection, **ROUND_ROBIN)
        found.append(simfl.run(one, tmp_path / str(len(found))).details("expectation").iloc[0])
    everybody, two = found

    assert (everybody["together"], two["together"]) == ([5] * 3, [2] * 3)
    assert two["latency_s"] == pytest.approx(everybody["latency_s"], rel=1e-12)


def test_the_log_says_what_rivals_and_sleeping_radios_add(sleepy, tmp_path):
    """One row, where there is anything to say: latencies with and without."""
    shared = simfl.run(sleepy(SHARED, versions=6, **ROUND_ROBIN), tmp_path / "shared")
    own = simfl.run(sleepy(versions=6, **ROUND_ROBIN), tmp_path / "own")

    row, alone = shared.details("expectation").iloc[0], own.details("expectation").iloc[0]

    assert row["servers"] == ["edge-0", "edge-1", "edge-2"] and row["together"] == [5, 5, 5]
    assert row["alone_s"] == pytest.approx(alone["latency_s"])
    assert (np.array(row["latency_s"]) > np.array(row["alone_s"])).all()
    assert np.array(row["latency_s"]) - row["awake_s"] == pytest.approx([1.0] * 3)  # two wake-ups
    assert (np.array(row["round_s"]) > np.array(row["round_alone_s"])).all()
    assert "alone_s" not in alone
    assert simfl.run(timing({}, 0.0, 4), tmp_path / "plain").details("expectation").empty
