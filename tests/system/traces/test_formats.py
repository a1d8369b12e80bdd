"""Other projects' trace files, in small, and the real ones where they are."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from simfl.cli.app import app
from simfl.system.catalogue import Catalogue, shipped_folder
from simfl.system.traces.convert import (
    FORMATS,
    IntervalFormat,
    RateFormat,
    capacities_in,
    convert,
)
from simfl.system.traces.tables import TraceError, read_capacities, read_intervals

STATES = """2020-01-02 01:00:00\t50%
2020-01-02 01:00:10\tbattery_charged_on
2020-01-02 01:00:20\tWIFI
2020-01-02 01:00:30\tscreen_off
2020-01-02 01:00:40\tscreen_lock
2020-01-02 01:10:40\tscreen_unlock
2020-01-02 01:20:00\tscreen_lock
2020-01-02 01:30:00\t4g
2020-01-02 02:00:00\twifi
2020-01-02 02:59:60
"""

HEAD = "client,start_s,end_s\n"
TIMER = {"isSuccess": True, "trace_start": 0, "trace_end": 9, "ready_time": []}
THERE = {"active": [1], "inactive": [2], "finish_time": 9}


def put(path: Path, content: Any) -> Path:
    """A file with the content: JSON, a pickle or text, by its name."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(content))
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_flash_states(tmp_path: Path) -> None:
    """Ready is locked, on Wi-Fi and charging; times wrap modulo the trace, the cut end is left out.

    The trace runs from 3600 s to 7200 s, so that 3640 s is second 40 of an hour's period.
    """
    messages = STATES.replace("2020-01-02 02:59:60\n", "") + "2020-01-02 02:00:00\t51%\n"
    users = {
        "a": {"guid": "g", "model": "m", "messages": messages},
        "b": {"guid": "g", "model": "m", "messages": "2020-01-02 01:00:00\tflying\n"},
        "c": {"guid": "g", "model": "m", "messages": ""},
        "d": {"guid": "g", "model": "m", "messages": STATES},
    }

    line = convert("flash-states", put(tmp_path / "s.json", users), tmp_path / "s.parquet")

    found = read_intervals(tmp_path / "s.parquet")
    assert found.clients == 1
    assert found.start_s.tolist() == [40.0, 1200.0]
    assert found.end_s.tolist() == [640.0, 1800.0]
    assert found.period_s.tolist() == [3600.0]
    assert "1 clients with 2 intervals, available 33.3% of the time" in line
    assert "3 malformed" in line


def test_flash_intervals(tmp_path: Path) -> None:
    """Cut to two days; no length and no overlap with them is left out; numbers are kept."""
    text = "client,start_s,end_s\n3,10,20\n3,15,30\n1,-50,5\n0,7,7\n0,172900,173000\n"

    convert("flash-intervals", put(tmp_path / "i.csv.gz", text), tmp_path / "i.parquet")

    found = read_intervals(tmp_path / "i.parquet")
    assert found.clients == 4
    assert list(zip(found.client, found.start_s, found.end_s, strict=True)) == [
        (1, 0.0, 5.0),
        (3, 10.0, 30.0),
    ]
    assert (found.period_s == 172_800).all()


@pytest.mark.parametrize(
    ("name", "bits"), [("flash-speeds-kib", 8192), ("flash-speeds-kbit", 1000)]
)
def test_flash_speeds(tmp_path: Path, name: str, bits: float) -> None:
    """One file, two readings of its unit."""
    text = "profile,down_mean,down_std,up_mean,up_std\n0,100,1,50,1\n1,200,1,80,1\n"

    convert(name, put(tmp_path / "s.csv", text), tmp_path / "s.parquet")

    found = read_capacities(tmp_path / "s.parquet")
    assert found.downlink_bps.tolist() == [100 * bits, 200 * bits]
    assert found.uplink_bps.tolist() == [50 * bits, 80 * bits]
    assert np.isnan(found.seconds_per_example).all()


