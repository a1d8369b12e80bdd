"""Convex models: the optimum of the Nash welfare is in the core, everything else is found out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from simfl.measures.core.agents import Agents
from simfl.measures.core.blocking import blocking, ratio_sum
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.core.certificate import certificate
from simfl.measures.core.coalition import TOLERANCE, feasible, largest_gain
from simfl.measures.core.concave import maximise
from simfl.measures.core.search import every_coalition, pareto_optimal, proportional
from tests.measures.core.tasks import LeastSquares, nash_optimum, points

POINTS = Agents.of(points(0.0, 0.0, 1.0), 2.0)
"""The card's example: L_i = (theta - b_i)^2, b = (0, 0, 1), M = 2."""

OPTIMUM = np.array([0.3680600648])


def at(theta: float) -> np.ndarray:
    """A predictor of POINTS."""
    return np.array([theta])


def random_agents(seed: int, count: int, dimension: int, *, weighted: bool) -> Agents:
    """Least squares with unlike targets; M is twice the largest loss of the mean predictor."""
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal((12, dimension)) for _ in range(count)]
    truths = rng.standard_normal((count, dimension))
    targets = [
        x @ truth + 0.3 * rng.standard_normal(12) for x, truth in zip(inputs, truths, strict=True)
    ]
    model = LeastSquares(inputs, targets)
    offset = 2 * float(model.losses(truths.mean(axis=0)).max())
    weights = rng.uniform(0.5, 3.0, count).tolist() if weighted else None
    return Agents.of(model, offset, weights)


def drawn(rng: np.random.Generator, truths: np.ndarray, rows: int) -> LeastSquares:
    """So many examples of agents with these truths (agents, 2), with noise of variance 1."""
    inputs = [rng.standard_normal((rows, 2)) for _ in truths]
    targets = [x @ one + rng.standard_normal(rows) for x, one in zip(inputs, truths, strict=True)]
    return LeastSquares(inputs, targets)


def start_of(agents: Agents) -> np.ndarray:
    """A predictor with positive utilities: that of the smallest sum of losses."""
    model = agents.model
    assert isinstance(model, LeastSquares)
    dimension = model.inputs[0].shape[1]
    return maximise(agents, np.ones(agents.count), np.zeros(dimension)).theta


def assert_evidence(agents: Agents, theta: np.ndarray, answer) -> None:
    """The coalition gains with its predictor, as Definition 6 asks, and nobody's is negative."""
    members = list(answer.blocked_by)
    share = agents.weights[members].sum() / agents.total_weight
    alternative = agents.utilities(answer.predictor)
    gains = share * alternative[members] - agents.utilities(theta)[members]
    assert gains.min() >= -1e-12 and gains.max() > 0
    assert alternative.min() >= -1e-9


def test_the_optimum_of_the_example():
    """theta* = 0.3680600648 and its utilities and welfare, and no coalition blocks there."""
    found = nash_optimum(POINTS, at(0.3))
    utilities = POINTS.utilities(found)

    assert found == pytest.approx(OPTIMUM, abs=1e-9)
    assert utilities == pytest.approx([1.86453179, 1.86453179, 1.60065192], abs=1e-8)
    assert np.log(utilities).sum() == pytest.approx(1.71643094, abs=1e-8)
    best = maximise(POINTS, 1 / utilities, at(0.3))
    assert ratio_sum(utilities, best.utilities) == pytest.approx(3.0, abs=1e-7)
    assert certificate(POINTS, found).stable
    assert every_coalition(POINTS, found).stable


def test_fedavg_on_the_example():
    """The mean 1/3: its sum of ratios to CoreFed is below 3, the other way above."""
    fedavg, corefed = POINTS.utilities(at(1 / 3)), POINTS.utilities(OPTIMUM)

    assert fedavg == pytest.approx([1.888889, 1.888889, 1.555556], abs=1e-6)
    assert ratio_sum(corefed, fedavg) == pytest.approx(2.99795303, abs=1e-8)
    assert ratio_sum(fedavg, corefed) == pytest.approx(3.0032006, abs=1e-7)
    assert corefed.prod() == pytest.approx(5.56463, abs=1e-5)
    assert fedavg.prod() == pytest.approx(5.55007, abs=1e-5)
    assert ratio_sum(corefed, POINTS.utilities(at(0.5))) == pytest.approx(2.97045, abs=1e-5)
    answer = certificate(POINTS, at(1 / 3))
    assert answer.stable is None and answer.margin < -0.001
    assert np.isnan(answer.blocking_margin) and "no coalition that was tried" in answer.reason


