"""What-if runs of the energy analysis: what changes, what does not, and in which direction."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

SCRIPT = Path(__file__).parents[2] / "analysis" / "energy_whatif.py"
FAST_LINK = """kind: link
link: {name: fixed_rate, uplink_bps: 7.6e7, downlink_bps: 1.54e8, rtt_s: 0.015,
  power_transmit_w: 0.86, power_receive_w: 0.72, power_idle_w: 0.03}
"""


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The script's variables after a short run over a faster link."""
    folder = tmp_path_factory.mktemp("whatif")
    (folder / "fast.yaml").write_text(FAST_LINK)
    arguments = ["--link", "fast", "--out", str(folder / "out"), "--target", "0.5"]
    for key in (
        f"population.profiles=[{folder}]",
        "model={name: mlp, hidden: [32]}",
        "stop.versions=9",
    ):
        arguments += ["--set", key]
    before = sys.argv
    sys.argv = [str(SCRIPT), *arguments]
    try:
        return runpy.run_path(str(SCRIPT), run_name="__main__")
    finally:
        sys.argv = before
        plt.close("all")


def test_changes_have_the_direction_that_physics_gives_them(names: dict[str, Any]) -> None:
    """A faster radio: shorter rounds. A capped clock: longer ones. Fewer phones: fewer rounds."""
    summary = names["summary"]
    unchanged = summary.loc["as it is"]

    assert summary.loc["5G", "round_s"] < unchanged["round_s"] < summary.loc["1 GHz", "round_s"]
    assert summary.loc["1 GHz", "compute_j"] != unchanged["compute_j"]
    # A radio's tail is paid while the processor works, so that a radio changes compute_j as well.
    processors_j = {}
    for name in ("as it is", "5G"):
        steps = names["runs"][name].details("compute")
        processors_j[name] = float((steps["dynamic_j"] + steps["static_j"]).sum())
    assert processors_j["5G"] == pytest.approx(processors_j["as it is"])
    assert summary.loc["1 GHz", "upload_j"] == pytest.approx(unchanged["upload_j"])
    assert (
        0.75 < summary.loc["half gone at noon", "client_rounds"] / unchanged["client_rounds"] < 0.95
    )


def test_radio_and_clock_train_nothing_and_change_no_accuracy(names: dict[str, Any]) -> None:
    """Runs share their results: only absences lead to other models."""
    summary = names["summary"]

    for name in ("5G", "1 GHz"):
        assert summary.loc[name, "trained"] == 0
        assert summary.loc[name, "accuracy"] == summary.loc["as it is", "accuracy"]
    assert summary.loc["half gone at noon", "trained"] > 0


def test_joules_by_state_add_up(names: dict[str, Any]) -> None:
    """The bars of the figure are the phones' joules, and the figure is there."""
    states = [f"{state}_j" for state in names["STATES"]]
    summary = names["summary"]

    assert summary[states].sum(axis=1).to_numpy() == pytest.approx(summary["phones_j"].to_numpy())
    clients = names["runs"]["all three"].clients
    assert summary.loc["all three", "phones_j"] == pytest.approx(clients["energy_j"].sum())
    assert (names["arguments"].out / "energy_whatif.png").exists()
