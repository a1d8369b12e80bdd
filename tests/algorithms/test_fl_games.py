"""FL Games: the game of scalars step by step, its gradients, its history, and who sends what."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import simfl
from simfl.algorithms.equilibrium import Equilibrium
from simfl.algorithms.fl_games import FLGames
from simfl.learning.datasets.base import Examples
from simfl.learning.job import LocalTraining, Memory
from simfl.learning.models.mlp import Mlp
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.sequential import SequentialTrainer
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.games import Game, clouds
from tests.small import final_weights, largest_difference, simulated, small

ONE_STEP = LocalTraining(steps=1, batch_size=None, learning_rate=0.5)


class Scalar(nn.Module):
    """One weight, zero at first: the prediction for x = 1."""

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.only.weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(rows, 1) -> (rows, 1)."""
        return self.only(inputs)


def scalars(optima: tuple[float, ...], rounds: int, bound: float | None = 5.0, **switches) -> list:
    """The players' weights after each round of a game in which w1 + w2 = a_k is best for player k.

    A gradient step of length 2 on ((w1 + w2)/2 - a_k/2)^2 is the exact best response a_k - w_q.
    """
    shards = [
        Examples(torch.ones(1, 1), torch.tensor([[optimum / 2]], dtype=torch.float64))
        for optimum in optima
    ]
    local = LocalTraining(steps=1, batch_size=None, learning_rate=2.0)
    game = Game(FLGames(local=local, bound=bound, **switches), Scalar, shards, task="regression")
    found = []
    for _ in range(rounds):
        game.round()
        found.append(tuple(game.action(k)["only.weight"].item() for k in range(len(optima))))
    return found


def test_sequential_best_responses_reach_the_equilibrium_of_the_scalar_game():
    """Eleven moves, to where no player can gain inside the box; the ensemble's sum is 1."""
    found = scalars((1.0, 2.0), 12, order="sequential")

    assert found[:11] == [
        (1, 0), (1, 1), (0, 1), (0, 2), (-1, 2), (-1, 3),
        (-2, 3), (-2, 4), (-3, 4), (-3, 5), (-4, 5),
    ]  # fmt: skip
    assert found[11] == found[10]
    for player, optimum in enumerate((1.0, 2.0)):
        other = found[10][1 - player]
        losses = [(move + other - optimum) ** 2 for move in np.linspace(-5, 5, 101)]
        assert (sum(found[10]) - optimum) ** 2 <= min(losses) + 1e-12


def test_parallel_best_responses_take_ten_rounds():
    """Both answer to the round before."""
    assert scalars((1.0, 2.0), 10, order="parallel") == [
        (1, 2), (-1, 1), (0, 3), (-2, 2), (-1, 4), (-3, 3), (-2, 5), (-4, 4), (-3, 5), (-4, 5),
    ]  # fmt: skip


@pytest.mark.parametrize(("order", "rounds"), [("sequential", 5), ("parallel", 4)])
def test_optima_of_opposite_signs_leave_an_ensemble_of_zero(order: str, rounds: int):
    """a = -1, 2: both end at the border of the box, after 5 moves or 4 rounds."""
    found = scalars((-1.0, 2.0), rounds + 1, order=order)

    assert found[rounds - 1] == found[rounds] == (-5, 5)
    assert found[rounds - 2] != (-5, 5)


def test_equal_optima_are_met_by_the_first_move_and_unequal_ones_diverge_without_a_box():
    """a1 = a2: the ensemble is right at once. Otherwise there is no equilibrium to come to."""
    assert {sum(pair) for pair in scalars((3.0, 3.0), 5, order="sequential")} == {3.0}
    away = scalars((1.0, 2.0), 400, bound=None, order="sequential")
    assert max(map(abs, away[-1])) > 150


def mlp() -> nn.Module:
    """Three layers for points of four features and three classes."""
    return nn.Sequential(nn.Linear(4, 6), nn.ELU(), nn.Linear(6, 5), nn.ELU(), nn.Linear(5, 3))


