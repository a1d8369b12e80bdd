"""Rates by kind of work of two boards and three phones: fitted, and predicted against measured.

`python analysis/kinds_of_work.py DATA_ROOT [--write]` fits the figures of `devices/rpi_4b.yaml`,
`rpi_5.yaml` and the phones that FLASH measured, and prints what the shipped profiles predict;
--write puts the tables into docs/hardware.md. DATA_ROOT is SIMFL_DATA unless given; it has FLASH's
files in device_traces (C. Yang et al., WWW 2021) and, in measured, the seconds of
github.com/jafermarq/federated-embedded-vision.

The fit is a least absolute relative error, with no term below 0: reweighted non-negative least
squares. Every other one of FLASH's layer steps is held out. The tasks femnist and celeba, which
alone have convolutions, weigh as much as a tenth of the layer steps each; reddit and shakespeare
are not fitted.
"""

# %%
from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import nnls
from torch import nn

from simfl.common.model_work import STEP_KINDS, ModelWork
from simfl.learning.vision import torchvision
from simfl.learning.work import count_work
from simfl.system.catalogue import Catalogue

TERMS = (
    "step",
    "place",
    "convolution",
    "depthwise",
    "dense",
    "recurrent",
    "embedding",
    "update",
    "kernels",
    "traffic",
)
PHONES = {
    "phone_nexus6": ("slow", "nexus6"),
    "phone_redmi_note8": ("mid", "redmi_note8"),
    "phone_galaxy_note10": ("fast", "samsung_note10"),
}
LAYERS = ("embedding", "lstm", "output")
BATCH = {"femnist": 10, "celeba": 10, "reddit": 10, "shakespeare": 100}
"""Examples of a step; that of shakespeare is stated, the others are assumed."""

FITTED = ("femnist", "celeba")
WEIGHT_OF_TASKS = 0.1
DOCS = Path(__file__).parents[1] / "docs" / "hardware.md"


def terms(work: ModelWork, examples: float, steps: float = 1.0) -> list[float]:
    """What each of `TERMS` is multiplied with in the seconds of a step."""
    of_forward = [work.convolution, work.depthwise, work.dense, work.recurrent]
    each = [3 * examples * flops for flops in of_forward]
    fixed = [steps, steps * work.recurrent_places]
    of_step = [steps * getattr(work, kind) for kind in STEP_KINDS]
    return [*fixed, *each, *of_step, 3 * examples * work.traffic_bytes]


