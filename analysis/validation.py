"""Predicted against measured: fills docs/validation.md, its picture and its recorded results.

    python analysis/validation.py DATA_ROOT    predict everything, write results, page and picture
    python analysis/validation.py --page       the page and picture from the recorded results
    python analysis/validation.py --check      write nothing; exit status 1 if the page is stale

DATA_ROOT, SIMFL_DATA unless given, has FLASH's files in device_traces (C. Yang et al., WWW 2021)
and raspberry_pi_training.csv in measured. Everything else is recorded in analysis/published/ and
tests/calibration/one_core.csv. A few minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from validated import families, power
from validated.page import PAGE, Results, filled, markdown, read_results, save_picture
from validated.page import families as table_of_families
from validated.scores import Held, rankings

PIS = "Raspberry Pis, a model"
OTHERS = {
    "Raspberry Pi 5, six other models": "raspberry_pi_5_others.csv",
    "Raspberry Pi 4, eighteen other models": "raspberry_pi_4_others.csv",
}
"""Families of models that no profile of the Pis was fitted to, and their files."""
JETSONS = "Jetsons, a model"
V100 = "V100, a model"
TASKS = "FLASH's phones, a task"
LAYERS = "FLASH's phones, steps of single layers"
KNOWN = "one core, ten models that the spread was set with"
MORE = "one core, twenty other models"
NEW = "one core, twelve more, timed in turns"
OTHER_MAKE = "one core of another make, the first ten models"
MORE_ROWS = families.PUBLISHED / "one_core.csv"
NEW_ROWS = families.PUBLISHED / "one_core_in_turns.csv"
OTHER_MAKE_ROWS = families.PUBLISHED / "one_core_epyc.csv"


def computed(root: Path) -> Results:
    """Every prediction, from the rows below a data root and the recorded ones."""
    pis = families.trained_models(root / "measured" / "raspberry_pi_training.csv")
    others = families.trained_models(families.PUBLISHED / "training_times.csv")
    more = {
        name: families.trained_models(families.PUBLISHED / file) for name, file in OTHERS.items()
    }
    boards = others.only(lambda device, _: device.startswith("jetson"))
    gpus = others.only(lambda device, _: device.startswith("cloud"))
    folder = root / "device_traces"
    tasks, bases = families.phone_tasks(folder), families.phone_bases()
    behind = families.some_layers(folder, families.LAYERS_BEHIND, held_out=False)
    by_model = [
        families.left_out(PIS, pis, families.peaks(pis.device)),
        *(
            families.predicted(name, pis, its, families.peaks(pis.device), np.random.default_rng(0))
            for name, its in more.items()
        ),
        families.left_out(JETSONS, boards, families.peaks(boards.device)),
        families.left_out(V100, gpus, families.peaks(gpus.device)),
        families.left_out(TASKS, tasks, bases, always=behind),
        families.of_core(
            KNOWN,
            families.core(families.KNOWN_ROWS, "this_cpu"),
            families.core(families.KNOWN_ROWS, "held_out"),
        ),
        *(
            families.of_core(name, families.core(file, "this_cpu"), families.core(file, "held_out"))
            for name, file in ((MORE, MORE_ROWS), (NEW, NEW_ROWS), (OTHER_MAKE, OTHER_MAKE_ROWS))
        ),
    ]
    of_layers = families.of_layers(LAYERS, folder)
    before = [
        *families.nothing_behind("Raspberry Pis", pis, families.peaks(pis.device)),
        *families.nothing_behind("Jetsons", boards, families.peaks(boards.device)),
        *families.nothing_behind("V100", gpus, families.peaks(gpus.device)),
        *families.nothing_behind("FLASH's phones, tasks", tasks, bases),
    ]
    return Results(
        table_of([*(one for held in by_model for one in held), *of_layers]),
        pd.concat([rankings(held) for held in by_model], ignore_index=True),
        families.layer_errors(folder),
        families.one_rate(pis.with_rows(others)),
        pd.concat([families.by_profile(its) for its in more.values()], ignore_index=True),
        table_of(before),
        power.by_profile(),
        power.networks(),
        power.held_out(),
        power.for_one_model(),
    )


def table_of(held: Sequence[Held]) -> pd.DataFrame:
    """Predictions, a row each."""
    return pd.DataFrame([one.cells for one in held])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or say whether it is out of date."""
    parser = argparse.ArgumentParser(description="Fill docs/validation.md.")
    parser.add_argument("root", type=Path, nargs="?", default=os.environ.get("SIMFL_DATA"))
    parser.add_argument("--page", action="store_true", help="from the recorded results")
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args(arguments)
    if not (asked.page or asked.check):
        if asked.root is None:
            parser.error("name the data root, or set SIMFL_DATA")
        computed(Path(asked.root)).write()
    results = read_results()
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before, results)
    if asked.check:
        print("docs/validation.md: " + ("as it should be" if after == before else "out of date"))
        return int(after != before)
    PAGE.write_text(after, encoding="utf-8")
    save_picture(results.predictions)
    print(markdown(table_of_families(results.predictions)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
