"""What runs warn of: each kind where it is odd, and nothing where nothing is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.registry import build
from simfl.assembly.simulation import Options
from simfl.bridges.message_work import DeclaredWork
from simfl.common.notices import ADVICE, Notice
from simfl.console.run import print_summary
from simfl.runs.hardware_warnings import undeclared_work
from simfl.runs.runfolder import LoadedRun, RunFolderError
from simfl.runs.warning_rules import foreseen, found
from simfl.scenario.shipped import shipped_scenarios
from simfl.system.catalogue import KINDS, Catalogue, shipped_folder
from simfl.system.implausible import implausible_figures, implausible_keys
from simfl.system.provenance import without_measured_watts
from tests.measures.runs import known_latencies
from tests.small import SEMI_ASYNCHRONOUS, SMALL, simulated, small

ROOT = Path(__file__).parents[1]
PHONES = {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5}
FIRST_THREE = """
from simfl.decisions.base import Selection

class FirstThree(Selection):
    def decide(self, memory, view, rng):
        return memory, view.clients[:3]
"""

BY_SPEED = ("jetson_nano", "rpi_5", "rpi_4b", "rpi_3b_plus")
"""Of an edge server each, from the fastest to the slowest."""


def of_kind(run: LoadedRun, kind: str) -> list[Notice]:
    """The run's warnings of one kind."""
    return [one for one in run.warnings if one.kind == kind]


