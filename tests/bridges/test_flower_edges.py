"""Flower apps where something goes wrong, or one comes after another; skipped without Flower."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from simfl import Options, flower
from simfl.protocols.clock import Stalled
from simfl.provenance.results import FolderStore, MemoryStore
from simfl.runs.execution import run
from simfl.scenario.scenario import Scenario
from tests.bridges.apps import CLIENT, OLD_CLIENT, OLD_SERVER, SERVER, server_of, write_app

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` has it")
pytestmark = pytest.mark.filterwarnings("default")  # Flower's own

from flwr.app import MetricRecord, RecordDict  # noqa: E402

from simfl.bridges.flower_grid import SimulatedGrid  # noqa: E402
from simfl.bridges.flower_values import AppFailed  # noqa: E402
from tests.bridges.test_flower import POPULATION, quiet, scenario  # noqa: E402

__all__ = ["quiet"]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app of Flower's old API."""
    folder = tmp_path_factory.mktemp("old") / "app"
    return write_app(folder, server=OLD_SERVER, client=OLD_CLIENT)


def test_an_app_of_the_old_api_runs(old: Path, tmp_path: Path) -> None:
    """Its strategy, its rounds, a client that fails, nodes that are waited for."""
    away = {"availability": {"name": "periodic", "period_s": 1000.0, "share": 0.6}}
    one = run(scenario(old, run_config={"fails": "2:1"}), tmp_path / "one")
    other = run(scenario(old, **away), tmp_path / "other")

    assert one.rounds["participants"].tolist() == [4, 3]
    assert one.rounds["accuracy"].tolist() == one.rounds["evaluate.accuracy"].tolist()
    assert one.rounds["loss"].is_monotonic_decreasing
    assert other.rounds["participants"].tolist() == [2, 4]  # it had counted them, and then waited
    assert other.rounds["time_s"].iloc[0] > 100 > one.rounds["time_s"].iloc[0]


def test_a_metric_is_averaged_over_those_who_report_it() -> None:
    """Weighted by their examples; one that nobody has examples for has no mean."""
    told: dict[str, dict[str, float]] = {}
    grid = SimpleNamespace(_values=SimpleNamespace(tell=told.__setitem__))

    def letter(**metrics: float) -> SimpleNamespace:
        reply = SimpleNamespace(
            content=RecordDict({"metrics": MetricRecord(metrics)}), has_content=lambda: True
        )
        answer = SimpleNamespace(reply=reply)
        return SimpleNamespace(here=True, kind="train", answer=answer)

    letters = [
        letter(**{"num-examples": 10.0, "accuracy": 0.8, "loss": 1.0}),
        letter(**{"num-examples": 30.0, "loss": 3.0}),
        letter(**{"num-examples": 0.0, "odd": 1.0}),
    ]

    SimulatedGrid._measured(grid, letters)  # type: ignore[arg-type]

    assert told["train"] == {"accuracy": 0.8, "loss": 2.5}


def test_a_strategy_finds_the_nodes_where_their_manager_keeps_them(tmp_path: Path) -> None:
    """Those that are there in each round, though it asks the manager for nothing."""
    own = """
from flwr.common import FitIns, ndarrays_to_parameters
from small_app.client import network

class Everybody(FedAvg):
    def configure_fit(self, server_round, parameters, client_manager):
        given = FitIns(parameters, {"round": server_round})
        return [(one, given) for one in client_manager.clients.values()]

    def initialize_parameters(self, client_manager):
        weights = network().state_dict().values()
        return ndarrays_to_parameters([one.numpy() for one in weights])
"""
    server = OLD_SERVER.replace("def server_fn", f"{own}\ndef server_fn").replace(
        "= FedAvg(", "= Everybody(fraction_evaluate=0.0, "
    )
    app = write_app(tmp_path / "app", server=server, client=OLD_CLIENT)
    done = run(scenario(app), tmp_path / "run")

    assert done.rounds["participants"].tolist() == [4, 4]


