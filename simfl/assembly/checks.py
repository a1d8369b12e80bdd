"""Checks that a scenario's parts fit together; refusals name the reason and the key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from simfl.algorithms.base import Algorithm, Trait
from simfl.common.arrays import IntArray
from simfl.common.contract import PartMisbehaves
from simfl.common.part_name import part_name
from simfl.common.suggestion import nearest
from simfl.decisions.base import QueryingSelection, Selection
from simfl.decisions.sampling import CountedSelection
from simfl.learning.datasets.base import Examples
from simfl.learning.devices import PRECISIONS, ComputeDevice, found_device
from simfl.learning.network import Network
from simfl.learning.parameters import all_finite
from simfl.learning.workers.on_ray import RayWorkers
from simfl.measures.base import ModelMeasure
from simfl.protocols.base import Protocol
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.protocols.wait_for import WaitFor
from simfl.scenario.scenario import Keys, Scenario
from simfl.scenario.yaml_source.error import ScenarioError, show

LEARNED_CRITERIA = ("accuracy", "loss", "plateau")


def check_trainer(name: str, known: Collection[str]) -> None:
    """Raises `ScenarioError` unless `name` is one of the trainers."""
    if name not in known:
        raise _option_error("--trainer", name, known)


def check_workers(workers: int, trainer: str, device: str) -> None:
    """Raises `ScenarioError` if worker processes cannot be used."""
    if workers == 0:
        return
    if workers < 0:
        message = f"found {workers}, accepted: 0 (train in this process) or more"
    elif trainer != "batched":
        message = f"found {workers}, but the {trainer} trainer works alone; accepted: 0"
    elif device != "cpu":
        message = f"found {workers}, but workers share a CPU's cores; on {device} accepted: 0"
    else:
        return
    raise ScenarioError("--workers", None, "", str(workers), "0", message)


def check_ray(ray: RayWorkers, trainer: str, device: str) -> None:
    """Raises `ScenarioError` for impossible options of a cluster's workers."""
    if trainer != "batched":
        message = f"found {trainer!r}, but workers train with the batched one; accepted: batched"
        raise ScenarioError("--trainer", None, "", trainer, "batched", message)
    if device not in ("auto", ray.device):
        need = "needs --gpus-per-worker" if device == "cuda" else "does not use --gpus-per-worker"
        if device.startswith("cuda:"):
            need = "Ray decides"
        message = f"found {device!r}, which {need} with --engine ray; accepted: auto, {ray.device}"
        raise ScenarioError("--device", None, "", device, f"auto, {ray.device}", message)
    for option, amount in (
        ("--cpus-per-worker", ray.cpus_per_worker),
        ("--gpus-per-worker", ray.gpus_per_worker),
    ):
        if not amount >= 0:
            message = f"found {amount:g}, accepted: 0 or more"
            raise ScenarioError(option, None, "", f"{amount:g}", "0 or more", message)
    if ray.gpus_per_worker > 1 and not float(ray.gpus_per_worker).is_integer():
        message = f"found {ray.gpus_per_worker:g}, accepted: a share of one GPU, or whole ones"
        found = f"{ray.gpus_per_worker:g}"
        raise ScenarioError("--gpus-per-worker", None, "", found, "at most 1, or whole", message)
    if not ray.cpus_per_worker + ray.gpus_per_worker > 0:
        message = "found 0, without GPUs; accepted: a worker must occupy CPUs or GPUs"
        raise ScenarioError("--cpus-per-worker", None, "", "0", "more than 0", message)
    if not ray.give_up_s > 0:
        message = f"found {ray.give_up_s:g}, accepted: more than 0 seconds"
        raise ScenarioError("--give-up-s", None, "", f"{ray.give_up_s:g}", "more than 0", message)


def compute_device(asked: str | ComputeDevice) -> ComputeDevice:
    """The device named by --device; raises `ScenarioError` if it is unknown or absent."""
    if isinstance(asked, ComputeDevice):
        return asked
    try:
        return found_device(asked)
    except ValueError as error:
        raise ScenarioError("--device", None, "", show(asked), "", str(error)) from error


def check_precision(scenario: Scenario) -> None:
    """Raises `ScenarioError` for a precision that does not fit the dtype."""
    if scenario.precision != "float32" and scenario.dtype == "float64":
        message = (
            f"found {show(scenario.precision)}, which is for products of float32, with dtype"
            " float64; accepted: float32 (it has no effect there)"
        )
        raise scenario.where("precision").error(scenario.precision, "float32", message)


