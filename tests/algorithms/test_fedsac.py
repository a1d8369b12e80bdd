"""FedSAC: importance, reputations, nested submodels, dynamic aggregation."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from simfl.algorithms.base import ClientFacts, ServerState
from simfl.algorithms.fedsac import (
    UNITS,
    FedSac,
    cheapest_units,
    filled,
    holders_mean,
    normalised,
    raw_importance,
    reputations,
)
from simfl.algorithms.positions import UnitPositions, message_bytes
from simfl.learning.datasets.base import Examples
from simfl.learning.evaluate import Evaluator
from simfl.learning.job import Brief, LocalTraining, Memory, Price, Recipe, Update
from simfl.learning.models.mlp import Mlp
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from tests.learning.training import masks_of

PERCENT = torch.tensor([5.0, 10.0, 15.0, 30.0, 40.0], dtype=torch.float64)
CONTRIBUTIONS = (0.3, 0.35, 0.38, 0.41)


def kept_per_layer(network: Network, kept: Tensor) -> list[int]:
    """The number of kept units in each hidden layer."""
    return [int(kept[layer.place].sum()) for layer in network.hidden_units.layers]


def perceptron(seed: int = 1) -> tuple[Network, Evaluator]:
    """A network of 6 and 5 hidden units, and validation data for it."""
    network = Network(
        lambda: Mlp((6, 5)).build((4,), 3), (4,), Objective("classification"), torch.float64
    )
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(50, 4, generator=generator)
    targets = torch.randint(0, 3, (50,), generator=generator)
    return network, Evaluator(network, {"validation": Examples(inputs, targets)})


def started(algorithm: FedSac, contributions: Any = CONTRIBUTIONS) -> tuple[Any, ...]:
    """Network, evaluator and the state before training."""
    network, evaluator = perceptron()
    facts = {i: ClientFacts(10, (), c) for i, c in enumerate(contributions)}
    return network, evaluator, algorithm.start(network, facts, evaluator, 7)


def returned(brief: Brief, client: int, change: float, examples: int = 10) -> Update:
    """What a client sends back whose kept values all moved by `change`."""
    payload = {
        n: torch.where(t != 0, t + change, t) if t.is_floating_point() else t
        for n, t in brief.start.items()
    }
    return Update(client, brief, payload, Memory(), examples, 0)


# --- (3), (4): importance ---


def test_importance_is_the_loss_increase_without_each_unit() -> None:
    """A dead unit has none; one whose removal helps has a negative one; the definition by hand."""
    network = Network(
        lambda: nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 2)),
        (1,),
        Objective("classification"),
        torch.float64,
    )
    evaluator = Evaluator(network, {"validation": Examples(torch.ones(1, 1), torch.tensor([0]))})
    weights = {
        "0.weight": torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.float64),
        "0.bias": torch.zeros(3, dtype=torch.float64),
        "2.weight": torch.tensor([[2.0, 5.0, -1.0], [0.0, 5.0, 0.0]], dtype=torch.float64),
        "2.bias": torch.zeros(2, dtype=torch.float64),
    }

    found = raw_importance(weights, evaluator)

    def loss(margin: float) -> float:
        return math.log(1 + math.exp(-margin))

    assert found.tolist() == pytest.approx([loss(-1) - loss(1), 0.0, loss(2) - loss(1)], abs=1e-12)
    assert found[2] < 0
    assert normalised(found).tolist() == [100.0, 0.0, 0.0]


def test_importance_is_percent_of_the_positive_sum() -> None:
    """Negative ones count as 0; without a positive one all units are alike."""
    assert normalised(torch.tensor([1.0, -5.0, 3.0])).tolist() == [25.0, 0.0, 75.0]
    assert normalised(torch.tensor([0.0, -5.0, 0.0, -1.0])).tolist() == [25.0] * 4


# --- (5), (6): reputations ---


@pytest.mark.parametrize(
    ("beta", "expected"),
    [(10.0, [33.287, 54.881, 74.082, 100.0]), (5.0, [57.695, 74.082, 86.071, 100.0])],
)
def test_reputations_of_the_card(beta: float, expected: list[float]) -> None:
    """100 exp(-beta (best - c)), the best exactly 100."""
    found = reputations(dict(enumerate(CONTRIBUTIONS)), beta)

    assert list(found.values()) == pytest.approx(expected, abs=5e-4)
    assert found[3] == 100.0


# --- (7), (8): submodels ---


@pytest.mark.parametrize(
    ("reputation", "units"), [(30.0, 3), (29.9, 2), (100.0, 5), (4.0, 0), (60.0, 4)]
)
def test_quantity_of_the_card(reputation: float, units: int) -> None:
    """The longest prefix of the least important units within the reputation."""
    kept = cheapest_units(PERCENT, reputation)

    assert kept.tolist() == [True] * units + [False] * (5 - units)


def test_ties_go_by_number_and_unimportant_units_to_everybody() -> None:
    """Units of importance 0 are in every submodel."""
    importance = torch.tensor([25.0, 0.0, 25.0, 25.0, 25.0])

    assert cheapest_units(importance, 1.0).tolist() == [False, True, False, False, False]
    assert cheapest_units(importance, 50.0).tolist() == [True, True, True, False, False]


@given(
    st.lists(st.floats(-1, 5), min_size=2, max_size=20),
    st.lists(st.floats(0, 100), min_size=2, max_size=5),
)
def test_submodels_are_nested(raw: list[float], levels: list[float]) -> None:
    """Whoever has the larger reputation has every unit of the others."""
    importance = normalised(torch.tensor(raw, dtype=torch.float64))
    kept = [cheapest_units(importance, level) for level in sorted(levels)]

    for small, large in pairwise(kept):
        assert bool((large | ~small).all())
    for one, level in zip(kept, sorted(levels), strict=True):
        assert float(importance[one].sum()) <= level + 1e-5


@given(st.floats(0, 200), st.integers(0, 3), st.sampled_from(["importance", "off"]))
def test_briefs_are_nested_with_units_of_every_layer(
    beta: float, min_units: int, allocation: Any
) -> None:
    """`min_units` of each layer breaks no nesting; the best contributor has the whole model."""
    algorithm = FedSac(beta=beta, min_units=min_units, allocation=allocation)
    network, _, state = started(algorithm)

    kept = [algorithm.brief(network, state, i, -1).own[UNITS] for i in range(4)]

    for small, large in pairwise(kept):
        assert bool((large | ~small).all())
    assert bool(kept[3].all())
    for one in kept:
        assert min(kept_per_layer(network, one)) >= min_units


def test_a_brief_is_the_masked_model_with_its_price() -> None:
    """What is left out is exactly zero; bytes and work are those of what is left."""
    algorithm = FedSac(beta=20.0)
    network, _, state = started(algorithm)

    brief = algorithm.brief(network, state, 0, -1)

    k1, k2 = kept_per_layer(network, brief.own[UNITS])
    assert (k1, k2) != (6, 5)
    values = 4 * k1 + k1 + k1 * k2 + k2 + 3 * k2 + 3
    assert brief.price.down_bytes == brief.price.up_bytes == 4 * values
    assert brief.price.work == pytest.approx((4 * k1 + k1 * k2 + 3 * k2) / (24 + 30 + 15))
    masks = masks_of(network, brief.own[UNITS])
    assert sum(int((t != 0).sum()) for t in brief.start.values()) == values
    for name, tensor in brief.start.items():
        assert torch.equal(tensor, torch.where(masks[name], state.weights[name], 0.0))


def test_masks_guard_what_is_not_silent_by_itself() -> None:
    """A silent ReLU unit needs no mask; kept optimizers and outgoing columns do."""
    network, _, state = started(FedSac())
    kept_adam = LocalTraining(optimizer="adam", keep_optimizer=True)

    plain = FedSac().brief(network, state, 0, -1).own
    outgoing = FedSac(mask="incoming").brief(network, state, 0, -1).own
    adam = FedSac(local=kept_adam).brief(network, state, 0, -1).own

    assert set(plain) == {UNITS}
    assert set(outgoing) == set(adam) == {UNITS, *(f"mask/{n}" for n in network.parameter_names)}
    assert bool(outgoing["mask/5.weight"].all())
    assert not bool(adam["mask/5.weight"].all())


def test_without_allocation_the_order_is_random_but_the_reputations_are_not() -> None:
    """Equal importance: 11 units of 100/11 percent, as many as the reputation pays."""
    algorithm = FedSac(beta=10.0, allocation="off", min_units=0)
    network, evaluator, state = started(algorithm)

    kept = algorithm.brief(network, state, 0, -1).own[UNITS]
    other = algorithm.start(network, {0: ClientFacts(1, (), 0.5)}, evaluator, 8)

    assert int(kept.sum()) == math.floor(33.287 / (100 / 11))
    assert kept.tolist() != sorted(kept.tolist(), reverse=True)
    assert not torch.equal(state.memory["order"], other.memory["order"])


# --- (9): aggregation ---


def vector(*values: float) -> dict[str, Tensor]:
    """One tensor."""
    return {"w": torch.tensor(values, dtype=torch.float64)}


def mask(*values: bool) -> dict[str, Tensor]:
    """Its mask."""
    return {"w": torch.tensor(values)}


def test_dynamic_aggregation_of_the_card() -> None:
    """Held by both: the mean 3; by one: its 2; by nobody: as before."""
    found = holders_mean(
        vector(9.0, 9.0, 9.0),
        [vector(2.0, 2.0, 0.0), vector(4.0, 0.0, 0.0)],
        [mask(True, True, False), mask(True, False, False)],
        [1.0, 1.0],
    )

    assert found["w"].tolist() == [3.0, 2.0, 9.0]


@pytest.mark.parametrize(
    ("aggregation", "lacked", "held"),
    [("dynamic", 4.0, 3.0), ("by_size", 4.0, 2.5), ("kept", 3.0, 2.5), ("off", 1.0, 2.5)],
)
def test_what_a_submodel_lacks_counts_by_the_reading(
    aggregation: str, lacked: float, held: float
) -> None:
    """30 examples lack what 10 hold: the holder's 4, or with theta_g = 8/3 or 0 for the others."""
    algorithm = FedSac(
        aggregation=aggregation,
        beta=1.0,
        min_units=0,
    )
    network, evaluator, state = started(algorithm, (0.1, 0.9))
    state = replace(
        state, weights={n: torch.full_like(t, 8.0 / 3.0) for n, t in state.weights.items()}
    )
    updates = [
        Update(
            client,
            brief := algorithm.brief(network, state, client, -1),
            {n: torch.where(t != 0, value, 0.0) for n, t in brief.start.items()},
            Memory(),
            examples,
            0,
        )
        for client, value, examples in ((0, 2.0, 30), (1, 4.0, 10))
    ]

    after = algorithm.aggregate(state, updates, evaluator).weights["1.weight"]

    lacking = ~masks_of(network, updates[0].brief.own[UNITS])["1.weight"]
    assert lacking.any()
    assert not lacking.all()
    assert after[lacking].tolist() == pytest.approx([lacked] * int(lacking.sum()))
    assert after[~lacking].tolist() == pytest.approx([held] * int((~lacking).sum()))