def test_trees_of_the_old_api_are_a_model(tmp_path: Path) -> None:
    """Parameters that are bytes and no arrays, as XGBoost's are."""
    own = """
from flwr.common import Parameters

class OfTrees(FedAvg):
    def aggregate_fit(self, server_round, results, failures):
        trees = b"".join(one.parameters.tensors[0] for _, one in results)
        return Parameters(tensor_type="", tensors=[trees]), {}
"""
    client = """
    from flwr.client import Client, ClientApp
    from flwr.common import Code, EvaluateRes, FitRes, Parameters, Status

    OK = Status(Code.OK, "")

    class Trees(Client):
        def fit(self, ins):
            return FitRes(OK, Parameters(tensor_type="", tensors=[b"{" * 500]), 40, {})

        def evaluate(self, ins):
            size = len(ins.parameters.tensors[0])
            return EvaluateRes(OK, 1.0, 40, {"accuracy": size / 10_000})

    app = ClientApp(client_fn=lambda context: Trees())
    """
    server = OLD_SERVER.replace("def server_fn", f"{own}\ndef server_fn").replace(
        "= FedAvg(", "= OfTrees(initial_parameters=Parameters(tensor_type='', tensors=[b'0']), "
    )
    app = write_app(tmp_path / "app", server=server, client=client)
    work = [f"protocol.work.{kind}.dense=1e4" for kind in ("train", "evaluate")]
    done = run(scenario(app, *work), tmp_path / "run")

    assert done.rounds["participants"].tolist() == [4, 4]
    assert done.rounds["accuracy"].tolist() == [0.2, 0.2]


def test_a_memory_in_files_is_told(tmp_path: Path) -> None:
    """A file that a client writes for its next round, not one that is only read or written."""
    memory = """
    from pathlib import Path
    own = Path("own_{}.txt".format(context.node_config["partition-id"]))
    before = own.read_text() if own.exists() and READS else Path(__file__).read_text()
    own.write_text(f"{len(before)}{before[:9]}")
"""
    kinds = []
    for reads in (False, True):
        head = "def train(message, context):"
        client = CLIENT.replace(head, head + memory.replace("READS", str(reads)))
        app = write_app(tmp_path / f"app_{reads}", client=client)
        here = tmp_path / f"here_{reads}"
        here.mkdir()
        with chdir(here):
            done = run(scenario(app, run_config={"rounds": 3}), tmp_path / f"run_{reads}")
        kinds.append([one.kind for one in done.warnings])
        told = [one.message for one in done.warnings if one.kind == "changing_files"]

    assert "changing_files" not in kinds[0]
    assert told[0].startswith("the ClientApps read 4 files that had changed")
    assert str(tmp_path / "here_True" / "own_0.txt") in told[0]


def test_updates_that_a_strategy_discards_are_in_no_version(tmp_path: Path) -> None:
    """A round with a failure, of a strategy that takes none, of either API."""
    strict = OLD_SERVER.replace("min_available", "accept_failures=False, min_available")
    own = """
class Strict(FedAvg):
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        failed = any(one.has_error() for one in replies)
        return (None, None) if failed else super().aggregate_train(server_round, replies)
"""
    new = SERVER.replace("app =", f"{own}\napp =", 1).replace("= FedAvg(", "= Strict(")
    # What fails goes by the round: a node that fails remembers nothing of it.
    client = CLIENT.replace(':{turn}"', ":{message.content['config']['server-round'] - 1}\"")
    for name, server, made in (("old", strict, OLD_CLIENT), ("new", new, client)):
        app = write_app(tmp_path / name, server=server, client=made)
        config = {"fails": "2:1", "rounds": 3}
        done = run(scenario(app, run_config=config), tmp_path / f"run_{name}")

        assert done.rounds["round"].tolist() == [0, 2], name
        assert done.rounds["participants"].tolist() == [4, 4], name
        (warning,) = [one for one in done.warnings if one.kind == "left_out_updates"]
        assert warning.message.startswith("3 updates arrived"), name


