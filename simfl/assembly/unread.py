"""Keys of a scenario that nothing reads: the run does not depend on their values.

Parts declare what they read (`Protocol.hierarchical` and `asks`, `Selection.looks_at`,
`Availability.leaves` and so on), and which of their own keys are idle because of others
(`idle_keys`). Keys for which a user's own part declares nothing count as read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simfl.algorithms.base import Algorithm
from simfl.assembly.coding import DIRECTIONS
from simfl.assembly.groups import ALLOCATION, AVAILABILITY, in_use, own_parts
from simfl.common.contract import at_work, is_users_own
from simfl.common.part_name import part_name
from simfl.protocols.base import Protocol
from simfl.scenario.scenario import Keys, Scenario
from simfl.scenario.validation.keys import parameters
from simfl.scenario.yaml_source.source import blame
from simfl.system.codecs.base import ABOUT_VALUES
from simfl.system.populations.base import Population
from simfl.system.sharing.max_min import MaxMin
from simfl.system.world import World

ESTIMATES = ("estimated_duration_s", "edge_latency_s")
"""Columns of a client's view that come from the estimator."""

Found = Iterator[tuple[Keys, str]]


@dataclass(frozen=True)
class Composition:
    """A scenario's parts and machines, which decide which keys are read."""

    scenario: Scenario
    parts: Mapping[Keys, Any]
    world: World

    @property
    def protocol(self) -> Protocol:
        """The protocol."""
        protocol: Protocol = self.parts[("protocol",)]
        return protocol

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm."""
        algorithm: Algorithm = self.parts[("algorithm",)]
        return algorithm

    @property
    def population(self) -> Population:
        """The population."""
        population: Population = self.parts[("population",)]
        return population

    @property
    def asks(self) -> frozenset[str]:
        """The rules that the protocol uses."""
        asked: frozenset[str] = _said(self.protocol, "asks", self.protocol.may_ask)
        return asked

    @property
    def has_examples(self) -> bool:
        """Whether the data have examples, and not only sizes."""
        if self.algorithm.learns:
            return True
        dataset = self.parts[("data",)]
        with blame(self.scenario.where("data"), dataset):
            return dataset.sizes(self.world.num_clients) is None

    def somebody_looks_at(self, *columns: str) -> bool:
        """Whether the selection or the allocation may read one of these columns."""
        rules = [self.parts[("decisions", "selection")], *in_use(self.parts, ALLOCATION)]
        for rule in rules:
            looks_at = _said(rule, "looks_at", None)
            if looks_at is None or looks_at.intersection(columns):
                return True
        return False


def unread_keys(scenario: Scenario, parts: Mapping[Keys, Any], world: World) -> dict[Keys, str]:
    """All key paths that nothing reads, each with the reason, also those not in the scenario.

    Keys below such a path are not read either.
    """
    one = Composition(scenario, parts, world)
    found: dict[Keys, str] = {}
    rules = (_own, _rules, _groups, _hours, _tiers, _places, _media, _troubles, _work, _codecs)
    for rule in (*rules, _learning):
        for keys, reason in rule(one):
            found.setdefault(keys, reason)
    return found


def held(scenario: Scenario, found: Mapping[Keys, str]) -> dict[Keys, str]:
    """The unread keys in the scenario's own content."""
    return {keys: reason for keys, reason in found.items() if scenario.holds(keys)}


def told(
    scenario: Scenario, parts: Mapping[Keys, Any], found: Mapping[Keys, str]
) -> dict[Keys, str]:
    """The unread keys to report to the user: all except a default null.

    A default null means the same as leaving the key out.
    """
    return {
        keys: reason
        for keys, reason in found.items()
        if not (scenario.is_null(keys) and _null_by_default(parts, keys))
    }


