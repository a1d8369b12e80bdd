"""Modules that draw random numbers in every pass, in evaluation too: runs are the same all over."""

import pytest
import torch

import simfl
from simfl.assembly.simulation import Options
from simfl.provenance.journal import Journal
from tests.small import final_weights, largest_difference, simulated, small
from tests.test_resume import assert_same, cut_off

NOISY = """
import torch
from torch import nn
from torch.nn.functional import dropout

class Noisy(nn.Module):
    def __init__(self, input_shape, outputs):
        super().__init__()
        self.flat = nn.Flatten()
        self.first = nn.Linear(torch.Size(input_shape).numel(), 12)
        self.last = nn.Linear(12, outputs)

    def forward(self, inputs):
        hidden = torch.relu(self.first(self.flat(inputs)))
        return self.last(dropout(hidden, 0.3, training=True) + 0.1 * torch.randn_like(hidden))
"""
LOSSES = {"name": "power_of_choice", "count": 2}


@pytest.fixture
def noisy(tmp_path):
    """A scenario with such a model, in which measured losses decide who trains."""
    (tmp_path / "noisy.py").write_text(NOISY)

    def scenario(**changes):
        return small(
            dtype="float32",
            model=f"{tmp_path / 'noisy.py'}:Noisy",
            decisions={"selection": LOSSES},
            **{"stop": {"versions": 6}, **changes},
        )

    return scenario


def test_two_runs_are_the_same_whatever_was_drawn_before(noisy, tmp_path):
    """The state of torch's own generator does not affect a run, and is restored."""
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        runs.append(simfl.run(noisy(), tmp_path / f"run-{seed}"))
        assert torch.equal(before, torch.get_rng_state())

    assert_same(*runs)


@pytest.mark.parametrize("options", [{"trainer": "sequential"}, {"cohort_cap": 1}])
def test_a_run_is_the_same_however_it_is_computed(noisy, tmp_path, options):
    """One client after the other, or alone; in processes: tests/test_workers.py."""
    plain = simfl.run(noisy(), tmp_path / "plain")
    other = simfl.run(noisy(), tmp_path / "other", Options(**options))

    assert_same(plain, other)


def test_a_resumed_run_is_the_same(noisy, tmp_path):
    """What was evaluated before the cut is looked up, and shifts nothing that comes after it."""
    whole = simfl.run(noisy(), tmp_path / "whole")
    cut_off(noisy(), tmp_path / "cut", 3)

    assert_same(whole, simfl.run(noisy(), tmp_path / "cut", resume=True))


def test_evaluations_in_between_change_nothing(noisy):
    """Evaluated after every version or only in the end: the same model, and the same figures."""
    rare, often = (
        simulated(noisy(evaluate={"every": every}), journal=Journal())[1] for every in (6, 1)
    )

    assert largest_difference(final_weights(rare), final_weights(often)) == 0.0
    for figure in ("loss", "accuracy"):
        rows = (run.publications.rounds[-1] for run in (rare, often))
        assert len({row[figure] for row in rows}) == 1
