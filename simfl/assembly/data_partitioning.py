"""The data of a scenario, partitioned among its clients."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from simfl.common.arrays import IntArray
from simfl.common.contract import PartMisbehaves, is_users_own, misbehaves, named
from simfl.learning.datasets.base import Data, Dataset, Examples
from simfl.learning.datasets.sound import require_sound
from simfl.learning.datasets.stratified import stratified_split
from simfl.learning.partitions.base import Partition
from simfl.scenario.scenario import Scenario
from simfl.scenario.sections import GrowingNoise
from simfl.scenario.yaml_source.source import blame
from simfl.streams import Streams


@dataclass(frozen=True)
class PartitionedData:
    """The data as partitioned: one shard per client, the server's sets, and each client's numbers.

    `data` no longer has training examples; `unassigned` of them belong to no client. `client_tests`
    are the examples that each client tests with, () if clients keep none; `clients`, `num_examples`
    and `label_counts` are of those that it trains with.
    """

    data: Data
    clients: Sequence[Examples]
    validation: Examples | None
    num_examples: IntArray
    label_counts: IntArray
    noise_variance: Sequence[float] = ()
    unassigned: int = 0
    client_tests: Sequence[Examples] = ()

    def digest(self) -> str:
        """A hash of the partitioned examples, and of the server's."""
        digest = hashlib.blake2b()
        held = [one for one in (self.validation, self.data.flipped) if one is not None]
        for examples in (self.data.test, *held, *self.clients, *self.client_tests):
            digest.update(str(tuple(examples.inputs.shape)).encode())
            for tensor in (examples.inputs, examples.targets):
                values = np.ascontiguousarray(tensor.numpy()).reshape(-1)
                digest.update(values.view(np.uint8).data)
        return digest.hexdigest()

    def cast(self, dtype: torch.dtype, device: torch.device) -> PartitionedData:
        """The same data in the network's types: converted once, not per job."""
        data = replace(
            self.data,
            test=self.data.test.placed(dtype, device),
            flipped=self.data.flipped and self.data.flipped.placed(dtype, device),
        )
        return replace(
            self,
            data=data,
            clients=[own.placed(dtype, device) for own in self.clients],
            client_tests=[own.placed(dtype, device) for own in self.client_tests],
            validation=self.validation and self.validation.placed(dtype, device),
        )


def partition_data(
    scenario: Scenario,
    dataset: Dataset,
    partition: Partition,
    home_edge: IntArray,
    streams: Streams,
    root: Path | None,
    *,
    learns: bool,
) -> PartitionedData:
    """Loads and partitions the data; raises `ScenarioError` at the wrong section."""
    with blame(scenario.where("data"), dataset):
        sizes = dataset.sizes(home_edge.size)
        if learns and sizes is not None:
            raise ValueError(f"{scenario.data.name} has no examples to learn from")
        data = dataset.load(root, streams.seed("data"))
        if sizes is None and not isinstance(data, Data):
            raise misbehaves(dataset, "load", data, "a Data")
        require_sound(data)
        if sizes is None and not len(data.test):
            raise ValueError("no test examples, so nothing could be evaluated")
    if sizes is not None:
        return PartitionedData(data, [], None, sizes, np.zeros((home_edge.size, 0), dtype=np.int64))
    validation, train, natural = None, data.train, data.natural
    data = replace(data, train=train.take(np.arange(0)))  # stored once, as partitioned
    with blame(scenario.where("data", "validation_share")):
        if scenario.data.validation_share > 0:
            if natural is not None:
                raise ValueError("validation_share: not with a data set that has owners")
            train, validation = stratified_split(
                train, scenario.data.validation_share, streams.seed("validation")
            )
            if not len(train) or not len(validation):
                raise ValueError(
                    f"validation_share: leaves {len(train)} training and {len(validation)} "
                    f"validation examples; accepted: a share that leaves both"
                )
    with blame(scenario.where("data", "partition"), partition):
        given = partition.split(
            _to_read(train.targets.numpy()),
            home_edge.copy(),
            natural,
            streams.generator("partition"),
        )
        rows = _rows(given, len(train), home_edge.size, partition)
    with blame(scenario.where("data", "noise_variance")):
        variances = _variances(scenario, home_edge.size)
        clients = [
            with_noise(train.take(own), variance, streams.generator("noise", client))
            for client, (own, variance) in enumerate(zip(rows, variances, strict=True))
        ]
    clients, tests = _tests_of_clients(clients, scenario.data.client_test_share, streams)
    labels = data.outputs if data.task == "classification" else 0
    counts = np.array(
        [np.bincount(one.targets, minlength=labels) if labels else [] for one in clients],
        dtype=np.int64,
    )
    sizes = np.array([len(one) for one in clients], dtype=np.int64)
    unassigned = len(train) - np.unique(np.concatenate(rows)).size
    return PartitionedData(data, clients, validation, sizes, counts, variances, unassigned, tests)


