"""Every second and joule follows from the run folder and docs/seconds_and_joules.md alone.

Nothing of simfl computes here but the run itself: the formulas are written out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import simfl
from simfl.runs.runfolder import LoadedRun
from simfl.system.catalogue import shipped_folder
from tests.small import SEMI_ASYNCHRONOUS, small

EPOCHS = 2
BATCH = 16
CLOSE = {"rel": 1e-9, "abs": 1e-15}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    """Raspberry Pis on Wi-Fi and phones on LTE whose latencies do not vary, each another one.

    A step of a Pi has a fixed time, too.
    """
    folder = tmp_path_factory.mktemp("run")
    for name in ("wifi5_ac", "lte_2021"):
        text = (shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if "unverified" not in line]
        still = "\n".join(line for line in lines if "  jitter_s:" not in line)
        (folder / f"{name}_still.yaml").write_text(still)
    text = (
        (shipped_folder() / "rpi_4b.yaml")
        .read_text(encoding="utf-8")
        .replace(
            "  bandwidth_bytes_per_s",
            "  seconds_per_step: 0.01\n  seconds_per_training: 0.5\n  bandwidth_bytes_per_s",
            1,
        )
    )
    (folder / "rpi_4b.yaml").write_text(text)
    scenario = small(
        population={
            "profiles": [str(folder)],
            "groups": [
                {"device": "rpi_4b", "link": "wifi5_ac_still", "share": 0.5},
                {"device": "phone_high_sd865", "link": "lte_2021_still", "share": 0.5},
            ],
            "speed_spread": 0.4,
            "rate_spread": 0.4,
        },
        decisions={"allocation": {"name": "capped", "frequency_hz": 1.5e9}},
        algorithm={"local": {"epochs": EPOCHS, "batch_size": BATCH}},
        protocol=SEMI_ASYNCHRONOUS,
        stop={"versions": 6},
    )
    return simfl.run(scenario, folder / "run")


def rows_of(run: LoadedRun, kind: str) -> list[dict[str, Any]]:
    """Clients' events of one kind with their details, and their clients' rows beside them."""
    rows = run.details(kind).dropna(subset="client")
    whole = rows[rows["cut_by"].isna()]
    joined = whole.merge(run.clients, on="client", suffixes=("", "_of_client"))
    found: list[dict[str, Any]] = joined.to_dict("records")
    return found


def radio_rests_s(run: LoadedRun, row: dict[str, Any]) -> float:
    """Seconds from the end of the client's message before this row's begin; inf: the first."""
    messages = run.events[run.events["kind"].isin(["download", "upload"])]
    own = messages[(messages["client"] == row["client"]) & (messages["seq"] != row["seq"])]
    before = own["time_s"][own["time_s"] <= row["start_s"] * (1 + 1e-12)]
    return float(row["start_s"] - before.max()) if len(before) else np.inf


@pytest.mark.parametrize(
    ("kind", "rate", "power", "slope"),
    [
        ("download", "downlink_bps", "power_receive_w", "slope_down_w_per_bps"),
        ("upload", "uplink_bps", "power_transmit_w", "slope_up_w_per_bps"),
    ],
)
def test_messages(run: LoadedRun, kind: str, rate: str, power: str, slope: str) -> None:
    """Promotion, half a round trip and the bits; both of the latter at the radio's power."""
    rows = rows_of(run, kind)

    assert {row["link"] for row in rows} == {"wifi5_ac_still", "lte_2021_still"}
    for row in rows:
        link = run.hardware["links"][row["link"]]
        assert row[rate] != link[rate]
        asleep = radio_rests_s(run, row) > link["tail_s"]
        promotion_s = link["promotion_s"] if asleep else 0.0
        active_s = link["rtt_s"] / 2 + 8 * row["bytes"] / row[rate]
        radio_w = link[power] + link[slope] * row[rate] - link["power_idle_w"]
        wakes_w = link["power_promotion_w"] - link["power_idle_w"]
        duration_s = promotion_s + active_s
        active_j = radio_w * active_s + wakes_w * promotion_s
        assert row["duration_s"] == pytest.approx(duration_s, **CLOSE)
        assert row["active_j"] == pytest.approx(active_j, **CLOSE)
        assert row["energy_j"] == pytest.approx(
            active_j + row["power_idle_w"] * duration_s, **CLOSE
        )


