"""What the drivers of peers share beside the stopwatch: the clients' data and the model, in torch.

One thread, as for everybody.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from stopwatch import CLASSES, HIDDEN
from torch import Tensor, nn

torch.set_num_threads(1)

# Beside a CPU build of torch torchvision lacks its compiled operators; with their schemas it can
# be imported all the same, as some peers do.
VISION = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    VISION.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def shards_of(data: Path | str) -> list[tuple[Tensor, Tensor]]:
    """Each client's inputs (rows, features) and labels, from their file."""
    with np.load(data) as held:
        inputs, labels = torch.from_numpy(held["inputs"]), torch.from_numpy(held["labels"])
    return list(zip(inputs, labels, strict=True))


def mlp(features: int) -> nn.Sequential:
    """The model: two hidden layers with ReLU."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(features, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    )
