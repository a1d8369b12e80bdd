"""Core stability of runs: CoreFed ends at the optimum, and any run's model can be asked."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import simfl
from simfl.learning.datasets.synthetic import Synthetic
from simfl.measures.core.agents import Agents
from simfl.measures.core_stability import CoreStability
from simfl.runs.execution import federation_of
from simfl.runs.runfolder import RunFolderError
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.streams import Streams
from tests.measures.core.tasks import nash_optimum
from tests.small import small

AGENTS = {"clients": 3, "edges": 1}
REGRESSION = {
    "name": "synthetic",
    "task": "regression",
    "features": 3,
    "outputs": 1,
    "examples": 90,
    "noise": 0.3,
    "owners": 3,
    "partition": "natural",
}
LOGISTIC = {**REGRESSION, "task": "classification", "outputs": 2, "noise": 1.0}
FULL_BATCH = {"epochs": 1, "batch_size": None}


def converged(tmp_path, data, algorithm, learning_rate, versions=200, **changes):
    """A run of full-batch steps with a linear model, whose loss is convex."""
    scenario = small(
        data=data,
        model="linear",
        population=AGENTS,
        algorithm={"local": {**FULL_BATCH, "learning_rate": learning_rate}, **algorithm},
        stop={"versions": versions},
        evaluate={"every": versions},
        log={"level": "rounds"},
        **changes,
    )
    return simfl.run(scenario, tmp_path / algorithm["name"])


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    ("data", "offset", "rate", "weights"),
    [
        (REGRESSION, 25.0, 5.0, "uniform"),
        (REGRESSION, 25.0, 5.0, [3.0, 1.0, 1.0]),
        (LOGISTIC, 4.0, 8.0, "uniform"),
    ],
)
def test_corefed_ends_at_the_nash_optimum_and_no_coalition_blocks(
    tmp_path, data, offset, rate, weights
):
    """Linear and logistic regression: the gradient vanishes, utilities are scipy's to 1e-6."""
    algorithm = {"name": "corefed", "offset": offset, "guard": "error", "weights": weights}
    converged(tmp_path, data, algorithm, rate)
    federation = federation_of(tmp_path / "corefed")
    model = federation.losses(exact=True)
    agents = Agents.of(model, offset, None if weights == "uniform" else weights)

    best = nash_optimum(agents, model.theta)

    utilities, slopes = agents.with_slopes(model.theta)
    assert np.linalg.norm((agents.weights / utilities) @ slopes) < 1e-8
    assert utilities == pytest.approx(agents.utilities(best), abs=1e-6)
    asked = CoreStability(offset=offset, weights="uniform" if weights == "uniform" else (3, 1, 1))
    answers = asked.answers(federation, np.random.default_rng(0))
    assert {name: answer.stable for name, answer in answers.items()} == {
        "certificate": True,
        "proportional": True,
        "pareto": True,
        "coalitions": True,
    }


@pytest.mark.slow
def test_a_noisy_agent_moves_fedavg_out_of_the_optimum_and_corefed_less(tmp_path):
    """Noise on one agent's inputs: FedAvg's sum of ratios exceeds n, CoreFed's does not."""
    noise = {**REGRESSION, "noise_variance": [0.0, 0.0, 6.0]}
    converged(tmp_path, noise, {"name": "corefed", "offset": 25.0}, 2.0)
    converged(tmp_path, noise, {"name": "fedavg"}, 0.1)

    asked = CoreStability(offset=25.0, search_up_to=0)
    corefed, fedavg = (
        asked.answers(federation_of(tmp_path / name), np.random.default_rng(0))["certificate"]
        for name in ("corefed", "fedavg")
    )

    assert corefed.stable
    assert fedavg.stable is not True and fedavg.margin < -1e-4


