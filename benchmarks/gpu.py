"""What a GPU gives, and whether its bits keep the laws: every figure that there is, in 8 minutes.

    python benchmarks/gpu.py [--device cuda] [--parts bits rates ...] [--smoke]

Runs from the root of a checkout, installed or not, without a network; a part that lacks something
says so, and the others go on. `--device cpu --smoke` shows that the script works. What is printed:

machine       GPU, driver, CUDA, torch
bits          one job's update, to the last bit, trained in cohorts of 1, 3, 17, 64 and all
algorithms    every algorithm's model after three versions in float64, against the CPU's (1e-9)
rates         client updates per second with 20, 200 and 1,000 in flight, against the naive loop
              (deepcopy, DataLoader, torch.optim.SGD) and a lean one on the same GPU, in one process
precision     the same with TF32 and bfloat16
launches      how many kernels a step starts, and for how much of the time one is running
memory        the peak of 50 rounds
utilisation   as NVIDIA's tool has it, while perceptrons are trained
pfl           pfl-research on the same GPU, where it is installed

A part has a budget of seconds; what does not fit in is listed as not measured.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import loops  # noqa: E402  # the path comes first: nothing need be installed
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from simfl.algorithms.base import ServerState  # noqa: E402
from simfl.algorithms.fedavg import FedAvg  # noqa: E402
from simfl.learning.batched import BatchedTrainer  # noqa: E402
from simfl.learning.datasets.base import Examples  # noqa: E402
from simfl.learning.devices import ComputeDevice, found_device  # noqa: E402
from simfl.learning.job import LocalTraining, Update  # noqa: E402
from simfl.learning.kernels.precision import Precision  # noqa: E402
from simfl.learning.minibatch import plain_loss  # noqa: E402
from simfl.learning.models.base import as_module  # noqa: E402
from simfl.learning.models.cnn import Cnn  # noqa: E402
from simfl.learning.models.mlp import Mlp  # noqa: E402
from simfl.learning.network import Network  # noqa: E402
from simfl.learning.objective import Objective  # noqa: E402
from simfl.learning.sums import shares, weighted_sum  # noqa: E402
from simfl.learning.trainer import LocalJob  # noqa: E402
from simfl.learning.vision import torchvision  # noqa: E402

CLASSES = 10


def resnet18(input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """torchvision's, with GroupNorm of 32 groups in place of BatchNorm."""
    found: nn.Module = torchvision().models.resnet18(
        num_classes=outputs, norm_layer=partial(nn.GroupNorm, 32)
    )
    return found