@pytest.fixture(scope="module")
def thrown(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """A run whose learning rate throws the model away, and yet completes."""
    scenario = small(algorithm={"local": {"learning_rate": 1000.0}}, stop={"versions": 6})
    return simfl.run(scenario, tmp_path_factory.mktemp("thrown") / "run")


@pytest.mark.parametrize("name", ["rpi_4b.v2", "board-1.5"])
def test_a_profile_with_a_dot_in_its_name_counts(name: str, tmp_path: Path) -> None:
    """It is neither a mode of another device nor unknown."""
    text = (shipped_folder() / "rpi_5.yaml").read_text(encoding="utf-8")
    (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    counts = []
    for device in (name, "rpi_5"):
        groups = [{"device": device, "link": "ethernet_1g", "share": 1.0}]
        scenario = small(population={"profiles": [str(tmp_path)], "groups": groups})
        simulation = assemble(scenario, Options(device="cpu"))
        assert device in [one.name for one in simulation.world.profiles]
        counts += [one.message for one in foreseen(simulation) if one.kind == "unverified_figures"]

    assert counts[0] == counts[1].replace("rpi_5", name)


def test_figures_from_nowhere_count_as_estimates(tmp_path: Path) -> None:
    """In a profile without sources and without `unverified`, no figure counts as known."""
    said = yaml.safe_load((shipped_folder() / "minipc_n100.yaml").read_text(encoding="utf-8"))
    bare = {key: value for key, value in said.items() if key not in ("sources", "unverified")}
    silent = {**bare, "unverified": [*said["sources"], *said["unverified"]]}
    messages = []
    for content in (bare, silent):
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
        groups = [{"device": "mine", "link": "ethernet_1g", "share": 1.0}]
        scenario = small(population={"profiles": [str(tmp_path)], "groups": groups})
        told = foreseen(assemble(scenario, Options(device="cpu")))
        messages += [one.message for one in told if one.kind == "unverified_figures"]

    assert len(messages) == 2 and messages[0] == messages[1]


@pytest.mark.parametrize(
    ("key", "said", "wrong", "told"),
    [
        (
            "frequency_max_hz",
            "1.8e9",
            "1.8",
            "found 1.8, likely 5e+06 to 2e+10; in GHz, MHz or kHz?",
        ),
        ("power_idle_w", "1.6", "1600", "found 1600, likely at most 300; in mW?"),
        ("memory_bytes", "8589934592", "8", "found 8, likely 1e+04 to 1e+14; in GB or MB?"),
    ],
)
def test_figures_in_another_unit_are_warned_of(
    tmp_path: Path, key: str, said: str, wrong: str, told: str
) -> None:
    """With file, line and key, and the unit that was perhaps meant."""
    text = (shipped_folder() / "rpi_4b.yaml").read_text(encoding="utf-8")
    text = text.replace(f"{key}: {said}", f"{key}: {wrong}", 1)
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    line = next(at for at, one in enumerate(text.splitlines(), 1) if f"{key}: {wrong}" in one)

    (one,) = implausible_figures([Catalogue([tmp_path]).profile("device", "mine")])

    assert one.startswith(f"{tmp_path / 'mine.yaml'}:{line}: ") and f"{key}: found {wrong}" in one
    assert one.endswith(told)


def test_a_phones_battery_in_mah_and_seconds_in_ms_are_warned_of(tmp_path: Path) -> None:
    """4,000 are no joules of a phone, though they may be of a board."""
    phone = Catalogue().profile("device", "phone_high_sd865").path.read_text(encoding="utf-8")
    text = re.sub(r"^battery_j: .*$", "battery_j: 4000", phone, flags=re.MULTILINE)
    timed = "processor: {name: cpu, cores: 1, frequency_min_hz: 1.0e9, frequency_max_hz: 2.0e9,"
    timed += " kappa: 1.0e-28, seconds_per_batch: 200, batch_examples: 16}"
    board = f"kind: device\ndevice_class: sbc\npower_idle_w: 1\nmemory_bytes: 1.0e+9\n{timed}\n"
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "board.yaml").write_text(f"{board}battery_j: 4000\n", encoding="utf-8")
    catalogue = Catalogue([tmp_path])

    (of_phone,) = implausible_figures([catalogue.profile("device", "mine")])
    (of_board,) = implausible_figures([catalogue.profile("device", "board")])

    assert "battery_j: found 4000, likely 1e+04 to 1e+06; in mAh" in of_phone
    assert "seconds_per_batch: found 200, likely at most 100; in ms?" in of_board


def test_a_links_power_below_its_idle_power_is_warned_of(tmp_path: Path) -> None:
    """Beyond idle power nothing is drawn then; no shipped link has such a figure."""
    text = Catalogue().profile("link", "wifi5_ac").path.read_text(encoding="utf-8")
    text = re.sub(
        r"^  power_transmit_w: .*$", "  power_transmit_w: 0.001", text, flags=re.MULTILINE
    )
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")

    (one,) = implausible_figures([Catalogue([tmp_path]).profile("link", "mine")])

    assert "link.power_transmit_w: found 0.001, likely at least power_idle_w (" in one
    shipped = [Catalogue().profile("link", name) for name in Catalogue().list_profiles("link")]
    assert not [line for line in implausible_figures(shipped) if "power_idle_w" in line]


@pytest.mark.parametrize(("ratio", "warned"), [(1.3, False), (20, False), (130, True), (30, True)])
def test_an_over_selection_in_percent_is_warned_of(ratio: float, *, warned: bool) -> None:
    """130 would wait for the first of 130 clients; 30 % more are 1.3 times as many."""
    protocol = {"name": "synchronous", "patience": {"over_selection": ratio}}

    found = foreseen(assemble(small(protocol=protocol), Options(device="cpu")))

    messages = [one.message for one in found if one.kind == "implausible_figures"]
    assert len(messages) == warned
    assert all(f"protocol.patience.over_selection: found {ratio}" in one for one in messages)
    assert all("in percent? then 1.3" in one for one in messages)


def test_a_run_warns_of_figures_in_another_unit(tmp_path: Path) -> None:
    """For a machine that takes part."""
    text = (shipped_folder() / "rpi_4b.yaml").read_text(encoding="utf-8")
    wrong = text.replace("power_idle_w: 1.6", "power_idle_w: 1600", 1)
    (tmp_path / "mine.yaml").write_text(wrong, encoding="utf-8")
    groups = [{"device": "mine", "link": "ethernet_1g", "share": 1.0}]
    scenario = small(population={"profiles": [str(tmp_path)], "groups": groups})

    found = foreseen(assemble(scenario, Options(device="cpu")))

    (one,) = [one for one in found if one.kind == "implausible_figures"]
    assert one.count == 1 and "power_idle_w: found 1600" in one.message


@pytest.mark.parametrize(
    ("population", "key", "told"),
    [
        ("frequency_max_hz: [2.0e+9, 3.0e+12]", "frequency_max_hz", "found 3e+12, likely 5e+06"),
        ("frequency_min_hz: 0.1", "frequency_min_hz", "found 0.1, likely 5e+06 to 2e+10; in GHz,"),
        ("kappa: 1.0e-1", "kappa", "found 0.1, likely 1e-32 to 1e-23; in W/GHz^3?"),
        ("power_idle_w: 1600", "power_idle_w", "found 1600, likely at most 300; in mW?"),
        ("power_static_w: 500", "power_static_w", "found 500, likely at most 300; in mW?"),
        ("access_bps: [5, 20]", "access_bps", "found 5, likely 100 to 1e+12; in Mbit/s or kbit/s?"),
        ("access_bps: [100, 600]", None, ""),  # Sigfox
        ("backhaul_bps: 100", None, ""),
        ("backhaul_bps: 99", "backhaul_bps", "found 99, likely 100 to 1e+12; in Mbit/s or kbit/s?"),
        ("backhaul_j_per_byte: 2", "backhaul_j_per_byte", "found 2, likely at most 0.01; in J per"),
        ("latency_s: 50", "latency_s", "found 50, likely at most 10; in ms?"),
        ("memory_bytes: 8", "memory_bytes", "found 8, likely 1e+04 to 1e+14; in GB or MB?"),
        ("power_transmit_w: 250", "power_transmit_w", "found 250, likely at most 100; in mW?"),
        ("power_receive_w: 100", None, ""),
        (
            "batteries: {harvest_w: [[0, 0], [28800, 7500], [64800, 0]]}",
            "batteries.harvest_w",
            "found 7500, likely at most 1e+03; in mW?",
        ),
        ("batteries: {harvest_w: [[0, 0], [28800, 7.5], [64800, 0]]}", None, ""),
        (
            "batteries: {charge_w: 5000}",
            "batteries.charge_w",
            "found 5000, likely at most 1e+03; in mW?",
        ),
        ("batteries: {charge_w: 240}", None, ""),
    ],
)
def test_a_populations_own_figures_have_bounds(population: str, key: str | None, told: str) -> None:
    """On both sides of them."""
    part = {"name": "paper", "clients": 4, **yaml.safe_load(population)}
    scenario = simfl.Scenario.from_mapping({**SMALL, "population": part})

    found = list(
        implausible_keys(
            build("populations", scenario.population.part, scenario.where("population"))
        )
    )

    assert [one for one, _ in found] == [key] * (key is not None)
    assert all(what.startswith(told) for _, what in found)


def test_a_run_warns_of_its_populations_own_figures(tmp_path: Path) -> None:
    """With the scenario's file, line and key; not of keys that nothing reads."""
    file = tmp_path / "own.yaml"
    part = {"name": "paper", "clients": 4, "power_idle_w": 1600, "latency_s": 1, "kappa": 1.0}
    file.write_text(yaml.safe_dump({**SMALL, "population": part}), encoding="utf-8")
    lines = file.read_text(encoding="utf-8").splitlines()

    found = foreseen(assemble(simfl.Scenario.from_yaml(file), Options(device="cpu")))

    (one,) = [one for one in found if one.kind == "implausible_figures"]
    places = [
        f"{file}:{lines.index(key) + 1}: " for key in ("  kappa: 1.0", "  power_idle_w: 1600")
    ]
    assert one.count == 2
    assert one.message == (
        f"{places[0]}population.kappa: found 1, likely 1e-32 to 1e-23; in W/GHz^3?; "
        f"{places[1]}population.power_idle_w: found 1600, likely at most 300; in mW?"
    )


@pytest.mark.parametrize(
    ("population", "key", "told"),
    [
        (
            {"batteries": {"plug_in_s": 22}},
            "batteries.plug_in_s",
            "found 22, which is 00:00:22; in",
        ),
        (
            {"batteries": {"plug_in_s": "22:00", "unplug_s": 6.5}},
            "batteries.unplug_s",
            'then "06:30"',
        ),
        ({"batteries": {"plug_in_s": "22:00", "unplug_s": 0}}, None, ""),
        (
            {"availability": {"name": "daily_absence", "from_s": 9, "to_s": "13:00"}},
            "availability.from_s",
            'then "09:00"',
        ),
        (
            {"availability": {"name": "daily_absence", "from_s": 9, "to_s": 13, "period_s": 20}},
            None,
            "",
        ),
        (
            {"groups": [PHONES, {**PHONES, "batteries": {"plug_in_s": 21}}]},
            "groups.1.batteries.plug_in_s",
            'then "21:00"',
        ),
        ({"availability": {"name": "absence", "from_s": 9}}, None, ""),
        (
            {"batteries": {"harvest_w": [[0, 0], [6, 3], [18, 0]]}},
            "batteries.harvest_w",
            "found times up to 18, which is 00:00:18; in hours? then 64800",
        ),
        ({"batteries": {"harvest_w": [[0, 0], [21_600, 3], [64_800, 0]]}}, None, ""),
        (
            {
                "availability": {
                    "name": "renewal",
                    "present": {"mean_s": 9, "law": "exponential"},
                    "absent": {"mean_s": 9, "law": "exponential"},
                    "diurnal": {"peak_s": 4},
                }
            },
            "availability.diurnal.peak_s",
            'then "04:00"',
        ),
    ],
    ids=str,
)
def test_hours_where_seconds_belong_are_warned_of(
    population: dict[str, Any], key: str | None, told: str
) -> None:
    """Times of every day; 0 is midnight, and a period of 20 s has no hours."""
    scenario = small(population={"groups": [PHONES, PHONES], **population})

    found = foreseen(assemble(scenario, Options(device="cpu")))

    messages = [one.message for one in found if one.kind == "implausible_figures"]
    assert len(messages) == (key is not None)
    assert all(f"population.{key}: " in one and told in one for one in messages)


@pytest.mark.parametrize("key", ["speed_spread", "rate_spread", "compute_noise", "transfer_noise"])
@pytest.mark.parametrize(("sigma", "median"), [(3.0, "0.011"), (1.5, None)])
def test_spreads_whose_median_is_far_below_their_mean_are_warned_of(
    key: str, sigma: float, median: str | None
) -> None:
    """Half of a lognormal factor's draws with mean 1 are below exp(-sigma^2 / 2)."""
    found = foreseen(assemble(small(population={key: sigma}), Options(device="cpu")))

    told = [one.message for one in found if one.kind == "implausible_figures"]
    assert [f"population.{key}: found 3" in one for one in told] == [True] * (median is not None)
    assert all(f"median {median}" in one for one in told)


@pytest.mark.parametrize(
    ("work", "missing"),
    [
        ({"dense": 1e6}, ["traffic_bytes", "update"]),
        ({"dense": 1e6, "update": 1e6}, ["traffic_bytes"]),
        ({"dense": 1e6, "forward_only": True}, ["traffic_bytes"]),
        ({"dense": 1e6, "traffic_bytes": 1e4, "update": 1e6}, []),
        ({"dense": 1e6, "passes": 0.0}, []),
    ],
)
@pytest.mark.parametrize(
    ("device", "takes"),
    [
        ("phone_nexus6", {"traffic_bytes", "update"}),
        ("rpi_4b", {"traffic_bytes"}),
        ("coral_dev_board", set()),
    ],
)
def test_declared_work_without_what_takes_time_is_warned_of(
    device: str, takes: set[str], work: dict[str, Any], missing: list[str]
) -> None:
    """On devices that were measured with it; others go by operations alone."""
    groups = [{"device": device, "link": "ethernet_1g", "share": 1.0}]
    world = assemble(small(population={"groups": groups}), Options(device="cpu")).world
    app = SimpleNamespace(brings_values=True, work={"train": DeclaredWork(**work)})
    simulation: Any = SimpleNamespace(world=world, protocol=app)

    told = undeclared_work(simulation)

    keys = [key for key in missing if key in takes]
    said = [f"protocol.work.train has no {key}, which takes time on {device}" for key in keys]
    assert [one.count for one in told] == [len(said)] * bool(said)
    assert all(one.message.startswith("; ".join(said)) for one in told)


@pytest.mark.parametrize("algorithm", ["none", "fedavg"])
@pytest.mark.parametrize(
    ("selection", "by_losses"),
    [("oort", True), ("power_of_choice", True), ("tifl", True), ("random", False)],
)
def test_a_selection_by_losses_without_learning_is_warned_of(
    algorithm: str, selection: str, by_losses: bool
) -> None:
    """Its choices are those of another rule."""
    scenario = small(
        algorithm={"name": algorithm, "local": {"epochs": 1, "batch_size": 16}},
        decisions={"selection": {"name": selection, "count": 3}},
    )

    found = foreseen(assemble(scenario, Options(device="cpu")))

    told = [one.message for one in found if one.kind == "selection_without_losses"]
    assert [one.startswith(f"{selection} chooses by losses") for one in told] == [True] * (
        by_losses and algorithm == "none"
    )


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (np.arange(40) % 7 * 1.0, "only 7 different whole numbers, as real numbers"),
        (np.eye(5)[np.arange(40) % 5], "rows of 5 numbers with a single 1 each (one-hot)"),
        (np.arange(40) % 7 + 0.5, None),
        (np.arange(40) * 1.0, None),
        (np.arange(40) % 7 - 3.0, None),
        (np.arange(40) % 7, None),
        (np.arange(80).reshape(40, 2) // 3 % 2 * 1.0, None),
        (np.ones((40, 2)), None),
    ],
)
def test_classes_stored_as_real_numbers_are_warned_of(
    tmp_path: Path, targets: np.ndarray, said: str | None
) -> None:
    """Such a regression is likely meant as a classification."""
    inputs = np.random.default_rng(0).normal(size=(40, 3))
    both = {part: {f"x_{part}": inputs, f"y_{part}": targets} for part in ("train", "test")}
    np.savez(tmp_path / "set.npz", **both["train"], **both["test"])
    data = {"name": "npz", "path": str(tmp_path / "set.npz"), "partition": "iid"}

    found = foreseen(assemble(small(data=data, model="linear", population={"clients": 4})))

    told = [one.message for one in found if one.kind == "perhaps_classes"]
    assert len(told) == (said is not None)
    assert all(one.startswith(f"the targets are {said}") for one in told)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda learnt, tested: (learnt, tested), {}),
        (
            lambda learnt, tested: (learnt, 255.0 * tested),
            {"unlike_test_inputs": "that of the test inputs 2"},
        ),
        (lambda learnt, tested: (255.0 * learnt, tested), {"unlike_test_inputs": ""}),
        (lambda learnt, tested: (1e30 * learnt, 1e30 * tested), {}),  # squares are no float32
        (
            lambda learnt, tested: (learnt, np.concatenate([learnt[:30], tested[:10]])),
            {"tested_on_training_data": "75 % of the test examples have the inputs"},
        ),
        (lambda learnt, tested: (learnt, np.concatenate([learnt[:15], tested[:25]])), {}),
        (lambda learnt, tested: (learnt, learnt[::-1][:, ::-1].copy()), {}),
    ],
    ids=["fair", "test x 255", "training x 255", "huge", "leak", "small leak", "reversed columns"],
)
def test_a_test_set_that_is_no_fair_test_is_warned_of(
    tmp_path: Path,
    change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    told: dict[str, str],
) -> None:
    """On another scale, or known from training; equal sums of inputs are not equal inputs."""
    rng = np.random.default_rng(0)
    learnt, tested = change(rng.normal(size=(40, 3)), rng.normal(size=(40, 3)))
    labels = {f"y_{part}": np.arange(40) % 2 for part in ("train", "test")}
    np.savez(tmp_path / "set.npz", x_train=learnt, x_test=tested, **labels)
    data = {"name": "npz", "path": str(tmp_path / "set.npz"), "partition": "iid"}

    scenario = small(data=data, model="linear", population={"clients": 4}, dtype="float32")
    with np.errstate(over="raise"):
        found = foreseen(assemble(scenario))

    kinds = ("unlike_test_inputs", "tested_on_training_data")
    messages = {one.kind: one.message for one in found if one.kind in kinds}
    assert messages.keys() == told.keys()
    assert all(told[kind] in message for kind, message in messages.items())


