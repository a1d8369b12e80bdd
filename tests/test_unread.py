"""Keys that nothing reads are told where a file holds them, and refused where they are named."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import simfl
from simfl import Scenario
from simfl.assembly.assemble import assemble, outlined
from simfl.assembly.registry import KINDS, discover
from simfl.assembly.unread import held, told
from simfl.common.files import DataMissing
from simfl.scenario.shipped import shipped_scenarios
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.catalogue import shipped_folder
from tests.decisions.views import client_view
from tests.small import SEMI_ASYNCHRONOUS, small

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"
SIZES = {"data": {"name": "sizes"}, "model": "linear", "algorithm": {"name": "none", "local": {}}}
PAPER = {"population": {"name": "paper", "clients": 4, "edges": 2}}
HIERARCHICAL = {"protocol": {"name": "hierarchical", "edge_rounds": 1}}
BOARDS = {"device": "rpi_4b", "link": "wifi5_ac"}
PHONES = {"device": "phone_high_sd865", "link": "lte_2021"}
BEHIND = {"server_behind": "backhaul"}
PIPES = {"name": "max_min", "access_bps": 1e6, "backhaul_bps": 2e6}
OUTAGES = {"works": {"mean_s": 9}, "broken": {"mean_s": 1}}


def one_server(**changes: Any) -> Scenario:
    """The small scenario with one edge server, which no flat protocol reads."""
    population = changes.pop("population", {})
    if "name" not in population:
        population = {"edges": 1, **population}
    return small(population=population, **changes)


def unread(scenario: Scenario) -> dict[str, str]:
    """What nothing reads of the scenario's content, by its dotted key."""
    found = held(scenario, outlined(scenario).unread)
    return {".".join(map(str, keys)): reason for keys, reason in found.items()}


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"population": {"backhaul": "lte_2021"}}, "population.backhaul", "no edge servers"),
        (
            {"population": {"backhaul": "lte_2021"}},
            "population.backhaul",
            "unless server_behind is backhaul",
        ),
        (
            HIERARCHICAL | {"population": {"server_behind": "backhaul"}},
            "population.server_behind",
            "the cloud behind the backhaul",
        ),
        (
            {"population": {**BEHIND, "edge_server": "edge_epyc_node"}},
            "population.edge_server",
            "no edge servers",
        ),
        ({"population": {"edge_server": "edge_epyc_node"}}, "population.edge_server", "no edge"),
        ({"population": {"edges": 4}}, "population.edges", "no edge servers"),
        (
            {"population": {"backhaul_sharing": {"name": "fifo"}}},
            "population.backhaul_sharing",
            "no edge servers",
        ),
        (
            {"population": {**BEHIND, "backhaul_sharing": PIPES}},
            "population.backhaul_sharing.access_bps",
            "divides backhaul_bps",
        ),
        (
            {"population": {"access_sharing": PIPES}, "protocol": "hierarchical"},
            "population.access_sharing.backhaul_bps",
            "edge servers at the access points",
        ),
        (
            {"population": {"faults": {"cloud_link": OUTAGES}}},
            "population.faults.cloud_link",
            "no edge servers",
        ),
        (
            {"population": {**BEHIND, "faults": {"cloud_link": OUTAGES}}},
            "population.faults.cloud_link",
            "over a backhaul that never fails",
        ),
        ({"decisions": {"association": "random"}}, "decisions.association", "no edge servers"),
        ({"decisions": {"scheduling": "greedy"}}, "decisions.scheduling", "schedules no edge"),
        ({"decisions": {"staleness": "constant"}}, "decisions.staleness", "no late updates"),
        ({"decisions": {"estimator": "last"}}, "decisions.estimator", "uses estimates"),
        ({"population": {"leaving": "abort"}}, "population.leaving", "no client ever leaves"),
        ({"population": {"side_m": 10.0}}, "population.side_m", "uses distances"),
        ({"population": {"bits_per_value": 1}}, "population.bits_per_value", "per bit"),
        (
            {"population": {"message_loss": {"probability": 0, "timeout_s": 3}}},
            "population.message_loss.timeout_s",
            "no message is lost",
        ),
        (
            {"protocol": {"name": "synchronous", "patience": {"late": "carry_over"}}},
            "protocol.patience.late",
            "nobody is late",
        ),
        (
            {"protocol": {"name": "synchronous", "wait_for": {"limit_s": 9}}},
            "protocol.wait_for.limit_s",
            "waits for the first client",
        ),
        (
            {"algorithm": {"name": "fedavg", "local": {"keep_optimizer": True}}},
            "algorithm.local.keep_optimizer",
            "no state to keep",
        ),
        (HIERARCHICAL | {"decisions": {"scheduling": "fair"}}, "decisions.scheduling", "schedules"),
        (SIZES | {"evaluate": {"clients": True}}, "evaluate.clients", "learns nothing"),
        (SIZES | {"dtype": "float64"}, "dtype", "learns nothing"),
        (
            SIZES | {"algorithm": {"name": "none", "local": {"weight_decay": 0.5}}},
            "algorithm.local.weight_decay",
            "nothing is trained",
        ),
        (
            PAPER | {"population": {**PAPER["population"], "frequency_min_hz": 2e8}},
            "population.frequency_min_hz",
            "allocation max",
        ),
        (
            PAPER | {"population": {**PAPER["population"], "batteries": {}}},
            "population.batteries",
            "no device has a battery",
        ),
        (
            {"population": {"groups": [BOARDS | {"batteries": {}}]}},
            "population.groups.0.batteries",
            "rpi_4b has no battery",
        ),
        (
            {
                "population": {
                    "groups": [
                        BOARDS | {"device": "jetson_tx2", "mode": "MaxN", "batteries": {}},
                    ]
                }
            },
            "population.groups.0.batteries",
            "jetson_tx2 has no battery",
        ),
        (
            {"population": {"groups": [PHONES | {"batteries": {}}], "batteries": {}}},
            "population.batteries",
            "every group has its own",
        ),
    ],
)
def test_a_key_that_nothing_reads_is_told_with_the_reason(
    changes: dict[str, Any], key: str, reason: str
) -> None:
    """Each key of the frame and of shipped parts, in a composition that does not read it."""
    found = unread(one_server(**changes))

    assert reason in found[key]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (
            {"data": {"name": "digits", "partition": {"name": "labels_per_edge"}}},
            "population.edges",
        ),
        ({"population": {"access_sharing": "throughput_fair"}}, "population.edges"),
        ({"decisions": {"selection": {"name": "oort", "count": 2}}}, "decisions.estimator"),
        (
            {
                "protocol": {
                    "name": "synchronous",
                    "patience": {"over_selection": 2.0, "late": "carry_over"},
                }
            },
            "decisions.staleness",
        ),
        ({"protocol": "asynchronous"}, "decisions.staleness"),
        ({"protocol": SEMI_ASYNCHRONOUS}, "population.backhaul"),
        ({"population": BEHIND}, "population.backhaul"),
        ({"population": BEHIND}, "population.backhaul_sharing"),
        ({"population": BEHIND}, "population.server_behind"),
        ({"population": {**PAPER["population"], **BEHIND}}, "population.backhaul_bps"),
        ({"population": {**BEHIND, "message_loss": {}}}, "population.message_loss"),
        ({"protocol": "asynchronous", "population": BEHIND}, "population.backhaul"),
        ({"protocol": SEMI_ASYNCHRONOUS}, "decisions.estimator"),
        (HIERARCHICAL, "decisions.association"),
        ({"population": {"availability": "periodic"}}, "population.leaving"),
        (
            {"protocol": SEMI_ASYNCHRONOUS, "decisions": {"association": "nearest"}},
            "population.side_m",
        ),
    ],
)
def test_a_key_that_something_reads_is_none_of_them(changes: dict[str, Any], key: str) -> None:
    """What is unread elsewhere is read where a part says so."""
    found = outlined(small(**changes)).unread

    assert tuple(key.split(".")) not in found