def core_power_w(processor: dict[str, Any], frequency_hz: float) -> float:
    """What a busy core draws beyond the device's idle power."""
    if processor["power_table"] is not None:
        return float(np.interp(frequency_hz, *np.array(processor["power_table"]).T))
    dynamic_w = processor["kappa"] * frequency_hz ** processor["exponent"]
    return float(processor["power_static_w"] + dynamic_w)


def test_computations(run: LoadedRun) -> None:
    """Cycles of all passes, divided by the client's speed; n cores; the radio's tail beside it."""
    rows = rows_of(run, "compute")

    assert {row["device"] for row in rows} == {"rpi_4b", "phone_high_sd865"}
    assert len({row["speed_factor"] for row in rows}) == 8
    for row in rows:
        device = run.hardware["devices"][row["device"]]
        processor, link = device["processor"], run.hardware["links"][row["link"]]
        assert row["frequency_hz"] == {"rpi_4b": 1.5e9}.get(row["device"], 1.4016e9)
        steps = EPOCHS * np.ceil(row["num_examples"] / BATCH)
        nominal = row["cycles_per_example"] * EPOCHS * row["num_examples"]
        nominal += row["cycles_per_step"] * steps + row["cycles_per_training"]
        cycles = nominal / row["speed_factor"]
        duration_s = cycles / (processor["cores"] * row["frequency_hz"])
        core_s = cycles / row["frequency_hz"]
        tail_s = min(duration_s, link["tail_s"])
        active_j = core_power_w(processor, row["frequency_hz"]) * core_s
        active_j += (link["power_tail_w"] - link["power_idle_w"]) * tail_s
        assert row["cycles"] == pytest.approx(cycles, **CLOSE)
        assert row["duration_s"] == pytest.approx(duration_s, **CLOSE)
        assert row["energy_j"] == pytest.approx(
            active_j + row["power_idle_w"] * duration_s, **CLOSE
        )


def test_accelerators_wait_at_a_share_of_their_power(tmp_path: Path) -> None:
    """A step's fixed time at `stall_utilization`; without the key at full power, as long."""
    text = (shipped_folder() / "jetson_nano.yaml").read_text(encoding="utf-8")
    found = {}
    for key in ("  stall_utilization: 0.2\n", ""):
        fixed = f"  seconds_per_step: 0.01\n  seconds_per_training: 0.7\n{key}  efficiency"
        (tmp_path / "jetson_nano.yaml").write_text(text.replace("  efficiency", fixed, 1))
        scenario = small(
            population={
                "profiles": [str(tmp_path)],
                "groups": [{"device": "jetson_nano", "link": "ethernet_1g"}],
                "speed_spread": 0.4,
                "compute_noise": 0.3,
            },
            decisions={"allocation": {"name": "capped", "frequency_hz": 7e8}},
            algorithm={"local": {"epochs": EPOCHS, "batch_size": BATCH}},
        )
        found[key] = simfl.run(scenario, tmp_path / f"run{len(found)}")

    for key, run in found.items():
        share = 0.2 if key else 1.0
        processor = run.hardware["devices"]["jetson_nano"]["processor"]
        added_w = processor["power_active_w"] - processor["power_idle_w"]
        assert processor["stall_utilization"] == share
        for row in rows_of(run, "compute"):
            steps = EPOCHS * np.ceil(row["num_examples"] / BATCH)
            nominal = row["cycles_per_example"] * EPOCHS * row["num_examples"]
            nominal += row["cycles_per_step"] * steps + row["cycles_per_training"]
            fixed_s = processor["seconds_per_step"] * steps + processor["seconds_per_training"]
            fixed = fixed_s * processor["frequency_max_hz"]
            powered = row["cycles"] * (1.0 - (1.0 - share) * fixed / nominal)
            active_j = added_w * powered / processor["frequency_max_hz"]
            assert row["dynamic_j"] == pytest.approx(active_j, **CLOSE)
            assert row["active_j"] == pytest.approx(active_j + row["tail_j"], **CLOSE)
    with_key, without = (run.events.query("kind == 'compute'") for run in found.values())
    assert with_key["duration_s"].tolist() == without["duration_s"].tolist()
    assert (with_key["active_j"] < 0.25 * without["active_j"]).all()


