"""Thousands of random compositions: each run ends, keeps the laws, and is the same either way.

    python -m benchmarks.compositions --count 10000 --out runs/compositions.jsonl [--workers 2]
    python -m benchmarks.compositions --only 17 [18 ...] [--out runs/compositions.jsonl]

Composition number n (`benchmarks/drawn.py`) is protocol, algorithm, faults, availability,
batteries, media, deadlines and decisions, drawn with n as the seed. It is refused, or completed,
stalled or diverged. Its books are recomputed from its event log alone; a stall says who waits for
what, and there is something that may keep clients away; of every fourth number's run, whatever is
left of it, summary, report, trace and comparison can be made; without rivals for a channel the same
is run over links of its own and over free channels, and compared in every column.

Each result is a line of `--out`, written as it is there: a second call goes on where the first was
ended. `--only` runs some numbers (again), prints what they are, and adds their results to `--out`
if that is given, where the last line of a number counts. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch
import yaml

import simfl
from benchmarks.drawn import FREE, Keys, asks_the_world, composition, has_rivals, over, scenario_of
from simfl.console.comparison import print_comparison
from simfl.console.run import print_summary
from simfl.pictures.report.of_run import report_run
from simfl.pictures.trace import save_trace
from simfl.protocols.clock import Stalled
from simfl.protocols.publication import Diverged
from simfl.runs.battery_levels import battery_levels
from simfl.runs.execution import StandaloneDiverged
from simfl.runs.runfolder import LoadedRun
from simfl.scenario.yaml_source.error import ScenarioError
from tests.books import check_books
from tests.protocols.test_ahead_equals_stepped import ROUNDING_S, compare, tie_at_the_end

Result = dict[str, Any]

MOST_S = 120
"""Seconds of work for one composition, of which the usual one takes a third of one."""
LOOKED_AT_EVERY = 4
"""Numbers from one to the next whose run is looked at: charts take longer than most runs."""
MEMORY = Path("/dev/shm")
"""A file system in memory, where there is one."""
OTHER_WAYS = (("dedicated", "dedicated"), (FREE, FREE), ("dedicated", FREE), (FREE, "dedicated"))


def result_of(number: int) -> Result:
    """Run a composition and check what it left: its outcome, or the failure's text."""
    begun = time.perf_counter()
    result: Result = {"number": number, "outcome": "failed", "checks": []}
    parent = str(MEMORY) if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, MOST_S)
        try:
            keys = composition(number, Path(name))
            result["protocol"] = keys["protocol"]["name"]
            result["algorithm"] = keys["algorithm"]["name"]
            check(keys, Path(name), result)
            result["outcome"] = result.pop("ended")
        except Exception:  # noqa: BLE001 - whatever it is, it is the result
            result["failure"] = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return {**result, "wall_s": round(time.perf_counter() - begun, 3)}


def check(keys: Keys, folder: Path, result: Result) -> None:
    """Run it once, and another way where that must be the same; notes how far it came."""
    result["ended"], run = ended(keys, folder / "run")
    if run is None:
        assert not (folder / "run").exists(), "what is refused leaves nothing"
        result["checks"].append("leaves nothing")
        return
    result["simulated_s"] = run.manifest["horizon_s"]
    result["versions"] = run.manifest["counts"]["versions"]
    assert run.manifest["reason"], "a run has a reason to end"
    status = "failed" if result["ended"] == "stalled" else result["ended"]
    assert run.manifest["status"] in (status, "failed"), "the manifest says how it ended"
    if result["number"] % LOOKED_AT_EVERY == 0:
        look_at(run, folder)
        result["checks"].append("looked at")
    if result["ended"] == "diverged":  # what was under way then is in no book
        return
    if result["ended"] == "stalled":
        check_stall(run.manifest["reason"], keys["population"])
        result["checks"].append("reason of the stall")
    check_books(run)
    result["checks"].append("books")
    if not (has_rivals(keys) or asks_the_world(keys)):
        # Every other number is compared with a mixture of the two.
        own = keys["population"]["access_sharing"], keys["population"]["backhaul_sharing"]
        first = result["number"] % 2 * 2
        ways = [way for way in (*OTHER_WAYS[first:], *OTHER_WAYS[:first]) if way != own]
        other_ended, other = ended(over(keys, *ways[0]), folder / "other")
        assert other_ended == result["ended"], f"{other_ended} over {ways[0]}"
        assert other is not None
        check_books(other)
        tie = tie_at_the_end(run, other)
        compare(run, other, run.manifest["horizon_s"] - ROUNDING_S if tie else math.inf)
        result["checks"].append("ahead equals stepped" + (" until a tie at the end" if tie else ""))


def ended(keys: Keys, folder: Path) -> tuple[str, LoadedRun | None]:
    """How a run of the composition ends, and what it leaves."""
    outcome = "completed"
    try:
        return outcome, simfl.run(scenario_of(keys), folder)
    except ScenarioError:
        return "refused", None
    except Stalled:
        outcome = "stalled"
    except (Diverged, StandaloneDiverged):
        outcome = "diverged"
    return outcome, simfl.load_run(folder)


