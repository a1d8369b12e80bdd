"""The examples of docs/plugins.md run, and each does what its text says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file as load_weights

import simfl
from simfl.decisions.views import AssociationView, ClientView
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.plugins import load_file
from simfl.streams import Streams

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
Runner = Callable[..., LoadedRun]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Runs an example's scenario with overrides; the same one only once."""
    done: dict[tuple[str, ...], LoadedRun] = {}

    def run_example(name: str, *overrides: str) -> LoadedRun:
        if (name, *overrides) not in done:
            scenario = simfl.Scenario.from_yaml(EXAMPLES / f"{name}.yaml", overrides)
            folder = tmp_path_factory.mktemp(name) / "run"
            done[name, *overrides] = simfl.run(scenario, folder)
        return done[name, *overrides]

    return run_example


def example(name: str) -> ModuleType:
    """An example's module."""
    return load_file(EXAMPLES / f"{name}.py")


def client_view(**columns: object) -> ClientView:
    """Four clients that have done nothing yet."""
    unseen = np.full(4, np.nan)
    values: dict[str, object] = {
        "time_s": 0.0,
        "round": 0,
        "clients": np.array([3, 5, 7, 9]),
        "device_class": np.array(["sbc", "phone", "sbc", "phone"]),
        "num_examples": np.full(4, 10),
        "edge": np.zeros(4, dtype=int),
        "position_m": np.zeros((4, 2)),
        "frequency_min_hz": np.full(4, 1e8),
        "frequency_max_hz": np.full(4, 1e9),
        "battery_level": unseen,
        "participations": np.zeros(4, dtype=int),
        "last_seen_s": unseen,
        "last_duration_s": unseen,
        "last_energy_j": unseen,
        "past_seconds": np.zeros(4),
        "past_energy_j": np.zeros(4),
        "estimated_duration_s": unseen,
        "last_loss": unseen,
        "cycles": unseen,
        "transfer_s": unseen,
        "edge_latency_s": unseen,
        "kappa": unseen,
        "power_static_w": unseen,
    }
    return ClientView(**{**values, **columns})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.yaml")))
def test_an_example_runs(name: str, run: Runner) -> None:
    """Every scenario of docs/examples completes, and every module there has one."""
    one = run(name)

    assert one.manifest["status"] == "completed"
    assert all(one.manifest["invariants"].values())
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        path.stem for path in EXAMPLES.glob("*.yaml")
    }


@pytest.mark.parametrize("name", ["energy_aware", "throttling_cpu", "slow_start", "coin_per_slot"])
def test_the_resolved_scenario_reproduces_an_example(
    name: str, run: Runner, tmp_path: Path
) -> None:
    """scenario.yaml in a run folder finds the plug-ins' files and gives the same events."""
    one = run(name)

    again = simfl.run(one.path / "scenario.yaml", tmp_path / "again")

    assert again.manifest["fingerprint"] == one.manifest["fingerprint"]
    assert again.manifest["digest"] == one.manifest["digest"]


def test_energy_aware_selection_tries_everybody_and_then_spares_phones(run: Runner) -> None:
    """All eight clients in the first two rounds, afterwards those that cost little."""
    one = run("energy_aware")

    chosen = one.details("select")["selected"]
    assert sorted([*chosen.iloc[0], *chosen.iloc[1]]) == list(range(8))
    client_rounds = one.clients.groupby("device_class")["participations"].mean()
    assert client_rounds["sbc"] > client_rounds["phone"] >= 1
    everybody = run("energy_aware", "decisions.selection=all").clients
    phones = one.clients["device_class"] == "phone"
    active = [f"{state}_j" for state in ("download", "compute", "upload")]
    assert (
        one.clients.loc[phones, active].to_numpy().sum()
        < everybody.loc[phones, active].to_numpy().sum() / 2
    )


