"""Rates by kind of work of two accelerators, from training times that others published.

`python analysis/accelerator_rates.py [--write]` fits the rates of convolutions, and of depthwise
ones, in `devices/jetson_nano.yaml` and `devices/cloud_v100.yaml` to the rows of
`analysis/published/training_times.csv` (three of two models, five of four) and prints what the
profiles predict; --write puts the table into docs/hardware.md. Next to nothing in these models is
of another kind: the other kinds stay at `flops_per_s` times `efficiency`. Of the other
accelerators one model was published, or none.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from kinds_of_work import fitted, markdown, profile_of, write_table

from simfl.common.model_work import FORWARD_KINDS
from validated.families import PUBLISHED, TERMS, Table, by_profile, one_rate, trained_models

TOLD = ("convolution", "depthwise")
DEVICES = ("jetson_nano", "cloud_v100")
SECTION = "accelerators"


def rates(table: Table) -> dict[str, float]:
    """FLOP/s of the kinds in `TOLD`: the least absolute relative error over a device's rows."""
    names = [term.name for term in TERMS]
    processor = profile_of(table.device[0]).processor
    others = [names.index(kind) for kind in FORWARD_KINDS if kind not in TOLD]
    others_s = table.amounts[:, others].sum(axis=1) / (processor.flops_per_s * processor.efficiency)
    amounts = table.amounts[:, [names.index(kind) for kind in TOLD]]
    found = fitted(amounts, table.seconds - others_s, np.ones(len(table)))
    return dict(zip(TOLD, (1.0 / found).tolist(), strict=True))


def accelerators() -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """What is fitted to each device, and how its shipped profile does beside one rate."""
    rows = trained_models(PUBLISHED / "training_times.csv")
    rows = rows.only(lambda device, _: device in DEVICES)
    found = {
        device: rates(rows.only(lambda of, _, device=device: of == device)) for device in DEVICES
    }
    table = pd.DataFrame({"accelerator": rows.device, "model": rows.subject})
    table["measured"] = [f"{seconds:.4g} s" for seconds in rows.seconds]
    for name, ratios in (("by one rate", one_rate(rows)), ("by kinds", by_profile(rows))):
        table[name] = [
            f"{ratio * seconds:.4g} s ({ratio:.2f})"
            for ratio, seconds in zip(ratios["ratio"], rows.seconds, strict=True)
        ]
    return found, table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/hardware.md")
    asked = parser.parse_args()
    of_devices, shown = accelerators()
    for device, its in of_devices.items():
        print(device, {kind: float(f"{rate:.4g}") for kind, rate in its.items()})
    print(markdown(shown))
    if asked.write:
        write_table(SECTION, shown)
