"""Energy and time until 80 % accuracy: five algorithms, caps on the clock, generations of radio.

`simfl study scenarios/studies/caps_and_radios.yaml` makes the runs, and
`python analysis/caps_and_radios.py [FOLDER]` (default runs/caps_and_radios) the tables and the
figure `caps_and_radios.png` in that folder. Notebooks and editors with percent cells open it too.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator

from simfl.pictures.colours import COLOURS
from simfl.study.comparisons import paired_differences
from simfl.study.figure_text import in_cell
from simfl.study.loaded import load_study
from simfl.study.means import point_means

ENERGY, TIME = "energy_to_accuracy_0.8_j", "time_to_accuracy_0.8_s"
DIFFERENCE = ["difference", "ci_low", "ci_high", "relative", "verdict"]
CAP, RADIO = "decisions.allocation", "population.groups.0.link"

folder = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs/caps_and_radios")
study = load_study(folder)
runs, factors = study.table, study.factors

# %% [markdown]
# ## What each setting costs
# Means over the seeds with 95 % intervals; where some runs missed the target, the median over all
# runs or what it lies above.

# %%
means = point_means(runs, factors, [ENERGY, TIME])
print(f"{runs[ENERGY].count()} of {len(runs)} runs reach 80 % accuracy")
for figure in (ENERGY, TIME):
    cells = means.assign(cell=[in_cell(one, figure) for one in means.to_dict("records")])
    wide = cells.pivot(index=["variant", CAP], columns=RADIO, values="cell")
    print(f"\n{figure}:\n{wide.to_string()}")

# %% [markdown]
# ## What of it the phones pay
# Edge servers and cloud draw power as long as the run lasts: what a slow clock saves a phone, they
# spend, and more. A run ends at its target, so that all of its joules count.
# Settings of which a run missed it are left out: what that one spent is not what it takes.

# %%
there = runs.groupby("point")[ENERGY].transform(lambda own: own.notna().all())
phones = runs.assign(phones_j=runs["client_energy_j"].where(there.astype(bool)))
wide = point_means(phones, factors, ["phones_j"]).pivot(
    index=["variant", CAP], columns=RADIO, values="phones_j"
)
print(f"\nenergy of the phones (J):\n{wide.round(2).to_string()}")
found = paired_differences(phones, "phones_j", CAP, "max", factors)
shown = found[[CAP, "seeds", "pairs", *DIFFERENCE]]
print(f"\nphones_j against max:\n{shown.round(4).to_string(index=False, na_rep='-')}")

# %% [markdown]
# ## What caps, radios and algorithms change, pair by pair

# %%
for factor, baseline in ((CAP, "max"), (RADIO, "wifi5_ac"), ("variant", "fedavg")):
    for figure in (ENERGY, TIME):
        found = paired_differences(runs, figure, factor, baseline, factors)
        order = ["reached", "baseline_reached", "first", "behind"]
        shown = found[[factor, "seeds", "pairs", *order, *DIFFERENCE]].round(4)
        print(f"\n{figure} against {baseline}:\n{shown.to_string(index=False, na_rep='-')}")

# %% [markdown]
# ## Time and energy together
# One point per setting: colour is the algorithm, the sign its radio, the fill its cap. A setting of
# which some runs missed the target has no mean and no point.

# %%
figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
radios, caps = means[RADIO].unique(), list(means[CAP].unique())
shades = np.linspace(0.0, 1.0, len(caps))
for index, (variant, own) in enumerate(means.groupby("variant", sort=False)):
    for marker, radio in zip("o^sD", radios, strict=False):
        for row in own[own[RADIO] == radio].to_dict("records"):
            axes.scatter(
                row[TIME],
                row[ENERGY],
                marker=marker,
                s=70,
                edgecolors=COLOURS[index],
                facecolors=(COLOURS[index], shades[caps.index(row[CAP])]),
            )
    axes.scatter([], [], marker="s", color=COLOURS[index], label=str(variant))
for marker, radio in zip("o^sD", radios, strict=False):
    axes.scatter([], [], marker=marker, facecolors="none", edgecolors="black", label=str(radio))
for shade, cap in zip(shades, caps, strict=True):
    face = ("black", shade)
    axes.scatter([], [], marker="o", facecolors=[face], edgecolors="black", label=str(cap))
axes.set(
    xscale="log",
    yscale="log",
    xlabel="simulated time to 80 % accuracy (s)",
    ylabel="energy of all machines to 80 % accuracy (J)",
)
for axis in (axes.xaxis, axes.yaxis):
    axis.set_minor_locator(LogLocator(subs=(2.0, 3.0, 5.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("{x:g}")
axes.grid(alpha=0.3, which="both")
axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
figure.savefig(folder / "caps_and_radios.png", dpi=110)
print(f"\nfigure: {folder / 'caps_and_radios.png'}")
