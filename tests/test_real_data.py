"""The whole way on real MNIST; needs SIMFL_DATA, and minutes."""

import pytest

from simfl.runs.execution import run
from simfl.scenario.scenario import Scenario
from simfl.scenario.shipped import shipped_scenarios

pytestmark = [pytest.mark.data, pytest.mark.slow]


def accuracy_of(name: str, folder) -> float:
    """The final accuracy of a shipped scenario."""
    result = run(Scenario.from_yaml(shipped_scenarios()[name]), folder / "run")
    assert all(result.manifest["invariants"].values())
    return float(result.rounds["accuracy"].dropna().iloc[-1])


def test_synchronous_fedavg_learns_mnist(tmp_path):
    """50 clients, 5 edge servers, two labels per edge server: above 90 %."""
    assert accuracy_of("mnist/synchronous", tmp_path) > 0.90


def test_semi_asynchronous_training_suffers_from_non_iid_edges(tmp_path):
    """FedCure's parameters without its coalitions: 55 to 80 % after 100 versions."""
    assert 0.55 < accuracy_of("mnist/semi_asynchronous", tmp_path) < 0.80


def test_semi_asynchronous_training_on_iid_data(tmp_path):
    """The same protocol on IID data: above 85 %."""
    assert accuracy_of("mnist/semi_asynchronous_iid", tmp_path) > 0.85
