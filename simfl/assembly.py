"""Scenario -> simulation: the only file that sees every room.

Every part is built from its section; what does not fit together is refused here, before anything
is written, with the file, line and key of the section to blame.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from simfl import registry
from simfl.accounts import Accounts
from simfl.algorithms.base import Algorithm, ClientFacts
from simfl.checks import check_model, check_pair, check_stop, check_trainer, torch_device
from simfl.dealing import Shards, deal
from simfl.decisions.divergence import mean_js
from simfl.eventlog import KINDS, STATES, Actors, EventLog
from simfl.journal import Journal, Snapshot, make_key
from simfl.learning.batched import BatchedTrainer
from simfl.learning.datasets.base import Data
from simfl.learning.evaluate import Evaluator
from simfl.learning.minibatch import plain_loss
from simfl.learning.models.base import as_module
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parallel import ParallelTrainer
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Trainer
from simfl.learning.vision import augmentation, check_augmentation
from simfl.lineage import numeric_platform, root_key
from simfl.measures.base import Measure
from simfl.plugins import load_file, loaded_files
from simfl.protocols.base import Protocol
from simfl.protocols.clock import Clock
from simfl.protocols.observations import association_view
from simfl.protocols.publication import Progress, Publications
from simfl.protocols.run import Deciders, Run
from simfl.protocols.stopping import StopRule
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.values import Values, client_set
from simfl.results import ResultStore
from simfl.scenario import Keys, Scenario
from simfl.streams import Streams
from simfl.system.catalogue import Catalogue
from simfl.system.world import World
from simfl.yaml_source import KeyPath, Source, blame

IntArray = NDArray[np.int64]
TRAINERS: Mapping[str, type[Trainer]] = {
    "batched": BatchedTrainer,
    "sequential": SequentialTrainer,
}


@dataclass(frozen=True)
class Options:
    """How to run, as opposed to what: nothing here changes a result on one numeric platform.

    `trainer` "sequential" is the plain reference; `cohort_cap` limits how many jobs are trained
    together; `workers` processes train side by side (0: in this one); `facts` are an earlier run's journal; a snapshot to resume from is kept every
    `snapshot_seconds` of wall time; `any_platform` resumes a run that was begun elsewhere; `store`
    keeps results for other runs and looks theirs up.
    """

    data_root: Path | None = None
    device: str = "auto"
    trainer: str = "batched"
    cohort_cap: int | None = None
    workers: int = 0
    facts: Mapping[str, Any] | None = None
    clock: Clock | None = None
    watch: Callable[[Progress], None] | None = None
    snapshot_seconds: float = 60.0
    any_platform: bool = False
    store: ResultStore | None = None


@dataclass(frozen=True, eq=False)
class Simulation:
    """A scenario made ready to run: every part built, the data dealt, nothing trained yet.

    `resolved` is the scenario with every default filled in; `edge` each client's edge server,
    `association` how it was chosen, for the log; `root` the key under every learned value.
    """

    scenario: Scenario
    resolved: Scenario
    options: Options
    parts: Mapping[Keys, Any]
    streams: Streams
    world: World
    shards: Shards
    network: Network
    augment: Callable[[Tensor], Tensor] | None
    edge: IntArray
    association: Mapping[str, Any]
    platform: Mapping[str, Any]
    root: str

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm."""
        algorithm: Algorithm = self.parts[("algorithm",)]
        return algorithm

    @property
    def protocol(self) -> Protocol:
        """The protocol."""
        protocol: Protocol = self.parts[("protocol",)]
        return protocol

    @property
    def digest(self) -> str:
        """Equal for equal simulations: the resolved scenario, and its machines' own figures."""
        world = self.world
        servers = (world.edge_server, world.cloud_server, world.backhaul)
        machines = [repr(machine) for machine in (*world.devices, *world.links, *servers)]
        return make_key(self.resolved.digest, machines)

    @property
    def measures(self) -> list[Measure]:
        """What is measured of the finished run."""
        return [part for keys, part in self.parts.items() if keys[:2] == ("evaluate", "measures")]

    def make_run(
        self,
        folder: Path | None,
        journal: Journal,
        snapshot: Snapshot | None = None,
        check: Callable[[Any, int], None] | None = None,
        checkpoint: Callable[[Values], None] | None = None,
    ) -> Run:
        """A run at time zero; its events go to `folder` (None: nowhere), its facts to `journal`.

        To resume one: `snapshot` are the values that it held, `check` is shown every segment of
        the log. `checkpoint` is called when a version is out, to keep a snapshot.
        """
        scenario, stop = self.scenario, self.scenario.stop
        rule = StopRule(
            versions=stop.versions,
            time_s=stop.time_s,
            energy_j=stop.energy_j,
            bytes=stop.bytes,
            accuracy=stop.accuracy,
            loss=stop.loss,
            plateau_versions=stop.plateau.versions if stop.plateau else None,
            plateau_minimum_gain=stop.plateau.minimum_gain if stop.plateau else 0.0,
        )
        deciders = Deciders(
            selection=self.parts[("decisions", "selection")],
            scheduling=self.parts[("decisions", "scheduling")],
            allocation=self.parts[("decisions", "allocation")],
            staleness=self.parts[("decisions", "staleness")],
            estimator=self.parts[("decisions", "estimator")],
        )
        return Run(
            self.world,
            self.parts[("population", "availability")],
            self._values(journal, snapshot),
            deciders,
            self.shards.num_examples,
            self.edge,
            self.association,
            self.streams,
            self._log(folder, check),
            Publications(
                rule, scenario.evaluate.every, self.options.watch, scenario.evaluate.clients
            ),
            self.options.clock or Clock(),
            checkpoint,
        )

    def _log(self, folder: Path | None, check: Callable[[Any, int], None] | None) -> EventLog:
        world, log = self.world, self.scenario.log
        # A flat protocol has no edge servers: nobody pays for machines that are not there.
        edge_w = world.edge_power_idle_w if self.protocol.hierarchical else 0.0
        edges_w = np.full(world.num_edges, edge_w)
        idle_w = np.concatenate([world.power_idle_w, edges_w, [world.cloud_power_idle_w, 0.0]])
        return EventLog(
            Actors(world.num_clients, world.num_edges),
            Accounts(idle_w, list(KINDS), STATES),
            folder,
            log.rows_per_segment,
            write_rows=log.level == "full",
            check=check,
        )

    def _values(self, journal: Journal, snapshot: Snapshot | None) -> Values | TimingOnly:
        algorithm, shards, options = self.algorithm, self.shards, self.options
        if not algorithm.learns:
            return TimingOnly(self.network, algorithm.local)
        sets = {client_set(client): own for client, own in enumerate(shards.clients)}
        sets["test"] = shards.data.test
        if shards.validation is not None:
            sets["validation"] = shards.validation
        make_trainer: Callable[..., Trainer] = TRAINERS[options.trainer]
        if options.workers and options.trainer == "batched":
            prepare = [partial(load_file, file) for file in loaded_files()]
            make_trainer = partial(ParallelTrainer, workers=options.workers, prepare=prepare)
        trainer = make_trainer(
            self.network,
            shards.clients,
            plain_loss if type(algorithm).loss is Algorithm.loss else algorithm.loss,
            augmentation=self.augment,
            cohort_cap=options.cohort_cap,
            store=options.store,
            forget_non_finite=self.scenario.algorithm.non_finite == "reset",
        )
        facts = {
            client: ClientFacts(int(size), tuple(counts))
            for client, (size, counts) in enumerate(
                zip(shards.num_examples, shards.label_counts.tolist(), strict=True)
            )
        }
        return Values(
            self.root,
            algorithm,
            self.network,
            trainer,
            Evaluator(self.network, sets),
            facts,
            self.streams,
            journal,
            snapshot,
            options.store,
            self.scenario.algorithm.non_finite,
        )