def test_flhetbench_timers(tmp_path: Path) -> None:
    """Times modulo each phone's trace; phones without success are left out."""
    timers = {
        "7": {
            "isSuccess": True,
            "trace_start": 1000.0,
            "trace_end": 1400.0,
            "ready_time": [[1010.0, 1020.0], [1190.0, 1210.0], [1300.0, 1300.0]],
        },
        "8": {"isSuccess": False, "trace_start": None, "trace_end": None, "ready_time": []},
    }

    convert("flhetbench-timers", put(tmp_path / "t.json", timers), tmp_path / "t.parquet")

    found = read_intervals(tmp_path / "t.parquet")
    assert list(zip(found.start_s, found.end_s, strict=True)) == [
        (0.0, 10.0),
        (210.0, 220.0),
        (390.0, 400.0),
    ]
    assert found.period_s.tolist() == [400.0]


def test_flhetbench_latencies(tmp_path: Path) -> None:
    """Milliseconds to seconds; phones without the model are left out."""
    phones = [
        {"Phone Model": "a", "Vit Latency": 334.0, "ResNet Latency": 54.22, "ResNet STD": 0.3},
        {"Phone Model": "b", "ResNet Latency": 47.0, "ResNet STD": 0},
    ]
    source = put(tmp_path / "l.json", phones)

    for name, seconds in (("flhetbench-resnet", [0.05422, 0.047]), ("flhetbench-vit", [0.334])):
        convert(name, source, tmp_path / "l.parquet")
        found = read_capacities(tmp_path / "l.parquet")
        np.testing.assert_allclose(found.seconds_per_example, seconds)
        assert np.isnan(found.uplink_bps).all()


def test_mobiperf(tmp_path: Path) -> None:
    """The mean of a record's speeds, kbit/s, for both directions."""
    records = [{"tcp_speed_results": [1000, 3000.0]}, {"tcp_speed_results": []}, {}]

    line = convert("mobiperf", put(tmp_path / "m.json", records), tmp_path / "m.parquet")

    found = read_capacities(tmp_path / "m.parquet")
    assert found.uplink_bps.tolist() == found.downlink_bps.tolist() == [2e6]
    assert "2 malformed" in line


def test_fedscale(tmp_path: Path) -> None:
    """Availability modulo finish_time; three inferences per example, units of 1024 bit/s."""
    behaviour = {
        5: {
            "duration": 9,
            "inactive": [20, 50],
            "finish_time": 100,
            "active": [10, 30],
            "model": "",
        },
        6: {"duration": 9, "inactive": [], "finish_time": 50, "active": [], "model": ""},
    }
    capacity = {
        1: {"computation": 162.0, "communication": 5648.0},
        2: {"computation": 0, "communication": 1.0},
    }

    convert("fedscale-behaviour", put(tmp_path / "b.pkl", behaviour), tmp_path / "b.parquet")
    convert("fedscale-capacity", put(tmp_path / "c.pkl", capacity), tmp_path / "c.parquet")

    there = read_intervals(tmp_path / "b.parquet")
    assert there.start_s.tolist() == [10.0, 30.0]
    assert there.end_s.tolist() == [20.0, 50.0]
    assert there.period_s.tolist() == [100.0, 50.0]
    able = read_capacities(tmp_path / "c.parquet")
    np.testing.assert_allclose(able.seconds_per_example, [0.486])
    np.testing.assert_allclose(able.uplink_bps, [5648 * 1024])


def test_a_table_with_a_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    """What a spreadsheet writes is read."""
    text = "\ufeffclient,start_s,end_s\r\n1,10,20\r\n"

    convert("flash-intervals", put(tmp_path / "i.csv", text.encode()), tmp_path / "i.parquet")

    assert read_intervals(tmp_path / "i.parquet").start_s.tolist() == [10.0]


BATCH_TIMES = """task,tier,measured_phone,benchmark_device,mean_ms,std_ms
femnist,slow,old,Old 1,1000,100
femnist,fast,new,New 9,200,0
shakespeare,mid,so_so,Mid 5,3000,60
"""


