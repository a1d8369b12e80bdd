"""Scenario -> simulation: the only file that sees every room.

Every part is built from its section; what does not fit together is refused here, before anything
is written, with the file, line and key of the section to blame.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simfl import registry
from simfl.accounts import Accounts
from simfl.algorithms.base import Algorithm, ClientFacts
from simfl.eventlog import KINDS, STATES, Actors, EventLog
from simfl.journal import Journal, make_key
from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Data, Examples
from simfl.learning.datasets.stratified import stratified_split
from simfl.learning.evaluate import Evaluator
from simfl.learning.models.base import as_module
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Trainer
from simfl.learning.vision import augmentation
from simfl.protocols.base import Protocol
from simfl.protocols.clock import Clock
from simfl.protocols.observations import association_view
from simfl.protocols.publication import Progress, Publications
from simfl.protocols.run import Deciders, Run
from simfl.protocols.stopping import StopRule
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.values import Values
from simfl.scenario import Scenario
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue, CatalogueError
from simfl.system.world import World
from simfl.yaml_source import KeyPath

IntArray = NDArray[np.int64]
TRAINERS: Mapping[str, type[Trainer]] = {
    "batched": BatchedTrainer,
    "sequential": SequentialTrainer,
}


@dataclass(frozen=True)
class Options:
    """How to run, as opposed to what: nothing here changes a result on one numeric platform.

    `trainer` "sequential" is the plain reference; `cohort_cap` limits how many jobs are trained
    together; `facts` are an earlier run's journal.
    """

    data_root: Path | None = None
    device: str = "auto"
    trainer: str = "batched"
    cohort_cap: int | None = None
    facts: Mapping[str, Any] | None = None
    clock: Clock | None = None
    watch: Callable[[Progress], None] | None = None


@dataclass(frozen=True)
class Shards:
    """The data as dealt: one shard per client, the server's sets, and each client's numbers."""

    data: Data
    clients: Sequence[Examples]
    validation: Examples | None
    num_examples: IntArray
    label_counts: IntArray


@dataclass
class Simulation:
    """A scenario made ready to run. `open_log` is called once the run may write."""

    scenario: Scenario
    resolved: Scenario
    world: World
    algorithm: Algorithm
    protocol: Protocol
    network: Network
    shards: Shards
    values: Values | TimingOnly
    platform: dict[str, Any]
    edge: IntArray
    make_run: Callable[[Path | None, Journal], Run]


def assemble(scenario: Scenario, options: Options | None = None) -> Simulation:
    """Build every part of a scenario; raises `ScenarioError` for what does not fit."""
    options = options or Options()
    torch.set_num_threads(1)  # results are bit-identical per thread count; the fast one is one
    streams = Streams(scenario.seed)
    parts = {
        keys: registry.build(kind, part, scenario.where(*keys))
        for keys, (kind, part) in scenario.parts().items()
    }
    algorithm, protocol = parts[("algorithm",)], parts[("protocol",)]
    _check_pair(scenario, algorithm, protocol)
    world = _world(scenario, parts[("population",)], streams)
    shards = _shards(scenario, parts, world, streams, options)
    network = _network(scenario, parts[("model",)], shards.data, options)
    with blame(scenario.where("population")):
        probe = np.arange(min(1, world.num_clients))
        world.cycles(probe, np.ones(probe.size), network.forward_flops)
    platform = numeric_platform(network)
    facts = {
        client: ClientFacts(int(size), tuple(counts))
        for client, (size, counts) in enumerate(
            zip(shards.num_examples, shards.label_counts.tolist(), strict=True)
        )
    }
    edge = world.home_edge
    if protocol.hierarchical:
        with blame(scenario.where("decisions", "association")):
            view = association_view(world, shards.num_examples, shards.label_counts)
            edge = parts[("decisions", "association")].decide(
                view, streams.generator("association")
            )
            _check_association(edge, world)
    resolved = scenario.with_parts(
        {
            keys: registry.complete(kind, part, scenario.where(*keys))
            for keys, (kind, part) in scenario.parts().items()
        }
    )
    root = _root_key(resolved, parts, shards, platform)

    def make_values(journal: Journal) -> Values | TimingOnly:
        if not algorithm.learns:
            return TimingOnly(network, algorithm.local)
        sets = {"test": shards.data.test}
        if shards.validation is not None:
            sets["validation"] = shards.validation
        with blame(scenario.where("data", "augmentation")):
            augment = augmentation([part.model_dump() for part in scenario.data.augmentation])
        trainer = TRAINERS[options.trainer](
            network,
            shards.clients,
            algorithm.loss,
            augmentation=augment,
            cohort_cap=options.cohort_cap,
        )
        evaluator = Evaluator(network, sets)
        return Values(root, algorithm, network, trainer, evaluator, facts, streams, journal)

    simulation = Simulation(
        scenario=scenario,
        resolved=resolved,
        world=world,
        algorithm=algorithm,
        protocol=protocol,
        network=network,
        shards=shards,
        values=make_values(Journal()),
        platform=platform,
        edge=edge,
        make_run=lambda folder, journal: make_run(folder, journal),
    )

    def make_run(folder: Path | None, journal: Journal) -> Run:
        simulation.values = make_values(journal)
        actors = Actors(world.num_clients, world.num_edges)
        idle_w = np.concatenate(
            [
                world.power_idle_w,
                np.full(world.num_edges, world.edge_power_idle_w),
                [world.cloud_power_idle_w, 0.0],
            ]
        )
        log = EventLog(
            actors,
            Accounts(idle_w, list(KINDS), STATES),
            folder,
            scenario.log.rows_per_segment,
            write_rows=scenario.log.level == "full",
        )
        stop = scenario.stop
        rule = StopRule(
            stop.versions,
            stop.time_s,
            stop.energy_j,
            stop.bytes,
            stop.accuracy,
            stop.loss,
            stop.plateau.versions if stop.plateau else None,
            stop.plateau.minimum_gain if stop.plateau else 0.0,
        )
        deciders = Deciders(
            *(
                parts[("decisions", kind)]
                for kind in ("selection", "scheduling", "allocation", "staleness")
            )
        )
        return Run(
            world,
            simulation.values,
            deciders,
            shards.num_examples,
            edge,
            streams,
            log,
            Publications(rule, scenario.evaluate.every, options.watch),
            options.clock or Clock(),
        )

    return simulation


@contextmanager
def blame(where: KeyPath) -> Iterator[None]:
    """Turn a part's `ValueError` into a scenario error at `where`."""
    try:
        yield
    except (ValueError, CatalogueError) as error:
        if hasattr(error, "accepted"):
            raise
        raise where.error(str(error), "", str(error)) from error


