"""AFL and q-FFL: their server rules by hand and at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import simfl
from simfl.algorithms.afl import Afl, onto_simplex
from simfl.algorithms.fedavg import FedAvg
from simfl.algorithms.qffl import QFfl
from tests.algorithms.made import aggregated, state_at, update_of
from tests.small import final_weights, largest_difference, simulated, small
from tests.test_resume import assert_same, cut_off

LOCAL = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
START = state_at([0.0, 0.0])
MIXED = state_at([0.0, 0.0], {"mixture": {0: 0.5, 1: 0.25, 2: 0.25}})
UPDATES = (
    update_of(START, 0, [1.0, 0.0], loss=1.0),
    update_of(START, 1, [0.0, 4.0], loss=2.0),
)


def test_afl_weighs_changes_by_the_mixture():
    """Two of three clients: theta + (3/2)(0.5 (1, 0) + 0.25 (0, 4))."""
    assert aggregated(Afl(), MIXED, *UPDATES) == [0.75, 1.5]


def test_afl_moves_the_mixture_towards_the_losses():
    """(0.5, 0.25, 0.25) + 0.1 (3/2) (1, 2, 0), less 0.15 each, sums to 1."""
    after = Afl(mixture_rate=0.1).aggregate(MIXED, UPDATES, None)

    assert after.memory["mixture"] == pytest.approx({0: 0.5, 1: 0.4, 2: 0.1})


def test_both_report_the_largest_loss_and_what_each_client_counts():
    """AFL the parts of the mixture; q-FFL with q = 0 the mean."""
    afl = Afl().report(MIXED, UPDATES)
    qffl = QFfl(q=0.0).report(START, UPDATES)

    losses = {"value": 2.0, "clients": [0, 1], "losses": [1.0, 2.0]}
    assert afl == {**losses, "mixture": [0.5, 0.25]}
    assert qffl == {**losses, "coefficients": [0.5, 0.5]}


def test_afl_mixes_mixtures_with_the_weights():
    """A quarter of the lower state's."""
    lower = state_at([4.0, 0.0], {"mixture": {0: 0.1, 1: 0.65, 2: 0.25}})

    merged = Afl().merge(MIXED, [lower], [0.25])

    assert merged.memory["mixture"] == pytest.approx({0: 0.4, 1: 0.35, 2: 0.25})
    assert merged.weights["weight"].tolist() == [1.0, 0.0]


def test_afl_helps_the_worst_off_client():
    """On unlike clients the largest final loss is smaller than FedAvg's."""
    losses = {}
    for name in ("fedavg", "afl"):
        algorithm = {"name": name, "local": LOCAL}
        data = {"name": "digits", "partition": {"name": "dirichlet", "alpha": 0.3}}
        scenario = small(algorithm=algorithm, data=data, model="linear", stop={"versions": 40})
        _, run = simulated(scenario)
        rows = run.values.global_at_clients(run.publications.latest)
        losses[name] = max(loss for loss, _ in rows)

    assert losses["afl"] < 0.95 * losses["fedavg"]


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=6))
def test_the_projection_is_the_nearest_point_of_the_simplex(values):
    """It lies on the simplex, and scipy finds none nearer."""
    point = np.array(values)

    found = onto_simplex(point)

    assert found.min() >= 0 and found.sum() == pytest.approx(1.0)
    even = np.full(point.size, 1 / point.size)
    best = minimize(
        lambda x: ((x - point) ** 2).sum(),
        even,
        jac=lambda x: 2 * (x - point),
        bounds=[(0, 1)] * point.size,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
    )
    assert ((found - point) ** 2).sum() <= best.fun + 1e-7


def test_qffl_by_hand():
    """q 1, eta 0.1, F (1, 2): h (100 + 10, 1600 + 20); theta + (10 (1, 0) + 20 (0, 4)) / 1730."""
    assert aggregated(QFfl(q=1.0), START, *UPDATES) == pytest.approx([10 / 1730, 80 / 1730])