def test_a_workflow_of_the_old_api_is_heard(tmp_path: Path) -> None:
    """What its strategy evaluates at the server, and its model."""
    body = """
    from flwr.common import ndarrays_to_parameters
    from flwr.server import LegacyContext, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import DefaultWorkflow

    strategy = FedAvg(
        min_available_clients=4,
        on_fit_config_fn=lambda now: {"round": now},
        evaluate_fn=lambda now, weights, config: (1.0 / (1 + now), {"accuracy": now / 10}),
    )
    config = ServerConfig(num_rounds=2)
    DefaultWorkflow()(grid, LegacyContext(context=context, config=config, strategy=strategy))
    """
    app = write_app(tmp_path / "app", server=server_of(body), client=OLD_CLIENT)
    done = run(scenario(app), tmp_path / "run")

    assert done.rounds["accuracy"].tolist() == [0.1, 0.2]
    assert done.rounds["loss"].tolist() == [1 / 2, 1 / 3]
    assert (done.path / "model.safetensors").exists()


def test_a_run_that_stalls_leaves_nothing_behind(tmp_path: Path) -> None:
    """Flower's strategies and the generators are restored; the next run gets its own metrics."""
    from flwr.server import server
    from flwr.serverapp.strategy import Strategy

    from simfl.bridges.present import _runs

    before = Strategy.start, server.fit_clients, random.getstate()
    cleared = tmp_path / "cleared"
    body = f"""
    try:
        while len(list(grid.get_node_ids())) < 5:
            pass
    finally:
        time.sleep(0.05)
        open({str(cleared)!r}, "w").close()
    """
    app = write_app(tmp_path / "app", server=server_of(body))
    with pytest.raises(Stalled):
        run(scenario(app), tmp_path / "stalled")

    assert (Strategy.start, server.fit_clients, random.getstate()) == before
    assert not _runs and cleared.exists()  # it came to its end before the run did
    assert not [name for name in sys.modules if name.startswith("small_app")]


def test_who_only_looks_at_the_nodes_does_not_wait(tmp_path: Path) -> None:
    """An app that does so before its strategy does, or for each of several groups."""
    look = """
    before = [list(grid.get_node_ids()) for _ in range({often})]
    seen = len(list(grid.get_node_ids())), len(list(grid.get_nodes()))
    assert flower.now() == 0.0
    strategy.start"""
    heard = SERVER.replace("from flwr.app", "from simfl import flower\nfrom flwr.app")
    looking = [heard.replace("\n    strategy.start", look.format(often=often)) for often in (2, 10)]
    away = {"availability": {"name": "periodic", "period_s": 1000.0, "share": 0.8}}
    for number, (server, changes) in enumerate(zip(looking, (away, {}), strict=True)):
        app = write_app(tmp_path / f"app{number}", server=server)
        done = run(scenario(app, run_config={"rounds": 1}, **changes), tmp_path / f"run{number}")
        assert done.rounds["time_s"].iloc[0] < 10


def test_what_has_expired_is_not_delivered(tmp_path: Path) -> None:
    """A node that is busy until then computes nothing for it, and sends nothing."""
    body = """
    node = list(grid.get_node_ids())[0]
    first = list(grid.push_messages([message(node)]))
    replies = list(grid.send_and_receive([message(node, ttl=0.01)]))
    assert flower.now() == 0.01 and replies[0].error.code == 3
    while not list(grid.pull_messages(first)):
        pass
    ended = flower.now()
    assert not list(grid.send_and_receive([message(node)]))[0].has_error() and ended > 0.01
    """
    app = write_app(tmp_path / "app", server=server_of(body))
    events = run(scenario(app), tmp_path / "run").events

    assert {kind: int((events["kind"] == kind).sum()) for kind in ("download", "upload")} == {
        "download": 2,
        "upload": 2,
    }