def test_no_shipped_population_has_an_implausible_figure() -> None:
    """Whatever it says itself."""
    scenarios = [simfl.Scenario.from_yaml(one) for one in shipped_scenarios().values()]
    papers = [one for one in scenarios if one.population.part.name == "paper"]

    assert len(papers) > 20
    for one in papers:
        population = build("populations", one.population.part, one.where("population"))
        assert list(implausible_keys(population)) == []


def test_no_shipped_figure_is_implausible() -> None:
    """In profiles of any kind."""
    catalogue = Catalogue()
    shipped = [
        catalogue.profile(kind, one) for kind in KINDS for one in catalogue.list_profiles(kind)
    ]

    assert len(shipped) > 50 and implausible_figures(shipped) == []


def test_the_quick_start_warns_of_unverified_figures_alone(tmp_path: Path) -> None:
    """It names the profile with most estimates; for a small network, it says that steps are too
    short.
    """
    quick = simfl.Scenario.of("quickstart")
    small = {"model.hidden": [32], "stop.versions": 8}
    run = simfl.run(quick.with_overrides(small), tmp_path / "run")
    untrained = {"name": "none", "local": {"epochs": 2}}
    whole = simfl.run(quick.with_overrides({"algorithm": untrained}), tmp_path / "whole")

    (one,) = run.warnings
    assert one.kind == "unverified_figures"
    assert "; most of edge_epyc_node (10 of 10). Joules are not validated: no" in one.message
    assert " more. A step of 32 examples takes 0.0" in one.message
    assert [other.message for other in whole.warnings] == [one.message.partition(". A step")[0]]
    assert one.first_s is None


def test_only_machines_that_take_part_count(tmp_path: Path) -> None:
    """A flat run has neither edge servers nor a backhaul, whose figures are all estimates."""
    flat = simfl.run(small(stop={"versions": 1}), tmp_path / "flat")
    tiers = simfl.run(small(stop={"versions": 1}, protocol=SEMI_ASYNCHRONOUS), tmp_path / "tiers")

    counts = [of_kind(run, "unverified_figures")[0].count for run in (flat, tiers)]
    assert counts[1] - counts[0] == 10 + 9  # edge_xeon_d, wan_edge_cloud
    (told,) = of_kind(tiers, "unverified_figures")
    names = "wifi5_ac, lte_2021, edge_epyc_node, edge_xeon_d and 1 more"
    assert f"Joules are not validated: no source for watts of {names}" in told.message


def test_a_loss_above_its_start_is_warned_of(thrown: LoadedRun) -> None:
    """With both figures, the first moment, and what to do."""
    (one,) = of_kind(thrown, "loss_above_start")

    rounds = thrown.rounds
    assert thrown.manifest["status"] == "completed"
    assert f"{rounds['loss'].iloc[-1]:.4g}, that of the untrained model 2.3" in one.message
    assert one.count == (rounds["loss"] > 2.5).sum()
    assert one.first_s == rounds["time_s"][rounds["loss"] > 2.5].iloc[0]
    assert "learning_rate" in one.advice


@pytest.mark.parametrize(
    ("clients", "algorithm", "classes"), [(3, "fedavg", 7), (10, "fedavg", 0), (3, "none", 0)]
)
def test_classes_that_nobody_trains_are_warned_of(
    clients: int, algorithm: str, classes: int
) -> None:
    """One label each of three clients: seven tenths of the test set cannot be learnt."""
    partition = {"name": "labels_per_client", "labels": 1}
    simulation = assemble(
        small(
            data={"partition": partition},
            population={"clients": clients},
            algorithm={"name": algorithm},
        )
    )

    found = [one for one in foreseen(simulation) if one.kind == "untrained_classes"]

    assert [one.count for one in found] == [classes] * (classes > 0)
    tested = np.bincount(simulation.partitioned.data.test.targets)
    share = tested[3:].sum() / tested.sum()
    told = f"7 of the 10 classes that are tested, {share:.0%} of the test examples"
    assert all(told in one.message for one in found)


@pytest.mark.parametrize(("tested", "warned"), [(100, True), (101, False)])
def test_classes_that_hardly_anybody_tests_need_no_training(
    tmp_path: Path, tested: int, warned: bool
) -> None:
    """One test example of a class that none of three clients has: one of 100 is a hundredth."""
    arrays = {"x_train": np.zeros((40, 3)), "x_test": np.zeros((tested, 3))}
    labels = {"y_train": np.arange(40) % 4, "y_test": np.arange(tested) % 3}
    labels["y_test"][0] = 3
    np.savez(tmp_path / "set.npz", **arrays, **labels)
    partition = {"name": "labels_per_client", "labels": 1}
    data = {"name": "npz", "path": str(tmp_path / "set.npz"), "partition": partition}

    notices = foreseen(assemble(small(data=data, population={"clients": 3})))

    told = [one.message for one in notices if one.kind == "untrained_classes"]
    said = "no client has an example of 1 of the 4 classes that are tested, 1% of the test examples"
    assert [one.partition(":")[0] for one in told] == [said] * warned


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ((0, 1, 2), None),
        (
            (1, 2, 3),
            "4 outputs, for the labels 0 to 3; no client and no test example has the label 0",
        ),
        ((0, 7), "example has the label 1, 2, 3, 4 and 2 more"),
    ],
)
def test_labels_with_gaps_are_warned_of(
    tmp_path: Path, labels: tuple[int, ...], said: str | None
) -> None:
    """Each number that is left out is an output of the model that nothing trains."""
    rng = np.random.default_rng(0)
    arrays = {f"x_{part}": rng.normal(size=(12, 3)) for part in ("train", "test")}
    targets = {f"y_{part}": np.resize(labels, 12) for part in ("train", "test")}
    np.savez(tmp_path / "set.npz", **arrays, **targets)
    data = {"name": "npz", "path": str(tmp_path / "set.npz"), "partition": "iid"}

    found = foreseen(assemble(small(data=data, population={"clients": 4})))

    told = [one.message for one in found if one.kind == "labels_with_gaps"]
    assert len(told) == (said is not None)
    assert all(one.endswith(str(said)) for one in told)


@pytest.mark.parametrize(
    ("codec", "said"),
    [
        ({"name": "top_k", "share": 0.8}, True),
        ({"name": "top_k", "share": 0.4}, False),
        ("float32", False),
    ],
)
def test_codecs_that_make_messages_larger_are_warned_of(codec: object, said: bool) -> None:
    """With positions four fifths of the values are more than all of them without."""
    simulation = assemble(small(population={"uplink_codec": codec}))
    raw_bytes = simulation.network.size_bytes
    sent = simulation.parts[("population", "uplink_codec")].encoded_bytes(raw_bytes)

    found = [one for one in foreseen(simulation) if one.kind == "larger_messages"]

    assert (sent > raw_bytes) == said
    assert len(found) == said
    assert all(one.message.startswith("uplink_codec top_k makes a message") for one in found)


@pytest.mark.parametrize(("classes", "count"), [(1, 1), (2, 0)])
def test_data_of_one_class_are_warned_of(tmp_path: Path, classes: int, count: int) -> None:
    """An accuracy of 1 is no merit there."""
    rows = "".join(f"{row},{row % classes}\n" for row in range(40))
    (tmp_path / "rows.csv").write_text("x,kind\n" + rows)
    data = {"name": "csv", "path": str(tmp_path / "rows.csv"), "label": "kind", "partition": "iid"}

    found = foreseen(assemble(small(data=data, population={"clients": 4})))

    assert sum(one.kind == "one_class" for one in found) == count


@pytest.mark.parametrize(("rows_per_owner", "owners_left_out"), [(1, True), (4, False)])
def test_owners_of_one_row_each_are_perhaps_records(
    tmp_path: Path, rows_per_owner: int, owners_left_out: bool
) -> None:
    """Fewer clients than owners is usual, but then a client has several rows."""
    rows = "".join(f"{row},{row // rows_per_owner},{row % 2}\n" for row in range(80))
    (tmp_path / "rows.csv").write_text("x,owner,kind\n" + rows)
    data = {"name": "csv", "path": str(tmp_path / "rows.csv"), "label": "kind", "owner": "owner"}

    found = foreseen(
        assemble(small(data={**data, "partition": "natural"}, population={"clients": 4}))
    )

    told = [one.message for one in found if one.kind == "unused_rows"]
    few = "of 64 owners with hardly more than one each, few take part"
    assert told == [f"60 of 64 training examples belong to no client: {few}"] * owners_left_out


