"""Files damaged at random: accepted, or refused in one line, with little memory and soon.

Every kind of file that a user hands to simfl is written small and sound, then damaged: bits
flipped, cut off, doubled, in another encoding, numbers replaced by extreme ones, types swapped. A
process of its own, with bounded memory and every warning an error, reads it as a run would.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import pickle
import re
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from simfl.assembly.data_partitioning import partition_data
from simfl.learning.datasets.base import Dataset
from simfl.learning.datasets.image_folder import ImageFolder
from simfl.learning.datasets.npz import Npz
from simfl.learning.partitions.iid import Iid
from simfl.scenario.scenario import Scenario
from simfl.scenario.yaml_source.error import ScenarioError
from simfl.scenario.yaml_source.source import blame
from simfl.streams import Streams
from simfl.study.studyfile import Study
from simfl.system.availability.trace import Trace
from simfl.system.catalogue import Catalogue, CatalogueError, shipped_folder
from simfl.system.populations.traced import Traced
from simfl.system.traces.convert import convert
from simfl.system.traces.tables import TraceError, read_capacities, read_intervals
from tests.small import SMALL, small

TRIALS = 25
"""Damages of each kind of file."""

MEMORY_BYTES = 2**31
CASE_S = 60

Rng = np.random.Generator

BOARD = shipped_folder() / "jetson_nano.yaml"
SHIPPED = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"

EXTREMES: tuple[Any, ...] = (
    *(0, -1, 1, 0.5, 10**6, 10**9, 10**12, 2**31, 2**63 - 1, -(2**63)),
    *(1e-300, 1e300, 1.7e308, -1e300, float("nan"), float("inf"), float("-inf")),
)
NUMBERS = (*(repr(one) for one in EXTREMES), "9" * 400, "-" + "9" * 5000, "1e400", "0x1F", "null")
TYPES = ("f2", "f4", "f8", ">f8", "c16", "i1", "u1", "i8", "u8", "?", "U9", "S9", "M8[s]", "O")


@dataclass(frozen=True)
class Kind:
    """A sound file, what reads it, and the one error that may come of a damaged one.

    `wild` writes the file again with extreme values or other types; None where it is text, whose
    numbers are replaced instead.
    """

    name: str
    write: Callable[[Path], None]
    read: Callable[[Path], object]
    error: type[ValueError]
    wild: Callable[[Path, Rng], None] | None = None


def dealt(dataset: Dataset) -> object:
    """The data set as a run deals it out."""
    return partition_data(small(), dataset, Iid(), np.zeros(2, int), Streams(1), None, learns=True)


def arrays() -> dict[str, Any]:
    """Ten rows of three features, two classes, three owners."""
    x, y = np.arange(30.0).reshape(10, 3), np.arange(10) % 2
    return {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4], "client_train": y}


def write_npz(file: Path) -> None:
    """A data set."""
    np.savez(file, **arrays())


def wild_npz(file: Path, rng: Rng) -> None:
    """One array of another type, shape or with an extreme value; or a header that lies."""
    changed = arrays()
    key = rng.choice(list(changed))
    match rng.integers(4):
        case 0:
            changed[key] = changed[key].astype(rng.choice(TYPES))
        case 1:
            shape = tuple(rng.integers(0, 4, rng.integers(0, 4)))
            changed[key] = np.zeros(shape, changed[key].dtype)
        case 2:
            changed[key] = changed[key].astype(float)
            changed[key].flat[rng.integers(changed[key].size)] = rng.choice(EXTREMES[:-1])
            if rng.random() < 0.5:
                with np.errstate(invalid="ignore"):
                    changed[key] = changed[key].astype(int)
        case _:
            np.savez(file, **changed)
            old, new = b"'shape': (10,", f"'shape': ({rng.choice([-1, 99, 10**12])},".encode()
            content = file.read_bytes().replace(old + b" " * (len(new) - len(old)), new)
            file.write_bytes(content.replace(old, new))
            return
    np.savez(file, **changed)


def write_images(folder: Path) -> None:
    """Two classes of one image for training and test each."""
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 2), (9, 9, 9)).save(folder / part / name / "1.png")


def intervals() -> dict[str, Any]:
    """Columns of an availability trace."""
    return {
        "client": [0, 0, 1],
        "start_s": [1.0, 5.0, 2.0],
        "end_s": [3.0, 7.0, 9.0],
        "period_s": [10.0, 10.0, 20.0],
    }


def capacities() -> dict[str, Any]:
    """Columns of a capacity trace."""
    rates = [1e6, 2e6, 3e6]
    return {
        "client": [0, 1, 2],
        "seconds_per_example": [0.1, 0.2, None],
        "uplink_bps": rates,
        "downlink_bps": rates,
    }


def write_table(columns: Callable[[], dict[str, Any]]) -> Callable[[Path], None]:
    """A writer of the Parquet file."""
    return lambda file: pq.write_table(pa.table(columns()), file)


def wild_table(columns: Callable[[], dict[str, Any]]) -> Callable[[Path, Rng], None]:
    """A Parquet file with a changed column: an extreme value, another type, gone or doubled."""

    def write(file: Path, rng: Rng) -> None:
        changed = {name: list(values) for name, values in columns().items()}
        name = rng.choice(list(changed))
        match rng.integers(4):
            case 0:
                changed[name] = [str(one) for one in changed[name]]
            case 1:
                del changed[name]
            case 2:
                changed = {key: [] for key in changed}
            case _:
                value = rng.choice(np.array([*EXTREMES, None], dtype=object))
                changed[name][rng.integers(len(changed[name]))] = value
                if any(isinstance(one, float) for one in changed[name]):
                    changed[name] = [None if one is None else float(one) for one in changed[name]]
        pq.write_table(pa.table(changed), file)

    return write


def replay(file: Path) -> None:
    """An availability trace asked for moments: each next one is later, and none is NaN."""
    with blame(small().where("population", "availability")):
        trace = Trace(file)
    clients, nobody = np.arange(9), Streams(0)
    for time_s in (0.0, 1.5, 12.0, 1e6):
        there = trace.available(clients, time_s, nobody)
        until_s = trace.until_s(clients, time_s, nobody)
        next_s = trace.next_s(clients, time_s, nobody)
        assert (until_s[there] > time_s).all() and (next_s[~there] > time_s).all()


def build_traced(file: Path) -> None:
    """A population of a capacity trace, whose client rounds take finite times."""
    world = Traced(clients=5, compute_trace=file, rate_trace=file).build(Streams(1), Catalogue())
    plan = world.plan_rounds(np.arange(5), 0, 10, None, 0, 10**6, np.inf)
    assert np.isfinite(plan.compute_s).all() and np.isfinite(plan.upload_s).all()


def converted(trace_format: str) -> Callable[[Path], object]:
    """Converts a file; the table that comes of it can be read again."""

    def read(file: Path) -> object:
        out = file.with_name("out.parquet")
        convert(trace_format, file, out)
        is_intervals = "period_s" in pq.read_schema(out).names
        return read_intervals(out) if is_intervals else read_capacities(out)

    return read


def text(content: object) -> Callable[[Path], None]:
    """A writer of text, or of anything else as JSON."""
    written = content if isinstance(content, str) else json.dumps(content)
    return lambda file: file.write_bytes(written.encode()) and None


def trace_kind(trace_format: str, ending: str, write: Callable[[Path], None]) -> Kind:
    """A format of `simfl convert-trace`."""
    return Kind(f"{trace_format}{ending}", write, converted(trace_format), TraceError)


TABLE = "client,start_s,end_s\n0,1,20\n1,5,60\n1,70,80\n"
SPEEDS = "down_mean,up_mean\n100,50\n200,80\n"
MESSAGES = "2020-01-02 01:00:00\twifi\n2020-01-02 01:00:10\tscreen_lock\n"
TIMER = {"isSuccess": True, "trace_start": 10, "trace_end": 400, "ready_time": [[20, 30]]}
THERE = {"active": [10, 30], "inactive": [20, 50], "finish_time": 100}
ABLE = {"computation": 162.0, "communication": 5648.0}
STUDY = {"scenario": "quickstart.yaml", "points": {"grid": {"seed": [1, 2]}}, "seeds": [1, 2]}


def read_study(file: Path) -> object:
    """The study of a shipped scenario."""
    return Study.from_yaml(file, {"quickstart.yaml": SHIPPED})


def pickled(content: object, protocol: int) -> Callable[[Path], None]:
    """A writer of a pickle."""
    return lambda file: file.write_bytes(pickle.dumps(content, protocol)) and None


def write_packed(file: Path) -> None:
    """A compressed table."""
    file.write_bytes(gzip.compress(TABLE.encode(), mtime=0))


KINDS = (
    Kind("set.npz", write_npz, lambda f: dealt(Npz(str(f))), ScenarioError, wild_npz),
    Kind("images", write_images, lambda f: dealt(ImageFolder(str(f))), ScenarioError),
    Kind(
        "there.parquet",
        write_table(intervals),
        replay,
        ScenarioError,
        wild_table(intervals),
    ),
    Kind(
        "able.parquet",
        write_table(capacities),
        build_traced,
        CatalogueError,
        wild_table(capacities),
    ),
    trace_kind("flash-intervals", ".csv", text(TABLE)),
    trace_kind("flash-intervals", ".csv.gz", write_packed),
    trace_kind("flash-speeds-kib", ".csv", text(SPEEDS)),
    trace_kind("flash-states", ".json", text({"a": {"messages": MESSAGES}})),
    trace_kind("flhetbench-timers", ".json", text({"7": TIMER, "8": TIMER})),
    trace_kind("flhetbench-resnet", ".json", text([{"ResNet Latency": 54.2}] * 2)),
    trace_kind("mobiperf", ".json", text([{"tcp_speed_results": [1000, 3000.5]}] * 2)),
    trace_kind("fedscale-behaviour", ".pkl", pickled({1: THERE, 2: THERE}, 2)),
    trace_kind("fedscale-capacity", ".pkl", pickled({1: ABLE, 2: ABLE}, 4)),
    Kind(
        "board.yaml",
        text(BOARD.read_text()),
        lambda f: Catalogue([f.parent]).device(f.stem),
        CatalogueError,
    ),
    Kind("small.yaml", text(yaml.safe_dump(SMALL)), Scenario.from_yaml, ScenarioError),
    Kind("study.yaml", text(yaml.safe_dump(STUDY)), read_study, ScenarioError),
)


def damage(content: bytes, rng: Rng, *, is_text: bool) -> bytes:
    """`content` after one damage."""
    place, length = int(rng.integers(len(content))), int(rng.integers(1, 40))
    match rng.integers(10 if is_text else 5):
        case 0 | 1:
            flipped = bytearray(content)
            for _ in range(rng.integers(1, 6)):
                flipped[rng.integers(len(flipped))] ^= 1 << int(rng.integers(8))
            return bytes(flipped)
        case 2:
            return content[:place]
        case 3:
            return content[:place] + rng.bytes(length) + content[place + length :]
        case 4:
            return content[:place] + content[place : place + length] * 2 + content[place:]
        case 5:
            codec = str(rng.choice(["utf-16", "utf-32", "utf-8-sig", "utf-16-le"]))
            return content.decode().encode(codec)
        case 6:
            sign = bytes(rng.choice(np.array([b"[", b"{", b'"', b"x", b"{'a':", b"- "], object)))
            return content[:place] + sign * int(rng.choice([1, 3000, 200_000])) + content[place:]
        case _:
            numbers = list(re.finditer(rb"-?\d+(\.\d+)?", content))
            one = numbers[rng.integers(len(numbers))]
            return content[: one.start()] + str(rng.choice(NUMBERS)).encode() + content[one.end() :]


def damaged(kind: Kind, path: Path, rng: Rng) -> None:
    """The sound file of a kind, damaged."""
    kind.write(path)
    if kind.wild is not None and rng.random() < 0.5:
        kind.wild(path, rng)
        return
    file = path if path.is_file() else path / "train" / "dog" / "1.png"
    content = file.read_bytes()
    is_text = not rng.random() < 0.2 and file.suffix in (".csv", ".json", ".yaml")
    file.write_bytes(damage(content, rng, is_text=is_text))


def attack(number: int, folder: Path, report: Path) -> None:
    """Reads damaged files of a kind; notes in `report` what should not have happened."""
    kind = KINDS[number]
    path = folder / kind.name
    kind.write(path)
    kind.read(path)  # imports what it needs before the memory is counted
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("error")
    failures = []
    for trial in range(TRIALS):
        signal.alarm(CASE_S)  # ends this process, as nothing handles it
        report.write_text(f"trial {trial} did not end")
        damaged(kind, path, np.random.default_rng([number, trial]))
        try:
            kind.read(path)
        except kind.error as error:
            if len(str(error).splitlines()) != 1 or len(str(error)) > 2000:
                failures.append(f"trial {trial}: not one short line: {error}")
        except BaseException:  # noqa: BLE001  # whatever it is, it is what is looked for
            failures.append(f"trial {trial}: {traceback.format_exc()}")
    report.write_text("\n".join(failures))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(KINDS)), ids=[kind.name for kind in KINDS])
def test_a_damaged_file_is_accepted_or_refused_in_one_line(tmp_path: Path, number: int) -> None:
    """No traceback, no warning, no more than 2 GiB, no case beyond a minute."""
    report = tmp_path / "report.txt"
    (tmp_path / "files").mkdir()
    process = multiprocessing.get_context("spawn").Process(
        target=attack, args=(number, tmp_path / "files", report)
    )
    process.start()
    process.join()

    assert (process.exitcode, report.read_text()) == (0, "")