def test_stragglers_take_the_time_of_their_own_epochs(run: Runner) -> None:
    """One to ten epochs, as drawn for each client and version; nobody else's seconds change."""
    some, nobody = (run("stragglers", f"algorithm.stragglers={share}") for share in (0.9, 0.0))

    times = [
        one.events.query("kind == 'compute'").set_index(["round", "client"])["duration_s"]
        for one in (some, nobody)
    ]
    epochs = (10 * times[0] / times[1]).to_numpy()
    assert np.allclose(epochs, epochs.round()) and set(epochs.round()) <= set(range(1, 11))
    assert 4 < (epochs.round() < 10).sum() < epochs.size
    assert some.rounds["loss"].iloc[-1] != nobody.rounds["loss"].iloc[-1]


def test_energy_aware_selection_reads_power_and_estimates() -> None:
    """What a round would cost is power so far times estimated seconds; phones count double."""
    selection = example("energy_aware").EnergyAware(count=2)
    view = client_view(
        participations=np.full(4, 2),
        past_seconds=np.array([10.0, 10.0, 3.0, 10.0]),
        past_energy_j=np.array([40.0, 10.0, 30.0, 21.0]),
        estimated_duration_s=np.array([5.0, 5.0, 5.0, 5.0]),
    )

    # scores: 40 + 20, 2 * (10 + 5), 30 + 50, 2 * (21 + 10.5)
    _, chosen = selection.decide(None, view, np.random.default_rng(0))

    assert chosen.tolist() == [3, 5]


def test_energy_aware_selection_leaves_low_batteries_alone() -> None:
    """A battery below the level comes last; mains power has no level."""
    selection = example("energy_aware").EnergyAware(count=3, lowest_battery=0.5)
    view = client_view(battery_level=np.array([np.nan, 0.4, np.nan, 0.6]))

    _, chosen = selection.decide(None, view, np.random.default_rng(0))

    assert chosen.tolist() == [3, 7, 9]


def test_mixed_labels_gives_edge_servers_more_labels() -> None:
    """Four clients of two kinds: one of each kind per edge server."""
    labels = np.array([[9, 0], [8, 0], [0, 7], [0, 6]])
    view = AssociationView(
        clients=np.arange(4),
        num_examples=labels.sum(axis=1),
        label_counts=labels,
        position_m=np.zeros((4, 2)),
        edge_position_m=np.zeros((2, 2)),
        home_edge=np.array([0, 0, 1, 1]),
    )

    edge, _ = example("mixed_labels").MixedLabels().decide(view, np.random.default_rng(0))

    for index in (0, 1):
        assert (labels[edge == index].sum(axis=0) > 0).all()


def test_mixed_labels_mixes_a_run(run: Runner) -> None:
    """Edge servers hold at least as many labels as the population's own association gave them."""

    def labels_per_edge(one: LoadedRun) -> float:
        held = one.clients.groupby("edge")["label_counts"].agg(lambda rows: np.sum(list(rows), 0))
        return float(np.mean([(counts > 0).sum() for counts in held]))

    mixed, initial = run("mixed_labels"), run("mixed_labels", "decisions.association=initial")
    assert labels_per_edge(mixed) > labels_per_edge(initial)


def test_slow_phones_lowers_the_clock_of_phones_alone(run: Runner) -> None:
    """Phones compute below their highest clock, for fewer dynamic joules; boards do as before."""
    clients = run("slow_phones").clients.set_index("client")
    slow = run("slow_phones").details("compute").join(clients["device_class"], on="client")
    fast = run("slow_phones", "decisions.allocation=max").details("compute")
    fast = fast.join(clients["device_class"], on="client")

    for one, is_lower in (("phone", True), ("sbc", False)):
        slower, faster = (rows[rows["device_class"] == one] for rows in (slow, fast))
        assert (slower["frequency_hz"].max() < faster["frequency_hz"].min()) == is_lower
        assert (slower["dynamic_j"].sum() < faster["dynamic_j"].sum()) == is_lower