def assemble(scenario: Scenario, options: Options | None = None) -> Simulation:
    """Build every part of a scenario; raises `ScenarioError` for what does not fit."""
    options = options or Options()
    check_trainer(options.trainer, TRAINERS)
    device = torch_device(options.device)
    torch.set_num_threads(1)  # bits depend on the thread count; one thread is also the fastest
    streams = Streams(scenario.seed)
    parts, complete = {}, {}
    for keys, (kind, part) in scenario.parts().items():
        parts[keys] = registry.build(kind, part, scenario.where(*keys))
        complete[keys] = registry.complete(kind, part, scenario.where(*keys))
    resolved = scenario.with_parts(complete)
    algorithm, protocol = parts[("algorithm",)], parts[("protocol",)]
    check_pair(scenario, algorithm, protocol)
    world = _world(scenario, parts[("population",)], streams)
    root = options.data_root or scenario.data.root or os.environ.get("SIMFL_DATA")
    shards = deal(
        scenario,
        parts[("data",)],
        parts[("data", "partition")],
        world.home_edge,
        streams,
        Path(root) if root else None,
        learns=algorithm.learns,
    )
    with blame(scenario.where("data", "augmentation")):
        augment = augmentation([part.model_dump() for part in scenario.data.augmentation])
        if augment is not None:
            check_augmentation(augment, shards.data.input_shape)
    network = _network(scenario, parts[("model",)], shards.data, device)
    check_stop(scenario, algorithm, network)
    with blame(scenario.where("population")):
        _check_costs(world, network)
    platform = {**numeric_platform(network), "trainer": options.trainer}
    edge, association = _associate(scenario, parts, world, shards, streams)
    return Simulation(
        scenario=scenario,
        resolved=resolved,
        options=options,
        parts=parts,
        streams=streams,
        world=world,
        shards=shards.cast(network.dtype, network.device),
        network=network,
        augment=augment,
        edge=edge,
        association=association,
        platform=platform,
        root=root_key(resolved, algorithm, parts[("model",)], shards.digest(), platform),
    )