def test_an_error_is_the_apps_own_and_costs_what_was_computed(tmp_path: Path) -> None:
    """Its code, the node's memory where the app has answered, and the work until then."""
    body = """
    node = list(grid.get_node_ids())[0]
    for number in range(3):
        reply, = grid.send_and_receive([message(node)])
        if number == 1:
            assert reply.has_error() and reply.error.code == {code}
            assert reply.error.reason.endswith({reason!r}), reply.error.reason
    assert reply.content["metrics"]["turns"] == {turns}
    """
    own = "from flwr.app import Error\n        return Message(Error(77, 'mine'), reply_to=message)"
    ends = {
        own: (77, "mine", 3),
        "raise RuntimeError('late')": (2, "<class 'RuntimeError'>:<'late'>", 2),
        "raise SystemExit(3)": (2, "<class 'SystemExit'>:<'3'>", 2),
    }
    for number, (end, (code, reason, turns)) in enumerate(ends.items()):
        once = tmp_path / f"once{number}"
        text = f"    import pathlib\n    once, more = pathlib.Path({str(once)!r}), turn == 1\n"
        text += f"    if more and not once.exists():\n        once.touch()\n        {end}\n"
        client = CLIENT.replace("    drawn =", f"{text}    drawn =")
        server = server_of(body.format(code=code, reason=reason, turns=turns))
        app = write_app(tmp_path / f"app{number}", server=server, client=client)
        done = run(scenario(app, compute_noise=0.0), tmp_path / f"run{number}")
        cycles = done.events[done.events["kind"] == "compute"].sort_values("time_s")["cycles"]
        assert cycles.iloc[1] == pytest.approx(cycles.iloc[0]) and cycles.iloc[1] > 0
        (warning,) = [one for one in done.warnings if one.kind == "client_errors"]
        assert "1 messages were answered with an error; client 0: " in warning.message


def test_strategies_of_an_apps_own_are_heard(tmp_path: Path) -> None:
    """With a `start` of their own, around Flower's, made while the app runs, or one in another."""
    loop = """
class Own(FedAvg):
    def start(self, grid, arrays, num_rounds, evaluate_fn=None):
        for now in range(1, num_rounds + 1):
            asked = self.configure_train(now, arrays, ConfigRecord(), grid)
            arrays, _ = self.aggregate_train(now, grid.send_and_receive(asked))
            evaluate_fn(now, arrays)

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        return arrays, {"halved": metrics["turns"] / 2}
"""
    around = """
class Own(FedAvg):
    def start(self, *args, **named):
        return super().start(*args, **named)

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        return arrays, MetricRecord({"halved": metrics["turns"] / 2})
"""
    late = "\n".join(f"    {line}" for line in around.splitlines())
    head = "from flwr.app import ConfigRecord, MetricRecord\n" + SERVER
    asks = "], evaluate_fn=lambda now, arrays: MetricRecord({'accuracy': now / 10}))"
    heard = head.replace("])\n", f"{asks}\n").replace("= FedAvg(", "= Own(")
    variants = {
        "loop": heard.replace("app =", f"{loop}\napp =", 1),
        "around": heard.replace("app =", f"{around}\napp =", 1),
        "late": heard.replace("    strategy =", f"{late}\n    strategy =", 1),
    }
    for name, server in variants.items():
        done = run(scenario(write_app(tmp_path / name, server=server)), tmp_path / f"run_{name}")
        assert done.rounds["accuracy"].tolist() == [0.1, 0.2], name
        assert done.rounds["train.halved"].tolist() == [0.5, 1.0], name
        assert (done.path / "model.safetensors").exists(), name


def test_figures_are_those_of_the_plainest_name() -> None:
    """Whatever else has a part of it in its name; among equals the first."""
    from simfl.bridges.flower_values import _by_name

    def found(figure: str, *metrics: str) -> list[str]:
        return _by_name(dict.fromkeys(metrics, 0.5), figure)

    assert found("accuracy", "acc_std", "accuracy", "eval_acc") == ["accuracy"]
    assert found("accuracy", "balanced_acc", "cen_accuracy", "num_accepted") == ["cen_accuracy"]
    assert found("accuracy", "testAcc", "acc_std") == ["testAcc"]
    assert found("accuracy", "valacc", "accumulated") == ["valacc"]
    assert found("loss", "eval_loss", "kl_loss", "loss") == ["loss"]
    assert found("loss", "kl_loss", "reg_loss") == ["kl_loss", "reg_loss"]
    assert found("loss", "blossoms") == []


def test_a_doubtful_figure_is_told(tmp_path: Path) -> None:
    """An accuracy in percent, or one of several; not where the key is given."""
    client = CLIENT.replace('"eval_acc": right', '"top5_acc": right, "top1_acc": 100 * right')
    app = write_app(tmp_path / "app", client=client)
    guessed = run(scenario(app), tmp_path / "guessed")
    named = run(scenario(app, "protocol.accuracy=top5_acc"), tmp_path / "named")

    (warning,) = [one for one in guessed.warnings if one.kind == "ambiguous_figures"]
    assert "accuracy is top1_acc of evaluate, not top5_acc;" in warning.message
    assert "accuracy (top1_acc) is no share: it was " in warning.message
    assert "ambiguous_figures" not in [one.kind for one in named.warnings]


