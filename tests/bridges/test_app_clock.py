"""The module `time` in an app's own code: simulated for its server, this machine's for clients."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from simfl.protocols.clock import Stalled
from simfl.runs.execution import run
from tests.bridges.apps import CLIENT, SERVER, server_of, write_app
from tests.bridges.test_flower import scenario

pytest.importorskip("flwr", reason="Flower is not installed: `make test-flower` has it")

SLOW = "protocol.work.train.dense=1.0e+12"
"""Rounds take hours."""


def test_a_servers_own_deadline_is_in_simulated_seconds(tmp_path: Path) -> None:
    """It asks every quarter of a second for five seconds; replies take hours."""
    body = """
    ids = set(grid.push_messages([message(node) for node in grid.get_node_ids()]))
    start, began, replies = time.time(), flower.now(), []
    while ids and time.time() - start < 5:
        replies += grid.pull_messages(ids)
        time.sleep(0.25)
    flower.record(replies=len(replies), lasted=flower.now() - began)
    assert len(replies) == 0, replies
    assert abs(flower.now() - began - 5) < 0.01
    assert abs(time.monotonic() - flower.now()) < 0.01
    assert time.time() < time.time() < time.perf_counter()
    assert abs(time.time_ns() - 1e9 * flower.now()) < 1e7
    """
    app = write_app(tmp_path / "app", server=server_of(body))
    began_s = time.perf_counter()

    run(scenario(app, SLOW), tmp_path / "run")

    assert time.sleep.__module__ == "time"
    assert time.perf_counter() > began_s


def test_a_server_that_sleeps_for_hours_need_not_be_asked_each_second(tmp_path: Path) -> None:
    """Many short sleeps become longer ones, and the next reply ends them."""
    body = """
    ids = set(grid.push_messages([message(node, ttl=1e9) for node in grid.get_node_ids()]))
    asked, seen = 0, []
    while ids:
        time.sleep(0.5)
        asked += 1
        for one in grid.pull_messages(ids):
            ids.discard(one.metadata.reply_to_message_id)
            seen.append(flower.now())
    assert len(seen) == 4
    assert asked < 0.02 * seen[-1] / 0.5, (asked, seen)
    """
    app = write_app(tmp_path / "app", server=server_of(body))

    events = run(scenario(app, SLOW.replace("12", "14")), tmp_path / "run").events

    arrived = events.loc[events["kind"] == "upload", "time_s"]
    assert arrived.nunique() == 4


def test_a_server_that_sleeps_until_more_nodes_come_than_there_are_stalls(tmp_path: Path) -> None:
    """With the sentence about nodes; up to a thousand sleeps they may have a deadline."""
    body = """
    deadline = time.monotonic() + 60
    while len(list(grid.get_node_ids())) < 5 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert abs(flower.now() - 60) < 0.6
    while len(list(grid.get_node_ids())) < 5:
        time.sleep(3)
    """
    app = write_app(tmp_path / "app", server=server_of(body))

    with pytest.raises(Stalled, match="other nodes than the 4 present"):
        run(scenario(app), tmp_path / "run")


def test_a_client_that_reads_the_clock_or_sleeps_is_warned_of(tmp_path: Path) -> None:
    """Once per run, with the first place; a server's readings and other code's are none of it."""
    head = "def train(message, context):"
    kinds = []
    for name, more in (("plain", ""), ("clock", "import time; time.sleep(0.001)")):
        client = CLIENT.replace(head, f"{head}\n    {more or 'pass'}")
        server = SERVER.replace("app =", "import time\nSTARTED = time.time()\napp =", 1)
        app = write_app(tmp_path / name, server=server, client=client)
        done = run(scenario(app), tmp_path / f"run_{name}")
        kinds.append([one.message for one in done.warnings if one.kind == "machines_clock"])

    line = CLIENT.splitlines().index(head) + 2
    assert kinds[0] == []
    assert kinds[1][0].startswith(
        f"the ClientApps read this machine's clock (first at client.py:{line}), and slept for 0.0"
    )
