"""CoreFed's server rule: by hand, as ascent on the Nash welfare, and where a utility fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import simfl
from simfl.algorithms.corefed import CoreFed, UtilityNotPositive
from simfl.assembly.simulation import Options
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.made import aggregated, state_at, update_of
from tests.small import final_weights, largest_difference, simulated, small
from tests.test_resume import assert_same, cut_off

FULL_BATCH = {"epochs": 1, "batch_size": None, "learning_rate": 0.1}
START = state_at([0.0])
TWO = (update_of(START, 0, [1.0], loss=1.0), update_of(START, 1, [-2.0], loss=2.0))


def corefed(**settings):
    """The algorithm section of the small scenario."""
    return {"name": "corefed", "local": FULL_BATCH, **settings}


def test_one_round_by_hand():
    """Delta (1, -2), M = 3, L (1, 2): theta moves by (1/2)(1/2 + (-2)/1)."""
    assert aggregated(CoreFed(offset=3.0), START, *TWO) == [-0.75]


def test_each_agent_has_its_own_offset():
    """M (2, 4) makes both utilities 1 and 2: (1/2)(1/1 + (-2)/2)."""
    assert aggregated(CoreFed(offset=(2.0, 4.0)), START, *TWO) == [0.0]


def test_weights_count_in_the_step_and_in_its_norm():
    """w (3, 1): (3 * 1/2 + 1 * (-2)/1) / 4; by data size the same from 30 and 10 examples."""
    by_size = (update_of(START, 0, [1.0], 1.0, examples=30), TWO[1])

    assert aggregated(CoreFed(weights=(3.0, 1.0)), START, *TWO) == [-0.125]
    assert aggregated(CoreFed(weights="examples"), START, *by_size) == [-0.125]


def test_the_normalized_step_is_a_convex_combination():
    """(1/2 - 2/1) / (1/2 + 1): as long as a mean of changes, whatever the utilities' size."""
    assert aggregated(CoreFed(step="normalized"), START, *TWO) == [-1.0]


def test_running_statistics_are_averaged_and_not_amplified():
    """They have no gradient: 1 / utility has no meaning for them."""
    updates = (
        update_of(START, 0, [1.0], 1.0, statistic=4.0),
        update_of(START, 1, [-2.0], 2.0, statistic=2.0),
    )

    after = CoreFed().aggregate(START, updates, None)

    assert after.weights["running_var"].tolist() == [3.0]
    assert after.weights["steps"].item() == 7


def test_warmup_is_the_plain_mean_until_all_utilities_are_large_enough():
    """M = 2.05: utilities 1.05 and 0.05 < 5 % of M; M = 2.2: 0.2 is enough."""
    assert aggregated(CoreFed(offset=2.05), START, *TWO) == [-0.5]
    assert CoreFed(offset=2.05).report(START, TWO)["rule"] == "warmup"
    expected = 0.5 * (1.0 / 1.2 - 2.0 / 0.2)
    assert aggregated(CoreFed(offset=2.2), START, *TWO) == pytest.approx([expected])
    assert CoreFed(offset=2.2).report(START, TWO)["rule"] == "paper"


def test_clamp_bounds_utilities_from_below():
    """M = 1: utilities 0 and -1 count as 0.1."""
    clamped = CoreFed(offset=1.0, guard="clamp")

    assert aggregated(clamped, START, *TWO) == pytest.approx([0.5 * (10.0 - 20.0)])
    assert clamped.report(START, TWO)["utilities"] == [0.0, -1.0]


def test_error_names_the_client_and_what_to_do():
    """A utility of 0 or less would turn descent into ascent."""
    with pytest.raises(
        UtilityNotPositive, match=r"client 1 has the utility 0 \(offset 2 - loss 2\)"
    ):
        aggregated(CoreFed(offset=2.0, guard="error"), START, *TWO)


def test_adaptive_raises_offsets_and_keeps_them():
    """M (1.05, 2.1) at losses (1, 2); later losses of 0.5 leave them, 3 raises one to 3.15."""
    adaptive = CoreFed(offset=1.0, guard="adaptive")
    state = state_at([0.0], {"offsets": {}})

    first = adaptive.aggregate(state, TWO, None)
    later = [update_of(first, 0, [1.0], 0.5), update_of(first, 1, [1.0], 3.0)]
    second = adaptive.aggregate(first, later, None)

    assert first.memory["offsets"] == pytest.approx({0: 1.05, 1: 2.1})
    assert first.weights["weight"].tolist() == pytest.approx([0.5 * (1 / 0.05 - 2 / 0.1)])
    assert second.memory["offsets"] == pytest.approx({0: 1.05, 1: 3.15})
    moved = second.weights["weight"] - first.weights["weight"]
    assert moved.tolist() == pytest.approx([0.5 * (1 / 0.55 + 1 / 0.15)])


def test_raised_offsets_survive_a_merge():
    """The larger of each client's offsets counts, as an asynchronous server mixes states."""
    adaptive = CoreFed(guard="adaptive")
    left = state_at([0.0], {"offsets": {0: 2.0, 1: 5.0}})
    right = state_at([1.0], {"offsets": {1: 4.0, 2: 6.0}})

    merged = adaptive.merge(left, [right], [0.25])

    assert merged.memory["offsets"] == {0: 2.0, 1: 5.0, 2: 6.0}
    assert merged.weights["weight"].tolist() == [0.25]