@pytest.mark.parametrize(
    ("cell", "kind", "said"),
    [
        (
            lambda row: row / 7 if row % 10 else -999,
            "placeholder_values",
            "in several rows, perhaps stands for a missing value: odd (-999)",
        ),
        (
            lambda row: f"r{row}",
            "scattered_columns",
            "64 of the 65 features are single values of columns that differ in most rows: odd (64)",
        ),
        (
            lambda row: 1000 + row,
            "row_numbers",
            "(odd): if rows are sorted by label, owner or date, the label is read off it",
        ),
    ],
    ids=["missing values", "records", "pandas' index"],
)
def test_odd_columns_of_a_table_are_warned_of(
    tmp_path: Path, cell: Callable[[int], object], kind: str, said: str
) -> None:
    """Left out, nothing is told of them."""
    rows = "".join(f"{row / 3},{cell(row)},{row % 2}\n" for row in range(80))
    (tmp_path / "rows.csv").write_text("x,odd,kind\n" + rows)
    data = {"name": "csv", "path": str(tmp_path / "rows.csv"), "label": "kind", "partition": "iid"}

    told = [
        one.message
        for settings in (data, {**data, "leave_out": ["odd"]})
        for one in foreseen(assemble(small(data=settings, population={"clients": 4})))
        if one.kind == kind
    ]

    assert len(told) == 1 and told[0].endswith(said)


@pytest.mark.parametrize(("target", "count"), [("2.5", 1), ("{row}.5", 0)])
def test_a_test_set_without_spread_is_warned_of(tmp_path: Path, target: str, count: int) -> None:
    """R^2 divides by it."""
    learnt = "".join(f"{row},{row}.5\n" for row in range(40))
    tested = "".join(f"{row},{target.format(row=row)}\n" for row in range(7))
    (tmp_path / "rows.csv").write_text("x,y\n" + learnt)
    (tmp_path / "test.csv").write_text("x,y\n" + tested)
    files = {"path": str(tmp_path / "rows.csv"), "test": str(tmp_path / "test.csv")}
    data = {"name": "csv", **files, "label": "y", "partition": "iid"}

    found = foreseen(assemble(small(data=data, population={"clients": 4})))

    told = [one.message for one in found if one.kind == "equal_targets"]
    assert len(told) == count
    assert all("(7 examples): R^2" in one for one in told)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (200, None),
        (196, "has 49 examples: the accuracy moves in steps of 0.02, and is known to within 0.13 "),
        (40, "has 10 examples: the accuracy moves in steps of 0.1, and is known to within 0.26 "),
    ],
)
def test_a_handful_of_test_examples_is_warned_of(
    tmp_path: Path, rows: int, said: str | None
) -> None:
    """From below 50 on: a quarter of the rows is held out."""
    text = "".join(f"{row},{'uv'[row % 2]}\n" for row in range(rows))
    (tmp_path / "rows.csv").write_text("x,kind\n" + text)
    file = {"path": str(tmp_path / "rows.csv"), "label": "kind", "test_share": 0.25}
    data = {"name": "csv", **file, "partition": "iid"}

    found = foreseen(assemble(small(data=data, population={"clients": 4})))

    told = [one.message for one in found if one.kind == "few_test_examples"]
    assert len(told) == (said is not None)
    assert all(str(said) in one for one in told)


def test_a_vocabulary_has_no_gaps(tmp_path: Path) -> None:
    """A model of tokens has an output for each, whichever of them a text needs."""
    (tmp_path / "play.txt").write_text("to be or not to be " * 20)
    data = {"name": "text", "path": str(tmp_path / "play.txt"), "length": 4, "vocabulary": 30}
    model = {"name": "lstm", "tokens": 30, "hidden": 4}
    simulation = assemble(
        small(data={**data, "partition": "iid"}, model=model, population={"clients": 4})
    )

    assert "labels_with_gaps" not in {one.kind for one in foreseen(simulation)}


def test_an_accuracy_that_never_changes_is_warned_of(tmp_path: Path) -> None:
    """From five evaluations on."""
    still = {"local": {"learning_rate": 1e-12}}
    five = simfl.run(small(algorithm=still, stop={"versions": 5}), tmp_path / "five")
    four = simfl.run(small(algorithm=still, stop={"versions": 4}), tmp_path / "four")

    (one,) = of_kind(five, "constant_accuracy")
    assert one.count == 5
    assert one.first_s == five.rounds["time_s"][0]
    assert not of_kind(four, "constant_accuracy")


def test_a_regression_that_never_changes_has_no_accuracy(tmp_path: Path) -> None:
    """What is the same all the time is its R^2."""
    data = {"name": "synthetic", "task": "regression", "outputs": 1, "partition": "iid"}
    still = {"local": {"learning_rate": 1e-30}}
    run = simfl.run(small(data=data, algorithm=still, stop={"versions": 5}), tmp_path / "run")

    (one,) = of_kind(run, "constant_accuracy")
    assert "give the test R^2 " in one.message


def test_rounds_that_found_too_few_clients_are_warned_of(tmp_path: Path) -> None:
    """As many as the log has rounds with fewer eligible clients than the count."""
    run = simfl.run(
        small(
            population={"availability": {"name": "periodic", "period_s": 0.2, "share": 0.5}},
            decisions={"selection": {"name": "random", "count": 4}},
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            stop={"versions": 30},
        ),
        tmp_path / "run",
    )

    selects = run.details("select")
    starved = selects[selects["eligible"] < 4]
    (one,) = of_kind(run, "starved_rounds")
    assert 0 < len(starved) < len(selects)
    assert one.count == len(starved)
    assert one.first_s == starved["time_s"].iloc[0]


@pytest.mark.parametrize("selection", ["all", {"name": "random", "share": 0.5}])
def test_who_wants_those_present_is_never_starved(selection: object, tmp_path: Path) -> None:
    """All of them, or a share of them, are always there."""
    run = simfl.run(
        small(
            population={"availability": {"name": "periodic", "period_s": 0.2, "share": 0.5}},
            decisions={"selection": selection},
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            stop={"versions": 10},
        ),
        tmp_path / "run",
    )

    assert not of_kind(run, "starved_rounds")


@pytest.mark.parametrize(
    ("selection", "small_ones"),
    [
        ({"name": "tifl", "count": 3, "tiers": 4}, True),  # of eight clients: two a tier
        ({"name": "tifl", "share": 0.5, "tiers": 4}, True),
        ({"name": "tifl", "count": 2, "tiers": 4}, False),
        ({"name": "random", "count": 3}, False),
        ("all", False),
    ],
)
@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous"])
def test_rounds_smaller_than_the_count_are_warned_of(
    protocol: str, selection: object, small_ones: bool, tmp_path: Path
) -> None:
    """Clients were there, and the selection chose fewer; clients in flight have no rounds."""
    run = simfl.run(
        small(
            protocol=protocol,
            decisions={"selection": selection},
            algorithm={"name": "none", "local": {"epochs": 1, "batch_size": 16}},
            stop={"versions": 10},
        ),
        tmp_path / "run",
    )

    found = of_kind(run, "small_rounds")
    selects = run.details("select")
    if not small_ones or protocol == "asynchronous":
        assert not found
        return
    (one,) = found
    small_rounds = selects[selects["value"] < 3]
    assert one.count == len(small_rounds) > 0
    assert one.first_s == small_rounds["time_s"].iloc[0]


@pytest.mark.parametrize("count", [1, 4])
def test_a_selection_that_takes_whoever_is_there_has_no_choice(count: int, tmp_path: Path) -> None:
    """Waiting for four and choosing four leaves no choice; choosing one of them does."""
    run = simfl.run(
        small(
            population={"availability": {"name": "periodic", "period_s": 0.2, "share": 0.3}},
            protocol={"name": "synchronous", "wait_for": {"clients": 4}},
            decisions={"selection": {"name": "random", "count": count}},
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            stop={"versions": 10},
        ),
        tmp_path / "run",
    )

    selects, found = run.details("select"), of_kind(run, "no_choice")
    none = selects[selects["eligible"] == count]
    assert (2 * len(none) > len(selects)) == (count == 4)
    assert [(one.count, one.first_s) for one in found] == (
        [(len(none), none["time_s"].iloc[0])] if count == 4 else []
    )


@pytest.mark.parametrize("protocol", ["asynchronous", "buffered"])
@pytest.mark.parametrize(
    ("concurrency", "selection", "warned"),
    [
        (None, {"name": "random", "count": 1}, True),
        (None, {"name": "oort", "count": 2}, True),
        (2, {"name": "random", "count": 1}, False),
        (2, {"name": "random", "count": 5}, True),
        (None, "all", False),
    ],
)
def test_a_selection_of_whoever_comes_back_has_no_choice(
    protocol: str, concurrency: int | None, selection: Any, warned: bool, tmp_path: Path
) -> None:
    """With all in flight nobody else is free; a count above the number of free clients takes
    all.
    """
    run = simfl.run(
        small(
            population={"clients": 6},
            protocol={"name": protocol, "concurrency": concurrency},
            decisions={"selection": selection},
            stop={"versions": 40},
            evaluate={"every": 40},
        ),
        tmp_path / "run",
    )

    selects, found = run.details("select"), of_kind(run, "no_choice")
    count = selection["count"] if isinstance(selection, dict) else 6
    none = int((selects["eligible"] <= count).sum())
    assert (2 * none > len(selects)) == (warned or selection == "all")
    assert [one.count for one in found] == ([none] if warned else [])


WAITING = {"name": "none", "local": {"steps": 1, "batch_size": 16}}


@pytest.mark.parametrize(("period_s", "warned"), [(60.0, True), (0.002, False)])
def test_a_run_that_mostly_waits_for_clients_says_so(
    period_s: float, warned: bool, tmp_path: Path
) -> None:
    """With the seconds that the log's select rows add up to."""
    run = simfl.run(
        small(
            population={"availability": {"name": "periodic", "period_s": period_s, "share": 0.2}},
            protocol={"name": "synchronous", "wait_for": {"clients": 3}},
            algorithm=WAITING,
            stop={"versions": 10},
        ),
        tmp_path / "run",
    )

    found, selects = of_kind(run, "mostly_waiting"), run.details("select")
    waited_s, end_s = selects["waited_s"].sum(), run.manifest["horizon_s"]
    assert (waited_s > end_s / 2) == warned
    assert [one.count for one in found] == [(selects["waited_s"] > 0).sum()] * warned
    for one in found:
        assert one.message.startswith(f"for {waited_s:.4g} of {end_s:.4g} s the server waited")
        assert one.first_s == 0.0 if selects["waited_s"].iloc[0] else one.first_s > 0.0


