"""What does training small models wait for, beside its arithmetic?

    python benchmarks/parts.py [--work "digits logistic"] [--flight 5 20 50]

simfl's trainer and the bound written by hand (`training.py`) take turns; the processor time of both
is counted, and the median of its ratios. Then simfl trains alone, and samples of what it is doing
share its time out. Microseconds a job, one thread, without workers.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import time
from collections import Counter
from types import FrameType

import torch
from training import WORK, Bench

PARTS = {
    "draw the rows": ("plan_order",),
    "lay out and take the rows": ("StackedBatches.__init__", "StackedBatches._taken"),
    "set up the stack": (
        "Cohort.__init__",
        "DenseCohort.__init__",
        "DenseCohort._weighted",
        "StackedBatches.weights",
        "DenseSteps.__init__",
    ),
    "steps": ("DenseCohort.train", "AutogradCohort.gradients", "Cohort.train"),
    "copy the updates out": ("Cohort.updates",),
    "jobs: submit, brief, sort, hand back": ("Bench.simfl",),
}
"""Functions by what they are for: the innermost one says what a moment is spent on."""

EVERY_S = 0.001
A_JOB = 1e6
"""Microseconds in a second: figures are microseconds a job."""


class Samples:
    """Counts on what simfl's processor time goes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._part = {name: part for part, names in PARTS.items() for name in names}

    def take(self, _: int, frame: FrameType | None) -> None:
        """Book one sample on the innermost function that has a part."""
        while frame is not None:
            if (part := self._part.get(frame.f_code.co_qualname)) is not None:
                self.counts[part] += 1
                return
            frame = frame.f_back


def measure(bench: Bench, clients: int, seconds: float) -> None:
    """Print simfl's time a job, the bound's, and the parts of simfl's."""
    bench.bound(clients)
    bench.simfl(0, clients)
    bound_s, simfl_s = [], []
    while sum(bound_s) + sum(simfl_s) < seconds:
        began = time.process_time()
        bench.bound(clients)
        between = time.process_time()
        bench.simfl(0, clients)
        bound_s.append(between - began)
        simfl_s.append(time.process_time() - between)
    bound, simfl = (A_JOB * statistics.median(each) / clients for each in (bound_s, simfl_s))
    ratio = statistics.median(one / other for one, other in zip(bound_s, simfl_s, strict=True))
    print(f"{clients} in flight: bound {bound:.0f}, simfl {simfl:.0f}; {ratio:.2f} of the bound")
    samples = Samples()
    signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    began = time.process_time()
    while time.process_time() - began < seconds:
        bench.simfl(0, clients)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    for part in PARTS:
        share = samples.counts[part] / samples.counts.total()
        print(f"  {part:36s} {share * simfl:6.0f}")


def main() -> None:
    """Measure the numbers in flight that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", choices=WORK, default="digits logistic", metavar="WORK")
    parser.add_argument("--flight", nargs="+", type=int, default=[5, 20, 50])
    parser.add_argument("--seconds", type=float, default=20.0, help="of processor time, per figure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(WORK[options.work], max(options.flight), [0])
    for clients in options.flight:
        measure(bench, clients, options.seconds)


if __name__ == "__main__":
    main()
