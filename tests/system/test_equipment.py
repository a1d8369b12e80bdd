"""What a run leaves of its hardware: the clients' own figures, and the machines'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfl
from simfl.runs.runfolder import LoadedRun
from tests.small import SEMI_ASYNCHRONOUS, small

PHONES = [{"device": "phone_high_sd865", "link": "cell_umi", "count": 8}]
BOARDS = [{"device": "rpi_4b", "link": "wifi5_ac", "count": 8}]


def timed(
    folder: Path, groups: list[dict[str, Any]], protocol: Any = "synchronous", **population: Any
) -> LoadedRun:
    """One version without learning."""
    scenario = small(
        algorithm={"name": "none", "local": {"steps": 1, "batch_size": 16}},
        population={"groups": groups, **population},
        protocol=protocol,
        stop={"versions": 1},
    )
    return simfl.run(scenario, folder)


def test_places_and_batteries_stand_where_they_matter(tmp_path: Path) -> None:
    """For phones in a cell, but not for boards on Wi-Fi and mains power."""
    phones = timed(tmp_path / "phones", PHONES)
    boards = timed(tmp_path / "boards", BOARDS)

    optional = {"x_m", "y_m", "battery_j"}
    assert optional & set(phones.clients) == optional
    assert not optional & set(boards.clients)
    assert phones.clients["battery_j"].tolist() == [62650.0] * 8
    assert np.shape(phones.hardware["access_points_m"]) == (2, 2)


@pytest.mark.parametrize(("protocol", "tiers"), [("synchronous", False), (SEMI_ASYNCHRONOUS, True)])
def test_tiers_stand_where_there_are_some(protocol: Any, tiers: bool, tmp_path: Path) -> None:
    """Edge servers and the backhaul; a processor and a link say what they are."""
    hardware = timed(tmp_path / "run", BOARDS, protocol=protocol).hardware

    assert ({"edge_server", "backhaul"} <= set(hardware)) == tiers
    assert hardware["devices"]["rpi_4b"]["processor"]["part"] == "Cpu"
    assert hardware["links"]["wifi5_ac"]["part"] == "FixedRateLink"
    assert "unverified" not in json.dumps(hardware)


def test_what_a_users_own_part_holds_is_told_as_text(tmp_path: Path) -> None:
    """A processor may have fields of any type."""
    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass, field\n"
        "from simfl.system.cpu import Cpu\n"
        "class Table:\n"
        "    def __repr__(self):\n"
        "        return 'a table'\n"
        "@dataclass(frozen=True)\n"
        "class Own(Cpu):\n"
        "    table: object = field(default_factory=Table)\n"
    )
    (tmp_path / "board.yaml").write_text(
        "kind: device\ndevice_class: own\npower_idle_w: 1.0\nmemory_bytes: 1.0e9\n"
        "processor: {name: 'own.py:Own', cores: 1, frequency_min_hz: 1.0e9, kappa: 1.0e-28,\n"
        "  frequency_max_hz: 1.0e9, cycles_per_example: 1.0e6}\n"
    )
    groups = [{"device": "board", "link": "wifi5_ac", "count": 8}]
    run = timed(tmp_path / "run", groups, profiles=[str(tmp_path)])

    assert run.hardware["devices"]["board"]["processor"]["table"] == "a table"
    assert run.clients["cycles_per_example"].tolist() == [1e6] * 8
