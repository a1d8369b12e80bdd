"""Predicted against measured training times: FLASH's three phones, four tasks and single layers.

`python analysis/flash_phones.py DATA_ROOT [--unit KiB/s|kbit/s] [--write]` reads the files of FLASH
(C. Yang et al., WWW 2021) in DATA_ROOT/device_traces, prints the error tables, and with --write
puts them into docs/hardware.md. DATA_ROOT is SIMFL_DATA unless given.

A phone's one free number, its sustained training rate, is calibrated on one task and tested on the
three others; nothing else is fitted. Predictions go through the simulator's own processor model.
"""

# %%
from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd

from simfl.system.cpu import Cpu
from simfl.system.processor import TRAINING_FLOPS_PER_FORWARD
from simfl.system.traces.flash import KBIT_BITS, KIB_BITS
from simfl.system.traces.flash_phones import USERS

PHONES = {"slow": "nexus6", "mid": "redmi_note8", "fast": "samsung_note10"}
CALIBRATED_ON = "femnist"
UNITS = {"KiB/s": KIB_BITS, "kbit/s": KBIT_BITS}
FEMNIST_BYTES = 4 * 6_603_710
DOCS = Path(__file__).parents[1] / "docs" / "hardware.md"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("root", type=Path, nargs="?", default=os.environ.get("SIMFL_DATA"))
parser.add_argument("--unit", choices=UNITS, default="KiB/s", help="of FLASH's network speeds")
parser.add_argument("--write", action="store_true", help="put the tables into docs/hardware.md")
arguments = parser.parse_args()
if arguments.root is None:
    parser.error("name the data root, or set SIMFL_DATA")
folder = Path(arguments.root) / "device_traces"

# %% [markdown]
# ## What a task computes
# Multiply-accumulates of a forward pass, from LEAF's and FLASH's model files: convolutions are
# (output pixels) x (kernel) x (channels in) x (channels out), an LSTM cell with n inputs and h
# units is 4 h (n + h) a step. The batch is 100 for shakespeare; the others are not stated, 10 is
# assumed.

# %%
CONV_FEMNIST = 28**2 * 25 * 32 + 14**2 * 25 * 32 * 64
CONV_CELEBA = 9 * 32 * (84**2 * 3 + (42**2 + 21**2 + 11**2) * 32)
FORWARD_MACS = {
    "femnist": CONV_FEMNIST + 3136 * 2048 + 2048 * 62,
    "celeba": CONV_CELEBA + 6 * 6 * 32 * 2,
    "reddit": 10 * (2 * 4 * 256 * (256 + 256) + 256 * 10_000),
    "shakespeare": 80 * 4 * 256 * ((8 + 256) + (256 + 256)) + 256 * 80,
}
BATCH = {"femnist": 10, "celeba": 10, "reddit": 10, "shakespeare": 100}


def phone(rate: float) -> Cpu:
    """A phone as the simulator models it, with its sustained training rate in FLOP/s."""
    return Cpu(
        cores=1,
        frequency_min_hz=1e9,
        frequency_max_hz=1e9,
        kappa=0.0,
        flops_per_s=rate,
        efficiency=1.0,
    )


def step_s(rate: float, examples: int, task: str) -> float:
    """Seconds of a training step of a task on `examples`, at a sustained rate in FLOP/s."""
    one = phone(rate)
    cycles = one.cycles(examples, forward_flops=2.0 * FORWARD_MACS[task])
    return float(one.compute(cycles, one.frequency_max_hz).duration_s)


# %% [markdown]
# ## Tasks
# A phone's rate is what makes the calibration task come out right; predicted over measured is then
# an error on the other tasks.

# %%
read = pd.read_csv(folder / "flash_batch_train_time.csv")
measured_s = read.pivot_table(index="task", columns="tier", values="mean_ms") / 1000
measured_s = measured_s.loc[[*FORWARD_MACS], [*PHONES]]
# At 1 FLOP/s the seconds are the operations, so that dividing by a time gives the rate.
operations = pd.Series({task: step_s(1.0, BATCH[task], task) for task in FORWARD_MACS})
rates = (1.0 / measured_s).mul(operations, axis=0)


def predictions_s(base: str) -> pd.DataFrame:
    """Seconds of a step of every task on every phone, calibrated on the task `base`."""
    columns = {
        tier: [step_s(rates.loc[base, tier], BATCH[task], task) for task in FORWARD_MACS]
        for tier in PHONES
    }
    return pd.DataFrame(columns, index=[*FORWARD_MACS])


predicted_s = predictions_s(CALIBRATED_ON)
tasks = pd.DataFrame(
    {
        "task": FORWARD_MACS.keys(),
        "batch": [BATCH[task] for task in FORWARD_MACS],
        "MMAC": [f"{macs / 1e6:.1f}" for macs in FORWARD_MACS.values()],
        **{
            f"{tier}: measured, predicted (ratio)": [
                f"{measured_s.loc[task, tier]:.3g} s, {predicted_s.loc[task, tier]:.3g} s"
                f" ({predicted_s.loc[task, tier] / measured_s.loc[task, tier]:.2f})"
                for task in FORWARD_MACS
            ]
            for tier in PHONES
        },
    }
)
errors = []
for base in FORWARD_MACS:
    others = (predictions_s(base) / measured_s).drop(index=base).to_numpy().ravel()
    factors = np.exp(np.abs(np.log(others)))
    errors.append(
        {
            "calibrated on": base,
            **{f"{tier}, GFLOP/s": f"{rates.loc[base, tier] / 1e9:.2f}" for tier in PHONES},
            "typical factor": f"{np.exp(np.log(factors).mean()):.2f}",
            "worst factor": f"{factors.max():.2f}",
            "within a factor of 2": f"{(factors < 2).sum()} of {factors.size}",
        }
    )
