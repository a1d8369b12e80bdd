"""Warnings of a run: the rules of docs/warnings.md, each a function.

`foreseen` applies before the run begins, `found` at its end; what the engine itself notices in
between is in `Run.warnings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np

from simfl.assembly.own_names import perhaps_misspelt
from simfl.assembly.simulation import Simulation
from simfl.assembly.unrepeatable import unrepeatable_calls
from simfl.common.contract import is_users_own
from simfl.common.notices import Notice, notice
from simfl.common.own_code import own_files_of
from simfl.common.part_name import called
from simfl.common.quantity import quantity
from simfl.decisions.asked import wanted_by
from simfl.decisions.base import QueryingSelection
from simfl.eventlog.kinds import KINDS
from simfl.measures.privacy import Privacy
from simfl.protocols.run import Run
from simfl.runs.absences import (
    ignored_absences,
    in_step,
    left_before,
    mostly_paused,
    nobody_left,
)
from simfl.runs.crowded_media import crowded_backhaul, crowded_channels
from simfl.runs.grid_hours import charged_at_other_hours
from simfl.runs.hardware_warnings import (
    beyond_calibration,
    implausible,
    undeclared_work,
    unverified,
)
from simfl.runs.learning_nothing import not_learning
from simfl.runs.personal_models import tested_where_trained, untrained_models
from simfl.runs.regressions import equal_targets, equal_targets_of_clients, perhaps_classes
from simfl.runs.target_warnings import target_at_once, target_missed
from simfl.runs.test_set import tested_on_training_data, unlike_test_inputs
from simfl.runs.unused_clients import always_dropped, edge_servers_left_out, never_took_part
from simfl.runs.wasted_rounds import (
    mostly_late,
    mostly_lost,
    unmerged_updates,
)
from simfl.runs.weak_chargers import weak_chargers
from simfl.system.codecs.base import encoded_bytes
from simfl.system.thermal import ThermalCpu
from simfl.system.topology import nearest_edge

MOST_NAMED = 4
"""The maximum number of parts, or labels, named in a sentence."""

MOST_UNEVALUATED = 0.1
"""The share of a run's versions that may come after the last evaluated one."""

MOST_LOOKED_AT = 10_000
"""The maximum number of clients whose nearest access point is determined."""

MOST_FAR = 0.25
"""Up to this share of clients may have a nearer access point than theirs, as random places
differ.
"""

PARTITION = ("data", "partition")

MOST_UNUSED = 0.05
"""Up to this share of the training rows may belong to no client, as by rounding."""

TINY_OWNERS = 0.5
"""From this many owners per training example on, `owner` may be a number of a record."""

LEAST_UNTRAINED = 0.01
"""Rare tokens of a text may be tested but not trained: they hardly change the accuracy."""

FEWEST_TESTED = 50
"""With fewer test examples the accuracy changes in steps of more than two points."""

LEAST_GROWTH = 0.1
"""A queue that grows by less than this share of what is owed counts as stable."""


def foreseen(simulation: Simulation) -> list[Notice]:
    """Warnings before a run begins."""
    rules: tuple[Callable[[Simulation], Iterable[Notice]], ...] = (
        unverified,
        implausible,
        beyond_calibration,
        undeclared_work,
        _unread,
        _perhaps_misspelt,
        _unrepeatable,
        _sized_only,
        _larger_messages,
        _out_of_memory,
        left_before,
        in_step,
        charged_at_other_hours,
        _far_access_points,
        _priced_for_more,
        _losses_without_noise,
        _selection_without_losses,
        _meaningless_delta,
        _doubtful_columns,
        _unused_rows,
        _untrained_classes,
        _labels_with_gaps,
        _one_class,
        perhaps_classes,
        unlike_test_inputs,
        tested_on_training_data,
        tested_where_trained,
        equal_targets,
        equal_targets_of_clients,
        _few_test_examples,
    )
    return [oddity for rule in rules for oddity in rule(simulation)]