def test_generated_agents_have_a_known_optimum(tmp_path):
    """With many examples CoreFed's model is near the optimum of the expected utilities."""
    many = {**REGRESSION, "examples": 30_000, "spread": 0.5}
    run = converged(tmp_path, many, {"name": "corefed", "offset": 25.0}, 4.0, versions=40)
    scenario = simfl.Scenario.from_yaml(run.path / "scenario.yaml")
    seed = Streams(scenario.seed).seed("data")
    weights, biases = Synthetic(**scenario.data.parameters).truths(seed)
    truths = np.hstack([weights[:, 0].numpy(), biases.numpy()]).astype(float)

    def negative(theta):
        losses = ((theta - truths) ** 2).sum(axis=1) + 0.3**2
        return -float(np.log(25.0 - losses).sum())

    expected = minimize(negative, truths.mean(axis=0), method="BFGS").x

    model = federation_of(run.path).losses(exact=True)
    assert model.theta == pytest.approx(expected, abs=0.03)


def test_the_measures_stand_in_the_manifest(tmp_path):
    """Any algorithm's run: utilities, answers with intervals, and how equal clients are."""
    run = simfl.run(
        small(
            data=REGRESSION,
            model="linear",
            population=AGENTS,
            evaluate={
                "measures": [
                    {"name": "equity", "of": "loss"},
                    {"name": "core_stability", "offset": 25.0, "k": 1.5, "draws": 20},
                ]
            },
        ),
        tmp_path / "run",
    )

    equity, core = run.manifest["measures"].values()

    losses = run.clients["served_loss"]
    assert equity["worst"] == losses.max() and equity["variance"] == pytest.approx(
        losses.var(ddof=0)
    )
    assert core["utility_min"] == pytest.approx(25.0 - losses.max())
    assert core["certificate_stable"] == 0.0 or core["certificate_margin"] < 0
    for name in ("certificate", "proportional", "pseudo_core"):
        assert core[f"{name}_low"] <= core[f"{name}_high"]
    assert core["pareto_margin"] >= core["certificate_margin"] and "pareto_low" not in core
    assert core["pseudo_core_margin"] > 0
    asked = CoreStability(offset=25.0).answers(federation_of(run.path), np.random.default_rng(0))
    assert asked["certificate"].blocked_by == (0, 1, 2)  # so early in training
    assert core["certificate_only_all_block"] == 1.0
    second = np.sort(25.0 - losses)[1]  # of the two that are worst off, the better one
    assert core["least_margin_possible"] == pytest.approx(1 - 2 / 3 * 25.0 / second)


def test_a_smaller_coalition_that_blocks_is_seen_by_whichever_question(tmp_path):
    """The certificate finds all three clients; of all coalitions, two of them block."""
    scenario = small(
        seed=0,
        data=REGRESSION,
        model="linear",
        population=AGENTS,
        algorithm={"local": {**FULL_BATCH, "learning_rate": 0.1}},
        evaluate={"measures": [{"name": "core_stability", "offset": 25.0}]},
    )

    run = simfl.run(scenario, tmp_path / "run")

    asked = CoreStability(offset=25.0).answers(federation_of(run.path), np.random.default_rng(0))
    assert asked["certificate"].blocked_by == (0, 1, 2)
    assert asked["coalitions"].blocked_by == (1, 2)
    assert run.manifest["measures"]["core_stability"]["certificate_only_all_block"] == 0.0


def test_coalitions_of_more_clients_are_not_searched(tmp_path):
    """Three clients, and a search up to two: the certificate answers for all coalitions."""
    measures = [{"name": "core_stability", "offset": 25.0, "search_up_to": 2}]
    scenario = small(
        data=REGRESSION, model="linear", population=AGENTS, evaluate={"measures": measures}
    )

    core = simfl.run(scenario, tmp_path / "run").manifest["measures"]["core_stability"]

    assert "certificate_margin" in core and "coalitions_margin" not in core


@pytest.mark.slow
def test_a_network_is_asked_for_its_radius_alone(tmp_path):
    """Without convexity there is no certificate over all predictors."""
    measures = [{"name": "core_stability", "k": 2.0}]
    scenario = small(data=LOGISTIC, population=AGENTS, evaluate={"measures": measures})
    run = simfl.run(scenario, tmp_path / "run")

    core = run.manifest["measures"]["core_stability"]

    assert core["pseudo_core_margin"] > 0
    assert "certificate_margin" not in core