def _null_by_default(parts: Mapping[Keys, Any], keys: Keys) -> bool:
    """Whether null is the default of the parts' key at this path."""
    depth = next((end for end in range(len(keys) - 1, 0, -1) if keys[:end] in parts), None)
    if depth is None:
        return False
    owner, (*above, last) = parts[keys[:depth]], keys[depth:]
    for step in above:
        owner = owner[step] if isinstance(step, int) else getattr(owner, step, None)
    return any(one.name == last and one.default is None for one in parameters(type(owner))[0])


def refuse_named(scenario: Scenario, found: Mapping[Keys, str]) -> None:
    """Raises `ScenarioError` if an override (`--set`) names a key that nothing reads."""
    for named in scenario.where().source.origins:
        reason = reason_of(named, found)
        if reason is not None:
            raise scenario.where(*named).error("", "", f"nothing reads it: {reason}")


def reason_of(named: Keys, found: Mapping[Keys, str]) -> str | None:
    """Why nothing reads the key `named`; None: something reads it or a key below it."""
    above = (named[:length] for length in range(len(named), 0, -1))
    return next((found[keys] for keys in above if keys in found), None)


def dotted(found: Mapping[Keys, str]) -> tuple[tuple[str, str], ...]:
    """Key paths as text, each with the reason."""
    return tuple((".".join(map(str, keys)), reason) for keys, reason in found.items())


def _said(part: Any, name: str, otherwise: Any) -> Any:
    """A part's declaration; `otherwise` for a user's class that only inherits it."""
    if is_users_own(part) and name not in vars(type(part)):
        return otherwise
    return getattr(part, name)


def _named(part: Any) -> str:
    return part_name(type(part))


def _own(one: Composition) -> Found:
    """Keys that are idle because of other keys of the same part."""
    for section, part in one.parts.items():
        with at_work(part, "idle_keys"):
            idle: Mapping[str, str] = _said(part, "idle_keys", {}) if _has_idle(part) else {}
        for key, reason in idle.items():
            yield (*section, *key.split(".")), reason


def _has_idle(part: Any) -> bool:
    return hasattr(type(part), "idle_keys")


def _rules(one: Composition) -> Found:
    """Decisions that the protocol does not use."""
    name = _named(one.protocol)
    for kind in ("association", "scheduling", "staleness"):
        if kind not in one.asks:
            yield ("decisions", kind), f"{_WHY[kind].format(name)}"
    # Every scheduling event logs the estimates, whatever its rule uses.
    if "scheduling" not in one.asks and not one.somebody_looks_at(*ESTIMATES):
        reason = "nothing is scheduled, and neither selection nor allocation uses estimates"
        yield ("decisions", "estimator"), reason


_WHY = {
    "association": "{} has no edge servers to associate clients with",
    "scheduling": "{} schedules no edge servers",
    "staleness": "{}, with these settings, takes no late updates",
}


def _groups(one: Composition) -> Found:
    """Common parts that no group uses, and groups without parts or factors of their own."""
    for common in (AVAILABILITY, ALLOCATION):
        if not any(part is one.parts[common] for part in in_use(one.parts, common)):
            yield common, "every group has its own"
        own = own_parts(one.parts, str(common[-1]))
        for place in range(len(getattr(one.population, "groups", ()))):
            if place not in own:
                keys = ("population", "groups", place, common[-1])
                yield keys, f"the group uses {'.'.join(map(str, common))}"
    for place, group in enumerate(getattr(one.population, "groups", ())):
        for key in ("uplink_factor", "downlink_factor", "speed_factor"):
            if getattr(group, key, 1.0) is None:
                yield ("population", "groups", place, key), "null: its profile's own figure is used"
        yield from _batteries(one, place, group)


def _batteries(one: Composition, place: int, group: Any) -> Found:
    """Batteries that a group lacks."""
    keys = ("population", "groups", place, "batteries")
    if getattr(group, "batteries", 1) is None:
        yield keys, "null: the group uses population.batteries"
    elif hasattr(group, "batteries") and not _has_battery(one.world, group):
        yield keys, f"{group.device} has no battery"


