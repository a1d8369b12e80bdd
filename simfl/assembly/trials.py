"""Trial calls of users' own parts before the run.

Invalid answers are refused at the part's key, before anything is written. Shipped parts are not
tried; the tests cover them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simfl.algorithms.asked import Asked
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import is_users_own
from simfl.common.quantity import quantity
from simfl.decisions.latencies import Latencies
from simfl.learning.codecs.base import ValueCodec
from simfl.learning.codecs.messages import decoded
from simfl.learning.job import LocalTraining
from simfl.learning.network import Network
from simfl.protocols.aggregation import shares_of
from simfl.scenario.scenario import Keys, Scenario
from simfl.scenario.yaml_source.source import blame
from simfl.system.codecs.base import encoded_bytes
from simfl.system.sharing.base import Flows, Sender
from simfl.system.sharing.max_min import BACKHAUL
from simfl.system.sharing.medium import rates_and_duty
from simfl.system.world import World


def check_costs(world: World, network: Network) -> None:
    """Raises ValueError for a device, server or link that cannot give the cost of its work."""
    one_of_each = np.unique(world.device_index, return_index=True)[1]
    world.cycles(one_of_each, 1.0, network.work)
    for tier in ("edge", "cloud"):
        world.aggregate(tier, 1.0, 1.0)
    processors = [world.edge_server.processor, world.cloud_server.processor]
    processors += [device.processor for device in world.devices]
    if any(map(is_users_own, (*processors, *world.links, world.backhaul))):
        linked = np.unique(world.link_index, return_index=True)[1]
        _dispatch(world.without_noise, np.union1d(one_of_each, linked), network)


def lacking_bytes(
    world: World, network: Network, local: LocalTraining, num_examples: IntArray
) -> FloatArray:
    """Bytes that clients' devices lack to train the whole model; 0 if it fits."""
    rows = num_examples if local.batch_size is None else np.minimum(num_examples, local.batch_size)
    needed_bytes = network.memory.needed_bytes(rows, local.optimizer_states)
    return world.lacking(np.arange(world.num_clients), needed_bytes)


def check_memory(
    world: World, network: Network, local: LocalTraining, num_examples: IntArray
) -> None:
    """Raises ValueError, with the largest batch that fits, if a client lacks memory."""
    lacking = np.flatnonzero(lacking_bytes(world, network, local, num_examples))
    if not lacking.size:
        return
    memory, states = network.memory, local.optimizer_states
    devices = [world.devices[index] for index in world.device_index[lacking]]
    smallest = min(range(lacking.size), key=lambda place: devices[place].memory_bytes or np.inf)
    device, rows = devices[smallest], int(num_examples[lacking[smallest]])
    rows = rows if local.batch_size is None else min(rows, local.batch_size)
    assert device.memory_bytes is not None, "an unknown memory lacks nothing"
    needed = float(memory.needed_bytes(rows, states))
    most = memory.most_rows(device.memory_bytes, states)
    accepted = f"batches of at most {most}" if most else "a smaller model"
    if lacking.size < num_examples.size:
        accepted += ", or population.memory: drop"
    raise ValueError(
        f"training in batches of {rows} takes {quantity(needed, 'B')} (weights, gradients and"
        f" optimizer {quantity(memory.fixed_bytes(states), 'B')}, each example"
        f" {quantity(memory.example_bytes, 'B')}), {device.name} has"
        f" {quantity(device.memory_bytes, 'B')}; {lacking.size} of {num_examples.size} clients lack"
        f" memory; accepted: {accepted}"
    )


def _dispatch(world: World, clients: np.ndarray, network: Network) -> None:
    size, hz = network.size_bytes, world.frequency_max_hz[clients]
    world.plan_rounds(clients, 0, 1.0, network.work, size, size, hz)
    for uplink in (False, True):
        world.backhaul_transfer(0, 0, size, uplink)


def check_answers(
    scenario: Scenario, parts: Mapping[Keys, Any], world: World, network: Network
) -> None:
    """Raises `ScenarioError` at the key of a user's own part with an invalid answer."""
    for keys, part in parts.items():
        if is_users_own(part):
            with blame(scenario.where(*keys), part):
                _ask(keys, part, world, network)


def _ask(keys: Keys, part: Any, world: World, network: Network) -> None:
    match keys:
        case ("algorithm",):
            _ask_algorithm(Asked(part, network), part, world, network)
        case ("decisions", "staleness"):
            shares_of(part, np.arange(4))
        case ("decisions", "estimator"):
            _ask_estimator(Latencies(part, 2))
        case ("population", "uplink_codec" | "downlink_codec"):
            encoded_bytes(part, [0, network.size_bytes])
            if isinstance(part, ValueCodec):
                decoded(part, network.template, network.size_bytes, seed=0)
        case ("population", "access_sharing"):
            _share(part, (1, BACKHAUL))
        case ("population", "backhaul_sharing"):
            _share(part, (BACKHAUL,))


def _ask_algorithm(asked: Asked, algorithm: Any, world: World, network: Network) -> None:
    asked.recipe(0)
    asked.players(0, np.arange(world.num_clients))
    if not algorithm.learned_price:
        asked.prices([0], 0)
    asked.tier_price(0)
    asked.work(0, np.full(algorithm.min_updates, network.size_bytes))


def _ask_estimator(latencies: Latencies) -> None:
    which, prior_s = np.arange(2), np.ones(2)
    latencies.estimate_s(which, prior_s)
    latencies.observe(which, prior_s, prior_s)
    latencies.estimate_s(which, prior_s)
    latencies.posterior(which, prior_s)


def _share(sharing: Any, route: tuple[int, ...]) -> None:
    senders = [Sender(client, rate_bps, route=route) for client, rate_bps in enumerate((1e6, 2e6))]
    rates_and_duty(sharing, Flows.of(senders))
