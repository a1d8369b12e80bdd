"""Measures training steps of models on this machine, as rows of measurements."""

from __future__ import annotations

import csv
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from simfl.calibration.meters import Meter, clock_hz
from simfl.calibration.works import build_model
from simfl.common.files import replacing
from simfl.learning.network import seeded
from simfl.scenario.yaml_source.error import ScenarioError, show

COLUMNS = (
    "device",
    "model",
    "input_shape",
    "outputs",
    "batch_size",
    "batches",
    "seconds",
    "threads",
    "clock_hz",
    "state",
    "joules",
    "meter",
)
STANDARD = (
    "mlp@3x32x32",
    "cnn@3x32x32",
    "resnet18@3x64x64",
    "mobilenet_v2@3x64x64",
    "{name: transformer, tokens: 80, width: 128, heads: 4, feed_forward: 256}@80",
    "{name: lstm, tokens: 80, hidden: 128}@80",
    "{name: gru, tokens: 20000, embedding: 64}@20",
)
"""Models that together have all kinds of work."""
IMAGE = "3x32x32"
WARM_UP = 2
FEWEST_STEPS = 5
REPEATS = 3
IDLE_S = 5.0


@dataclass(frozen=True)
class Trained:
    """What to time: a model as it is written in a row, and the shape of an example."""

    model: str
    input_shape: tuple[int, ...]

    @property
    def shape_text(self) -> str:
        """The shape as it is written in a row."""
        return "x".join(map(str, self.input_shape))


@dataclass(frozen=True)
class Timed:
    """Timed steps; `joules` is the energy of all of them, None without a meter."""

    batches: int
    seconds: float
    joules: float | None


@dataclass(frozen=True)
class Stopwatch:
    """How to measure: `seconds` per row, `threads`, and the torch device.

    `meter` counts joules, `clock` seconds.
    """

    seconds: float = 2.0
    threads: int = 1
    torch_device: str = "cpu"
    meter: Meter | None = None
    clock: Callable[[], float] = time.perf_counter

    def rows(
        self, device: str, models: Sequence[Trained], outputs: int, batches: Sequence[int]
    ) -> Iterator[dict[str, object]]:
        """Rows as `measurements` reads them: every model with every batch size, and idle watts.

        Raises ScenarioError for unknown models.
        """
        common: dict[str, object] = {"device": device}
        meter = {} if self.meter is None else {"meter": self.meter.name}
        built = [(one, _built(one, outputs)) for one in models]
        with _threads(self.threads):
            for one, module in built:
                for batch_size in batches:
                    for timed in self.time(module.to(self.torch_device), one, outputs, batch_size):
                        yield {
                            **common,
                            "model": one.model,
                            "input_shape": one.shape_text,
                            "outputs": outputs,
                            "batch_size": batch_size,
                            "batches": timed.batches,
                            "seconds": f"{timed.seconds:.6g}",
                            "threads": self.threads,
                            "clock_hz": _clock(self.torch_device),
                            "state": "train",
                            **({} if timed.joules is None else {"joules": f"{timed.joules:.6g}"}),
                            **meter,
                        }
        idle = self.idle()
        if idle is not None:
            seconds, joules = idle
            state = {"state": "idle", "seconds": f"{seconds:.6g}", "joules": f"{joules:.6g}"}
            yield {**common, **state, **meter}

    def time(
        self, module: nn.Module, trained: Trained, outputs: int, batch_size: int
    ) -> Iterator[Timed]:
        """Times training steps `REPEATS` times; the seconds of each are steps times the median
        step.
        """
        generator = torch.Generator().manual_seed(0)
        inputs = _inputs(module, (batch_size, *trained.input_shape), generator)
        targets = torch.randint(outputs, (batch_size,), generator=generator)
        step = _step(module, inputs.to(self.torch_device), targets.to(self.torch_device))
        for _ in range(WARM_UP):
            self._one(step)
        for _ in range(REPEATS):
            first_j = self._joules()
            steps: list[float] = []
            began = self.clock()
            while len(steps) < FEWEST_STEPS or self.clock() - began < self.seconds:
                steps.append(self._one(step))
                last_j = self._joules()
            middle_s = statistics.median(steps)
            # Joules of the reported time, that is, of median steps.
            share = middle_s * len(steps) / (self.clock() - began)
            joules = None if first_j is None or last_j is None else (last_j - first_j) * share
            yield Timed(len(steps), middle_s * len(steps), joules)

    def idle(self) -> tuple[float, float] | None:
        """Seconds of idling and their joules; None without a meter."""
        first_j, began = self._joules(), self.clock()
        if first_j is None:
            return None
        while self.clock() - began < IDLE_S:
            time.sleep(0.1)
            last_j = self._joules()
        return self.clock() - began, (last_j or 0.0) - first_j

    def _joules(self) -> float | None:
        return None if self.meter is None else self.meter.joules()

    def _one(self, step: Callable[[], None]) -> float:
        """Seconds of one step."""
        began = self.clock()
        step()
        if self.torch_device != "cpu":
            torch.cuda.synchronize()
        return self.clock() - began


def trained_of(text: str) -> Trained:
    """`resnet18@3x64x64`: a model, and the shape of an example, `IMAGE` if it is not given."""
    model, _, shape = text.rpartition("@") if re.search(r"@[\dx]+$", text) else (text, "", IMAGE)
    if re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8})*", shape) is None:
        raise ScenarioError("--model", None, "", show(text), "a model, as resnet18@3x64x64")
    return Trained(model, tuple(int(size) for size in shape.split("x")))


def write_rows(path: Path, rows: Sequence[dict[str, object]], about: str) -> None:
    """A file for `simfl calibrate`, with a comment as its first line."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# {about}\n")
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def _built(one: Trained, outputs: int) -> nn.Module:
    try:
        with seeded(0, torch.device("cpu")):
            return build_model(one.model, one.input_shape, outputs, Path())
    except ScenarioError as error:
        raise ScenarioError("--model", None, one.model, "", "", error.message) from error
    except ValueError as error:
        raise ScenarioError("--model", None, one.model, "", "", str(error)) from error


def _inputs(module: nn.Module, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Noise, or random tokens for a model with an embedding."""
    tables = [one for one in module.modules() if isinstance(one, nn.Embedding)]
    if tables:
        return torch.randint(tables[0].num_embeddings, shape, generator=generator)
    return torch.randn(shape, generator=generator)


def _step(module: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], None]:
    """A step of stochastic gradient descent, as commonly written in torch."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        optimizer.step()

    return step


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Use this many threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _clock(torch_device: str) -> str:
    """The processor's current clock as written in a row; empty if unknown."""
    hz = clock_hz() if torch_device == "cpu" else None
    return "" if hz is None else f"{hz:.6g}"