def test_by_data_scores_stand_in_the_log(run: Runner) -> None:
    """The edge server picked has the highest score of the idle ones."""
    for one in run("by_data").details("schedule").itertuples():
        assert one.idle[int(np.argmax(one.scores))] == one.edge


def test_polynomial_share_is_the_one_merged_with(run: Runner) -> None:
    """The log's share is initial / (staleness + 1)."""
    merges = run("polynomial").details("cloud_aggregate")

    assert merges["staleness"].max() > 0
    expected = 0.6 / (merges["staleness"].astype(float) + 1.0)
    assert merges["value"].to_numpy() == pytest.approx(expected.to_numpy())


def test_cyclic_visits_one_client_after_the_other(run: Runner) -> None:
    """Client rounds never overlap, and each visit is a version."""
    computing = run("cyclic").details("compute").sort_values("start_s")

    assert computing["client"].tolist() == list(range(8))
    assert (computing["start_s"].to_numpy()[1:] >= computing["time_s"].to_numpy()[:-1]).all()
    assert run("cyclic").rounds["version"].tolist() == list(range(1, 9))


def test_clipped_average_without_a_limit_is_fedavg(run: Runner) -> None:
    """A large clip gives FedAvg's weights, a small one keeps the model near its start."""
    plain = run("clipped_average", "algorithm={name: fedavg, local: {batch_size: 16,"
                " learning_rate: 0.1}}", "dtype=float64")  # fmt: skip
    loose = run("clipped_average", "algorithm.clip=1e9", "dtype=float64")
    tight = run("clipped_average", "algorithm.clip=1e-6", "stop.versions=1", "dtype=float64")
    start = run("clipped_average", "algorithm.clip=1e-12", "stop.versions=1", "dtype=float64")

    models = [load_weights(one.path / "model.safetensors") for one in (plain, loose)]
    for name, tensor in models[0].items():
        assert models[1][name].numpy() == pytest.approx(tensor.numpy(), abs=1e-9)
    near, origin = (load_weights(one.path / "model.safetensors") for one in (tight, start))
    moved = sum(float(((near[name] - origin[name]) ** 2).sum()) for name in near) ** 0.5
    assert 0 < moved <= 1.1e-6


def test_the_module_s_own_argument_comes_from_yaml(run: Runner) -> None:
    """`width: 12` is the hidden layer's size."""
    weights = load_weights(run("narrow_net").path / "model.safetensors")

    assert weights["hidden.weight"].shape == (12, 64)
    assert weights["head.weight"].shape == (10, 12)


def test_the_spirals_are_learned(run: Runner) -> None:
    """A small network tells the two spirals apart better than chance."""
    one = run("spirals")

    assert one.clients["num_examples"].sum() == 800
    assert one.rounds["accuracy"].iloc[-1] > 0.75


def test_uneven_sizes_fall_with_the_client_number(run: Runner) -> None:
    """Every example is dealt, the first client has most, and nobody has none."""
    sizes = run("uneven_sizes").clients["num_examples"]

    assert sizes.sum() == 1438
    assert sizes.is_monotonic_decreasing
    assert sizes.iloc[0] > 5 * sizes.iloc[-1] > 0


def test_a_throttling_cpu_takes_longer_after_its_burst() -> None:
    """4 cores at 1.5 GHz for 1 s, then at half of it: 9e9 cycles take 2 s; E_dyn = kappa W f^2."""
    cpu = example("throttling_cpu").ThrottlingCpu(
        cores=4, frequency_min_hz=1e8, frequency_max_hz=1.5e9, kappa=1e-28, cycles_per_example=1.0,
        burst_s=1.0, sustained_share=0.5,
    )  # fmt: skip

    short, long = cpu.compute(3e9, 1.5e9), cpu.compute(9e9, 1.5e9)

    assert float(short.duration_s) == pytest.approx(0.5)
    assert float(long.duration_s) == pytest.approx(1.0 + 1.0)
    assert float(long.dynamic_j) == pytest.approx(1e-28 * (6e9 * 1.5e9**2 + 3e9 * 0.75e9**2))