def test_the_majority_blocks_the_minoritys_predictor():
    """theta = 1 gives agents 1 and 2 utility 1; theta' = 0 gives them 2, and (2/3) 2 > 1."""
    assert blocking(POINTS.utilities(at(1.0)), POINTS.utilities(at(0.0))).blocked_by == (0, 1)

    for answer in (every_coalition(POINTS, at(1.0)), certificate(POINTS, at(1.0))):
        assert answer.stable is False
        assert answer.blocked_by == (0, 1)
        assert_evidence(POINTS, at(1.0), answer)
    both = certificate(POINTS, at(1.0))
    # with theta' = 0 two thirds gain twice as much; theta' = 0.2 has the largest sum of ratios, 4.6
    assert both.blocking_margin == pytest.approx(-1 / 3, abs=1e-6)
    assert both.margin == pytest.approx(1 - 4.6 / 3, abs=1e-6)
    assert every_coalition(POINTS, at(1.0)).margin == pytest.approx(-1 / 3, abs=1e-6)
    assert every_coalition(POINTS, at(1.0)).predictor == pytest.approx([0.0], abs=1e-6)


def test_that_only_everybody_together_gains_is_said():
    """b = (0, 1), M = 4, theta = 1.02: nobody alone, but both would rather have 1."""
    agents = Agents.of(points(0.0, 1.0), 4.0)

    answer = certificate(agents, at(1.02))

    assert answer.blocked_by == (0, 1) and "no smaller coalition" in answer.reason
    assert_evidence(agents, at(1.02), answer)
    assert answer.margin < answer.blocking_margin < 0


def test_symmetric_agents_meet_in_the_middle():
    """b = (0, 1), M = 4: theta* = 0.5; scaling one agent's M and loss leaves it there."""
    model = points(0.0, 1.0)
    scaled = LeastSquares(model.inputs, model.targets, scales=[1.0, 9.0])

    for agents in (Agents.of(model, 4.0), Agents.of(scaled, [4.0, 36.0])):
        assert nash_optimum(agents, at(0.3)) == pytest.approx([0.5], abs=1e-8)
        assert every_coalition(agents, at(0.5)).stable


def test_a_noisy_agent_pulls_the_mean_out_of_the_optimum():
    """Fifty times the loss: FedAvg's optimum fails the certificate, the Nash optimum does not."""
    agents = Agents.of(LeastSquares(*_noisy_targets()), 400.0)
    fedavg = maximise(agents, np.ones(3), np.zeros(2)).theta

    answer = certificate(agents, fedavg)

    assert answer.stable is not True and answer.margin < -1e-4
    assert certificate(agents, nash_optimum(agents, fedavg)).stable


def _noisy_targets():
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal((40, 2)) for _ in range(3)]
    truth = np.array([1.0, -1.0])
    targets = [x @ truth + 0.1 * rng.standard_normal(40) for x in inputs]
    targets[2] = 15.0 * rng.standard_normal(40)
    return inputs, targets


instances = st.tuples(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 3), st.booleans())


def check_the_optimum(instance):
    """No coalition blocks there."""
    seed, count, dimension, weighted = instance
    agents = random_agents(seed, count, dimension, weighted=weighted)

    optimum = nash_optimum(agents, start_of(agents))

    assert certificate(agents, optimum).stable
    assert every_coalition(agents, optimum).stable
    assert proportional(agents, optimum).stable
    assert pareto_optimal(agents, optimum).stable


@settings(max_examples=10)
@given(instances)
def test_no_coalition_blocks_at_the_optimum(instance):
    """Random convex instances, weighted or not: certificate, every coalition, proportionality."""
    check_the_optimum(instance)


def check_a_planted_predictor(instance, share):
    """It is caught with evidence."""
    seed, count, dimension, weighted = instance
    agents = random_agents(seed, count, dimension, weighted=weighted)
    optimum = nash_optimum(agents, start_of(agents))
    planted = _planted(agents, optimum, share, np.random.default_rng(seed))

    answer = every_coalition(agents, planted)

    assert answer.stable is False
    assert answer.margin < -TOLERANCE
    assert_evidence(agents, planted, answer)
    assert blocking(agents.utilities(planted), agents.utilities(answer.predictor)).stable is False
    assert not proportional(agents, planted).stable
    assert certificate(agents, planted).stable is not True


@settings(max_examples=10)
@given(instances, st.floats(0.3, 0.9))
def test_a_planted_predictor_is_caught_with_evidence(instance, share):
    """Moved away until one agent has less than its share w_i / W of the optimum: it blocks."""
    check_a_planted_predictor(instance, share)


@pytest.mark.slow
@settings(max_examples=60)
@given(instances, st.floats(0.3, 0.9))
def test_more_instances(instance, share):
    """The optimum and a planted predictor of more of them."""
    check_the_optimum(instance)
    check_a_planted_predictor(instance, share)