def test_a_figure_that_nobody_measures_is_told(tmp_path: Path) -> None:
    """With what there was instead; who trains is asked by the key alone."""
    app = write_app(tmp_path / "app")
    keys = ("protocol.accuracy=acc", "protocol.loss=drawn")
    done = run(scenario(app, *keys, run_config={"rounds": 1}), tmp_path / "run")

    (warning,) = [one for one in done.warnings if one.kind == "ambiguous_figures"]
    assert warning.message == (
        "protocol.accuracy is 'acc', no metric that was measured (evaluate.eval_acc,"
        " evaluate.eval_loss, train.drawn, train.turns)"
    )
    assert done.rounds["loss"].tolist() == done.rounds["train.drawn"].tolist()


def test_metrics_without_an_accuracy_are_told(tmp_path: Path) -> None:
    """For an app that only measures an AUC, until it is named; not for an app with only losses."""
    auc = CLIENT.replace('"eval_acc": right', '"auc": right')
    app = write_app(tmp_path / "app", client=auc)
    unnamed = run(scenario(app), tmp_path / "unnamed")
    named = run(scenario(app, "protocol.accuracy=auc"), tmp_path / "named")
    losses = CLIENT.replace('"eval_acc": right', '"kl_loss": right')
    only = run(scenario(write_app(tmp_path / "losses", client=losses)), tmp_path / "only")

    (warning,) = [one for one in unnamed.warnings if one.kind == "ambiguous_figures"]
    assert warning.message == (
        "no metric is called an accuracy (evaluate.auc): the column is empty"
    )
    assert named.rounds["accuracy"].tolist() == unnamed.rounds["evaluate.auc"].tolist()
    assert "ambiguous_figures" not in [one.kind for one in named.warnings]
    assert not any("accuracy" in one.message for one in only.warnings)


def test_figures_of_groups_leave_that_of_all(old: Path, tmp_path: Path) -> None:
    """Flower's baseline fedbn aggregates an accuracy per data set: all of them are columns."""
    groups = "{'accuracy': {str(n): one['accuracy'] for n, (_, one) in enumerate(said)}}"
    given = f"evaluate_metrics_aggregation_fn=lambda said: {groups}, min_available"
    server = OLD_SERVER.replace("min_available", given)
    app = write_app(tmp_path / "app", server=server, client=OLD_CLIENT)
    plain, done = run(scenario(old), tmp_path / "old"), run(scenario(app), tmp_path / "run")

    assert done.rounds["accuracy"].tolist() == plain.rounds["accuracy"].tolist()
    groups_of_all = done.rounds[[f"evaluate.accuracy[{place}]" for place in range(4)]]
    assert groups_of_all.mean(axis=1).to_numpy() == pytest.approx(plain.rounds["accuracy"])
    assert "ambiguous_figures" not in [one.kind for one in done.warnings]


def test_numbers_are_those_of_any_library() -> None:
    """Single numbers, in a record of any kind except Flower's own."""
    from flwr.app import ConfigRecord, MetricRecord, RecordDict

    from simfl.bridges.flower_app import numbers, single

    made = {"a": np.float32(0.5), "b": torch.tensor(2.0), "c": np.zeros(3), "d": "4", "e": True}
    assert single({**made, "f": {"g": 1}}) == {"a": 0.5, "b": 2.0, "e": 1.0, "f[g]": 1.0}

    records = {"one": ConfigRecord({"AUC": 0.75, "model": b"tree", "num_examples": 30})}
    records["fitres.status"] = ConfigRecord({"code": 0, "message": "ok"})
    metrics = MetricRecord({"loss": 2.0, "each": [1.0, 2.0]})
    found = numbers(RecordDict({**records, "two": metrics}))
    assert found == {"AUC": 0.75, "num-examples": 30.0, "loss": 2.0}


