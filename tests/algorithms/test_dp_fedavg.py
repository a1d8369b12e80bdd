"""DP-FedAvg against a loop from its paper, and its noise against what it says."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import simfl
from simfl.algorithms.dp_fedavg import DpFedAvg
from simfl.assembly.assemble import assemble
from simfl.measures.hidden_draws import _divergences
from simfl.measures.privacy import Privacy
from simfl.runs.warning_rules import foreseen
from simfl.scenario.yaml_source.error import ScenarioError
from tests.algorithms.loops import Loop, Weights, against, scenario
from tests.algorithms.made import state_at, update_of

CLIP = 0.22


def test_without_noise_it_is_the_mean_of_clipped_changes(tmp_path: Path) -> None:
    """Delta min(1, S / ||Delta||) over all tensors; the log has norms and the share clipped."""
    norms: list[list[float]] = []

    def loop(given: Loop) -> Weights:
        theta = given.weights
        for chosen in given.rounds:
            clipped = []
            norms.append([])
            for k in sorted(chosen):
                own = given.trained(theta, k)
                delta = {n: own[n] - theta[n] for n in theta}
                norms[-1].append(math.sqrt(sum(float((one**2).sum()) for one in delta.values())))
                share = min(1.0, CLIP / norms[-1][-1])
                clipped.append({n: share * one for n, one in delta.items()})
            theta = {n: theta[n] + sum(one[n] for one in clipped) / len(chosen) for n in theta}
        return theta

    against(loop, {"name": "dp_fedavg", "clip": CLIP, "noise_multiplier": 0.0}, tmp_path)

    events = pd.read_parquet(tmp_path / "events.parquet")
    told = events.loc[events["kind"] == "report", "value"].tolist()
    assert told == [sum(one > CLIP for one in each) / len(each) for each in norms]
    assert 0 < sum(told) / len(told) < 1  # both branches of min


def test_the_noise_has_the_standard_deviation_that_is_said() -> None:
    """z S / m, different for each version, and reproducible."""
    state = state_at([0.0] * 20_000)
    state = replace(state, memory={"seed": 7})
    updates = [update_of(state, client, [0.0] * 20_000, 1.0) for client in range(4)]
    algorithm = DpFedAvg(clip=0.5, noise_multiplier=2.0)

    def noise(version: int) -> torch.Tensor:
        after = algorithm.aggregate(replace(state, version=version), updates, None)  # type: ignore[arg-type]
        return after.weights["weight"]

    first, again, second = noise(1), noise(1), noise(2)
    assert torch.equal(first, again)
    assert float(first.std()) == pytest.approx(2.0 * 0.5 / 4, rel=0.03)
    assert abs(float(first.mean())) < 4 * 0.25 / math.sqrt(20_000)
    correlation = float((first * second).mean() / first.std() / second.std())
    assert abs(correlation) < 4 / math.sqrt(20_000)


def test_what_would_escape_the_noise_is_refused() -> None:
    """Running statistics, and protocols whose releases are not accounted for."""
    batch_norm = {"name": "mlp", "hidden": [8], "batch_norm": True}
    for changes, said in (
        ({"model": batch_norm}, "reveal about clients what the noise should hide"),
        ({"protocol": "buffered"}, "each use freshly drawn clients"),
        ({"protocol": "hierarchical"}, "each use freshly drawn clients"),
    ):
        with pytest.raises(ScenarioError, match=said):
            assemble(scenario({"name": "dp_fedavg"}, **changes))


def test_epsilon_without_the_accountant_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This happens before the run."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"epsilon is not computed, .* 'simfl\[privacy\]'"):
        assemble(scenario({"name": "dp_fedavg"}, evaluate={"measures": ["privacy"]}))


def test_epsilon_is_that_of_the_formula(tmp_path: Path) -> None:
    """Gaussian releases: min over orders a of R a / (2 z^2) + log(1/delta) / (a - 1), or less."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    measure, z, releases = Privacy(), 2.0, 10

    rho = releases / (2 * z**2)
    loose = rho + 2 * math.sqrt(rho * math.log(1 / measure.delta))
    epsilon = measure.released(z, releases)
    assert 0.7 * loose < epsilon < loose
    assert measure.sampled(4.0, 1000, 10, releases) < measure.released(2.0, releases)
    assert measure.released(0.0, 1) == measure.sampled(0.0, 10, 5, 1) == math.inf

    part = {"name": "dp_fedavg", "noise_multiplier": 2.0}
    run = simfl.run(scenario(part, evaluate={"measures": ["privacy"]}), tmp_path / "run")
    told = run.manifest["measures"]["privacy"]
    most = int(run.clients["participations"].max())
    assert told["epsilon"] == pytest.approx(measure.released(2.0, most))
    assert told["epsilon_sampled"] == pytest.approx(measure.sampled(2.0, 4, 3, 4))
    assert told["releases"] == 4


