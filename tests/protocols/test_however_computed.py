"""Whoever decides, and under every protocol: results do not depend on how they are computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simfl
from simfl.assembly import registry
from simfl.assembly.simulation import Options
from simfl.scenario.scenario import Scenario
from tests.small import final_weights, largest_difference, simulated, small

SEMI_ASYNCHRONOUS = {"name": "semi_asynchronous", "edge_rounds": 2, "concurrency": 2}
FEDCURE = {"association": "fedcure", "scheduling": "fedcure", "allocation": "fedcure"}
PATIENCE = {"over_selection": 1.5, "deadline_s": 4.0, "late": "carry_over"}
OF_KIND = {
    "association": {"protocol": SEMI_ASYNCHRONOUS},
    "scheduling": {"protocol": SEMI_ASYNCHRONOUS, "decisions": FEDCURE},
    "allocation": {"protocol": SEMI_ASYNCHRONOUS},
    "estimator": {"protocol": SEMI_ASYNCHRONOUS, "decisions": FEDCURE},
    "staleness": {"protocol": {"name": "buffered", "buffer": 2}},
    "selection": {"protocol": "synchronous"},
}
SELECTED = {"count": 3}
PARAMETERS = {
    ("allocation", "capped"): {"frequency_hz": 1.2e9},
    **{("selection", name): SELECTED for name in registry.names("selection") if name != "all"},
}
CASES: dict[str, dict[str, Any]] = {
    "synchronous, late carried over": {"protocol": {"name": "synchronous", "patience": PATIENCE}},
    "hierarchical, late carried over": {
        "protocol": {"name": "hierarchical", "edge_rounds": 2, "patience": PATIENCE}
    },
    "asynchronous, models": {"protocol": {"name": "asynchronous", "mixing": "model"}},
    "asynchronous, changes": {"protocol": {"name": "asynchronous", "mixing": "delta"}},
    **{
        f"{kind} {name}": {
            **common,
            "decisions": {
                **common.get("decisions", {}),
                kind: {"name": name, **PARAMETERS.get((kind, name), {})},
            },
        }
        for kind, common in OF_KIND.items()
        for name in registry.names(kind)
    },
}


def scenario_of(case: str, dtype: str = "float32") -> Scenario:
    """Eight clients on four edge servers with labels of their own."""
    return small(
        dtype=dtype,
        data={
            "name": "synthetic",
            "examples": 240,
            "test_examples": 20,
            "features": 6,
            "outputs": 8,
            "partition": "labels_per_edge",
        },
        model="linear",
        population={"name": "paper", "clients": 8, "edges": 4},
        stop={"versions": 6},
        **CASES[case],
    )


@pytest.mark.grid(8)
@pytest.mark.parametrize("case", CASES)
def test_the_plain_reference_learns_the_same(case: str) -> None:
    """In float64: the same events, and weights that agree to 1e-9."""
    scenario = scenario_of(case, "float64")

    _, batched = simulated(scenario)
    _, sequential = simulated(scenario, trainer="sequential")

    assert batched.log.fingerprint == sequential.log.fingerprint
    assert largest_difference(final_weights(batched), final_weights(sequential)) < 1e-9


@pytest.mark.grid(8)
@pytest.mark.parametrize("case", CASES)
def test_resume_is_exact_and_grouping_changes_no_bit(case: str, tmp_path: Path) -> None:
    """Interrupted half-way and resumed, a run ends byte for byte as an undisturbed one.

    It trains jobs one by one, and the undisturbed one all together that are at hand.
    """
    scenario = scenario_of(case)

    def interrupt(progress: Any) -> None:
        if progress.version == 3:
            raise KeyboardInterrupt

    whole = simfl.run(scenario, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        simfl.run(scenario, tmp_path / "cut", Options(watch=interrupt, cohort_cap=1))
    resumed = simfl.run(scenario, tmp_path / "cut", Options(cohort_cap=1), resume=True)

    assert resumed.rounds.equals(whole.rounds)
    for name in ("events.parquet", "model.safetensors"):
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes()