def test_what_is_declared_is_not_to_be_declared(tmp_path: Path) -> None:
    """In an answer that does not say how many examples there were."""
    client = CLIENT.replace('"num-examples": len(inputs), "drawn"', '"rows": len(inputs), "drawn"')
    app = write_app(tmp_path / "app", client=client)
    advice = "; have the answer say it, or declare protocol.work.train.examples$"
    with pytest.raises(Exception, match='no metric "num-examples".*' + advice):
        run(scenario(app, "protocol.work.train.dense=1.0e+6"), tmp_path / "run")


def test_what_a_server_does_wrong_is_placed_in_the_server(tmp_path: Path) -> None:
    """A node that is not there, a message without content, its own exit."""
    wrong = {
        "list(grid.push_messages([message(7)]))": "ValueError: a message to node 7",
        "raise SystemExit(3)": "SystemExit: 3",
        "assert grid.run.run_id and grid.run.fab_id": "AttributeError: .*fab_id",
    }
    for number, (line, said) in enumerate(wrong.items()):
        app = write_app(tmp_path / f"app{number}", server=server_of(line))
        with pytest.raises(Exception, match=rf"ServerApp failed: server\.py:\d+: {said}"):
            run(scenario(app), tmp_path / f"run{number}")


def test_a_run_goes_on_with_answers_and_errors(tmp_path: Path) -> None:
    """A client's error, which is not kept, is no first message of a run that found the others."""
    app, store = write_app(tmp_path / "app"), MemoryStore()
    given = scenario(app, "protocol.recount_every=3", run_config={"fails": "2:1"})
    whole = run(given, tmp_path / "whole", Options(store=store))
    again = run(given, tmp_path / "again", Options(store=store))

    assert again.manifest["fingerprint"] == whole.manifest["fingerprint"]
    assert again.manifest["counts"]["jobs_trained"] == 0
    (warning,) = [one for one in again.warnings if one.kind == "client_errors"]
    assert "out of order" in warning.message


def test_what_a_device_cannot_hold_is_refused_or_fails(tmp_path: Path) -> None:
    """With what it takes; or those nodes never answer, which the log and the manifest say."""
    app = write_app(tmp_path / "app")  # 195 weights, twice, and 16 rows of 20 and 8 values

    def of(memory_bytes: float, *overrides: str) -> Scenario:
        paper = {"name": "paper", "clients": 4, "memory_bytes": memory_bytes}
        config = {"fraction-evaluate": 0.0}
        return flower.scenario(app, population=paper, run_config=config, overrides=overrides)

    with pytest.raises(Exception, match=r"client \d takes 3\.35 kB .* than paper has, 3\.35 kB;"):
        run(of(3351.0), tmp_path / "refused")
    assert len(run(of(3353.0), tmp_path / "enough").rounds) == 2
    dropped = run(of(3351.0, "population.memory=drop"), tmp_path / "dropped")

    assert set(dropped.events["kind"]) >= {"out_of_memory", "download"}
    assert "upload" not in set(dropped.events["kind"])
    (warning,) = [one for one in dropped.warnings if one.kind == "out_of_memory"]
    assert "4 of 4 nodes lack memory" in warning.message


def test_names_that_flower_no_longer_has_are_told_with_both_versions(tmp_path: Path) -> None:
    """The installed one, and the one that the app says it is for."""
    client = CLIENT.replace("import torch", "from flwr.long_gone import Thing\nimport torch", 1)
    app = write_app(tmp_path / "app", client=client)
    settings = app / "pyproject.toml"
    table = "[tool.flwr.app]\n"
    said = f'{table}flwr-version-target = "1.29.0"\n'
    settings.write_text(settings.read_text("utf-8").replace(table, said), "utf-8")

    with pytest.raises(AppFailed, match=r"long_gone.* \(installed: flwr 1\..*target: 1\.29\.0\)$"):
        run(scenario(app), tmp_path / "run")


def test_nodes_get_further_keys_of_their_config(tmp_path: Path) -> None:
    """Of any kind, with the node's number in texts; another value is another answer."""
    head = "def train(message, context):"
    more = """
    config = context.node_config
    assert config["dataset-path"] == f"data/part-{config['partition-id']}", config
    assert config["workers"] == 2, config"""
    app = write_app(tmp_path / "app", client=CLIENT.replace(head, head + more))
    store = MemoryStore()

    def trained(path: str) -> int:
        own = {"dataset-path": path, "workers": 2}
        given = scenario(app).with_overrides([f"protocol.node_config={own}"])
        done = run(given, tmp_path / path.partition("/")[0], Options(store=store), overwrite=True)
        return int(done.manifest["counts"]["jobs_trained"])

    assert trained("data/part-{partition-id}") > 0
    assert trained("data/part-{partition-id}") == 0
    with pytest.raises(AppFailed, match="AssertionError"):
        trained("other/part-{partition-id}")


