"""FedCure's beta and concurrency: how latency varies, and how evenly edge servers take part.

`simfl study scenarios/studies/fedcure_beta.yaml` makes the runs, and
`python analysis/fedcure_beta.py [FOLDER]` (default runs/fedcure_beta) the tables and the figure
`fedcure_beta.png` in that folder. Notebooks and editors with percent cells open it too.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from simfl.pictures.colours import COLOURS
from simfl.study.comparisons import paired_differences
from simfl.study.effects import main_effects
from simfl.study.loaded import load_study
from simfl.study.means import point_means

BETA, CONCURRENCY = "decisions.scheduling.beta", "protocol.concurrency"
FIGURES = {
    "round_latency.latency_cov": "variation of a round's latency (1)",
    "edge_participation.share_min": "least share of rounds of an edge server (1)",
    "round_latency.latency_mean_s": "mean latency of a round (s)",
}

folder = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs/fedcure_beta")
study = load_study(folder)
runs, factors = study.completed, study.factors

# %% [markdown]
# ## Means over the seeds

# %%
means = point_means(runs, factors, [*FIGURES, "accuracy"])
for name in (*FIGURES, "accuracy"):
    wide = means.pivot(index=BETA, columns=CONCURRENCY, values=name)
    print(f"\n{name}, beta down, concurrency across:\n{wide.round(4).to_string()}")

# %% [markdown]
# ## Pair by pair, and what matters more

# %%
baseline = runs[BETA].iloc[0] if 0.5 not in runs[BETA].tolist() else 0.5
for name in FIGURES:
    found = paired_differences(runs, name, BETA, baseline, factors)
    columns = ["difference", "ci_low", "ci_high", "effect_size", "verdict"]
    shown = found[[BETA, "seeds", "pairs", *columns]].round(4)
    print(f"\n{name} against beta = {baseline:g}:\n{shown.to_string(index=False, na_rep='-')}")
    effects = main_effects(runs, name, factors)
    spread = effects.groupby("factor")["effect"].agg(lambda own: own.max() - own.min())
    print(f"range of main effects: {spread.round(4).to_dict()}")

# %%
figure, panels = plt.subplots(1, len(FIGURES), figsize=(11.6, 4.4), layout="constrained")
for axes, (name, label) in zip(panels, FIGURES.items(), strict=True):
    for index, (concurrency, own) in enumerate(means.groupby(CONCURRENCY)):
        axes.errorbar(
            own[BETA] + 0.06 * index,
            own[name],
            yerr=np.array([own[name] - own[f"{name}_low"], own[f"{name}_high"] - own[name]]),
            marker="os^D"[index % 4],
            color=COLOURS[index],
            capsize=3,
            label=f"concurrency {concurrency}",
        )
    axes.set(xlabel="beta (rounds)", ylabel=label)
    axes.grid(alpha=0.3)
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
figure.savefig(folder / "fedcure_beta.png", dpi=110)
print(f"\nfigure: {folder / 'fedcure_beta.png'}")