def test_work_of_a_float_rated_processor(run: LoadedRun) -> None:
    """Three forward passes at the rates, and traffic at the bandwidth, whatever the clock."""
    dense, traffic_bytes = 2 * (64 * 12 + 12 * 10), 4 * ((64 + 12) + (12 + 12) + (12 + 10))
    for row in run.clients.to_dict("records"):
        processor = run.hardware["devices"][row["device"]]["processor"]
        per_s = processor["cores"] * processor["frequency_max_hz"]
        rate, bandwidth = processor["efficiency"] * processor["flops_per_s"], np.inf
        if processor["rates"] is not None:
            rate, bandwidth = processor["rates"]["dense"], processor["bandwidth_bytes_per_s"]
        cycles = 3 * (dense / rate + traffic_bytes / bandwidth) * per_s * row["work_factor"]
        assert row["cycles_per_example"] == pytest.approx(cycles, **CLOSE)
        step_s = {"rpi_4b": 0.01}.get(row["device"], 0.0)
        training_s = {"rpi_4b": 0.5}.get(row["device"], 0.0)
        assert processor["seconds_per_step"] == step_s
        assert row["cycles_per_training"] == pytest.approx(
            training_s * per_s * row["work_factor"], **CLOSE
        )
        assert row["cycles_per_step"] == pytest.approx(step_s * per_s * row["work_factor"], **CLOSE)


def test_waiting(run: LoadedRun) -> None:
    """Idle power, and the radio's tail while it lasts."""
    for kind, power in (("idle", "power_idle_w"), ("tail", "power_tail_w")):
        for row in rows_of(run, kind):
            link = run.hardware["links"][row["link"]]
            beyond_w = link[power] - link["power_idle_w"]
            drawn_w = row["power_idle_w"] + beyond_w
            assert row["energy_j"] == pytest.approx(drawn_w * row["duration_s"], **CLOSE)


@pytest.mark.parametrize(
    ("kind", "server"), [("edge_aggregate", "edge_server"), ("cloud_aggregate", "cloud_server")]
)
def test_aggregations(run: LoadedRun, kind: str, server: str) -> None:
    """Whatever takes longer, 2 K P operations or K + 1 models through memory, and the overhead."""
    one = run.hardware[server]
    processor = one["processor"]
    model_bytes = 4 * (64 * 12 + 12 + 12 * 10 + 10)
    idle_w = one["power_idle_w"]
    if server == "edge_server":
        idle_w += run.hardware["backhaul"]["power_idle_w"]
    rows: pd.DataFrame = run.details(kind).query("cut_by.isna()")

    assert len(rows) > 0
    for row in rows.to_dict("records"):
        flops = 2 * row["updates"] * model_bytes / 4
        compute_s = flops / (processor["efficiency"] * processor["flops_per_s"])
        memory_s = (row["updates"] + 1) * model_bytes / one["memory_bandwidth_bytes_per_s"]
        duration_s = max(compute_s, memory_s) + one["overhead_s"]
        busy_w = processor["power_active_w"] - processor["power_idle_w"]
        assert row["duration_s"] == pytest.approx(duration_s, **CLOSE)
        assert row["energy_j"] - row["tail_j"] == pytest.approx(
            (idle_w + busy_w) * duration_s, **CLOSE
        )
