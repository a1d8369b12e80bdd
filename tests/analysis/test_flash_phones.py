"""Predicted against measured: exact on phones that follow the model, and as the docs say."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "analysis" / "flash_phones.py"
RATES = {"slow": 0.5e9, "mid": 2e9, "fast": 8e9}
PHONES = {"slow": "nexus6", "mid": "redmi_note8", "fast": "samsung_note10"}
# Operations of a forward pass per example, and examples per step, counted by hand.
TASKS = {
    "femnist": (2 * 17_211_904, 10),
    "celeba": (2 * 27_535_104, 10),
    "reddit": (2 * 36_085_760, 10),
    "shakespeare": (2 * 63_590_400, 100),
}


def run_script(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> dict[str, Any]:
    """The script's variables after a run with these arguments."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
    return runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.fixture
def ideal(tmp_path: Path) -> Path:
    """A data root whose phones do every operation at their rate, after 0.1 s per layer step."""
    folder = tmp_path / "device_traces"
    folder.mkdir()
    rows = [
        {
            "task": task,
            "tier": tier,
            "benchmark_device": tier,
            "mean_ms": 1000 * 3 * flops * batch / rate,
        }
        for task, (flops, batch) in TASKS.items()
        for tier, rate in RATES.items()
    ]
    pd.DataFrame(rows).to_csv(folder / "flash_batch_train_time.csv", index=False)
    sizes = np.random.default_rng(0).integers(2, 50, (400, 4)).astype(np.int32)
    inputs, outputs, batch, length = sizes.astype(float).T
    flops = {
        "embedding": 2 * inputs * outputs,
        "lstm": 6 * 4 * outputs * (inputs + outputs) * batch * length,
        "output": 6 * inputs * outputs * batch * length,
    }
    layers = {}
    for tier, name in PHONES.items():
        for layer, count in flops.items():
            layers[f"{name}_{layer}_x"] = sizes
            layers[f"{name}_{layer}_seconds"] = 0.1 + count / RATES[tier]
    np.savez(folder / "flash_layer_train_time.npz", **layers)
    speeds = {"down_mean": [1000.0], "up_mean": [500.0]}
    pd.DataFrame(speeds).to_csv(folder / "flash_network_speed.csv", index=False)
    ranked = {
        "benchmark_device": [*RATES, "a", "b", "c"],
        "ai_score": [100, 400, 900, 260, 10, 649],
    }
    pd.DataFrame(ranked).to_csv(folder / "ai_benchmark_scores.csv", index=False)
    codes = {"benchmark_device": ["a", "b", "c", "unknown", "slow", "not ranked"]}
    pd.DataFrame(codes).to_csv(folder / "flash_model_to_benchmark.csv", index=False)
    return tmp_path


def test_phones_that_follow_the_model_are_predicted_exactly(
    ideal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates are recovered, every ratio is 1, and a fixed time is found where there is one."""
    names = run_script(monkeypatch, ideal, "--unit", "kbit/s")

    np.testing.assert_allclose(names["rates"].to_numpy(), [[*RATES.values()]] * 4)
    ratio = names["predicted_s"] / names["measured_s"]
    np.testing.assert_allclose(ratio.to_numpy(), 1.0)
    assert set(names["calibrations"]["worst factor"]) == {"1.00"}
    layers = names["layers"]
    assert set(layers["own rate and fixed time"]) == {"0%"}
    assert set(layers["fixed time"]) == {"100 ms"}
    assert "0%" not in set(layers["own rate"])
    units = names["units"].set_index("read as")
    assert units["median up"].tolist() == ["4.1 Mbit/s", "0.5 Mbit/s"]
    assert units["taken here"].tolist() == ["", "yes"]
    phones = names["phones"].set_index("tier")
    assert phones["model codes"].to_dict() == {"slow": 2, "mid": 2, "fast": 0}
    assert phones["score"].tolist() == [100, 400, 900]


def test_without_a_folder_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data root, no traceback."""
    with pytest.raises(SystemExit) as ended:
        run_script(monkeypatch)

    assert ended.value.code == 2


@pytest.mark.data
def test_real_phones_are_within_the_documented_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The survey's rates, most tasks within a factor of 2, and tables as in the docs."""
    names = run_script(monkeypatch, os.environ["SIMFL_DATA"])

    rates = names["rates"].loc["femnist"] / 1e9
    assert rates.to_numpy() == pytest.approx([0.63, 1.76, 5.8], rel=0.01)
    ratio = (names["predicted_s"] / names["measured_s"]).drop(index="femnist").to_numpy()
    factors = np.exp(np.abs(np.log(ratio)))
    assert (factors < 2).sum() == 7
    assert factors.max() < 2.2
    documented = (ROOT / "docs" / "hardware.md").read_text(encoding="utf-8")
    for section, table in names["SECTIONS"].items():
        assert f"<!-- flash {section} -->\n{names['markdown'](table)}\n" in documented