calibrations = pd.DataFrame(errors)

# %% [markdown]
# ## Layers
# 20,000 measured steps of one layer, of random sizes, per phone and layer. The first prediction
# uses the rate that the phone got from the FEMNIST task. The other two are fitted on every second
# row and tested on the rest: a rate alone, and a rate with a fixed time per step, which the
# simulator's processors do not have. An embedding's forward pass only copies rows; what takes time
# is the update of the table, counted here as two operations per entry.

# %%
with np.load(folder / "flash_layer_train_time.npz") as archive:
    layer_times = dict(archive)


def layer_flops(layer: str, sizes: np.ndarray) -> np.ndarray:
    """Operations of a layer's training step; columns inputs, outputs, batch, sequence length."""
    inputs, outputs, batch, length = sizes.astype(float).T
    if layer == "embedding":
        return 2.0 * inputs * outputs
    macs = 4.0 * outputs * (inputs + outputs) if layer == "lstm" else inputs * outputs
    return TRAINING_FLOPS_PER_FORWARD * 2.0 * macs * batch * length


def median_error(predicted: np.ndarray, actual: np.ndarray) -> str:
    """The median of |predicted / measured - 1|, in percent."""
    return f"{np.median(np.abs(predicted / actual - 1)):.0%}"


layer_rows = []
for tier, name in PHONES.items():
    for layer in ("embedding", "lstm", "output"):
        flops = layer_flops(layer, layer_times[f"{name}_{layer}_x"])
        seconds = layer_times[f"{name}_{layer}_seconds"].astype(float)
        fit, test = np.arange(seconds.size) % 2 == 0, np.arange(seconds.size) % 2 == 1
        carried = flops / rates.loc[CALIBRATED_ON, tier]
        own_rate = flops / np.median(flops[fit] / seconds[fit])
        # Least squares of relative errors, for steps differ a hundredfold.
        design = np.stack([np.ones(seconds.size), flops], axis=1)
        start_s, per_flop = np.linalg.lstsq(
            design[fit] / seconds[fit, None], np.ones(fit.sum()), rcond=None
        )[0]
        layer_rows.append(
            {
                "phone": tier,
                "layer": layer,
                "FEMNIST's rate": median_error(carried[test], seconds[test]),
                "own rate": median_error(own_rate[test], seconds[test]),
                "own rate and fixed time": median_error(
                    (start_s + per_flop * flops)[test], seconds[test]
                ),
                "fixed time": f"{start_s * 1000:.0f} ms",
                "rate": f"{1e-9 / per_flop:.1f} GFLOP/s",
            }
        )
layers = pd.DataFrame(layer_rows)

# %% [markdown]
# ## The unit of the network speeds
# FLASH's code reads its speeds as KiB/s, FLHetBench's as kbit/s. Read as KiB/s, the median phone is
# like the median of MobiPerf's phones (39 Mbit/s down); read as kbit/s it would be slower than nine
# in ten of them (8 Mbit/s).

# %%
speeds = pd.read_csv(folder / "flash_network_speed.csv")
unit_rows = []
for unit, bits in UNITS.items():
    down, up = (bits * speeds[f"{way}_mean"].median() for way in ("down", "up"))
    unit_rows.append(
        {
            "read as": unit,
            "median down": f"{down / 1e6:.1f} Mbit/s",
            "median up": f"{up / 1e6:.1f} Mbit/s",
            "LEAF's FEMNIST model up": f"{8 * FEMNIST_BYTES / up:.0f} s",
            "taken here": "yes" if unit == arguments.unit else "",
        }
    )
units = pd.DataFrame(unit_rows)

# %% [markdown]
# ## Which phones are of which tier
# A model code is looked up in AI Benchmark's ranking, and has the tier of the measured phone whose
# score is nearest to its own; where it is not ranked, FLASH draws by the users of each tier.

# %%
scores = pd.read_csv(folder / "ai_benchmark_scores.csv").set_index("benchmark_device")["ai_score"]
stands_for = read.drop_duplicates("tier").set_index("tier")["benchmark_device"].loc[[*PHONES]]
tier_scores = stands_for.map(scores)
codes = pd.read_csv(folder / "flash_model_to_benchmark.csv")["benchmark_device"].map(scores)
ranked = codes.dropna().to_numpy()
nearest = np.abs(ranked[:, None] - tier_scores.to_numpy()).argmin(axis=1)
phones = pd.DataFrame(
    {
        "tier": [*PHONES],
        "measured phone": [*PHONES.values()],
        "ranked as": stands_for.to_numpy(),
        "score": tier_scores.to_numpy(),
        "model codes": np.bincount(nearest, minlength=len(PHONES)),
        "users": [f"{USERS[tier]} ({USERS[tier] / sum(USERS.values()):.1%})" for tier in PHONES],
    }
)

# %%
SECTIONS = {
    "tasks": tasks,
    "calibrations": calibrations,
    "layers": layers,
    "units": units,
    "phones": phones,
}


def markdown(table: pd.DataFrame) -> str:
    """The table in Markdown."""
    rows = [table.columns, ["---"] * table.shape[1], *table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


for section, table in SECTIONS.items():
    print(f"\n{section}\n{markdown(table)}")
if arguments.write:
    text = DOCS.read_text(encoding="utf-8")
    for section, table in SECTIONS.items():
        begin, end = f"<!-- flash {section} -->\n", "\n<!-- end -->"
        before, found, rest = text.partition(begin)
        if not found:
            raise SystemExit(f"{DOCS}: found no {begin.strip()}")
        text = before + begin + markdown(table) + end + rest.partition(end)[2]
    DOCS.write_text(text, encoding="utf-8")
