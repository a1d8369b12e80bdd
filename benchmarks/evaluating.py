"""What does an evaluation of convolutional networks cost, and what did torch's pooling cost in it?

    python benchmarks/evaluating.py [--images 10000] [--repeats 7]

Outputs of the built-in networks for random test images, by simfl as it is and with torch's own
pooling, which gives the same bits (checked here). One thread, the two in turns; CPU seconds, the
median of each and of the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial

import torch
from torch import Tensor, nn

from simfl.learning.allocation import keep_freed_memory
from simfl.learning.evaluate import outputs_of
from simfl.learning.models.base import Model
from simfl.learning.models.cnn import Cnn
from simfl.learning.models.fedcure_cnn import FedCureCnn
from simfl.learning.models.lenet import LeNet
from simfl.learning.network import Network
from simfl.learning.objective import Objective
from simfl.learning.parameters import Parameters

GREY, COLOUR = (1, 28, 28), (3, 32, 32)
CASES: tuple[tuple[str, Model, tuple[int, ...]], ...] = (
    ("cnn, 1x28x28", Cnn(), GREY),
    ("lenet, 1x28x28", LeNet(), GREY),
    ("lenet, 3x32x32", LeNet(), COLOUR),
    ("fedcure_cnn, 1x28x28", FedCureCnn(), GREY),
)


class TorchsPooling(nn.MaxPool2d):
    """Another class, which simfl leaves as it is."""


def with_torchs_pooling(model: Model, shape: tuple[int, ...]) -> nn.Module:
    """The model with the class of its pooling layers exchanged."""
    module = model.build(shape, 10)
    for layer in module.modules():
        if type(layer) is nn.MaxPool2d:
            layer.__class__ = TorchsPooling
    return module


def timed(network: Network, weights: Parameters, inputs: Tensor) -> tuple[float, Tensor]:
    """CPU seconds of an evaluation, and its outputs."""
    began = time.process_time()
    outputs = outputs_of(network, weights, inputs)
    return time.process_time() - began, outputs


def main() -> None:
    """Print a table: a row per network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    print(f"{given.images} images            seconds   with torch's pooling   ratio")
    for name, model, shape in CASES:
        ours, torchs = (
            Network(factory, shape, Objective("classification"))
            for factory in (
                partial(model.build, shape, 10),
                partial(with_torchs_pooling, model, shape),
            )
        )
        weights = ours.initial(0)
        inputs = torch.randn(given.images, *shape, generator=torch.Generator().manual_seed(0))
        outputs_of(ours, weights, inputs[:2048])
        outputs_of(torchs, weights, inputs[:2048])
        rows = []
        for _ in range(given.repeats):
            own_s, own = timed(ours, weights, inputs)
            other_s, other = timed(torchs, weights, inputs)
            assert torch.equal(own.view(torch.int32), other.view(torch.int32))
            rows.append((own_s, other_s, own_s / other_s))
        own_s, other_s, ratio = map(statistics.median, zip(*rows, strict=True))
        print(f"{name:22} {own_s:12.3f} {other_s:16.3f} {ratio:14.2f}", flush=True)


if __name__ == "__main__":
    main()
