"""Scenario -> simulation: the only file that imports every package.

Every part is built from its section; parts that do not fit together are refused here, before
anything is written, with the file, line and key of the wrong section.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simfl.assembly import registry
from simfl.assembly.checks import (
    check_batches,
    check_count,
    check_measures,
    check_model,
    check_needs,
    check_pair,
    check_partial,
    check_precision,
    check_ray,
    check_selection,
    check_stop,
    check_tokens,
    check_trainer,
    check_updates,
    check_workers,
    compute_device,
)
from simfl.assembly.coding import coding_of
from simfl.assembly.data_partitioning import PartitionedData, partition_data
from simfl.assembly.groups import availability_of
from simfl.assembly.shared_generators import SharedGenerators
from simfl.assembly.simulation import TRAINERS, Options, Simulation, digest
from simfl.assembly.standalone_baseline import (
    check_contributions,
    contributions_needed,
    standalone_scenario,
)
from simfl.assembly.trials import check_answers, check_costs, check_memory, lacking_bytes
from simfl.assembly.unread import dotted, held, refuse_named, told, unread_keys
from simfl.common.arrays import IntArray
from simfl.common.files import content_of
from simfl.common.plain import to_json
from simfl.decisions.divergence import mean_js
from simfl.learning.datasets.base import Data
from simfl.learning.devices import CPU, ComputeDevice
from simfl.learning.models.base import as_module
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.padded_cohorts import Shape, step_shape
from simfl.learning.vision import augmentation, check_augmentation
from simfl.learning.workers.on_ray import RayCluster, RayWorkers
from simfl.learning.workers.remote import described
from simfl.protocols.observations import association_view
from simfl.provenance.journal import make_key
from simfl.provenance.lineage import numeric_platform, root_key, with_workers
from simfl.scenario.plugins import load_file
from simfl.scenario.scenario import Keys, Scenario
from simfl.scenario.validation.keys import file_keys
from simfl.scenario.yaml_source.source import KeyPath, Source, blame
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.provenance import profiles_behind
from simfl.system.world import World
from simfl.system.world_checks import checked_world


@dataclass(frozen=True, eq=False)
class Outline:
    """A scenario with its parts and machines built, without data.

    `scenario` is without the keys that nothing reads; `unread` lists these with reasons (except
    keys at their default null).
    """

    scenario: Scenario
    unread: Mapping[Keys, str]
    resolved: Scenario
    parts: Mapping[Keys, Any]
    streams: Streams
    world: World

    @property
    def digest(self) -> str:
        """The digest of the whole simulation (`Simulation.digest`)."""
        return digest(self.resolved, self.parts, self.world)


def outlined(scenario: Scenario) -> Outline:
    """Builds the parts of a scenario that need no data; raises `ScenarioError`."""
    streams = Streams(scenario.seed)
    parts, complete = _parts(scenario)
    world = _checked_world(scenario, parts, streams)
    unread = unread_keys(scenario, parts, world)
    idle, to_tell = held(scenario, unread), told(scenario, parts, unread)
    if idle:
        # The run is made as if they were not there; the rest describes it completely.
        scenario = scenario.without(idle)
        parts, complete = _parts(scenario)
        world = _checked_world(scenario, parts, streams)
    resolved = scenario.with_parts(complete, unread, _contents(scenario, complete))
    with blame(scenario.where("algorithm"), parts[("algorithm",)]):
        parts[("algorithm",)] = parts[("algorithm",)].among(world.num_clients)
    return Outline(scenario, to_tell, resolved, parts, streams, world)


def _checked_world(scenario: Scenario, parts: Mapping[Keys, Any], streams: Streams) -> World:
    """The machines, of parts that fit together."""
    algorithm, protocol = parts[("algorithm",)], parts[("protocol",)]
    check_pair(scenario, algorithm, protocol)
    check_selection(scenario, parts[("decisions", "selection")], protocol)
    check_measures(scenario, algorithm, parts)
    world = _world(scenario, parts, streams)
    availability_of(scenario, parts, streams)  # refuses what the clock does not allow
    with blame(scenario.where("algorithm"), algorithm):
        algorithm.check_clients(world.num_clients)
    for keys, part in parts.items():
        if keys[:2] == ("evaluate", "measures"):
            with blame(scenario.where(*keys), part):
                part.check_clients(world.num_clients)
    return world


def assemble(scenario: Scenario, options: Options | None = None) -> Simulation:
    """Builds every part of a scenario; raises `ScenarioError` if parts do not fit together."""
    options = options or Options()
    check_trainer(options.trainer, TRAINERS)
    device = _device(options)
    check_workers(options.workers, options.trainer, device.kind)
    torch.set_num_threads(1)  # bits depend on the thread count; one thread is also the fastest
    scenario = scenario.below(options.data_root)
    _import_parts(scenario)
    shared = SharedGenerators()
    outline = outlined(scenario)
    refuse_named(scenario, outline.unread)
    unread, scenario = held(scenario, outline.unread), outline.scenario
    check_precision(scenario)
    parts, streams, world = outline.parts, outline.streams, outline.world
    algorithm, protocol = parts[("algorithm",)], parts[("protocol",)]
    selection = parts[("decisions", "selection")]
    partitioned = _partitioned(outline)
    bits = parts[("population",)].bits_per_value * math.prod(partitioned.data.input_shape)
    world = replace(world, example_bits=bits)
    with blame(scenario.where("data", "augmentation")):
        augment = augmentation([part.model_dump() for part in scenario.data.augmentation])
        if augment is not None:
            check_augmentation(augment, partitioned.data.input_shape)
    network = _network(scenario, parts[("model",)], partitioned.data, device)
    with blame(scenario.where("model"), parts[("model",)]):
        check_tokens(parts[("model",)], [partitioned.data.test, *partitioned.clients])
    check_stop(scenario, algorithm, protocol, network)
    with blame(scenario.where("population")):
        check_costs(world, network)
    training = network, algorithm.local, partitioned.num_examples
    elsewhere = protocol.brings_values  # a protocol that brings the models knows their work
    if parts[("population",)].memory == "drop":
        lacking = np.zeros(world.num_clients) if elsewhere else lacking_bytes(world, *training)
        world = replace(world, lacking_bytes=lacking)
    if not elsewhere and (world.lacking_bytes is None or world.lacking_bytes.all()):
        with blame(scenario.where("algorithm", "local", "batch_size")):
            check_memory(world, *training)
    check_answers(scenario, parts, world, network)
    check_needs(scenario, algorithm, network)
    check_partial(scenario, algorithm)
    check_batches(scenario, algorithm, network, partitioned.num_examples)
    check_contributions(scenario, world.num_clients)
    shapes = frozenset(
        step_shape(int(rows), algorithm.local) for rows in np.unique(partitioned.num_examples)
    )
    here = numeric_platform(network, shapes if algorithm.learns else ())
    if options.ray is not None and algorithm.learns:
        here = with_workers(here, _workers_platform(scenario, network, shapes, options.ray))
    platform = {**here, "trainer": options.trainer}
    edge, association = _associate(scenario, parts, world, partitioned, streams)
    check_updates(scenario, algorithm, protocol, selection, edge)
    check_count(scenario, selection, protocol, edge)
    data_digest = partitioned.digest()
    simulation = Simulation(
        scenario=scenario,
        resolved=outline.resolved,
        options=options,
        parts=parts,
        streams=streams,
        world=world,
        # An accelerator only holds what fits; its users place the data there.
        partitioned=partitioned.cast(
            network.dtype, CPU.torch if device.accelerates else network.device
        ),
        network=network,
        shapes=shapes,
        augment=augment,
        edge=edge,
        association=association,
        platform=platform,
        root=root_key(
            outline.resolved,
            algorithm,
            parts[("model",)],
            data_digest,
            platform,
            coding_of(parts),
        ),
        unread_keys=dotted(unread),
        drew_from=shared.used(),
    )
    if not contributions_needed(scenario, algorithm, simulation.measures):
        return simulation
    return _with_contributions(simulation, data_digest)


def partitioned_data(scenario: Scenario) -> PartitionedData:
    """Only the partitioned data of a scenario; raises `ScenarioError`."""
    return _partitioned(outlined(scenario))


def _partitioned(outline: Outline) -> PartitionedData:
    scenario, parts = outline.scenario, outline.parts
    return partition_data(
        scenario,
        parts[("data",)],
        parts[("data", "partition")],
        outline.world.home_edge,
        outline.streams,
        scenario.data_root,
        learns=parts[("algorithm",)].learns,
    )


def _device(options: Options) -> ComputeDevice:
    """The device of this process: a CPU if a cluster trains."""
    if options.ray is None:
        return compute_device(options.device)
    asked = options.device
    check_ray(options.ray, options.trainer, asked if isinstance(asked, str) else asked.kind)
    return CPU


def _workers_platform(
    scenario: Scenario, network: Network, shapes: Collection[Shape], ray: RayWorkers
) -> dict[str, Any]:
    """The numeric platform of the cluster's first worker."""
    describe = partial(numeric_platform, shapes=shapes)
    found: dict[str, Any] = RayCluster(ray).asked(
        partial(described, describe, network, ray.device, ray.memory_share),
        [partial(load_file, file) for file in scenario.plugin_files()],
        ray.give_up_s,
    )
    return found