def test_a_part_of_the_users_own_counts_as_reading_what_it_can(tmp_path: Path) -> None:
    """A subclass of a rule that reads nothing may read everything, unless it says otherwise."""
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from simfl.decisions.selection.all import All\n"
        "from simfl.protocols.synchronous import Synchronous\n"
        "@dataclass(frozen=True)\n"
        "class Mine(All): ...\n"
        "@dataclass(frozen=True)\n"
        "class Plain(All):\n"
        "    looks_at = frozenset()\n"
        "@dataclass(frozen=True)\n"
        "class Rounds(Synchronous): ...\n"
    )
    content = one_server().as_mapping()

    def found(**changes: Any) -> set[str]:
        scenario = Scenario.from_mapping(content | changes, tmp_path)
        return {".".join(map(str, keys)) for keys in outlined(scenario).unread}

    mine = found(decisions={"selection": "mine.py:Mine"})
    plain = found(decisions={"selection": "mine.py:Plain"})
    rounds = found(protocol="mine.py:Rounds")

    assert not mine & {"decisions.estimator", "population.side_m", "population.edges"}
    assert plain >= {"decisions.estimator", "population.side_m", "population.edges"}
    assert "decisions.staleness" not in rounds
    assert "population.backhaul" in rounds


def test_a_default_that_is_filled_in_is_not_told() -> None:
    """Nobody wrote it."""
    assert assemble(one_server().without([("population", "edges")])).unread_keys == ()