def test_aggregation_off_weighs_by_data_size() -> None:
    """Full models of 30 and 10 examples count 3 to 1; with the module on they count alike."""
    for aggregation, expected in (("off", 0.25), ("dynamic", 0.5)):
        algorithm = FedSac(beta=0.0, aggregation=aggregation)
        network, evaluator, state = started(algorithm, (0.5, 0.5))
        briefs = [algorithm.brief(network, state, i, -1) for i in range(2)]
        updates = [returned(briefs[0], 0, 0.0, 30), returned(briefs[1], 1, 1.0, 10)]

        after = algorithm.aggregate(state, updates, evaluator)

        moved = after.weights["1.bias"] - state.weights["1.bias"]
        assert moved.tolist() == pytest.approx([expected] * 6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_aggregation_stays_within_what_its_holders_sent(seed: int, clients: int) -> None:
    """Each value lies between its holders' extremes, whatever others sent in its place."""
    generator = torch.Generator().manual_seed(seed)
    payloads = [{"w": torch.randn(7, generator=generator)} for _ in range(clients)]
    masks = [{"w": torch.rand(7, generator=generator) < 0.6} for _ in range(clients)]
    before = {"w": torch.randn(7, generator=generator)}

    found = holders_mean(before, payloads, masks, [1.0] * clients)["w"]
    noisy = [
        {"w": torch.where(m["w"], p["w"], 100.0)} for p, m in zip(payloads, masks, strict=True)
    ]

    assert torch.equal(found, holders_mean(before, noisy, masks, [1.0] * clients)["w"])
    for place in range(7):
        held = [p["w"][place] for p, m in zip(payloads, masks, strict=True) if m["w"][place]]
        if held:
            assert min(held) - 1e-6 <= found[place] <= max(held) + 1e-6
        else:
            assert found[place] == before["w"][place]


def test_with_all_masks_one_it_is_the_plain_mean() -> None:
    """The uniform mean of the payloads, to the last bits."""
    generator = torch.Generator().manual_seed(0)
    payloads = [{"w": torch.randn(5, generator=generator)} for _ in range(3)]
    full = [{"w": torch.ones(5, dtype=torch.bool)}] * 3

    found = holders_mean(payloads[0], payloads, full, [1.0] * 3)["w"]

    mean = torch.stack([payload["w"] for payload in payloads]).mean(0)
    torch.testing.assert_close(found, mean, rtol=0, atol=1e-7)


def test_importances_are_taken_anew_every_so_many_versions_and_at_the_end() -> None:
    """With `importance_every: 2`, version 2 comes with new ones and version 1 does not."""
    algorithm = FedSac(importance_every=2)
    network, evaluator, state = started(algorithm)
    updates = [returned(algorithm.brief(network, state, i, -1), i, 0.3) for i in range(4)]

    first = replace(algorithm.aggregate(state, updates, evaluator), version=1)
    second = algorithm.aggregate(first, updates, evaluator)

    before, after = state.memory["importance"], second.memory["importance"]
    assert torch.equal(first.memory["importance"], before)
    assert not torch.equal(after, before)
    concluded = algorithm.concluded(first, evaluator).memory["importance"]
    assert torch.equal(concluded, raw_importance(first.weights, evaluator))
    assert [algorithm.validation_passes(network, v, 4) > 0 for v in range(4)] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(1, [9, 19, 29]), (4, [2, 4, 7, 9, 12, 14, 17, 19, 22, 24, 27, 29]), (20, list(range(30)))],
)
def test_importances_are_taken_anew_every_10_epochs(epochs: int, expected: list[int]) -> None:
    """Of 30 versions: those at the end of the first epoch after every ten epochs."""
    algorithm = FedSac(importance_unit="epochs", local=LocalTraining(epochs=epochs))
    network, _ = perceptron()

    found = [v for v in range(30) if algorithm.validation_passes(network, v, 4)]

    assert found == expected


