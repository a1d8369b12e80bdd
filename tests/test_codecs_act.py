"""Codecs in runs: effects on learning, for which messages, and references."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from rich.console import Console

import simfl
from simfl.assembly.assemble import assemble
from simfl.assembly.simulation import Options
from simfl.console import comparison
from simfl.learning.workers import parallel
from simfl.runs.warning_rules import foreseen
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.study.comparable import SIZED_ONLY, caveat
from simfl.study.comparisons import paired_differences
from simfl.study.effects import first_order_indices, main_effects, not_explained
from simfl.study.loaded import load_study
from simfl.study.means import point_means
from simfl.study.pareto import study_front, unranked
from simfl.study.rows import row
from tests.small import SEMI_ASYNCHRONOUS, final_weights, largest_difference, simulated, small
from tests.study.studies import run_here, session

SPARSE = {"name": "top_k", "share": 0.05}
BOTH = {"uplink_codec": {**SPARSE, "error_feedback": True}, "downlink_codec": "int8"}
TIERS = {"uplink_codec": "int8", "downlink_codec": "int8"}
SIZES = {"name": "int8", "values": False}


def through(uplink: Any = "float32", downlink: Any = "float32", **changes: Any) -> Scenario:
    """The small scenario with these codecs."""
    return small(population={"uplink_codec": uplink, "downlink_codec": downlink}, **changes)


def root(scenario: Scenario) -> str:
    """The key under all its values."""
    return assemble(scenario, Options(device="cpu")).root


def weights(scenario: Scenario, **options: Any) -> dict[str, torch.Tensor]:
    """What is learned."""
    return final_weights(simulated(scenario, **options)[1])


@pytest.mark.parametrize(
    ("uplink", "downlink"),
    [("int8", "float32"), ("float32", "int8"), ("float16", "float32"), (SPARSE, "float32")],
)
def test_what_is_learned_is_not_equal(uplink: Any, downlink: Any) -> None:
    """Any codec on any way changes the model; the coarser the more."""
    assert largest_difference(weights(through(uplink, downlink)), weights(through())) > 1e-7


def test_a_coarse_codec_costs_accuracy_and_error_feedback_brings_some_back() -> None:
    """The largest hundredth of each change: far behind after ten versions, less with residuals."""
    sparse = {"name": "top_k", "share": 0.01}
    accuracies = []
    for codec in ("float32", {**sparse, "error_feedback": True}, sparse):
        run = simulated(through(codec, stop={"versions": 10}))[1]
        accuracies.append(run.publications.rounds[-1]["accuracy"])

    assert accuracies[0] > accuracies[1] + 0.05 > accuracies[2] + 0.1


@pytest.mark.parametrize(
    "protocol",
    ["synchronous", "asynchronous", {"name": "hierarchical", "edge_rounds": 2}, SEMI_ASYNCHRONOUS],
    ids=str,
)
def test_servers_keep_their_exact_models_behind_a_codec_on_the_way_down(protocol: Any) -> None:
    """With a learning rate too small to move anything the model stays, though nobody had it."""
    still = {"local": {"steps": 1, "batch_size": 16, "learning_rate": 1e-14}}
    nearest = {"name": "int8", "rounding": "nearest"}

    for uplink in ("float32", "int8"):
        scenario = through(uplink, nearest, algorithm=still, protocol=protocol)
        simulation, run = simulated(scenario)
        start = simulation.network.initial(simulation.streams.seed("model"))
        assert largest_difference(final_weights(run), start) < 1e-12


def test_a_personal_model_begins_as_what_the_client_received() -> None:
    """It was never sent more than a twentieth of the model: what does not move shows it."""
    still = {"name": "ditto", "local": {"steps": 1, "batch_size": 16, "learning_rate": 1e-14}}
    _, run = simulated(through(downlink=SPARSE, algorithm=still, stop={"versions": 1}))
    job = run.values.last_job(0, run.clock.now_s)
    assert job is not None

    own = torch.cat([tensor.flatten() for tensor in job.memory().private.values()])

    assert 0 < int((own.abs() > 1e-9).sum()) <= 0.05 * len(own) + 1


def test_a_party_that_has_sent_nothing_has_no_contrast() -> None:
    """MOON's first round is FedAvg's: the received model is not the party's own previous one."""
    local = {"epochs": 1, "batch_size": 16, "learning_rate": 0.1}
    algorithms: list[dict[str, Any]] = [{"name": "moon", "mu": 5.0}, {"name": "fedavg"}]

    moon, fedavg = (
        weights(through(downlink="int8", algorithm={**one, "local": local}, stop={"versions": 1}))
        for one in algorithms
    )

    assert largest_difference(moon, fedavg) < 1e-12


