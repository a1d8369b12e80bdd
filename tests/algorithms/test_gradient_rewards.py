"""CFFL, CGSV and FedAVE: what is aggregated, who is rewarded with how much, what tiers keep."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from simfl.algorithms.base import ClientFacts, ServerState
from simfl.algorithms.cffl import Cffl
from simfl.algorithms.cgsv import Cgsv
from simfl.algorithms.fedave import FedAve
from simfl.algorithms.gradient_rewards import (
    WHOLE,
    GradientRewards,
    largest,
    layerwise_largest,
    moved_reputation,
    normalised_to,
)
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Memory, Update
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.protocols.publication import Diverged
from tests.small import simulated, small

CONTRIBUTIONS = (0.2, 0.4, 0.8)
SIZES = (100, 200, 400)
HELD = {0: 0.5, 1: 0.4, 2: 0.1}


def linear() -> Network:
    """Four weights in one tensor."""
    build = lambda: nn.Linear(2, 2, bias=False)  # noqa: E731
    return Network(build, (2,), Objective("classification"), torch.float64)


def evaluator_of(network: Network) -> Evaluator:
    """Validation data on the axes, and as many for each client."""
    inputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.2], [0.3, 1.0]])
    clients = {
        f"client-{i}": Examples(inputs + 0.1 * i, torch.tensor([0, 1, 1, 0])) for i in range(3)
    }
    return Evaluator(
        network, {"validation": Examples(inputs, torch.tensor([0, 1, 0, 1])), **clients}
    )


def started(algorithm: GradientRewards) -> tuple[Network, Evaluator, ServerState]:
    """The state before training of three clients."""
    network = linear()
    evaluator = evaluator_of(network)
    facts = {
        i: ClientFacts(size, (size, 1) if i else (size, 0), c)
        for i, (size, c) in enumerate(zip(SIZES, CONTRIBUTIONS, strict=True))
    }
    return network, evaluator, algorithm.start(network, facts, evaluator, 1)


def updates_of(
    algorithm: GradientRewards, network: Network, state: ServerState, *changes: list[float]
) -> list[Update]:
    """What clients send back whose models moved so."""
    updates = []
    for client, change in enumerate(changes):
        brief = algorithm.brief(network, state, client, -1)
        moved = brief.start["weight"] + torch.tensor(change, dtype=torch.float64).view(2, 2)
        updates.append(Update(client, brief, {"weight": moved}, Memory(), SIZES[client], 0))
    return updates


def step_of(before: ServerState, after: ServerState) -> list[float]:
    """What the server's weights moved by."""
    return (after.weights["weight"] - before.weights["weight"]).flatten().tolist()


def reward_of(state: ServerState, after: ServerState, client: int) -> list[float]:
    """What a client's model moved by."""
    change = after.memory["models"][client]["weight"] - state.memory["models"][client]["weight"]
    return change.flatten().tolist()


E1, E2, E3 = [1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0]


# --- what they share ---


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.integers(0, 12))
def test_the_largest_values_keep_their_places(values: list[float], count: int) -> None:
    """No omitted value is larger than a kept one; keeping more includes what fewer keep."""
    tensor = torch.tensor(values)

    kept, more = largest(tensor, count), largest(tensor, count + 1)

    assert torch.equal(kept[kept != 0], tensor[kept != 0])
    assert int((kept != 0).sum()) <= count
    left_out = tensor[kept == 0].abs()
    if bool((kept != 0).any()) and len(left_out):
        assert float(left_out.max()) <= float(kept[kept != 0].abs().min())
    assert torch.equal(more[kept != 0], kept[kept != 0])


def test_layerwise_rewards_by_hand() -> None:
    """ceil(q size) values of each tensor, at most size - 1; ties go to the first."""
    step = {"a": torch.tensor([1.0, -3.0, 2.0, 2.0]), "b": torch.tensor([5.0])}

    half, whole = layerwise_largest(step, 0.3), layerwise_largest(step, 1.0)

    assert half.change["a"].tolist() == [0.0, -3.0, 2.0, 0.0]
    assert half.change["b"].tolist() == [0.0]
    assert half.values == 2
    assert whole.change["a"].tolist() == [0.0, -3.0, 2.0, 2.0]
    assert whole.values == 3