def test_a_stale_update_moves_only_what_its_submodel_holds() -> None:
    """Rebased onto newer weights, an update leaves what it lacks to the others."""
    algorithm = FedSac(beta=1000.0)
    network, evaluator, state = started(algorithm, (0.1, 0.9))
    update = returned(algorithm.brief(network, state, 0, -1), 0, 1.0)
    newer = ServerState({n: t + 5 for n, t in state.weights.items()}, 1, state.memory)

    after = algorithm.aggregate(newer, [update.rebased(newer.weights, 0.5)], evaluator)

    masks = masks_of(network, update.brief.own[UNITS])
    for name, tensor in after.weights.items():
        moved = tensor - newer.weights[name]
        expected = torch.where(masks[name], 0.5, 0.0).to(moved)
        torch.testing.assert_close(moved, expected, rtol=0, atol=1e-12)


def test_served_is_the_submodel_that_the_next_brief_would_hold() -> None:
    """No fine-tuning: what the client would download."""
    algorithm = FedSac()
    network, _, state = started(algorithm)

    served = algorithm.served(state, 1, Memory())[0]

    brief = algorithm.brief(network, state, 1, -1)
    assert all(torch.equal(served[name], tensor) for name, tensor in brief.start.items())


def test_after_local_rewards_are_what_clients_sent_last() -> None:
    """Only in the end; clients that sent nothing get submodels."""
    algorithm = FedSac(rewards="after_local")
    network, evaluator, state = started(algorithm)
    updates = [returned(algorithm.brief(network, state, i, -1), i, 0.3) for i in (0, 3)]

    after = algorithm.aggregate(state, updates, evaluator)
    last = algorithm.concluded(after, evaluator)

    for update in updates:
        (served,) = algorithm.served(last, update.client, Memory())
        assert all(torch.equal(served[n], tensor) for n, tensor in update.payload.items())
    for client, of in ((0, after), (1, last)):
        (served,) = algorithm.served(of, client, Memory())
        (submodel,) = FedSac().served(
            replace(of, memory={**of.memory, "rewards": {}}), client, Memory()
        )
        assert all(torch.equal(served[n], tensor) for n, tensor in submodel.items())