def _has_battery(world: World, group: Any) -> bool:
    name = group.device if group.mode is None else f"{group.device}.{group.mode}"
    return any(device.battery_j is not None for device in world.devices if device.name == name)


def _hours(one: Composition) -> Found:
    """The time of day at which a run begins, if nothing depends on it."""
    models = in_use(one.parts, AVAILABILITY)
    by_hour = any(model.begun(0.0, None) is not model for model in models)
    if is_users_own(one.population) or one.world.electricity is not None or by_hour:
        return
    if not one.population.has_batteries or _without_batteries(one.world):
        yield (
            ("population", "start_time"),
            "no region, battery or availability here depends on the time of day",
        )


def _without_batteries(world: World) -> bool:
    return all(device.battery_j is None for device in world.devices)


def _tiers(one: Composition) -> Found:
    """Edge servers, and what lies behind them, if clients belong to the cloud."""
    name = _named(one.protocol)
    if one.protocol.hierarchical:
        reason = f"{name} has edge servers at the access points, and the cloud behind the backhaul"
        yield ("population", "server_behind"), reason
        return
    reason = f"{name} has no edge servers: clients send to the cloud"
    if one.world.behind_backhaul:
        uncut = f"{reason} over a backhaul that never fails; faults.cloud_link is for edge servers"
        yield ("population", "faults", "cloud_link"), uncut
    beyond = (*one.population.backhaul_keys, "backhaul_sharing")
    for key in one.population.tier_keys:
        yield ("population", *key.split(".")), reason
    if not one.world.behind_backhaul:
        hint = ", over their own link only, unless server_behind is backhaul"
        for key in beyond:
            yield ("population", *key.split(".")), reason + hint
    of_users = any(map(is_users_own, (one.population, one.protocol)))
    by_partition = one.has_examples and _said(
        one.parts[("data", "partition")], "looks_at_edges", True
    )
    on_air = one.world.access_sharing.contended or _are_placed(one)
    if not (of_users or by_partition or on_air or one.somebody_looks_at("edge")):
        at_points = f"{reason}, and share nothing at access points"
        yield ("population", "edges"), at_points


def _are_placed(one: Composition) -> bool:
    return any(link.needs_places for link in one.world.links)


def _places(one: Composition) -> Found:
    """Positions, if nothing uses distances."""
    association = one.parts[("decisions", "association")]
    by_place = "association" in one.asks and _said(association, "looks_at_places", True)
    looked_at = by_place or _are_placed(one) or one.somebody_looks_at("position_m")
    if not looked_at and not is_users_own(one.population):
        yield ("population", "side_m"), "no link and no decision uses distances"


def _media(one: Composition) -> Found:
    """Keys about sharing, if nothing is shared."""
    sharing = one.world.access_sharing
    name = _named(sharing)
    yield from _max_min(one)
    for place in range(len(getattr(one.population, "groups", ()))):
        group = ("population", "groups", place)
        if not _said(sharing, "weighs", True):
            yield (*group, "band_share"), f"{name} does not read shares of a band"
        if not sharing.contended or sharing.spans_points:
            yield (*group, "medium"), f"{name} has no media of access points"


def _max_min(one: Composition) -> Found:
    """The capacities of `max_min` that do not apply."""
    beyond, sharing = ("population", "backhaul_sharing"), ("population", "access_sharing")
    if type(one.parts.get(beyond)) is MaxMin:
        yield (*beyond, "access_bps"), "backhaul_sharing divides backhaul_bps, whoever crosses it"
    at_edges = one.protocol.hierarchical and not is_users_own(one.protocol)
    if type(one.parts.get(sharing)) is MaxMin and at_edges:
        reason = f"with {_named(one.protocol)} clients send to edge servers at the access points"
        yield (*sharing, "backhaul_bps"), reason