def fitted(
    rows: np.ndarray[Any, Any], seconds: np.ndarray[Any, Any], weight: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Seconds per unit of each term: the least absolute relative error, none below 0."""
    relative, root = rows / seconds[:, None], np.sqrt(weight)
    for _ in range(60):
        found: np.ndarray[Any, Any] = nnls(relative * root[:, None], root)[0]
        error = np.abs(relative @ found - 1.0)
        root = np.sqrt(weight / np.maximum(error, 0.01))
    return found


def named(found: np.ndarray[Any, Any]) -> dict[str, float]:
    """As a profile has it: fixed times in seconds, rates in FLOP/s, the bandwidth in bytes/s."""
    rates = {
        term: 1.0 / one if one else np.inf for term, one in zip(TERMS[2:], found[2:], strict=True)
    }
    return {"step": float(found[0]), "place": float(found[1]), **rates}


# %% [markdown]
# ## Phones
# Single layers, as FLASH varied them: columns inputs, outputs, batch, sequence length. Networks of
# the tasks are LEAF's and FLASH's.


# %%
def layer_rows(layer: str, sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`terms` of single-layer steps, one row each."""
    inputs, outputs, batch, length = sizes.astype(float).T
    none, one, passes = np.zeros(len(sizes)), np.ones(len(sizes)), 3 * batch * length
    dense = recurrent = embedding = update = places = none
    values = inputs + outputs
    if layer == "lstm":
        update = 2 * 4 * outputs * (inputs + outputs)
        recurrent, places = passes * update, length
    elif layer == "output":
        update = 2 * inputs * outputs
        dense = passes * update
    else:
        embedding, values = 2 * inputs * outputs, 1 + outputs
    of_step = [embedding, update, none]
    columns = [one, places, none, none, dense, recurrent, *of_step, passes * 4 * values]
    return np.stack(columns, axis=1)


def convolutions(
    channels: int, kernel: int, places: list[int], batch_norm: bool
) -> list[nn.Module]:
    """Convolutions that keep the size, each with pooling behind."""
    layers: list[nn.Module] = []
    for width in places:
        layers += [nn.Conv2d(channels, width, kernel, padding=kernel // 2)]
        pool = nn.MaxPool2d(2, ceil_mode=True)
        layers += [nn.BatchNorm2d(width), pool, nn.ReLU()] if batch_norm else [nn.ReLU(), pool]
        channels = width
    return [*layers, nn.Flatten()]


class Words(nn.Module):
    """Tokens looked up, two LSTM layers, and an output at every place or the last."""

    def __init__(self, tokens: int, width: int, outputs: int, every_place: bool) -> None:
        super().__init__()
        self.table, self.lstm = (
            nn.Embedding(tokens, width),
            nn.LSTM(width, 256, 2, batch_first=True),
        )
        self.head, self.every_place = nn.Linear(256, outputs), every_place

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(rows, length) to outputs."""
        states = self.lstm(self.table(inputs.long()))[0]
        outputs: torch.Tensor = self.head(states if self.every_place else states[:, -1])
        return outputs


def task_networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Each task's network, and an example."""
    image = nn.Sequential(
        *convolutions(1, 5, [32, 64], batch_norm=False),
        nn.Linear(3136, 2048),
        nn.ReLU(),
        nn.Linear(2048, 62),
    )
    face = nn.Sequential(*convolutions(3, 3, [32] * 4, batch_norm=True), nn.Linear(1152, 2))
    return {
        "femnist": (image, torch.zeros(1, 1, 28, 28)),
        "celeba": (face, torch.zeros(1, 3, 84, 84)),
        "reddit": (Words(10_000, 256, 10_000, True), torch.zeros(1, 10)),
        "shakespeare": (Words(80, 8, 80, False), torch.zeros(1, 80)),
    }


def task_work() -> dict[str, ModelWork]:
    """The work of each task's network."""
    return {task: count_work(*network) for task, network in task_networks().items()}


def profile_of(name: str) -> Any:
    """A device of the catalogue, or a server."""
    catalogue = Catalogue()
    found: Any = catalogue.server(name) if name.startswith("cloud") else catalogue.device(name)
    return found


def shipped_terms(device: str) -> np.ndarray[Any, Any]:
    """Seconds per unit of each term in a shipped profile."""
    processor: Any = profile_of(device).processor
    rate = processor.flops_per_s * processor.efficiency
    rates = [
        getattr(processor.rates, kind) or (np.inf if kind in STEP_KINDS else rate)
        for kind in TERMS[2:-1]
    ]
    per_s = [1.0 / one for one in (*rates, processor.bandwidth_bytes_per_s or np.inf)]
    return np.array([processor.seconds_per_step, processor.seconds_per_place, *per_s])


def percent(errors: np.ndarray[Any, Any]) -> str:
    """The median error."""
    return f"{np.median(errors):.0%}"


def phones(folder: Path) -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """What is fitted to each phone, and how its shipped profile does."""
    read = pd.read_csv(folder / "flash_batch_train_time.csv")
    measured_s = read.pivot_table(index="task", columns="tier", values="mean_ms") / 1000
    works = task_work()
    of_tasks = np.array([terms(work, BATCH[task]) for task, work in works.items()])
    place = [list(works).index(task) for task in FITTED]
    found, table = {}, []
    with np.load(folder / "flash_layer_train_time.npz") as archive:
        times = dict(archive)
    for device, (tier, name) in PHONES.items():
        rows = [layer_rows(layer, times[f"{name}_{layer}_x"]) for layer in LAYERS]
        seconds = [times[f"{name}_{layer}_seconds"].astype(float) for layer in LAYERS]
        tasks_s = measured_s.loc[[*works], tier].to_numpy()
        half = [np.concatenate([one[::2] for one in several]) for several in (rows, seconds)]
        count = len(half[1])
        weight = np.full(count + len(place), 1.0)
        weight[count:] = WEIGHT_OF_TASKS * count
        # Two tasks cannot tell the weights of convolutions from their operations.
        told = np.array(TERMS) != "kernels"
        several = np.zeros(len(TERMS))
        several[told] = fitted(
            np.concatenate([half[0], of_tasks[place]])[:, told],
            np.concatenate([half[1], tasks_s[place]]),
            weight,
        )
        found[device] = named(several)
        shipped = shipped_terms(device)
        held_out = [
            np.abs(of_layer[1::2] @ shipped / layer_s[1::2] - 1.0)
            for of_layer, layer_s in zip(rows, seconds, strict=True)
        ]
        ratios = dict(zip(works, of_tasks @ shipped / tasks_s, strict=True))
        table.append(
            {
                "phone": device,
                **{layer: percent(one) for layer, one in zip(LAYERS, held_out, strict=True)},
                **{task: f"{ratios[task]:.2f}" for task in ("reddit", "shakespeare")},
            }
        )
    return found, pd.DataFrame(table)


# %% [markdown]
# ## Boards
# Four models determine four figures exactly; how far they carry is told by models that are not
# among them (docs/hardware.md).


# %%
def boards(file: Path) -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """What is fitted to each board, and how its shipped profile does beside one rate."""
    measured = pd.read_csv(file, comment="#")
    works: Mapping[str, ModelWork] = {
        model: count_work(getattr(torchvision().models, model)(), torch.zeros(1, 3, 224, 224))
        for model in measured["model"].unique()
    }
    examples = measured["batch_size"] * measured["batches"]
    rows = np.array(
        [
            terms(works[model], count, steps)
            for model, count, steps in zip(
                measured["model"], examples, measured["batches"], strict=True
            )
        ]
    )
    # Four models cannot tell a fixed time from the rest, and have no recurrent layers.
    used = [TERMS.index(one) for one in ("convolution", "depthwise", "dense", "traffic")]
    found, table = {}, []
    for device, group in measured.groupby("device", sort=False):
        own, seconds = rows[group.index], group["seconds"].to_numpy()
        several = np.zeros(len(TERMS))
        several[used] = nnls(own[:, used] / seconds[:, None], np.ones(len(seconds)))[0]
        found[str(device)] = named(several)
        processor: Any = Catalogue().device(str(device)).processor
        one_rate = own[:, 2:6].sum(axis=1) / (processor.flops_per_s * processor.efficiency)
        by_kind = own @ shipped_terms(str(device))
        for model, took_s, one, kinds in zip(
            group["model"], seconds, one_rate, by_kind, strict=True
        ):
            table.append(
                {
                    "board": device,
                    "model": model,
                    "measured": f"{took_s:.0f} s",
                    "by one rate": f"{one:.0f} s ({one / took_s:.2f})",
                    "by kinds": f"{kinds:.0f} s ({kinds / took_s:.2f})",
                }
            )
    return found, pd.DataFrame(table)


def markdown(table: pd.DataFrame) -> str:
    """The table in Markdown."""
    rows = [table.columns, ["---"] * table.shape[1], *table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def write_table(section: str, table: pd.DataFrame) -> None:
    """Put a table into its place in docs/hardware.md."""
    text = DOCS.read_text(encoding="utf-8")
    begin, end = f"<!-- kinds {section} -->\n", "\n<!-- end -->"
    before, found, rest = text.partition(begin)
    if not found:
        raise SystemExit(f"{DOCS}: found no {begin.strip()}")
    text = before + begin + markdown(table) + end + rest.partition(end)[2]
    DOCS.write_text(text, encoding="utf-8")


# %%
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, nargs="?", default=os.environ.get("SIMFL_DATA"))
    parser.add_argument("--write", action="store_true", help="put tables into docs/hardware.md")
    arguments = parser.parse_args()
    if arguments.root is None:
        parser.error("name the data root, or set SIMFL_DATA")
    root = Path(arguments.root)
    on_boards, board_table = boards(root / "measured" / "raspberry_pi_training.csv")
    on_phones, phone_table = phones(root / "device_traces")
    for device, figures in {**on_boards, **on_phones}.items():
        print(device, {name: float(f"{one:.4g}") for name, one in figures.items()})
    SECTIONS = {"boards": board_table, "phones": phone_table}
    for section, one_table in SECTIONS.items():
        print(f"\n{section}\n{markdown(one_table)}")
        if arguments.write:
            write_table(section, one_table)