def _associate(
    scenario: Scenario,
    parts: Mapping[Keys, Any],
    world: World,
    shards: Shards,
    streams: Streams,
) -> tuple[IntArray, dict[str, Any]]:
    """Each client's edge server, and what the log says about how it was chosen.

    A flat protocol leaves clients where the population put them.
    """
    if not parts[("protocol",)].hierarchical:
        return world.home_edge, {}
    with blame(scenario.where("decisions", "association")):
        view = association_view(world, shards.num_examples, shards.label_counts)
        rng = streams.generator("association")
        edge: IntArray
        edge, detail = parts[("decisions", "association")].decide(view, rng)
        if edge.shape != (world.num_clients,) or edge.min() < 0 or edge.max() >= world.num_edges:
            raise ValueError(
                f"an association gives each of {world.num_clients} clients an edge server from 0"
                f" to {world.num_edges - 1}"
            )
    js_home = mean_js(view.label_counts, view.home_edge)
    js = mean_js(view.label_counts, edge)
    return edge, {"edges": edge.tolist(), "js_home": js_home, "js": js, **detail}


def _check_costs(world: World, network: Network) -> None:
    """Raise now for a device or server that cannot say what its work would cost.

    Raises `MissingCost`, and `ValueError` for links that turns cannot be booked ahead on.
    """
    one_of_each = np.unique(world.device_index, return_index=True)[1]
    world.cycles(one_of_each, np.ones(one_of_each.size), network.forward_flops)
    for tier in ("edge", "cloud"):
        world.aggregate(tier, 1.0, 1.0)
    if not world.predictable:
        raise ValueError(
            "a link's transfer times must be known when transfers start (`Link.predictable`);"
            " links on which transfers slow one another down are not simulated yet"
        )


def _world(scenario: Scenario, population: Any, streams: Streams) -> World:
    def resolve(kind: str, values: Mapping[str, Any]) -> Any:
        # The values stand in a device or link file, which says itself where that is.
        return registry.build(kind, dict(values), KeyPath(Source("", scenario.base_dir, {})))

    with blame(scenario.where("population"), population):
        world: World = population.build(streams, Catalogue((), scenario.base_dir, resolve))
    return world


def _network(scenario: Scenario, model: Any, data: Data, device: str) -> Network:
    with blame(scenario.where("model"), model):
        network = Network(
            partial(as_module, model, data.input_shape, data.outputs),
            data.input_shape,
            Objective(data.task),
            torch.float64 if scenario.dtype == "float64" else torch.float32,
            device,
        )
        check_model(network, data.outputs)
    return network