def look_at(run: LoadedRun, folder: Path) -> None:
    """Make of a run what commands make of it; tables lack what it had no time for."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        print_summary(run, folder / "no.png")
        print_comparison([run, run], [0.2])
    report_run(run, folder / "report.html")
    levels = battery_levels(run) if run.scenario["population"].get("batteries") else None
    save_trace(run, folder / "trace.json", levels)


def check_stall(reason: str, population: Keys) -> None:
    """The reason names who waits for what, and then there is what keeps clients away for good.

    Or it says how often in a row all was in vain.
    """
    assert reason.startswith("Stalled: "), reason
    if " rounds in a row " in reason or " times in a row, each time for good" in reason:
        return
    assert " waits for " in reason or "no client will ever be available" in reason, reason
    hours = population["availability"]
    model = hours if isinstance(hours, str) else hours["name"]
    comes_back = model in ("always", "periodic", "renewal")
    assert population["batteries"] is not None or not comes_back, reason


def known(out: Path) -> dict[int, Result]:
    """The results so far, by number; a line that was cut off is taken away."""
    if not out.exists():
        return {}
    lines = out.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
        out.write_bytes(b"".join(lines))
    results = [json.loads(line) for line in lines]
    return {result["number"]: result for result in results}


def note(out: Path, result: Result) -> None:
    """Add a result to the file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


def computed(numbers: Iterable[int], workers: int) -> Iterator[Result]:
    """Results as they come, from processes with a thread each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _begin) as pool:
        futures: list[Future[Result]] = [pool.submit(result_of, number) for number in numbers]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def run_all(count: int, out: Path, workers: int) -> dict[int, Result]:
    """Run what the file lacks of the first `count` numbers; all results."""
    results = known(out)
    missing = [number for number in range(count) if number not in results]
    begun = shown = time.monotonic()
    print(f"{count - len(missing)} of {count} are known", flush=True)
    for done, result in enumerate(computed(missing, workers) if missing else (), 1):
        note(out, result)
        results[result["number"]] = result
        if "failure" in result:
            print(f"{last_line(result)}\n    {again(result)}", flush=True)
        if time.monotonic() - shown > 30 or done == len(missing):
            shown = time.monotonic()
            each_s = (shown - begun) / done
            left_min = each_s * (len(missing) - done) / 60
            print(
                f"{count - len(missing) + done} of {count}, {each_s:.2f} s each,"
                f" {left_min:.0f} min left",
                flush=True,
            )
    return {number: result for number, result in results.items() if number < count}


def run_some(numbers: Iterable[int], out: Path | None) -> dict[int, Result]:
    """Run these numbers here, and print what they are and what becomes of them."""
    torch.set_num_threads(1)
    results = {}
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            print(yaml.safe_dump(composition(number, Path(folder)), sort_keys=False))
        result = results[number] = result_of(number)
        print(result.get("failure", ""), json.dumps({**result, "failure": ""}), flush=True)
        if out is not None:
            note(out, result)
    return results


def table(results: Iterable[Result]) -> str:
    """Counts by protocol and outcome, and how to see each failure again."""
    results = list(results)
    counts = Counter((one.get("protocol", "?"), one["outcome"]) for one in results)
    outcomes = ["completed", "refused", "stalled", "diverged", "failed"]
    lines = ["".join(f"{head:>18}" for head in ("protocol", *outcomes))]
    for protocol in sorted({protocol for protocol, _ in counts}):
        row = [f"{counts[protocol, outcome]:,}" for outcome in outcomes]
        lines.append("".join(f"{cell:>18}" for cell in (protocol, *row)))
    totals = [f"{sum(one['outcome'] == outcome for one in results):,}" for outcome in outcomes]
    lines.append("".join(f"{cell:>18}" for cell in ("all", *totals)))
    checks = Counter(check for one in results for check in one["checks"])
    lines += [f"{times:,} times: {what}" for what, times in sorted(checks.items())]
    failures = sorted((one for one in results if "failure" in one), key=lambda one: one["number"])
    lines += [f"{last_line(one)}\n    {again(one)}" for one in failures]
    return "\n".join(lines)


def last_line(result: Result) -> str:
    """What went wrong, in short."""
    words = [line for line in result["failure"].splitlines() if line[:1].strip()]
    return f"number {result['number']} failed: {words[-1][:300]}"


def again(result: Result) -> str:
    """The command that runs it again."""
    return f"python -m benchmarks.compositions --only {result['number']}"


def _begin() -> None:
    """A worker has one thread for its work, and ends with the command, however that ends."""
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"more than {MOST_S} s")


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="+", metavar="N")
    asked = parser.parse_args(arguments)
    if asked.only is not None:
        results = run_some(asked.only, asked.out)
    elif asked.out is None:
        parser.error("--out says where results are kept")
    else:
        results = run_all(asked.count, asked.out, asked.workers)
    print(table(results.values()))
    return int(any("failure" in result for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