def check_precision_on(scenario: Scenario, device: ComputeDevice | type[ComputeDevice]) -> None:
    """Raises `ScenarioError` for a precision that the device does not support."""
    if scenario.precision not in device.precisions:
        accepted = ", ".join(device.precisions)
        message = (
            f"found {show(scenario.precision)}, which the device {device.kind} does not support;"
            f" accepted there: {accepted} (--device cuda: {', '.join(PRECISIONS)})"
        )
        raise scenario.where("precision").error(scenario.precision, accepted, message)


def _option_error(option: str, found: str, known: Collection[str]) -> ScenarioError:
    accepted = ", ".join(known)
    message = f"found {show(found)}{nearest(found, known) or ';'} accepted: {accepted}"
    return ScenarioError(option, None, "", show(found), accepted, message)


def check_pair(scenario: Scenario, algorithm: Algorithm, protocol: Protocol) -> None:
    """Raises `ScenarioError` if the algorithm refuses the protocol, with its reason.

    It may refuse a property of the protocol, or need more updates than the protocol ever collects.
    A refusal due to late updates only (`patience`) is reported at their key.
    """
    name, one = (part_name(type(part)) for part in (protocol, algorithm))
    _check_refusals(scenario, algorithm)
    refused = {
        trait: reason for trait, reason in algorithm.refusals.items() if getattr(protocol, trait)
    }
    late: str | None = None
    if protocol.carries_over and not protocol.overlapping:
        late = refused.pop("takes_stale_updates", None)
    reason = next(iter(refused.values()), None)
    most, least = protocol.most_updates, algorithm.min_updates
    if reason is None and most is not None and most < least:
        reason = f"it needs at least {least} updates to aggregate, but gets {most} at a time"
    if reason is not None:
        raise scenario.where("protocol").error(name, "", f"{one} cannot run under {name}: {reason}")
    if late is not None:
        message = f"{one} accepts no late updates (carry_over): {late}"
        raise scenario.where("protocol", "patience", "late").error("carry_over", "", message)


def _check_refusals(scenario: Scenario, algorithm: Algorithm) -> None:
    """Raises `ScenarioError` for refusals of unknown traits, such as a protocol's name."""
    known = get_args(Trait)
    for trait in algorithm.refusals:
        if trait not in known:
            name = part_name(type(algorithm))
            message = f"{name}.refusals names '{trait}', accepted: {', '.join(known)}"
            raise scenario.where("algorithm").error(name, "", message)


def check_updates(
    scenario: Scenario,
    algorithm: Algorithm,
    protocol: Protocol,
    selection: Selection,
    edge: IntArray,
) -> None:
    """Raises `ScenarioError` if a server can never collect enough updates.

    `edge` is each client's edge server. Does not check how many are available at any time.
    """
    least = algorithm.min_updates
    needs = f"{part_name(type(algorithm))} needs at least {least} updates to aggregate"
    clients = np.bincount(edge) if protocol.hierarchical else np.array([edge.size])
    few = np.flatnonzero((clients > 0) & (clients < least))
    if few.size and not protocol.overlapping:
        server = f"edge server {few[0]}" if protocol.hierarchical else "the server"
        message = f"{needs}, but {server} has too few clients: {clients[few[0]]}"
        raise scenario.where("population").error(str(clients[few[0]]), "", message)
    if isinstance(selection, CountedSelection) and not protocol.overlapping:
        wanted = selection.wanted(int(clients[clients > 0].min()))
        if wanted < least:
            key = "share" if selection.count is None else "count"
            message = f"{needs}, but {wanted} are selected at a time"
            where = scenario.where("decisions", "selection", key)
            raise where.error(str(getattr(selection, key)), "", message)


def check_selection(scenario: Scenario, selection: Selection, protocol: Protocol) -> None:
    """Raises `ScenarioError` for a selection that cannot choose under this protocol."""
    if isinstance(selection, QueryingSelection) and protocol.overlapping:
        one, other = (part_name(type(part)) for part in (selection, protocol))
        raise scenario.where("decisions", "selection").error(
            one,
            "",
            f"{one} queries clients and waits for their answers before it chooses, but {other}"
            " chooses at once whenever a client is free; accepted: a protocol with rounds, or a"
            " selection without queries",
        )