def test_models_of_their_own_are_judged_by_what_clients_are_served(tmp_path):
    """Agents that disagree, each at its own optimum: alone they have all they can get."""
    measures = [{"name": "core_stability", "offset": 25.0}]
    scenario = small(
        data=REGRESSION,
        model="linear",
        population=AGENTS,
        algorithm={"name": "standalone", "local": {**FULL_BATCH, "learning_rate": 0.2}},
        stop={"versions": 100},
        evaluate={"every": 100, "measures": measures},
    )

    core = simfl.run(scenario, tmp_path / "run").manifest["measures"]["core_stability"]

    assert core["coalitions_stable"] == 1.0
    assert 1 / 3 - 1e-6 < core["coalitions_margin"] < 2 / 3
    assert "certificate_margin" not in core


@pytest.mark.parametrize(("offset", "asked"), [(3.0, True), (1.0, False)])
def test_a_common_model_that_nobody_is_served_may_be_bad(offset, asked, tmp_path):
    """Below M for one client: coalitions are searched from another model, if there is any."""
    scenario = small(
        data=REGRESSION,
        model="linear",
        population=AGENTS,
        algorithm={"name": "standalone", "local": {**FULL_BATCH, "learning_rate": 0.2}},
        stop={"versions": 60},
        evaluate={"every": 60, "measures": [{"name": "core_stability", "offset": offset}]},
    )

    run = simfl.run(scenario, tmp_path / "run")

    core = run.manifest["measures"]["core_stability"]
    assert run.clients["global_loss"].max() > offset and core["utility_min"] > 0
    assert core.get("coalitions_stable") == (1.0 if asked else None)


def test_utilities_that_are_not_positive_are_told_and_nothing_else(tmp_path):
    """M below the losses: the core is not defined."""
    measures = [{"name": "core_stability", "offset": 0.01}]
    run = simfl.run(small(model="linear", evaluate={"measures": measures}), tmp_path / "run")

    core = run.manifest["measures"]["core_stability"]

    assert core["utility_min"] < 0
    assert core.keys() == {"utility_min", "utility_mean", "utility_product"}
    # Eight negative utilities: their product is positive, and rises as the model gets worse.
    assert (run.clients["served_loss"] > 0.01).sum() == 8
    assert np.isnan(core["utility_product"])


def test_of_an_ensemble_of_players_utilities_are_told_and_nothing_else(tmp_path):
    """FL Games has no common predictor that certificates could look at."""
    scenario = small(
        model="linear",
        algorithm={"name": "fl_games", "local": {"batch_size": 16, "learning_rate": 0.1}},
        stop={"versions": 1},
        evaluate={"measures": [{"name": "core_stability", "offset": 9.0, "k": 2.0}]},
    )

    run = simfl.run(scenario, tmp_path / "run")

    core, served = run.manifest["measures"]["core_stability"], run.clients["served_loss"]
    assert core["utility_min"] == pytest.approx(9.0 - served.max())
    assert core.keys() == {"utility_min", "utility_mean", "utility_product"}


def test_a_measure_of_the_model_needs_one(tmp_path):
    """An algorithm that learns nothing is refused, as is a folder without a model."""
    section = {"measures": [{"name": "core_stability"}]}
    with pytest.raises(ScenarioError, match="core_stability needs the final model"):
        simfl.run(small(algorithm="none", evaluate=section), tmp_path / "run")
    simfl.run(small(algorithm="none"), tmp_path / "none")
    with pytest.raises(RunFolderError, match=r"model\.safetensors: not there"):
        federation_of(tmp_path / "none")


def test_the_folder_gives_the_very_data_of_the_run(tmp_path):
    """Losses of the model in the folder on the data dealt out again are those in its table."""
    data = {"noise_variance": [0.0, 0.5, 1.0]}
    run = simfl.run(small(population=AGENTS, data=data), tmp_path / "run")

    federation = federation_of(run.path)

    losses = federation.losses().losses(federation.losses().theta)
    assert losses == pytest.approx(run.clients["global_loss"].to_numpy(), rel=1e-12)