def test_qffl_measures_the_trained_weights_alone():
    """A running statistic that moved far is averaged; the norm in h does not see it."""
    updates = [update_of(START, 0, [1.0, 0.0], 1.0, statistic=9.0), UPDATES[1]]

    after = QFfl(q=1.0).aggregate(START, updates, None)

    assert after.weights["weight"].tolist() == pytest.approx([10 / 1730, 80 / 1730])
    assert after.weights["running_var"].tolist() == [4.5]


def test_qffl_without_fairness_is_the_uniform_mean():
    """q = 0: the mean of the changes, whatever losses, data sizes and learning rates."""
    updates = (
        update_of(START, 0, [1.0, 0.0], 1.0, examples=70, learning_rate=0.3),
        update_of(START, 1, [0.0, 4.0], 2.0, examples=10, learning_rate=0.3),
    )

    assert aggregated(QFfl(q=0.0), START, *updates) == pytest.approx([0.5, 2.0])


def test_fedavg_weighs_by_data_or_evenly():
    """70 and 10 examples: (7/8, 1/2) of (1, 4), or a half of each, a running statistic too."""
    updates = (
        update_of(START, 0, [1.0, 0.0], 1.0, examples=70, statistic=8.0),
        update_of(START, 1, [0.0, 4.0], 2.0, examples=10),
    )

    assert aggregated(FedAvg(), START, *updates) == pytest.approx([7 / 8, 1 / 2])
    assert aggregated(FedAvg(weights="uniform"), START, *updates) == [0.5, 2.0]
    even = FedAvg(weights="uniform").aggregate(START, updates, None)
    assert even.weights["running_var"].tolist() == [4.0]


def test_qffl_without_fairness_is_the_uniform_fedavg():
    """q = 0 gives the plain mean of the models, however unequal the clients' data are."""
    uniform = {"name": "fedavg", "weights": "uniform", "local": LOCAL}

    fedavg = simulated(small(algorithm=uniform))[1]
    qffl = simulated(small(algorithm={"name": "qffl", "q": 0.0, "local": LOCAL}))[1]

    assert largest_difference(final_weights(fedavg), final_weights(qffl)) < 1e-9


@pytest.mark.parametrize("name", ["afl", "qffl"])
def test_the_trainers_agree(name):
    """Batched and sequential training end within 1e-9 of each other in float64."""
    scenario = small(algorithm={"name": name, "local": LOCAL})

    batched, sequential = (
        simulated(scenario, trainer=trainer)[1] for trainer in ("batched", "sequential")
    )

    assert largest_difference(final_weights(batched), final_weights(sequential)) < 1e-9


def test_a_run_with_a_mixture_resumes_exactly(tmp_path):
    """Interrupted, AFL's lambda comes back with the snapshot; nothing is trained twice."""
    scenario = small(
        dtype="float32",
        algorithm={"name": "afl", "local": LOCAL},
        protocol={"name": "buffered", "buffer": 3, "concurrency": 5},
        stop={"versions": 8},
    )
    whole = simfl.run(scenario, tmp_path / "whole")
    cut_off(scenario, tmp_path / "cut", 4, snapshot_seconds=0.0)

    resumed = simfl.run(scenario, tmp_path / "cut", resume=True)

    assert_same(resumed, whole)
    assert resumed.manifest["counts"]["jobs_trained"] < whole.manifest["counts"]["jobs_trained"]


@pytest.mark.parametrize(("name", "figures"), [("afl", 1), ("qffl", 2)])
def test_what_goes_up_beside_the_model_is_paid_for(name, figures):
    """4 bytes for each number."""
    simulation, run = simulated(small(algorithm={"name": name, "local": LOCAL}))
    size = simulation.network.size_bytes

    up, down = (run.accounts.bytes[:8, run.accounts.kinds.index(k)] for k in ("upload", "download"))

    assert (down == 3 * size).all()
    assert (up == 3 * (size + 4 * figures)).all()


def test_the_simplex_is_reached_from_very_far_away():
    """Entries beside which 1 is lost in rounding are projected as their differences say."""
    assert onto_simplex(np.array([1e60, 1e60, 0.0])).tolist() == [0.5, 0.5, 0.0]
    assert onto_simplex(np.array([1e60, 2e60])).tolist() == [0.0, 1.0]
