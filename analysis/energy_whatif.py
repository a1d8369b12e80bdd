"""What if the radio becomes 5G, clocks are capped at 1 GHz, half of the phones are gone at noon?

`python analysis/energy_whatif.py [SCENARIO] [--link NAME] [--set KEY=VALUE]... [--out FOLDER]` runs
the scenario (the shipped `phones`) as it is, with each change and with all of them, prints what
becomes of round time, joules and accuracy, and saves a figure. Random draws are addressed by what
they are for, so that runs differ by the change alone; and runs share their training results, so
that a change of radio or clock trains nothing. "Noon" is the middle third of the unchanged run.
"""

# %%
from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import simfl
from simfl.assembly.simulation import Options
from simfl.pictures.colours import STATE_COLOURS
from simfl.pictures.style import legend_above
from simfl.provenance.results import FolderStore
from simfl.scenario.shipped import shipped_scenarios

PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("scenario", nargs="?", default="phones", help="a YAML file or a shipped name")
PARSER.add_argument("--link", default="nr_sub6_lowband", help="the link that phones change to")
PARSER.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
PARSER.add_argument("--out", type=Path, default=Path("runs/energy_whatif"))
PARSER.add_argument("--target", type=float, default=0.9, help="accuracy to reach")
arguments = PARSER.parse_args()
path = shipped_scenarios().get(arguments.scenario, Path(arguments.scenario))
base = simfl.Scenario.from_yaml(path, arguments.overrides)
options = Options(store=FolderStore(arguments.out / "results"))


def run(name: str, *changes: str) -> simfl.LoadedRun:
    """The scenario with changes, in a folder of its own."""
    folder = arguments.out / name.replace(" ", "_").replace(",", "")
    return simfl.run(base.with_overrides(changes), folder, options, overwrite=True)


# %% [markdown]
# ## The unchanged run, and what is changed
# A cap on the clock is a cap on what a decision asks for: a processor whose lowest level lies above
# it (the Snapdragon 660's performance cores, 1.11 GHz) computes at that level.

# %%
unchanged = run("as it is")
horizon_s = unchanged.manifest["horizon_s"]
groups = base.as_mapping()["population"].get("groups", [])
radio = [f"population.groups.{place}.link={arguments.link}" for place in range(len(groups))]
clocks = ["decisions.allocation={name: capped, frequency_hz: 1.0e9}"]
noon = [
    "population.availability={name: absence, share: 0.5,"
    f" from_s: {horizon_s / 3}, to_s: {2 * horizon_s / 3}}}"
]
runs = {
    "as it is": unchanged,
    "5G": run("5G", *radio),
    "1 GHz": run("1 GHz", *clocks),
    "half gone at noon": run("half gone at noon", *noon),
    "all three": run("all three", *radio, *clocks, *noon),
}

# %% [markdown]
# ## Round time, joules, accuracy
# A run that never has the target's accuracy would have needed more than it had spent at its end.
# Joules are the phones' own; a radio that stays awake for a while after a download spends them
# while the phone computes, and there they are counted; after an upload they are its tail's. At noon
# fewer phones train, which saves joules and costs accuracy; a round then lasts as long as the
# slowest of those that are left.


# %%
def until_target(one: simfl.LoadedRun) -> dict[str, str]:
    """What the target took, or more than what the run had spent at its end."""
    spent = {
        f"s to {arguments.target:g}": (one.time_to, one.manifest["horizon_s"]),
        f"J to {arguments.target:g}": (
            partial(one.spent_to, "client_energy_j"),
            one.manifest["client_energy_j"],
        ),
    }
    found = {column: (to(accuracy=arguments.target), end) for column, (to, end) in spent.items()}
    return {
        column: f"> {end:.4g}" if math.isnan(value) else f"{value:.4g}"
        for column, (value, end) in found.items()
    }


STATES = ["download", "compute", "upload", "tail", "idle"]
rows, shares = [], {}
for name, one in runs.items():
    versions = one.rounds["time_s"]
    joules = one.clients[[f"{state}_j" for state in STATES]].sum()
    shares[name] = joules.set_axis(STATES)
    rows.append(
        {
            "run": name,
            "round_s": float(versions.iloc[-1] / len(versions)),
            "client_rounds": int(one.clients["participations"].sum()),
            "phones_j": float(joules.sum()),
            **{f"{state}_j": float(joules[f"{state}_j"]) for state in STATES},
            "accuracy": float(one.rounds["accuracy"].iloc[-1]),
            **until_target(one),
            "trained": one.manifest["counts"]["jobs_trained"],
        }
    )
summary = pd.DataFrame(rows).set_index("run")
by_state = pd.DataFrame(shares).T
print(summary.round(4).to_string())
columns = ["round_s", "phones_j", "compute_j", "upload_j"]
change = summary[columns].drop(index="as it is").div(summary.loc["as it is", columns]) - 1
print("\nchange against the unchanged run, percent:")
print((100 * change.astype(float)).round(1).to_string())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
start = pd.Series(0.0, index=by_state.index)
for state in STATES:
    left.barh(by_state.index, by_state[state], left=start, color=STATE_COLOURS[state], label=state)
    start += by_state[state]
left.set_xlabel("energy of all phones (J)")
left.invert_yaxis()
for name, one in runs.items():
    right.plot(one.rounds["time_s"], one.rounds["accuracy"], label=name)
right.set_xlabel("simulated time (s)")
right.set_ylabel("accuracy")
right.grid(alpha=0.3)
legend_above(left, "phones by state")
legend_above(right, "accuracy over time")
figure.savefig(arguments.out / "energy_whatif.png", dpi=110)
print(f"\nFigure: {arguments.out / 'energy_whatif.png'}")
