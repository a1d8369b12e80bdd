"""The comparison of latency estimators runs, and says what it must."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "analysis" / "estimators.py"


@pytest.mark.slow
def test_the_estimators_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All five on the same latencies; nobody is closer than who knows the mean."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path)])

    names = runpy.run_path(str(SCRIPT), run_name="__main__")
    plt.close("all")

    for one in names["errors"].values():
        pd.testing.assert_series_equal(one["realised_s"], names["realised"]["realised_s"])
    error = names["table"]["|error| / latency"]
    assert set(error.index) == {"nig", "ewma", "last", "mean", "oracle"}
    assert error.idxmin() == "oracle"
    assert error.idxmax() == "last"
    assert (tmp_path / "estimators.png").read_bytes().startswith(b"\x89PNG")