def _planted(agents: Agents, optimum: np.ndarray, share: float, rng) -> np.ndarray:
    """As far in a random direction as some agent keeps `share` of w_i / W of its utility."""
    direction = rng.standard_normal(optimum.size)
    fair = agents.weights / agents.total_weight * agents.utilities(optimum)

    def worst(distance: float) -> float:
        return float((agents.utilities(optimum + distance * direction) / fair).min())

    near, far = 0.0, 1.0
    while worst(far) > share:
        far *= 2
    for _ in range(60):
        middle = (near + far) / 2
        near, far = (middle, far) if worst(middle) > share else (near, middle)
    return optimum + near * direction


def test_bounds_enclose_what_a_grid_finds():
    """F_S of every coalition of a two-dimensional instance, against a fine grid of predictors."""
    agents = random_agents(3, 3, 2, weighted=True)
    theta = start_of(agents) + 0.2
    current = agents.utilities(theta)
    pairs = np.meshgrid(np.linspace(0.0, 2.5, 501), np.linspace(-2.0, 1.0, 601))
    thetas = np.stack([axis.ravel() for axis in pairs])
    columns = zip(agents.model.inputs, agents.model.targets, strict=True)
    losses = [((x @ thetas - y[:, None]) ** 2).mean(axis=0) for x, y in columns]
    grid = agents.offsets - np.stack(losses, axis=1)
    feasible = grid[(grid >= 0).all(axis=1)]

    for coalition in ([0], [1, 2], [0, 2], [0, 1, 2]):
        gain = largest_gain(agents, theta, coalition)
        share = agents.weights[coalition].sum() / agents.total_weight
        found = (share * feasible[:, coalition] / current[coalition]).min(axis=1).max()
        assert found <= gain.upper + 1e-9
        assert gain.lower == pytest.approx(found, abs=0.01)
        assert gain.upper - gain.lower <= TOLERANCE


def largest_of_all(agents: Agents, theta: np.ndarray, *, whole: bool) -> float:
    """max_S F_S by scipy: for every coalition, max t with scaled gains >= t and utilities >= 0."""
    current, best = agents.utilities(theta), -np.inf
    everybody = range(agents.count)
    for size in range(1, agents.count + whole):
        for members in map(list, combinations(everybody, size)):
            scale = np.zeros(agents.count)
            scale[members] = agents.weights[members].sum() / agents.total_weight / current[members]

            def slack(x, scale=scale):
                return np.where(scale > 0, scale * agents.utilities(x[:-1]) - x[-1], 0.0)

            found = minimize(
                lambda x: -x[-1],
                np.append(theta, (scale * current)[members].min()),
                method="SLSQP",
                constraints=[
                    {"type": "ineq", "fun": slack},
                    {"type": "ineq", "fun": lambda x: agents.utilities(x[:-1])},
                ],
                options={"ftol": 1e-10},
            )
            best = max(best, -float(found.fun))
    return best


@pytest.mark.parametrize(
    ("seed", "count", "moved"),
    [(0, 5, False), (1, 5, True), (2, 7, False), (3, 7, True), (4, 8, True)],
)
def test_scipy_finds_the_same_in_all_coalitions(seed, count, moved):
    """The largest gain over all coalitions but the whole at the optimum, or all when moved away."""
    agents = random_agents(seed, count, 2, weighted=moved)
    theta = nash_optimum(agents, start_of(agents))
    if moved:
        theta = _planted(agents, theta, 1.5, np.random.default_rng(seed))

    margin = every_coalition(agents, theta).margin

    assert margin == pytest.approx(1 - largest_of_all(agents, theta, whole=moved), abs=1e-5)


def test_agents_outside_the_coalition_keep_a_utility_that_is_not_negative():
    """b = (0, 3), M = 4: alone, agent 1 may go to theta' = 1 only, where agent 2 has nothing."""
    agents = Agents.of(points(0.0, 3.0), 4.0)

    gain = largest_gain(agents, at(1.5), [0])

    assert gain.predictor == pytest.approx([1.0], abs=1e-6)
    assert gain.lower == pytest.approx(0.5 * 3.0 / 1.75, abs=1e-6)


def test_models_of_ones_own_are_judged_by_their_utilities():
    """Served utilities far below what all could share: everybody blocks; above it, nobody."""
    poor, rich = np.array([0.5, 0.5, 0.5]), np.array([1.99, 1.99, 1.99])

    assert every_coalition(POINTS, OPTIMUM, current=poor).stable is False
    assert every_coalition(POINTS, OPTIMUM, current=rich).stable


def test_smaller_coalitions_that_block_beside_everybody_are_told():
    """b = (0, 0.1, 0.2), M = 4, theta = 1.9: all together gain most, but any two gain, too."""
    agents = Agents.of(points(0.0, 0.1, 0.2), 4.0)

    answer = every_coalition(agents, at(1.9))

    assert answer.blocked_by == (0, 1, 2)
    pairs = [largest_gain(agents, at(1.9), one).lower for one in ([0, 1], [0, 2], [1, 2])]
    assert answer.smaller_margin == pytest.approx(1 - max(pairs), abs=1e-6)
    assert answer.margin < answer.smaller_margin < -2


