"""The next settings of a search, as a pure function of its trials and the table of runs.

A search proposes trials in batches. The first batches are a Latin hypercube; each later one comes
from Optuna's tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011; with bounds:
Watanabe, Hutter, IJCAI 2023), applied to an in-memory Optuna study that is rebuilt from the table
with a seed of its own. So the proposals depend neither on the order in which runs end nor on
whether the search was interrupted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from simfl.streams import Streams
from simfl.study.design import draw, scaled
from simfl.study.goal_distance import shortfalls
from simfl.study.studyfile import Interval, Sample, Search

LEAST_SPREAD = 8
"""Trials, rounded up to whole batches, that are spread out before the sampler learns from results.
"""

MOST_ASKS = 8
"""How often the sampler is asked per trial of a batch; random settings replace its repetitions."""

Choice = tuple[float | int, ...]
"""A trial: for each key, in the search's order, its value or the index of its value in a list."""


class MissingOptuna(RuntimeError):
    """Optuna is not installed."""


def the_optuna() -> Any:
    """The Optuna module with its log output turned off; raises `MissingOptuna`."""
    try:
        import optuna
    except ImportError:
        raise MissingOptuna("a search needs Optuna: pip install 'simfl[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def ask(search: Search, seed: int, asked: Sequence[Choice], runs: pd.DataFrame) -> list[Choice]:
    """The next batch of trials, none of which was asked before.

    All `runs` of the trials `asked` must have ended. `point` in the table of runs is a trial's
    index in `asked`.
    """
    size = min(search.batch, search.trials - len(asked))
    new: list[Choice] = []
    for one in _proposed(search, seed, asked, runs):
        if len(new) == size:
            break
        if one not in asked and one not in new:
            new.append(one)
    return new


def _proposed(
    search: Search, seed: int, asked: Sequence[Choice], runs: pd.DataFrame
) -> Iterator[Choice]:
    """Proposed trials, without end; some may have been asked already."""
    batch = len(asked) // search.batch
    spread = search.batch * math.ceil(LEAST_SPREAD / search.batch)
    streams = Streams(seed)
    if len(asked) < spread:
        over = {key: _interval(one) for key, one in search.over.items()}
        drawn = draw(Sample(method="latin_hypercube", size=spread, seed=seed, over=over))
        yield from map(tuple, drawn[len(asked) : len(asked) + search.batch])
    else:
        number = int(streams.uniform("search.sampler", batch) * 2**32)
        yield from _sampled(search, number, asked, runs)
    keys = np.arange(len(search.over))
    for counter in itertools.count():
        units = streams.uniform(f"search.batch {batch}", keys, counter)
        yield tuple(
            scaled(float(unit), _interval(one))
            for unit, one in zip(units, search.over.values(), strict=True)
        )


def _sampled(
    search: Search, number: int, asked: Sequence[Choice], runs: pd.DataFrame
) -> Iterator[Choice]:
    optuna = the_optuna()
    sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=LEAST_SPREAD)
    space = distributions(search)
    study = optuna.create_study(
        sampler=sampler, directions=[f"{way}imize" for way in search.objectives.values()]
    )
    study.add_trials(told(search, asked, runs))
    for _ in range(MOST_ASKS * search.batch):
        params = study.ask(space).params
        yield tuple(params[key] for key in search.over)


def told(search: Search, asked: Sequence[Choice], runs: pd.DataFrame) -> list[Any]:
    """The trials for Optuna: means over the seeds, and how far each trial is from its bounds.

    A trial with an unknown objective counts as infeasible, so Optuna does not use its values.
    """
    optuna = the_optuna()
    space = distributions(search)
    short = shortfalls(runs, search).to_dict("records")
    means = runs.groupby("point")[list(search.objectives)].mean().fillna(0.0).to_numpy(dtype=float)
    return [
        optuna.trial.create_trial(
            params=dict(zip(search.over, one, strict=True)),
            distributions=space,
            values=values.tolist(),
            constraints=constraints,
        )
        for one, values, constraints in zip(asked, means, short, strict=True)
    ]


def distributions(search: Search) -> dict[str, Any]:
    """Optuna's distribution for each key; a list's values are represented by their indices."""
    known = the_optuna().distributions
    found: dict[str, Any] = {}
    for key, one in search.over.items():
        if isinstance(one, list):
            found[key] = known.CategoricalDistribution(range(len(one)))
        elif one.integer:
            low, high = math.ceil(one.low), math.floor(one.high)
            found[key] = known.IntDistribution(low, high, log=one.scale == "log")
        else:
            found[key] = known.FloatDistribution(one.low, one.high, log=one.scale == "log")
    return found


def _interval(one: Interval | list[Any]) -> Interval:
    if isinstance(one, Interval):
        return one
    return Interval(low=0, high=len(one) - 1, integer=True)
