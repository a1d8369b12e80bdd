"""docs/hardware.md: its worked figures and its code, by running them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from simfl.protocols.deadline_policy import DeadlinePolicy
from simfl.system.traces.tables import make_intervals
from tests.small import small

PAGE = (Path(__file__).parent.parent / "docs" / "hardware.md").read_text(encoding="utf-8")

LINKS = {
    "radio": """
kind: link
link: {name: fixed_rate, uplink_bps: 8e6, downlink_bps: 8e6, rtt_s: 0, jitter_s: 0,
       power_transmit_w: 2.5, power_receive_w: 1, power_idle_w: 0.5}
""",
    "pipe": """
kind: link
link: {name: fixed_rate, uplink_bps: 2e6, downlink_bps: 2e6, rtt_s: 0, jitter_s: 0,
       power_transmit_w: 1, power_receive_w: 1, power_idle_w: 0}
""",
}
MAX_MIN = {"name": "max_min", "access_bps": 8e6, "backhaul_bps": 2e6}
PIPE = {"name": "processor_sharing", "capacity_bps": 2e6}
ROW = re.compile(r"^\| (access point|backhaul) \| (\w+) \| ([-\w]+) \| (.*) \|$", re.MULTILINE)


@pytest.mark.parametrize("row", ROW.findall(PAGE), ids="-".join)
def test_what_sharing_takes(row: tuple[str, ...], tmp_path: Path) -> None:
    """1 MB from each of two clients: seconds, seconds on air at 2 W, joules beyond idle power."""
    server, access, backhaul, figures = row
    for name, text in LINKS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    population: dict[str, Any] = {
        "clients": 2,
        "edges": 1,
        "profiles": [str(tmp_path)],
        "groups": [{"device": "rpi_4b", "link": "radio", "share": 1.0}],
        "speed_spread": 0.0,
        "access_sharing": MAX_MIN if access == "max_min" else access,
    }
    if server == "backhaul":
        shared = PIPE if backhaul == "processor_sharing" else backhaul
        population |= {"server_behind": server, "backhaul": "pipe", "backhaul_sharing": shared}
    one = small(
        data={"name": "sizes", "examples_per_client": 1, "input_shape": [24_999], "outputs": 10},
        model="linear",
        population=population,
        algorithm={"name": "none", "local": {"steps": 1}},
        stop={"versions": 1},
    )

    uploads = simfl.run(one, tmp_path / "run").events.query("kind == 'upload'")

    assert uploads["bytes"].tolist() == [1_000_000] * 2
    seconds, on_air_s, joules = (float(one) for one in figures.split(" | "))
    np.testing.assert_allclose(uploads["duration_s"], seconds)
    np.testing.assert_allclose(uploads["active_j"], joules)
    assert joules == 2.0 * on_air_s


def test_the_table_of_what_sharing_takes_is_found() -> None:
    """All of its rows are run above."""
    assert len(ROW.findall(PAGE)) == 7


def test_who_of_a_trace_is_there_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's own code, on two phones: one from two to four o'clock, one the whole day."""
    clients, starts, ends = np.array([0, 1]), np.array([7200.0, 0.0]), np.array([14400.0, 86400.0])
    intervals, _ = make_intervals(clients, starts, ends, np.full(2, 86400.0))
    intervals.write(tmp_path / "phones.parquet")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(import pandas as pd\n\nstays.*?)```", PAGE, re.DOTALL)

    exec(code, {})

    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "offset_s: 7200: 2 of 2"
    assert lines[4] == "offset_s: 14400: 1 of 2"
    assert [line.endswith("2 of 2") for line in lines].count(True) == 2


def test_who_is_asked_and_who_is_merged() -> None:
    """The page's counts under an over-selection of 1.3."""
    assert "`count` of 10 asks 10 and merges 8, and if only 5 are there, 5 are asked and 4" in PAGE

    found = [DeadlinePolicy(over_selection=1.3).wanted(asked) for asked in (13, 10, 5)]

    assert found == [10, 8, 4]