def test_flash_batch_times(tmp_path: Path) -> None:
    """Each row is a profile: seconds as measured, the rest of a phone of the catalogue."""
    told = convert("flash-batch-times", put(tmp_path / "b.csv", BATCH_TIMES), tmp_path / "phones")

    catalogue = Catalogue([tmp_path / "phones"])
    slow, fast = (catalogue.device(f"flash_femnist_{tier}") for tier in ("slow", "fast"))
    stand_in = catalogue.device("phone_entry_heliog80")
    for device, batch_s in ((slow, 1.0), (fast, 0.2)):
        cycles = device.processor.cycles(10, 1e9)
        cost = device.processor.compute(cycles, device.processor.frequency_max_hz)
        assert cost.duration_s == pytest.approx(batch_s)
    assert slow.processor.power_law() == stand_in.processor.power_law()
    assert slow.battery_j == stand_in.battery_j
    assert set(slow.sources) == {"processor.seconds_per_batch"}
    assert "old, 1000 ms, deviation 100 ms" in slow.sources["processor.seconds_per_batch"]
    profile = catalogue.profile("device", "flash_shakespeare_mid")
    assert profile.values["processor"]["batch_examples"] == 100
    assert sorted([*profile.sources, *profile.unverified]) == sorted(profile.figures())
    # What is told is a population, in which tiers are as frequent as among FLASH's users.
    first, _, text = told.partition("\n")
    assert first.startswith(f"{tmp_path / 'phones'}: 3 device profiles, of femnist, shakespeare. ")
    groups = yaml.safe_load(text)["population"]["groups"]
    assert [group["device"] for group in groups] == ["flash_femnist_slow", "flash_femnist_fast"]
    assert groups[0]["share"] == pytest.approx(18820 / (18820 + 159), abs=1e-4)
    assert sum(group["share"] for group in groups) == pytest.approx(1.0)
    assert [group["compute_noise"] for group in groups] == [0.1, 0.0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("femnist,slow,x,X,a,1", "b.csv:2: accepted: numbers, found a, 1"),
        ("femnist,slow,x,X,0,1", "b.csv:2: accepted: mean_ms above 0.*found 0, 1"),
        ("femnist,slow,x,X,nan,1", "b.csv:2: accepted: mean_ms above 0.*found nan, 1"),
        ("femnist,huge,x,X,1,1", "b.csv:2: tier: found 'huge', accepted: slow, mid, fast"),
        ("../x,slow,x,X,1,1", "b.csv:2: task: found '../x', accepted: a name"),
        ("a,mid,x,X,1,1\na,mid,y,Y,1,1", "b.csv:3: a, mid: given twice"),
        ("", "b.csv: holds no batch time"),
    ],
)
def test_batch_times_that_are_none(tmp_path: Path, row: str, message: str) -> None:
    """The line at fault is named, and nothing is written."""
    head = BATCH_TIMES.partition("\n")[0]

    with pytest.raises(TraceError, match=message):
        convert("flash-batch-times", put(tmp_path / "b.csv", f"{head}\n{row}\n"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_of_other_projects_as_they_are(tmp_path: Path) -> None:
    """A table in its format is what its conversion is; formats are named by what they hold."""
    text = "up_mean,down_mean\n100,200\n"
    source = put(tmp_path / "s.csv", text)
    convert("flash-speeds-kib", source, tmp_path / "s.parquet")

    direct = capacities_in(source, "flash-speeds-kib")
    converted = capacities_in(tmp_path / "s.parquet", None)

    assert direct.uplink_bps.tolist() == converted.uplink_bps.tolist() == [819_200.0]
    told = {name for name, one in FORMATS.items() if one.about.endswith(": availability")}
    assert told == {*get_args(IntervalFormat)}
    assert {*get_args(RateFormat)} < {*FORMATS} - told


@pytest.mark.data
def test_the_shipped_phones_are_those_of_the_table(tmp_path: Path) -> None:
    """The catalogue's profiles of FLASH's FEMNIST phones, made anew of the real table."""
    source = Path(os.environ["SIMFL_DATA"]) / "device_traces" / "flash_batch_train_time.csv"

    convert("flash-batch-times", source, tmp_path / "phones")

    assert len(list((tmp_path / "phones").iterdir())) == 12
    for tier in ("slow", "mid", "fast"):
        name = f"flash_femnist_{tier}.yaml"
        assert (tmp_path / "phones" / name).read_text() == (shipped_folder() / name).read_text()


@pytest.mark.parametrize("trace_format", FORMATS)
def test_a_folder_is_no_trace(tmp_path: Path, trace_format: str) -> None:
    """One line, whatever the format."""
    with pytest.raises(TraceError, match=str(tmp_path)):
        convert(trace_format, tmp_path, tmp_path / "out.parquet")


@pytest.mark.parametrize("trace_format", FORMATS)
def test_a_name_that_no_file_can_have(tmp_path: Path, trace_format: str) -> None:
    """The system refuses it, which is one line."""
    with pytest.raises(TraceError, match="an unreadable file"):
        convert(trace_format, tmp_path / ("x" * 5000), tmp_path / "out.parquet")


def test_a_table_that_cannot_be_written(tmp_path: Path) -> None:
    """The path to write is named."""
    source = put(tmp_path / "i.csv", "client,start_s,end_s\n1,10,20\n")

    with pytest.raises(TraceError, match=r"nowhere/i\.parquet: cannot be written"):
        convert("flash-intervals", source, tmp_path / "nowhere" / "i.parquet")


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("flash-states", "x.json", "[" * 100_000, "nested without end"),
        ("flash-states", "x.json", '{"a": ' + "9" * 5000 + "}", "not JSON: Exceeds the limit"),
        ("flash-states", "x.json", b"\xff\xfe{\0}\0", "a byte that is not UTF-8 at offset 0"),
        (
            "flash-intervals",
            "x.csv",
            HEAD + "1000000000000,2,3\n",
            "client: found 1000000000000 in",
        ),
        (
            "flash-intervals",
            "x.csv",
            HEAD + "1.5,2,3\n",
            "client: found 1.5 in row 0, accepted: who",
        ),
        ("flash-intervals", "x.csv", HEAD, "client: found no row"),
        ("flash-intervals", "x.csv", HEAD + "0,1,2\n0,9,4\n", "1 intervals end before they start"),
        ("flash-intervals", "x.csv", "x" * 200_000, "not a table: field larger than field limit"),
        ("flash-intervals", "x.csv", HEAD + "0," + "9" * 200_000, "not a table: field larger than"),
        ("flash-intervals", "x.csv", HEAD + "0," + "9" * 90_000 + ",3\n", "x.csv:2: accepted: num"),
        ("flash-intervals", "x.csv", HEAD.encode("utf-16"), "a byte that is not UTF-8 at offset 0"),
        (
            "flash-intervals",
            "x.csv",
            "client,client,start_s,end_s\n1,1,2,3\n",
            "the columns client",
        ),
        ("flash-intervals", "x.csv", "", "the columns client"),
        ("flash-intervals", "x.csv.gz", b"\x1f\x8b\x08cut", "an unreadable file"),
        ("flash-speeds-kib", "x.csv", "up_mean,down_mean\n-1,3\n", "up_mean and down_mean above 0"),
        ("flhetbench-timers", "x.json", {"1": TIMER | {"trace_end": 10**400}}, "no readable timer"),
        ("flhetbench-timers", "x.json", {"1": TIMER | {"trace_end": np.inf}}, "holds no phone"),
        ("flhetbench-resnet", "x.json", [{"ResNet Latency": 10**400}], "for 'ResNet Latency'"),
        ("flhetbench-resnet", "x.json", [{"ResNet Latency": np.nan}], "for 'ResNet Latency'"),
        (
            "mobiperf",
            "x.json",
            [{"tcp_speed_results": [10**400]}],
            "records with tcp_speed_results",
        ),
        ("mobiperf", "x.json", [{"tcp_speed_results": [True]}], "records with tcp_speed_results"),
        (
            "fedscale-behaviour",
            "x.pkl",
            {1: THERE | {"finish_time": float("inf")}},
            "found inf, acc",
        ),
        ("fedscale-behaviour", "x.pkl", {1: THERE | {"finish_time": 10**400}}, "no readable entry"),
        (
            "fedscale-behaviour",
            "x.pkl",
            {1: THERE | {"finish_time": 1e-9}},
            "found 1e-09, accepted",
        ),
        ("fedscale-capacity", "x.pkl", {1: {"computation": 10**400}}, "no readable entry"),
        (
            "fedscale-capacity",
            "x.pkl",
            {1: {"computation": 0, "communication": 1}},
            "found 1 entries, none",
        ),
        ("flash-states", "x.json", "[1]", "accepted: a JSON object"),
        ("flash-states", "x.json", "{", "not JSON"),
        ("flash-states", "x.json", {"a": {"messages": 3}}, "holds no user with a readable trace"),
        ("flash-intervals", "x.csv", "client,start\n", "the columns client, start_s, end_s"),
        ("flash-intervals", "x.csv", "client,start_s,end_s\n1,a,3\n", "x.csv:2: accepted: numbers"),
        ("flash-intervals", "x.csv", "client,start_s,end_s\n1,nan,3\n", "x.csv:2: accepted: num"),
        ("flash-intervals", "x.csv", "client,start_s,end_s\n-1,2,3\n", "numbered from 0"),
        ("flhetbench-timers", "x.json", {"1": {}}, "1: no readable timer"),
        ("flhetbench-timers", "x.json", {"1": {"isSuccess": False}}, "holds no phone"),
        ("flhetbench-resnet", "x.json", [{"Vit Latency": 3}], "a number for 'ResNet Latency'"),
        ("mobiperf", "x.json", [{}], "accepted: records with tcp_speed_results"),
        ("fedscale-behaviour", "x.pkl", [1], "accepted: a pickled dictionary"),
        ("fedscale-behaviour", "x.pkl", {1: {"active": [1]}}, "client 1: no readable entry"),
        (
            "fedscale-behaviour",
            "x.pkl",
            {1: {"active": [], "inactive": [], "finish_time": 0}},
            "finish_time: found 0, accepted: 1 to 1e+09",
        ),
        ("fedscale-capacity", "x.pkl", {1: {"computation": "x"}}, "client 1: no readable entry"),
    ],
)
def test_malformed_files(tmp_path: Path, name: str, file: str, content: Any, message: str) -> None:
    """A file that is something else ends with one line that names it, and leaves no table."""
    source = put(tmp_path / file, content)

    with pytest.raises(TraceError) as caught:
        convert(name, source, tmp_path / "out.parquet")

    assert message in str(caught.value)
    assert str(source) in str(caught.value)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_an_absent_file(tmp_path: Path, name: str) -> None:
    """Every reader says that the file is not there."""
    with pytest.raises(TraceError, match="no such file"):
        convert(name, tmp_path / "absent.json", tmp_path / "out.parquet")


