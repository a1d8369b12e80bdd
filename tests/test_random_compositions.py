"""Random compositions of parts that learn: each run ends, and its log alone says what it cost."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simfl
from simfl.assembly import registry
from simfl.protocols.clock import Stalled
from simfl.protocols.publication import Diverged
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from tests.books import check_books
from tests.protocols.test_fault_mixes import POPULATIONS, PROTOCOLS
from tests.small import SMALL, small

SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("partitions", "dirichlet"): {"alpha": 0.5},
    ("partitions", "class_imbalance"): {"total": 1000},
    ("partitions", "power_law"): {"total": 1000},
    ("partitions", "exact_sizes"): {"sizes": [100] * SMALL["population"]["clients"]},
    ("codecs", "sparse_mask"): {"share": 0.3},
    ("codecs", "top_k"): {"share": 0.2},
    **{("selection", name): {"count": 2} for name in registry.names("selection") if name != "all"},
}
"""What parts need said, by kind and name; all others go by their defaults."""


def parts(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """A shipped part of a kind."""
    return st.sampled_from(
        [
            {"name": name, **SETTINGS.get((kind, name), {})}
            for name in registry.names(kind)
            if name != "natural"  # the digits' rows have no owners
        ]
    )


COMPOSITIONS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "algorithm": st.sampled_from(registry.names("algorithms")),
        "partition": parts("partitions"),
        "hardware": st.sampled_from([SMALL["population"], {"name": "device"}, {"name": "paper"}]),
        "population": POPULATIONS,
        "uplink_codec": parts("codecs"),
        "downlink_codec": parts("codecs"),
        "protocol": PROTOCOLS,
        "selection": parts("selection"),
        "versions": st.integers(2, 4),
        "every": st.integers(1, 3),
    }
)


def scenario_of(drawn: dict[str, Any]) -> Scenario:
    """What was drawn as a scenario on a part of the digits; a second of simulated time at most."""
    algorithm = registry.resolve("algorithms", drawn["algorithm"], Path())
    codecs = {key: drawn[key] for key in ("uplink_codec", "downlink_codec")}
    return small(
        seed=drawn["seed"],
        data={
            "partition": drawn["partition"],
            "validation_share": 0.2 if algorithm.needs_validation else 0.0,
        },
        population={**drawn["hardware"], **drawn["population"], **codecs},
        algorithm={"name": drawn["algorithm"], "local": {"steps": 2, "batch_size": 16}},
        protocol=drawn["protocol"],
        decisions={"selection": drawn["selection"]},
        evaluate={"every": drawn["every"]},
        stop={"versions": drawn["versions"], "time_s": 1.0},
    )


def check(drawn: dict[str, Any]) -> str:
    """How the composition ended; whatever ran has a reason to end, and books that balance."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        ending = ended(drawn, folder)
        if ending == "refused":
            assert not folder.exists()
            return ending
        run = simfl.load_run(folder)
        assert run.manifest["reason"]
        if ending != "diverged":  # what was under way then is in no book
            check_books(run)
        return ending


def ended(drawn: dict[str, Any], folder: Path) -> str:
    """Run the composition: it is refused, completed, stalled or diverged, and nothing else."""
    try:
        simfl.run(scenario_of(drawn), folder)
    except ScenarioError:
        return "refused"
    except Stalled:
        return "stalled"
    except Diverged:
        return "diverged"
    return "completed"


@given(drawn=COMPOSITIONS)
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_a_composition_ends_and_its_books_balance(drawn: dict[str, Any]) -> None:
    """Two; the two hundred are below."""
    check(drawn)


@pytest.mark.slow
@given(drawn=COMPOSITIONS)
@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_two_hundred_compositions(drawn: dict[str, Any]) -> None:
    """Algorithms, partitions, populations, faults, media, codecs, protocols and selection."""
    check(drawn)
