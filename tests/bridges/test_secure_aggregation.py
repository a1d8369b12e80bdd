"""Flower's SecAgg+ under simfl's clock: four messages a round, one version, one training each."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from simfl import Options, flower
from simfl.provenance.results import MemoryStore
from simfl.runs.execution import run
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.scenario import Scenario
from tests.bridges.apps import OLD_CLIENT, write_app

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` has it")
pytestmark = pytest.mark.filterwarnings("default")  # Flower's own

CLIENTS, ROUNDS, STAGES = 5, 2, 4

OPEN_CLIENT = OLD_CLIENT.replace("torch.randperm(", "torch.arange(")
"""Without masks, and in an order that does not depend on which message it trains at."""

SECURE_CLIENT = OPEN_CLIENT.replace(
    "app = ClientApp(client_fn=lambda context: Client(context).to_client())",
    """from flwr.client.mod import secaggplus_mod

app = ClientApp(lambda context: Client(context).to_client(), mods=[secaggplus_mod])""",
)

SERVER = """
from flwr.common import ndarrays_to_parameters
from small_app.client import network
from flwr.server import LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

app = ServerApp()

@app.main()
def main(grid, context):
    strategy = FedAvg(
        min_fit_clients=5,
        min_available_clients=5,
        fraction_evaluate=context.run_config["fraction-evaluate"],
        initial_parameters=ndarrays_to_parameters(
            [one.numpy() for one in network().state_dict().values()]
        ),
        on_fit_config_fn=lambda now: {"round": now},
    )
    config = ServerConfig(num_rounds=context.run_config["rounds"])
    legacy = LegacyContext(context=context, config=config, strategy=strategy)
    DefaultWorkflow(fit_workflow=FIT)(grid, legacy)
"""


def secure_app(folder: Path, *, threshold: int = 3, client: str = SECURE_CLIENT) -> Path:
    """A small app whose server sees nothing but sums."""
    workflow = f"SecAggPlusWorkflow(num_shares=5, reconstruction_threshold={threshold})"
    return write_app(folder, server=SERVER.replace("FIT", workflow), client=client)


def open_app(folder: Path) -> Path:
    """The same without masks."""
    server = SERVER.replace("fit_workflow=FIT", "")
    return write_app(folder, server=server, client=OPEN_CLIENT)


def scenario(app: Path, *overrides: str, **config: str | float) -> Scenario:
    """Five Raspberry Pis; nobody evaluates unless that is asked for."""
    config = {"fraction-evaluate": 0.0, **config}
    pis = [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}]
    population = {"name": "catalogue", "clients": CLIENTS, "groups": pis}
    return flower.scenario(app, population=population, run_config=config, overrides=overrides)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app with five nodes, each with a share for all; three of them unmask."""
    return secure_app(tmp_path_factory.mktemp("secure") / "app")