def test_an_app_that_is_no_python_is_one_line(tmp_path: Path) -> None:
    """With the line to blame."""
    app = write_app(tmp_path / "app", client=f"{CLIENT}\n  def")
    line = len(CLIENT.splitlines()) + 2
    wrong = "unindent does not match any outer indentation level"
    with pytest.raises(AppFailed, match=rf"cannot be loaded: client.py:{line}: Ind.*: {wrong}$"):
        run(scenario(app), tmp_path / "run")
    reason = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))["reason"]
    assert reason.endswith(f"client.py:{line}: IndentationError: {wrong}")


def test_an_app_that_goes_to_another_folder_goes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At import, in the server or in clients; the run's output paths are not affected."""
    monkeypatch.chdir(tmp_path)
    for name in ("loaded", "server", "client"):
        (tmp_path / name).mkdir()
    go = "import os\n{}os.chdir({!r})\n"
    where = "    assert os.getcwd() == {!r}\n"
    loaded, moved = str(tmp_path / "loaded"), str(tmp_path / "server")
    server = go.format("", loaded) + SERVER + where.format(moved)
    inside = where.format(loaded) + f"    os.chdir({moved!r})\n    config ="
    server = server.replace("    config =", inside)
    inside = where.format(loaded) + f"    os.chdir({str(tmp_path / 'client')!r})\n    drawn ="
    client = "import os\n" + CLIENT.replace("    drawn =", inside)
    app = write_app(tmp_path / "app", server=server, client=client)
    run(scenario(app), Path("run"), Options(store=FolderStore(Path("answers"))))

    assert (tmp_path / "run" / "rounds.parquet").exists()
    assert len(list((tmp_path / "answers").glob("*.pt"))) == 16
    assert Path.cwd() == tmp_path


def test_what_an_app_sets_for_its_process_is_put_back(tmp_path: Path) -> None:
    """Otherwise the next run would use another precision, or another order of summation."""
    before = torch.get_default_dtype(), torch.get_num_threads()
    sets = f"torch.set_default_dtype(torch.float64)\ntorch.set_num_threads({before[1] + 1})\n"
    client = CLIENT.replace("import torch\n", f"import torch\n{sets}", 1)
    assert sets in client
    run(scenario(write_app(tmp_path / "app", client=client)), tmp_path / "run")

    assert (torch.get_default_dtype(), torch.get_num_threads()) == before