@pytest.mark.parametrize(
    ("codecs", "changes"),
    [
        (BOTH, {}),
        (TIERS, {"protocol": SEMI_ASYNCHRONOUS}),
        (BOTH, {"protocol": {"name": "buffered", "buffer": 3}}),
        (TIERS, {"algorithm": {"name": "fedsgd"}}),
    ],
    ids=["residuals", "tiers", "buffered", "gradients"],
)
def test_however_it_is_computed(
    codecs: Any, changes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cohorts of 1, 2, 7 and all, 0, 1 and 2 workers: the same bits. The reference: 1e-9."""
    for least in ("FEWEST_FLOPS", "FEWEST_FLOPS_FOR_THREADS", "FEWEST_FLOPS_PER_JOB"):
        monkeypatch.setattr(parallel, least, 0.0)
    scenario = small(dtype="float32", population=codecs, stop={"versions": 4}, **changes)
    whole = weights(scenario)

    for options in ({"cohort_cap": 1}, {"cohort_cap": 2}, {"cohort_cap": 7}):
        assert largest_difference(whole, weights(scenario, **options)) == 0.0
    for workers in (1, 2):
        assert largest_difference(whole, weights(scenario, workers=workers)) == 0.0
    exact = scenario.with_overrides(["dtype=float64"])
    assert largest_difference(weights(exact), weights(exact, trainer="sequential")) < 1e-9


@pytest.mark.slow
def test_workers_in_processes_code_uploads_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolutional network's jobs, residuals and all, come back from another process."""
    for least in ("FEWEST_FLOPS", "FEWEST_FLOPS_FOR_THREADS", "FEWEST_FLOPS_PER_JOB"):
        monkeypatch.setattr(parallel, least, 0.0)
    model = {"name": "mlp", "hidden": [6], "batch_norm": True}
    scenario = small(dtype="float32", population=BOTH, model=model, stop={"versions": 2})

    assert largest_difference(weights(scenario), weights(scenario, workers=2)) == 0.0


def test_keys_are_of_what_acts_on_values() -> None:
    """Codec, settings and direction count; sizes, identity and `values: false` do not."""
    plain = root(small())
    acting = [
        through("int8"),
        through("float32", "int8"),
        through({"name": "int8", "rounding": "nearest"}),
        through({"name": "int8", "error_feedback": True}),
        through("float16"),
        through(SPARSE),
        through({**SPARSE, "share": 0.06}),
    ]
    assert len({plain, *map(root, acting)}) == len(acting) + 1
    for same in (
        through(SIZES),
        through({**SPARSE, "values": False}, SIZES),
        through({"name": "sparse_mask", "share": 0.5}),
    ):
        assert root(same) == plain
    assert root(through({"name": "int8", "scales": 4})) == root(acting[0])
    assert root(through({**SPARSE, "positions": "bitmap"})) == root(acting[-2])


def test_hardware_alone_trains_nothing_behind_codecs(tmp_path: Path) -> None:
    """Results of a run with codecs are found by one on other devices, not by one without."""
    from simfl.provenance.results import MemoryStore

    store, scenario = MemoryStore(), small(population=BOTH)
    simfl.run(scenario, tmp_path / "first", Options(store=store))
    phones = "population.groups=[{device: phone_mid_sd660, link: lte_2021, share: 1.0}]"

    warm = simfl.run(scenario.with_overrides([phones]), tmp_path / "warm", Options(store=store))
    other = simfl.run(small(), tmp_path / "other", Options(store=store))

    assert warm.manifest["counts"]["jobs_trained"] == 0
    assert other.manifest["counts"]["jobs_reused"] == 0


def test_what_an_algorithm_leaves_no_place_for_is_said() -> None:
    """Keys about values are refused with the reason where nothing is coded; sizes are not."""
    cffl = small(
        data={"validation_share": 0.2},
        algorithm={"name": "cffl", "reward_by": "reputation"},
        population={"uplink_codec": "int8", "downlink_codec": SIZES},
    )
    assert root(cffl) == root(cffl.with_overrides(["population.uplink_codec=float32"]))
    with pytest.raises(ScenarioError, match="nothing reads it: clients send the largest values"):
        assemble(cffl.with_overrides(["population.uplink_codec.values=true"]))
    with pytest.raises(ScenarioError, match="nothing reads it: only clients keep residuals"):
        assemble(
            through("int8", "int8").with_overrides(
                ["population.downlink_codec.error_feedback=true"]
            )
        )
    with pytest.raises(ScenarioError, match="nothing reads it: values is false"):
        assemble(through(SIZES).with_overrides(["population.uplink_codec.rounding=nearest"]))
    with pytest.raises(ScenarioError, match="one bit is only a sign"):
        assemble(through({**SPARSE, "value_bits": 1}))


@pytest.mark.parametrize(
    ("codec", "warned"),
    [("int8", 0), (SIZES, 0), ({"name": "sparse_mask", "share": 0.5}, 1)],
    ids=["acts", "told to", "has nothing to act with"],
)
def test_a_codec_that_only_sizes_without_being_told_to_is_warned_of(
    codec: Any, warned: int
) -> None:
    """If a model is learned; the message names the key."""
    kinds = [one for one in foreseen(assemble(through(codec))) if one.kind == "sized_only"]

    assert len(kinds) == warned
    assert all("uplink_codec sparse_mask" in one.message for one in kinds)


def test_a_submodel_stays_one() -> None:
    """FedSAC's masked values are zero at the client and on their way back."""
    scenario = small(
        data={"validation_share": 0.2},
        algorithm={
            "name": "fedsac",
            "beta": 5.0,
            "contributions": {"accuracy": [0.1 * client for client in range(1, 9)]},
        },
        population={"uplink_codec": "int8", "downlink_codec": "int8"},
    )
    _, run = simulated(scenario)
    _, sequential = simulated(scenario, trainer="sequential")

    assert largest_difference(final_weights(run), final_weights(sequential)) < 1e-9
    with pytest.raises(ScenarioError, match="submodels change"):
        assemble(scenario.with_overrides(["population.uplink_codec.error_feedback=true"]))


def test_a_comparison_says_what_is_not_modelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`simfl compare`: bytes have a difference, accuracy has none, though it is the same."""
    runs = [
        simfl.run(through(codec), tmp_path / name)
        for name, codec in (("float32", "float32"), ("sizes", SIZES), ("acts", "int8"))
    ]
    assert [run.manifest["sized_only"] for run in runs] == [
        [],
        ["uplink int8"],
        [],
    ]
    text = io.StringIO()
    monkeypatch.setattr(comparison, "Terminal", lambda: Console(file=text, width=300))
    comparison.print_comparison(runs, [0.2])

    lines = {line.split()[1]: line for line in text.getvalue().splitlines() if line[:1] == "│"}
    for figure in ("accuracy", "loss", "worst_client_accuracy", "time_to_accuracy_0.2_s"):
        assert lines[figure].count("not modelled") == 1
    for figure in ("bytes", "time_s", "energy_j", "jain_participation"):
        assert "not modelled" not in lines[figure]


OWN_MEASURES = """
from typing import ClassVar
from simfl.measures.base import Measure
class Learned(Measure):
    def compute(self, run): return {"rounds": float(len(run.rounds))}
class Events(Learned): pass
class OfEvents(Learned):
    learned: ClassVar[bool] = False
"""


def test_own_measures_of_events_are_compared(tmp_path: Path) -> None:
    """Those that say so; all others may depend on what was learned."""
    (tmp_path / "mine.py").write_text(OWN_MEASURES)
    measures = [f"{tmp_path}/mine.py:{name}" for name in ("Events", "OfEvents")]
    runs = [
        simfl.run(through(codec, evaluate={"measures": measures}), tmp_path / f"run{number}")
        for number, codec in enumerate(("float32", SIZES))
    ]
    table = pd.DataFrame([row(one, {}) for one in runs])

    assert [one.manifest["measures_of_events"] for one in runs] == [["of_events"]] * 2
    assert "measures_of_events" not in simfl.run(through(), tmp_path / "plain").manifest
    found = {name: caveat(table, f"{name}.rounds") for name in ("events", "of_events")}
    assert found == {"events": SIZED_ONLY, "of_events": None}


GRID = {"grid": {"population.uplink_codec": ["float32", SIZES], "algorithm.local.steps": [1, 2]}}
ASKED = {
    "targets": {"accuracy": [0.1]},
    "compare": [{"factor": "population.uplink_codec", "baseline": "float32"}],
}


def test_a_study_says_what_is_not_modelled(tmp_path: Path) -> None:
    """Verdicts, main effects, indices and Pareto fronts of learned figures, but not of bytes."""
    study = session(tmp_path, points=GRID, questions=ASKED)
    assert {one.status for one in run_here(study)} == {"completed"}
    study.collect()
    loaded = load_study(tmp_path / "out")
    runs, factors = loaded.table, loaded.factors
    codec, steps = factors

    def verdicts(metric: str, factor: str, baseline: Any) -> list[str]:
        found = paired_differences(runs, metric, factor, baseline, factors)
        assert found["difference"].isna().tolist() == [
            one == "not modelled" for one in found["verdict"]
        ]
        return found["verdict"].tolist()

    for metric in ("accuracy", "loss", "time_to_accuracy_0.1_s"):
        assert verdicts(metric, codec, "float32") == ["not modelled"]
        assert "not modelled" not in verdicts(metric, steps, 1)
        assert main_effects(runs, metric, factors).empty
        assert first_order_indices(runs, metric, factors).empty
        assert "only sizes messages" in not_explained(runs, [metric])[0]
    assert verdicts("bytes", codec, "float32") == ["lower"]
    assert not main_effects(runs, "bytes", factors).empty
    means, objectives = (
        point_means(runs, factors, ["accuracy", "bytes"]),
        {"accuracy": "max", "bytes": "min"},
    )
    front = study_front(runs, factors, objectives)
    assert set(front[codec]) == {"float32"}
    assert len(unranked(means, factors, objectives)) == 2
