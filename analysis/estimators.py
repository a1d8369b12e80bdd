"""Latency estimators compared: how far is each from what dispatches then take?

`python analysis/estimators.py [FOLDER]` runs scenarios/latency_estimators.yaml once with each
estimator into FOLDER (default runs/estimators; a few seconds), prints a table and saves a figure
there.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import simfl
from simfl.measures.estimation_error import estimation_errors
from simfl.pictures.colours import COLOURS
from simfl.pictures.style import legend_above

SCENARIO = Path(__file__).parents[1] / "scenarios" / "latency_estimators.yaml"
ESTIMATORS = ("nig", "ewma", "last", "mean", "oracle")
WINDOW = 20  # dispatches that a point of the right-hand figure is the mean of

folder = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs/estimators")
folder.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## One run per estimator
# Edge servers take turns and clients compute at their highest clock, so that the estimates decide
# nothing: all runs have the same dispatches with the same latencies, and only the estimates differ.

# %%
errors = {}
for estimator in ESTIMATORS:
    scenario = simfl.Scenario.from_yaml(SCENARIO, [f"decisions.estimator={estimator}"])
    run = simfl.run(scenario, folder / estimator, overwrite=True)
    errors[estimator] = estimation_errors(run)
realised = errors["oracle"][["time_s", "edge", "realised_s"]]

# %% [markdown]
# ## How far off they are
# The oracle knows the mean latency of every edge server. Its error is the noise of single
# dispatches, which nobody can foresee; what another estimator is worse by is what it has to learn.

# %%
quarter = len(realised) // 4
absolute = pd.DataFrame(
    {name: one["relative_error"].abs().to_numpy() for name, one in errors.items()}
)
table = pd.DataFrame(
    {
        "mean error, s": {name: one["error_s"].mean() for name, one in errors.items()},
        "|error| / latency": absolute.mean(),
        "first quarter": absolute.head(quarter).mean(),
        "last quarter": absolute.tail(quarter).mean(),
    }
)
print(f"{len(realised)} dispatches, latencies {realised['realised_s'].mean():.3g} s on average")
print(table.round(4).to_string())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
shown = realised[realised["edge"] == realised["edge"].iloc[0]]
left.scatter(shown["time_s"], shown["realised_s"], color="#999999", s=16, label="realised")
for colour, (name, one) in zip(COLOURS, errors.items(), strict=False):
    own = one[one["edge"] == shown["edge"].iloc[0]]
    left.plot(own["time_s"], own["estimated_s"], color=colour, label=name)
    rolling = one["relative_error"].abs().rolling(WINDOW, min_periods=1).mean()
    right.plot(one["time_s"], rolling, color=colour, label=name)
left.set(xlabel="dispatched at (simulated s)", ylabel="latency (s)", ylim=(0, None))
legend_above(left, f"edge server {shown['edge'].iloc[0]}: latencies and their estimates")
right.set(xlabel="dispatched at (simulated s)", ylabel="|error| / latency", ylim=(0, None))
right.grid(alpha=0.3)
legend_above(right, f"error, mean of the last {WINDOW} dispatches")
figure.savefig(folder / "estimators.png", dpi=110)
print(f"\nFigure: {folder / 'estimators.png'}")