def shipped(model: Mlp | Cnn, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    """A model of simfl's."""
    return as_module(model, input_shape, outputs)


@dataclass(frozen=True)
class Work:
    """A model on data of one shape; `goal` is the multiple of the naive loop with 200 in flight."""

    factory: Callable[[tuple[int, ...], int], nn.Module]
    shape: tuple[int, ...]
    rows: int
    epochs: int
    goal: float


CNN = Cnn(channels=(10, 20), kernel=5)
WORK = {
    "digits MLP": Work(partial(shipped, Mlp()), (1, 8, 8), 30, 5, 20.0),
    "mnist MLP": Work(partial(shipped, Mlp()), (1, 28, 28), 600, 5, 20.0),
    "mnist CNN": Work(partial(shipped, CNN), (1, 28, 28), 600, 5, 8.0),
    "ResNet-18": Work(resnet18, (3, 32, 32), 128, 1, 1.3),
}
FLIGHTS = (20, 200, 1000)
COHORTS = (1, 3, 17, 64)
JOBS_FOR_BITS = 80
ROUNDS = 50
GOAL_FLIGHT = 200
SMOKE_ROWS, SMOKE_FLIGHTS = 8, (2, 3)


class OutOfTime(RuntimeError):
    """A part's budget is used up."""


@dataclass
class Bench:
    """What is asked for, and where."""

    device: ComputeDevice
    smoke: bool
    ends: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds of this part's budget."""
        return self.ends - time.perf_counter()

    def works(self) -> dict[str, Work]:
        """The models; small shards and one epoch where only the script is tried."""
        if not self.smoke:
            return WORK
        few = {name: replace(work, rows=SMOKE_ROWS, epochs=1) for name, work in WORK.items()}
        return {name: few[name] for name in ("digits MLP", "mnist CNN")}


def data_of(work: Work, clients: int, seed: int = 0) -> list[loops.Shard]:
    """Random images, as many for each client."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(clients, work.rows, *work.shape, generator=generator)
    targets = torch.randint(0, CLASSES, (clients, work.rows), generator=generator)
    return list(zip(inputs, targets, strict=True))


class Trained:
    """simfl's trainer with everything ready to train a work's clients."""

    def __init__(
        self,
        work: Work,
        data: Sequence[loops.Shard],
        device: ComputeDevice,
        precision: Precision = "float32",
        cap: int | None = None,
    ) -> None:
        factory = partial(work.factory, work.shape, CLASSES)
        objective = Objective("classification")
        self.network = Network(factory, work.shape, objective, device=device, precision=precision)
        local = LocalTraining(epochs=work.epochs, batch_size=loops.BATCH, learning_rate=loops.RATE)
        self.algorithm = FedAvg(local)
        self.state = ServerState(self.network.initial(0))
        examples = [Examples(*shard) for shard in data]
        self.trainer = BatchedTrainer(self.network, examples, plain_loss, cohort_cap=cap)
        self._device = device
        self._jobs = 0

    def updates(self, clients: int) -> list[Update]:
        """Submit a job for each of the first clients, read all of them."""
        futures = []
        for client in range(clients):
            self._jobs += 1
            brief = partial(self.algorithm.brief, self.network, self.state, client, -1)
            job = LocalJob(
                key=str(self._jobs), client=client, seed=client, version=0, make_brief=brief
            )
            futures.append(self.trainer.submit(job))
        found = [future.result() for future in futures]
        self._device.synchronize()
        return found

    def seconds(self, clients: int) -> float:
        """Of one training of so many clients."""
        began = time.perf_counter()
        self.updates(clients)
        return time.perf_counter() - began


def naive(model: nn.Module, data: Sequence[loops.Shard], epochs: int, device: torch.device) -> None:
    """One client after the other: deepcopy, DataLoader, batches to the device, torch.optim.SGD."""
    for shard in data:
        local = copy.deepcopy(model)
        loader = DataLoader(TensorDataset(*shard), batch_size=loops.BATCH, shuffle=True)
        optimizer = torch.optim.SGD(local.parameters(), lr=loops.RATE)
        criterion = nn.CrossEntropyLoss()
        for _ in range(epochs):
            for rows, labels in loader:
                optimizer.zero_grad()
                criterion(local(rows.to(device)), labels.to(device)).backward()
                optimizer.step()
        copy.deepcopy(local.state_dict())


def lean(model: nn.Module, data: Sequence[loops.Shard], epochs: int, device: torch.device) -> None:
    """One client after the other: its data on the device at once, slices, fused SGD."""
    start = [tensor.detach() for tensor in model.parameters()]
    work = copy.deepcopy(model)
    weights = list(work.parameters())
    for shard in data:
        inputs, targets = (one.to(device) for one in shard)
        with torch.no_grad():
            torch._foreach_copy_(weights, start)
        for _ in range(epochs):
            order = torch.randperm(len(targets), device=device)
            for rows in torch.split(order, loops.BATCH):
                loss = nn.functional.cross_entropy(work(inputs[rows]), targets[rows])
                gradients = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    torch._foreach_add_(weights, gradients, alpha=-loops.RATE)


def same_bits(one: Update, other: Update) -> bool:
    """Whether two updates are equal to the last bit."""
    return all(
        torch.equal(tensor.view(torch.uint8), other.payload[name].view(torch.uint8))
        for name, tensor in one.payload.items()
    )


def machine(bench: Bench) -> None:
    """What this is measured on."""
    print(f"torch {torch.__version__}, device {bench.device.torch}")
    for name, value in bench.device.described().items():
        print(f"{name}: {value}")


def bits(bench: Bench) -> None:
    """Cohorts of several sizes, against all jobs together."""
    jobs, caps = (4, (1, 3)) if bench.smoke else (JOBS_FOR_BITS, COHORTS)
    for name, work in bench.works().items():
        short = replace(work, rows=min(work.rows, 2 * loops.BATCH), epochs=1)
        count = min(jobs, 20) if name == "ResNet-18" else jobs
        data = data_of(short, count)
        whole = Trained(short, data, bench.device)
        together = whole.updates(count)
        said = []
        for cap in caps:
            if bench.left_s < 0:
                raise OutOfTime(f"{name}, cohorts of {cap}")
            apart = Trained(short, data, bench.device, cap=cap).updates(count)
            pairs = zip(apart, together, strict=True)
            differing = sum(not same_bits(one, other) for one, other in pairs)
            said.append(f"{cap}: {f'{differing} of {count} differ' if differing else 'equal'}")
        print(f"{name:11s} {whole.network.kernel_family}, all {count} against cohorts of", end=" ")
        print("; ".join(said), f"[{padding_of(whole)}]")


def padding_of(trained: Trained) -> str:
    """To how many jobs cohorts are padded, and what the trainer found out about it."""
    padded = trained.trainer._padded
    if padded is None:
        return "not padded"
    notices = "; ".join(one.message for one in trained.trainer.notices()) or "law 1 claimed"
    sizes = {shape[0]: size for shape, size in padded._sizes.items()}
    return f"padded to {sizes} (rows: jobs), {notices}"


def algorithms(bench: Bench) -> None:
    """Every algorithm under its paper's protocol, or the first that it takes."""
    from simfl.assembly import registry
    from tests.small import final_weights, largest_difference, simulated
    from tests.test_contracts import PROTOCOLS, class_of, refusal, scenario_of

    names = ["fedavg", "fedprox"] if bench.smoke else registry.names("algorithms")
    worst = 0.0
    for name in names:
        if bench.left_s < 0:
            raise OutOfTime(f"{name} and those after it in the alphabet")
        part = class_of(name)
        if not part.learns:
            continue
        asked = [part.paper_protocol, *PROTOCOLS]
        protocol = next(one for one in asked if one in PROTOCOLS and not refusal(name, one))
        scenario = scenario_of(name, protocol).with_overrides(
            {"dtype": "float64", "stop.versions": 3}
        )
        try:
            models = [
                {key: one.cpu() for key, one in final_weights(run).items()}
                for _, run in (simulated(scenario, device=where) for where in (bench.device, "cpu"))
            ]
            difference = largest_difference(*models)
        except Exception as error:  # noqa: BLE001  # the others go on
            print(f"{name:24s} under {protocol}: FAILED, {type(error).__name__}: {error}")
            continue
        worst = max(worst, difference)
        verdict = "" if difference < 1e-9 else "   NOT within 1e-9"
        print(f"{name:24s} under {protocol:18s} differs by {difference:.1e}{verdict}")
    print(f"the largest difference of those that ran: {worst:.1e}")


def rates(bench: Bench) -> None:
    """Updates per second; the loops' clients are as many as fit their share of the budget."""
    works = bench.works()
    share_s = bench.left_s / len(works)
    for number, (name, work) in enumerate(works.items()):
        ends = bench.ends - share_s * (len(works) - 1 - number)
        flights = SMOKE_FLIGHTS if bench.smoke else FLIGHTS
        data = data_of(work, max(flights))
        torch.manual_seed(0)
        model = work.factory(work.shape, CLASSES).to(bench.device.torch)
        loop_s = {}
        for loop in (naive, lean):
            loop(model, data[:1], 1, bench.device.torch)
            loop_s[loop.__name__] = per_update(
                partial(loop, model, epochs=work.epochs, device=bench.device.torch), data, bench
            )
        bare = "   ".join(f"{way} {1 / seconds:.1f}" for way, seconds in loop_s.items())
        print(f"{name:11s} updates/s: {bare}", flush=True)
        trained = Trained(work, data, bench.device)
        trained.seconds(2)  # the check of company, and first calls
        each_s = None
        for flight in flights:
            left_s = ends - time.perf_counter()
            if left_s < 0 or (each_s is not None and each_s * flight > left_s):
                print(f"{name:11s} {flight:5d} in flight: not measured (budget)")
                continue
            try:
                each_s = trained.seconds(flight) / flight
            except torch.OutOfMemoryError:
                bench.device.recover()
                print(f"{name:11s} {flight:5d} in flight: not measured (out of memory)")
                continue
            while ends - time.perf_counter() > 3 * each_s * flight and each_s * flight < 2:
                each_s = min(each_s, trained.seconds(flight) / flight)
                if bench.smoke or time.perf_counter() > ends - share_s / 2:
                    break
            times = loop_s["naive"] / each_s
            goal = f" (goal {work.goal:g})" if flight == GOAL_FLIGHT else ""
            print(
                f"{name:11s} {flight:5d} in flight: {1 / each_s:8.1f} updates/s,"
                f" {times:6.2f} times the naive loop{goal},"
                f" {loop_s['lean'] / each_s:6.2f} times the lean one",
                flush=True,
            )
        print(f"{name:11s} {padding_of(trained)}")


def per_update(
    train: Callable[[Sequence[loops.Shard]], None], data: Sequence[loops.Shard], bench: Bench
) -> float:
    """Seconds per client, the median of a few."""
    found, began = [], time.perf_counter()
    for shard in data[: 1 if bench.smoke else 9]:
        start = time.perf_counter()
        train([shard])
        bench.device.synchronize()
        found.append(time.perf_counter() - start)
        if time.perf_counter() - began > bench.left_s / 20:
            break
    return statistics.median(found)


def precision(bench: Bench) -> None:
    """Updates per second with other precisions, of the MNIST works."""
    flight = 2 if bench.smoke else GOAL_FLIGHT
    for name, work in bench.works().items():
        if name in ("digits MLP", "ResNet-18") and not bench.smoke:
            continue
        data, said = data_of(work, flight), []
        kinds: tuple[Precision, ...] = ("float32", "tf32", "bfloat16")
        for kind in kinds:
            if bench.left_s < 0:
                raise OutOfTime(f"{name}, {kind}")
            trained = Trained(work, data, bench.device, kind)
            trained.seconds(2)
            said.append(f"{kind} {flight / trained.seconds(flight):.1f}")
        print(f"{name:11s} {flight} in flight, updates/s: {', '.join(said)}")


def launches(bench: Bench) -> None:
    """Whether steps wait for their kernels to be started."""
    from torch.profiler import ProfilerActivity, profile

    flight = 2 if bench.smoke else GOAL_FLIGHT
    activities = [ProfilerActivity.CPU]
    if bench.device.kind == "cuda":
        activities.append(ProfilerActivity.CUDA)
    for name, work in bench.works().items():
        if bench.left_s < 0:
            raise OutOfTime(name)
        short = replace(work, rows=min(work.rows, 4 * loops.BATCH), epochs=1)
        trained = Trained(short, data_of(short, flight), bench.device)
        trained.updates(flight)
        with profile(activities=activities, acc_events=True) as profiled:
            wall_s = trained.seconds(flight)
        on_device = [
            one for one in profiled.events() if one.device_type == torch.autograd.DeviceType.CUDA
        ]
        busy_s = 1e-6 * sum(one.time_range.elapsed_us() for one in on_device)
        steps = -(-short.rows // loops.BATCH) * -(-flight // max(trained.trainer.cohorts))
        print(
            f"{name:11s} {len(on_device) / steps:6.0f} kernels and copies a step of a cohort; one"
            f" of them is running for {busy_s / wall_s:4.0%} of the {wall_s:.2f} s profiled"
        )


def memory(bench: Bench) -> None:
    """Peaks of the first ten and of the last ten rounds."""
    rounds, flight = (4, 2) if bench.smoke else (ROUNDS, 50)
    work = bench.works()["digits MLP"]
    trained = Trained(work, data_of(work, flight), bench.device)
    on_cuda = bench.device.kind == "cuda"
    peaks = []
    for _ in range(rounds):
        if on_cuda:
            torch.cuda.reset_peak_memory_stats(bench.device.torch)
        updates = trained.updates(flight)
        payloads = [one.payload for one in updates]
        weights = weighted_sum(payloads, shares([one.num_examples for one in updates]))
        trained.state = ServerState(weights)
        if on_cuda:
            peaks.append(torch.cuda.max_memory_allocated(bench.device.torch))
    if not on_cuda:
        print(f"{rounds} rounds ran; peaks are of CUDA devices")
        return
    first, last = max(peaks[:10]), max(peaks[-10:])
    verdict = "flat" if last <= 1.02 * first else "GROWS"
    print(f"rounds 1 to 10: {first / 1e6:.1f} MB, the last ten: {last / 1e6:.1f} MB: {verdict}")


def utilisation(bench: Bench) -> None:
    """Share of the time in which some kernel is running, by NVIDIA's own counter."""
    program = shutil.which("nvidia-smi")
    if program is None or bench.device.kind != "cuda":
        print("not measured: nvidia-smi is not here, or the device is none of NVIDIA's")
        return
    query = "--query-gpu=utilization.gpu,memory.used"
    number = bench.device.torch.index or 0
    asked = [program, query, "--format=csv,noheader,nounits", "-lms", "200", "-i", str(number)]
    for name in ("digits MLP", "mnist MLP", "mnist CNN"):
        work = WORK[name]
        trained = Trained(work, data_of(work, GOAL_FLIGHT), bench.device)
        trained.updates(2)
        with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as watching:
            ends = time.perf_counter() + min(5.0, bench.left_s / 3)
            try:
                while time.perf_counter() < ends:
                    trained.updates(GOAL_FLIGHT)
            finally:
                watching.terminate()
            said = watching.stdout.read() if watching.stdout else ""
        rows = [line.split(",") for line in said.splitlines() if "," in line]
        busy = [float(row[0]) for row in rows[1:]]
        used = max((float(row[1]) for row in rows), default=0.0)
        mean = f"{statistics.mean(busy):.0f} %" if busy else "no sample"
        print(f"{name:11s} {mean} over {len(busy)} samples, {used:.0f} MiB used at most")


def pfl(bench: Bench) -> None:
    """pfl-research, by the driver of `peers.py`: 10 clients a round, as everywhere there."""
    if importlib.util.find_spec("pfl") is None:
        print("not measured: pfl-research is not installed here")
        return
    import numpy as np
    import peers

    for name, work in peers.WORK.items():
        with tempfile.TemporaryDirectory() as folder:
            shape, rng = (peers.CLIENTS, work.rows), np.random.default_rng(0)
            data = Path(folder) / "data.npz"
            inputs = rng.random((*shape, work.features), dtype=np.float32)
            np.savez(data, inputs=inputs, labels=rng.integers(0, CLASSES, shape))
            found = peers.run("pfl", Path(sys.executable), data, work, 4)
        rate = peers.A_ROUND / statistics.median(found["round_s"])
        print(f"{name:11s} MLP, {peers.A_ROUND} a round: {rate:.1f} updates/s")


PARTS: dict[str, tuple[Callable[[Bench], None], float]] = {
    "machine": (machine, 20.0),
    "bits": (bits, 80.0),
    "rates": (rates, 170.0),
    "algorithms": (algorithms, 90.0),
    "precision": (precision, 25.0),
    "launches": (launches, 25.0),
    "memory": (memory, 15.0),
    "utilisation": (utilisation, 20.0),
    "pfl": (pfl, 30.0),
}
"""Each part and its budget in seconds: 475 together."""

GRACE_S = 5.0
"""How long a part may go on after its budget before it is ended where it stands."""


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in what takes longer."""

    def ring(*_: object) -> None:
        raise OutOfTime("in the middle of a measurement")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    """Run the parts; what fails is told and counted, and stops nothing else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--smoke", action="store_true", help="tiny: does the script work?")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        device = found_device(options.device)
    except ValueError as error:
        sys.exit(f"--device: {error}")
    bench, failed, began = Bench(device, options.smoke), [], time.perf_counter()
    for name in options.parts:
        part, budget_s = PARTS[name]
        print(f"\n== {name}", flush=True)
        start = time.perf_counter()
        bench.ends = start + budget_s
        try:
            with ended_after(budget_s + GRACE_S):
                part(bench)
        except OutOfTime as reason:
            print(f"not measured, for want of time: {reason}")
        except Exception as error:  # noqa: BLE001  # one part's failure is not the others'
            failed.append(name)
            print(f"FAILED: {type(error).__name__}: {error}")
            traceback.print_exc(limit=-3)
        print(f"({time.perf_counter() - start:.1f} s)", flush=True)
    print(f"\n{time.perf_counter() - began:.0f} s in all; failed: {', '.join(failed) or 'none'}")


if __name__ == "__main__":
    main()
