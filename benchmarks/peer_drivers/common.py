"""What every driver shares: the work, its data, the stopwatch. Needs nothing but numpy and torch.

A driver is run as `python with_<peer>.py DATA ROUNDS BEGAN`: the file of the clients' data, how
many rounds, and the time when the process was started. Its last line says how it went.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

CLIENTS, A_ROUND = 50, 10
EPOCHS, BATCH, RATE = 5, 32, 0.05
HIDDEN, CLASSES = 200, 10
RESULT = "RESULT "

# Beside a CPU build of torch torchvision lacks its compiled operators; with their schemas it can
# be imported all the same, as some peers do.
VISION = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    VISION.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


class Job:
    """One run of a peer: what it is to do, and how long each round took."""

    def __init__(self) -> None:
        self.data = Path(sys.argv[1])
        self.rounds = int(sys.argv[2])
        self._began = float(sys.argv[3])
        self._ends: list[float] = []
        torch.set_num_threads(1)

    def shards(self) -> list[tuple[Tensor, Tensor]]:
        """Each client's inputs (rows, features) and labels."""
        return shards_of(self.data)

    def round_ended(self) -> None:
        """To be called after each round."""
        self._ends.append(time.time())

    def report(self) -> None:
        """Print the seconds from start to the first round's end, of each round after it, memory."""
        if len(self._ends) < self.rounds:
            sys.exit(f"{len(self._ends)} of {self.rounds} rounds")
        peak_kb = sum(
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        result = {
            "first_s": self._ends[0] - self._began,
            "round_s": np.diff(self._ends).tolist(),
            "peak_bytes": 1024 * peak_kb,
        }
        print(f"\n{RESULT}{json.dumps(result)}", flush=True)


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
