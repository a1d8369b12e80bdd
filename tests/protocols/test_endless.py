"""What would go on for ever, or at no time at all, ends in one line that says who is to blame."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.protocols.clock import Clock, Stalled
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.system.availability.base import UnusableAvailability
from tests.small import SMALL, simulated, small

LYING = f"{Path(__file__).parent / 'lying.py'}"
TIMING = {"algorithm": {"name": "none"}}
MEDIUM = {"name": "processor_sharing", "capacity_bps": 1e7}


@pytest.fixture(autouse=True)
def _in_time():
    """A loop that never ends fails its test."""

    def late(*_: object) -> None:
        raise TimeoutError("the run goes on and on")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def outages(works_s: float, broken_s: float) -> dict[str, Any]:
    """Outages of clients, with exponential times."""
    return {"clients": {"works": {"mean_s": works_s}, "broken": {"mean_s": broken_s}}}


def renewal(present_s: float, absent_s: float, **absent: Any) -> dict[str, Any]:
    """Clients that come and go; `absent` says more of the absences."""
    return {
        "name": "renewal",
        "present": {"mean_s": present_s, "law": "exponential"},
        "absent": {"mean_s": absent_s, **absent},
    }


@pytest.mark.parametrize(
    ("population", "words"),
    [
        ({"availability": renewal(1e9, 1e300)}, "absent.mean_s: found 1e\\+300, accepted"),
        ({"availability": renewal(1e-3, 1e300)}, "absent.mean_s: found 1e\\+300, accepted"),
        ({"faults": outages(1e-9, 1e9)}, "works.mean_s: found 1e-09, accepted: a number >= 0.001"),
        (
            {"message_loss": {"timeout_s": 1e300, "backoff": 10.0}},
            "message_loss.timeout_s: found 1e\\+300, accepted",
        ),
        (
            {"message_loss": {"timeout_s": 1e9, "backoff": 10.0}},
            "message_loss.timeout_s: found 1e\\+09, but after 4 attempts a sender waits 1e\\+12 s",
        ),
        ({"straggler_mean": 1e300}, "straggler_mean: found 1e\\+300, accepted: .* <= 1000000"),
        ({"availability": renewal(1.0, 1.0, law="weibull", shape=1e-3)}, "shape: found 0.001"),
        ({"availability": {"name": "periodic", "period_s": 1e-9}}, "period_s: found 1e-09"),
    ],
)
def test_figures_that_no_clock_can_tell_apart_are_refused(population, words):
    """Before the run, with the key and what is accepted."""
    with pytest.raises(ScenarioError, match=words):
        simulated(small(**TIMING, population=population))


@pytest.mark.parametrize("protocol", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("ahead_s", [0.0, 3600.0])
def test_who_is_promised_and_never_comes_is_not_waited_for_for_ever(protocol, ahead_s):
    """The line says who waits for whom, and which class promised."""
    population = {"availability": {"name": f"{LYING}:Promises", "ahead_s": ahead_s}}
    words = r"the server waits for one of 8 clients, .* availability \(Promises\)"

    with pytest.raises(Stalled, match=words):
        simulated(small(**TIMING, protocol=protocol, population=population))


@pytest.mark.parametrize("medium", ["dedicated", MEDIUM], ids=["booked", "shared"])
def test_a_turn_that_is_paused_without_end_is_given_up(medium, monkeypatch):
    """Each pause moves time by its last bit only."""
    for module in ("system.interruptions", "protocols.stepped"):
        monkeypatch.setattr(f"simfl.{module}.MOST_PAUSES", 100)
    population = {
        "availability": f"{LYING}:Flickers",
        "leaving": "pause",
        "access_sharing": medium,
    }

    with pytest.raises(
        UnusableAvailability, match=r"client \d has left more than 100 times.* Flickers"
    ):
        simulated(small(**TIMING, population=population))


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ({"time": "nan"}, r"Says.next_s: found \[nan.* accepted: times in seconds, inf for never"),
        ({"time": "-inf"}, "Says.next_s: found .*-inf"),
        ({"time": "-1"}, "Says.next_s: found .*accepted: no time before it is asked, at 0 s"),
        ({"there": 0.5}, "Says.available: found .*accepted: true or false for each client"),
        ({"there": 1.0}, "Says.until_s: found .*nan"),
    ],
)
def test_times_that_cannot_be_are_refused_with_the_class_that_says_them(says, words):
    """NaN, the past, and values that are not booleans."""
    population = {"availability": {"name": f"{LYING}:Says", **says}, "leaving": "abort"}

    with pytest.raises(UnusableAvailability, match=words):
        simulated(small(**TIMING, population=population))


@pytest.mark.parametrize(
    ("model", "words"),
    [("Promises", "none was available 1000 times in a row"), ("Says", "Says.next_s: found [nan")],
)
def test_a_run_that_cannot_go_on_leaves_a_folder_that_says_why(model, words, tmp_path):
    """One line, exit code 1, and a manifest with the same reason."""
    content = {**SMALL, **TIMING}
    content["population"] = {**SMALL["population"], "availability": f"{LYING}:{model}"}
    scenario, out = tmp_path / "scenario.yaml", tmp_path / "run"
    scenario.write_text(yaml.safe_dump(content, sort_keys=False))

    result = CliRunner().invoke(app, ["run", str(scenario), "--out", str(out)])

    manifest = json.loads((out / "manifest.json").read_text())
    assert result.exit_code == 1
    assert result.stderr.startswith("simfl: ")
    assert words in result.stderr.splitlines()[-1]
    assert manifest["status"] == "failed"
    assert words in manifest["reason"]


def test_rounds_that_nobody_comes_to_are_given_up_so_often_only(monkeypatch):
    """An edge server that waits for its deadline again and again, while clients are away."""
    monkeypatch.setattr("simfl.protocols.selecting.MOST_GIVEN_UP", 50)
    protocol = {"name": "hierarchical", "patience": {"deadline_s": 0.1}}
    population = {"availability": renewal(1e-3, 1e8)}

    with pytest.raises(Stalled, match=r"50 rounds in a row .* within 0.1 s; .* \(renewal\)"):
        simulated(small(**TIMING, protocol=protocol, population=population))


def test_a_turn_that_outlasts_simulated_time_is_not_begun():
    """An accepted rate and an accepted clock can still make more than 1e11 seconds."""
    population = {
        "name": "paper",
        "clients": 2,
        "edges": 1,
        "access_bps": [1e-8, 1e-8],
    }

    with pytest.raises(Stalled, match=r"a round of client 0 would take .* s to download"):
        simulated(small(**TIMING, population=population))


def test_a_clock_does_not_go_beyond_the_end_of_simulated_time():
    """What happens later is waited for by nobody."""
    clock = Clock()

    def waits():
        with clock.waiting("edge-0", "its repair"):
            yield clock.until(1e53)

    with pytest.raises(Stalled, match=r"nothing happens before 1e\+53 s; edge-0 waits for its"):
        clock.run(clock.env.process(waits()))


def test_a_course_of_too_many_sojourns_is_not_followed(monkeypatch):
    """A question about a moment that lies too many sojourns ahead is refused."""
    monkeypatch.setattr("simfl.system.availability.sojourn_cache.MOST_CHANGES", 100)
    population = {"faults": outages(1e-3, 1e-3), "availability": renewal(1.0, 1e5)}

    with pytest.raises(UnusableAvailability, match="has changed 100 times since it was last asked"):
        simulated(small(**TIMING, population=population))


def test_a_link_that_never_works_long_enough_is_given_up_however_often_its_server_crashes(
    monkeypatch,
):
    """Lost messages are counted from the last that arrived, across crashes."""
    monkeypatch.setattr("simfl.protocols.servers.MOST_FAILURES", 100)
    works_s = {"cloud_link": 1e-3, "edge_servers": 5.0}
    faults = {
        kind: {"works": {"mean_s": mean_s}, "broken": {"mean_s": 1.0}}
        for kind, mean_s in works_s.items()
    }

    with pytest.raises(Stalled, match=r"edge-\d's messages were lost 100 times"):
        simulated(small(**TIMING, protocol="hierarchical", population={"faults": faults}))
