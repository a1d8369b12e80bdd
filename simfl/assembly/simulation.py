"""A simulation that is ready to run, and the options to run it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from simfl.algorithms.asked import Asked, AskedLoss
from simfl.algorithms.base import Algorithm, ClientFacts
from simfl.assembly.coding import Direction, coding_of, sized_only
from simfl.assembly.data_partitioning import PartitionedData, shares_of_test_set
from simfl.assembly.groups import allocation_by_group, availability_of
from simfl.common.accuracy_name import accuracy_name
from simfl.common.amounts import figures
from simfl.common.arrays import FloatArray, IntArray
from simfl.common.contract import at_work, is_users_own
from simfl.common.own_code import source_of
from simfl.common.part_name import part_name
from simfl.eventlog.accounts import Accounts
from simfl.eventlog.kinds import KINDS, STATES, Actors
from simfl.eventlog.log import EventLog
from simfl.learning.batched import BatchedTrainer
from simfl.learning.codecs.messages import Coding
from simfl.learning.devices import ComputeDevice
from simfl.learning.evaluate import Evaluator, client_set, client_test_set
from simfl.learning.federation import Federation
from simfl.learning.forms import trained_by
from simfl.learning.minibatch import plain_loss
from simfl.learning.network import Network
from simfl.learning.padded_cohorts import Shape
from simfl.learning.parameters import Parameters
from simfl.learning.sequential import SequentialTrainer
from simfl.learning.trainer import Loss, Trainer
from simfl.learning.workers.on_ray import RayCluster, RayWorkers
from simfl.learning.workers.parallel import ParallelTrainer
from simfl.learning.workers.remote import RemoteTrainer
from simfl.measures.base import Measure, ModelMeasure
from simfl.protocols.base import Protocol
from simfl.protocols.clock import Clock
from simfl.protocols.deciders import Deciders
from simfl.protocols.learned_facts import Contributions, LearnedFacts
from simfl.protocols.learned_values import LearnedValues
from simfl.protocols.membership import Membership
from simfl.protocols.publication import Progress, Publications
from simfl.protocols.run import Run
from simfl.protocols.setting import Declared, Setting
from simfl.protocols.stopping import StopRule
from simfl.protocols.timing_only import TimingOnly
from simfl.protocols.values import Values
from simfl.provenance.journal import Journal, Snapshot, make_key
from simfl.provenance.lineage import numeric_platform, workers_platform
from simfl.provenance.results import ResultStore
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.plugins import load_file
from simfl.scenario.scenario import Keys, Scenario
from simfl.streams import Streams
from simfl.system.availability.base import Availability
from simfl.system.codecs.base import Codec
from simfl.system.failures import Failures
from simfl.system.idle_power import IdlePower
from simfl.system.presence import Presence
from simfl.system.world import World

TRAINERS: Mapping[str, type[Trainer]] = {
    "batched": BatchedTrainer,
    "sequential": SequentialTrainer,
}


@dataclass(frozen=True)
class Options:
    """Options to run a simulation; none changes a result on the same numeric platform.

    `trainer` "sequential" is the plain reference; `cohort_cap` limits how many jobs are trained
    together; `workers` processes or threads train in parallel (0: none); `facts` are an earlier
    run's journal; a snapshot to resume from is kept every `snapshot_seconds` of wall time;
    `any_platform` resumes a run that began on another platform; `store` keeps results for other
    runs and looks theirs up. With `ray` the workers are on a cluster (0: as many as it has room
    for), and `device` is theirs.
    """

    data_root: Path | None = None
    device: str | ComputeDevice = "auto"
    trainer: str = "batched"
    cohort_cap: int | None = None
    workers: int = 0
    facts: Mapping[str, Any] | None = None
    clock: Clock | None = None
    watch: Callable[[Progress], None] | None = None
    snapshot_seconds: float = 60.0
    any_platform: bool = False
    store: ResultStore | None = None
    ray: RayWorkers | None = None


_NO_KINDS = "rates=None, bandwidth_bytes_per_s=None, seconds_per_step=0.0, seconds_per_place=0.0, "

_NO_FIXED_TIME = "seconds_per_training=0.0, "

_NO_WEIGHTS = ", update=None, kernels=None)"

_NO_LIMIT = "memory_bytes=None, b"


def digest(resolved: Scenario, parts: Mapping[Keys, Any], world: World) -> str:
    """Equal for equal simulations: the resolved scenario, its machines' own figures, and the code
    of parts and machines that is the user's own.
    """
    servers = (world.edge_server, world.cloud_server, world.backhaul)
    machines = [repr(machine) for machine in (*world.devices, *world.links, *servers)]
    # Figures that were added later: without them, the digest of a run stays the same.
    machines = [one.replace(", cycles_per_example=None)", ")") for one in machines]
    machines = [one.replace(_NO_FIXED_TIME, "") for one in machines]
    machines = [one.replace(_NO_KINDS, "").replace(_NO_WEIGHTS, ")") for one in machines]
    machines = [one.replace(_NO_LIMIT, "memory_bytes=4000000000.0, b") for one in machines]
    processors = [getattr(one, "processor", one) for one in (*world.devices, *servers[:2])]
    owners = [*parts.values(), *processors, *world.links, world.backhaul]
    code = sorted({source for one in owners if (source := source_of(one))})
    return make_key(resolved.digest, machines, *([code] if code else []))


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulation that is ready to run: parts built, data partitioned, nothing trained yet.

    `resolved` is the scenario with all used defaults filled in; `shapes` are the shapes of the
    clients' training steps; `edge` is each client's edge server, `association` how it was chosen,
    for the log; `root` is the key under every learned value. `unread_keys` are keys of the scenario
    that nothing reads, dotted, each with the reason: the run ignores them. `drew_from` are
    process-wide generators that were used during assembly. `standalone_baseline` is the run in
    which clients train alone, if contributions must be computed.
    """

    scenario: Scenario
    resolved: Scenario
    options: Options
    parts: Mapping[Keys, Any]
    streams: Streams
    world: World
    partitioned: PartitionedData
    network: Network
    shapes: Collection[Shape]
    augment: Callable[[Tensor], Tensor] | None
    edge: IntArray
    association: Mapping[str, Any]
    platform: Mapping[str, Any]
    root: str
    unread_keys: tuple[tuple[str, str], ...] = ()
    drew_from: tuple[str, ...] = ()
    standalone_baseline: Simulation | None = None

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
        """Equal for equal simulations (`digest`)."""
        return digest(self.resolved, self.parts, self.world)

    @property
    def coding(self) -> Coding:
        """The effect of its codecs on values."""
        return coding_of(self.parts)

    @property
    def sized_only(self) -> dict[Direction, Codec]:
        """Its codecs that change the size of messages but not the values."""
        return sized_only(self.parts)

    @property
    def own_models(self) -> bool:
        """Whether each client is served a model that is made for its own examples.

        Rewards, whose price depends on the state, are parts of a model for everybody.
        """
        algorithm = self.algorithm
        return algorithm.learns and algorithm.personal and not algorithm.learned_price

    @property
    def measures(self) -> list[Measure]:
        """The measures of the finished run."""
        return [part for keys, part in self.parts.items() if keys[:2] == ("evaluate", "measures")]

    @property
    def _also_on(self) -> tuple[str, ...]:
        """The evaluator's sets, besides the test set, on which served models are scored."""
        flipped = ("flipped",) if self.partitioned.data.flipped is not None else ()
        asked = any(one.needs_validation for one in self.measures)
        return (*flipped, "validation") if asked and self.partitioned.validation else flipped

    def federation(self, weights: Parameters) -> Federation:
        """A trained model and the clients' data, for measures."""
        partitioned, casts = self.partitioned, (self.network.dtype, self.network.device)
        labelled = partitioned.data.task == "classification"
        tests = shares_of_test_set(partitioned, self.streams) if labelled else []
        placed = {name: tensor.to(self.network.device) for name, tensor in weights.items()}
        agents = [one.placed(*casts) for one in partitioned.clients]
        return Federation(self.network, placed, agents, [one.cast(*casts) for one in tests])

    def measured(self, run: LoadedRun, weights: Parameters | None) -> dict[str, dict[str, float]]:
        """The figures of every measure, by its name; `weights` are those of the final model.

        Without a version there is no model, and no figures of measures of the model.
        """
        found: dict[str, dict[str, float]] = {}
        for number, one in enumerate(self.measures):
            name = part_name(type(one))
            if not isinstance(one, ModelMeasure):
                with at_work(one, "compute"):
                    given = one.compute(run.unshared())
                found[name] = figures(given, one, "compute")
            elif weights is not None:
                rng = self.streams.generator("measure", number)
                federation = self.federation(weights)
                with at_work(one, "assess"):
                    given = one.assess(run.unshared(), federation, rng)
                found[name] = figures(given, one, "assess")
        return found

    def make_run(
        self,
        folder: Path | None,
        journal: Journal,
        snapshot: Snapshot | None = None,
        check: Callable[[Any, int], None] | None = None,
        checkpoint: Callable[[LearnedValues], None] | None = None,
        find_contributions: Callable[[Simulation], Mapping[str, Any]] | None = None,
    ) -> Run:
        """A run at time zero; its events go to `folder` (None: nowhere), its facts to `journal`.

        To resume a run: `snapshot` has its values, `check` is called with every segment of the log.
        `checkpoint` is called after each version, to keep a snapshot. `find_contributions` runs the
        standalone baseline, if there is one.
        """
        evaluate = self.scenario.evaluate
        deciders = Deciders(
            selection=self.parts[("decisions", "selection")],
            scheduling=self.parts[("decisions", "scheduling")],
            allocation=self.parts[("decisions", "allocation")],
            staleness=self.parts[("decisions", "staleness")],
            estimator=self.parts[("decisions", "estimator")],
            allocation_by_group=allocation_by_group(self.scenario, self.parts, self.streams),
        )
        population, streams = self.parts[("population",)], self.streams
        faults = population.faults
        return Run(
            Setting(
                self.world,
                streams,
                self._log(folder, check),
                self.options.clock or Clock(),
                Declared(self.protocol.takes_stale_updates, is_users_own(self.protocol)),
            ),
            self._presence(),
            (
                Failures(faults.edge_servers, streams, "faults.edge_server"),
                Failures(faults.cloud_link, streams, "faults.cloud_link"),
            ),
            self._values(journal, snapshot, self._contributions(journal, find_contributions)),
            deciders,
            Membership(
                self.partitioned.num_examples, self.edge, self.world.num_edges, self.association
            ),
            Publications(
                StopRule(self.scenario.stop),
                evaluate.every,
                self.options.watch,
                evaluate.clients,
                accuracy_name(self.partitioned.data.task),
            ),
            checkpoint,
        )

    @cached_property
    def availability(self) -> Availability:
        """The availability of clients, by the run's clock."""
        return availability_of(self.scenario, self.parts, self.streams)

    def _presence(self) -> Presence:
        """Clients' presence over time, with batteries as they are at time 0."""
        population = self.parts[("population",)]
        return Presence(
            self.availability,
            population.leaving,
            Failures(population.faults.clients, self.streams, "faults.client"),
            population.build_batteries(self.world),
            self.world.power_idle_w,
            self.streams,
        )

    def _log(self, folder: Path | None, check: Callable[[Any, int], None] | None) -> EventLog:
        world, log = self.world, self.scenario.log
        edges_w = np.full(world.num_edges, world.edge_power_idle_w)
        servers_w = np.append(edges_w, world.cloud_power_idle_w)
        charged_w = self.parts[("population",)].server_idle_share * servers_w
        idle_w = np.concatenate([world.power_idle_w, charged_w, [0.0]])
        actors = Actors(world.num_clients, world.num_edges)
        # A flat protocol has no edge servers, so their power is not charged.
        present = np.ones(actors.count, dtype=bool)
        present[actors.clients : actors.cloud] = self.protocol.hierarchical
        return EventLog(
            actors,
            Accounts(
                idle_w,
                world.num_clients,
                list(KINDS),
                STATES,
                counted=self._counted(),
                present=present,
                unpaid_idle_s=self._unpaid_idle_s(),
                links_crossed=2 if world.behind_backhaul else 1,
            ),
            folder,
            log.rows_per_segment,
            write_rows=log.level == "full",
            check=check,
        )

    def _unpaid_idle_s(self) -> Callable[..., FloatArray] | None:
        """A function for the seconds of waiting that are not charged; None if all are."""
        population = self.parts[("population",)]
        if population.client_idle == "always":
            return None
        idle_power = IdlePower(
            population.client_idle,
            self.availability,
            Failures(population.faults.clients, self.streams, "faults.client"),
            self.world.num_clients,
            self.streams,
        )
        return idle_power.unpaid_s

    def _counted(self) -> Callable[..., tuple[FloatArray, FloatArray]] | None:
        """Counts the CO2 and money of rows; the last region is that of servers and the network."""
        electricity, world = self.world.electricity, self.world
        if electricity is None:
            return None
        servers = np.repeat(electricity.index[-1:], world.num_edges + 2)
        index = np.concatenate([electricity.index[: world.num_clients], servers])
        return replace(electricity, index=index).counted

    def _contributions(
        self, journal: Journal, find: Callable[[Simulation], Mapping[str, Any]] | None
    ) -> Contributions | None:
        given = self.scenario.algorithm.contributions
        if given is not None and given.accuracy is not None:
            fact = {"accuracy": list(given.accuracy)}
            return Contributions(journal, make_key("contributions", given.accuracy), lambda: fact)
        baseline = self.standalone_baseline
        if baseline is None or find is None:
            return None
        key = make_key("contributions", baseline.root, baseline.scenario.stop.versions)
        return Contributions(journal, key, partial(find, baseline))

    @property
    def trained_by(self) -> list[dict[str, str]]:
        """The form that trains the jobs, with the reason; empty if nothing is learned."""
        if not self.algorithm.learns:
            return []
        return trained_by(self.network, _loss_of(self.algorithm), self.options.trainer)

    def _values(
        self, journal: Journal, snapshot: Snapshot | None, contributions: Contributions | None
    ) -> LearnedValues:
        algorithm, partitioned, options = self.algorithm, self.partitioned, self.options
        if not algorithm.learns:
            plain = TimingOnly(self.network, algorithm.local, self.streams)
            return self.protocol.values(plain, self.streams, options.store, self.platform)
        make_trainer: Callable[..., Trainer] = TRAINERS[options.trainer]
        prepare = [partial(load_file, file) for file in self.scenario.plugin_files()]
        if options.ray is not None:
            make_trainer = partial(
                RemoteTrainer,
                cluster=RayCluster(options.ray),
                workers=options.workers,
                device=options.ray.device,
                memory_share=options.ray.memory_share,
                describe=partial(numeric_platform, shapes=self.shapes),
                platform=workers_platform(self.platform),
                give_up_s=options.ray.give_up_s,
                prepare=prepare,
            )
        elif options.workers:
            make_trainer = partial(ParallelTrainer, workers=options.workers, prepare=prepare)
        trainer = make_trainer(
            self.network,
            partitioned.clients,
            _loss_of(algorithm),
            augmentation=self.augment,
            cohort_cap=options.cohort_cap,
            store=options.store,
            forget_non_finite=self.scenario.algorithm.non_finite == "reset",
        )
        sets = {client_set(client): own for client, own in enumerate(trainer.shards)}
        tests = enumerate(partitioned.client_tests)
        sets.update({client_test_set(client): own for client, own in tests})
        sets["test"] = partitioned.data.test
        others = {"validation": partitioned.validation, "flipped": partitioned.data.flipped}
        sets.update({name: held for name, held in others.items() if held is not None})
        clients = {
            client: ClientFacts(int(size), tuple(counts))
            for client, (size, counts) in enumerate(
                zip(partitioned.num_examples, partitioned.label_counts.tolist(), strict=True)
            )
        }
        asked, evaluator = Asked(algorithm, self.network), Evaluator(self.network, sets)
        return Values(
            self.root,
            asked,
            trainer,
            LearnedFacts(
                journal,
                asked,
                evaluator,
                trainer,
                self.streams,
                contributions,
                self.coding,
                self._also_on,
            ),
            clients,
            self.streams,
            snapshot,
            options.store,
            self.scenario.algorithm.non_finite,
        )


def _loss_of(algorithm: Algorithm) -> Loss:
    """The clients' loss; shipped losses are called directly, without checks."""
    if type(algorithm).loss is Algorithm.loss:
        return plain_loss
    return AskedLoss(algorithm) if is_users_own(algorithm) else algorithm.loss