def _with_contributions(simulation: Simulation, digest: str) -> Simulation:
    """The simulation with the run in which clients train alone, unless contributions are given."""
    given = simulation.scenario.algorithm.contributions
    baseline = None
    if given is not None and given.accuracy is not None:
        known: tuple[Any, ...] = given.accuracy
    else:
        baseline = _standalone_baseline(simulation, digest)
        known = (baseline.root, baseline.scenario.stop.versions)
    root = simulation.root
    if simulation.algorithm.needs_contributions:
        root = make_key(root, "contributions", known)
    return replace(simulation, standalone_baseline=baseline, root=root)


def _standalone_baseline(simulation: Simulation, digest: str) -> Simulation:
    outline = outlined(standalone_scenario(simulation.resolved, simulation.algorithm))
    parts, resolved, platform = outline.parts, outline.resolved, simulation.platform
    algorithm, model = parts[("algorithm",)], parts[("model",)]
    world = replace(outline.world, example_bits=simulation.world.example_bits)
    return replace(
        simulation,
        scenario=outline.scenario,
        resolved=resolved,
        options=replace(simulation.options, facts=None, clock=None, watch=None),
        parts=parts,
        world=world,
        edge=world.home_edge,
        association={},
        root=root_key(resolved, algorithm, model, digest, platform),
        unread_keys=(),
    )


