"""Flower apps under simfl's clock; skipped where Flower is not installed (`make test-flower`)."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simfl import Options, flower, load_run, study
from simfl.assembly.assemble import assemble
from simfl.bridges.app_folder import digest_of_sources
from simfl.protocols.clock import Stalled
from simfl.provenance.results import MemoryStore
from simfl.runs.execution import run
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from tests.bridges.apps import CLIENT, SERVER, server_of, write_app

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` has it")
pytestmark = pytest.mark.filterwarnings("default")  # Flower's own

STANDINS = Path(__file__).parent
PHONES = {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5}
POPULATION: dict[str, Any] = {
    "name": "catalogue",
    "clients": 4,
    "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5}, PHONES],
    "compute_noise": 0.05,
    "transfer_noise": 0.1,
}


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Without Flower's log."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(before)


def scenario(app: Path, *overrides: str, **changes: Any) -> Scenario:
    """The scenario of an app in the usual population."""
    config = changes.pop("run_config", {})
    population = {**POPULATION, **changes}
    return flower.scenario(app, population=population, run_config=config, overrides=overrides)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small app with FedAvg."""
    return write_app(tmp_path_factory.mktemp("flower") / "app")


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    """Answers that runs of this module share."""
    return MemoryStore()


@pytest.fixture(scope="module")
def done(app: Path, store: MemoryStore, tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """Two rounds of FedAvg, evaluated by clients."""
    return run(scenario(app), tmp_path_factory.mktemp("done") / "run", Options(store=store))


def test_a_run_has_all_that_runs_have(done: LoadedRun) -> None:
    """Versions with the strategy's figures, events, clients, the final model, laws kept."""
    rounds = done.rounds

    assert rounds["version"].tolist() == [1, 2]
    assert rounds["participants"].tolist() == [4, 4]
    assert rounds["accuracy"].tolist() == rounds["evaluate.eval_acc"].tolist()
    assert rounds["loss"].tolist() == rounds["evaluate.eval_loss"].tolist()
    assert rounds["train.turns"].tolist() == [1.0, 2.0]  # `context.state` is each node's own
    assert done.manifest["status"] == "completed" and all(done.manifest["invariants"].values())
    assert done.manifest["counts"]["jobs_trained"] == 16
    assert done.clients["participations"].tolist() == [2, 2, 2, 2]
    assert set(done.events["kind"]) >= {"download", "compute", "upload", "cloud_aggregate"}
    assert (done.path / "model.safetensors").exists()


def test_bytes_are_those_of_the_serialised_message(done: LoadedRun, app: Path) -> None:
    """Arrays, configuration, metrics and metadata, as Flower puts them on the wire."""
    from flwr.common.serde import message_to_proto

    from simfl.bridges.flower_app import FlowerApp, addressed, packed, size_bytes

    loaded = FlowerApp(app, {})
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
    from small_app.client import network

    arrays = ArrayRecord(network().state_dict())
    for rounds in (1, 300):  # numbers of one byte, and of two
        content = RecordDict({"arrays": arrays, "config": ConfigRecord({"server-round": rounds})})
        bare = Message(content, dst_node_id=10**18, message_type="train")
        sent = addressed(bare, packed(content), number=1)
        size = size_bytes(sent, len(packed(content)))
        assert size == message_to_proto(sent).ByteSize()
        if rounds == 1:
            downloads = done.events[(done.events["kind"] == "download")]
            assert downloads["bytes"].iloc[0] == size
    loaded.close()


def test_work_is_that_of_the_network(done: LoadedRun) -> None:
    """Two epochs of 40 rows, and one forward pass of the same: a sixth."""
    events = done.events
    computed = events[(events["kind"] == "compute") & (events["round"] == 0)]
    one = computed[computed["client"] == 0].sort_values("time_s")

    assert len(one) == 2
    assert one["cycles"].iloc[0] / one["cycles"].iloc[1] == pytest.approx(6, rel=0.4)


def test_only_hardware_changes_and_nothing_is_trained_again(
    app: Path, store: MemoryStore, done: LoadedRun, tmp_path: Path
) -> None:
    """Answers are looked up; seconds and joules are those of the other machines."""
    other = run(
        scenario(app, groups=[{**PHONES, "share": 1.0}]), tmp_path / "run", Options(store=store)
    )

    assert other.manifest["counts"]["jobs_trained"] == 0
    assert other.manifest["counts"]["jobs_reused"] == 16
    assert other.rounds["loss"].tolist() == done.rounds["loss"].tolist()
    assert other.rounds["time_s"].tolist() != done.rounds["time_s"].tolist()


def test_the_same_run_twice_is_the_same(app: Path, done: LoadedRun, tmp_path: Path) -> None:
    """Without any store: every answer is drawn from its node's and number's own stream."""
    again = run(scenario(app), tmp_path / "run")

    assert again.manifest["fingerprint"] == done.manifest["fingerprint"]
    assert again.rounds.equals(done.rounds)


def test_an_answer_depends_on_nobody_else(app: Path, done: LoadedRun, tmp_path: Path) -> None:
    """The first round of a run in which others are asked in between."""
    text = SERVER.replace("strategy.start", "list(grid.send_and_receive([]))\n    strategy.start")
    other = run(scenario(write_app(tmp_path / "app", server=text)), tmp_path / "run")

    assert other.rounds["train.drawn"].tolist() == done.rounds["train.drawn"].tolist()


def test_fedavg_agrees_with_simfls_own(app: Path, tmp_path: Path) -> None:
    """Seconds and joules of a round, with the same bytes and work and no evaluation: 1e-9."""
    own = Scenario.from_mapping(
        {
            "seed": 3,
            "data": {"name": "digits"},
            "model": {"name": "mlp", "hidden": [50]},
            "population": POPULATION,
            "algorithm": {"name": "fedavg", "local": {"epochs": 2, "batch_size": 32}},
            "protocol": "synchronous",
            "stop": {"versions": 3},
        }
    )
    simulation = assemble(own)
    size, work = simulation.network.size_bytes, asdict(simulation.network.work)
    expected = run(own, tmp_path / "own").rounds
    sizes = ",".join(map(str, simulation.partitioned.num_examples))
    sent = {"train": {"down": size, "up": size}}
    given = scenario(app, run_config={"rounds": 3, "fraction-evaluate": 0.0, "sizes": sizes})
    given = given.with_overrides(
        {
            "seed": 3,
            "protocol.bytes": sent,
            "protocol.work": {"train": {**work, "passes": 2.0, "batch_size": 32}},
        }
    )
    found = run(given, tmp_path / "flower").rounds

    columns = ["time_s", "energy_j", "client_energy_j", "client_active_j", "server_energy_j"]
    assert found[columns].to_numpy() == pytest.approx(expected[columns].to_numpy(), rel=1e-9)
    assert found["bytes"].tolist() == expected["bytes"].tolist()


def test_a_reply_that_is_late_is_what_the_timeout_makes_of_it(tmp_path: Path) -> None:
    """Simulated seconds; the late reply can still be pulled, and then comes at its own time."""
    body = """
    nodes = list(grid.get_node_ids())
    sent = [message(node) for node in nodes]
    start = flower.now()
    early = list(grid.send_and_receive(sent, timeout=0.001))
    flower.record(early=len(early), waited=flower.now() - start)
    ids = list(grid.push_messages([message(nodes[0])]))
    got = []
    while not got:
        got = list(grid.pull_messages(ids))
    flower.record(early=len(early), waited=0.001, at=flower.now(), error=got[0].has_error())
    """
    app = write_app(tmp_path / "app", server=server_of(body))
    done = run(scenario(app), tmp_path / "run")
    events = done.events

    uploads = events[events["kind"] == "upload"].sort_values("time_s")
    assert len(uploads) == 5
    (late,) = [one for one in done.warnings if one.kind == "late_replies"]
    assert "waiting for replies to 4 message(s)" in late.message
    assert "after up to 0.001 simulated seconds" in late.message
    second = uploads[uploads["client"] == 0]
    assert second["start_s"].iloc[1] > second["time_s"].iloc[0] > 0.001


def test_a_lost_reply_is_an_error_when_its_time_to_live_is_over(tmp_path: Path) -> None:
    """Clients that never send anything: Flower's error at that moment, without a timeout."""
    body = """
    nodes = list(grid.get_node_ids())
    replies = list(grid.send_and_receive([message(nodes[0], ttl=500.0)]))
    assert [one.has_error() for one in replies] == [True], replies
    assert flower.now() == 500.0
    """
    app = write_app(tmp_path / "app", server=server_of(body))
    lost = {"message_loss": {"probability": 0.999, "attempts_max": 1}}

    done = run(scenario(app, **lost), tmp_path / "run")

    assert done.manifest["horizon_s"] == 500.0
    (late,) = [one for one in done.warnings if one.kind == "late_replies"]
    assert "waiting for replies to 1 message(s)" in late.message
    assert "500 simulated seconds" in late.message


def test_a_polling_server_moves_the_clock(tmp_path: Path) -> None:
    """It waits for nodes that are away, and for replies, by asking again."""
    body = """
    first = set(grid.get_node_ids())
    assert len(first) < 4
    while not (nodes := set(grid.get_node_ids()) - first):
        pass
    assert flower.now() > 0
    ids = set(grid.push_messages([message(node) for node in nodes]))
    times = []
    while ids:
        for reply in grid.pull_messages(ids):
            ids.discard(reply.metadata.reply_to_message_id)
            times.append(flower.now())
    assert len(times) == len(nodes) and times == sorted(times)
    """
    app = write_app(tmp_path / "app", server=server_of(body))
    away = {"availability": {"name": "periodic", "period_s": 1000.0, "share": 0.5}}

    assert run(scenario(app, **away), tmp_path / "run").manifest["horizon_s"] > 0


ONE_BY_ONE = """
nodes = list(grid.get_node_ids())
ids = list(grid.push_messages([message(node) for node in nodes]))
time.sleep(100)
replies = list(grid.pull_messages(ids))
assert len(replies) == 4
for number, reply in enumerate(replies, start=1):
    model = reply.content["arrays"]
    if number in {measured}:
        flower.record(accuracy=number / 10)
    if number < 4:
        back = Message(RecordDict({{"arrays": model}}), reply.metadata.src_node_id, "train")
        grid.push_messages([back])
"""


@pytest.mark.parametrize("measured", [(1, 2, 3, 4), (2, 4), (4,), ()])
def test_models_made_of_one_pull_are_versions_if_they_are_measured(
    measured: tuple[int, ...], tmp_path: Path
) -> None:
    """An asynchronous server that slept: the first model has the participants, none is lost."""
    body = ONE_BY_ONE.format(measured=measured)

    rounds = run(
        scenario(write_app(tmp_path / "app", server=server_of(body))), tmp_path / "run"
    ).rounds

    accuracies = [number / 10 for number in measured]
    known = rounds["accuracy"].dropna().tolist()
    assert known == accuracies
    versions = {1, *measured}
    assert rounds["version"].tolist() == list(range(1, len(versions) + 1))
    assert rounds["participants"].tolist() == [4, *[0] * (len(versions) - 1)]


def test_a_model_that_is_measured_again_is_no_other_version(tmp_path: Path) -> None:
    """Nor is one that was sent before, such as a cluster's."""
    body = """
    nodes = list(grid.get_node_ids())
    first = message(nodes[0])
    for reply in list(grid.send_and_receive([first])):
        second = Message(RecordDict({"arrays": reply.content["arrays"]}), nodes[1], "evaluate")
        flower.record(accuracy=0.5)
        list(grid.send_and_receive([second]))
        flower.record(accuracy=0.6)
        list(grid.send_and_receive([message(nodes[1])]))
    """
    done = run(scenario(write_app(tmp_path / "app", server=server_of(body))), tmp_path / "run")

    assert done.rounds["participants"].tolist() == [1, 1]


def test_a_server_that_waits_for_nothing_is_told(tmp_path: Path) -> None:
    """With no event left, a plain error instead of an endless loop."""
    body = """
    while len(list(grid.get_node_ids())) < 5:
        pass
    """
    app = write_app(tmp_path / "app", server=server_of(body))

    told = "waits for other nodes than the 4 present; population.clients is 4"
    with pytest.raises(Stalled, match=told):
        run(scenario(app), tmp_path / "run")


def test_the_run_ends_by_its_own_criteria(app: Path, tmp_path: Path) -> None:
    """A version, or a moment, at which the server is let go of."""
    one = run(scenario(app, "stop.versions=1"), tmp_path / "versions")
    other = run(scenario(app, "stop.time_s=0.01"), tmp_path / "time")

    assert one.rounds["version"].tolist() == [1]
    assert one.manifest["reason"] == "versions reached 1"
    assert other.manifest["horizon_s"] == 0.01 and not len(other.rounds)


def test_a_client_that_never_works_fails_the_run(tmp_path: Path) -> None:
    """At its first message of a kind, with the place; later on it is an error in its reply."""
    broken = CLIENT.replace("torch.randn(", "missing(")
    app = write_app(tmp_path / "app", client=broken)
    with pytest.raises(Exception, match=r"ClientApp failed.*client\.py:\d+: NameError: .*missing"):
        run(scenario(app), tmp_path / "run")

    works = write_app(tmp_path / "works")
    later = run(scenario(works, run_config={"fails": "2:1"}), tmp_path / "later")
    (warning,) = [one for one in later.warnings if one.kind == "client_errors"]
    assert "client 2: client.py:" in warning.message and "out of order" in warning.message
    assert later.rounds["participants"].tolist() == [4, 3]


def test_a_server_that_fails_is_placed(tmp_path: Path) -> None:
    """By file and line of the app."""
    app = write_app(tmp_path / "app", server=server_of("raise KeyError('x')"))

    with pytest.raises(Exception, match=r"ServerApp failed: server\.py:\d+: KeyError"):
        run(scenario(app), tmp_path / "run")


def test_work_that_cannot_be_counted_has_to_be_declared(tmp_path: Path) -> None:
    """A framework that is not torch: the key is named."""
    numpy_only = CLIENT.replace("net, (inputs, labels) = received(message), data(context)", "", 1)
    start, end = numpy_only.index("    optimizer ="), numpy_only.index("    drawn =")
    text = numpy_only[:start] + "    inputs, net = [0] * 7, network()\n" + numpy_only[end:]
    app = write_app(tmp_path / "app", client=text)

    with pytest.raises(Exception, match=r"--set protocol\.work\.train\.dense=1e6"):
        run(scenario(app), tmp_path / "run")
    declared = "protocol.work.train.dense=1.0e+6"
    assert len(run(scenario(app, declared), tmp_path / "declared").rounds) == 2


def test_a_study_varies_machines_and_the_apps_own_keys(app: Path, tmp_path: Path) -> None:
    """Seeds and run-config train anew, other machines do not."""
    base = scenario(app, run_config={"rounds": 1})
    grid = {
        "population.compute_noise": [0.0, 0.2],
        "protocol.run_config.fraction-evaluate": [0.5, 1.0],
    }
    keys = {"name": "both", "scenario": base, "seeds": [1], "points": {"grid": grid}}
    study(keys, tmp_path / "study", workers=1)
    done = [load_run(one).manifest for one in (tmp_path / "study" / "runs").iterdir()]

    assert sorted(one["counts"]["jobs_trained"] for one in done) == [0, 0, 6, 8]
    assert sorted(one["counts"]["jobs_reused"] for one in done) == [0, 0, 6, 8]
    assert len({one["energy_j"] for one in done}) == 4


def test_the_asynchronous_example_runs(tmp_path: Path) -> None:
    """docs/examples/flower_fedbuff: versions overlap, updates are stale."""
    example = Path(__file__).parents[2] / "docs" / "examples" / "flower_fedbuff"
    given = flower.scenario(example, population=example / "population.yaml")
    rounds = run(given, tmp_path / "run").rounds

    assert len(rounds) > 2 and rounds["staleness_max"].max() > 0
    assert rounds["accuracy"].iloc[-1] > rounds["accuracy"].iloc[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FedProx", "FedAdam", "FedYogi", "FedAvgM", "FedMedian", "Krum"])
def test_flowers_strategies_run_unchanged(name: str, tmp_path: Path) -> None:
    """What they aggregate is not what FedAvg does, or the same."""
    text = SERVER.replace("FedAvg", name)
    text = text.replace("min_evaluate_nodes=least", "min_evaluate_nodes=least, proximal_mu=0.1")
    text = text if name == "FedProx" else text.replace(", proximal_mu=0.1", "")
    rounds = run(scenario(write_app(tmp_path / "app", server=text)), tmp_path / "run").rounds

    assert rounds["version"].tolist() == [1, 2] and rounds["participants"].tolist() == [4, 4]
    assert rounds["loss"].notna().all()


def test_node_identifiers_lead_to_clients(done: LoadedRun) -> None:
    """And one that is not there is refused."""
    from simfl.bridges.flower_app import node_of

    assert len({node_of(client) for client in range(1000)}) == 1000
    assert np.isfinite(done.rounds["time_s"]).all()


def test_flowers_own_name_is_where_it_is_looked_for() -> None:
    """The one internal that is set: there, or not needed by this version."""
    from flwr.app import Message, RecordDict

    from simfl.bridges.flower_app import identify

    identify()
    made = Message(RecordDict(), dst_node_id=7, message_type="train")
    assert made.metadata.dst_node_id == 7


EXAMPLES = os.environ.get("SIMFL_FLOWER_EXAMPLES")
DECLARED = ["work.train.dense=24", "work.evaluate.dense=24", "work.evaluate.forward_only=true"]


@pytest.mark.slow
@pytest.mark.skipif(
    EXAMPLES is None, reason="SIMFL_FLOWER_EXAMPLES names no folder of Flower's examples"
)
@pytest.mark.parametrize(
    ("name", "declared", "config"),
    [
        ("quickstart-pytorch", [], {}),
        ("quickstart-pytorch-old", [], {}),  # before it took to the newer API: client_fn, server_fn
        ("quickstart-sklearn", DECLARED, {}),
        ("fl-tabular", [], {}),
        ("flower-secure-aggregation", [], {"is-demo": False}),
    ],
)
def test_flowers_own_examples_run_as_they_are(
    name: str,
    declared: list[str],
    config: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Read from its repository, with a stand-in for the data sets that they download."""
    assert EXAMPLES is not None
    shutil.copytree(Path(EXAMPLES) / name, tmp_path / "app")
    before = digest_of_sources(tmp_path / "app", set(sys.modules))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(STANDINS / "standin"))
    try:
        import torchvision.transforms  # noqa: F401
    except (ImportError, RuntimeError):  # it does not go with the installed torch
        monkeypatch.syspath_prepend(str(STANDINS / "standin_vision"))
    options = [f"protocol.{one}" for one in declared]
    config = {"num-server-rounds": 2, **config}
    of_five = scenario(tmp_path / "app", *options, run_config=config, clients=5)
    done = run(of_five, tmp_path / "run")

    assert done.manifest["status"] == "completed"
    assert done.rounds["version"].tolist() == [1, 2]
    assert done.rounds["accuracy"].notna().all()
    assert digest_of_sources(tmp_path / "app", set(sys.modules)) == before


@pytest.mark.parametrize("order", [1, -1])
def test_replies_of_one_pull_come_in_the_order_of_their_arrival(order: int, tmp_path: Path) -> None:
    """However the app keeps their identifiers, such as in a set, whose order varies by process."""
    body = f"""
    nodes = list(grid.get_node_ids())
    ids = list(grid.push_messages([message(node) for node in nodes]))
    time.sleep(100)
    replies = list(grid.pull_messages(ids[::{order}]))
    came = [nodes.index(one.metadata.src_node_id) for one in replies]
    flower.record(**{{f"place_{{place}}": client for place, client in enumerate(came)}})
    """
    app = write_app(tmp_path / "app", server=server_of(body))

    done = run(scenario(app, speed_spread=1.0), tmp_path / "run")

    uploads = done.events.query("kind == 'upload'").sort_values(["time_s", "client"])["client"]
    assert uploads.tolist() != [0, 1, 2, 3]
    figures = done.rounds.iloc[-1]
    assert [figures[f"server.place_{place}"] for place in range(4)] == uploads.tolist()


EVALUATED = (
    SERVER.replace("num_rounds=config", "evaluate_fn=scored, num_rounds=config")
    .replace(
        "app = ServerApp()",
        "app = ServerApp()\n\n"
        "def scored(now, arrays):\n    return MetricRecord({'accuracy': now / 10})",
    )
    .replace("import ArrayRecord", "import ArrayRecord, MetricRecord")
)


def test_the_last_version_is_the_one_that_clients_and_server_evaluated(tmp_path: Path) -> None:
    """Flower calls the server's `evaluate_fn` after the clients' evaluation of the same model."""
    app = write_app(tmp_path / "app", server=EVALUATED)

    rounds = run(scenario(app), tmp_path / "run").rounds

    assert rounds["version"].tolist() == list(range(1, len(rounds) + 1))
    assert rounds["server.accuracy"].tolist() == [now / 10 for now in rounds["version"]]


def test_a_start_that_no_strategy_brings_is_heard(tmp_path: Path) -> None:
    """A mixin's `start` evaluates by itself: its figures are the server's."""
    mixin = (
        "class Tracked:\n"
        "    def start(self, grid, initial_arrays, evaluate_fn=None, **named):\n"
        "        made = super().start(grid, initial_arrays, **named)\n"
        "        evaluate_fn(2, made.arrays)\n"
        "        return made\n\n"
        "class Mixed(Tracked, FedAvg):\n    pass\n\n"
        "app = ServerApp()"
    )
    server = EVALUATED.replace("app = ServerApp()", mixin).replace("= FedAvg(", "= Mixed(")
    app = write_app(tmp_path / "app", server=server)

    rounds = run(scenario(app), tmp_path / "run").rounds

    assert rounds["server.accuracy"].iloc[-1] == 0.2
