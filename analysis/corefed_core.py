"""Core stability of CoreFed's models: certificates over all predictors, and coalitions' models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import pandas as pd
from corefed_experiments import CORE, OFFSETS, experiment

from paper import Experiment, Study, Trial, print_figures
from paper.agents import DRAWS, Served, by_seed, serve
from paper.tables import COLUMNS
from simfl.measures.core.agents import Agents
from simfl.measures.core.blocking import against
from simfl.measures.core.bootstrap import Bootstrap
from simfl.measures.core.certificate import certificate
from simfl.runs.execution import federation_of
from simfl.streams import Streams


def core(study: Study) -> pd.DataFrame:
    """Is the model in the core? Models that coalitions train alone; on convex models, all."""
    rows: list[tuple[str, str, int, str, float]] = []
    subsets = [one for size in (1, 2) for one in combinations(range(3), size)]
    for data in study.data:
        offset = OFFSETS[data]
        planned = [experiment(study, data, name, offset) for name in CORE]
        trials = study.run([*planned, *(_coalition(study, data, one) for one in subsets)])
        rows += _certified(study, [one for one in trials if one.name in CORE], offset)
        for _, seed, runs in by_seed(serve(trials, study.options)):
            rows += [(data, name, seed, *row) for name, row in _withstood(runs, offset)]
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