def check_count(
    scenario: Scenario, selection: Selection, protocol: Protocol, edge: IntArray
) -> None:
    """Raises `ScenarioError` if more clients are selected, waited for or in flight than there are.

    Also if a round of some server needs more updates than it has or selects clients. `edge` is each
    client's edge server.
    """
    most, whose = edge.size, "the number of clients"
    fewest, who = most, whose
    if protocol.hierarchical:
        sizes = np.bincount(edge)
        most, whose = int(sizes.max()), "the most clients of an edge server"
        fewest, who = int(sizes[sizes > 0].min()), "the fewest clients of an edge server"
    counts: dict[Keys, int | None] = {}
    if isinstance(selection, CountedSelection):
        counts["decisions", "selection", "count"] = selection.count
    wait_for = getattr(protocol, "wait_for", None)
    if isinstance(wait_for, WaitFor):
        counts["protocol", "wait_for", "clients"] = wait_for.clients
    in_flight = getattr(protocol, "concurrency", None)
    if isinstance(in_flight, int) and not protocol.hierarchical:
        counts["protocol", "concurrency"] = in_flight
    patience = getattr(protocol, "patience", None)
    for keys, count in counts.items():
        if count is not None and count > most:
            raise scenario.where(*keys).error(str(count), f"at most {most}, {whose}")
    if not isinstance(patience, DeadlinePolicy) or patience.least_updates is None:
        return
    least = patience.least_updates
    where = scenario.where("protocol", "patience", "least_updates")
    if fewest < least:
        raise where.error(str(least), f"at most {fewest}, {who}")
    if isinstance(selection, CountedSelection):
        wanted = selection.wanted(fewest)
        if wanted < least:
            raise where.error(str(least), f"at most {wanted}, the clients selected for a round")
        waited_for = patience.wanted(wanted)
        if waited_for < least:
            of_these = f"as over_selection waits for so many of {wanted}"
            raise where.error(str(least), f"at most {waited_for}, {of_these}")


def check_needs(scenario: Scenario, algorithm: Algorithm, network: Network) -> None:
    """Raises `ScenarioError` if validation data, classes or a suitable model are missing."""
    name = part_name(type(algorithm))
    if algorithm.needs_validation and not scenario.data.validation_share:
        raise _no_validation(scenario, f"{name} evaluates models on the server's own data")
    given = scenario.algorithm.contributions
    found_out = given is None or given.accuracy is None or algorithm.needs_validation
    if algorithm.needs_classes and found_out and network.objective.task == "regression":
        message = f"{name} uses shares of correct answers, which a regression does not have"
        raise scenario.where("data").error(scenario.data.name, "a classification", message)
    try:
        algorithm.check_network(network)
    except ValueError as error:
        raise scenario.where("model").error(
            scenario.model.name, "", f"{name} cannot use the model {scenario.model.name}: {error}"
        ) from error


def _no_validation(scenario: Scenario, reason: str) -> ScenarioError:
    accepted = "more than 0, the share of the training data that the server keeps"
    return scenario.where("data", "validation_share").error(
        "0", "", f"found 0, but {reason}; accepted: {accepted}"
    )


def check_partial(scenario: Scenario, algorithm: Algorithm) -> None:
    """Raises `ScenarioError` if clients do part of work of which the algorithm needs all."""
    if algorithm.local.partial is not None and algorithm.whole_work:
        name = part_name(type(algorithm))
        message = f"{name} has clients do all of their local work: {algorithm.whole_work}"
        raise scenario.where("algorithm", "local", "partial").error(name, "null", message)


def check_batches(
    scenario: Scenario, algorithm: Algorithm, network: Network, num_examples: IntArray
) -> None:
    """Raises `ScenarioError` if a client's data give no batch that the model can learn from."""
    if not algorithm.learns:
        return
    smallest, accepted = network.smallest_batch, "at least 1"
    if smallest > 1:
        accepted = f"at least {smallest}: BatchNorm needs the variance of several examples"
    few, batch_size = np.flatnonzero(num_examples < smallest), algorithm.local.batch_size
    if few.size:
        found = f"{num_examples[few[0]]} training examples for client {few[0]}"
        raise scenario.where("data", "partition").error(found, accepted)
    if batch_size is not None and batch_size < smallest:
        raise scenario.where("algorithm", "local", "batch_size").error(str(batch_size), accepted)


def check_stop(
    scenario: Scenario, algorithm: Algorithm, protocol: Protocol, network: Network
) -> None:
    """Raises `ScenarioError` for an end that no run of this algorithm can reach."""
    stop, name = scenario.stop, part_name(type(algorithm))
    for key in LEARNED_CRITERIA:
        value = getattr(stop, key)
        if value is not None and not (algorithm.learns or protocol.brings_values):
            reason = (
                f"algorithm {name} learns nothing, so there is no {key} to reach; accepted:"
                " versions, updates, time_s, energy_j, bytes"
            )
            raise scenario.where("stop", key).error(key, "", reason)
    given = {key for key in type(stop).model_fields if getattr(stop, key) is not None}
    if given == {"bytes"} and _sends_nothing(algorithm, network):
        reason = f"algorithm {name} sends nothing, so the run would never end"
        raise scenario.where("stop", "bytes").error("bytes", "", reason)