def found(simulation: Simulation, one: Run) -> list[Notice]:
    """Warnings about a run that has ended."""
    rules: tuple[Callable[[Simulation, Run], Iterator[Notice]], ...] = (
        _no_version,
        _ended_by_itself,
        _unevaluated_end,
        target_missed,
        target_at_once,
        not_learning,
        never_took_part,
        untrained_models,
        edge_servers_left_out,
        mostly_lost,
        mostly_late,
        always_dropped,
        ignored_absences,
        mostly_paused,
        unmerged_updates,
        nobody_left,
        _batteries_stay_empty,
        weak_chargers,
        _heat_left_out,
        _saturated_queues,
        crowded_channels,
        crowded_backhaul,
    )
    return [oddity for rule in rules for oddity in rule(simulation, one)]


def drawn_from(generators: Collection[str]) -> list[Notice]:
    """Process-wide random generators, which do not depend on a scenario's seed."""
    if not generators:
        return []
    names = " and ".join(generators)
    message = (
        f"a part drew from or seeded generators that the whole process shares ({names}): they do"
        " not depend on the scenario's seed, so another run of it may differ"
    )
    return [notice("shared_generators", message, len(generators))]


def kept_between(names: Collection[str]) -> list[Notice]:
    """State that users' own parts keep in themselves, their classes or modules."""
    if not names:
        return []
    few, more = ", ".join(list(names)[:MOST_NAMED]), len(names) - MOST_NAMED
    message = (
        f"parts keep something between calls ({few}{f' and {more} more' if more > 0 else ''}):"
        " another run in the same process may begin with it, and a resumed run loses it"
    )
    return [notice("kept_state", message, len(names))]