@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous", "buffered"])
@pytest.mark.parametrize(("to_s", "waited_s"), [(1e6, 8.5), (9.0, 7.5), (4.0, None)])
def test_a_wait_counts_whether_it_ends_or_not_and_with_nobody_in_flight(
    protocol: str, to_s: float, waited_s: float | None, tmp_path: Path
) -> None:
    """Everybody is away from second 1 on: until the run's end, nearly so long, or less than half.

    What was under way in second 1 ends first: the wait begins 1 s later at most.
    """
    absence = {"name": "absence", "from_s": 1.0, "to_s": to_s, "share": 1.0}
    run = simfl.run(
        small(
            population={"availability": absence, "groups": ON_WIFI},
            protocol=protocol,
            algorithm={"name": "none", "local": {"steps": 5000, "batch_size": 16}},
            stop={"versions": None, "time_s": 10.0},
        ),
        tmp_path / "run",
    )

    found = of_kind(run, "mostly_waiting")
    assert len(found) == (waited_s is not None)
    for one in found:
        assert one.count == 1
        assert one.first_s == pytest.approx(1.5, abs=0.5)
        assert float(one.message.split()[1]) == pytest.approx(waited_s, abs=0.5)


@pytest.mark.parametrize(("share", "warned"), [(0.51, True), (0.49, False)])
def test_a_run_mostly_waits_from_half_of_the_time_on(
    share: float, warned: bool, tmp_path: Path
) -> None:
    """Everybody leaves in second 1; what was under way ends, and the rest of the run is waiting."""
    absence = {"name": "absence", "from_s": 1.0, "to_s": 1e6, "share": 1.0}

    def until(time_s: float, name: str) -> LoadedRun:
        changes: dict[str, Any] = {"population": {"availability": absence}, "algorithm": WAITING}
        stop = {"versions": None, "time_s": time_s}
        return simfl.run(small(**changes, stop=stop), tmp_path / name)

    (begins,) = of_kind(until(10.0, "first"), "mostly_waiting")
    assert begins.first_s is not None
    run = until(begins.first_s / (1.0 - share), "run")

    found = of_kind(run, "mostly_waiting")
    assert [one.first_s for one in found] == [begins.first_s] * warned


def test_a_run_that_nobody_came_to_says_so(tmp_path: Path) -> None:
    """It waited all the time, and no version came of it; a single version is one."""
    absence = {"name": "absence", "from_s": 0.0, "to_s": 200.0, "share": 1.0}
    changes: dict[str, Any] = {"population": {"availability": absence}, "algorithm": WAITING}
    run = simfl.run(small(**changes, stop={"versions": None, "time_s": 100.0}), tmp_path / "run")
    one = simfl.run(small(algorithm=WAITING, stop={"versions": 1}), tmp_path / "one")

    assert run.manifest["status"] == "completed"
    assert [each.first_s for each in of_kind(run, "mostly_waiting")] == [0.0]
    (said,) = of_kind(run, "no_version")
    assert said.message.startswith("no version was published in 100 s")
    assert not of_kind(one, "no_version")


def test_the_summary_of_a_run_without_versions_has_no_staleness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is nothing to take a mean of."""
    run = simfl.run(small(stop={"versions": None, "time_s": 0.001}), tmp_path / "run")

    print_summary(run, tmp_path / "none.png")

    assert re.search(r"mean staleness +│ +- │", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("every", "stop", "message"),
    [
        (1, {"time_s": 0.5}, None),
        (3, {"versions": 4}, None),  # the last of a version limit is evaluated
        (99, {"time_s": 0.5}, r"no version was evaluated: evaluate\.every is 99, .* is \d+"),
        (3, {"bytes": 2.0e5}, r"the last evaluated version is 3, at \S+ s, and the last one 4, at"),
    ],
)
def test_an_end_that_was_not_evaluated_is_told(
    every: int, stop: dict[str, Any], message: str | None
) -> None:
    """Time, joules and bytes are of the last version, the accuracy of another one, or of none."""
    changes = {"evaluate": {"every": every}, "stop": {"versions": None, **stop}}
    simulation, run = simulated(small(**changes))

    told = [one.message for one in found(simulation, run) if one.kind == "unevaluated_end"]

    assert len(told) == (message is not None)
    assert all(re.match(message or "", one) for one in told)


@pytest.mark.parametrize(("every", "warned"), [(9, False), (8, True)])
def test_a_tenth_of_the_versions_may_come_after_the_last_evaluation(
    every: int, warned: bool
) -> None:
    """Ten versions, of which one or two do."""
    changes = {"model": "linear", "evaluate": {"every": every}, "stop": {"versions": 10}}
    simulation, run = simulated(small(**changes))
    run.publications.rounds[-1] |= {"accuracy": None, "loss": None}  # as if it ended otherwise

    kinds = [one.kind for one in found(simulation, run)]

    assert ("unevaluated_end" in kinds) == warned


ON_WIFI = [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]


@pytest.mark.parametrize(
    ("protocol", "population", "crowded"),
    [
        ("synchronous", {"groups": ON_WIFI}, [40]),
        ("hierarchical", {"groups": ON_WIFI, "edges": 2}, [20]),
        ("hierarchical", {"groups": ON_WIFI, "edges": 40}, []),
        ("synchronous", {"groups": ON_WIFI, "access_sharing": "throughput_fair"}, []),
        ("synchronous", {"groups": [{**ON_WIFI[0], "link": "ethernet_1g"}]}, []),
    ],
)
def test_wifi_for_each_client_of_one_access_point_is_warned_of(
    protocol: str, population: dict[str, Any], crowded: list[int], tmp_path: Path
) -> None:
    """As far as their channel could not have carried what was sent, by the clients' own figures."""
    run = simfl.run(
        small(
            population={"clients": 40, "edges": 1, **population},
            protocol=protocol,
            model={"name": "mlp", "hidden": [64]},
            algorithm=WAITING,
            stop={"versions": 3},
        ),
        tmp_path / "run",
    )

    found, clients = of_kind(run, "crowded_channel"), run.clients
    airtime_s = 8 * clients["bytes_sent"] / clients["uplink_bps"]
    airtime_s += 8 * clients["bytes_received"] / clients["downlink_bps"]
    most_s, end_s = airtime_s.groupby(clients["edge"]).sum().max(), run.manifest["horizon_s"]
    assert [int(one.message.split()[0]) for one in found] == crowded
    for one in found:
        assert f"on air for {most_s:.3g} s of the run's {end_s:.3g} s" in one.message


@pytest.mark.parametrize(("share", "warned"), [(0.51, True), (0.49, False)])
def test_a_channel_is_crowded_from_half_of_the_time_on(
    share: float, warned: bool, tmp_path: Path
) -> None:
    """All leave once they have had rounds for a second; the run lasts until that is the share."""
    absence = {"name": "absence", "from_s": 1.0, "to_s": 1e6, "share": 1.0}

    def until(time_s: float, name: str) -> tuple[LoadedRun, float]:
        run = simfl.run(
            small(
                population={
                    "clients": 40,
                    "edges": 1,
                    "groups": ON_WIFI,
                    "availability": absence,
                },
                algorithm=WAITING,
                stop={"versions": None, "time_s": time_s},
            ),
            tmp_path / name,
        )
        clients = run.clients
        airtime_s = 8 * clients["bytes_sent"] / clients["uplink_bps"]
        airtime_s += 8 * clients["bytes_received"] / clients["downlink_bps"]
        return run, float(airtime_s.sum())

    _, airtime_s = until(2.0, "first")
    run, again_s = until(airtime_s / share, "run")

    assert again_s == airtime_s and airtime_s / share > 2.0
    assert [one.count for one in of_kind(run, "crowded_channel")] == [1] * warned


def test_what_was_sent_in_vain_crowds_a_channel_too(tmp_path: Path) -> None:
    """Every attempt at a message is on air for its bytes."""
    run = simfl.run(
        small(
            population={
                "clients": 40,
                "edges": 1,
                "groups": ON_WIFI,
                "message_loss": {"probability": 0.6, "timeout_s": 0.0},
            },
            model={"name": "mlp", "hidden": [64]},
            algorithm=WAITING,
            stop={"versions": 3},
        ),
        tmp_path / "run",
    )

    sent = run.events[run.events["kind"].isin(["download", "upload"])].merge(
        run.clients[["client", "uplink_bps", "downlink_bps"]], on="client"
    )
    rate_bps = sent["uplink_bps"].where(sent["kind"] == "upload", sent["downlink_bps"])
    airtime_s = (8 * (sent["bytes"] + sent["lost_bytes"].fillna(0.0)) / rate_bps).sum()
    (one,) = of_kind(run, "crowded_channel")
    assert sent["lost_bytes"].sum() > sent["bytes"].sum()
    assert f"on air for {airtime_s:.3g} s of" in one.message