@pytest.mark.parametrize(
    ("patience", "even"),
    [({}, True), ({"over_selection": 1.3}, False), ({"deadline_s": 1000.0}, False)],
)
def test_clients_that_are_not_waited_for_are_no_even_draw(
    patience: dict[str, float], even: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged clients were faster than the others, so epsilon_sampled is not valid."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    monkeypatch.setattr(Privacy, "released", lambda *given: 2.0)
    monkeypatch.setattr(Privacy, "sampled", lambda *given: 1.0)
    protocol = {"name": "synchronous", "patience": patience}
    run = simfl.run(scenario({"name": "dp_fedavg"}, protocol=protocol), tmp_path / "run")

    told = Privacy().compute(run)["epsilon_sampled"]

    assert told == 1.0 if even else math.isnan(told)


def test_answers_to_a_selections_questions_are_no_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epsilon counts updates only: three of four clients are queried per round, and one trains."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    monkeypatch.setattr(Privacy, "released", lambda self, z, releases: float(releases))
    selection = {"name": "power_of_choice", "count": 1, "factor": 3}
    changes: dict[str, object] = {"decisions": {"selection": selection}, "stop": {"versions": 6}}
    run = simfl.run(scenario({"name": "dp_fedavg"}, **changes), tmp_path / "run")

    told = Privacy().compute(run)["epsilon"]

    assert run.events.query("kind == 'upload'")["client"].value_counts().max() > told
    assert told == run.clients["participations"].max()


def test_where_clients_fail_those_who_do_not_are_no_even_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four are drawn, but only three have enough memory: the draw does not hide who takes
    part.
    """
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    monkeypatch.setattr(Privacy, "released", lambda *given: 2.0)
    monkeypatch.setattr(Privacy, "sampled", lambda *given: 1.0)
    devices = [("rpi_4b", 0.75), ("esp32_s3", 0.25)]
    groups = [{"device": name, "link": "wifi5_ac", "share": share} for name, share in devices]
    changes: dict[str, object] = {
        "model": {"name": "mlp", "hidden": [400, 400]},
        "population": {"clients": 4, "memory": "drop", "groups": groups},
        "decisions": {"selection": {"name": "random", "share": 1.0}},
        "stop": {"versions": 1},
    }
    run = simfl.run(scenario({"name": "dp_fedavg", "clip": 1e-4}, **changes), tmp_path / "run")

    told = Privacy().compute(run)

    assert run.rounds["participants"].tolist() == [3]
    assert told["epsilon"] == 2.0 and math.isnan(told["epsilon_sampled"])


def test_updates_that_came_too_late_are_in_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every merged update belongs to one client; the one with the most updates counts."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    monkeypatch.setattr(Privacy, "released", lambda self, z, releases: float(releases))
    protocol = {"name": "synchronous", "patience": {"over_selection": 2.0}}
    part = {"name": "dp_fedavg", "clip": 1e-3}
    run = simfl.run(scenario(part, protocol=protocol, stop={"versions": 12}), tmp_path / "run")

    finished = run.clients["participations"]
    late = (run.events["kind"] == "late").sum()
    told = Privacy().compute(run)["epsilon"]

    assert late > 0 and finished.sum() - late == run.rounds["participants"].sum()
    assert run.rounds["participants"].sum() / 4 <= told < finished.max()


@pytest.mark.parametrize(
    "population",
    [
        {"message_loss": {"probability": 0.5, "timeout_s": 0.02, "attempts_max": 2}},
        {
            "leaving": "abort",
            "availability": {
                "name": "renewal",
                "present": {"mean_s": 0.15, "law": "exponential"},
                "absent": {"mean_s": 0.05, "law": "exponential"},
            },
        },
    ],
    ids=["lost", "aborted"],
)
def test_updates_that_never_arrived_are_in_no_release(
    population: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remaining ones are as many as the versions' participants."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    monkeypatch.setattr(Privacy, "released", lambda self, z, releases: float(releases))
    groups = [
        {"device": "rpi_4b", "link": "wifi5_ac", "share": 0.5},
        {"device": "phone_high_sd865", "link": "lte_2021", "share": 0.5},
    ]
    changes: dict[str, object] = {
        "model": "linear",
        "population": {"name": "catalogue", "clients": 6, "groups": groups, **population},
        "decisions": {"selection": "all"},
        "stop": {"versions": 15},
    }
    run = simfl.run(scenario({"name": "dp_fedavg"}, **changes), tmp_path / "run")

    told = Privacy().compute(run)["epsilon"]

    finished = run.clients["participations"]
    assert finished.sum() == run.rounds["participants"].sum()
    assert run.events.query("kind == 'upload'")["client"].value_counts().max() > told
    assert told == finished.max()


def test_updates_of_a_round_that_made_no_version_are_in_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends when some have arrived and others have not."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    part = {"name": "dp_fedavg"}
    first = simfl.run(scenario(part), tmp_path / "first")
    ends_s = first.events.query("kind == 'upload'")["time_s"].iloc[:2]
    stop = {"versions": None, "time_s": float(ends_s.mean())}

    run = simfl.run(scenario(part, stop=stop), tmp_path / "run")

    assert run.clients["participations"].sum() == 1 and run.rounds.empty
    assert Privacy().compute(run)["epsilon"] == 0.0


def test_epsilon_of_a_hidden_draw_is_little_above_the_least() -> None:
    """What some two data sets take: (1 - q) N(0, z^2) + q N(2, z^2) against N(0, z^2).

    At z = 3, delta = 1e-5: composed by Fourier transform on a grid, in both directions. That of
    known participants is Balle and Wang's (2018) formula for N(2 sqrt(T), z^2).
    """
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    exact = {  # clients, participants, releases: hidden draw, known draw
        (100, 40, 20): (6.7339, 16.5420),
        (1000, 10, 20): (0.1475, 16.5420),
        (100, 99, 100): (49.2503, 49.8837),
        (10, 10, 20): (16.5420, 16.5420),
    }

    for (clients, drawn, releases), (hidden, known) in exact.items():
        told = Privacy().sampled(3.0, clients, drawn, releases)
        assert 0.9999 * hidden <= told <= 1.06 * hidden
        assert told <= known * 1.01 and told <= Privacy().released(1.5, releases)


def test_losses_beyond_all_numbers_leave_the_epsilon_of_a_known_draw() -> None:
    """The noise is a fiftieth of a client's influence, so everyone sees whom it came from."""
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")

    told = Privacy().sampled(0.02, 100, 10, 5)

    assert math.isfinite(told) and told <= Privacy().released(0.01, 5)


def test_of_one_release_the_divergence_is_that_of_the_two_mixtures() -> None:
    """q N(2/z, 1) + (1 - q) N(0, 1) against N(0, 1), integrated in either direction."""
    x = np.linspace(-12.0, 16.0, 400_001)
    shift, share = 1.5, 0.3
    plain = stats.norm.pdf(x)
    mixed = share * stats.norm.pdf(x, shift) + (1.0 - share) * plain
    for loss in (0.0, 0.3, 0.8):
        event = np.maximum(mixed - math.exp(loss) * plain, 0.0).sum() * (x[1] - x[0])
        assert _divergences(np.array([loss]), shift, share) == pytest.approx(event, rel=1e-6)
        other = np.maximum(plain - math.exp(-loss) * mixed, 0.0).sum() * (x[1] - x[0])
        assert _divergences(np.array([-loss]), shift, share) == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize(
    ("selection", "noise", "warned"),
    [
        ({"name": "power_of_choice", "count": 1, "factor": 3}, 1.0, True),
        ({"name": "oort", "count": 2}, 1.0, True),
        ({"name": "oort", "count": 2}, 0.0, False),
        ({"name": "random", "count": 2}, 1.0, False),
    ],
    ids=str,
)
def test_losses_without_noise_are_warned_of(
    selection: dict[str, object], noise: float, warned: bool
) -> None:
    """A selection by losses reveals information that epsilon does not cover."""
    part = {"name": "dp_fedavg", "noise_multiplier": noise}
    simulation = assemble(scenario(part, decisions={"selection": selection}))

    found = [one.message for one in foreseen(simulation) if one.kind == "losses_without_noise"]

    assert len(found) == warned
    assert all("uses losses that clients report without noise" in one for one in found)


def test_a_run_without_a_release_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before the first upload: no error, and epsilon is 0."""
    monkeypatch.setattr(Privacy, "__post_init__", lambda self: None)
    changes = {"stop": {"time_s": 0.001}, "evaluate": {"measures": ["privacy"]}}
    run = simfl.run(scenario({"name": "dp_fedavg"}, **changes), tmp_path / "run")

    told = run.manifest["measures"]["privacy"]

    assert run.manifest["status"] == "completed"
    assert (told["epsilon"], told["releases"]) == (0.0, 0.0)
