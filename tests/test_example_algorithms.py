"""SCAFFOLD, MOON and Ditto, shipped and of docs/examples, against loops from their papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import simfl
from simfl.assembly.assemble import assemble
from simfl.common.contract import PartMisbehaves
from simfl.protocols.run import Run
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms import loops
from tests.algorithms.loops import CLIENTS, RATE, ROUNDS, STEPS, Loop, Weights, gradient, leaves
from tests.small import final_weights, largest_difference, simulated, small
from tests.test_resume import cut_off

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
CLASSES = {"scaffold": "Scaffold", "moon": "Moon", "ditto": "Ditto"}
RENAMED = {"server_rate": "server_learning_rate"}
"""What the shipped ones call a key of the examples."""
SETTINGS: dict[str, dict[str, Any]] = {
    "scaffold": {"server_rate": 0.7},
    "moon": {"mu": 2.0, "temperature": 0.5},
    "ditto": {"closeness": 0.3},
}


def scenario(name: str, **changes: Any) -> simfl.Scenario:
    """The small scenario with the algorithm of an example file."""
    return loops.scenario(example(name), **changes)


def example(name: str) -> dict[str, Any]:
    """The algorithm of an example file, with its settings."""
    return {"name": f"{EXAMPLES / name}.py:{CLASSES[name]}", **SETTINGS[name]}


def shipped(name: str) -> dict[str, Any]:
    """The algorithm of the same name that comes with simfl, with the same settings."""
    return {"name": name, **{RENAMED.get(key, key): value for key, value in SETTINGS[name].items()}}


def scaffold(loop: Loop) -> tuple[Weights, dict[int, Weights]]:
    """Algorithm 1 with option II; the clients' control variates beside the weights."""
    x = loop.weights
    c = {name: torch.zeros_like(tensor) for name, tensor in x.items()}
    own = dict.fromkeys(range(CLIENTS), c)
    for chosen in loop.rounds:
        moves, changes = [], []
        for i in chosen:
            y = x
            for _ in range(STEPS):
                y = leaves(y)
                g = gradient(loop.loss(y, i), y)
                y = {n: (y[n] - RATE * (g[n] - own[i][n] + c[n])).detach() for n in y}
            renewed = {n: own[i][n] - c[n] + (x[n] - y[n]) / (STEPS * RATE) for n in x}
            moves.append({n: y[n] - x[n] for n in x})
            changes.append({n: renewed[n] - own[i][n] for n in x})
            own[i] = renewed
        x = {n: x[n] + 0.7 / len(moves) * sum(one[n] for one in moves) for n in x}
        c = {n: c[n] + sum(one[n] for one in changes) / CLIENTS for n in x}
    return x, own


def moon(loop: Loop) -> tuple[Weights, dict[int, Weights]]:
    """Algorithm 1; the models that clients sent last beside the weights."""
    w, last = loop.weights, {}
    for chosen in loop.rounds:
        sent = {}
        for i in chosen:
            z_glob, z_prev = (loop.features(one, i).detach() for one in (w, last.get(i, w)))
            model = w
            for _ in range(STEPS):
                model = leaves(model)
                z = loop.features(model, i)
                e = [torch.exp(F.cosine_similarity(z, one) / 0.5) for one in (z_glob, z_prev)]
                contrast = -torch.log(e[0] / (e[0] + e[1])).mean()
                g = gradient(loop.loss(model, i) + 2.0 * contrast, model)
                model = {n: (model[n] - RATE * g[n]).detach() for n in model}
            sent[i] = model
        last |= sent
        w = loop.mean(sent)
    return w, last


def ditto(loop: Loop) -> tuple[Weights, dict[int, Weights]]:
    """Algorithm 1 with FedAvg as its solver; the personal models beside the weights."""
    w, personal = loop.weights, {}
    for chosen in loop.rounds:
        sent = {}
        for k in chosen:
            v, model = personal.get(k, w), w
            for _ in range(STEPS):
                v, model = leaves(v), leaves(model)
                g, h = gradient(loop.loss(model, k), model), gradient(loop.loss(v, k), v)
                v = {n: (v[n] - RATE * (h[n] + 0.3 * (v[n] - w[n]))).detach() for n in v}
                model = {n: (model[n] - RATE * g[n]).detach() for n in model}
            personal[k], sent[k] = v, model
        w = loop.mean(sent)
    return w, personal


def kept(name: str, run: Run, client: int) -> Weights | None:
    """What simfl's run has of one client beside the weights; None: it never took part."""
    assert run.publications.latest is not None
    state = run.publications.latest.value()
    if name == "scaffold":
        return dict(state.memory["c_i"][client])
    if name == "moon":
        return state.memory["last"].get(client)
    job = run.values.last_job(client, float("inf"))
    if job is None:
        return None
    memory = job.memory()
    [model] = run.values.algorithm.served(state, client, memory)
    assert memory.private.keys() == {f"personal/{one}" for one in model}
    return model


