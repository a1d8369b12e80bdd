"""Flower's strategies give the model that they give without simfl; skipped without Flower."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from simfl import flower
from simfl.runs.execution import run
from simfl.streams import Streams
from tests.bridges.apps import CLIENT, SERVER, write_app

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` has it")
pytestmark = pytest.mark.filterwarnings("default")  # Flower's own

from flwr.app import Message  # noqa: E402
from flwr.clientapp import mod as mods  # noqa: E402
from flwr.serverapp import Grid, strategy  # noqa: E402

from simfl.bridges.flower_app import FlowerApp, addressed, client_of, node_of, packed  # noqa: E402
from simfl.bridges.flower_values import generators  # noqa: E402
from tests.bridges.test_flower import quiet  # noqa: E402

__all__ = ["quiet"]

NODES, SEED = 7, 5
POPULATION = {
    "name": "catalogue",
    "clients": NODES,
    "groups": [{"device": "rpi_4b", "link": "wifi5_ac", "share": 1.0}],
}

PRIVATE = "FedAvg(fraction_evaluate=share, min_evaluate_nodes=least), 0.1"
CASES = {
    "FedAdam": ("FedAdam({})", ""),
    "FedAvgM": ("FedAvgM({}, server_momentum=0.9)", ""),
    "FedMedian": ("FedMedian({})", ""),
    "FedTrimmedAvg": ("FedTrimmedAvg({})", ""),
    "MultiKrum": ("MultiKrum({}, num_malicious_nodes=1, num_nodes_to_select=3)", ""),
    "Bulyan": ("Bulyan({}, num_malicious_nodes=1)", ""),
    "QFedAvg": ("QFedAvg(0.1, 0.2, train_loss_key='drawn', {})", ""),
    "DifferentialPrivacyServerSideFixedClipping": (f"{{name}}({PRIVATE}, 5.0, {NODES})", ""),
    "DifferentialPrivacyClientSideAdaptiveClipping": (
        f"{{name}}({PRIVATE}, {NODES}, 0.1, 0.5, 0.2, 1.0)",
        "adaptiveclipping_mod",
    ),
}


class Plain(Grid):
    """Nodes that answer at once, one after another, from the generators that simfl gives them."""

    def __init__(self, app: FlowerApp) -> None:
        self._app = app
        self._states: dict[int, bytes] = {}
        self._asked = [0] * NODES
        self._sent = 0

    def set_run(self, run: Any) -> None:
        """There is one run."""

    @property
    def run(self) -> Any:
        """It has a number."""
        return SimpleNamespace(run_id=1)

    def create_message(self, *args: Any, **named: Any) -> Message:
        """Abstract in Flower's Grid; these strategies make their messages themselves."""
        raise NotImplementedError

    push_messages = pull_messages = create_message

    def get_node_ids(self) -> Iterable[int]:
        """All of them."""
        return [node_of(client) for client in range(NODES)]

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> Iterable[Message]:
        """The answers."""
        return [self._answered(one) for one in messages]

    def _answered(self, message: Message) -> Message:
        client = client_of(message, NODES)
        self._sent += 1
        state = self._states.get(client, b"")
        seed = Streams(SEED).seed("flower.client", client, self._asked[client])
        self._asked[client] += 1
        sent = addressed(message, packed(message.content), self._sent)
        with generators(seed):
            reply, self._states[client] = self._app.call_client(sent, client, NODES, state)
        return reply


@pytest.mark.parametrize("name", CASES)
def test_a_strategy_gives_the_model_that_it_gives_without_simfl(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, with noise, momentum, and clipping at the clients."""
    text, mod = CASES[name]
    if not hasattr(strategy, name) or (mod and not hasattr(mods, mod)):
        pytest.skip("this version of Flower has none")
    given = "fraction_evaluate=share, min_evaluate_nodes=least"
    server = SERVER.replace(f"FedAvg({given})", text.format(given, name=name))
    server = server.replace("import FedAvg", f"import FedAvg, {name}")
    client = CLIENT
    if mod:
        client = f"from flwr.clientapp.mod import {mod}\n{CLIENT}"
        client = client.replace("@app.train()", f"@app.train(mods=[{mod}])")
    folder = write_app(tmp_path / "app", server=server, client=client)
    results: list[Any] = []
    start = strategy.Strategy.start

    def kept(self: Any, *args: Any, **named: Any) -> Any:
        results.append(start(self, *args, **named))
        return results[-1]

    monkeypatch.setattr(strategy.Strategy, "start", kept)
    with generators(Streams(SEED).seed("flower.server")):
        app = FlowerApp(folder, {"fraction-evaluate": 0.0})
        app.call_server(Plain(app))
        app.close()
    config = {"fraction-evaluate": 0.0}
    made = flower.scenario(folder, population=POPULATION, run_config=config, seed=SEED)
    done = run(made, tmp_path / "run")

    plain, simulated = (one.arrays for one in results)
    saved = load_file(done.path / "model.safetensors")
    for key, array in plain.items():
        np.testing.assert_array_equal(array.numpy(), simulated[key].numpy())
        np.testing.assert_array_equal(array.numpy(), saved[key])
    assert done.rounds["participants"].tolist() == [NODES, NODES]