def test_a_simulation_has_its_unread_keys() -> None:
    """Dotted, with the reason, in the order of the rules."""
    found = assemble(one_server(population={"backhaul": "lte_2021"})).unread_keys

    reason = "synchronous has no edge servers: clients send to the cloud"
    alone = f"{reason}, over their own link only, unless server_behind is backhaul"
    no_points = f"{reason}, and share nothing at access points"
    assert found == (("population.backhaul", alone), ("population.edges", no_points))


def test_an_override_of_an_unread_key_is_refused() -> None:
    """With the reason, unless another override brings somebody who reads it."""
    scenario = one_server()

    for override in ("population.backhaul=lte_2021", "decisions.scheduling=greedy"):
        with pytest.raises(ScenarioError, match=r"^--set: .*nothing reads it: synchronous "):
            assemble(scenario.with_overrides([override]))
    for reader in ("protocol=hierarchical", "population.server_behind=backhaul"):
        assemble(scenario.with_overrides([reader, "population.backhaul=lte_2021"]))


def test_losses_can_be_switched_off_by_an_override() -> None:
    """The key is read: it says that nothing is lost."""
    losing = one_server(population={"message_loss": {"probability": 0.5}})

    assemble(losing.with_overrides(["population.message_loss=null"]))
    assemble(losing.with_overrides(["population.message_loss.probability=0"]))


@pytest.mark.parametrize(
    ("key", "beside"),
    [
        ("protocol.wait_for", []),
        ("protocol.wait_for.limit_s", ["protocol.wait_for.clients=1"]),
        ("population.faults.cloud_link", []),
    ],
)
def test_a_null_that_is_the_default_says_what_leaving_the_key_out_says(
    key: str, beside: list[str]
) -> None:
    """Whether or not anything reads it: no warning, no refusal, the digest without it."""
    without = one_server().with_overrides(beside)
    named = without.with_overrides([f"{key}=null"])
    in_file = Scenario.from_mapping(named.as_mapping())

    for one in (named, in_file):
        simulation = assemble(one)
        assert key not in dict(simulation.unread_keys)
        assert simulation.digest == assemble(without).digest


def test_a_null_that_means_something_is_told_where_nothing_reads_it() -> None:
    """A batch of the whole shard is not the default."""
    untrained = one_server(**SIZES).with_overrides(["algorithm.local.batch_size=null"])
    unread = {("algorithm", "local", "batch_size"): "why"}

    assert told(untrained, outlined(untrained).parts, unread) == unread