@pytest.mark.parametrize("name", CLASSES)
def test_an_algorithm_is_what_its_paper_says(name: str, tmp_path: Path) -> None:
    """The weights, and what every client has, to 1e-9 in float64, under partial participation.

    The shipped algorithm and the example file's have the same bits of both.
    """
    loop = {"scaffold": scaffold, "moon": moon, "ditto": ditto}[name]
    run, (_, clients) = loops.against(loop, shipped(name), tmp_path)
    _, copy = simulated(scenario(name))

    assert largest_difference(final_weights(run), final_weights(copy)) == 0.0
    for client in range(CLIENTS):
        own, same = (kept(name, one, client) for one in (run, copy))
        assert (own is None) == (same is None) == (client not in clients)
        if own is not None and same is not None:
            assert largest_difference(own, clients[client]) < 1e-9
            assert largest_difference(own, same) == 0.0


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", CLASSES)
def test_company_and_an_interruption_change_no_bit(name: str, tmp_path: Path) -> None:
    """In float32 with mini-batches: one at a time, all together, and cut off in the middle."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
    one = loops.scenario({**shipped(name), "local": local}, dtype="float32")
    alone = final_weights(simulated(one, cohort_cap=1)[1])
    together = final_weights(simulated(one)[1])
    assert largest_difference(alone, together) == 0.0

    cut_off(one, tmp_path / "run", 2)
    resumed = simfl.run(one, tmp_path / "run", resume=True)
    assert resumed.manifest["counts"]["jobs_trained"] < 3 * ROUNDS
    assert largest_difference(load_file(resumed.path / "model.safetensors"), together) == 0.0


def test_messages_and_work_are_paid_for(tmp_path: Path) -> None:
    """Twice the bytes, three passes forward, two models: against FedAvg's of the same scenario."""
    _, plain = simulated(loops.scenario({"name": "fedavg"}), tmp_path)
    before = loops.paid(tmp_path)

    for name, messages, work in (("scaffold", 2, 1), ("moon", 1, 5 / 3), ("ditto", 1, 2)):
        _, run = simulated(loops.scenario(shipped(name)), tmp_path / name)
        after = loops.paid(tmp_path / name)
        assert after["download"] == messages * before["download"] > 0
        assert after["upload"] == messages * before["upload"] > 0
        assert after["cycles"] == pytest.approx(work * before["cycles"])
        # None but Ditto's, whose clients have models of their own, has FedAvg's global model.
        same = largest_difference(final_weights(run), final_weights(plain)) < 1e-9
        assert same == (name == "ditto")


def test_what_does_not_fit_is_refused() -> None:
    """Before the run, with the reason: protocols, optimizers, models, layers that there are not."""
    batch_norm = {"name": "mlp", "hidden": [8], "batch_norm": True}
    momentum = {"local": {"momentum": 0.9}}
    for name, changes, said in (
        (
            "scaffold",
            {"protocol": "hierarchical"},
            "the control variate c belongs to a single server",
        ),
        ("scaffold", {"protocol": "buffered"}, "c_i is updated with the c of its own round"),
        ("scaffold", {"algorithm": momentum}, "plain SGD's steps"),
        ("ditto", {"model": batch_norm}, "running statistics"),
        (
            "moon",
            {"algorithm": {"layer": "hed"}},
            "found 'hed', accepted: a module of the model: 0, 1, 2, 3",
        ),
    ):
        own = changes.pop("algorithm", {})
        for part in (example(name), shipped(name)):
            with pytest.raises(ScenarioError, match=said):
                assemble(loops.scenario({**part, **own}, **changes))


@pytest.mark.parametrize("name", ["moon", "ditto"])
def test_clients_keep_what_is_theirs_between_tiers(name: str) -> None:
    """MOON's records cross by its own merge and adopt, Ditto's models lie with the clients."""
    tiers = {"protocol": {"name": "hierarchical", "edge_rounds": 2}, "decisions": {}}
    run = simulated(loops.scenario(shipped(name), **tiers))[1]

    found = [kept(name, run, client) for client in range(CLIENTS)]
    assert all(one is not None for one in found)


FORGETFUL = """
from dataclasses import dataclass, replace
from simfl.plugins import Algorithm

@dataclass(frozen=True)
class Forgetful(Algorithm):
    def aggregate(self, state, updates, evaluator):
        seen = [*state.memory.get("seen", ()), *(update.client for update in updates)]
        return replace(super().aggregate(state, updates, evaluator), memory={"seen": seen})

@dataclass(frozen=True)
class Mindful(Forgetful):
    def merge(self, state, lower, shares):
        return super().merge(state, lower, shares)
    def adopt(self, state, upper):
        return super().adopt(state, upper)
"""


@pytest.mark.parametrize(
    "protocol",
    [{"name": "hierarchical", "edge_rounds": 1}, {"name": "asynchronous"}],
    ids=lambda protocol: protocol["name"],
)
def test_a_memory_that_would_be_lost_between_servers_is_refused(
    protocol: Any, tmp_path: Path
) -> None:
    """By what the class defines: one that says how states pass is taken at its word."""
    (tmp_path / "own.py").write_text(FORGETFUL)

    def own(name: str, **changes: Any) -> simfl.Scenario:
        algorithm = {"name": f"{tmp_path / 'own.py'}:{name}", "local": {"steps": 1}}
        return small(algorithm=algorithm, stop={"versions": 2}, **changes)

    with pytest.raises(PartMisbehaves, match=r"Forgetful\.merge is inherited .* memory seen"):
        simulated(own("Forgetful", protocol=protocol))
    simulated(own("Mindful", protocol=protocol))