def _import_parts(scenario: Scenario) -> None:
    """Import users' parts, before checking which generators are used: imported code may draw or
    seed.
    """
    for keys, (kind, part) in scenario.parts().items():
        registry.resolve(kind, part.name, scenario.base_dir, scenario.where(*keys))


def _parts(scenario: Scenario) -> tuple[dict[Keys, Any], dict[Keys, dict[str, Any]]]:
    """Every part of a scenario, and its keys with all defaults."""
    parts, complete = {}, {}
    for keys, (kind, part) in scenario.parts().items():
        parts[keys] = registry.build(kind, part, scenario.where(*keys))
        complete[keys] = registry.complete(kind, part, scenario.where(*keys))
    return parts, complete


def _contents(scenario: Scenario, complete: Mapping[Keys, dict[str, Any]]) -> dict[Keys, str]:
    """Digests of the files that keys of parts name, by those keys' paths."""
    contents = {}
    for keys, (kind, part) in scenario.parts().items():
        where = scenario.where(*keys)
        for key in file_keys(registry.resolve(kind, part.name, scenario.base_dir, where)):
            named = complete[keys].get(key)
            if named is not None:
                places = (scenario.base_dir / named, (scenario.data_root or Path()) / named)
                found = next((one for one in places if one.exists()), None)
                with blame(where.child(key)):
                    if found is not None:
                        contents[(*keys, key)] = content_of(found)
    return contents