def test_reputations_are_kept_floored_and_sum_to_one() -> None:
    """0.9 of the old and 0.1 of the new value; none is below 1e-3; absent clients keep theirs."""
    found = moved_reputation({0: 0.5, 1: 0.5}, {0: 1.0, 2: -1.0}, 0.9, begin=0.0)

    raw = {0: 0.55, 1: 0.5, 2: 1e-3}
    assert found == pytest.approx({i: one / sum(raw.values()) for i, one in raw.items()})
    assert moved_reputation({}, {0: 3.0, 1: 1.0}, 0.95, begin=None) == pytest.approx(
        {0: 0.75, 1: 0.25}
    )


def test_updates_are_scaled_to_one_length() -> None:
    """Over all tensors together."""
    found = normalised_to({"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, 0.5)

    assert found["a"].item() == pytest.approx(0.3)
    assert found["b"].item() == pytest.approx(0.4)


@pytest.mark.parametrize("algorithm", [Cgsv(), FedAve(), Cffl()])
def test_the_first_download_is_the_model_and_later_ones_the_reward(
    algorithm: GradientRewards,
) -> None:
    """Whole models weigh 4 P; rewards what their values and positions take."""
    network, evaluator, state = started(algorithm)
    updates = updates_of(algorithm, network, state, E1, E2, E3)

    after = algorithm.aggregate(state, updates, evaluator)
    later = [algorithm.brief(network, after, i, 0) for i in range(3)]

    assert [update.brief.price.down_bytes for update in updates] == [16, 16, 16]
    for client, brief in enumerate(later):
        values = after.memory["owed"][client]
        assert brief.price.down_bytes == 4 * values + math.ceil(2 * values / 8)
        assert brief.start is after.memory["models"][client]
    dense = [replace(algorithm, positions="dense").brief(network, after, i, 0) for i in range(3)]
    assert [brief.price.down_bytes for brief in dense] == [16, 16, 16]


@pytest.mark.parametrize("algorithm", [Cgsv(), FedAve(), Cffl()])
def test_a_reward_that_was_received_is_not_downloaded_again(algorithm: GradientRewards) -> None:
    """A client whose update was lost keeps its model and its last reward; only a new one is
    sent.
    """
    network, evaluator, state = started(algorithm)
    first = algorithm.brief(network, state, 0, 0)
    assert first.price.down_bytes == 0
    assert first.price.up_bytes == algorithm.brief(network, state, 0, -1).price.up_bytes

    updates = updates_of(algorithm, network, state, E1, E2, E3)[:2]
    after = replace(algorithm.aggregate(state, updates, evaluator), version=1)
    assert [algorithm.brief(network, after, i, 0).price.down_bytes > 0 for i in range(3)] == [
        after.memory["owed"][0] > 0,
        after.memory["owed"][1] > 0,
        False,
    ]
    assert [algorithm.brief(network, after, i, 1).price.down_bytes for i in range(3)] == [0, 0, 0]

    moved = algorithm.adopt(after, after)
    assert algorithm.brief(network, moved, 0, 1).price.down_bytes == 16


@pytest.mark.parametrize("algorithm", [Cgsv(), FedAve(), Cffl()])
def test_tiers_keep_records_and_move_models(algorithm: GradientRewards) -> None:
    """The cloud holds every tier's clients; an edge server's models move with its weights."""
    network, evaluator, state = started(algorithm)
    updates = updates_of(algorithm, network, state, E1, E2, E3)
    edge = algorithm.aggregate(state, updates, evaluator)
    other = algorithm.start(network, {7: ClientFacts(50, (50, 0), 0.6)}, evaluator, 2)

    cloud = algorithm.merge(state, [edge, other], [0.5, 0.5])
    again = algorithm.adopt(edge, cloud)

    assert set(cloud.memory["models"]) == {0, 1, 2, 7}
    assert cloud.memory["models"][1] is edge.memory["models"][1]
    assert set(again.memory["models"]) == {0, 1, 2}
    assert set(again.memory["known"]) == {0, 1, 2, 7}
    assert again.memory["reputation"] == edge.memory["reputation"]
    assert set(again.memory["owed"].values()) == {WHOLE}
    moved = cloud.weights["weight"] - edge.weights["weight"]
    assert bool(moved.abs().sum() > 0)
    for client in range(3):
        before, now = (one.memory["models"][client]["weight"] for one in (edge, again))
        torch.testing.assert_close(now - before, moved)


def test_running_statistics_of_absent_clients_are_those_of_the_tier_above() -> None:
    """Their models moved with every difference of two tiers, until a variance was negative."""
    _, run = simulated(
        small(
            algorithm={
                "name": "cgsv",
                "contributions": {"accuracy": [0.1 * (1 + client) for client in range(8)]},
                "local": {"epochs": 3, "batch_size": 16, "learning_rate": 0.05},
            },
            model={"name": "mlp", "hidden": [12], "batch_norm": True},
            data={"partition": {"name": "shards", "shards_per_client": 1}},
            decisions={"selection": {"name": "random", "count": 2}},
            protocol={"name": "hierarchical", "edge_rounds": 1},
            stop={"versions": 25},
            evaluate={"every": 25},
        )
    )

    assert run.publications.latest is not None
    models = run.publications.latest.value().memory["models"]
    assert all(bool((one["2.running_var"] > 0).all()) for one in models.values())


# --- CGSV ---


def test_cgsv_by_hand() -> None:
    """Orthogonal updates: g by data size at first, cosines, reputations, rewards."""
    algorithm = Cgsv(reward_by="reputation", beta=1.0, normalisation=0.5)
    network, evaluator, state = started(algorithm)

    after = algorithm.aggregate(state, updates_of(algorithm, network, state, E1, E2, E3), evaluator)

    g = [0.5 / 7, 0.5 * 2 / 7, 0.3 * 4 / 7, 0.4 * 4 / 7]
    assert step_of(state, after) == pytest.approx(g, abs=1e-6)
    length = math.sqrt(1 + 4 + 16)
    raw = [0.05 * weight / length for weight in (1, 2, 4)]
    r = [one / sum(raw) for one in raw]
    assert list(after.memory["reputation"].values()) == pytest.approx(r, abs=1e-6)
    q = [math.tanh(one) / math.tanh(r[2]) for one in r]
    assert [math.ceil(4 * one) for one in q] == [2, 3, 4]
    assert [after.memory["owed"][i] for i in range(3)] == [2, 3, 3]
    assert reward_of(state, after, 0) == pytest.approx([0.0, 0.0, g[2], g[3]], abs=1e-6)
    assert reward_of(state, after, 2) == pytest.approx([0.0, g[1], g[2], g[3]], abs=1e-6)


def test_cgsv_weighs_by_reputation_from_the_second_round_on() -> None:
    """By each client's share of contributions where those stand in for reputations."""
    algorithm = Cgsv()
    network, evaluator, state = started(algorithm)
    first = algorithm.aggregate(state, updates_of(algorithm, network, state, E1, E2, E3), evaluator)

    second = algorithm.aggregate(
        first, updates_of(algorithm, network, first, E1, E2, E3), evaluator
    )

    shares = [c / sum(CONTRIBUTIONS) for c in CONTRIBUTIONS]
    expected = [0.5 * shares[0], 0.5 * shares[1], 0.3 * shares[2], 0.4 * shares[2]]
    assert step_of(first, second) == pytest.approx(expected, abs=1e-6)


def test_a_cgsv_client_counts_by_its_data_in_its_first_round() -> None:
    """Client 2 comes late: 4 of 7 parts are its own, the two reputations share the others."""
    algorithm = Cgsv(reward_by="reputation")
    network, evaluator, state = started(algorithm)
    first = algorithm.aggregate(state, updates_of(algorithm, network, state, E1, E2), evaluator)
    r = first.memory["reputation"]

    second = algorithm.aggregate(
        first, updates_of(algorithm, network, first, E1, E2, E3), evaluator
    )

    expected = [0.5 * r[0] * 3 / 7, 0.5 * r[1] * 3 / 7, 0.3 * 4 / 7, 0.4 * 4 / 7]
    assert step_of(first, second) == pytest.approx(expected, abs=1e-6)


def test_cgsv_with_a_huge_beta_rewards_everybody_alike() -> None:
    """tanh saturates: all q are 1."""
    algorithm = Cgsv(beta=1e7)
    network, evaluator, state = started(algorithm)

    after = algorithm.aggregate(state, updates_of(algorithm, network, state, E1, E2, E3), evaluator)

    assert set(after.memory["owed"].values()) == {3}
    assert reward_of(state, after, 0) == reward_of(state, after, 2)


def test_contributions_take_the_place_of_reputations() -> None:
    """q follows tanh(beta c_i / sum c), whatever the cosines are."""
    algorithm = Cgsv(beta=1.0)
    network, evaluator, state = started(algorithm)

    after = algorithm.aggregate(state, updates_of(algorithm, network, state, E3, E3, E1), evaluator)

    r = [c / sum(CONTRIBUTIONS) for c in CONTRIBUTIONS]
    q = [math.tanh(one) / math.tanh(r[2]) for one in r]
    expected = [min(math.ceil(4 * one), 3) for one in q]
    assert [after.memory["owed"][i] for i in range(3)] == expected
    assert not Cgsv(reward_by="reputation").needs_contributions
    assert algorithm.needs_contributions


@pytest.mark.parametrize(
    ("contributions", "owed"), [((0.0, 0.0, 0.0), [3, 3, 3]), ((0.0, 0.0, 1.0), [0, 0])]
)
def test_cgsv_among_clients_that_contribute_nothing(
    contributions: tuple[float, ...], owed: list[int]
) -> None:
    """All alike get the same; two such clients by themselves count by their data, and get none."""
    algorithm = Cgsv(beta=1.0)
    network, evaluator, state = started(algorithm)
    known = {
        i: {**one, "contribution": contributions[i]} for i, one in state.memory["known"].items()
    }
    state = replace(state, memory={**state.memory, "known": known, "reputation": {0: 0.5, 1: 0.5}})
    changes = [E1, E2, E3][: len(owed)]

    after = algorithm.aggregate(state, updates_of(algorithm, network, state, *changes), evaluator)

    assert [after.memory["owed"][i] for i in range(len(owed))] == owed
    if len(owed) == 2:
        assert step_of(state, after) == pytest.approx([0.5 / 3, 0.5 * 2 / 3, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("protocol", ["synchronous", {"name": "hierarchical", "edge_rounds": 3}])
def test_updates_without_end_are_divergence(protocol: Any) -> None:
    """Cosines of updates that are not finite reward nobody: the run says that it diverged."""
    scenario = small(
        dtype="float32",
        algorithm={
            "name": "cgsv",
            "reward_by": "reputation",
            "local": {"batch_size": 16, "learning_rate": 1e30},
        },
        protocol=protocol,
        evaluate={"every": 10},
    )

    with pytest.raises(Diverged, match="not finite"):
        simulated(scenario)


# --- FedAVE ---


def test_fedave_begins_with_all_of_g_and_then_rewards_by_fit() -> None:
    """Round 0: everybody gets g. Later: layerwise, by tanh of the reputation times D."""
    algorithm = FedAve(reward_by="reputation", beta=2.0, loss_batch=2)
    network, evaluator, state = started(algorithm)
    updates = updates_of(algorithm, network, state, E1, E2, E3)

    first = algorithm.aggregate(state, updates, evaluator)
    second = algorithm.aggregate(
        first, updates_of(algorithm, network, first, E1, E2, E3), evaluator
    )

    g = [0.5 / 7, 0.5 * 2 / 7, 0.3 * 4 / 7, 0.4 * 4 / 7]
    assert step_of(state, first) == pytest.approx(g, abs=1e-6)
    for client in range(3):
        assert reward_of(state, first, client) == pytest.approx(g, abs=1e-6)
    assert min(second.memory["owed"].values()) < 4
    assert sum(second.memory["reputation"].values()) == pytest.approx(1.0)


def test_fedave_scores_accuracy_by_the_fit_of_losses() -> None:
    """s = accuracy D^2 with D = 1 / KL of the lists of batch losses, by hand."""
    algorithm = FedAve(reward_by="reputation", loss_batch=2)
    network, evaluator, state = started(algorithm)
    updates = updates_of(algorithm, network, state, E1, E2, E3)

    after = algorithm.aggregate(state, updates, evaluator)

    score = []
    for update in updates:
        model = {"weight": update.payload["weight"]}
        lists = []
        for on in (f"client-{update.client}", "validation"):
            losses = evaluator.batch_losses(model, 2, on)
            assert losses.mean().item() == pytest.approx(evaluator.loss([model], on))
            lists.append(losses / losses.sum())
        divergence = float((lists[0] * (lists[0] / lists[1]).log()).sum())
        score.append([evaluator.accuracy([model], "validation"), 1 / divergence])
    best = max(fit for _, fit in score)
    raw = [max(accuracy * (fit / best) ** 2, 1e-3) for accuracy, fit in score]
    expected = [one / sum(raw) for one in raw]
    assert list(after.memory["reputation"].values()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("own", "validation"),
    [([0.0, 1.0], [1.0, 2.0]), ([1.0, 1.0], [0.0, 1.0]), ([0.0, 0.0], [1.0, 2.0])],
)
def test_fedave_fits_batches_that_are_known_by_heart(
    own: list[float], validation: list[float]
) -> None:
    """A loss of 0 has no logarithm, and losses that are all 0 no shares."""

    class Losses(Evaluator):
        def batch_losses(self, member: Any, batch_size: int, on: str = "validation") -> Tensor:
            return torch.tensor(validation if on == "validation" else own, dtype=torch.float64)

    algorithm = FedAve(reward_by="reputation")
    network, evaluator, state = started(algorithm)
    known = Losses(network, {"validation": evaluator._set("validation")})
    for _ in range(2):
        updates = updates_of(algorithm, network, state, E1, E2, E3)
        state = algorithm.aggregate(state, updates, known)

    # All three have the same losses, and so one fit: what they are owed goes by accuracy alone.
    assert all(one > 0 for one in state.memory["owed"].values())
    assert sum(state.memory["reputation"].values()) == pytest.approx(1.0)


def test_fedave_pays_for_its_lists_of_losses() -> None:
    """One more forward pass over the client's data, a third of a training pass."""
    algorithm = FedAve()
    network, _, state = started(algorithm)

    assert algorithm.brief(network, state, 0, -1).price.work == pytest.approx(4 / 3)
    assert algorithm.validation_passes(network, 0, 3) == 3.0


# --- CFFL ---


def test_cffl_by_hand() -> None:
    """Clipped changes, the largest half uploaded, A by data size, downloads by share and size."""
    algorithm = Cffl(upload_share=0.5, clip=1.5)
    network, evaluator, state = started(algorithm)
    changes = [[1.0, 0.5, 0.2, 0.1], [0.0, 2.0, 1.0, 0.5], [-0.1, 0.0, 3.0, -4.0]]

    after = algorithm.aggregate(state, updates_of(algorithm, network, state, *changes), evaluator)

    # uploads: [1, .5, 0, 0], [0, 1.5, 1, 0], [0, 0, 1.5, -1.5], weighted 1/7, 2/7, 4/7
    A = [1 / 7, 3.5 / 7, 8 / 7, -6 / 7]
    assert step_of(state, after) == pytest.approx(A)
    # r / max r is 1/4, 1/2, 1; n / max n too: floor(4/16), floor(4/4), floor(4)
    assert [after.memory["owed"][i] for i in range(3)] == [0, 1, 4]
    first = [1.0 - 0.25, 0.5 - 0.125, 0.2, 0.1]
    assert reward_of(state, after, 0) == pytest.approx(first)
    second = [0.0, 1.5 - 0.75, 1.0 - 0.5 + A[2], 0.5]
    assert reward_of(state, after, 1) == pytest.approx(second)
    third = [-0.1 + A[0], A[1], 1.5 - 1.5 + A[2], -1.5 + 1.5 + A[3]]
    assert reward_of(state, after, 2) == pytest.approx(third)


def test_cffl_with_equal_clients_that_upload_everything_is_one_model() -> None:
    """theta_u = 1, equal reputations and sizes, sums: everybody downloads everything."""
    algorithm = Cffl(upload_share=1.0, clip=100.0, weights="sum")
    network, evaluator, _ = started(algorithm)
    facts = {i: ClientFacts(100, (50, 50), 0.5) for i in range(3)}
    state = algorithm.start(network, facts, evaluator, 1)

    after = algorithm.aggregate(state, updates_of(algorithm, network, state, E1, E2, E3), evaluator)

    assert step_of(state, after) == pytest.approx([1.0, 2.0, 3.0, 4.0])
    for client in range(3):
        assert reward_of(state, after, client) == pytest.approx([1.0, 2.0, 3.0, 4.0])


def test_cffl_reputations_by_hand_and_who_leaves() -> None:
    """0.8 of 1/3 and 0.2 of the share of accuracies, through sinh; below the threshold one leaves,
    sends nothing any more, and keeps its model."""
    algorithm = Cffl(
        reward_by="reputation", upload_share=1.0, clip=100.0, weights="sum", threshold=0.9
    )
    network, evaluator, state = started(algorithm)
    state = replace(state, weights={"weight": torch.zeros(2, 2, dtype=torch.float64)})
    zero = {i: dict(state.weights) for i in range(3)}
    state = replace(state, memory={**state.memory, "models": zero})
    right, wrong, half = [1.0, 0, 0, 1.0], [-1.0, 0, 0, -1.0], [1.0, 1.0, 0, 0]

    after = algorithm.aggregate(
        state, updates_of(algorithm, network, state, right, wrong, half), evaluator
    )

    v = [1.0, 0.0, 0.5]
    r = [math.sinh(5 * (0.8 / 3 + 0.2 * one / sum(v))) for one in v]
    r = [one / sum(r) for one in r]
    assert r[1] < 0.3 < r[2]
    expected = {0: r[0] / (r[0] + r[2]), 1: 0.0, 2: r[2] / (r[0] + r[2])}
    assert after.memory["reputation"] == pytest.approx(expected)
    assert step_of(state, after) == pytest.approx([2.0, 1.0, 0.0, 1.0])
    assert reward_of(state, after, 1) == [0.0] * 4
    price = algorithm.brief(network, after, 1, 0).price
    assert (price.down_bytes, price.up_bytes, price.work) == (0, 0, 0.0)
    again = algorithm.aggregate(
        after, updates_of(algorithm, network, after, right, wrong, half), evaluator
    )
    assert again.memory["reputation"][1] == 0.0
    assert reward_of(after, again, 1) == [0.0] * 4


@pytest.mark.parametrize(
    ("weights", "expected"),
    [("classes", [0.5, 2.0, 3.0, 4.0]), ("sum", [1.0, 2.0, 3.0, 4.0])],
)
def test_cffl_weights(weights: Any, expected: list[float]) -> None:
    """Half of the classes counts half; a sum counts everybody whole."""
    algorithm = Cffl(upload_share=1.0, clip=100.0, weights=weights)
    network, evaluator, state = started(algorithm)

    after = algorithm.aggregate(state, updates_of(algorithm, network, state, E1, E2, E3), evaluator)

    assert step_of(state, after) == pytest.approx(expected)


def test_cffl_punishes_ever_harder_without_end() -> None:
    """alpha doubles every `rounds`: even exponents whose sinh overflows can be compared."""
    algorithm = Cffl(reward_by="reputation", rounds=1, threshold=0.0)
    network, evaluator, state = started(algorithm)
    shares = []
    for version in (100, 10_000):
        late = replace(state, version=version, memory={**state.memory, "reputation": HELD})
        after = algorithm.aggregate(late, updates_of(algorithm, network, late, E1, E1), evaluator)
        shares.append(after.memory["reputation"])

    assert shares[0][0] > shares[0][1] > 0
    assert shares[1][0] == pytest.approx(1.0) and sum(shares[1].values()) == pytest.approx(1.0)


def test_cffl_uploads_what_it_pays_for() -> None:
    """A tenth of 30 values is 3, though 0.1 * 30 is more in floating point."""
    algorithm = Cffl(upload_share=0.1, positions="index32")
    network = Network(
        lambda: nn.Linear(6, 5, bias=False), (6,), Objective("classification"), torch.float64
    )
    state = algorithm.start(network, {0: ClientFacts(1)}, evaluator_of(network), 1)

    assert algorithm.brief(network, state, 0, -1).price.up_bytes == 3 * 8


def test_with_contributions_nobody_leaves_cffls_clients() -> None:
    """One whose contribution is 0 is aggregated, and rewarded with none of the others' values."""
    algorithm = Cffl(weights="sum")
    known = {
        i: {"contribution": one, "examples": 10.0, "classes": 1.0}
        for i, one in enumerate((0.0, 0.5, 0.5))
    }
    memory = {"models": {i: {} for i in range(3)}, "reputation": {}, "known": known}
    state = ServerState({"w": torch.zeros(4)}, memory=memory)
    updates: list[Any] = [SimpleNamespace(client=i) for i in range(3)]
    changes = [{"w": torch.full((4,), 0.002 * (i + 1))} for i in range(3)]

    result = algorithm._round(state, updates, changes, None)  # type: ignore[arg-type]

    assert list(result.rewards) == [0, 1, 2]
    assert result.rewards[0].values == 0 < result.rewards[1].values


@pytest.mark.parametrize("algorithm", [Cgsv, FedAve, Cffl])
def test_keys_of_reputations_that_decide_nothing_are_idle(
    algorithm: type[GradientRewards],
) -> None:
    """By default rewards follow contributions."""
    keys = {"memory_share"} if algorithm is not Cffl else {"punishment", "rounds", "threshold"}

    assert keys <= set(algorithm().idle_keys)
    assert not keys & set(algorithm(reward_by="reputation").idle_keys)
