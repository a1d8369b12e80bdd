"""A first look at a run: who waits for whom, and where the joules go.

`python analysis/first_look.py RUN_FOLDER` prints tables and saves two figures in the run folder. In
an editor that knows percent cells, or as a notebook, it looks at runs/quickstart.
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import MaxNLocator

import simfl
from simfl.pictures.colours import COLOURS, STATE_COLOURS
from simfl.pictures.style import legend_above

MOST_BARS, MOST_ROUNDS = 40, 150  # in a figure; the tables in memory hold all

folder = Path(sys.argv[1]) if len(sys.argv) == 2 else Path("runs/quickstart")
run = simfl.load_run(folder)
events, clients = run.events, run.clients
if events.empty:
    sys.exit(f"{folder}: the run kept no events; run it with log.level: full")
horizon_s = run.manifest["horizon_s"]
print(f"{run.manifest['name']}: {run.manifest['reason']}, {horizon_s:.4g} s, {len(events)} events")

# %% [markdown]
# ## Who waits for whom
# A client round is a client's download, training and upload. Those of one edge round (of one round,
# where a flat server has no edge) start together and have the same server version; the round ends
# with the last upload, and everybody else waits for that client, the straggler. Rounds that the
# end of the run cut short are left out, and so are queries, by which a selection asks clients for
# their loss before a round.

# %%
stages = events[events["client"].notna() & events["kind"].isin(["download", "compute", "upload"])]
stages = stages[~stages["detail"].str.contains('"query"', na=False)]
stages = stages.assign(client=stages["client"].astype(int), edge=stages["edge"].fillna(-1))
in_round = ["edge", "version"]
is_cut = stages["cut_by"] == "end"
whole = ~is_cut.groupby([stages[key] for key in in_round]).transform("any")
client_rounds = (
    stages[whole]
    .groupby([*in_round, "client"])
    .agg(start_s=("start_s", "min"), end_s=("time_s", "max"))
    .reset_index()
    .merge(clients[["client", "device", "link"]], on="client")
)
client_rounds["duration_s"] = client_rounds["end_s"] - client_rounds["start_s"]
client_rounds["wait_s"] = (
    client_rounds.groupby(in_round)["end_s"].transform("max") - client_rounds["end_s"]
)

rounds = client_rounds.sort_values("end_s").groupby(in_round).tail(1)
rounds = rounds.drop(columns="wait_s").rename(columns={"client": "straggler"})
waits = client_rounds.groupby(in_round)["wait_s"].agg(mean_wait_s="mean", longest_wait_s="max")
rounds = rounds.merge(waits.reset_index(), on=in_round)
print("\nRounds, by the wait that they cost:")
print(rounds.sort_values("mean_wait_s", ascending=False).head(8).to_string(index=False))

# %% [markdown]
# What a client does not spend on rounds it waits: for the slower clients of its rounds, and
# otherwise for its server (to aggregate, to be dispatched, or to select it).

# %%
waiting = clients[["client", "device", "edge", "participations"]].copy()
for state in ("download", "compute", "upload"):
    waiting[state] = clients[f"{state}_s"] / horizon_s
by_client = (
    client_rounds.groupby("client")["wait_s"].sum().reindex(clients["client"], fill_value=0.0)
)
waiting["for slower clients"] = by_client.to_numpy() / horizon_s
waited_s = clients["idle_s"] + clients["tail_s"]
waiting["for the server"] = waited_s / horizon_s - waiting["for slower clients"]
waiting["straggler"] = (
    rounds["straggler"].value_counts().reindex(clients["client"], fill_value=0).to_numpy()
)
print("\nShares of each client's time, and rounds in which it was the straggler:")
print(waiting.round(3).head(MOST_BARS).to_string(index=False))
print("\nRounds that a device held up, per client that has it:")
print(waiting.groupby("device")["straggler"].mean().round(2).to_string())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained")
shown = waiting.head(MOST_BARS)
base = pd.Series(0.0, index=shown.index)
shades = {
    **{state: STATE_COLOURS[state] for state in ("download", "compute", "upload")},
    "for slower clients": COLOURS[5],
    "for the server": "#D9D9D9",
}
for part, colour in shades.items():
    left.barh(shown["client"], shown[part], left=base, color=colour, label=part)
    base += shown[part]
left.yaxis.set_major_locator(MaxNLocator(integer=True))
left.set(xlabel="share of the run", ylabel="client", xlim=(0, 1), ylim=(len(shown) - 0.4, -0.6))
legend_above(left, "what clients do, and what they wait for")

last_rounds = rounds.tail(MOST_ROUNDS)
for index, (device, held_up) in enumerate(last_rounds.groupby("device")):
    colour = COLOURS[index % len(COLOURS)]
    right.vlines(
        held_up["end_s"],
        held_up["duration_s"] - held_up["mean_wait_s"],
        held_up["duration_s"],
        color=colour,
        alpha=0.5,
    )
    right.scatter(held_up["end_s"], held_up["duration_s"], color=colour, s=18, label=device)
right.set(xlabel="end of the round (simulated s)", ylim=(0, None))
right.set_ylabel("duration of the round (dot) and of its mean client round (foot), s")
right.grid(alpha=0.3)
legend_above(right, f"the last {len(last_rounds)} rounds, by their straggler's device")
figure.savefig(folder / "first_look_waiting.png", dpi=110)

# %% [markdown]
# ## Where the joules go
# Every row of the log carries the joules of its actor, idle power included, so sums over rows are
# energies: by state and device class for clients, by machine for everything.

# %%
by_actor = events.merge(clients[["client", "device_class"]], on="client", how="left")
tier = by_actor["actor"].str.replace(r"-\d+$", "", regex=True)
by_actor["machine"] = by_actor["device_class"].fillna(tier)
joules = by_actor.pivot_table(
    index="machine", columns="kind", values="energy_j", aggfunc="sum", fill_value=0.0
)
joules = joules.loc[joules.sum(axis=1).sort_values().index, joules.sum() > 0]
print("\nJoules by machine and state:")
print(joules.assign(total=joules.sum(axis=1)).round(3).iloc[::-1].to_string())

count = clients["device_class"].value_counts()
per_client = joules.loc[joules.index.isin(count.index), joules.columns.isin(list(STATE_COLOURS))]
per_client = per_client.div(count.reindex(per_client.index), axis=0)
print("\nJoules per client, by device class:")
print(per_client.round(3).iloc[::-1].to_string())

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
server_colours = {
    "edge_aggregate": COLOURS[3],
    "cloud_aggregate": COLOURS[5],
    "network": COLOURS[7],
}
for axes, table, label in (
    (left, per_client, "energy per client (J)"),
    (right, joules, "energy of all of them (J)"),
):
    base = pd.Series(0.0, index=table.index)
    for kind, colour in {**STATE_COLOURS, **server_colours}.items():
        if kind in table:
            axes.barh(table.index, table[kind], left=base, color=colour, label=kind)
            base += table[kind]
    axes.set_xlabel(label)
legend_above(left, "a client, by device class")
legend_above(right, "all machines")
figure.savefig(folder / "first_look_energy.png", dpi=110)
print(f"\nFigures: {folder / 'first_look_waiting.png'}, {folder / 'first_look_energy.png'}")
