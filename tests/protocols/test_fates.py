"""What becomes of clients' rounds is counted as the event log tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.small import SEMI_ASYNCHRONOUS, simulated, small

SHARED = {"access_sharing": {"name": "processor_sharing", "capacity_bps": 2e7}}


@pytest.mark.parametrize("sharing", [{}, SHARED], ids=["dedicated", "shared"])
@pytest.mark.parametrize("protocol", ["asynchronous", SEMI_ASYNCHRONOUS], ids=["flat", "tiers"])
def test_fates_are_those_of_the_log(
    protocol: str | dict[str, Any], sharing: dict[str, Any], tmp_path: Path
) -> None:
    """Rounds that the end of the run cuts off have none; each other one has one."""
    _, run = simulated(
        small(
            population={
                "availability": {
                    "name": "renewal",
                    "present": {"mean_s": 0.3},
                    "absent": {"mean_s": 0.1},
                },
                "leaving": "abort",
                "message_loss": {"probability": 0.2, "timeout_s": 0.01, "attempts_max": 1},
                "faults": {
                    "clients": {"works": {"mean_s": 2}, "broken": {"mean_s": 0.5}},
                    "edge_servers": {"works": {"mean_s": 3}, "broken": {"mean_s": 0.5}},
                },
                **sharing,
            },
            algorithm={"name": "none", "local": {"epochs": 40, "batch_size": 16}},
            protocol=protocol,
            stop={"versions": 25},
        ),
        tmp_path,
    )

    events = pd.read_parquet(tmp_path / "events.parquet")
    of_clients = events[events["client"].notna()]
    messages = of_clients[of_clients["kind"].isin(["download", "compute", "upload"])]
    begun = (messages["kind"] == "download").sum()
    cut_off = (messages["cut_by"] == "end").sum()
    ends = of_clients[of_clients["detail"].fillna("").str.contains('"ends"')]["kind"]
    fates = run.fates
    assert sum(fates.values()) == begun - cut_off
    assert fates["arrived"] == ((messages["kind"] == "upload") & (messages["bytes"] > 0)).sum() > 0
    assert fates["unavailable"] == (ends == "unavailable").sum() > 0
    assert fates["crash"] == (ends == "crash").sum()
    assert fates["lost"] > 0
