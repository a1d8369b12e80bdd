"""Core stability of CoreFed's models: certificates over all predictors, and coalitions' models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from corefed_experiments import CORE, OFFSETS, PUBLISHED, SCENARIOS, experiment

from paper import Experiment, Study, Trial, print_figures
from paper.agents import DRAWS, Served, by_seed, serve
from paper.tables import COLUMNS
from simfl.measures.core.agents import Agents
from simfl.measures.core.blocking import against, blocking, least_margin_possible, ratio_sum
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.core.certificate import certificate
from simfl.measures.core.concave import maximise
from simfl.measures.core.radius import pseudo_core
from simfl.measures.core.search import every_coalition
from simfl.runs.execution import federation_of
from simfl.streams import Streams


def core(study: Study) -> pd.DataFrame:
    """Is the model in the core? Models that coalitions train alone; on convex models, all."""
    rows: list[tuple[str, str, int, str, float]] = []
    subsets = [one for size in (1, 2) for one in combinations(range(3), size)]
    planned = [
        one
        for data in study.data
        for one in (
            *(experiment(study, data, name, OFFSETS[data]) for name in CORE),
            *(_coalition(study, data, members) for members in subsets),
        )
    ]
    trials = study.run(planned)
    for data in study.data:
        own = [one for one in trials if one.data == data]
        rows += _certified(study, [one for one in own if one.name in CORE], OFFSETS[data])
        for _, seed, runs in by_seed(serve(own, study.options)):
            rows += [(data, name, seed, *row) for name, row in _withstood(runs, OFFSETS[data])]
    values = pd.DataFrame(rows, columns=COLUMNS)
    print_figures(values)
    return values


def _coalition(study: Study, data: str, members: tuple[int, ...]) -> Experiment:
    """FedAvg among `members` alone."""
    selection = {"name": "coalition.py:Coalition", "members": members}
    extra = [f"decisions.selection={json.dumps(selection)}"]
    plain = experiment(study, data, "fedavg", OFFSETS[data], extra)
    return Experiment(data, f"coalition {members}", plain.scenario, plain.overrides)


def _withstood(
    runs: Mapping[str, Served], offset: float
) -> Iterable[tuple[str, tuple[str, float]]]:
    """The margin of the exact test of all that coalitions trained, by the model in question."""
    alone = {n: one.utilities(offset) for n, one in runs.items() if n.startswith("coalition")}
    for name in CORE:
        if name in runs and alone:
            own = runs[name].utilities(offset)
            margin = against(own, alone).margin if (own > 0).all() else float("nan")
            yield name, ("coalitions_margin", margin)


def _certified(
    study: Study, trials: Sequence[Trial], offset: float
) -> list[tuple[str, str, int, str, float]]:
    """The certificate over all predictors, for models that are affine."""
    rows = []
    for one in trials:
        if one.run.scenario["model"]["name"] != "linear":
            continue
        model = federation_of(one.run.path, study.options).losses(exact=True)
        agents = Agents.of(model, offset)
        bootstrap = Bootstrap(Streams(one.seed).generator("bootstrap"), DRAWS)
        whole = certificate(agents, model.theta, bootstrap)
        low, high = whole.interval or (float("nan"), float("nan"))
        figures = {
            "certificate_margin": whole.margin,
            "certificate_low": low,
            "certificate_high": high,
            "coalition_margin": whole.blocking_margin,
            "blocked": float(0 < len(whole.blocked_by) < agents.count),
            "only_all_block": float(len(whole.blocked_by) == agents.count),
        }
        if whole.reason:
            print(f"{one.data}, {one.name}, seed {one.seed}: {whole.reason}", flush=True)
        rows += [(one.data, one.name, one.seed, *figure) for figure in figures.items()]
    return rows


Convex = tuple[float, tuple[float, ...] | None, tuple[str, ...]]
"""M, the agents' weights (None: 1 each), and what is changed in convex.yaml."""

LOGISTIC = (
    "data.task=classification",
    "data.outputs=2",
    "data.noise=1.0",
    "algorithm.offset=4.0",
    "algorithm.local.learning_rate=8.0",
)
CONVEX: Mapping[str, Convex] = {
    "regression": (100.0, None, ()),
    "regression, weights 3 1 1": (100.0, (3.0, 1.0, 1.0), ("algorithm.weights=[3.0, 1.0, 1.0]",)),
    "logistic": (4.0, None, LOGISTIC),
}
TIGHT: Convex = (
    80.0,
    None,
    (
        "population.clients=8",
        "data.owners=8",
        "data.features=20",
        "data.examples=480",
        "algorithm.offset=80.0",
        "algorithm.local.learning_rate=10.0",
    ),
)
"""Eight agents so unlike, with M so little above their losses, that seven of them could block.

With the M of `CONVEX` no part of the agents could (`least_margin_possible`).
"""

TIGHT_DATA = "made, tight"
TIGHT_NAME = "eight agents"
OWN_OPTIMUM = f"{TIGHT_NAME}, the first one's optimum"
"""The negative control: what is best for the first agent alone, which the others block."""

VANISHED = 1e-8
"""Of the gradient of the Nash welfare (2-norm), at what counts as its optimum."""

FACTORS = (1.1, 1.5, 2.0)
"""k of Theorem 3."""


