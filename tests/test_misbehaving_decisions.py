"""Decisions, availabilities, protocols and measures that give no answer: one line."""

from __future__ import annotations

import pytest

from simfl.assembly.assemble import assemble
from simfl.scenario.yaml_source.error import ScenarioError
from tests.small import SEMI_ASYNCHRONOUS, SMALL, small
from tests.test_misbehaving_parts import invoked

HEAD = """
from dataclasses import dataclass
import numpy as np
from simfl.plugins import *
"""

ESTIMATOR = """
class Own(Estimator):
    def initial(self): return (0.0,)
    def observe(self, memory, duration_s, prior_s): return {observe}
    def estimate(self, memory, prior_s): return {estimate}
    def posterior(self, memory, prior_s): return {posterior}
"""

SELECTION = """
class Own(Selection):
    def {method}: return {given}
    def decide(self, memory, view, rng): return memory, view.clients[:2]
"""

SCHEDULING = """
class Own(Scheduling):
    def owed_share(self, data_share): return {given}
    def decide(self, memory, view, rng): return memory, int(np.flatnonzero(view.idle)[0]), {{}}
"""

AVAILABILITY = """
class Own(Availability):
    def available({arguments}): return {given}
    def next_s(self, clients, time_s, streams): return clients + time_s
"""

PROTOCOL = """
class Own(Protocol):
    def process(self, run):
        ref, number = run.begin("cloud"), 0
        while True:
            chosen = yield from run.select(ref, run.all_clients, number)
            delivered = yield from run.client_rounds(chosen, ref, number)
            ref = yield from run.aggregate(ref, delivered, number)
            if run.publish(ref, number, participants=chosen.size, staleness=0):
                return ref
            number += 1
"""


def estimator(observe="memory", estimate="prior_s", posterior="{}"):
    """An estimator that has one answer for each question."""
    return ESTIMATOR.format(observe=observe, estimate=estimate, posterior=posterior)


@pytest.fixture
def told(tmp_path):
    """What the command line says of a scenario with the class `Own`, and how the run stands."""

    def told_of(code, **changes):
        (tmp_path / "own.py").write_text(HEAD + code)
        content = {**SMALL, **changes}
        try:
            exit_code, stderr, manifest = invoked(content, tmp_path)
        except FileNotFoundError:  # refused before the run
            return None
        assert exit_code == 1
        assert manifest["status"] == "failed"
        last = stderr.strip().splitlines()[-1]
        assert last.startswith("simfl: ")
        return last

    return told_of


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (SELECTION.format(method="wanted(self, players)", given="'a'"), "Own.wanted gave 'a',"),
        (SELECTION.format(method="wanted(self, players)", given="-1"), "Own.wanted gave -1,"),
        (SELECTION.format(method="enough(self, players)", given="None"), "Own.enough gave None,"),
        (SELECTION.format(method="enough(self)", given="1"), "Own.enough: TypeError: Own.enough()"),
    ],
)
def test_how_many_a_selection_wants_is_a_number(told, code, said):
    """It was Python's own error, or was taken for a number."""
    assert f"own.py:7 in {said}" in told(code, decisions={"selection": "own.py:Own"})


@pytest.mark.parametrize("given", ["data_share * np.nan", "-data_share", "1.0", "1 / 0"])
def test_what_a_scheduling_owes_is_a_share_of_each_edge_server(told, given):
    """NaN and negative shares were owed, and logged."""
    decisions = {"scheduling": "own.py:Own"}
    code = SCHEDULING.format(given=given)

    assert "own.py:7 in Own.owed_share" in told(
        code, protocol=SEMI_ASYNCHRONOUS, decisions=decisions
    )


@pytest.mark.parametrize(
    ("code", "method"),
    [
        (estimator(estimate="prior_s * np.nan"), "estimate"),
        (estimator(estimate="prior_s * np.inf"), "estimate"),
        (estimator(observe="memory * 1j"), "observe"),
        (estimator(observe="np.full(memory.shape, 'a')"), "observe"),
        (estimator(posterior="{'spread_s': 1.0}"), "posterior: spread_s"),
    ],
)
def test_estimates_are_finite_seconds(tmp_path, code, method):
    """NaN was an estimate, and a posterior of another shape Python's own error at its first row."""
    (tmp_path / "own.py").write_text(HEAD + code)
    with pytest.raises(ScenarioError) as error:
        assemble(
            small(
                decisions={
                    "estimator": f"{tmp_path}/own.py:Own",
                    "selection": {"name": "oort", "count": 3},
                }
            )
        )

    assert error.value.key == "decisions.estimator"
    assert f"in Own.{method} gave" in str(error.value)


def test_a_sharing_gives_nobody_more_than_its_link_can_do(tmp_path):
    """Ten times the rate that a client has alone was carried."""
    code = "class Own(Sharing):\n    def rates_bps(self, flows): return 10.0 * flows.rate_bps\n"
    (tmp_path / "own.py").write_text(HEAD + code)
    with pytest.raises(ScenarioError, match=r"at most the rate that it has alone"):
        assemble(small(population={"access_sharing": f"{tmp_path}/own.py:Own"}))


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        ("self, clients, time_s", "clients >= 0", "Own.available: TypeError: Own.available()"),
        ("self, clients, time_s, streams", "clients", "Own.available: found [0, 1, 2, 3, 4],"),
    ],
)
def test_an_availability_is_told_with_its_file_and_line(told, arguments, given, said):
    """As every part of a user's own."""
    population = {**SMALL["population"], "availability": "own.py:Own"}
    code = AVAILABILITY.format(arguments=arguments, given=given)

    assert f"own.py:7 in {said}" in told(code, population=population)