def test_quiet_is_quiet(tmp_path: Path) -> None:
    """Neither simfl nor Flower says anything; an app may print."""
    app = write_app(tmp_path / "app")
    population = tmp_path / "population.yaml"
    population.write_text(yaml.safe_dump(POPULATION), encoding="utf-8")
    given = ["--population", str(population), "--out", str(tmp_path / "run"), "--quiet"]
    known = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "simfl", "flower", str(app), *given]
    done = subprocess.run(command, env=known, check=True, capture_output=True, text=True)

    assert done.stdout == done.stderr == ""


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Ctrl-C and SIGKILL in its midst: no answer twice, and the files of an unbroken run."""
    calls = tmp_path / "calls"
    told = f"def data(context):\n    print('.', file=open({str(calls)!r}, 'a'), flush=True)"
    app = write_app(tmp_path / "app", client=CLIENT.replace("def data(context):", told))
    population = tmp_path / "population.yaml"
    population.write_text(yaml.safe_dump(POPULATION), encoding="utf-8")
    rounds, each = 30, 8

    def command(out: str, *more: str) -> list[str]:
        start = [sys.executable, "-m", "simfl", "flower", str(app), "--quiet", *more]
        where = ["--out", str(tmp_path / out / "run"), "--run-config", f"rounds={rounds}"]
        return [*start, "--population", str(population), *where]

    def called() -> int:
        return calls.read_text(encoding="utf-8").count(".") if calls.exists() else 0

    root = str(Path(__file__).parents[2])
    known = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}

    def stopped_by(sent: signal.Signals, after: int, *more: str) -> tuple[int, dict[str, Any]]:
        # Whoever runs the tests in the background has Ctrl-C ignored, which children would inherit.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        victim = subprocess.Popen(command("broken", *more), env=known, stderr=subprocess.DEVNULL)
        signal.signal(signal.SIGINT, before)
        while called() < after:
            assert victim.poll() is None
            time.sleep(0.01)
        victim.send_signal(sent)
        return victim.wait(), json.loads(manifest.read_text("utf-8"))

    manifest = tmp_path / "broken" / "run" / "manifest.json"
    code, said = stopped_by(signal.SIGINT, rounds * each // 4)
    assert code == 130 and said["status"] == "interrupted"
    code, said = stopped_by(signal.SIGKILL, rounds * each // 2, "--resume")
    assert code == -signal.SIGKILL and said["status"] == "running"
    before = called()
    kept = len(list((tmp_path / "broken" / "answers").glob("*.pt")))
    assert before - 2 <= kept <= before < rounds * each  # written as they come

    for out, more in (("broken", ["--resume"]), ("whole", [])):
        subprocess.run(command(out, *more), env=known, check=True, stderr=subprocess.DEVNULL)
    said = json.loads(manifest.read_text("utf-8"))

    assert said["counts"]["jobs_trained"] == rounds * each - kept
    assert called() == before + (rounds * each - kept) + rounds * each
    for name in ("events.parquet", "rounds.parquet", "model.safetensors"):
        broken, whole = (tmp_path / out / "run" / name for out in ("broken", "whole"))
        assert broken.read_bytes() == whole.read_bytes(), name


def test_a_model_of_bytes_makes_versions(tmp_path: Path) -> None:
    """As of boosted trees: in configuration records, with no arrays, and at first empty."""
    client = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message, context):
    grown = message.content["model"]["trees"] + b"tree"
    return Message(RecordDict({"model": ConfigRecord({"trees": grown})}), reply_to=message)
"""
    server = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    trees = b""
    for _ in range(3):
        record = RecordDict({"model": ConfigRecord({"trees": trees})})
        nodes = grid.get_node_ids()
        replies = grid.send_and_receive([Message(record, one, "train") for one in nodes])
        trees = b"".join(one.content["model"]["trees"] for one in replies)
"""
    app = write_app(tmp_path / "app", server=server, client=client)
    work = "protocol.work.train={dense: 1.0e+6, examples: 20}"
    done = run(scenario(app, work), tmp_path / "run")

    assert done.rounds["version"].tolist() == [1, 2, 3]
    assert done.rounds["participants"].tolist() == [4, 4, 4]
    assert "no_version" not in [one.kind for one in done.warnings]


def test_a_client_that_trains_nothing_takes_no_time(tmp_path: Path) -> None:
    """One that answers with the model that it got; another model is warned of."""
    skips = """
def train(message, context):
    skips = {round}, context.node_config["partition-id"]
    if skips == (message.content["config"]["server-round"], 3):
        net = received(message)
        with torch.no_grad():
            next(net.parameters()).add_({shift})
        content = {{"arrays": ArrayRecord(net.state_dict())}}
        content["metrics"] = MetricRecord({{"num-examples": 40, "drawn": 0.0, "turns": 0}})
        return Message(RecordDict(content), reply_to=message)
"""
    for now, shift in ((1, 0.0), (2, 0.0), (2, 0.5)):
        text = skips.format(round=now, shift=shift)
        client = CLIENT.replace("\ndef train(message, context):\n", text)
        app = write_app(tmp_path / f"app{now}{shift}", client=client)
        given = scenario(app, run_config={"fraction-evaluate": 0.0})
        done = run(given, tmp_path / f"run{now}{shift}")
        computed = done.events[done.events["kind"] == "compute"]
        nothing = computed[computed["cycles"] == 0.0]
        assert nothing[["client", "round"]].to_numpy().tolist() == [[3, now - 1]]
        assert len(computed) == 8
        kinds = [one.kind for one in done.warnings]
        assert ("uncounted_work" in kinds) == bool(shift)