def test_a_device_file_names_a_processor_by_path(run: Runner) -> None:
    """Computations longer than the burst last longer than cycles / clock / cores."""
    rows = run("throttling_cpu").details("compute")

    plain_s = rows["cycles"] / rows["frequency_hz"] / 4
    hot = plain_s > 0.004
    assert hot.any() and not hot.all()
    assert (rows["duration_s"] > plain_s + 1e-9)[hot].all()
    assert rows["duration_s"][~hot].to_numpy() == pytest.approx(plain_s[~hot].to_numpy())


def test_a_link_file_names_a_link_by_path(run: Runner) -> None:
    """Half a round trip, two doublings from 1000 to 2600 bytes, and the bytes at 10 Mbit/s."""
    uploads = run("slow_start").events.query("kind == 'upload' and client >= 0")

    assert (uploads["bytes"] == 2600).all()
    expected = 0.3 + 2 * 0.6 + 2600 * 8 / 1e7
    assert uploads["duration_s"].to_numpy() == pytest.approx(np.full(len(uploads), expected))


def test_clustered_clients_stand_near_their_edge_server(run: Runner) -> None:
    """With little scatter the nearest edge server is the home edge; with much it is not."""
    near = run("clustered", "population.scatter_m=0.001").clients["edge"]
    far = run("clustered", "population.scatter_m=5000").clients["edge"]

    assert near.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert far.tolist() != near.tolist()


def test_a_codec_sizes_uploads(run: Runner) -> None:
    """650 values: 163 bytes of two bits each, and three scale factors."""
    events = run("ternary").events

    assert set(events.query("kind == 'upload'")["bytes"]) == {163 + 12}
    assert set(events.query("kind == 'download'")["bytes"]) == {2600}


def test_the_fastest_download_waits_for_nobody(run: Runner) -> None:
    """Downloads that begin together end in the order of their rates, and never overlap."""

    def downloads(*overrides: str) -> pd.Series:
        events = run("fastest_first", *overrides).events
        first = events.query("kind == 'download' and round == 0")
        return first.set_index("client")["duration_s"]

    shared, own = downloads(), downloads("population.access_sharing=dedicated").sort_values()

    np.testing.assert_allclose(shared[own.index], own.cumsum())


def test_absent_clients_are_not_selected(run: Runner) -> None:
    """Whoever is selected is there by the rule's own answer, and some are left out."""
    rule = example("coin_per_slot").CoinPerSlot(slot_s=0.05, probability=0.3)
    streams = Streams(0)

    rounds = run("coin_per_slot").details("select")

    assert rounds["value"].min() < 8
    for one in rounds.itertuples():
        assert rule.available(np.array(one.selected), one.time_s, streams).all()


def test_the_start_of_a_slot_is_the_next_moment_of_being_there() -> None:
    """At `next_s` the client is available, and in no slot before."""
    rule = example("coin_per_slot").CoinPerSlot(slot_s=0.1, probability=0.2)
    streams, clients = Streams(5), np.arange(50)

    start_s = rule.next_s(clients, 0.0, streams)

    for client, moment_s in zip(clients, start_s, strict=True):
        slots = round(moment_s / 0.1)
        there = [rule.available(np.array([client]), n * 0.1, streams)[0] for n in range(1, slots)]
        assert not any(there)
        assert rule.available(np.array([client]), moment_s, streams)[0]


def test_a_measure_of_one_s_own_stands_in_the_manifest(run: Runner) -> None:
    """The cost is read off the rounds table: of the first version with the accuracy."""
    one = run("cost_of_accuracy")

    first = one.rounds[one.rounds["accuracy"] >= 0.6].iloc[0]
    [figures] = one.manifest["measures"].values()
    assert figures == {
        "time_to_s": first["time_s"],
        "energy_to_j": first["energy_j"],
        "bytes_to": first["bytes"],
    }