@pytest.mark.parametrize(
    ("protocol", "population", "decisions", "warned"),
    [
        ("synchronous", {"edges": 4}, {}, True),
        ("synchronous", {"edges": 1}, {}, False),
        ("synchronous", {"edges": 4, "groups": ON_WIFI}, {}, False),
        ("hierarchical", {"edges": 4}, {}, True),
        ("hierarchical", {"edges": 4}, {"association": "nearest"}, False),
    ],
)
def test_access_points_that_are_not_the_nearest_are_warned_of(
    protocol: str, population: dict[str, Any], decisions: dict[str, Any], warned: bool
) -> None:
    """If rates depend on distance and no rule assigned them: counted and measured by positions."""
    groups = [{"device": "rpi_4b", "link": "cell_umi", "share": 1.0}]
    scenario = small(
        population={"clients": 40, "groups": groups, **population},
        protocol=protocol,
        decisions=decisions,
        algorithm=WAITING,
    )
    simulation = assemble(scenario, Options(device="cpu"))
    found = [one for one in foreseen(simulation) if one.kind == "far_access_points"]

    assert bool(found) == warned
    for one in found:
        world = simulation.world
        apart_m = np.linalg.norm(world.position_m[:, None] - world.edge_position_m, axis=-1)
        own_m = apart_m[np.arange(40), np.arange(40) // 10]
        far, least_m = int((own_m > apart_m.min(axis=1)).sum()), np.median(apart_m.min(axis=1))
        assert one.message.startswith(f"{far} of 40 clients") and one.count == far
        assert f"is {np.median(own_m):.3g} m, to the nearest {least_m:.3g} m" in (one.message)


@pytest.mark.parametrize(("far", "warned"), [(10, False), (11, True)])
def test_a_quarter_of_the_clients_may_have_a_nearer_access_point(far: int, warned: bool) -> None:
    """Ten of 40; all others stand beside their own."""
    groups = [{"device": "rpi_4b", "link": "cell_umi", "share": 1.0}]
    scenario = small(
        population={"clients": 40, "groups": groups, "edges": 4},
        algorithm=WAITING,
    )
    simulation = assemble(scenario, Options(device="cpu"))
    world = simulation.world
    beside = np.where(np.arange(40) < far, (world.home_edge + 1) % 4, world.home_edge)
    moved = replace(world, position_m=world.edge_position_m[beside] + 1.0)

    notices = foreseen(replace(simulation, world=moved))

    told = [one.count for one in notices if one.kind == "far_access_points"]
    assert told == [far] * warned


HOT = """
kind: device
device_class: phone
power_idle_w: 1
memory_bytes: null
processor: {{name: thermal_cpu, cores: 1, frequency_min_hz: 1e9, frequency_max_hz: 2e9,
  frequency_levels_hz: [1e9, 2e9], kappa: {kappa}, cycles_per_example: {cycles}}}
"""


@pytest.mark.parametrize(("charge_w", "said"), [(0.0, True), (50.0, False)])
def test_batteries_that_stay_empty_are_warned_of(
    tmp_path: Path, charge_w: float, said: bool
) -> None:
    """Phones that nothing charges, beside boards on mains power."""
    batteries = {"charge_w": charge_w, "initial": [0.0, 0.1]}
    run = simfl.run(small(population={"batteries": batteries}), tmp_path / "run")

    found = of_kind(run, "batteries_stay_empty")

    assert len(found) == said
    phones = int((run.clients["device"] == "phone_high_sd865").sum())
    assert 0 < phones < 8
    assert all((one.count, one.message[:14]) == (phones, f"{phones} of 8 clients") for one in found)


@pytest.mark.parametrize(
    ("charge_w", "initial", "warned"),
    [(1.0, [4e-6, 1e-5], True), (50.0, [4e-6, 1e-5], False), (1.0, [1.0, 1.0], False)],
)
def test_chargers_that_give_less_than_training_draws_are_told(
    charge_w: float, initial: list[float], warned: bool, tmp_path: Path
) -> None:
    """Phones at their charger that run empty; a strong charger, or a full battery, does not."""
    charger = {"charge_w": charge_w, "plug_in_s": 0.0, "unplug_s": 50_000.0, "hours_spread_s": 0.0}
    run = simfl.run(
        small(
            population={
                "batteries": {**charger, "initial": initial, "lowest": 1e-6},
                "start_time": "01:00",
            },
            algorithm={"name": "none", "local": {"epochs": 200, "batch_size": 16}},
        ),
        tmp_path / "run",
    )

    emptied = run.events.loc[run.events["kind"] == "battery_empty", "client"]
    found = of_kind(run, "weak_chargers")
    said = f"{len(emptied)} client rounds ended with an empty battery, those of {emptied.nunique()}"
    assert [one.message.startswith(f"{said} of 8 clients") for one in found] == [True] * warned
    assert all(
        "(1 W and 6.9 W" in one.message and "phone_high_sd865" in one.message for one in found
    )


def test_a_weak_charger_of_a_battery_that_never_ran_empty_is_not_told(tmp_path: Path) -> None:
    """Phones without a charger run empty; others, with a weak one, have more than enough."""
    phone = {"device": "phone_high_sd865", "link": "lte_2021", "count": 2}
    empty = {"initial": [4e-6, 1e-5], "lowest": 1e-6, "charge_w": 0.0}
    full = {"initial": [1.0, 1.0], "charge_w": 0.5, "plug_in_s": 0.0, "unplug_s": 50_000.0}
    groups = [phone | {"batteries": empty}, phone | {"batteries": full}]
    run = simfl.run(
        small(
            population={"clients": 4, "groups": groups, "start_time": "01:00"},
            algorithm={"name": "none", "local": {"epochs": 2000, "batch_size": 16}},
        ),
        tmp_path / "run",
    )

    assert (run.events["kind"] == "battery_empty").any()
    assert not of_kind(run, "weak_chargers")


@pytest.mark.parametrize(
    ("kappa", "cycles", "versions", "warned"),
    [
        ("1e-27", "2e9", 10, True),
        ("1e-28", "2e9", 10, False),  # 0.8 W
        ("1e-27", "1e7", 10, False),  # over before it is warm
        ("1e-27", "2e10", 1, False),  # once, from rest: as long as it takes
    ],
)
def test_devices_that_would_be_hot_are_warned_of(
    kappa: str, cycles: str, versions: int, warned: bool, tmp_path: Path
) -> None:
    """8 W while they compute, most of the time, where 20 kelvin over 8 K/W bear 2.5 W."""
    (tmp_path / "hot.yaml").write_text(HOT.format(kappa=kappa, cycles=cycles))
    groups = [{"device": "hot", "link": "ethernet_1g", "count": 8}]
    run = simfl.run(
        small(
            population={"profiles": [str(tmp_path)], "groups": groups},
            algorithm=WAITING,
            stop={"versions": versions},
        ),
        tmp_path / "run",
    )

    found = of_kind(run, "heat_left_out")
    rows, end_s = run.events[run.events["kind"] == "compute"], run.manifest["horizon_s"]
    drawn_j = (rows["dynamic_j"] + rows["static_j"]).groupby(rows["client"]).sum()
    reached_c = 25.0 + 8.0 * drawn_j / end_s * (1.0 - np.exp(-end_s / 320.0))
    assert bool(found) == warned
    for one in found:
        assert one.count == (reached_c > 45.0).sum() > 0
        assert f"a hot would have {reached_c.max():.0f} degrees C after" in one.message


def test_a_cap_that_devices_cannot_keep_is_warned_of(tmp_path: Path) -> None:
    """A Jetson Nano's lowest clock is 0.64 GHz; a cap between two levels takes the lower one."""
    groups = [
        {"device": "rpi_4b", "link": "ethernet_1g", "count": 6},
        {"device": "jetson_nano", "link": "ethernet_1g", "count": 2},
    ]

    def capped(frequency_hz: float) -> LoadedRun:
        allocation = {"name": "capped", "frequency_hz": frequency_hz}
        scenario = small(
            population={"groups": groups},
            decisions={"allocation": allocation},
            algorithm=WAITING,
            stop={"versions": 2},
        )
        return simfl.run(scenario, tmp_path / str(frequency_hz))

    low, between = capped(6.0e8), capped(1.26e9)

    (one,) = of_kind(low, "clocks_out_of_range")
    assert one.count == 2
    assert one.first_s == 0.0
    assert "(up to 0.64 GHz, jetson_nano)" in one.message
    computed = low.events.query("kind == 'compute'")["frequency_hz"]
    assert sorted(set(computed)) == [6.0e8, 6.4e8]
    assert not of_kind(between, "clocks_out_of_range")
    computed = between.events.query("kind == 'compute'")["frequency_hz"]
    assert sorted(set(computed)) == [9.216e8, 1.2e9]


@pytest.mark.parametrize(("hidden", "said"), [(8, True), (4096, False)])
def test_steps_shorter_than_any_frameworks_are_told(
    hidden: int, said: bool, tmp_path: Path
) -> None:
    """By the fastest device of the catalogue, where its own rate says below a millisecond."""
    run = simfl.run(
        small(
            population={"groups": ON_WIFI},
            model={"name": "mlp", "hidden": [hidden, 64]},
            algorithm=WAITING,
            stop={"versions": 1},
        ),
        tmp_path / "run",
    )

    (one,) = of_kind(run, "unverified_figures")
    computed = run.events.query("kind == 'compute'")["duration_s"]
    assert (computed.min() < 1e-3) == said
    assert ("ms on rpi_4b: frameworks need longer" in one.message) == said
    assert ("take longer, and more energy, in reality" in one.message) == said


@pytest.mark.parametrize(
    ("key", "seconds", "stall", "said"),
    [
        ("seconds_per_step", 0.01, "", "100% of a step of 16 examples"),
        ("seconds_per_step", 0.01, "0.1", ""),
        ("seconds_per_step", 1e-7, "", ""),
        ("seconds_per_training", 1.0, "", "100% of a training with 278 examples"),
        ("seconds_per_training", 1.0, "0.1", ""),
        ("seconds_per_training", 1e-7, "", ""),
    ],
)
def test_an_accelerator_that_mostly_waits_at_full_power_is_told(
    key: str, seconds: float, stall: str, said: str, tmp_path: Path
) -> None:
    """Unless its profile says what it draws meanwhile, or hardly any of the time is fixed."""
    text = (shipped_folder() / "jetson_nano.yaml").read_text(encoding="utf-8")
    keys = f"  {key}: {seconds}\n" + (f"  stall_utilization: {stall}\n" if stall else "")
    (tmp_path / "jetson_nano.yaml").write_text(text.replace("  efficiency", keys + "  efficiency"))
    run = simfl.run(
        small(
            population={
                "profiles": [str(tmp_path)],
                "groups": [{"device": "jetson_nano", "link": "ethernet_1g"}],
            },
            stop={"versions": 1},
        ),
        tmp_path / "run",
    )

    (one,) = of_kind(run, "unverified_figures")
    expected = f"{said} on jetson_nano is fixed time, at full power"
    assert (expected in one.message) == bool(said)
    assert ("fixed time, at full power" in one.message) == bool(said)


def test_clients_in_flight_starve_no_round(tmp_path: Path) -> None:
    """A free slot takes one client, whatever the selection's count is."""
    run = simfl.run(
        small(
            protocol={"name": "asynchronous", "concurrency": 7},
            decisions={"selection": {"name": "random", "count": 4}},
            stop={"versions": 5},
        ),
        tmp_path / "run",
    )

    assert not of_kind(run, "starved_rounds")


@pytest.mark.parametrize(("versions", "warned"), [(20, True), (18, False)])
def test_clients_that_never_took_part_are_warned_of(
    versions: int, warned: bool, tmp_path: Path
) -> None:
    """Five of eight, after 60 client rounds; after 54, chance might have left somebody out."""
    (tmp_path / "first.py").write_text(FIRST_THREE)
    run = simfl.run(
        small(
            decisions={"selection": f"{tmp_path / 'first.py'}:FirstThree"},
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            stop={"versions": versions},
        ),
        tmp_path / "run",
    )

    found = of_kind(run, "never_took_part")
    assert [one.message for one in found] == (
        ["5 of 8 clients never took part, in 60 rounds"] if warned else []
    )


FIRST_SIX = FIRST_THREE.replace("FirstThree", "FirstSix").replace("[:3]", "[:6]")
ONE_BUT_ONCE = """
import numpy as np
from simfl.decisions.base import Scheduling

class OneButOnce(Scheduling):
    def decide(self, memory, view, rng):
        return memory, int(np.flatnonzero(view.idle)[-1]), {}
"""


@pytest.mark.parametrize(
    ("selection", "versions", "said"),
    [
        ("random", 60, None),
        ("FirstSix", 11, None),
        (
            "FirstSix",
            12,
            "2 of 16 clients never took part, in 72 rounds; 2 more may be left out by chance: their"
            " edge servers had few rounds",
        ),
    ],
)
def test_an_edge_server_that_is_rarely_dispatched_leaves_clients_out_by_chance(
    selection: str, versions: int, said: str | None, tmp_path: Path
) -> None:
    """The first one has its turn at the beginning, six clients of eight; the other one all others.

    Of 16 clients in all, 8 (ln 16 + 5) = 62.2: eleven turns of the other one, not ten.
    """
    (tmp_path / "own.py").write_text(FIRST_SIX + ONE_BUT_ONCE)
    own = {"random": {"name": "random", "count": 6}}
    run = simfl.run(
        small(
            data={"partition": "iid"},
            population={"clients": 16, "groups": ON_WIFI},
            protocol={"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 1},
            decisions={
                "selection": own.get(selection, f"{tmp_path / 'own.py'}:{selection}"),
                "scheduling": f"{tmp_path / 'own.py'}:OneButOnce",
            },
            algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
            stop={"versions": versions},
        ),
        tmp_path / "run",
    )

    rounds = run.clients.groupby("edge")["participations"].sum()
    missing = (run.clients["participations"] == 0).groupby(run.clients["edge"]).sum()
    assert rounds[0] == 6 and missing[0] == 2
    found = of_kind(run, "never_took_part")
    assert [one.message for one in found] == [said] * (said is not None)


@pytest.mark.parametrize(("rounds", "warned"), [(125, True), (124, False)])
def test_an_edge_server_of_whom_nobody_took_part_is_no_chance(rounds: int, warned: bool) -> None:
    """With 16 clients, from 16 (ln 16 + 5) = 124.4 rounds on, whichever clients had them."""
    simulation, run = simulated(
        small(
            population={"clients": 16},
            protocol=SEMI_ASYNCHRONOUS,
            algorithm=WAITING,
            stop={"versions": 1},
        )
    )
    run.observations.participations[:] = np.repeat([0, 10], 8)
    run.observations.participations[15] += rounds - 80

    told = [one.message for one in found(simulation, run) if one.kind == "never_took_part"]

    assert told == [f"8 of 16 clients never took part, in {rounds} rounds"] * warned


@pytest.mark.parametrize(
    ("scheduling", "versions", "left_out"),
    [("greedy", 29, 1), ("greedy", 28, 0), ("round_robin", 60, 0), ("random", 60, 0)],
)
def test_edge_servers_that_no_rule_chose_are_warned_of(
    tmp_path: Path, scheduling: str, versions: int, left_out: int
) -> None:
    """With 4 edge servers, from 26 choices on (4 (ln 4 + 5) = 25.5): with three more versions."""
    speeds = [{"device": one, "link": "ethernet_1g", "count": 2} for one in BY_SPEED]
    run = simfl.run(
        small(
            population={"edges": 4, "groups": speeds},
            protocol={"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 2},
            decisions={"scheduling": scheduling},
            algorithm={"name": "none", "local": {"steps": 5, "batch_size": 16}},
            stop={"versions": versions},
        ),
        tmp_path / "run",
    )

    chosen = run.details("schedule")["value"].astype(int).tolist()
    told = of_kind(run, "edge_servers_left_out")
    assert 4 - len(set(chosen)) == (scheduling == "greedy")
    assert (len(chosen) >= 26) == (versions > 28)
    assert [one.count for one in told] == [left_out] * (left_out > 0)
    assert all(
        f"greedy never dispatched 1 of 4 edge servers, in {len(chosen)} dispatches" in one.message
        for one in told
    )


@pytest.mark.parametrize(("broken_s", "named"), [(1e6, True), (0.001, False)])
def test_edge_servers_that_were_broken_are_named(
    broken_s: float, named: bool, tmp_path: Path
) -> None:
    """The rule that chooses among idle ones is not to blame; without failures it is."""
    run = simfl.run(
        small(
            population={
                "edges": 4,
                "faults": {
                    "edge_servers": {"works": {"mean_s": 1e6}, "broken": {"mean_s": broken_s}}
                },
            },
            protocol={"name": "semi_asynchronous", "edge_rounds": 1, "concurrency": 2},
            decisions={"scheduling": "greedy"},
            algorithm={"name": "none", "local": {"steps": 5, "batch_size": 16}},
            stop={"versions": 60},
        ),
        tmp_path / "run",
    )

    (told,) = of_kind(run, "edge_servers_left_out")
    assert ("were broken for at least" in told.message) == named


@pytest.mark.parametrize("late", ["drop", "carry_over"])
def test_clients_who_always_come_too_late_never_took_part(late: str, tmp_path: Path) -> None:
    """Seven finish 15 rounds each and are dropped in each; carried over they take part."""
    run = simfl.run(
        small(
            population={
                "groups": [
                    {"device": "rpi_5", "link": "wifi5_ac", "share": 0.5},
                    {"device": "rpi_zero_2w", "link": "wifi5_ac", "share": 0.5},
                ]
            },
            algorithm={"name": "none", "local": {"epochs": 400, "batch_size": 16}},
            protocol={
                "name": "synchronous",
                "patience": {"deadline_s": 0.12, "late": late},
                "wait_for": {"clients": 8},
            },
            stop={"versions": 16},
        ),
        tmp_path / "run",
    )

    assert sorted(run.clients["participations"]) == [15] * 7 + [16]
    assert (run.rounds["participants"] == 1).all() == (late == "drop")
    said = "7 of 8 clients never took part, in 121 rounds: of 7 every update was dropped, too late"
    found = of_kind(run, "never_took_part")
    assert [one.message for one in found] == [f"{said} or in rounds given up"] * (late == "drop")


@pytest.mark.parametrize(("least", "warned"), [(5, False), (6, True)])
def test_rounds_that_are_mostly_given_up_are_told(least: int, warned: bool, tmp_path: Path) -> None:
    """Of eight clients that the server waits for, five are in time in nearly every round."""
    run = simfl.run(
        small(
            population={"straggler_mean": 1.0, "straggler_shift": 0.0},
            algorithm={"name": "none", "local": {"epochs": 5, "batch_size": 16}},
            protocol={
                "name": "synchronous",
                "patience": {"deadline_s": 0.015, "least_updates": least},
                "wait_for": {"clients": 8},
            },
            stop={"versions": 100, "time_s": 1.0},
        ),
        tmp_path / "run",
    )

    given_up = int((run.events["kind"] == "given_up").sum())
    rounds = given_up + len(run.rounds[run.rounds["version"] > 0])
    found = [one.message for one in of_kind(run, "mostly_given_up")]
    assert given_up > 0 and (2 * given_up > rounds) == warned
    assert [one[: one.index(",")] for one in found] == [
        f"{given_up} of {rounds} rounds were given up"
    ] * warned


@pytest.mark.parametrize(
    ("slow", "patience", "warned"),
    [
        (4, {"deadline_s": 0.12}, False),
        (5, {"deadline_s": 0.12}, True),
        (5, {"deadline_s": 0.12, "late": "carry_over"}, False),
        (5, {"over_selection": 3.0}, False),
        (6, {"over_selection": 2.0, "deadline_s": 0.12}, False),
        (7, {"over_selection": 2.0, "deadline_s": 0.12}, True),
    ],
)
def test_work_that_is_mostly_dropped_as_late_is_warned_of(
    slow: int, patience: dict[str, Any], warned: bool, tmp_path: Path
) -> None:
    """Four slow of eight are dropped in all but the last of 16 rounds: 60 of 124; five in 75 of
    123. What over-selection leaves behind is no reason; half of the others is."""
    run = simfl.run(
        small(
            data={"partition": "iid"},
            population={
                "groups": [
                    {"device": "rpi_5", "link": "ethernet_1g", "count": 8 - slow},
                    {"device": "rpi_zero_2w", "link": "ethernet_1g", "count": slow},
                ]
            },
            algorithm={"name": "none", "local": {"epochs": 400, "batch_size": 16}},
            protocol={"name": "synchronous", "patience": patience, "wait_for": {"clients": 8}},
            stop={"versions": 16},
        ),
        tmp_path / "run",
    )

    finished = int(run.clients["participations"].sum())
    dropped = int((run.events["kind"] == "late").sum())
    found = of_kind(run, "mostly_late")
    assert len(found) == warned
    for one in found:
        assert one.count == dropped == 15 * slow and finished == 15 * slow + 16 * (8 - slow)
        said = f"{dropped} of {finished} finished client rounds ({dropped / finished:.0%}) came"
        assert one.message.startswith(said)


@pytest.mark.parametrize(
    ("leave", "message_loss", "lost", "rounds"),
    [(4, None, 4, 8), (5, None, 5, 8), (0, {"probability": 0.05}, 0, 8)],
)
def test_rounds_that_mostly_come_to_nothing_are_warned_of(
    leave: int, message_loss: dict[str, Any] | None, lost: int, rounds: int, tmp_path: Path
) -> None:
    """Four or five of eight clients leave during rounds and drop out. Half is not most.

    A message that is lost now and then is sent again.
    """
    board = {"device": "rpi_5", "link": "ethernet_1g"}
    gone = {"name": "absence", "share": 1.0, "from_s": 0.01}
    groups = [{**board, "count": 8 - leave}]
    groups += [{**board, "count": leave, "availability": gone}] * bool(leave)
    run = simfl.run(
        small(
            population={"groups": groups, "leaving": "abort", "message_loss": message_loss},
            algorithm={"name": "none", "local": {"epochs": 400, "batch_size": 16}},
            stop={"versions": 1},
        ),
        tmp_path / "run",
    )

    told = of_kind(run, "mostly_lost")
    said = f"{lost} of {rounds} client rounds ({lost / rounds:.1%}) brought no update"
    assert [one.count for one in told] == [lost] * (lost > rounds / 2)
    assert all(one.message.startswith(f"{said} ({lost} by absences)") for one in told)
    assert run.clients["participations"].sum() == rounds - lost


def test_late_updates_are_not_lost_ones(tmp_path: Path) -> None:
    """Five of eight come too late in every round but the last: one warning, not two."""
    groups = [
        {"device": "rpi_5", "link": "ethernet_1g", "count": 3},
        {"device": "rpi_zero_2w", "link": "ethernet_1g", "count": 5},
    ]
    run = simfl.run(
        small(
            data={"partition": "iid"},
            population={"groups": groups},
            algorithm={"name": "none", "local": {"epochs": 400, "batch_size": 16}},
            protocol={
                "name": "synchronous",
                "patience": {"deadline_s": 0.12},
                "wait_for": {"clients": 8},
            },
            stop={"versions": 16},
        ),
        tmp_path / "run",
    )

    assert of_kind(run, "mostly_late") and not of_kind(run, "mostly_lost")


@pytest.mark.parametrize(("participation", "saturated"), [(0.9, True), (0.25, False)])
def test_queues_that_grow_to_the_end_are_warned_of(
    participation: float, saturated: bool, tmp_path: Path
) -> None:
    """Where slow edge servers cannot get what they are owed; not where they can."""
    scheduling = {"name": "fedcure", "participation": participation}
    run = known_latencies(tmp_path / "run", scheduling, 80, concurrency=4)

    assert bool(of_kind(run, "saturated_queues")) == saturated


def test_a_summary_ends_with_what_to_do(
    thrown: LoadedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each warning with its advice below it, wrapped."""
    monkeypatch.setenv("COLUMNS", "80")

    print_summary(thrown, thrown.path / "overview.png")

    lines = capsys.readouterr().out.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("warning:"))
    said = " ".join(line.strip() for line in lines[first:])
    for one in thrown.warnings:
        assert f"warning: {one.message}" in said
        assert one.advice in said
    assert max(len(line) for line in lines[first:-2]) <= 80


def test_every_kind_stands_on_the_page_of_warnings() -> None:
    """With its rule."""
    page = (ROOT / "docs" / "warnings.md").read_text(encoding="utf-8")

    rows = [one.split("|")[1] for one in page.splitlines() if one.startswith("| `")]
    kinds = [kind for row in rows for kind in re.findall("`([a-z_0-9]+)`", row)]
    of_a_record = ["kind", "count", "first_s", "message", "advice"]
    assert sorted(kinds) == sorted([*of_a_record, *ADVICE])


@pytest.mark.parametrize("damage", [{"kind": "odd"}, {"count": "3"}, 7])
def test_a_damaged_list_is_told_in_one_line(
    thrown: LoadedRun, tmp_path: Path, damage: object
) -> None:
    """With the manifest's name."""
    content = json.loads((thrown.path / "manifest.json").read_text())
    whole = content["warnings"][0]
    content["warnings"] = [{**whole, **damage} if damage == {"count": "3"} else damage]
    (tmp_path / "manifest.json").write_text(json.dumps(content))

    with pytest.raises(RunFolderError, match=r"manifest\.json: damaged: warnings: "):
        _ = LoadedRun(tmp_path).warnings


def test_keys_that_nothing_reads_are_warned_of(tmp_path: Path) -> None:
    """With the first one's reason and how many there are; what the run leaves has none."""
    scenario = small(
        model="linear",
        stop={"versions": 1},
        population={"backhaul": "wan_edge_cloud"},
        decisions={"scheduling": "greedy"},
    )
    run = simfl.run(scenario, tmp_path / "run")

    (one,) = of_kind(run, "unread_keys")
    assert one.count == 3  # the small scenario has edge servers, too
    assert one.message.startswith(
        "nothing reads decisions.scheduling: synchronous schedules no edge servers; 2 more are"
    )
    again = simfl.run(tmp_path / "run" / "scenario.yaml", tmp_path / "again")
    assert of_kind(again, "unread_keys") == []
    assert again.manifest["fingerprint"] == run.manifest["fingerprint"]


def test_a_warning_of_version_one_is_read(thrown: LoadedRun, tmp_path: Path) -> None:
    """It was a sentence, and of one kind."""
    manifest = {**thrown.manifest, "warnings": ["edge server 2 cannot get what it is owed"]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    (one,) = simfl.load_run(tmp_path).warnings

    assert one.kind == "unattainable_participation"
    assert one.message == "edge server 2 cannot get what it is owed"


def test_joules_without_measured_watts_are_marked(tmp_path: Path) -> None:
    """With the profiles that lack them; a source for every figure takes the mark away."""
    (tmp_path / "pi.yaml").write_text(Catalogue().profile("device", "rpi_4b").path.read_text())
    profile = Catalogue([tmp_path]).profile("device", "pi")
    line = Catalogue().profile("link", "ethernet_1g")

    assert without_measured_watts([profile]) == []
    assert without_measured_watts([profile, line]) == ["ethernet_1g"]
    nowhere = replace(profile, sources={"power_idle_w": "a wattmeter"})
    assert without_measured_watts([nowhere]) == ["pi"]


def test_static_power_counts_below_the_measured_clock_alone(tmp_path: Path) -> None:
    """Measured watts at the highest clock hold without it, as long as no clock is lowered."""
    content = yaml.safe_load(Catalogue().profile("device", "rpi_4b").path.read_text())
    del content["processor"]["kappa"], content["sources"]["processor.kappa"]
    content["processor"] |= {"power_active_w": 6.0, "power_static_w": 0.1}
    content["sources"]["processor.power_active_w"] = "a wattmeter"
    content["unverified"].append("processor.power_static_w")
    (tmp_path / "pi.yaml").write_text(yaml.safe_dump(content))
    profile = Catalogue([tmp_path]).profile("device", "pi")

    assert without_measured_watts([profile]) == ["pi"]
    assert without_measured_watts([profile], full_speed=True) == []
    for key, value in (("measured_hz", 1.2e9), ("name", "thermal_cpu"), ("power_active_w", None)):
        values = deepcopy(dict(profile.values))
        values["processor"][key] = value
        if value is None:
            del values["processor"][key]
        changed = replace(profile, values=values)
        assert without_measured_watts([changed], full_speed=True) == ["pi"]

    scenario = small(
        data={"name": "sizes", "examples_per_client": 32, "input_shape": [1, 8, 8]},
        model="linear",
        algorithm={"name": "none", "local": {"batch_size": 32, "epochs": 1}},
        population={
            "name": "catalogue",
            "clients": 2,
            "profiles": [str(tmp_path)],
            "groups": [{"device": "pi", "link": "wifi5_ac"}],
        },
        stop={"versions": 1},
    )
    told = {}
    for allocation in ("max", {"name": "capped", "share": 0.5}):
        asked = scenario.with_overrides([f"decisions.allocation={json.dumps(allocation)}"])
        run = simfl.run(asked, tmp_path / "run", overwrite=True)
        (one,) = (one for one in run.warnings if one.kind == "unverified_figures")
        told[str(allocation)] = "watts of pi, " in one.message
    assert list(told.values()) == [False, True]
