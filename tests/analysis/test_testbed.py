"""docs/testbed.md: its tables by the record, the record by the code, the code by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import testbed


def test_the_page_has_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table and figure between its marks; a changed result changes the page."""
    page = testbed.PAGE.read_text(encoding="utf-8")

    assert testbed.filled(page) == page
    recorded = testbed.read
    monkeypatch.setattr(
        testbed, "read", lambda name: recorded(name).assign(predicted=1.0, value=1.0)
    )
    assert testbed.filled(page) != page


def test_every_client_has_its_examples() -> None:
    """The partition leaves a twentieth of CIFAR-10's images to the clients' own tests."""
    for clients in (10, 20, 30, 50, 70, 100):
        sizes = testbed.examples(clients)

        assert len(sizes) == clients
        assert 0.95 <= sum(sizes) / 50_000 < 0.96


def test_what_is_recorded_is_what_the_code_predicts(tmp_path: Path) -> None:
    """Five epochs with the recorded seconds and watts of one epoch, at full power all the time."""
    known = testbed.read("calibrated").set_index("figure")["value"]
    (tmp_path / "gigabit.yaml").write_text(testbed.LINK, encoding="utf-8")
    (tmp_path / "server_board.yaml").write_text(
        testbed.server_profile(known["idle_w"], known["rest_s"], known["server_w"]),
        encoding="utf-8",
    )
    fixed_s = known["training_s"]
    example_s = known["example_s"] - fixed_s / max(testbed.examples(10))
    profile = testbed.timed_profile(example_s, known["idle_w"], known["training_w"], fixed_s)
    waiting = "stall_utilization: 0\n"
    assert waiting in profile
    (tmp_path / "timed.yaml").write_text(
        profile.replace(waiting, "stall_utilization: 1\n"), encoding="utf-8"
    )

    found = testbed.simulated(testbed.scenario(10, 5, tmp_path, "timed"), tmp_path / "run")

    recorded = testbed.read("predicted").query("clients == 10").set_index("quantity")["predicted"]
    assert found == pytest.approx(recorded.to_dict(), rel=2e-3)


def test_a_round_by_hand() -> None:
    """What is calibrated explains the measured round that it comes from."""
    known = testbed.read("calibrated").set_index("figure")["value"]
    sizes = np.array(testbed.examples(10))
    round_s = testbed.figure("round_s")
    trains_s = known["example_s"] * sizes

    joules = known["idle_w"] * round_s + (known["training_w"] - known["idle_w"]) * trains_s

    measured = testbed.client_watts(1) * round_s
    assert joules.sum() == pytest.approx(measured.sum(), rel=1e-5)
    assert np.abs(joules / measured - 1).max() < 0.06
    assert known["rest_s"] == pytest.approx(round_s - testbed.figure("fit_s"), rel=1e-5)


def test_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are small; where they are, five epochs are too long and many clients too short."""
    table = testbed.read("predicted")
    ratio = table["predicted"] / table["measured"]
    rounds = table["quantity"] == "round_s"

    assert np.abs(ratio - 1).max() < 0.13
    assert (ratio[rounds & (table["epochs"] == 5)] > 1).all()
    assert (ratio[rounds & (table["clients"] > 10)] < 1).all()
    assert pd.Series(table["high"] > table["low"]).all()
    missed = table[~table["measured"].between(table["low"], table["high"])]
    assert set(missed["quantity"]) == {"round_s", "server_j"}
    assert missed["clients"].between(20, 70).all() and (missed["measured"] > missed["high"]).all()
    assert f"held {len(table) - len(missed)} of {len(table)}" in _words("docs/studies.md")


def _words(page: str) -> str:
    return " ".join((testbed.ROOT / page).read_text(encoding="utf-8").split())


def test_what_the_readme_says() -> None:
    """Its two figures are the page's."""
    readme = _words("README.md")
    said = testbed.single_figures()

    worst = f"within {said['worst_seconds']} in time and {said['worst_joules']} in energy"
    assert worst.replace("%", " %") in readme