def convex(study: Study) -> pd.DataFrame:
    """Theorem 2 at the optimum, Theorem 3's radii, the weighted core: where losses are convex.

    CoreFed's full-batch steps on made data until the gradient vanishes; where coalitions could
    block, beside them a model that they do block; on Adult the optimum that an optimiser finds from
    CoreFed's model, beside that model.
    """
    rows: list[tuple[str, str, int, str, float]] = []
    planned = [
        Experiment("made", name, SCENARIOS / "convex.yaml", extra)
        for name, (_, _, extra) in CONVEX.items()
    ]
    planned.append(Experiment(TIGHT_DATA, TIGHT_NAME, SCENARIOS / "convex.yaml", TIGHT[2]))
    planned += [experiment(study, d, "corefed", OFFSETS[d]) for d in study.data if d == "adult"]
    made = {("made", name): one for name, one in CONVEX.items()} | {(TIGHT_DATA, TIGHT_NAME): TIGHT}
    for one in study.run(planned):
        key = one.data, one.name
        offset, weights = made[key][:2] if key in made else (OFFSETS[one.data], None)
        agents, theta = _agents_of(study, one, offset, weights)
        asked = {one.name: theta}
        if one.data == TIGHT_DATA:
            alone = maximise(agents, np.eye(agents.count)[0], theta).theta
            if (agents.utilities(alone) > 0).all():
                asked[OWN_OPTIMUM] = alone
        elif one.data != "made":
            asked["optimum"] = nash_optimum(agents, theta)
        for name, predictor in asked.items():
            rows += [(one.data, name, one.seed, *row) for row in _at(agents, predictor, one.seed)]
    values = pd.DataFrame(rows, columns=COLUMNS)
    print_figures(values)
    print("gradient: 2-norm of the Nash welfare's; radius_k: d of Theorem 3\n")
    return values


def _agents_of(
    study: Study, trial: Trial, offset: float, weights: tuple[float, ...] | None = None
) -> tuple[Agents, np.ndarray]:
    """The agents of a run with a linear model, and its last model as a flat vector."""
    model = federation_of(trial.run.path, study.options).losses(exact=True)
    return Agents.of(model, offset, weights), model.theta


def _at(agents: Agents, theta: np.ndarray, seed: int) -> Iterable[tuple[str, float]]:
    """What is asked of a predictor: the gradient, certificates, coalitions, radii; M is one."""
    utilities = agents.utilities(theta)
    whole = certificate(agents, theta)
    coalitions = every_coalition(agents, theta)
    yield "welfare", float(agents.weights @ np.log(utilities))
    yield "gradient", gradient_norm(agents, theta)
    yield "certificate_margin", whole.margin
    yield "coalition_margin", whole.blocking_margin
    yield "coalitions_margin", coalitions.margin
    least = least_margin_possible(utilities, agents.offsets, agents.weights.tolist())
    yield "least_margin_possible", least
    yield "stable", np.nan if coalitions.stable is None else float(coalitions.stable)
    for k in FACTORS:
        rng = Streams(seed).generator("curvature")
        yield f"radius_{k:g}", pseudo_core(agents, theta, rng, k).margin


def gradient_norm(agents: Agents, theta: np.ndarray) -> float:
    """||sum_i w_i grad u_i / u_i||_2 (Eq. 3)."""
    utilities, slopes = agents.with_slopes(theta)
    return float(np.linalg.norm((agents.weights / utilities) @ slopes))


def nash_optimum(agents: Agents, theta: np.ndarray, rounds: int = 30) -> np.ndarray:
    """The maximiser of sum_i w_i log u_i: the theta that is best for its own pulls w_i / u_i."""
    for _ in range(rounds):
        if gradient_norm(agents, theta) < VANISHED:
            break
        theta = maximise(agents, agents.weights / agents.utilities(theta), theta).theta
    return theta


CLASSES = {"adult": 2, "mnist": 10, "cifar10": 10}


def adult_row(study: Study) -> pd.DataFrame:
    """The paper's own Table 1 against a model that gives every class the same probability.

    Its loss is ln C for every agent whatever its data (theta = 0 for Adult's logistic regression),
    its utility M - ln C, and so it is one of the predictors that Theorem 2 is about if that is not
    negative. No run is needed.
    """
    rows = []
    for (data, name), own in PUBLISHED.query("table == 'table1'").groupby(
        ["data", "name"], sort=False
    ):
        agents = own["figure"].str.startswith("agent_")
        printed = own.loc[agents, "value"].to_numpy(dtype=float)
        without = np.full(printed.size, OFFSETS[str(data)] - np.log(CLASSES[str(data)]))
        figures = {"even_utility": float(without[0])}
        if without[0] >= 0:
            answer = blocking(printed, without)
            figures |= {
                "even_ratio_sum": ratio_sum(printed, without),
                "even_margin": answer.margin,
                "even_blocks": float(not answer.stable),
            }
            if not answer.stable:
                who = ", ".join(map(str, answer.blocked_by))
                print(f"{data}, {name}: agents {who} block the paper's row with it")
        rows += [(str(data), f"{name}, paper", 0, *figure) for figure in figures.items()]
    values = pd.DataFrame(rows, columns=COLUMNS)
    print()
    print_figures(values)
    return values