@pytest.mark.parametrize("weights", ["uniform", "examples"])
def test_one_full_batch_step_is_gradient_ascent_on_the_nash_welfare(weights):
    """theta + (eta / sum w) grad sum_i w_i log(M_i - L_i), from autograd on Eq. 2, three rounds."""
    offsets = [3.0 + 0.1 * client for client in range(8)]
    scenario = small(model="linear", algorithm=corefed(offset=offsets, weights=weights))
    simulation, run = simulated(scenario)
    shards = [(one.inputs.flatten(1), one.targets) for one in simulation.partitioned.clients]
    sizes = torch.tensor([float(len(targets)) for _, targets in shards], dtype=torch.float64)
    w = sizes if weights == "examples" else torch.ones_like(sizes)
    start = simulation.network.initial(simulation.streams.seed("model"))
    theta = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    weight, bias = theta.values()

    for _ in range(3):
        losses = torch.stack(
            [F.cross_entropy(F.linear(inputs, weight, bias), y) for inputs, y in shards]
        )
        welfare = (w * torch.log(torch.tensor(offsets, dtype=torch.float64) - losses)).sum()
        for tensor, gradient in zip(
            theta.values(), torch.autograd.grad(welfare, list(theta.values())), strict=True
        ):
            tensor.data += 0.1 / w.sum() * gradient

    expected = {name: tensor.detach() for name, tensor in theta.items()}
    assert largest_difference(final_weights(run), start) > 1e-3
    assert largest_difference(final_weights(run), expected) < 1e-14


def test_one_edge_round_by_data_size_is_weighted_corefed():
    """Edge servers weigh by data size within, the cloud between them: the flat weighted rule."""
    by_size = corefed(weights="examples")

    flat = simulated(small(algorithm=by_size))[1]
    tiers = simulated(
        small(algorithm=by_size, protocol={"name": "hierarchical", "edge_rounds": 1})
    )[1]

    assert largest_difference(final_weights(flat), final_weights(tiers)) < 1e-12


def test_the_trainers_agree():
    """Batched and sequential training end within 1e-9 of each other in float64."""
    scenario = small(algorithm=corefed(local={"epochs": 2, "batch_size": 16, "momentum": 0.9}))

    batched, sequential = (
        simulated(scenario, trainer=trainer)[1] for trainer in ("batched", "sequential")
    )

    assert largest_difference(final_weights(batched), final_weights(sequential)) < 1e-9


def test_the_log_has_the_utilities_of_each_round_and_the_loss_is_paid_for(tmp_path):
    """M - L at the model sent, its minimum as the value; 4 bytes more go up than down."""
    run = simfl.run(small(algorithm=corefed(), evaluate={"clients": True}), tmp_path / "run")

    reports, own = run.details("report"), run.evaluations.query("on == 'own'")
    up, down = (run.details(kind)["bytes"].unique().tolist() for kind in ("upload", "download"))
    for row in reports.itertuples():
        if row.version > 1:
            losses = own.query(f"version == {row.version - 1}").set_index("client")["loss"]
            assert row.utilities == pytest.approx(3.0 - losses.loc[row.clients].to_numpy())
        assert row.value == min(row.utilities)
    assert reports["version"].tolist() == [1, 2, 3]
    assert up == [down[0] + 4]


def test_measuring_the_loss_costs_a_forward_pass():
    """One epoch and a look at the whole data are 4/3 of FedAvg's cycles with one epoch."""
    cycles = []
    for algorithm in ({"name": "fedavg", "local": FULL_BATCH}, corefed()):
        _, run = simulated(small(algorithm=algorithm))
        column = run.accounts.kinds.index("compute")
        cycles.append(run.accounts.seconds[:8, column])

    np.testing.assert_allclose(cycles[1], 4 / 3 * cycles[0], rtol=1e-12)


def test_a_run_with_remembered_offsets_resumes_exactly(tmp_path):
    """Interrupted, the offsets come back with the snapshot; nothing is trained twice."""
    scenario = small(
        dtype="float32",
        algorithm=corefed(guard="adaptive", offset=1.0, local={"learning_rate": 0.01}),
        protocol={"name": "buffered", "buffer": 3, "concurrency": 5},
        stop={"versions": 8},
    )
    whole = simfl.run(scenario, tmp_path / "whole")
    cut_off(scenario, tmp_path / "cut", 4, snapshot_seconds=0.0)

    resumed = simfl.run(scenario, tmp_path / "cut", Options(), resume=True)

    assert_same(resumed, whole)
    assert resumed.manifest["counts"]["jobs_trained"] < whole.manifest["counts"]["jobs_trained"]


def test_a_list_of_the_wrong_length_is_refused_at_its_key():
    """Eight clients need eight offsets."""
    with pytest.raises(ScenarioError, match=r"offset.*found 2 .*one for each of the 8"):
        simulated(small(algorithm=corefed(offset=[3.0, 4.0])))


def test_an_untrained_network_below_the_offset_warms_up(tmp_path):
    """M = 1 < ln 10, the paper's own setting for MNIST: the plain mean first, then CoreFed."""
    local = {"epochs": 2, "batch_size": 16, "learning_rate": 0.1}
    scenario = small(algorithm=corefed(offset=1.0, local=local), stop={"versions": 12})

    reports = simfl.run(scenario, tmp_path / "run").details("report")

    rules = reports["rule"].tolist()
    assert rules[0] == "warmup" and rules[-1] == "paper"
    assert math.isclose(reports["value"].iloc[0], 1 - math.log(10), abs_tol=0.3)