def logits(parameters: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """The same network by hand."""
    for name in ("0", "2"):
        inputs = F.elu(inputs @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"])
    return inputs @ parameters["4.weight"].T + parameters["4.bias"]


def test_a_gradient_is_half_of_that_at_the_logits_and_goes_into_the_own_predictor_only():
    """N = 2: one plain step moves w_1 by rate/2 times the chain rule at the ensemble's logits."""
    shards = clouds((9, 7))
    game = Game(FLGames(local=ONE_STEP), mlp, shards)
    first, second = game.action(0), game.action(1)
    own = {name: one.clone().requires_grad_() for name, one in first.items()}
    outputs = logits(own, shards[0].inputs)
    ensemble = ((outputs + logits(second, shards[0].inputs)) / 2).detach().requires_grad_()
    (at_logits,) = torch.autograd.grad(F.cross_entropy(ensemble, shards[0].targets), ensemble)
    gradients = torch.autograd.grad(outputs, list(own.values()), at_logits / 2)

    (update,) = game.responses([0])

    for name, gradient in zip(own, gradients, strict=True):
        expected = first[name] - 0.5 * gradient
        torch.testing.assert_close(update.payload[name], expected, rtol=0, atol=1e-12)
    state = game.algorithm.aggregate(game.state, [update], game.evaluator)
    assert all(torch.equal(state.weights[f"player-1/{n}"], one) for n, one in second.items())


@pytest.mark.parametrize("norm", ["paper", "normalized", "replace"])
def test_a_smooth_response_answers_to_current_actions_and_to_the_mean_of_the_past(norm: str):
    """Eq. 2 by hand after three rounds of three players, under each reading of its weights."""
    shards = clouds((9, 7, 8))
    game = Game(FLGames(local=ONE_STEP, smooth=True, buffer=2, buffer_norm=norm), mlp, shards)
    past: list[list[dict[str, torch.Tensor]]] = [[], [], []]
    for _ in range(3):
        game.round()
        for player in range(3):
            past[player].append(game.action(player))
    own = {name: one.clone().requires_grad_() for name, one in game.action(1).items()}
    inputs = shards[1].inputs
    total = logits(own, inputs)
    for opponent in (0, 2):
        current = logits(past[opponent][-1], inputs)
        history = (logits(past[opponent][-2], inputs) + current) / 2
        total = total + (history if norm == "replace" else current + history)
    ensemble = total / {"paper": 3, "normalized": 5, "replace": 3}[norm]
    gradients = torch.autograd.grad(
        F.cross_entropy(ensemble, shards[1].targets), list(own.values())
    )

    (update,) = game.responses([1])

    for (name, one), gradient in zip(own.items(), gradients, strict=True):
        expected = one.detach() - 0.5 * gradient
        torch.testing.assert_close(update.payload[name], expected, rtol=0, atol=1e-12)


def test_an_unchanged_history_counts_the_opponent_twice():
    """N = 2, all of the history equal to w^q: the argument is (w_1 + 2 w_2) / 2."""
    algorithm = FLGames(local=ONE_STEP, smooth=True, buffer_norm="paper")
    game = Game(algorithm, mlp, clouds((9, 7)))
    same = game.action(1)
    game.state.memory["history"][1].extend([same] * 5)
    points = clouds((4,))[0].inputs
    own = {name: one[None] for name, one in game.action(0).items()}

    found = game.algorithm.common(game.state).respond(
        own,
        points[None],
        [0],
        lambda models, inputs: (
            logits({name: one[0] for name, one in parameters.items()}, inputs[0])[None]
            for parameters in models
        ),
    )

    expected = (logits(game.action(0), points) + 2 * logits(same, points)) / 2
    torch.testing.assert_close(found[0], expected)


def test_the_buffer_drops_the_oldest_and_keeps_the_newest():
    """J = 5: after seven moves it holds the actions 3 to 7."""
    game = Game(FLGames(local=ONE_STEP, smooth=True, buffer=5), mlp, clouds((9, 7)))
    actions = []
    for _ in range(7):
        game.round()
        actions.append(game.action(0))

    held = game.state.memory["history"][0]

    assert [
        largest_difference(one, other) for one, other in zip(held, actions[2:], strict=True)
    ] == ([0.0] * 5)


@pytest.mark.parametrize("fast", [False, True])
def test_phi_takes_adams_step_along_the_mean_gradient_weighted_by_data(fast: bool):
    """Round 0 of V-FL Games: phi's gradient is that of w_av o phi, without history; Adam, rate."""
    shards = clouds((9, 7))
    local = LocalTraining(steps=1, batch_size=4, learning_rate=0.5)
    algorithm = FLGames(
        local=local, representation="variable", smooth=True, fast=fast, representation_rate=0.01
    )
    game = Game(algorithm, mlp, shards)
    before = {name: game.state.weights[name] for name in ("0.weight", "0.bias")}
    updates = game.responses()
    phi = {name: one.clone().requires_grad_() for name, one in before.items()}
    loss = torch.zeros((), dtype=torch.float64)
    for client, shard in enumerate(shards):
        rows = torch.arange(len(shard))
        if not fast:
            generator = torch.Generator().manual_seed(1000 * client)
            rows = torch.randperm(len(shard), generator=generator)[:4]
        points, targets = shard.inputs[rows], shard.targets[rows]
        mean = sum(logits({**phi, **game.action(player)}, points) for player in (0, 1)) / 2
        loss = loss + len(shard) / 16 * F.cross_entropy(mean, targets)
    loss.backward()
    reference = torch.optim.Adam(list(phi.values()), lr=0.01)
    reference.step()

    state = game.algorithm.aggregate(game.state, updates, game.evaluator)

    for name, one in phi.items():
        torch.testing.assert_close(state.weights[name], one.detach(), rtol=0, atol=1e-12)
    untouched = [name for name in state.weights if name not in phi]
    assert all(torch.equal(state.weights[name], game.state.weights[name]) for name in untouched)


def test_one_player_is_plain_training_in_either_order():
    """N = 1: Adam on the client's own loss, its state kept from round to round."""
    shard = clouds((12,))
    local = LocalTraining(steps=1, batch_size=None, learning_rate=0.05, optimizer="adam")
    games = [
        Game(FLGames(local=local, order=order), mlp, shard) for order in ("sequential", "parallel")
    ]
    own = {name: one.clone().requires_grad_() for name, one in games[0].action(0).items()}
    optimizer = torch.optim.Adam(list(own.values()), lr=0.05)
    for _ in range(4):
        optimizer.zero_grad()
        F.cross_entropy(logits(own, shard[0].inputs), shard[0].targets).backward()
        optimizer.step()
        for game in games:
            game.round()

    alone = {name: one.detach() for name, one in own.items()}
    assert largest_difference(games[0].action(0), games[1].action(0)) == 0.0
    assert largest_difference(games[0].action(0), alone) < 1e-12


def test_a_parallel_round_is_every_players_response_to_the_same_snapshot():
    """All gradients are computed before any update (A13)."""
    shards = clouds((9, 7, 8))
    alone = Game(FLGames(local=ONE_STEP, order="sequential"), mlp, shards)
    together = Game(FLGames(local=ONE_STEP, order="parallel"), mlp, shards)

    single = [alone.responses([player])[0] for player in range(3)]

    for one, other in zip(single, together.responses(), strict=True):
        assert largest_difference(one.payload, other.payload) == 0.0


def test_who_plays():
    """Sequential: in turn; parallel: all; phi, by all, once in N + 1 moves, or in even rounds."""
    clients = [0, 1, 2]
    sequential, parallel = FLGames(order="sequential"), FLGames(order="parallel")
    variable = FLGames(order="sequential", representation="variable").among(3)
    literal = FLGames(order="sequential", representation="variable", representation_every=2)
    beside = FLGames(representation="variable").among(3)

    assert [sequential.players(v, clients) for v in range(4)] == [[0], [1], [2], [0]]
    assert [variable.players(v, clients) for v in range(9)] == [
        clients, [0], [1], [2], clients, [0], [1], [2], clients,
    ]  # fmt: skip
    assert [literal.among(3).players(v, clients) for v in range(7)] == [
        clients, [0], clients, [1], clients, [2], clients,
    ]  # fmt: skip
    assert [beside.moves_representation(v) for v in range(4)] == [True, False] * 2
    assert parallel.players(5, clients) == clients


def test_how_much_data_a_step_of_phi_takes():
    """As many mini-batches as a response, a share of its own, or all data at once."""
    network = Network(mlp, (4,), Objective("classification"))

    def taken(**switches) -> tuple:
        local = LocalTraining(share=0.5, batch_size=4)
        game = FLGames(local=local, representation="variable", **switches).among(2)
        phi, response = game.recipe(network, 0).local, game.recipe(network, 1).local
        assert (response.share, response.epochs) == (0.5, None)
        return phi.share, phi.epochs

    assert taken() == (0.5, None)
    assert taken(representation_share=0.25) == (0.25, None)
    assert taken(fast=True) == (None, 1)


def paper_network(hidden: tuple[int, ...], shape: tuple[int, ...]) -> Network:
    """The paper's perceptron for images of this shape and two classes."""
    model = Mlp(hidden=hidden, activation="elu", initialisation="glorot")
    return Network(lambda: model.build(shape, 2), shape, Objective("classification"))


def test_bytes_are_those_of_the_papers_models():
    """F on MNIST 3,060,728 B; phi 2,447,640 B, V's predictor 1,223,048 B; CIFAR, dSprites."""
    fixed = paper_network((390, 390), (2, 28, 28))
    variable = paper_network((390, 390, 390), (2, 28, 28))
    parallel, v_games = FLGames(order="parallel"), FLGames(representation="variable").among(2)

    assert parallel._sizes(fixed) == (0, 3_060_728)
    assert v_games._sizes(variable) == (2_447_640, 1_223_048)
    assert paper_network((390, 390), (3, 32, 32)).size_bytes == 4 * 1_351_742
    assert paper_network((390, 390), (2, 64, 64)).size_bytes == 4 * 3_348_542
    assert parallel.forwards(fixed, 3, list(range(10)), 10).sum() == 90 * 3_060_728
    assert parallel.forwards(fixed, 3, [1], 2).tolist() == [3_060_728, 0]
    assert v_games.forwards(variable, 3, [0, 1], 2).tolist() == [2_447_640] * 2
    assert v_games.forwards(variable, 2, [0, 1], 2).tolist() == [1_223_048] * 2


def game_scenario(clients: int = 2, **switches):
    """A small run of the game."""
    population = {
        "name": "catalogue",
        "clients": clients,
        "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
    }
    algorithm = {
        "name": "fl_games",
        "local": {"steps": 1, "batch_size": 16, "learning_rate": 0.05, "optimizer": "adam"},
        "equilibrium": {"examples": 30},
        **switches,
    }
    return small(
        population=population,
        model={"name": "mlp", "hidden": [12, 6], "activation": "elu"},
        algorithm=algorithm,
        stop={"versions": 5},
    )


@pytest.mark.parametrize(
    ("order", "clients", "messages"), [("sequential", 2, 2), ("parallel", 2, 4), ("parallel", 3, 9)]
)
def test_a_rounds_bytes_in_the_log(order: str, clients: int, messages: int):
    """Sequential: one up, N-1 down; parallel: N up, N(N-1) down; at the start all to all."""
    simulation, run = simulated(game_scenario(clients, order=order))
    size = simulation.network.size_bytes

    total = [row["bytes"] for row in run.publications.rounds]

    assert total[0] == (clients**2 + messages) * size
    assert np.diff(total).tolist() == [messages * size] * 4


def test_a_sequential_player_waits_for_its_own_copy_alone(tmp_path):
    """Sent to all peers at once, booked to each; the next computes as soon as its copy is there.

    Whoever still receives what was sent before gets it afterwards.
    """
    scenario = game_scenario(3, order="sequential").with_overrides(
        [
            "population.groups=[{device: rpi_4b, link: wifi5_ac, count: 2},"
            " {device: phone_high_sd865, link: lte_2021, count: 1}]",
            "stop.versions=3",
        ]
    )
    run = simfl.run(scenario, tmp_path / "run")
    events = run.events[run.events["round"] == 0]
    copies = events[(events["kind"] == "download") & (events["version"] == 1)]
    aggregated = events[events["kind"] == "cloud_aggregate"]["time_s"].item()
    moves = run.events[run.events["kind"] == "compute"].sort_values("start_s")
    slow = int(run.clients.index[run.clients["link"] == "lte_2021"][0])
    arrival = copies.set_index("client")["time_s"]

    assert moves["client"].tolist() == [0, 1, 2]
    assert sorted(copies["client"]) == [1, 2]
    begun = copies.set_index("client")["start_s"]
    before = run.events.query("kind == 'download' and version == 0").set_index("client")["time_s"]
    assert before[1] < aggregated < before[2]
    assert begun.to_dict() == {1: aggregated, 2: before[2]}
    assert slow == 2 and arrival[2] > arrival[1]
    assert moves["start_s"].tolist()[1] == arrival[1]
    assert all(run.manifest["invariants"].values())


def test_lost_copies_are_sent_again_until_every_peer_has_its_own(tmp_path):
    """No player responds to a move that it has not received; lost messages are booked."""
    loss = "population.message_loss={probability: 0.7, timeout_s: 0.1, attempts_max: 2}"
    scenario = game_scenario(3, order="sequential").with_overrides([loss])

    run = simfl.run(scenario, tmp_path / "run")

    copies = run.events.query("kind == 'download'")
    arrived = copies[copies["bytes"] > 0].groupby("version")["client"].apply(sorted).to_dict()
    moves = [[other for other in range(3) if other != move % 3] for move in range(5)]
    assert arrived == {0: [0, 1, 2]} | dict(enumerate(moves, start=1))
    assert len(copies) > 3 + 5 * 2
    assert run.manifest["traffic"]["bytes_lost"] > 0
    assert all(run.manifest["invariants"].values())


def test_a_response_costs_what_the_ensemble_computes():
    """Forward passes of the own model 3, of every other member 1, phi once; in thirds."""
    three = Game(FLGames(order="parallel", smooth=True, buffer=2), mlp, clouds((9, 7, 8)))
    price = three.algorithm.brief(three.network, three.state, 0, -1).price
    assert price.work == pytest.approx((3 + 2) / 3)
    for _ in range(3):
        three.round()
    price = three.algorithm.brief(three.network, three.state, 0, -1).price
    assert price.work == pytest.approx((3 + 2 * 2) / 3)

    variable = Game(FLGames(representation="variable"), mlp, clouds((9, 7)))
    share = 30 / (30 + 35 + 18)
    price = variable.algorithm.brief(variable.network, variable.state, 0, -1).price
    assert price.work == pytest.approx((3 * share + 2 * 2 * (1 - share)) / 3)
    assert (price.down_bytes, price.up_bytes) == (0, 120)


def test_a_linear_ensemble_is_its_mean_model_and_a_nonlinear_one_is_not():
    """Averaging parameters may stand for averaging logits for linear nets only (A4)."""
    points = clouds((50,))
    for factory, same in ((lambda: nn.Linear(4, 3), True), (mlp, False)):
        game = Game(FLGames(local=ONE_STEP), factory, [*points, *points])
        members = game.algorithm.served(game.state, 0, Memory())
        mean = {name: (members[0][name] + members[1][name]) / 2 for name in members[0]}
        gap = abs(
            game.evaluator.loss(members, "client-0") - game.evaluator.loss([mean], "client-0")
        )
        assert (gap < 1e-9) == same


def test_the_game_ends_below_the_threshold_after_the_warm_start(tmp_path):
    """The reason stands in the manifest; nothing ends it during the warm start, or without one."""
    short = game_scenario(2, equilibrium={"threshold": 1.0, "examples": 30})
    longer = short.with_overrides(["algorithm.equilibrium.warm_start=3"])
    never = short.with_overrides(["algorithm.equilibrium.threshold=0"])

    runs = [
        simfl.run(one, tmp_path / name)
        for name, one in (("short", short), ("longer", longer), ("never", never))
    ]

    assert [run.rounds["version"].iloc[-1] for run in runs] == [3, 4, 5]
    assert runs[0].manifest["reason"].startswith("equilibrium: training accuracy 0.")
    assert runs[2].manifest["reason"] == "versions reached 5"
    train = runs[0].evaluations.query("on == 'train'")
    assert train["version"].tolist() == [1, 2, 3]
    assert runs[0].rounds["accuracy"].notna().all()


def test_the_warm_start_is_a_round_per_player_or_an_epoch():
    """Section D.2: N rounds for a fixed representation, N_k / 256 for a variable one."""
    sizes = [30_000, 30_000]
    variable = FLGames(representation="variable")

    assert FLGames().warm_start(sizes) == FLGames(order="sequential").warm_start(sizes) == 2
    assert variable.warm_start(sizes) == 117
    assert FLGames(equilibrium=Equilibrium(warm_start=5)).warm_start(sizes) == 5


def test_training_accuracy_is_that_of_the_ensemble_on_all_clients_data():
    """Weighted by data; with `examples`, on a fixed choice of each client's."""
    shards = clouds((9, 7))
    game = Game(FLGames(local=ONE_STEP, equilibrium=Equilibrium(examples=None)), mlp, shards)
    inputs = torch.cat([shard.inputs for shard in shards])
    targets = torch.cat([shard.targets for shard in shards])
    mean = (logits(game.action(0), inputs) + logits(game.action(1), inputs)) / 2

    standing = game.algorithm.standing(game.state, game.evaluator)

    assert standing.accuracy == pytest.approx((mean.argmax(1) == targets).double().mean().item())
    assert standing.loss == pytest.approx(F.cross_entropy(mean, targets).item())


VARIANTS = [
    {"representation": representation, "order": order, **more}
    for representation, mores in (
        ("fixed", ({}, {"smooth": True})),
        ("variable", ({}, {"smooth": True, "fast": True})),
    )
    for order, more in itertools.product(("sequential", "parallel"), mores)
]


@pytest.mark.parametrize("switches", VARIANTS, ids=str)
def test_a_variant_is_computed_the_same_however_jobs_are_grouped(switches: dict[str, object]):
    """Batched and sequential trainers within 1e-9; cohorts of one, bit for bit, event for event."""
    scenario = game_scenario(3, **switches)

    _, batched = simulated(scenario)
    _, alone = simulated(scenario, cohort_cap=1)
    _, reference = simulated(scenario, trainer="sequential")

    assert largest_difference(final_weights(batched), final_weights(alone)) == 0.0
    assert largest_difference(final_weights(batched), final_weights(reference)) < 1e-9
    assert batched.log.fingerprint == alone.log.fingerprint


def test_variants_differ():
    """No switch is without effect."""
    finals = [final_weights(simulated(game_scenario(3, **one))[1]) for one in VARIANTS]
    fixed, variable = finals[:4], finals[4:]

    for group in (fixed, variable):
        for left, right in itertools.combinations(group, 2):
            assert largest_difference(left, right) > 1e-6


def test_the_reference_trainer_plays_the_same_game():
    """Ragged shards, a loss of the algorithm's own: the stacked form adds nothing."""
    games = [
        Game(FLGames(local=ONE_STEP, smooth=True), mlp, clouds((9, 7, 8)), **more)
        for more in ({}, {"trainer": SequentialTrainer})
    ]
    for game in games:
        for _ in range(4):
            game.round()

    assert largest_difference(games[0].state.weights, games[1].state.weights) < 1e-12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["algorithm.fast=true"], "fast: found true, but there is no representation to train"),
        (["model.batch_norm=true"], "take a model without BatchNorm"),
        (
            ["algorithm.representation=variable", "algorithm.representation_layers=3"],
            "representation_layers: found 3, but the model has 3 layers",
        ),
        (["protocol=asynchronous"], "players respond to one another round by round"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(changes: list[str], message: str):
    """Before anything runs."""
    with pytest.raises(ScenarioError, match=message):
        simulated(game_scenario(2).with_overrides(changes))