def test_tiers_mix_importances_and_keep_all_contributions() -> None:
    """The cloud's are the share-weighted mean; an edge server takes over all of it."""
    algorithm = FedSac()
    network, evaluator, left = started(algorithm)
    facts = {7: ClientFacts(5, (), 0.9)}
    right = algorithm.start(network, facts, evaluator, 9)
    assert not torch.equal(right.memory["importance"], left.memory["importance"])

    merged = algorithm.merge(left, [right], [0.25])
    edge = algorithm.adopt(right, merged)

    mixed = 0.75 * left.memory["importance"] + 0.25 * right.memory["importance"]
    torch.testing.assert_close(merged.memory["importance"], mixed)
    assert set(merged.memory["contributions"]) == {0, 1, 2, 3, 7}
    assert edge.memory == merged.memory
    assert edge.weights is merged.weights


# --- bytes ---


def test_full_models_weigh_what_table_8_says() -> None:
    """4 P bytes for 10 clients, one way: 26.27 and 7.97 MB."""
    for inputs, size, megabytes in ((3072, 2_627_240, "26.27"), (784, 796_840, "7.97")):
        build = partial(Mlp().build, (inputs,), 10)
        network = Network(build, (inputs,), Objective("classification"))
        assert network.size_bytes == size
        assert f"{10 * size / 1e6:.2f}" == megabytes


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ("none", 4 * 300),
        ("units", 4 * 300 + 50),
        ("dense", 4 * 1000),
        ("bitmap", 4 * 300 + 125),
        ("index", 4 * 300 + 375),
        ("index32", 8 * 300),
        ("smallest", 1 + 4 * 300 + 125),
    ],
)
def test_bytes_of_a_message_with_300_of_1000_values(
    positions: UnitPositions, expected: int
) -> None:
    """10 bits number 1000 values; 400 hidden units take 50 bytes."""
    assert message_bytes(1000, 300, positions, units=400) == expected


def test_smallest_is_never_larger_than_dense_and_a_byte() -> None:
    """Nearly everything kept: positions cost more than the zeros; next to nothing: numbers win."""
    assert message_bytes(1000, 1000, "smallest") == 4001
    assert message_bytes(1000, 4, "smallest") == 1 + 16 + 5


def test_hyper_parameters_are_those_of_the_reputation() -> None:
    """beta 0 serves everybody the whole model."""
    algorithm = FedSac(beta=0.0)
    network, _, state = started(algorithm)

    briefs = [algorithm.brief(network, state, i, -1) for i in range(4)]

    assert {brief.price for brief in briefs} == {Price(network.size_bytes, network.size_bytes)}
    assert briefs[0].recipe == Recipe(LocalTraining())
    report = algorithm.report(state, [returned(b, i, 0.0) for i, b in enumerate(briefs)])
    assert report["value"] == 1.0
    assert report["kept_units"] == [[6, 5]] * 4
    assert report["importance"] == state.memory["importance"].tolist()
    assert np.isfinite(report["reputations"]).all()
    assert filled(state.weights, masks_of(network, briefs[0].own[UNITS])).keys()