def test_one_agent_alone_has_its_optimum_or_blocks():
    """There is no coalition but the whole, which gains nothing at the optimum."""
    agent = Agents.of(points(1.0), 2.0)

    there, elsewhere = every_coalition(agent, at(1.0)), every_coalition(agent, at(0.0))

    assert there.stable and there.margin == pytest.approx(0.0, abs=TOLERANCE)
    assert elsewhere.stable is False and elsewhere.blocked_by == (0,)
    assert elsewhere.margin == pytest.approx(-1.0, abs=TOLERANCE)


@pytest.mark.parametrize(("targets", "theta"), [((0.0, 0.0, 1.0), 5.0), ((9.0, 10.0, 11.0), 20.0)])
def test_a_common_predictor_that_serves_some_badly_is_no_start(targets, theta):
    """Another one is found, zeros or not; where the common one will do, it is taken."""
    agents = Agents.of(points(*targets), 4.0)
    served = np.array([3.99, 3.99, 3.99])

    start = feasible(agents, at(theta))

    assert (agents.utilities(at(theta)) < 0).any() and (agents.utilities(start) >= 0).all()
    assert feasible(agents, start) is start
    answer = every_coalition(agents, start, current=served)
    again = every_coalition(agents, at(sum(targets) / 3), current=served)
    assert answer.stable and answer.margin == pytest.approx(again.margin, abs=1e-6)


def test_agents_too_far_apart_have_no_common_predictor():
    """b = (0, 10), M = 4: within 2 of both there is nothing. Training that diverged is no start."""
    agents = Agents.of(points(0.0, 10.0), 4.0)

    assert feasible(agents, at(20.0)) is None
    assert feasible(Agents.of(points(9.0, 11.0), 4.0), at(np.inf)) is not None


def test_too_many_agents_are_sent_to_the_certificate():
    """2^11 coalitions are not searched; one program answers for eleven agents."""
    agents = Agents.of(points(*np.linspace(0, 1, 11)), 2.0)

    with pytest.raises(ValueError, match="found 11, accepted: at most 10"):
        every_coalition(agents, at(0.5))
    assert certificate(agents, nash_optimum(agents, at(0.4))).stable
    lonely = certificate(Agents.of(points(*[0.0] * 10, 1.9), 4.0), at(1.9))
    assert lonely.stable is False and 10 not in lonely.blocked_by


def test_a_named_alternative_is_tried_when_the_certificate_fails():
    """A coalition that only a given predictor reveals is found with it."""
    agents = Agents.of(points(0.0, 0.0, 1.0), 2.0)

    answer = certificate(agents, at(1.0), alternatives={"that of agent 0": at(0.0)})

    assert answer.stable is False


def test_the_interval_holds_the_margin_on_new_examples():
    """Of a model that was trained on the samples, where its own margin is always 0."""
    rng, held = np.random.default_rng(3), []
    for _ in range(30):
        truths = [1.0, 1.0] + 0.5 * rng.standard_normal((3, 2))
        few, many = (drawn(rng, truths, rows) for rows in (30, 3000))
        agents, all_ = Agents.of(few, 12.0), Agents.of(many, 12.0)
        theta = nash_optimum(agents, np.ones(2))

        answer = certificate(agents, theta, Bootstrap(rng, draws=60))

        assert answer.stable and answer.margin == pytest.approx(0.0, abs=1e-6)
        assert answer.interval[1] < 0  # on other examples another predictor is better
        held.append(answer.interval[0] <= certificate(all_, theta).margin <= answer.interval[1])
    assert sum(held) >= 23  # 27 expected; fewer than 23 in 2.6 % of such samples


def test_intervals_draw_the_samples():
    """Far from the optimum the margin lies inside; sixteen times the examples narrow it to a
    quarter.
    """
    widths = []
    for rows in (50, 800):
        rng = np.random.default_rng(1)
        agents = Agents.of(drawn(rng, np.array([[1.0, i] for i in range(3)]), rows), 12.0)
        bootstrap = Bootstrap(np.random.default_rng(2), draws=400)

        answer = certificate(agents, np.array([1.0, 0.2]), bootstrap)

        low, high = answer.interval
        assert low < answer.margin < high
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(4.0, rel=0.35)


@pytest.mark.parametrize("question", [every_coalition, proportional])
def test_every_question_gives_an_interval(question):
    """The margin's interval over bootstrap draws contains it, or lies at one end of it."""
    agents = random_agents(11, 3, 2, weighted=False)

    answer = question(agents, start_of(agents), Bootstrap(np.random.default_rng(0), draws=200))

    assert answer.interval[0] <= answer.margin <= answer.interval[1] + 1e-9