def _troubles(one: Composition) -> Found:
    """Losses, absences and batteries that cannot occur."""
    population, world = one.population, one.world
    if not any(_said(model, "leaves", True) for model in in_use(one.parts, AVAILABILITY)):
        yield ("population", "leaving"), "no client ever leaves"
    if _without_batteries(world):
        yield ("population", "batteries"), "no device has a battery"
    elif all(getattr(group, "batteries", None) for group in getattr(population, "groups", (None,))):
        yield ("population", "batteries"), "every group has its own"
    if population.memory is None:
        yield ("population", "memory"), "no client runs out of memory: the run would be refused"
    yield from _nothing_to_notice(one)
    loss, section = population.message_loss, ("population", "message_loss")
    crossed = one.protocol.hierarchical or world.behind_backhaul
    links = [*world.links, world.backhaul] if crossed else world.links
    if loss is None:
        return
    if loss.probability == 0:
        for key in ("timeout_s", "attempts_max", "backoff"):
            yield (*section, key), "with probability 0 no message is lost"
    elif loss.probability is None and not any(link.loss_probability for link in links):
        yield section, "no link model loses messages, and no probability is given"


def _nothing_to_notice(one: Composition) -> Found:
    """When no client round can end without an update, and no dispatch without a report."""
    population = one.population
    leaves = any(_said(model, "leaves", True) for model in in_use(one.parts, AVAILABILITY))
    may_break_off = (
        (leaves and population.leaving != "ignore")
        or population.faults.clients is not None
        or (population.has_batteries and not _without_batteries(one.world))
        or (population.message_loss is not None and population.message_loss.probability != 0)
        or (one.protocol.gives_up_edge_servers and population.faults.edge_servers is not None)
    )
    if not may_break_off:
        yield ("population", "noticed_after_s"), "no client round is ever broken off"


def _work(one: Composition) -> Found:
    """Figures of machines that no computation uses."""
    if one.population.hardware_draw is None:
        yield ("population", "hardware_draw"), "the profiles' own figures are used"
    elif not any(profile.is_uncertain for profile in one.world.profiles):
        yield ("population", "hardware_draw"), "no figure of the machines is uncertain"
    if is_users_own(one.population):
        return
    if not any(device.processor.counts_bits for device in one.world.devices):
        yield ("population", "bits_per_value"), "no device's work is counted per bit"
    allocations = in_use(one.parts, ALLOCATION)
    full_speed = all(_said(rule, "full_speed", False) for rule in allocations)
    if full_speed and not one.somebody_looks_at("frequency_min_hz"):
        named = _named(allocations[0])
        reason = f"with allocation {named} all clients compute at full speed"
        yield ("population", "frequency_min_hz"), reason


def _codecs(one: Composition) -> Found:
    """Keys of codecs about values that do not exist or are not coded."""
    about_values = ("values", *ABOUT_VALUES)
    yield ("population", "downlink_codec", "error_feedback"), "only clients keep residuals"
    for direction in DIRECTIONS:
        section = ("population", f"{direction}_codec")
        reason = one.algorithm.uncoded.get(direction)
        if not one.algorithm.learns:
            reason = f"algorithm {_named(one.algorithm)} learns nothing"
        for key in about_values if reason is not None else ():
            yield (*section, key), reason or ""
    if (reason := one.algorithm.uncoded.get("error_feedback")) is not None:
        yield ("population", "uplink_codec", "error_feedback"), reason


def _learning(one: Composition) -> Found:
    """Keys about learning, if nothing is learned."""
    if one.algorithm.learns:
        return
    reason = f"algorithm {_named(one.algorithm)} learns nothing"
    for keys in _OF_LEARNING:
        yield keys, reason
    if not one.has_examples:
        for key in ("partition", "validation_share", "client_test_share", "root"):
            yield ("data", key), f"{one.scenario.data.name} has only sizes, no examples to divide"


_OF_LEARNING: Sequence[Keys] = (
    ("dtype",),
    ("precision",),
    ("data", "noise_variance"),
    ("data", "client_test_share"),
    ("data", "augmentation"),
    ("algorithm", "non_finite"),
    ("algorithm", "contributions"),
    ("evaluate", "every"),
    ("evaluate", "clients"),
)