@pytest.fixture(scope="module")
def done(app: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """Two rounds of it."""
    return run(scenario(app), tmp_path_factory.mktemp("done") / "run")


def test_four_messages_are_one_round_and_one_version(done: LoadedRun) -> None:
    """Only at one of the four a node trains, and is said to take part."""
    events = done.events
    computed = events[events["kind"] == "compute"]
    per_node = computed.groupby(["round", "client"])["duration_s"]

    assert done.manifest["status"] == "completed"
    assert done.rounds["version"].tolist() == [1, 2]
    assert done.rounds["round"].tolist() == [0, 1]
    assert done.rounds["participants"].tolist() == [CLIENTS] * ROUNDS
    assert done.clients["participations"].tolist() == [ROUNDS] * CLIENTS
    assert (per_node.size() == STAGES).all() and len(per_node) == ROUNDS * CLIENTS
    assert (per_node.apply(lambda seconds: (seconds > 0).sum()) == 1).all()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """The same without masks."""
    folder = tmp_path_factory.mktemp("open")
    return run(scenario(open_app(folder / "app")), folder / "run")


def test_keys_and_shares_are_sent_and_waited_for(done: LoadedRun, plain: LoadedRun) -> None:
    """Without masks: a message a round, fewer bytes, sooner done."""
    messages = {one: (one.events["kind"] == "upload").sum() for one in (done, plain)}

    assert messages[done] == STAGES * messages[plain] == STAGES * ROUNDS * CLIENTS
    assert done.rounds["bytes"].iloc[-1] > 2 * plain.rounds["bytes"].iloc[-1]
    assert done.rounds["time_s"].iloc[0] > plain.rounds["time_s"].iloc[0]


def test_a_version_is_out_before_the_next_rounds_keys(done: LoadedRun) -> None:
    """Its row does not have the seconds of messages that belong to the next round."""
    events = done.events
    begins_s = events[(events["round"] == 1) & (events["kind"] == "download")]["time_s"].min()

    assert done.rounds["time_s"].iloc[0] <= begins_s


def test_it_learns_what_it_learns_without_masks(done: LoadedRun, plain: LoadedRun) -> None:
    """Except for rounding to integers."""
    masked, bare = (load_file(one.path / "model.safetensors") for one in (done, plain))

    assert masked.keys() == bare.keys()
    for name, weights in bare.items():
        assert masked[name].numpy() == pytest.approx(weights.numpy(), abs=1e-3)


def test_keys_are_drawn_anew_and_events_are_the_same(
    done: LoadedRun, app: Path, tmp_path: Path
) -> None:
    """Keys come from the operating system; neither sizes nor the unmasked sum depend on them."""
    again = run(scenario(app), tmp_path / "run")

    assert again.events.equals(done.events)
    assert again.manifest["fingerprint"] == done.manifest["fingerprint"]


def test_other_machines_ask_nobody_again(app: Path, tmp_path: Path) -> None:
    """All four answers of a round are looked up."""
    store = MemoryStore()
    run(scenario(app), tmp_path / "one", Options(store=store))
    other = run(
        scenario(app, "population.compute_noise=0.2"), tmp_path / "two", Options(store=store)
    )

    assert other.manifest["counts"]["jobs_trained"] == 0
    assert other.manifest["counts"]["jobs_reused"] == ROUNDS * STAGES * CLIENTS


def test_one_that_drops_out_is_unmasked_by_the_others_shares(app: Path, tmp_path: Path) -> None:
    """It fails where it is to train; four vectors are summed, and the round goes on."""
    done = run(scenario(app, fails="2:1"), tmp_path / "run")

    assert done.rounds["participants"].tolist() == [CLIENTS, CLIENTS - 1]
    assert "client_errors" in [one.kind for one in done.warnings]


def test_a_sum_that_nobody_unmasks_is_no_version(tmp_path: Path) -> None:
    """Four shares are needed, and two of five nodes fail in the second and the last round."""
    client = SECURE_CLIENT.replace(
        "if f\"{self.part}:{config['round'] - 1}\" == self.fails:",
        'if config["round"] in (2, 4) and self.part in (1, 3):',
    )
    assert client != SECURE_CLIENT
    app = secure_app(tmp_path / "app", threshold=4, client=client)
    done = run(scenario(app, rounds=4, **{"fraction-evaluate": 1.0}), tmp_path / "run")

    assert done.rounds["round"].tolist() == [0, 2]
    assert done.rounds["participants"].tolist() == [CLIENTS, CLIENTS]
    (warning,) = [one for one in done.warnings if one.kind == "left_out_updates"]
    assert warning.count == 2 * (CLIENTS - 2)


def test_it_warns_that_masks_are_free(done: LoadedRun) -> None:
    """What a device takes for them is not counted."""
    (warning,) = [one for one in done.warnings if one.kind == "masks_are_free"]

    assert warning.count == ROUNDS * STAGES * CLIENTS


def test_declared_work_and_bytes_are_those_of_the_message_that_trains(
    app: Path, tmp_path: Path
) -> None:
    """Messages with keys and shares are unchanged."""
    declared = "protocol.bytes.train={up: 1000000}", "protocol.work.train={dense: 1000.0}"
    done = run(scenario(app, *declared), tmp_path / "run")
    sent = done.events[done.events["kind"] == "upload"]["bytes"]

    assert (sent == 1_000_000).sum() == ROUNDS * CLIENTS
    assert sent[sent != 1_000_000].max() < 10_000