def _ended_by_itself(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """A user's own protocol returned before its stop."""
    limit_s = simulation.scenario.stop.time_s
    in_time = limit_s is None or one.clock.now_s < limit_s
    if is_users_own(simulation.protocol) and one.publications.reason is None and in_time:
        versions = len(one.publications.rounds)
        message = (
            f"{called(simulation.protocol)} returned after {versions} versions, at"
            f" {one.clock.now_s:.4g} s, before anything in stop was reached"
        )
        yield notice("ended_by_itself", message)


def _unread(simulation: Simulation) -> list[Notice]:
    """Keys of the scenario that have no effect."""
    keys = simulation.unread_keys
    if not keys:
        return []
    (first, reason), others = keys[0], len(keys) - 1
    more = f"; {others} more are unread (`simfl validate` lists them)" if others else ""
    return [notice("unread_keys", f"nothing reads {first}: {reason}{more}", len(keys))]


def _perhaps_misspelt(simulation: Simulation) -> list[Notice]:
    """Names in the user's own classes that are nearly those of a method or attribute."""
    classes = {type(part) for part in simulation.parts.values() if is_users_own(part)}
    found = sorted({one for each in classes for one in perhaps_misspelt(each)})
    if not found:
        return []
    told = [f"{name} is nothing of {base}: did you mean {meant}?" for name, base, meant in found]
    return [notice("perhaps_misspelt", " ".join(told), len(found))]


def _unrepeatable(simulation: Simulation) -> list[Notice]:
    """Unseeded generators, and this machine's clock, in the user's own code."""
    parts = [one for one in simulation.parts.values() if is_users_own(one)]
    files = sorted({file for one in parts for file in own_files_of(one)})
    calls = [
        f"{file.name}:{line} {name}"
        for file in files
        for line, name in unrepeatable_calls(file.read_bytes())
    ]
    if not calls:
        return []
    few, more = ", ".join(calls[:MOST_NAMED]), len(calls) - MOST_NAMED
    message = (
        f"own parts call what no seed decides ({few}{f' and {more} more' if more > 0 else ''}): the"
        " same scenario and seed may give another run"
    )
    return [notice("unrepeatable", message, len(calls))]


def _sized_only(simulation: Simulation) -> list[Notice]:
    """Codecs that leave values exact, although they were not asked to."""
    codecs = {way: codec for way, codec in simulation.sized_only.items() if codec.values}
    if not codecs:
        return []
    ways = " and ".join(f"{way}_codec {called(codec)}" for way, codec in codecs.items())
    message = f"{ways} only sizes messages: it does not change what is learned"
    return [notice("sized_only", message, len(codecs))]


def _larger_messages(simulation: Simulation) -> list[Notice]:
    """Codecs that make a message of the whole model larger than without a codec."""
    raw_bytes, told = simulation.network.size_bytes, []
    world = simulation.world
    codecs = {"uplink_codec": world.uplink_codec, "downlink_codec": world.downlink_codec}
    for key, codec in codecs.items():
        wire_bytes = int(encoded_bytes(codec, [raw_bytes])[0])
        if wire_bytes > raw_bytes:
            told.append(
                f"{key} {called(codec)} makes a message of the model"
                f" {quantity(wire_bytes, 'B')} instead of {quantity(raw_bytes, 'B')}"
            )
    if not told:
        return []
    return [notice("larger_messages", "; ".join(told), len(told))]


def _out_of_memory(simulation: Simulation) -> list[Notice]:
    """Clients whose rounds fail because training does not fit into their memory."""
    lacking_bytes = simulation.world.lacking_bytes
    if lacking_bytes is None or not lacking_bytes.any():
        return []
    clients = np.flatnonzero(lacking_bytes)
    message = (
        f"{clients.size} of {lacking_bytes.size} clients lack memory for training, up to"
        f" {lacking_bytes.max():.3g} bytes: all their rounds fail"
    )
    return [notice("out_of_memory", message, clients.size)]


def _far_access_points(simulation: Simulation) -> list[Notice]:
    """Clients with a distance-dependent rate whose access points were assigned by number."""
    world = simulation.world
    by_distance = np.array([link.needs_places for link in world.links])[world.link_index]
    by_number = not simulation.protocol.hierarchical or (simulation.edge == world.home_edge).all()
    if not (by_distance.any() and by_number):
        return []
    clients = np.flatnonzero(by_distance)
    looked_at = "" if clients.size <= MOST_LOOKED_AT else "the first "
    clients = clients[:MOST_LOOKED_AT]
    place_m, point_m = world.position_m[clients], world.edge_position_m
    nearest, own = nearest_edge(place_m, point_m), world.home_edge[clients]
    far = int((nearest != own).sum())
    if far <= MOST_FAR * clients.size:
        return []
    own_m, nearest_m = (
        float(np.median(np.hypot(*(place_m - point_m[one]).T))) for one in (own, nearest)
    )
    message = (
        f"{far} of {looked_at}{clients.size} clients whose rate depends on distance have a nearer"
        f" access point than their own: the median distance is {own_m:.3g} m, to the nearest"
        f" {nearest_m:.3g} m"
    )
    return [notice("far_access_points", message, far)]


def _priced_for_more(simulation: Simulation) -> list[Notice]:
    """Prices for a fixed number of clients that exceeds the clients in any round."""
    stated = simulation.algorithm.priced_for
    if stated is None:
        return []
    of_edges = simulation.protocol.hierarchical
    sizes = np.bincount(simulation.edge) if of_edges else np.array([simulation.world.num_clients])
    selection = simulation.parts[("decisions", "selection")]
    most = max(wanted_by(selection, size) for size in sizes.tolist())
    if most >= stated:
        return []
    whose = "an edge server's round" if of_edges else "a round"
    message = f"messages and work are priced for {stated} clients; {whose} has at most {most}"
    return [notice("priced_for_more", message, stated - most)]


def _losses_without_noise(simulation: Simulation) -> list[Notice]:
    """Clients report exact losses although noise is meant to hide what they learned."""
    selection = simulation.parts[("decisions", "selection")]
    told = selection.needs_losses or isinstance(selection, QueryingSelection)
    if not told or not getattr(simulation.algorithm, "noise_multiplier", 0.0):
        return []
    message = (
        f"the selection {called(selection)} uses losses that clients report without noise: the"
        f" privacy of {called(simulation.algorithm)}, and any epsilon, covers only the updates"
    )
    return [notice("losses_without_noise", message)]


def _selection_without_losses(simulation: Simulation) -> list[Notice]:
    """A selection by losses in a run that learns nothing."""
    selection = simulation.parts[("decisions", "selection")]
    by_losses = selection.needs_losses or isinstance(selection, QueryingSelection)
    if not by_losses or simulation.algorithm.learns or simulation.protocol.brings_values:
        return []
    message = (
        f"{called(selection)} chooses by losses, and nothing is learned: it chooses without them,"
        " so who takes part, seconds and joules are not those of a run with training"
    )
    return [notice("selection_without_losses", message)]


def _meaningless_delta(simulation: Simulation) -> Iterator[Notice]:
    """Publishing all data of one client, drawn at random, is (0, 1 / n)-private."""
    clients = simulation.world.num_clients
    if not hasattr(simulation.algorithm, "noise_multiplier"):
        return  # the measure has nothing to report
    for keys, part in simulation.parts.items():
        if isinstance(part, Privacy) and part.delta >= 1.0 / clients:
            message = (
                f"epsilon is at delta {part.delta:g}, which is not below one over the {clients}"
                f" clients ({1.0 / clients:.3g}): publishing all data of one of them would be"
                " equally private"
            )
            place = simulation.scenario.where(*keys, "delta")
            yield notice("meaningless_delta", str(place.error("", "", message)))


def _doubtful_columns(simulation: Simulation) -> list[Notice]:
    """Columns of a table that are perhaps no features, or are not used as such."""
    doubts = simulation.partitioned.data.doubts
    return [notice(kind, message, count) for kind, (message, count) in doubts.items()]


def _unused_rows(simulation: Simulation) -> list[Notice]:
    """Training rows that a user's own partition, or one by tiny owners, gives to nobody."""
    unused, owners = simulation.partitioned.unassigned, simulation.partitioned.data.natural
    rows = unused + int(simulation.partitioned.num_examples.sum())
    message = f"{unused} of {rows} training examples belong to no client"
    if simulation.scenario.data.partition.name == "natural" and owners is not None:
        count = np.unique(owners).size
        message += f": of {count} owners with hardly more than one each, few take part"
        meant = count < TINY_OWNERS * owners.size
    else:
        meant = not is_users_own(simulation.parts.get(PARTITION))
    if meant or unused <= MOST_UNUSED * rows:
        return []
    return [notice("unused_rows", message, unused)]


def _untrained_classes(simulation: Simulation) -> list[Notice]:
    """Classes of the test set of which no client has an example."""
    held, test = simulation.partitioned.label_counts.sum(axis=0), simulation.partitioned.data.test
    if not held.size or not simulation.algorithm.learns:
        return []
    tested = np.bincount(test.targets.cpu().numpy(), minlength=held.size)
    absent = (held == 0) & (tested > 0)
    share = tested[absent].sum() / tested.sum()
    if share < LEAST_UNTRAINED:
        return []
    message = (
        f"no client has an example of {absent.sum()} of the {(tested > 0).sum()} classes that are"
        f" tested, {share:.0%} of the test examples: this part of the accuracy cannot be learned"
    )
    return [notice("untrained_classes", message, int(absent.sum()))]


def _labels_with_gaps(simulation: Simulation) -> list[Notice]:
    """Outputs of the model for classes without any example, in training or testing.

    The outputs of a model of tokens are its vocabulary, of which a text may need only a part.
    """
    held, data = simulation.partitioned.label_counts.sum(axis=0), simulation.partitioned.data
    of_tokens = getattr(simulation.parts[("model",)], "tokens", None) == data.outputs
    if not held.size or of_tokens or not simulation.algorithm.learns:
        return []
    tested = np.bincount(data.test.targets.cpu().numpy(), minlength=held.size)
    absent = np.flatnonzero((held == 0) & (tested == 0))
    if not absent.size:
        return []
    few = ", ".join(map(str, absent[:MOST_NAMED].tolist()))
    more = f" and {absent.size - MOST_NAMED:,} more" if absent.size > MOST_NAMED else ""
    message = (
        f"the model has {data.outputs:,} outputs, for the labels 0 to {data.outputs - 1:,}; no"
        f" client and no test example has the label {few}{more}"
    )
    return [notice("labels_with_gaps", message, absent.size)]


def _one_class(simulation: Simulation) -> list[Notice]:
    """Data in which all examples have the same label."""
    held, data = simulation.partitioned.label_counts.sum(axis=0), simulation.partitioned.data
    if not held.size or not simulation.algorithm.learns:
        return []
    tested = np.bincount(data.test.targets.cpu().numpy(), minlength=held.size)
    if np.count_nonzero(held + tested) != 1:
        return []
    message = "all examples have the same label: there is nothing to learn"
    return [notice("one_class", message, 1)]


def _few_test_examples(simulation: Simulation) -> list[Notice]:
    """A test set that is too small to distinguish accuracies."""
    data = simulation.partitioned.data
    examples = len(data.test)
    classified = data.task == "classification" and simulation.algorithm.learns
    if not classified or not 0 < examples < FEWEST_TESTED:
        return []
    # Half of Wilson's interval of one half: that of the accuracy below the run's figures.
    half_width = 1.96 / (2.0 * math.sqrt(examples + 1.96**2))
    message = (
        f"the test set has {examples} examples: the accuracy moves in steps of {1 / examples:.2g},"
        f" and is known to within {half_width:.2g} either way (95 %, Wilson, near 0.5)"
    )
    return [notice("few_test_examples", message, examples)]


def _no_version(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """The run ended before any version was published."""
    if one.publications.latest is None:
        now_s = one.clock.now_s
        message = f"no version was published in {now_s:.4g} s: rounds.parquet has no row"
        yield notice("no_version", message)


def _unevaluated_end(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """The accuracy is that of an earlier version than the last, whose seconds and joules count."""
    rounds, simfl_evaluates = one.publications.rounds, not simulation.protocol.brings_values
    if not rounds or not simulation.algorithm.learns or not simfl_evaluates:
        return
    known = [row for row in rounds if row["loss"] is not None]
    last, after = rounds[-1], len(rounds) - (known[-1]["version"] if known else 0)
    if after <= MOST_UNEVALUATED * len(rounds):
        return
    every = f"evaluate.every is {simulation.scenario.evaluate.every}"
    message = f"no version was evaluated: {every}, and the last version is {last['version']}"
    if known:
        message = (
            f"the last evaluated version is {known[-1]['version']}, at {known[-1]['time_s']:.4g} s,"
            f" and the last one {last['version']}, at {last['time_s']:.4g} s: {every}"
        )
    yield notice("unevaluated_end", message, after)


def _batteries_stay_empty(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Clients whose batteries are empty and are not charged enough."""
    gone = one.observations.batteries_stay_empty(one.clock.now_s)
    if gone:
        message = (
            f"{gone} of {simulation.world.num_clients} clients have batteries too low to take part,"
            " and nothing charges them enough: they never come back"
        )
        yield notice("batteries_stay_empty", message, gone)


def _heat_left_out(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """Devices that throttle, and would be hot at the end from their average power.

    Each of several computations is simulated from a cool start. A radio's tail does not count.
    """
    world, accounts, now_s = simulation.world, one.accounts, one.clock.now_s
    computing = slice(world.num_clients), list(KINDS).index("compute")
    several = one.observations.participations > 1
    hot_c: dict[int, float] = {}
    for index, device in enumerate(world.devices):
        processor = device.processor
        clients = np.flatnonzero(several & (world.device_index == index))
        if not isinstance(processor, ThermalCpu) or not clients.size:
            continue
        resting_w = world.power_idle_w + world.messenger.client_radios.tail_w
        computed_j = accounts.joules[computing] - resting_w * accounts.seconds[computing]
        reached_c = processor.reaches_c(computed_j[clients] / now_s, now_s)
        hot = reached_c > processor.temperature_hot_c
        hot_c |= dict(zip(clients[hot].tolist(), reached_c[hot].tolist(), strict=True))
    if hot_c:
        worst = max(hot_c, key=lambda client: hot_c[client])
        message = (
            f"{len(hot_c)} clients throttle too little: each computation starts cool,"
            f" but at its average power a {world.devices[world.device_index[worst]].name}"
            f" would have {hot_c[worst]:.0f} degrees C after {now_s:.3g} s"
        )
        yield notice("heat_left_out", message, len(hot_c))


def _saturated_queues(simulation: Simulation, one: Run) -> Iterator[Notice]:
    """The longest virtual queue keeps growing, by the slope that the certificate computes."""
    owed, picked = one.owed
    if not picked.size or not owed.any():
        return
    from simfl.measures.virtual_queues import Queues, growth, rebuilt  # pandas and scipy: heavy

    queues = Queues(rebuilt(owed, picked), owed, math.nan)
    grows = growth(queues)
    if grows.low > 0.0 and grows.of_owed > LEAST_GROWTH:
        behind = np.flatnonzero(queues.lengths[-1] == queues.longest[-1])
        message = (
            f"the participation owed to edge servers keeps growing: edge server {behind[0]} waits"
            f" for {queues.longest[-1]:.3g} rounds, {grows.of_owed:.0%} of what it is owed"
        )
        yield notice("saturated_queues", message, int((queues.lengths[-1] > 1.0).sum()))