def _associate(
    scenario: Scenario,
    parts: Mapping[Keys, Any],
    world: World,
    partitioned: PartitionedData,
    streams: Streams,
) -> tuple[IntArray, dict[str, Any]]:
    """Each client's edge server, and what the log says about how it was chosen.

    A flat protocol leaves clients where the population put them.
    """
    if not parts[("protocol",)].hierarchical:
        return world.home_edge, {}
    rule = parts[("decisions", "association")]
    with blame(scenario.where("decisions", "association"), rule):
        view = association_view(world, partitioned.num_examples, partitioned.label_counts)
        rng = streams.generator("association")
        decided, given = rule.decide(view, rng)
        edge: IntArray = np.array(decided)
        if not np.issubdtype(edge.dtype, np.integer) or edge.shape != (world.num_clients,):
            raise ValueError(
                f"found {edge.dtype} values of shape {edge.shape}, accepted: an integer for each of"
                f" {world.num_clients} clients"
            )
        wrong = edge[(edge < 0) | (edge >= world.num_edges)]
        if wrong.size:
            raise ValueError(f"found edge server {wrong[0]}, accepted: 0 to {world.num_edges - 1}")
        detail = json.loads(to_json(dict(given)))
    js_home = mean_js(view.label_counts, view.home_edge)
    js = mean_js(view.label_counts, edge)
    edges = {"edges": edge.tolist(), "home_edges": view.home_edge.tolist()}
    return edge, {**edges, "js_home": js_home, "js": js, **detail}


def _world(scenario: Scenario, parts: Mapping[Keys, Any], streams: Streams) -> World:
    def resolve(kind: str, values: Mapping[str, Any]) -> Any:
        # The values come from a device or link file, whose own position is used in errors.
        return registry.build(kind, dict(values), KeyPath(Source("", scenario.base_dir, {})))

    population = parts[("population",)]
    with blame(scenario.where("population"), population):
        catalogue = Catalogue((), scenario.base_dir, resolve, population.hardware_draw)
        built = population.build(streams, catalogue)
        world = checked_world(population, built, population.clients, population.edges)
        electricity = population.electricity(streams, catalogue)
        hierarchical = parts[("protocol",)].hierarchical
        world = replace(
            world,
            behind_backhaul=population.server_behind == "backhaul" and not hierarchical,
            electricity=electricity,
        )
        profiles = profiles_behind(
            population.own_catalogue(catalogue),
            world,
            getattr(population, "backhaul", None),
            hierarchical=hierarchical,
        )
        return replace(
            world,
            message_loss=population.message_loss,
            noticed_after_s=population.noticed_after_s,
            uplink_codec=parts[("population", "uplink_codec")],
            downlink_codec=parts[("population", "downlink_codec")],
            access_sharing=parts[("population", "access_sharing")],
            backhaul_sharing=parts[("population", "backhaul_sharing")],
            profiles=profiles,
        )


def _network(scenario: Scenario, model: Any, data: Data, device: ComputeDevice) -> Network:
    with blame(scenario.where("model"), model):
        network = Network(
            partial(as_module, model, data.input_shape, data.outputs),
            data.input_shape,
            Objective(data.task),
            torch.float64 if scenario.dtype == "float64" else torch.float32,
            device,
            scenario.precision,
        )
        check_model(network, data.outputs)
    return network