def _tests_of_clients(
    clients: list[Examples], share: float, streams: Streams
) -> tuple[list[Examples], list[Examples]]:
    """What each client trains and tests with: a random share of its examples, at least one of two.

    A client with a single example has none to test with. Without a share, nobody keeps any.
    """
    if not share:
        return clients, []
    split = []
    for client, own in enumerate(clients):
        order = streams.generator("client test", client).permutation(len(own))
        kept = min(max(round(share * len(own)), 1), max(len(own) - 1, 0))
        split.append((own.take(np.sort(order[kept:])), own.take(np.sort(order[:kept]))))
    return [train for train, _ in split], [test for _, test in split]


def _to_read(targets: NDArray[Any]) -> NDArray[Any]:
    """The targets as a read-only view, for a partition."""
    view = targets.view()
    view.flags.writeable = False
    return view


def _rows(given: Any, examples: int, clients: int, partition: Partition) -> list[IntArray]:
    """The rows of each client as the partition chose them; raises `PartMisbehaves`."""
    if not isinstance(given, Sequence | np.ndarray) or len(given) != clients:
        raise misbehaves(partition, "split", given, f"rows for each of {clients} clients")
    rows = [np.asarray(own) for own in given]
    for client, own in enumerate(rows):
        if own.ndim != 1 or (own.size and not np.issubdtype(own.dtype, np.integer)):
            accepted = "row numbers, one column of integers per client"
            raise misbehaves(partition, f"split: client {client}", own, accepted)
        if not own.size and is_users_own(partition):
            raise misbehaves(partition, f"split: client {client}", own, "at least one row")
    chosen = np.concatenate(rows)
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < examples):
        wrong = chosen[(chosen < 0) | (chosen >= examples)][0]
        raise misbehaves(partition, "split", wrong, f"rows from 0 to {examples - 1}")
    times = np.bincount(chosen)
    if times.max(initial=0) > 1 and not partition.with_replacement:
        row = int(times.argmax())
        raise PartMisbehaves(
            f"{named(partition, 'split')} assigned row {row} {times[row]} times, accepted: every"
            " row at most once; a class that intends this sets with_replacement = True"
        )
    return [np.ascontiguousarray(own, dtype=np.int64) for own in rows]


def _variances(scenario: Scenario, clients: int) -> Sequence[float]:
    """The variance of the noise on each client's inputs."""
    given = scenario.data.noise_variance
    if isinstance(given, GrowingNoise):
        return [given.largest * number / clients for number in range(1, clients + 1)]
    if given and len(given) != clients:
        raise ValueError(
            f"found {len(given)} values for {clients} clients, accepted: one for each, or none"
        )
    return given or (0.0,) * clients


def with_noise(examples: Examples, variance: float, rng: np.random.Generator) -> Examples:
    """`examples` with Gaussian noise of this variance on every input value, drawn once."""
    if variance == 0.0:
        return examples
    noise = rng.standard_normal(tuple(examples.inputs.shape), dtype=np.float32)
    inputs = examples.inputs
    if not inputs.is_floating_point():  # bytes would be rounded to whole numbers again
        inputs = inputs.to(torch.float32)
    scaled = torch.from_numpy(noise).to(inputs) * variance**0.5
    return Examples(inputs + scaled, examples.targets)


def shares_of_test_set(partitioned: PartitionedData, streams: Streams) -> list[Examples]:
    """Each client's share of the test set: for every label the same part as in training.

    With the client's noise on it. Raises ValueError for a regression, which has no labels.
    """
    test, counts = partitioned.data.test, partitioned.label_counts
    if not counts.shape[1]:
        raise ValueError("a regression's test set has no labels to divide it by")
    rows: list[list[IntArray]] = [[] for _ in partitioned.clients]
    rng = streams.generator("test shares")
    for label, held in enumerate(counts.T):
        own = rng.permutation(np.flatnonzero(test.targets.cpu().numpy() == label))
        ends = np.floor(np.cumsum(held) / max(held.sum(), 1) * own.size + 1e-9).astype(np.int64)
        for client, part in enumerate(np.split(own, ends)[:-1]):
            rows[client].append(part)
    return [
        with_noise(
            test.take(np.sort(np.concatenate(parts))),
            variance,
            streams.generator("test noise", client),
        )
        for client, (parts, variance) in enumerate(
            zip(rows, partitioned.noise_variance, strict=True)
        )
    ]