@pytest.mark.parametrize("behind", ["access_point", "backhaul"])
@pytest.mark.parametrize("protocol", ["synchronous", "hierarchical", SEMI_ASYNCHRONOUS])
def test_a_resolved_scenario_runs_again_without_a_warning(
    protocol: Any, behind: str, tmp_path: Path
) -> None:
    """The same events and digest; what nothing reads is left out of it."""
    population = {"backhaul": "lte_2021", "edges": 3, "leaving": "abort", "server_behind": behind}
    scenario = small(protocol=protocol, population=population, stop={"versions": 1})

    first = simfl.run(scenario, tmp_path / "first")
    file = tmp_path / "first" / "scenario.yaml"
    second = simfl.run(Scenario.from_yaml(file), tmp_path / "second")

    assert assemble(scenario).unread_keys
    assert assemble(Scenario.from_yaml(file)).unread_keys == ()
    assert first.manifest["digest"] == second.manifest["digest"]
    events = [(run.path / "events.parquet").read_bytes() for run in (first, second)]
    assert events[0] == events[1]


@pytest.mark.parametrize(
    "path",
    [
        *(
            pytest.param(path, id=name, marks=[pytest.mark.data] * (name == "flash"))
            for name, path in shipped_scenarios().items()
        ),
        *(pytest.param(path, id=path.stem) for path in sorted(EXAMPLES.glob("*.yaml"))),
    ],
)
def test_shipped_scenarios_hold_no_unread_key(path: Path) -> None:
    """Nor do their resolved forms."""
    scenario = Scenario.from_yaml(path)
    try:
        resolved = outlined(scenario).resolved
    except ScenarioError as error:
        if not isinstance(error.__cause__, DataMissing):
            raise
        pytest.skip(str(error.__cause__))

    again = Scenario.from_mapping(yaml.safe_load(resolved.to_yaml()))

    assert unread(scenario) == {}
    assert unread(again) == {}


def _shipped_rules() -> list[Any]:
    given = {"count": 2, "frequency_hz": 1e9}
    rules = []
    for kind in ("selection", "allocation"):
        for part in discover(KINDS[kind].package, KINDS[kind].base).values():
            names = {one.name for one in dataclasses.fields(part)}
            rules.append(part(**{key: value for key, value in given.items() if key in names}))
    return rules


@pytest.mark.parametrize("rule", _shipped_rules(), ids=lambda one: f"{type(one).__module__}")
def test_shipped_rules_look_at_what_they_say(rule: Any) -> None:
    """They decide on a view that has no other columns."""
    whole = client_view(np.arange(6), num_examples=np.full(6, 10))
    columns = {name: (lambda name=name: getattr(whole, name)) for name in rule.looks_at}
    view = type(whole).deferred(0.0, 1, whole.clients, columns)
    rng = np.random.default_rng(1)

    if not hasattr(rule, "initial"):
        assert rule.decide(view, rng).shape == (6,)
        return
    memory = rule.initial()
    if hasattr(rule, "candidates"):
        memory, _ = rule.candidates(memory, view, rng)
    _, chosen = rule.decide(memory, view, rng)
    assert set(chosen) <= set(range(6))


def test_the_run_in_which_clients_train_alone_is_without_them_too() -> None:
    """It is synchronous, whatever the run itself is: its scenario says nothing of edge servers."""
    learns = {"name": "fedavg", "local": {"epochs": 1}, "contributions": {"rounds": 1}}

    baseline = assemble(small(algorithm=learns, **HIERARCHICAL)).standalone_baseline

    assert baseline is not None
    assert unread(Scenario.from_mapping(yaml.safe_load(baseline.resolved.to_yaml()))) == {}


def test_batteries_of_devices_in_a_mode_are_read(tmp_path: Path) -> None:
    """The device's own profile says that it has one."""
    profile = yaml.safe_load((shipped_folder() / "jetson_tx2.yaml").read_text(encoding="utf-8"))
    profile["battery_j"] = 2e5
    profile["unverified"].append("battery_j")
    (tmp_path / "drone.yaml").write_text(yaml.safe_dump(profile), encoding="utf-8")
    group = BOARDS | {"device": "drone", "mode": "MaxN", "batteries": {}}

    found = unread(one_server(population={"groups": [group], "profiles": [str(tmp_path)]}))

    assert "population.groups.0.batteries" not in found