def test_the_command(tmp_path: Path) -> None:
    """`simfl convert-trace` writes the table and says what it holds; mistakes end with code 2."""
    source = put(tmp_path / "m.json", [{"tcp_speed_results": [1000]}])

    def command(*arguments: object) -> Any:
        return CliRunner().invoke(app, ["convert-trace", *map(str, arguments)])

    good = command("mobiperf", source, tmp_path / "m.parquet")
    assert (good.exit_code, "median uplink bit/s 1e+06" in good.stdout) == (0, True)
    for arguments in (("mobiperv", source), ("mobiperf", tmp_path / "none.json")):
        bad = command(*arguments, tmp_path / "x.parquet")
        assert (bad.exit_code, bad.stderr.count("\n")) == (2, 1)


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "clients", "share"), [("strict", 3477, 0.079), ("loose", 3478, 0.098)]
)
def test_real_flash_availability(tmp_path: Path, kind: str, clients: int, share: float) -> None:
    """The real intervals of FLASH's phones: how many, and how much of the time they are there."""
    root = Path(os.environ["SIMFL_DATA"]) / "device_traces"

    convert(
        "flash-intervals", root / f"flash_availability_{kind}.csv.gz", tmp_path / "real.parquet"
    )

    found = read_intervals(tmp_path / "real.parquet")
    assert found.clients == clients
    assert found.share.mean() == pytest.approx(share, abs=0.004)
    assert found.share.max() <= 1.0