def test_what_an_availability_does_to_its_clients_is_its_own(tmp_path):
    """It overwrote those of the run, whose books then did not balance."""
    code = AVAILABILITY.format(
        arguments="self, clients, time_s, streams", given="clients.fill(0) or clients == 0"
    )
    (tmp_path / "own.py").write_text(HEAD + code)
    population = {**SMALL["population"], "availability": "own.py:Own"}

    code, _, manifest = invoked({**SMALL, "population": population}, tmp_path)

    assert (code, manifest["status"]) == (0, "completed")


@pytest.mark.parametrize(
    ("instead", "of", "said"),
    [
        ("yield run.select(", "yield from run.select(", 'Invalid yield value "<generator'),
        ("process(self)", "process(self, run)", "Own.process() takes 1 positional argument"),
        ("client_rounds([1, 1]", "client_rounds(chosen", "clients: found [1, 1], accepted"),
        ("participants=-1", "participants=chosen.size", "participants: found -1, accepted"),
        ("participants='a'", "participants=chosen.size", "participants: found 'a', accepted"),
        ("staleness=-3", "staleness=0", "staleness: found -3, accepted"),
        ("number += 0.5", "number += 1", "round_number: found 0.5, accepted"),
        (
            "run.env.process(run.client_rounds(chosen, ref, number)); delivered = yield"
            " run.env.process(run.client_rounds(chosen, ref, number))",
            "delivered = yield from run.client_rounds(chosen, ref, number)",
            "client 0 is dispatched while an earlier round is under way",
        ),
    ],
)
def test_what_a_protocol_does_wrong_is_one_line(told, instead, of, said):
    """With the protocol's own line; such runs ended with a traceback, or had negative figures."""
    line = told(PROTOCOL.replace(of, instead), protocol="own.py:Own")

    assert "own.py:" in line
    assert "in Own.process: " in line
    assert said in line


def test_state_in_a_frozen_part_is_told_with_the_user_s_line(told):
    """Not with the line of the method that dataclasses have written."""
    code = """
@dataclass(frozen=True)
class Own(Selection):
    def decide(self, memory, view, rng):
        self.seen = 1
        return memory, view.clients
"""
    line = told(code, decisions={"selection": "own.py:Own"})

    assert "own.py:9 in Own.decide: FrozenInstanceError" in line


@pytest.mark.parametrize(
    ("measure", "key"),
    [("equity", "offset"), ("core_stability", "offset"), ("core_stability", "weights")],
)
def test_a_measures_list_of_another_length_is_refused_before_the_run(measure, key):
    """It failed when the run had ended; one number, or one for each client, is accepted."""
    asked = [{"name": measure, key: [2.0, 3.0]}]
    with pytest.raises(ScenarioError) as error:
        assemble(small(evaluate={"measures": asked}))

    assert error.value.key == f"evaluate.measures.0.{key}"
    assert "found 2 values for 8 clients, accepted: one number, or one for" in str(error.value)
    for count in (1, 8):
        assemble(small(evaluate={"measures": [{"name": measure, key: [2.0] * count}]}))


def test_a_second_measure_of_a_name_is_refused():
    """Its figures took the place of the first one's."""
    with pytest.raises(ScenarioError) as error:
        assemble(small(evaluate={"measures": ["accuracy_spread", "accuracy_spread"]}))

    assert error.value.key == "evaluate.measures.1"
    assert "a second measure accuracy_spread" in str(error.value)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('weight: Annotated[float, "> 0"] = -2.0', "weight: found -2.0, the class's own default"),
        ('weight: Annotated[float, "> 0"] = "a"', "weight: found 'a', the class's own default"),
        ('weight: Annotated[float | None, "> 0"] = None', None),
        ("weight: float = -2.0", None),
    ],
)
def test_a_default_keeps_the_bounds_that_its_class_says(tmp_path, key, said):
    """It was used where the scenario gave none, whatever it was; a value that is given may do."""
    body = SELECTION.format(method="enough(self, players)", given="1")
    annotated = f"from typing import Annotated\n@dataclass(frozen=True)\n{body.strip()}"
    code = annotated.replace("Own(Selection):", f"Own(Selection):\n    {key}", 1)
    (tmp_path / "own.py").write_text(HEAD + code)
    name = f"{tmp_path}/own.py:Own"

    def made(**keys):
        assemble(small(decisions={"selection": {"name": name, **keys}}))

    made(weight=1.0)
    if said is None:
        made()
        return
    with pytest.raises(ScenarioError, match=f"selection.{said}, accepted: a number > 0"):
        made()


def test_a_key_without_a_type_is_asked_for_in_words(tmp_path):
    """Nothing stood behind "accepted:"."""
    body = SELECTION.format(method="__init__(self, count)", given="None")
    (tmp_path / "own.py").write_text(HEAD + body)

    with pytest.raises(ScenarioError, match=r"count: found nothing, accepted: any value \(it has"):
        assemble(small(decisions={"selection": f"{tmp_path}/own.py:Own"}))


def test_a_protocol_that_only_waits_ends_in_one_line(told, monkeypatch):
    """It used to run for ever: each wait is an event, but none of them is in the log."""
    monkeypatch.setattr("simfl.protocols.clock.MOST_QUIET", 5000)
    code = """
class Own(Protocol):
    def process(self, run):
        while True:
            yield run.env.timeout(0.5)
"""

    line = told(code, protocol="own.py:Own")

    assert "stalled at 2499 s" in line
    assert "5,000 events in a row without an entry in the log" in line