def check_measures(scenario: Scenario, algorithm: Algorithm, parts: Mapping[Keys, Any]) -> None:
    """Raises `ScenarioError` for a measure of the model if nothing is learned, and for one of the
    validation set without such a set.

    And for a second measure with the same name, because figures are kept by this name.
    """
    seen: set[str] = set()
    for keys, part in parts.items():
        if keys[:2] == ("evaluate", "measures"):
            name = part_name(type(part))
            if name in seen:
                reason = f"a second measure {name}, accepted: one per name; a class of your own"
                reason += " that extends it has another name"
                raise scenario.where(*keys).error(name, "", reason)
            seen.add(name)
            if part.needs_validation and not scenario.data.validation_share:
                raise _no_validation(scenario, f"{name} reads accuracies on the server's own data")
        if isinstance(part, ModelMeasure) and not algorithm.learns:
            name, one = part_name(type(algorithm)), part_name(type(part))
            reason = f"{one} needs the final model, but algorithm {name} learns none"
            raise scenario.where(*keys).error(one, "", reason)


def _sends_nothing(algorithm: Algorithm, network: Network) -> bool:
    if algorithm.learned_price:
        return False
    prices = (algorithm.price(network, 0, 0), algorithm.tier_price(network, 0))
    return not any(one.down_bytes or one.up_bytes for one in prices)


def check_tokens(model: Any, examples: Iterable[Examples]) -> None:
    """Raises ValueError if inputs hold a token outside a model's table of `tokens`."""
    tokens = getattr(model, "tokens", None)
    if not isinstance(tokens, int):
        return
    for one in examples:
        if not len(one):
            continue
        lowest, highest = (float(end) for end in torch.aminmax(one.inputs))
        if lowest < 0 or highest >= tokens:
            wrong = lowest if lowest < 0 else highest
            raise ValueError(
                f"tokens: found {tokens}, but the data have the token {wrong:g}; accepted: more"
                " than the largest token, and data of tokens from 0 on"
            )
        if one.inputs.is_floating_point() and not bool((one.inputs % 1 == 0).all()):
            raise ValueError(
                f"tokens: found {tokens}, but the data have numbers that are not whole (noise on"
                " inputs, for example); accepted: tokens, or null for numbers"
            )


def _has_gradient(network: Network, weights: Mapping[str, Tensor], examples: Tensor) -> bool:
    """Whether the model's outputs in training depend on anything trainable."""
    leaves = {name: weights[name].clone().requires_grad_() for name in network.trainable_names}
    with torch.enable_grad():
        outputs, _ = network.call({**weights, **leaves}, examples.clone(), training=True)
    return outputs.requires_grad or not leaves


def check_model(network: Network, outputs: int) -> None:
    """Raises ValueError unless examples pass through the model and give `outputs` values each."""
    examples = torch.zeros(2, *network.input_shape, dtype=network.dtype, device=network.device)
    shape = tuple(network.input_shape)
    try:
        weights, kept = network.initial(0), network.initial(0)
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            given = [network.call(weights, examples, training=one)[0] for one in (False, True)]
            changed = examples._version  # counts in-place changes
            learns = _has_gradient(network, weights, examples)
    except PartMisbehaves as error:
        if error.__cause__ is None:  # it returned something invalid
            raise
        raise ValueError(f"{error} (examples of shape {shape} do not pass through)") from error
    except (Exception, SystemExit) as error:  # the user's module may raise anything, or exit
        cause = f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}"
        raise ValueError(f"examples of shape {shape} do not pass through: {cause}") from error
    for name, tensor in weights.items():
        if not all_finite({name: kept[name]}):
            raise ValueError(f"its initial weights {name} are not finite")
        if not torch.equal(tensor, kept[name]):
            raise ValueError(f"its forward pass changes its weights {name} in place")
    if changed:
        raise ValueError("its forward pass changes its inputs in place, and with them the data set")
    if not learns:
        raise ValueError("its outputs have no gradient: its forward pass leaves torch, or detaches")
    wanted = (2, outputs)
    for found in given:
        if found.dtype != network.dtype:
            raise ValueError(f"gives {found.dtype}, accepted: a tensor of {network.dtype}")
        if tuple(found.shape) != wanted:
            raise ValueError(
                f"gives {tuple(found.shape)} for 2 examples of shape {shape}, accepted: {wanted}, "
                f"one value for each of {outputs} outputs"
            )
