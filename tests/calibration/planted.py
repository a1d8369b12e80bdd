"""Rows of machines whose figures are known, and of two Raspberry Pis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from simfl.calibration.machines import TERMS, amounts
from simfl.calibration.terms import Rows
from simfl.common.model_work import ModelWork

HEAD = (
    "device,batch_size,batches,seconds,convolution_flops,depthwise_flops,dense_flops,"
    "recurrent_flops,embedding_flops,update_flops,kernels_flops,traffic_bytes,recurrent_places"
)
FIGURES = (3e10, 6e8, 5e10, 1e10, 2e8, 1.5e9, 5e7, 1.2e9, 8e-3, 3e-4)
"""Of the planted machine, in the order of `TERMS`: of the class of a Raspberry Pi 5."""

PIS = {
    # as `count_work` counts them, for one image of 3x224x224 and 1000 classes
    "resnet18": ModelWork(
        convolution=3627122688.0,
        dense=1024000.0,
        traffic_bytes=61122464.0,
        update=2.0 * 11689512,
        kernels=2.0 * 11166912,
    ),
    "resnet50": ModelWork(
        convolution=8174272512.0,
        dense=4096000.0,
        traffic_bytes=257322912.0,
        update=2.0 * 25557032,
        kernels=2.0 * 23454912,
    ),
    "mobilenet_v2": ModelWork(
        convolution=557555712.0,
        depthwise=41432832.0,
        dense=2560000.0,
        traffic_bytes=156066720.0,
        update=2.0 * 3504872,
        kernels=2.0 * 2189760,
    ),
    "vit_b_16": ModelWork(
        convolution=231211008.0,
        dense=34896445440.0,
        traffic_bytes=265071520.0,
        update=2.0 * 86567656,
        kernels=2.0 * 589824,
    ),
}
SECONDS = {
    "rpi_5": (116.85, 322.26, 144.35, 470.39),
    "rpi_4b": (218.37, 652.54, 305.47, 1148.19),
}
"""Of 20 batches of 16 images (github.com/jafermarq/federated-embedded-vision)."""
PEAKS = {"rpi_5": 7.03e10, "rpi_4b": 2.38e10}


def pi_rows() -> Rows:
    """The eight rows of two Raspberry Pis."""
    measured = [(one, *row) for one in SECONDS for row in zip(PIS, SECONDS[one], strict=True)]
    devices, models = list(SECONDS), list(PIS)
    return Rows(
        np.arange(4, 12),
        np.array([devices.index(device) for device, _, _ in measured]),
        np.array([models.index(model) for _, model, _ in measured]),
        np.array([amounts(PIS[model], 320, 20) for _, model, _ in measured]),
        np.array([seconds for _, _, seconds in measured]),
    )


def planted_works(count: int, seed: int) -> list[ModelWork]:
    """Models of all kinds of work, none like another."""
    rng, of_weights = (np.random.default_rng(one) for one in (seed, seed + 2000))
    found = []
    for number in range(count):
        main, size = number % 5, 10.0 ** rng.uniform(7.5, 9.5)
        weights = size * 10.0 ** of_weights.uniform(-2.5, 0.0)
        convolution = size * (1.0 if main in (0, 1) else 1e-3)
        found.append(
            ModelWork(
                convolution=convolution,
                depthwise=size * 0.06 if main == 1 else 0.0,
                dense=size * (1.0 if main == 2 else 2e-3),
                recurrent=size * 0.1 if main == 3 else 0.0,
                embedding=size * 0.1 if main == 4 else 0.0,
                traffic_bytes=size * 10.0 ** rng.uniform(-2.0, -0.8),
                recurrent_places=80.0 if main == 3 else 0.0,
                update=weights * 3.0 if main == 2 else 0.0,
                kernels=weights * 0.1 if main in (0, 1) else 0.0,
            )
        )
    return found


def planted_rows(count: int, seed: int = 0, error: float = 0.05) -> Rows:
    """Rows of the planted machine: each of another model, with batches of 1 to 32."""
    rng = np.random.default_rng(seed + 1000)
    batches = 2 ** rng.integers(0, 6, count)
    works = planted_works(count, seed)
    each = np.array(
        [amounts(work, 10.0 * batch, 10.0) for work, batch in zip(works, batches, strict=True)]
    )
    values = np.exp([term.log(one) for term, one in zip(TERMS, FIGURES, strict=True)])
    seconds = each @ values * np.exp(error * rng.standard_normal(count))
    lines = np.arange(count)
    return Rows(lines + 2, np.zeros(count, dtype=np.int64), lines, each, seconds)


def file_of(folder: Path, rows: Sequence[str], head: str = HEAD) -> Path:
    """A CSV file with these rows; the first is its line 2."""
    path = folder / "m.csv"
    path.write_text("\n".join([head, *rows, ""]))
    return path
