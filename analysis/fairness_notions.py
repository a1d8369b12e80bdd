"""Every algorithm on one population by every notion of fairness: one table.

`simfl study scenarios/studies/fairness.yaml` makes the runs, and
`python analysis/fairness_notions.py [FOLDER]` (default runs/fairness) prints the table and saves
`fairness_notions.csv` and `fairness_notions.png` in that folder. A dash is a notion that is not
decided: FedSAC's model is no linear one, and an ensemble of FL Games no client's alone.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt

from simfl.pictures.colours import COLOURS
from simfl.pictures.study_overview import draw_setting_means
from simfl.study.comparisons import paired_differences
from simfl.study.loaded import load_study
from simfl.study.means import point_means

NOTIONS = {
    "accuracy": "test accuracy (share)",
    "core_stability.coalitions_margin": "core: margin of the worst coalition (1)",
    "collaborative_fairness.fairness": "collaborative: 100 corr(contribution, reward)",
    "equity.worst": "worst-served client (share)",
    "equity.jain_index": "equity: Jain's index of accuracies (1)",
    "participation.jain_index": "participation: Jain's index of client rounds (1)",
    "energy_j": "energy of all machines (J)",
}

folder = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs/fairness")
study = load_study(folder)
runs = study.completed
notions = {name: label for name, label in NOTIONS.items() if name in runs}

# %% [markdown]
# ## The table
# Means over the seeds. A core margin of 0 or more is core-stable: no coalition would gain by
# training alone. Rewards are what clients are served, contributions what they reach alone.

# %%
means = point_means(runs, ["variant"], list(notions)).set_index("variant")
table = means[list(notions)]
print(table.round(4).to_string(na_rep="-"))
table.to_csv(folder / "fairness_notions.csv")

# %% [markdown]
# ## Against federated averaging, pair by pair

# %%
for name in notions:
    found = paired_differences(runs, name, "variant", "fedavg", ["variant"])
    shown = found[["variant", "seeds", "pairs", "difference", "ci_low", "ci_high", "verdict"]]
    print(f"\n{name} against fedavg:\n{shown.round(4).to_string(index=False, na_rep='-')}")

# %%
columns = 4
rows = -(-len(notions) // columns)
figure, grid = plt.subplots(
    rows,
    columns,
    figsize=(11.6, 0.8 + 5.2 * rows),
    sharey=True,
    squeeze=False,
    layout="constrained",
)
panels = grid.ravel()
for axes in panels[len(notions) :]:
    axes.set_axis_off()
for axes, (name, label) in zip(panels, notions.items(), strict=False):
    draw_setting_means(axes, means, name, COLOURS[0])
    axes.set_title(label.replace(": ", ":\n").replace(" (", "\n("), fontsize=10)
    axes.grid(alpha=0.3)
    axes.locator_params(axis="x", nbins=4)
panels[0].set_yticks(range(len(means)), means.index)
panels[0].set_ylim(len(means) - 0.5, -0.5)
figure.savefig(folder / "fairness_notions.png", dpi=110)
print(f"\ntable and figure: {folder / 'fairness_notions.csv'}, {folder / 'fairness_notions.png'}")