def _check_pair(scenario: Scenario, algorithm: Algorithm, protocol: Protocol) -> None:
    name = registry.part_name(type(protocol))
    if name in algorithm.refusals:
        one = registry.part_name(type(algorithm))
        raise scenario.where("protocol").error(
            name, "", f"{one} cannot run under {name}: {algorithm.refusals[name]}"
        )


def _world(scenario: Scenario, population: Any, streams: Streams) -> World:
    def resolve(kind: str, values: Mapping[str, Any]) -> Any:
        return registry.build(kind, dict(values), scenario.where("population"))

    with blame(scenario.where("population")):
        world: World = population.build(streams, Catalogue((), scenario.base_dir, resolve))
    return world


def _check_association(edge: IntArray, world: World) -> None:
    if edge.shape != (world.num_clients,) or edge.min() < 0 or edge.max() >= world.num_edges:
        raise ValueError(
            f"an association gives each of {world.num_clients} clients an edge server from 0 to"
            f" {world.num_edges - 1}"
        )


def _shards(
    scenario: Scenario,
    parts: Mapping[Any, Any],
    world: World,
    streams: Streams,
    options: Options,
) -> Shards:
    dataset, partition = parts[("data",)], parts[("data", "partition")]
    learns = parts[("algorithm",)].learns
    root = options.data_root or scenario.data.root or os.environ.get("SIMFL_DATA")
    with blame(scenario.where("data")):
        if learns and not dataset.has_examples:
            raise ValueError(f"{scenario.data.name} has no examples to learn from")
        data: Data = dataset.load(Path(root) if root else None, streams.seed("data"))
    if not dataset.has_examples:
        sizes = dataset.num_examples(world.num_clients)
        return Shards(data, [], None, sizes, np.zeros((world.num_clients, 0), dtype=np.int64))
    validation, train, natural = None, data.train, data.natural
    with blame(scenario.where("data", "validation_share")):
        if scenario.data.validation_share > 0:
            if natural is not None:
                raise ValueError("validation_share: not with a data set that has owners")
            validation, train = stratified_split(
                train, scenario.data.validation_share, streams.seed("validation")
            )
    with blame(scenario.where("data", "partition")):
        rows = partition.split(
            train.targets.numpy(), world.home_edge, natural, streams.generator("partition")
        )
    clients = [train.take(own) for own in rows]
    labels = data.outputs if data.task == "classification" else 0
    counts = np.array(
        [np.bincount(one.targets, minlength=labels) if labels else [] for one in clients],
        dtype=np.int64,
    )
    sizes = np.array([len(one) for one in clients], dtype=np.int64)
    return Shards(data, clients, validation, sizes, counts)


def _network(scenario: Scenario, model: Any, data: Data, options: Options) -> Network:
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    with blame(scenario.where("model")):
        return Network(
            lambda: as_module(model, data.input_shape, data.outputs),
            data.input_shape,
            Objective(data.task),
            torch.float64 if scenario.dtype == "float64" else torch.float32,
            device,
        )


def numeric_platform(network: Network) -> dict[str, Any]:
    """What bits depend on beside the scenario: results are identical where all of this is."""
    return {
        "torch": torch.__version__,
        "dtype": str(network.dtype).removeprefix("torch."),
        "device": network.device.type,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "kernel_family": network.kernel_family,
        "threads": torch.get_num_threads(),
    }


def _root_key(
    resolved: Scenario, parts: Mapping[Any, Any], shards: Shards, platform: Mapping[str, Any]
) -> str:
    """The key under every learned value of a run: all that they depend on, and nothing else."""
    content = resolved.as_mapping()
    data = {key: value for key, value in content["data"].items() if key != "root"}
    algorithm = parts[("algorithm",)]
    return make_key(
        version("simfl"),
        resolved.seed,
        sorted(platform.items()),
        sorted(data.items(), key=str),
        sorted(content["model"].items(), key=str),
        repr(algorithm),
        [_source_of(part) for part in (algorithm, parts[("model",)])],
        _digest([shards.data.train, shards.data.test, *shards.clients]),
    )


def _source_of(part: Any) -> str:
    """The source text of a part in a user's own file; what is shipped goes by simfl's version."""
    owner = part if inspect.isclass(part) else getattr(part, "func", type(part))
    if owner.__module__.startswith("simfl."):
        return ""
    return inspect.getsource(inspect.getmodule(owner) or owner)


def _digest(sets: Sequence[Examples]) -> str:
    digest = hashlib.blake2b()
    for examples in sets:
        digest.update(str(tuple(examples.inputs.shape)).encode())
        digest.update(np.ascontiguousarray(examples.inputs.numpy()))
        digest.update(np.ascontiguousarray(examples.targets.numpy()))
    return digest.hexdigest()
